"""``update``: shown, asked, done; and ``--check``, which is for CI."""

from __future__ import annotations

import pytest

from tests.support.gitrepos import files, program
from tests.support.world import snapshot

YES = ("--yes", "--allow-unsigned")


@pytest.fixture
def machine(shell, repo):
    assert shell.run("install", f"git+{repo.url}", *YES).status == 0
    return shell


def seen(machine):
    return {**snapshot(machine.project), **snapshot(machine.home), **snapshot(machine.hub)}


def test_a_check_says_what_is_behind_and_writes_nothing_at_all(machine, repo):
    before = seen(machine)
    done = machine.run("update", "--check")
    assert (done.status, done.out) == (0, "")
    assert "as new as" in done.err
    repo.commit(files("Do it better.\n", **{"run.sh": program(b"#!/bin/sh\n")}))
    done = machine.run("update", "--check")
    assert done.status == 1
    for line in ("deploy ", "it can now: scripts", "+ run.sh", "~ SKILL.md"):
        assert line in done.out
    done = machine.run("update", "--check", "deploy", "--json")
    (skill,) = done.json["skills"]
    assert (done.status, done.json["changed"]) == (1, False)
    assert skill["from_tree"] != skill["tree"]
    assert skill["changes"]["capabilities"] == {"added": ["scripts"], "removed": []}
    assert set(skill["changes"]) == {"files", "capabilities", "requires"}
    assert seen(machine) == before


def test_a_dry_run_asks_nothing_and_writes_nothing(machine, repo):
    repo.commit(files("Do it better.\n"))
    before = seen(machine)
    done = machine.run("update", "--dry-run", "--json")
    assert (done.status, done.json["changed"]) == (0, False)
    assert {each["answer"] for each in done.json["questions"]} == {"unanswered"}
    assert seen(machine) == before


def test_nobody_there_means_no_and_yes_means_what_was_shown(machine, repo):
    repo.commit(files("Do it better.\n"))
    before = (machine.project / "skillhub.lock").read_bytes()
    done = machine.run("update", "--json")
    assert (done.status, done.error["code"]) == (6, "refused")
    assert {each["kind"] for each in done.json["questions"]} == {"install", "unsigned"}
    assert (machine.project / "skillhub.lock").read_bytes() == before
    done = machine.run("update", *YES, "--json")
    assert (done.status, done.json["changed"]) == (0, True)
    assert b"better" in (machine.project / ".agents/skills/deploy/SKILL.md").read_bytes()
    assert machine.run("update", *YES, "--json").json["changed"] is False
    assert machine.run("update", "nobody").status == 3


def test_a_person_sees_the_plan_and_says_no(machine, repo):
    repo.commit(files("Do it better.\n", **{"run.sh": program(b"#!/bin/sh\n")}))
    done = machine.at_terminal(
        "update",
        "--allow-unsigned",
        say=[("can scripts", ""), ("[N]o: ", "y\n"), ("+ run.sh", ""), ("[N]o: ", "n\n")],
    )
    assert done.status == 6
    assert b"better" not in (machine.project / ".agents/skills/deploy/SKILL.md").read_bytes()


def test_what_cannot_be_reached_is_told(machine, repo):
    repo.path.rename(repo.path.with_name("gone"))
    for words in (("update", "--check"), ("update", *YES), ("diff", "deploy")):
        done = machine.run(*words, "--json")
        assert done.status == 3, done.out
