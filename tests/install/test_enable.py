"""Enable checks the needs again, asks about open ones, and links a skill without open needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skillhub.disk.folders import remove_tree
from skillhub.errors import Refused, WrongBytes
from skillhub.sources.repository import Repository
from tests.support.snapshot import Hub, Memory
from tests.support.snapshot import skill as text_of
from tests.support.world import STDIO, TOKEN, Answers, World, needs, plain, skill, unlocked


def test_enable_asks_again_about_open_needs(world):
    world.install(str(skill(world.base / "src", agents__openai_yaml=needs(STDIO, TOKEN))))
    answers = Answers("yes", mcp="no")
    outcome = world.enable("plain", agents=("claude-code",), answers=answers)
    assert answers.kinds_seen == ["env", "mcp"]
    assert outcome.skills[0].state == "disabled"
    assert not world.copy("plain").exists()
    answers = Answers("yes")
    answers.values["TRACKER_TOKEN"] = "x"
    assert world.enable("plain", agents=("claude-code",), answers=answers).skills[0].state == "enabled"
    assert world.problems() == []


def test_enable_adds_an_agent_to_the_others(world):
    world.install(str(skill(world.base / "src")), agents=("claude-code",))
    world.enable("plain", agents=("windsurf",), answers=Answers())
    assert world.record("plain").links == (".agents/skills/plain", ".windsurf/skills/plain", ".claude/skills/plain")
    assert world.problems() == []


def test_enable_of_an_enabled_skill_changes_nothing(world):
    world.install(str(skill(world.base / "src")))
    before = unlocked(world.snapshot())
    assert not world.enable("plain", answers=Answers()).changed
    assert unlocked(world.snapshot()) == before


def test_edits_are_asked_about_before_enable(world):
    world.install(str(skill(world.base / "src")))
    (world.copy("plain") / "SKILL.md").write_text("mine\n")
    with pytest.raises(Refused):
        world.enable("plain", answers=Answers())
    assert (world.copy("plain") / "SKILL.md").read_text() == "mine\n"


def test_a_changed_tree_in_the_store_is_not_enabled(world):
    folder = skill(world.base / "src")
    world.install(str(folder), enable=False)

    stored = Path(world.store.path(world.lock().skills["plain"].tree))
    (stored / "SKILL.md").chmod(0o644)
    (stored / "SKILL.md").write_text("---\nname: plain\ndescription: Evil.\n---\n")
    (folder / "SKILL.md").write_text("---\nname: plain\ndescription: Evil.\n---\n")
    with pytest.raises(WrongBytes):
        world.enable("plain")
    assert not world.copy("plain").exists()


def test_attack_a_lock_with_more_capabilities_than_the_skill_is_refused(world):
    world.install(plain(world, scripts__run_sh="echo\n"))
    world.disable("plain")
    claim(world, "scripts", "shell")
    with pytest.raises(WrongBytes, match="can do shell"):
        world.enable("plain")
    assert not world.copy("plain").exists()
    claim(world)
    assert any("capabilities: scripts" in each for each in world.enable("plain").warnings)


def claim(world, *capabilities):
    """Write these capabilities of the skill into the lock."""
    lock = world.lock()
    entry = replace(lock.skills["plain"], capabilities=capabilities)
    world.project.write_lock(replace(lock, skills={"plain": entry}).dump())


class Watched(World):
    """A ``World`` that records who named each place that it reads."""

    def __init__(self, *args, **environ):
        super().__init__(*args, **environ)
        self.named_by = []

    def open_place(self, ref, pin=None, *, named_by="person", check_allowed=None):
        self.named_by.append(named_by)
        return super().open_place(ref, pin, named_by=named_by, check_allowed=check_allowed)


def test_enable_fetches_again_from_a_place_that_the_user_named(tmp_path):
    world = Watched(tmp_path)
    url = "https://git.example/skills"
    snapshot = Memory({"plain/SKILL.md": text_of("plain"), "plain/scripts/run.sh*": "echo\n"})
    world.places[f"git+{url}"] = Repository(snapshot, url=url, elsewhere=Hub())
    world.install(f"git+{url}", skills=("plain",))
    world.disable("plain")
    remove_tree(world.store.root)
    del world.named_by[:]
    claim(world)
    done = world.enable("plain", answers=Answers())
    assert world.named_by == ["person"]
    assert done.skills[0].state == "enabled"
    assert any("capabilities: scripts" in each for each in done.warnings)  # the skill is still scanned in full


def test_the_error_names_the_changed_skill_among_several(world):
    sources = [skill(world.base / "src", name) for name in ("one", "two")]
    world.install(*map(str, sources))
    world.disable("one", "two")
    remove_tree(world.store.root)
    (sources[1] / "SKILL.md").write_text("---\nname: two\ndescription: x\n---\n")
    with pytest.raises(WrongBytes) as caught:
        world.enable("one", "two")
    assert caught.value.where == "two: src/two"
