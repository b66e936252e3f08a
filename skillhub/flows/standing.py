"""What stands in a project before a command begins: lock, intent and this machine's record of it."""

from __future__ import annotations

from dataclasses import dataclass

from skillhub.errors import SourceMismatch
from skillhub.flows.ports import Ports
from skillhub.model.intent import Intent
from skillhub.model.lock import Lock, LockedSource
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
    standing = Standing(ports.project.lock(), ports.project.intent(), ports.project.records())
    known = ports.sources.all()
    for alias, locked in standing.lock.sources.items():
        _same(known.get(alias), alias, locked, ports.project.lock_path)
    for alias, wanted in standing.intent.sources.items():
        proposal = LockedSource(kind="registry", url=wanted.url.rstrip("/"), root=wanted.root)
        _same(known.get(alias), alias, proposal, ports.project.intent_path)
    return standing


def _same(mine: Source | None, alias: str, theirs: LockedSource, where: str) -> None:
    """Refuse a redefinition; a proposal without a root is about the URL alone."""
    if mine is None or (mine.url == theirs.url and theirs.root in (None, mine.root)):
        return
    raise SourceMismatch(
        f"expected the source {alias} to be {mine.url} with root {mine.root}, found {theirs.url} with {theirs.root}",
        where=where,
        hint="no repository may redefine a source of yours; rename one of the two",
    )
