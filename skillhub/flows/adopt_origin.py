"""Where unmanaged skills came from, as far as other installers wrote it down."""

from __future__ import annotations

import os
from collections.abc import Iterator

from skillhub.errors import Forbidden, FormatError, SourceError, UnsafeTransfer, UsageError
from skillhub.flows.candidate import Candidate
from skillhub.flows.gather import gather
from skillhub.flows.options import Options
from skillhub.flows.ports import Ports
from skillhub.flows.state import State
from skillhub.model.dataclass import replace
from skillhub.model.origin import NoOrigin, Origin, noted_by_gh
from skillhub.model.other_locks import parse_other_lock
from skillhub.model.ref import parse_ref
from skillhub.world import files

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
        self._named = {name: each for origin in self._read() for name, each in _by_skill(origin)}

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


def _by_skill(origin: Origin) -> Iterator[tuple[str, Origin]]:
    for name in origin.skills or (origin.name,):
        yield name, replace(origin, name=name, skills=(name,) if origin.skills else ())


def compared(mine: Candidate, origin: Origin | None, state: State, ports: Ports) -> Candidate:
    """Return the skill as its origin has it, if that is what is here to the last byte; else ``mine``, told so.

    Raises:
        SecurityError: what the origin has was tampered with.
        StateError: the disk is in the way.
    """
    if origin is None:
        return _noted(mine, "nothing here says where it came from")
    try:
        options = Options(skills=origin.skills)
        found = gather([parse_ref(origin.ref)], options, state, ports, guarded=True).found
    except (FormatError, SourceError, UsageError, Forbidden, UnsafeTransfer) as error:
        return _noted(
            mine, f"it is said to come from {origin.ref}, which could not be compared: {error.message}"
        )
    theirs = found.get(mine.name)
    if theirs is None:
        return _noted(mine, f"it is said to come from {origin.ref}, where no skill is named so")
    if theirs.tree.digest == mine.tree.digest:
        return _noted(theirs, f"it is what {origin.ref} has, to the last byte")
    changed = sorted(
        path for path in {*mine.tree, *theirs.tree} if mine.tree.get(path) != theirs.tree.get(path)
    )
    return _noted(mine, f"it differs from {origin.ref} in {', '.join(changed[:8])}; taken as it is here")


def _noted(candidate: Candidate, note: str) -> Candidate:
    return replace(candidate, warnings=(*candidate.warnings, note))
