"""Places in agents' folders: shared places, foreign files, and links out of the project."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from skillhub.errors import LinkLeavesProject, SkillhubError, StateError
from tests.support.world import Answers, plain, refused, skill, snapshot, unlocked


@pytest.mark.parametrize("make", ["folder", "file", "link", "empty"])
def test_a_foreign_file_at_the_place_of_a_copy_is_not_touched(world, make):
    place = world.copy("plain")
    place.parent.mkdir(parents=True)
    if make == "folder":
        skill(place.parent, "plain", "Mine.\n")
    elif make == "empty":
        place.mkdir()
    elif make == "file":
        place.write_text("mine")
    else:
        place.symlink_to(world.folder)
    path = plain(world)
    before = unlocked(world.snapshot())
    with pytest.raises(StateError) as caught:
        world.install(path)
    assert caught.value.where == str(place)
    assert unlocked(world.snapshot()) == before


@pytest.mark.parametrize("has_folder", [False, True])
def test_attack_a_folder_of_a_clone_named_as_set_aside_does_not_take_the_place_of_a_new_skill(world, has_folder):
    path = plain(world)
    aside = skill(world.base / ".agents", ".skillhub-0123456789ab-old@plain", "Not agreed to.\n")
    if has_folder:
        skill(world.base / ".agents/skills", "other")
    assert world.install(path).changed
    assert "Not agreed to." not in (world.copy("plain") / "SKILL.md").read_text()
    assert aside.is_dir()
    assert world.problems() == []


@pytest.mark.parametrize("link", [".agents/skills", ".agents", ".claude/skills"])
def test_a_file_in_place_of_an_agents_folder_is_refused_before_any_change(world, link):
    place = world.base / link
    (world.base / ".claude").mkdir()
    place.parent.mkdir(exist_ok=True)
    place.write_text("mine")
    path = plain(world)
    error = refused(world, StateError, lambda: world.install(path))
    assert (error.where or "").startswith(str(place))
    assert "move it away" in (error.hint or "")
    place.unlink()
    world.install(path)
    assert (world.base / ".agents/skills/plain/SKILL.md").exists()


def test_a_foreign_folder_created_during_a_question_is_not_touched(world):
    answers = Answers("yes")
    answers.meanwhile = lambda: skill(world.base / ".agents/skills", "plain", "Mine.\n")
    with pytest.raises(StateError):
        world.install(plain(world), answers=answers)
    assert "Mine." in (world.copy("plain") / "SKILL.md").read_text()


def test_an_edit_made_during_a_question_is_not_lost(world):
    path = plain(world)
    world.install(path)
    skill(world.base / "src", body="Newer.\n")
    answers = Answers("yes")
    answers.meanwhile = lambda: (world.copy("plain") / "SKILL.md").write_text("mine\n")
    with pytest.raises(StateError, match="edited again meanwhile"):
        world.install(path, answers=answers)
    assert (world.copy("plain") / "SKILL.md").read_text() == "mine\n"


def test_an_equal_copy_is_taken_over(world):
    path = plain(world)
    shutil.copytree(path, world.copy("plain"))
    assert world.install(path).skills[0].state == "enabled"


def test_two_agents_with_one_folder_have_one_link(world):
    (world.base / ".agents/skills").mkdir(parents=True)
    (world.base / ".claude").mkdir()
    (world.base / ".claude/skills").symlink_to("../.agents/skills")
    world.install(plain(world), agents=("claude-code", "codex"))
    assert world.record("plain").links == (".agents/skills/plain",)
    assert (world.base / ".claude/skills/plain/SKILL.md").exists()
    assert world.problems() == []
    world.remove("plain")
    assert list((world.base / ".agents/skills").iterdir()) == []
    assert (world.base / ".claude/skills").is_symlink()


def test_links_are_replaced_by_copies_and_copies_by_links(world):
    path = plain(world)
    world.install(path, link="symlink")
    assert world.copy("plain").is_symlink()
    world.install(path)
    assert world.copy("plain").is_symlink()
    world.install(path, link="copy", answers=Answers())
    assert not world.copy("plain").is_symlink()
    assert world.problems() == []
    world.install(path, link="symlink", answers=Answers())
    world.remove("plain", answers=Answers())
    assert not os.path.lexists(world.copy("plain"))


@pytest.mark.parametrize("verb", ["remove", "disable", "sync"])
def test_attack_a_later_link_makes_the_source_the_copy_for_agents(world, verb):
    """A branch may bring the link while the copies are cleaned away."""
    source = Path(plain(world))
    world.install(str(source))
    shutil.rmtree(world.base / ".agents/skills")
    (world.base / ".agents/skills").symlink_to("../src")
    (source / "SKILL.md").write_text("The next version.\n")
    act = {"remove": lambda: world.remove("plain"), "disable": lambda: world.disable("plain")}.get(verb, world.sync)
    error = refused(world, StateError, act)
    assert (error.where, error.message.endswith("own source, src/plain")) == (str(world.copy("plain")), True)


OUT = (".agents", ".agents/skills", ".claude", ".claude/skills", "skillhub.lock", "skillhub.toml", ".mcp.json")


@pytest.mark.parametrize("link", OUT)
@pytest.mark.parametrize("target", ["outside", "dangling", "home"])
def test_attack_a_link_out_of_the_project_is_refused(world, link, target):
    tools = "dependencies:\n  tools:\n    - {type: mcp, value: t, transport: stdio, command: python3}\n"
    path = plain(world, agents__openai_yaml=tools)
    outside = world.folder / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    place = world.base / link
    place.parent.mkdir(parents=True, exist_ok=True)
    goal = {"outside": outside, "dangling": outside / "new", "home": world.user_home}[target]
    place.symlink_to(goal)
    before = (unlocked(world.snapshot()), snapshot(outside))
    for act in (
        lambda: world.install(path, agents=("claude-code",), mcp="configure"),
        lambda: world.install(agents=("claude-code",), mcp="configure"),
    ):
        with pytest.raises(SkillhubError) as caught:
            act()
        assert caught.value.code in ("link-leaves-project", "usage")
    assert (unlocked(world.snapshot()), snapshot(outside)) == before


def test_attack_a_folder_for_edits_that_leads_out_of_the_project_is_refused(world):
    world.install(plain(world))
    outside = world.folder / "outside"
    outside.mkdir()
    (world.base / "skillhub-edits").symlink_to(outside)
    (world.copy("plain") / "SKILL.md").write_text("mine\n")
    for act in (world.sync, world.install, lambda answers: world.disable("plain", answers=answers)):
        with pytest.raises(LinkLeavesProject):
            act(answers=Answers("yes"))
        assert (world.copy("plain") / "SKILL.md").read_text() == "mine\n"
    assert list(outside.iterdir()) == []


def test_attack_an_agents_folder_that_leads_into_git_is_refused(world):
    (world.base / ".git/hooks").mkdir(parents=True)
    (world.base / ".claude").symlink_to(".git")
    with pytest.raises(LinkLeavesProject):
        world.install(plain(world), agents=("claude-code",))
    assert list((world.base / ".git").iterdir()) == [world.base / ".git/hooks"]


def test_attack_a_link_created_after_the_install_is_refused(world):
    world.install(plain(world), agents=("claude-code",))
    outside = world.folder / "outside"
    shutil.move(world.base / ".claude", outside)
    (world.base / ".claude").symlink_to(outside)
    before = snapshot(outside)
    for act in (world.sync, world.problems, lambda: world.disable("plain"), lambda: world.remove("plain")):
        with pytest.raises(LinkLeavesProject):
            act()
    assert snapshot(outside) == before


def test_a_link_inside_the_project_is_followed(world):
    (world.base / "docs").mkdir()
    (world.base / ".claude").symlink_to("docs")
    world.install(plain(world), agents=("claude-code",))
    assert (world.base / "docs/skills/plain/SKILL.md").is_file()
    assert world.problems() == []
