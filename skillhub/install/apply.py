"""Plan candidates, ask once, then store, lock and link; enable, disable, remove skills; all of them or none."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from skillhub.command.ports import LeftOut, Options, Outcome, Ports, ask
from skillhub.command.state import State, read_state, read_unchecked, refuse_unknown
from skillhub.disk.home import INTENT, LOCK
from skillhub.errors import Refused, StateError
from skillhub.formats.text import as_command, command, from_here, grouped
from skillhub.install.admission import sources_with
from skillhub.install.candidates import Candidate, about_skill
from skillhub.install.commit import Change, Plan, Planner, commit, decide
from skillhub.install.links import (
    Linker,
    Linking,
    copies_to_remove,
    kept_edited,
    removal_questions,
    unmanaged_copies,
    write_records,
)
from skillhub.install.need_questions import config_files, remove_servers
from skillhub.install.obtain import by_lock
from skillhub.model.hosts import Scope
from skillhub.model.lock import Lock
from skillhub.model.provenance import NO_CONSENT, Record, source_changes
from skillhub.model.question import Answers, Asked
from skillhub.model.skill import Skill
from skillhub.project import copies, mcp_config
from skillhub.project.copies import NeedCheck, need_check, view, with_stored_values
from skillhub.project.intent import Intent
from skillhub.project.project import Project

if TYPE_CHECKING:
    from skillhub.model.needs import McpServer


def apply(
    candidates: Mapping[str, Candidate],
    options: Options,
    state: State,
    ports: Ports,
    left_out: Sequence[LeftOut] = (),
) -> Outcome:
    """Plan each candidate, ask all questions at once, and carry out what the user agreed to.

    ``left_out`` has the skills that the command left out before; a user who is asked sees them first.

    Raises:
        Forbidden: a policy forbids one.
        SignerChanged: one is not signed by the publisher whose signature the user agreed to.
        Refused: a question was not answered, or with no; nothing was changed.
        StateError: the disk is in the way.
    """
    planner = Planner(options, state, ports, candidates.values())
    plans = [planner.plan(each) for each in candidates.values()]
    sources = sources_with(candidates.values(), state.lock, ports)
    changed = source_changes(state.lock.sources, state.lock.sources if options.frozen else sources)
    state = replace(state, lock=replace(state.lock, sources=sources))  # as the user is asked about them
    ports.show_plan({each.name: each.changes for each in plans if each.changes}, changed, left_out)
    try:
        asked = ask([question for each in plans for question in each.questions()], ports, options.dry_run)
    except Refused as error:
        error.left_out = left_out
        raise
    wanted = {each.name: each.wanted for each in candidates.values() if each.wanted}
    would_edit_intent = options.dry_run and not wanted.items() <= state.intent.skills.items()
    outcome = carry_out(plans, options, asked, state, ports)
    outcome = replace(outcome, left_out=(*left_out, *outcome.left_out), sources=changed, pending=would_edit_intent)
    entries = {name: each.entry for name, each in candidates.items()}
    lock = replace(state.lock, skills={**state.lock.skills, **entries})
    intent = replace(state.intent, skills={**state.intent.skills, **wanted})
    return _without_unwanted(outcome, replace(state, lock=lock, intent=intent), options, ports)


def _without_unwanted(outcome: Outcome, after: State, options: Options, ports: Ports) -> Outcome:
    """Remove the skills that the intent no longer requires, neither by a line nor as a dependency."""
    names = () if options.frozen else after.unwanted
    if (names or outcome.left_out) and not (options.dry_run or options.frozen):
        # A skill that the user kept unchanged has its former dependencies, not those of the new version.
        names = read_unchecked(ports.project).unwanted
    if not names:
        return outcome
    why = "skillhub.toml does not require it"
    try:
        removal = _remove_unwanted(names, ports, dry_run=options.dry_run)
    except Refused as error:  # an edited skill stays until the user decides about the edits
        left = [LeftOut(name, error.code, f"{why}, and it stays: {error.message}") for name in names]
        return replace(outcome, left_out=(*outcome.left_out, *left))
    verb = "would be" if options.dry_run else "was"
    warnings = (*outcome.warnings, *(f"{name} {verb} removed: {why}" for name in names))
    asked, saved = (*outcome.asked, *removal.asked), {**outcome.saved, **removal.saved}
    changed = outcome.changed or removal.changed
    return replace(outcome, changed=changed, pending=options.dry_run, asked=asked, saved=saved, warnings=warnings)


def carry_out(
    plans: Sequence[Plan],
    options: Options,
    asked: Sequence[Asked],
    state: State,
    ports: Ports,
    cleared: Sequence[Linking] = (),
) -> Outcome:
    """Turn the plans into changes by the answers, commit them, disable ``cleared``, and return the outcome."""
    answers = grouped((question.skill, (question, answer)) for question, answer in asked)
    plans, kept = _with_edit_choices(plans, answers, state)
    changes, is_satisfied = _changes_by_answers(plans, answers, state, ports)
    _refuse_two_servers(changes)
    is_restored = {each.name: not each.is_in_order(ports.store) for each in changes if _is_recorded(each, state)}
    linker = Linker(ports.project, ports.store)
    changed = not options.dry_run and commit(changes, options, state, linker, ports, cleared)
    enabled = {each.name for each in changes if each.record.enabled}
    scope = ports.project.scope
    open_needs = [each.needs for each in plans if each.needs and each.name in enabled]
    stays = (line for each in open_needs for line in each.unchanged(answers.get(each.skill, ()), scope))
    notes = [f"{each.name}: {note}" for each in plans for note in each.candidate.warnings]
    notes += (note for each in plans if each.needs for note in each.needs.warnings(ports.environ))
    supplied = {each.name: each.needs.satisfied if each.needs else each.supplied for each in changes}
    skills = [
        view(each.name, each.candidate.entry, each.record, is_satisfied, ports.project, ports.store)
        for each in changes
    ]
    return Outcome(
        tuple(_with_supplied(skill, supplied[skill.name]) for skill in skills),
        changed or (any(is_restored.values()) and not options.dry_run),
        tuple(asked),
        (*notes, *stays, *_lost_copies(plans, changes)),
        supplied=frozenset((name, need) for name, needs in supplied.items() for need in needs),
        left_out=tuple(map(kept_edited, kept)),
        changes={each.name: each.changes for each in plans if each.changes},
        unchanged=frozenset(name for name in is_restored if not is_restored[name]),
        restored=frozenset(name for name in is_restored if is_restored[name]),
        disabled=frozenset(each.name for each in changes if each.record.disabled_by == "user"),
        written={each.name: each.needs.lines() for each in changes if each.needs},
        remedies=dict(_remedies(plans, state, scope)),
        saved=linker.saved,
    )


def _changes_by_answers(
    plans: Sequence[Plan], answers: Answers, state: State, ports: Ports
) -> tuple[list[Change], NeedCheck]:
    """Return the change of each plan (a skill that needs a waiting one waits) and the check of needs afterwards."""
    enabled = state.records.enabled(state.lock.skills) | {each.name for each in plans} if plans else set[str]()
    is_satisfied = need_check(ports.environ, enabled)
    needing = grouped((name, each) for each in plans for name in each.candidate.entry.dependencies)
    changes: dict[str, Change] = {}
    pending = plans
    while pending:
        for each in pending:
            is_satisfied_for_it = with_stored_values(is_satisfied, each.name, ports.project)
            changes[each.name] = decide(each, answers.get(each.name, ()), is_satisfied_for_it)
        waiting = enabled & {each.name for each in pending if not changes[each.name].record.enabled}
        enabled -= waiting
        pending = [*{each.name: each for name in waiting for each in needing.get(name, ())}.values()]
    return [*changes.values()], is_satisfied


def _refuse_two_servers(changes: Iterable[Change]) -> None:
    """Refuse changes that would write two different MCP servers of one name into one file.

    Raises:
        Refused: two skills need such servers.
    """
    first: dict[tuple[str, str], tuple[str, McpServer]] = {}
    for change in changes:
        for each, agent in change.needs.writes if change.needs else ():
            server, described = each.need.name, each.described()
            other, first_described = first.setdefault((agent.file.path, server), (change.name, described))
            if first_described != described:
                hint = f"one command for each: the second one asks whether to use the server {server} that is there"
                message = f"{other} and {change.name} need different MCP servers called {server}"
                raise Refused(message, where=agent.file.path, hint=hint)


def _remedies(plans: Sequence[Plan], state: State, scope: Scope) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
    """Yield skill, need and the commands that satisfy it, for needs that do not imply their command."""
    locked = {*state.lock.skills, *(each.name for each in plans)}
    for each in plans:
        if each.needs:
            yield from each.needs.remedies(scope).items()
        for name in locked.intersection(each.candidate.entry.dependencies):
            yield (each.name, f"skill:{name}"), (command(scope, "enable", name, each.name),)


def _is_recorded(change: Change, state: State) -> bool:
    """Return whether lock, record and agents' configurations agree with the change; places and its line may not."""
    candidate, needs = change.candidate, change.needs
    return (
        (candidate.wanted is None or change.name in state.intent.skills)
        and candidate.entry == state.lock.skills.get(change.name)
        and change.record == state.records.skills.get(change.name)
        and not (needs and needs.writes)
    )


def _with_edit_choices(plans: Sequence[Plan], answers: Answers, state: State) -> tuple[list[Plan], list[str]]:
    """Return the plans with the user's choices for edited copies, and the names of the skills that stay unchanged.

    Raises:
        Refused: a changed skill needs another version of a skill that stays unchanged.
    """
    chosen: list[Plan] = []
    kept: list[str] = []
    stale: set[str] = set()  # those of which the user keeps another version than the candidate
    for each in plans:
        name = each.name
        linking = each.linking.answered(answers.get(name, ())) if each.linking else None
        if linking is not None or each.linking is None:
            chosen.append(replace(each, linking=linking))
            continue
        kept.append(name)
        if state.lock.skills.get(name) != each.candidate.entry:
            stale.add(name)
    for each in chosen:
        if needed := sorted(stale.intersection(each.candidate.entry.dependencies)):
            raise Refused(f"{each.name} needs {needed[0]}, which stays unchanged", where=needed[0])
    return chosen, kept


def _lost_copies(plans: Sequence[Plan], changes: Iterable[Change]) -> Iterator[str]:
    """Yield a line for each enabled skill about its copies in packages that no longer have a line for it."""
    records = {each.candidate.name: each.record for each in plans}
    for each in changes:
        before = records[each.name]
        if before is not None and before.enabled and each.record.enabled:
            gone = [link for link in before.links if link not in each.record.links]
            if gone:
                yield f"{each.name} loses the copies that no line asks for any more: {', '.join(gone)}"


def _with_supplied(skill: Skill, supplied: Collection[str]) -> Skill:
    """Return the skill with the variables that this command supplied as satisfied."""
    requires = tuple(
        replace(need, satisfied=True) if need.kind == "env" and need.spell() in supplied else need
        for need in skill.requires
    )
    return replace(skill, requires=requires)


# Enable: the needs of locked skills are checked again, and skills without open needs are linked.


def enable(names: Sequence[str], options: Options, ports: Ports, disabling: Sequence[str] = ()) -> Outcome:
    """Check the needs of locked skills again, ask about the open ones, and link the skills without open needs.

    The skills of ``disabling`` are disabled in the same step: both are done, or neither.

    Raises:
        NotFound: a name is not locked.
        SecurityError: stored or fetched bytes differ from the lock.
        Refused: a question was not answered, or with no, or a policy forbids a skill.
        StateError: the disk is in the way.
    """
    state, names = read_state(ports.project, ports.sources), tuple(dict.fromkeys(names))
    refuse_unknown(names, state.lock.skills, ports.project, state.unlocked)
    candidates, records = [], dict(state.records.skills)
    for name in names:
        with about_skill(name):  # scanned even if agreed to: the claims of the lock are checked again
            is_agreed = state.agreed(name) is not None
            candidates.append(by_lock(name, state.lock.skills[name], ports, is_agreed=is_agreed).run())
        if name in records:
            records[name] = replace(records[name], disabled_by="")
    planner = Planner(options, replace(state, records=replace(state.records, skills=records)), ports)
    plans = [planner.plan(each) for each in candidates]
    clearing = _clearing(disabling, state, ports)
    questions = [question for each in plans for question in each.questions()]
    asked = ask([*questions, *removal_questions(clearing)], ports, options.dry_run)
    cleared = _answered(clearing, asked)
    known = state.records.skills
    disabled_records = {each.name: replace(known[each.name], enabled=False, links=()) for each in cleared}
    without = replace(state, records=replace(state.records, skills={**known, **disabled_records}))
    outcome = carry_out(plans, options, asked, without, ports, cleared)
    views = views_of([*disabled_records], disabled_records, state, ports)
    return replace(outcome, skills=(*outcome.skills, *views), disabled=outcome.disabled | disabled_records.keys())


def disable(names: Sequence[str], ports: Ports, *, dry_run: bool = False) -> Outcome:
    """Remove the links of these skills, and nothing else; the skills stay disabled until ``enable``.

    A dry run asks nothing and changes nothing.

    Raises:
        NotFound: a name is not locked.
        Refused: the question about edited copies was not answered, or with no.
        StateError: the disk is in the way, or another process changed a skill meanwhile.
    """
    state, names = read_unchecked(ports.project), tuple(dict.fromkeys(names))
    refuse_unknown(names, state.lock.skills, ports.project, state.unlocked)
    cleared, asked = _ask_about_edits(names, state, ports, dry_run)
    if dry_run:
        return Outcome(views_of(names, state.records.skills, state, ports), False, asked)
    with ports.project.exclusively():
        now = read_unchecked(ports.project)
        refuse_unknown(names, now.lock.skills, ports.project, now.unlocked)
        _refuse_changed(names, state, now)
        linker, records = _saving(cleared, state, ports), now.records
        # Disabling a skill is no consent to its tree.
        known = {name: records.skills.get(name, NO_CONSENT) for name in names}
        changed = {name: replace(record, enabled=False, disabled_by="user") for name, record in known.items()}
        # The records keep the links until they are removed: after a crash, `sync` removes them.
        write_records(replace(records, skills={**records.skills, **changed}), ports)
        for linking in cleared:
            linker.take_away(linking)
        changed = {name: replace(record, links=()) for name, record in changed.items()}
        write_records(replace(records, skills={**records.skills, **changed}), ports)
    skills = views_of(names, changed, state, ports)
    before = map(state.records.skills.get, names)
    is_new = any(not each or each.disabled_by != "user" for each in before) or any(each.steps for each in cleared)
    return Outcome(skills, is_new, asked, _still_read(names, state, ports), saved=linker.saved)


def remove(names: Sequence[str], ports: Ports, *, dry_run: bool = False) -> Outcome:
    """Remove these skills from agents' folders, lock and intent, with their MCP entries that no one changed.

    Dependencies of these skills alone are removed, too, and agents' folders and files that skillhub made and that are
    empty now. A dry run asks nothing and changes nothing.

    Raises:
        NotFound: a name is not locked.
        Refused: a skill that stays or another package needs one, or the question about edited copies was refused.
        StateError: the disk is in the way, or another process changed a skill meanwhile.
    """
    state = read_unchecked(ports.project)
    _refuse_needed(names, state.lock, ports)
    _refuse_wanted_elsewhere(names, state.intent, ports.project)
    names = tuple(dict.fromkeys((*names, *orphans(names, state))))
    # A skill that `sync` found gone from the lock has a record, and may have left MCP entries; or it is remembered.
    known = {*state.lock.skills, *state.records.skills, *state.records.left, *state.intent.skills}
    refuse_unknown(names, known, ports.project)
    unlocked = [name for name in names if name not in state.lock.skills]
    forgotten = {*state.records.left}.difference(state.records.skills, state.intent.skills)
    tense = "would be" if dry_run else "was"
    ended = {name: f"{tense} {'forgotten' if name in forgotten else 'removed'}" for name in unlocked}
    notes = tuple(f"{name}, which {LOCK} does not name, {how}" for name, how in ended.items())
    outcome = _remove(names, state, ports, dry_run=dry_run)
    return replace(outcome, warnings=(*notes, *outcome.warnings), pending=dry_run and bool(unlocked))


def _remove_unwanted(names: Sequence[str], ports: Ports, *, dry_run: bool) -> Outcome:
    """Remove skills of ``State.unwanted`` as ``remove`` does; each may come back with another branch.

    Raises:
        Refused: as in ``remove``.
        StateError: as in ``remove``, or another process made one wanted again.
    """
    state = read_unchecked(ports.project)
    _refuse_needed(names, state.lock, ports)
    # Their dependencies are among them; another process may have removed some.
    locked = tuple(name for name in names if name in state.lock.skills)
    return _remove(locked, state, ports, dry_run=dry_run, may_return=True)


def _remove(names: Sequence[str], state: State, ports: Ports, *, dry_run: bool, may_return: bool = False) -> Outcome:
    """Ask about edited copies, and remove the skills; of those that ``may_return`` the answers stay."""
    configured = config_files(names, state, ports)
    cleared, asked = _ask_about_edits(names, state, ports, dry_run)
    if dry_run:
        return Outcome(views_of(names, state.records.skills, state, ports), False, asked)
    disabled_records = {name: replace(r, enabled=False, links=()) for name, r in state.records.skills.items()}
    skills = views_of(names, disabled_records, state, ports)
    with ports.project.exclusively():
        now = read_unchecked(ports.project)
        if may_return:
            _refuse_wanted_again(names, now, ports.project)
        _refuse_needed(names, now.lock, ports)
        _refuse_changed(names, state, now)
        linker = _saving(cleared, state, ports)
        lock = _without(frozenset(names), now.lock)
        gone = {name: now.records.skills[name] for name in names if name in now.records.skills}
        records = now.records.leaving(names) if may_return else now.records.without(names)
        if not (records.skills or records.left):  # the next install chooses agents as the first one did
            records = replace(records, agents=())
        # A state that cannot be written is refused before the first change. If this command is killed, `sync` removes
        # the skills of the new lock, and remembers nothing of those that the user removes.
        blanks = {} if may_return else dict.fromkeys(gone, NO_CONSENT)
        ports.project.write_records(replace(now.records, left={**now.records.left, **blanks}))
        ports.project.edit_intent({}, names)
        if os.path.lexists(ports.project.lock_path):  # for `sync`, an empty lock in its place would remove all skills
            ports.project.write_lock(lock.dump())
        for linking in cleared:
            linker.take_away(linking)
        records = remove_servers([*gone.values()], records, configured, ports)
        created_paths = mcp_config.remove_created(ports.project, records.created_paths)
        write_records(replace(records, created_paths=created_paths), ports)
    return Outcome(skills, True, asked, _still_read(names, state, ports), saved=linker.saved)


def _refuse_wanted_again(names: Iterable[str], now: State, project: Project) -> None:
    wanted = sorted({*names} & now.lock.skills.keys() - {*now.unwanted})
    if wanted:
        message = f"{wanted[0]} is wanted again: lock or skillhub.toml changed meanwhile"
        raise StateError(message, where=project.intent_path, hint="run the command again")


def _refuse_needed(names: Collection[str], lock: Lock, ports: Ports) -> None:
    for other, entry in lock.skills.items():
        needed = sorted({*names}.intersection(entry.dependencies))
        if needed and other not in names:
            hint = f"remove both: {command(ports.project.scope, 'remove', other, *needed)}"
            raise Refused(f"{other} needs {', '.join(needed)}", where=other, hint=hint)


def _refuse_changed(names: Iterable[str], before: State, now: State) -> None:
    """Refuse to clear other places, and other MCP entries, than those that the command planned to clear."""
    known, records = before.records.skills, now.records.skills
    for name in names:
        if name in records and records[name] != known.get(name):
            raise StateError(f"another process changed {name} meanwhile", where=name, hint="run the command again")


def _refuse_wanted_elsewhere(names: Iterable[str], intent: Intent, project: Project) -> None:
    if not intent.package:
        return
    for name in names:
        wanting = intent.packages.get(name, ())
        if others := [each or "the root" for each in wanting if each != intent.package]:
            hint = f"from all packages: {as_command('skillhub', 'remove', name, '--project', project.base)}"
            if intent.package in wanting:
                own = f"take its line out of {intent.package}/{INTENT}, then: {command(project.scope, 'install')}"
                hint = f"from this package: {own}; {hint}"
            raise Refused(f"{name} is wanted by {', '.join(others)}", where=name, hint=hint)


def orphans(removed: Sequence[str], state: State) -> list[str]:
    """Return the locked skills that only the removed ones needed and that the intent does not list."""
    locked = state.lock.skills
    leaving = [name for name in dict.fromkeys(removed) if name in locked]
    named = len(leaving)
    needing = Counter(each for entry in locked.values() for each in {*entry.dependencies})
    kept = {*state.intent.skills, *removed}
    for name in leaving:  # the loop appends to the list
        for each in dict.fromkeys(locked[name].dependencies):
            needing[each] -= 1
            if each in locked and each not in kept and not needing[each]:
                leaving.append(each)
    return leaving[named:]


def _without(names: frozenset[str], lock: Lock) -> Lock:
    """Return the lock without these skills, and without the sources that no other skill uses."""
    skills = {name: entry for name, entry in lock.skills.items() if name not in names}
    used = {entry.source for entry in skills.values()}
    return Lock(skills, {alias: source for alias, source in lock.sources.items() if alias in used})


def _ask_about_edits(
    names: Sequence[str], state: State, ports: Ports, dry_run: bool
) -> tuple[list[Linking], tuple[Asked, ...]]:
    """Ask about edited copies in the places to clear; return the decided steps, and the questions with answers.

    Raises:
        Refused: a question was not answered, or with no.
    """
    found = _clearing(names, state, ports)
    asked = ask(removal_questions(found), ports, dry_run)
    return _answered(found, asked), tuple(asked)


def _answered(cleared: Iterable[Linking], asked: Sequence[Asked]) -> list[Linking]:
    answered = (each.answered(asked) for each in cleared)
    return [each for each in answered if each is not None]


def _clearing(names: Iterable[str], state: State, ports: Ports) -> list[Linking]:
    """Return the steps that clear the places of these skills, and that remove exact copies which no record has.

    The records of a project that was copied or moved are those of its former folder.
    """
    linker, records, names = Linker(ports.project, ports.store), state.records.skills, {*names}
    if not names:
        return []
    # Keeping a copy would keep the skill enabled, so it is no choice here.
    found = (linker.plan_removal(name, records[name]) for name in sorted(names & records.keys()))
    cleared = [replace(each, ways=("save", "take")) for each in found]
    without = replace(state, records=state.records.without(names))
    for name, paths in unmanaged_copies(state.lock, state.records, ports).items():
        if name in names and (steps := copies_to_remove(name, paths, without, ports)[0]):
            cleared.append(Linking(name, "copy", tuple(steps), previous_tree=state.lock.skills[name].tree))
    return cleared


def _still_read(names: Iterable[str], state: State, ports: Ports) -> tuple[str, ...]:
    """Return a warning for each copy of these skills in agents' folders that no record has and that stayed."""
    left = unmanaged_copies(state.lock, state.records, ports)
    paths = (path for name in names for path in left.get(name, ()))
    return tuple(f"agents still read {from_here(path)}, which differs from the lock: move it away" for path in paths)


def views_of(names: Iterable[str], records: Mapping[str, Record], state: State, ports: Ports) -> tuple[Skill, ...]:
    """Return those of these skills that are locked, as commands show them."""
    locked = state.lock.skills
    is_satisfied = need_check(ports.environ, state.records.enabled(locked))
    return tuple(
        view(name, locked[name], records.get(name), is_satisfied, ports.project, ports.store)
        for name in names
        if name in locked
    )


def _saving(cleared: Sequence[Linking], state: State, ports: Ports) -> Linker:
    """Save the edited copies in these places before any change, and return the ``Linker`` that clears them."""
    copies.sweep(ports.project, [link for each in cleared for link in each.links], ())  # later no record names them
    copies.refuse_read_only(ports.project, filter(os.path.lexists, (path for each in cleared for path in each.paths)))
    linker = Linker(ports.project, ports.store)
    for linking in cleared:
        linker.save(linking, state.records.skills.get(linking.name))
    return linker
