"""The history of sources, in ``<state>``: dates first seen, kept listings, the latest time that metadata showed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated

from pydantic import PlainSerializer

from skillhub.disk.home import Home
from skillhub.disk.state_file import StateDocument, StateFile
from skillhub.errors import FormatError, SourceError, StateError
from skillhub.formats.digest import Digest
from skillhub.formats.document import Absent, Items, Members, ObjectId, Read, SkillName, part, text_that, wrong
from skillhub.formats.text import amount, clean, grouped, quote, spell_time
from skillhub.model.index import Index, Release

# The time at which this machine first saw a release that has no date, or only a date that its maker can choose.

_HINT = "restore the file, or delete it; then skillhub has no history of any source"
_PLACES_MAX = 2000
_EACH_MAX = 200
# The first look at a place may read all releases that a lock names; those within this time belong to it.
_FIRST_LOOK = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Sight:
    """The time at which something was first seen at a place, and whether the place itself was new at that time."""

    time: datetime
    at_first: bool


def _time(value: object) -> datetime:
    try:
        found = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        wrong("a time", value)
    return found if found.tzinfo is not None else wrong("a time with its zone", value)


_Time = Annotated[datetime, Read(_time, type="string", format="date-time"), PlainSerializer(datetime.isoformat)]


@part
@dataclass(frozen=True, slots=True)
class _Place:
    since: _Time
    seen: Members[str, _Time]


class FirstSeenFile(StateDocument):
    """``first-seen.json`` in the state: the times at which releases were first seen."""

    places: Members[str, _Place]


class FirstSeen:
    """The times at which releases were first seen; the file is parsed once a command and written for each new one.

    Args:
        home: Names the state folder.
        remember: Whether to write new entries; a command that changes nothing only reads.
    """

    def __init__(self, home: Home, *, remember: bool = True) -> None:
        path, what = os.path.join(home.state, "first-seen.json"), "the times at which releases were first seen"
        self._file = StateFile(path, what, _HINT, FirstSeenFile, lambda found: found.places if found else {})
        self._remember = remember
        self._known: Mapping[str, _Place] | None = None

    def of(self, place: str, what: str, now: datetime) -> Sight:
        """Return the time at which ``what`` was first seen at ``place``: ``now`` if it was never seen before.

        Raises:
            StateError: the file is malformed, or the disk refuses.
        """
        if self._known is None:
            self._known = self._file.read()
        if place not in self._known or what not in self._known[place].seen:
            self._known = self._with_new(place, what, now)
        found = self._known[place]
        return Sight(found.seen[what], found.seen[what] - found.since <= _FIRST_LOOK)

    def _with_new(self, place: str, what: str, now: datetime) -> Mapping[str, _Place]:
        if not self._remember:
            return _with(self._known or {}, place, what, now)
        with self._file.locked():
            known = _with(self._file.read(), place, what, now)
            self._file.write(places=known)
        return known


def _with(known: Mapping[str, _Place], place: str, what: str, now: datetime) -> Mapping[str, _Place]:
    found = known.get(place, _Place(now, {}))
    if what in found.seen:  # another process saw it meanwhile
        return known
    others = [(each, row) for each, row in known.items() if each != place]
    # An entry that is dropped here counts as new when it is seen again: it looks younger than it is, never older.
    seen = dict([*found.seen.items(), (what, now)][-_EACH_MAX:])
    return {**dict(others[1 - _PLACES_MAX :]), place: _Place(found.since, seen)}


# The last listing of a place without signed metadata, to search in and to show; nothing is installed on its word.

LISTING_AGE = timedelta(days=1)  # an older one is read again if its source can be reached
_LISTING_HINT = "delete the file; skillhub then reads the listing again"
_TEXT_MAX = 1024
_Text = Annotated[str, Read(text_that(lambda text: clean(text) == text, "a text without hidden characters"))]


@part
@dataclass(frozen=True, slots=True)
class _Listed:
    name: SkillName
    description: _Text = ""
    path: Absent[_Text] = None
    plugin: Absent[_Text] = None
    rev: Absent[ObjectId] = None


class ListingFile(StateDocument):
    """A file in ``listings`` in the state: the listing of a source without metadata, and its time."""

    source: str
    listed: _Time
    commit: Absent[ObjectId] = None
    skills: Items[_Listed]


@dataclass(frozen=True, slots=True)
class KeptListing:
    """The listing of a place, its time, and its commit; the commit is None unless the place is a repository."""

    listed: datetime
    commit: str | None
    index: Index

    def is_old(self, now: datetime) -> bool:
        """Return whether the listing has to be read again, as one from the future has."""
        return not timedelta() <= now - self.listed < LISTING_AGE

    def age(self, now: datetime) -> str:
        """Return the age of the listing in words."""
        minutes = int((now - self.listed).total_seconds() // 60)
        for many, unit in ((1440, "day"), (60, "hour"), (1, "minute")):
            if minutes >= many:
                return f"{amount(minutes // many, unit)} ago"
        return "just now" if minutes == 0 else "in the future"

    def shown(self, now: datetime) -> str:
        """Return the age and the commit of the listing in words."""
        return f"listed {self.age(now)}{f' at {self.commit[:12]}' if self.commit else ''}"


class KeptListings:
    """The kept listings of all places that are sources, one file each.

    Args:
        home: Names the state folder.
        remember: Whether to write new listings; a command that changes nothing only reads.
    """

    def __init__(self, home: Home, *, remember: bool = True) -> None:
        self._folder = os.path.join(home.state, "listings")
        self._remember = remember

    def read(self, source: str) -> KeptListing | None:
        """Return the kept listing of a place by its reference; None for a damaged file or one of another place."""
        with suppress(StateError):
            return self._file(source).read()
        return None

    def listed(self, source: str, url: str, now: datetime, ask: Callable[[], Index], *, refresh: bool) -> Index:
        """Return the listing of a place: the kept one, unless it is old or ``refresh`` is set.

        If an old one cannot be read again, return it with a warning.

        Args:
            source: The reference of the place.
            url: The URL of the place; only a commit of this repository is kept with the listing.
            now: The time.
            ask: Reads the listing from the source.
            refresh: Whether to read the listing from the source in any case.

        Raises:
            SourceError, FormatError: ``ask`` raised it, and no listing is kept, or ``refresh`` is set.
            SecurityError: ``ask`` raised it.
        """
        kept = self.read(source)
        if kept is not None and not refresh and not kept.is_old(now):
            return kept.index
        try:
            index = ask()
        except (SourceError, FormatError) as error:
            if kept is None or refresh:
                raise
            warning = f"the listing is from {kept.age(now)}, since the source cannot be read now: {error.message}"
            return replace(kept.index, warnings=(warning,))
        if self._remember:
            offered = [each for name in index.names for each in index.skills[name]]
            commit = next((each.rev for each in offered if each.rev and each.url == url), None)
            # If the disk refuses, only this command has the listing.
            with suppress(StateError, FormatError):
                self._file(source).write(source=source, listed=now, commit=commit, skills=tuple(map(_row, offered)))
        return index

    def forget(self, source: str) -> None:
        """Delete the kept listing of a place."""
        with suppress(OSError):
            os.unlink(self._path(source))

    def _file(self, source: str) -> StateFile[ListingFile, KeptListing | None]:
        make = partial(_kept_listing, source)
        return StateFile(self._path(source), "the listing of a source", _LISTING_HINT, ListingFile, make)

    def _path(self, source: str) -> str:
        return os.path.join(self._folder, f"{Digest.of(source.encode()).hex}.json")


def _row(release: Release) -> _Listed:
    description = clean(release.description)[:_TEXT_MAX]
    return _Listed(release.name, description, release.path, release.plugin, release.rev)


def _kept_listing(source: str, document: ListingFile | None) -> KeptListing | None:
    if document is None or document.source != source:
        return None
    found = grouped((row.name, Release(url=source, type="tree", **asdict(row))) for row in document.skills)
    return KeptListing(document.listed, document.commit, Index(found))


# The latest time that verified metadata has shown: expiry is judged by it, or by the clock if that is later. A clock
# that was set back would otherwise accept expired metadata and expired certificates.

_TIME_HINT = "restore the file; or check the clock, and delete the file"
_TOLERANCE = timedelta(days=1)


class ShownTimeFile(StateDocument):
    """``shown-time.json``: a past time in the verified metadata of a registry, and the URL of this registry."""

    latest: Annotated[_Time, PlainSerializer(spell_time)]
    by: str


class ShownTime:
    """The time by which this machine judges expiry.

    No registry can raise it into the future: a date after the clock's time counts as the clock's time. So if the
    clock is right, no registry influences the judgement.

    Args:
        home: Names the state folder.
        clock: The machine's clock.
        remember: Whether to write a later time; a command that changes nothing only reads.
    """

    def __init__(
        self, home: Home, clock: Callable[[], datetime] = lambda: datetime.now(UTC), *, remember: bool = True
    ) -> None:
        self.path = os.path.join(home.state, "shown-time.json")
        what = "the latest time that metadata has shown"
        self._file = StateFile(self.path, what, _TIME_HINT, ShownTimeFile, lambda found: found)
        self._clock, self._remember = clock, remember

    def now(self) -> datetime:
        """Return the time of the clock, or the latest time that metadata has shown if that is later.

        Raises:
            StateError: the file is malformed, or the disk refuses.
        """
        clock, shown = self._clock(), self._file.read()
        return clock if shown is None else max(clock, shown.latest)

    def learn(self, shown: datetime, by: str) -> None:
        """Remember a time that verified metadata shows, at most the clock's time, unless a later one is known.

        Args:
            shown: The time.
            by: The URL of the registry.

        Raises:
            StateError: the file is malformed, or the disk refuses.
        """
        # The file has whole seconds; they are rounded down, so that the time stays in the past.
        time = min(shown, self._clock()).replace(microsecond=0)
        if not self._remember or not _is_later(time, self._file.read()):
            return
        with self._file.locked():
            if _is_later(time, self._file.read()):
                self._file.write(latest=time, by=by)

    @property
    def behind(self) -> str | None:
        """The statement that the clock is more than a day behind the latest time shown; None if it is not.

        Raises:
            StateError: the file is malformed, or the disk refuses.
        """
        clock, shown = self._clock(), self._file.read()
        if shown is None or shown.latest - clock <= _TOLERANCE:
            return None
        clock_text, shown_text = spell_time(clock), spell_time(shown.latest)
        return f"the clock says {clock_text}, a document signed by {quote(shown.by)} is dated {shown_text}"

    @property
    def remedy(self) -> str:
        """The advice for a clock that is behind."""
        return f"set the clock; if it is right, delete {quote(self.path)}"


def _is_later(time: datetime, known: ShownTimeFile | None) -> bool:
    return known is None or time > known.latest
