"""What a flow is handed of the world: one place to install into, and who opens registries and answers questions.

A flow gets everything that is not computation through these, so that a test can put a simulator, a clock or a
silent approver in their place, and so that a command that needs no network never loads one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from skillhub.model.dataclass import dataclass
from skillhub.model.policy import Policies
from skillhub.model.question import Approver
from skillhub.world.first_seen import FirstSeen
from skillhub.world.project import Project
from skillhub.world.publishers import Publishers
from skillhub.world.sources import Source, Sources
from skillhub.world.store import Store

if TYPE_CHECKING:  # `sync` has no use for releases
    from skillhub.archive import Unpacked
    from skillhub.model.changes import Changes
    from skillhub.model.digest import Digest
    from skillhub.model.lock import Locked
    from skillhub.model.ref import Local, Remote
    from skillhub.model.release import Index, Release


class Registry(Protocol):
    """An opened registry: metadata verified and fresh."""

    def release_index(self, names: Iterable[str]) -> Index:
        """Return the releases of these names that the registry's publishers vouch for."""
        ...

    def listing(self) -> Index:
        """Return the newest release of every skill, to search in and to show; never the authority."""
        ...

    def artifact(self, release: Release) -> bytes:
        """Return the bytes of the release: of its size and digest, or an error."""
        ...


class Open(Protocol):
    """Opens a source's registry; the same one is opened once for a command."""

    def __call__(self, source: Source, root: bytes | None = None) -> Registry:
        """Return the registry, its metadata verified.

        Args:
            source: Which one.
            root: Its first root, where that is trusted only if what the registry says is in order: nothing of it is
                remembered otherwise.
        """
        ...


class Place(Protocol):
    """Somewhere that holds skills and is no registry, opened: a site, a repository, an OCI artifact."""

    def index(self, words: Collection[str] | None = None) -> Index:
        """Return what it offers; with ``words`` (names, ``plugin:name``, folders) it may look for these alone."""
        ...

    def unpacked(self, release: Release) -> Unpacked:
        """Return the skill of a release that ``index`` gave, or that a lock spells: its very bytes, or an error."""
        ...

    def committed(self, release: Release) -> str | None:
        """Return when its commit says that it was made, UTC; None of what is in no commit."""
        ...


May = Callable[[str], None]


class Reach(Protocol):
    """Opens a place that is no registry, a folder of several skills among them; each once for a command."""

    def __call__(
        self, ref: Remote | Local, pin: str | None = None, *, guarded: bool = False, may: May | None = None
    ) -> Place:
        """Return the place.

        Args:
            ref: Which one.
            pin: A full commit, to have it as it was then.
            guarded: Whether only a repository names it and this person never agreed to anything from there: then it
                is reached over https, at public addresses, and is not told who asks.
            may: Called with each URL that the place leads to (an artifact, the repository of a plugin) before that is
                asked; it raises for one that nothing may come from.
        """
        ...


Report = Callable[[str, int, int], None]  # what is being done, how many are done, of how many


def unplanned(changes: Mapping[str, Changes]) -> None:
    """Show nothing before it is done."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The world, as flows see it.

    Attributes:
        open: Opens the registry of a source.
        reach: Opens a place that is no registry.
        pick: Lets a person pick among the skills of a place; with nobody there it returns none.
        fetch_root: Returns the ``1.root.json`` of the registry at a URL; whoever calls it checks its digest.
        environ: The environment, for variables that skills need and for agents' own folders.
        user_home: The user's home folder, where user-scope agents' folders hang.
        policies: What may be installed here, by the machine and the user; ``policy.under`` adds the project.
        first_seen: Remembers since when undated things are known.
        clock: The time now, UTC.
        report: Told of progress; it may draw it.
        plan: Told what is to differ, by skill, before anything is asked or done; it may show it.
    """

    project: Project
    store: Store
    sources: Sources
    publishers: Publishers
    open: Open
    reach: Reach
    pick: Callable[[Sequence[Release]], Sequence[Release]]
    fetch_root: Callable[[str], bytes]
    approver: Approver
    environ: Mapping[str, str]
    user_home: str
    policies: Policies
    first_seen: FirstSeen
    clock: Callable[[], datetime]
    report: Report
    plan: Callable[[Mapping[str, Changes]], None] = unplanned

    def root_of(self, entry: Locked) -> Digest | None:
        """Return the root of the registry that the entry is from, as this user has it; None if it is from none."""
        source = self.sources.all().get(entry.source) if entry.named else None
        return source.root if source else None
