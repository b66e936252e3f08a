"""Inflation that counts while it goes, so that no bomb gets larger than what was allowed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from skillhub.archive.entry import unsafe
from skillhub.errors import FormatError

MAGIC = b"\x1f\x8b"
# Input goes in by steps: zlib copies what it did not consume, which over large input would be quadratic.
_STEP_IN = 1 << 16
_STEP_OUT = 1 << 18
# Parallel compressors make a member of 64 KiB or more, 1024 for a full skill; empty ones cost a step each.
_MEMBERS = 4096


def inflate(packed: memoryview, size: int, path: str) -> bytes:
    """Return the ``size`` bytes of a raw deflate stream (RFC 1951), which ends where ``packed`` ends.

    Raises:
        UnsafeArchive: ``deflate`` (broken, cut short, or followed by other bytes), ``wrong-size``.
    """
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        # One byte more than promised, or zlib would stop before it sees the end of the stream.
        data = inflater.decompress(packed, size + 1)
    except zlib.error as error:
        raise unsafe("deflate", f"the deflate stream is broken: {error}", path) from error
    if len(data) > size:
        raise unsafe("wrong-size", f"expected {size} bytes, found more", path)
    if not inflater.eof:
        raise unsafe("deflate", "the deflate stream is cut short", path)
    if inflater.unused_data:
        raise unsafe("deflate", f"{len(inflater.unused_data)} bytes follow the deflate stream", path)
    if len(data) < size:
        raise unsafe("wrong-size", f"expected {size} bytes, found {len(data)}", path)
    return data


class Gunzipped:
    """The bytes of a gzip file (RFC 1952, members one after the other), read forward.

    Args:
        data: The whole file.
        limit: How many bytes may come out.

    Raises:
        FormatError: ``data`` does not begin as gzip does.
        UnsafeArchive: from ``read``: ``gzip``, ``too-large``.
    """

    def __init__(self, data: bytes, limit: int) -> None:
        if not data.startswith(MAGIC):
            raise FormatError("expected a gzip file, found something else")
        self._pieces = _gunzip(memoryview(data), limit)
        self._piece = b""
        self._at = 0

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes, fewer only where the file ends."""
        start, stop = self._at, self._at + size
        if stop <= len(self._piece):
            self._at = stop
            return self._piece[start:stop]
        parts = [self._piece[start:]]
        missing = size - len(parts[0])
        self._piece = b""
        self._at = 0
        for piece in self._pieces:
            if len(piece) >= missing:
                self._piece, self._at = piece, missing
                parts.append(piece[:missing])
                break
            parts.append(piece)
            missing -= len(piece)
        return b"".join(parts)


def _gunzip(data: memoryview, limit: int) -> Iterator[bytes]:
    at = total = members = 0
    while at < len(data):
        members += 1
        if data[at : at + 2] != MAGIC or members > _MEMBERS:
            raise unsafe("gzip", f"expected at most {_MEMBERS} gzip members and nothing after, found more")
        # zlib itself reads a member's header and checks its CRC and length.
        inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        while not inflater.eof:
            waiting = inflater.unconsumed_tail
            step = waiting or data[at : at + _STEP_IN]
            at += 0 if waiting else len(step)
            try:
                piece = inflater.decompress(step, _STEP_OUT)
            except zlib.error as error:
                raise unsafe("gzip", f"the gzip stream is broken: {error}") from error
            if not (step or piece):
                raise unsafe("gzip", "the gzip stream is cut short")
            total += len(piece)
            if total > limit:
                raise unsafe("too-large", f"more than {limit} bytes unpacked, with headers and padding")
            if piece:
                yield piece
        at -= len(inflater.unused_data)
