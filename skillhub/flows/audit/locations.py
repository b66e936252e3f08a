"""Where a finding is shown: a line of the lock, or a file by its path in the project."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from skillhub.flows.audit.rules import Location
from skillhub.model.digest import Digest
from skillhub.model.lock import CAP, Lock
from skillhub.model.record import Record
from skillhub.world import files, links
from skillhub.world.project import LOCK, Project
from skillhub.world.store import Store

# As `Lock.dump` writes them; of a lock that is laid out otherwise no line is named.
_SECTION = re.compile(r'  "(skills|sources)": \{')
_BLOCK = re.compile(r'    "([a-z0-9-]+)": \{')


class Locations:
    """The places of one project.

    Args:
        project: It.
        lock: Its lock, parsed.
    """

    def __init__(self, project: Project, lock: Lock) -> None:
        self._project = project
        self._sources = lock.sources
        # As it is on the disk: whoever reads the report opens that.
        data = files.read(os.path.realpath(project.lock_path), CAP) or b""
        self._lines = _lines(data.decode("utf-8", "replace"))
        self._lock = self.shown(project.lock_path) if project.scope == "project" else LOCK

    def skill(self, name: str) -> Location:
        """Return where the lock has a skill."""
        return self._lock, self._lines.get(("skills", name), 0)

    def source(self, alias: str) -> Location:
        """Return where the lock has a source; nowhere, if it does not."""
        return (self._lock, self._lines.get(("sources", alias), 0)) if alias in self._sources else (None, 0)

    def shown(self, path: str) -> str:
        """Return a path as a report has it: relative to the project if inside of it."""
        base = self._project.base
        for top in (base, os.path.realpath(base)):
            with suppress(ValueError):  # two drives of Windows have no path between them
                relative = os.path.relpath(path, top)
                if relative.split(os.sep)[0] != "..":
                    return relative.replace(os.sep, "/")
        return path

    def folder(self, tree: Digest, record: Record | None, store: Store) -> str:
        """Return where a person finds the files of a locked skill: where it is enabled, else in the store."""
        if record is not None and record.enabled and record.tree == tree and record.links:
            return self.shown(links.place(self._project, record.links[0]))
        return self.shown(store.path(tree))


def _lines(text: str) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := _SECTION.match(line):
            section = match[1]
        elif match := _BLOCK.match(line):
            found[section, match[1]] = number
    return found
