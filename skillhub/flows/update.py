"""Update: the newest version that the intent allows of what is locked, shown as a plan before anything changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from skillhub.errors import NotFound
from skillhub.flows.admission import too_young
from skillhub.flows.ahead import turns
from skillhub.flows.candidate import Candidate
from skillhub.flows.carried import carried
from skillhub.flows.gather import Held, same_origin
from skillhub.flows.install import changes_of, take
from skillhub.flows.linking import Linker
from skillhub.flows.meant import Pick, of_intent, of_lock
from skillhub.flows.needed import ranges_on, with_needed
from skillhub.flows.needs import given
from skillhub.flows.outcome import Left, Outcome
from skillhub.flows.policy import under
from skillhub.flows.ports import Ports
from skillhub.flows.relock import root_of
from skillhub.flows.resolve import TakenBack, choose_release
from skillhub.flows.standing import Standing, read_standing
from skillhub.flows.view import view
from skillhub.flows.wishes import Wishes
from skillhub.model.changes import Changes
from skillhub.model.dataclass import dataclass, replace
from skillhub.model.intent import Wanted
from skillhub.model.lock import Locked
from skillhub.model.ref import Named, parse_remote
from skillhub.model.release import Release
from skillhub.model.version import Range, is_version, precedence


@dataclass(frozen=True, slots=True)
class Newer:
    """What is newer than the lock, what is and cannot be had, and what a person should know of the rest."""

    candidates: list[Candidate]
    left: list[Left]
    warnings: list[str]


def update(names: Sequence[str], wishes: Wishes, ports: Ports) -> Outcome:
    """Bring these skills, or all, to the newest version that the intent allows; all or none.

    Raises:
        NotFound: a name that is not locked.
        SourceError: a source cannot be reached, or no longer has a skill.
        SecurityError: another signer than the lock's, wrong bytes; nothing was changed.
        Refused: a question was answered no or by nobody, or a policy forbids it; nothing was changed.
        StateError: the disk is in the way.
    """
    standing = read_standing(ports)
    ports = under(standing.intent, ports)
    newer = _newer(names, standing, ports)
    candidates = {each.name: each for each in newer.candidates}
    candidates |= _unfinished(
        [name for name in names or standing.lock.skills if name not in candidates], standing, ports
    )
    found, notes = with_needed(candidates, standing, ports)
    newer.warnings.extend(notes)
    outcome = take(found, wishes, standing, ports)
    warnings = (*newer.warnings, *_edited(names, found, standing, ports), *outcome.warnings)
    return replace(outcome, left=(*newer.left, *outcome.left), warnings=warnings)


def _edited(names: Sequence[str], asked: Collection[str], standing: Standing, ports: Ports) -> Iterator[str]:
    """Yield what is told of skills that were edited by hand and of which nothing was asked."""
    linker = Linker(ports.project, ports.store)
    for name in names or standing.lock.skills:
        record = standing.records.skills.get(name)
        for place in linker.plan_removal(name, record).edited if record and name not in asked else ():
            yield f"{name} was edited by hand: {place}"


def behind(names: Sequence[str], ports: Ports) -> Outcome:
    """Return what ``update`` would bring, having verified it in memory; nothing is asked and nothing written.

    Raises:
        NotFound, SourceError, SecurityError: as for ``update``.
    """
    standing = read_standing(ports)
    ports = under(standing.intent, ports)
    newer = _newer(names, standing, ports, keep=True)
    is_met = given(ports.environ, standing.lock.skills)
    records = standing.records.skills
    skills = tuple(
        view(each.name, each.entry, None, is_met, ports.project, ports.store)._replace(
            description=each.manifest.description,
            state="enabled" if each.name in records and records[each.name].enabled else "disabled",
        )
        for each in newer.candidates
    )
    changes = {each.name: _changes(each, standing, ports) for each in newer.candidates}
    warnings = (*newer.warnings, *_edited(names, (), standing, ports))
    return Outcome(skills, False, warnings=warnings, left=tuple(newer.left), changes=changes)


def _changes(candidate: Candidate, standing: Standing, ports: Ports) -> Changes:
    before = standing.lock.skills[candidate.name]
    found = changes_of(candidate, standing, ports)
    return found or Changes.between(before, candidate.entry, candidate.tree.listing, candidate.tree.listing)


def _newer(names: Sequence[str], standing: Standing, ports: Ports, *, keep: bool = False) -> Newer:
    """Obtain what is newer; with ``keep`` all of it stays in memory and the store is not touched."""
    locked = standing.lock.skills
    for name in names:
        if name not in locked:
            raise NotFound(f"no skill named {name} is installed here", hint="skillhub list shows what is")
    newer = Newer([], [], [])
    picks = []
    for name in names or locked:
        pick = _latest(name, locked[name], standing, ports, newer.warnings)
        if pick is not None:
            picks.append(pick)
    held = None if keep else Held(ports.store)
    for pick, turn in zip(picks, turns([pick.way for pick in picks], ports.report), strict=True):
        candidate = turn() if held is None else held.keep(turn())
        entry = locked[pick.name]
        if (candidate.tree.digest, candidate.entry.version) != (entry.original.tree, entry.version):
            same_origin(candidate, entry)
            if young := too_young(candidate, ports):
                newer.warnings.append(f"{young.message} ({young.where})")
                continue
            whole = carried(candidate, entry, ports)
            if isinstance(whole, Left):
                newer.left.append(whole)
            if keep or not isinstance(whole, Left):
                newer.candidates.append(candidate if isinstance(whole, Left) else whole)
    return newer


def _unfinished(names: Sequence[str], standing: Standing, ports: Ports) -> dict[str, Candidate]:
    """Return what is locked and not what this person has: an update was cut off, or a pull brought it."""
    held = Held(ports.store)
    return {
        name: held.keep(of_lock(name, standing.lock.skills[name], standing, ports).way.go())
        for name in names
        if name in standing.records.skills and standing.agreed(name) is None
    }


def _latest(name: str, entry: Locked, standing: Standing, ports: Ports, warnings: list[str]) -> Pick | None:
    """Return the newest that is wanted under a name, unless its index says that it is the locked one."""
    wanted = standing.intent.skills.get(name) or wanted_of(entry)
    if name not in standing.intent.skills and entry.named:
        # It is here because others need it: no further than they allow.
        ranges = dict.fromkeys(wanted for _, wanted in ranges_on(name, standing.lock, ports))
        wanted = replace(wanted, version=",".join(ranges) or None)
    try:
        pick = of_intent(name, wanted, standing, ports)
    except TakenBack as error:
        warnings.append(f"{error.message}; there is no other that the intent allows")
        return None
    offered = pick.release
    if offered is None:
        return pick
    if root_of(entry, ports) is None:
        is_same = offered.rev == entry.rev if entry.git else offered.digest in (entry.digest or "",)
        return None if is_same else pick
    releases = ports.open(ports.sources.get(entry.source)).release_index([name]).skills.get(name, ())
    warnings.extend(_beyond(offered, wanted, releases, ports))
    if offered.digest == entry.digest:
        return None
    return pick if _is_wanted(entry, offered, wanted, releases, warnings) else None


def _beyond(offered: Release, wanted: Wanted, releases: Sequence[Release], ports: Ports) -> Iterator[str]:
    """Yield what is newer than what is allowed, for nobody would learn of it otherwise."""
    here = precedence(offered.version or "0.0.0")
    younger = choose_release(Named(offered.name, None, wanted.version), tuple(releases))
    if precedence(younger.version or "0.0.0") > here:
        yield f"{offered.name} {younger.version} is there, and has not been out for as long as a policy wants"
    newest = choose_release(Named(offered.name), tuple(releases), ports.policies.settled(ports.clock()))
    if wanted.version is not None and precedence(newest.version or "0.0.0") > here:
        yield f"{offered.name} {newest.version} is there, and {wanted.version} is what is wanted"


def _is_wanted(
    entry: Locked, offered: Release, wanted: Wanted, releases: Sequence[Release], warnings: list[str]
) -> bool:
    """Say whether to leave a locked release for the one offered: up always, down only where it may not stay."""
    old, new = entry.version or "", offered.version or ""
    locked = next((each for each in releases if each.digest == entry.digest), None)
    if locked is not None and locked.withdrawn is not None:
        warnings.append(f"{offered.name} {old} was withdrawn: {locked.withdrawn or 'no reason given'}")
    elif locked is not None and locked.yanked is not None:
        warnings.append(f"{offered.name} {old} was yanked: {locked.yanked or 'no reason given'}")
    if not (is_version(old) and is_version(new)) or precedence(new) > precedence(old):
        return True
    is_gone = locked is not None and locked.withdrawn is not None
    return is_gone or (wanted.version is not None and not Range(wanted.version).allows(old))


def wanted_of(entry: Locked) -> Wanted:
    """Return what a lock's entry asks for where the intent is silent: the newest from where it came."""
    if entry.local:
        return Wanted(path=entry.path)
    if entry.named:
        return Wanted(source=entry.source)
    return Wanted.of(parse_remote(entry.place), entry.path, entry.plugin)
