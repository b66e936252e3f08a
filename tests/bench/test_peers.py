"""That the measurements measure what they say, on little data; no clock is looked at."""

from __future__ import annotations

import sys

from tests.bench.offers import Offers, served
from tests.bench.peers import SITE, Desk, Tool, compare, skillhub

COPY = "import shutil, sys; shutil.copytree(sys.argv[1], '.claude/skills')"


def test_who_installs_the_same_is_compared(tmp_path):
    offers = Offers(tmp_path, 2)
    offers.write()
    copying = Tool({SITE: [sys.executable, "-c", COPY, str(tmp_path / "skills")]}, [])
    with served(tmp_path / "site") as url:
        (line,) = compare(Desk(offers), skillhub(offers, url), {"copying": copying}, 1)
    assert (line.work, line.other, line.limit) == (SITE, "copying", 0.6)
    assert line.ratio > 0 and line.cpu > 0
    assert len(list((tmp_path / "wheels").iterdir())) == 2
