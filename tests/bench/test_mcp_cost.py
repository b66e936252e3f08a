"""The measurements run the intended work, with little data and without a clock."""

from __future__ import annotations

import pytest

pytest.importorskip("mcp")

from tests.bench import mcp_cost
from tests.support import forked
from tests.support.cli import SECONDS


def test_the_races_are_run_on_the_same_skills(tmp_path, monkeypatch):
    monkeypatch.setattr(mcp_cost, "SKILLHUB", forked.words("skillhub.cli.main", SECONDS))
    lines = mcp_cost.races(tmp_path, 3, 1)
    assert [line.limit for line in lines] == [2.5, 6.0, 4.0]
    assert all(line.ratio > 0 and line.ours > 0 for line in lines)
