"""Sources under audit: each against the lock, the clock and the wire; and what each says of the locked skills."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from skillhub.errors import FormatError, NameNotOwned, NotFound, SecurityError, SkillhubError, SourceError
from skillhub.flows.audit_places import Places
from skillhub.flows.audit_rules import note
from skillhub.flows.ports import Ports
from skillhub.flows.recalled import last_seen
from skillhub.flows.source_view import view_source
from skillhub.model.dataclass import dataclass, field
from skillhub.model.lock import Lock, LockedSource
from skillhub.model.release import Index
from skillhub.model.report import Noted
from skillhub.world.sources import Source


@dataclass(slots=True)
class Heard:
    """What the registries of the lock say, or said when they were last asked.

    Attributes:
        said: By skill; empty where a registry has never said anything about it.
        findings: What was wrong with the asking.
        notes: Which sources were not asked, and when they last were.
    """

    said: dict[str, Index] = field(default_factory=dict)
    findings: list[Noted] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def hear(names: Iterable[str], lock: Lock, places: Places, ports: Ports, *, refresh: bool) -> Heard:
    """Ask the registries about these locked skills; of one that cannot or is not to be asked, its last word counts.

    Raises:
        StateError: the disk refuses to keep what they say.
    """
    heard = Heard()
    by_source: dict[str, list[str]] = {}
    for name in names:
        by_source.setdefault(lock.skills[name].source, []).append(name)
    for alias, asked in by_source.items():
        locked = lock.sources.get(alias)
        if locked is None or locked.root is None:
            continue
        mine = ports.sources.all().get(alias)
        is_same = mine is not None and mine.is_meant(locked)
        if mine is not None and is_same and (refresh or mine.embedded):
            _ask(mine, asked, heard, places, ports)
        elif is_same or refresh:
            heard.notes.append(f"{alias} was not asked: {_last(locked, ports)}")
        for name in asked:
            if name not in heard.said:
                heard.said[name] = last_seen(name, lock.skills[name], locked.root, ports.sources)
    return heard


def _last(locked: LockedSource, ports: Ports) -> str:
    when = ports.sources.last_seen(locked.root).refreshed if locked.root else None
    return f"what it said last counts, {when}" if when else "and nothing is known of what it says"


def _ask(source: Source, names: Iterable[str], heard: Heard, places: Places, ports: Ports) -> None:
    """Hear a registry about each of these skills; it is left alone at the first sign that it cannot be asked."""
    at = places.source(source.alias)
    try:
        registry = ports.open(source)
        for name in names:
            try:
                heard.said[name] = registry.release_index([name])
            except NotFound as error:
                heard.findings.append(note("release-gone", error.message, name, places.skill(name)))
            except NameNotOwned as error:
                heard.findings.append(note("name-not-owned", error.message, name, places.skill(name)))
    except SourceError as error:
        heard.findings.append(note("source-unreachable", f"{source.alias}: {error.message}", None, at))
    except (SecurityError, FormatError) as error:
        heard.findings.append(note("source-refused", f"{source.alias}: {error.message}", None, at))


def look(aliases: Iterable[str], lock: Lock, places: Places, ports: Ports) -> Iterator[Noted]:
    """Yield what is wrong with sources as this user has them, and as the lock has them."""
    mine = ports.sources.all()
    for alias in aliases:
        source, locked, at = mine.get(alias), lock.sources.get(alias), places.source(alias)
        if source is None:
            message = f"{alias} ({locked.url if locked else ''}) is no source of yours"
            yield note("source-unknown", message, None, at)
            continue
        if locked is not None and locked != source.locked():
            message = f"{alias} is {source.locked()}; the lock has {locked}"
            yield note("source-changed", message, None, at)
        if source.url.lower().startswith("http://"):
            yield note("source-http", f"{alias} is at {source.url}", None, at)
        if source.root is not None and not source.embedded:
            yield from _dated(source, places, ports)


def _dated(source: Source, places: Places, ports: Ports) -> Iterator[Noted]:
    at, alias = places.source(source.alias), source.alias
    try:
        view = view_source(source, ports.sources, ports.clock())
    except SkillhubError as error:
        yield note("source-refused", f"{alias}: {error.message}", None, at)
        return
    for each, warning in zip(view.late, view.warnings, strict=True):
        if each.expires_within(0, ports.clock()):
            yield note("source-expired", f"{alias}: {each.role} expired {each.expires}", None, at)
        else:
            yield note("source-expiring", f"{alias}: {warning}", None, at)
