"""A registry that is elsewhere than where a lock has it: it is known by its root, and a lock is no guide to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from skillhub.flows import signers
from skillhub.flows.candidate import Candidate
from skillhub.flows.ports import Ports
from skillhub.model.lock import Lock, Locked, LockedSource
from skillhub.model.provenance import Provenance
from skillhub.model.record import Record


def rebased(lock: Lock, sources: Mapping[str, LockedSource]) -> Lock:
    """Return the lock with these sources; what it has of a registry that moved is where that is now."""
    skills = dict(lock.skills)
    for alias, now in sources.items():
        was = lock.sources.get(alias)
        if was is None or was.root is None or was == now or was.root != now.root:
            continue
        for name, entry in lock.skills.items():
            if entry.named and entry.source == alias:
                skills[name] = replace(entry, url=_below(now.url, entry.url, was.url))
    return Lock(skills, {**lock.sources, **sources})


def sources_with(candidates: Iterable[Candidate], lock: Lock, ports: Ports) -> Mapping[str, LockedSource]:
    """Return the sources that a lock names once it has the candidates."""
    known = ports.sources.all()
    used = {each.entry.source for each in candidates if each.entry.named} & known.keys()
    return {**lock.sources, **{alias: known[alias].locked() for alias in used}}


def followed(records: Mapping[str, Record], before: Lock, after: Lock, ports: Ports) -> dict[str, Record]:
    """Return the records with what was agreed to, and proven, in ``before`` where ``after``, rebased, has it.

    Raises:
        StateError: the disk refuses.
    """
    found = dict(records)
    for name, was in before.skills.items():
        now, record = after.skills.get(name), records.get(name)
        root = after.sources[was.source].root if was.named else None
        if root is None or now is None or now is was or replace(was, url=now.url) != now:
            continue
        pem = ports.publishers.pinned(signers.proven(name, was.original, root))
        if pem is not None:
            ports.publishers.pin(signers.proven(name, now.original, root), pem)
        if record is not None and record.is_of(was):
            found[name] = replace(record, provenance=Provenance.of(now))
    return found


def is_at(found: Locked, entry: Locked, ports: Ports) -> bool:
    """Say whether what a registry gave is where the lock has it, or would have it had the registry not moved."""
    if found.url == entry.url:
        return True
    mine, locked = ports.sources.all().get(entry.source), ports.project.lock().sources.get(entry.source)
    if mine is None or locked is None or not mine.is_meant(locked):
        return False
    return found.url == _below(mine.url, entry.url, locked.url)


def _below(url: str, place: str | None, was: str) -> str | None:
    """Return ``place``, which is below where a registry was, below where it is."""
    below = f"{was}/"
    return f"{url}/{place.removeprefix(below)}" if place and place.startswith(below) else place
