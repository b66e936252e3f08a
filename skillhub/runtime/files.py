"""Reads and replaces small files; only regular files are opened, and no link at the end of a path is followed."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final, TypeAlias

from skillhub.errors import FormatError, StateError

_READ: Final = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)
_LINK = frozenset({errno.ELOOP, getattr(errno, "EMLINK", errno.ELOOP)})


# Size, times of change of content and of anything, inode: an edit that keeps all four is not made by hand.
# One text, for that is what JSON gives back the soonest.
Stamp: TypeAlias = str


def stamp_of(status: os.stat_result) -> Stamp:
    """Return what tells whether something on the disk has changed since."""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def changed(stamp: Stamp) -> int:
    """Return when what has this stamp was last changed in any way, in nanoseconds."""
    _, content, anything, _ = stamp.split()
    return max(int(content), int(anything))


def opened(path: str) -> tuple[int, os.stat_result] | None:
    """Open a regular file for reading; None if there is nothing at ``path``. The caller closes the handle.

    Raises:
        FormatError: it is a link, a folder, a pipe or a device.
        OSError: the system refuses.
    """
    try:
        handle = os.open(path, _READ)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in _LINK:
            raise FormatError("expected a file, found a link", where=path) from error
        raise
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise FormatError("expected a file, found a folder or a device", where=path)
    return handle, status


def read(path: str, limit: int) -> bytes | None:
    """Return the bytes of a regular file; None if there is nothing at ``path``.

    Raises:
        FormatError: it is no regular file, or has more than ``limit`` bytes.
        StateError: it cannot be read.
    """
    try:
        found = opened(path)
        if found is None:
            return None
        handle, _ = found
        with os.fdopen(handle, "rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise StateError(f"cannot be read: {error.strerror}", where=path) from error
    if len(data) > limit:
        raise FormatError(f"expected at most {limit} bytes", where=path)
    return data


def write_atomic(path: str, data: bytes) -> None:
    """Replace the file at ``path``, readable by its owner alone if it is new; its folder is made.

    Raises:
        StateError: the disk refuses; the file is as it was.
    """
    folder = os.path.dirname(path)
    staged = f"{path}.{os.getpid()}.new"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.isfile(path) else 0o600
        handle = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(staged, path)
        except OSError:
            os.unlink(staged)
            raise
    except OSError as error:
        raise StateError(f"cannot be written: {error.strerror}", where=path) from error
