"""What sources showed before: metadata and listings, dates first seen, the latest time shown; in ``<state>``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import PlainSerializer

from skillhub.disk.home import Home
from skillhub.disk.state_file import StateDocument, StateFile
from skillhub.errors import FormatError, SourceError, StateError
from skillhub.formats import text as times
from skillhub.formats.digest import Digest
from skillhub.formats.document import Absent, Items, Members, ObjectId, Read, SkillName, part, text_that, wrong
from skillhub.formats.text import clean, quote
from skillhub.model.index import Index, Release

# When this machine first saw a release that has no date, or one that its maker can choose; in ``<state>``.

_HINT = "restore the file, or delete it; then skillhub has no history of any source"
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


_Time = Annotated[datetime, Read(_time, type="string", format="date-time"), PlainSerializer(datetime.isoformat)]


@part
@dataclass(frozen=True, slots=True)
class _Place:
    since: _Time
    seen: Members[str, _Time]

    def spell(self) -> Mapping[str, object]:
        seen = {what: time.isoformat() for what, time in self.seen.items()}
        return {"seen": seen, "since": self.since.isoformat()}


class FirstSeenFile(StateDocument):
    """``first-seen.json`` in the state: when versions were first seen."""

    places: Members[str, _Place]


def _parse(document: FirstSeenFile | None) -> Mapping[str, _Place]:
    return {} if document is None else document.places


class FirstSeen:
    """One file, parsed once for a command and written when something is new.

    Args:
        home: Where it is.
        remember: Whether what is new is written; a command that changes nothing only looks.
    """

    def __init__(self, home: Home, *, remember: bool = True) -> None:
        path = os.path.join(home.state, "first-seen.json")
        self._file = StateFile(path, "what was first seen when", _HINT, FirstSeenFile)
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
    if what in found.seen:  # another process saw it meanwhile
        return known
    others = [(each, row) for each, row in known.items() if each != place]
    # One that is forgotten is new when it is seen again, and so is older than anybody thinks.
    seen = dict([*found.seen.items(), (what, now)][-_EACH_MAX:])
    return {**dict(others[1 - _PLACES_MAX :]), place: _Place(found.since, seen)}


# What a place that proves nothing listed when it was last asked: to search in and to show, never the authority.

LISTING_AGE = timedelta(days=1)  # an older one is read again where that can be done
_LISTING_HINT = "delete the file; the source is then asked again"
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
    """A file in ``listings`` in the state: what a source without metadata listed, and when."""

    source: str
    listed: _Time
    commit: Absent[ObjectId] = None
    skills: Items[_Listed]


@dataclass(frozen=True, slots=True)
class KeptListing:
    """What a place listed, when, and at which commit; None of what is no repository."""

    listed: datetime
    commit: str | None
    index: Index

    def is_old(self, now: datetime) -> bool:
        """Return whether it is to be read again; one from the future is."""
        return not timedelta() <= now - self.listed < LISTING_AGE

    def age(self, now: datetime) -> str:
        """Return how long ago it was read, for a person."""
        minutes = int((now - self.listed).total_seconds() // 60)
        for many, unit in ((1440, "day"), (60, "hour"), (1, "minute")):
            if minutes >= many:
                count = minutes // many
                return f"{count} {unit}{'s' if count > 1 else ''} ago"
        return "just now" if minutes == 0 else "at a time that has not come yet"

    def shown(self, now: datetime) -> str:
        """Return when it was read, and at which commit, for a person."""
        return f"listed {self.age(now)}{f' at {self.commit[:12]}' if self.commit else ''}"


class KeptListings:
    """The listings of all places that are sources, a file for each.

    Args:
        home: Where they are.
        remember: Whether a new one is written; a command that changes nothing keeps none.
    """

    def __init__(self, home: Home, *, remember: bool = True) -> None:
        self._folder = os.path.join(home.state, "listings")
        self._remember = remember

    def read(self, source: str) -> KeptListing | None:
        """Return what is kept of a place, by its reference; one that is damaged, or of another place, is none."""
        with suppress(StateError):
            return self._file(source).read(lambda document: _kept_listing(document, source))
        return None

    def listed(self, source: str, url: str, now: datetime, ask: Callable[[], Index], *, refresh: bool) -> Index:
        """Return what a place lists: as it is kept unless that is old, or it is to be asked in any case.

        Args:
            source: The place, by its reference.
            url: Where it is; the commit is kept of what is there.
            now: The time.
            ask: Reads what it lists now.
            refresh: Whether the person wants to know what it lists now.

        Raises:
            SourceError, FormatError: it cannot be asked, and nothing is kept, or it was to be refreshed.
            SecurityError: as for asking it.
        """
        kept = self.read(source)
        if kept is not None and not refresh and not kept.is_old(now):
            return kept.index
        try:
            index = ask()
        except (SourceError, FormatError) as error:
            if kept is None or refresh:
                raise
            warning = f"it was listed {kept.age(now)}, and cannot be asked now: {error.message}"
            return replace(kept.index, warnings=(warning,))
        if self._remember:
            offered = [each for name in index.names for each in index.skills[name]]
            commit = next((each.rev for each in offered if each.rev and each.url == url), None)
            document = {"source": source, "listed": now.isoformat(), "skills": [*map(_row, offered)]}
            # Where the disk refuses it is of use to this command alone.
            with suppress(StateError, FormatError):
                self._file(source).write({**document, **({"commit": commit} if commit else {})})
        return index

    def forget(self, source: str) -> None:
        """Forget what is kept of a place."""
        with suppress(OSError):
            os.unlink(self._path(source))

    def _file(self, source: str) -> StateFile[ListingFile]:
        return StateFile(self._path(source), "what a source listed", _LISTING_HINT, ListingFile)

    def _path(self, source: str) -> str:
        return os.path.join(self._folder, f"{Digest.of(source.encode()).hex}.json")


def _row(release: Release) -> dict[str, str]:
    values = {"path": release.path, "plugin": release.plugin, "rev": release.rev}
    told = {"name": release.name, "description": clean(release.description)[:_TEXT_MAX]}
    return told | {key: value for key, value in values.items() if value is not None}


def _kept_listing(document: ListingFile | None, source: str) -> KeptListing | None:
    if document is None or document.source != source:
        return None
    found: dict[str, tuple[Release, ...]] = {}
    for row in document.skills:
        release = Release(url=source, type="tree", **asdict(row))
        found[row.name] = (*found.get(row.name, ()), release)
    return KeptListing(document.listed, document.commit, Index(found))


# The latest time that verified metadata has shown this machine: expiry is judged no earlier.
# A clock that was set back would take expired metadata, and expired certificates, for valid ones.

_TIME_HINT = "restore the file; or check the clock, and delete the file"
_TOLERANCE = timedelta(days=1)


def system_clock() -> datetime:
    """Return what the machine's clock says, UTC."""
    return datetime.now(UTC)


class ShownTimeFile(StateDocument):
    """The file: a time that had passed when a registry's metadata was verified, and which registry showed it."""

    latest: Annotated[_Time, PlainSerializer(times.spell)]
    by: str


def _same(document: ShownTimeFile | None) -> ShownTimeFile | None:
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
        self._file = StateFile(self.path, "the latest time that metadata has shown", _TIME_HINT, ShownTimeFile)
        self._clock = clock
        self._remember = remember

    def now(self) -> datetime:
        """Return what the clock says, or the latest time that was shown if that is later.

        Raises:
            StateError: the file is none of ours, or the disk refuses.
        """
        clock, shown = self._clock(), self._file.read(_same)
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
        if not self._remember or not _is_later(time, self._file.read(_same)):
            return
        with self._file.locked():
            if _is_later(time, self._file.read(_same)):
                self._file.write({"latest": times.spell(time), "by": by})

    @property
    def behind(self) -> str | None:
        """What there is to say of a clock that is more than a day behind what was shown; None of any other.

        Raises:
            StateError: the file is none of ours, or the disk refuses.
        """
        clock, shown = self._clock(), self._file.read(_same)
        if shown is None or shown.latest - clock <= _TOLERANCE:
            return None
        says, dated = times.spell(clock), times.spell(shown.latest)
        return f"the clock says {says}, a document signed by {quote(shown.by)} is dated {dated}"

    @property
    def remedy(self) -> str:
        """What to do about a clock that is behind."""
        return f"set the clock; if it is right, delete {quote(self.path)}"


def _is_later(time: datetime, known: ShownTimeFile | None) -> bool:
    return known is None or time > known.latest
