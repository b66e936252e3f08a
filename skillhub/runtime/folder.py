"""The folder of one skill, checked against the agreed tree; and the skill that was loaded from it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, islice
from typing import Any, Final, NoReturn

from skillhub.disk import files
from skillhub.disk.folders import LARGEST, ExecuteBits, write_tree
from skillhub.disk.proved import Stamp, is_proof, stamp_of
from skillhub.errors import Drifted, FormatError, NotFound, OutsideSkill, SkillhubError, StateError, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.json import strict_json
from skillhub.formats.text import is_path, is_segment, quote
from skillhub.formats.yaml import Node
from skillhub.model.skill import Skill
from skillhub.model.tree import SKILL_MD, File, ListedFile, Listing
from skillhub.runtime.catalog import HEAD
from skillhub.runtime.walk import are_facts, facts_in, opened, write_own

FILES_MAX: Final = 2000
_FILE_CAP: Final = 8 << 20
SYSTEM_MARKER: Final = ".codex-system-skills.marker"
_CAP: Final = 64 * 1024 * 1024
_STATE_CAP: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Agreed:
    """The tree that a skill's folder must hold.

    Attributes:
        tree: The digest in the lock.
        listing: The files of that tree, if they are known; then an error names the file that differs.
        state: The folder of skillhub's state, for the stamps of checked files: unchanged files are not read again.
    """

    tree: Digest
    listing: Listing | None = None
    state: str | None = None


class Folder:
    """The files below a folder at the time of its construction, at most 2,000.

    Args:
        path: The folder; links on the way to it are followed, links inside are not.
        skipped: Names of folders to skip.
        only: The name of the only file to list; empty for all files.

    Attributes:
        stamps: The stamp of each file, by path with ``/`` between segments.
        non_files: The paths that are neither a file nor a folder.
        listing: The files of the tree that ``hold_to`` checked; None before.
        is_cut: Whether the folder holds more files than are listed.

    Raises:
        StateError: the folder cannot be read.
    """

    def __init__(self, path: str, skipped: Collection[str] = (), only: str = "") -> None:
        self.path = os.path.realpath(path)
        self.listing: Listing | None = None
        self._heads: dict[str, bytes] = {}
        self.stamps: dict[str, Stamp] = {}
        self.non_files: list[str] = []
        self._executable: set[str] = set()
        try:
            entries = _only_entry(self.path, only) if only else _entries(self.path, skipped)
            for relative, entry in islice(entries, FILES_MAX):
                if entry.is_file(follow_symlinks=False):
                    status = os.lstat(entry.path)
                    self.stamps[relative] = stamp_of(status)
                    if status.st_mode & 0o100:
                        self._executable.add(relative)
                else:
                    self.non_files.append(relative)
            self.is_cut = next(entries, None) is not None
        except OSError as error:
            raise StateError(f"the skill cannot be read: {error.strerror}", where=self.path) from error

    @property
    def names(self) -> tuple[str, ...]:
        """The paths of the files, with ``/`` between segments, sorted."""
        return tuple(sorted(self.stamps))

    def read(self, relative: str, limit: int) -> bytes:
        """Return the bytes of a file of the skill, unchanged since the construction of this object.

        After ``hold_to``, the returned bytes themselves are hashed and compared with the tree.

        Raises:
            OutsideSkill: the path leads out of the skill, or through a link.
            NotFound: the skill has no such file.
            Drifted: the file was changed meanwhile, or differs from the tree.
            FormatError: the file has more than ``limit`` bytes.
            StateError: the file cannot be read.
        """
        segments = relative.split("/")
        if not all(map(is_segment, segments)):
            raise OutsideSkill(f"expected a plain path inside the skill, found {quote(relative)}", where=self.path)
        expected = self.stamps.get(relative)
        if expected is None:
            self._no_file(relative, segments)
        with files.disk_errors(f"{self.path}/{relative}"):
            data = self._bytes(segments, expected, limit)
        if self.listing is not None:
            listed = self.listing.get(relative)
            if listed is None or sha256(data).hexdigest() != listed.sha256:
                raise _drifted(f"{quote(relative)} was changed", self.path)
        return data

    def _no_file(self, relative: str, segments: list[str]) -> NoReturn:
        for end in range(1, len(segments) + 1):
            if "/".join(segments[:end]) in self.non_files:
                raise OutsideSkill(f"{quote(relative)} passes through a link or a device", where=self.path)
        raise NotFound(f"the skill has no file {quote(relative)}", where=self.path)

    def _bytes(self, segments: list[str], expected: Stamp, limit: int) -> bytes:
        path = os.path.join(self.path, *segments)
        try:
            opened_file = opened(path)
        except FormatError as error:
            raise OutsideSkill("expected a file, found a link or a device", where=path) from error
        if opened_file is None:
            raise Drifted("the file was removed meanwhile", where=path)
        handle, status = opened_file
        with os.fdopen(handle, "rb") as file:
            data = file.read(min(limit, status.st_size) + 1)
            # The stamp has the inode: if a folder was replaced by a link, the path leads to another inode.
            if stamp_of(status) != expected or stamp_of(os.fstat(handle)) != expected:
                raise Drifted("the file was changed meanwhile", where=path, hint="load the skill again")
        if len(data) > limit:
            raise FormatError(f"expected at most {limit} bytes", where=path)
        return data

    def check(self, agreed: Agreed) -> Mapping[str, Any]:
        """Compare every byte of the folder with the agreed tree, and return the facts that the skill declares.

        If an earlier check passed and no stamp (size, both times, inode) has changed since, no file is read.

        Raises:
            Drifted: the folder differs from the tree.
            StateError: a file cannot be read.
        """
        record = os.path.join(agreed.state, "seen", f"{self._key()}.json") if agreed.state else ""
        if self.non_files:
            raise _drifted(f"{quote(self.non_files[0])} is neither a file nor a folder", self.path)
        if self.is_cut:
            raise _drifted(f"it holds more than {FILES_MAX} files", self.path)
        stored_facts = self._stored_facts(record, agreed.tree) if record else None
        if stored_facts is not None:
            return stored_facts
        now = time.time_ns()
        listing = Listing(self.hashed(agreed.listing))
        if listing.digest != agreed.tree:
            raise _drifted(_difference(listing, agreed), self.path)
        facts = facts_in(self._heads, os.path.basename(self.path))
        if record and all(is_proof(stamp, now) for stamp in self.stamps.values()):
            with suppress(StateError):  # if the state cannot be written, the next check reads every file again
                write_own(record, json.dumps(self._record(agreed.tree) | {"facts": facts}).encode())
        return facts

    def hold_to(self, agreed: Agreed) -> None:
        """Check the folder, and let ``read`` return only bytes of this tree. Raises as ``check``."""
        self.check(agreed)
        listing = agreed.listing
        if listing is None or listing.digest != agreed.tree:
            listing = Listing(self.hashed())
            if listing.digest != agreed.tree:
                raise _drifted(_difference(listing, agreed), self.path)
        self.listing = listing

    def hashed(self, listing: Listing | None = None) -> Iterator[tuple[str, ListedFile]]:
        """Yield each file with its digest; ``listing`` has the execute bits where the file system keeps none."""
        bits = ExecuteBits(self.path, listing or {})
        for relative in self.names:
            data = self.read(relative, _CAP)
            if relative in HEAD:
                self._heads[relative] = data
            digest = sha256(data).hexdigest()
            yield relative, ListedFile(digest, bits.of(relative, relative in self._executable))

    def _key(self) -> str:
        return sha256(os.fsencode(self.path)).hexdigest()[:32]

    def _stored_facts(self, record: str, tree: Digest) -> Mapping[str, Any] | None:
        """Return the facts that an earlier check of this tree stored; None without one, or if a stamp has changed."""
        stored: object = None
        with suppress(SkillhubError):  # an unreadable record proves nothing
            stored = strict_json(files.read(record, _STATE_CAP) or b"null", record, _STATE_CAP)
        facts = stored.pop("facts", None) if isinstance(stored, dict) else None
        return facts if stored == self._record(tree) and isinstance(facts, dict) and are_facts(facts) else None

    def _record(self, tree: Digest) -> dict[str, object]:
        return {"tree": tree, "stamps": {os.fsencode(name).hex(): stamp for name, stamp in self.stamps.items()}}


def all_files(skill: Skill) -> Folder:
    """Return the folder of a skill with all its files, also those of tools, such as ``node_modules``.

    Raises:
        StateError: it cannot be read; or it has a link, or more or larger files than a skill to install.
    """
    parent, name = os.path.split(skill.file)
    folder = Folder(parent, only=name if skill.is_command else "")
    size = sum(int(stamp.split()[0]) for stamp in folder.stamps.values())
    if folder.non_files or folder.is_cut or size > LARGEST:
        expected = f"at most {FILES_MAX} files without links, and {LARGEST >> 20} MiB"
        raise StateError(f"expected {expected}, so that a change of the skill is noticed", where=folder.path)
    return folder


def has_tree(skill: Skill, tree: Digest, state: str | None) -> bool:
    """Return whether a skill has this tree: that of its lock, or else that of all its files now."""
    if skill.tree is not None:
        return skill.tree == tree
    try:
        all_files(skill).check(Agreed(tree, state=state))
    except SkillhubError:
        return False
    return True


def bring_system_skills(source: str, target: str) -> bool:
    """Copy the system skills that a host ships to their folder, and return whether anything was written.

    Codex keeps its own skills in ``$CODEX_HOME/skills/.system``. If the marker file there has the digest of
    ``source``, nothing is written; otherwise the whole folder is replaced.

    Args:
        source: The folder that the host ships.
        target: The folder of system skills.

    Raises:
        OutsideSkill: ``source`` holds something that is neither a file nor a folder, or more than 2,000 files.
        UsageError: ``source`` or ``target`` is no absolute path.
        StateError: the disk refuses; the folder is unchanged.
    """
    if not all(is_path(path) and os.path.isabs(path) for path in (source, target)):
        raise UsageError(f"expected two absolute paths, found {quote(source)} and {quote(target)}")
    shipped = Folder(source)
    if shipped.non_files or shipped.is_cut:
        raise OutsideSkill(f"expected at most {FILES_MAX} files and folders", where=source)
    listing = Listing(shipped.hashed())
    digest = f"{listing.digest}\n".encode()
    if files.read(os.path.join(target, SYSTEM_MARKER), _STATE_CAP) == digest:
        return False
    parent = os.path.dirname(os.path.abspath(target))
    with files.disk_errors(parent):
        os.makedirs(parent, exist_ok=True)
        staging = tempfile.mkdtemp(prefix=".system-", dir=parent)
        try:
            new_folder, old_folder = os.path.join(staging, "new"), os.path.join(staging, "old")
            copied = ((name, File(shipped.read(name, _CAP), listing[name].executable)) for name in shipped.names)
            write_tree(new_folder, chain(copied, [(SYSTEM_MARKER, File(digest))]), read_only=False)
            if os.path.lexists(target):
                os.rename(target, old_folder)
            try:
                os.rename(new_folder, target)
            except OSError:
                if os.path.lexists(old_folder):
                    os.rename(old_folder, target)
                raise
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return True


def _entries(folder: str, skipped: Collection[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield every entry that is no folder, breadth first; within a folder ``SKILL.md`` first, then by name."""
    waiting = deque([""])
    while waiting:
        prefix = waiting.popleft()
        with os.scandir(os.path.join(folder, prefix)) as rows:
            for row in sorted(rows, key=lambda row: (row.name != SKILL_MD, row.name)):
                if not _is_folder(row):
                    yield prefix + row.name, row
                elif row.name not in skipped:
                    waiting.append(f"{prefix}{row.name}/")


def _only_entry(folder: str, name: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as rows:
        yield from ((row.name, row) for row in rows if row.name == name)


def _is_folder(row: os.DirEntry[str]) -> bool:
    # A junction of Windows reports that it is a folder; like a link it is a reparse point.
    return row.is_dir(follow_symlinks=False) and not getattr(row.stat(follow_symlinks=False), "st_reparse_tag", 0)


def _difference(listing: Listing, agreed: Agreed) -> str:
    if agreed.listing:
        for path in sorted({*listing, *agreed.listing}):
            if path not in agreed.listing:
                return f"{quote(path)} is a file that is not in the lock"
            if path not in listing:
                return f"{quote(path)} is gone"
            if listing[path] != agreed.listing[path]:
                return f"{quote(path)} was changed"
    return f"expected the tree {agreed.tree[:80]}, found {listing.digest}"


def _drifted(reason: str, path: str) -> Drifted:
    hint = "skillhub verify shows what differs, skillhub sync restores the locked files"
    return Drifted(f"the skill differs from the agreed version: {reason}", where=path, hint=hint)


# A skill that was loaded from its folder, and its requests to its host: a context of its own, and hooks. Nothing is
# granted here.


@dataclass(frozen=True, slots=True)
class Fork:
    """A skill's request to run in a context of its own; the host decides whether it gets one.

    Attributes:
        agent: The kind of agent; empty for the host's default.
        model: The model; empty for the current one.
        task: The instructions with their arguments, for that agent alone.
    """

    agent: str
    model: str
    task: str

    def to_json(self) -> dict[str, str | None]:
        """Return the request in the form of ``fork`` in ``skillhub load --json``."""
        return {"agent": self.agent or None, "model": self.model or None, "task": self.task}


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook that a skill requests while it is in use; skillhub does not run it.

    Attributes:
        event: The event, such as ``Stop`` or ``PreToolUse``.
        matcher: The tools for which it runs; empty for all.
        kind: ``command``, or the skill's own word.
        command: The command to run.
        once: Whether it runs at most once in a session.
        lifetime: Always ``skill``: the hook ends with the use of the skill.
    """

    event: str
    matcher: str
    kind: str
    command: str
    once: bool
    lifetime: str = "skill"

    def to_json(self) -> dict[str, Any]:
        """Return the hook in the form of ``hooks`` in ``skillhub load --json``."""
        row = {"event": self.event, "matcher": self.matcher, "type": self.kind, "command": self.command}
        return {**row, "once": self.once, "lifetime": self.lifetime}


def hooks_of(hooks: Node) -> tuple[Hook, ...]:
    """Return the hooks of a frontmatter, without those that do not have the form of Claude Code."""
    parsed: list[Hook] = []
    if not isinstance(hooks, dict):
        return ()
    for event, groups in hooks.items():
        for group in groups if isinstance(groups, list) else [groups]:
            if not isinstance(group, dict):
                continue
            inner = group.get("hooks", [group])
            for hook in inner if isinstance(inner, list) else [inner]:
                if isinstance(hook, dict) and isinstance(command := hook.get("command"), str):
                    kind, once = hook.get("type", "command"), hook.get("once", group.get("once"))
                    matcher = group.get("matcher", "")
                    parsed.append(Hook(event, str(matcher), str(kind), command, str(once).lower() == "true"))
    return tuple(parsed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A loaded skill; ``inject`` puts the host's envelope around it for the model.

    Attributes:
        skill: The skill.
        folder: The folder of its files, to which relative paths in ``body`` refer.
        front: The lines above the instructions, as written.
        body: The instructions, with all placeholders filled.
        arguments: The arguments that were filled in.
        version: The tree that was checked, or the SHA-256 of ``SKILL.md``; equal versions have equal instructions.
        files: The paths of its other files, sorted; they were not read.
        tools: The only tools that it wants while it is in use, with patterns such as ``Bash(git add:*)``; None if it
            does not restrict them.
        fork: Its request for a context of its own; None if it has none.
        hooks: The hooks that it requests.
        is_repeat: Whether the session had this text already; ``inject`` then gives some hosts a reminder only.
        notes: Lines to show to the user.
    """

    skill: Skill
    folder: Folder
    front: str
    body: str
    arguments: str
    version: str
    files: tuple[str, ...]
    tools: tuple[str, ...] | None
    fork: Fork | None
    hooks: tuple[Hook, ...]
    is_repeat: bool
    notes: tuple[str, ...]

    def narrowed(self, tools: Collection[str]) -> tuple[str, ...]:
        """Return those of the host's tools that this skill names; never one that the host does not have.

        Only names are compared: ``Bash(git add:*)`` leaves all of ``Bash``. The host enforces the patterns in
        ``tools`` when it judges each call.
        """
        if self.tools is None:
            return tuple(tools)
        allowed = {tool.partition("(")[0].lower() for tool in self.tools}
        return tuple(tool for tool in tools if tool.lower() in allowed)

    def read(self, relative: str) -> bytes:
        """Return the bytes of one of the skill's files, unchanged since it was loaded.

        Raises:
            OutsideSkill: the path leads out of the skill, or through a link.
            NotFound: the skill has no such file.
            Drifted: the file was changed meanwhile, or differs from the agreed tree.
            FormatError: the file has more than eight MiB.
            StateError: the file cannot be read.
        """
        return self.folder.read(relative, _FILE_CAP)
