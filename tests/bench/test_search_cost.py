"""That the measurements measure what they say, on little data; no clock is looked at."""

from __future__ import annotations

from tests.bench import search_cost


def test_the_races_are_run_on_the_same_data():
    lines = [search_cost.mention_race(1), *search_cost.search_races(200, 10, 1, with_body=True)]
    assert [line.name for line in lines][:2] == ["mentioned, 100 kB of text", "search 200 rows: review"]
    assert all(line.ratio > 0 for line in lines)
    assert len(search_cost.text(100_000)) == 100_000
    assert search_cost.rows(20, False) == search_cost.rows(20, False)
