"""The folder of one skill: what is in it, whether that was agreed to, and its files, read only inside of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NoReturn

from skillhub.errors import Drifted, FormatError, NotFound, OutsideSkill, SkillhubError, StateError
from skillhub.model.digest import Digest
from skillhub.model.json import strict_json
from skillhub.model.text import quote
from skillhub.model.tree import ListedFile, Listing
from skillhub.runtime import files
from skillhub.runtime.files import Stamp, opened, stamp_of

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
    """The files below ``path``, as they were when this was made.

    Raises:
        StateError: it cannot be read, or holds more than 2,000 files.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        self.stamps: dict[str, Stamp] = {}
        self.odd: list[str] = []  # neither file nor folder
        try:
            for relative, entry in _entries(self.path):
                if entry.is_file(follow_symlinks=False):
                    self.stamps[relative] = stamp_of(os.lstat(entry.path))
                else:
                    self.odd.append(relative)
        except OSError as error:
            raise StateError(f"the skill cannot be read: {error.strerror}", where=self.path) from error

    @property
    def names(self) -> tuple[str, ...]:
        """The paths of its files, ``/`` between segments, sorted."""
        return tuple(sorted(self.stamps))

    def read(self, relative: str, limit: int) -> bytes:
        """Return the bytes of a file inside the skill, the same that was there when this was made.

        Raises:
            OutsideSkill: the path leads out of the skill, or over a link.
            NotFound: there is no such file.
            Drifted: the file was changed meanwhile.
            FormatError: it has more than ``limit`` bytes.
            StateError: it cannot be read.
        """
        segments = relative.split("/")
        if not all(map(_is_segment, segments)):
            raise OutsideSkill(
                f"expected a plain path inside the skill, found {quote(relative)}", where=self.path
            )
        expected = self.stamps.get(relative)
        if expected is None:
            self._no_file(relative, segments)
        try:
            return self._bytes(segments, expected, limit)
        except OSError as error:
            raise StateError(f"cannot be read: {error.strerror}", where=f"{self.path}/{relative}") from error

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
        if record and _recorded(record) == self._record(agreed.tree):
            return
        oldest = time.time_ns() - int(agreed.grain * 1e9)
        found = Listing(self._hashed(agreed.listing))
        if found.digest != agreed.tree:
            raise _drifted(_difference(found, agreed), self.path)
        if record and all(max(each[1:3]) < oldest for each in self.stamps.values()):
            files.write_atomic(record, json.dumps(self._record(agreed.tree)).encode())

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


def _entries(folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    waiting, count = [""], 0
    while waiting:
        prefix = waiting.pop()
        with os.scandir(os.path.join(folder, prefix)) as rows:
            for row in rows:
                count += 1
                if count > 2 * FILES_MAX:
                    raise StateError(f"expected a skill of at most {FILES_MAX} files", where=folder)
                if _is_folder(row):
                    waiting.append(f"{prefix}{row.name}/")
                else:
                    yield prefix + row.name, row


def _is_folder(row: os.DirEntry[str]) -> bool:
    # A junction of Windows says that it is a folder; like a link it is a reparse point.
    return row.is_dir(follow_symlinks=False) and not getattr(
        row.stat(follow_symlinks=False), "st_reparse_tag", 0
    )


def _is_segment(segment: str) -> bool:
    # `basename` knows what else separates on this system: a backslash or a drive on Windows.
    return segment not in ("", ".", "..") and "\0" not in segment and os.path.basename(segment) == segment


def _recorded(path: str) -> object:
    try:
        return strict_json(files.read(path, _STATE_CAP) or b"null", path, _STATE_CAP)
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
