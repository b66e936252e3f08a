"""Tar bytes, gzipped, to entries (ustar, pax, GNU, v7): headers, pax records and GNU long names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from skillhub.archive.limits import MAGIC, Entry, Gunzipped, Limits, decode_name, executable, unsafe
from skillhub.formats.text import quote
from skillhub.model.tree import File

# The headers of a tar file about the entry after them: pax records and GNU long names.

PAX: Final = b"x"
GLOBAL: Final = b"g"
LONG_NAME: Final = b"L"
LONG_LINK: Final = b"K"

_MAX_BYTES: Final = 64 << 10
_MAX_HEADERS: Final = 2
# macOS writes about a dozen; 64 KiB could have thousands.
_MAX_RECORDS: Final = 64
# GNU tar takes no notice of blanks before a key.
_RECORD: Final = re.compile(rb"([1-9][0-9]{0,4}) ([^=\s][^=]*)=")
# Keys that would change an entry: into a link or a sparse file, or to another size, type, encoding or mode.
_REFUSED: Final = re.compile(
    r"(?s)linkpath|hdrcharset|GNU\..*|SCHILY\.(?:realsize|filetype|offset|acl\..*)|SUN\.holesdata"
)


class Pending:
    """The values for the next entry in the headers since the last one: its name, and its size, which is repeated."""

    def __init__(self) -> None:
        self.count = 0
        self.name: bytes | None = None
        self.size: bytes | None = None
        self._kinds: set[bytes] = set()

    def expect(self, kind: bytes, size: int) -> None:
        """Refuse a header that is a duplicate, one too many, or too large, before its ``size`` bytes are read.

        Raises:
            UnsafeArchive: ``tar-header``, ``tar-pax``, ``tar-long-name``.
        """
        self.count += 1
        reason = "tar-long-name" if kind == LONG_NAME else "tar-pax"
        if kind == LONG_LINK:
            raise unsafe("tar-long-name", "a skill holds no links, found the long target of one")
        if size > _MAX_BYTES:
            raise unsafe(reason, f"expected at most {_MAX_BYTES} bytes in a header, found {size}")
        if kind in self._kinds:
            raise unsafe(reason, "expected one header of a kind before an entry, found two")
        if self.count > _MAX_HEADERS:
            raise unsafe("tar-header", f"expected at most {_MAX_HEADERS} headers before an entry")
        self._kinds.add(kind)

    def take(self, kind: bytes, body: bytes) -> None:
        """Read the body of a header.

        Raises:
            UnsafeArchive: ``tar-header`` (a record is malformed), ``tar-pax``, ``tar-long-name``.
        """
        if kind == LONG_NAME:
            self._set_name(body.removesuffix(b"\0"), "tar-long-name")
            return
        keys: set[str] = set()
        for key, value in _records(body):
            if key in keys or len(keys) >= _MAX_RECORDS:
                raise unsafe("tar-pax", f"expected one value for each key, found {quote(key)} once more")
            keys.add(key)
            self._add_pax_value(key, value, kind)

    def _add_pax_value(self, key: str, value: bytes, kind: bytes) -> None:
        if _REFUSED.fullmatch(key) or (kind == GLOBAL and key in ("path", "size")):
            raise unsafe("tar-pax", f"the pax key {quote(key)} would change the meaning of an entry")
        if key == "path":
            self._set_name(value, "tar-pax")
        elif key == "size":
            self.size = value

    def _set_name(self, name: bytes, reason: str) -> None:
        if not name or self.name is not None:
            raise unsafe(reason, "expected one long name for an entry, found none or a second")
        self.name = name


def _records(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield key and value of each ``LENGTH KEY=VALUE LF`` (POSIX.1-2017, pax); the length counts the whole record."""
    offset = 0
    while offset < len(body):
        match = _RECORD.match(body, offset)
        stop = offset + int(match[1]) if match else 0
        if match is None or not match.end() < stop <= len(body) or body[stop - 1 : stop] != b"\n":
            raise unsafe("tar-header", "a pax record is malformed or has a wrong length")
        try:
            key = match[2].decode()
        except UnicodeDecodeError as error:
            raise unsafe("tar-header", "a pax key is not UTF-8") from error
        yield key, body[match.end() : stop - 1]
        offset = stop


# Tar bytes, gzipped, to entries (POSIX.1-2017 ustar and pax, GNU, and the older v7).

_BLOCK: Final = 512
_ZEROS: Final = bytes(_BLOCK)
_PADDING: Final = 64 << 10

_FILE: Final = b"0"
_OLD_FILE: Final = b"\0"  # in v7, where a folder is a name that ends in a slash
_FOLDER: Final = b"5"
_PLAIN: Final = frozenset({_FILE, _OLD_FILE, _FOLDER})
_LINKS: Final = frozenset({b"1", b"2"})
_ABOUT_THE_NEXT: Final = frozenset({PAX, GLOBAL, LONG_NAME, LONG_LINK})

# name, mode, uid, gid, size, mtime, checksum, type, link, magic and version, owner, group, device, prefix
_FORM: Final = Struct("100s8s8s8s12s12s8sc100x8s64x8s8s155s12x")
_POSIX: Final = b"ustar\0"
_GNU: Final = b"ustar  \0"
_V7: Final = bytes(8)
_BINARY: Final = 0x80
_BINARY_BYTES: Final = 4  # no file of a skill is so large that its size needs more
_OCTAL: Final = re.compile(rb" *([0-7]+)[ \0]*")
# The forms of a number that is ignored; at another one some readers stop, and so do not see the entries after it.
_IGNORED: Final = re.compile(rb" *[0-7]* *(?:\0.*)?|[\x80\xff].*", re.DOTALL)


class _Header(NamedTuple):
    name: bytes
    mode: int
    size: int
    type: bytes


def read_tar(data: bytes, limits: Limits) -> Iterator[Entry]:
    """Yield the entries of a gzipped tar; it is inflated only as far as the caller reads.

    Raises:
        FormatError: ``data`` does not begin like gzip.
        UnsafeArchive: a reason of the families kinds, tar, names and limits.
    """
    stream = Gunzipped(data, limits.stream)
    pending = Pending()
    count = total = 0
    seen_root = False
    while (header := _next_header(stream)) is not None:
        if header.type in _ABOUT_THE_NEXT:
            pending.expect(header.type, header.size)
            block = _body(stream, header.size + -header.size % _BLOCK)
            if block[header.size :].strip(b"\0"):  # which some readers take for more of the name, or for more records
                raise unsafe("tar-header", "expected zeros after the text of a header, found other bytes")
            pending.take(header.type, block[: header.size])
            continue
        count, total = count + 1, total + header.size
        path = _path(header, pending)
        if count > limits.entries:
            raise unsafe("too-many-files", f"at most {limits.entries} entries, found more", path)
        if total > limits.total:
            raise unsafe("too-large", f"a skill has at most {limits.total} bytes unpacked", path)
        entry = _entry(header, path, stream)
        if entry.path == "." and entry.file is None and not seen_root:
            seen_root = True
        else:
            yield Entry(entry.path.removeprefix("./"), entry.file)
        pending = Pending()
    if pending.count:
        raise unsafe("tar-header", "expected an entry after its header")
    _check_end(stream)


def _next_header(stream: Gunzipped) -> _Header | None:
    """Return the next header, or None at the end marker: two blocks of zeros."""
    block = stream.read(_BLOCK)
    if block == _ZEROS:
        if stream.read(_BLOCK) != _ZEROS:
            raise unsafe("tar-trailing", "expected two zero blocks to end the tar, found one")
        return None
    if block.startswith(MAGIC):
        raise unsafe("gzip", "expected a tar inside the gzip, found gzip again")
    if len(block) < _BLOCK:
        raise unsafe("tar-header", "the tar is cut short: it has no end marker")
    name, mode, user, group, size, time, checksum, kind, magic, major, minor, prefix = _FORM.unpack(block)
    if _octal(checksum, "tar-checksum") != sum(block) - sum(checksum) + 8 * ord(" "):
        raise unsafe("tar-checksum", "a header has a wrong checksum")
    if not all(map(_IGNORED.fullmatch, (user, group, time, major, minor))):
        raise unsafe("tar-header", "expected numbers as owner, time and device in a header")
    name = _text(name)
    if kind == _OLD_FILE and magic != _V7:
        kind = _FILE
    if magic.startswith(_POSIX):
        name = _text(prefix) + b"/" + name if _text(prefix) else name
    elif prefix.strip(b"\0") or magic not in (_GNU, _V7):  # in a GNU header it may have the map of a sparse file
        raise unsafe("tar-header", "expected a ustar, GNU or v7 header")
    return _Header(name, _octal(mode, "tar-header"), _size(size), kind)


def _octal(field: bytes, reason: str) -> int:
    match = _OCTAL.fullmatch(field)
    if match is None:
        raise unsafe(reason, f"expected a number in a header, found {quote(field)}")
    return int(match[1], 8)


def _size(field: bytes) -> int:
    """Return a size in octal or, as GNU may write it, in binary after a byte 0x80; negative ones are refused."""
    if field[0] != _BINARY or any(field[1:-_BINARY_BYTES]):
        return _octal(field, "tar-size")
    return int.from_bytes(field[-_BINARY_BYTES:], "big")


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _path(header: _Header, pending: Pending) -> str:
    """Return the path by the header and the headers before it; their sizes must agree."""
    path = decode_name(header.name if pending.name is None else pending.name)
    if pending.size not in (None, b"%d" % header.size):
        raise unsafe("tar-pax", "the pax header has another size than the entry", path)
    return path


def _entry(header: _Header, path: str, stream: Gunzipped) -> Entry:
    folder = header.type == _FOLDER or (header.type == _OLD_FILE and path.endswith("/"))
    if header.type in _LINKS:
        raise unsafe("link", "a skill holds no links", path)
    if header.type not in _PLAIN:
        found = quote(header.type.decode("latin-1"))
        raise unsafe("special-file", f"expected a file or folder, found type {found}", path)
    if path.endswith("/") and not folder:
        raise unsafe("kind-mismatch", "name and type disagree on whether this is a folder", path)
    runs = executable(header.mode, folder=folder, path=path)
    if folder and header.size:
        raise unsafe("folder-data", f"a folder holds {header.size} bytes of data", path)
    if folder:
        return Entry(path.removesuffix("/"), None)
    return Entry(path, File(_body(stream, header.size), runs))


def _body(stream: Gunzipped, size: int) -> bytes:
    """Return the bytes after a header; the stream is read to the end of their last block."""
    body = stream.read(size)
    padding = -size % _BLOCK
    if len(body) < size or len(stream.read(padding)) < padding:
        raise unsafe("tar-size", f"expected {size} bytes after a header, found the end of the tar")
    return body


def _check_end(stream: Gunzipped) -> None:
    """Refuse anything after the end marker but blocks of zeros; this read also checks the gzip CRC."""
    padding = stream.read(_PADDING + 1)
    if len(padding) > _PADDING or len(padding) % _BLOCK or padding.strip(b"\0"):
        raise unsafe("tar-trailing", f"expected at most {_PADDING} zero bytes after the end marker")
