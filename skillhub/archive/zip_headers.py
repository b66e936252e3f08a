"""The headers of a zip file's entries, their values resolved (APPNOTE.TXT 6.3.10, section 4)."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from skillhub.archive.entry import Limits, unsafe
from skillhub.archive.paths import check_path
from skillhub.archive.zip_end import END, Directory
from skillhub.model.text import quote

LOCAL: Final = b"PK\x03\x04"
_CENTRAL: Final = b"PK\x01\x02"

DESCRIBED: Final = 1 << 3
_UTF8: Final = 1 << 11
_LEVEL: Final = 0b110
_ENCRYPTED: Final = 1 << 0 | 1 << 6 | 1 << 13

_MAX32: Final = 0xFFFFFFFF
_ZIP64: Final = 0x0001
_UNICODE_PATH: Final = 0x7075
_ENCRYPTION_EXTRAS: Final = frozenset({0x0014, 0x0015, 0x0016, 0x0017, 0x9901})
# Honest tools write two to five; a header full of empty ones would cost sixteen thousand steps.
_MAX_EXTRAS: Final = 32

_LOCAL_FORM: Final = Struct("<4s5H3I2H")
_CENTRAL_FORM: Final = Struct("<4s6H3I5H2I")
_EXTRA_FORM: Final = Struct("<2H")
_UNICODE_FORM: Final = Struct("<BI")


class Member(NamedTuple):
    """One entry as the central directory has it, zip64 values in their place; sizes in bytes."""

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


class _Central(NamedTuple):
    signature: bytes
    made_by: int
    needed: int
    flags: int
    method: int
    time: int
    date: int
    crc: int
    packed: int
    size: int
    name_length: int
    extra_length: int
    comment_length: int
    disk: int
    internal: int
    attributes: int
    start: int


class _Local(NamedTuple):
    signature: bytes
    needed: int
    flags: int
    method: int
    time: int
    date: int
    crc: int
    packed: int
    size: int
    name_length: int
    extra_length: int


def read_directory(data: bytes, directory: Directory, limits: Limits) -> list[Member]:
    """Return the entries of the central directory (4.3.12), which they fill exactly.

    Raises:
        UnsafeArchive: a reason of the families zip, names and limits.
    """
    if directory.entries > limits.entries:
        raise unsafe("too-many-files", f"at most {limits.entries} entries, found {directory.entries}")
    members: list[Member] = []
    at, stop = directory.start, directory.start + directory.size
    total = 0
    for _ in range(directory.entries):
        if at + _CENTRAL_FORM.size > stop or not data.startswith(_CENTRAL, at):
            raise unsafe("zip-not-tiled", f"expected {directory.entries} entries, found {len(members)}")
        member, at = _central(data, at, stop)
        if len(member.raw_name) > limits.path + 1:
            check_path(member.path, limits)
        total += member.size
        if total > limits.total:
            raise unsafe("too-large", f"a skill has at most {limits.total} bytes unpacked", member.path)
        members.append(member)
    if at != stop:
        reason = "zip-hidden-entry" if data.startswith(_CENTRAL, at) else "zip-not-tiled"
        raise unsafe(reason, f"{stop - at} bytes follow the last entry of the central directory")
    return members


def body_start(data: bytes, member: Member, stop: int) -> int:
    """Return where the bytes of ``member`` begin: after its local header (4.3.7), which must agree.

    Args:
        data: The archive.
        member: The entry by the central directory.
        stop: Where its local header must have ended.

    Raises:
        UnsafeArchive: ``zip-header-mismatch``, ``name-encoding``, ``zip-not-tiled``,
            and those of malformed extra fields.
    """
    path = member.path
    if not data.startswith(LOCAL, member.start):
        raise unsafe("zip-header-mismatch", "the central directory has an entry that is not there", path)
    if member.start + _LOCAL_FORM.size > stop:
        raise unsafe("zip-not-tiled", "the local header reaches into what follows", path)
    local = _Local._make(_LOCAL_FORM.unpack_from(data, member.start))
    name_at = member.start + _LOCAL_FORM.size
    extra_at = name_at + local.name_length
    body_at = extra_at + local.extra_length
    if body_at > stop:
        raise unsafe("zip-not-tiled", "the local header reaches into what follows", path)
    if (local.flags ^ member.flags) & _UTF8:
        raise unsafe("name-encoding", "the two headers disagree on the encoding of the name", path)
    same = (data[name_at:extra_at], local.method, local.flags)
    if same != (member.raw_name, member.method, member.flags):
        raise unsafe("zip-header-mismatch", "the two headers disagree on name, method or flags", path)
    extras = _extras(data[extra_at:body_at], member.raw_name, path)
    size, packed = _widen((local.size, local.packed), extras.get(_ZIP64), path)
    # What a streaming tool did not know yet is zero, what it knew it may have written.
    unknown = 0 if member.flags & DESCRIBED else None
    pairs = ((local.crc, member.crc), (packed, member.packed), (size, member.size))
    if any(found not in (expected, unknown) for found, expected in pairs):
        raise unsafe("zip-header-mismatch", "the two headers disagree on size or CRC", path)
    return body_at


def _central(data: bytes, at: int, stop: int) -> tuple[Member, int]:
    central = _Central._make(_CENTRAL_FORM.unpack_from(data, at))
    name_at = at + _CENTRAL_FORM.size
    extra_at = name_at + central.name_length
    comment_at = extra_at + central.extra_length
    next_at = comment_at + central.comment_length
    if next_at > stop:
        raise unsafe("zip-not-tiled", "an entry reaches beyond the central directory")
    raw_name = data[name_at:extra_at]
    path = _decode(raw_name)
    if END in data[comment_at:next_at]:
        raise unsafe("zip-comment", "the entry's comment holds records of an archive", path)
    extras = _extras(data[extra_at:comment_at], raw_name, path)
    if central.disk:
        raise unsafe("zip-split", "the entry begins in another file", path)
    numbers = (central.size, central.packed, central.start)
    size, packed, start = _widen(numbers, extras.get(_ZIP64), path)
    _check_flags(central.flags, path)
    member = Member(
        raw_name,
        path,
        central.made_by,
        central.flags,
        central.method,
        central.crc,
        packed,
        size,
        central.attributes,
        start,
    )
    return member, next_at


def _decode(raw: bytes) -> str:
    # Info-ZIP on Linux and macOS' own tool write UTF-8 without saying so by bit 11.
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        shown = quote(raw.decode("utf-8", "backslashreplace"))
        raise unsafe("name-encoding", f"expected a name in UTF-8, found {shown}") from error


def _check_flags(flags: int, path: str) -> None:
    if flags & _ENCRYPTED:
        raise unsafe("zip-encrypted", "the entry is encrypted", path)
    if flags & ~(_LEVEL | DESCRIBED | _UTF8):
        raise unsafe("zip-flags", f"expected no flags but bits 1 to 3 and 11, found {flags:#06x}", path)


def _extras(raw: bytes, raw_name: bytes, path: str) -> dict[int, bytes]:
    """Return the extra fields (4.5), those that are understood checked."""
    found: dict[int, bytes] = {}
    at = steps = 0
    while at < len(raw):
        if at + 4 > len(raw) or (steps := steps + 1) > _MAX_EXTRAS:
            raise unsafe("zip-extra", "the extra fields are malformed", path)
        tag, length = _EXTRA_FORM.unpack_from(raw, at)
        at += 4 + length
        if at > len(raw):
            raise unsafe("zip-extra", f"extra field {tag:#06x} is longer than there is room", path)
        if tag in found:
            raise unsafe("zip-zip64" if tag == _ZIP64 else "zip-extra", f"extra field {tag:#06x} twice", path)
        found[tag] = raw[at - length : at]
    if not found.keys().isdisjoint(_ENCRYPTION_EXTRAS):
        raise unsafe("zip-encrypted", "the entry is encrypted", path)
    if (alias := found.get(_UNICODE_PATH)) is not None:
        _check_unicode_path(alias, raw_name, path)
    return found


def _check_unicode_path(field: bytes, raw_name: bytes, path: str) -> None:
    head, name = field[: _UNICODE_FORM.size], field[_UNICODE_FORM.size :]
    if head != _UNICODE_FORM.pack(1, crc32(raw_name)) or name != raw_name:
        raise unsafe("zip-unicode-path", "the entry has a second, other name in a Unicode Path field", path)


def _widen(numbers: tuple[int, ...], field: bytes | None, path: str) -> tuple[int, ...]:
    """Return the numbers, those of all ones taken from the zip64 field (4.5.3), which holds no other."""
    full = numbers.count(_MAX32)
    if field is None and not full:
        return numbers
    if field is None or not full or len(field) != 8 * full:
        raise unsafe("zip-zip64", f"expected {full} numbers in the zip64 field", path)
    wide = iter(Struct(f"<{full}Q").unpack(field))
    return tuple(next(wide) if number == _MAX32 else number for number in numbers)
