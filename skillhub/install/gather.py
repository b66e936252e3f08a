"""From references to candidates: one for each name, with the skills that they need."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter

from skillhub.errors import Forbidden, FormatError, NotFound, SecurityError, SourceError, UsageError
from skillhub.formats.text import as_word, quote
from skillhub.install.admission import admit, hold_to_lock
from skillhub.install.candidates import Candidate, fitting, is_within, none_of, words_for
from skillhub.install.context import LeftOut, Options, Ports, State, command
from skillhub.install.locked import about_skill, carried
from skillhub.install.obtain import turns
from skillhub.install.resolve import (
    ResolvedSkill,
    resolve_at,
    resolve_locked,
    resolve_named,
    resolve_ref,
    resolve_wanted,
    satisfies,
)
from skillhub.model.index import Release
from skillhub.model.lock import Lock
from skillhub.model.manifest import Manifest
from skillhub.model.needs import Requirement
from skillhub.model.reference import Named, Ref, parse_remote
from skillhub.model.tree import Tree
from skillhub.net.target import Who, by_agreement
from skillhub.project.store import Listed, Staged, Store

# The refusal of ``--all`` where skills are not what they should be: all of them are named, to be left out.


class UnsafeSkills(SecurityError):
    """Skills that came with ``--all`` and are not what they should be: every one of them, and why.

    Args:
        failing: By the word that ``--except`` takes.
        where: The place that has them.
        excepted: What was left out already.

    Attributes:
        skills: Each as ``name``, ``code``, ``reason`` and ``message``.
        code: Theirs, if they have one and the same; so is ``reason``.
    """

    code = "unsafe-skills"

    def __init__(
        self, failing: Sequence[tuple[str, SecurityError]], *, where: str, excepted: Sequence[str] = ()
    ) -> None:
        self.skills = tuple(
            {"name": word, "code": each.code, "reason": getattr(each, "reason", None), "message": _told(each)}
            for word, each in failing
        )
        words = dict.fromkeys([*excepted, *(word for word, _ in failing)])
        without = f"--all {' '.join(f'--except {as_word(word)}' for word in words)}"
        (word, first), *others = failing
        named = ", ".join(f"{each['name']} ({each['reason'] or each['code']})" for each in self.skills)
        super().__init__(
            f"{len(failing)} skills are not as promised: {named}" if others else _about(word, first),
            where=where if others else first.where or where,
            hint=f"to install the others: {without}{f'; {first.hint}' if first.hint and not others else ''}",
        )
        codes = {each.code for _, each in failing}
        reasons = {each["reason"] for each in self.skills}
        self.code = codes.pop() if len(codes) == 1 else self.code
        self.reason = reasons.pop() if len(reasons) == 1 else None


def _about(word: str, error: SecurityError) -> str:
    is_said = error.message.startswith(f"{word} ")
    return error.message if is_said else f"{word}: {error.message}"


def _told(error: SecurityError) -> str:
    return f"{error.message} ({error.where})" if error.where else error.message


# From what is asked for to candidates: obtained, one to a name, each from where its name may come from.

_AMBIGUOUS = "ambiguous"
_HELD_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was found, by name, what was left out, and what is odd about the places.

    Attributes:
        excepted: The names that ``--except`` left nothing of.
        withdrawn: The names of which the locked release was withdrawn.
    """

    found: dict[str, Candidate] = field(default_factory=dict)
    left: list[LeftOut] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    excepted: set[str] = field(default_factory=set)
    withdrawn: set[str] = field(default_factory=set)


def gather(
    refs: Sequence[Ref], options: Options, state: State, ports: Ports, *, named_by: Who = "person"
) -> Gathered:
    """Return a candidate for each skill that the references mean; without any, for each of lock and intent.

    ``named_by`` says who named the references, as for ``Ports.reach``.

    Raises:
        NotFound: none has a skill that was chosen by name.
        UsageError: two references give one name to two skills, or a name is in several sources.
        SourceMismatch: a name that the lock has from somewhere else.
        FormatError: ``--frozen``, and intent and lock disagree.
        SignerChanged: another signer than the lock's.
        UnsafeSkills: of ``--all``, every one that is not what it should be.
        Forbidden: a policy forbids one that did not come with ``--all``.
    """
    if refs and options.frozen:
        raise UsageError("--frozen installs what the lock says; it goes with no reference")
    if options.excepted and (options.skills or not (options.every and refs)):
        raise UsageError("--except leaves skills out of what REF --all means, and goes with nothing else")
    gathered, held = Gathered(), HeldTrees(ports.store)
    resolved = [] if refs else _of_project(options, state, ports)
    for ref in refs:
        meant, warnings = resolve_ref(ref, options, state, ports, named_by=named_by)
        resolved += meant
        gathered.warnings.extend(warnings)
    every, resolved = resolved, _less(resolved, options)
    gathered.excepted.update({each.name for each in every} - {each.name for each in resolved})
    failing: list[tuple[Release, SecurityError]] = []
    with turns([each.way for each in resolved], ports.report) as coming:
        for each, turn in zip(resolved, coming, strict=True):
            try:
                whole = _whole(each, turn, held, state, ports)
            except SecurityError as error:
                if each.release is None or not options.every:
                    with about_skill(each.name):
                        raise
                failing.append((each.release, error))
                continue
            if isinstance(whole, LeftOut):
                gathered.left.append(whole)
            elif not failing:
                _add(whole, each, gathered, state, ports)
    if failing:
        words = words_for([each.release for each in resolved if each.release])
        unsafe = [(words[release], error) for release, error in failing]
        raise UnsafeSkills(unsafe, where=", ".join(map(str, refs)), excepted=options.excepted)
    _refuse_unmeant(refs, resolved, gathered.found, options)
    return gathered


def _refuse_unmeant(
    refs: Sequence[Ref], resolved: Sequence[ResolvedSkill], found: Mapping[str, Candidate], options: Options
) -> None:
    """Refuse a word of ``--skill`` that is no skill's: a place of several was asked for it, what is one skill not."""
    offered = [each.release for each in resolved if each.release]
    for word in options.skills:
        if word not in found and not fitting(word, offered):
            raise none_of(word, [*found], ", ".join(map(str, refs)))


def _less(resolved: Sequence[ResolvedSkill], options: Options) -> list[ResolvedSkill]:
    """Return what is resolved without those that ``--except`` names.

    Raises:
        UsageError: it names what is not there.
    """
    offered = [each.release for each in resolved if each.release]
    fits = {word: fitting(word, offered) for word in options.excepted}
    if unknown := [quote(word) for word, found in fits.items() if not found]:
        names = ", ".join(list(words_for(offered).values())[:40]) or "none to choose from"
        message = f"--except names what is not there: {', '.join(unknown)}"
        raise UsageError(message, hint=f"there are: {names}")
    gone = {each for found in fits.values() for each in found}
    return [each for each in resolved if each.release not in gone]


def _whole(
    resolved: ResolvedSkill, turn: Callable[[], Candidate], held: HeldTrees, state: State, ports: Ports
) -> Candidate | LeftOut:
    """Return the skill with the project's patch of it, or why ``--all`` leaves it out.

    Raises:
        FormatError: it is malformed and did not come with ``--all``.
        Forbidden: a policy forbids where its bytes are, and it did not come with ``--all``.
        SecurityError: it is not what it should be.
    """
    try:
        candidate = replace(held.keep(turn()), wanted=resolved.wanted)
    except FormatError as error:
        if not resolved.optional:
            raise
        return LeftOut(resolved.name, error.code, error.message)
    except Forbidden as error:
        if not resolved.optional:
            raise
        return _forbidden(resolved.name, error)
    entry = state.lock.skills.get(candidate.name)
    hold_to_lock(candidate, entry, ports.project.scope)
    return carried(candidate, entry, ports)


def _forbidden(name: str, error: Forbidden) -> LeftOut:
    return LeftOut(name, error.code, f"{error.message} ({error.where})")


def _add(candidate: Candidate, resolved: ResolvedSkill, gathered: Gathered, state: State, ports: Ports) -> None:
    if any((each.name, each.code) == (candidate.name, _AMBIGUOUS) for each in gathered.left):
        return
    admitted = admit_optional(candidate, state, ports) if resolved.optional else admit(candidate, state, ports)
    if isinstance(admitted, LeftOut):
        gathered.left.append(admitted)
        return
    candidate = admitted
    twin = gathered.found.setdefault(candidate.name, candidate)
    if twin.tree.digest == candidate.tree.digest:
        return  # the same bytes twice are one skill
    message = f"{candidate.name} is two different skills: {twin.entry.origin} and {candidate.entry.origin}"
    hint = "name one of them: --skill PLUGIN:NAME, or the folder in the reference"
    if not resolved.optional:
        raise UsageError(message, hint=hint)
    del gathered.found[candidate.name]
    gathered.left.append(LeftOut(candidate.name, _AMBIGUOUS, f"{message}; {hint}"))


def admit_optional(candidate: Candidate, state: State, ports: Ports) -> Candidate | LeftOut:
    """Return a candidate that came with others as it is admitted, or why it is left out.

    Raises:
        SourceError: as for ``admit``.
    """
    try:
        candidate = admit(candidate, state, ports)
    except Forbidden as error:
        return _forbidden(candidate.name, error)
    critical = next((each for each in candidate.findings if each.severity == "critical"), None)
    if critical is None:
        return candidate
    message = f"{critical.path}:{critical.line}: {critical.message} [{critical.rule}]"
    return LeftOut(candidate.name, "critical-finding", message)


class HeldTrees:
    """What is held in memory: once the trees pass ``held_max`` bytes, further ones wait in the store, unlinked."""

    def __init__(self, store: Store, held_max: int = _HELD_MAX) -> None:
        self._store = store
        self._left = held_max

    def keep(self, candidate: Candidate) -> Candidate:
        """Return the candidate, its tree in memory or staged in the store.

        Raises:
            StateError: the disk is full or refuses.
        """
        self._left -= candidate.tree.size
        if self._left >= 0:
            return candidate
        return _lighter(candidate, Staged(self._store.put(candidate.tree), candidate.tree))


def looked_at(candidate: Candidate) -> Candidate:
    """Return the candidate with no file of it in memory, for who only tells of it."""
    return _lighter(replace(candidate, base=None), Listed(candidate.tree))


def _lighter(candidate: Candidate, tree: Tree) -> Candidate:
    # The body is in the tree as well, and may be as large.
    return replace(candidate, tree=tree, manifest=replace(candidate.manifest, body=""))


def _of_project(options: Options, state: State, ports: Ports) -> list[ResolvedSkill]:
    resolved, unwanted = [], frozenset(state.unwanted)
    if options.frozen and unwanted:
        raise _disagree(f"the lock has {', '.join(sorted(unwanted))}, which skillhub.toml has no need of", ports)
    for name in dict.fromkeys((*state.lock.skills, *state.intent.skills)):
        entry, wanted = state.lock.skills.get(name), state.intent.skills.get(name)
        if name in unwanted:
            continue
        if entry is not None and (wanted is None or satisfies(entry, wanted, ports.project.base)):
            resolved.append(resolve_locked(name, entry, state, ports))
        elif wanted is not None:
            if options.frozen:
                raise _disagree(f"the lock does not have {name} as skillhub.toml wants it", ports)
            resolved.append(resolve_wanted(name, wanted, state, ports))
    return resolved


def _disagree(message: str, ports: Ports) -> FormatError:
    return FormatError(
        message,
        where=ports.project.lock_path,
        hint=f"run {command(ports.project.scope, 'install')} without --frozen and commit the lock",
    )


# Skills that skills need: found, held to one version each, and refused with the chain that led there.

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
    whole, warnings, held = dict(found), [], HeldTrees(ports.store)
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
    ranges += [wanted for _, wanted in ranges_on(need.name, state.lock, ports, but={d.chain[-1] for d in demands})]
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


def _resolved(need: Requirement, parent: Candidate, ports: Ports, *, named_by: Who) -> ResolvedSkill:
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
                raise NeedConflict(f"{other} needs {name} {wanted}, found {candidate.entry.version}", where=name)


def _conflict(name: str, demands: Sequence[_Demand], found: str | None) -> NeedConflict:
    chains = "; ".join(map(str, demands))
    has = f", but {name} is to be {found}" if found else f", and no version of {name} is all of that"
    return NeedConflict(f"{chains}{has}", where=name, hint="skillhub show NAME lists the versions of a skill")
