"""When this machine first saw a release that has no date, or one that its maker can choose; in ``<state>``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from skillhub.model.syntax.document import Members, Read, part, wrong
from skillhub.world.home import Home
from skillhub.world.state_file import StateDocument, StateFile

_HINT = "put the file back, or delete it: every place is then met for the first time"
_PLACES_MAX = 2000
_EACH_MAX = 200
# What a lock names of one place is first looked at in one go, however long that takes.
_FIRST_LOOK = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Sight:
    """When something was first seen at a place, and whether the place itself was new then."""

    time: datetime
    at_first: bool


def _time(value: object) -> datetime:
    try:
        found = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        wrong("a time", value)
    return found if found.tzinfo is not None else wrong("a time with its zone", value)


_Time = Annotated[datetime, Read(_time)]


@part
@dataclass(frozen=True, slots=True)
class _Place:
    since: _Time
    seen: Members[str, _Time]

    def also(self, what: str, now: datetime) -> _Place:
        # One that is forgotten is new when it is seen again, and so is older than anybody thinks.
        return _Place(self.since, dict(list({**self.seen, what: now}.items())[-_EACH_MAX:]))

    def spell(self) -> Mapping[str, object]:
        seen = {what: time.isoformat() for what, time in self.seen.items()}
        return {"seen": seen, "since": self.since.isoformat()}


class _File(StateDocument):
    places: Members[str, _Place]


def _parse(document: _File | None) -> Mapping[str, _Place]:
    return {} if document is None else document.places


class FirstSeen:
    """One file, parsed once for a command and written when something is new.

    Args:
        home: Where it is.
        remember: Whether what is new is written; a command that changes nothing only looks.
    """

    def __init__(self, home: Home, *, remember: bool = True) -> None:
        path = os.path.join(home.state, "first-seen.json")
        self._file = StateFile(path, "what was first seen when", _HINT, _File)
        self._remember = remember
        self._known: Mapping[str, _Place] | None = None

    def of(self, place: str, what: str, now: datetime) -> Sight:
        """Return when ``what`` was first seen at ``place``; if never before, that is now.

        Raises:
            StateError: the file is none of ours, or the disk refuses.
        """
        if self._known is None:
            self._known = self._file.read(_parse)
        if place not in self._known or what not in self._known[place].seen:
            self._known = self._noted(place, what, now)
        found = self._known[place]
        return Sight(found.seen[what], found.seen[what] - found.since <= _FIRST_LOOK)

    def _noted(self, place: str, what: str, now: datetime) -> Mapping[str, _Place]:
        if not self._remember:
            return _with(self._known or {}, place, what, now)
        with self._file.locked():
            known = _with(self._file.read(_parse), place, what, now)
            self._file.write({"places": {each: row.spell() for each, row in known.items()}})
        return known


def _with(known: Mapping[str, _Place], place: str, what: str, now: datetime) -> Mapping[str, _Place]:
    found = known.get(place, _Place(now, {}))
    others = {each: row for each, row in known.items() if each != place}
    if what in found.seen:  # another process saw it meanwhile
        return known
    return {**dict(list(others.items())[1 - _PLACES_MAX :]), place: found.also(what, now)}
