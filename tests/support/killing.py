"""Killing a piece of work for real, before each of the steps by which it becomes visible."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from zlib import crc32

from tests.support.hearing import heard_by

EVERY = "SKILLHUB_EVERY_FAULT" in os.environ


class Killed(BaseException):
    """Raised in place of a signal that ends the process: no code catches it."""


class Killer:
    """Ends the work before its Nth rename or removal: all that is visible of ours becomes so by one of them."""

    def __init__(self, left: int) -> None:
        self.left: int | None = left

    def hear(self, event: str, arguments: tuple) -> None:
        if self.left is None or event not in ("os.rename", "os.remove"):
            return
        if event == "os.remove" and os.path.basename(arguments[0]).startswith(".skillhub-"):
            return  # our own temporary file, which the rename before took away
        self.left -= 1
        if self.left < 0:
            self.left = None
            raise Killed(arguments)


def kill_everywhere(folder: str, run: Callable[[], object], look: Callable[[int, bool], None]) -> int:
    """Do ``run`` from the same start again and again, each time killed a step later, until it gets through.

    After the first three steps every fifth is taken, from one that the name of the test chooses, or every one if
    ``SKILLHUB_EVERY_FAULT`` is set. After each kill, and after the call that heals it, ``look`` is called with the
    number of the kill and whether the work is done.

    Args:
        folder: What ``run`` changes.
        run: The work.
        look: Judges what is there.

    Returns:
        How many steps the work has.
    """
    start = shutil.copytree(folder, f"{folder}-start")
    chance = crc32(os.environ.get("PYTEST_CURRENT_TEST", "").encode())
    kills = 0
    while True:
        shutil.rmtree(folder)
        shutil.copytree(start, folder)
        killer = Killer(kills)
        try:
            with _temporary_files_in(f"{folder}-temporary"), heard_by(killer.hear):
                run()
        except Killed:
            kills += 1 if EVERY or kills < 2 else 1 + chance % 5 if kills == 2 else 5
        else:
            steps = kills - killer.left
            look(kills + 1, True)
            return steps
        look(kills, False)
        run()
        look(kills, True)


@contextmanager
def _temporary_files_in(folder: str) -> Iterator[None]:
    """Have temporary files below a folder of the test: killed work may leave some."""
    os.makedirs(folder, exist_ok=True)
    before, tempfile.tempdir = tempfile.tempdir, folder
    try:
        yield
    finally:
        tempfile.tempdir = before


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
