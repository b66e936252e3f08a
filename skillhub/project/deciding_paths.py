"""The paths that decide, beside the skills' folders, whether ``install``, ``sync`` or ``list`` print the same."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from skillhub.disk.home import EDITS, marks_above
from skillhub.disk.proved import paths_below
from skillhub.errors import StateError
from skillhub.model.hosts import hosts, signs_of
from skillhub.project.copies import UNFINISHED, read_by_agents
from skillhub.project.git_exclude import exclude_file
from skillhub.project.mcp_config import shared_folders
from skillhub.project.project import Project, policy_places

# In ``<state>``: folders with files of other projects, or that these commands do not read.
_OTHERS = frozenset({"listings", "projects", "proved", "seen"})


def deciding_paths(project: Project, user_home: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths in the form of ``IdleCommand.keep``.

    Raises:
        OSError, SkillhubError: a folder cannot be read, or leads out of the project.
        StateError: a command can write something else although no path has changed.
    """
    home, end = project.home, os.sep
    for each in (project, project.users(user_home)):
        yield from (each.lock_path, each.intent_path, os.path.join(home.state, "projects", f"{each.key}.json"))
    yield from (*marks_above(os.path.realpath(os.curdir)), *marks_above(project.base))
    yield from policy_places(home).values()
    for folder in (home.config, home.state):
        for name in paths_below(folder) if os.path.lexists(folder) else ("",):
            if name.lstrip(end).partition(end)[0] in _OTHERS:
                continue
            path = f"{folder}{name}"
            yield path
            if os.path.isdir(path) or not name:
                yield f"{path}{end}"
            if name and os.path.isdir(path) and os.path.islink(path):
                raise StateError("a link to a folder, whose files are not in the list", where=path)
    # Which agents are in use, their skills, and files that a killed process left beside them.
    for host in hosts().values():
        yield from signs_of(host, project.base, user_home, environ)
    for folder in read_by_agents(project, user_home, environ):
        yield from (folder, f"{folder}{end}", f"{os.path.dirname(folder)}{end}")
    yield from (f"{project.root}{end}", f"{os.path.join(project.root, EDITS)}{end}")
    for folder, _ in shared_folders(project):
        yield f"{folder}{end}"
        if os.path.isdir(folder) and any(map(UNFINISHED.fullmatch, os.listdir(folder))):
            raise StateError("a file that a command removes once it is old", where=folder)
    if found := exclude_file(project.around):
        yield found[0]
