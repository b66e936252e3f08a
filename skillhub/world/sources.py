"""The sources a user has: registries, each pinned by the root that was trusted when it was added, and sites."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from skillhub.errors import NotFound, SourceMismatch, StateError, TrustDowngrade, UsageError
from skillhub.model.dataclass import dataclass
from skillhub.model.digest import Digest
from skillhub.model.lock import LockedSource
from skillhub.model.syntax.decode import array, mapping, record, text, text_that, wrong
from skillhub.model.text import RESERVED_ALIASES, is_alias, quote
from skillhub.model.url import names_user, parse
from skillhub.world import files
from skillhub.world.embedded import EMBEDDED_URL, root, root_fingerprint
from skillhub.world.home import Home
from skillhub.world.last_seen import LastSeen
from skillhub.world.state_file import StateFile

_ROOT_CAP = 1 << 20
_HINT = "put the file back, or move it away and add your sources again"
EMBEDDED_ALIAS = "github"


@dataclass(frozen=True, slots=True)
class Source:
    """A registry, or a well-known site that is none, under the alias that this user gave it.

    Attributes:
        url: Its base, or ``embedded:`` for the one inside the package.
        root: SHA-256 of its ``1.root.json``, for a registry that starts over is another source; None of a site.
    """

    alias: str
    url: str
    root: Digest | None

    @property
    def embedded(self) -> bool:
        """Whether it is the one that ships inside the package."""
        return self.url == EMBEDDED_URL

    def is_meant(self, locked: LockedSource) -> bool:
        """Say whether a lock means this source: a registry is known by its root alone, a site by its URL."""
        if self.root is None or locked.root is None:
            return self.locked() == locked
        return self.root == locked.root

    def locked(self) -> LockedSource:
        """Return what the lock says of it."""
        return LockedSource(kind="registry" if self.root else "well-known", url=self.url, root=self.root)


def check(alias: str, url: str) -> None:
    """Return if a source may have this alias and this URL, neither of which has to be looked up for that.

    Raises:
        UsageError: one of them is none; a password in the URL is not shown.
    """
    if not is_alias(alias):
        words = ", ".join(sorted(RESERVED_ALIASES))
        hint = f"lowercase letters, digits and single hyphens, at most 64; not {words}"
        raise UsageError(f"{quote(alias)} cannot name a source", hint=hint)
    if url == EMBEDDED_URL:
        if alias != EMBEDDED_ALIAS:
            raise UsageError(f"the registry inside the package is called {EMBEDDED_ALIAS}")
        return
    if names_user(url):
        raise UsageError("a source's URL names no user and no password", hint="locks would carry them")
    scheme, _, rest = url.partition("://")
    if scheme.lower() not in ("https", "http"):
        raise UsageError("expected the URL of a source to begin with https://", hint="or http:// on loopback")
    if re.search(r"[?#]|/\.well-known(/|$)|\.json$", rest) or not _is_url(url):
        # A registry would not be found to be one from its index.
        raise UsageError(
            "expected the URL of the site itself", hint="its folder, without .well-known and no ?"
        )


def _is_url(url: str) -> bool:
    found = parse(url)
    return found is not None and found.host != ""


@dataclass(frozen=True, slots=True)
class _Kept:
    """The file: the sources by alias, the URL of each that was ever a registry, and what aliases meant before."""

    sources: Mapping[str, Source]
    registries: frozenset[str] = frozenset()
    former: frozenset[tuple[str, str]] = frozenset()


class Sources:
    """All sources of a user, kept in ``<state>``, never read from a repository."""

    def __init__(self, home: Home) -> None:
        self._file = StateFile(os.path.join(home.state, "sources.json"), "the sources of a user", _HINT)
        self._roots = os.path.join(home.state, "roots")
        self._metadata = os.path.join(home.state, "tuf")
        self._last_seen: dict[Digest, LastSeen] = {}

    def all(self) -> Mapping[str, Source]:
        """Return every source by alias; on first use that is the embedded registry, as ``github``."""
        return self._kept().sources

    def _kept(self) -> _Kept:
        return self._file.read(_parse)

    def get(self, alias: str) -> Source:
        """Return the source of that alias.

        Raises:
            NotFound: there is none; the hint names those there are.
        """
        known = self.all()
        if alias not in known:
            hint = (
                f"configured: {', '.join(known) or 'none'}; skillhub source add adds one, "
                "skillhub install asks about those that the project names"
            )
            if alias == EMBEDDED_ALIAS:
                hint = f"to bring back the one inside the package: skillhub source add {alias} {EMBEDDED_URL}"
            raise NotFound(f"no source is named {quote(alias)}", hint=hint)
        return known[alias]

    def had_another(self, alias: str) -> bool:
        """Say whether the alias was another source's before, of whose skills this one has no say."""
        kept = self._kept()
        return any(name == alias and was != _meaning(kept.sources.get(alias)) for name, was in kept.former)

    def root(self, source: Source) -> bytes:
        """Return the trusted first root of the source.

        Raises:
            StateError: the file is gone or no longer has the digest it was trusted by.
        """
        if source.embedded:
            return root()
        if source.root is None:
            raise AssertionError("a site that is no registry has no root")
        path = os.path.join(self._roots, f"{source.root.hex}.json")
        data = files.read(path, _ROOT_CAP)
        if data is None or Digest.of(data) != source.root:
            hint = f"remove the source {source.alias} and add it again with its fingerprint"
            raise StateError("the trusted root is gone or was changed", where=path, hint=hint)
        return data

    def metadata(self, source: Source) -> str:
        """Return the folder of what is trusted of a registry."""
        if source.root is None:
            raise AssertionError("a site that is no registry has no metadata")
        return os.path.join(self._metadata, source.root.hex)

    def last_seen(self, root: Digest) -> LastSeen:
        """Return what the registry with this first root last said; read once, when it is first asked for."""
        return self._last_seen.setdefault(root, LastSeen(os.path.join(self._metadata, root.hex)))

    def meant(
        self, alias: str, url: str, first_root: bytes | None, instead_of: Source | None = None
    ) -> Source:
        """Return what ``add`` would add.

        Raises:
            UsageError: alias or URL are none, or the root is the embedded registry's, whose keys are public.
            SourceMismatch: the alias is taken by another source.
            TrustDowngrade: it is to be a site that nobody vouches for, and was a registry before.
        """
        check(alias, url)
        source = Source(alias, url.rstrip("/"), Digest.of(first_root) if first_root is not None else None)
        if source.root == root_fingerprint() and not source.embedded:
            raise UsageError("that is the root of the embedded registry, whose keys are public test keys")
        kept = self._kept()
        if source.root is None and _place(source.url) in kept.registries:
            raise TrustDowngrade(
                "expected a registry, as it was one before, found a site without metadata",
                where=source.url,
                hint="somebody may have taken the metadata away; ask whoever runs it",
            )
        if kept.sources.get(alias, source) not in (source, instead_of):
            raise SourceMismatch(
                f"the source {alias} is {kept.sources[alias].locked()}; found {source.locked()}",
                hint=f"choose another name, or skillhub source remove {alias} first",
            )
        return source

    def add(self, alias: str, url: str, first_root: bytes | None, instead_of: Source | None = None) -> Source:
        """Trust the registry at ``url`` by its first root, or take a site that has none; the same again is no change.

        Args:
            alias: What the user calls it.
            url: Its base.
            first_root: Its first root; None for a site.
            instead_of: What the alias may mean until now, and then no longer does.

        Raises:
            UsageError, SourceMismatch, TrustDowngrade: as ``meant``.
        """
        self.meant(
            alias, url, first_root, instead_of
        )  # what is refused leaves nothing behind, not even a lock file
        with self._file.locked():
            source = self.meant(alias, url, first_root, instead_of)
            if first_root is not None and source.root is not None and not source.embedded:
                path = os.path.join(self._roots, f"{source.root.hex}.json")
                files.write_atomic(path, first_root, mode=0o600)
            self._write({**self.all(), alias: source}, instead_of)
        return source

    def remove(self, alias: str) -> Source:
        """Forget the source; what was installed from it stays.

        Raises:
            NotFound: there is none of that alias.
        """
        self.get(alias)
        with self._file.locked():
            gone = self.get(alias)
            self._write({name: source for name, source in self.all().items() if name != alias}, gone)
        return gone

    def _write(self, sources: Mapping[str, Source], gone: Source | None = None) -> None:
        rows = {alias: _row(source) for alias, source in sorted(sources.items())}
        kept = self._kept()
        were = kept.registries | _registries(sources.values())
        former = kept.former | ({(gone.alias, _meaning(gone))} if gone else frozenset())
        self._file.write({"former": sorted(former), "registries": sorted(were), "sources": rows})


def _meaning(source: Source | None) -> str:
    """Return who vouches for what is below an alias: the one in the package, a registry's root, or a site alone."""
    if source is None:
        return ""
    return source.url if source.embedded or source.root is None else source.root


def _row(source: Source) -> dict[str, str]:
    return {"url": source.url, **({"root": source.root} if source.root else {})}


def _registries(sources: Iterable[Source]) -> frozenset[str]:
    return frozenset(_place(each.url) for each in sources if each.root and not each.embedded)


def _place(url: str) -> str:
    """Return what two spellings of one URL have in common, whatever the scheme."""
    found = parse(url)
    if found is None:
        raise AssertionError("the URL of a source was checked when it was read")
    port = "" if found.port in (80, 443) else f":{found.port}"
    return f"{found.host.rstrip('.')}{port}{unquote(found.path).rstrip('/')}"


def _former(value: object) -> tuple[str, str]:
    pair = array(text)(value)
    return pair if len(pair) == 2 else wrong("an alias and what it meant", value)


_URL = text_that(lambda url: url == EMBEDDED_URL or _is_url(url), "the URL of a source")
_SOURCE = record({"url": _URL}, {"root": Digest.parse})
_READ = record({"sources": mapping(text, _SOURCE)}, {"registries": array(text), "former": array(_former)})


def _parse(document: object) -> _Kept:
    if document is None:
        return _Kept({EMBEDDED_ALIAS: Source(EMBEDDED_ALIAS, EMBEDDED_URL, root_fingerprint())})
    found = _READ(document)
    sources = {alias: _source(alias, **row) for alias, row in found["sources"].items()}
    registries = frozenset(found.get("registries", ())) | _registries(sources.values())
    return _Kept(sources, registries, frozenset(found.get("former", ())))


def _source(alias: str, url: str, root: Digest | None = None) -> Source:
    # The root of the one inside the package changes with the package that carries it.
    return Source(alias, url, root_fingerprint() if url == EMBEDDED_URL else root)
