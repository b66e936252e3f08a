"""Secrets left in a file, recognized by the format that their issuer uses; placeholders do not count."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from ipaddress import ip_address
from math import log2
from typing import Final

from skillhub.model.finding import Rule, rules
from skillhub.scan.pattern import Letters, Literals

KEY: Final = rules()["SH201"]
TOKEN: Final = rules()["SH202"]
PASSWORD: Final = rules()["SH203"]

# A header alone is documentation; a key has at least two lines of base64 below its header.
_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z]{2,9} ){0,2}PRIVATE KEY-----(?:\s|\\[rn]){1,4}"
    rb"(?:[A-Za-z-]{1,20}: [^\n]{1,80}\s{1,4}){0,3}[A-Za-z0-9+/=]{40,80}(?:\r?\n|\\n)[A-Za-z0-9+/=]{20}"
)
_KEY_IN_LINE = re.compile(_KEY.pattern + rb"[A-Za-z0-9+/=\\]*")  # a key on one line, with its line ends as \n
_MASK = "…".encode()
# Each pattern begins with fixed letters, up to its first bracket; without these in a file it is not even compiled.
TOKENS: Final = tuple(
    (shape.partition(b"[")[0], shape + rb"(?![A-Za-z0-9])")
    for shape in (
        rb"AKIA[A-Z2-7]{16} ASIA[A-Z2-7]{16} AIza[A-Za-z0-9_-]{35} ghp_[A-Za-z0-9]{36} gho_[A-Za-z0-9]{36}"
        rb" ghs_[A-Za-z0-9]{36} github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59} glpat-[A-Za-z0-9_-]{20}"
        rb" xoxb-[A-Za-z0-9-]{20,120} xoxp-[A-Za-z0-9-]{20,120} sk-ant-[A-Za-z0-9_-]{32,200}"
        rb" sk-proj-[A-Za-z0-9_-]{32,200} sk-[A-Za-z0-9]{32,64} sk_[0-9a-f]{64}"
        rb" sk_live_[A-Za-z0-9]{20,100} npm_[A-Za-z0-9]{36} pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,200}"
        rb" hf_[A-Za-z0-9]{34}"
    ).split()
)
_BEGINS: Final = Literals(b"-----begin", b"passw", *(begin.lower() for begin, _ in TOKENS))
_PLACEHOLDER = re.compile(
    rb"example|xxxx|your|test|fake|dummy|placeholder|sample|abcdef|1234567|\.\.\.", re.IGNORECASE
)
_IN_URL = re.compile(rb"://[^\s:@/\"']{1,40}:(?P<url>[^\s:@/$<>{}*\"']{6,60})@(?=\d)")
_PASSWORD = re.compile(rb"passw(?:or)?d[\"']?\s{0,3}[:=]\s{0,3}[\"'`]?(?P<value>[^\s\"'`<>${}\[\]()*,;@]{6,40})")
_ADDRESS = re.compile(rb"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]\d)")
_KNOWN: Final = frozenset({"1.1.1.1", "1.2.3.4", "8.8.4.4", "8.8.8.8", "9.9.9.9"})  # name servers and examples
_AROUND: Final = 300
# Bits per character: 20 random characters of base62 have about 4, words and repeated letters less than 3.3.
_ENTROPY_MIN = 3.4


def secrets(letters: Letters) -> Iterator[tuple[Rule, int]]:
    """Yield the rule and the offset of each secret in some bytes, but never the secret itself."""
    worth = _BEGINS.worth(letters.parts)
    if worth and b"-----BEGIN" in letters.data:
        yield from ((KEY, match.start()) for match in _KEY.finditer(letters.data))
    for begin, shape in TOKENS if worth else ():
        if begin.lower() in worth and begin in letters.data:
            yield from ((TOKEN, match.start()) for match in re.finditer(shape, letters.data) if _is_live(match))
    if b"passw" in worth:
        yield from (
            (PASSWORD, match.start()) for match in _PASSWORD.finditer(letters.lowered) if _is_of_server(match)
        )
    if b"@" in letters.data:  # a URL can contain a password without the word
        yield from ((PASSWORD, match.start()) for match in _IN_URL.finditer(letters.data) if _is_of_server(match))


def _is_of_server(match: re.Match[bytes]) -> bool:
    """Return whether a password is not a placeholder, and a public IP address stands near it."""
    value = match[match.lastgroup or 0]
    if not re.search(rb"\d", value) or not re.search(rb"[A-Za-z]", value) or _PLACEHOLDER.search(value):
        return False
    around = match.string[max(0, match.start() - _AROUND) : match.end() + _AROUND]
    return any(_is_public(each.decode()) for each in _ADDRESS.findall(around))


def _is_public(address: str) -> bool:
    try:
        return address not in _KNOWN and ip_address(address).is_global
    except ValueError:
        return False


def masked(line: bytes) -> bytes:
    """Return a line with each secret replaced by ``…``, so that the line can be shown."""
    line = _KEY_IN_LINE.sub(_MASK, line)
    for _, shape in TOKENS:
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
