"""Reads the folder of one skill: its files, never outside of it, and whether they are what was agreed to."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Final, NoReturn

from skillhub import disk
from skillhub.errors import Drifted, FormatError, NotFound, OutsideSkill, SkillhubError, StateError
from skillhub.model.digest import Digest
from skillhub.model.syntax.json import strict_json
from skillhub.model.text import is_segment, quote
from skillhub.model.tree import SKILL_MD, ListedFile, Listing
from skillhub.runtime.files import Stamp, changed, opened, stamp_of, write_own

FILES_MAX: Final = 2000
_CAP: Final = 64 * 1024 * 1024
_STATE_CAP: Final = 1 << 20
_HAS_EXECUTE_BIT = os.name == "posix"


@dataclass(frozen=True, slots=True)
class Agreed:
    """What a skill's folder has to hold.

    Attributes:
        tree: As the lock has it.
        listing: Of that tree, where it is known; then an error says which file it is about.
        state: A folder of ours where it is kept what was found whole, and by what to tell that it still is.
        grain: Seconds in which a file may change twice and keep its stamp, for that is how coarse the clocks of
            disks are (FAT's is); what is younger is hashed each time.
    """

    tree: Digest
    listing: Listing | None = None
    state: str | None = None
    grain: float = 2.0


class Folder:
    """The files below a folder, as they were when this was made; 2,000 of them at most.

    Args:
        path: The folder; links on the way to it are followed, none inside.
        skipped: Names of folders that are passed over.

    Attributes:
        stamps: By path, ``/`` between segments.
        odd: What is neither a file nor a folder.
        is_cut: Whether there are more.

    Raises:
        StateError: it cannot be read.
    """

    def __init__(self, path: str, skipped: Collection[str] = ()) -> None:
        self.path = os.path.realpath(path)
        self._listing: Listing | None = None
        self.stamps: dict[str, Stamp] = {}
        self.odd: list[str] = []
        try:
            entries = _entries(self.path, skipped)
            for relative, entry in islice(entries, FILES_MAX):
                if entry.is_file(follow_symlinks=False):
                    self.stamps[relative] = stamp_of(os.lstat(entry.path))
                else:
                    self.odd.append(relative)
            self.is_cut = next(entries, None) is not None
        except OSError as error:
            raise StateError(f"the skill cannot be read: {error.strerror}", where=self.path) from error

    @property
    def names(self) -> tuple[str, ...]:
        """The paths of its files, ``/`` between segments, sorted."""
        return tuple(sorted(self.stamps))

    def read(self, relative: str, limit: int) -> bytes:
        """Return the bytes of a file inside the skill, the same that was there when this was made.

        Once the folder is held to a tree, these very bytes are hashed before they are handed out.

        Raises:
            OutsideSkill: the path leads out of the skill, or over a link.
            NotFound: there is no such file.
            Drifted: the file was changed meanwhile, or is not the one of that tree.
            FormatError: it has more than ``limit`` bytes.
            StateError: it cannot be read.
        """
        segments = relative.split("/")
        if not all(map(is_segment, segments)):
            raise OutsideSkill(
                f"expected a plain path inside the skill, found {quote(relative)}", where=self.path
            )
        expected = self.stamps.get(relative)
        if expected is None:
            self._no_file(relative, segments)
        try:
            data = self._bytes(segments, expected, limit)
        except OSError as error:
            raise StateError(f"cannot be read: {error.strerror}", where=f"{self.path}/{relative}") from error
        if self._listing is not None:
            listed = self._listing.get(relative)
            if listed is None or sha256(data).hexdigest() != listed.sha256:
                raise _drifted(f"{quote(relative)} was changed", self.path)
        return data

    def _no_file(self, relative: str, segments: list[str]) -> NoReturn:
        for end in range(1, len(segments) + 1):
            if "/".join(segments[:end]) in self.odd:
                raise OutsideSkill(f"{quote(relative)} leads over a link or a device", where=self.path)
        raise NotFound(f"the skill has no file {quote(relative)}", where=self.path)

    def _bytes(self, segments: list[str], expected: Stamp, limit: int) -> bytes:
        path = os.path.join(self.path, *segments)
        try:
            found = opened(path)
        except FormatError as error:
            raise OutsideSkill("expected a file, found a link or a device", where=path) from error
        if found is None:
            raise Drifted("the file was taken away meanwhile", where=path)
        handle, status = found
        with os.fdopen(handle, "rb") as file:
            data = file.read(limit + 1)
            # The stamp has the inode: a folder that was swapped for a link leads to another file.
            if stamp_of(status) != expected or stamp_of(os.fstat(handle)) != expected:
                raise Drifted("the file was changed meanwhile", where=path, hint="load the skill again")
        if len(data) > limit:
            raise FormatError(f"expected at most {limit} bytes", where=path)
        return data

    def check(self, agreed: Agreed) -> None:
        """Return if the folder holds what was agreed to, to the last byte.

        What was found whole before and has moved in no file, by size, both times and inode, is not read again.

        Raises:
            Drifted: it does not.
            StateError: it cannot be read.
        """
        record = agreed.state and os.path.join(agreed.state, "seen", f"{self._key()}.json")
        if self.odd:
            raise _drifted(f"{quote(self.odd[0])} is neither a file nor a folder", self.path)
        if self.is_cut:
            raise _drifted(f"it holds more than {FILES_MAX} files", self.path)
        if record and _recorded(record) == self._record(agreed.tree):
            return
        oldest = time.time_ns() - int(agreed.grain * 1e9)
        found = Listing(self._hashed(agreed.listing))
        if found.digest != agreed.tree:
            raise _drifted(_difference(found, agreed), self.path)
        if record and all(changed(each) < oldest for each in self.stamps.values()):
            with suppress(StateError):  # where nothing can be written, all is read again each time
                write_own(record, json.dumps(self._record(agreed.tree)).encode())

    def hold_to(self, agreed: Agreed) -> None:
        """Do ``check``, and have ``read`` hand out nothing but what this tree has. Raises as ``check``."""
        self.check(agreed)
        listing = agreed.listing
        if listing is None or listing.digest != agreed.tree:
            listing = Listing(self._hashed(None))
            if listing.digest != agreed.tree:
                raise _drifted(_difference(listing, agreed), self.path)
        self._listing = listing

    def _hashed(self, listing: Listing | None) -> Iterator[tuple[str, ListedFile]]:
        for relative in self.names:
            digest = sha256(self.read(relative, _CAP)).hexdigest()
            if _HAS_EXECUTE_BIT:
                is_executable = bool(os.lstat(os.path.join(self.path, *relative.split("/"))).st_mode & 0o100)
            else:
                is_executable = bool(listing and relative in listing and listing[relative].executable)
            yield relative, ListedFile(digest, is_executable)

    def _key(self) -> str:
        return sha256(os.fsencode(self.path)).hexdigest()[:32]

    def _record(self, tree: Digest) -> dict[str, object]:
        stamps = {os.fsencode(name).hex(): stamp for name, stamp in self.stamps.items()}
        return {"tree": tree, "stamps": stamps}


def _entries(folder: str, skipped: Collection[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield all that is no folder, breadth first, by name within a folder."""
    waiting = deque([""])
    while waiting:
        prefix = waiting.popleft()
        with os.scandir(os.path.join(folder, prefix)) as rows:
            for row in sorted(rows, key=lambda row: (row.name != SKILL_MD, row.name)):
                if not _is_folder(row):
                    yield prefix + row.name, row
                elif row.name not in skipped:
                    waiting.append(f"{prefix}{row.name}/")


def _is_folder(row: os.DirEntry[str]) -> bool:
    # A junction of Windows says that it is a folder; like a link it is a reparse point.
    return row.is_dir(follow_symlinks=False) and not getattr(
        row.stat(follow_symlinks=False), "st_reparse_tag", 0
    )


def _recorded(path: str) -> object:
    try:
        return strict_json(disk.read(path, _STATE_CAP) or b"null", path, _STATE_CAP)
    except SkillhubError:
        return None  # what cannot be read proves nothing


def _difference(found: Listing, agreed: Agreed) -> str:
    wanted: Mapping[str, ListedFile] = agreed.listing or {}
    for path in sorted({*found, *wanted}) if wanted else ():
        if path not in wanted:
            return f"{quote(path)} is a file that the lock does not know"
        if path not in found:
            return f"{quote(path)} is gone"
        if found[path] != wanted[path]:
            return f"{quote(path)} was changed"
    return f"expected the tree {agreed.tree}, found {found.digest}"


def _drifted(reason: str, path: str) -> Drifted:
    hint = "skillhub verify says what differs, skillhub sync puts back what is locked"
    return Drifted(f"the skill is not what was agreed to: {reason}", where=path, hint=hint)
