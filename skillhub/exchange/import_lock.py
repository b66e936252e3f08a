"""Lock import: what another installer's lock names is resolved, asked about, pinned and enabled."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace

from skillhub.disk import files
from skillhub.errors import Forbidden, FormatError, SkillhubError, SourceError, UnsafeTransfer, UsageError
from skillhub.exchange.other_locks import NoOrigin, Origin, OtherLock, noted_by_gh, parse_other_lock
from skillhub.install.candidates import Candidate
from skillhub.install.context import LeftOut, Options, Outcome, Ports, State, read_state
from skillhub.install.gather import gather
from skillhub.install.install import take
from skillhub.model.reference import parse_ref

# Where skills of other installers came from, as far as those wrote it down, and what is there now.

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
        return mine.noted(f"it is said to come from {origin.ref}, which could not be compared: {error.message}")
    theirs = found.get(mine.name)
    if theirs is None:
        return mine.noted(f"it is said to come from {origin.ref}, where no skill is named so")
    if theirs.tree.digest == mine.tree.digest:
        return theirs.noted(f"it is what {origin.ref} has, to the last byte")
    changed = sorted(path for path in {*mine.tree, *theirs.tree} if mine.tree.get(path) != theirs.tree.get(path))
    return mine.noted(f"it differs from {origin.ref} in {', '.join(changed[:8])}; taken as it is here")


# Lock import: what another installer's lock names is resolved, asked about, pinned and enabled as by
# ``install``.


def import_lock(other: OtherLock, options: Options, ports: Ports) -> Outcome:
    """Install what the other lock names, as one transaction; what cannot be pinned is left out, with the reason.

    Raises:
        SecurityError: something was tampered with, or a name is locked from elsewhere; nothing was changed.
        Refused: a question was answered no or by nobody; nothing was changed.
        StateError: the disk is in the way.
    """
    state = read_state(ports)
    left = [LeftOut(each.name, "no-origin", each.reason) for each in other.unpinned]
    found: dict[str, Candidate] = {}
    for each in _had(other, options, state, ports):
        if isinstance(each, LeftOut):
            left.append(each)
        elif each.tree.digest != found.setdefault(each.name, each).tree.digest:
            first = found[each.name].entry.origin
            left.append(LeftOut(each.name, "usage", f"the lock has it from {first} and from {each.entry.origin}"))
    if not found:
        return Outcome((), False, left=tuple(left))
    outcome = take(found, options, state, ports)
    return replace(outcome, left=(*left, *outcome.left))


def _had(other: OtherLock, options: Options, state: State, ports: Ports) -> Iterator[Candidate | LeftOut]:
    """Yield each skill, or why it cannot be had."""
    for done, origin in enumerate(other.origins):
        ports.report("resolving", done, len(other.origins))
        # One by one, so that one that is gone does not take its neighbours with it; a place is opened once.
        for each in origin.each():
            try:
                found = obtained(each, options, state, ports)
            except OF_ONE as error:
                yield LeftOut(each.name, error.code, _told(error))
                continue
            yield from (_noted(candidate, each) for candidate in found.values())


def _told(error: SkillhubError) -> str:
    where = f" ({error.where})" if error.where else ""
    return f"{error.message}{where}{'; ' + error.hint if error.hint else ''}"


def _noted(candidate: Candidate, origin: Origin) -> Candidate:
    notes = [origin.note] if origin.note else []
    if not origin.skills and candidate.name != origin.name:
        notes.append(f"the other lock calls it {origin.name}")
    return candidate.noted(*notes)
