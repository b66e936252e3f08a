"""The disk, one file at a time: reads that cannot hang, writes that are whole or did not happen.

A path inside a project goes through ``inside`` first: a repository may bring links, and none of them may lead
a read or a write out of it. What ``inside`` returns names no link, so ``read`` and ``write_atomic`` refuse to
follow one. Every ``OSError`` leaves here as a ``StateError`` that names the path and says what can be done.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from skillhub.errors import FormatError, LinkLeavesProject, StateError
from skillhub.model.text import is_segment, quote

# What is absent on a system is not needed there: Windows has no FIFO to hang on, POSIX no text mode.
CLOEXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_READ = os.O_RDONLY | NO_LINK | CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOEXEC
_HINTS = {
    errno.ENOSPC: "free some space on that disk and run the command again",
    errno.EDQUOT: "the quota on that disk is used up; free some space",
    errno.EFBIG: "the file is larger than this system lets a process write",
    errno.EROFS: "that disk is mounted read-only",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "check who owns it and who may use it"),
    errno.ENOTDIR: "a file is where a folder should be; move it away",
    errno.ELOOP: "it is a link where none may be; put the thing itself there",
    errno.EISDIR: "a folder is where a file should be; move it away",
}


def disk_error(error: OSError, path: str) -> StateError:
    """Return the ``StateError`` that tells a person what the operating system found wrong at ``path``."""
    # `shutil` tells of all that it could not copy: a list of from where, to where, and the words of an `OSError`.
    rows = error.args[0] if error.args else None
    said = str(rows[0][-1] if rows and isinstance(rows, list) else error)
    why = error.strerror or quote(said.partition("] ")[2].partition(": ")[0] or said)
    return StateError(f"the disk refused: {why}", where=path, hint=_HINTS.get(error.errno or 0))


@contextmanager
def disk_errors(path: str) -> Iterator[None]:
    """Raise an ``OSError`` from within as the ``StateError`` that ``disk_error`` makes of it."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, path) from error


def inside(root: str, relative: str) -> str:
    """Return the path that ``relative`` (``/`` between segments) names below ``root``, free of links.

    Links that stay inside are followed; what does not exist yet is no link. ``root`` is taken as it is.

    Raises:
        LinkLeavesProject: a component is ``..``, or a link to somewhere else or into ``.git``.
        StateError: a component cannot be looked at.
    """
    segments = relative.split("/")
    if not all(map(is_segment, segments)):
        raise LinkLeavesProject(
            f"expected a plain path below the project, found {quote(relative)}", where=root
        )
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


def read(path: str, limit: int) -> bytes | None:
    """Return the bytes of the regular file at ``path``, at most ``limit`` of them; None if nothing is there.

    Raises:
        FormatError: there are more than ``limit`` bytes.
        StateError: a link, a folder, a pipe or a device is there, or the disk refuses.
    """
    try:
        handle = _open(path, _READ)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise StateError("expected a file, found a folder, pipe or device", where=path)
            data = _read_all(handle, limit + 1)
        finally:
            os.close(handle)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise disk_error(error, path) from error
    if len(data) > limit:
        raise FormatError(f"expected at most {limit} bytes, found more", where=path)
    return data


def write_atomic(path: str, data: bytes, *, mode: int | None = None, sync: bool = True) -> None:
    """Make ``data`` the content of ``path``: whoever looks sees the old file whole or the new one whole.

    Missing parent folders are made. A link at ``path`` is replaced, never written through.

    Args:
        path: Where the file is to be.
        data: All of its bytes.
        mode: Its permission bits; None keeps those of the file that is there, or leaves them to the umask.
        sync: Whether the bytes are on the disk before this returns; False is for what can be made again,
            since after a power cut the file may be empty.

    Raises:
        StateError: the disk refuses; the old file is as it was and no temporary file is left.
    """
    with _staged(path, data, mode, sync) as temporary:
        _rename(temporary, path, sync)


def swap(path: str, before: bytes | None, after: bytes, *, mode: int | None = None) -> bool:
    """Do ``write_atomic`` if ``path`` still holds ``before`` (None: nothing); say whether it did.

    For files that other programs write too, which know nothing of our locks: the comparison is the last step
    before the rename.

    Raises:
        StateError: the disk refuses; the old file is as it was and no temporary file is left.
    """
    with _staged(path, after, mode, sync=True) as temporary:
        try:
            same = read(path, len(before or b"")) == before
        except FormatError:
            same = False
        if same:
            _rename(temporary, path, sync=True)
    return same


def _is_link(status: os.stat_result) -> bool:
    # A junction of Windows is no S_IFLNK, but like a link it is a reparse point.
    return stat.S_ISLNK(status.st_mode) or bool(getattr(status, "st_reparse_tag", 0))


def _resolved(root: str, link: str, rest: list[str]) -> str:
    """Follow every link below ``link``, as far as all of it stays in ``root``."""
    with disk_errors(link):
        top, real = os.path.realpath(root), os.path.realpath(os.path.join(link, *rest))
        relative = "" if real == top else real.removeprefix(top.rstrip(os.sep) + os.sep)
        if relative == real:
            raise LinkLeavesProject(f"a link leads out of the project, to {quote(real)}", where=link)
        # A skill called `hooks` behind a link to `.git` would be run by git.
        if ".git" in relative.lower().split(os.sep):
            raise LinkLeavesProject("a link leads into .git", where=link)
        with suppress(FileNotFoundError):
            os.stat(real)  # links that lead to each other: ELOOP
    return os.path.join(root, relative) if relative else root


def _open(path: str, flags: int, mode: int = 0o666) -> int:
    try:
        return os.open(path, flags, mode)
    except ValueError as error:
        raise StateError("expected a path, found a NUL byte in it", where=quote(path)) from error


def create(path: str, flags: int, mode: int) -> int:
    """Open a file that may have to be made, and its folder with it.

    Raises:
        StateError: a NUL byte is in the path.
        OSError: the disk refuses.
    """
    try:
        return _open(path, flags, mode)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return _open(path, flags, mode)


def _read_all(handle: int, limit: int) -> bytes:
    parts, missing = [], limit
    while missing and (part := os.read(handle, missing)):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


@contextmanager
def _staged(path: str, data: bytes, mode: int | None, sync: bool) -> Iterator[str]:
    """Hold ``data`` in a new file beside ``path``; unless it was renamed, it is gone in the end."""
    temporary = os.path.join(os.path.dirname(path), f".skillhub-{os.urandom(8).hex()}.tmp")
    with disk_errors(path):
        mode = _mode_of(path) if mode is None else mode
        # Never wider than the file is to be, not even before fchmod: others may not be meant to read it.
        handle = create(temporary, _CREATE, 0o666 if mode is None else mode & 0o600)
        try:
            _fill(handle, data, mode, sync)
            yield temporary
        finally:
            with suppress(OSError):
                os.unlink(temporary)


def _fill(handle: int, data: bytes, mode: int | None, sync: bool) -> None:
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


def _mode_of(path: str) -> int | None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None


def _rename(temporary: str, path: str, sync: bool) -> None:
    os.replace(temporary, path)
    if sync and sys.platform != "win32":
        # The new file is there already; that some network disks cannot sync a folder is no failure.
        with suppress(OSError):
            handle = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | CLOEXEC)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
