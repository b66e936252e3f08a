"""Skills that skills need: found, held to one version each, and refused with the chain that led there."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from skillhub.errors import NotFound, SourceError, UsageError
from skillhub.flows.candidate import Candidate
from skillhub.flows.choose import is_within
from skillhub.flows.ports import Ports
from skillhub.flows.resolve import Resolved, resolve_at, resolve_named
from skillhub.flows.state import State
from skillhub.model.dataclass import dataclass, replace
from skillhub.model.lock import Lock, Locked
from skillhub.model.manifest import Manifest
from skillhub.model.ref import Named, parse_remote
from skillhub.model.requirement import Requirement

_PREFIX = "skill:"


class NeedConflict(SourceError):
    """Skills need each other in a ring, or no version of one is what all that need it want."""

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
    """Return the candidates with all that they need and nobody has yet, and warnings of what is optional and missing.

    A need without a source is looked for where the skill that has it came from, and nowhere else. One that is
    ``excepted`` is not looked for.

    Raises:
        UsageError: one that is excepted is needed.
        NeedConflict: they need each other in a ring, or no version suits all that need one.
        NotFound: a need cannot be found; the chain to it is told.
        SourceError, SecurityError, FormatError: as for any other skill.
    """
    whole, warnings = dict(found), []
    chains: dict[str, tuple[str, ...]] = {name: (name,) for name in whole}
    demands: dict[str, list[_Demand]] = {}
    queue = deque(whole)
    while queue:
        parent = whole[queue.popleft()]
        for need in _needs(parent.manifest):
            demand = _Demand(need, chains[parent.name])
            demands.setdefault(need.name, []).append(demand)
            if _suits(whole.get(need.name), state.lock.skills.get(need.name), demands[need.name]):
                continue
            if need.name in found:
                raise _conflict(need.name, demands[need.name], found[need.name].entry.version)
            if need.name in excepted:
                warnings.append(_without(demand))
                continue
            try:
                whole[need.name] = _obtained(demands[need.name], parent, state, ports)
            except NotFound as error:
                if need.required:
                    raise NotFound(
                        f"{demand}: {error.message}", where=error.where, hint=error.hint
                    ) from error
                warnings.append(f"{demand}, which is optional and was not found: {error.message}")
                continue
            chains[need.name] = (*chains[parent.name], need.name)
            queue.append(need.name)
    _refuse_rings(whole, state.lock)
    _refuse_strangers(whole, state, ports)
    return whole, warnings


def _without(demand: _Demand) -> str:
    """Return the warning that what --except leaves out is missed.

    Raises:
        UsageError: it is missed too much.
    """
    message = f"{demand}, which --except leaves out"
    if demand.need.required:
        raise UsageError(message, hint=f"leave that out too: --except {demand.chain[0]}")
    return message


def ranges_on(name: str, lock: Lock, ports: Ports, but: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return each locked skill that needs this one, with the range that it wants, read off the stored bytes."""
    found = []
    for each, entry in lock.skills.items():
        if each in but or f"{_PREFIX}{name}" not in entry.requires:
            continue
        tree = ports.store.read(entry.tree)
        needs = _needs(Manifest.read(tree)) if tree is not None else ()
        found += [(each, need.range) for need in needs if need.name == name and need.range]
    return found


def orphans(gone: Sequence[str], state: State) -> list[str]:
    """Return what only the skills that go have needed: locked, in no line of the intent, needed by nobody else."""
    leaving = dict.fromkeys(gone)
    while True:
        kept = {name: entry for name, entry in state.lock.skills.items() if name not in leaving}
        needed = {each for entry in kept.values() for each in dependencies_of(entry)}
        were = {
            each
            for name in leaving
            if name in state.lock.skills
            for each in dependencies_of(state.lock.skills[name])
        }
        more = [name for name in kept if name in were - needed and name not in state.intent.skills]
        if not more:
            return [name for name in leaving if name not in gone]
        leaving |= dict.fromkeys(more)


def dependencies_of(entry: Locked) -> Iterator[str]:
    """Yield the names of the skills that a locked one needs."""
    return (need.removeprefix(_PREFIX) for need in entry.requires if need.startswith(_PREFIX))


def _needs(manifest: Manifest) -> Iterator[Requirement]:
    return (need for need in manifest.requires if need.kind == "skill")


def _suits(candidate: Candidate | None, entry: Locked | None, demands: Sequence[_Demand]) -> bool:
    """Say whether what is taken, or else what is locked, is what all of them want."""
    here = candidate.entry if candidate is not None else entry
    return here is not None and all(is_within(here, demand.need.range) for demand in demands)


def _obtained(demands: Sequence[_Demand], parent: Candidate, state: State, ports: Ports) -> Candidate:
    need = demands[-1].need
    ranges = [each.need.range for each in demands if each.need.range]
    ranges += [
        wanted for _, wanted in ranges_on(need.name, state.lock, ports, but=[d.chain[-1] for d in demands])
    ]
    both = replace(need, range=",".join(dict.fromkeys(ranges)) or None)
    entry = state.lock.skills.get(need.name)
    if entry is not None and need.name in state.intent.skills:
        raise _conflict(need.name, demands, entry.version)
    try:
        found = _resolved(both, parent, ports, guarded=state.agreed(parent.name) is None).way.go()
    except NotFound as error:
        if len(ranges) > 1:
            raise _conflict(need.name, demands, None) from error
        raise
    if not is_within(found.entry, both.range):
        raise _conflict(need.name, demands, found.entry.version)
    return found


def _resolved(need: Requirement, parent: Candidate, ports: Ports, *, guarded: bool) -> Resolved:
    if need.source is not None or parent.entry.named or parent.entry.local:
        alias = need.source or (parent.entry.source if parent.entry.named else None)
        return resolve_named(Named(need.name, alias, need.range), ports)
    ref = parse_remote(parent.entry.place)
    return resolve_at(need.name, ref, parent.entry.plugin, ports, guarded=guarded)


def _refuse_rings(whole: Mapping[str, Candidate], lock: Lock) -> None:
    """Refuse skills that need each other, by a search in depth."""
    edges = {name: tuple(dependencies_of(entry)) for name, entry in lock.skills.items()}
    edges |= {name: tuple(need.name for need in _needs(each.manifest)) for name, each in whole.items()}
    done: set[str] = set()
    for start in whole:
        path: list[tuple[str, Iterator[str]]] = [(start, iter(edges.get(start, ())))]
        while path:
            name = next(path[-1][1], None)
            if name is None:
                done.add(path.pop()[0])
            elif name in (chain := [each for each, _ in path]):
                ring = " -> ".join([*chain[chain.index(name) :], name])
                raise NeedConflict(f"skills need each other in a ring: {ring}", where=start)
            elif name not in done:
                path.append((name, iter(edges.get(name, ()))))


def _refuse_strangers(whole: Mapping[str, Candidate], state: State, ports: Ports) -> None:
    """Refuse a version that a skill which stays as it is cannot do with."""
    for name, candidate in whole.items():
        before = state.lock.skills.get(name)
        if before is None or before.version == candidate.entry.version:
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
