"""One file at a time: bounded reads, atomic writes, and the lock between processes."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress

from skillhub.errors import FormatError, LinkLeavesProject, StateError
from skillhub.formats.text import is_segment, quote

# The disk, one file at a time: reads that cannot hang, writes that are complete or do not happen.
# A path inside a project goes through ``inside`` first: a repository may contain links, and none of them may lead a
# read or a write out of the project. The paths that ``inside`` returns have no links, so ``read`` and
# ``write_atomic`` refuse to follow one. A folder may become a link between check and use: every write, rename and
# removal in a project goes through ``HeldFolder.hold``, which opens each folder on the path without following links.
# Every ``OSError`` is raised as a ``StateError`` with the path and a hint.

# A flag that a system lacks is not needed there: Windows has no FIFO that blocks, POSIX no text mode.
CLOEXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
OPEN_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | CLOEXEC
_IN_FOLDER = {os.open, os.mkdir, os.rename, os.rmdir, os.stat, os.symlink, os.unlink}
HAS_HANDLES = os.supports_dir_fd >= _IN_FOLDER and os.scandir in os.supports_fd
# Passing through a folder requires less permission than listing it.
_THROUGH = OPEN_FOLDER | getattr(os, "O_PATH", 0)
READ = os.O_RDONLY | NO_LINK | CLOEXEC
CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | CLOEXEC
_IN_PLACE = "put the folder or file itself there, then run the command again"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)  # as on some network disks
_HINTS = {
    errno.ENOSPC: "free some space on that disk and run the command again",
    errno.EDQUOT: "the quota on that disk is used up; free some space",
    errno.EFBIG: "the file is larger than this system lets a process write",
    errno.EROFS: "that disk is mounted read-only",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "check its owner and its permissions"),
    errno.ENOTDIR: "a file is where a folder should be; move it away",
    errno.ELOOP: "expected no link here; put the file or folder itself there",
    errno.EISDIR: "a folder is where a file should be; move it away",
}


def disk_error(error: OSError, path: str) -> StateError:
    """Return the ``StateError`` for an error of the operating system at ``path``."""
    # `shutil.Error` has a list of all failed copies: source, target and the text of an `OSError`.
    rows = error.args[0] if error.args else None
    text = str(rows[0][-1] if rows and isinstance(rows, list) else error)
    why = error.strerror or quote(text.partition("] ")[2].partition(": ")[0] or text)
    return StateError(f"the disk refuses: {why}", where=path, hint=_HINTS.get(error.errno or 0))


@contextmanager
def disk_errors(path: str) -> Iterator[None]:
    """Raise each ``OSError`` of the block as the ``StateError`` of ``disk_error``."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, path) from error


_KEPT_MODES: dict[int, bool] = {}  # by device, which keeps them or not as long as it is mounted


def keeps_modes(folder: str, dir_fd: int | None = None) -> bool:
    """Return whether files in ``folder`` keep their mode; on exFAT, NTFS or a share all files often have the same.

    A new file tells, which has no name or loses it at once. If none can be made, the answer is True.
    """
    if not hasattr(os, "fchmod"):
        return False
    try:
        device = os.stat(folder, dir_fd=dir_fd).st_dev
        if device not in _KEPT_MODES:
            handle = _nameless(folder, dir_fd)
            try:
                _KEPT_MODES[device] = all(_takes_mode(handle, mode) for mode in (0o600, 0o700))
            finally:
                os.close(handle)
    except OSError:
        return True
    return _KEPT_MODES[device]


def _takes_mode(handle: int, mode: int) -> bool:
    with suppress(OSError):
        os.fchmod(handle, mode)
    return stat.S_IMODE(os.fstat(handle).st_mode) == mode


def _nameless(folder: str, dir_fd: int | None) -> int:
    """Return a new open file without a name."""
    with suppress(OSError):  # not every file system has files without a name
        if without_name := getattr(os, "O_TMPFILE", 0):
            return os.open(folder, without_name | os.O_RDWR | CLOEXEC, 0o600, dir_fd=dir_fd)
    name = os.path.join(folder, f".skillhub-{os.urandom(6).hex()}")
    handle = os.open(name, CREATE, 0o600, dir_fd=dir_fd)
    try:
        os.unlink(name, dir_fd=dir_fd)
    except OSError:
        os.close(handle)
        raise
    return handle


def search_path(environ: Mapping[str, str]) -> str:
    """Return PATH without relative and empty entries, which may lead into a clone with a program of any name."""
    paths = (environ.get("PATH", ""), os.defpath)
    return next(filter(None, (os.pathsep.join(filter(os.path.isabs, each.split(os.pathsep))) for each in paths)), "")


def program(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of a program in ``search_path``; None if there is none.

    By its name alone, Windows would first look for it in the working folder.
    """
    file = f"{name.lower().removesuffix('.exe')}.exe" if os.name == "nt" else name
    paths = (os.path.join(folder, file) for folder in search_path(environ).split(os.pathsep) if folder)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def is_within(path: str, folder: str) -> bool:
    """Return whether a path, with links resolved, is a folder or below it."""
    real, top = os.path.realpath(path), os.path.realpath(folder)
    return real == top or real.startswith(os.path.join(top, ""))


def inside(root: str, relative: str) -> str:
    """Return the path of ``relative`` (``/`` between segments) below ``root``, without links.

    Links that stay inside are resolved; missing components are kept. ``root`` itself is not checked.

    Raises:
        LinkLeavesProject: a component is ``..``, or a link that leads out of ``root`` or into ``.git``.
        StateError: a component cannot be read.
    """
    segments = relative.split("/")
    if not all(map(is_segment, segments)):
        raise LinkLeavesProject(f"expected a plain path below the project, found {quote(relative)}", where=root)
    path = root
    for position, segment in enumerate(segments, 1):
        path = os.path.join(path, segment)
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return os.path.join(path, *segments[position:])
        except OSError as error:
            raise disk_error(error, path) from error
        if _is_link(status):
            return _resolved(root, path, segments[position:])
    return path


class HeldFolder:
    """A folder that is opened once; operations below it stay in that folder and follow no link.

    Between the check of a path and its use, each folder on the path, and each above the project, can become a link.
    So the path is opened again from the open folder, name by name. On a system that cannot open folders, every name
    is checked again immediately before the use.

    Args:
        path: The folder; None is the root of the file system, for paths without any link.
        handle: The open folder, if the caller has opened it; this object closes it.
    """

    def __init__(self, path: str | None, handle: int | None = None) -> None:
        self.path, self._handle = path, handle

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        """Close the folder, even if the interpreter exits and modules are gone already."""
        if self._handle is not None:
            close(self._handle)

    def __reduce__(self) -> tuple[type[HeldFolder], tuple[str | None]]:
        """Return how to copy this object: a copy opens the folder again, since two would close one handle."""
        return HeldFolder, (self.path,)

    def open(self) -> None:
        """Open the folder now if it exists; otherwise it is opened at first use."""
        with suppress(OSError):
            self._opened()

    def covers(self, path: str) -> bool:
        """Return whether ``path``, by its text alone, is below this folder."""
        return path.startswith(self._top(path))

    def parent(self) -> HeldFolder | None:
        """Return the present parent folder on the disk; None for the root of the file system.

        Raises:
            OSError: it cannot be opened.
        """
        path = os.path.realpath(self.path or os.sep)
        above = os.path.dirname(path)
        if above == path:
            return None
        return HeldFolder(above, os.open("..", _THROUGH, dir_fd=self._opened()) if HAS_HANDLES else None)

    @contextmanager
    def hold(self, path: str, *, make: bool = False) -> Iterator[tuple[str, int | None]]:
        """Yield the name of ``path`` in its folder, and the open folder as ``dir_fd``, for functions of ``os``.

        Args:
            path: Absolute, below this folder, and without links when it was checked.
            make: Whether to make missing folders on the path.

        Raises:
            LinkLeavesProject: a folder on the path has become a link.
            StateError: another folder has replaced this one.
            OSError: a folder is missing, or the disk refuses.
        """
        *folders, name = self._names(path)
        if not HAS_HANDLES:
            self._look(path, folders, make)
            yield path, None
            return
        if make and self._handle is None and self.path is not None:
            os.makedirs(self.path, exist_ok=True)
        at = top = self._opened()
        try:
            for position, each in enumerate(folders):
                try:
                    inner = _into(each, at, make)
                except OSError as error:
                    if is_link(each, at):
                        raise _replaced_by_link(os.sep.join(path.split(os.sep)[: position - len(folders)])) from error
                    raise
                if at != top:
                    os.close(at)
                at = inner
            yield name, at
        finally:
            if at != top:
                os.close(at)

    def _top(self, path: str) -> str:
        top = os.path.splitdrive(path)[0] if self.path is None else self.path
        return top.rstrip(os.sep) + os.sep

    def _names(self, path: str) -> list[str]:
        below = path.removeprefix(self._top(path)).replace(os.altsep or os.sep, os.sep)
        names = [name for name in below.split(os.sep) if name]
        if not self.covers(path) or not names or not {os.curdir, os.pardir}.isdisjoint(names):
            raise LinkLeavesProject("expected a plain path below the project", where=path)
        return names

    def _opened(self) -> int:
        """Return the open folder; raise if its path now leads to another folder."""
        if self.path is None:
            if self._handle is None:
                self._handle = os.open(os.sep, _THROUGH)
        elif self._handle is None:
            self._handle = os.open(self.path, _THROUGH & ~getattr(os, "O_NOFOLLOW", 0))
        elif not os.path.samestat(os.fstat(self._handle), os.stat(self.path)):
            raise StateError("the folder was replaced meanwhile", where=self.path, hint="run the command again")
        return self._handle

    def _look(self, path: str, folders: list[str], make: bool) -> None:
        for _ in range(1 + make):
            each = self._top(path)
            for name in folders:
                each = os.path.join(each, name)
                with suppress(FileNotFoundError):
                    if _is_link(os.lstat(each)):
                        raise _replaced_by_link(each)
            if make:
                os.makedirs(each, exist_ok=True)
        os.lstat(each)


MACHINE = HeldFolder(None)


def is_link(path: str, at: int | None = None) -> bool:
    """Return whether ``path``, in the open folder ``at`` if given, is a symbolic link, or a junction of Windows."""
    try:
        return _is_link(os.lstat(path, dir_fd=at))
    except OSError:
        return False


def _into(name: str, at: int, make: bool) -> int:
    """Open the folder ``name`` in the folder ``at``; with ``make``, create it if it is missing."""
    try:
        return os.open(name, _THROUGH, dir_fd=at)
    except FileNotFoundError:
        if not make:
            raise
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=at)
        return os.open(name, _THROUGH, dir_fd=at)


def _replaced_by_link(path: str) -> LinkLeavesProject:
    return LinkLeavesProject("a link is where a folder was", where=path, hint=_IN_PLACE)


def names_in(folder: str) -> list[str]:
    """Return the sorted names in a folder; none if it does not exist or is no folder.

    Raises:
        StateError: the folder cannot be read.
    """
    with disk_errors(folder), suppress(FileNotFoundError, NotADirectoryError):
        return sorted(os.listdir(folder))
    return []


def read(path: str, limit: int, *, root: HeldFolder | None = None) -> bytes | None:
    """Return the bytes of the regular file at ``path``, at most ``limit`` of them; None if nothing exists there.

    ``root`` is the held folder that the path must not leave.

    Raises:
        FormatError: the file has more than ``limit`` bytes.
        StateError: the path is a link, a folder, a pipe or a device, or the disk refuses.
    """
    if root is None:
        return _read_in(path, None, limit, path)
    with disk_errors(path):
        try:
            with root.hold(path) as (name, at):
                return _read_in(name, at, limit, path)
        except FileNotFoundError:
            return None


def read_linked(path: str, limit: int) -> bytes | None:
    """Return the bytes of a file of the user or the machine, which may be a link; None if nothing exists there.

    Raises:
        FormatError: the file has more than ``limit`` bytes.
        StateError: a link leads nowhere, so that the content is unknown; or as for ``read``.
    """
    data = read(os.path.realpath(path), limit)
    for each in (path, os.path.dirname(path)) if data is None else ():
        if os.path.islink(each) and not os.path.exists(each):
            message = "expected a file, found a link that leads nowhere"
            raise StateError(message, where=each, hint="restore its target, or remove it")
    return data


def _read_in(name: str, at: int | None, limit: int, path: str) -> bytes | None:
    try:
        handle = _open(name, READ, at=at)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise StateError("expected a file, found a folder, pipe or device", where=path)
            data = _read_all(handle, limit + 1, status.st_size)
        finally:
            os.close(handle)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise disk_error(error, path) from error
    if len(data) > limit:
        raise FormatError(f"expected at most {limit} bytes, found more", where=path)
    return data


def write_atomic(
    path: str, data: bytes, *, mode: int | None = None, sync: bool = True, root: HeldFolder | None = None
) -> None:
    """Replace the content of ``path`` by ``data``; a reader sees the whole old file or the whole new one.

    Missing parent folders are made. A link at ``path`` is replaced, never followed; a pipe or device stays.

    Args:
        path: The path of the file.
        data: All of its bytes.
        mode: Its permission bits; None keeps those of the old file, or leaves them to the umask.
        sync: Whether the bytes are on the disk before this returns; False is for files that can be made again,
            since after a power cut the file may be empty.
        root: The held folder that the path must not leave; None for a file of skillhub's own.

    Raises:
        LinkLeavesProject: a folder on the path has become a link.
        StateError: the disk refuses; the old file is unchanged and no temporary file is left.
    """
    with _staged(path, data, mode, sync, root) as (temporary, name, at):
        _rename(temporary, name, at, sync)


def swap(
    path: str, before: bytes | None, after: bytes, *, mode: int | None = None, root: HeldFolder | None = None
) -> bool:
    """Do ``write_atomic`` if ``path`` still holds ``before`` (None: no file); return whether it did.

    For files that other programs write too, without our locks: the comparison is the last step before the rename.

    Raises:
        LinkLeavesProject: a folder on the path has become a link.
        StateError: the disk refuses; the old file is unchanged and no temporary file is left.
    """
    with _staged(path, after, mode, True, root) as (temporary, name, at):
        try:
            same = _read_in(name, at, len(before or b""), path) == before
        except FormatError:
            same = False
        if same:
            _rename(temporary, name, at, sync=True)
    return same


def _is_link(status: os.stat_result) -> bool:
    # A junction of Windows has no S_IFLNK, but is a reparse point as a link is.
    return stat.S_ISLNK(status.st_mode) or bool(getattr(status, "st_reparse_tag", 0))


def _resolved(root: str, link: str, rest: list[str]) -> str:
    """Return the path below ``root`` to which ``link`` and ``rest`` resolve; raise if that leads out of ``root``."""
    with disk_errors(link):
        top, real = os.path.realpath(root), os.path.realpath(os.path.join(link, *rest))
        relative = "" if real == top else real.removeprefix(top.rstrip(os.sep) + os.sep)
        if relative == real:
            raise LinkLeavesProject(f"a link leads out of the project, to {quote(real)}", where=link, hint=_IN_PLACE)
        # A skill called `hooks` behind a link to `.git` would be run by git.
        if ".git" in relative.lower().split(os.sep):
            raise LinkLeavesProject("a link leads into .git", where=link, hint=_IN_PLACE)
        with suppress(FileNotFoundError):
            os.stat(real)  # raises ELOOP for a cycle of links
    return os.path.join(root, relative) if relative else root


def _open(path: str, flags: int, mode: int = 0o666, *, at: int | None = None) -> int:
    try:
        return os.open(path, flags, mode, dir_fd=at)
    except ValueError as error:
        raise StateError("expected a path, found a NUL byte in it", where=quote(path)) from error


def create(path: str, flags: int, mode: int) -> int:
    """Open a file; with ``O_CREAT`` in ``flags``, create it, and its folders too.

    Raises:
        StateError: a NUL byte is in the path.
        OSError: the disk refuses.
    """
    try:
        return _open(path, flags, mode)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return _open(path, flags, mode)


def _read_all(handle: int, limit: int, size: int) -> bytes:
    parts, missing = [], limit
    piece = max(size + 1, 4096)  # a read allocates what it asks for: that takes longer than to read a small file
    while missing and (part := os.read(handle, min(missing, piece))):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


@contextmanager
def _staged(
    path: str, data: bytes, mode: int | None, sync: bool, root: HeldFolder | None
) -> Iterator[tuple[str, str, int | None]]:
    """Write ``data`` to a temporary file beside ``path``, and remove that at the end unless it was renamed."""
    held = nullcontext((path, None)) if root is None else root.hold(path, make=True)
    with disk_errors(path), held as (name, at):
        temporary = os.path.join(os.path.dirname(name), f".skillhub-{os.urandom(8).hex()}.tmp")
        there = _mode_of(name, at, path)
        mode = there if mode is None else mode
        # Never more permissive than the final mode, not even before fchmod: the content may be secret.
        first = 0o666 if mode is None else mode & 0o600
        handle = create(temporary, CREATE, first) if at is None else _open(temporary, CREATE, first, at=at)
        try:
            fill(handle, data, mode, sync)
            yield temporary, name, at
        finally:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=at)


def fill(handle: int, data: bytes, mode: int | None, sync: bool) -> None:
    """Write a new file, opened by ``CREATE``, and close it."""
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(handle, left) :]
        if mode is not None and sys.platform != "win32":
            os.fchmod(handle, mode)
        if sync:
            os.fsync(handle)
    finally:
        os.close(handle)


def status_of(name: str, at: int | None) -> os.stat_result | None:
    """Return the status of a file, a folder or a link in an open folder; None if there is none."""
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _mode_of(name: str, at: int | None, path: str) -> int | None:
    if (status := status_of(name, at)) is None:
        return None
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or _is_link(status)):
        raise StateError("expected a file, found a pipe or device", where=path)  # root could replace /dev/null
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None


def _rename(temporary: str, name: str, at: int | None, sync: bool) -> None:
    os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
    if sync and sys.platform != "win32":
        # The new file exists already; some network disks cannot sync a folder, which is no failure.
        with suppress(OSError):
            handle = os.open(os.path.dirname(name) or ".", os.O_RDONLY | os.O_DIRECTORY | CLOEXEC, dir_fd=at)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


# The lock between processes.

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


_TELL_AFTER = 1.0  # seconds
_LOCK = os.O_RDWR | os.O_CREAT | NO_LINK | CLOEXEC


@contextmanager
def lock(path: str, *, timeout: float = 60.0, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock file at ``path`` against every other process and thread of this machine.

    The system releases the lock when its holder dies, so an old lock file is harmless. The file is never removed:
    a process could then hold the lock of a file without a name. Not reentrant.
    ``waiting`` is called once, when the wait takes longer than a second.

    Raises:
        StateError: another process held it for ``timeout`` seconds, or the disk refuses.
    """
    # Written by hand: the package `filelock` takes 40 ms to import.
    with disk_errors(path):
        handle = create(path, _LOCK, 0o600)
    try:
        began = time.monotonic()
        while not _try_lock(handle, path):
            waited = time.monotonic() - began
            if waited >= timeout:
                message = f"another skillhub process has been running for more than {timeout:g} s"
                raise StateError(message, where=path, hint="wait for it to end, or end it, and run the command again")
            if waiting is not None and waited >= _TELL_AFTER:
                waiting()
                waiting = None
            time.sleep(0.02)
        try:
            yield
        finally:
            _unlock(handle)
    finally:
        os.close(handle)


if sys.platform == "win32":

    def _try_lock(handle: int, path: str) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(handle: int) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:

    def _try_lock(handle: int, path: str) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise disk_error(error, path) from error
            message = "this disk cannot lock files, so two commands could change the same file at once"
            raise StateError(message, where=path, hint="use another disk; SKILLHUB_HOME names its folder") from error
        return True

    def _unlock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)
