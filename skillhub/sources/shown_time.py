"""The latest time that verified metadata has shown this machine, in ``<state>``: expiry is judged no earlier.

A clock that was set back would take expired metadata, and expired certificates, for valid ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated

from skillhub.disk.home import Home
from skillhub.disk.state_file import StateDocument, StateFile
from skillhub.formats import text as times
from skillhub.formats.document import Read, wrong
from skillhub.formats.text import quote

_HINT = "put the file back; or see that the clock is right, and delete it"
_TOLERANCE = timedelta(days=1)


def system_clock() -> datetime:
    """Return what the machine's clock says, UTC."""
    return datetime.now(UTC)


def _time(value: object) -> datetime:
    found = times.parse(value) if isinstance(value, str) else None
    return found if found is not None and times.spell(found) == value else wrong("a time", value)


class _Shown(StateDocument):
    """The file: a time that had passed when a registry's metadata was verified, and which registry showed it."""

    latest: Annotated[datetime, Read(_time)]
    by: str


def _parse(document: _Shown | None) -> _Shown | None:
    return document


class ShownTime:
    """The time by which this machine judges what has expired.

    A registry cannot raise it into the future: a date counts as far as the clock has come when it is verified. So
    with a clock that is right, no registry has a say in what is expired.

    Args:
        home: Where the file is.
        clock: The machine's own.
        remember: Whether a later time is written; a command that changes nothing only looks.
    """

    def __init__(self, home: Home, clock: Callable[[], datetime] = system_clock, *, remember: bool = True) -> None:
        self.path = os.path.join(home.state, "shown-time.json")
        self._file = StateFile(self.path, "the latest time that metadata has shown", _HINT, _Shown)
        self._clock = clock
        self._remember = remember

    def now(self) -> datetime:
        """Return what the clock says, or the latest time that was shown if that is later.

        Raises:
            StateError: the file is none of ours, or the disk refuses.
        """
        clock, shown = self._clock(), self._file.read(_parse)
        return clock if shown is None else max(clock, shown.latest)

    def learn(self, shown: datetime, by: str) -> None:
        """Remember a time that verified metadata shows, as far as it is past; a later one that is known stays.

        Args:
            shown: It.
            by: The URL of the registry.

        Raises:
            StateError: the file is none of ours, or the disk refuses.
        """
        # To the second, as the file has it, and never up.
        time = min(shown, self._clock()).replace(microsecond=0)
        if not self._remember or not _is_later(time, self._file.read(_parse)):
            return
        with self._file.locked():
            if _is_later(time, self._file.read(_parse)):
                self._file.write({"latest": times.spell(time), "by": by})

    @property
    def behind(self) -> str | None:
        """What there is to say of a clock that is more than a day behind what was shown; None of any other.

        Raises:
            StateError: the file is none of ours, or the disk refuses.
        """
        clock, shown = self._clock(), self._file.read(_parse)
        if shown is None or shown.latest - clock <= _TOLERANCE:
            return None
        says, dated = times.spell(clock), times.spell(shown.latest)
        return f"the clock says {says}, a document signed by {quote(shown.by)} is dated {dated}"

    @property
    def remedy(self) -> str:
        """What to do about a clock that is behind."""
        return f"set the clock; if it is right, delete {quote(self.path)}"


def _is_later(time: datetime, known: _Shown | None) -> bool:
    return known is None or time > known.latest
