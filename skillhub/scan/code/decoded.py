"""Encoded text, decoded within limits: what stands in a file as letters that nobody reads."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterator
from typing import Final

# A run of letters of base64 shorter than this holds no command.
RUN: Final = 24
_DECODED_MAX = 1 << 16
_TOGETHER_MAX = 1 << 20
_DEPTH = 3
_LETTERS: Final = bytes(97 if n < 128 and (chr(n).isalnum() or chr(n) in "+/_-") else 32 for n in range(256))
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{24,}={0,2}")
# Lines of base64 as `base64` writes them.
_LINES = re.compile(rb"(?:[A-Za-z0-9+/]{60,76}\r?\n[ \t]{0,20}){1,2000}[A-Za-z0-9+/]{2,76}={0,2}")
_ESCAPES = re.compile(rb"(?:\\x[0-9A-Fa-f]{2}|\\u00[0-9A-Fa-f]{2}){6,}")
_PERCENT = re.compile(rb"(?:[\w./:-]{0,3}%[0-9A-Fa-f]{2}){8,}[\w./:-]{0,3}")
_NUMBERS = re.compile(rb"(?:(?:0x[0-9A-Fa-f]{2}|\d{2,3})[ \t]{0,3},\s{0,20}){7,}(?:0x[0-9A-Fa-f]{2}|\d{2,3})")
_CHARS = re.compile(
    rb"(?:(?:chr|\[char\]|fromCharCode)\s?\(?(?:0x[0-9A-Fa-f]{2}|\d{2,3})\)?[\s.+&]{0,5}){4,}", re.IGNORECASE
)
_NUMBER = re.compile(rb"0x[0-9A-Fa-f]{2}|\d{2,3}")
_PAIR = re.compile(rb"[0-9A-Fa-f]{2}")
_HEX = re.compile(rb"(?:[0-9A-Fa-f]{2})+")
_BASE32 = re.compile(rb"[A-Z2-7]+={0,6}")
_PRINTABLE = bytes((9, 10, 13, *range(32, 127)))


def decoded(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each text that the bytes hold encoded, however often, with the offset of its encoding."""
    budget = _TOGETHER_MAX
    left = [(0, data, _DEPTH, True)]
    while left:
        start, text, depth, is_file = left.pop()
        for offset, found in _once(text):
            budget -= len(found)
            if budget < 0:
                return
            at = start + offset if is_file else start
            yield at, found
            if depth > 1:
                left.append((at, found, depth - 1, False))


def _once(data: bytes) -> Iterator[tuple[int, bytes]]:
    if b"a" * RUN in data.translate(_LETTERS):
        for pattern in (_BASE64, _LINES):
            for match in pattern.finditer(data):
                found = unpacked(match[0])
                if found:
                    yield match.start(), found
    for mark, pattern, base in ((b"\\", _ESCAPES, 16), (b"%", _PERCENT, 0), (b",", _NUMBERS, 10), (b"(", _CHARS, 10)):
        if mark not in data:
            continue
        for match in pattern.finditer(data):
            found = _codes(match[0], base)
            if is_words(found):
                yield match.start(), found


def unpacked(text: bytes) -> bytes:
    """Return the words that ``text`` encodes, as base64, hexadecimal or base32, packed or not; else nothing."""
    bare = b"".join(text[:_DECODED_MAX].split())
    tries = [base64.urlsafe_b64decode, binascii.unhexlify] if _HEX.fullmatch(bare) else [base64.urlsafe_b64decode]
    if _BASE32.fullmatch(bare):
        tries.append(base64.b32decode)
    for decode in tries:
        try:
            found = _unzipped(decode(_padded(bare, decode is base64.urlsafe_b64decode)))
        except (ValueError, zlib.error):
            continue
        if is_words(found):
            return found
    return b""


def _padded(text: bytes, is_base64: bool) -> bytes:
    if not is_base64:
        return text
    bare = text.rstrip(b"=").replace(b"+", b"-").replace(b"/", b"_")
    return bare[: len(bare) - 1] if len(bare) % 4 == 1 else bare + b"=" * (-len(bare) % 4)


def _unzipped(data: bytes) -> bytes:
    if data.startswith((b"\x1f\x8b", b"\x78\x01", b"\x78\x9c", b"\x78\xda")):
        return zlib.decompressobj(47).decompress(data, _DECODED_MAX)
    if len(data) > 8 and data.count(0) * 5 > len(data) * 2:  # PowerShell encodes UTF-16
        return data.replace(b"\0", b"")
    return data


def is_words(data: bytes) -> bool:
    """Say whether bytes are a text of ASCII, long enough to say something."""
    return len(data) > 5 and len(data.translate(None, _PRINTABLE)) * 20 <= len(data)


def _codes(text: bytes, base: int) -> bytes:
    if base == 0:
        return re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes((int(match[1], 16),)), text)
    if base == 16:
        return bytes(int(each, 16) for each in re.findall(rb"[xu](?:00)?([0-9A-Fa-f]{2})", text))
    numbers = [int(each, 16 if each[:2] == b"0x" else 10) for each in _NUMBER.findall(text)]
    return bytes(each for each in numbers if each < 256)
