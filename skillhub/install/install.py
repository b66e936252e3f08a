"""Install and enable: resolve, obtain, ask once, then store, lock and link; all skills or none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from skillhub.errors import Refused, UsageError
from skillhub.install.admission import sources_with, without_other_signers
from skillhub.install.candidates import Candidate
from skillhub.install.commit import Change, commit
from skillhub.install.context import LeftOut, Options, Outcome, Ports, State, ask, command, read_state, read_unchecked
from skillhub.install.gather import gather, with_dependencies
from skillhub.install.links import left_alone, refuse_unknown
from skillhub.install.locked import about_skill, by_lock
from skillhub.install.remove import remove
from skillhub.install.review import Plan, Planner, decide
from skillhub.install.sources import needed_by, settle_sources
from skillhub.model.changes import source_changes
from skillhub.model.question import Asked
from skillhub.model.record import Scope, Skill
from skillhub.model.reference import Ref
from skillhub.project.installed import Given, given, or_stored, view

# Install: resolve, obtain, ask every question at once, then store, lock and enable; all skills or none.


def install(refs: Sequence[Ref], options: Options, ports: Ports) -> Outcome:
    """Install what ``refs`` name; without any, what lock and intent say.

    Raises:
        UsageError: the references make no sense, or there are none and neither lock nor intent.
        SourceError: something cannot be had.
        FormatError: something is malformed.
        SecurityError: something was tampered with; nothing was changed.
        Refused: a question was answered no or by nobody; nothing was changed.
        StateError: the disk is in the way.
    """
    if not refs and not ports.project.has_lock_or_intent():
        hint = f"name a skill, for example: {command(ports.project.scope, 'install', 'github:gh-fix-ci')}"
        raise UsageError("there is neither skillhub.toml nor skillhub.lock here", where=ports.project.root, hint=hint)
    state = read_state(ports)
    asked, missing = settle_sources(state, needed_by(refs, state), options, ports)
    if missing:
        note = f"you do not have the source {', '.join(missing)}; what it has is not known yet"
        return Outcome((), False, tuple(asked), (note,))
    gathered = gather(refs, options, state, ports)
    found, notes = gathered.found, gathered.warnings
    if not options.frozen:
        found, missing = with_dependencies(found, state, ports, gathered.excepted)
        notes += missing
    if not (refs or options.frozen):
        found, apart = without_other_signers(found, state, ports)
        notes += apart
    outcome = take(found, options, state, ports)
    ports.sources.keep()
    return replace(
        outcome,
        asked=(*asked, *outcome.asked),
        left=(*gathered.left, *outcome.left),
        warnings=(*notes, *outcome.warnings),
    )


def take(candidates: Mapping[str, Candidate], options: Options, state: State, ports: Ports) -> Outcome:
    """Plan what taking the candidates means, ask all questions at once, and carry out what was agreed to.

    Raises:
        Forbidden: a policy forbids one.
        SignerChanged: one is not signed by the publisher whose signature the person agreed to.
        Refused: a question was answered no or by nobody; nothing was changed.
        StateError: the disk is in the way.
    """
    planner = Planner.of(options, state, ports)
    plans = [planner.plan(each) for each in candidates.values()]
    sources = sources_with(candidates.values(), state.lock, ports)
    changed = source_changes(state.lock.sources, state.lock.sources if options.frozen else sources)
    ports.plan({each.name: each.changes for each in plans if each.changes}, changed)
    asked = ask([question for each in plans for question in each.questions()], ports, options.dry_run)
    outcome = replace(carry_out(plans, options, asked, state, ports), sources=changed)
    wanted = {each.name: each.wanted for each in candidates.values() if each.wanted}
    entries = {each.name: each.entry for each in candidates.values()}
    after = replace(
        state,
        lock=replace(state.lock, skills={**state.lock.skills, **entries}),
        intent=replace(state.intent, skills={**state.intent.skills, **wanted}),
    )
    return _without_unwanted(outcome, after, options, ports)


def _without_unwanted(outcome: Outcome, after: State, options: Options, ports: Ports) -> Outcome:
    """Remove what the intent has no need of any more: a line of it is gone, or what needed it is."""
    names = () if options.frozen else after.unwanted
    if (names or outcome.left) and not (options.dry_run or options.frozen):
        # What a person kept as it was needs what it needed, and no more.
        names = read_unchecked(ports).unwanted
    if not names:
        return outcome
    why = "skillhub.toml has no need of it"
    try:
        gone = remove(names, ports, dry_run=options.dry_run, unwanted=True)
    except Refused as error:  # what was edited by hand stays until somebody says what becomes of it
        left = [LeftOut(name, error.code, f"{why}, and it stays: {error.message}") for name in names]
        return replace(outcome, left=(*outcome.left, *left))
    was = "would be" if options.dry_run else "was"
    return replace(
        outcome,
        changed=outcome.changed or gone.changed,
        due=options.dry_run,
        asked=(*outcome.asked, *gone.asked),
        warnings=(*outcome.warnings, *(f"{name} {was} removed: {why}" for name in names)),
    )


def carry_out(plans: Sequence[Plan], options: Options, asked: Sequence[Asked], state: State, ports: Ports) -> Outcome:
    """Turn the agreed plans into changes, commit them, and show what came of it."""
    answers: defaultdict[str, list[Asked]] = defaultdict(list)
    for question, answer in asked:
        answers[question.skill].append((question, answer))
    plans, kept = _settled(plans, answers, state)
    changes, is_met = _decided(plans, answers, state, ports)
    changed = not options.dry_run and commit(changes, options, state, ports)
    shown = (
        (each, view(each.name, each.candidate.entry, each.record, is_met, ports.project, ports.store))
        for each in changes
    )
    return Outcome(
        tuple(_with_given(skill, each.given) for each, skill in shown),
        changed,
        tuple(asked),
        tuple(_warnings(plans, ports)),
        given=frozenset(
            (each.name, need) for each in changes for need in (each.needs.met if each.needs else each.given)
        ),
        left=tuple(map(left_alone, kept)),
        changes={each.name: each.changes for each in plans if each.changes},
        as_before=frozenset(each.name for each in changes if _is_as_before(each, state)),
        disabled=frozenset(each.name for each in changes if each.record.held == "user"),
        written={each.name: each.needs.told() for each in changes if each.needs},
        ways=dict(_ways(plans, state, ports.project.scope)),
    )


def _decided(
    plans: Sequence[Plan], answers: Mapping[str, Sequence[Asked]], state: State, ports: Ports
) -> tuple[list[Change], Given]:
    """Return what becomes of each, what needs one that waits waiting too; and the test of needs once it is so."""
    there = state.records.enabled(state.lock.skills) | {each.name for each in plans}
    is_met = given(ports.environ, there)
    needing: defaultdict[str, list[Plan]] = defaultdict(list)
    for each in plans:
        for name in each.candidate.entry.dependencies:
            needing[name].append(each)
    changes: dict[str, Change] = {}
    due = plans
    while due:
        for each in due:
            is_met_for_it = or_stored(is_met, each.name, ports.project)
            changes[each.name] = decide(each, answers[each.name], is_met_for_it)
        waiting = there & {each.name for each in due if not changes[each.name].record.enabled}
        there -= waiting
        due = [*{each.name: each for name in waiting for each in needing[name]}.values()]
    return [*changes.values()], is_met


def _ways(plans: Sequence[Plan], state: State, scope: Scope) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
    """Yield by skill and need what to type, where the need alone does not say."""
    locked = {*state.lock.skills, *(each.name for each in plans)}
    for each in plans:
        yield from each.needs.ways(scope).items() if each.needs else ()
        for name in locked.intersection(each.candidate.entry.dependencies):
            yield (each.name, f"skill:{name}"), (command(scope, "enable", name, each.name),)


def _is_as_before(change: Change, state: State) -> bool:
    """Say whether nothing of a skill had to be done: intent, lock, record, places and configurations."""
    candidate, linking, needs = change.candidate, change.linking, change.needs
    return (
        candidate.wanted in (None, state.intent.skills.get(change.name))
        and candidate.entry == state.lock.skills.get(change.name)
        and change.record == state.records.skills.get(change.name)
        and (linking is None or linking.done)
        and not (needs and needs.writes)
    )


def _settled(
    plans: Sequence[Plan], answers: Mapping[str, Sequence[Asked]], state: State
) -> tuple[list[Plan], list[str]]:
    """Return the plans with what a person chose for edits of theirs, and the skills that are to stay as they are.

    Raises:
        Refused: one that stays is needed, in another version than it has, by one that does not.
    """
    settled: list[Plan] = []
    kept, left = [], []
    for each in plans:
        name = each.name
        linking = each.linking.answered(answers[name]) if each.linking else None
        if linking is None and each.linking is not None:
            kept += [] if state.lock.skills.get(name) == each.candidate.entry else [name]
            left.append(name)
        else:
            settled.append(replace(each, linking=linking))
    for each in settled:
        if torn := sorted({*kept} & {*each.candidate.entry.dependencies}):
            raise Refused(f"{each.name} needs {torn[0]}, which is to stay as it is", where=torn[0])
    return settled, left


def _warnings(plans: Sequence[Plan], ports: Ports) -> Iterator[str]:
    """Yield what a person should know of these skills and nothing refuses."""
    yield from (f"{each.name}: {note}" for each in plans for note in each.candidate.warnings)
    yield from (note for each in plans if each.needs for note in each.needs.warnings(ports.environ))


def _with_given(skill: Skill, given: Collection[str]) -> Skill:
    """Return the skill, which waits for something else, with the variables that this very command gave it as met."""
    requires = tuple(
        replace(need, satisfied=True) if need.kind == "env" and need.spell() in given else need
        for need in skill.requires
    )
    return replace(skill, requires=requires)


# Enable: the needs of what is locked are checked again, and what nothing holds back is linked.


def enable(names: Sequence[str], options: Options, ports: Ports) -> Outcome:
    """Check the needs of locked skills again, ask about what is open, and link those that nothing holds back.

    Raises:
        NotFound: a name that is not locked.
        SecurityError: what is stored or fetched is not what was locked.
        Refused: nobody agreed to the skill, or a policy forbids it.
        StateError: the disk is in the way.
    """
    state, names = read_state(ports), tuple(dict.fromkeys(names))
    refuse_unknown(names, state.lock.skills, ports.project.scope)
    willing = _willing(state, names)
    candidates = [_read(name, state, ports) for name in names]
    planner = Planner.of(options, willing, ports)
    plans = [planner.plan(each) for each in candidates]
    asked = ask([question for each in plans for question in each.questions()], ports, options.dry_run)
    return carry_out(plans, options, asked, state, ports)


def _read(name: str, state: State, ports: Ports) -> Candidate:
    """Return what is locked, read whole though it may be agreed to: what the lock claims of it is checked again."""
    with about_skill(name):
        is_agreed = state.agreed(name) is not None
        return by_lock(name, state.lock.skills[name], ports, agreed=is_agreed).go()


def _willing(state: State, names: Sequence[str]) -> State:
    """Return the state as if the person had never said ``disable`` to these."""
    skills = {
        name: replace(record, held="") if name in names else record for name, record in state.records.skills.items()
    }
    return replace(state, records=replace(state.records, skills=skills))
