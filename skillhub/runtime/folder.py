"""The folder of one skill, checked against the agreed tree, and the locks and records that hold the agreement."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, NoReturn

from skillhub.disk import files
from skillhub.disk.folders import LARGEST, ExecuteBits, one_look
from skillhub.disk.home import LOCK, Home, project_folders, user_home
from skillhub.disk.proved import Stamp, is_proof, stamp_of
from skillhub.errors import Drifted, FormatError, NotFound, OutsideSkill, SkillhubError, StateError, UsageError
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.formats.json import strict_json
from skillhub.formats.text import as_command, is_path, is_segment, quote, typed_flags
from skillhub.model.hosts import hosts
from skillhub.model.lock import Locked
from skillhub.model.provenance import Record
from skillhub.model.question import HoldReason
from skillhub.model.skill import Skill
from skillhub.model.tree import SKILL_MD, ListedFile, Listing
from skillhub.project.copies import absolute, folders_of, need_check, view
from skillhub.project.last_seen import BarringCheck, barring
from skillhub.project.project import Project, state_key, workspace_around
from skillhub.project.store import Store
from skillhub.runtime.catalog import LockedNames, folded, holding, is_beside
from skillhub.runtime.discover import HEAD, Surroundings, upwards
from skillhub.runtime.walk import are_facts, facts_in, opened, write_own

FILES_MAX: Final = 2000
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
                    self._executable |= {relative} if status.st_mode & 0o100 else set()
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
        try:
            data = self._bytes(segments, expected, limit)
        except OSError as error:
            raise StateError(f"cannot be read: {error.strerror}", where=f"{self.path}/{relative}") from error
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
            data = file.read(limit + 1)
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
        record = agreed.state and os.path.join(agreed.state, "seen", f"{self._key()}.json")
        if self.non_files:
            raise _drifted(f"{quote(self.non_files[0])} is neither a file nor a folder", self.path)
        if self.is_cut:
            raise _drifted(f"it holds more than {FILES_MAX} files", self.path)
        if record and (facts := self._stored_facts(record, agreed.tree)) is not None:
            return facts
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
        stored = _read_record(record)
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
    digest = f"{Listing(shipped.hashed()).digest}\n".encode()
    if files.read(os.path.join(target, SYSTEM_MARKER), _STATE_CAP) == digest:
        return False
    parent = os.path.dirname(os.path.abspath(target))
    with files.disk_errors(parent):
        os.makedirs(parent, exist_ok=True)
        staging = tempfile.mkdtemp(prefix=".system-", dir=parent)
        try:
            new_folder, old_folder = os.path.join(staging, "new"), os.path.join(staging, "old")
            for name in shipped.names:
                path = os.path.join(new_folder, *name.split("/"))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "xb") as file:
                    file.write(shipped.read(name, _CAP))
                shutil.copymode(os.path.join(shipped.path, *name.split("/")), path)
            with open(os.path.join(new_folder, SYSTEM_MARKER), "xb") as file:
                file.write(digest)
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


def _read_record(path: str) -> object:
    try:
        return strict_json(files.read(path, _STATE_CAP) or b"null", path, _STATE_CAP)
    except SkillhubError:
        return None  # an unreadable record proves nothing


def _difference(listing: Listing, agreed: Agreed) -> str:
    agreed_files: Mapping[str, ListedFile] = agreed.listing or {}
    for path in sorted({*listing, *agreed_files}) if agreed_files else ():
        if path not in agreed_files:
            return f"{quote(path)} is a file that is not in the lock"
        if path not in listing:
            return f"{quote(path)} is gone"
        if listing[path] != agreed_files[path]:
            return f"{quote(path)} was changed"
    return f"expected the tree {agreed.tree[:80]}, found {listing.digest}"


def _drifted(reason: str, path: str) -> Drifted:
    hint = "skillhub verify shows what differs, skillhub sync restores the locked files"
    return Drifted(f"the skill differs from the agreed version: {reason}", where=path, hint=hint)


# The locks for a host's skills have what a team agreed to; this machine's records what a person here agreed to and
# enabled, and the folders that it was copied to. Both are read at each call of ``Locks.read``; neither is written.

_WAITING = {"needs": "has open needs", "asked": "is installed but not enabled"}


class Owner(NamedTuple):
    """The locked skill that a folder belongs to.

    ``how`` is ``place`` for a folder that skillhub made, or would make once the skill is enabled; ``inside`` for a
    folder within such a folder; and ``gone`` for a folder that skillhub made of a skill that has since left its lock.
    """

    skill: Skill
    how: Literal["place", "inside", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLocks:
    """The contents of the locks and of this machine's records.

    Attributes:
        skills: The locked skills whose names no other skill may have here.
        places: The skill of every folder that skillhub put one into; the paths are ``folded``.
        gone: The places of skills that left their lock.
        waiting: For each folder of an agent, by name, the disabled skills that would be in it; both are ``folded``.
        store: The folder of the store, from which agents do not read.
        errors: Why locks or records cannot be read; if there is one, no skill counts as agreed to.
    """

    skills: tuple[Skill, ...] = ()
    places: Mapping[str, Skill] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    waiting: Mapping[str, Mapping[str, Skill]] = field(default_factory=dict)
    store: str = ""
    errors: tuple[SkillhubError, ...] = ()
    _around: dict[str, Skill | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def at(self, skill: Skill) -> Owner | None:
        """Return the locked skill that the folder of ``skill`` belongs to, by its path and its links."""
        if not (self.places or self.waiting):
            return None
        folded_paths = {path: folded(path) for path in (*skill.links, skill.path or "")}
        for path, place in folded_paths.items():
            locked = self._skill_at(place)
            if locked is not None and not is_beside(path, locked):
                return Owner(locked, "gone" if place in self.gone else "place")
        for place in folded_paths.values():
            locked = self._skill_around(os.path.dirname(place))
            if locked is not None:
                return Owner(locked, "inside")
        return None

    def _skill_at(self, place: str) -> Skill | None:
        folder, name = os.path.split(place)
        return self.places.get(place) or self.waiting.get(folder, {}).get(name)

    def _skill_around(self, folder: str) -> Skill | None:
        """Return the skill whose folder this is or is in, also above the root, since a root may lie in a skill."""
        if folder not in self._around:
            above = os.path.dirname(folder)
            self._around[folder] = self._skill_at(folder) or (self._skill_around(above) if above != folder else None)
        return self._around[folder]

    def named(self, skill: Skill) -> Skill | None:
        """Return the locked skill whose name, or one spelled alike, an unlocked ``skill`` has; else None."""
        return None if skill.managed else LockedNames(self.skills).of(skill)

    def is_stored(self, path: str) -> bool:
        """Return whether a canonical path is in the store, which also holds trees that no one agreed to."""
        return bool(self.store) and path.startswith(self.store + os.sep)


class Locks:
    """The locks that apply to some folders.

    Args:
        around: Where the host runs; its variables, or those of the process, locate skillhub's state.
        folders: The folders that are searched for skills; the names in their projects' locks are reserved there.
        holders: Those of the folders that hold skills; no disabled skill may be in them.
        written: The tree of each folder that this process has just written; these folders are not hashed again.
    """

    def __init__(
        self,
        around: Surroundings,
        folders: Iterable[str],
        holders: Iterable[str] = (),
        written: Mapping[str, Digest] | None = None,
    ) -> None:
        # The variables of the process stay with the process: whoever keeps a skill can send it to another one.
        self._around = replace(around, environ={}) if around.environ is os.environ else around
        self._user_home = os.path.abspath(around.home)
        self.written = dict(written or {})
        self._folders = tuple(dict.fromkeys(folders))
        self._holders = tuple(dict.fromkeys(holders))
        self._parsed: dict[str, dict[str, tuple[bytes | None, Any]]] = {}
        self._home: Home | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Locks) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, ...]:
        homes = self._around.variables.get("SKILLHUB_HOME"), self._around.state, self._user_home
        return (*homes, self._folders, self._holders, frozenset(self.written.items()))

    @classmethod
    def near(cls, skill: Skill) -> Locks:
        """Return the locks for a skill of which only the folder is known."""
        folder = os.path.abspath(skill.path or "")
        folders = [*map(os.path.dirname, (folder, *map(os.path.abspath, skill.links)))]
        return cls(Surroundings(cwd=folder, home=user_home()), folders, folders)

    @property
    def state(self) -> str | None:
        """The folder of skillhub's state; None if it is not found yet."""
        return self._home.state if self._home else self._around.state

    def agreed(self, tree: Digest) -> Agreed:
        """Return what the folder of a skill with this tree must hold, with the files of the tree if it is stored."""
        listing = Store(self._home.data).listing(tree) if self._home else None
        return Agreed(tree, listing, self.state)

    def read(self, others: Iterable[str] = ()) -> KnownLocks:
        """Read the locks and records, and return their contents; ``others`` are further folders that hold links."""
        try:
            if self._home is None:
                home = Home.around(self._around.variables, self._user_home)
                self._home = replace(home, state=self._around.state) if self._around.state is not None else home
            store = Store(self._home.data)
        except SkillhubError as error:
            return KnownLocks(errors=(error,))
        skills, errors = list[Skill](), list[SkillhubError]()
        gone_places, places = set[str](), dict[str, Skill]()
        waiting: dict[str, Mapping[str, Skill]] = {}
        real = one_look()
        for project, reserves_names in self._near(self._home, others, real):
            try:
                installed = _installed(project, store, self._around.variables)
            except SkillhubError as error:
                errors.append(error)
                continue
            skills += [entry.skill for entry in installed if reserves_names and not entry.is_gone]
            for entry in installed:
                links = [(link, *os.path.split(link)) for link in entry.links]
                spelled = {folded(x) for link, base, name in links for x in (link, os.path.join(real(base), name))}
                places |= dict.fromkeys(spelled, entry.skill)
                gone_places |= spelled if entry.is_gone else set()
            held_back = {folded(entry.skill.name): entry.skill for entry in installed if entry.skill.held is not None}
            for folder in self._folders_of(project, reserves_names, real) if held_back else ():
                waiting[folder] = {**waiting[folder], **held_back} if folder in waiting else held_back
        known = KnownLocks(skills=tuple(skills), places=places, gone=frozenset(gone_places), errors=tuple(errors))
        return replace(known, waiting=waiting, store=real(store.root))

    def _folders_of(self, project: Project, reserves_names: bool, real: Callable[[str], str]) -> set[str]:
        """Return the folders, ``folded``, that may hold skills of a project: its agents', and ``holders`` near it."""
        agent_folders = folders_of(project, hosts().values(), self._user_home, self._around.variables)
        places = (*agent_folders, *self._holders) if reserves_names else agent_folders
        return {folded(path) for place in places for path in (place, real(place))}

    def _near(self, home: Home, others: Iterable[str], real: Callable[[str], str]) -> Iterator[tuple[Project, bool]]:
        """Yield each project that applies, and whether its names are reserved: the user's scope, and those around.

        A repository may bring a lock or a ``.git`` that hides the project around it. So a parent folder also counts
        if this machine has a record of it, which no repository can write, or if its lock is about a searched folder.
        """
        yield self._project(self._user_home, "user", home), True
        project_folder, paths = project_folders(), (*self._folders, *others)
        bases = dict.fromkeys(map(workspace_around, dict.fromkeys(map(project_folder, self._folders))))
        for base in bases:
            yield self._project(base, "project", home), True
        starts = dict.fromkeys(start for path in paths for start in (path, real(path)))
        parents = dict.fromkeys(place for start in starts for place in upwards(os.path.abspath(start)))
        real_bases = {real(base) for base in bases}
        for base in dict.fromkeys(map(workspace_around, dict.fromkeys(map(project_folder, map(real, paths))))):
            # A link leads into another project, whose lock may be unknown to this machine.
            if base not in real_bases and os.path.lexists(os.path.join(base, LOCK)):
                yield self._project(base, "project", home), False
        searched, reached = ([folded(real(path)) + os.sep for path in group] for group in (self._folders, paths))
        for base in parents:
            record = f"{state_key(base, 'project', real)}.json"
            is_known = os.path.lexists(os.path.join(home.state, "projects", record))
            if base in bases or not (is_known or os.path.lexists(os.path.join(base, LOCK))):
                continue
            project = self._project(base, "project", home)
            own_folders = tuple(path + os.sep for path in self._folders_of(project, False, real))
            reserves_names = any(place.startswith(own_folders) for place in searched)
            if reserves_names or is_known or any(place.startswith(own_folders) for place in reached):
                yield project, reserves_names

    def _project(self, base: str, scope: Literal["project", "user"], home: Home) -> Project:
        # Each read opens the folders anew, since these locks live as long as a skill; only changed files are parsed.
        project = Project(base, scope, home)
        project.parsed_files = self._parsed.setdefault(f"{scope}:{base}", project.parsed_files)
        return project


class NoLocks(Locks):
    """No locks, for a host that ignores them."""

    def __init__(self) -> None:
        top = os.path.abspath(os.sep)
        super().__init__(Surroundings(cwd=top, home=top), ())

    def read(self, others: Iterable[str] = ()) -> KnownLocks:
        """Return no locks and no errors."""
        return KnownLocks()


class _Installed(NamedTuple):
    skill: Skill
    links: tuple[str, ...]
    is_gone: bool = False


def _installed(project: Project, store: Store, environ: Mapping[str, str]) -> list[_Installed]:
    """Return every skill that is in the lock, or that left it, with the folders that skillhub put it into."""
    lock, records = project.lock(), project.records()
    home, scope, intent = project.home, project.scope, project.intent
    barred = barring(lock, store, home, project.key, scope, lambda name: intent().range_of(name))
    is_met = need_check(environ, records.enabled(lock.skills))
    installed = []
    for name, entry in lock.skills.items():
        record = records.skills.get(name)
        skill = view(name, entry, record, is_met, project, store)
        skill = replace(skill, held=_hold_reason(name, entry, record, project, barred))
        links = tuple(absolute(project.base, link) for link in record.links) if record else ()
        installed.append(_Installed(skill, links))
    # A change of the repository may delete its lock as well; then the record has what was agreed to.
    for name, record in records.skills.items():
        if name not in lock.skills:
            left_skill = Skill(name=name, path=None, scope=project.scope, state="enabled", tree=record.tree)
            reason = barred(name, record.entry, record) if record.enabled else _left_reason(name, record, project)
            left_skill = holding(left_skill, reason) if reason else left_skill
            links = tuple(absolute(project.base, link) for link in record.links)
            installed.append(_Installed(left_skill, links, is_gone=True))
    return installed


def _hold_reason(
    name: str, entry: Locked, record: Record | None, project: Project, barred: BarringCheck
) -> HoldReason | None:
    flags = typed_flags(project.scope)
    if record is None or not record.is_of(entry):
        is_other = record is not None and record.tree != NO_FILES
        reason = f"was not agreed to on this machine{' in its locked version' if is_other else ''}"
        # An install leaves disabled what the user disabled.
        asks = ("enable", name) if record is not None and record.disabled_by == "user" else ("install",)
        return HoldReason("not-agreed", reason, as_command("skillhub", *asks, *flags))
    if (hold_reason := barred(name, entry, record)) or record.enabled:
        return hold_reason
    reason = _WAITING.get(record.disabled_by, "is disabled")
    return HoldReason("disabled", reason, as_command("skillhub", "enable", name, *flags))


def _left_reason(name: str, record: Record, project: Project) -> HoldReason:
    reason = f"{_WAITING.get(record.disabled_by, 'is disabled')}, and is no longer in the lock"
    return HoldReason("disabled", reason, as_command("skillhub", "remove", name, *typed_flags(project.scope)))
