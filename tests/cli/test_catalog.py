"""``catalog``: text for a model, JSON for a script, problems for a person on stderr."""

from __future__ import annotations

import json

import pytest

KEYS = ["schema", "host", "text", "skills", "omitted", "shadowed", "problems", "truncated", "used", "budget"]


def test_catalog_prints_the_documented_shape(shell):
    shell.skill("project/.agents/skills/mine")
    shell.skill("home/.agents/skills/mine")
    shell.write("project/.agents/skills/bad/SKILL.md", "---\nname: bad\ndescription: [\n---\n")
    shown = shell.run("catalog", "--json").json
    assert list(shown)[: len(KEYS)] == KEYS
    assert (shown["host"], shown["omitted"], shown["truncated"]) == ("agents", [], False)
    assert shown["skills"] == [
        {
            "name": "mine",
            "description": "Does what mine does.",
            "path": str(shell.project / ".agents/skills/mine"),
            "scope": "project",
            "root": str(shell.project / ".agents/skills"),
            "source": None,
            "trust": "unsigned",
            "needs": [],
            "enabled": True,
            "listed": True,
            "cost": len(shown["text"][shown["text"].index("  <skill>") : shown["text"].index("</available")]),
        }
    ]
    folders = [(each["path"], each["scope"], each["found"], each["shadowed"]) for each in shown["roots"]]
    assert folders == [
        (str(shell.project / ".agents/skills"), "project", ["mine"], []),
        (str(shell.home / ".agents/skills"), "user", [], ["mine"]),
    ]
    assert shown["shadowed"] == [
        {
            "name": "mine",
            "path": str(shell.home / ".agents/skills/mine"),
            "by": str(shell.project / ".agents/skills/mine"),
        }
    ]
    (problem,) = shown["problems"]
    assert problem["path"] == str(shell.project / ".agents/skills/bad/SKILL.md")
    assert problem["line"] in (3, 4)
    assert (shown["used"], shown["budget"]) == (len(shown["text"]), 16_000)


@pytest.mark.parametrize("host", ["codex", "opencode", "codelia"])
def test_the_text_has_the_hosts_form(shell, host):
    shell.skill("project/.agents/skills/mine")
    done = shell.run("catalog", "--host", host)
    assert done.status == 0
    assert done.out.rstrip("\n") == shell.run("catalog", "--host", host, "--json").json["text"]


def test_an_empty_catalogue_prints_nothing(shell):
    done = shell.run("catalog", "--host", "claude-code")
    assert (done.status, done.out) == (0, "")
    assert "Claude Code finds no skill" in done.err


def test_an_unknown_host_is_a_usage_error(shell):
    done = shell.run("catalog", "--host", "nobody", "--json")
    assert done.status == 2
    assert "codewhale" in done.json["error"]["hint"]


def test_skills_beyond_the_budget_are_named(shell):
    for number in range(60):
        shell.skill(f"project/.agents/skills/skill-{number:02}")
    done = shell.run("catalog", "--window", "20000")
    assert "skills are hidden from the model" in done.err
    assert "left out: skill-59" in done.err
    shown = json.loads(shell.run("catalog", "--window", "20000", "--json").out)
    assert shown["used"] <= shown["budget"] == 400
    assert shown["unit"] == "tokens"
    none = shell.run("catalog", "--window", "1").err
    assert "60 of 60 skills" in none
    assert "finds no skill" not in none


def test_an_installed_skill_is_listed_with_its_source(shell):
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    shown = shell.run("catalog", "--json").json
    (found,) = shown["skills"]
    assert (found["name"], found["source"], found["enabled"], found["listed"]) == (
        "release-notes",
        "github",
        True,
        True,
    )
    assert shown["problems"] == []
    assert str(shell.project / ".agents/skills/release-notes/SKILL.md") in shown["text"]


def test_a_disabled_skill_is_not_shown_to_a_model(shell):
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    assert shell.run("disable", "release-notes").status == 0
    shown = shell.run("catalog", "--json").json
    (found,) = shown["skills"]
    assert (found["enabled"], found["listed"], found["why"]) == (False, False, "disabled")
    assert found["command"] == "skillhub enable release-notes"
    assert "release-notes" not in shown["text"]
