"""The locks and records that hold the agreement about a host's skills."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from skillhub.disk.folders import one_look
from skillhub.disk.home import LOCK, Home, project_folders, upwards, user_home
from skillhub.errors import SkillhubError
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.formats.text import as_command, typed_flags
from skillhub.model.lock import Lock, Locked
from skillhub.model.provenance import Record, Records
from skillhub.model.question import HoldReason
from skillhub.model.skill import Skill
from skillhub.project.copies import absolute, need_check, read_by_agents, view
from skillhub.project.last_seen import LoadCheck
from skillhub.project.project import Project, state_key, workspace_around
from skillhub.project.store import Store
from skillhub.runtime.catalog import LockedNames, alike, folded, holding, is_beside
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.folder import Agreed

# The locks for a host's skills have what a team agreed to; this machine's records what a person here agreed to and
# enabled, and the folders that it was copied to. Both are read at each call of ``Locks.read``; neither is written.

_WAITING = {"needs": "has open needs", "asked": "is installed but not enabled"}


class Owner(NamedTuple):
    """The locked skill that a folder belongs to.

    Attributes:
        how: ``place`` for a folder that skillhub made, or would make once the skill is enabled; ``inside`` for a
            folder within such a folder; ``gone`` for a folder that skillhub made, whose skill left the lock since.
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
        self._spellings: dict[str, tuple[Lock, Records, Mapping[str, Collection[str]]]] = {}
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

    def read(self, others: Iterable[str] = (), about: Skill | None = None) -> KnownLocks:
        """Read the locks and records, and return their contents.

        Args:
            others: Further folders that hold links.
            about: The only skill that the caller passes on to ``at`` and ``named``; None for any. Locked skills that
                these cannot return for it are left out.
        """
        try:
            if self._home is None:
                home = Home.around(self._around.variables, self._user_home)
                self._home = replace(home, state=self._around.state) if self._around.state is not None else home
            store = Store(self._home.data)
        except SkillhubError as error:
            return KnownLocks(errors=(error,))
        skills: list[Skill] = []
        errors: list[SkillhubError] = []
        places: dict[str, Skill] = {}
        gone_places: set[str] = set()
        waiting: dict[str, Mapping[str, Skill]] = {}
        real = one_look()
        for project, reserves_names in self._near(self._home, others, real):
            try:
                lock = project.lock()
                files = lock, project.records().returned(lock.skills)
                names = None if about is None else self._names(project.lock_path, files, about)
                installed = _installed(project, store, self._around.variables, files, names)
            except SkillhubError as error:
                errors.append(error)
                continue
            skills += [entry.skill for entry in installed if reserves_names and not entry.is_gone]
            for entry in installed:
                links = [(link, *os.path.split(link)) for link in entry.links]
                spelled = {folded(x) for link, base, name in links for x in (link, os.path.join(real(base), name))}
                places |= dict.fromkeys(spelled, entry.skill)
                if entry.is_gone:
                    gone_places |= spelled
            held_back = {folded(entry.skill.name): entry.skill for entry in installed if entry.skill.held is not None}
            if held_back:
                for folder in self._folders_of(project, reserves_names, real):
                    waiting[folder] = {**waiting.get(folder, {}), **held_back}
        # While a lock cannot be read, every skill is held back for that, and none for the name of a locked one.
        skills = [] if errors else skills
        known = KnownLocks(skills=tuple(skills), places=places, gone=frozenset(gone_places), errors=tuple(errors))
        return replace(known, waiting=waiting, store=real(store.root))

    def _names(self, path: str, files: tuple[Lock, Records], about: Skill) -> Collection[str]:
        """Return the names in these files with a spelling that is in the paths or the name of ``about``."""
        known = self._spellings.get(path)
        if known is None or known[0] is not files[0] or known[1] is not files[1]:
            known = self._spellings[path] = *files, _by_spelling(*files)
        folders = (part for path in (*about.links, about.path or "") for part in folded(path).split(os.sep))
        return {name for spelling in (*folders, alike(about.full_name)) for name in known[2].get(spelling, ())}

    def _folders_of(self, project: Project, reserves_names: bool, real: Callable[[str], str]) -> set[str]:
        """Return the folders, ``folded``, that may hold skills of a project: its agents', and ``holders`` near it."""
        agent_folders = read_by_agents(project, self._user_home, self._around.variables)
        places = (*agent_folders, *self._holders) if reserves_names else agent_folders
        return {folded(path) for place in places for path in (place, real(place))}

    def _near(self, home: Home, others: Iterable[str], real: Callable[[str], str]) -> Iterator[tuple[Project, bool]]:
        """Yield each project that applies, and whether its names are reserved: the user's scope, and those around.

        A repository may bring a lock or a ``.git`` that hides the project around it. So a parent folder also counts
        if this machine has a record of it, which no repository can write, or if its lock is about a searched folder.
        """
        yield self._project(self._user_home, "user", home), True
        project_folder = project_folders()
        paths = (*self._folders, *others)
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
        searched = [folded(real(path)) + os.sep for path in self._folders]
        reached = [folded(real(path)) + os.sep for path in paths]
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

    def read(self, others: Iterable[str] = (), about: Skill | None = None) -> KnownLocks:
        """Return no locks and no errors."""
        return KnownLocks()


class _Installed(NamedTuple):
    skill: Skill
    links: tuple[str, ...]
    is_gone: bool = False


def _by_spelling(lock: Lock, records: Records) -> dict[str, set[str]]:
    """Return the names of the skills in a lock and in records by each spelling of them, and of their folders."""
    names: dict[str, set[str]] = {}
    for name in {**lock.skills, **records.skills}:
        record = records.skills.get(name)
        source = lock.skills[name].source if name in lock.skills else ""
        folders = (link.rpartition("/")[2] for link in record.links) if record else ()
        for spelling in (*map(folded, (name, *folders)), alike(name), alike(f"{source}:{name}")):
            names.setdefault(spelling, set()).add(name)
    return names


def _installed(
    project: Project,
    store: Store,
    environ: Mapping[str, str],
    files: tuple[Lock, Records],
    names: Collection[str] | None,
) -> list[_Installed]:
    """Return the skills, of ``names`` or all, that are in the lock or left it, with skillhub's folders of them."""
    lock, records = files
    check = LoadCheck(lock, store, project.home, project.key, project.scope, project.intent)
    asked = {**lock.skills, **records.skills}.keys() if names is None else names
    needs = any(records.skills[name].facts.needs for name in asked if name in records.skills)
    is_met = need_check(environ, records.enabled(lock.skills) if needs else ())
    installed = []
    for name, entry in lock.skills.items():
        if name not in asked:
            continue
        record = records.skills.get(name)
        skill = view(name, entry, record, is_met, project, store)
        skill = replace(skill, held=_hold_reason(name, entry, record, project, check))
        links = tuple(absolute(project.base, link) for link in record.links) if record else ()
        installed.append(_Installed(skill, links))
    # A change of the repository may delete its lock as well; then the record has what was agreed to.
    for name, record in records.skills.items():
        if name in asked and name not in lock.skills:
            left_skill = Skill(name=name, path=None, scope=project.scope, state="enabled", tree=record.tree)
            reason = check.hold(name, record.entry, record) if record.enabled else _left_reason(name, record, project)
            left_skill = holding(left_skill, reason) if reason else left_skill
            links = tuple(absolute(project.base, link) for link in record.links)
            installed.append(_Installed(left_skill, links, is_gone=True))
    return installed


def _hold_reason(
    name: str, entry: Locked, record: Record | None, project: Project, check: LoadCheck
) -> HoldReason | None:
    flags = typed_flags(project.scope)
    if record is None or not record.consent_to(entry):
        is_other = record is not None and record.newest.tree != NO_FILES
        reason = f"was not agreed to on this machine{' in its locked version' if is_other else ''}"
        # An install leaves disabled what the user disabled.
        asks = ("enable", name) if record is not None and record.disabled_by == "user" else ("install",)
        return HoldReason("not-agreed", reason, as_command("skillhub", *asks, *flags))
    if not record.is_of(entry) and record.disabled_by != "user":
        is_back = record.tree == NO_FILES
        reason = "was agreed to before the lock lacked it" if is_back else "was last enabled in another version"
        return HoldReason("disabled", reason, as_command("skillhub", "install", *flags))
    if (hold_reason := check.hold(name, entry, record)) or record.enabled:
        return hold_reason
    reason = _WAITING.get(record.disabled_by, "is disabled")
    return HoldReason("disabled", reason, as_command("skillhub", "enable", name, *flags))


def _left_reason(name: str, record: Record, project: Project) -> HoldReason:
    reason = f"{_WAITING.get(record.disabled_by, 'is disabled')}, and is no longer in the lock"
    return HoldReason("disabled", reason, as_command("skillhub", "remove", name, *typed_flags(project.scope)))
