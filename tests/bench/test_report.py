"""The report of measurements, from given figures, without a clock."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from growth import CHECKS, COMMANDS, FIRST, FLOORED, FROM_GIT, FROM_SITE, SOURCES, Growth  # noqa: E402
from growth import grown as measured  # noqa: E402
from peers import FROZEN, SITE, Row  # noqa: E402
from report import _MEASURED, _floors, _growth, _races, picture  # noqa: E402
from run import CommandFailed, Sample, measure  # noqa: E402

from tests.support import forked  # noqa: E402
from tests.support.cli import SECONDS  # noqa: E402


def grown(power: float, source: str = FROM_SITE) -> Growth:
    took = {count: Sample(1.0, 0.3 + 0.0005 * count**power, 50.0) for count in (1, 10, 100, 1_000, 10_000)}
    return Growth(source, "sync", took)


def test_growth_is_reported_by_its_exponent():
    assert abs(grown(1.0).exponent - 1) < 0.02
    assert abs(grown(2.0).exponent - 2) < 0.02
    assert grown(0.0).exponent is None
    assert "| `sync` | 0.30 | 0.30 | 0.35 | 0.80 | 5.30 | 1.00 | 50 |" in _growth([grown(1.0)])


def test_each_source_has_its_table_of_growth():
    lines = _growth([grown(1.0), grown(2.0, FROM_GIT)])
    assert [each for each in lines if each.startswith("\nFrom")] == ["\nFrom a site:\n", "\nFrom a git repository:\n"]
    assert lines[-1].startswith("| `sync` |") and "| 2.00 |" in lines[-1]
    assert len([each for each in lines if each.startswith("| `sync` |")]) == 2


def test_growth_is_measured_from_each_source(tmp_path, monkeypatch):
    monkeypatch.setattr("growth.SKILLHUB", forked.words("skillhub.cli.main", SECONDS))
    monkeypatch.setattr("growth.COMMANDS", {"show": COMMANDS["show"]})
    monkeypatch.setattr("growth.CHECKS", frozenset())
    found = measured(tmp_path, (1,), 1, float("inf"))
    assert [(each.source, each.command) for each in found] == [
        (source, command) for source in SOURCES for command in (FIRST, FLOORED, "show")
    ]


def test_the_picture_is_svg():
    root = ElementTree.fromstring(picture([grown(1.0), grown(1.5), grown(1.0, FROM_GIT)]))
    assert root.tag.endswith("svg")
    assert len([each for each in root if each.tag.endswith("text") and each.text == "sync"]) == 2


def test_the_page_has_a_place_for_the_figures():
    page = (HERE.parents[1] / "docs" / "performance.md").read_text("utf-8")
    assert len(_MEASURED.findall(page)) == 1
    row = ["sync 1000", "1.0", "2.0", "0.50", "0.40", "3.50", "60.0", "OVER"]
    assert _floors([row])[-1] == "| `sync 1000` | 1.0 | 2.0 | 0.50 | 0.40 | 3.50 | 9 | 60.0 | **over** |"


def test_other_installers_are_in_one_table_with_their_failures():
    def took(*seconds):
        return [Sample(each, each, 50.0) for each in seconds]

    rows = [
        Row(SITE, 1, {"skillhub": took(0.1, 0.2, 0.3), "skills": took(0.2, 0.4, 0.6), "uv": took(0.1, 0.1, 0.1)}),
        Row(SITE, 100, {"skillhub": took(1.0), "skills": took(1.0), "uv": None}, {"skills": 0.6}),
        Row(FROZEN, 1, {"skillhub": took(0.1), "skills": None}),
        Row(FROZEN, 100, {"skillhub": took(2.5), "skills": None}),
    ]
    assert _races("Peers", "{} skills", rows)[:2] == ["\n### Peers\n", "1 / 100 skills"]
    assert _races("Peers", "{} skills", rows)[-4:] == [
        "| | skillhub | skills | uv |",
        "|---|---|---|---|",
        "| install from a site | 200 / 1,000 | 400 / 1,000 (0.50 / **1.00**) | 100 / fails (2.00 / -) |",
        "| install --frozen | 100 / 2,500 | fails / fails |  |",
    ]


def test_a_command_without_a_figure_has_an_empty_cell():
    some = Growth(FROM_SITE, "show", {1: Sample(1.0, 0.3, 50.0)})
    assert "| `show` | 0.30 |  |  |  |  |  | 50 |" in _growth([grown(1.0), some])
    assert picture([some]).startswith("<svg")


def test_a_check_with_findings_is_measured_and_other_statuses_fail(tmp_path):
    def ends(status, **more):
        command = [sys.executable, "-c", f"import sys; sys.stderr.write('\\xff found'); sys.exit({status})"]
        return measure(command, tmp_path, dict(os.environ), **more)

    assert COMMANDS.keys() > CHECKS and {"doctor", "verify", "audit", "update --check"} == CHECKS
    assert ends(0).seconds > 0 and ends(1, good=(0, 1)).cpu > 0
    for status, good in ((1, (0,)), (2, (0, 1)), (7, (0, 1))):
        with pytest.raises(CommandFailed, match=f"failed with {status}"):
            ends(status, good=good)
