"""Disable removes the copies, changes no other file, and lasts."""

from __future__ import annotations

import json

import pytest

from skillhub.errors import NotFound, Refused
from tests.support.world import STDIO, Answers, World, needs, skill, unlocked


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    path = str(skill(world.base / "src", agents__openai_yaml=needs(STDIO)))
    world.install(path, agents=("claude-code",), mcp="configure")
    return world


def test_install_update_and_sync_leave_a_disabled_skill_unchanged(world):
    world.disable("plain")
    before = unlocked(world.snapshot())
    for act in (world.install, lambda: world.install(frozen=True), world.update, world.sync):
        assert not act().changed
    assert unlocked(world.snapshot()) == before


def test_a_skill_stays_disabled_until_enable(world):
    kept = {name: (world.base / name).read_bytes() for name in ("skillhub.lock", "skillhub.toml", ".mcp.json")}
    outcome = world.disable("plain")
    assert (outcome.changed, outcome.skills[0].state, outcome.skills[0].links) == (True, "disabled", ())
    assert {name: (world.base / name).read_bytes() for name in kept} == kept
    path = str(world.base / "src/plain")
    for act in (world.sync, world.install, lambda: world.install(path), lambda: world.install(frozen=True)):
        assert act().skills[0].state == "disabled"
        assert not world.copy("plain").exists()
        assert not world.copy("plain", ".claude/skills").exists()
    skill(world.base / "src", body="Newer.\n", agents__openai_yaml=needs(STDIO))
    assert world.install(path).skills[0].state == "disabled"
    assert not world.copy("plain").exists()
    assert world.problems() == []
    assert world.enable("plain", mcp="configure", answers=Answers()).skills[0].state == "enabled"
    assert world.copy("plain").is_dir()
    assert "tracker" in json.loads((world.base / ".mcp.json").read_text())["mcpServers"]


def test_disable_twice_changes_nothing(world):
    world.disable("plain")
    before = unlocked(world.snapshot())
    assert not world.disable("plain").changed
    assert unlocked(world.snapshot()) == before


@pytest.mark.parametrize("act", ["disable", "remove"])
def test_copies_of_a_project_without_records_are_removed_if_they_are_exact(world, act):
    """The records of a project that was copied, moved or cloned are elsewhere."""
    here = world.on_another_machine()
    (here.copy("plain", ".claude/skills") / "SKILL.md").write_text("mine\n")
    outcome = getattr(here, act)("plain")
    assert outcome.changed
    assert not here.copy("plain").exists()
    assert (here.copy("plain", ".claude/skills") / "SKILL.md").read_text() == "mine\n"
    edited = here.copy("plain", ".claude/skills")
    noted = [note for note in outcome.warnings if note.endswith(", which differs from the lock: move it away")]
    assert len(noted) == 1
    assert str(edited) in noted[0]


def test_edits_are_asked_about_before_disable(world):
    (world.copy("plain") / "SKILL.md").write_text("mine\n")
    before = unlocked(world.snapshot())
    with pytest.raises(Refused):
        world.disable("plain", answers=Answers())
    assert unlocked(world.snapshot()) == before
    world.disable("plain", answers=Answers("yes"))
    assert "+mine" in (world.base / "skillhub-edits/plain-1.patch").read_text()


def test_disable_and_enable_of_an_unlocked_skill_are_not_found(world):
    for verb in (world.disable, world.enable):
        with pytest.raises(NotFound):
            verb("nobody")


def test_copies_are_excluded_from_git_only_while_enabled(world):
    (world.base / ".git/info").mkdir(parents=True)
    (world.base / ".git/HEAD").write_text("ref: refs/heads/main\n")
    world.disable("plain")
    world.enable("plain", mcp="skip", agents=("claude-code",))
    text = (world.base / ".git/info/exclude").read_text()
    assert "/.agents/skills/plain\n/.claude/skills/plain\n" in text
    world.disable("plain")
    assert (world.base / ".git/info/exclude").read_text() == ""
