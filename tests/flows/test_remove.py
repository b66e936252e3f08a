"""Remove takes back links, lock, intent, and MCP entries that are still ours; nothing of anybody else's."""

from __future__ import annotations

import json

import pytest

from skillhub.errors import NotFound, Refused
from skillhub.flows.verify import verify
from tests.support.world import STDIO, Answers, needs, skill, unlocked

CLAUDE = {"agents": ("claude-code",), "mcp": "configure"}


def needy(world, name):
    return str(skill(world.base / "src", name, agents__openai_yaml=needs(STDIO)))


def servers(world):
    return json.loads((world.base / ".mcp.json").read_text())["mcpServers"]


def test_all_of_it_goes_and_all_else_stays(world):
    (world.base / "skillhub.toml").write_text('# ours\n[skills]\n# why\nrelease-notes = "^1"\n')
    (world.base / ".mcp.json").write_text('{\n  "mcpServers": {\n    "mine": {"command": "x"}\n  }\n}\n')
    before = unlocked(world.snapshot())
    world.install("github:code-review", needy(world, "plain"), **CLAUDE)
    world.remove("plain", "code-review")
    assert (world.base / "skillhub.toml").read_text() == '# ours\n[skills]\n# why\nrelease-notes = "^1"\n'
    assert servers(world) == {"mine": {"command": "x"}}
    assert (world.lock().skills, world.lock().sources) == ({}, {})
    assert world.project.records().skills == {}
    kept = {path for path in before if str(world.base) in path}
    extra = {path for path in unlocked(world.snapshot()) if str(world.base) in path and "/src/" not in path}
    assert extra - kept == {str(world.base / "skillhub.lock")}


def test_an_entry_that_somebody_changed_stays(world):
    world.install(needy(world, "plain"), **CLAUDE)
    path = world.base / ".mcp.json"
    path.write_text(path.read_text().replace("python3", "python4"))
    world.remove("plain")
    assert servers(world)["tracker"]["command"] == "python4"


@pytest.mark.parametrize("first", ["one", "two"])
def test_an_entry_that_another_skill_needs_stays_until_that_goes_too(world, first):
    world.install(needy(world, "one"), **CLAUDE)
    world.install(needy(world, "two"), **CLAUDE)
    world.remove(first)
    assert "tracker" in servers(world)
    world.remove({"one": "two", "two": "one"}[first])
    assert servers(world) == {}


def test_both_at_once_leave_no_entry(world):
    world.install(needy(world, "one"), needy(world, "two"), **CLAUDE)
    world.remove("one", "two")
    assert servers(world) == {}


def test_what_is_not_locked(world):
    world.install("github:code-review")
    before = unlocked(world.snapshot())
    with pytest.raises(NotFound):
        world.remove("code-review", "nobody")
    assert unlocked(world.snapshot()) == before


def test_edits_are_asked_about_first(world):
    world.install("github:code-review")
    (world.copy("code-review") / "SKILL.md").write_text("mine\n")
    before = unlocked(world.snapshot())
    with pytest.raises(Refused):
        world.remove("code-review", answers=Answers())
    assert unlocked(world.snapshot()) == before
    world.remove("code-review", answers=Answers("yes"))
    assert "+mine" in (world.base / "skillhub-edits/code-review-1.patch").read_text()
    assert not world.copy("code-review").exists()


def test_a_skill_that_a_colleague_removed_leaves_its_entry_to_remove(world):
    world.install(needy(world, "plain"), **CLAUDE)
    (world.base / "skillhub.lock").unlink()
    (world.base / "skillhub.toml").unlink()
    world.sync()
    assert not world.copy("plain").exists()
    assert "tracker" in servers(world)
    world.remove("plain")
    assert servers(world) == {}
    with pytest.raises(NotFound):
        world.remove("plain")


def test_removed_is_forgotten_and_asked_about_again(world):
    world.install("github:code-review")
    world.remove("code-review")
    with pytest.raises(Refused):
        world.install("github:code-review", answers=Answers())


def test_what_is_named_twice_is_meant_once(world):
    world.install("github:code-review", needy(world, "plain"), **CLAUDE)
    twice = ("plain", "plain")
    for act in (world.update, world.disable, world.enable, world.remove):
        skills = act(*twice).skills
        assert [each.name for each in skills] == (["plain"] if act != world.update else []), act
    assert skills[0].description == "Does it."
    assert (skills[0].state, skills[0].links) == ("disabled", ())
    assert len(verify(["code-review"] * 2, world.ports())) == 1
