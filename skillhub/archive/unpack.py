"""Archive bytes to a tree, and a tree to archive bytes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Final

from skillhub.archive.entries import Entry, Kind, Limits, unsafe
from skillhub.archive.gather import Unpacked, gather
from skillhub.archive.tar import read_tar
from skillhub.archive.zip import read_zip
from skillhub.errors import FormatError, UnsafeArchive
from skillhub.model.tree import File, Tree

# Archive bytes to a tree.

_DEFAULT = Limits()
_OF_NONE = "download the file again; it may be a web page or an archive of another format"
_OF_UNSAFE = "do not install it; for your own folder, skillhub pack FOLDER makes a valid archive"


def unpack(data: bytes, kind: Kind, limits: Limits = _DEFAULT, wrapper: bool = True) -> Unpacked:
    """Return the tree that an archive holds, if there is one way to read it and none of it can do harm.

    Args:
        data: The whole archive.
        kind: What it is said to be; nothing is guessed from the bytes.
        limits: How much may come out.
        wrapper: Accept one folder around the skill, with a warning; a registry does not.

    Raises:
        FormatError: the bytes are no zip or gzip at all.
        UnsafeArchive: they are one that no honest tool would make.
    """
    if len(data) > limits.stream:
        raise unsafe("too-large", f"expected at most {limits.stream} bytes of archive, found {len(data)}")
    try:
        entries = read_zip(data, limits) if kind == "zip" else read_tar(data, limits)
        return gather(entries, limits, wrapper)
    except (FormatError, UnsafeArchive) as error:
        error.hint = error.hint or (_OF_NONE if isinstance(error, FormatError) else _OF_UNSAFE)
        raise


# Trees to archive bytes: the same tree gives the same bytes, and every honest tool reads them.

# What MS-DOS dates begin with, 1980-01-01 00:00:00, and the same in seconds since 1970.
_DOS_DATE: Final = 1 << 5 | 1
_EPOCH: Final = 315_532_800
_VERSION: Final = 20
_MADE_BY_UNIX: Final = 3 << 8 | _VERSION
_UTF8: Final = 1 << 11
_LOCAL: Final = Struct("<4s5H3I2H")
_CENTRAL: Final = Struct("<4s6H3I5H2I")
_END: Final = Struct("<4s4H2IH")

_BLOCK: Final = 512
_STORED_MAX: Final = 0xFFFF
_GZIP_HEADER: Final = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


def pack(tree: Tree, kind: Kind = "zip", compress: bool = True) -> bytes:
    """Return an archive that ``unpack`` turns into this tree again, less the litter in it.

    Args:
        tree: What goes in, ``SKILL.md`` at its root.
        kind: The form.
        compress: Deflate, which differs from one build of zlib to another; without it the bytes are the same
            everywhere.

    Raises:
        UnsafeArchive: the tree holds what ``unpack`` would refuse.
    """
    files = gather((Entry(path, file) for path, file in tree.items()), wrapper=False).tree
    if kind == "zip":
        return b"".join(zip_parts(files, compress))
    tar = b"".join(_tar(files))
    return _gzip(tar, compress)


def zip_parts(files: Mapping[str, File], compress: bool = False) -> list[bytes]:
    """Return the pieces of a zip with these files, in this order; nothing checks their names."""
    bodies: list[bytes] = []
    directory: list[bytes] = []
    at = 0
    for path, file in files.items():
        name = path.encode()
        packed = _deflate(file.data) if compress else file.data
        method = zlib.DEFLATED if len(packed) < len(file.data) else 0
        body = packed if method else file.data
        flags = 0 if name.isascii() else _UTF8
        crc = zlib.crc32(file.data)
        shared = (_VERSION, flags, method, 0, _DOS_DATE, crc, len(body), len(file.data), len(name), 0)
        bodies += (_LOCAL.pack(b"PK\x03\x04", *shared), name, body)
        mode = (0o100000 | _mode(file)) << 16
        directory += (_CENTRAL.pack(b"PK\x01\x02", _MADE_BY_UNIX, *shared, 0, 0, 0, mode, at), name)
        at += _LOCAL.size + len(name) + len(body)
    central = b"".join(directory)
    end = _END.pack(b"PK\x05\x06", 0, 0, len(files), len(files), len(central), at, 0)
    return [*bodies, central, end]


def _tar(files: Tree) -> Iterator[bytes]:
    for path, file in files.items():
        name = path.encode()
        if len(name) > 100 or not name.isascii():
            record = _record(b"path=" + name)
            yield _header(b"PaxHeaders", 0o644, len(record), b"x")
            yield _padded(record)
        yield _header(name[:100], _mode(file), len(file.data), b"0")
        yield _padded(file.data)
    yield bytes(2 * _BLOCK)


def _header(name: bytes, mode: int, size: int, kind: bytes) -> bytes:
    numbers = b"%07o\0%07o\0%07o\0%011o\0%011o\0" % (mode, 0, 0, size, _EPOCH)
    head = name.ljust(100, b"\0") + numbers
    tail = (kind + bytes(100) + b"ustar\x0000").ljust(_BLOCK - len(head) - 8, b"\0")
    checksum = sum(head) + sum(tail) + 8 * ord(" ")
    return head + b"%06o\0 " % checksum + tail


def _record(text: bytes) -> bytes:
    """Return a pax record: its length, which counts its own digits, a space, the text, a line feed."""
    bare = len(text) + 2
    size = bare + len(str(bare))
    size = bare + len(str(size))
    return b"%d %s\n" % (size, text)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _BLOCK)


def _gzip(data: bytes, compress: bool) -> bytes:
    packed = _deflate(data) if compress else b"".join(_stored(data))
    return _GZIP_HEADER + packed + Struct("<2I").pack(zlib.crc32(data), len(data))


def _deflate(data: bytes) -> bytes:
    deflater = zlib.compressobj(zlib.Z_BEST_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


def _stored(data: bytes) -> Iterator[bytes]:
    """Yield deflate blocks of type 0 (RFC 1951, 3.2.4): last or not, length, its complement, the bytes."""
    for at in range(0, len(data), _STORED_MAX):
        piece = data[at : at + _STORED_MAX]
        last = at + _STORED_MAX >= len(data)
        yield Struct("<B2H").pack(last, len(piece), len(piece) ^ 0xFFFF) + piece


def _mode(file: File) -> int:
    return 0o755 if file.executable else 0o644
