"""Mirrors: other places for the same bytes. They change where bytes come from and never what is trusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from skillhub.errors import UnsafeTransfer
from skillhub.model.dataclass import replace
from skillhub.world.fetch import Answer, Web
from skillhub.world.hop import Hop


def mirrored(web: Web, mirrors: Mapping[str, str]) -> Web:
    """Return ``web``, but that it asks the mirror of each URL that has one."""
    return Mirrored(web, mirrors) if mirrors else web


class Mirrored(Web):
    """A ``Web`` that asks elsewhere for what is below some URLs; its answers bear the URL that they stand for.

    Args:
        web: Who asks.
        mirrors: What to put in place of the beginning of a URL; neither ends with a slash. A person configured
            them, so that a mirror may be where no document can lead: in a private network.
    """

    def __init__(self, web: Web, mirrors: Mapping[str, str]) -> None:
        self._web = web
        self._mirrors = mirrors

    def ask(
        self, url: str, *, cap: int, named_by: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Return what the mirror answers, or without one the server itself, as ``Web.ask`` promises.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: see there.
        """
        hop = Hop.parse(url)
        asked = f"{hop.scheme}://{hop.authority}{hop.target}"
        base = base_of(asked, self._mirrors)
        if base is None:
            return self._web.ask(url, cap=cap, named_by=named_by, headers=headers)
        _refuse_dots(url)
        mirror = self._mirrors[base]
        # Who we are to the one is nobody else's business.
        sent = (headers or {}).items()
        told = {name: value for name, value in sent if name.lower() != "authorization" or not value}
        answer = self._web.ask(mirror + asked[len(base) :], cap=cap, named_by=mirror, headers=told)
        is_there = base_of(answer.url, [mirror]) is not None  # else a redirect led out of the mirror
        return replace(answer, url=base + answer.url[len(mirror) :] if is_there else url)


def base_of(url: str, bases: Iterable[str]) -> str | None:
    """Return the longest of these, none of which ends with a slash, that ``url`` is or lies below."""
    found = [base for base in bases if url == base or url.startswith((base + "/", base + "?"))]
    return max(found, key=len, default=None)


def _refuse_dots(url: str) -> None:
    """Refuse a path that would lead out of the mirror, to what else its host has for those inside."""
    path = unquote(url.partition("#")[0].partition("?")[0])
    if any(part in (".", "..") for part in path.replace("\\", "/").split("/")):
        raise UnsafeTransfer("expected a path without dot segments", where=url)
