"""Places under audit: what each that is no registry offers now, held against the lock as an update would hold it."""

from __future__ import annotations

from collections.abc import Iterable

from skillhub.errors import (
    FormatError,
    NotFound,
    Refused,
    SecurityError,
    SkillhubError,
    SourceError,
    UnsafeTransfer,
    UsageError,
)
from skillhub.flows.audit_places import Places
from skillhub.flows.audit_rules import note
from skillhub.flows.newer import is_fixed, newest_of, wanted_under
from skillhub.flows.policy import under
from skillhub.flows.ports import May, Place, Ports, Reach
from skillhub.flows.state import State, read_unchecked
from skillhub.model.dataclass import dataclass, field, replace
from skillhub.model.lock import Locked
from skillhub.model.ref import Local, Remote
from skillhub.model.report import Noted


@dataclass(slots=True)
class Asked:
    """What places came to.

    Attributes:
        findings: What they have newer, and what of it nobody would take.
        notes: Which could not be asked or were not, and what they no longer have.
    """

    findings: list[Noted] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def newer_elsewhere(names: Iterable[str], places: Places, ports: Ports, *, refresh: bool) -> Asked:
    """Ask the places of these locked skills for something newer; of those on this machine also without ``refresh``.

    Raises:
        StateError: the disk is in the way.
    """
    asked, state = Asked(), read_unchecked(ports)
    ports = under(state.intent, ports)
    ports = replace(ports, reach=_reaching(ports))
    for place, here in _by_place(names, state, ports).items():
        if not refresh and not state.lock.skills[here[0]].local:
            asked.notes.append(f"{place} was not asked: nobody knows whether it has anything newer")
            continue
        try:
            _ask(here, asked, places, state, ports)
        except (SourceError, UnsafeTransfer) as error:
            asked.notes.append(f"{place} could not be asked for anything newer: {error.message}")
    return asked


def _reaching(ports: Ports) -> Reach:
    """Return what opens a place; one that is not there can be asked for no other skill either."""

    def reach(
        ref: Remote | Local, pin: str | None = None, *, guarded: bool = False, may: May | None = None
    ) -> Place:
        try:
            return ports.reach(ref, pin, guarded=guarded, may=may)
        except NotFound as error:
            raise SourceError(error.message, where=error.where) from error

    return reach


def _by_place(names: Iterable[str], state: State, ports: Ports) -> dict[str, list[str]]:
    """Return the skills that may be outdated, by place; what a registry says of its own is known already."""
    found: dict[str, list[str]] = {}
    for name in names:
        entry = state.lock.skills[name]
        if entry.named:
            mine, locked = ports.sources.all().get(entry.source), state.lock.sources.get(entry.source)
            if mine is None or mine.root is not None or mine.locked() != locked:
                continue
        if not is_fixed(wanted_under(name, entry, state), entry):
            found.setdefault(f"./{entry.path}" if entry.local else entry.place, []).append(name)
    return found


def _ask(names: list[str], asked: Asked, places: Places, state: State, ports: Ports) -> None:
    unknown: dict[str, list[str]] = {}

    def excuse(name: str, error: SkillhubError) -> None:
        if isinstance(error, NotFound | UsageError | Refused):
            unknown.setdefault(error.message, []).append(name)
        elif isinstance(error, SecurityError | FormatError) and not isinstance(error, UnsafeTransfer):
            message = f"what {state.lock.skills[name].place} has now is refused: {error.message}"
            asked.findings.append(note("newer-refused", message, name, places.skill(name)))
        else:
            raise error  # a place that cannot be asked about one cannot be asked about the next

    newer = newest_of(names, state, ports, keep=True, excuse=excuse)
    for each in newer.candidates:
        before = state.lock.skills[each.name]
        old, new = _spelled(before, each.entry), _spelled(each.entry, before)
        message = f"{each.name} is locked at {old}, {before.place} has {new}"
        asked.findings.append(note("outdated", message, each.name, places.skill(each.name)))
    asked.notes += newer.warnings
    asked.notes += [
        f"nobody knows whether there is anything newer of {', '.join(skills)}: {message}"
        for message, skills in unknown.items()
    ]


def _spelled(entry: Locked, other: Locked) -> str:
    """Return what tells the one from the other: the version if that does."""
    return entry.version if entry.version and entry.version != other.version else entry.short
