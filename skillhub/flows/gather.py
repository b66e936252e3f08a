"""From what is asked for to candidates: obtained, one to a name, each from where its name may come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from skillhub.errors import Forbidden, FormatError, SecurityError, UsageError
from skillhub.flows.admission import admit
from skillhub.flows.ahead import turns
from skillhub.flows.candidate import Candidate
from skillhub.flows.carried import carried
from skillhub.flows.choose import fitting, none_of, words_for
from skillhub.flows.hints import command
from skillhub.flows.locked import about_skill
from skillhub.flows.options import Options
from skillhub.flows.outcome import LeftOut
from skillhub.flows.ports import Ports
from skillhub.flows.provenance import hold_to_lock
from skillhub.flows.resolve import Resolved, resolve_locked, resolve_ref, resolve_wanted, satisfies
from skillhub.flows.state import State
from skillhub.flows.unsafe import UnsafeSkills
from skillhub.model.ref import Ref
from skillhub.model.release import Release
from skillhub.model.text import quote
from skillhub.model.tree import Tree
from skillhub.world.requester import Who
from skillhub.world.staged import Listed, Staged
from skillhub.world.store import Store

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
    gathered, held = Gathered(), Held(ports.store)
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
    refs: Sequence[Ref], resolved: Sequence[Resolved], found: Mapping[str, Candidate], options: Options
) -> None:
    """Refuse a word of ``--skill`` that is no skill's: a place of several was asked for it, what is one skill not."""
    offered = [each.release for each in resolved if each.release]
    for word in options.skills:
        if word not in found and not fitting(word, offered):
            raise none_of(word, [*found], ", ".join(map(str, refs)))


def _less(resolved: Sequence[Resolved], options: Options) -> list[Resolved]:
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
    resolved: Resolved, turn: Callable[[], Candidate], held: Held, state: State, ports: Ports
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


def _add(candidate: Candidate, resolved: Resolved, gathered: Gathered, state: State, ports: Ports) -> None:
    if any((each.name, each.code) == (candidate.name, _AMBIGUOUS) for each in gathered.left):
        return
    admitted = (
        admit_optional(candidate, state, ports) if resolved.optional else admit(candidate, state, ports)
    )
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


class Held:
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


def _of_project(options: Options, state: State, ports: Ports) -> list[Resolved]:
    resolved, unwanted = [], frozenset(state.unwanted)
    if options.frozen and unwanted:
        raise _disagree(
            f"the lock has {', '.join(sorted(unwanted))}, which skillhub.toml has no need of", ports
        )
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
