"""Lock, intent and records of a project, read once for a command and compared with the sources of the user."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from skillhub.errors import NotFound, SkillhubError, SourceMismatch
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.formats.text import as_command, command, did_you_mean, is_alias, quote, spelled_like, typed_flags
from skillhub.model.lock import Lock, place_of
from skillhub.model.provenance import Provenance, Record, Records
from skillhub.project.intent import Intent, Wanted, in_full, wanted_of

if TYPE_CHECKING:
    from skillhub.project.project import Project
    from skillhub.sources.configured import Source, Sources


@dataclass(frozen=True)
class State:
    """Lock, intent and records, read once; ``commit`` refuses if another process has changed its skills meanwhile."""

    lock: Lock
    intent: Intent
    records: Records

    @cached_property
    def trees(self) -> Collection[Digest]:
        """The digests of all locked trees, unpatched."""
        return {entry.original.tree for entry in self.lock.skills.values()}

    @property
    def unwanted(self) -> list[str]:
        """The locked skills that the intent neither lists nor needs indirectly; none if it lists no skills at all."""
        wanted = {*self.intent.skills}
        waiting = deque(wanted)
        while waiting:
            needed = {*self._needed_by(waiting.popleft())} - wanted
            wanted.update(needed)
            waiting.extend(needed)
        return [name for name in self.lock.skills if name not in wanted] if self.intent.lists else []

    @property
    def unlocked(self) -> list[str]:
        """The skills that the intent lists and the lock lacks; ``install`` without a name locks them."""
        return [name for name in self.intent.skills if name not in self.lock.skills]

    def disagreements(self, install: str) -> Iterator[tuple[str, str]]:
        """Yield each contradiction of intent and lock, and what resolves it: ``install``, the command."""
        if names := ", ".join(self.unlocked):
            yield f"skillhub.toml names {names}, and the lock does not", install
        if names := ", ".join(self.unwanted):
            yield f"the lock has {names}, which skillhub.toml does not require", f"{install} removes it"

    @property
    def kept(self) -> list[str]:
        """The recorded skills that the lock lacks, if it also lacks one of the intent; ``sync`` keeps them."""
        lacking = [name for name in self.records.skills if name not in self.lock.skills]
        return lacking if {*lacking}.intersection(self.unlocked) else []

    @property
    def listed(self) -> dict[str, Wanted]:
        """The skills of an intent made of the lock alone: all that no other skill needs."""
        locked = self.lock.skills
        needed = {each for entry in locked.values() for each in entry.dependencies}
        found = {name: wanted_of(entry) for name, entry in locked.items() if name not in needed}
        # A cycle of dependencies is in no skill's own files, which are refused; only a lock can state one.
        rest = replace(self, intent=Intent(skills=found, lists=True)).unwanted
        return found | {name: wanted_of(locked[name]) for name in rest}

    def wanted(self, name: str) -> Wanted:
        """Return the line of the intent for a locked skill, else the one that its entry implies."""
        return self.intent.skills.get(name) or wanted_of(self.lock.skills[name])

    def _needed_by(self, name: str) -> Iterator[str]:
        """Yield the names of the skills that a skill needs, by the lock and by the files that the user agreed to."""
        entry, record = self.lock.skills.get(name), self.agreed(name)
        yield from entry.dependencies if entry else ()
        needs = record.facts.needs if record else ()
        yield from (need.name for need in needs if need.kind == "skill")

    def agreed(self, name: str) -> Record | None:
        """Return this machine's record of a skill if it has the locked tree and origin."""
        return self._agreed.get(name)

    @cached_property
    def _agreed(self) -> Mapping[str, Record]:
        locked, records = self.lock.skills, self.records.skills
        return {name: each for name, each in records.items() if name in locked and each.is_of(locked[name])}

    def enabled(self, name: str) -> Record | None:
        """Return the ``agreed`` record of an enabled skill; None of any other skill."""
        agreed = self.agreed(name)
        return agreed if agreed and agreed.enabled else None

    def is_known(self, name: str, source: str, git: str | None = None) -> bool:
        """Return whether this person agreed to the skill from this place, by their own record alone.

        The lock, or its absence, cannot change their consent. With ``git``, the record must have that repository,
        too: a lock may name, for a known place, a plugin's repository or a server without this person's consent.
        """
        record = self.records.skills.get(name)
        if record is None or record.provenance is None or record.tree == NO_FILES:
            return False
        return place_of(record.provenance.source) == source and git in (None, record.provenance.server)


def read_state(project: Project, sources: Sources) -> State:
    """Read lock, intent and records.

    Raises:
        FormatError: one is malformed.
        StateError: one cannot be read, or is a link that leads out of the project.
        SourceMismatch: lock or intent use an alias of this user for another source.
    """
    state = read_unchecked(project)
    known = sources.all()
    for alias, locked in state.lock.sources.items():
        mine = known.get(alias)
        if mine is not None and not mine.is_meant(locked):
            raise _other_locked(mine, str(locked), state.lock, project)
    for alias, wanted in state.intent.sources.items():
        mine = known.get(alias)
        # Without a root in the intent, only the URL is compared.
        if mine is not None and (wanted.url.rstrip("/"), wanted.root or mine.root) != (mine.url, mine.root):
            root = f" with root {wanted.root}" if wanted.root else ""
            remove = as_command("skillhub", "source", "remove", alias)
            hint = f"if your source is right, correct [sources.{alias}] there; if theirs is: {remove}"
            raise _redefined(mine, f"{wanted.url}{root}", project.intent_path, hint)
    return replace(state, intent=in_full(state.intent, state.lock, sources.places()))


def read_unchecked(project: Project) -> State:
    """Read lock, intent and records without a check of their sources: for callers that only show or remove skills.

    Raises:
        FormatError, StateError: as for ``read_state``.
    """
    lock = project.lock()
    return State(lock, project.intent(), _records(lock, project))


def _records(lock: Lock, project: Project) -> Records:
    """Return the records, with pending and left ones that the lock has; the lock adds a provenance that one lacks."""
    records = project.records()
    pending = records.pending
    entries = lock.skills.items()
    records = records.arrived({k: e.tree for k, e in entries if k not in pending or pending[k].is_of(e)})
    records = records.returned(lock.skills)
    completed = {
        name: replace(record, provenance=Provenance.of(lock.skills[name]))
        for name, record in records.skills.items()
        if record.provenance is None and name in lock.skills and record.is_of(lock.skills[name])
    }
    return replace(records, skills={**records.skills, **completed}) if completed else records


def _other_locked(mine: Source, theirs: str, lock: Lock, project: Project) -> SourceMismatch:
    names = [name for name, entry in lock.skills.items() if entry.named and entry.source == mine.alias]
    remove = command(project.scope, "remove", *names)
    install = command(project.scope, "install", *(f"{mine.alias}:{name}" for name in names))
    hint = f"if your source is right: {remove}, then {install}"
    if not names:
        hint = f"if your source is right, remove {mine.alias} from the lock, which has no skill from it"
    return _redefined(mine, theirs, project.lock_path, hint)


def _redefined(mine: Source, theirs: str, where: str, hint: str) -> SourceMismatch:
    return SourceMismatch(f"expected {mine.alias} to be {mine.locked()}, found {theirs}", where=where, hint=hint)


def refuse_unknown(
    names: Iterable[str], installed: Collection[str], project: Project, unlocked: Collection[str] = ()
) -> None:
    """Refuse names of skills that are not installed in this scope.

    Args:
        names: The names to check.
        installed: The names of the installed skills.
        project: The project, for the commands in the hint.
        unlocked: The skills that the intent lists and the lock lacks.

    Raises:
        NotFound: a skill is not installed; the hint lists similar names.
    """
    for name in names:
        if name in unlocked and name not in installed:
            hint = f"{command(project.scope, 'install')} locks it"
            raise NotFound(f"skillhub.toml names {quote(name)}, and the lock does not", hint=hint)
        if name not in installed:
            listed, adopt = command(project.scope, "list"), command(project.scope, "adopt")
            alias, _, pinned = name.rpartition(":")
            bare, _, version = pinned.partition("@")
            rest = f"{listed} shows installed skills; {adopt} adopts unmanaged ones"
            hint = users_hint(bare, project) or did_you_mean(spelled_like(bare, installed), rest)
            if version and bare in installed and is_alias(alias or bare):
                hint = f"to install another version: {command(project.scope, 'install', name)}"
            raise NotFound(f"no skill named {quote(name)} is installed here", where=project.base, hint=hint)


def users_hint(name: str, project: Project) -> str:
    """Return the hint for the name of a skill that the user scope has, and not the project; else empty."""
    with suppress(SkillhubError):  # a malformed lock of the user is for the commands of that scope
        if project.scope == "project" and name in project.users(project.base).lock().skills:
            way = "put --global in place of --project" if typed_flags("project") else "add --global to the command"
            return f"the user scope has it: {way}"
    return ""
