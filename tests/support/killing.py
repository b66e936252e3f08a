"""Killing a piece of work before each of the steps by which it becomes visible.

A kill leaves what the disk has at that moment. A copy that is taken while the work goes on is the same, and one run
gives as many of them as are wanted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from threading import Lock, get_ident
from zlib import crc32

from skillhub.disk.folders import remove_tree
from tests.support.hearing import heard_by

EVERY = "SKILLHUB_EVERY_FAULT" in os.environ


class Killed(BaseException):
    """Raised in place of a signal that ends the process: no code catches it."""


def is_step(event: str, arguments: tuple) -> bool:
    """Return whether an audit event is a rename or a removal: by one of them all of ours becomes visible."""
    # Our own temporary file was taken away by the rename before.
    return event == "os.rename" or (
        event == "os.remove" and not os.path.basename(arguments[0]).startswith(".skillhub-")
    )


class Killer:
    """Ends the work before its Nth step."""

    def __init__(self, left: int) -> None:
        self.left: int | None = left

    def hear(self, event: str, arguments: tuple) -> None:
        if self.left is None or not is_step(event, arguments):
            return
        self.left -= 1
        if self.left < 0:
            self.left = None
            raise Killed(arguments)


class Kills:
    """Copies a folder before each wanted step, counted from 1; other threads change it no further meanwhile."""

    def __init__(self, folder: str, is_wanted: Callable[[int], bool]) -> None:
        self._folder, self._is_wanted, self._one = folder, is_wanted, Lock()
        self._copies: dict[int, str] = {}
        self._copying = 0
        self.steps = 0

    def hear(self, event: str, arguments: tuple) -> None:
        if is_step(event, arguments):
            self.note()

    def note(self) -> None:
        if self._copying == get_ident():
            return
        with self._one:
            self.steps += 1
            if self._is_wanted(self.steps):
                self._copying = get_ident()
                copy = os.path.join(os.path.dirname(self._folder), f"killed-{self.steps}")
                self._copies[self.steps] = shutil.copytree(self._folder, copy, symlinks=True)
                self._copying = 0

    def each(self) -> Iterator[int]:
        """Put one copy after another in the place of the folder, and yield the number of its step."""
        assert self._copies
        for number, copy in self._copies.items():
            remove_tree(self._folder)
            os.rename(copy, self._folder)
            yield number


def kill_everywhere(folder: str, run: Callable[[], object], look: Callable[[int, bool], None]) -> int:
    """Do ``run``, and again from what each kill of it would have left.

    The first three steps are taken and every fifth, from one that the name of the test chooses, or every one if
    ``SKILLHUB_EVERY_FAULT`` is set. After the work, after each kill and after the call that heals it, ``look`` is
    called with the number of the kill, or 0, and whether the work is done.

    Args:
        folder: What ``run`` changes.
        run: The work.
        look: Judges what is there.

    Returns:
        How many steps the work has.
    """
    chance = crc32(os.environ.get("PYTEST_CURRENT_TEST", "").encode()) % 5
    kills = Kills(folder, lambda step: EVERY or step <= 3 or step % 5 == chance)
    with heard_by(kills.hear):
        run()
    look(0, True)
    for kill in kills.each():
        look(kill, False)
        run()
        look(kill, True)
    return kills.steps


class OldClients:
    """A client from before the work, a copy of it for each kill, which goes through the kill and the healing."""

    def __init__(self, hub: object, folder: object, *names: str) -> None:
        self._hub, self._folder = hub, folder
        hub.open(folder / "old").release_index(names)

    def open(self, kill: int) -> object:
        """Return the registry as the client of this kill sees it now."""
        path = self._folder / f"old-{kill}"
        if not path.exists():
            shutil.copytree(self._folder / "old", path, symlinks=True)
        self._hub.pull()
        return self._hub.open(path)

    def fresh(self, kill: int, done: bool) -> object:
        """Return the registry as a new client sees it."""
        self._hub.pull()
        return self._hub.open(self._folder / f"fresh-{kill}-{done}")
