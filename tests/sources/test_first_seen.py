"""The first sight of a release, where only its author states a date."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest

from skillhub.disk.home import Home
from skillhub.errors import StateError
from skillhub.sources.history import FirstSeen, Sight

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def home(tmp_path):
    return Home.of({"SKILLHUB_HOME": str(tmp_path)})


def test_releases_at_the_first_sight_of_a_source_differ_from_later_ones(home):
    assert FirstSeen(home).of("git://a", "1", NOW) == Sight(NOW, True)
    assert FirstSeen(home).of("git://a", "other", NOW + DAY / 48) == Sight(NOW + DAY / 48, True)
    assert FirstSeen(home).of("git://a", "2", NOW + DAY) == Sight(NOW + DAY, False)
    assert FirstSeen(home).of("git://b", "2", NOW + DAY) == Sight(NOW + DAY, True)
    assert FirstSeen(home).of("git://a", "1", NOW + 9 * DAY) == Sight(NOW, True)
    assert FirstSeen(home).of("git://a", "2", NOW + 9 * DAY) == Sight(NOW + DAY, False)


def test_read_only_command_writes_no_sight(home):
    looking = FirstSeen(home, remember=False)
    assert looking.of("a", "1", NOW) == looking.of("a", "1", NOW + DAY) == Sight(NOW, True)
    assert not os.path.exists(home.state)


def test_sight_of_another_process_is_used(home):
    mine = FirstSeen(home)
    mine.of("a", "0", NOW)
    FirstSeen(home).of("a", "1", NOW)
    assert mine.of("a", "1", NOW + DAY) == Sight(NOW, True)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"version": 1, "places": {"a": {}}}',
        b'{"version": 1, "places": {"a": {"since": "x", "seen": {}}}}',
        b'{"version": 1, "places": {"a": {"since": "2026-01-01T00:00:00", "seen": {}}}}',
    ],
)
def test_invalid_file_is_an_error(home, data):
    os.makedirs(home.state)
    with open(os.path.join(home.state, "first-seen.json"), "wb") as file:
        file.write(data)
    with pytest.raises(StateError):
        FirstSeen(home).of("a", "1", NOW)


def test_dropped_sight_counts_as_new(home):
    for number in range(202):
        FirstSeen(home).of("a", str(number), NOW + number * DAY)
    assert FirstSeen(home).of("a", "0", NOW + 999 * DAY) == Sight(NOW + 999 * DAY, False)
    assert FirstSeen(home).of("a", "150", NOW + 999 * DAY) == Sight(NOW + 150 * DAY, False)
