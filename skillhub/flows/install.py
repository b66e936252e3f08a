"""Install: resolve, obtain, ask every question at once, then store, lock and enable; all skills or none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from skillhub.errors import Refused, UsageError
from skillhub.flows import told
from skillhub.flows.admission import admit
from skillhub.flows.candidate import Candidate
from skillhub.flows.commit import Change, commit
from skillhub.flows.dependencies import dependencies_of, with_dependencies
from skillhub.flows.gate import Gate, approach, passage, widen
from skillhub.flows.gather import gather
from skillhub.flows.hints import command
from skillhub.flows.linking import Linker, Linking, left_alone
from skillhub.flows.listing import view
from skillhub.flows.needs import Given, facts_of, given, needs_of, or_stored
from skillhub.flows.options import Options, chosen_agents
from skillhub.flows.outcome import Outcome, ask
from skillhub.flows.policy import under
from skillhub.flows.ports import Ports
from skillhub.flows.proposed import about_sources, add_sources, proposed_sources
from skillhub.flows.provenance import as_agreed, but_other_signers, refuse_other
from skillhub.flows.questions import consent
from skillhub.flows.state import State, read_state
from skillhub.model.changes import Changes
from skillhub.model.dataclass import dataclass, replace
from skillhub.model.hosts import Host
from skillhub.model.provenance import Provenance
from skillhub.model.question import UNANSWERED, Asked, Question
from skillhub.model.record import Facts, Record
from skillhub.model.ref import Ref
from skillhub.world.links import link_folders


@dataclass(frozen=True, slots=True)
class Aim:
    """Where a command enables skills: for these agents, in these folders of theirs."""

    agents: tuple[Host, ...]
    folders: tuple[str, ...]
    linker: Linker

    @classmethod
    def of(cls, options: Options, state: State, ports: Ports) -> Aim:
        """Work it out, once for all skills.

        Raises:
            UsageError: an id that is no agent's.
            LinkLeavesProject: a folder of the project is a link to somewhere outside of it.
        """
        agents = chosen_agents(options, state.records, state.intent, ports)
        folders = link_folders(ports.project, agents, ports.user_home, ports.environ)
        return cls(agents, folders, Linker(ports.project, ports.store))


@dataclass(frozen=True, slots=True)
class Plan:
    """One candidate, and all that enabling it would mean.

    Attributes:
        gate: Its needs, or where it is enabled those that an added agent brings; None where it is to stay disabled.
        linking: The places to make, or to clear if it is ``held``.
        held: Why it is to stay disabled, as a ``Record`` has it; empty if it is to be enabled.
        changes: What differs from the version before, if there was one.
    """

    candidate: Candidate
    record: Record | None
    gate: Gate | None
    linking: Linking | None
    held: str
    changes: Changes | None = None


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
        raise UsageError(
            "there is neither skillhub.toml nor skillhub.lock here", where=ports.project.root, hint=hint
        )
    state = read_state(ports)
    ports = under(state.intent, ports)
    proposed = proposed_sources(state, ports)
    if proposed and options.dry_run:
        unanswered = tuple((each, UNANSWERED) for each in about_sources(proposed))
        note = f"you do not have the source {', '.join(proposed)}; what it has is not known yet"
        return Outcome((), False, unanswered, (note,))
    asked = ask(about_sources(proposed), ports)
    add_sources(proposed, asked, ports)
    gathered = gather(refs, options, state, ports)
    asked_for = {} if options.frozen else gathered.found
    found, notes = with_dependencies(asked_for, state, ports, gathered.excepted)
    found = {**gathered.found, **found}
    if not (refs or options.frozen):
        found, apart = but_other_signers(found, state, ports)
        notes = [*notes, *apart]
    outcome = take(found, options, state, ports)
    return replace(
        outcome,
        asked=(*asked, *outcome.asked),
        left=(*gathered.left, *outcome.left),
        warnings=(*gathered.warnings, *notes, *outcome.warnings),
    )


def take(candidates: Mapping[str, Candidate], options: Options, state: State, ports: Ports) -> Outcome:
    """Plan what taking the candidates means, ask all questions at once, and carry out what was agreed to.

    Raises:
        Forbidden: a policy forbids one.
        SignerChanged: one is not signed by the publisher whose signature the person agreed to.
        Refused: a question was answered no or by nobody; nothing was changed.
        StateError: the disk is in the way.
    """
    aim = Aim.of(options, state, ports)
    is_met = given(ports.environ, {*state.lock.skills, *candidates})
    plans = [plan(each, options, is_met, aim, state, ports) for each in candidates.values()]
    ports.plan({each.candidate.name: each.changes for each in plans if each.changes})
    raised = [question for each in plans for question in questions(each)]
    asked = [(each, UNANSWERED) for each in raised] if options.dry_run else ask(raised, ports)
    return carry_out(plans, options, asked, state, ports)


def plan(candidate: Candidate, options: Options, is_met: Given, aim: Aim, state: State, ports: Ports) -> Plan:
    """Work out what taking the candidate would mean: its needs, its places, and what differs from before.

    Raises:
        Forbidden: a policy forbids it.
        SignerChanged, BadSignature: it is not signed as what the person agreed to, or with an expired certificate.
    """
    refuse_other(candidate, state, ports)
    candidate = admit(candidate, state, ports)
    proposal = _enabling(candidate, options, is_met, aim, state, ports)
    return replace(proposal, changes=changes_of(candidate, state, ports))


def changes_of(candidate: Candidate, state: State, ports: Ports) -> Changes | None:
    """Return what differs from the version that this person has, else from the locked one; None without either."""
    before, record = state.lock.skills.get(candidate.name), state.records.skills.get(candidate.name)
    if before is None:
        return None
    if record is not None and record.facts == Facts():
        return None  # disabled here before anybody agreed to anything
    if record is not None:
        before = as_agreed(before, record, candidate.entry)
    if before.tree == candidate.tree.digest:
        return None
    return Changes.between(before, candidate.entry, ports.store.listing(before.tree), candidate.tree.listing)


def _enabling(
    candidate: Candidate,
    options: Options,
    is_met: Given,
    aim: Aim,
    state: State,
    ports: Ports,
) -> Plan:
    record = state.records.skills.get(candidate.name)
    is_enabled = record is not None and record.enabled and record.is_of(candidate.entry)
    held = "user" if record is not None and record.held == "user" else "asked"
    if held == "user" or not (options.enable or is_enabled):
        cleared = aim.linker.plan_removal(candidate.name, record) if record else None
        return Plan(candidate, record, None, cleared, held)
    if record is not None and is_enabled:
        gate = widen(candidate.name, candidate.manifest, record, options, aim.agents, ports)
    else:
        gate = approach(candidate.name, candidate.manifest, options, is_met, aim.agents, ports)
    kind = options.link or (record.link if record else None) or state.intent.link or "copy"
    wanted = dict.fromkeys([f"{folder}/{candidate.name}" for folder in aim.folders])
    # An agent chosen now is added to those that have it already.
    wanted |= dict.fromkeys(record.links if record else ())
    linking = aim.linker.plan(candidate.name, wanted, kind, candidate.tree.listing, record)
    linking = aim.linker.merging(linking, candidate.tree, record)
    return Plan(candidate, record, gate, linking, "")


def questions(proposal: Plan) -> list[Question]:
    """Return everything that is to be asked about one candidate."""
    found = consent(proposal.candidate, proposal.record, proposal.changes)
    if proposal.gate is not None:
        found += proposal.gate.questions
    if proposal.linking is not None:
        found += proposal.linking.questions()
    return found


def carry_out(
    plans: Sequence[Plan], options: Options, asked: Sequence[Asked], state: State, ports: Ports
) -> Outcome:
    """Turn the agreed plans into changes, commit them, and show what came of it."""
    answers: defaultdict[str, list[Asked]] = defaultdict(list)
    for question, answer in asked:
        answers[question.skill].append((question, answer))
    plans, kept = _settled(plans, answers, state)
    locked = {**state.lock.skills, **{each.candidate.name: each.candidate.entry for each in plans}}
    is_met = given(ports.environ, locked)
    changes = [
        decide(each, options, answers[name], or_stored(is_met, name, ports.project))
        for each in plans
        for name in [each.candidate.name]
    ]
    gates = [each.gate for each in plans if each.gate]
    changed = not options.dry_run and commit(changes, options, state, ports)
    skills = tuple(
        told.as_given(
            view(each.name, each.candidate.entry, each.record, is_met, ports.project, ports.store), each.given
        )
        for each in changes
    )
    return Outcome(
        skills,
        changed,
        tuple(asked),
        tuple(told.warnings([each.candidate for each in plans], gates, asked)),
        given=frozenset((each.name, need) for each in changes for need in each.given),
        left=tuple(map(left_alone, kept)),
        changes={each.candidate.name: each.changes for each in plans if each.changes},
        as_before=frozenset(each.name for each in changes if _is_as_before(each, state)),
        disabled=frozenset(each.name for each in changes if each.record.held == "user"),
        ways=told.ways(gates, ports.project.scope),
    )


def _is_as_before(change: Change, state: State) -> bool:
    """Say whether nothing of a skill had to be done: intent, lock, record, places and configurations."""
    candidate, linking, passage = change.candidate, change.linking, change.passage
    return (
        candidate.wanted in (None, state.intent.skills.get(change.name))
        and candidate.entry == state.lock.skills.get(change.name)
        and change.record == state.records.skills.get(change.name)
        and (linking is None or linking.done)
        and not (passage and passage.writes)
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
        name = each.candidate.name
        linking = each.linking.answered(answers[name]) if each.linking else None
        if linking is None and each.linking is not None:
            kept += [] if state.lock.skills.get(name) == each.candidate.entry else [name]
            left.append(name)
        else:
            settled.append(replace(each, linking=linking))
    for each in settled:
        if torn := sorted({*kept} & {*dependencies_of(each.candidate.entry)}):
            raise Refused(f"{each.candidate.name} needs {torn[0]}, which is to stay as it is", where=torn[0])
    return settled, left


def decide(proposal: Plan, options: Options, asked: Sequence[Asked], is_met: Given) -> Change:
    """Return what becomes of one candidate now that all ``asked`` about it is answered: enabled, or waiting."""
    candidate, before, gate, linking = proposal.candidate, proposal.record, proposal.gate, proposal.linking
    is_known = before is not None and before.is_of(candidate.entry)
    facts = before.facts if before and is_known else facts_of(candidate.manifest, candidate.can)
    base = Record(
        tree=candidate.tree.digest,
        enabled=False,
        held=proposal.held,
        facts=facts,
        provenance=Provenance.of(candidate.entry),
    )
    if before is not None:
        base = replace(base, mcp=before.mcp, link=before.link)
        if is_known and (before.enabled or gate is None):  # unchecked now: what was said of needs stands
            base = replace(base, met=before.met, waived=before.waived)
    if linking is None or gate is None:
        return Change(candidate, base, linking, None)
    is_enabled = is_known and before is not None and before.enabled
    passed = passage(gate, candidate.manifest, options, asked)
    record = passed.onto(replace(base, enabled=True, links=linking.links, link=linking.kind))
    if not is_enabled and any(need.open for need in needs_of(facts, record, is_met)):
        waiting = replace(base, held="needs")
        return Change(candidate, waiting, linking.given_up(), None, (*passed.met, *passed.waived))
    return Change(candidate, record, linking, passed)
