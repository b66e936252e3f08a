"""The measurements run the intended work, with little data and without a clock."""

from __future__ import annotations

import sys

from tests.bench.offers import Offers, served
from tests.bench.peers import FROZEN, GIT, LIMITS, REMOVE, SITE, WORKS, Desk, Row, Sample, Tool, compare, skillhub
from tests.support.cli import Shell

COPY = "import shutil, sys; shutil.copytree(sys.argv[1], '.claude/skills')"


def test_tools_with_the_same_work_are_compared_and_failures_reported(tmp_path, capsys):
    offers = Offers(tmp_path, 2)
    offers.write()
    copying = Tool(
        {
            SITE: [sys.executable, "-c", COPY, str(tmp_path / "skills")],
            GIT: [sys.executable, "-c", "pass"],
            FROZEN: [sys.executable, "-c", "import sys; sys.exit('Failed to clone \\udcff\\x1b')"],
            REMOVE: [sys.executable, "-c", "import sys; assert sys.argv[1].startswith('skill-0')", "{name}"],
        },
        [[sys.executable, "-c", COPY, str(tmp_path / "skills")]],
    )
    with served(tmp_path / "site") as url:
        ours = skillhub(offers, url, Shell(tmp_path / "unused").words())
        rows = {row.work: row for row in compare(Desk(offers), {"skillhub": ours, "copying": copying}, 0)}
    assert list(rows) == list(WORKS)
    assert rows[SITE].ratio("copying") > 0 and rows[SITE].ratio("copying", "cpu") > 0
    assert [work for work in WORKS if "copying" in rows[work].took] == [SITE, GIT, FROZEN, REMOVE]
    assert [work for work in WORKS if rows[work].took.get("copying", 1) is None] == [GIT, FROZEN]
    assert all(rows[work].took["skillhub"] for work in WORKS)
    assert len(list((tmp_path / "wheels").iterdir())) == 2
    err = capsys.readouterr().err
    assert "copying: install --frozen" in err and "installed 0 of 2" in err


def test_a_row_is_over_its_limit_by_time_memory_or_failure():
    def row(ours, theirs, work=SITE, count=100, other="skills"):
        limit = LIMITS.get((work, other), {}).get(count)
        return Row(work, count, {"skillhub": ours, other: theirs}, {} if limit is None else {other: limit})

    quick, slow, large = Sample(0.5, 0.5, 50.0), Sample(1.0, 1.0, 60.0), Sample(0.5, 0.5, 70.0)
    assert row([quick], [slow]).is_good("skills")
    assert not row([slow], [slow]).is_good("skills")
    assert not row([large], [slow]).is_good("skills")
    assert row([slow], [slow], count=1).is_good("skills")
    assert not row([quick], [slow], count=1000).is_good("skills")
    assert row([slow], None).is_good("skills") and not row(None, [slow]).is_good("skills")
    assert "fails" in str(row([slow], None)) and str(row(None, [slow])).endswith("OVER")
    assert row([slow], [slow], GIT, 1000, "openskills").is_good("openskills")
