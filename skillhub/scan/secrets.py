"""Secrets left in a file, recognized by the format that their issuer uses; placeholders do not count."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from ipaddress import ip_address
from math import log2
from typing import Final

from skillhub.formats.text import deferred
from skillhub.model.finding import Rule, rules
from skillhub.scan.views import Letters, Literals

KEY: Final = rules()["SH201"]
TOKEN: Final = rules()["SH202"]
PASSWORD: Final = rules()["SH203"]

# A header alone is documentation; a key has at least two lines of base64 below its header.
_KEY = deferred(
    rb"-----BEGIN (?:[A-Z]{2,9} ){0,2}PRIVATE KEY-----(?:\s|\\[rn]){1,4}"
    rb"(?:[A-Za-z-]{1,20}: [^\n]{1,80}\s{1,4}){0,3}[A-Za-z0-9+/=]{40,80}(?:\r?\n|\\n)[A-Za-z0-9+/=]{20}"
)
_KEY_IN_LINE = deferred(_KEY.pattern + rb"[A-Za-z0-9+/=\\]*")  # a key on one line, with its line ends as \n
_MASK = "…".encode()
# Each pattern begins with fixed letters, up to its first bracket; without these in a file it is not even compiled.
TOKENS: Final = tuple(
    (pattern.partition(b"[")[0], pattern + rb"(?![A-Za-z0-9])")
    for pattern in (
        rb"AKIA[A-Z2-7]{16} ASIA[A-Z2-7]{16} AIza[A-Za-z0-9_-]{35} ghp_[A-Za-z0-9]{36} gho_[A-Za-z0-9]{36}"
        rb" ghs_[A-Za-z0-9]{36} github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59} glpat-[A-Za-z0-9_-]{20}"
        rb" xoxb-[A-Za-z0-9-]{20,120} xoxp-[A-Za-z0-9-]{20,120} sk-ant-[A-Za-z0-9_-]{32,200}"
        rb" sk-proj-[A-Za-z0-9_-]{32,200} sk-[A-Za-z0-9]{32,64} sk_[0-9a-f]{64}"
        rb" sk_live_[A-Za-z0-9]{20,100} npm_[A-Za-z0-9]{36} pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,200}"
        rb" hf_[A-Za-z0-9]{34}"
    ).split()
)
_BEGINS: Final = Literals(
    b"-----begin", b"passw", b"bearer", b"secret", b"token", b"key", *(prefix.lower() for prefix, _ in TOKENS)
)
_PLACEHOLDER = deferred(rb"example|xxxx|your|test|fake|dummy|placeholder|sample|abcdef|1234567|\.\.\.", re.IGNORECASE)
# What stands for a password in a documentation.
_WEAK = deferred(rb"passw|secret|change|qwerty|1234", re.IGNORECASE)
_IN_URL = deferred(rb"://[^\s:@/\"']{1,40}:(?P<url>[^\s:@/$<>{}*\"']{6,60})@(?=\d)")
_PASSWORD = deferred(rb"passw(?:or)?d[\"']?\s{0,3}[:=]\s{0,3}[\"'`]?(?P<value>[^\s\"'`<>${}\[\]()*,;@]{6,40})")
# A password that a mail service makes for one program: four groups of four letters.
_OF_MAILBOX = deferred(
    rb"app(?:lication)?[\s_-]?passw(?:or)?d[\"'*`]{0,4}\s{0,3}[:=]\s{0,3}[\"'*`]{0,4}\s{0,2}"
    rb"(?P<value>[a-z]{16}|[a-z]{4}(?: [a-z]{4}){3})(?![a-z])"
)
# The other order, as a person is told it: type "…" into the password field.
_TYPED = deferred(
    rb"[\"'`](?P<value>[^\s\"'`<>${}\[\]()*,;@]{6,40})[\"'`]\s{1,2}(?:in|into|as|for)\s(?:the\s)?passw(?:or)?d\b"
)
# A secret without a format of its issuer, by the word before it.
_BEARER = deferred(rb"bearer[ +]{1,3}(?P<value>[A-Za-z0-9_.~+/%=-]{20,300})(?![\w$<{(])", re.IGNORECASE)
_VALUE = deferred(rb"[:=][*\s]{0,4}[\"'`]?(?P<value>[A-Za-z0-9_+/%=-]{24,200})(?![\w.$<{(-])")
_NAME = deferred(
    rb"(?:secret|secret[_ -]?(?:key|token)|(?:access|bearer|auth|refresh)[_ -]?token(?:[_ -]?secret)?"
    rb"|api[_ -]?(?:key|token))"
    rb"(?:[_ -]v?\d)?(?: \([a-z ]{1,20}\))?[\"'*`]{0,4}\s{0,3}$"
)
_NAME_MAX: Final = 60
_NO_SECRET = deferred(
    rb"sha\d|eyj|0x|process|environ|config|secret|token|key_|_key|my[_-]|foo|bar|abc|def456", re.IGNORECASE
)
# The mailbox of a person, beside which a password opens an account.
_MAILBOX = deferred(
    rb"(?<![\w.+-])(?!(?:user|name|me|you|john|jane|alice|bob|someone|admin|info|hello|dev|demo)\b)[\w.+-]{3,64}"
    rb"@(?:gmail|googlemail|outlook|hotmail|live|yahoo|icloud|proton|protonmail|gmx|qq|163|126|yandex|aol)\.[a-z]{2,3}\b"
)
_LONG: Final = 20
_NAMES: Final = frozenset((b"secret", b"token", b"key"))
_ADDRESS = deferred(rb"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]\d)")
_KNOWN: Final = frozenset({"1.1.1.1", "1.2.3.4", "8.8.4.4", "8.8.8.8", "9.9.9.9"})  # name servers and examples
_AROUND: Final = 300
# Bits per character: 20 random characters of base62 have about 4, words and repeated letters less than 3.3.
_ENTROPY_MIN = 3.4
# 16 random letters have about 3.5.
_LETTERS_MIN = 3


def secrets(letters: Letters) -> Iterator[tuple[Rule, int]]:
    """Yield the rule and the offset of each secret in some bytes, but never the secret itself."""
    candidates = _BEGINS.candidates(letters.literals)
    if b"-----begin" in candidates and b"-----BEGIN" in letters.data:
        yield from ((KEY, match.start()) for match in _KEY.finditer(letters.data))
    for prefix, pattern in TOKENS if candidates else ():
        if prefix.lower() in candidates and prefix in letters.data:
            yield from ((TOKEN, match.start()) for match in re.finditer(pattern, letters.data) if _is_live(match))
    if b"passw" in candidates:
        for phrase in (_PASSWORD, _TYPED):
            yield from (
                (PASSWORD, match.start()) for match in phrase.finditer(letters.lowered) if _is_of_account(match)
            )
        yield from ((PASSWORD, match.start()) for match in _OF_MAILBOX.finditer(letters.lowered) if _is_random(match))
    if b"bearer" in candidates:
        starts = (match.start() for match in re.finditer(b"bearer", letters.lowered))
        matches = (_BEARER.match(letters.data, start) for start in starts)
        yield from ((TOKEN, match.start()) for match in matches if match and _is_mixed(match))
    if not _NAMES.isdisjoint(candidates) and any(_is_long(word) for word in letters.words if len(word) >= _LONG):
        for match in _VALUE.finditer(letters.data):
            before = letters.lowered[max(0, match.start() - _NAME_MAX) : match.start()]
            if _NAME.search(before) and _is_mixed(match):
                yield TOKEN, match.start()
    if b"@" in letters.data:  # a URL can contain a password without the word
        yield from ((PASSWORD, match.start()) for match in _IN_URL.finditer(letters.data) if _is_of_account(match))


def _is_of_account(match: re.Match[bytes]) -> bool:
    """Return whether a password is no placeholder, and near it is a public IP address or a person's mailbox."""
    value = match[match.lastgroup or 0]
    if not re.search(rb"\d", value) or not re.search(rb"[A-Za-z]", value) or _PLACEHOLDER.search(value):
        return False
    if _WEAK.search(value):
        return False
    around = match.string[max(0, match.start() - _AROUND) : match.end() + _AROUND]
    mailboxes = (hit[0] for hit in _MAILBOX.finditer(around))
    return any(_is_public(address.decode()) for address in _ADDRESS.findall(around)) or any(
        not _PLACEHOLDER.search(mailbox) for mailbox in mailboxes
    )


def _is_long(word: bytes) -> bool:
    """Return whether a long word may be a part of a secret: it has digits and more letters than those of hex."""
    return not word.isalpha() and not word.isdigit() and word.strip(b"0123456789abcdef") != b""


def _is_mixed(match: re.Match[bytes]) -> bool:
    """Return whether a value after the word for a secret is random, and no placeholder or name."""
    value = match["value"]
    return (
        re.search(rb"\d", value) is not None
        and re.search(rb"[A-Za-z]", value) is not None
        and _entropy(value) >= _ENTROPY_MIN
        and not _PLACEHOLDER.search(value)
        and not _NO_SECRET.search(value)
    )


def _is_random(match: re.Match[bytes]) -> bool:
    """Return whether letters are a password, and no words or placeholder."""
    value = match["value"].replace(b" ", b"")
    return _entropy(value) >= _LETTERS_MIN and not _PLACEHOLDER.search(value)


def _is_public(address: str) -> bool:
    try:
        return address not in _KNOWN and ip_address(address).is_global
    except ValueError:
        return False


def masked(line: bytes) -> bytes:
    """Return a line with each secret replaced by ``…``, so that the line can be shown."""
    line = _KEY_IN_LINE.sub(_MASK, line)
    for _, pattern in TOKENS:
        line = re.sub(pattern, lambda match: _MASK if _is_live(match) else match[0], line)
    for value in (_BEARER, _VALUE):
        line = value.sub(
            lambda match: match[0].replace(match["value"], _MASK) if _is_mixed(match) else match[0], line
        )
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
