"""An attacker who replaces a folder or a file by a link at the N-th file operation of a command.

The interpreter's own audit events are counted, so that no module of ours knows of it. It is the process of the tests
that acts: a fork of it costs more than most commands do.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import skillhub
from tests.support.faults import CHANGES, WRITES, ended

_LOOKS = frozenset({
    "open", "os.chmod", "os.link", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.scandir",
    "os.symlink",
})  # fmt: skip
# Of what a command reads besides, nothing depends on a project; a module is read the first time only.
_ELSEWHERE = (*skillhub.__path__, sys.prefix, sys.base_prefix, "/proc/", "/sys/", "/dev/null", "/usr/", "/etc/")


class Swap:
    """Puts ``by`` in place of ``path`` at number ``at`` (from 1), and takes it away at ``back``.

    With ``late`` it is counted from where something in an open folder is changed for the first time: all is planned.
    """

    def __init__(self, path: Path, by: Callable[[Path], None], at: int, back: int = 0, *, late: bool = False) -> None:
        self._path, self._by, self._at, self._back = path, by, at, back
        self._is_early = late
        self._is_busy = False
        self._numbers = count(1)
        self.seen = 0

    def hook(self, event: str, args: tuple[object, ...]) -> None:
        if self._is_busy or event not in _LOOKS or str(args[0]).startswith(_ELSEWHERE):
            return
        is_change = bool(args[2] & WRITES) if event == "open" else event in CHANGES
        if is_change and isinstance(args[0], str) and not os.path.isabs(args[0]):
            self._is_early = False
        if self._is_early:
            return
        self._is_busy = True
        self.seen = next(self._numbers)
        aside = self._path.with_name(f"{self._path.name}.aside")
        if self.seen == self._at and os.path.lexists(self._path.parent):
            if os.path.lexists(self._path):
                os.rename(self._path, aside)
            self._by(self._path)
        elif self.seen == self._back and os.path.lexists(aside):
            if self._path.is_symlink() or self._path.is_file():
                os.unlink(self._path)
            if not os.path.lexists(self._path):
                os.rename(aside, self._path)
        self._is_busy = False


def link_to(target: Path) -> Callable[[Path], None]:
    """Return a function that makes a link to ``target``."""
    return lambda path: path.symlink_to(target)


def run_with_swap(act: Callable[[], None], swap: Swap) -> int:
    """Run ``act`` during a swap; return 0, or the exit status of its error."""
    return ended(act, swap.hook)


def steps_of(act: Callable[[], None], *, late: bool = False) -> int:
    """Run ``act`` and return the number of its file operations."""
    swap = Swap(Path("/nowhere"), lambda path: None, 0, late=late)
    assert run_with_swap(act, swap) == 0
    return swap.seen


@contextmanager
def unchanged(*folders: Path) -> Iterator[None]:
    """Fail if the content or a mode in these folders differs at the end."""
    before = [look_at(folder) for folder in folders]
    yield
    for folder, was in zip(folders, before, strict=True):
        now = look_at(folder)
        assert now == was, sorted({*now.items()} ^ {*was.items()})


def look_at(folder: Path) -> dict[str, tuple[int, bytes, int]]:
    """Return all that is in a folder: the mode, the bytes and the number of links of each."""
    found, below = {}, len(os.path.join(folder, ""))
    for top, folders, names in os.walk(folder):
        for path in (top, *(f"{top}/{name}" for name in (*folders, *names))):
            status, data = os.lstat(path), b""
            if stat.S_ISLNK(status.st_mode):
                data = os.fsencode(os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                data = Path(path).read_bytes()
            found[path[below:]] = status.st_mode, data, status.st_nlink
    return found
