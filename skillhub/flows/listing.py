"""List: what the lock has, and what lies in agents' folders without it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from skillhub.errors import NotFound
from skillhub.flows.hints import command
from skillhub.model.hosts import Host, hosts
from skillhub.model.skill import Scope, Skill
from skillhub.model.text import did_you_mean, quote, spelled_like
from skillhub.model.tree import SKILL_MD
from skillhub.world.installed import managed
from skillhub.world.links import folders_of
from skillhub.world.project import Project
from skillhub.world.store import Store

_DEEPEST = 8  # levels of folders that an agent looks down, as far as any does
_FOLDERS_MAX = 2000  # to a root: as many as agents are known to look into


def unasked(project: Project) -> list[str]:
    """Return the locked skills that nobody agreed to on this machine, less those that their user disabled.

    Raises:
        FormatError: the lock is malformed.
        StateError: it cannot be read.
    """
    records = project.records().skills
    return [
        name
        for name, entry in project.lock().skills.items()
        for record in [records.get(name)]
        if record is None or (record.held != "user" and not record.is_of(entry))
    ]


def beside(project: Project, user_home: str, store: Store, environ: Mapping[str, str]) -> list[Skill]:
    """Return the user's own skills that agents find beside those of a project, as far as they are enabled.

    Raises:
        FormatError, StateError: as for ``managed``, of the user's own lock.
    """
    if project.scope == "user":
        return []
    skills = managed(project.users(user_home), store, environ)
    return [skill for skill in skills if skill.state == "enabled"]


def unmanaged(project: Project, user_home: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield each folder with a ``SKILL.md`` that agents find in their folders and that skillhub did not put there.

    They look into folders of folders as well, but for what is hidden; such a folder may be a skill itself.
    """
    ours: defaultdict[str, set[str]] = defaultdict(set)
    known = [*_ours(project).items()]
    if project.scope == "project" and os.path.realpath(project.base) == os.path.realpath(user_home):
        # Who works in their home meets their own skills there.
        known += _ours(project.users(user_home)).items()
    for folder, names in known:
        ours[os.path.realpath(folder)] |= names
    for top in agent_folders(project, user_home, environ):
        level, seen = [top], {os.path.realpath(top)}
        holder, name = os.path.split(top)
        if os.path.isfile(os.path.join(top, SKILL_MD)) and name not in ours[os.path.realpath(holder)]:
            yield top
        for _ in range(_DEEPEST):
            below: list[str] = []
            for folder in level:
                yield from _skills_in(folder, ours[os.path.realpath(folder)], below, seen)
            level = below


def _skills_in(folder: str, ours: Collection[str], below: list[str], seen: set[str]) -> Iterator[str]:
    """Yield the skills in a folder that are not ours, and note the folders in it that are to be looked into."""
    try:
        names = sorted({*os.listdir(folder)}.difference(ours))
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isfile(os.path.join(path, SKILL_MD)):
            yield path
        elif not (name.startswith(".") or name == "node_modules") and os.path.isdir(path):
            real = os.path.realpath(path)
            if real not in seen and len(seen) < _FOLDERS_MAX:
                seen.add(real)
                below.append(path)


def _ours(project: Project) -> dict[str, set[str]]:
    """Return what the lock accounts for, names by folder: links of what is enabled, and folders of local skills.

    What left the lock or was disabled, and could not be taken away, agents still read: it is nobody's by now.
    """
    locked, records = project.lock().skills, project.records().skills
    links = [
        link for name, record in records.items() if record.enabled and name in locked for link in record.links
    ]
    # Of what is not local, the path is in its repository and says nothing of folders here.
    links += [entry.path for entry in locked.values() if entry.local and entry.path]
    return by_folder(project, links)


def by_folder(project: Project, links: Iterable[str]) -> dict[str, set[str]]:
    """Return the names that links, as records spell them, have in each folder, which is absolute."""
    names: defaultdict[str, set[str]] = defaultdict(set)
    for link in links:
        folder, _, name = link.rpartition("/")
        names[folder].add(name)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for folder, inside in names.items():
        found[os.path.join(project.base, folder.replace("/", os.sep))] |= inside
    return found


def agent_folders(
    project: Project, user_home: str, environ: Mapping[str, str], agents: Iterable[Host] | None = None
) -> list[str]:
    """Return the folders there are that these agents read skills from, or any agent; each place once."""
    every = hosts().values() if agents is None else agents
    there = filter(os.path.isdir, folders_of(project, every, user_home, environ))
    found: dict[str, str] = {}
    for folder in there:
        found.setdefault(os.path.realpath(folder), folder)
    return list(found.values())


def refuse_unknown(names: Iterable[str], installed: Collection[str], scope: Scope) -> None:
    """Refuse names of skills that are not installed here, in a project or for the user.

    Raises:
        NotFound: one is none; the hint lists names that are spelled alike.
    """
    for name in names:
        if name not in installed:
            listed, adopt = command(scope, "list"), command(scope, "adopt")
            rest = f"{listed} shows what is; {adopt} takes in what is unmanaged there"
            hint = f"{did_you_mean(spelled_like(name, installed))} {rest}".lstrip()
            raise NotFound(f"no skill named {quote(name)} is installed here", hint=hint)
