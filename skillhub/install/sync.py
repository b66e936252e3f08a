"""Sync: finish an interrupted command, and restore copies that differ from the lock."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Protocol

from skillhub.command.ports import LeftOut, Outcome, Ports, ask
from skillhub.command.state import State, read_state
from skillhub.disk.home import LOCK
from skillhub.edits import patch
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.formats.text import command
from skillhub.install import links
from skillhub.install.admission import policy_subject, refuse_known_bad
from skillhub.install.candidates import Candidate
from skillhub.model.lock import Locked
from skillhub.model.provenance import NO_CONSENT
from skillhub.model.tree import Tree
from skillhub.policy.policy import LASTING
from skillhub.project import copies, mcp_config
from skillhub.project.copies import managed
from skillhub.project.last_seen import ReleaseStatus


class Obtain(Protocol):
    """``obtain_locked`` of given ports; a command without a skill to obtain need not load it."""

    def __call__(self, name: str, entry: Locked, *, is_agreed: bool, scan: bool) -> Candidate:
        """Return a locked skill, verified."""


def sync(obtain: Obtain, ports: Ports, *, dry_run: bool = False) -> Outcome:
    """Make store, links and lock agree; a dry run fetches and verifies missing trees, and writes nothing.

    A skill without consent on this machine, and a disabled one, is stored and removed from agents' folders, whoever
    put a copy there. A skill that is gone from the lock is removed from the agents' folders. But if the lock is
    missing, or lacks a skill that ``skillhub.toml`` names, only ``install`` can tell which skills are unwanted. Then
    ``sync`` removes no skill that the lock lacks, and forgets no record.

    Args:
        obtain: Returns a skill whose tree the store lacks or holds damaged.
        ports: The ports of the command.
        dry_run: Only report the changes and questions.

    Raises:
        SecurityError: fetched bytes differ from the lock, the registry's last known state recalls a skill, or a
            skill is known to be malicious.
        SourceError: a tree cannot be fetched.
        Refused: the question about edits was not answered, or with no, or a policy forbids a skill to restore.
        StateError: the disk is in the way.
    """
    with nullcontext() if dry_run else ports.project.exclusively():
        state = read_state(ports.project, ports.sources)
        # The recorded skills that an incomplete lock lacks, dependencies too, stay until `install`.
        unlocked = state.kept if os.path.lexists(ports.project.lock_path) else [*state.records.skills]
        for name, entry in state.lock.skills.items():
            status = ReleaseStatus.last_seen(name, entry, state.lock.root_of(entry), ports.seen)
            status.refuse(ports.project.scope, ports.project.intent)
            refuse_known_bad(name, entry, None, ports)
        if not dry_run:
            known = [link for record in state.records.skills.values() for link in record.links]
            copies.sweep(ports.project, known, mcp_config.shared_folders(ports.project))
        fetched, notes = _fetch(obtain, state, ports)
        linker = links.Linker(ports.project, ports.store)
        planned, foreign = _plan(fetched, linker, unlocked, state, ports)
        _refuse_forbidden([each.name for each in planned if state.enabled(each.name) and not each.done], state, ports)
        raised = (
            each.questions() if state.enabled(each.name) else links.removal_questions([each]) for each in planned
        )
        asked = ask([question for questions in raised for question in questions], ports, dry_run)
        answered = {each.name: each.answered(asked) for each in planned}
        kept = {name for name, linking in answered.items() if linking is None}
        plans = [linking for linking in answered.values() if linking is not None]
        removed = _removed(plans, state, "would be" if dry_run else "was", ports)
        changed = False
        if not dry_run:
            for each in plans:
                record = state.records.skills.get(each.name)
                linker.save(each, record, fetched.get(record.tree) if record else None)
            changed = _carry_out(plans, {*kept, *unlocked}, fetched, state, ports)
    touched = {each.name for each in planned if not each.done}
    touched |= {name for name, entry in state.lock.skills.items() if entry.tree in fetched}
    left = (
        *_kept_unlocked(unlocked, state, ports),
        *map(": ".join, state.disagreements(command(ports.project.scope, "install"))),
        *_patches(state, ports),
    )
    return Outcome(
        tuple(managed(ports.project, ports.store, ports.environ)),
        changed,
        tuple(asked),
        (*removed, *left, *notes),
        left_out=(*map(links.kept_edited, sorted(kept)), *foreign),
        unchanged=frozenset(state.lock.skills.keys() - touched),
        pending=dry_run and bool(removed),
        saved=linker.saved,
    )


def _removed(plans: Iterable[links.Linking], state: State, verb: str, ports: Ports) -> list[str]:
    """Return a line for each skill that is removed from agents' folders, with the places."""
    lines = []
    for linking in plans:
        paths = [step.path for step in linking.steps if os.path.lexists(step.path)]
        if paths and not state.enabled(linking.name):
            why = _why_disabled(linking.name, state, ports)
            lines.append(f"{linking.name} {verb} removed from the agents' folders, because {why}: {', '.join(paths)}")
    return lines


def _why_disabled(name: str, state: State, ports: Ports) -> str:
    entry = state.lock.skills.get(name)
    if entry is None:
        return "the lock does not name it"
    record = state.records.skills.get(name)
    if state.agreed(name) or (record and record.disabled_by == "user"):
        return "it is not enabled"
    if record and record.consent_to(entry):
        why = "another version was enabled here" if record.tree != NO_FILES else "the lock lacked it meanwhile"
        return f"{why}; {command(ports.project.scope, 'install')} enables the locked one"
    return "its locked version was not agreed to here"


def _kept_unlocked(names: Iterable[str], state: State, ports: Ports) -> Iterator[str]:
    """Yield a line about the skills that stay in agents' folders though no lock names them."""
    if there := [name for name in names if state.records.skills[name].links]:
        is_there = os.path.lexists(ports.project.lock_path)
        why = f"{LOCK} does not name all skills of skillhub.toml" if is_there else f"{LOCK} is missing"
        line = f"{why}, so these stay in the agents' folders: {', '.join(there)}"
        to_remove = f"; to remove: {command(ports.project.scope, 'remove', *there)}"
        yield line + ("" if state.intent.skills else to_remove)  # else `State.disagreements` names the way


def _patches(state: State, ports: Ports) -> Iterator[str]:
    """Yield the warnings about patches that machines without the patched tree would miss."""
    for name, entry in state.lock.skills.items():
        if warning := patch.patch_warning(name, entry, ports.project):
            yield f"{name}: {warning}"


def _refuse_forbidden(names: Iterable[str], state: State, ports: Ports) -> None:
    """Refuse to fetch or restore a skill that a policy forbids; without names, read no policy."""
    for name in names:
        entry, record = state.lock.skills[name], state.agreed(name)
        can = record.facts.capabilities if record else entry.capabilities
        ports.policies.refuse(policy_subject(name, entry, can, ports), LASTING)


def _fetch(obtain: Obtain, state: State, ports: Ports) -> tuple[Mapping[Digest, Tree], list[str]]:
    """Return every locked tree that the store lacks or holds damaged, all in memory, and the warnings about them.

    A patched skill has two trees: its signature is about the unpatched one. An intact copy of an agreed skill saves
    the request to its source; a registry is asked all the same, since it may have withdrawn the release.
    """
    fetched: dict[Digest, Tree] = {}
    notes: list[str] = []
    for name, entry in state.lock.skills.items():
        for one in (entry.original, entry) if entry.patch else (entry,):
            if ports.store.check(one.tree):
                _refuse_forbidden([name], state, ports)
                agreed = state.agreed(name)
                from_copies = agreed is not None and state.lock.root_of(one) is None
                places = copies.paths_of(ports.project, agreed.links) if agreed and from_copies else []
                tree = patch.tree_of_copy(places, one.tree)
                if tree is None:
                    # The user agreed to the source's tree of a patched skill together with the patch.
                    found = obtain(name, one, is_agreed=agreed is not None, scan=agreed is None)
                    notes += (f"{name}: {note}" for note in found.warnings)
                    tree = found.tree
                fetched[one.tree] = tree
                refuse_known_bad(name, one, tree, ports)
    return fetched, notes


def _plan(
    fetched: Mapping[Digest, Tree], linker: links.Linker, unlocked: Collection[str], state: State, ports: Ports
) -> tuple[list[links.Linking], list[LeftOut]]:
    """Return the linking of each skill that may change, and the folders that skillhub did not make and leaves."""
    plans: dict[str, links.Linking] = {}
    for name, record in state.records.skills.items():
        if name in unlocked:
            continue
        if state.enabled(name) and (linking := linker.in_place(name, record)):
            plans[name] = linking
            continue
        tree = fetched.get(record.tree)
        listing = tree.listing if tree is not None else ports.store.listing(record.tree)
        if state.enabled(name) and listing is not None:
            plans[name] = linker.plan(name, record.links, record.link, listing, record)
        else:
            plans[name] = linker.plan_removal(name, record)
    left: dict[str, str] = {}
    for name, paths in links.unmanaged_copies(state.lock, state.records, ports).items():
        steps, others = links.copies_to_remove(name, paths, state, ports)
        if steps:
            linking = plans.get(name, links.Linking(name, "copy", ()))
            plans[name] = replace(linking, steps=(*linking.steps, *steps))
        left |= dict.fromkeys(others, name)
    why = "has the name of a locked skill, and skillhub did not put it there; move it away"
    return [*plans.values()], [LeftOut(name, "other-skill", f"{path} {why}") for path, name in left.items()]


def _carry_out(
    plans: Sequence[links.Linking], kept: Collection[str], fetched: Mapping[Digest, Tree], state: State, ports: Ports
) -> bool:
    """Store fetched trees, restore or remove links; return whether anything changed."""
    linker, records = links.Linker(ports.project, ports.store), state.records.skills
    if state.lock.skills:
        ports.project.remember()  # from now on ``cache gc`` keeps the trees of this project
    # A stored tree that the user edited through links, and keeps, is not replaced.
    edited = {records[name].tree for name in kept if name in records and records[name].link == "symlink"}
    for digest, tree in fetched.items():
        if digest not in edited:
            ports.store.put(tree)
    changed = bool(fetched)
    for each in plans:
        enabled = state.enabled(each.name)
        if enabled is None:
            linker.take_away(each)
            changed |= bool(each.steps)
        elif not each.done and (restored := fetched.get(enabled.tree) or ports.store.read(enabled.tree)) is not None:
            linker.make(each, restored, enabled)
            changed = True
    after = {
        name: record if name in kept or state.enabled(name) else replace(record, enabled=False, links=())
        for name, record in records.items()
    }
    left = replace(state.records, skills=after).leaving(records.keys() - state.lock.skills.keys() - {*kept})
    # A record outlives its entry of the lock for its MCP entries alone, until `remove` removes them.
    entries = {name: records[name].mcp for name in records.keys() - left.skills.keys() if records[name].mcp}
    servers = {name: replace(left.left.get(name, NO_CONSENT), mcp=mcp) for name, mcp in entries.items()}
    new_records = replace(left, skills={**left.skills, **servers})
    changed |= new_records != ports.project.records()
    links.write_records(new_records, ports)
    return changed
