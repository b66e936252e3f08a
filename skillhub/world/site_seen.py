"""What sites were seen to offer before, in ``<state>``: no site goes back to a weaker promise unnoticed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, ClassVar

from skillhub.errors import TrustDowngrade
from skillhub.model.syntax.document import Items, Members, Sha256, integer, part
from skillhub.model.url import holds_secret
from skillhub.world.state_file import StateDocument, StateFile

# A site could otherwise go back to a weaker promise.
_HINT = "put the file back; without it no site is known to have offered more before"
_COPIES_MAX = 1000


@part
@dataclass(frozen=True, slots=True)
class Copy:
    """A document that was fetched: its bytes are in the cache, and what proves them is here.

    Attributes:
        url: Where it was in the end.
        fresh_until: Until when its server vouches for it without being asked, in seconds since the epoch.
    """

    NEEDED: ClassVar = ("etag", "modified", "fresh_until")

    url: str
    digest: Sha256
    etag: str = ""
    modified: str = ""
    fresh_until: Annotated[int, integer("a number of seconds")] = 0


@dataclass(frozen=True, slots=True)
class _Known:
    """The file: who has offered digests, and ``copies`` by the URL that was asked for, newest last.

    Attributes:
        sites: By origin and path.
        origins: Where nobody kept of which of its sites that was: then it was all of them.
    """

    origins: tuple[str, ...] = ()
    copies: Mapping[str, Copy] = field(default_factory=dict)
    sites: tuple[str, ...] = ()


class _File(StateDocument):
    origins: Items[str]
    copies: Members[str, Copy]
    sites: Items[str] = ()


def _parse(document: _File | None) -> _Known:
    if document is None:
        return _Known()
    # An earlier version noted any URL; what is not read is gone when the file is written next.
    kept = {
        url: copy
        for url, copy in document.copies.items()
        if not (holds_secret(url) or holds_secret(copy.url))
    }
    return _Known(document.origins, kept, document.sites)


class Seen:
    """One small file, parsed once for a command and written only when something is new.

    Args:
        state: The folder that it is in.
        remember: Whether what is new is written; what a command that only looks learns is for that command alone.
    """

    def __init__(self, state: str, *, remember: bool = True) -> None:
        path = os.path.join(state, "sites.json")
        self._file = StateFile(path, "what sites were seen to offer", _HINT, _File)
        self._remember = remember
        self._learned: _Known | None = None

    def copy(self, url: str) -> Copy | None:
        """Return what is known of the document at ``url``."""
        return self._read().copies.get(url)

    def keep(self, url: str, copy: Copy | None) -> None:
        """Note what is known of the document at ``url``; None forgets it. A URL that holds a credential is not noted.

        Raises:
            StateError: the disk refuses.
        """
        if holds_secret(url) or (copy and holds_secret(copy.url)):
            copy = None
        if self.copy(url) != copy:
            self._change(lambda known: replace(known, copies=_put(known.copies, url, copy)))

    def promised(self, site: str) -> None:
        """Note that this site, an origin and a path from its slash on, offers digests.

        Raises:
            StateError: the disk refuses.
        """
        if site not in self._read().sites:
            self._change(lambda known: replace(known, sites=tuple(dict.fromkeys((*known.sites, site)))))

    def refuse_weaker(self, sites: Iterable[str], where: str) -> None:
        """Refuse what has no digests, if one of these sites was seen to offer them.

        Raises:
            TrustDowngrade: one was.
        """
        known = self._read()
        for site in sites:
            if site in known.sites or _origin(site) in known.origins:
                raise TrustDowngrade(
                    f"expected skills with digests, as {site} offered them before, found them without",
                    where=where,
                    hint="somebody may have taken the index away; ask whoever runs the site",
                )

    def _read(self) -> _Known:
        return self._learned or self._file.read(_parse)

    def _change(self, change: Callable[[_Known], _Known]) -> None:
        if not self._remember:
            self._learned = change(self._read())
            return
        with self._file.locked():
            self._file.write(asdict(change(self._read())))


def _origin(site: str) -> str:
    return "/".join(site.split("/")[:3])


def _put(copies: Mapping[str, Copy], url: str, copy: Copy | None) -> dict[str, Copy]:
    kept = {each: row for each, row in copies.items() if each != url}
    if copy is not None:
        kept[url] = copy
    return dict(list(kept.items())[-_COPIES_MAX:])
