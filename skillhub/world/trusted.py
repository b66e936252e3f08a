"""Hosts that a person trusts by name: what an index or a repository names there is asked as if they had named it."""

from __future__ import annotations

from collections.abc import Mapping

from skillhub.errors import UnsafeTransfer
from skillhub.world.fetch import Answer, Web
from skillhub.world.settings import Settings
from skillhub.world.unnamed import is_nobody


class Trusting(Web):
    """A ``Web`` that goes where documents send it on trusted hosts, though they are in a private network.

    A redirect is none of theirs: it is judged like any other.

    Args:
        web: Who asks.
        settings: What this user has configured.
    """

    def __init__(self, web: Web, settings: Settings) -> None:
        self._web = web
        self._settings = settings

    def ask(
        self, url: str, *, cap: int, named_by: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Return what the server answers, as ``Web.ask`` promises.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: see there.
        """
        if named_by is not None and self._settings.trusts(url):
            named_by = None
        try:
            return self._web.ask(url, cap=cap, named_by=named_by, headers=headers)
        except UnsafeTransfer as error:
            if named_by and error.where == url and url.startswith("https:") and not is_nobody(named_by):
                error.hint = error.hint or "if that host is yours, name it in config.toml: trusted-hosts"
            raise
