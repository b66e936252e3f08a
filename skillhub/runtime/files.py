"""Files of skills, of which only regular ones are opened, and what tells that they changed; files of our own."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final, TypeAlias

from skillhub.disk import CLOEXEC, NO_LINK, disk_errors, write_atomic
from skillhub.errors import FormatError

_READ: Final = os.O_RDONLY | NO_LINK | CLOEXEC
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


def write_own(path: str, data: bytes) -> None:
    """Replace the file at ``path``; a new one is readable by its owner alone, and so is its folder.

    Raises:
        StateError: the disk refuses; the file is as it was.
    """
    folder = os.path.dirname(path)
    with disk_errors(folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    # In haste, and nothing is lost: what is lost in a power cut is set, or read, again.
    write_atomic(path, data, mode=None if os.path.lexists(path) else 0o600, sync=False)
