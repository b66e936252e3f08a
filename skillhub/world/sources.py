"""The registries a user has, each pinned by the root that was trusted when it was added."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from skillhub.errors import NotFound, SourceMismatch, StateError, UsageError
from skillhub.model.digest import Digest
from skillhub.model.json import strict_json
from skillhub.model.lock import LockedSource
from skillhub.model.ref import RESERVED_ALIASES, is_alias
from skillhub.model.text import quote
from skillhub.world import files
from skillhub.world.embedded import EMBEDDED_URL, root, root_fingerprint
from skillhub.world.home import Home
from skillhub.world.last_seen import LastSeen

_CAP = 1 << 20
EMBEDDED_ALIAS = "github"


@dataclass(frozen=True, slots=True)
class Source:
    """A registry under the alias that this user gave it.

    Attributes:
        url: Its base, or ``embedded:`` for the one inside the package.
        root: SHA-256 of its ``1.root.json``; a registry that starts over is another source.
    """

    alias: str
    url: str
    root: Digest

    @property
    def embedded(self) -> bool:
        """Whether it is the one that ships inside the package."""
        return self.url == EMBEDDED_URL

    def locked(self) -> LockedSource:
        """Return what the lock says of it."""
        return LockedSource(kind="registry", url=self.url, root=self.root)


def check(alias: str, url: str) -> None:
    """Return if a source may have this alias and this URL, neither of which has to be looked up for that.

    Raises:
        UsageError: one of them is none; a password in the URL is not shown.
    """
    if not is_alias(alias):
        words = ", ".join(sorted(RESERVED_ALIASES))
        hint = f"lowercase letters, digits and single hyphens, at most 64; not {words}"
        raise UsageError(f"{quote(alias)} cannot name a source", hint=hint)
    scheme, _, rest = url.partition("://")
    if "@" in re.split(r"[/?#\\]", rest)[0]:
        raise UsageError("a source's URL names no user and no password", hint="locks would carry them")
    if scheme.lower() not in ("https", "http"):
        raise UsageError(
            "expected the URL of a registry to begin with https://", hint="or http:// on loopback"
        )


class Sources:
    """All sources of a user, kept in ``<state>``, never read from a repository."""

    def __init__(self, home: Home) -> None:
        self._path = os.path.join(home.state, "sources.json")
        self._roots = os.path.join(home.state, "roots")
        self._metadata = os.path.join(home.state, "tuf")
        self._last_seen: dict[Digest, LastSeen] = {}
        self._parsed: tuple[bytes | None, Mapping[str, Source]] = (None, {})

    def all(self) -> Mapping[str, Source]:
        """Return every source by alias; on first use that is the embedded registry, as ``github``."""
        data = files.read(self._path, _CAP)
        if data is None:
            return {EMBEDDED_ALIAS: Source(EMBEDDED_ALIAS, EMBEDDED_URL, root_fingerprint())}
        if data != self._parsed[0]:  # asked for once for each skill of a command
            self._parsed = data, self._parse(data)
        return self._parsed[1]

    def _parse(self, data: bytes) -> Mapping[str, Source]:
        try:
            rows = strict_json(data, self._path, _CAP)["sources"]  # type: ignore[index]
            found = {
                alias: Source(alias, row["url"], Digest.parse(row["root"])) for alias, row in rows.items()
            }
        except (KeyError, TypeError, AttributeError) as error:
            raise StateError("expected the sources of a user", where=self._path) from error
        # The embedded registry's root changes with the package that carries it.
        return {
            alias: Source(alias, EMBEDDED_URL, root_fingerprint()) if source.embedded else source
            for alias, source in found.items()
        }

    def get(self, alias: str) -> Source:
        """Return the source of that alias.

        Raises:
            NotFound: there is none; the hint names those there are.
        """
        known = self.all()
        if alias not in known:
            hint = f"configured: {', '.join(known) or 'none'}; add one with skillhub source add"
            raise NotFound(f"no source is named {quote(alias)}", hint=hint)
        return known[alias]

    def root(self, source: Source) -> bytes:
        """Return the trusted first root of the source.

        Raises:
            StateError: the file is gone or no longer has the digest it was trusted by.
        """
        if source.embedded:
            return root()
        path = os.path.join(self._roots, f"{source.root.hex}.json")
        data = files.read(path, _CAP)
        if data is None or Digest.of(data) != source.root:
            hint = f"remove the source {source.alias} and add it again with its fingerprint"
            raise StateError("the trusted root is gone or was changed", where=path, hint=hint)
        return data

    def metadata(self, root: Digest) -> str:
        """Return the folder of what is trusted of the registry with this first root."""
        return os.path.join(self._metadata, root.hex)

    def last_seen(self, root: Digest) -> LastSeen:
        """Return what the registry with this first root last said; read once, when it is first asked for."""
        return self._last_seen.setdefault(root, LastSeen(self.metadata(root)))

    def add(self, alias: str, url: str, first_root: bytes) -> Source:
        """Trust the registry at ``url`` by its first root; the same again changes nothing.

        Raises:
            UsageError: alias or URL are none, or the root is the embedded registry's, whose keys are public.
            SourceMismatch: the alias is taken by another registry.
        """
        check(alias, url)
        source = Source(alias, url.rstrip("/"), Digest.of(first_root))
        if source.root == root_fingerprint():
            raise UsageError("that is the root of the embedded registry, whose keys are public test keys")
        known = dict(self.all())
        if alias in known and known[alias] != source:
            raise SourceMismatch(
                f"the source {alias} is {known[alias].url} with root {known[alias].root}; "
                f"found {source.url} with root {source.root}",
                hint=f"choose another name, or skillhub source remove {alias} first",
            )
        files.write_atomic(os.path.join(self._roots, f"{source.root.hex}.json"), first_root, mode=0o600)
        self._write(known | {alias: source})
        return source

    def remove(self, alias: str) -> Source:
        """Forget the source; what was installed from it stays.

        Raises:
            NotFound: there is none of that alias.
        """
        gone = self.get(alias)
        self._write({name: source for name, source in self.all().items() if name != alias})
        return gone

    def restore(self, source: Source) -> None:
        """Put back a source that was removed and whose trusted root is still here."""
        self._write({**self.all(), source.alias: source})

    def _write(self, sources: Mapping[str, Source]) -> None:
        rows = {alias: {"root": source.root, "url": source.url} for alias, source in sources.items()}
        text = json.dumps({"sources": rows, "version": 1}, indent=2, sort_keys=True) + "\n"
        files.write_atomic(self._path, text.encode(), mode=0o600)
