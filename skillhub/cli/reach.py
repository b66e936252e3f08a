"""Opens the places that are no registries; what each kind takes is imported when one is opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from skillhub.errors import NotFound, UsageError
from skillhub.model.ref import Local, Remote

if TYPE_CHECKING:
    from skillhub.cli.common import Common
    from skillhub.flows.ports import Place
    from skillhub.world.fetch import Fetcher


class Places:
    """Opens each place once for a command."""

    def __init__(self, common: Common, fetcher: Callable[[str], Fetcher]) -> None:
        self._common = common
        self._fetcher = fetcher
        self._open: dict[tuple[str, str | None], Place] = {}

    def __call__(self, ref: Remote | Local, pin: str | None = None) -> Place:
        """Return the place; with ``pin``, a full commit, as it was at that commit."""
        key = str(ref), pin
        if key not in self._open:
            self._open[key] = self._opened(ref, pin)
        return self._open[key]

    def _opened(self, ref: Remote | Local, pin: str | None) -> Place:
        if isinstance(ref, Local):
            raise NotFound("there is no SKILL.md here", where=ref.path)
        raise UsageError(f"{ref} is of a kind that this version cannot install from")
