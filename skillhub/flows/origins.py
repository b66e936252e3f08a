"""Where skills of other installers came from, as far as those wrote it down, and what is there now."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace

from skillhub.errors import Forbidden, FormatError, SourceError, UnsafeTransfer, UsageError
from skillhub.flows.candidate import Candidate
from skillhub.flows.gather import gather
from skillhub.flows.options import Options
from skillhub.flows.ports import Ports
from skillhub.flows.state import State
from skillhub.model.origin import NoOrigin, Origin, noted_by_gh
from skillhub.model.other_locks import parse_other_lock
from skillhub.model.ref import parse_ref
from skillhub.world import files

# What concerns one skill alone; any other SecurityError or a full disk stops all of it.
OF_ONE = (FormatError, SourceError, UsageError, Forbidden, UnsafeTransfer)
_CAP = 64 * 1024 * 1024
# Below the project, and below the user's home.
_LOCKS = {
    "project": ("skills-lock.json", "apm.lock.yaml", ".clawhub/lock.json"),
    "user": (".agents/.skill-lock.json", ".clawhub/lock.json"),
}


class Origins:
    """What the locks of other installers in a project, or in a user's home, say of where skills came from.

    Attributes:
        warnings: Locks that cannot be read.
    """

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self.warnings: list[str] = []
        self._named = {each.name: each for origin in self._read() for each in origin.each()}

    def of(self, mine: Candidate) -> Origin | None:
        """Return where a skill came from: as a lock says, else as its own frontmatter says."""
        noted = noted_by_gh(mine.name, mine.manifest.metadata)
        return self._named.get(mine.name) or (None if isinstance(noted, NoOrigin) else noted)

    def _read(self) -> Iterator[Origin]:
        project = self._ports.project
        for name in _LOCKS[project.scope]:
            path = files.inside(project.base, name)
            try:
                data = files.read(path, _CAP)
                if data is not None:
                    yield from parse_other_lock(data, project.base.replace(os.sep, "/"), path).origins
            except FormatError as error:
                self.warnings.append(f"{error.where or path}: {error.message}")


def obtained(origin: Origin, options: Options, state: State, ports: Ports) -> Mapping[str, Candidate]:
    """Return the skills of an origin as they are there now, by name; a file names the place, and no person.

    Raises:
        FormatError, SourceError, UsageError, Forbidden, UnsafeTransfer: ``OF_ONE``, it cannot be had.
        SecurityError: it was tampered with.
        StateError: the disk is in the way.
    """
    options = replace(options, skills=origin.skills, every=False)
    return gather([parse_ref(origin.ref)], options, state, ports, named_by="repository").found


def compared(mine: Candidate, origin: Origin | None, state: State, ports: Ports) -> Candidate:
    """Return the skill as its origin has it, if that is what is here to the last byte; else ``mine``, told so.

    Raises:
        SecurityError: what the origin has was tampered with.
        StateError: the disk is in the way.
    """
    if origin is None:
        return mine.noted("nothing here says where it came from")
    try:
        found = obtained(origin, Options(), state, ports)
    except OF_ONE as error:
        return mine.noted(
            f"it is said to come from {origin.ref}, which could not be compared: {error.message}"
        )
    theirs = found.get(mine.name)
    if theirs is None:
        return mine.noted(f"it is said to come from {origin.ref}, where no skill is named so")
    if theirs.tree.digest == mine.tree.digest:
        return theirs.noted(f"it is what {origin.ref} has, to the last byte")
    changed = sorted(
        path for path in {*mine.tree, *theirs.tree} if mine.tree.get(path) != theirs.tree.get(path)
    )
    return mine.noted(f"it differs from {origin.ref} in {', '.join(changed[:8])}; taken as it is here")
