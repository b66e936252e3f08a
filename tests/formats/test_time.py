from datetime import UTC, datetime, timedelta, timezone

import pytest

from skillhub.formats.text import parse_time, spell_time


@pytest.mark.parametrize(
    "text", ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05", "2026-01-02T05:04:05+02:00", "20260102T030405Z"]
)
def test_every_format_of_a_moment_is_written_in_one(text):
    assert spell_time(parse_time(text)) == "2026-01-02T03:04:05Z"


def test_attack_a_year_of_fewer_than_four_digits_is_written_with_four():
    # A registry published such a time, and no document with it could be read again.
    assert spell_time(parse_time("0001-01-01")) == "0001-01-01T00:00:00Z"


def test_a_date_is_parsed_as_midnight():
    assert parse_time("2026-01-02") == datetime(2026, 1, 2, tzinfo=UTC)


def test_a_time_in_another_zone_is_written_in_utc():
    assert spell_time(datetime(2026, 1, 2, 1, tzinfo=timezone(timedelta(hours=2)))) == "2026-01-01T23:00:00Z"


@pytest.mark.parametrize(
    "text", [None, "", "yesterday", "2026-13-01", "2026-01-02T03:04:05Z; rm", "0001-01-01T00:00:00+05:00"]
)
def test_an_invalid_time_gives_none(text):
    assert parse_time(text) is None
