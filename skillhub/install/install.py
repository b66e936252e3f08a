"""Install and update: gather candidates, and apply them; all skills or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from skillhub.command.ports import LeftOut, Options, Outcome, Ports
from skillhub.command.state import State, read_state, refuse_unknown
from skillhub.errors import FormatError, KnownBad, NotFound, SkillhubError, SourceError, UsageError
from skillhub.formats.text import command, reinstall
from skillhub.install import admission
from skillhub.install.admission import SharedFacts, deciding_facts, described, left_behind, without_other_signers
from skillhub.install.apply import apply, views_of
from skillhub.install.candidates import Candidate, TreeBudget, about_skill, stale_lock
from skillhub.install.commit import Planner, changes_of
from skillhub.install.gather import Describe, Gathered, admit_optional, gather, newest_of, with_intent
from skillhub.install.links import Linker
from skillhub.install.resolve import ResolvedSkill, resolve_locked, with_dependencies
from skillhub.install.trusted_sources import ask_and_adopt_sources, needed_by
from skillhub.model.index import offered_by
from skillhub.model.lock import Locked
from skillhub.model.provenance import Changes, source_changes
from skillhub.model.reference import Git, GitHub, Mcp, Ref
from skillhub.net.fetch import by_agreement
from skillhub.project.copies import need_check, view
from skillhub.project.intent import Wanted


def install(refs: Sequence[Ref], options: Options, ports: Ports) -> Outcome:
    """Install the skills that ``refs`` name; without references, those of lock and intent.

    Raises:
        UsageError: the references make no sense, or there are none and neither lock nor intent.
        SourceError: a source is unreachable or lacks a skill.
        FormatError: a skill, a document, lock or intent is malformed.
        SecurityError: evidence of tampering; nothing was changed.
        Refused: a question was not answered, or with no; nothing was changed.
        StateError: the disk is in the way.
    """
    if not refs and not ports.project.has_lock_or_intent():
        hint = f"name a skill, for example: {command(ports.project.scope, 'install', 'github:code-review')}"
        if options.frozen:
            hint = "--frozen installs an existing lock; --project FOLDER names its folder"
        raise UsageError("there is neither skillhub.toml nor skillhub.lock here", where=ports.project.root, hint=hint)
    state = read_state(ports.project, ports.sources)
    asked, note = ask_and_adopt_sources(state, needed_by(refs, state), options, ports)
    if note:
        if options.frozen:
            hint = f"{command(ports.project.scope, 'install', '--frozen')} asks about it, skillhub source add adds it"
            raise SourceError(f"nothing was checked: {note}", hint=hint)
        return Outcome((), False, tuple(asked), (note,))
    gathered = gather(refs, options, state, ports, unchanged=lambda each: _unchanged(each, options, state, ports))
    if refs and not state.lock.skills:
        gathered = with_intent(gathered, options, state, ports)
    found, notes = gathered.found, [*gathered.warnings]
    if not options.frozen:
        found, missing = with_dependencies(found, state, ports, gathered.excepted, gathered.unchanged)
        notes += missing
    if not (refs or options.frozen):
        found, signer_notes = without_other_signers(found, state, ports)
        notes += signer_notes
    if refs and (unlocked := ", ".join(name for name in state.unlocked if name not in found)):
        install_all = command(ports.project.scope, "install")
        notes.append(f"skillhub.toml names {unlocked}, and the lock does not: {install_all}")
    outcome = apply(found, options, state, ports, gathered.left_out)
    notes = [*left_behind(found, state, ports), *notes]  # now, for a lock that this command wrote lacks them, too
    _note_unchanged(found, outcome.unchanged, state, ports)
    ports.sources.keep()
    views = views_of(gathered.unchanged, state.records.skills, state, ports)
    order = {name: place for place, name in enumerate(state.lock.skills)}  # not that of the index of proved folders
    skills = sorted((*views, *outcome.skills), key=lambda each: order.get(each.name, len(order)))
    outcome = replace(outcome, skills=tuple(skills), unchanged=outcome.unchanged | gathered.unchanged)
    return outcome.preceded(asked, notes)


def _unchanged(resolved: Sequence[ResolvedSkill], options: Options, state: State, ports: Ports) -> set[str]:
    """Return the names of the skills that need no work: they, and the skills that they need, are in order.

    The caller obtains, verifies and plans all others.
    """
    proved = ports.store.proved
    locked_skills = [each for each in resolved if each.is_locked and not options.env and proved.is_believed]
    names = {each.name for each in locked_skills if each.wanted in (None, state.intent.skills.get(each.name))}
    if not names:
        return names
    found = Planner(options, state, ports).unchanged(names, SharedFacts(ports))
    waiting = [each.name for each in resolved if each.name not in found]
    while waiting:
        needing = found.intersection(state.lock.dependents.get(waiting.pop(), ()))
        found -= needing
        waiting += needing
    return found


def _note_unchanged(done: Mapping[str, Candidate], names: Iterable[str], state: State, ports: Ports) -> None:
    """Remember which of these skills, just planned, were in order and without warnings."""
    if not ports.store.proved.is_believed:
        return
    shared = SharedFacts(ports)
    for name in names:
        found = done[name]
        # The signature of an unknown signer may have a certificate, which expires; the lock does not mention it.
        if found.warnings or (found.signer is None and found.trust != "unsigned"):
            continue
        if (facts := deciding_facts(name, shared, state, ports)) is not None:
            ports.store.proved.note(name, facts)


def update(names: Sequence[str], options: Options, ports: Ports) -> Outcome:
    """Update the named skills, or all, to the newest version that the intent allows; all of them or none.

    An update of all leaves a skill unchanged whose source is unreachable or no longer has it, or whose newer version
    is malformed, has a critical finding, or is forbidden by a policy.

    Raises:
        NotFound: a name is not locked, or its source no longer has it.
        SourceError: the source of a named skill cannot be reached, or no source of all.
        FormatError: the newer version of a named skill is malformed, or ``--frozen`` and a newer version exists.
        SecurityError: another signer than the lock's, wrong bytes; nothing was changed.
        Refused: a question was not answered, or with no, or a policy forbids a skill; nothing was changed.
        StateError: the disk is in the way.
    """
    state, names = read_state(ports.project, ports.sources), tuple(dict.fromkeys(names))
    asked, note = ask_and_adopt_sources(state, options.trusted, options, ports)
    if note:
        return Outcome((), False, tuple(asked), (note,))
    newer, failed = _newest(names, state, ports)
    candidates = newer.found
    if not names:
        admitted = [admit_optional(each, state, ports) for each in newer.found.values()]
        failed |= {each.name: each for each in admitted if isinstance(each, LeftOut)}
        candidates = {name: each for name, each in candidates.items() if name not in failed}
    left = {each.name for each in newer.left_out}
    restored = [
        name
        for name in names or state.lock.skills
        if name not in candidates and name not in failed
        # Not agreed to yet, interrupted in an update, or edited.
        if state.agreed(name) is None or (name not in left and _edited(name, state, ports))
    ]
    candidates |= _restored(restored, state, ports)
    found, notes = with_dependencies(candidates, state, ports)
    newer.warnings.extend(notes)
    if options.frozen:
        _refuse_changes(found, state, ports)
    if not names:
        found, notes = without_other_signers(found, state, ports)
        newer.warnings.extend(notes)
    outcome = apply(found, options, state, ports, (*failed.values(), *newer.left_out))
    ports.sources.keep()
    outcome = outcome.preceded(asked, newer.warnings)
    # A restored skill gets an entry, too, though nothing differs from the version before.
    changes = {name: _changes(found[name], state, ports) for name in restored if name in found}
    bad = _known_bad(names or state.lock.skills, found, state, ports)
    stays = newer.withdrawn - found.keys() or bad
    outcome = replace(outcome, warnings=(*outcome.warnings, *bad), pending=outcome.pending or bool(stays))
    return replace(outcome, changes={**changes, **outcome.changes})


def _known_bad(names: Iterable[str], found: Mapping[str, Candidate], state: State, ports: Ports) -> list[str]:
    """Return a line for each locked skill that is known to be bad and has no other version in ``found``."""
    lines = []
    for name in names:
        entry = state.lock.skills[name]
        try:
            if name not in found or found[name].entry == entry:
                admission.refuse_known_bad(name, entry, None, ports)
        except KnownBad as error:
            lines.append(f"{error.message}; {error.hint}")
    return lines


def _refuse_changes(found: Mapping[str, Candidate], state: State, ports: Ports) -> None:
    """Refuse an update that would change the lock.

    Raises:
        FormatError: the update would change it.
    """
    locked = state.lock.skills
    changed = (each for name, each in found.items() if each.entry != locked.get(name))
    available_updates = [f"{each.name} {each.entry.version or each.entry.short}" for each in changed]
    if available_updates:
        older = ", ".join(available_updates)
        raise stale_lock(f"--frozen does not change the lock, which is older than: {older}", ports.project, "update")


def _edited(name: str, state: State, ports: Ports) -> Sequence[str]:
    """Return the places of a skill where the copy was edited."""
    record = state.records.skills.get(name)
    return Linker(ports.project, ports.store).plan_removal(name, record).edited if record else ()


def available_updates(names: Sequence[str], ports: Ports) -> Outcome:
    """Return the updates that ``update`` would make, verified in memory; ask nothing and write nothing.

    Raises:
        NotFound, SourceError, SecurityError: as for ``update``.
    """
    state, names = read_state(ports.project, ports.sources), tuple(dict.fromkeys(names))
    records = state.records.skills
    newer, failed = _newest(names, state, ports, lambda each: described(each, records.get(each.name), ports))
    is_satisfied = need_check(ports.environ, state.records.enabled(state.lock.skills))
    skills = tuple(
        replace(
            view(each.name, each.entry, None, is_satisfied, ports.project, ports.store).verified(),
            description=each.manifest.description,
            vouched_by=each.voucher,
            state="enabled" if each.name in records and records[each.name].enabled else "disabled",
        )
        for each in newer.found.values()
    )
    found = newer.found.values()
    changes = {each.name: replace(_changes(each, state, ports), findings=each.findings) for each in found}
    every = names or state.lock.skills
    edited = [f"{name} was edited by hand: {place}" for name in every for place in _edited(name, state, ports)]
    sources = source_changes(state.lock.sources, admission.sources_with(newer.found.values(), state.lock, ports))
    bad = _known_bad(every, {}, state, ports)
    if newer.withdrawn:
        audits = command(ports.project.scope, "audit")
        newer.warnings.append(f"a check remembers nothing; to let other commands refuse it: {audits}")
    warnings, left = (*newer.warnings, *edited, *bad), (*failed.values(), *newer.left_out)
    pending = bool(newer.withdrawn or bad)
    return Outcome(skills, False, warnings=warnings, left_out=left, changes=changes, pending=pending, sources=sources)


def _newest(
    names: Sequence[str], state: State, ports: Ports, describe: Describe | None = None
) -> tuple[Gathered, dict[str, LeftOut]]:
    """Return the newer candidates, and by name those of all skills that have none for an error of their own.

    Raises:
        NotFound: a name is not locked, or the source of a named skill no longer has it.
        SourceError, SecurityError, FormatError: as for ``update``.
    """
    failed: dict[str, LeftOut] = {}
    unreached: list[SkillhubError] = []

    def on_error(name: str, error: SkillhubError) -> None:
        found = unavailable(name, error, state, ports)
        if names:
            raise found
        if found is error:
            unreached.append(error)
        failed[name] = LeftOut.of(name, found)

    refuse_unknown(names, state.lock.skills, ports.project, state.unlocked)
    newer = newest_of(names or state.lock.skills, state, ports, describe=describe, on_error=on_error)
    if unreached and len(unreached) == len(state.lock.skills):
        raise unreached[0]
    return newer, failed


# Skills that their source no longer has, or whose source is unreachable: an update of all continues without them.


def unavailable(name: str, error: SkillhubError, state: State, ports: Ports) -> SkillhubError:
    """Return the error of this one skill, with a hint that resolves it; ``error`` if its source is unreachable.

    Raises:
        SkillhubError: the error itself, if it is not about one skill or its source.
    """
    if not isinstance(error, NotFound | FormatError):
        if isinstance(error, SourceError):
            return error
        raise error
    entry = state.lock.skills[name]
    wanted = state.wanted(name)
    try:
        now_at = _where_now(name, entry, wanted, state, ports)
    except SkillhubError:
        return error
    scope = ports.project.scope
    remove = command(scope, "remove", name)
    if isinstance(error, FormatError):
        message = f"{name} cannot be updated: {error.message}"
        return FormatError(message, where=error.where, hint=f"the installed version stays; {remove} removes it")
    message = f"no newer version of {name} is available: {error.message}"
    hint = f"{remove} removes it; the installed version stays until then"
    if now_at is not None:
        hint = f"it has moved:  {reinstall(scope, name, now_at)}"
    elif error.hint and not wanted.remote():
        hint = f"{error.hint} (or {hint})"
    return NotFound(message, where=error.where, hint=hint)


def _where_now(name: str, entry: Locked, wanted: Wanted, state: State, ports: Ports) -> list[str] | None:
    """Ask a skill's source for its index; return the words that name the skill there now, or None if unknown.

    Raises:
        SourceError, FormatError, SecurityError, Refused: the source cannot be asked.
    """
    ref, own = wanted.remote(), entry.own_name(name)
    if ref is None:
        source = ports.sources.all().get(wanted.source or entry.source)
        if wanted.path is None and source is not None and source.root is None:
            # Raises if the whole site is gone: then its other skills cannot be updated either.
            ports.open_place(source.ref, named_by=source.named_by).index((own,))
        elif wanted.path is None and source is not None:
            with suppress(NotFound):
                ports.releases(source, own)
        return None
    place_ref = replace(ref, path=None) if isinstance(ref, Git | GitHub | Mcp) else ref
    index = ports.open_place(place_ref, named_by=by_agreement(state.is_known(name, ref.source))).index((own,))
    matches = [each for each in offered_by(index) if each.name == own]
    if len(matches) != 1 or matches[0].path == entry.path or not isinstance(place_ref, Git | GitHub | Mcp):
        return None
    (found,) = matches
    alias = ["--as", name] if entry.name else []
    if found.plugin:
        return [str(place_ref), "--skill", f"{found.plugin}:{own}", *alias]
    return [str(replace(place_ref, path=found.path) if found.path else place_ref), *alias]


def _changes(candidate: Candidate, state: State, ports: Ports) -> Changes:
    before = state.lock.skills[candidate.name]
    found = changes_of(candidate, state, ports)
    return found or Changes.between(before, candidate.entry, candidate.tree.listing, candidate.tree.listing)


def _restored(names: Iterable[str], state: State, ports: Ports) -> dict[str, Candidate]:
    """Return the locked versions of those of these skills that have a record on this machine."""
    budget, found = TreeBudget(ports.store), {}
    for name in names:
        if name in state.records.skills:
            with about_skill(name):
                acquisition = resolve_locked(name, state.lock.skills[name], state, ports).acquisition
                found[name] = budget.keep(acquisition.run())
    return found
