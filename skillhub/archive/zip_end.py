"""Where a zip file's central directory lies, by the records at its end (APPNOTE.TXT 4.3.14 to 4.3.16)."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from skillhub.archive.entry import unsafe
from skillhub.errors import FormatError

END: Final = b"PK\x05\x06"
_END64: Final = b"PK\x06\x06"
_LOCATOR64: Final = b"PK\x06\x07"
_RECORDS: Final = (END, _END64, _LOCATOR64, b"PK\x01\x02", b"PK\x03\x04")

_MAX16: Final = 0xFFFF
_MAX32: Final = 0xFFFFFFFF

_END_FORM: Final = Struct("<4s4H2IH")
_END64_FORM: Final = Struct("<4sQ2H2I4Q")
_LOCATOR64_FORM: Final = Struct("<4sIQI")


class Directory(NamedTuple):
    """The central directory: number of entries, bytes, offset."""

    entries: int
    size: int
    start: int


def find_directory(data: bytes) -> Directory:
    """Return where the central directory lies, which the end records must agree on.

    Raises:
        FormatError: there is no end record.
        UnsafeArchive: ``zip-comment``, ``zip-split``, ``zip-zip64``, ``zip-not-tiled``.
    """
    at = _find_end(data)
    _, disk, first_disk, here, count, size, start, _ = _END_FORM.unpack_from(data, at)
    comment = data[at + _END_FORM.size :]
    if any(record in comment for record in _RECORDS):
        raise unsafe("zip-comment", "the archive's comment holds records of an archive")
    if disk not in (0, _MAX16) or first_disk not in (0, _MAX16) or here != count:
        raise unsafe("zip-split", "expected the whole archive in one file, found a part of it")
    stop, locator = at, at - _LOCATOR64_FORM.size
    # Below zero, `startswith` would count from the end of the file.
    if locator >= 0 and data.startswith(_LOCATOR64, locator):
        stop, wide = _directory64(data, locator)
        narrow = ((count, _MAX16), (size, _MAX32), (start, _MAX32))
        if any(said not in (full, real) for (said, full), real in zip(narrow, wide, strict=True)):
            raise unsafe("zip-zip64", "the two end records disagree")
        count, size, start = wide
    elif _MAX16 in (disk, first_disk, count) or _MAX32 in (size, start):
        raise unsafe("zip-zip64", "expected a zip64 end record, found none")
    if start + size != stop:
        raise unsafe("zip-not-tiled", f"expected the central directory to end at byte {stop}")
    return Directory(count, size, start)


def _find_end(data: bytes) -> int:
    """Return the offset of the first end record that, with its comment, ends where the file ends."""
    at = data.find(END, max(0, len(data) - _END_FORM.size - _MAX16))
    while 0 <= at <= len(data) - _END_FORM.size:
        if at + _END_FORM.size + int.from_bytes(data[at + 20 : at + 22], "little") == len(data):
            return at
        at = data.find(END, at + 1)
    if 0 <= data.find(END) <= len(data) - _END_FORM.size:
        raise unsafe("zip-not-tiled", "expected the end record and its comment to end where the file ends")
    if data.startswith(_RECORDS):
        raise FormatError("expected a zip file, found one that is cut off")
    raise FormatError("expected a zip file, found something else")


def _directory64(data: bytes, at: int) -> tuple[int, tuple[int, int, int]]:
    """Return the offset of the zip64 end record, and its count, size and start."""
    _, disk, start, disks = _LOCATOR64_FORM.unpack_from(data, at)
    if disk or disks > 1:
        raise unsafe("zip-split", "expected the whole archive in one file, found a part of it")
    if start != at - _END64_FORM.size or not data.startswith(_END64, start):
        raise unsafe(
            "zip-zip64", "expected the zip64 end record, without extensible data, before its locator"
        )
    _, length, _, _, disk, first_disk, here, *wide = _END64_FORM.unpack_from(data, start)
    count, size, directory = wide
    if length != _END64_FORM.size - 12:
        raise unsafe("zip-zip64", "the zip64 end record lies about its length")
    if disk or first_disk or here != count:
        raise unsafe("zip-split", "expected the whole archive in one file, found a part of it")
    return start, (count, size, directory)
