"""Update: newer releases, the plan, and skills for which none is available."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from skillhub.errors import FormatError, NotFound, SkillhubError
from skillhub.formats.text import is_object_id
from skillhub.install.admission import sources_with, too_young, without_other_signers
from skillhub.install.candidates import (
    EXPIRED,
    Candidate,
    ReleaseStatus,
    TakenBack,
    about_skill,
    choose_release,
    hold_to_lock,
    is_within,
)
from skillhub.install.context import (
    LeftOut,
    Options,
    Outcome,
    Ports,
    State,
    command,
    read_state,
    refuse_unknown,
    reinstall,
    wanted_of,
)
from skillhub.install.gather import Gathered, admit_optional, carried
from skillhub.install.install import take
from skillhub.install.links import Linker
from skillhub.install.obtain import prefetched
from skillhub.install.resolve import (
    HeldTrees,
    ResolvedSkill,
    looked_at,
    offered_by,
    ranges_on,
    resolve_locked,
    resolve_wanted,
    with_dependencies,
)
from skillhub.install.review import changes_of
from skillhub.install.sources import settle_sources
from skillhub.model.changes import Changes, source_changes
from skillhub.model.index import Release
from skillhub.model.lock import Locked
from skillhub.model.reference import Git, GitHub, Named, Oci, SiteReference
from skillhub.model.version import is_version, precedence
from skillhub.net.target import by_agreement
from skillhub.project.installed import given, view
from skillhub.project.intent import Wanted

# What is newer than the lock, of each kind of source: for who updates, and for who only tells of it.

Excuse = Callable[[str, SkillhubError], None]


def newest_of(names: Iterable[str], state: State, ports: Ports, *, excuse: Excuse, keep: bool = False) -> Gathered:
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
    held = None if keep else HeldTrees(ports.store)
    with prefetched([each.acquisition for each in resolved], ports.report) as coming:
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


def _latest(name: str, entry: Locked, state: State, ports: Ports, newer: Gathered) -> ResolvedSkill | None:
    """Return the newest that is wanted under a name, unless its index says that it is the locked one."""
    wanted, warnings = wanted_under(name, entry, state), newer.warnings
    if is_fixed(wanted, entry):
        return None
    if name not in state.intent.skills and entry.named:
        # It is here because others need it: no further than they allow.
        ranges = dict.fromkeys(wanted for _, wanted in ranges_on(name, state.lock, ports))
        wanted = replace(wanted, version=",".join(ranges) or None)
    try:
        found = resolve_wanted(name, wanted, state, ports, known=entry.original)
    except TakenBack as error:
        status = _standing(name, entry, ports, newer)
        told = _taken_back(status.release) or error.message
        warnings.append(f"{told}; there is no other that skillhub.toml allows")
        if other := status.other(settled=ports.policies.settled(ports.clock())):
            warnings.append(_outside(other, wanted, status, ports))
        return None
    offered = found.release
    if offered is None:
        return found
    if ports.root_of(entry) is None:
        now, before = (offered.rev, entry.rev) if entry.git else (offered.digest, entry.digest)
        return None if now == before is not None else found
    status = _standing(name, entry, ports, newer)
    warnings.extend(_beyond(offered, wanted, status, ports))
    if offered.digest == entry.digest:
        return None
    if note := _taken_back(status.release):
        warnings.append(note)
    return found if _is_wanted(entry, offered, wanted, status.release) else None


def _standing(name: str, entry: Locked, ports: Ports, newer: Gathered) -> ReleaseStatus:
    """Ask how a locked release stands, and note it if it was withdrawn."""
    status = ReleaseStatus.now(name, entry, ports)
    if status.release is not None and status.release.withdrawn is not None:
        newer.withdrawn.add(name)
    return status


def _beyond(offered: Release, wanted: Wanted, status: ReleaseStatus, ports: Ports) -> Iterator[str]:
    """Yield what is newer than what is allowed, for nobody would learn of it otherwise."""
    here = precedence(offered.version or "0.0.0")
    younger = choose_release(Named(offered.name, None, wanted.version), status.offered)
    if precedence(younger.version or "0.0.0") > here:
        yield f"{offered.name} {younger.version} is there, and has not been out for as long as a policy wants"
    if wanted.version is None or is_version(wanted.version):
        return  # they may all be taken, or somebody chose just this one
    newest = choose_release(Named(offered.name), status.offered, ports.policies.settled(ports.clock()))
    if precedence(newest.version or "0.0.0") > here:
        yield _outside(newest, wanted, status, ports)


def _outside(release: Release, wanted: Wanted, status: ReleaseStatus, ports: Ports) -> str:
    """Return what is told of a release that is there and not allowed."""
    take = status.to_take(release, ports.project.scope)
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


# Skills that nothing newer can be had of, though whoever has them can be asked: an update of all goes on
# without.


def unavailable(name: str, error: SkillhubError, state: State, ports: Ports) -> SkillhubError:
    """Return what is wrong with this one skill, and the way out of it.

    Raises:
        SkillhubError: the error itself where it is not about one skill, or whoever has the skill cannot be asked.
    """
    if not isinstance(error, NotFound | FormatError):
        raise error
    entry = state.lock.skills[name]
    wanted = wanted_under(name, entry, state)
    try:
        now_at = _asked(name, entry, wanted, state, ports)
    except SkillhubError:
        raise error from None
    scope = ports.project.scope
    remove = command(scope, "remove", name)
    if isinstance(error, FormatError):
        message = f"{name} cannot be updated: {error.message}"
        hint = f"what is installed stays until that is mended; {remove} takes it out"
        return FormatError(message, where=error.where, hint=hint)
    message = f"nothing newer of {name} can be had: {error.message}"
    hint = f"{remove} takes it out; what is installed stays until then"
    if now_at is not None:
        hint = f"it is elsewhere now: {reinstall(scope, name, now_at)}"
    elif error.hint and not wanted.remote():
        hint = f"{hint}; {error.hint}"
    return NotFound(message, where=error.where, hint=hint)


def left_behind(error: SkillhubError, name: str) -> LeftOut:
    """Return how an update of all tells of it."""
    where = f" ({error.where})" if error.where else ""
    return LeftOut(name, error.code, f"{error.message}{where}; {error.hint}")


def _asked(name: str, entry: Locked, wanted: Wanted, state: State, ports: Ports) -> list[str] | None:
    """Ask whoever has a skill what it has, and return the words that name the skill there now, if that can be told.

    Raises:
        SourceError, FormatError, SecurityError, Refused: it cannot be asked.
    """
    ref = wanted.remote()
    if ref is None:
        source = ports.sources.all().get(wanted.source or entry.source)
        if wanted.path is None and source is not None and source.root is None:
            ports.reach(SiteReference(source.url)).index((name,))
        elif wanted.path is None and source is not None:
            registry = ports.open(source)
            with suppress(NotFound):
                registry.release_index([name])
        return None
    whole = replace(ref, path=None) if isinstance(ref, Git | GitHub) else ref
    index = ports.reach(whole, named_by=by_agreement(state.is_known(name, ref.source))).index((name,))
    there = [each for each in offered_by(index) if each.name == name]
    if len(there) != 1 or there[0].path == entry.path or not isinstance(whole, Git | GitHub):
        return None
    (found,) = there
    if found.plugin:
        return [str(whole), "--skill", f"{found.plugin}:{name}"]
    return [str(replace(whole, path=found.path) if found.path else whole)]


# Update: the newest version that the intent allows of what is locked, shown as a plan before anything changes.


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
        skills, False, warnings=warnings, left=left, changes=changes, due=bool(newer.withdrawn), sources=sources
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
    held, found = HeldTrees(ports.store), {}
    for name in names:
        if name in state.records.skills:
            with about_skill(name):
                found[name] = held.keep(resolve_locked(name, state.lock.skills[name], state, ports).acquisition.run())
    return found
