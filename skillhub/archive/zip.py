"""Zip bytes to entries: end records, headers, and every byte of the file accounted for (APPNOTE.TXT 6.3.10)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from skillhub.archive.limits import Entry, Limits, check_path, decode_name, executable, inflate, unsafe
from skillhub.errors import FormatError, UnsafeArchive
from skillhub.model.tree import File

# The position of a zip file's central directory, by the records at its end (APPNOTE.TXT 4.3.14 to 4.3.16).

END: Final = b"PK\x05\x06"
_END64: Final = b"PK\x06\x06"
_LOCATOR64: Final = b"PK\x06\x07"
_RECORDS: Final = (END, _END64, _LOCATOR64, b"PK\x01\x02", b"PK\x03\x04")

_SPLIT: Final = ("zip-split", "expected the whole archive in one file, found a part of it")
_MAX16: Final = 0xFFFF
_MAX32: Final = 0xFFFFFFFF

END_FORM: Final = Struct("<4s4H2IH")
_END64_FORM: Final = Struct("<4sQ2H2I4Q")
_LOCATOR64_FORM: Final = Struct("<4sIQI")


class Directory(NamedTuple):
    """The central directory: number of entries, bytes, offset."""

    entries: int
    size: int
    start: int


def find_directory(data: bytes) -> Directory:
    """Return the position of the central directory, on which all end records must agree.

    Raises:
        FormatError: there is no end record.
        UnsafeArchive: ``zip-comment``, ``zip-split``, ``zip-zip64``, ``zip-not-tiled``.
    """
    at = _find_end(data)
    _, disk, first_disk, here, count, size, start, _ = END_FORM.unpack_from(data, at)
    comment = data[at + END_FORM.size :]
    if any(record in comment for record in _RECORDS):
        raise unsafe("zip-comment", "the archive's comment holds records of an archive")
    if disk not in (0, _MAX16) or first_disk not in (0, _MAX16) or here != count:
        raise unsafe(*_SPLIT)
    stop, locator = at, at - _LOCATOR64_FORM.size
    # `startswith` would count a negative position from the end of the file.
    if locator >= 0 and data.startswith(_LOCATOR64, locator):
        stop, wide = _directory64(data, locator)
        narrow = ((count, _MAX16), (size, _MAX32), (start, _MAX32))
        if any(value not in (all_ones, real) for (value, all_ones), real in zip(narrow, wide, strict=True)):
            raise unsafe("zip-zip64", "the two end records disagree")
        count, size, start = wide
    elif _MAX16 in (disk, first_disk, count) or _MAX32 in (size, start):
        raise unsafe("zip-zip64", "expected a zip64 end record, found none")
    if start + size != stop:
        raise unsafe("zip-not-tiled", f"expected the central directory to end at byte {stop}")
    return Directory(count, size, start)


def _find_end(data: bytes) -> int:
    """Return the offset of the first end record that, with its comment, ends at the end of the file."""
    offset = data.find(END, max(0, len(data) - END_FORM.size - _MAX16))
    while 0 <= offset <= len(data) - END_FORM.size:
        if offset + END_FORM.size + int.from_bytes(data[offset + 20 : offset + 22], "little") == len(data):
            return offset
        offset = data.find(END, offset + 1)
    if 0 <= data.find(END) <= len(data) - END_FORM.size:
        raise unsafe("zip-not-tiled", "expected the end record and its comment to end where the file ends")
    if data.startswith(_RECORDS):
        raise FormatError("expected a zip file, found one that is cut off")
    raise FormatError("expected a zip file, found something else")


def _directory64(data: bytes, offset: int) -> tuple[int, tuple[int, int, int]]:
    """Return the offset of the zip64 end record, and its count, size and start."""
    _, disk, start, disks = _LOCATOR64_FORM.unpack_from(data, offset)
    if disk or disks > 1:
        raise unsafe(*_SPLIT)
    if start != offset - _END64_FORM.size or not data.startswith(_END64, start):
        raise unsafe("zip-zip64", "expected the zip64 end record, without extensible data, before its locator")
    _, length, _, _, disk, first_disk, here, *wide = _END64_FORM.unpack_from(data, start)
    count, size, directory = wide
    if length != _END64_FORM.size - 12:
        raise unsafe("zip-zip64", "the zip64 end record has a wrong length")
    if disk or first_disk or here != count:
        raise unsafe(*_SPLIT)
    return start, (count, size, directory)


# The headers of a zip file's entries, their values resolved (APPNOTE.TXT 6.3.10, section 4).

LOCAL: Final = b"PK\x03\x04"
CENTRAL: Final = b"PK\x01\x02"

DESCRIBED: Final = 1 << 3
UTF8: Final = 1 << 11
_LEVEL: Final = 0b110
_ENCRYPTED: Final = 1 << 0 | 1 << 6 | 1 << 13

_ZIP64: Final = 0x0001
_UNICODE_PATH: Final = 0x7075
_ENCRYPTION_EXTRAS: Final = frozenset({0x0014, 0x0015, 0x0016, 0x0017, 0x9901})
# Honest tools write two to five; a header full of empty ones would take sixteen thousand steps.
_MAX_EXTRAS: Final = 32
_VERSION: Final = re.compile(r";[0-9]*\Z")

LOCAL_FORM: Final = Struct("<4s5H3I2H")
CENTRAL_FORM: Final = Struct("<4s6H3I5H2I")
_EXTRA_FORM: Final = Struct("<2H")
_UNICODE_FORM: Final = Struct("<BI")


class ZipMember(NamedTuple):
    """One entry of the central directory, with its zip64 values; sizes in bytes."""

    raw_name: bytes
    path: str
    made_by: int
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    attributes: int
    start: int


def read_directory(data: bytes, directory: Directory, limits: Limits) -> list[ZipMember]:
    """Return the entries of the central directory (4.3.12), which they must fill exactly.

    Raises:
        UnsafeArchive: a reason of the families zip, names and limits.
    """
    if directory.entries > limits.entries:
        raise unsafe("too-many-files", f"at most {limits.entries} entries, found {directory.entries}")
    members: list[ZipMember] = []
    offset, stop = directory.start, directory.start + directory.size
    total = 0
    for _ in range(directory.entries):
        if offset + CENTRAL_FORM.size > stop or not data.startswith(CENTRAL, offset):
            raise unsafe("zip-not-tiled", f"expected {directory.entries} entries, found {len(members)}")
        member, offset = _central(data, offset, stop)
        if len(member.raw_name) > limits.path + 1:
            check_path(member.path, limits)
        total += member.size
        if total > limits.total:
            raise unsafe("too-large", f"a skill has at most {limits.total} bytes unpacked", member.path)
        members.append(member)
    if offset != stop:
        reason = "zip-hidden-entry" if data.startswith(CENTRAL, offset) else "zip-not-tiled"
        raise unsafe(reason, f"{stop - offset} bytes follow the last entry of the central directory")
    return members


def body_start(data: bytes, member: ZipMember, stop: int) -> int:
    """Return the position of ``member``'s bytes: after its local header (4.3.7), which must agree with it.

    Args:
        data: The archive.
        member: The entry of the central directory.
        stop: The position before which its local header must end.

    Raises:
        UnsafeArchive: ``zip-header-mismatch``, ``name-encoding``, ``zip-not-tiled``,
            and those of malformed extra fields.
    """
    path = member.path
    if not data.startswith(LOCAL, member.start):
        raise unsafe("zip-header-mismatch", "the central directory has an entry without a local header", path)
    if member.start + LOCAL_FORM.size > stop:
        raise unsafe("zip-not-tiled", "the local header reaches into what follows", path)
    _, _, flags, method, _, _, crc, packed, size, name_length, extra_length = LOCAL_FORM.unpack_from(
        data, member.start
    )
    name_at = member.start + LOCAL_FORM.size
    extra_at = name_at + name_length
    body_at: int = extra_at + extra_length
    if body_at > stop:
        raise unsafe("zip-not-tiled", "the local header reaches into what follows", path)
    if (flags ^ member.flags) & UTF8:
        raise unsafe("name-encoding", "the two headers disagree on the encoding of the name", path)
    if (data[name_at:extra_at], method, flags) != (member.raw_name, member.method, member.flags):
        raise unsafe("zip-header-mismatch", "the two headers disagree on name, method or flags", path)
    extras = _extras(data[extra_at:body_at], member.raw_name, path)
    size, packed = _widen((size, packed), extras.get(_ZIP64), path)
    # A streaming tool writes zero for a value that it does not know yet, and the value if it does.
    unknown = 0 if member.flags & DESCRIBED else None
    pairs = ((crc, member.crc), (packed, member.packed), (size, member.size))
    if any(actual not in (expected, unknown) for actual, expected in pairs):
        raise unsafe("zip-header-mismatch", "the two headers disagree on size or CRC", path)
    return body_at


def _central(data: bytes, offset: int, stop: int) -> tuple[ZipMember, int]:
    _, made_by, _, flags, method, _, _, crc, *numbers, disk, _, attributes, start = CENTRAL_FORM.unpack_from(
        data, offset
    )
    packed, size, name_length, extra_length, comment_length = numbers
    name_at = offset + CENTRAL_FORM.size
    extra_at = name_at + name_length
    comment_at = extra_at + extra_length
    next_at: int = comment_at + comment_length
    if next_at > stop:
        raise unsafe("zip-not-tiled", "an entry reaches beyond the central directory")
    raw_name = data[name_at:extra_at]
    path = decode_name(raw_name)  # Info-ZIP on Linux and macOS' own tool write UTF-8 without setting bit 11
    if _VERSION.search(path):
        raise unsafe("name-reserved", "expected no version at the end of a name: Info-ZIP drops it", path)
    if END in data[comment_at:next_at]:
        raise unsafe("zip-comment", "the entry's comment holds records of an archive", path)
    extras = _extras(data[extra_at:comment_at], raw_name, path)
    if disk:
        raise unsafe("zip-split", "the entry begins in another file", path)
    size, packed, start = _widen((size, packed, start), extras.get(_ZIP64), path)
    _check_flags(flags, path)
    return ZipMember(raw_name, path, made_by, flags, method, crc, packed, size, attributes, start), next_at


def _check_flags(flags: int, path: str) -> None:
    if flags & _ENCRYPTED:
        raise unsafe("zip-encrypted", "the entry is encrypted", path)
    if flags & ~(_LEVEL | DESCRIBED | UTF8):
        raise unsafe("zip-flags", f"expected no flags but bits 1 to 3 and 11, found {flags:#06x}", path)


def _extras(raw: bytes, raw_name: bytes, path: str) -> dict[int, bytes]:
    """Return the extra fields (4.5), after a check of the known ones."""
    extras: dict[int, bytes] = {}
    offset = steps = 0
    while offset < len(raw):
        if offset + 4 > len(raw) or (steps := steps + 1) > _MAX_EXTRAS:
            raise unsafe("zip-extra", "the extra fields are malformed", path)
        tag, length = _EXTRA_FORM.unpack_from(raw, offset)
        offset += 4 + length
        if offset > len(raw):
            raise unsafe("zip-extra", f"extra field {tag:#06x} reaches beyond its header", path)
        if tag in extras:
            raise unsafe("zip-zip64" if tag == _ZIP64 else "zip-extra", f"extra field {tag:#06x} twice", path)
        extras[tag] = raw[offset - length : offset]
    if not extras.keys().isdisjoint(_ENCRYPTION_EXTRAS):
        raise unsafe("zip-encrypted", "the entry is encrypted", path)
    if (alias := extras.get(_UNICODE_PATH)) is not None:
        _check_unicode_path(alias, raw_name, path)
    return extras


def _check_unicode_path(field: bytes, raw_name: bytes, path: str) -> None:
    head, name = field[: _UNICODE_FORM.size], field[_UNICODE_FORM.size :]
    if head != _UNICODE_FORM.pack(1, crc32(raw_name)) or name != raw_name:
        raise unsafe("zip-unicode-path", "the entry has a second, other name in a Unicode Path field", path)


def _widen(numbers: tuple[int, ...], field: bytes | None, path: str) -> tuple[int, ...]:
    """Return the numbers; each of all ones is replaced from the zip64 field (4.5.3), which must have no others."""
    full = numbers.count(_MAX32)
    if field is None and not full:
        return numbers
    if field is None or not full or len(field) != 8 * full:
        raise unsafe("zip-zip64", f"expected {full} numbers in the zip64 field", path)
    wide = iter(Struct(f"<{full}Q").unpack(field))
    return tuple(next(wide) if number == _MAX32 else number for number in numbers)


# Zip bytes to entries: every byte of the file is accounted for before the first body is inflated.

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
    """Yield the entries in the order of the file; they are inflated one at a time.

    Local headers, bodies and descriptors must tile the file from its first byte to the central directory, without gap
    or overlap, and each must belong to an entry of the directory.

    Raises:
        FormatError: there is no end record.
        UnsafeArchive: a reason of the families kinds, zip, names and limits.
    """
    directory = find_directory(data)
    members = read_directory(data, directory, limits)
    members.sort(key=lambda member: member.start)
    bodies = list(_tile(data, members, directory.start))
    view = memoryview(data)
    for member, start in zip(members, bodies, strict=True):
        yield _entry(member, view[start : start + member.packed])


def _tile(data: bytes, members: list[ZipMember], stop: int) -> Iterator[int]:
    """Yield the position of each member's body; bytes before, between or after the members are refused."""
    starts = [*(member.start for member in members), stop]
    if starts[0] != 0:
        raise unsafe("zip-not-tiled", f"{starts[0]} bytes precede the first entry")
    if max(starts) > stop:
        raise unsafe("zip-not-tiled", "an entry begins after the central directory", members[-1].path)
    for member, end in zip(members, starts[1:], strict=True):
        start = body_start(data, member, end)
        gap = end - start - member.packed
        if gap < 0:
            raise unsafe("zip-not-tiled", "the entry reaches into what follows it", member.path)
        if member.flags & DESCRIBED:
            _check_descriptor(data[end - gap : end], member)
        elif gap:
            raise _gap(data[end - gap : end], member.path)
        yield start


def _gap(data: bytes, path: str) -> UnsafeArchive:
    if LOCAL in data:
        return unsafe("zip-hidden-entry", "an entry is missing in the central directory", path)
    if data.startswith(_SIGNATURE):
        return unsafe("zip-descriptor", "a data descriptor follows that no flag announced", path)
    return unsafe("zip-not-tiled", f"{len(data)} bytes belong to no entry", path)


def _check_descriptor(data: bytes, member: ZipMember) -> None:
    form = _DESCRIPTORS.get(len(data))
    if len(data) > max(_DESCRIPTORS):
        raise _gap(data[min(_DESCRIPTORS) :], member.path)
    # Info-ZIP streams an empty file as stored; a stored file with data would have no end for a reader of the stream.
    if form is None or (member.method == _STORED and member.packed):
        raise unsafe("zip-descriptor", "expected a data descriptor, after a deflated entry", member.path)
    signed = data.startswith(_SIGNATURE) or form.size in (12, 20)
    if not signed or form.unpack(data) != (member.crc, member.packed, member.size):
        raise unsafe("zip-descriptor", "the data descriptor disagrees with the central directory", member.path)


def _entry(member: ZipMember, packed: memoryview) -> Entry:
    path = member.path
    folder = path.endswith("/")
    runs = _check_attributes(member, folder)
    data = _content(member, packed)
    if not folder:
        return Entry(path, File(data, runs))
    if data:
        raise unsafe("folder-data", f"a folder holds {len(data)} bytes of data", path)
    return Entry(path[:-1], None)


def _check_attributes(member: ZipMember, folder: bool) -> bool:
    """Return the execute bit. The Unix mode is checked whatever system the header names."""
    if member.attributes & _WINDOWS_LINK:
        raise unsafe("link", "a skill holds no links, found one of Windows", member.path)
    if member.attributes & _DOS_VOLUME:
        raise unsafe("special-file", "expected a file or folder, found a volume label", member.path)
    if member.attributes & _DOS_FOLDER and not folder:
        raise unsafe("kind-mismatch", "name and type disagree on whether this is a folder", member.path)
    runs = executable(member.attributes >> 16, folder=folder, path=member.path)
    return runs and member.made_by >> 8 in _UNIX


def _content(member: ZipMember, packed: memoryview) -> bytes:
    if member.method == _DEFLATED:
        data = inflate(packed, member.size, member.path)
    elif member.method != _STORED:
        raise unsafe("zip-method", f"expected stored or deflated, found method {member.method}", member.path)
    elif member.packed != member.size:
        raise unsafe("wrong-size", f"expected {member.size} bytes, found {member.packed}", member.path)
    else:
        data = bytes(packed)
    if crc32(data) != member.crc:
        raise unsafe("wrong-crc", "the bytes have another CRC than the archive states", member.path)
    return data
