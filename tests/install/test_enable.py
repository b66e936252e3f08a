"""Enable checks the needs again, asks what is open, and links what nothing holds back."""

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


def test_it_asks_again_for_what_is_still_open(world):
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


def test_another_agent_is_added_to_those_that_have_it(world):
    world.install(str(skill(world.base / "src")), agents=("claude-code",))
    world.enable("plain", agents=("windsurf",), answers=Answers())
    assert world.record("plain").links == (".agents/skills/plain", ".windsurf/skills/plain", ".claude/skills/plain")
    assert world.problems() == []


def test_an_enabled_skill_changes_nothing(world):
    world.install(str(skill(world.base / "src")))
    before = unlocked(world.snapshot())
    assert not world.enable("plain", answers=Answers()).changed
    assert unlocked(world.snapshot()) == before


def test_edits_are_asked_about(world):
    world.install(str(skill(world.base / "src")))
    (world.copy("plain") / "SKILL.md").write_text("mine\n")
    with pytest.raises(Refused):
        world.enable("plain", answers=Answers())
    assert (world.copy("plain") / "SKILL.md").read_text() == "mine\n"


def test_a_store_that_was_changed_is_not_linked(world):
    folder = skill(world.base / "src")
    world.install(str(folder), enable=False)

    stored = Path(world.store.path(world.lock().skills["plain"].tree))
    (stored / "SKILL.md").chmod(0o644)
    (stored / "SKILL.md").write_text("---\nname: plain\ndescription: Evil.\n---\n")
    (folder / "SKILL.md").write_text("---\nname: plain\ndescription: Evil.\n---\n")
    with pytest.raises(WrongBytes):
        world.enable("plain")
    assert not world.copy("plain").exists()


def test_attack_a_lock_claims_more_of_what_was_agreed_to_than_is_there(world):
    world.install(plain(world, scripts__run_sh="echo\n"))
    world.disable("plain")
    claim(world, "scripts", "shell")
    with pytest.raises(WrongBytes, match="can do shell"):
        world.enable("plain")
    assert not world.copy("plain").exists()
    claim(world)
    assert any("capabilities: scripts" in each for each in world.enable("plain").warnings)


def claim(world, *capabilities):
    """Have the lock say that this is what the skill can do."""
    lock = world.lock()
    entry = replace(lock.skills["plain"], capabilities=capabilities)
    world.project.write_lock(replace(lock, skills={"plain": entry}).dump())


class Watched(World):
    """A ``World`` that remembers who named the places that were reached."""

    def __init__(self, *args, **environ):
        super().__init__(*args, **environ)
        self.named_by = []

    def reach(self, ref, pin=None, *, named_by="person", check_allowed=None):
        self.named_by.append(named_by)
        return super().reach(ref, pin, named_by=named_by, check_allowed=check_allowed)


def test_what_was_agreed_to_is_fetched_again_from_where_only_this_person_may_go(tmp_path):
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
    assert any("capabilities: scripts" in each for each in done.warnings)  # and is read whole all the same


def test_which_of_many_is_not_what_was_locked_is_told(world):
    sources = [skill(world.base / "src", name) for name in ("one", "two")]
    world.install(*map(str, sources))
    world.disable("one", "two")
    remove_tree(world.store.root)
    (sources[1] / "SKILL.md").write_text("---\nname: two\ndescription: x\n---\n")
    with pytest.raises(WrongBytes) as caught:
        world.enable("one", "two")
    assert caught.value.where == "two: src/two"
