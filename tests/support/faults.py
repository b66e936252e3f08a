"""A disk that fails, or a process that is killed, at the N-th thing that a command does to the disk.

The interpreter's own audit events are counted, in a forked child, so that no module of ours knows of it.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from skillhub.errors import SkillhubError

_CHANGES = frozenset({
    "os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate",
})  # fmt: skip
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
KILLED, BUG = 9, 70


class Faults:
    """Counts what is done to the disk below ``folder``, and at number ``at`` (from 1) lets ``happen`` happen."""

    def __init__(self, folder: Path, at: int, happen: Callable[[], None]) -> None:
        self._folder, self._at, self._happen = str(folder), at, happen
        self.count = 0

    def hook(self, event: str, args: tuple[object, ...]) -> None:
        if event == "open":
            # A file that is open already, or a pipe to a program, is no change of the disk.
            is_change = isinstance(args[2], int) and bool(args[2] & _WRITES) and not isinstance(args[0], int)
        else:
            is_change = event in _CHANGES
        if is_change and (isinstance(args[0], int) or os.fsdecode(args[0]).startswith(self._folder)):
            self.count += 1
            if self.count == self._at:
                self._happen()


def kill() -> None:
    """End the process on the spot, as SIGKILL or a power cut would."""
    os._exit(KILLED)


def no_space() -> None:
    """Say what a full disk says."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def forbidden() -> None:
    """Say what a folder that may not be written says."""
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def in_child(act: Callable[[], None], before: Callable[[], None] = lambda: None) -> int:
    """Run ``act`` in a forked child and return how it ended: 0, the exit status of its error, or ``KILLED``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # later Pythons warn of forks beside threads; the child uses none
        child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = BUG
    try:
        before()
        act()
        status = 0
    except SkillhubError as error:
        status = error.exit_code
    except BaseException as error:
        os.write(2, f"\nin the child: {error!r}\n".encode())
        if os.environ.get("SKILLHUB_TRACEBACK"):
            sys.excepthook(type(error), error, error.__traceback__)
    finally:
        os._exit(status)


def run_with_fault(folder: Path, act: Callable[[], None], at: int, happen: Callable[[], None]) -> int:
    """Run ``act`` in a child where the ``at``-th change of the disk fails so; return how the child ended."""
    return in_child(act, lambda: sys.addaudithook(Faults(folder, at, happen).hook))


def changes_of(folder: Path, act: Callable[[], None]) -> int:
    """Run ``act`` in a child and return how many changes of the disk it made."""
    read, write = os.pipe()
    faults = Faults(folder, 0, kill)

    def counted() -> None:
        act()
        os.write(write, b"%d" % faults.count)

    assert in_child(counted, lambda: sys.addaudithook(faults.hook)) == 0
    os.close(write)
    with os.fdopen(read) as pipe:
        return int(pipe.read())
