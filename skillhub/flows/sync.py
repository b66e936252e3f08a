"""Sync: finish what was cut off, and put back what is not as locked; nothing new is ever enabled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from skillhub.flows.linking import Linker, Linking
from skillhub.flows.needs import given
from skillhub.flows.outcome import Outcome, ask
from skillhub.flows.ports import Ports
from skillhub.flows.recalled import last_seen, refuse_recalled
from skillhub.flows.standing import Standing, read_standing
from skillhub.flows.view import view
from skillhub.model.lock import Locked
from skillhub.model.record import Record
from skillhub.model.tree import Tree
from skillhub.world import links
from skillhub.world.exclude import exclude

Obtain = Callable[[str, Locked], Tree]  # name and lock entry -> the very tree that is locked, or an error


def sync(obtain: Obtain, ports: Ports) -> Outcome:
    """Make store, links and lock agree.

    A skill that nobody agreed to on this machine, and one that is disabled, is stored and stays in no agent's
    folder. A skill that left the lock leaves the agents' folders.

    Args:
        obtain: Gets a tree that the store does not have whole, and verifies it.
        ports: The world.

    Raises:
        SecurityError: what is fetched is not what was locked, or its registry has recalled it as last seen.
        SourceError: it cannot be had.
        Refused: nobody agreed to what becomes of edits made by hand.
        StateError: the disk is in the way.
    """
    with ports.project.exclusively():
        standing = read_standing(ports)
        _refuse_recalled(standing, ports)
        _sweep(standing, ports)
        changed, trees = _restore(standing, obtain, ports)
        plans = {name: _plan(name, standing, ports) for name in standing.records.skills}
        asked = ask([question for linking in plans.values() for question in linking.questions()], ports)
        for linking in plans.values():
            changed |= _put_back(linking, standing, trees, ports)
        changed |= _write_records(standing, ports)
    is_met = given(ports.environ, standing.lock.skills)
    records = ports.project.records().skills
    skills = tuple(
        view(name, entry, records.get(name), is_met, ports.project, ports.store)
        for name, entry in standing.lock.skills.items()
    )
    return Outcome(skills, changed, tuple(asked))


def _refuse_recalled(standing: Standing, ports: Ports) -> None:
    for name, entry in standing.lock.skills.items():
        source = standing.lock.sources.get(entry.source)
        said = last_seen(name, entry, source.root if source else None, ports.sources)
        refuse_recalled(name, entry, said)


def _sweep(standing: Standing, ports: Ports) -> None:
    links.sweep(ports.project, [link for record in standing.records.skills.values() for link in record.links])


def _restore(standing: Standing, obtain: Obtain, ports: Ports) -> tuple[bool, Mapping[str, Tree]]:
    """Fetch and store every locked tree that is not whole in the store; nothing is stored before all are had."""
    fetched = {
        name: obtain(name, entry)
        for name, entry in standing.lock.skills.items()
        if ports.store.check(entry.tree)
    }
    for tree in fetched.values():
        ports.store.put(tree)
    return bool(fetched), fetched


def _plan(name: str, standing: Standing, ports: Ports) -> Linking:
    linker = Linker(ports.project, ports.store)
    record = standing.records.skills[name]
    agreed = standing.agreed(name)
    listing = ports.store.listing(record.tree)
    if agreed is None or not agreed.enabled or listing is None:
        return linker.plan_removal(name, record)
    return linker.plan(name, record.links, record.link, listing, record)


def _put_back(linking: Linking, standing: Standing, trees: Mapping[str, Tree], ports: Ports) -> bool:
    """Make the links of an enabled skill whole, or take away those of one that is not to be enabled."""
    record = standing.records.skills[linking.name]
    agreed = standing.agreed(linking.name)
    linker = Linker(ports.project, ports.store)
    if agreed is not None and agreed.enabled:
        if linking.done:
            return False
        tree = trees.get(linking.name) or ports.store.read(record.tree)
        if tree is None:
            return False
        linker.make(linking, tree, record)
        return True
    linker.save_edits(linking, record)
    for path in linking.paths:
        links.unmake(path)
    return bool(linking.steps)


def _write_records(standing: Standing, ports: Ports) -> bool:
    """Forget what left the lock; of what is not to be enabled, remember that its links are gone."""
    kept: dict[str, Record] = {}
    for name, record in standing.records.skills.items():
        agreed = standing.agreed(name)
        if agreed is not None and agreed.enabled:
            kept[name] = record
        # MCP entries outlive the lock's word until `remove` takes them back.
        elif name in standing.lock.skills or record.mcp:
            kept[name] = replace(record, enabled=False, links=())
    records = replace(standing.records, skills=kept)
    exclude(ports.project.base, [link for record in kept.values() for link in record.links])
    if records == standing.records:
        return False
    ports.project.write_records(records)
    return True
