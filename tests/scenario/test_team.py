"""Two clones, one bare repository and one registry over twelve steps; the output of each step is a golden file.

After an intended change: ``SKILLHUB_GOLDEN=1 pytest tests/scenario``, and read the difference.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from skillhub.disk.folders import list_folder, remove_tree
from tests.scenario.team import Team
from tests.support.here import close_resources
from tests.support.served import online

__all__ = ["close_resources"]

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "scenario"


@pytest.fixture
def team(tmp_path):
    """Return a team with empty clones and a registry with two skills."""
    team = Team(tmp_path)
    team.registry.publish("1.0.0")
    team.registry.publish("1.0.0", "house-style")
    with online(team.registry.site) as team.url:
        yield team


def add(team):
    assert team.ann.skillhub("source", "add", "acme", team.url, "--root", team.registry.root).status == 0
    assert team.ann.skillhub("install", "acme:greeting", "--agent", "claude-code").status == 6
    assert team.ann.skillhub("install", "acme:greeting", "--agent", "claude-code", "--yes").status == 0


def push(team):
    team.ann.shows("status", "--short")
    team.ann.commit("greeting")
    team.ann.push()
    team.ann.shows("ls-tree", "-r", "--name-only", "HEAD")


def pull(team):
    team.ben.pull()
    assert team.ben.skillhub("sync").status == 3
    assert team.ben.skillhub("install").status == 6
    assert not team.ben.copy_of("greeting").exists()


def frozen(team):
    before = (team.ben.project / "skillhub.lock").read_bytes()
    trusted = ("--trust-source", f"acme={json.loads(before)['sources']['acme']['root']}")
    asked = ("install", "--frozen", "--yes", "--agent", "claude-code", *trusted)
    assert team.ben.skillhub(*asked).status == 0
    shutil.rmtree(team.ben.project / ".claude")
    assert team.ben.skillhub(*asked, "--offline").status == 0
    assert (team.ben.project / "skillhub.lock").read_bytes() == before
    for agent in (".agents", ".claude"):
        trees = {list_folder(str(each.copy_of("greeting", agent))).digest for each in (team.ann, team.ben)}
        assert len(trees) == 1
    team.ben.shows("status", "--short")


def edit(team):
    with (team.ben.copy_of("greeting", ".claude") / "SKILL.md").open("a") as file:
        file.write("Say it in Dutch.\n")
    assert team.ben.skillhub("verify").status == 1
    assert team.ben.skillhub("install").status == 6


def update(team):
    team.registry.publish("1.1.0", **{"scripts/hello.py": "print('hello')\n"})
    before = team.ben.files()
    assert team.ben.skillhub("update", "--check").status == 1
    assert team.ben.files() == before
    assert team.ben.skillhub("diff", "greeting").status == 0


def refuse(team):
    before = team.ben.lock()
    assert team.ben.skillhub("update").status == 6
    assert team.ben.answers("update", say=["n"]).status == 6
    assert team.ben.lock() == before
    assert "Dutch" in (team.ben.copy_of("greeting", ".claude") / "SKILL.md").read_text()


def agree(team):
    assert team.ben.skillhub("sync", "--yes").status == 0
    assert "+Say it in Dutch." in (team.ben.project / "skillhub-edits/greeting-1.patch").read_text()
    shutil.rmtree(team.ben.project / "skillhub-edits")
    assert team.ben.answers("update", say=["y"]).status == 0
    assert (team.ben.copy_of("greeting") / "scripts/hello.py").is_file()
    team.ben.commit("greeting 1.1.0")
    team.ben.push()


def conflict(team):
    assert team.ann.skillhub("install", "acme:house-style", "--yes").status == 0
    team.ann.commit("house-style")
    team.ann.pull()
    team.ann.shows("status", "--short")
    assert team.ann.skillhub("install", "--frozen").status == 4
    assert team.ann.skillhub("lock", "fix").status == 0
    assert team.ann.skillhub("install", "--yes").status == 0
    assert team.ann.skillhub("verify").status == 0
    team.ann.commit("both")
    team.ann.push()


def repair(team):
    team.ben.pull()
    assert team.ben.skillhub("install", "--frozen", "--yes").status == 0
    shutil.rmtree(team.ben.copy_of("greeting"))
    (team.ben.copy_of("house-style", ".claude") / "SKILL.md").write_text("half")
    stored = team.ben.hub / "data" / "store"
    remove_tree(str(stored))
    assert team.ben.skillhub("verify").status == 1
    assert team.ben.skillhub("sync", "--yes").status == 0
    assert team.ben.skillhub("verify").status == 0


def remove(team):
    assert team.ann.skillhub("remove", "house-style").status == 0
    team.ann.commit("no house-style")
    team.ann.push()
    team.ben.pull()
    assert team.ben.skillhub("sync").status == 0
    assert not team.ben.copy_of("house-style").exists()
    assert team.ben.skillhub("list").status == 0


def audit(team):
    assert team.ben.skillhub("audit").status == 0
    team.registry.operate("withdraw", "greeting@1.1.0", "--reason", "it says too much")
    (team.ben.copy_of("greeting") / "scripts/evil.py").write_text("print()\n")
    assert team.ben.skillhub("audit").status == 1
    assert team.ben.skillhub("install", "--frozen", "--yes").status == 5


STEPS = (add, push, pull, frozen, edit, update, refuse, agree, conflict, repair, remove, audit)


# A command keeps connections and temporary folders until its process ends.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.usefixtures("close_resources")
def test_output_of_twelve_steps_of_a_team_matches_golden_files(team):
    for number, step in enumerate(STEPS, 1):
        step(team)
        output, golden = team.output(), GOLDEN / f"{number:02}-{step.__name__}.txt"
        if os.environ.get("SKILLHUB_GOLDEN"):
            golden.write_text(output, encoding="utf-8")
        assert output == golden.read_text("utf-8"), golden.name
