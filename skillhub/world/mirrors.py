"""Mirrors: other places for the same bytes. They change where bytes come from and never what is trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import unquote

from skillhub.errors import UnsafeTransfer
from skillhub.world.fetch import Answer, Web, whole
from skillhub.world.hop import Hop


def mirrored(web: Web, mirrors: Mapping[str, str]) -> Web:
    """Return ``web``, but that it asks the mirror of each URL that has one."""
    return Mirrored(web, mirrors) if mirrors else web


class Mirrored:
    """A ``Web`` that asks elsewhere for what is below some URLs; its answers bear the URL that they stand for.

    Args:
        web: Who asks.
        mirrors: What to put in place of the beginning of a URL; neither ends with a slash. A person configured
            them, so that a mirror may be where no document can lead: in a private network.
    """

    def __init__(self, web: Web, mirrors: Mapping[str, str]) -> None:
        self._web = web
        self._mirrors = sorted(mirrors.items(), key=lambda pair: len(pair[0]), reverse=True)

    def get(self, url: str, *, cap: int, named_by: str | None = None) -> Answer:
        """Return what is at ``url``, as ``Fetcher.get`` promises.

        Raises:
            NotFound, SourceError, WrongBytes, UnsafeTransfer: see there.
        """
        return whole(self.ask(url, cap=cap, named_by=named_by))

    def ask(
        self, url: str, *, cap: int, named_by: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Return what the mirror answers, or without one the server itself, as ``Web.ask`` promises.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: see there.
        """
        hop = Hop.parse(url)
        asked = f"{hop.scheme}://{hop.authority}{hop.target}"
        for base, mirror in self._mirrors:
            if asked == base or asked.startswith((base + "/", base + "?")):
                _refuse_dots(url)
                target = mirror + asked[len(base) :]
                # Who we are to the one is nobody else's business.
                told = {
                    name: value for name, value in (headers or {}).items() if name.lower() != "authorization"
                }
                answer = self._web.ask(target, cap=cap, named_by=mirror, headers=told)
                return replace(answer, url=_back(answer.url, mirror, base) or url)
        return self._web.ask(url, cap=cap, named_by=named_by, headers=headers)


def _refuse_dots(url: str) -> None:
    """Refuse a path that would lead out of the mirror, to what else its host has for those inside."""
    path = unquote(url.partition("#")[0].partition("?")[0])
    if any(part in (".", "..") for part in path.replace("\\", "/").split("/")):
        raise UnsafeTransfer("expected a path without dot segments", where=url)


def _back(url: str, mirror: str, base: str) -> str | None:
    """Return the URL that ``url`` of a mirror stands for; None if a redirect led out of the mirror."""
    return (
        base + url[len(mirror) :] if url == mirror or url.startswith((mirror + "/", mirror + "?")) else None
    )
