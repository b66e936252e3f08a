"""Finds the locks that know a host's skills, and says which of these were agreed to on this machine.

The lock of a project says what its team agreed to, this machine's record what a person here agreed to and enabled,
and where it was copied to. Both are read anew each time that they are asked; neither is ever written here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from skillhub.errors import Drifted, SkillhubError
from skillhub.model.digest import Digest
from skillhub.model.lock import Locked
from skillhub.model.record import Record
from skillhub.model.skill import Held, Skill, typed_flags
from skillhub.model.text import as_command, quote
from skillhub.runtime.catalog import LockedNames, folded
from skillhub.runtime.folder import Agreed, Folder
from skillhub.runtime.roots import Surroundings, upwards
from skillhub.world.home import Home
from skillhub.world.installed import given, view
from skillhub.world.links import absolute
from skillhub.world.project import Project, project_folder, state_key
from skillhub.world.store import Store

_WAITING = {
    "needs": "waits for something that it needs and that is not there",
    "asked": "was installed and not enabled",
}


class Owner(NamedTuple):
    """The skill of a lock that a folder belongs to.

    ``how`` is ``place`` where skillhub put it there, ``inside`` for what lies in such a folder, ``left`` for what
    skillhub put there and the lock has no longer.
    """

    skill: Skill
    how: Literal["place", "inside", "left"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the locks and this machine's records say by now.

    Attributes:
        skills: Those whose names nobody else may have here.
        places: Every folder that skillhub put a skill into, spelled by ``folded``.
        left: The places of skills that left their lock.
        store: The folder of the store; what lies in there is nothing that an agent reads by itself.
        errors: Why a lock or a record cannot be read; then nothing is known to be agreed to.
    """

    skills: tuple[Skill, ...] = ()
    places: Mapping[str, Skill] = field(default_factory=dict)
    left: frozenset[str] = frozenset()
    store: str = ""
    errors: tuple[SkillhubError, ...] = ()

    def at(self, skill: Skill) -> Owner | None:
        """Return what the folder of a skill belongs to, by where it is and where it was met."""
        if not self.places:
            return None
        own = {folded(place) for place in (skill.path or "", *skill.links)}
        for place in map(folded, _upwards(skill)):
            found = self.places.get(place)
            if found is not None:
                how: Literal["place", "inside", "left"] = "left" if place in self.left else "place"
                return Owner(found, how if place in own else "inside")
        return None

    def named(self, skill: Skill) -> Skill | None:
        """Return the skill of a lock whose name one has that lies in none of the places."""
        return None if skill.managed else LockedNames(self.skills).of(skill)

    def is_linked_into_store(self, skill: Skill) -> bool:
        """Say whether a link leads to a folder of the store, where trees wait that nobody agreed to."""
        return bool(self.store) and os.path.realpath(skill.path or "").startswith(self.store + os.sep)


class Locks:
    """The locks that count for some folders.

    Args:
        around: Where the host runs; its variables, or else those of the process, say where skillhub's state is.
        folders: Where skills are looked for: the names in the locks of their projects are nobody else's there.
        others: Where such folders lead: only what skillhub put there belongs to a lock.
    """

    def __init__(self, around: Surroundings, folders: Iterable[str], others: Iterable[str] = ()) -> None:
        self._environ = around.environ or os.environ
        self._user_home = os.path.abspath(around.home)
        self._state = around.state
        self._folders = tuple(dict.fromkeys(folders))
        self._others = tuple(dict.fromkeys(others))
        self._projects: dict[str, Project] = {}
        self._home: Home | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Locks) and self._asked == other._asked

    def __hash__(self) -> int:
        return hash(self._asked)

    @property
    def _asked(self) -> tuple[object, ...]:
        named = self._environ.get("SKILLHUB_HOME"), self._state, self._user_home
        return (*named, self._folders, self._others)

    @classmethod
    def near(cls, skill: Skill) -> Locks:
        """Return the locks for a skill of which nothing is known but its folder."""
        folder = os.path.abspath(skill.path or "")
        around = Surroundings(cwd=folder, home=os.path.expanduser("~"))
        return cls(around, map(os.path.dirname, (folder, *map(os.path.abspath, skill.links))))

    @property
    def state(self) -> str | None:
        """The folder of skillhub's state, once it is known."""
        return self._home.state if self._home else self._state

    def agreed(self, tree: Digest) -> Agreed:
        """Return what the folder of a skill with this tree must hold."""
        listing = Store(self._home.data).listing(tree) if self._home else None
        return Agreed(tree, listing, self.state)

    def read(self, others: Iterable[str] = ()) -> Known:
        """Return what the locks and records say now; ``others`` are more folders that a skill may be reached by."""
        try:
            if self._home is None:
                home = Home.around(self._environ, self._user_home)
                self._home = replace(home, state=self._state) if self._state is not None else home
            store = Store(self._home.data)
        except SkillhubError as error:
            return Known(errors=(error,))
        skills: list[Skill] = []
        places: dict[str, Skill] = {}
        left: set[str] = set()
        errors: list[SkillhubError] = []
        for project, by_name in self._found(self._home, others):
            try:
                installed = _installed(project, store, self._environ)
            except SkillhubError as error:
                errors.append(error)
                continue
            skills += [each.skill for each in installed if by_name and not each.is_left]
            for each in installed:
                spelled = {folded(place) for link in each.links for place in (link, _resolved(link))}
                places |= dict.fromkeys(spelled, each.skill)
                left |= spelled if each.is_left else set()
        root = os.path.realpath(store.root)
        return Known(
            skills=tuple(skills), places=places, left=frozenset(left), store=root, errors=tuple(errors)
        )

    def _found(self, home: Home, others: Iterable[str]) -> Iterator[tuple[Project, bool]]:
        """Yield each project, and whether its names count: those around the folders, and the user's own scope.

        A repository may bring a lock or a ``.git`` that hides the project around it. So every folder above counts of
        which this machine has a record: that lies in the user's state, where no repository writes.
        """
        yield self._opened(self._user_home, "user", home), True
        named = dict.fromkeys(project_folder(folder) for folder in self._folders)
        for base in named:
            yield self._opened(base, "project", home), True
        ways = (*self._folders, *self._others, *others)
        above = dict.fromkeys(
            place
            for way in ways
            for start in {way, os.path.realpath(way)}
            for place in upwards(os.path.abspath(start))
        )
        for base in above:
            kept = os.path.join(home.state, "projects", f"{state_key(base, 'project')}.json")
            if base not in named and os.path.lexists(kept):
                yield self._opened(base, "project", home), False

    def _opened(self, base: str, scope: Literal["project", "user"], home: Home) -> Project:
        # One that stays open parses again only what has changed.
        return self._projects.setdefault(f"{scope}:{base}", Project(base, scope, home))


class NoLocks(Locks):
    """What a host asks for that wants to know of no lock."""

    def __init__(self) -> None:
        super().__init__(Surroundings(cwd=os.sep, home=os.sep), ())

    def read(self, others: Iterable[str] = ()) -> Known:
        """Return nothing."""
        return Known()


class _Installed(NamedTuple):
    skill: Skill
    links: tuple[str, ...]
    is_left: bool = False


def _installed(project: Project, store: Store, environ: Mapping[str, str]) -> list[_Installed]:
    """Return every skill that the lock has, or that left it, with the folders that it was put into."""
    lock, records = project.lock(), project.records()
    is_met = given(environ, records.enabled(lock.skills))
    found = []
    for name, entry in lock.skills.items():
        record = records.skills.get(name)
        skill = view(name, entry, record, is_met, project, store)
        if held := _held(name, entry, record, project):
            skill = replace(skill, held=held)
        links = tuple(absolute(project.base, link) for link in record.links) if record else ()
        found.append(_Installed(skill, links))
    # Whoever changes a repository can take its lock away, too: what was agreed to is told by the record.
    for name, record in records.skills.items():
        if name not in lock.skills and record.enabled:
            gone = Skill(name=name, path=None, scope=project.scope, state="enabled", tree=record.tree)
            links = tuple(absolute(project.base, link) for link in record.links)
            found.append(_Installed(gone, links, is_left=True))
    return found


def _held(name: str, entry: Locked, record: Record | None, project: Project) -> Held | None:
    flags = typed_flags(project.scope)
    if record is None or not record.is_of(entry):
        reason = "was not agreed to on this machine"
        if record is not None:
            reason += " as the lock has it now"
        return Held("not-agreed", reason, as_command("skillhub", "install", *flags))
    if record.enabled:
        return None
    reason = _WAITING.get(record.held, "is disabled")
    return Held("disabled", reason, as_command("skillhub", "enable", name, *flags))


def drift(skill: Skill, tree: Digest, locks: Locks) -> Held | None:
    """Return that the folder of a skill does not hold this tree; None if it does."""
    try:
        Folder(skill.path or "").check(locks.agreed(tree))
    except SkillhubError as error:
        reason = error.message.removeprefix("the skill ") if isinstance(error, Drifted) else error.message
        return Held("drifted", reason, as_command("skillhub", "sync", *typed_flags(skill.scope)))
    return None


STORED = Held(
    "not-agreed", "lies in the store of skillhub, and was not enabled from there", "skillhub install"
)


def imitates(locked: Skill) -> Held:
    """Return that a skill has the name or the place of a locked one, and is another."""
    reason = f"has the name of {locked.name}, which the lock has from {locked.source}, and is another"
    return Held("not-agreed", reason, as_command("skillhub", "install", *typed_flags(locked.scope)))


def is_inside(locked: Skill) -> Held:
    """Return that a skill lies in the folder of a locked one."""
    reason = f"lies in the folder of {locked.name}, which is locked as a whole"
    return Held("drifted", reason, as_command("skillhub", "sync", *typed_flags(locked.scope)))


def holding(skill: Skill, held: Held) -> Skill:
    """Return a skill that is held back for this."""
    return replace(skill, state="disabled", held=held)


def not_agreed(error: SkillhubError) -> Held:
    """Return that nobody can tell what was agreed to, for a lock or a record cannot be read."""
    reason = f"is held back, for {quote(error.where or 'the lock')} cannot be read: {error.message}"
    return Held("not-agreed", reason, error.hint or "skillhub doctor")


def _resolved(link: str) -> str:
    """Return where a place is, through links on the way to it; the last part itself may be a link."""
    folder, name = os.path.split(link)
    return os.path.join(os.path.realpath(folder), name)


def _upwards(skill: Skill) -> Iterator[str]:
    """Yield where a skill was met and where it is, then the folders above these as far as its root."""
    places = [*skill.links, skill.path or ""]
    levels = places[0].count(os.sep) - (skill.root.count(os.sep) if skill.root else 0)
    for _ in range(max(1, levels)):
        yield from places
        places = [*map(os.path.dirname, places)]
