"""What lies in agents' folders under the name of a locked skill, and is none of the places that a record names."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from skillhub.flows.linking import Step
from skillhub.flows.listing import agent_folders, by_folder
from skillhub.flows.outcome import Left
from skillhub.flows.ports import Ports
from skillhub.model.digest import NO_FILES, Digest
from skillhub.model.lock import Lock, Locked
from skillhub.model.record import Record, Records
from skillhub.model.tree import SKILL_MD
from skillhub.world import links
from skillhub.world.folders import is_link, list_folder
from skillhub.world.project import Project
from skillhub.world.store import Store


def strays(lock: Lock, records: Records, ports: Ports) -> Mapping[str, Sequence[str]]:
    """Return by name the folders that agents take for a locked skill, and that skillhub does not keep there.

    Raises:
        LinkLeavesProject: a folder of the project is a link to somewhere outside of it.
    """
    project = ports.project
    kept = by_folder(project, (link for record in records.skills.values() for link in record.links))
    found: defaultdict[str, list[str]] = defaultdict(list)
    for folder in agent_folders(project, ports.user_home, ports.environ):
        real = os.path.realpath(folder)
        try:
            names = lock.skills.keys() & {*os.listdir(real)}
        except OSError:
            continue
        for name in sorted(names - kept[folder] - kept[real]):
            path = os.path.join(real, name)
            if os.path.isfile(os.path.join(path, SKILL_MD)) and not (
                path in _places(records.skills.get(name), project)
                or _is_source(path, lock.skills[name], project)
            ):
                found[name].append(path)
    return found


def _places(record: Record | None, project: Project) -> list[str]:
    """Return where the links of a record really are: two agents' folders may be one place."""
    return [links.place(project, link) for link in record.links] if record else []


def _is_source(path: str, entry: Locked, project: Project) -> bool:
    """Say whether this is the very folder that a local skill is installed from."""
    own = entry.path if entry.local else None
    return own is not None and os.path.realpath(path) == os.path.realpath(os.path.join(project.base, own))


def to_take(
    paths: Iterable[str], tree: Digest, record: Record | None, store: Store
) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """Say what becomes of strays of a skill that is not enabled, for no agent may read it.

    Args:
        paths: Where they are.
        tree: What the lock has.
        record: What this machine knows of the skill.
        store: Where nothing is lost from.

    Returns:
        What is to be taken away, once edits in it are saved; and what skillhub has never put there and so leaves.
    """
    steps, left = [], []
    for path in paths:
        if is_spare(path, tree, store):
            steps.append(Step(path, path, "keep"))
        elif record is not None and record.tree != NO_FILES and not is_link(path):
            steps.append(Step(path, path, "save"))
        else:
            left.append(path)
    return tuple(steps), tuple(left)


def is_spare(path: str, tree: Digest, store: Store) -> bool:
    """Say whether what is at ``path``, or behind a link there, is to the byte this tree or one of the store's."""
    try:
        listing = list_folder(path)
    except OSError:
        return False
    return listing is not None and (listing.digest == tree or store.listing(listing.digest) is not None)


def left_in(name: str, path: str) -> Left:
    """Return what is told of something in an agent's folder that only a person may take away."""
    message = f"{path} has the name of a locked skill, and skillhub did not put it there; move it away"
    return Left(name, "other-skill", message)
