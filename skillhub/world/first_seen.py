"""When this machine first saw what has no date, or one that whoever makes it can choose; in ``<state>``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime, timedelta

from skillhub.errors import FormatError, StateError
from skillhub.model.dataclass import dataclass
from skillhub.model.decode import mapping, record, text, wrong
from skillhub.model.json import strict_json
from skillhub.world import files
from skillhub.world.home import Home

_CAP = 16 << 20
_PLACES_MAX = 2000
_EACH_MAX = 200
# What a lock names of one place is first looked at in one go, however long that takes.
_FIRST_LOOK = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Sight:
    """When something was first seen at a place, and whether the place itself was new then."""

    time: datetime
    at_first: bool


@dataclass(frozen=True, slots=True)
class _Place:
    since: datetime
    seen: Mapping[str, datetime]

    def also(self, what: str, now: datetime) -> _Place:
        # One that is forgotten is new when it is seen again, and so is older than anybody thinks.
        return _Place(self.since, dict(list({**self.seen, what: now}.items())[-_EACH_MAX:]))


class FirstSeen:
    """One file, read once for a command and written when something is new.

    Args:
        home: Where it is.
        remember: Whether what is new is written; a command that changes nothing only looks.
    """

    def __init__(self, home: Home, *, remember: bool = True) -> None:
        self._path = os.path.join(home.state, "first-seen.json")
        self._remember = remember
        self._known: Mapping[str, _Place] | None = None

    def of(self, place: str, what: str, now: datetime) -> Sight:
        """Return when ``what`` was first seen at ``place``; if never before, that is now.

        Raises:
            StateError: the file is none of ours, or the disk refuses.
        """
        if self._known is None:
            self._known = self._read()
        if place not in self._known or what not in self._known[place].seen:
            self._known = self._noted(place, what, now)
        found = self._known[place]
        return Sight(found.seen[what], found.seen[what] - found.since <= _FIRST_LOOK)

    def _noted(self, place: str, what: str, now: datetime) -> Mapping[str, _Place]:
        if not self._remember:
            return _with(self._known or {}, place, what, now)
        with files.lock(f"{self._path}.lock"):
            known = _with(self._read(), place, what, now)
            rows = {
                each: {
                    "seen": {key: _spell(time) for key, time in row.seen.items()},
                    "since": _spell(row.since),
                }
                for each, row in known.items()
            }
            data = json.dumps({"places": rows, "version": 1}, indent=1).encode() + b"\n"
            files.write_atomic(self._path, data, mode=0o600)
        return known

    def _read(self) -> Mapping[str, _Place]:
        data = files.read(self._path, _CAP)
        if data is None:
            return {}
        try:
            rows: Mapping[str, _Place] = _READ(strict_json(data, self._path, _CAP))["places"]
            return rows
        except FormatError as error:
            # Not to be taken for empty: what is new here would pass for what was always there.
            raise StateError(
                f"expected what was first seen when: {error.message}",
                where=self._path,
                hint="put the file back, or delete it: every place is then met for the first time",
            ) from error


def _with(known: Mapping[str, _Place], place: str, what: str, now: datetime) -> Mapping[str, _Place]:
    found = known.get(place, _Place(now, {}))
    others = {each: row for each, row in known.items() if each != place}
    if what in found.seen:  # another process saw it meanwhile
        return known
    return {**dict(list(others.items())[1 - _PLACES_MAX :]), place: found.also(what, now)}


def _spell(time: datetime) -> str:
    return time.isoformat()


def _time(value: object) -> datetime:
    try:
        found = datetime.fromisoformat(text(value))
    except ValueError:
        wrong("a time", value)
    return found if found.tzinfo is not None else wrong("a time with its zone", value)


_PLACE = record({"since": _time, "seen": mapping(text, _time)})
_READ = record({"places": mapping(text, lambda value: _Place(**_PLACE(value)))})
