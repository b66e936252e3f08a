"""What is newer than the lock, of each kind of source: for who updates, and for who only tells of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from skillhub.errors import SkillhubError
from skillhub.flows.admission import too_young
from skillhub.flows.ahead import turns
from skillhub.flows.candidate import Candidate
from skillhub.flows.carried import carried
from skillhub.flows.choose import TakenBack, choose_release, is_within
from skillhub.flows.dependencies import ranges_on
from skillhub.flows.gather import Gathered, Held, looked_at
from skillhub.flows.locked import about_skill
from skillhub.flows.outcome import LeftOut
from skillhub.flows.ports import Ports
from skillhub.flows.provenance import hold_to_lock
from skillhub.flows.resolve import Resolved, resolve_wanted
from skillhub.flows.signers import EXPIRED
from skillhub.flows.standing import Standing
from skillhub.flows.state import State, wanted_of
from skillhub.model.intent import Wanted
from skillhub.model.lock import Locked
from skillhub.model.ref import Git, GitHub, Named, Oci
from skillhub.model.release import Release
from skillhub.model.text import is_object_id
from skillhub.model.version import is_version, precedence

Excuse = Callable[[str, SkillhubError], None]


def newest_of(
    names: Iterable[str], state: State, ports: Ports, *, excuse: Excuse, keep: bool = False
) -> Gathered:
    """Return what is newer than the lock, of these locked skills; left out is what is, and cannot be had.

    Args:
        names: The skills.
        state: What is locked, and what is wanted.
        ports: The world.
        excuse: Is told of a skill of which nobody can say, and why; if it returns, the others go on.
        keep: It is only told of: the store is not touched, and no file stays in memory.

    Raises:
        SourceError, SecurityError, FormatError, Refused, UsageError: as ``excuse`` raises them.
        StateError: the disk is in the way.
    """
    newer, resolved = Gathered(), []
    for name in names:
        try:
            found = _latest(name, state.lock.skills[name], state, ports, newer)
        except SkillhubError as error:
            excuse(name, error)
        else:
            resolved += [] if found is None else [found]
    held = None if keep else Held(ports.store)
    with turns([each.way for each in resolved], ports.report) as coming:
        for each, turn in zip(resolved, coming, strict=True):
            try:
                with about_skill(each.name):
                    candidate = turn() if held is None else held.keep(turn())
                    _compare(candidate, state.lock.skills[each.name], newer, ports, keep=keep)
            except SkillhubError as error:
                excuse(each.name, error)
    return newer


def _compare(candidate: Candidate, entry: Locked, newer: Gathered, ports: Ports, *, keep: bool) -> None:
    """Add a candidate to what is newer, if it is."""
    if (candidate.tree.digest, candidate.entry.version) == (entry.original.tree, entry.version):
        newer.warnings.extend(f"{candidate.name}: {each}" for each in candidate.warnings if each == EXPIRED)
        return
    hold_to_lock(candidate, entry, ports.project.scope)
    if young := too_young(candidate, ports):
        newer.warnings.append(f"{young.message} ({young.where})")
        return
    whole = carried(candidate, entry, ports)
    if isinstance(whole, LeftOut):
        newer.left.append(whole)
    if keep:
        newer.found[candidate.name] = looked_at(candidate if isinstance(whole, LeftOut) else whole)
    elif not isinstance(whole, LeftOut):
        newer.found[candidate.name] = whole


def _latest(name: str, entry: Locked, state: State, ports: Ports, newer: Gathered) -> Resolved | None:
    """Return the newest that is wanted under a name, unless its index says that it is the locked one."""
    wanted, warnings = wanted_under(name, entry, state), newer.warnings
    if is_fixed(wanted, entry):
        return None
    if name not in state.intent.skills and entry.named:
        # It is here because others need it: no further than they allow.
        ranges = dict.fromkeys(wanted for _, wanted in ranges_on(name, state.lock, ports))
        wanted = replace(wanted, version=",".join(ranges) or None)
    try:
        found = resolve_wanted(name, wanted, state, ports)
    except TakenBack as error:
        standing = _standing(name, entry, ports, newer)
        told = _taken_back(standing.release) or error.message
        warnings.append(f"{told}; there is no other that skillhub.toml allows")
        if other := standing.other(settled=ports.policies.settled(ports.clock())):
            warnings.append(_outside(other, wanted, standing, ports))
        return None
    offered = found.release
    if offered is None:
        return found
    if ports.root_of(entry) is None:
        now, before = (offered.rev, entry.rev) if entry.git else (offered.digest, entry.digest)
        return None if now == before is not None else found
    standing = _standing(name, entry, ports, newer)
    warnings.extend(_beyond(offered, wanted, standing, ports))
    if offered.digest == entry.digest:
        return None
    if note := _taken_back(standing.release):
        warnings.append(note)
    return found if _is_wanted(entry, offered, wanted, standing.release) else None


def _standing(name: str, entry: Locked, ports: Ports, newer: Gathered) -> Standing:
    """Ask how a locked release stands, and note it if it was withdrawn."""
    standing = Standing.now(name, entry, ports)
    if standing.release is not None and standing.release.withdrawn is not None:
        newer.withdrawn.add(name)
    return standing


def _beyond(offered: Release, wanted: Wanted, standing: Standing, ports: Ports) -> Iterator[str]:
    """Yield what is newer than what is allowed, for nobody would learn of it otherwise."""
    here = precedence(offered.version or "0.0.0")
    younger = choose_release(Named(offered.name, None, wanted.version), standing.offered)
    if precedence(younger.version or "0.0.0") > here:
        yield f"{offered.name} {younger.version} is there, and has not been out for as long as a policy wants"
    if wanted.version is None or is_version(wanted.version):
        return  # they may all be taken, or somebody chose just this one
    newest = choose_release(Named(offered.name), standing.offered, ports.policies.settled(ports.clock()))
    if precedence(newest.version or "0.0.0") > here:
        yield _outside(newest, wanted, standing, ports)


def _outside(release: Release, wanted: Wanted, standing: Standing, ports: Ports) -> str:
    """Return what is told of a release that is there and not allowed."""
    take = standing.to_take(release, ports.project.scope)
    return f"{release.name} {release.version} is there, and {wanted.version} is what is wanted; to take it: {take}"


def _is_wanted(entry: Locked, offered: Release, wanted: Wanted, locked: Release | None) -> bool:
    """Say whether to leave a locked release for the one offered: up always, down only where it may not stay."""
    old, new = entry.version or "", offered.version or ""
    if not (is_version(old) and is_version(new)) or precedence(new) > precedence(old):
        return True
    is_gone = locked is not None and locked.withdrawn is not None
    return is_gone or not is_within(entry, wanted.version)


def _taken_back(locked: Release | None) -> str | None:
    """Return what is told of a locked release that nobody should have any more, if that is so."""
    if locked is None or not locked.taken_back:
        return None
    return f"{locked.name} {locked.version} was {locked.taken_back}"


def wanted_under(name: str, entry: Locked, state: State) -> Wanted:
    """Return what is wanted under a locked name: as the intent says, else as the lock does."""
    return state.intent.skills.get(name) or wanted_of(entry)


def is_fixed(wanted: Wanted, entry: Locked) -> bool:
    """Say whether a person asked for the very commit or artifact that is locked: there is no newer one."""
    ref = wanted.remote()
    if isinstance(ref, Git | GitHub):
        return ref.rev is not None and is_object_id(ref.rev) and ref.rev == entry.rev
    return isinstance(ref, Oci) and ref.digest is not None and ref.source == entry.place
