"""Stamps, which prove that a file did not change; folders whose every byte was hashed; commands that did nothing."""

from __future__ import annotations

import json
import marshal
import os
import stat
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from hashlib import sha256
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from skillhub.disk import files
from skillhub.errors import FormatError, SkillhubError, StateError

# Size, mtime, ctime, inode, device, mode: no edit by hand keeps all of them.
# A single text, which JSON parses the fastest.
Stamp: TypeAlias = str

# An edit within the same tick of the file system's clock as the last one does not change the stamp. Ticks are 10 ms
# at most on file systems with fractions of a second, and 2 s on others.
GRAIN: Final = 2_000_000_000
_SECOND: Final = 1_000_000_000
# Folders from an image of a disk have times in whole seconds, too. A clock that ticks in seconds may be another
# machine's, but is not a day behind.
_DAY: Final = 86_400 * _SECOND
_IDENTITY: Final = 3  # numbers: mode, inode, device
_VERSION: Final = 2
_CAP: Final = 256 << 20
# On Windows, ``st_ctime`` is the time of creation: there every byte is hashed.
_HAS_CHANGE_TIME = os.name == "posix"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


_stamp = attrgetter("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino", "st_dev", "st_mode")


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file or folder; ``is_proof`` says whether it reveals every later change."""
    size, content, anything = status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return f"{size} {content} {anything} {status.st_ino} {status.st_dev} {status.st_mode}"


def is_settled(stamp: Stamp, now: int, grain: int = GRAIN) -> bool:
    """Return whether a change after ``now`` changes the stamp, by a clock that ticks at least once in ``grain``."""
    content, anything = stamp.split()[1:3]
    return _is_before(max(int(content), int(anything)), now, grain)


def is_proof(stamp: Stamp, now: int) -> bool:
    """Return whether the same stamp later proves the same bytes; no stamp of a clock with whole seconds does.

    Such a clock may be that of another machine.
    """
    return _prove([int(each) for each in stamp.split()], now)


def _prove(numbers: Sequence[int], now: int) -> bool:
    """Return ``is_proof`` for the numbers of a stamp."""
    if stat.S_ISLNK(numbers[-1]):
        return False  # the target of the link has a stamp of its own
    _, content, anything, *_ = numbers
    return _HAS_CHANGE_TIME and _is_before(max(content, anything), now, GRAIN) and anything % _SECOND != 0


def _is_before(last: int, now: int, grain: int) -> bool:
    return last < now - (grain if last % _SECOND else max(grain, GRAIN))


class Stamps(NamedTuple):
    """The stamps of a folder and its entries.

    Attributes:
        names: The entries, each as the text after the folder's path; the empty one is the folder itself.
        stamps: The numbers of each entry's ``stamp_of``.
    """

    names: tuple[str, ...]
    stamps: list[tuple[int, ...]]

    @property
    def digest(self) -> str:
        """The SHA-256 of names and stamps."""
        # Version 2 of marshal has no references, so that equal numbers give equal bytes; text would take longer.
        return sha256(marshal.dumps((self.names, self.stamps), 2)).hexdigest()


class ProvedFolders:
    """Folders whose every byte was hashed, with the stamps that prove them unchanged since.

    A folder counts as unchanged if its stamp and those of all entries below it are the same as when it was hashed. An
    entry that changed less than two seconds before, or that has a time of whole seconds, is hashed again. The index
    saves only the reading of files that stay in place: whatever is copied is hashed.

    A check of a skill that passed is noted under its name, with the facts that decide its result.

    Args:
        path: The index file below ``<state>``; empty for none.
        believed: Whether to use the index and add to it; otherwise folders that differ are only removed from it.
        kept: Whether to write changes of the index.

    Attributes:
        path: The index file.
        is_believed: Whether the index is used: ``believed``, with a file, on a system with times of change.
        is_changed: Whether the index differs from its file.
    """

    def __init__(self, path: str = "", *, believed: bool = False, kept: bool = True) -> None:
        self.path = path
        self.is_believed = believed and bool(path) and _HAS_CHANGE_TIME
        self._is_kept = kept and bool(path) and _HAS_CHANGE_TIME
        self.is_changed = False

    def holds(self, folder: str, tree: str) -> bool:
        """Return whether a folder was hashed as this tree and did not change since."""
        if not self.is_believed:
            return False
        row = self._folders.get(folder)
        try:
            names = row[1].split("\0") if row and row[1] else []
            return row is not None and row[0] == tree and bool(_stamps_of(folder, names).digest == row[2])
        except (OSError, ValueError, TypeError, AttributeError, LookupError):
            return False

    def holds_all(self) -> bool:
        """Return whether no folder of the index has changed since it was hashed."""
        return all(self.holds(folder, row[0]) for folder, row in self._folders.items())

    def before(self, folder: str, beside: str = "") -> Stamps | None:
        """Return the stamps of a folder that is about to be hashed; None if they can prove nothing.

        Args:
            folder: The folder.
            beside: The suffix of the folder's name that names a file beside it, which must not change either.
        """
        if not (self._is_kept and self.is_believed):
            return None
        now = time.time_ns()
        with suppress(OSError):
            if _prove(_stamp(os.lstat(folder)), now):
                stamps = _stamps_of(folder, [*paths_below(folder), *([beside] if beside else [])])
                return stamps if all(_prove(numbers, now) for numbers in stamps.stamps) else None
        return None

    def keep(self, folder: str, tree: str, stamps: Stamps | None) -> None:
        """Record that a folder was hashed as this tree, if its stamps are still those of ``stamps``."""
        with suppress(OSError, ValueError):
            if stamps is not None and _stamps_of(folder, stamps.names) == stamps:
                self._folders[folder] = [tree, "\0".join(stamps.names), stamps.digest]
                self.is_changed = True

    def forget(self, folder: str) -> None:
        """Remove a folder that differs from its tree."""
        if self._is_kept and self._folders.pop(folder, None) is not None:
            self.is_changed = True

    def is_noted(self, name: str, facts: object) -> bool:
        """Return whether the note of this name has these facts."""
        return name in self.noted and bool(self._notes[name] == digest_of(facts))

    @property
    def noted(self) -> Collection[str]:
        """The names that have a note, whatever its facts."""
        return self._notes.keys() if self.is_believed else ()

    def note(self, name: str, facts: object) -> None:
        """Record under a name that a check passed with these facts, which decide its result."""
        if self._is_kept and self._notes.get(name) != (digest := digest_of(facts)):
            self.is_changed = True
            self._notes[name] = digest

    def save(self) -> None:
        """Write the changed index, readable for its owner alone; an error of the disk is ignored."""
        if not self.is_changed:
            return
        self.is_changed = False
        existing = {folder: row for folder, row in self._folders.items() if os.path.lexists(folder)}
        block = {"version": _VERSION, "folders": existing, "notes": self._notes}
        with suppress(StateError):
            files.write_atomic(self.path, json.dumps(block).encode("ascii"), mode=0o600, sync=False)

    @property
    def _folders(self) -> dict[str, Any]:
        return self._read[0]

    @property
    def _notes(self) -> dict[str, Any]:
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The folders and notes of the index file; empty if it is damaged or another user could have written it."""
        with suppress(ValueError, TypeError, LookupError):
            block = _private(self.path)
            return {**block["folders"]}, {**block["notes"]}
        return {}, {}


def _private(path: str) -> Any:  # noqa: ANN401 - a JSON value of ours, or None
    """Return the value of a file below ``<state>``; None if it is damaged or another user could have written it."""
    with suppress(OSError, FormatError, StateError, ValueError, TypeError, LookupError, RecursionError):
        status = os.lstat(path)
        if status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077:
            block = json.loads(files.read(path, _CAP) or b"null")
            return block if block["version"] == _VERSION else None
    return None


def _stamps_of(folder: str, names: Sequence[str]) -> Stamps:
    """Return the present stamps of these entries of a folder.

    Raises:
        OSError: an entry no longer exists.
    """
    lstat, stamp = os.lstat, _stamp
    return Stamps(tuple(names), [stamp(lstat(folder + name)) for name in names])


def paths_below(folder: str) -> list[str]:
    """Return the folder and all entries below it, each as the text after the folder's path; follow no link."""
    found, waiting = [""], [""]
    while waiting:
        name = waiting.pop()
        with os.scandir(folder + name) as rows:
            for row in rows:
                found.append(inner := f"{name}{os.sep}{row.name}")
                if row.is_dir(follow_symlinks=False):
                    waiting.append(inner)
    return found


@cache
def code_stamps() -> list[tuple[str, tuple[int, ...]]]:
    """Return the stamps of this package's files and folders: a version changes them, and so does other code of it.

    A file that is replaced changes its folder, of which there are two levels with code.
    """
    with os.scandir(_PACKAGE) as rows:
        found = [*rows]
    for room in [row.path for row in found if row.is_dir()]:
        with os.scandir(room) as rows:
            found += (row for row in rows if row.is_dir() and row.name != "__pycache__")
    return sorted((row.path, _stamp(row.stat())) for row in found)


def digest_of(facts: object) -> str:
    """Return the SHA-256 of facts, by their ``repr``."""
    return sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()


# Commands that changed nothing. While all that decided their output is unchanged, they write the same again.


Output: TypeAlias = Sequence[tuple[str, str]]  # texts, each with its stream


class IdleCommand:
    """One command line in one folder, which may have changed nothing the last time; then its output is known.

    Args:
        folder: ``<state>/proved``.
        words: The command line and the working folder.
        surroundings: What decides besides files: version, environment, terminal. Only their digest is stored.
    """

    def __init__(self, folder: str, words: Sequence[str], surroundings: object) -> None:
        self._path = os.path.join(folder, f"idle-{digest_of([*words])[:32]}.json")
        self._surroundings = digest_of(surroundings)
        self._started = time.time_ns()
        self._before: _Looks = {}

    def output(self) -> Output | None:
        """Return what the command wrote the last time; None if it must run.

        It must run if it had something to do, or if one of these has changed since: its surroundings, a watched path,
        a file in a folder of the index.
        """
        with suppress(OSError, ValueError, TypeError, LookupError):
            if (block := _private(self._path) if _HAS_CHANGE_TIME else None) is not None:
                self._before = _watched(block["paths"].split("\0"))
                is_same = (block["surroundings"], block["stamps"]) == (self._surroundings, digest_of(self._before))
                if is_same and ProvedFolders(block["index"], believed=True).holds_all():
                    return [(stream, text) for stream, text in block["output"]]
        return None

    def keep(self, index: ProvedFolders, folders: Mapping[str, str], paths: Iterable[str], output: Output) -> None:
        """Remember that the command had nothing to do, if no path that decided can have changed meanwhile.

        Each path must be the same as before the command, which ``output`` looked at. The first such command remembers
        the paths alone.

        Args:
            index: The index, which has to have each of ``folders``.
            folders: Every folder of a skill, with its tree.
            paths: All other paths that decided. They need not exist. Of a folder only its identity counts, or its
                entries, too, if the path ends with a separator.
            output: What the command wrote.
        """
        with suppress(OSError, SkillhubError):
            if index.is_changed or not all(index.holds(folder, tree) for folder, tree in folders.items()):
                return
            now = _watched((index.path, *paths))
            is_same = now == self._before and all(map(self._is_old, chain.from_iterable(now.values())))
            block = {
                "version": _VERSION,
                "surroundings": self._surroundings,
                "index": index.path,
                "paths": "\0".join(now),
                "stamps": digest_of(now) if is_same else "",
                "output": output if is_same else (),
            }
            files.write_atomic(self._path, json.dumps(block).encode("ascii"), mode=0o600, sync=False)

    def _is_old(self, numbers: Sequence[int]) -> bool:
        """Return whether a change after the look before the command would have changed these numbers."""
        if len(numbers) == _IDENTITY:
            return True
        last = max(numbers[1:3])  # mtime and ctime
        return _is_before(last, self._started, GRAIN if last % _SECOND else _DAY)


# For each path the numbers of its stamp, or ``_IDENTITY`` numbers for a folder that is not listed; for a link also
# those of the file at its end; for an absent path none.
_Looks: TypeAlias = dict[str, tuple[tuple[int, ...], ...]]


def _watched(paths: Iterable[str]) -> _Looks:
    """Return for each path what would change with it, as ``IdleCommand.keep`` describes it.

    Raises:
        OSError: a path cannot be looked at.
    """
    found: _Looks = {}
    for path in paths:
        looks: list[os.stat_result] = []
        with suppress(FileNotFoundError, NotADirectoryError):
            looks = [os.lstat(path)]
            looks += [os.stat(path)] if stat.S_ISLNK(looks[0].st_mode) else []
        is_listed = path.endswith(os.sep)
        found[path] = tuple(
            (each.st_mode, each.st_ino, each.st_dev) if stat.S_ISDIR(each.st_mode) and not is_listed else _stamp(each)
            for each in looks
        )
    return found
