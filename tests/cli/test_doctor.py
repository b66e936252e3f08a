"""What doctor sees, and that it only looks."""

from __future__ import annotations

import subprocess

REF = "github:release-notes"


def checks(shell, *words):
    done = shell.run("doctor", "--json", *words)
    assert done.status == (0 if done.json["ok"] else 1)
    assert done.json["ok"] == all(each["ok"] for each in done.json["checks"])
    return {each["name"]: each for each in done.json["checks"]}, done.json


def test_a_new_machine_is_well(shell):
    before = shell.files()
    _, found = checks(shell)
    assert found["ok"] is True
    assert [each["name"] for each in found["sources"]] == ["github"]
    assert shell.files() == before


def test_agents_and_the_folders_they_read(shell):
    (shell.project / ".claude/skills").mkdir(parents=True)
    (shell.home / ".codex").mkdir()
    _, found = checks(shell)
    assert {"claude-code", "codex"} <= {each["id"] for each in found["agents"]}
    assert str(shell.project / ".claude/skills") in [each["path"] for each in found["roots"]]


def test_a_broken_skill_is_told_with_path_and_line(shell):
    shell.write("project/.agents/skills/broken/SKILL.md", "---\nname: broken\ndescription: [\n---\n")
    by_name, found = checks(shell)
    assert found["ok"] is False
    message = by_name["skill"]["message"]
    assert str(shell.project / ".agents/skills/broken/SKILL.md") in message
    assert any(f"SKILL.md:{line}" in message for line in (3, 4))


def test_a_stranger_that_takes_a_locked_name_is_a_problem(shell):
    shell.run("install", REF, "--yes")
    shell.skill("project/.claude/skills/release-notes")
    by_name, found = checks(shell)
    assert found["ok"] is False
    assert "which the lock has from github" in by_name["skill"]["message"]
    assert str(shell.project / ".claude/skills/release-notes") in by_name["shadowed"]["message"]


def test_the_projects_skill_hides_the_users(shell):
    shell.skill("project/.agents/skills/mine")
    shell.skill("home/.agents/skills/mine")
    by_name, found = checks(shell)
    assert found["ok"] is True
    assert str(shell.home / ".agents/skills/mine") in by_name["shadowed"]["message"]


def test_tracked_copies_are_told(shell):
    shell.run("install", REF, "--yes")
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.invalid")
    for words in (("init", "-q"), ("add", "-f", ".agents")):
        subprocess.run([*git, *words], cwd=shell.project, env=shell.environ, check=True)
    by_name, _ = checks(shell)
    assert by_name["git"]["ok"] is False
    assert "git rm -r --cached" in by_name["git"]["hint"]


def test_disabled_skills_and_open_needs_are_told(shell):
    shell.run("install", REF, "github:gh-fix-ci", "--yes")
    shell.run("disable", "release-notes")
    by_name, _ = checks(shell)
    assert by_name["state of release-notes"]["message"] == "disabled"
    assert "skillhub enable release-notes" in by_name["state of release-notes"]["hint"]
    assert "env:GITHUB_TOKEN" in by_name["needs of gh-fix-ci"]["message"]


def test_a_broken_lock_is_told_and_hides_nothing_else(shell):
    shell.write("project/skillhub.lock", "{")
    by_name, found = checks(shell)
    assert by_name["lock"]["ok"] is False
    assert "skillhub.lock" in by_name["lock"]["message"]
    assert by_name["sources"]["ok"] is True
    assert found["sources"]


def test_a_root_that_was_changed_is_told(shell):
    shell.write("hub/state/sources.json", "{}")
    by_name, _ = checks(shell)
    assert by_name["sources"]["ok"] is False
