"""Stamps, by which to tell that a file is as it was; and the index of folders of which every byte was hashed."""

from __future__ import annotations

import json
import marshal
import os
import stat
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from skillhub.disk import files
from skillhub.errors import FormatError, StateError

# Size, times of change of content and of anything, inode, device, mode: an edit that keeps all is not made by hand.
# One text, for that is what JSON gives back the soonest.
Stamp: TypeAlias = str

# An edit within the same tick of the file system's clock as the last one leaves the stamp as it was. Ticks are
# 10 ms at most where stamps have fractions of a second, and 2 s where they have none.
GRAIN: Final = 2_000_000_000
_SECOND: Final = 1_000_000_000
_VERSION: Final = 2
_CAP: Final = 256 << 20
# What Windows calls the time of change is that of creation: there each byte is hashed.
_HAS_CHANGE_TIME = os.name == "posix"


_stamp = attrgetter("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino", "st_dev", "st_mode")


def stamp_of(status: os.stat_result) -> Stamp:
    """Return what tells whether something on the disk has changed since."""
    size, content, anything = status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return f"{size} {content} {anything} {status.st_ino} {status.st_dev} {status.st_mode}"


def is_settled(stamp: Stamp, now: int, grain: int = GRAIN) -> bool:
    """Say whether a change after ``now`` changes the stamp, by a clock that ticks at least once in ``grain``."""
    content, anything = stamp.split()[1:3]
    return _is_before(max(int(content), int(anything)), now, grain)


def is_proof(stamp: Stamp, now: int) -> bool:
    """Say whether who finds the same stamp later need not hash again; a clock of whole seconds may be another's."""
    return _prove([int(each) for each in stamp.split()], now)


def _prove(numbers: Sequence[int], now: int) -> bool:
    """Do ``is_proof`` for the numbers that a stamp spells."""
    _, content, anything, _, _, mode = numbers
    if stat.S_ISLNK(mode):
        return False  # what it leads to has a stamp of its own
    return _HAS_CHANGE_TIME and _is_before(max(content, anything), now, GRAIN) and anything % _SECOND != 0


def _is_before(last: int, now: int, grain: int) -> bool:
    return last < now - (grain if last % _SECOND else max(grain, GRAIN))


class Stamps(NamedTuple):
    """What was seen of a folder.

    Attributes:
        names: What is in it, as it is spelled behind the folder's path; the empty one is the folder itself.
        stamps: The numbers of each that ``stamp_of`` spells.
    """

    names: tuple[str, ...]
    stamps: list[tuple[int, ...]]

    @property
    def digest(self) -> str:
        """What tells it from every other."""
        # The second form has no references, so that it is the same for the same numbers; text would take longer.
        return sha256(marshal.dumps((self.names, self.stamps), 2)).hexdigest()


class ProvedFolders:
    """Folders that were found whole, to the byte, and by what to tell that they still are.

    A folder counts as whole if in it, and in all that is below it, nothing has another stamp than when it was hashed.
    What changed less than two seconds before it was hashed is hashed again, and so is what a clock of whole seconds
    dates. It only spares the look at bytes that stay where they are: what is copied anywhere is hashed as ever.

    Args:
        path: The file that it is kept in, below ``<state>``; empty where nothing is kept.
        believed: Whether what it says counts, and what is found whole is added; else what differs is forgotten.
        kept: Whether what is found out is kept.

    Attributes:
        is_believed: Whether that is so here.
    """

    def __init__(self, path: str = "", *, believed: bool = False, kept: bool = True) -> None:
        self._path = path
        self.is_believed = believed and bool(path) and _HAS_CHANGE_TIME
        self._is_kept = kept and bool(path) and _HAS_CHANGE_TIME
        self._is_changed = False

    def holds(self, folder: str, tree: str) -> bool:
        """Say whether a folder was found to be this tree, and nothing in it has changed since."""
        if not self.is_believed:
            return False
        row = self._folders.get(folder)
        try:
            names = row[1].split("\0") if row and row[1] else []
            return row is not None and row[0] == tree and bool(_look(folder, names).digest == row[2])
        except (OSError, ValueError, TypeError, AttributeError, LookupError):
            return False

    def before(self, folder: str, beside: str = "") -> Stamps | None:
        """Look at a folder that is about to be hashed; None where that is of no use.

        Args:
            folder: Which one.
            beside: The end of the name of a file beside it that is to be as it was, too.
        """
        with suppress(OSError):
            if self.look(folder, [""]):
                return self.look(folder, [*names_in(folder), *([beside] if beside else [])])
        return None

    def look(self, folder: str, names: Sequence[str]) -> Stamps | None:
        """Look at some of what is in a folder, as its names are spelled behind its path; None as for ``before``."""
        now = time.time_ns()
        with suppress(OSError):
            look = _look(folder, names) if self._is_kept and self.is_believed else None
            return look if look and all(_prove(numbers, now) for numbers in look.stamps) else None
        return None

    def keep(self, folder: str, tree: str, look: Stamps | None) -> None:
        """Keep that a folder was found to be this tree, after ``look`` was had at it."""
        with suppress(OSError, ValueError):
            if look is not None and _look(folder, look.names) == look:
                self._folders[folder] = [tree, "\0".join(look.names), look.digest]
                self._is_changed = True

    def forget(self, folder: str) -> None:
        """Forget a folder that was found to be something else."""
        if self._is_kept and self._folders.pop(folder, None) is not None:
            self._is_changed = True

    def is_noted(self, name: str, facts: object) -> bool:
        """Say whether ``note`` was called with these facts."""
        return name in self.noted and bool(self._notes[name] == _digest(facts))

    def forget_note(self, name: str) -> None:
        """Forget what ``note`` was called with under a name."""
        if self._is_kept and self._notes.pop(name, None) is not None:
            self._is_changed = True

    @property
    def noted(self) -> Collection[str]:
        """The names that ``note`` was called with, whatever the facts."""
        return self._notes.keys() if self.is_believed else ()

    def note(self, name: str, facts: object) -> None:
        """Keep that something holds under a name, as long as all the facts that decide it are the same."""
        if self._is_kept and self._notes.get(name) != (digest := _digest(facts)):
            self._is_changed = True
            self._notes[name] = digest

    def save(self) -> None:
        """Write what is new, for the owner alone; a full disk is no error."""
        if not self._is_changed:
            return
        self._is_changed = False
        there = {folder: row for folder, row in self._folders.items() if os.path.lexists(folder)}
        block = {"version": _VERSION, "folders": there, "notes": self._notes}
        with suppress(StateError):
            files.write_atomic(self._path, json.dumps(block).encode("ascii"), mode=0o600, sync=False)

    @property
    def _folders(self) -> dict[str, Any]:
        return self._read[0]

    @property
    def _notes(self) -> dict[str, Any]:
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what is kept; nothing if it is damaged, or not written by this user alone."""
        with suppress(OSError, FormatError, StateError, ValueError, TypeError, LookupError, RecursionError):
            status = os.lstat(self._path)
            if status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077:
                block = json.loads(files.read(self._path, _CAP) or b"null")
                if block["version"] == _VERSION:
                    return {**block["folders"]}, {**block["notes"]}
        return {}, {}


def _look(folder: str, names: Sequence[str]) -> Stamps:
    """Look at what is in a folder.

    Raises:
        OSError: something is no longer there.
    """
    lstat, stamp = os.lstat, _stamp
    return Stamps(tuple(names), [stamp(lstat(folder + name)) for name in names])


def names_in(folder: str) -> list[str]:
    """Return all that is below a folder, links unfollowed, as it is spelled behind the folder's path."""
    found, waiting = [""], [""]
    while waiting:
        name = waiting.pop()
        with os.scandir(folder + name) as rows:
            for row in rows:
                found.append(inner := f"{name}{os.sep}{row.name}")
                if row.is_dir(follow_symlinks=False):
                    waiting.append(inner)
    return found


def _digest(facts: object) -> str:
    return sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()
