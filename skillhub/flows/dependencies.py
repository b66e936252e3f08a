"""Skills that skills need: found, held to one version each, and refused with the chain that led there."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from skillhub.errors import NotFound, SourceError, UsageError
from skillhub.flows.candidate import Candidate
from skillhub.flows.choose import is_within
from skillhub.flows.gather import Held
from skillhub.flows.ports import Ports
from skillhub.flows.resolve import Resolved, resolve_at, resolve_named
from skillhub.flows.state import State
from skillhub.model.lock import Lock
from skillhub.model.manifest import Manifest
from skillhub.model.ref import Named, parse_remote
from skillhub.model.requirement import Requirement
from skillhub.world.requester import Who, by_agreement

_MOST = 500  # skills that others need: a person asked for none of these


class NeedConflict(SourceError):
    """Skills need each other in a ring, or too many, or no version of one is what all that need it want."""

    code = "need-conflict"


@dataclass(frozen=True, slots=True)
class _Demand:
    """That one skill needs another.

    Attributes:
        chain: From the skill that was asked for to the one that has the need.
    """

    need: Requirement
    chain: tuple[str, ...]

    def __str__(self) -> str:
        wanted = f" {self.need.range}" if self.need.range else ""
        return f"{' -> '.join(self.chain)} needs {self.need.name}{wanted}"


def with_dependencies(
    found: Mapping[str, Candidate], state: State, ports: Ports, excepted: Collection[str] = ()
) -> tuple[dict[str, Candidate], list[str]]:
    """Return the candidates with all that they need and nobody has yet, and warnings of what cannot be found.

    What is not found leaves the need open, and a skill that cannot do without it disabled. A need without a source
    is looked for where the skill that has it came from, and nowhere else. One that is ``excepted`` is not looked for.

    Raises:
        UsageError: one that is excepted is needed.
        NeedConflict: they need each other in a ring, too many others, or no version suits all that need one.
        SourceError, SecurityError, FormatError: as for any other skill.
    """
    whole, warnings, held = dict(found), [], Held(ports.store)
    chains: dict[str, tuple[str, ...]] = {name: (name,) for name in whole}
    demands: dict[str, list[_Demand]] = {}
    queue = deque(whole)
    while queue:
        parent = whole[queue.popleft()]
        for need in _needs(parent.manifest):
            demand = _Demand(need, chains[parent.name])
            demands.setdefault(need.name, []).append(demand)
            taken = whole[need.name].entry if need.name in whole else state.lock.skills.get(need.name)
            if taken is not None and all(is_within(taken, each.need.range) for each in demands[need.name]):
                continue
            if need.name in found:
                raise _conflict(need.name, demands[need.name], found[need.name].entry.version)
            if need.name in excepted:
                warnings.append(_left_out(demand))
                continue
            if len(demands.keys() - found.keys() - state.lock.skills.keys()) > _MOST:
                message = f"more than {_MOST} skills are needed by those that were asked for"
                raise NeedConflict(message, where=demand.chain[0])
            try:
                whole[need.name] = held.keep(_obtained(demands[need.name], parent, state, ports))
            except NotFound as error:
                if need.required and taken is not None:
                    raise _conflict(need.name, demands[need.name], taken.version) from error
                warnings.append(_not_found(demand, error))
                if not need.required:
                    demands[need.name].pop()  # another may be content with what there is
                continue
            chains[need.name] = (*chains[parent.name], need.name)
            queue.append(need.name)
    _refuse_cycles(whole, state.lock)
    _refuse_incompatible(whole, state, ports)
    return whole, warnings


def _not_found(demand: _Demand, error: NotFound) -> str:
    if not demand.need.required:
        return f"{demand}, which is optional and was not found: {error.message}"
    return f"{demand}, which was not found: {'; '.join(filter(None, (error.message, error.hint)))}"


def _left_out(demand: _Demand) -> str:
    """Return the warning about what ``--except`` leaves out though a skill could do with it.

    Raises:
        UsageError: the skill cannot do without.
    """
    message = f"{demand}, which --except leaves out"
    if demand.need.required:
        raise UsageError(message, hint=f"leave that out too: --except {demand.chain[0]}")
    return message


def ranges_on(name: str, lock: Lock, ports: Ports, but: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return each locked skill that needs this one, with the range that it wants, read off the stored bytes."""
    found = []
    for each in lock.dependents.get(name, ()):
        if each in but:
            continue
        tree = ports.store.read(lock.skills[each].tree)
        needs = _needs(Manifest.read(tree)) if tree is not None else ()
        found += [(each, need.range) for need in needs if need.name == name and need.range]
    return found


def orphans(gone: Sequence[str], state: State) -> list[str]:
    """Return what only the skills that go have needed: locked, not in the intent, needed by no other."""
    locked = state.lock.skills
    leaving = [name for name in dict.fromkeys(gone) if name in locked]
    named = len(leaving)
    needing = Counter(each for entry in locked.values() for each in {*entry.dependencies})
    kept = {*state.intent.skills, *gone}
    for name in leaving:  # it grows by what is looked at later
        for each in dict.fromkeys(locked[name].dependencies):
            needing[each] -= 1
            if each in locked and each not in kept and not needing[each]:
                leaving.append(each)
    return leaving[named:]


def _needs(manifest: Manifest) -> Iterator[Requirement]:
    return (need for need in manifest.requires if need.kind == "skill")


def _obtained(demands: Sequence[_Demand], parent: Candidate, state: State, ports: Ports) -> Candidate:
    need = demands[-1].need
    ranges = [each.need.range for each in demands if each.need.range]
    ranges += [
        wanted for _, wanted in ranges_on(need.name, state.lock, ports, but={d.chain[-1] for d in demands})
    ]
    ranges = list(dict.fromkeys(ranges))
    both = replace(need, range=",".join(ranges) or None)
    entry = state.lock.skills.get(need.name)
    if entry is not None and need.name in state.intent.skills:
        raise _conflict(need.name, demands, entry.version)
    named_by = by_agreement(state.agreed(parent.name) is not None)
    try:
        found = _resolved(both, parent, ports, named_by=named_by).way.go()
    except NotFound as error:
        if {*ranges} <= {need.range}:
            raise
        _resolved(replace(need, range=None), parent, ports, named_by=named_by)  # or there is none at all
        raise _conflict(need.name, demands, None) from error
    if not is_within(found.entry, both.range):
        raise _conflict(need.name, demands, found.entry.version)
    return found


def _resolved(need: Requirement, parent: Candidate, ports: Ports, *, named_by: Who) -> Resolved:
    if need.source is not None or parent.entry.named or parent.entry.local:
        alias = need.source or (parent.entry.source if parent.entry.named else None)
        return resolve_named(Named(need.name, alias, need.range), ports)
    ref = parse_remote(parent.entry.place)
    return resolve_at(need.name, ref, parent.entry.plugin, ports, named_by=named_by)


def _refuse_cycles(whole: Mapping[str, Candidate], lock: Lock) -> None:
    """Refuse skills that need each other."""
    needs = {name: [*entry.dependencies] for name, entry in lock.skills.items()}
    needs |= {name: [need.name for need in _needs(each.manifest)] for name, each in whole.items()}
    graph: dict[str, list[str]] = {}  # no more than what these lead to: what is locked else stands as it is
    queue = deque(whole)
    while queue:
        name = queue.popleft()
        if name not in graph:
            graph[name] = needs.get(name, [])
            queue.extend(graph[name])
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        ring = error.args[1][::-1]
        message = f"skills need each other in a ring: {' -> '.join(ring)}"
        raise NeedConflict(message, where=ring[0]) from error


def _refuse_incompatible(whole: Mapping[str, Candidate], state: State, ports: Ports) -> None:
    """Refuse a version that a skill which stays as it is, or waits for it, cannot do with."""
    locked = state.lock.skills
    for name in sorted(state.lock.dependents.keys() & whole.keys()):
        candidate, before = whole[name], locked.get(name)
        if before is not None and before.version == candidate.entry.version:
            continue
        for other, wanted in ranges_on(name, state.lock, ports, but=whole):
            if not is_within(candidate.entry, wanted):
                raise NeedConflict(
                    f"{other} needs {name} {wanted}, found {candidate.entry.version}", where=name
                )


def _conflict(name: str, demands: Sequence[_Demand], found: str | None) -> NeedConflict:
    chains = "; ".join(map(str, demands))
    has = f", but {name} is to be {found}" if found else f", and no version of {name} is all of that"
    return NeedConflict(f"{chains}{has}", where=name, hint="skillhub show NAME lists the versions of a skill")
