"""The measurements run the intended work, with little data and without a clock."""

from __future__ import annotations

from tests.bench import search_cost


def test_the_races_are_run_on_the_same_data():
    lines = [*search_cost.mention_races(1, 30), *search_cost.search_races(200, 10, 1, with_body=True)]
    assert [line.name for line in lines][::4] == [
        "mentioned, 30 skills: 100 kB", "search 200 rows: review", "search 200 rows: fix-data",
    ]  # fmt: skip
    assert all(line.ratio >= 0 for line in lines)
    assert len(search_cost.text(100_000)) == 100_000
    assert search_cost.rows(20, False) == search_cost.rows(20, False)
