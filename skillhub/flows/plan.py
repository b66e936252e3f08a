"""What taking a candidate would mean, before anybody is asked about it; and, once all is answered, its change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillhub.flows.admission import admit
from skillhub.flows.candidate import Candidate
from skillhub.flows.commit import Change
from skillhub.flows.linking import Linker, Linking
from skillhub.flows.needs import facts_of
from skillhub.flows.open_needs import OpenNeeds, open_for_more_agents, open_needs
from skillhub.flows.options import Options, chosen_agents
from skillhub.flows.ports import Ports
from skillhub.flows.provenance import hold_to_record
from skillhub.flows.questions import consent
from skillhub.flows.state import State
from skillhub.model.changes import Changes
from skillhub.model.finding import in_short
from skillhub.model.hosts import Host
from skillhub.model.lock import Locked
from skillhub.model.provenance import Provenance
from skillhub.model.question import Asked, Question
from skillhub.model.record import Facts, Record
from skillhub.world.installed import Given, given, needs_of
from skillhub.world.links import link_folders


@dataclass(frozen=True, slots=True)
class Plan:
    """One candidate, and all that enabling it would mean.

    Attributes:
        needs: Those that stand open, or where it is enabled those that an added agent brings; None where it is to
            stay disabled.
        linking: The places to make, or to clear if it is ``held``.
        held: Why it is to stay disabled, as a ``Record`` has it; empty if it is to be enabled.
        changes: What differs from the version before, if there was one.
    """

    candidate: Candidate
    record: Record | None
    needs: OpenNeeds | None
    linking: Linking | None
    held: str
    changes: Changes | None

    @property
    def name(self) -> str:
        """The skill's name."""
        return self.candidate.name

    def questions(self) -> list[Question]:
        """Return everything that is to be asked about the candidate."""
        programs = self.needs.programs if self.needs else ()
        found = consent(self.candidate, self.record, self.changes, programs)
        found += self.needs.questions() if self.needs else []
        return found + (self.linking.questions() if self.linking else [])


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans for one command: for these agents, in these folders of theirs, as its options say."""

    options: Options
    state: State
    ports: Ports
    agents: tuple[Host, ...]
    folders: tuple[str, ...]
    linker: Linker
    is_met: Given

    @classmethod
    def of(cls, options: Options, state: State, ports: Ports) -> Planner:
        """Work out what is the same for all skills.

        Raises:
            UsageError: an id that is no agent's.
            LinkLeavesProject: a folder of the project is a link to somewhere outside of it.
        """
        agents = chosen_agents(options, state.records, state.intent, ports)
        folders = link_folders(ports.project, agents, ports.user_home, ports.environ)
        linker = Linker(ports.project, ports.store)
        return cls(options, state, ports, agents, folders, linker, given(ports.environ))

    def plan(self, candidate: Candidate) -> Plan:
        """Work out what taking the candidate would mean: its needs, its places, and what differs from before.

        Raises:
            Forbidden: a policy forbids it.
            SignerChanged, BadSignature: it is not signed as what the person agreed to, or is so no longer.
            StateError: something is in the way that skillhub did not put there.
        """
        hold_to_record(candidate, self.state, self.ports)
        candidate = admit(candidate, self.state, self.ports)
        record = self.state.records.skills.get(candidate.name)
        is_agreed = record is not None and record.is_of(candidate.entry)
        if not is_agreed:
            candidate = candidate.noted(*in_short(candidate.findings))
        is_enabled = record is not None and record.enabled and is_agreed
        held = "user" if record is not None and record.held == "user" else "asked"
        needs = None
        if held == "user" or not (self.options.enable or is_enabled):
            linking = self.linker.plan_removal(candidate.name, record) if record else None
        else:
            held = ""
            needs = self._needs(candidate, record, is_enabled=is_enabled)
            linking = self._linking(candidate, record)
        return Plan(candidate, record, needs, linking, held, changes_of(candidate, self.state, self.ports))

    def _needs(self, candidate: Candidate, record: Record | None, *, is_enabled: bool) -> OpenNeeds:
        name, manifest = candidate.name, candidate.manifest
        if is_enabled and record is not None:
            return open_for_more_agents(name, manifest, record, self.options, self.agents, self.ports)
        return open_needs(candidate, record, self.options, self.is_met, self.agents, self.ports)

    def _linking(self, candidate: Candidate, record: Record | None) -> Linking:
        kind = self.options.link or (record.link if record else None) or self.state.intent.link or "copy"
        wanted = dict.fromkeys([f"{folder}/{candidate.name}" for folder in self.folders])
        # An agent chosen now is added to those that have it already.
        wanted |= dict.fromkeys(record.links if record else ())
        linking = self.linker.plan(candidate.name, wanted, kind, candidate.tree.listing, record)
        return self.linker.merging(linking, candidate.tree, record)


def changes_of(candidate: Candidate, state: State, ports: Ports) -> Changes | None:
    """Return what differs from the version that this person has, else from the locked one; None without either."""
    before, record = state.lock.skills.get(candidate.name), state.records.skills.get(candidate.name)
    if before is None:
        return None
    if record is not None and record.facts == Facts():
        return None  # disabled here before anybody agreed to anything
    if record is not None:
        before = _as_agreed(before, record, candidate.entry)
    if before.tree == candidate.tree.digest:
        return None
    was = ports.store.listing(before.tree)
    changes = Changes.between(before, candidate.entry, was, candidate.tree.listing)
    return replace(changes, vouchers=(ports.voucher(before), candidate.voucher))


def _as_agreed(before: Locked, record: Record, after: Locked) -> Locked:
    """Return the entry of the version before with all that is known of what the person agreed to.

    Their record was read off its bytes and says where it was from; the lock may have been changed since.
    """
    if before.tree != record.tree:
        before = replace(before, version=None, rev=None, signed_by=())
    needs = tuple(f"{need['kind']}:{need['name']}" for need in record.facts.needs)
    before = replace(before, tree=record.tree, capabilities=record.facts.capabilities, requires=needs)
    if record.provenance is None:
        return before
    # A record knows signers by kind and fingerprint; whoever is still there is spelled as now.
    spelled = next(
        (
            each.signed_by
            for each in (after, before)
            if Provenance.of(each).signers == record.provenance.signers
        ),
        record.provenance.signers,
    )
    return replace(before, source=record.provenance.source, signed_by=spelled)


def decide(plan: Plan, asked: Sequence[Asked], is_met: Given) -> Change:
    """Return what becomes of one candidate now that all ``asked`` about it is answered: enabled, or waiting."""
    candidate, before, linking = plan.candidate, plan.record, plan.linking
    is_known = before is not None and before.is_of(candidate.entry)
    facts = before.facts if before and is_known else facts_of(candidate.manifest, candidate.can)
    base = Record(
        tree=candidate.tree.digest,
        enabled=False,
        held=plan.held,
        facts=facts,
        provenance=Provenance.of(candidate.entry),
    )
    if before is not None:
        base = replace(base, mcp=before.mcp, link=before.link)
        if is_known and (
            before.enabled or plan.needs is None
        ):  # unchecked now: what was said of needs stands
            base = replace(base, met=before.met, waived=before.waived)
    if linking is None or plan.needs is None:
        return Change(candidate, base, linking, None)
    is_enabled = is_known and before is not None and before.enabled
    needs = plan.needs.answered(asked)
    record = needs.onto(replace(base, enabled=True, links=linking.links, link=linking.kind))
    if not is_enabled and any(need.open for need in needs_of(facts, record, is_met)):
        waiting = replace(base, held="needs")
        return Change(candidate, waiting, linking.given_up(), None, (*needs.met, *needs.waived))
    return Change(candidate, record, linking, needs)
