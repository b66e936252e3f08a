"""Secrets left in a file: each by the shape that its issuer gives it, and none that is a placeholder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Set
from math import log2
from typing import Final

from skillhub.model.finding import Rule, rules

KEY: Final = rules()["SH201"]
TOKEN: Final = rules()["SH202"]

# A header alone is documentation; a key has at least two full lines of base64 below it.
_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z]{2,9} ){0,2}PRIVATE KEY-----(?:\s|\\[rn]){1,4}"
    rb"(?:[A-Za-z-]{1,20}: [^\n]{1,80}\s{1,4}){0,3}[A-Za-z0-9+/=]{40,80}(?:\r?\n|\\n)[A-Za-z0-9+/=]{20}"
)
_KEY_IN_LINE = re.compile(_KEY.pattern + rb"[A-Za-z0-9+/=\\]*")  # its line ends are written as \n
_MASK = "…".encode()
# Each shape begins with fixed letters, the search for which is fast, and is tried, and compiled, only if its word is
# there.
_TOKENS: Final = tuple(
    (word, shape + rb"(?![A-Za-z0-9])")
    for word, shape in (
        (None, rb"AKIA[A-Z2-7]{16}"),
        (None, rb"ASIA[A-Z2-7]{16}"),
        (None, rb"AIza[A-Za-z0-9_-]{35}"),
        (b"ghp", rb"ghp_[A-Za-z0-9]{36}"),
        (b"gho", rb"gho_[A-Za-z0-9]{36}"),
        (b"ghs", rb"ghs_[A-Za-z0-9]{36}"),
        (b"github", rb"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
        (b"glpat", rb"glpat-[A-Za-z0-9_-]{20}"),
        (b"xoxb", rb"xoxb-[A-Za-z0-9-]{20,120}"),
        (b"xoxp", rb"xoxp-[A-Za-z0-9-]{20,120}"),
        (b"ant", rb"sk-ant-[A-Za-z0-9_-]{32,200}"),
        (b"proj", rb"sk-proj-[A-Za-z0-9_-]{32,200}"),
        (b"sk", rb"sk-[A-Za-z0-9]{32,64}"),
        (b"sk", rb"sk_[0-9a-f]{64}"),
        (b"live", rb"sk_live_[A-Za-z0-9]{20,100}"),
        (b"npm", rb"npm_[A-Za-z0-9]{36}"),
        (b"pypi", rb"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,200}"),
        (b"hf", rb"hf_[A-Za-z0-9]{34}"),
    )
)
WORDS: Final = frozenset(word for word, _ in _TOKENS if word) | {b"private"}
_PLACEHOLDER = re.compile(
    rb"example|xxxx|your|test|fake|dummy|placeholder|sample|abcdef|1234567|\.\.\.", re.IGNORECASE
)
# Bits a character: random base62 of 20 characters has about 4, words and repeated letters less than 3.3.
_ENTROPY_MIN = 3.4


def secrets(data: bytes, words: Set[bytes]) -> Iterator[tuple[Rule, int]]:
    """Yield the rule and the offset of each secret in ``data``; the secret itself goes nowhere.

    Args:
        data: The bytes of a file.
        words: Those of ``WORDS`` that are in it, in whatever case.
    """
    if b"private" in words:
        yield from ((KEY, match.start()) for match in _KEY.finditer(data))
    for word, shape in _TOKENS:
        if word is None or word in words:
            yield from ((TOKEN, match.start()) for match in re.finditer(shape, data) if _is_live(match))


def masked(line: bytes) -> bytes:
    """Return a line with ``…`` in the place of each secret, so that a person may be shown the rest."""
    line = _KEY_IN_LINE.sub(_MASK, line)
    for _, shape in _TOKENS:
        line = re.sub(shape, lambda match: _MASK if _is_live(match) else match[0], line)
    return line


def _is_live(match: re.Match[bytes]) -> bool:
    before = match.string[max(0, match.start() - 1) : match.start()]
    return (
        not (before.isalnum() or before in (b"_", b"-"))
        and _entropy(match[0]) >= _ENTROPY_MIN
        and not _PLACEHOLDER.search(match[0])
    )


def _entropy(text: bytes) -> float:
    return -sum(n / len(text) * log2(n / len(text)) for n in Counter(text).values())
