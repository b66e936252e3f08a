"""What an install would do: the questions that it raises, and the change that follows from the answers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from skillhub.formats.text import Quoted, as_command, quoted, shown, word
from skillhub.install.admission import admit, hold_to_record
from skillhub.install.candidates import Candidate, spelled
from skillhub.install.commit import Change
from skillhub.install.context import Options, Ports, State, chosen_agents
from skillhub.install.links import Linker, Linking
from skillhub.install.needs import OpenNeeds, facts_of, open_for_more_agents, open_needs
from skillhub.model.changes import Changes
from skillhub.model.finding import Finding, at_least, counted, in_short
from skillhub.model.hosts import Host
from skillhub.model.lock import Locked
from skillhub.model.provenance import Provenance
from skillhub.model.question import Asked, Kind, Question
from skillhub.model.record import Facts, Record
from skillhub.model.reference import authority
from skillhub.project.copies import link_folders
from skillhub.project.installed import Given, given, needs_of
from skillhub.scan.capability import NETWORK_UNKNOWN, in_words
from skillhub.scan.secrets import masked
from skillhub.sources.configured import EMBEDDED_URL

# What is asked of a person before a skill may reach a disk; the words of each Question stand here.

_LINE_MAX = 160  # characters of a line that is shown
_SAID_MAX = 480  # characters of what a skill says of itself
_NOTES_MAX = 6
_FILES_MAX = 12
_PLACES_MAX = 3  # of what one rule found
_TRYING_OUT = "the registry inside this package is for trying out: its keys are public"


def consent(
    candidate: Candidate, record: Record | None, changes: Changes | None = None, programs: Sequence[str] = ()
) -> list[Question]:
    """Return the questions that a candidate raises; none if this person agreed to this very tree, from there, before.

    Args:
        candidate: What is to be installed.
        record: What the person agreed to before.
        changes: What differs from that, if there was something before.
        programs: Those that are not there, which keeps it disabled whatever is answered.
    """
    if record is not None and record.is_of(candidate.entry):
        return []
    # What speaks against it comes before what asks for a yes.
    questions = _findings(candidate)
    if candidate.trust == "unsigned":
        questions.append(_unsigned(candidate))
    elif candidate.trust == "untrusted":
        questions.append(_publisher(candidate))
    if changes is not None:
        questions += _new(candidate, changes)
    return [*questions, _install(candidate, record, changes, programs)]


def _new(candidate: Candidate, changes: Changes) -> list[Question]:
    """Ask by name for all that another version can do or needs and the one before did not."""
    name, by = candidate.name, _by(candidate)
    version, was = candidate.entry.version or "as it is now", changes.before.version or "the one before"
    asked: list[tuple[Kind, str, str]] = [
        *(("capability", each, f"can {word(each)}, which {was} could not") for each in changes.capabilities.added),
        *(("need", each, f"needs {word(each)}, which {was} did not") for each in changes.requires.added),
    ]
    # Whether the version before stayed offline is not known either: an older lock does not say it.
    unsure = f"is not shown to stay offline ({NETWORK_UNKNOWN}), which was not said of {was}"
    return [
        Question(
            kind,
            name,
            f"{name} {version} {unsure if each == NETWORK_UNKNOWN else text}; agree?",
            (),
            each,
            alike=f"{word(each)} {by}",
        )
        for kind, each, text in asked
    ]


def _install(
    candidate: Candidate, record: Record | None, changes: Changes | None, programs: Sequence[str]
) -> Question:
    entry = candidate.entry
    version = f" {word(entry.version)}" if entry.version else ""
    can, needs = (", ".join(map(word, each)) for each in (candidate.can, spelled(candidate.manifest)))
    patched = f", and patched by this project: {word(entry.patch.path)}" if entry.patch else ""
    details = [
        "it says of itself:",
        *quoted(candidate.manifest.description, _SAID_MAX, _where(candidate)),
        *_notes(candidate),
        *(changes.paths(_FILES_MAX, _where(candidate)) if changes else ()),
        *(changes.facts() if changes else ()),
        *([_TRYING_OUT] if (entry.url or "").startswith(EMBEDDED_URL) else ()),
        *(["it will stay disabled; missing: program " + ", program ".join(programs)] if programs else ()),
        f"it needs: {needs or 'nothing'}",
        f"it can: {in_words(candidate.can)}",
        _content(candidate),
        f"from {word(entry.source)}: {word(entry.origin)}",
        f"{_signed(candidate)}{patched}",
    ]
    verb = "Change" if record else "Install"
    if changes is not None and changes.before.version != entry.version:
        verb, version = "Downgrade" if changes.is_downgrade else "Update", f" to {word(str(entry.version))}"
    row = (
        candidate.name,
        word(entry.version or entry.short),
        _from(entry),
        (candidate.signed_by or "nobody") + (", patched" if entry.patch else ""),
        can or "none seen",
        needs or "-",
    )
    message = f"{verb} {candidate.name}{version}?"
    if record is not None and (elsewhere := record.elsewhere(entry)):
        was, now = elsewhere
        details.append(f"it was agreed to {was}; it is {now} now")
        if record.tree == entry.tree:
            message = f"{candidate.name} was agreed to {was}; the lock has it {now} now; agree?"
    return Question("install", candidate.name, message, tuple(details), row=row, alike=_by(candidate))


def _signed(candidate: Candidate) -> str:
    if candidate.signer:
        return f"signed by {candidate.signed_by} ({candidate.signer.fingerprint})"
    return "not signed" if candidate.trust == "unsigned" else "signed by a key that nobody here knows"


def _by(candidate: Candidate) -> str:
    """Return who signed a skill and where it is from: what a yes to all of them holds for."""
    signer = candidate.signer
    by = f"by {candidate.signed_by} ({signer.fingerprint})" if signer else _signed(candidate)
    return f"{by} from {_from(candidate.entry)}{', patched' if candidate.entry.patch else ''}"


def _content(candidate: Candidate) -> str:
    files = len(candidate.tree)
    return f"{files} {'file' if files == 1 else 'files'}, {candidate.tree.size} bytes, tree {candidate.tree.digest}"


def _notes(candidate: Candidate) -> Iterator[str]:
    """Yield what is odd about it, in as many lines as leave room for the facts below."""
    notes = candidate.warnings
    for note in notes[:_NOTES_MAX]:
        line, *rest = quoted(f"note: {note}", _LINE_MAX * 2, _where(candidate))
        yield from (str(line), *rest)
    if left := len(notes[_NOTES_MAX:]):
        yield f"and {left} more {'note' if left == 1 else 'notes'}: {_where(candidate)}"


def _where(candidate: Candidate) -> str:
    """Return the command that shows all of a skill before it is installed."""
    entry = candidate.entry
    ref = f"{entry.place}:{candidate.manifest.name}" if entry.named else entry.path or entry.url or entry.source
    if entry.git is not None:
        ref = f"git+{entry.git.removeprefix('git+')}@{entry.rev}{f'#{entry.path}' if entry.path else ''}"
    elif entry.local and not os.path.isabs(ref):
        ref = f"./{ref}"
    return as_command("skillhub", "show", ref)


def _from(entry: Locked) -> str:
    """Return the source, and the server that the bytes are really from where that is another."""
    if entry.local or entry.named:
        return word(entry.source)
    server = authority(entry.git or entry.url or "")
    said = authority(entry.place) or "github.com"
    return word(entry.source) if server == said else f"{word(entry.source)} (at {word(server or entry.origin)})"


def _unsigned(candidate: Candidate) -> Question:
    patch = candidate.entry.patch
    message = f"Nobody signed {candidate.name}; take it as it is?"
    if patch is not None:
        message = f"This project patches {candidate.name}, and nobody signed the patch; take it as it is?"
    return Question(
        "unsigned",
        candidate.name,
        message,
        (
            *((f"the patch is {word(patch.path)}",) if patch else ()),
            "only its digest, which the lock keeps, will tell whether it is the same next time",
        ),
        alike=_by(candidate),
    )


def _publisher(candidate: Candidate) -> Question:
    signer, own, claim = candidate.signer, candidate.own, candidate.claim
    if signer is None:
        # Nothing is proven without the key, which does not come with the signature: there is nothing to pin.
        return Question(
            "publisher",
            candidate.name,
            f"{candidate.name} is signed by a key that nobody here knows; take it as if unsigned?",
            (
                *((f"the key is said to be the one in a PEM file of {claim}",) if claim else ()),
                "without it nothing is proven: nobody is pinned, and the lock will name no signer",
                "with it the signature is checked: skillhub publisher trust NAME --key FILE",
            ),
        )
    if own is not None:
        return Question(
            "publisher",
            candidate.name,
            f"{candidate.name} is signed by {word(own.name)}, a key of yours, not trusted yet; trust it for this?",
            (f"{signer.kind} {signer.fingerprint}", f"to trust it for every skill: {own.trusting}"),
            own.trusting,
        )
    return Question(
        "publisher",
        candidate.name,
        f"{candidate.name} is signed by {word(signer.identity)}, whom nobody has trusted yet; trust them for it?",
        ("compare it with what the publisher tells elsewhere", f"{signer.kind} {signer.fingerprint}"),
        alike=_by(candidate),
    )


def _findings(candidate: Candidate) -> list[Question]:
    grave = [finding for finding in candidate.findings if at_least(finding.severity, "high")]
    if not grave:
        return []
    critical = dict.fromkeys(finding.rule for finding in grave if finding.severity == "critical")
    lines = tuple(_lines(grave, candidate))
    seen = f"The scan found in {candidate.name}: {counted(grave)}; "
    if critical:
        message = f"{seen}only a policy may agree to {', '.join(critical)}"
        return [Question("critical-finding", candidate.name, message, lines, '", "'.join(critical))]
    return [Question("finding", candidate.name, f"{seen}have you read it, and agree?", lines)]


def _lines(grave: Sequence[Finding], candidate: Candidate) -> Iterator[str]:
    """Yield what was found, the worst first, with the first few places of each rule."""
    places: dict[str, list[Finding]] = {}
    for each in sorted(grave, key=lambda each: each.severity != "critical"):
        places.setdefault(each.rule, []).append(each)
    for rule, found in places.items():
        for each in found[:_PLACES_MAX]:
            yield from _seen(each, candidate)
        if left := len(found[_PLACES_MAX:]):
            yield f"and {left} more {'place' if left == 1 else 'places'} of {rule}: {_where(candidate)}"


def _seen(finding: Finding, candidate: Candidate) -> Iterator[str]:
    """Yield what was found, and the line that it was found in, whose secrets are not repeated."""
    place = word(finding.path or candidate.name) + (f":{finding.line}" if finding.line else "")
    yield f"{finding.severity}: {place}: {finding.message} [{finding.rule}]"
    file = candidate.tree.get(finding.path or "")
    lines = file.data.split(b"\n") if file is not None and finding.line else []
    if finding.line and finding.line <= len(lines):
        line = masked(lines[finding.line - 1]).decode("utf-8", "replace")
        yield Quoted(shown(line.strip()[:_LINE_MAX])[:_LINE_MAX])


# What taking a candidate would mean, before anybody is asked about it; and, once all is answered, its change.


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
    needs = tuple(need.spell() for need in record.facts.needs)
    before = replace(before, tree=record.tree, capabilities=record.facts.capabilities, requires=needs)
    if record.provenance is None:
        return before
    # A record knows signers by kind and fingerprint; whoever is still there is spelled as now.
    spelled = next(
        (each.signed_by for each in (after, before) if Provenance.of(each).signers == record.provenance.signers),
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
        if is_known and (before.enabled or plan.needs is None):  # unchecked now: what was said of needs stands
            base = replace(base, met=before.met, waived=before.waived)
    if linking is None or plan.needs is None:
        return Change(candidate, base, linking, None)
    is_enabled = is_known and before is not None and before.enabled
    needs = plan.needs.answered(asked)
    record = needs.onto(replace(base, enabled=True, links=linking.links, link=linking.kind))
    if not is_enabled and any(need.open for need in needs_of(facts, record, is_met, needs.met)):
        waiting = replace(base, held="needs")
        return Change(candidate, waiting, linking.given_up(), None, (*needs.met, *needs.waived))
    return Change(candidate, record, linking, needs)
