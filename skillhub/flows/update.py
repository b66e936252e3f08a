"""Update: the newest version that the intent allows of what is locked, shown as a plan before anything changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from skillhub.errors import FormatError, SkillhubError
from skillhub.flows.candidate import Candidate
from skillhub.flows.dependencies import with_dependencies
from skillhub.flows.gather import Gathered, Held, admit_optional
from skillhub.flows.hints import command
from skillhub.flows.install import take
from skillhub.flows.linking import Linker
from skillhub.flows.listing import refuse_unknown
from skillhub.flows.locked import about_skill
from skillhub.flows.moved import sources_with
from skillhub.flows.newer import newest_of
from skillhub.flows.options import Options
from skillhub.flows.outcome import LeftOut, Outcome
from skillhub.flows.plan import changes_of
from skillhub.flows.ports import Ports
from skillhub.flows.proposed import settle_sources
from skillhub.flows.provenance import without_other_signers
from skillhub.flows.resolve import resolve_locked
from skillhub.flows.state import State, read_state
from skillhub.flows.unavailable import left_behind, unavailable
from skillhub.model.changes import Changes
from skillhub.model.source_changes import source_changes
from skillhub.world.installed import given, view


def update(names: Sequence[str], options: Options, ports: Ports) -> Outcome:
    """Bring these skills, or all, to the newest version that the intent allows; all or none.

    Of all, those are left as they are that their source no longer has, and those whose newer version is malformed,
    critical in the scan, or forbidden by a policy.

    Raises:
        NotFound: a name that is not locked, or that its source no longer has.
        SourceError: a source cannot be reached.
        FormatError: what a named one has now is malformed, or ``--frozen`` and there is something newer.
        SecurityError: another signer than the lock's, wrong bytes; nothing was changed.
        Refused: a question was answered no or by nobody, or a policy forbids it; nothing was changed.
        StateError: the disk is in the way.
    """
    state, names = read_state(ports), tuple(dict.fromkeys(names))
    asked, missing = settle_sources(state, options.trusted, options, ports)
    if missing:
        note = f"you do not have the source {', '.join(missing)}; what it has is not known yet"
        return Outcome((), False, tuple(asked), (note,))
    newer, gone = _newest(names, state, ports)
    candidates = newer.found
    if not names:
        admitted = [admit_optional(each, state, ports) for each in newer.found.values()]
        gone |= {each.name: each for each in admitted if isinstance(each, LeftOut)}
        candidates = {name: each for name, each in candidates.items() if name not in gone}
    rest = [name for name in names or state.lock.skills if name not in candidates and name not in gone]
    otherwise = list(_otherwise(rest, {each.name for each in newer.left}, state, ports))
    candidates |= _locked(otherwise, state, ports)
    found, notes = with_dependencies(candidates, state, ports)
    newer.warnings.extend(notes)
    if options.frozen:
        _refuse_changes(found, state, ports)
    if not names:
        found, notes = without_other_signers(found, state, ports)
        newer.warnings.extend(notes)
    outcome = take(found, options, state, ports)
    ports.sources.keep()
    warnings = (*newer.warnings, *outcome.warnings)
    # Also of what is only put back: that nothing differs from the version before is told in the same keys.
    changes = {name: _changes(found[name], state, ports) for name in otherwise if name in found}
    return replace(
        outcome,
        asked=(*asked, *outcome.asked),
        left=(*gone.values(), *newer.left, *outcome.left),
        warnings=warnings,
        changes={**changes, **outcome.changes},
        due=outcome.due or bool(newer.withdrawn),
    )


def _refuse_changes(found: Mapping[str, Candidate], state: State, ports: Ports) -> None:
    """Hold to the lock as it stands.

    Raises:
        FormatError: it does not have what an update would bring, as for ``install --frozen``.
    """
    locked = state.lock.skills
    behind = [
        f"{name} {candidate.entry.version or candidate.entry.short}"
        for name, candidate in found.items()
        if candidate.entry != locked.get(name)
    ]
    if behind:
        raise FormatError(
            f"the lock is behind, and --frozen leaves it as it stands: {', '.join(behind)} would come",
            where=ports.project.lock_path,
            hint=f"run {command(ports.project.scope, 'update')} without --frozen and commit the lock",
        )


def _edited(name: str, state: State, ports: Ports) -> Sequence[str]:
    """Return the places of a skill that were edited by hand."""
    record = state.records.skills.get(name)
    return Linker(ports.project, ports.store).plan_removal(name, record).edited if record else ()


def behind(names: Sequence[str], ports: Ports) -> Outcome:
    """Return what ``update`` would bring, having verified it in memory; nothing is asked and nothing written.

    Raises:
        NotFound, SourceError, SecurityError: as for ``update``.
    """
    state, names = read_state(ports), tuple(dict.fromkeys(names))
    newer, gone = _newest(names, state, ports, keep=True)
    is_met = given(ports.environ, state.records.enabled(state.lock.skills))
    records = state.records.skills
    skills = tuple(
        replace(
            view(each.name, each.entry, None, is_met, ports.project, ports.store),
            description=each.manifest.description,
            vouched_by=each.voucher,
            state="enabled" if each.name in records and records[each.name].enabled else "disabled",
        )
        for each in newer.found.values()
    )
    changes = {each.name: _changes(each, state, ports) for each in newer.found.values()}
    edited = [
        f"{name} was edited by hand: {place}"
        for name in names or state.lock.skills
        for place in _edited(name, state, ports)
    ]
    sources = source_changes(state.lock.sources, sources_with(newer.found.values(), state.lock, ports))
    warnings, left = (*newer.warnings, *edited), (*gone.values(), *newer.left)
    return Outcome(
        skills,
        False,
        warnings=warnings,
        left=left,
        changes=changes,
        due=bool(newer.withdrawn),
        sources=sources,
    )


def _newest(
    names: Sequence[str], state: State, ports: Ports, *, keep: bool = False
) -> tuple[Gathered, dict[str, LeftOut]]:
    """Return what is newer, and those of all skills of which nothing can be had, so that they hold up no other.

    Raises:
        NotFound: one is not locked, or is named and gone from where it was.
        SourceError, SecurityError, FormatError: as for ``update``.
    """
    gone: dict[str, LeftOut] = {}

    def excuse(name: str, error: SkillhubError) -> None:
        found = unavailable(name, error, state, ports)
        if names:
            raise found from error
        gone[name] = left_behind(found, name)

    refuse_unknown(names, state.lock.skills, ports.project.scope)
    return newest_of(names or state.lock.skills, state, ports, keep=keep, excuse=excuse), gone


def _changes(candidate: Candidate, state: State, ports: Ports) -> Changes:
    before = state.lock.skills[candidate.name]
    found = changes_of(candidate, state, ports)
    return found or Changes.between(before, candidate.entry, candidate.tree.listing, candidate.tree.listing)


def _otherwise(names: Iterable[str], left: Collection[str], state: State, ports: Ports) -> Iterator[str]:
    """Yield what this person has otherwise than the lock: edited, cut off in an update, or not agreed to yet."""
    for name in names:
        if state.agreed(name) is None or (name not in left and _edited(name, state, ports)):
            yield name


def _locked(names: Iterable[str], state: State, ports: Ports) -> dict[str, Candidate]:
    """Return what the lock has of skills that this machine knows."""
    held, found = Held(ports.store), {}
    for name in names:
        if name in state.records.skills:
            with about_skill(name):
                found[name] = held.keep(resolve_locked(name, state.lock.skills[name], state, ports).way.go())
    return found
