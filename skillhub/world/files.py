"""The disk as installing has it: what ``skillhub.disk`` offers, and the lock that keeps processes apart."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from skillhub.disk import (
    CLOEXEC,
    MACHINE,
    NO_LINK,
    Root,
    create,
    disk_error,
    disk_errors,
    inside,
    is_link_at,
    read,
    swap,
    write_atomic,
)
from skillhub.errors import StateError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = [
    "MACHINE",
    "Root",
    "disk_error",
    "disk_errors",
    "inside",
    "is_link_at",
    "lock",
    "read",
    "swap",
    "write_atomic",
]

_TELL_AFTER = 1.0  # seconds
_LOCK = os.O_RDWR | os.O_CREAT | NO_LINK | CLOEXEC


@contextmanager
def lock(path: str, *, timeout: float = 60.0, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock file at ``path`` against every other process and thread of this machine.

    The system frees the lock when its holder dies, so a lock file that was left behind is harmless. It is
    never removed: a process could then hold the lock of a file that has no name any more. Not reentrant.
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
                raise StateError(
                    f"another skillhub has been at work for more than {timeout:g} s",
                    where=path,
                    hint="wait for it to end, or end it, and run the command again",
                )
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
        with disk_errors(path), suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    def _unlock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)
