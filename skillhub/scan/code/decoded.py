"""Encoded text in files, decoded: base64, hexadecimal, escapes, lists of character codes; compressed or not.

Decoded text is shorter than the text that encodes it, so all layers of it together take time linear in the file. Only
compressed text has a limit, and what does not fit is reported.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from skillhub.formats.text import deferred

# A run of letters of base64 shorter than this holds no command.
_RUN: Final = b"a" * 24
# Bytes of compressed text: for each encoded text, and for each byte of its file. Honest text has a tenth of its size.
_INFLATED_MAX: Final = 1 << 16
_INFLATED_OF_BYTE: Final = 16
_CHUNK: Final = 1 << 12
# The letters of an encoded text that are read alone if the whole text is none: others may follow it without a blank.
_START: Final = 1 << 16
_LETTERS: Final = bytes(97 if n < 128 and (chr(n).isalnum() or chr(n) in "+/_-") else 32 for n in range(256))
_LINE_MAX = 80
# Each pattern begins with one fixed byte outside of its repeat, so that the engine can skip to it.
_ESCAPES = deferred(rb"\\(?:x|u00)[0-9A-Fa-f]{2}(?:\\(?:x|u00)[0-9A-Fa-f]{2}){5,}")
_PERCENTS = deferred(rb"%[0-9A-Fa-f]{2}[\w./:-]{0,3}%[0-9A-Fa-f]")
_PERCENT = deferred(rb"%[0-9A-Fa-f]{2}[\w./:-]{0,3}(?:%[0-9A-Fa-f]{2}[\w./:-]{0,3}){7,}")
_NUMBERS = deferred(rb"(?:(?:0x[0-9A-Fa-f]{2}|\d{2,3})[ \t]{0,3},\s{0,20}){7,}(?:0x[0-9A-Fa-f]{2}|\d{2,3})")
_CHARS = deferred(
    rb"(?:(?:chrw?|\[char\]|fromCharCode)\s?\(?(?:0x[0-9A-Fa-f]{2}|\d{2,3})\)?[\s.+&]{0,5}){4,}", re.IGNORECASE
)
# The start of ``_CHARS`` in lower case; "chr" alone is a part of "synchronous".
_CHAR = deferred(rb"ch(?:rw?|ar\]|arcode)\s?\(?\d")
_CODES: Final = ((_ESCAPES, 16), (_PERCENT, 0), (_NUMBERS, 10), (_CHARS, 10))
# Seven commas with nothing but numbers between them, from the first one on, to which the engine can skip.
_COMMAS = deferred(rb",(?:[0-9a-fA-Fx \t\r\n]*+,){6}")
_NUMBER = deferred(rb"0x[0-9A-Fa-f]{2}|\d{2,3}")
_HEX = deferred(rb"(?:[0-9A-Fa-f]{2})+")
_BASE32 = deferred(rb"[A-Z2-7]+={0,6}")
_COMPRESSED: Final = (b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_PRINTABLE = bytes((9, 10, 13, *range(32, 127)))


def may_be_encoded(data: bytes) -> bool:
    """Return whether the bytes may contain encoded text: a long word, escapes or character codes."""
    return _RUN in data.translate(_LETTERS) or any(_may_match(data))


def _may_match(data: bytes) -> Iterator[bool]:
    """Yield, for each entry of ``_CODES``, whether its pattern may match in the bytes."""
    yield b"\\" in data and (b"\\x" in data or b"\\u00" in data)
    yield _PERCENTS.search(data) is not None and data.count(b"%") > 7
    yield _COMMAS.search(data) is not None
    yield _CHAR.search(data.lower()) is not None


class Decoded(NamedTuple):
    """The text of one encoding, the offset at which it begins in the file, and whether all of it was read."""

    offset: int
    text: bytes
    is_whole: bool


@dataclass
class Room:
    """The bytes that compressed texts may still have, and whether the last one had more."""

    left: int = _INFLATED_MAX
    is_exceeded: bool = False

    def inflate(self, data: bytes) -> bytes:
        """Return the content of all members of a gzip file, or of data of zlib; a wrong checksum hides none of it."""
        parts: list[bytes] = []
        start = 0
        while data.startswith(_COMPRESSED, start) and not self.is_exceeded:
            engine = zlib.decompressobj(47)
            while start < len(data) and not engine.eof and not self.is_exceeded:
                before, chunk = engine.copy(), data[start : start + _CHUNK]
                try:
                    part = engine.decompress(chunk, self.left + 1)
                except zlib.error:
                    part, engine = self._up_to_error(before, chunk), before
                    start = len(data)
                self.is_exceeded = len(part) > self.left
                parts.append(part[: self.left])
                self.left -= len(parts[-1])
                start += len(chunk) - len(engine.unused_data)
        return b"".join(parts)

    def _up_to_error(self, engine: zlib._Decompress, chunk: bytes) -> bytes:
        """Return what a chunk holds before its first error, as a program that prints what it has read."""
        parts: list[bytes] = []
        with suppress(zlib.error):
            for offset in range(len(chunk)):
                parts.append(engine.decompress(chunk[offset : offset + 1], self.left + 1))
        return b"".join(parts)


def decoded(data: bytes) -> Iterator[Decoded]:
    """Yield each encoded text in the bytes, and those within it."""
    room = Room(_INFLATED_MAX + _INFLATED_OF_BYTE * len(data))
    queue = [(0, data, True)]
    while queue:
        start, text, is_file = queue.pop()
        for offset, plain, is_whole in _decode_once(text, room):
            position = start + offset if is_file else start
            yield Decoded(position, plain, is_whole)
            queue.append((position, plain, False))


def _decode_once(data: bytes, room: Room) -> Iterator[Decoded]:
    for start, end in _runs(data):
        room.is_exceeded = False
        plain = unpacked(data[start:end], room)
        if plain or room.is_exceeded:
            yield Decoded(start, plain, not room.is_exceeded)
    for may_match, (pattern, base) in zip(_may_match(data), _CODES, strict=True):
        for match in pattern.finditer(data) if may_match else ():
            plain = _codes(match[0], base)
            if is_words(plain):
                yield Decoded(match.start(), plain, is_whole=True)


def _runs(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each long run of base64 letters; consecutive lines of them are one run."""
    letters = data.translate(_LETTERS)
    last: tuple[int, int] | None = None
    offset = letters.find(_RUN)
    while offset >= 0:
        start, end = letters.rfind(b" ", 0, offset) + 1, letters.find(b" ", offset)
        end = len(letters) if end < 0 else end
        if last and end - start <= _LINE_MAX and data[last[1] : start].strip(b" \t\r") == b"\n":
            last = last[0], end
        else:
            if last:
                yield last
            last = start, end
        offset = letters.find(_RUN, end)
    if last:
        yield last


def unpacked(text: bytes, room: Room | None = None) -> bytes:
    """Return the text that ``text`` encodes in base64, hexadecimal or base32, compressed or not; else empty bytes."""
    room = room or Room()
    bare = b"".join(text.split())
    return _unpacked(bare, room) or (_unpacked(bare[:_START], room) if len(bare) > _START else b"")


def _unpacked(bare: bytes, room: Room) -> bytes:
    decoders = [
        _base64,
        *([binascii.unhexlify] if _HEX.fullmatch(bare) else []),
        *([_base32] if _BASE32.fullmatch(bare) else []),
    ]
    for decode in decoders:
        try:
            plain = _unzipped(decode(bare), room)
        except (ValueError, zlib.error):
            continue
        for part in (plain, plain[:_START]):
            if is_words(part):
                return part
    return b""


def undone(text: bytes) -> bytes:
    """Return the bytes that digits of hexadecimal, or else of base64, stand for, be they text or not."""
    bare = b"".join(text.split())
    with suppress(ValueError):
        return binascii.unhexlify(bare) if _HEX.fullmatch(bare) else _base64(bare)
    return b""


def _base64(text: bytes) -> bytes:
    bare = text.rstrip(b"=").replace(b"+", b"-").replace(b"/", b"_")
    bare = bare[: len(bare) - 1] if len(bare) % 4 == 1 else bare
    return base64.urlsafe_b64decode(bare + b"=" * (-len(bare) % 4))


def _base32(text: bytes) -> bytes:
    bare = text.rstrip(b"=")
    return base64.b32decode(bare + b"=" * (-len(bare) % 8))


def _unzipped(data: bytes, room: Room) -> bytes:
    if data.startswith(_COMPRESSED):
        return room.inflate(data)
    if len(data) > 8 and data.count(0) * 5 > len(data) * 2:  # PowerShell encodes UTF-16
        return data.replace(b"\0", b"")
    return data


def is_words(data: bytes) -> bool:
    """Return whether the bytes are text: at least six, of which 95 % are printable ASCII."""
    return len(data) > 5 and len(data.translate(None, _PRINTABLE)) * 20 <= len(data)


def _codes(text: bytes, base: int) -> bytes:
    if base == 0:
        return re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes((int(match[1], 16),)), text)
    if base == 16:
        return bytes(int(digits, 16) for digits in re.findall(rb"[xu](?:00)?([0-9A-Fa-f]{2})", text))
    numbers = [int(number, 16 if number[:2] == b"0x" else 10) for number in _NUMBER.findall(text)]
    return bytes(number for number in numbers if number < 256)
