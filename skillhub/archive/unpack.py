"""Archive bytes to a tree, with one function, ``gather``, that checks every entry; and a tree to archive bytes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from skillhub.archive.limits import Entry, Limits, check_path, fold, is_lookalike, unsafe
from skillhub.archive.zip import CENTRAL, CENTRAL_FORM, END, END_FORM, LOCAL, LOCAL_FORM, UTF8, read_zip
from skillhub.errors import FormatError, UnsafeArchive
from skillhub.formats.text import quote
from skillhub.model.tree import DECLARATIONS, SKILL_MD, ArchiveKind, File, Tree, Unpacked

_DEFAULT = Limits()


def gather(entries: Iterable[Entry], limits: Limits = _DEFAULT, wrapper: bool = True) -> Unpacked:
    """Return the tree of these entries, after a check of each; it reads no more entries than the limits allow.

    Litter of macOS (``__MACOSX/``, ``.DS_Store``) is checked, then dropped, as are empty folders.

    Args:
        entries: Files and folders in any order; folders may be missing. Read lazily.
        limits: The limits.
        wrapper: Accept one folder around the skill, with a warning; else the skill must be at the root.

    Raises:
        UnsafeArchive: a reason of the families paths, names, collisions, limits and shape; also the errors of the
            reader behind ``entries``.
    """
    place = _Place(limits)
    files: dict[str, File] = {}
    size = 0
    for entry in entries:
        check_path(entry.path, limits)
        place.put(entry)
        if entry.file is None:
            continue
        size += len(entry.file.data)
        if size > limits.total:
            raise unsafe("too-large", f"a skill has at most {limits.total} bytes unpacked", entry.path)
        if not _is_litter(entry.path):
            files[entry.path] = entry.file
            if len(files) > limits.files:
                raise unsafe("too-many-files", f"a skill has at most {limits.files} files", entry.path)
    return _without_wrapper(files, place.top, wrapper)


@dataclass(slots=True)
class _Folder:
    """Names by their folded form, so that two names which any file system treats as one collide here."""

    names: dict[str, tuple[str, _Folder | None]] = field(default_factory=dict)
    announced: bool = False

    def visible(self) -> Iterator[tuple[str, _Folder | None]]:
        """Yield the names at this level that are no litter."""
        for name, folder in self.names.values():
            if name != (".DS_Store" if folder is None else "__MACOSX"):
                yield name, folder

    def holds_skill(self) -> bool:
        """Return whether ``SKILL.md`` is a file of this folder."""
        return self.names.get(fold(SKILL_MD)) == (SKILL_MD, None)


class _Place:
    """The files and folders of the entries so far; no two entries may have the same place."""

    def __init__(self, limits: Limits) -> None:
        self.top = _Folder()
        self._limits = limits
        self._entries = 0
        self._folders = 0

    def put(self, entry: Entry) -> None:
        """Add an entry, with the folders above it.

        Raises:
            UnsafeArchive: ``collision``, ``file-as-folder``, ``too-many-files``.
        """
        self._entries += 1
        *parents, name = entry.path.split("/")
        folder = self.top
        for parent in parents:
            folder = self._enter(folder, parent, entry.path)
        if entry.file is None:
            folder = self._enter(folder, name, entry.path)
            if folder.announced:
                raise unsafe("collision", "two entries for one folder", entry.path)
            folder.announced = True
        else:
            self._add_file(folder, name, entry.path)
        if max(self._entries, self._folders) > self._limits.entries:
            raise unsafe("too-many-files", f"expected at most {self._limits.entries} files and folders", entry.path)

    def _enter(self, folder: _Folder, name: str, path: str) -> _Folder:
        key = fold(name)
        known = folder.names.get(key)
        if known is None:
            self._folders += 1
            inner = _Folder()
            folder.names[key] = (name, inner)
            return inner
        spelled, subfolder = known
        if subfolder is None:
            raise unsafe("file-as-folder", f"{quote(spelled)} is a file and a folder", path)
        if spelled != name:
            raise _collision(spelled, name, path)
        return subfolder

    def _add_file(self, folder: _Folder, name: str, path: str) -> None:
        key = fold(name)
        if key in folder.names:
            spelled, subfolder = folder.names[key]
            if subfolder is not None and spelled == name:
                raise unsafe("file-as-folder", f"{quote(name)} is a file and a folder", path)
            raise _collision(spelled, name, path)
        folder.names[key] = (name, None)


def _collision(first: str, second: str, path: str) -> UnsafeArchive:
    return unsafe("collision", f"some systems treat {quote(first)} and {quote(second)} as the same name", path)


def _is_litter(path: str) -> bool:
    *parents, name = path.split("/")
    return name == ".DS_Store" or "__MACOSX" in parents


def _without_wrapper(files: dict[str, File], top: _Folder, wrapper: bool) -> Unpacked:
    """Return the files with paths relative to the skill: without the folder around it, if there is one."""
    roots = dict(top.visible())
    warnings: tuple[str, ...] = ()
    if wrapper and len(roots) == 1 and SKILL_MD not in roots:
        ((name, inner),) = roots.items()
        if inner is not None:
            files = {path[len(name) + 1 :]: file for path, file in files.items()}
            roots = dict(inner.visible())
            warnings = (f"all files are in one folder, {quote(name)}: its content is used as the skill",)
    _check_root(roots)
    _check_declarations(files)
    _check_skill_md(files[SKILL_MD].data)
    return Unpacked(Tree(files), warnings)


def _check_root(roots: dict[str, _Folder | None]) -> None:
    for name in roots:
        if is_lookalike(name):
            raise unsafe("name-lookalike", f"{quote(name)} passes for {SKILL_MD}", name)
    if SKILL_MD not in roots:
        if len(roots) > 1 and any(folder and folder.holds_skill() for folder in roots.values()):
            raise unsafe("two-roots", f"expected {SKILL_MD} at the root, found it in one of several folders")
        raise unsafe("no-skill-md", f"expected {SKILL_MD} at the root, found none")
    if roots[SKILL_MD] is not None:
        raise unsafe("skill-md-folder", f"{SKILL_MD} is a folder", SKILL_MD)


def _check_declarations(paths: Iterable[str]) -> None:
    """Refuse a path at which an agent finds declarations where names in two cases are one, and skillhub nowhere."""
    for path in paths:
        if (meant := fold(path)) in DECLARATIONS and path != meant:
            raise unsafe("name-lookalike", f"{quote(path)} passes for {meant}", path)


def _check_skill_md(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise unsafe("skill-md-encoding", f"{SKILL_MD} is not UTF-8 at byte {error.start}", SKILL_MD) from error
    if b"\0" in data:
        raise unsafe("skill-md-nul", f"{SKILL_MD} holds a NUL at byte {data.index(0)}", SKILL_MD)


# Archive bytes to a tree.

_OF_NONE = "download the file again; it may be a web page or an archive of another format"
_OF_UNSAFE = "do not install it; for your own folder, skillhub pack FOLDER makes a valid archive"


def unpack(data: bytes, kind: ArchiveKind, limits: Limits = _DEFAULT, wrapper: bool = True) -> Unpacked:
    """Return the tree in an archive that is unambiguous and safe.

    Args:
        data: The whole archive.
        kind: Its declared kind; it is not guessed from the bytes.
        limits: The limits.
        wrapper: Accept one folder around the skill, with a warning; a registry does not.

    Raises:
        FormatError: the bytes are no zip or gzip at all.
        UnsafeArchive: they are an archive that no honest tool would make.
    """
    if len(data) > limits.stream:
        raise unsafe("too-large", f"expected at most {limits.stream} bytes of archive, found {len(data)}")
    try:
        if kind == "zip":
            entries = read_zip(data, limits)
        else:
            from skillhub.archive.tar import read_tar  # noqa: PLC0415 - few artifacts are tar files

            entries = read_tar(data, limits)
        return gather(entries, limits, wrapper)
    except (FormatError, UnsafeArchive) as error:
        error.hint = error.hint or (_OF_NONE if isinstance(error, FormatError) else _OF_UNSAFE)
        raise


# Trees to archive bytes: the same tree gives the same bytes, and every honest tool reads them.

# The first MS-DOS date, 1980-01-01 00:00:00, and the same in seconds since 1970.
_DOS_DATE: Final = 1 << 5 | 1
_EPOCH: Final = 315_532_800
_VERSION: Final = 20
_MADE_BY_UNIX: Final = 3 << 8 | _VERSION

_BLOCK: Final = 512
_STORED_MAX: Final = 0xFFFF
_GZIP_HEADER: Final = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


def pack(tree: Tree, kind: ArchiveKind = "zip", compress: bool = True) -> bytes:
    """Return an archive that ``unpack`` turns into this tree again, without its litter.

    Args:
        tree: The files, with ``SKILL.md`` at the root.
        kind: The format.
        compress: Use deflate, whose output depends on the build of zlib; else the bytes are the same everywhere.

    Raises:
        UnsafeArchive: ``unpack`` would refuse the tree.
    """
    files = gather((Entry(path, file) for path, file in tree.items()), wrapper=False).tree
    return b"".join(zip_parts(files, compress)) if kind == "zip" else packed_tar(files, compress)


def packed_tar(files: Mapping[str, File], compress: bool = True) -> bytes:
    """Return a gzipped tar with these files, in this order; their names are not checked."""
    return _gzip(b"".join(_tar(files)), compress)


def zip_parts(files: Mapping[str, File], compress: bool = False) -> list[bytes]:
    """Return the pieces of a zip with these files, in this order; their names are not checked."""
    bodies: list[bytes] = []
    directory: list[bytes] = []
    offset = 0
    for path, file in files.items():
        name = path.encode()
        packed = _deflate(file.data) if compress else file.data
        method = zlib.DEFLATED if len(packed) < len(file.data) else 0
        body = packed if method else file.data
        flags = 0 if name.isascii() else UTF8
        crc = zlib.crc32(file.data)
        shared = (_VERSION, flags, method, 0, _DOS_DATE, crc, len(body), len(file.data), len(name), 0)
        bodies += (LOCAL_FORM.pack(LOCAL, *shared), name, body)
        mode = (0o100000 | _mode(file)) << 16
        directory += (CENTRAL_FORM.pack(CENTRAL, _MADE_BY_UNIX, *shared, 0, 0, 0, mode, offset), name)
        offset += LOCAL_FORM.size + len(name) + len(body)
    central = b"".join(directory)
    end = END_FORM.pack(END, 0, 0, len(files), len(files), len(central), offset, 0)
    return [*bodies, central, end]


def _tar(files: Mapping[str, File]) -> Iterator[bytes]:
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
    """Yield deflate blocks of type 0 (RFC 1951, 3.2.4): the flag of the last, length, its complement, the bytes."""
    for start in range(0, len(data), _STORED_MAX):
        piece = data[start : start + _STORED_MAX]
        last = start + _STORED_MAX >= len(data)
        yield Struct("<B2H").pack(last, len(piece), len(piece) ^ 0xFFFF) + piece


def _mode(file: File) -> int:
    return 0o755 if file.executable else 0o644
