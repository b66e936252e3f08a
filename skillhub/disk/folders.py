"""Trees on disk: written, walked, compared, removed, without following any link inside."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import ELOOP
from functools import cache, cached_property
from hashlib import sha256
from typing import TypeAlias

from skillhub.disk import files
from skillhub.disk.files import CLOEXEC, CREATE, HAS_HANDLES, NO_LINK, OPEN_FOLDER, READ, HeldFolder
from skillhub.errors import StateError, UnsafeArchive
from skillhub.model.tree import File, ListedFile, Listing, Tree

if sys.platform != "win32":
    import fcntl

_HAS_JUNCTIONS = os.name == "nt"
# ioctl_ficlone(2) of Linux; it fails at the first file on file systems that lack it.
_FICLONE = 0x40049409 if sys.platform == "linux" else 0

_DEEPEST = 100  # the depth of a path that ``one_look`` resolves folder by folder

LARGEST = 64 << 20  # bytes; every file of a skill is smaller

FileBits: TypeAlias = Mapping[str, File | ListedFile]


@dataclass(frozen=True, slots=True)
class TreeProblem:
    """One difference between a folder and its listing: a stable code, the path, a sentence."""

    code: str
    path: str
    message: str


def write_tree(
    folder: str, content: Iterable[tuple[str, File]], *, read_only: bool, dir_fd: int | None = None
) -> None:
    """Write files below ``folder``, which must not exist yet; modes do not depend on the umask.

    ``read_only`` is about the files; the owner can still remove the folders.

    Raises:
        OSError: an error of the system; the caller removes the files written so far.
    """
    with _NewFolder(folder, dir_fd) as new:
        for path, file in content:
            mode = (0o555 if file.executable else 0o444) if read_only else (0o755 if file.executable else 0o644)
            name, at = new.place(path)
            write_file(name, file.data, mode, at)


def clone_tree(source: str, folder: str, tree: Tree, dir_fd: int | None = None) -> bool:
    """Write ``tree`` to ``folder`` as reflinks of the files in ``source``; return whether that was possible.

    If not (another file system, or ``source`` is damaged), ``folder`` does not exist afterwards. Each cloned file is
    hashed, so the copy is ``tree`` even if ``source`` changes meanwhile.
    """
    if not _FICLONE:
        return False
    try:
        with _NewFolder(folder, dir_fd) as new:
            for path, file in tree.items():
                name, at = new.place(path)
                mode = 0o755 if file.executable else 0o644
                if _clone_file(f"{source}/{path}", name, mode, at) != tree.listing[path].sha256:
                    raise OSError(f"{source}/{path} differs from the stored file")
    except OSError:
        remove_tree(folder, dir_fd)
        return False
    return True


class _NewFolder:
    """A new folder and the folders below it; each is opened without following links, so that none leads out."""

    def __init__(self, folder: str, dir_fd: int | None) -> None:
        os.mkdir(folder, 0o755, dir_fd=dir_fd)
        self._folder = folder
        self._made = {""}
        self._top = os.open(folder, OPEN_FOLDER, dir_fd=dir_fd) if HAS_HANDLES else None
        self._last = "", self._top

    def __enter__(self) -> _NewFolder:
        return self

    def __exit__(self, *raised: object) -> None:
        self._leave(self._last[1])
        if self._top is not None:
            os.close(self._top)

    def place(self, path: str) -> tuple[str, int | None]:
        """Return path and ``dir_fd`` of this file for functions of ``os``; make its folders."""
        parent, _, name = path.rpartition("/")
        at = self._at(parent)
        return (name, at) if at is not None else (f"{self._folder}/{path}", None)

    def _at(self, parent: str) -> int | None:
        """Return this folder, opened; make it and the folders on its path."""
        if parent == self._last[0]:
            return self._last[1]
        path, at = "", self._top
        try:
            for name in parent.split("/") if parent else ():
                path = f"{path}/{name}" if path else name
                if path not in self._made:
                    os.mkdir(name if at is not None else f"{self._folder}/{path}", 0o755, dir_fd=at)
                    self._made.add(path)
                if at is not None:
                    inner = os.open(name, OPEN_FOLDER, dir_fd=at)
                    self._leave(at)
                    at = inner
        except OSError:
            self._leave(at)
            raise
        self._leave(self._last[1])
        self._last = parent, at
        return at

    def _leave(self, at: int | None) -> None:
        if at is not None and at != self._top:
            os.close(at)


def _clone_file(source: str, path: str, mode: int, dir_fd: int | None) -> str:
    """Write a file that shares the blocks of ``source``, and return the SHA-256 of its bytes."""
    read = os.open(source, READ)
    try:
        write = os.open(path, CREATE, mode, dir_fd=dir_fd)
        try:
            fcntl.ioctl(write, _FICLONE, read)
            os.fchmod(write, mode)
            hashed = sha256()
            while part := os.read(write, 1 << 20):
                hashed.update(part)
            return hashed.hexdigest()
        finally:
            os.close(write)
    finally:
        os.close(read)


def write_file(path: str, data: bytes, mode: int, dir_fd: int | None = None) -> None:
    """Write a file that must not exist yet.

    Raises:
        OSError: an error of the system; the caller removes an incomplete file.
    """
    files.fill(os.open(path, CREATE, mode, dir_fd=dir_fd), data, mode, sync=False)


class ExecuteBits:
    """The execute bits of the files below a folder.

    Many file systems keep none, such as exFAT, NTFS and shares of other systems: there all files have the bit, or
    none has. Whether this one does is looked up only if a bit differs from the expected one.

    Args:
        folder: The folder.
        expected: Files with the bits that count where the file system keeps none; other files have none there.
        dir_fd: The open folder that contains ``folder``.
    """

    def __init__(self, folder: str, expected: FileBits, dir_fd: int | None = None) -> None:
        self._folder, self._expected, self._dir_fd = folder, expected, dir_fd

    @cached_property
    def are_kept(self) -> bool:
        """Whether the file system keeps the bits."""
        above = os.path.dirname(self._folder) if self._dir_fd is None else ""
        return files.keeps_modes(above or ".", self._dir_fd)

    def of(self, path: str, found: bool) -> bool:
        """Return the bit of the file at ``path``, of which the system says that it is ``found``."""
        file = self._expected.get(path)
        expected = file is not None and file.executable
        return found if found == expected or self.are_kept else expected


def walk(
    folder: str, *, largest: int, skip: str | None = None, dir_fd: int | None = None, like: FileBits | None = None
) -> Iterator[tuple[str, File | None]]:
    """Yield path and file of every file below ``folder``, and path and None of every other entry that is no folder.

    Args:
        folder: The top; its path may contain links.
        largest: The maximum bytes of a single file.
        skip: A name to leave out at every depth.
        dir_fd: The open folder that contains ``folder``; then neither ``folder`` nor a folder below it may be a link.
        like: The files whose execute bits count where the file system keeps none.

    Raises:
        OSError: an entry cannot be read.
        UnsafeArchive: a file is larger than ``largest``.
    """
    bits = ExecuteBits(folder, like or {}, dir_fd)
    if dir_fd is not None:
        yield from _walk_open(folder, largest, skip, dir_fd, bits)
        return
    for path, row in entries_below(folder, [skip] if skip else ()):
        read = _read(f"{folder}/{path}", path, largest) if row.is_file(follow_symlinks=False) else None
        yield path, File(read[0], bits.of(path, read[1])) if read else None


def _walk_open(
    folder: str, largest: int, skip: str | None, dir_fd: int, bits: ExecuteBits
) -> Iterator[tuple[str, File | None]]:
    top = os.open(folder, OPEN_FOLDER, dir_fd=dir_fd)
    try:
        waiting: list[tuple[str, ...]] = [()]
        while waiting:
            names = waiting.pop()
            at = _open_below(top, names)
            try:
                with os.scandir(at) as rows:
                    for row in (each for each in rows if each.name != skip):
                        if row.is_dir(follow_symlinks=False):
                            waiting.append((*names, row.name))
                            continue
                        path = "/".join((*names, row.name))
                        is_file = row.is_file(follow_symlinks=False)
                        read = _read(row.name, path, largest, at) if is_file else None
                        yield path, File(read[0], bits.of(path, read[1])) if read else None
            finally:
                os.close(at)
    finally:
        os.close(top)


def _open_below(top: int, names: tuple[str, ...]) -> int:
    """Open a folder below an open one, each folder on the path without following links."""
    at = os.dup(top) if not names else top
    for position, name in enumerate(names):
        try:
            inner = os.open(name, OPEN_FOLDER, dir_fd=at)
        finally:
            if position:
                os.close(at)
        at = inner
    return at


def entries_below(folder: str, skipped: Collection[str] = ()) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield every entry below ``folder`` that is no folder, after its path; leave out the names of ``skipped``."""
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(f"{folder}/{prefix}" if prefix else folder) as rows:
            for row in rows:
                if row.name in skipped:
                    continue
                if row.is_dir(follow_symlinks=False) and not (_HAS_JUNCTIONS and files.is_link(row.path)):
                    waiting.append(f"{prefix}{row.name}/")
                else:
                    yield prefix + row.name, row


def _read(full: str, path: str, largest: int, dir_fd: int | None = None) -> tuple[bytes, bool] | None:
    """Return the bytes of a regular file and whether it is executable; None if it is no regular file any more."""
    handle = os.open(full, READ, dir_fd=dir_fd)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return None
        size = status.st_size
        if size <= largest:
            # Read the exact size and one byte more: a large buffer doubles the time for many small files.
            data = os.read(handle, size + 1)
            while size != len(data) <= largest:  # the file grew or shrank, or one read did not return all of it
                size = len(data)
                data += os.read(handle, 1 << 20)
            size = len(data)
        if size > largest:
            raise UnsafeArchive("too-large", f"expected at most {largest} bytes, found {size}", where=path)
    finally:
        os.close(handle)
    return data, bool(status.st_mode & 0o100)


def list_folder(folder: str, like: FileBits | None = None) -> Listing | None:
    """Return the listing of ``folder``, or None if it contains an entry that no skill may contain.

    ``like`` has the execute bits that count where the file system keeps none.
    """
    rows = []
    with suppress(UnsafeArchive):
        for path, file in walk(folder, largest=LARGEST, like=like):
            if file is None:
                return None
            rows.append((path, ListedFile(sha256(file.data).hexdigest(), file.executable)))
        return Listing(rows)
    return None


def listing_of(path: str, like: FileBits | None = None) -> Listing | None:
    """Return ``list_folder`` of a place; None if it is no folder.

    Raises:
        StateError: it cannot be read.
    """
    with files.disk_errors(path):
        return list_folder(path, like) if os.path.isdir(path) else None


def compare(folder: str, listing: Listing) -> list[TreeProblem]:
    """Hash every byte below ``folder`` and return its differences from ``listing``; empty means equal."""
    problems, bits = [], ExecuteBits(folder, listing)
    missing = dict(listing)
    try:
        for path, row in entries_below(folder):
            expected = missing.pop(path, None)
            if problem := _difference(f"{folder}/{path}", row.is_file(follow_symlinks=False), expected, bits):
                problems.append(TreeProblem(problem[0], f"{folder}/{path}", problem[1]))
    except OSError as error:
        problems.append(TreeProblem("unreadable", folder, f"cannot be read: {error.strerror}"))
        return problems
    problems += [TreeProblem("missing-file", f"{folder}/{path}", "the file is gone") for path in missing]
    return sorted(problems, key=lambda problem: problem.path)


def _difference(full: str, is_file: bool, expected: ListedFile | None, bits: ExecuteBits) -> tuple[str, str] | None:
    if is_file and expected is None:
        return "extra-file", "a file that is not in the lock"
    try:
        found = _read(full, full, LARGEST) if is_file else None
    except UnsafeArchive as error:
        return "changed-file", error.message
    if found is None or expected is None:
        return "not-a-file", "neither a file nor a folder"
    data, executable = found
    actual = sha256(data).hexdigest()
    if actual != expected.sha256:
        return "changed-file", f"expected sha256 {expected.sha256[:12]}…, found {actual[:12]}…"
    if executable != expected.executable and bits.are_kept:
        return "changed-mode", "the execute bit was " + ("taken away" if expected.executable else "set")
    return None


def one_look() -> Callable[[str], str]:
    """Return an ``os.path.realpath`` that reads each folder once, for immediate comparisons; do not keep it."""
    if os.name != "posix":
        return cache(os.path.realpath)

    @cache
    def real(path: str) -> str:
        above, name = os.path.split(path)
        if name in ("", ".", "..") or "\0" in path or path.count("/") > _DEEPEST:
            return os.path.realpath(path)
        place = os.path.join(real(above), name)
        return os.path.realpath(place) if os.path.islink(place) else place

    return real


def move_tree(folder: str, to: str, dir_fd: int | None, to_dir_fd: int | None) -> None:
    """Move a folder, file or link to a path in another folder; a folder may be read-only, which prevents a rename.

    Raises:
        OSError: it cannot be moved.
    """
    try:
        os.rename(folder, to, src_dir_fd=dir_fd, dst_dir_fd=to_dir_fd)
    except PermissionError:
        _permit(folder, dir_fd)
        os.rename(folder, to, src_dir_fd=dir_fd, dst_dir_fd=to_dir_fd)


UNFINISHED_FILE = re.compile(r"\.skillhub-[0-9a-f]{16}\.tmp")  # as ``files.write_atomic`` names it


@contextmanager
def swept(top: str) -> Iterator[None]:
    """Work in a folder that the caller has locked; first remove what a killed process did not finish there."""
    begun, root = os.path.join(top, ".begun"), HeldFolder(top)
    for folder, _, _ in os.walk(top) if os.path.lexists(begun) else ():
        remove_unfinished(folder, root)
    with suppress(StateError):  # a folder that cannot be written gets no unfinished file
        append(begun, "", root)
    try:
        yield
    finally:
        with suppress(OSError):
            os.remove(begun)


def remove_unfinished(folder: str, root: HeldFolder) -> None:
    """Remove the files in a folder that killed processes did not finish, as far as the disk allows it."""
    with suppress(StateError):
        for name in filter(UNFINISHED_FILE.fullmatch, files.names_in(folder)):
            remove_below(os.path.join(folder, name), root)


def append(path: str, text: str, root: HeldFolder) -> None:
    """Add a text to a file below ``root`` that may be missing; raises as ``remove_below``, also for a link."""
    with files.disk_errors(path), root.hold(path, make=True) as (name, at):
        handle = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_LINK | CLOEXEC, dir_fd=at)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(text)


def remove_below(path: str, root: HeldFolder) -> None:
    """Remove a file that may be missing, and then the folders above it that are empty, up to ``root``.

    Raises:
        LinkLeavesProject: a folder on the path has become a link.
        StateError: the disk refuses.
    """
    with files.disk_errors(path), suppress(FileNotFoundError), root.hold(path) as (name, at):
        os.remove(name, dir_fd=at)
    with suppress(OSError):
        while (path := os.path.dirname(path)) != root.path:
            with root.hold(path) as (name, at):
                os.rmdir(name, dir_fd=at)


def remove_tree(folder: str, dir_fd: int | None = None) -> None:
    """Remove ``folder``, if it exists, and all below it, read-only or not; links are removed, not followed.

    Raises:
        OSError: an entry cannot be removed, or was replaced meanwhile.
    """
    try:
        status = os.stat(folder, dir_fd=dir_fd, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode) or getattr(status, "st_reparse_tag", False):
            os.unlink(folder, dir_fd=dir_fd)
            return
    except FileNotFoundError:
        return
    if not HAS_HANDLES:
        _remove_by_path(folder)
        return
    _empty(folder, dir_fd)
    os.rmdir(folder, dir_fd=dir_fd)


def _empty(folder: str, dir_fd: int | None) -> None:
    """Remove the contents of a folder, through open folders only, so that no link leads elsewhere."""
    # With a list, not by recursion, and one open folder at a time: an attacker may have nested folders deeper than
    # the limits of both. The way back is `..`, if that is still the folder before.
    at = _enter(folder, dir_fd)
    above: list[tuple[str, os.stat_result, list[str]]] = []
    try:
        waiting = _without_files(at)
        while waiting or above:
            if waiting:
                name, was = waiting.pop(), os.fstat(at)
                inner = _enter(name, at)
                above.append((name, was, waiting))
                os.close(at)
                at = inner
                waiting = _without_files(at)
                continue
            name, was, waiting = above.pop()
            outer = os.open("..", OPEN_FOLDER, dir_fd=at)
            os.close(at)
            at = outer
            if not os.path.samestat(was, os.fstat(at)):
                raise OSError(ELOOP, "a folder was moved away while it was removed", name)
            os.rmdir(name, dir_fd=at)
    finally:
        os.close(at)


def _without_files(at: int) -> list[str]:
    """Remove all entries but folders from an open folder, and return the names of its folders."""
    folders = []
    with os.scandir(at) as rows:
        for row in rows:
            if row.is_dir(follow_symlinks=False):
                folders.append(row.name)
            else:
                os.unlink(row.name, dir_fd=at)
    return folders


def _enter(name: str, dir_fd: int | None) -> int:
    """Open a folder to empty, whatever its mode, and make it writable for its owner."""
    try:
        handle = os.open(name, OPEN_FOLDER, dir_fd=dir_fd)
    except PermissionError:
        _permit(name, dir_fd)
        handle = os.open(name, OPEN_FOLDER, dir_fd=dir_fd)
    with suppress(PermissionError):
        if os.fstat(handle).st_mode & 0o700 != 0o700:
            os.fchmod(handle, 0o755)
    return handle


def _permit(name: str, dir_fd: int | None) -> None:
    """Give the owner all permissions on a folder; do not follow a link."""
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, 0o755, dir_fd=dir_fd, follow_symlinks=False)
        return
    handle = os.open(name, OPEN_FOLDER | getattr(os, "O_PATH", 0), dir_fd=dir_fd)
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o755)
    finally:
        os.close(handle)


def _remove_by_path(folder: str) -> None:
    waiting, emptied = [folder], []
    while waiting:
        if files.is_link(waiting[-1]):
            raise OSError(ELOOP, "a folder became a link while it was removed", waiting[-1])
        emptied.append(waiting.pop())
        with suppress(PermissionError):
            os.chmod(emptied[-1], 0o755)
        with os.scandir(emptied[-1]) as rows:
            for row in rows:
                # Python 3.11 reports a junction as a folder; its target is not ours to remove.
                if row.is_dir(follow_symlinks=False) and not files.is_link(row.path):
                    waiting.append(row.path)
                else:
                    os.unlink(row.path)
    for each in reversed(emptied):
        os.rmdir(each)
