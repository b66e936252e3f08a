"""The measurements run the intended work, with little data and without a clock."""

from __future__ import annotations

from tests.bench import runtime_cost


def test_the_races_are_run_on_the_same_skills(tmp_path):
    lines = runtime_cost.races(tmp_path, 30, 1)
    assert [line.limit for line in lines] == [0.2, 0.25, 0.25, None, None]
    assert all(line.ratio > 0 and line.ours > 0 for line in lines)
