"""What lies in agents' folders under the name of a locked skill, and is none of the places that a record names."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from skillhub.flows.linking import Step
from skillhub.flows.listing import agent_folders, by_folder, unmanaged
from skillhub.flows.options import Options, chosen_agents
from skillhub.flows.outcome import LeftOut
from skillhub.flows.ports import Ports
from skillhub.flows.state import State
from skillhub.model.digest import NO_FILES, Digest
from skillhub.model.lock import Lock
from skillhub.model.record import Record, Records
from skillhub.model.tree import SKILL_MD
from skillhub.runtime.discover import found_name
from skillhub.world.folders import is_link, list_folder
from skillhub.world.links import folders_of, portable
from skillhub.world.project import Project
from skillhub.world.store import Store


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
    return any(
        f"{os.path.realpath(os.path.join(project.base, each))}{os.sep}".startswith(own) for each in local
    )


def to_take(
    name: str, paths: Iterable[str], state: State, ports: Ports
) -> tuple[tuple[Step, ...], tuple[str, ...]]:
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
