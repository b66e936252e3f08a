"""Sync: finish what was cut off, and put back what is not as locked; nothing new is ever enabled."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from skillhub.flows.copies import tree_of_copy
from skillhub.flows.hints import command
from skillhub.flows.linking import Linker, Linking, about_deleted, left_alone
from skillhub.flows.outcome import LeftOut, Outcome, ask
from skillhub.flows.policy import of_entry
from skillhub.flows.ports import Ports
from skillhub.flows.standing import Standing
from skillhub.flows.state import State, read_state
from skillhub.flows.strays import is_spare, left_in, strays, to_take
from skillhub.model.digest import Digest
from skillhub.model.lock import Locked
from skillhub.model.policy import LASTING
from skillhub.model.question import Question
from skillhub.model.record import Record
from skillhub.model.tree import Tree
from skillhub.world import links, made
from skillhub.world.exclude import exclude
from skillhub.world.installed import managed

Obtain = Callable[[str, Locked], Tree]  # name and lock entry -> the very tree that is locked, or an error


def sync(obtain: Obtain, ports: Ports, *, dry_run: bool = False) -> Outcome:
    """Make store, links and lock agree; in a dry run fetch and verify what is missing, and write nothing.

    A skill that nobody agreed to on this machine, and one that is disabled, is stored and stays in no agent's
    folder, whoever put a copy there. A skill that left the lock leaves the agents' folders.

    Args:
        obtain: Gets a tree that the store does not have whole, and verifies it.
        ports: The world.
        dry_run: Only tell what would be done, and asked.

    Raises:
        SecurityError: what is fetched is not what was locked, or its registry has recalled it as last seen.
        SourceError: it cannot be had.
        Refused: nobody agreed to what becomes of edits made by hand, or a policy forbids what is to be put back.
        StateError: the disk is in the way.
    """
    with nullcontext() if dry_run else ports.project.exclusively():
        state = read_state(ports)
        _refuse_recalled(state, ports)
        if not dry_run:
            known = [link for record in state.records.skills.values() for link in record.links]
            links.sweep(ports.project, known, made.shared(ports.project))
        fetched = _fetch(_permitted(obtain, state, ports), state, ports)
        planned, foreign = _plan(fetched, Linker(ports.project, ports.store), state, ports)
        _refuse_forbidden([each.name for each in planned if _is_broken(each, state)], state, ports)
        asked = ask([question for each in planned for question in _questions(each, state)], ports, dry_run)
        answered = {each.name: each.answered(asked) for each in planned}
        kept = {name for name, linking in answered.items() if linking is None}
        plans = [linking for linking in answered.values() if linking is not None]
        gone = _gone(plans, state, "would be" if dry_run else "was")
        changed = not dry_run and _carry_out(plans, kept, fetched, state, ports)
    touched = {each.name for each in planned if not _is_whole(each, state)}
    touched |= {name for name, entry in state.lock.skills.items() if entry.tree in fetched}
    return Outcome(
        tuple(managed(ports.project, ports.store, ports.environ)),
        changed,
        tuple(asked),
        (*gone, *_apart(state, ports)),
        left=(*map(left_alone, sorted(kept)), *foreign),
        as_before=frozenset(state.lock.skills.keys() - touched),
        due=dry_run and bool(gone),
    )


def _carry_out(
    plans: Sequence[Linking],
    kept: Collection[str],
    fetched: Mapping[Digest, Tree],
    state: State,
    ports: Ports,
) -> bool:
    """Save edits, store what was fetched, put back or take away links; say whether anything is other than before."""
    linker = Linker(ports.project, ports.store)
    for each in plans:
        record = state.records.skills.get(each.name)
        linker.save(each, record, fetched.get(record.tree) if record else None)
    if state.lock.skills:
        ports.project.remember()  # what is stored for it is needed from now on
    _store(fetched, kept, state, ports)
    changed = bool(fetched)
    for each in plans:
        changed |= _put_back(each, fetched, linker, state, ports)
    return _write_records(kept, state, ports) or changed


def _gone(plans: Iterable[Linking], state: State, was: str) -> tuple[str, ...]:
    """Return what is told of skills that are about to leave the agents' folders, and of the places they leave."""
    told = []
    for linking in plans:
        there = [step.path for step in linking.steps if os.path.lexists(step.path)]
        if there and not state.enabled(linking.name):
            is_agreed = state.agreed(linking.name) is not None
            why = "it is not enabled" if is_agreed else "nobody here agreed to what the lock has now"
            why = why if linking.name in state.lock.skills else "the lock does not name it"
            told.append(
                f"{linking.name} {was} taken out of the agents' folders, for {why}: {', '.join(there)}"
            )
    return tuple(told)


def _apart(state: State, ports: Ports) -> Iterator[str]:
    """Yield what is told of intent and lock that do not agree, which sync leaves so."""
    install = command(ports.project.scope, "install")
    if names := ", ".join(name for name in state.intent.skills if name not in state.lock.skills):
        yield f"skillhub.toml names {names}, and the lock does not: {install}"
    if names := ", ".join(state.unwanted):
        yield f"the lock has {names}, which skillhub.toml has no need of: {install} removes it"


def _refuse_recalled(state: State, ports: Ports) -> None:
    for name, entry in state.lock.skills.items():
        root = state.lock.root_of(entry)
        Standing.last_seen(name, entry, root, ports.sources).refuse(ports.project)


def _permitted(obtain: Obtain, state: State, ports: Ports) -> Obtain:
    """Return what obtains a tree unless a policy forbids it; a copy of what was agreed to comes before its source.

    A registry is asked all the same: it has what it once gave, and may have withdrawn it.
    """

    def only(name: str, entry: Locked) -> Tree:
        _refuse_forbidden([name], state, ports)
        agreed = state.agreed(name)
        if agreed is None or state.lock.root_of(entry) is not None:
            return obtain(name, entry)
        places = links.places(ports.project, agreed.links)
        return tree_of_copy(places, entry.tree) or obtain(name, entry)

    return only


def _refuse_forbidden(names: Iterable[str], state: State, ports: Ports) -> None:
    """Refuse to fetch or to put back what a policy forbids; what is to go, goes."""
    for name in names:  # with nothing to put back, no policy is read
        entry, record = state.lock.skills[name], state.agreed(name)
        can = record.facts.capabilities if record else entry.capabilities
        ports.policies.refuse(of_entry(name, entry, can, ports), LASTING)


def _is_broken(linking: Linking, state: State) -> bool:
    """Say whether links of an enabled skill are to be put back."""
    return state.enabled(linking.name) is not None and not linking.done


def _questions(linking: Linking, state: State) -> list[Question]:
    """Return what is to be asked about edits made by hand, which are put back to what is locked or deleted."""
    return linking.questions() if state.enabled(linking.name) else about_deleted([linking])


def _is_whole(linking: Linking, state: State) -> bool:
    """Say whether the links of a skill are as they are to be, which of one that is not enabled is none."""
    return linking.done if state.enabled(linking.name) else not linking.steps


def _fetch(obtain: Obtain, state: State, ports: Ports) -> Mapping[Digest, Tree]:
    """Get every locked tree that is not whole in the store; nothing is stored before all are had.

    Of a patched skill that is two: the signature is of what its source has.
    """
    fetched: dict[Digest, Tree] = {}
    for name, entry in state.lock.skills.items():
        for one in (entry.original, entry) if entry.patch else (entry,):
            if ports.store.check(one.tree):
                fetched[one.tree] = obtain(name, one)
    return fetched


def _store(fetched: Mapping[Digest, Tree], kept: Collection[str], state: State, ports: Ports) -> None:
    """Store what was fetched, but what somebody edits through links into the store and keeps."""
    records = state.records.skills
    edited = {records[name].tree for name in kept if name in records and records[name].link == "symlink"}
    for digest, tree in fetched.items():
        if digest not in edited:
            ports.store.put(tree)


def _plan(
    fetched: Mapping[Digest, Tree], linker: Linker, state: State, ports: Ports
) -> tuple[list[Linking], list[LeftOut]]:
    """Return what is to be done in each place, and what skillhub did not put there and leaves.

    Of skills that are not enabled the strays go, too.
    """
    plans = {}
    for name, record in state.records.skills.items():
        whole = fetched.get(record.tree)
        listing = whole.listing if whole is not None else ports.store.listing(record.tree)
        if state.enabled(name) and listing is not None:
            plans[name] = linker.plan(name, record.links, record.link, listing, record)
        else:
            plans[name] = linker.plan_removal(name, record)
    left = []
    for name, paths in strays(state.lock, state.records, ports).items():
        tree, before = state.lock.skills[name].tree, state.records.skills.get(name)
        if state.enabled(name):
            left += [left_in(name, path) for path in paths if not is_spare(path, tree, before, ports.store)]
            continue
        steps, others = to_take(name, paths, state, ports)
        left += [left_in(name, path) for path in others]
        linking = plans.get(name, Linking(name, "copy", ()))
        plans[name] = replace(linking, steps=(*linking.steps, *steps))
    return list(plans.values()), left


def _put_back(
    linking: Linking, fetched: Mapping[Digest, Tree], linker: Linker, state: State, ports: Ports
) -> bool:
    """Make the links of an enabled skill whole, or take away those of one that is not to be enabled."""
    record = state.enabled(linking.name)
    if record is not None:
        if linking.done:
            return False
        tree = fetched.get(record.tree) or ports.store.read(record.tree)
        if tree is None:
            return False
        linker.make(linking, tree, record)
        return True
    linker.take_away(linking)
    return bool(linking.steps)


def _write_records(kept: Collection[str], state: State, ports: Ports) -> bool:
    """Forget what left the lock; of what is not to be enabled, remember that its links are gone."""
    skills: dict[str, Record] = {}
    for name, record in state.records.skills.items():
        if name in kept or state.enabled(name):
            skills[name] = record
        # MCP entries outlive the lock's word until `remove` takes them back.
        elif name in state.lock.skills or record.mcp:
            skills[name] = replace(record, enabled=False, links=())
    records = replace(state.records, skills=skills)
    exclude(ports.project.around, [link for record in skills.values() for link in record.links])
    if records == ports.project.records():
        return False
    ports.project.write_records(records)
    return True
