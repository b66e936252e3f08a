"""Update: the newest version that the intent allows of what is locked, shown as a plan before anything changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skillhub.errors import FormatError, SkillhubError
from skillhub.flows.agreed import but_other_signers
from skillhub.flows.candidate import Candidate
from skillhub.flows.gather import Held, of_all
from skillhub.flows.install import changes_of, take
from skillhub.flows.linking import Linker
from skillhub.flows.listing import refuse_unknown
from skillhub.flows.lost import left_behind, lost
from skillhub.flows.meant import of_lock
from skillhub.flows.needed import with_needed
from skillhub.flows.needs import given
from skillhub.flows.newer import Newer, newest_of
from skillhub.flows.outcome import Left, Outcome
from skillhub.flows.policy import under
from skillhub.flows.ports import Ports
from skillhub.flows.relock import named
from skillhub.flows.standing import Standing, read_standing
from skillhub.flows.view import view
from skillhub.flows.wishes import Wishes
from skillhub.model.changes import Changes
from skillhub.model.dataclass import replace


def update(names: Sequence[str], wishes: Wishes, ports: Ports) -> Outcome:
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
    standing, names = read_standing(ports), tuple(dict.fromkeys(names))
    ports = under(standing.intent, ports)
    newer, gone = _newest(names, standing, ports)
    candidates = {each.name: each for each in newer.candidates}
    if not names:
        admitted = [of_all(each, standing, ports) for each in newer.candidates]
        gone |= {each.name: each for each in admitted if isinstance(each, Left)}
        candidates = {name: each for name, each in candidates.items() if name not in gone}
    left = {each.name for each in newer.left}
    others = [
        name
        for name in names or standing.lock.skills
        if name not in candidates
        and name not in gone
        and (standing.agreed(name) is None or (name not in left and _edited(name, standing, ports)))
    ]
    candidates |= _locked(others, standing, ports)
    found, notes = with_needed(candidates, standing, ports)
    newer.warnings.extend(notes)
    if wishes.frozen:
        _refuse_changes(found, standing, ports)
    if not names:
        found, notes = but_other_signers(found, standing, ports)
        newer.warnings.extend(notes)
    outcome = take(found, wishes, standing, ports)
    warnings = (*newer.warnings, *outcome.warnings)
    # Also of what is only put back: that nothing differs from the version before is told in the same keys.
    changes = {name: _changes(found[name], standing, ports) for name in others if name in found}
    return replace(
        outcome,
        left=(*gone.values(), *newer.left, *outcome.left),
        warnings=warnings,
        changes={**changes, **outcome.changes},
    )


def _refuse_changes(found: Mapping[str, Candidate], standing: Standing, ports: Ports) -> None:
    """Hold to the lock as it stands.

    Raises:
        FormatError: it does not have what an update would bring, as for ``install --frozen``.
    """
    locked = standing.lock.skills
    behind = [
        f"{name} {candidate.entry.version or candidate.entry.short}"
        for name, candidate in found.items()
        if candidate.entry != locked.get(name)
    ]
    if behind:
        raise FormatError(
            f"the lock is behind, and --frozen leaves it as it stands: {', '.join(behind)} would come",
            where=ports.project.lock_path,
            hint="run skillhub update without --frozen and commit the lock",
        )


def _edited(name: str, standing: Standing, ports: Ports) -> Sequence[str]:
    """Return the places of a skill that were edited by hand."""
    record = standing.records.skills.get(name)
    return Linker(ports.project, ports.store).plan_removal(name, record).edited if record else ()


def behind(names: Sequence[str], ports: Ports) -> Outcome:
    """Return what ``update`` would bring, having verified it in memory; nothing is asked and nothing written.

    Raises:
        NotFound, SourceError, SecurityError: as for ``update``.
    """
    standing, names = read_standing(ports), tuple(dict.fromkeys(names))
    ports = under(standing.intent, ports)
    newer, gone = _newest(names, standing, ports, keep=True)
    is_met = given(ports.environ, standing.lock.skills)
    records = standing.records.skills
    skills = tuple(
        replace(
            view(each.name, each.entry, None, is_met, ports.project, ports.store),
            description=each.manifest.description,
            state="enabled" if each.name in records and records[each.name].enabled else "disabled",
        )
        for each in newer.candidates
    )
    changes = {each.name: _changes(each, standing, ports) for each in newer.candidates}
    edited = [
        f"{name} was edited by hand: {place}"
        for name in names or standing.lock.skills
        for place in _edited(name, standing, ports)
    ]
    warnings, left = (*newer.warnings, *edited), (*gone.values(), *newer.left)
    return Outcome(skills, False, warnings=warnings, left=left, changes=changes)


def _newest(
    names: Sequence[str], standing: Standing, ports: Ports, *, keep: bool = False
) -> tuple[Newer, dict[str, Left]]:
    """Return what is newer, and those of all skills of which nothing can be had, so that they hold up no other.

    Raises:
        NotFound: one is not locked, or is named and gone from where it was.
        SourceError, SecurityError, FormatError: as for ``update``.
    """
    gone: dict[str, Left] = {}

    def excuse(name: str, error: SkillhubError) -> None:
        found = lost(name, error, standing, ports)
        if names:
            raise found from error
        gone[name] = left_behind(found, name)

    newer = newest_of(_named(names, standing), standing, ports, keep=keep, excuse=excuse)
    return newer, gone


def _named(names: Sequence[str], standing: Standing) -> Sequence[str]:
    """Return these skills, or all.

    Raises:
        NotFound: one is not locked.
    """
    refuse_unknown(names, standing.lock.skills)
    return names or tuple(standing.lock.skills)


def _changes(candidate: Candidate, standing: Standing, ports: Ports) -> Changes:
    before = standing.lock.skills[candidate.name]
    found = changes_of(candidate, standing, ports)
    return found or Changes.between(before, candidate.entry, candidate.tree.listing, candidate.tree.listing)


def _locked(names: Sequence[str], standing: Standing, ports: Ports) -> dict[str, Candidate]:
    """Return what the lock has of skills that this person has otherwise.

    They edited it, an update was cut off, or a pull brought another.
    """
    held = Held(ports.store)
    return {
        name: held.keep(_again(name, standing, ports)) for name in names if name in standing.records.skills
    }


def _again(name: str, standing: Standing, ports: Ports) -> Candidate:
    with named(name):
        return of_lock(name, standing.lock.skills[name], standing, ports).way.go()
