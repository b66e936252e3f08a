"""What a flow is handed of the world: one place to install into, what is opened for it, and who answers questions.

What policies forbid is not opened: whoever gets at a source goes through ``Ports``, so that no flow can forget them.

A flow gets everything that is not computation through these, so that a test can put a simulator, a clock or a
silent approver in their place, and so that a command that needs no network never loads one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from skillhub.errors import SourceError
from skillhub.model.policy import ORIGIN, Policies, Subject
from skillhub.model.question import Approver
from skillhub.model.ref import Local
from skillhub.world.first_seen import FirstSeen
from skillhub.world.project import Project
from skillhub.world.publishers import Publishers
from skillhub.world.ref_url import url_of
from skillhub.world.sources import ProjectSources, Source
from skillhub.world.store import Store
from skillhub.world.vouching import voucher

if TYPE_CHECKING:  # `sync` has no use for releases
    from skillhub.archive import Unpacked
    from skillhub.model.changes import Changes
    from skillhub.model.digest import Digest
    from skillhub.model.lock import Lock, Locked
    from skillhub.model.ref import Remote
    from skillhub.model.release import Index, Release
    from skillhub.model.source_changes import SourceChange
    from skillhub.world.requester import Who


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


class Network(Protocol):
    """Opens registries and other places, whatever policies say of them; the same one once for a command."""

    def open(self, source: Source, root: bytes | None = None) -> Registry:
        """Return the registry of a source, as ``Ports.open`` does."""
        ...

    def reach(
        self, ref: Remote | Local, pin: str | None = None, *, named_by: Who = "person", may: May | None = None
    ) -> Place:
        """Return a place that is no registry, as ``Ports.reach`` does.

        Args:
            ref: Which one.
            pin: A full commit.
            named_by: Who names it.
            may: Called with each URL that the place leads to (an artifact, the repository of a plugin) before that is
                asked; it raises for one that nothing may come from.
        """
        ...

    def fetch_root(self, url: str, *, named_by: Who = "person") -> bytes:
        """Return the ``1.root.json`` of the registry at a URL; whoever calls it checks its digest."""
        ...


Report = Callable[[str, int, int], None]  # what is being done, how many are done, of how many


def silent(alias: str) -> str:
    """Return what to know where a source cannot be asked."""
    return f"{alias} has to answer for this; what is installed stays usable"


def unplanned(changes: Mapping[str, Changes], sources: Sequence[SourceChange] = ()) -> None:
    """Show nothing before it is done."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The world, as flows see it.

    Attributes:
        network: What opens registries and places; asked by nobody but ``open``, ``reach`` and ``fetch_root``.
        pick: Lets a person pick among the skills of a place; with nobody there it returns none.
        environ: The environment, for variables that skills need and for agents' own folders.
        user_home: The user's home folder, where user-scope agents' folders hang.
        policies: What may be installed here, by the machine, the user and the project.
        first_seen: Remembers since when undated things are known.
        clock: The time now, UTC, by which expiry is judged: no earlier than verified metadata has shown.
        report: Told of progress; it may draw it.
        plan: Told what is to differ, by skill, and of the sources, before anything is asked or done; it may show it.
    """

    project: Project
    store: Store
    sources: ProjectSources
    publishers: Publishers
    network: Network
    pick: Callable[[Sequence[Release]], Sequence[Release]]
    approver: Approver
    environ: Mapping[str, str]
    user_home: str
    policies: Policies
    first_seen: FirstSeen
    clock: Callable[[], datetime]
    report: Report
    plan: Callable[[Mapping[str, Changes], Sequence[SourceChange]], None] = unplanned

    def open(self, source: Source, root: bytes | None = None) -> Registry:
        """Return the registry of a source, its metadata verified.

        Args:
            source: Which one.
            root: Its first root, where that is trusted only if what the registry says is in order: nothing of it is
                remembered otherwise.

        Raises:
            Forbidden: a line of a policy.
            SourceError, SecurityError, FormatError: it cannot be had, or is not as it should be.
        """
        self.may(source.url, source.root)
        try:
            return self.network.open(source, root)
        except SourceError as error:
            error.hint = error.hint or silent(source.alias)
            raise

    def reach(self, ref: Remote | Local, pin: str | None = None, *, named_by: Who = "person") -> Place:
        """Return a place that is no registry, a folder of several skills among them.

        Args:
            ref: Which one.
            pin: A full commit, to have it as it was then.
            named_by: Who names it: a person, or a repository, and this person never agreed to anything from there.

        Raises:
            Forbidden: a line of a policy; of where the place leads to, too, once that is to be asked.
            SourceError, SecurityError, FormatError: as for ``open``.
        """
        self.may(self.url_of(ref))
        return self.network.reach(ref, pin, named_by=named_by, may=self.may)

    def fetch_root(self, url: str, meant: Digest | None = None, *, named_by: Who = "person") -> bytes:
        """Return the ``1.root.json`` of the registry at a URL; whoever calls this checks its digest.

        Args:
            url: Its base.
            meant: The root that is meant, if one is.
            named_by: Who names it: a person, or a repository that proposes it.

        Raises:
            Forbidden: a line of a policy, which permits a registry by the root that is ``meant`` too.
            NotFound: there is no registry.
            SourceError, SecurityError: it cannot be had.
        """
        self.may(url, meant)
        return self.network.fetch_root(url, named_by=named_by)

    def may(self, url: str, root: Digest | None = None) -> None:
        """Refuse a place that nothing may come from.

        Raises:
            Forbidden: a line of a policy.
        """
        self.policies.refuse(Subject(name="a skill", root=root, urls=(url,)), ORIGIN)

    def url_of(self, ref: Remote | Local) -> str:
        """Return the URL by which policies know a place."""
        if isinstance(ref, Local):
            path = os.path.realpath(os.path.expanduser(ref.path)).replace(os.sep, "/")
            return f"file:///{quote(path.lstrip('/'), safe='/:')}"
        return url_of(ref, self.environ)

    def voucher(self, entry: Locked, lock: Lock | None = None) -> str | None:
        """Return the registry by whose word alone the signer of an entry has a name; None if it is the user's own."""
        return voucher(entry, lock or self.project.last_lock(), self.project.home)

    def root_of(self, entry: Locked) -> Digest | None:
        """Return the root of the registry that the entry is from, as this user has it; None if it is from none."""
        source = self.sources.all().get(entry.source) if entry.named else None
        return source.root if source else None
