"""A disk that fails, or a process that is killed, at the N-th thing that a command does to the disk.

The interpreter's own audit events are counted, so that no module of ours knows of it. What is killed is forked, or
what a kill would leave is copied.
"""

from __future__ import annotations

import errno
import os
import sys
import time
import warnings
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count
from pathlib import Path

from skillhub.errors import SkillhubError
from tests.support.hearing import Listener, heard_by
from tests.support.killing import EVERY, Kills

CHANGES = frozenset({
    "os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate",
})  # fmt: skip
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_FOLDER_OF = {"os.mkdir": 2, "os.remove": 1, "os.rename": 2, "os.rmdir": 1}  # which argument is the open folder
KILLED, BUG = 9, 70


class Faults:
    """Counts changes of the disk below ``folder``; calls ``happen`` at number ``at``, from 1, or at all for None."""

    def __init__(self, folder: Path, at: int | None, happen: Callable[[], None]) -> None:
        self._folder, self._at, self._happen = str(folder), at, happen
        self.kinds: list[str] = []
        self._numbers = count(1)  # two threads at once get two of them

    def hook(self, event: str, args: tuple[object, ...]) -> None:
        if event == "open":
            # A file that is open already, or a pipe to a program, is no change of the disk.
            is_change = isinstance(args[2], int) and bool(args[2] & WRITES) and not isinstance(args[0], int)
        else:
            is_change = event in CHANGES
        if not is_change:
            return
        path = args[0] if isinstance(args[0], int) else self._path(event, args)
        if isinstance(path, int) or path.startswith(self._folder):
            self.kinds.append(self._kind(event, path))
            if self._at in (next(self._numbers), None):
                self._happen()

    def _path(self, event: str, args: tuple[object, ...]) -> str:
        """Return the path of a change; the event of ``open`` does not have the folder of a relative name."""
        path, at = os.fsdecode(args[0]), _FOLDER_OF.get(event)
        if os.path.isabs(path):
            return path
        known = f"/proc/self/fd/{args[at]}" if at is not None else ""
        folder = os.readlink(known) if os.path.exists(known) else os.path.join(self._folder, "held")
        return os.path.join(folder, ".skillhub" if path.startswith(".skillhub-") else "", path)

    def _kind(self, event: str, path: object) -> str:
        """Name the operation and the place: the store, the state, the project, its agents' folders."""
        if isinstance(path, int):
            return event
        top, *below = os.path.relpath(os.path.dirname(os.fsdecode(path)), self._folder).split(os.sep)
        return f"{event} {top} {'below' if top == 'project' and below else ' '.join(below[1:2])}"


def kill() -> None:
    """End the process on the spot, as SIGKILL or a power cut would."""
    os._exit(KILLED)


def no_space() -> None:
    """Raise the error of a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def forbidden() -> None:
    """Raise the error of a folder without write permission."""
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def in_child(act: Callable[[], None], before: Callable[[], None] = lambda: None) -> int:
    """Run ``act`` in a forked child and return how it ended: 0, the exit status of its error, or ``KILLED``."""
    _wait_for_ended_threads()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # later Pythons warn of forks beside threads
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


# How many threads of this process were never Python's.
_staying = 0


def _wait_for_ended_threads() -> None:
    """Wait for threads that Python no longer lists: as they end they hold a lock of OpenSSL, which a child
    that is forked then would never get. Threads that were never Python's stay, so they are waited for only once."""
    global _staying
    if not os.path.isdir("/proc/self/task"):
        return
    for _ in range(10_000):
        others = len(os.listdir("/proc/self/task")) - len(sys._current_frames())
        if others <= _staying:
            return
        time.sleep(0.001)
    _staying = others


def ended(act: Callable[[], None], listener: Listener) -> int:
    """Run ``act`` while ``listener`` hears of it; return 0, or the exit status of its error."""
    try:
        with heard_by(listener):
            act()
    except SkillhubError as error:
        return error.exit_code
    return 0


def run_with_fault(folder: Path, act: Callable[[], None], at: int, happen: Callable[[], None]) -> int:
    """Run ``act`` where the ``at``-th change of the disk fails so, forked if that is its end; return how it ended."""
    faults = Faults(folder, at, happen)
    if happen is kill:
        return in_child(lambda: ended(act, faults.hook))
    return ended(act, faults.hook)


def killed_at(folder: Path, act: Callable[[], None], steps: Collection[int]) -> Iterator[int]:
    """Run ``act``; then give ``folder`` what a kill at each of these changes would have left, and yield which."""
    kills = Kills(str(folder), steps.__contains__)
    assert ended(act, Faults(folder, None, kills.note).hook) == 0
    # Of two threads that fetch, the second may find a folder that exists: then there is one step less.
    assert kills.steps >= max(steps) - 1
    return kills.each()


def changes_of(folder: Path, act: Callable[[], None]) -> int:
    """Run ``act`` and return how many changes of the disk it made."""
    return len(kinds_of(folder, act))


def kinds_of(folder: Path, act: Callable[[], None]) -> list[str]:
    """Run ``act`` and return of what kind each change of the disk was that it made."""
    faults = Faults(folder, 0, kill)
    assert ended(act, faults.hook) == 0
    return faults.kinds


def sample(kinds: Sequence[str], happen: Callable[[], None], label: str) -> list[int]:
    """Return at which changes, from 1, a fault is tried; all of them where ``SKILLHUB_EVERY_FAULT`` is set.

    A kill comes before every rename, as things become visible by one, and before one change of every third kind.
    What a disk says comes at one change of every third kind: ``no_space`` and ``forbidden`` at different ones.
    Which kinds these are, and which change of a kind it is, depends on ``label``.
    """
    if EVERY:
        return list(range(1, len(kinds) + 1))
    chance = zlib.crc32(label.encode())
    steps = defaultdict(list)
    for at, kind in enumerate(kinds, 1):
        steps[kind].append(at)
    one = [numbers[chance % len(numbers)] for numbers in steps.values()]
    if happen is kill:
        return sorted(
            {*one[chance % 3 :: 3], *(at for at, kind in enumerate(kinds, 1) if kind.startswith("os.rename"))}
        )
    return sorted(one[(chance + (happen is forbidden)) % 3 :: 3])
