"""Sync: finish what was cut off, restore what differs from the lock; unmanaged copies of locked names."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from skillhub.disk.folders import is_link, list_folder
from skillhub.edits.patch import tree_of_copy
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.install.admission import of_entry
from skillhub.install.candidates import ReleaseStatus
from skillhub.install.context import LeftOut, Options, Outcome, Ports, State, ask, chosen_agents, command, read_state
from skillhub.install.links import Linker, Linking, Step, about_deleted, left_alone
from skillhub.model.lock import Lock, Locked
from skillhub.model.question import Question
from skillhub.model.record import Record, Records
from skillhub.model.tree import SKILL_MD, Tree
from skillhub.policy.policy import LASTING
from skillhub.project import copies
from skillhub.project.copies import folders_of, portable
from skillhub.project.installed import agent_folders, by_folder, managed, unmanaged
from skillhub.project.project import Project, exclude
from skillhub.project.store import Store
from skillhub.runtime.discover import found_name

# What lies in agents' folders under the name of a locked skill, and is none of the places that a record names.


def strays(lock: Lock, records: Records, ports: Ports) -> Mapping[str, Sequence[str]]:
    """Return by name the folders that agents take for a locked skill, and that skillhub does not keep there."""
    project = ports.project
    kept: defaultdict[str, set[str]] = defaultdict(set)
    links = (link for record in records.skills.values() for link in record.links)
    for folder, names in by_folder(project, links).items():
        kept[os.path.realpath(folder)] |= names  # two agents' folders may be one place
    found: defaultdict[str, list[str]] = defaultdict(list)
    for folder in agent_folders(project, ports.user_home, ports.environ):
        real = os.path.realpath(folder)
        if not (kept[real] or _is_an_agents(real, project)):
            continue
        try:
            there = lock.skills.keys() & {*os.listdir(real)}
        except OSError:
            continue
        for name in sorted(there - kept[real]):
            path = os.path.join(real, name)
            if os.path.isfile(os.path.join(path, SKILL_MD)) and not _holds_source(path, lock, project):
                found[name].append(path)
    return found


def imitations(lock: Lock, ports: Ports) -> Mapping[str, Sequence[str]]:
    """Return by name what agents find otherwise called, or deeper, and whose ``SKILL.md`` has a locked name.

    Raises:
        FormatError, StateError: as for ``listing.unmanaged``.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    tops = agent_folders(ports.project, ports.user_home, ports.environ)
    # What a link in such a folder leads to is found there, wherever it lies.
    theirs = tuple(f"{top}{os.sep}" for top in tops if _is_an_agents(os.path.realpath(top), ports.project))
    for path in unmanaged(ports.project, ports.user_home, ports.environ):
        folder, called = os.path.split(path)
        is_stray = called in lock.skills and folder in tops  # which ``strays`` tells of
        if not is_stray and f"{path}{os.sep}".startswith(theirs):
            name = found_name(path)  # what nobody could install, an agent may well read
            if name is not None and name in lock.skills:
                found[name].append(path)
    return found


def _is_an_agents(real: str, project: Project) -> bool:
    """Say whether a folder is for agents alone, as hidden ones are.

    One agent reads ``skills``, and more where a link leads there: it is where authors have what they write, too. What
    agents read in a home is theirs, wherever links lead: dotfiles are kept so.
    """
    below = portable(real, os.path.realpath(project.base))
    return below.startswith(".") or os.path.isabs(below) or project.scope == "user"


def is_outside(path: str, project: Project) -> bool:
    """Say whether a link leads out of the project to this; what is there is none of the project's."""
    below = portable(path, os.path.realpath(project.base))
    return project.scope == "project" and os.path.isabs(below)


def _holds_source(path: str, lock: Lock, project: Project) -> bool:
    """Say whether this is, or holds, a folder that a local skill is installed from."""
    own = f"{os.path.realpath(path)}{os.sep}"
    local = (entry.path for entry in lock.skills.values() if entry.local and entry.path)
    return any(f"{os.path.realpath(os.path.join(project.base, each))}{os.sep}".startswith(own) for each in local)


def to_take(name: str, paths: Iterable[str], state: State, ports: Ports) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """Say what becomes of strays of a skill that is not enabled, for no agent may read it.

    Returns:
        What is to be taken away, once edits in it are saved; and what skillhub has never put there and so leaves.
    """
    tree, record = state.lock.skills[name].tree, state.records.skills.get(name)
    steps, left = [], []
    for path in paths:
        if is_outside(path, ports.project):
            left.append(path)
        elif is_spare(path, tree, record, ports.store):
            steps.append(Step(path, path, "keep"))
        elif _was_enabled(record) and not is_link(path) and _is_usual(path, state, ports):
            steps.append(Step(path, path, "save"))
        else:
            left.append(path)
    return tuple(steps), tuple(left)


def _was_enabled(record: Record | None) -> bool:
    """Say whether a skill that is not enabled was so on this machine, as far as that is known."""
    return record is not None and record.held == "user" and record.tree != NO_FILES


def _is_usual(path: str, state: State, ports: Ports) -> bool:
    """Say whether skills are enabled in this folder: in that of another agent, one of that name is a person's own."""
    agents = chosen_agents(Options(), state.records, state.intent, ports)
    folders = folders_of(ports.project, agents, ports.user_home, ports.environ)
    return os.path.dirname(path) in map(os.path.realpath, folders)


def is_spare(path: str, tree: Digest, record: Record | None, store: Store) -> bool:
    """Say whether what is at ``path``, or behind a link there, is to the byte what the lock has, or this machine had.

    Whatever else the store has by chance, nobody may need for long: ``cache gc`` would take the last copy.
    """
    try:
        listing = list_folder(path)
    except OSError:
        return False
    if listing is None:
        return False
    is_had = record is not None and listing.digest == record.tree and not store.check(record.tree)
    return listing.digest == tree or is_had


def left_in(name: str, path: str) -> LeftOut:
    """Return what is told of something in an agent's folder that only a person may take away."""
    message = f"{path} has the name of a locked skill, and skillhub did not put it there; move it away"
    return LeftOut(name, "other-skill", message)


# Sync: finish what was cut off, and put back what is not as locked; nothing new is ever enabled.

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
            copies.sweep(ports.project, known, copies.shared(ports.project))
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
    plans: Sequence[Linking], kept: Collection[str], fetched: Mapping[Digest, Tree], state: State, ports: Ports
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
            told.append(f"{linking.name} {was} taken out of the agents' folders, for {why}: {', '.join(there)}")
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
        ReleaseStatus.last_seen(name, entry, root, ports.sources).refuse(ports.project)


def _permitted(obtain: Obtain, state: State, ports: Ports) -> Obtain:
    """Return what obtains a tree unless a policy forbids it; a copy of what was agreed to comes before its source.

    A registry is asked all the same: it has what it once gave, and may have withdrawn it.
    """

    def only(name: str, entry: Locked) -> Tree:
        _refuse_forbidden([name], state, ports)
        agreed = state.agreed(name)
        if agreed is None or state.lock.root_of(entry) is not None:
            return obtain(name, entry)
        places = copies.places(ports.project, agreed.links)
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


def _put_back(linking: Linking, fetched: Mapping[Digest, Tree], linker: Linker, state: State, ports: Ports) -> bool:
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
