"""The sources of a user and of a project, by alias: registries, each pinned by its first root, and other kinds."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from posixpath import normpath
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

from skillhub import errors
from skillhub.disk import files
from skillhub.disk.home import Home
from skillhub.disk.state_file import StateDocument, StateFile
from skillhub.errors import FormatError, NotFound, SourceMismatch, StateError, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.document import Absent, Items, Members, Read, Sha256, part, text_that, wrong
from skillhub.formats.text import NAME_RULE, RESERVED_ALIASES, as_command, did_you_mean, is_alias, quote, spelled_like
from skillhub.model import reference
from skillhub.model.lock import ROOT_CAP, LockedSource
from skillhub.model.provenance import is_same_source
from skillhub.model.reference import Local, Remote, SiteReference, canonical, url_of
from skillhub.project.intent import PLACE_KIND, PlaceRef, SourceKind, is_proposed, place_at

if TYPE_CHECKING:
    from skillhub.model.index import Index
    from skillhub.net.fetch import FolderFetcher, Who
    from skillhub.sources.history import KeptListing, KeptListings

# The registry inside the package. Its keys are public test keys, so that it is only ever read from the package.

EMBEDDED_ALIAS = "github"
EMBEDDED_URL = "embedded:"
_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "embedded")


def embedded() -> FolderFetcher:
    """Return the fetcher of the registry inside the package."""
    from skillhub.net.fetch import FolderFetcher  # noqa: PLC0415 - ``list`` and ``verify`` fetch nothing

    return FolderFetcher(_FOLDER, EMBEDDED_URL)


@cache
def embedded_root() -> bytes:
    """Return the first root of the registry inside the package.

    Raises:
        StateError: the package lacks it.
    """
    data = files.read(os.path.realpath(os.path.join(_FOLDER, "metadata", "1.root.json")), ROOT_CAP)
    if data is None:
        raise StateError("the embedded registry is missing", where=_FOLDER, hint="install skillhub again")
    return data


@cache
def root_fingerprint() -> Digest:
    """Return the SHA-256 of the embedded registry's first root, which no other source may have.

    Raises:
        StateError: the package lacks it.
    """
    return Digest.of(embedded_root())


@dataclass(frozen=True, slots=True)
class Source:
    """A registry, a well-known site without metadata, or any other place, under an alias.

    Attributes:
        url: The base URL of a registry or site, ``embedded:`` for the registry inside the package, or the full
            reference of any other place.
        root: SHA-256 of a registry's ``1.root.json``, so that a registry with a new first root is another source;
            None for all other kinds.
        named_by: ``person`` for a source of the user; ``repository`` for one that only a project names. The latter
            counts in this project alone; requests to it carry no credentials and reach only public addresses.
    """

    alias: str
    url: str
    root: Digest | None
    named_by: Who = "person"

    @property
    def embedded(self) -> bool:
        """Whether this is the registry inside the package."""
        return self.url == EMBEDDED_URL

    @property
    def place(self) -> PlaceRef | None:
        """The reference that the alias stands for, which a lock has instead of it; None for a registry or site."""
        return place_at(self.url)

    @property
    def ref(self) -> Remote | Local:
        """The reference to read when the source is no registry."""
        return self.place or SiteReference(self.url)

    @property
    def kind(self) -> SourceKind:
        """The kind of the source, as ``skillhub.toml`` names it."""
        return PLACE_KIND[type(self.place)] if self.place else self.locked().kind

    def is_meant(self, locked: LockedSource) -> bool:
        """Return whether a lock's source is this registry or site."""
        return self.place is None and is_same_source(self.locked(), locked)

    def locked(self) -> LockedSource:
        """Return the source as a lock has it."""
        return _locked(self)


def check(alias: str, url: str | None = None) -> None:
    """Raise unless a source may have this alias, and this URL if there is one; nothing is looked up.

    Raises:
        UsageError: the alias or the URL is invalid; the message shows no password in the URL.
    """
    if not is_alias(alias):
        hint = f"{NAME_RULE}; not {', '.join(sorted(RESERVED_ALIASES))}"
        raise UsageError(f"{quote(alias)} cannot name a source", hint=hint)
    if url == EMBEDDED_URL and alias != EMBEDDED_ALIAS:
        raise UsageError(f"the registry inside the package is called {EMBEDDED_ALIAS}")
    if url is None or url == EMBEDDED_URL:
        return
    place = place_at(url)
    if isinstance(place, Local) and not os.path.isabs(place.path):
        raise UsageError(f"expected the absolute path of a folder, found {quote(place.path)}")
    if place is not None:
        return
    if reference.holds_secret(url):
        raise UsageError("expected a URL without user, password or another credential", hint=reference.NO_SECRET)
    scheme, _, rest = url.partition("://")
    if scheme.lower() not in ("https", "http"):
        hint = "or http:// on loopback; a repository is owner/repo or git+https://host/repository, a folder ./folder"
        raise UsageError("expected the URL of a source to begin with https://", hint=hint)
    reference.check_port(url)
    if re.search(r"[?#]|/\.well-known(/|$)|\.json$", rest) or not _is_url(url):
        # Below the URL of an index the metadata of a registry would not be found.
        raise UsageError("expected the URL of the site itself", hint="its folder, without .well-known, .json, ?, #")


def _is_url(url: str) -> bool:
    return (found := reference.parse(url)) is not None and found.host != ""


# Two files in ``<state>``: the user's sources, and for each project its proposed sources that the user accepted.

_HINT = "restore the file, or move it away and add your sources again"
_AGREED_HINT = "restore the file, or move it away; then skillhub asks again"


def _alias_and_meaning(value: object) -> tuple[str, str]:
    match value:
        case [str() as alias, str() as meaning]:
            return alias, meaning
    wrong("an alias and what it meant", value)


_url = text_that(lambda url: url == EMBEDDED_URL or _is_url(url) or place_at(url) is not None, "the URL of a source")
_Url = Annotated[str, Read(_url, type="string", format="uri")]
_Former = Items[Annotated[tuple[str, str], Read(_alias_and_meaning, type="array")]]


@part
@dataclass(frozen=True, slots=True)
class _Row:
    url: _Url
    root: Absent[Sha256] = None


class SourcesFile(StateDocument):
    """``sources.json``: the user's sources by alias, every place that was a registry, former meanings of aliases."""

    sources: Members[str, _Row]
    registries: Items[str] = ()
    former: _Former = ()


class AgreedSourcesFile(StateDocument):
    """``project-sources.json``: accepted sources and former meanings by project and alias; places of registries."""

    projects: Members[str, Members[str, _Row]]
    former: Members[str, _Former]
    registries: Items[str]


@dataclass(frozen=True, slots=True)
class _UserSources:
    sources: Mapping[str, Source]
    registries: frozenset[str] = frozenset()
    former: frozenset[tuple[str, str]] = frozenset()


def _user_sources(document: SourcesFile | None) -> _UserSources:
    if document is None:
        return _UserSources({EMBEDDED_ALIAS: Source(EMBEDDED_ALIAS, EMBEDDED_URL, root_fingerprint())})
    # The embedded registry has the root of the installed package, which may be newer than the file.
    sources = {
        alias: Source(alias, row.url, root_fingerprint() if row.url == EMBEDDED_URL else row.root)
        for alias, row in document.sources.items()
    }
    return _UserSources(sources, frozenset(document.registries) | _registries(sources), frozenset(document.former))


def _agreed(document: AgreedSourcesFile | None) -> AgreedSourcesFile:
    return document or AgreedSourcesFile(version=1, projects={}, former={}, registries=())


class Sources:
    """The sources of a user, kept in ``<state>`` and never read from a repository."""

    def __init__(self, home: Home, *, remember: bool = True) -> None:
        self._home, self._remember = home, remember
        path = os.path.join(home.state, "sources.json")
        self._file = StateFile(path, "the sources of a user", _HINT, SourcesFile, _user_sources)
        path, what = os.path.join(home.state, "project-sources.json"), "the sources of projects that a user agreed to"
        self._agreed_file = StateFile(path, what, _AGREED_HINT, AgreedSourcesFile, _agreed)
        self._roots = os.path.join(home.state, "roots")

    @cached_property
    def _listings(self) -> KeptListings:
        from skillhub.sources.history import KeptListings  # noqa: PLC0415 - only a command that lists a place

        return KeptListings(self._home, remember=self._remember)

    def mine(self) -> Mapping[str, Source]:
        """Return the user's own sources by alias; without a file, only the embedded registry, as ``github``."""
        return self._file.read().sources

    def all(self) -> Mapping[str, Source]:
        """Return every source that applies here, by alias: the user's own."""
        return self.mine()

    def get(self, alias: str, typed: str = "") -> Source:
        """Return the source of that alias, which the reference ``typed`` names; it may be a host before its port.

        Raises:
            NotFound: no source has this alias; the hint names the configured ones.
        """
        known = self.all()
        if alias not in known:
            add = as_command("skillhub", "source", "add", alias, "URL")
            asks = f"{add} adds it, skillhub install asks about those that the project names"
            hint = f"configured: {', '.join(known) or 'none'}; {asks}"
            if meant := did_you_mean(spelled_like(alias, known)):
                hint = f"{meant} skillhub source list shows yours"
            if alias == EMBEDDED_ALIAS:
                add = as_command("skillhub", "source", "add", alias, EMBEDDED_URL)
                hint = f"to add the embedded registry again: {add}"
            raise NotFound(f"no source is named {quote(alias)}", hint=reference.unknown(typed, hint).hint)
        return known[alias]

    def places(self) -> dict[str, PlaceRef]:
        """Return the references that aliases stand for, except those of registries and sites."""
        return {alias: each.place for alias, each in self.all().items() if each.place is not None}

    def kept_listing(self, source: Source) -> KeptListing | None:
        """Return the kept listing of a place; None if there is none."""
        return None if source.place is None else self._listings.read(source.url)

    def listed(self, source: Source, now: datetime, ask: Callable[[], Index], *, refresh: bool = False) -> Index:
        """Return the listing of a place: the kept one, unless it is old or the user asks to ``refresh`` it.

        Raises:
            SourceError, SecurityError, FormatError: as for ``KeptListings.listed``.
        """
        url = "" if isinstance(source.ref, Local) else url_of(source.ref, os.environ)
        return self._listings.listed(source.url, url, now, ask, refresh=refresh)

    def is_own(self, ref: Remote | Local) -> bool:
        """Return whether the user added this place as a source, at any revision, and so named it."""
        places = [each.place for each in self.mine().values()]
        return not isinstance(ref, Local) and any(_at(each) == _at(ref) for each in places if each is not None)

    def had_another(self, alias: str) -> bool:
        """Return whether the alias named another source before; the present one has no say over that one's skills."""
        meaning = _meaning(self.all().get(alias))
        return any(name == alias and was != meaning for name, was in self._former())

    def _former(self) -> frozenset[tuple[str, str]]:
        """Return the pairs of each alias and a former meaning of it."""
        return self._file.read().former

    def root(self, source: Source) -> bytes:
        """Return the trusted first root of the source.

        Raises:
            StateError: the file is missing, or does not have the pinned digest.
        """
        if source.embedded:
            return embedded_root()
        path = os.path.join(self._roots, f"{_root_of(source).hex}.json")
        data = files.read(path, ROOT_CAP)
        if data is None or Digest.of(data) != source.root:
            hint = f"remove the source {source.alias} and add it again with its fingerprint"
            raise StateError("the trusted root is missing or was changed", where=path, hint=hint)
        return data

    def metadata(self, source: Source) -> str:
        """Return the folder of a registry's trusted metadata."""
        return os.path.join(self._home.registries, _root_of(source).hex)

    def roots(self) -> list[Digest]:
        """Return the first root of each registry."""
        return [each.root for each in self.all().values() if each.root]

    def meant(self, alias: str, url: str, first_root: bytes | None, instead_of: Source | None = None) -> Source:
        """Return the source that ``add`` would add.

        Raises:
            UsageError, TrustDowngrade: as for ``_possible``.
            SourceMismatch: the alias names another source.
        """
        source = self._possible(alias, url, first_root)
        mine = self.mine()
        if mine.get(alias, source) not in (source, instead_of):
            hint = f"choose another name; to free this one: {as_command('skillhub', 'source', 'remove', alias)}"
            message = f"the name {alias} is taken by {mine[alias].locked()}; it cannot also name {source.locked()}"
            raise SourceMismatch(message, hint=hint)
        return source

    def _possible(self, alias: str, url: str, first_root: bytes | None, named_by: Who = "person") -> Source:
        """Return a source with this alias, URL and root.

        Raises:
            UsageError: the alias or the URL is invalid, or the root is that of the embedded registry, whose keys are
                public.
            TrustDowngrade: the source would be a site without metadata, and its place was a registry before.
        """
        check(alias, url)
        root_digest = Digest.of(first_root) if first_root is not None else None
        source = Source(alias, url.rstrip("/") or url, root_digest, named_by)
        if source.root == root_fingerprint() and not source.embedded:
            raise UsageError("that is the root of the embedded registry, whose keys are public test keys")
        known = self._file.read().registries, self._agreed_file.read().registries
        is_site = source.root is None and source.place is None
        if is_site and any(_url_key(source.url) in registries for registries in known):
            message = "expected a registry, as before, found a site without metadata"
            raise errors.TrustDowngrade(message, where=source.url, hint="it may have been removed; ask its operator")
        return source

    def add(self, alias: str, url: str, first_root: bytes | None, instead_of: Source | None = None) -> Source:
        """Add a registry, pinned by its first root, or a source without one; to add it again changes nothing.

        Args:
            alias: The user's name for the source.
            url: Its base URL, or the full reference of a place.
            first_root: The first root of a registry; None for all other kinds.
            instead_of: The source that the alias may name now, and no longer names afterwards.

        Raises:
            UsageError, SourceMismatch, TrustDowngrade: as for ``meant``.
        """
        self.meant(alias, url, first_root, instead_of)  # refuse before the first change, even before the lock file
        with self._file.locked():
            source = self.meant(alias, url, first_root, instead_of)
            self._keep_root(source, first_root)
            self._write({**self.mine(), alias: source}, instead_of)
        return source

    def _keep_root(self, source: Source, first_root: bytes | None) -> None:
        if first_root is not None and source.root is not None and not source.embedded:
            path = os.path.join(self._roots, f"{source.root.hex}.json")
            files.write_atomic(path, first_root, mode=0o600)

    def remove(self, alias: str) -> Source:
        """Remove the source from the user's sources and from those of all projects; its installed skills stay.

        Raises:
            NotFound: no source has this alias.
        """
        self.get(alias)
        with self._file.locked():
            gone = self.get(alias)
            self._write({name: source for name, source in self.mine().items() if name != alias}, gone)
        self._forget(gone)
        if all(each.url != gone.url for each in self.mine().values()):
            self._listings.forget(gone.url)
        return gone

    def _forget(self, gone: Source, project: str | None = None) -> None:
        """Remove the agreements to that source under its alias: in one project, or in all."""

        def rest() -> Mapping[str, Mapping[str, _Row]]:
            projects = {key: {**rows} for key, rows in self._agreed_file.read().projects.items()}
            for key, rows in projects.items():
                row = rows.get(gone.alias)
                if row and project in (None, key) and gone.is_meant(_locked(row)):
                    del rows[gone.alias]
            return projects

        if rest() != self._agreed_file.read().projects:
            with self._agreed_file.locked():
                self._write_agreed(rest())

    def _write(self, sources: Mapping[str, Source], gone: Source | None = None) -> None:
        known = self._file.read()
        former = known.former | ({(gone.alias, _meaning(gone))} if gone else frozenset())
        registries = known.registries | _registries(sources)
        self._file.write(former=tuple(sorted(former)), registries=tuple(sorted(registries)), sources=_rows(sources))

    def _write_agreed(self, projects: Mapping[str, Mapping[str, _Row]], registry: str | None = None) -> None:
        """Write the agreements, and add those that no longer hold to the former meanings."""
        known = self._agreed_file.read()
        former = {key: {*pairs} for key, pairs in known.former.items()}
        for key, rows in known.projects.items():
            gone = {alias: row for alias, row in rows.items() if projects[key].get(alias) != row}
            former.setdefault(key, set()).update((alias, row.root or row.url) for alias, row in gone.items())
        rows_by_project = {key: _rows(rows) for key, rows in sorted(projects.items()) if rows}
        meanings = {key: tuple(sorted(pairs)) for key, pairs in sorted(former.items()) if pairs}
        registries = {*known.registries, *([registry] if registry else ())}
        self._agreed_file.write(projects=rows_by_project, former=meanings, registries=tuple(sorted(registries)))


class ProjectSources(Sources):
    """The sources that apply in one project: the user's own, and those that it proposes and the user accepted.

    An agreement is bound to the user, the project, the alias, the URL and the root. It holds as long as lock and
    intent of the project name the same source, and in no other project. ``project`` is the ``key`` of a ``Project``,
    and ``proposed`` its ``proposals``; without ``remember`` no listing is kept.
    """

    def __init__(
        self, home: Home, project: str, proposed: Callable[[], Mapping[str, LockedSource]], *, remember: bool = True
    ) -> None:
        super().__init__(home, remember=remember)
        self._project = project
        self._proposed_by_project = proposed
        self._proposed_here: Mapping[str, Source] | None = None
        self._adopted: dict[str, tuple[Source, bytes | None]] = {}

    def all(self) -> Mapping[str, Source]:
        """Return every source that applies here, by alias: the user's own, and the accepted ones of the project."""
        if self._proposed_here is None:
            self._proposed_here = self._proposed()
        mine = self.mine()
        return {**mine, **{alias: each for alias, each in self._proposed_here.items() if alias not in mine}}

    def _agreed_rows(self) -> Mapping[str, _Row]:
        return self._agreed_file.read().projects.get(self._project, {})

    def _proposed(self) -> Mapping[str, Source]:
        agreed = self._agreed_rows()
        if not agreed:
            return {}
        try:
            wanted = self._proposed_by_project()
        except (FormatError, StateError, SourceMismatch):  # the reader of these files reports it; no proposal applies
            return {}
        return {
            alias: Source(alias, row.url, row.root, "repository")
            for alias, row in agreed.items()
            if alias in wanted and is_proposed(_locked(row), wanted[alias])
            if row.url != EMBEDDED_URL or row.root == root_fingerprint()
        }

    def _former(self) -> frozenset[tuple[str, str]]:
        former = self._agreed_file.read().former.get(self._project, ())
        now = {(alias, row.root or row.url) for alias, row in self._agreed_rows().items()}
        return super()._former().union(former, now)

    def proposed(self, alias: str, url: str, first_root: bytes | None) -> Source:
        """Return the source that ``adopt`` would adopt.

        Raises:
            UsageError, TrustDowngrade: as for ``meant``.
        """
        return self._possible(alias, url, first_root, "repository")

    def adopt(self, alias: str, url: str, first_root: bytes | None) -> Source:
        """Accept a source that the project proposes, for this project alone; ``keep`` writes the agreement.

        Raises:
            UsageError, TrustDowngrade: as for ``proposed``.
        """
        source = self.proposed(alias, url, first_root)
        self._adopted[alias] = source, first_root
        self._proposed_here = {**self.all(), alias: source}
        return source

    def keep(self) -> None:
        """Write the agreements to the adopted sources; to write them again changes nothing.

        Raises:
            StateError: the disk refuses.
        """
        for alias, (source, first_root) in self._adopted.items():
            self._keep_root(source, first_root)
            is_registry = source.root is not None and not source.embedded
            key = _url_key(source.url) if is_registry else None
            row = _Row(source.url, source.root)
            if self._agreed_rows().get(alias) != row:
                with self._agreed_file.locked():
                    projects = self._agreed_file.read().projects
                    rows = {**projects.get(self._project, {}), alias: row}
                    self._write_agreed({**projects, self._project: rows}, key)
        self._adopted.clear()

    def root(self, source: Source) -> bytes:
        """Return the trusted first root of the source, as ``Sources.root`` does."""
        known = (data for each, data in self._adopted.values() if each.root == source.root)
        return next(known, None) or super().root(source)

    def remove(self, alias: str) -> Source:
        """Remove the source with this alias: the user's own, else the one accepted for the project.

        Raises:
            NotFound: no source has this alias.
        """
        gone = self.get(alias)
        if alias in self.mine():
            gone = super().remove(alias)
        else:
            self._forget(gone, self._project)
        self._proposed_here = None
        return gone


def _meaning(source: Source | None) -> str:
    """Return the identity of a source: a registry's first root; of all others and the embedded one the URL."""
    if source is None:
        return ""
    return source.url if source.embedded or source.root is None else source.root


def _at(ref: Remote | Local) -> tuple[str, str]:
    """Return the kind and the URL of a place; the same URL with another kind is another place."""
    url = "" if isinstance(ref, Local) else canonical(url_of(ref, os.environ)).removesuffix(".git")
    return PLACE_KIND.get(type(ref), "site"), url  # type: ignore[arg-type]  # a site is none of them


def _root_of(source: Source) -> Digest:
    if source.root is None:
        raise AssertionError("a site that is not a registry has no root")
    return source.root


def _locked(source: Source | _Row) -> LockedSource:
    return LockedSource(kind="registry" if source.root else "well-known", url=source.url, root=source.root)


def _rows(sources: Mapping[str, Source | _Row]) -> dict[str, _Row]:
    return {alias: _Row(sources[alias].url, sources[alias].root) for alias in sorted(sources)}


def _registries(sources: Mapping[str, Source]) -> frozenset[str]:
    return frozenset(_url_key(each.url) for each in sources.values() if each.root and not each.embedded)


def _url_key(url: str) -> str:
    """Return the normalized URL without its scheme and default port, equal for all spellings of a URL."""
    found = reference.parse(url)
    if found is None:
        raise AssertionError("the URL of a source was checked when it was read")
    port = "" if found.port in (80, 443) else f":{found.port}"
    return f"{found.host.rstrip('.')}{port}{normpath('/' + unquote(found.path).lstrip('/')).rstrip('/')}"
