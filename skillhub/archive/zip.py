"""Zip bytes to entries: every byte of the file is accounted for before the first one is inflated."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final
from zlib import crc32

from skillhub.archive.entry import Entry, Limits, executable, unsafe
from skillhub.archive.inflate import inflate
from skillhub.archive.zip_end import find_directory
from skillhub.archive.zip_headers import DESCRIBED, LOCAL, Member, body_start, read_directory
from skillhub.errors import UnsafeArchive
from skillhub.model.tree import File

_STORED: Final = 0
_DEFLATED: Final = 8

_UNIX: Final = frozenset({3, 19})  # 4.4.2.2: Unix, and what Darwin writes
_DOS_FOLDER: Final = 0x10
_DOS_VOLUME: Final = 0x08
_WINDOWS_LINK: Final = 0x400  # FILE_ATTRIBUTE_REPARSE_POINT

_SIGNATURE: Final = b"PK\x07\x08"
# 4.3.9: the signature is optional, and sizes have eight bytes in a zip64 entry.
_DESCRIPTORS: Final = {12: Struct("<3I"), 16: Struct("<4x3I"), 20: Struct("<I2Q"), 24: Struct("<4xI2Q")}


def read_zip(data: bytes, limits: Limits) -> Iterator[Entry]:
    """Yield the entries in the order of the file, inflating one at a time.

    Local headers, bodies and descriptors must tile the file from its first byte to the central directory,
    without gap or overlap, and each be an entry of the directory.

    Raises:
        FormatError: there is no end record.
        UnsafeArchive: a reason of the families kinds, zip, names and limits.
    """
    directory = find_directory(data)
    members = read_directory(data, directory, limits)
    members.sort(key=lambda member: member.start)
    bodies = list(_tile(data, members, directory.start))
    view = memoryview(data)
    for member, at in zip(members, bodies, strict=True):
        yield _entry(member, view[at : at + member.packed])


def _tile(data: bytes, members: list[Member], stop: int) -> Iterator[int]:
    """Yield where the body of each member begins; what precedes, divides or follows them is refused."""
    starts = [*(member.start for member in members), stop]
    if starts[0] != 0:
        raise unsafe("zip-not-tiled", f"{starts[0]} bytes precede the first entry")
    if max(starts) > stop:
        raise unsafe("zip-not-tiled", "an entry begins after the central directory", members[-1].path)
    for member, end in zip(members, starts[1:], strict=True):
        at = body_start(data, member, end)
        rest = end - at - member.packed
        if rest < 0:
            raise unsafe("zip-not-tiled", "the entry reaches into what follows it", member.path)
        if member.flags & DESCRIBED:
            _check_descriptor(data[end - rest : end], member)
        elif rest:
            raise _gap(data[end - rest : end], member.path)
        yield at


def _gap(found: bytes, path: str) -> UnsafeArchive:
    if LOCAL in found:
        return unsafe("zip-hidden-entry", "an entry is missing in the central directory", path)
    if found.startswith(_SIGNATURE):
        return unsafe("zip-descriptor", "a data descriptor follows that no flag announced", path)
    return unsafe("zip-not-tiled", f"{len(found)} bytes belong to no entry", path)


def _check_descriptor(found: bytes, member: Member) -> None:
    form = _DESCRIPTORS.get(len(found))
    if len(found) > max(_DESCRIPTORS):
        raise _gap(found[min(_DESCRIPTORS) :], member.path)
    # Info-ZIP streams an empty file stored; with data, a reader of the stream could not know where it ends.
    if form is None or (member.method == _STORED and member.packed):
        raise unsafe("zip-descriptor", "expected a data descriptor, after a deflated entry", member.path)
    signed = found.startswith(_SIGNATURE) or form.size in (12, 20)
    if not signed or form.unpack(found) != (member.crc, member.packed, member.size):
        raise unsafe(
            "zip-descriptor", "the data descriptor disagrees with the central directory", member.path
        )


def _entry(member: Member, packed: memoryview) -> Entry:
    path = member.path
    folder = path.endswith("/")
    runs = _check_attributes(member, folder)
    data = _content(member, packed)
    if not folder:
        return Entry(path, File(data, runs))
    if data:
        raise unsafe("folder-data", f"a folder holds {len(data)} bytes of data", path)
    return Entry(path[:-1], None)


def _check_attributes(member: Member, folder: bool) -> bool:
    """Return the execute bit. A Unix mode may say what it must not whichever system the header names."""
    if member.attributes & _WINDOWS_LINK:
        raise unsafe("link", "a skill holds no links, found one of Windows", member.path)
    if member.attributes & _DOS_VOLUME:
        raise unsafe("special-file", "expected a file or folder, found a volume label", member.path)
    if member.attributes & _DOS_FOLDER and not folder:
        raise unsafe("kind-mismatch", "name and type disagree on whether this is a folder", member.path)
    runs = executable(member.attributes >> 16, folder=folder, path=member.path)
    return runs and member.made_by >> 8 in _UNIX


def _content(member: Member, packed: memoryview) -> bytes:
    if member.method == _DEFLATED:
        data = inflate(packed, member.size, member.path)
    elif member.method != _STORED:
        raise unsafe("zip-method", f"expected stored or deflated, found method {member.method}", member.path)
    elif member.packed != member.size:
        raise unsafe("wrong-size", f"expected {member.size} bytes, found {member.packed}", member.path)
    else:
        data = bytes(packed)
    if crc32(data) != member.crc:
        raise unsafe("wrong-crc", "the bytes do not have the CRC that the archive says", member.path)
    return data
