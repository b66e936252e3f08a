"""Plan each skill, decide by the answers, then store, then lock, then link.

``commit`` makes the changes of install, update, enable, patch and adopt in an order that survives a crash. A crash
before the write of the lock leaves stored trees that nothing uses. After a later crash ``sync`` links the locked
skills. ``disable``, ``remove`` and ``sync`` change a project, too, each in an order of its own, under the same lock
of the project.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain

from skillhub.archive.limits import RESERVED
from skillhub.command.ports import Options, Ports, chosen_agents
from skillhub.command.state import State, read_state
from skillhub.disk import files
from skillhub.errors import FormatError, SecurityError, StateError, UsageError
from skillhub.formats.digest import NO_FILES
from skillhub.formats.text import command
from skillhub.install import admission, candidates, need_questions, pins
from skillhub.install.candidates import Candidate
from skillhub.install.links import Linker, Linking, write_records
from skillhub.install.need_questions import AnsweredNeeds, OpenNeeds, facts_of, needs_for_agents, needs_to_enable
from skillhub.install.questions import (
    about_name,
    about_project,
    consent_questions,
    known_names,
    questions_since_consent,
)
from skillhub.model.finding import in_short
from skillhub.model.hosts import Host, LinkKind
from skillhub.model.lock import Lock, Locked, LockedSource
from skillhub.model.provenance import Changes, Facts, Provenance, Record, Records
from skillhub.model.question import Asked, Question
from skillhub.net.settings import Settings
from skillhub.project import copies, mcp_config
from skillhub.project.copies import NeedCheck, link_folders, need_check, needs_of
from skillhub.project.intent import two_lines
from skillhub.project.store import Staged, Store

# The lock holds the digest of a patch; git must not change the patch by writing the line ends of Windows.
_ATTRIBUTES = b"*.patch -text\n"


@dataclass(frozen=True, slots=True)
class Change:
    """The decided new state of one skill.

    Attributes:
        record: Its new record on this machine.
        linking: Its places in agents' folders; they are cleared if it is not enabled.
        needs: The satisfied needs, and the MCP entries to write before it is linked.
        supplied: Needs that this command satisfied, of a skill that still waits for another need.
    """

    candidate: Candidate
    record: Record
    linking: Linking | None
    needs: AnsweredNeeds | None
    supplied: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The skill's name."""
        return self.candidate.name

    @property
    def places(self) -> list[str]:
        """The places in agents' folders that have to be made, replaced or removed."""
        steps = self.linking.steps if self.linking else ()
        if self.record.enabled:
            return [step.path for step in steps if step.do != "in-place"]
        return [step.path for step in steps if os.path.lexists(step.path)]

    def is_in_order(self, store: Store) -> bool:
        """Return whether the places and the stored tree of an unchanged skill need no work."""
        return not self.places and (self.candidate.stored or not store.check(self.candidate.tree.digest))


def commit(
    changes: Sequence[Change],
    options: Options,
    before: State,
    linker: Linker,
    ports: Ports,
    cleared: Sequence[Linking] = (),
) -> bool:
    """Make all changes, and disable the ``cleared`` skills; return whether anything changed.

    Raises:
        StateError: the disk refuses, or another process changed one of these skills, or a policy, meanwhile.
    """
    with ports.project.exclusively():
        ports.policies.refuse_changed()
        now = read_state(ports.project, ports.sources)
        _refuse_changed_meanwhile(changes, cleared, before, now)
        lock = _lock(changes, options, now, before.lock.sources, ports)
        is_new = lock != now.lock or ports.project.brought is not None
        text = lock.dump() if is_new else None  # a lock that cannot be written is refused before the first write
        for change in changes:
            if change.linking is not None:
                found, record = change.candidate, now.records.skills.get(change.name)
                taken = found.entry.patch.path if found.entry.patch else None
                linker.save(change.linking, record, found.tree, taken)
        records_before = now.records.skills
        for each in cleared:
            linker.save(each, records_before.get(each.name))
        ended = {name: records_before[name] for name in {each.name for each in cleared} & {*records_before}}
        disabled = {name: replace(each, enabled=False, disabled_by="user", links=()) for name, each in ended.items()}
        known = [link for record in records_before.values() for link in record.links]
        copies.sweep(ports.project, known, mcp_config.shared_folders(ports.project))
        gone = (path for linking in cleared for path in linking.paths if os.path.lexists(path))
        copies.refuse_read_only(ports.project, chain(gone, *(change.places for change in changes)))
        # Before the store has the edited tree: a copy that equals a stored tree counts as not edited.
        if not options.frozen:
            for change in changes:
                _write_patch(change.candidate, ports)
        for done, change in enumerate(changes):
            ports.report("storing", done, len(changes))
            _store(change.candidate, ports)
        created_paths = copies.missing_paths(ports.project, _places(changes))
        changed = False
        for change in changes:
            # Before the record says that the need is satisfied; after a crash, the next command finds the entry.
            if change.needs is not None:
                change.needs.write(ports.project)
                changed |= bool(change.needs.writes)
        after = {**records_before, **disabled, **{change.name: change.record for change in changes}}
        after = need_questions.with_shared_servers(after, [change.name for change in changes])
        agents = tuple(dict.fromkeys((*now.records.agents, *options.agents)))
        created_paths = tuple(dict.fromkeys((*now.records.created_paths, *created_paths)))
        moved = admission.moved_records(after, now.lock, lock, ports)
        rest = now.records.without([change.name for change in changes])
        records = replace(rest, skills=moved, agents=agents, created_paths=created_paths)
        if text is not None:
            # After a crash once the lock is written, `sync` knows from these that the user agreed to its entries.
            pending = {change.name: records.skills[change.name] for change in changes}
            ports.project.write_records(replace(now.records, pending=pending, created_paths=records.created_paths))
        changed |= _write_documents(text, changes, options, now, ports)
        write_records(_with_former_links(records, now.records), ports)
        for done, change in enumerate(changes):
            ports.report("enabling", done, len(changes))
            changed |= _link(change, now.records.skills.get(change.name), linker, ports)
        for each in cleared:
            linker.take_away(each)
        write_records(records, ports)
        return changed or records != now.records


def _store(candidate: Candidate, ports: Ports) -> None:
    # `cache gc` may have removed the tree since it was read from the store.
    if not (candidate.stored and ports.store.has(candidate.tree.digest)):
        ports.store.put(candidate.tree)
    if candidate.base is not None:
        ports.store.put(candidate.base)
    if candidate.signer is not None and candidate.pem is not None:
        proven = pins.pin_name(candidate.name, candidate.entry.original, ports.root_of(candidate.entry))
        agreed = pins.AGREED if candidate.trust == "untrusted" else ""
        ports.publishers.pin(proven, f"{agreed}{candidate.pem}")


def _refuse_changed_meanwhile(
    changes: Sequence[Change], cleared: Iterable[Linking], before: State, now: State
) -> None:
    hint = "run the command again"
    for each in cleared:
        record = now.records.skills.get(each.name)
        if record is not None and record.links != each.links:
            raise StateError(f"another process changed {each.name} meanwhile", where=each.name, hint=hint)
    for change in changes:
        name = change.name
        if now.lock.skills.get(name) not in (before.lock.skills.get(name), change.candidate.entry):
            raise StateError(f"another process changed {name} in the lock meanwhile", where=name, hint=hint)
        was, wanted = _decision(before.records.skills.get(name)), _decision(change.record)
        if _decision(now.records.skills.get(name)) not in (was, wanted):
            raise StateError(f"another process changed {name} meanwhile", where=name, hint=hint)


def _decision(record: Record | None) -> tuple[object, ...] | None:
    """Return the fields of a record that a person decides; the links are left out, since ``sync`` may change them."""
    return (record.tree, record.enabled, record.disabled_by, record.mcp) if record else None


def _lock(
    changes: Sequence[Change], options: Options, now: State, agreed: Mapping[str, LockedSource], ports: Ports
) -> Lock:
    """Return the new lock. Raises StateError: one of the sources is another than the user agreed to."""
    if options.frozen:
        return now.lock
    entries = {change.name: change.candidate.entry for change in changes}
    known = ports.sources.all()
    used = {entry.source for entry in entries.values() if entry.named}
    sources = {alias: known[alias].locked() for alias in used & known.keys()}
    for alias in sorted(used & agreed.keys()):
        if alias not in known or not known[alias].is_meant(agreed[alias]):
            raise StateError(f"the source {alias} changed meanwhile", where=alias, hint="run the command again")
    return admission.rebased_lock(Lock({**now.lock.skills, **entries}, now.lock.sources), sources)


def _write_documents(
    lock: bytes | None, changes: Sequence[Change], options: Options, now: State, ports: Ports
) -> bool:
    """Write the intent and, if changed, the lock, in this order; return whether one of them changed.

    A crash before the lock leaves an intent that the next ``install`` completes.
    """
    if options.frozen:
        return False
    added = {change.name: change.candidate.wanted for change in changes if change.candidate.wanted}
    if added and not now.intent.lists:  # from now on the intent lists all wanted skills, the locked ones too
        added = {**now.listed, **added}
    changed = bool(added) and ports.project.edit_intent(added, ())
    if lock is not None:
        ports.project.write_lock(lock)
    return lock is not None or changed


def _write_patch(candidate: Candidate, ports: Ports) -> None:
    if candidate.patch is None or candidate.entry.patch is None:
        return
    path = files.inside(ports.project.root, candidate.entry.patch.path)
    if os.path.lexists(path):
        raise StateError("another process wrote a patch here meanwhile", where=path, hint="run the command again")
    files.write_atomic(path, candidate.patch, root=ports.project.top)
    attributes = os.path.join(os.path.dirname(path), ".gitattributes")
    if not os.path.lexists(attributes):
        files.write_atomic(attributes, _ATTRIBUTES, root=ports.project.top)


def _places(changes: Sequence[Change]) -> Iterator[str]:
    """Yield the agents' folders that will hold links, and the agents' files that will be written."""
    for change in changes:
        if change.linking is not None and change.record.enabled:
            yield from map(os.path.dirname, change.linking.paths)
        if change.needs:
            yield from (each.file.path for _, each in change.needs.writes)


def _with_former_links(records: Records, before: Records) -> Records:
    """Return ``records`` with the links still to be removed, so that a crash does not forget them."""
    skills = dict(records.skills)
    for name, record in skills.items():
        old = before.skills.get(name)
        if old is not None and not set(old.links) <= set(record.links):
            skills[name] = replace(record, links=tuple(dict.fromkeys((*record.links, *old.links))))
    return replace(records, skills=skills)


def _link(change: Change, before: Record | None, linker: Linker, ports: Ports) -> bool:
    """Make the links of an enabled skill and remove its former ones; return whether anything changed."""
    changed = False
    kept: frozenset[str] = frozenset()
    if change.linking is not None and change.record.enabled:
        tree, linking = change.candidate.tree, change.linking
        written = sum(step.do != "in-place" for step in linking.steps) if linking.kind != "symlink" else 0
        if isinstance(tree, Staged) and tree.size < copies.WORTH_SHARING and written > 1:
            tree = tree.loaded()  # read once, not for each copy
        linker.make(change.linking, tree, before)
        changed = not change.linking.done
        kept = frozenset(change.linking.links)
    elif change.linking is not None and before is not None:
        own_steps = tuple(step for step in change.linking.steps if step.link in before.links)
        linker.take_away(replace(change.linking, steps=own_steps))
    former = [link for link in before.links if link not in kept] if before else []
    for link in former:
        copies.remove_copy(ports.project, copies.path_of(ports.project, link))
    return changed or bool(former)


@dataclass(frozen=True, slots=True)
class Plan:
    """One candidate, and the consequences of enabling it.

    Attributes:
        needs: Its open needs, or those of added agents if it is enabled; None if it will stay disabled.
        linking: The places to make, or to clear if it stays disabled.
        disabled_by: Why it will stay disabled, as in a ``Record``; empty if it will be enabled.
        changes: The differences from the version before, if there was one.
        diff: The command that shows the lines that change; empty if none does.
        verb: What the question asks to do with a skill that is new here.
    """

    candidate: Candidate
    record: Record | None
    needs: OpenNeeds | None
    linking: Linking | None
    disabled_by: str
    changes: Changes | None
    diff: str
    verb: str = "Install"

    @property
    def name(self) -> str:
        """The skill's name."""
        return self.candidate.name

    def questions(self) -> list[Question]:
        """Return all questions about the candidate."""
        candidate, record, needs = self.candidate, self.record, self.needs
        missing = needs.holding() if needs else ()
        if record is None or record.consent_to(candidate.entry) is None:
            found = consent_questions(candidate, record, self.changes, missing, self.diff, self.verb)
        else:
            stays_disabled = needs is None or (bool(missing) and not record.enabled)
            is_in_use = record.enabled and record.is_of(candidate.entry)
            found = [] if stays_disabled or is_in_use else questions_since_consent(candidate)
        if needs:
            found += needs.questions()
        return found + (self.linking.questions() if self.linking else [])


class Planner:
    """Plans the skills of one command, by its options, for its agents and their folders.

    Args:
        options: The options of the command.
        state: Lock, intent and records.
        ports: The ports of the command.
        coming: The candidates, also new skills.

    Raises:
        UsageError: an id belongs to no agent.
        LinkLeavesProject: a folder of the project is a link that leads out of the project.
    """

    def __init__(self, options: Options, state: State, ports: Ports, coming: Collection[Candidate] = ()) -> None:
        self.options, self.state, self.ports = options, state, ports
        self.agents = chosen_agents(options, state.records, state.intent, ports)
        self.folders = link_folders(ports.project, self.agents, ports.user_home, ports.environ)
        self.linker = Linker(ports.project, ports.store)
        self.link: LinkKind = state.intent.link or Settings.read(ports.project.home).install.link or "copy"
        self.coming = {each.name: each.manifest for each in coming}
        self.packages = admission.packages_of(state, coming)
        # A command with nothing to do needs none of them.
        self.known_names = cache(partial(known_names, state, ports))
        self.is_satisfied = need_check(ports.environ)
        self.about_project = [*about_project(ports)]

    def plan(self, candidate: Candidate, links: Sequence[str] | None = None) -> Plan:
        """Return the plan for a candidate: its needs, its places, and its differences from the version before.

        The places are ``links``, by default in the folders of the planner.

        Raises:
            Forbidden: a policy forbids it.
            SignerChanged, BadSignature: its signer differs from the one that the user agreed to, or is gone.
            KnownBad: it is known to be malicious.
            FormatError: the intent of another package of the workspace contradicts.
            StateError: a file is in the way that skillhub did not put there.
        """
        intent, wanted = self.state.intent, candidate.wanted
        others = [each for each in intent.packages.get(candidate.name, ()) if each != intent.package]
        if wanted and others and wanted != intent.skills[candidate.name]:
            raise two_lines(candidate.name, (intent.skills[candidate.name], others[0]), (wanted, intent.package))
        admission.check_against_record(candidate, self.state, self.ports)
        candidate = admission.admit(admission.with_advisories(candidate, self.ports), self.state, self.ports)
        record = self.state.records.skills.get(candidate.name)
        is_agreed = record is not None and record.is_of(candidate.entry)
        if not is_agreed:
            candidate = admission.new_first(candidate, record, self.ports)
            # First, since few notes are shown, and the skill's own files may cause any number of them.
            about = (*self.about_project, *about_name(candidate, self.known_names(), self.ports))
            candidate = replace(candidate, warnings=(*about, *candidate.warnings))
            candidate = candidate.noted(*in_short(candidate.findings), *self._about_alias(candidate))
        elif unfit := self._unfit(candidate.entry):
            why = "it requires a folder with the name in SKILL.md"
            candidate = candidate.noted(f"{unfit[0].name} will not load it: {why}")
        is_enabled = record is not None and record.enabled and is_agreed
        disabled_by = "user" if record is not None and record.disabled_by == "user" else "asked"
        needs = None
        if disabled_by == "user" or not (self.options.enable or is_enabled):
            linking = self.linker.plan_removal(candidate.name, record) if record else None
        else:
            disabled_by = ""
            if is_enabled and record is not None:
                name, manifest = candidate.name, candidate.manifest
                needs = needs_for_agents(name, manifest, record, self.options, self.agents, self.ports)
            else:
                needs = needs_to_enable(candidate, record, self.options, self.is_satisfied, self.agents, self.ports)
                needs = replace(needs, sharing=self._sharing(candidate))
            linking = self._linking(candidate, record, links)
        changes = changes_of(candidate, self.state, self.ports)
        return Plan(candidate, record, needs, linking, disabled_by, changes, self._diff(candidate, changes))

    def _sharing(self, candidate: Candidate) -> Mapping[str, Sequence[str]]:
        """Return by MCP server the other enabled skills that need it, and not as the candidate describes it."""
        sharing: defaultdict[str, list[str]] = defaultdict(list)
        for need in candidate.manifest.requires:
            if need.kind != "mcp":
                continue
            for name, record in sorted(self.state.records.skills.items()):
                if name == candidate.name or not record.enabled:
                    continue
                coming = self.coming[name].requires if name in self.coming else ()
                server = next((each.server for each in coming if each.spell() == need.spell()), None)
                if server != need.server and need.spell() in {each.spell() for each in record.facts.needs}:
                    sharing[need.name].append(name)
        return sharing

    def _diff(self, candidate: Candidate, changes: Changes | None) -> str:
        """Return the command that compares the locked skill with the candidate; empty if that is not what changes."""
        name, entry = candidate.name, candidate.entry
        locked = self.state.lock.skills.get(name)
        if changes is None or locked is None or locked.tree != changes.before.tree:
            return ""
        scope = self.ports.project.scope
        if entry.named and entry.version and entry.place == locked.place:
            return command(scope, "diff", f"{name}@{entry.version}")
        return "" if candidate.wanted else command(scope, "diff", name)  # without a line of its own, it is an update

    def _about_alias(self, candidate: Candidate) -> list[str]:
        """Return which agents will not load a skill under its alias.

        Raises:
            UsageError: the user named such an agent, or the alias cannot name a folder on Windows.
        """
        name, own = candidate.name, candidate.entry.name
        if own is not None and RESERVED.match(name):
            raise UsageError(f"Windows reserves the name {name}", where=own, hint="--as takes another name")
        strict = [each for each in self.agents if each.named_folder and own is not None]
        if asked := self._unfit(candidate.entry):
            message = f"{asked[0].name} loads a skill only from a folder of its own name, {own}; {name} is another"
            raise UsageError(message, where=name, hint=f"leave out --agent {asked[0].id}, or --as {name}")
        return [f"{each.name} will not load it: it requires a folder named {own}, like the skill" for each in strict]

    def _unfit(self, entry: Locked) -> list[Host]:
        """Return the agents that the user named and that will not load this skill, since it has an alias."""
        named = [each for each in self.agents if {each.id, *each.aliases}.intersection(self.options.agents)]
        return [each for each in named if each.named_folder and entry.name is not None]

    def _linking(self, candidate: Candidate, record: Record | None, links: Sequence[str] | None) -> Linking:
        kind = self.options.link or (record.link if record else None) or self.link
        if candidate.entry.name is not None:
            agents = [each for each in self.agents if not each.named_folder]
            folders = link_folders(self.ports.project, agents, self.ports.user_home, self.ports.environ)
            links = self.links(candidate.name, folders)
        links = self.links(candidate.name, self.folders) if links is None else links
        wanted = dict.fromkeys(self._without_source(candidate, links, record))
        # A newly chosen agent is added to those that already have the skill.
        wanted |= dict.fromkeys(self._kept(candidate.name, record) if record else ())
        linking = self.linker.plan(candidate.name, wanted, kind, candidate.tree.listing, record)
        return self.linker.merging(linking, candidate.tree, record)

    def _without_source(self, candidate: Candidate, links: Sequence[str], record: Record | None) -> Iterator[str]:
        """Yield the places without the skill's own source: ``disable`` would remove the user's only copy.

        Raises:
            StateError: its source is one of the places, and the lock does not have it from there.
            UsageError: a place lies in its source, whose next version would contain the copy.
        """
        project, entry, locked = self.ports.project, candidate.entry, self.state.lock.skills.get(candidate.name)
        source = os.path.realpath(os.path.join(project.base, entry.path or "")) if entry.local else None
        for link in links:
            if source and copies.path_of(project, link).startswith(os.path.join(source, "")):
                hint = "move the skill into a folder of its own" if locked or project.scope == "user" else ""
                hint = hint or f"install it for all your projects: {command('user', 'install', source)}"
                raise UsageError("the copies for agents would lie in the skill itself", where=source, hint=hint)
            if not source or copies.path_of(project, link) != source or (record and link in record.links):
                yield link
            elif locked is None or locked.path != entry.path:
                raise copies.foreign_error(source, project)

    def links(self, name: str, folders: Iterable[str]) -> list[str]:
        """Return the skill's places: in the agents' folders of each package that wants it, else of the project."""
        prefixes = [f"{each}/" if each else "" for each in sorted(self.packages.get(name, ("",)))]
        return [
            f"{'' if os.path.isabs(folder) else prefix}{folder}/{name}" for prefix in prefixes for folder in folders
        ]

    def _kept(self, name: str, record: Record) -> Iterator[str]:
        """Yield the present places that the skill keeps; in a package that no longer wants it, only edited copies."""
        packages = {*self.ports.project.packages()} if self.packages else set[str]()
        if not packages:
            yield from record.links
            return
        wanting = self.packages.get(name, ())
        for step in self.linker.plan_removal(name, record).steps:
            package = next((each for each in packages if step.link.startswith(f"{each}/")), "")
            if package in wanting or step.do == "save":
                yield step.link

    def unchanged(self, names: Collection[str], shared: admission.SharedFacts) -> set[str]:
        """Return the locked skills for which ``plan`` is known to find no change, question or warning."""
        self.ports.seen.forget()  # since it was read, this command may have asked a registry
        noted = self.ports.store.proved.noted
        return {name for name in names if name in noted and self._is_unchanged(name, shared)}

    def _is_unchanged(self, name: str, shared: admission.SharedFacts) -> bool:
        record, store = self.state.agreed(name), self.ports.store
        facts = admission.deciding_facts(name, shared, self.state, self.ports)
        return (
            store.proved.is_noted(name, facts)
            and record is not None
            and facts is not None
            and not self._unfit(self.state.lock.skills[name])
            and self.options.link in (None, record.link)
            and {*self.links(name, self.folders)} <= {*record.links}
            and (not self.packages or {*self._kept(name, record)} == {*record.links})
            and self.linker.is_in_place(record)
            and store.proved.holds(store.path(record.tree), record.tree)
        )


def changes_of(candidate: Candidate, state: State, ports: Ports) -> Changes | None:
    """Return the differences from the user's version, else from the locked one; None if neither exists or differs."""
    before, record = state.lock.skills.get(candidate.name), state.records.skills.get(candidate.name)
    if before is None and record is not None:
        before = replace(record.entry, tree=NO_FILES)  # a change of the lock cannot hide what the user agreed to
    if before is None:
        return None
    if record is not None and record.facts == Facts():
        return None  # disabled here before any consent
    if record is not None:
        before = _as_agreed(before, record, candidate.entry, ports.store)
    if before.tree == candidate.tree.digest:
        return None
    listing_before = ports.store.listing(before.tree)
    changes = Changes.between(before, candidate.entry, listing_before, candidate.tree.listing)
    return replace(changes, vouchers=(ports.voucher(before), candidate.voucher))


def _as_agreed(before: Locked, record: Record, after: Locked, store: Store) -> Locked:
    """Return the entry of the version before with the facts that the user agreed to.

    The record has its facts from the bytes, and has its origin; the lock may have changed since. The version is read
    from the stored bytes, if they are still there.
    """
    if before.tree != record.tree:
        before = replace(before, version=None, rev=record.rev, signed_by=())
        with suppress(FormatError, SecurityError):  # what is stored may break rules that a newer skillhub has
            agreed = store.read(record.tree)
            before = replace(before, version=candidates.read_manifest(agreed).version if agreed else None)
    needs = tuple(need.spell() for need in record.facts.needs)
    before = replace(before, tree=record.tree, capabilities=record.facts.capabilities, requires=needs)
    if record.provenance is None:
        return before
    # A record has the kind and fingerprint of each signer; an unchanged signer is spelled as in the entries.
    signers = record.provenance.signers
    alike = (each.signed_by for each in (after, before) if Provenance.of(each).signers == signers)
    return replace(before, source=record.provenance.source, signed_by=next(alike, signers))


def decide(plan: Plan, asked: Sequence[Asked], is_satisfied: NeedCheck) -> Change:
    """Return the change that the answers in ``asked`` decide for one candidate: enabled, or waiting."""
    candidate, before, linking = plan.candidate, plan.record, plan.linking
    is_known = before is not None and before.is_of(candidate.entry)
    consent = before.consent_to(candidate.entry) if before else None
    facts = before.facts if before and is_known else facts_of(candidate.manifest, candidate.capabilities)
    base = Record(
        tree=candidate.tree.digest,
        enabled=False,
        disabled_by=plan.disabled_by,
        facts=facts,
        provenance=Provenance.of(candidate.entry),
        rev=(consent.rev if consent else None) or candidate.entry.rev,  # a lock may name another one
        digest=(consent.digest if consent else None) or candidate.entry.digest,
        former=before.before(candidate.entry.tree) if before else (),
    )
    if before is not None:
        base = replace(base, mcp=before.mcp, link=before.link)
        if is_known and (before.enabled or plan.needs is None):  # needs unchecked now: the former answers stand
            base = replace(base, satisfied=before.satisfied, waived=before.waived)
    if linking is None or plan.needs is None:
        return Change(candidate, base, linking, None)
    was_enabled = before is not None and before.enabled
    needs = plan.needs.answered(asked)
    record = needs.onto(replace(base, enabled=True, links=linking.links, link=linking.kind))
    judged = replace(record, enabled=was_enabled, mcp=plan.needs.entries_of(record))
    is_open = any(need.open for need in needs_of(facts, judged, is_satisfied, needs.satisfied))
    if is_open and not (is_known and was_enabled):
        waiting = replace(base, disabled_by="needs")
        return Change(candidate, waiting, linking.without_merges(), None, (*needs.satisfied, *needs.waived))
    return Change(candidate, record, linking, needs)
