"""What a person configured of the network: mirrors, and hosts that are trusted by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import unquote

from skillhub.errors import UnsafeTransfer
from skillhub.model.reference import base_of
from skillhub.net.fetch import Response, Web
from skillhub.net.settings import Settings
from skillhub.net.target import PERSON, Requester, RequestTarget


class Mirrors(Web):
    """A ``Web`` that asks where, and for whom, ``config.toml`` says.

    A mirror changes where bytes come from and never what is trusted: its answers bear the URL that they stand for. It
    may be where no document can lead, in a private network, and so may a trusted host: what a document names there is
    asked as if the person had named it. A redirect is none of theirs, and is judged like any other.

    Args:
        web: Who asks.
        settings: What this user has configured.
    """

    def __init__(self, web: Web, settings: Settings) -> None:
        self._web = web
        self._settings = settings

    def ask(
        self, url: str, *, cap: int, named_by: Requester = PERSON, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return what the mirror answers, or without one the server itself, as ``Web.ask`` promises.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: see there.
        """
        target = RequestTarget.parse(url)
        asked = f"{target.scheme}://{target.authority}{target.raw_path}"
        base = base_of(asked, self._settings.mirrors)
        if base is None:
            return self._directly(url, cap, named_by, headers)
        _refuse_dots(url)
        mirror = self._settings.mirrors[base]
        # Who we are to the one is nobody else's business.
        sent = (headers or {}).items()
        told = {name: value for name, value in sent if name.lower() != "authorization" or not value}
        answer = self._web.ask(mirror + asked[len(base) :], cap=cap, headers=told)
        is_there = base_of(answer.url, [mirror]) is not None  # else a redirect led out of the mirror
        return replace(answer, url=base + answer.url[len(mirror) :] if is_there else url)

    def _directly(self, url: str, cap: int, named_by: Requester, headers: Mapping[str, str] | None) -> Response:
        if self._settings.trusts(url):
            named_by = PERSON
        try:
            return self._web.ask(url, cap=cap, named_by=named_by, headers=headers)
        except UnsafeTransfer as error:
            if named_by.who == "site" and error.where == url and url.startswith("https:"):
                error.hint = error.hint or "if that host is yours, name it in config.toml: trusted-hosts"
            raise


def _refuse_dots(url: str) -> None:
    """Refuse a path that would lead out of the mirror, to what else its host has for those inside."""
    path = unquote(url.partition("#")[0].partition("?")[0])
    if any(part in (".", "..") for part in path.replace("\\", "/").split("/")):
        raise UnsafeTransfer("expected a path without dot segments", where=url)
