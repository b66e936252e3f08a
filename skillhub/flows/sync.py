"""Sync: finish what was cut off, and put back what is not as locked; nothing new is ever enabled."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from skillhub.flows.copies import tree_at_hand
from skillhub.flows.hints import command
from skillhub.flows.linking import Linker, Linking, about_deleted, left_alone
from skillhub.flows.listing import view
from skillhub.flows.needs import given
from skillhub.flows.outcome import Left, Outcome, ask
from skillhub.flows.policy import of_entry, refuse
from skillhub.flows.ports import Ports
from skillhub.flows.recalled import last_seen, refuse_recalled
from skillhub.flows.state import State, read_state
from skillhub.flows.strays import is_spare, left_in, strays, to_take
from skillhub.model.dataclass import replace
from skillhub.model.lock import Locked
from skillhub.model.policy import LASTING
from skillhub.model.question import Question
from skillhub.model.record import Record
from skillhub.model.tree import Tree
from skillhub.world import links
from skillhub.world.exclude import exclude

Obtain = Callable[[str, Locked], Tree]  # name and lock entry -> the very tree that is locked, or an error


def sync(obtain: Obtain, ports: Ports) -> Outcome:
    """Make store, links and lock agree.

    A skill that nobody agreed to on this machine, and one that is disabled, is stored and stays in no agent's
    folder, whoever put a copy there. A skill that left the lock leaves the agents' folders.

    Args:
        obtain: Gets a tree that the store does not have whole, and verifies it.
        ports: The world.

    Raises:
        SecurityError: what is fetched is not what was locked, or its registry has recalled it as last seen.
        SourceError: it cannot be had.
        Refused: nobody agreed to what becomes of edits made by hand, or a policy forbids what is to be put back.
        StateError: the disk is in the way.
    """
    with ports.project.exclusively():
        state = read_state(ports)
        _refuse_recalled(state, ports)
        obtain = _permitted(obtain, state, ports)
        _sweep(state, ports)
        originals = _originals(state, obtain, ports)
        trees = _fetch(state, obtain, ports)
        astray = strays(state.lock, state.records, ports)
        planned = [_plan(name, trees.get(name), state, ports) for name in state.records.skills]
        planned, foreign = _with_strays(planned, astray, state, ports)
        _refuse_forbidden([each.name for each in planned if _is_broken(each, state)], state, ports)
        asked = ask([question for linking in planned for question in _questions(linking, state)], ports)
        plans = {each.name: each.answered(asked) for each in planned}
        kept = {name for name, linking in plans.items() if linking is None}
        for each in filter(None, plans.values()):
            record = state.records.skills.get(each.name)
            Linker(ports.project, ports.store).save(each, record, trees.get(each.name))
        if state.lock.skills:
            ports.project.remember()  # what is stored for it is needed from now on
        changed = _restore(kept, state, trees, ports) or bool(originals)
        for tree in originals:
            ports.store.put(tree)
        gone = _gone(filter(None, plans.values()), state)
        for linking in plans.values():
            changed |= linking is not None and _put_back(linking, state, trees, ports)
        changed |= _write_records(kept, state, ports)
    is_met = given(ports.environ, state.lock.skills)
    records = ports.project.records().skills
    skills = tuple(
        view(name, entry, records.get(name), is_met, ports.project, ports.store)
        for name, entry in state.lock.skills.items()
    )
    touched = {*trees, *(each.name for each in planned if not _is_whole(each, state))}
    as_before = state.lock.skills.keys() - touched
    left = (*map(left_alone, sorted(kept)), *foreign)
    told = (*gone, *_unlocked(state, ports))
    return Outcome(skills, changed, tuple(asked), told, left=left, as_before=frozenset(as_before))


def _gone(plans: Iterable[Linking], state: State) -> tuple[str, ...]:
    """Return what is told of skills that are about to leave the agents' folders, and of the places they leave."""
    told = []
    for linking in plans:
        there = [step.path for step in linking.steps if os.path.lexists(step.path)]
        if there and not state.enabled(linking.name):
            is_agreed = state.agreed(linking.name) is not None
            why = "it is not enabled" if is_agreed else "nobody here agreed to what the lock has now"
            why = why if linking.name in state.lock.skills else "the lock does not name it"
            told.append(f"{linking.name} was taken out of the agents' folders, for {why}: {', '.join(there)}")
    return tuple(told)


def _unlocked(state: State, ports: Ports) -> tuple[str, ...]:
    """Return what is told of skills that the intent names and nobody has locked yet, which sync does not do."""
    install = command(ports.project.scope, "install")
    names = ", ".join(name for name in state.intent.skills if name not in state.lock.skills)
    return (f"skillhub.toml names {names}, and the lock does not: {install}",) if names else ()


def _refuse_recalled(state: State, ports: Ports) -> None:
    for name, entry in state.lock.skills.items():
        said = last_seen(name, entry, state.lock.root_of(entry), ports.sources)
        refuse_recalled(name, entry, said, ports.project.scope)


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
        return tree_at_hand(places, entry.tree) or obtain(name, entry)

    return only


def _refuse_forbidden(names: Iterable[str], state: State, ports: Ports) -> None:
    """Refuse to fetch or to put back what a policy forbids; what is to go, goes."""
    for name in names:  # with nothing to put back, no policy is read
        policies = ports.policies.tightened(state.intent.policy)
        if not policies:
            return
        entry, record = state.lock.skills[name], state.agreed(name)
        can = record.facts.capabilities if record else entry.capabilities
        refuse(of_entry(name, entry, can, ports), LASTING, policies)


def _is_broken(linking: Linking, state: State) -> bool:
    """Say whether links of an enabled skill are to be put back."""
    return state.enabled(linking.name) is not None and not linking.done


def _questions(linking: Linking, state: State) -> list[Question]:
    """Return what is to be asked about edits made by hand, which are put back to what is locked or deleted."""
    return linking.questions() if state.enabled(linking.name) else about_deleted([linking])


def _is_whole(linking: Linking, state: State) -> bool:
    """Say whether the links of a skill are as they are to be, which of one that is not enabled is none."""
    return linking.done if state.enabled(linking.name) else not linking.steps


def _sweep(state: State, ports: Ports) -> None:
    links.sweep(ports.project, [link for record in state.records.skills.values() for link in record.links])


def _fetch(state: State, obtain: Obtain, ports: Ports) -> Mapping[str, Tree]:
    """Get every locked tree that is not whole in the store; nothing is stored before all are had."""
    return {
        name: obtain(name, entry)
        for name, entry in state.lock.skills.items()
        if ports.store.check(entry.tree)
    }


def _originals(state: State, obtain: Obtain, ports: Ports) -> list[Tree]:
    """Get what the source has of each patched skill, where it is not whole in the store: its signature is of that."""
    return [
        obtain(name, entry.original)
        for name, entry in state.lock.skills.items()
        if entry.patch is not None and ports.store.check(entry.original.tree)
    ]


def _restore(kept: Collection[str], state: State, trees: Mapping[str, Tree], ports: Ports) -> bool:
    """Store what was fetched, but what somebody edits through links into the store and keeps."""
    for name, tree in trees.items():
        record = state.records.skills.get(name)
        if name not in kept or record is None or record.link != "symlink":
            ports.store.put(tree)
    return bool(trees)


def _plan(name: str, fetched: Tree | None, state: State, ports: Ports) -> Linking:
    linker = Linker(ports.project, ports.store)
    record = state.records.skills[name]
    if state.enabled(name):
        listing = fetched.listing if fetched is not None else ports.store.listing(record.tree)
        if listing is not None:
            return linker.plan(name, record.links, record.link, listing, record)
    return linker.plan_removal(name, record)


def _with_strays(
    planned: Sequence[Linking], astray: Mapping[str, Sequence[str]], state: State, ports: Ports
) -> tuple[list[Linking], list[Left]]:
    """Return the plans with the strays of skills that are not enabled among what goes, and what skillhub leaves."""
    plans = {each.name: each for each in planned}
    left = []
    for name, paths in astray.items():
        tree, record = state.lock.skills[name].tree, state.records.skills.get(name)
        if state.enabled(name):
            left += [left_in(name, path) for path in paths if not is_spare(path, tree, record, ports.store)]
            continue
        steps, others = to_take(name, paths, state, ports)
        left += [left_in(name, path) for path in others]
        linking = plans.get(name, Linking(name, "copy", ()))
        plans[name] = replace(linking, steps=(*linking.steps, *steps))
    return list(plans.values()), left


def _put_back(linking: Linking, state: State, trees: Mapping[str, Tree], ports: Ports) -> bool:
    """Make the links of an enabled skill whole, or take away those of one that is not to be enabled."""
    record = state.enabled(linking.name)
    if record is not None:
        if linking.done:
            return False
        tree = trees.get(linking.name) or ports.store.read(record.tree)
        if tree is None:
            return False
        Linker(ports.project, ports.store).make(linking, tree, record)
        return True
    Linker(ports.project, ports.store).take_away(linking)
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
    exclude(ports.project.base, [link for record in skills.values() for link in record.links])
    if records == ports.project.records():
        return False
    ports.project.write_records(records)
    return True
