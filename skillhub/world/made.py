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


def shared(project: Project) -> Iterator[str]:
    """Yield the folders where what we write is beside what others do: agents' configuration, git's exclude file.

    Raises:
        LinkLeavesProject: as ``exclude_file``; agents' folders that lead elsewhere are passed over.
    """
    for each in DIALECTS.values():
        for path in each.project if project.scope == "project" else each.user:
            with suppress(StateError):
                yield os.path.dirname(files.inside(project.base, path.removeprefix("~/")))
    if file := exclude_file(project.base):
        yield os.path.dirname(file)


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
            if os.path.isdir(path):
                os.rmdir(path)
            elif "".join((files.read(path, _CAP) or b"").decode("utf-8", "replace").split()) in _EMPTY:
                os.unlink(path)
        if os.path.lexists(path):
            left.append(each)
    return tuple(reversed(left))
