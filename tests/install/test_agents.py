"""One project, several agents: copies are repaired together, and an added agent gets every skill."""

from __future__ import annotations

import json
import os

import pytest

from skillhub.errors import StateError
from skillhub.model.hosts import hosts
from skillhub.model.tree import File, Tree
from skillhub.project import copies
from tests.support.world import STDIO, Answers, needs, skill

FOLDERS = (".agents/skills", ".claude/skills", ".windsurf/skills")


def served(world):
    return str(skill(world.base / "src", "plain", agents__openai_yaml=needs(STDIO)))


def servers(world, path):
    file = world.base / path
    return list(json.loads(file.read_text())["mcpServers"]) if file.exists() else []


def test_one_command_repairs_every_copy(world):
    world.install(str(skill(world.base / "src", scripts__run_sh="echo\n")), agents=("claude-code", "windsurf"))
    (world.copy("plain") / "SKILL.md").write_text("mine\n")
    (world.copy("plain", FOLDERS[1]) / "scripts/run.sh").chmod(0o644)
    (world.copy("plain", FOLDERS[2]) / "scripts/evil.py").write_text("x")
    assert sorted(world.problems()) == ["changed-file", "changed-mode", "extra-file"]
    world.sync(Answers("yes"))
    assert world.problems() == []


def test_all_is_every_agent_except_those_that_a_policy_forbids(world):
    (world.folder / "machine").mkdir()
    (world.folder / "machine/policy.toml").write_text('agents = ["codex", "claude-code"]\n')
    world.install(str(skill(world.base / "src")), agents=("all",))
    assert set(world.record("plain").links) == {".agents/skills/plain", ".claude/skills/plain"}
    (world.folder / "machine/policy.toml").unlink()
    world.install(agents=("all",))
    folders = {host.project_dir for host in hosts().values() if host.project_dir}
    assert {os.path.dirname(link) for link in world.record("plain").links} == folders


def test_an_agent_added_later_gets_the_skill_and_its_server(world):
    path = served(world)
    world.install(path, agents=("claude-code",), mcp="configure")
    assert (servers(world, ".mcp.json"), servers(world, ".cursor/mcp.json")) == (["tracker"], [])
    answers = Answers("yes")
    outcome = world.install(agents=("cursor",), answers=answers)
    assert answers.kinds_seen == ["mcp"]
    assert outcome.changed
    assert servers(world, ".cursor/mcp.json") == ["tracker"]
    assert set(world.record("plain").mcp["tracker"]) == {"claude-code", "cursor"}
    silent = Answers()
    assert not world.install(answers=silent).changed
    assert silent.seen == []
    world.remove("plain")
    assert (servers(world, ".mcp.json"), servers(world, ".cursor/mcp.json")) == ([], [])


@pytest.mark.parametrize("reply", ["no", "unanswered"])
def test_an_agent_added_without_its_server_leaves_the_skill_enabled(world, reply):
    world.install(served(world), agents=("claude-code",), mcp="configure")
    outcome = world.install(agents=("cursor",), answers=Answers(reply))
    assert [each.state for each in outcome.skills] == ["enabled"]
    assert servers(world, ".cursor/mcp.json") == []
    assert world.problems() == []


def test_a_waived_server_is_not_asked_about_for_an_added_agent(world):
    world.install(served(world), agents=("claude-code",), mcp="skip")
    answers = Answers()
    world.install(answers=answers)
    assert answers.seen == []
    world.install(agents=("cursor",), mcp="skip", answers=answers)
    assert answers.seen == []
    assert world.record("plain").waived == ("mcp:tracker",)


def test_another_server_of_the_name_at_an_added_agent_is_left(world):
    world.install(served(world), agents=("claude-code",), mcp="configure")
    (world.base / ".cursor").mkdir()
    (world.base / ".cursor/mcp.json").write_text('{"mcpServers": {"tracker": {"command": "mine"}}}')
    answers = Answers("no")
    world.install(agents=("cursor",), mcp="configure", answers=answers)
    assert answers.kinds_seen == ["mcp-conflict"]
    assert "mine" in (world.base / ".cursor/mcp.json").read_text()
    world.remove("plain")
    assert "mine" in (world.base / ".cursor/mcp.json").read_text()


@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_a_foreign_file_at_an_added_agent_stops_the_install_and_stays(world, what):
    world.install(str(skill(world.base / "src")))
    place = world.copy("plain", ".claude/skills")
    place.parent.mkdir(parents=True)
    if what == "file":
        place.write_text("mine")
    elif what == "folder":
        skill(place.parent, "plain", "Mine.\n")
    else:
        place.symlink_to(world.folder)
    with pytest.raises(StateError):
        world.install(agents=("claude-code",))
    assert os.path.lexists(place)
    assert world.record("plain").links == (".agents/skills/plain",)


def refuse(target, path, at):
    raise OSError(1314, "a required privilege is not held")


def place(world):
    (world.base / ".agents/skills").mkdir(parents=True)
    return str(world.copy("plain"))


def test_a_copy_replaces_a_link_that_cannot_be_made(world):
    tree = Tree({"SKILL.md": File(b"x\n")})
    stored, path = world.store.put(tree), place(world)
    copies.write_copy(world.project, path, tree, stored, "symlink", [refuse])
    assert not os.path.islink(path)
    assert copies.compare_copy(path, tree.listing, world.store, "symlink") == ("equal", [])
    (world.copy("plain") / "SKILL.md").write_text("mine\n")
    assert copies.compare_copy(path, tree.listing, world.store, "symlink")[0] == "edited"


def test_the_next_kind_of_link_is_tried_if_one_is_not_allowed(world):
    tree = Tree({"SKILL.md": File(b"x\n")})
    stored, path = world.store.put(tree), place(world)
    copies.write_copy(world.project, path, tree, stored, "symlink", [refuse, copies.LINKAGES[0]])
    assert os.readlink(path) == stored


def test_edits_of_a_copy_in_place_of_a_link_are_asked_about(world):
    path = str(skill(world.base / "src"))
    world.install(path, link="symlink")
    copy = world.copy("plain")
    tree = world.store.read(world.record("plain").tree)
    copies.remove_copy(world.project, str(copy))
    copies.write_copy(world.project, str(copy), tree, world.store.path(tree.digest), "symlink", [refuse])
    assert world.problems() == []
    assert not world.sync().changed
    (copy / "SKILL.md").write_text("mine\n")
    answers = Answers("yes")
    world.sync(answers)
    assert answers.kinds_seen == ["local-edit"]
    assert "+mine" in (world.base / "skillhub-edits/plain-1.patch").read_text()
