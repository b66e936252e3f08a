"""The folders and files of agents that skillhub made because they were not there: they go again once they are empty.

An agent is taken to be in use where its folder is; what we leave behind must not say so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from skillhub.errors import FormatError, StateError
from skillhub.world import files
from skillhub.world.exclude import exclude_file
from skillhub.world.folders import is_link
from skillhub.world.links import portable
from skillhub.world.mcp_dialects import DIALECTS
from skillhub.world.project import Project

_CAP = 1 << 16
# What is left of a file that held our servers alone.
_EMPTY = frozenset({"", "{}", *(f'{{"{each.key}":{{}}}}' for each in DIALECTS.values())})


def missing(project: Project, paths: Iterable[str]) -> tuple[str, ...]:
    """Return which of these absolute paths, and of the folders above them, are not there yet, as ``portable``."""
    todo, found = [*dict.fromkeys(paths)], dict[str, None]()
    while todo:
        path = todo.pop()
        if not os.path.lexists(path):
            found[portable(path, project.base)] = None
            todo.append(os.path.dirname(path))
    return tuple(found)


def shared(project: Project) -> Iterator[tuple[str, files.Root]]:
    """Yield the folders where what we write is beside what others do, and what holds the way to each.

    They are those of agents' configuration and of git's exclude file.

    Raises:
        LinkLeavesProject: as ``exclude_file``; agents' folders that lead elsewhere are passed over.
    """
    for each in DIALECTS.values():
        for path in each.project if project.scope == "project" else each.user:
            with suppress(StateError):
                file = files.inside(project.base, path.removeprefix("~/"))
                yield os.path.dirname(file), project.around
    if found := exclude_file(project.around):
        yield os.path.dirname(found[0]), found[1]


def clear(project: Project, made: Iterable[str]) -> tuple[str, ...]:
    """Take away what ``missing`` named and is empty by now, and return what is not.

    Whatever refuses stays: nothing depends on it. What a link leads to, be it in the project, is somebody else's.
    """
    left = []
    for each in sorted(made, key=len, reverse=True):
        path = each if os.path.isabs(each) else os.path.join(project.base, *each.split("/"))
        with suppress(OSError, StateError, FormatError):
            if is_link(path) or not (os.path.isabs(each) or files.inside(project.base, each) == path):
                continue
            root = project.root_of(path)
            is_folder = os.path.isdir(path)
            data = b"" if is_folder else files.read(path, _CAP, root=root) or b""
            if "".join(data.decode("utf-8", "replace").split()) in _EMPTY:
                with root.hold(path) as (name, at):
                    (os.rmdir if is_folder else os.unlink)(name, dir_fd=at)
        if os.path.lexists(path):
            left.append(each)
    return tuple(reversed(left))
