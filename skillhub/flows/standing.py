"""What stands in a project before a command begins: lock, intent and this machine's record of it."""

from __future__ import annotations

from collections.abc import Collection

from skillhub.errors import SourceMismatch
from skillhub.flows.ports import Ports
from skillhub.model.dataclass import dataclass, replace
from skillhub.model.digest import Digest
from skillhub.model.intent import Intent
from skillhub.model.lock import Lock
from skillhub.model.record import Record, Records
from skillhub.model.whence import Whence
from skillhub.world.sources import Source


@dataclass(frozen=True, slots=True)
class Standing:
    """Read once, at the start; ``commit`` refuses if the part it is about to change changed meanwhile."""

    lock: Lock
    intent: Intent
    records: Records

    @property
    def trees(self) -> Collection[Digest]:
        """Every tree that is locked, as its source has it."""
        return {entry.original.tree for entry in self.lock.skills.values()}

    def agreed(self, name: str) -> Record | None:
        """Return this machine's record of a skill if it is about what is locked: the very tree, from where it was."""
        entry, record = self.lock.skills.get(name), self.records.skills.get(name)
        return record if entry and record and record.is_of(entry) else None


def read_standing(ports: Ports) -> Standing:
    """Read all three.

    Raises:
        FormatError: one is malformed.
        StateError: one cannot be read, or is a link that leaves the project.
        SourceMismatch: lock or intent give an alias of this user's to another registry.
    """
    standing = read_unchecked(ports)
    known = ports.sources.all()
    for alias, locked in standing.lock.sources.items():
        mine = known.get(alias)
        if mine is not None and mine.locked() != locked:
            raise _redefined(mine, str(locked), ports.project.lock_path)
    for alias, wanted in standing.intent.sources.items():
        mine = known.get(alias)
        # Without a root it is about the URL alone.
        if mine is not None and (wanted.url.rstrip("/"), wanted.root or mine.root) != (mine.url, mine.root):
            root = f" with root {wanted.root}" if wanted.root else ""
            raise _redefined(mine, f"{wanted.url}{root}", ports.project.intent_path)
    return standing


def read_unchecked(ports: Ports) -> Standing:
    """Read all three, whatever lock and intent say of sources: for who only looks.

    Raises:
        FormatError, StateError: as for ``read_standing``.
    """
    lock = ports.project.lock()
    return Standing(lock, ports.project.intent(), _records(lock, ports))


def _records(lock: Lock, ports: Ports) -> Records:
    """Return the records of what has arrived in the lock; one that does not tell whence is of what it says now."""
    records = ports.project.records()
    coming = records.coming
    entries = lock.skills.items()
    records = records.arrived({k: e.tree for k, e in entries if k not in coming or coming[k].is_of(e)})
    told = {
        name: replace(record, whence=Whence.of(lock.skills[name]))
        for name, record in records.skills.items()
        if record.whence is None and name in lock.skills and record.is_of(lock.skills[name])
    }
    return replace(records, skills={**records.skills, **told}) if told else records


def _redefined(mine: Source, theirs: str, where: str) -> SourceMismatch:
    return SourceMismatch(
        f"expected the source {mine.alias} to be {mine.locked()}, found {theirs}",
        where=where,
        hint="no repository may redefine a source of yours; rename one of the two",
    )
