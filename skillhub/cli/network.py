"""What a command opens by its flags: its ports, and a network that imports a module when a command first uses it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, cast

from skillhub.cli.terminal import Terminal
from skillhub.disk import files
from skillhub.disk.home import Home, throwaway
from skillhub.errors import NotFound, SourceError, UnsafeTransfer, UsageError
from skillhub.formats.text import as_command
from skillhub.model import advisory
from skillhub.model.question import Flags
from skillhub.model.reference import Git, GitHub, Local, Mcp, Oci, Remote, url_of
from skillhub.net.fetch import OFFLINE, unheard
from skillhub.net.settings import Logins, Settings
from skillhub.net.target import check_marketplace_url, is_beside
from skillhub.project.last_seen import own_advisories
from skillhub.project.project import read_policies
from skillhub.project.store import Store
from skillhub.sources.configured import EMBEDDED_URL, ProjectSources, embedded
from skillhub.sources.history import ShownTime

if TYPE_CHECKING:
    from skillhub.cli.common import Common
    from skillhub.command.ports import CheckAllowed, Place, Ports
    from skillhub.model.advisory import AdvisoryFeed
    from skillhub.model.index import Release
    from skillhub.model.question import Approver
    from skillhub.net.fetch import Arrived, Fetcher, Web, Who
    from skillhub.project.intent import PlaceRefs
    from skillhub.sources.bundle import SkillBundle
    from skillhub.sources.configured import Source, Sources
    from skillhub.sources.layout import Snapshot
    from skillhub.sources.registry_client import TufRegistry

_YOURS = "only this project names it; if the host is yours, add it to trusted-hosts in config.toml"


@dataclass(eq=False)
class OpenNetwork:
    """Opens each registry and each place once for a command.

    Attributes:
        home: The folders of skillhub's own files.
        sources: The sources of the user and the project.
        user_home: The user's home folder.
        offline: Send no request.
        scratch: Use the answers of sources for this command only, and write none of them to disk.
        fresh: Ignore the stored metadata of registries, except the state of their logs.
        bundle: Answers every request in place of servers.
        recorded: Receives the answers of servers.
        time: The time to judge the expiry of metadata by; None for this machine's.
        arrived: Called with the number of bytes that arrived.
    """

    home: Home
    sources: Sources
    user_home: str
    _: KW_ONLY
    offline: bool = False
    scratch: bool = False
    fresh: bool = False
    bundle: SkillBundle | None = None
    recorded: dict[str, tuple[str, bytes]] | None = None
    time: ShownTime | None = None
    arrived: Arrived = unheard
    _undo: ExitStack = field(default_factory=ExitStack, init=False)
    _registries: dict[Source, TufRegistry] = field(default_factory=dict, init=False)
    _places: dict[tuple[str, str | None, Who, bool], Place] = field(default_factory=dict, init=False)
    _commits: dict[tuple[str, str | None, Who], Snapshot] = field(default_factory=dict, init=False)
    _named: dict[str, Who] = field(default_factory=dict, init=False)
    _before_requests: list[Callable[[], None]] = field(default_factory=list, init=False)

    def before_requests(self, call: Callable[[], None]) -> None:
        """Call this once before the next request, as ``Ports.before_requests`` does."""
        self._before_requests = [call]

    def open_registry(self, source: Source, root: bytes | None = None, name: str = "") -> TufRegistry:
        """Return the registry of a source, with verified and fresh metadata."""
        if source in self._registries:
            return self._registries[source]
        from shutil import rmtree

        from skillhub.sources.registry_client import TufRegistry

        fetcher, kept = self.fetcher(source.url, source.named_by), self._metadata(source)
        with ExitStack() as undo:
            if root is not None and not os.path.exists(kept):
                undo.callback(rmtree, kept, ignore_errors=True)
            first_root = root or self.sources.root(source)
            opened = TufRegistry.open(source.url, first_root, fetcher, kept, self._clock, name)
            undo.pop_all()
        if opened.log is not None:
            opened.log.is_bundled = self.bundle is not None
        # No time is learned from the registry in the package, nor from one that only a repository names.
        if source.named_by == "person" and not source.embedded:
            self._clock.learn(opened.shown, source.url)
        self._registries[source] = opened
        return opened

    def open_place(
        self,
        ref: Remote | Local,
        pin: str | None = None,
        *,
        named_by: Who = "person",
        check_allowed: CheckAllowed | None = None,
    ) -> Place:
        """Return a place, which is any source that is no registry."""
        # A place that the user names in this command counts as theirs, even if the lock names it too.
        url = _url_of(ref)
        named = url.removesuffix(".git")
        is_typed = named_by == "person"
        if not is_typed:
            named_by = self._named.get(named, "person" if self._settings.trusts(url) else "repository")
        # A place that was opened without a policy check must not serve a caller that needs the check.
        key = str(ref), pin, named_by, check_allowed is not None
        if key not in self._places:
            self._places[key] = self._reached(ref, pin, named_by, check_allowed)
        if is_typed:
            self._named[named] = "person"
        return self._places[key]

    def fetch_root(self, url: str, *, named_by: Who = "person") -> bytes:
        """Return the first root of the registry at ``url``, not verified."""
        from skillhub.sources.registry_client import fetch_root

        return fetch_root(url, self.fetcher(url, named_by))

    def fetcher(self, url: str, named_by: Who = "person") -> Fetcher:
        """Return the fetcher for a registry: from inside the package, or from the network.

        Raises:
            SourceError: with ``--offline``.
        """
        if url == EMBEDDED_URL:
            return embedded()
        return self.web(url, named_by, _YOURS)

    def advisories(self) -> Iterator[AdvisoryFeed]:
        """Return the advisories of the files and mirrors that the user's settings name."""
        home, named = self.home, self._settings.advisories
        return own_advisories(named, home.config, home.state, self._asked_advisories)

    def _asked_advisories(self, url: str) -> bytes:
        if self.bundle is not None:  # the maker of a bundle must not decide which skills are known bad
            raise SourceError("a bundle does not answer for those who publish advisories", where=url)
        return self.web(url).get(url, cap=advisory.CAP).data

    def close(self) -> None:
        """Close connections, and delete the temporary folders of this command."""
        self._undo.close()

    def proof(self, rev: str, folder: str) -> dict[str, bytes]:
        """Return the git objects that prove a folder of a commit that this command opened.

        Raises:
            UsageError: the commit was opened without git.
        """
        from skillhub.sources.git_snapshot import GitSnapshot

        found = next((each for each in self._commits.values() if each.rev == rev), None)
        if not isinstance(found, GitSnapshot):
            raise UsageError("a bundle with skills of git repositories needs git", hint="install git")
        return found.proof(folder)

    def web(self, url: str, named_by: Who = "person", hint: str | None = None) -> Web:
        """Return the client for a URL; ``hint`` says how the user names the host, if the repository named it.

        Raises:
            SourceError: with ``--offline``.
        """
        if self.bundle is not None:
            from skillhub.sources.bundle import BundleWeb

            return BundleWeb(self.bundle)
        if self.offline:
            raise SourceError(OFFLINE, where=url)
        online = self._online
        self._announce()
        if named_by == "person":
            return online
        from skillhub.net.mirrors import UntrustedClient

        return UntrustedClient(online, url, hint)

    def _announce(self) -> None:
        try:
            call = self._before_requests.pop()  # of several threads one has it
        except IndexError:
            return
        call()

    @cached_property
    def _online(self) -> Web:
        from skillhub.net.client import Http
        from skillhub.net.mirrors import Mirrors

        http = Http(credentials=Logins(self._settings.tokens, os.environ, self.user_home), arrived=self.arrived)
        self._undo.callback(http.close)
        found = Mirrors(http, self._settings)
        if self.recorded is None:
            return found
        from skillhub.sources.bundle import Recorder

        return Recorder(found, self.recorded)

    @cached_property
    def _clock(self) -> ShownTime:
        return self.time or ShownTime(self.home, remember=not self.scratch)

    @cached_property
    def _settings(self) -> Settings:
        return Settings.read(self.home)

    def _metadata(self, source: Source) -> str:
        """Return the folder of the trusted metadata; that of the embedded registry is temporary.

        If it were kept, an older package would be refused as a rollback.
        """
        kept = self.sources.metadata(source)
        if not (source.embedded or self.scratch):
            return kept
        from shutil import copyfile, copytree

        from skillhub.trust.roles import LOG_SEEN

        copy = os.path.join(self._undo.enter_context(throwaway()), os.path.basename(kept))
        with files.disk_errors(kept), suppress(FileNotFoundError):
            if self.fresh:  # all metadata is fetched again, and compared with the stored state of the log
                os.makedirs(copy)
                copyfile(os.path.join(kept, LOG_SEEN), os.path.join(copy, LOG_SEEN))
            else:
                copytree(kept, copy)
        return copy

    @cached_property
    def _scratch_cache(self) -> str:
        return self._undo.enter_context(throwaway())

    def _reached(
        self, ref: Remote | Local, pin: str | None, named_by: Who, check_allowed: CheckAllowed | None
    ) -> Place:
        if isinstance(ref, Local):
            from skillhub.sources.repository import open_folder

            return open_folder(os.path.expanduser(ref.path))
        if self.bundle is not None and isinstance(ref, Git | GitHub | Mcp):
            from skillhub.sources.bundle import BundledRepository, BundledTrees

            return BundledTrees(self.bundle, None) if isinstance(ref, Mcp) else BundledRepository(self.bundle, pin)
        if isinstance(ref, Git | GitHub):
            return self._repository(ref, pin, named_by, check_allowed)
        if isinstance(ref, Oci):
            from skillhub.sources.oci import Artifact

            # Only a person's credentials are sent; a marketplace names repositories only, and no artifacts.
            environ = os.environ if named_by == "person" else None
            return Artifact(ref, self.web(str(ref), named_by), environ, self._settings.trusts)
        if isinstance(ref, Mcp):
            from skillhub.sources.mcp import McpPlace

            return McpPlace(ref, self.web(str(ref), named_by))
        from skillhub.net.download import DownloadCache, Downloads, SiteMemory
        from skillhub.sources.site import Site

        # The answers of a bundle for a site are not stored as answers of that site.
        is_fleeting = self.scratch or self.bundle is not None
        cache = DownloadCache(os.path.join(self.home.cache, "http"), fixed=is_fleeting)
        seen = SiteMemory(self.home.state, remember=not is_fleeting)
        web = None if self.offline and self.bundle is None else self.web(ref.url, named_by)
        return Site(ref.url, Downloads(web, cache, seen), check_allowed)

    def _repository(
        self, ref: Git | GitHub, pin: str | None, named_by: Who, check_allowed: CheckAllowed | None
    ) -> Place:
        from skillhub.sources.repository import Repository

        url = _url_of(ref)

        def elsewhere(other: str, rev: str | None) -> Snapshot:
            if check_allowed is not None:
                check_allowed(other)
            by = "marketplace" if named_by == "person" and not is_beside(other, url) else named_by
            by = "person" if self._settings.trusts(other) else by
            commit = self._commit(other, rev, by)
            if by != "repository":
                self._named.setdefault(other.removesuffix(".git"), by)
            return commit

        def leads(other: str, own: str) -> None:
            if not self._settings.trusts(other):
                check_marketplace_url(other, own)

        try:
            commit = self._commit(url, pin or ref.rev, named_by)
        except (SourceError, UnsafeTransfer) as error:
            is_absent = isinstance(error, NotFound) and url.startswith("file:")
            if named_by == "repository" and error.hint and not is_absent:
                meant = as_command("skillhub", "install", str(ref))
                error.hint = f"only this repository names it; to use it: {meant}"
            raise
        return Repository(commit, url=url, path=ref.path, elsewhere=elsewhere, leads=leads)

    def _commit(self, url: str, rev: str | None, named_by: Who) -> Snapshot:
        """Return the repository at ``url``, or its mirror, opened once for all of its folders."""
        from skillhub.sources.git_program import GitLimits
        from skillhub.sources.github import open_repository

        key = url, rev, named_by
        if key not in self._commits:
            kept = self.home.cache
            cache, beneath = (self._scratch_cache, kept) if self.scratch else (kept, None)
            mirrors, tokens = self._settings.mirrors, self._settings.tokens
            web = None if self.offline or url.startswith("file:") else self.web(url)
            asked = partial(GitLimits, web=web, tokens=tokens, arrived=self.arrived)
            bounds = asked(offline=self.offline, mirrors=mirrors, beneath=beneath, named_by=named_by)
            self._announce()  # git fetches from a local repository, too, while this process waits
            self._commits[key] = open_repository(url, rev, cache=cache, environ=os.environ, bounds=bounds)
        return self._commits[key]


def _url_of(ref: Remote | Local) -> str:
    """Return the URL or path of a place, without revision and folder."""
    return ref.path if isinstance(ref, Local) else url_of(ref, os.environ)


# The ports of a command, by its flags.


def open_ports(
    common: Common,
    *,
    allow_unsigned: bool = False,
    scratch: bool = False,
    bundle: SkillBundle | None = None,
    believed: bool = False,
) -> Ports:
    """Return the ports of a flow; no module of the network is loaded before a source is opened.

    Args:
        allow_unsigned: Accept unsigned skills.
        scratch: Use the answers of sources for this command only, and write none of them to disk; a dry run too.
        bundle: Answers every request in place of the network.
        believed: Do not hash files again that look unchanged since they were hashed.
    """
    from skillhub.command.ports import Ports
    from skillhub.project.last_seen import Advisories, SeenRegistries
    from skillhub.sources.history import FirstSeen

    project, scratch = common.open_project(), scratch or common.dry_run
    project.waiting = partial(_say_waiting, common)
    sources = ProjectSources(common.home, project.key, project.proposals, remember=not scratch)
    terminal, time, seen = common.terminal, common.time(remember=not scratch), SeenRegistries(common.home)
    network = OpenNetwork(
        common.home,
        sources,
        common.user_home,
        offline=common.offline,
        scratch=scratch,
        bundle=bundle,
        time=time,
        arrived=terminal.arrived,
    )
    common.undo.callback(network.close)
    common.undo.callback(terminal.clear)
    return Ports(
        project=project,
        store=common.proved_store(project, believed=believed, kept=not scratch),
        sources=sources,
        publishers=common.publishers,
        network=network,
        pick=partial(pick_releases, common),
        approver=approver(common, allow_unsigned=allow_unsigned),
        environ=os.environ,
        user_home=common.user_home,
        policies=read_policies(common.home, project.policy),
        seen=seen,
        advisories=Advisories(seen, sources.roots, network.advisories, time.now),
        first_seen=FirstSeen(common.home, remember=not scratch),
        clock=time.now,
        report=terminal.progress,
        bundle=bundle.where if bundle else None,
        bundled=bundle.tree if bundle else None,
    )


def _say_waiting(common: Common) -> None:
    common.terminal.say("another skillhub process uses this project; waiting for it")
    Terminal.written = None  # the next command need not wait, so that this output is not to be repeated


def open_apart(
    common: Common, bundle: SkillBundle | None = None, recorded: dict[str, tuple[str, bytes]] | None = None
) -> tuple[Ports, OpenNetwork]:
    """Return the ports of an empty machine that has only this user's sources, and its network."""
    folder = common.undo.enter_context(throwaway())
    ports = open_ports(common, scratch=True, bundle=bundle)
    home = replace(common.home, cache=os.path.join(folder, "cache"))
    network = replace(cast("OpenNetwork", ports.network), home=home, fresh=True, recorded=recorded)
    common.undo.callback(network.close)
    return replace(ports, network=network, store=Store(folder)), network


def fetcher_of(common: Common, url: str) -> Fetcher:
    """Return the fetcher for a URL that is no source, with the user's tokens and mirrors.

    Raises:
        SourceError: with ``--offline``.
    """
    network = OpenNetwork(common.home, common.sources, common.user_home, offline=common.offline)
    common.undo.callback(network.close)
    return network.fetcher(url)


def approver(common: Common, *, allow_unsigned: bool = False) -> Approver:
    """Return who answers questions: a person; without a terminal, with ``--yes`` or in a dry run, the flags."""
    flags_typed = {"--yes": common.yes, "--allow-unsigned": allow_unsigned}
    flags_typed |= {f"--accept {each}": True for each in common.accept or ()}
    flags = Flags(frozenset(flag for flag, is_given in flags_typed.items() if is_given))
    if common.yes or common.dry_run or not common.asks:
        return flags
    from skillhub.cli.prompts import Person

    return Person(common.terminal, flags)


def pick_releases(common: Common, releases: Sequence[Release], places: PlaceRefs | None = None) -> Sequence[Release]:
    """Let a person pick releases; return none if they stop, or if there is no person to ask.

    ``places`` are the user's sources that are no registries. Only the command ``pick`` passes them, with releases
    of all sources.
    """
    if not common.asks or (common.yes and places is None):
        return ()
    from skillhub.cli import picker  # here, for most commands offer nothing

    project, terminal = common.open_project(), common.terminal
    offered = picker.Offered(releases, project.lock(), project.base, places)
    terminal.clear()
    if picker.draws():
        from skillhub.cli.screen import choose  # its library takes 0.1 s, and the extra may be missing
    else:
        choose = picker.choose
    return [offered.releases[number] for number in choose(terminal, offered)]
