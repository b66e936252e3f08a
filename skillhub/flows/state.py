"""What stands in a project before a command begins: lock, intent and this machine's record of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from skillhub.errors import SourceMismatch
from skillhub.flows.hints import command
from skillhub.flows.ports import Ports
from skillhub.model.digest import NO_FILES, Digest
from skillhub.model.intent import Intent, Wanted
from skillhub.model.lock import Lock, Locked, place_of
from skillhub.model.provenance import Provenance
from skillhub.model.record import Record, Records
from skillhub.model.ref import parse_remote
from skillhub.model.text import as_command
from skillhub.world.sources import Source


@dataclass(frozen=True)
class State:
    """Read once, at the start; ``commit`` refuses if the part it is about to change changed meanwhile."""

    lock: Lock
    intent: Intent
    records: Records

    @cached_property
    def trees(self) -> Collection[Digest]:
        """Every tree that is locked, as its source has it."""
        return {entry.original.tree for entry in self.lock.skills.values()}

    @property
    def unwanted(self) -> list[str]:
        """What is locked and neither named by the intent nor needed by what is; nothing if it lists no skills."""
        wanted = {*self.intent.skills}
        waiting = deque(wanted)
        while waiting:
            needed = {*self._needed_by(waiting.popleft())} - wanted
            wanted.update(needed)
            waiting.extend(needed)
        return [name for name in self.lock.skills if name not in wanted] if self.intent.lists else []

    @property
    def listed(self) -> dict[str, Wanted]:
        """What an intent would name if it were written of the lock alone: what no other needs."""
        locked = self.lock.skills
        needed = {each for entry in locked.values() for each in entry.dependencies}
        found = {name: wanted_of(entry) for name, entry in locked.items() if name not in needed}
        # A ring, which only a lock makes: the skills' own files are refused.
        rest = replace(self, intent=Intent(skills=found, lists=True)).unwanted
        return found | {name: wanted_of(locked[name]) for name in rest}

    def _needed_by(self, name: str) -> Iterator[str]:
        """Yield what a skill needs: by the lock, and by its files as they were agreed to, if the lock is silent."""
        entry, record = self.lock.skills.get(name), self.agreed(name)
        yield from entry.dependencies if entry else ()
        needs = record.facts.needs if record else ()
        yield from (need["name"] for need in needs if need["kind"] == "skill")

    def agreed(self, name: str) -> Record | None:
        """Return this machine's record of a skill if it is about what is locked: the very tree, from where it was."""
        entry, record = self.lock.skills.get(name), self.records.skills.get(name)
        return record if entry and record and record.is_of(entry) else None

    def enabled(self, name: str) -> Record | None:
        """Return what was ``agreed`` of a skill that agents are to read; None of any other."""
        agreed = self.agreed(name)
        return agreed if agreed and agreed.enabled else None

    def is_known(self, name: str, source: str, git: str | None = None) -> bool:
        """Say whether this person agreed to have the skill from this place, as their own record has it.

        That the lock says otherwise, or is gone, changes nothing of what they agreed to. With ``git`` it is that
        repository too: a lock may give a place the repository of a plugin, or a server, that nobody agreed to.
        """
        record = self.records.skills.get(name)
        if record is None or record.provenance is None or record.tree == NO_FILES:
            return False
        return place_of(record.provenance.source) == source and git in (None, record.provenance.server)


def wanted_of(entry: Locked) -> Wanted:
    """Return what a lock's entry asks for where the intent is silent: the newest from where it came."""
    if entry.local:
        return Wanted(path=entry.path, plugin=entry.plugin)
    if entry.named:
        return Wanted(source=entry.source)
    return Wanted.of(parse_remote(entry.place), entry.path, entry.plugin)


def read_state(ports: Ports) -> State:
    """Read all three.

    Raises:
        FormatError: one is malformed.
        StateError: one cannot be read, or is a link that leaves the project.
        SourceMismatch: lock or intent give an alias of this user's to another source.
    """
    state = read_unchecked(ports)
    known = ports.sources.all()
    for alias, locked in state.lock.sources.items():
        mine = known.get(alias)
        if mine is not None and not mine.is_meant(locked):
            raise _other_locked(mine, str(locked), state.lock, ports)
    for alias, wanted in state.intent.sources.items():
        mine = known.get(alias)
        # Without a root it is about the URL alone.
        if mine is not None and (wanted.url.rstrip("/"), wanted.root or mine.root) != (mine.url, mine.root):
            root = f" with root {wanted.root}" if wanted.root else ""
            remove = as_command("skillhub", "source", "remove", alias)
            hint = f"if yours is meant, correct [sources.{alias}] there; if theirs is: {remove}"
            raise _redefined(mine, f"{wanted.url}{root}", ports.project.intent_path, hint)
    return state


def read_unchecked(ports: Ports) -> State:
    """Read all three, whatever lock and intent say of sources: for who only looks, or takes away.

    Raises:
        FormatError, StateError: as for ``read_state``.
    """
    lock = ports.project.lock()
    return State(lock, ports.project.intent(), _records(lock, ports))


def _records(lock: Lock, ports: Ports) -> Records:
    """Return the records of what has arrived in the lock; one without provenance has that of the lock now."""
    records = ports.project.records()
    coming = records.coming
    entries = lock.skills.items()
    records = records.arrived({k: e.tree for k, e in entries if k not in coming or coming[k].is_of(e)})
    told = {
        name: replace(record, provenance=Provenance.of(lock.skills[name]))
        for name, record in records.skills.items()
        if record.provenance is None and name in lock.skills and record.is_of(lock.skills[name])
    }
    return replace(records, skills={**records.skills, **told}) if told else records


def _other_locked(mine: Source, theirs: str, lock: Lock, ports: Ports) -> SourceMismatch:
    names = [name for name, entry in lock.skills.items() if entry.named and entry.source == mine.alias]
    remove = command(ports.project.scope, "remove", *names)
    install = command(ports.project.scope, "install", *(f"{mine.alias}:{name}" for name in names))
    hint = f"if yours is meant: {remove}, then {install}"
    if not names:
        hint = f"if yours is meant, take {mine.alias} out of the lock: nothing there is from it"
    return _redefined(mine, theirs, ports.project.lock_path, hint)


def _redefined(mine: Source, theirs: str, where: str, hint: str) -> SourceMismatch:
    message = f"expected the source {mine.alias} to be {mine.locked()}, found {theirs}"
    return SourceMismatch(message, where=where, hint=hint)
