"""Requests for a place that only a repository names, and no person."""

from __future__ import annotations

from collections.abc import Mapping

from skillhub.errors import UnsafeTransfer
from skillhub.model.text import as_command
from skillhub.world.fetch import Answer, Web
from skillhub.world.named_by import PERSON, NamedBy


class Unnamed(Web):
    """A ``Web`` for such a place: whatever is asked for there, a repository has named it.

    Args:
        web: Who asks.
        place: What a person would give to ``install``, for the hint.
        hint: How a person names the place themselves, where it is not by that.
    """

    def __init__(self, web: Web, place: str, hint: str | None = None) -> None:
        self._web = web
        self._hint = (
            hint
            or f"only this repository names it; if it is meant: {as_command('skillhub', 'install', place)}"
        )

    def ask(
        self, url: str, *, cap: int, named_by: NamedBy = PERSON, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Return what the server answers, as ``Web.ask`` promises.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: see there.
        """
        try:
            return self._web.ask(url, cap=cap, named_by=NamedBy("repository", named_by.site), headers=headers)
        except UnsafeTransfer as error:
            error.hint = error.hint or self._hint
            raise
