"""What stands in a project before a command begins: lock, intent and this machine's record of it."""

from __future__ import annotations

from skillhub.errors import SourceMismatch
from skillhub.flows.ports import Ports
from skillhub.model.dataclass import dataclass
from skillhub.model.intent import Intent
from skillhub.model.lock import Lock
from skillhub.model.record import Record, Records
from skillhub.world.sources import Source


@dataclass(frozen=True, slots=True)
class Standing:
    """Read once, at the start; ``commit`` refuses if the part it is about to change changed meanwhile."""

    lock: Lock
    intent: Intent
    records: Records

    def agreed(self, name: str) -> Record | None:
        """Return this machine's record of a skill if it is about the very tree that is locked."""
        entry, record = self.lock.skills.get(name), self.records.skills.get(name)
        return record if entry and record and record.tree == entry.tree else None


def read_standing(ports: Ports) -> Standing:
    """Read all three.

    Raises:
        FormatError: one is malformed.
        StateError: one cannot be read, or is a link that leaves the project.
        SourceMismatch: lock or intent give an alias of this user's to another registry.
    """
    lock = ports.project.lock()
    records = ports.project.records().arrived({name: entry.tree for name, entry in lock.skills.items()})
    standing = Standing(lock, ports.project.intent(), records)
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


def _redefined(mine: Source, theirs: str, where: str) -> SourceMismatch:
    return SourceMismatch(
        f"expected the source {mine.alias} to be {mine.locked()}, found {theirs}",
        where=where,
        hint="no repository may redefine a source of yours; rename one of the two",
    )
