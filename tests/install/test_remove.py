"""Remove deletes copies, lock entry, intent line and unchanged MCP entries, and nothing of the user's."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from skillhub.audit.verify import verify
from skillhub.command.ports import Options
from skillhub.errors import NotFound, Refused
from skillhub.install.apply import remove
from skillhub.install.install import install
from skillhub.model.reference import parse_ref
from skillhub.project.project import Project
from tests.support.world import STDIO, Answers, needs, skill, unlocked

CLAUDE = {"agents": ("claude-code",), "mcp": "configure"}


def needy(world, name):
    return str(skill(world.base / "src", name, agents__openai_yaml=needs(STDIO)))


def servers(world):
    path = world.base / ".mcp.json"
    return json.loads(path.read_text())["mcpServers"] if path.exists() else {}


def test_remove_deletes_everything_of_the_skill_and_nothing_else(world):
    (world.base / "skillhub.toml").write_text('# ours\n[skills]\n# why\nrelease-notes = "^1"\n')
    (world.base / ".mcp.json").write_text('{\n  "mcpServers": {\n    "mine": {"command": "x"}\n  }\n}\n')
    world.install(**CLAUDE)
    before, kept_lock = unlocked(world.snapshot()), world.lock()
    world.install("github:code-review", needy(world, "plain"), **CLAUDE)
    world.remove("plain", "code-review")
    assert (world.base / "skillhub.toml").read_text() == '# ours\n[skills]\n# why\nrelease-notes = "^1"\n'
    assert servers(world) == {"mine": {"command": "x"}}
    assert world.lock() == kept_lock
    assert world.project.records().skills.keys() == {"release-notes"}
    kept = {path for path in before if str(world.base) in path}
    extra = {path for path in unlocked(world.snapshot()) if str(world.base) in path and "/src/" not in path}
    assert extra == kept


def test_an_entry_that_the_user_changed_stays(world):
    world.install(needy(world, "plain"), **CLAUDE)
    path = world.base / ".mcp.json"
    path.write_text(path.read_text().replace("python3", "python4"))
    world.remove("plain")
    assert servers(world)["tracker"]["command"] == "python4"


@pytest.mark.parametrize("first", ["one", "two"])
def test_an_entry_that_another_skill_needs_stays_until_that_is_removed(world, first):
    world.install(needy(world, "one"), **CLAUDE)
    world.install(needy(world, "two"), **CLAUDE)
    world.remove(first)
    assert "tracker" in servers(world)
    world.remove({"one": "two", "two": "one"}[first])
    assert servers(world) == {}


def test_removing_both_skills_at_once_removes_their_entry(world):
    world.install(needy(world, "one"), needy(world, "two"), **CLAUDE)
    world.remove("one", "two")
    assert servers(world) == {}


def test_remove_of_an_unlocked_skill_changes_nothing(world):
    world.install("github:code-review")
    before = unlocked(world.snapshot())
    with pytest.raises(NotFound) as refused:
        world.remove("code-review", "für alle")
    assert refused.value.message == "no skill named 'für alle' is installed here"
    assert unlocked(world.snapshot()) == before


def test_edits_are_asked_about_before_removal(world):
    world.install("github:code-review")
    (world.copy("code-review") / "SKILL.md").write_text("mine\n")
    before = unlocked(world.snapshot())
    with pytest.raises(Refused):
        world.remove("code-review", answers=Answers())
    assert unlocked(world.snapshot()) == before
    world.remove("code-review", answers=Answers("yes"))
    assert "+mine" in (world.base / "skillhub-edits/code-review-1.patch").read_text()
    assert not world.copy("code-review").exists()


def test_remove_deletes_the_entry_of_a_skill_that_a_colleague_removed(world):
    world.install(needy(world, "plain"), **CLAUDE)
    (world.base / "skillhub.lock").write_text('{"skills": {}, "sources": {}, "version": 1}\n')
    (world.base / "skillhub.toml").unlink()
    world.sync()
    assert not world.copy("plain").exists()
    assert "tracker" in servers(world)
    world.remove("plain")
    assert servers(world) == {}
    with pytest.raises(NotFound):
        world.remove("plain")


def test_a_skill_that_no_lock_names_is_named_by_its_removal_and_by_the_dry_run(world):
    world.install("github:code-review")
    (world.base / "skillhub.lock").unlink()
    planned = remove(["code-review"], world.ports(), dry_run=True)
    assert planned.warnings == ("code-review, which skillhub.lock does not name, would be removed",)
    assert planned.pending and world.copy("code-review").exists()
    done = world.remove("code-review")
    assert done.warnings == ("code-review, which skillhub.lock does not name, was removed",)
    assert not world.copy("code-review").exists()


def test_a_removed_skill_needs_new_consent(world):
    world.install("github:code-review")
    world.remove("code-review")
    with pytest.raises(Refused):
        world.install("github:code-review", answers=Answers())


def test_a_skill_named_twice_is_handled_once(world):
    world.install("github:code-review", needy(world, "plain"), **CLAUDE)
    twice = ("plain", "plain")
    for act in (world.update, world.disable, world.enable, world.remove):
        skills = act(*twice).skills
        assert [each.name for each in skills] == (["plain"] if act != world.update else []), act
    assert skills[0].description == "Does it."
    assert (skills[0].state, skills[0].links) == ("disabled", ())
    assert len(verify(["code-review"] * 2, world.ports())) == 1


def below(world):
    """Return the files of the project except the skill's own source."""
    return sorted(
        path.relative_to(world.base).as_posix()
        for path in world.base.rglob("*")
        if path.relative_to(world.base).parts[0] != "src"
    )


EVERYBODY = ("claude-code", "codex", "cursor", "github-copilot", "opencode")


def test_empty_folders_and_files_created_for_a_skill_are_removed(world):
    world.install(needy(world, "plain"), agents=EVERYBODY, mcp="configure")
    assert {".claude/skills", ".mcp.json", ".codex/config.toml", "opencode.json"} <= {*below(world)}
    world.remove("plain")
    assert below(world) == ["skillhub.lock", "skillhub.toml"]
    assert (world.project.records().created_paths, world.project.records().agents) == ((), ())
    world.install(str(skill(world.base / "src", "other")))
    assert world.record("other").links == (".agents/skills/other",)


def test_folders_in_use_by_another_skill_are_removed_with_it(world):
    world.install(needy(world, "one"), needy(world, "two"), agents=EVERYBODY, mcp="configure")
    world.remove("one")
    assert {".claude/skills", ".mcp.json"} <= {*below(world)}
    world.install(str(skill(world.base / "src", "other")))
    assert world.copy("other", ".claude/skills").exists()
    world.remove("two", "other")
    assert below(world) == ["skillhub.lock", "skillhub.toml"]


def test_empty_folders_and_files_of_the_user_stay(world):
    (world.base / ".claude" / "skills").mkdir(parents=True)
    (world.base / ".mcp.json").write_text('{"mcpServers": {}}\n')
    (world.base / ".codex").mkdir()
    world.install(needy(world, "plain"), agents=EVERYBODY, mcp="configure")
    world.remove("plain")
    kept = [".claude", ".claude/skills", ".codex", ".mcp.json", "skillhub.lock", "skillhub.toml"]
    assert below(world) == kept
    assert json.loads((world.base / ".mcp.json").read_text()) == {"mcpServers": {}}


def test_files_that_the_user_added_to_created_folders_stay(world):
    world.install(needy(world, "plain"), agents=EVERYBODY, mcp="configure")
    (world.base / ".claude" / "settings.json").write_text("{}")
    (world.base / ".cursor" / "mcp.json").write_text('{"mcpServers": {}, // mine\n}')
    (world.base / ".codex" / "config.toml").write_text(f'model = "{"x" * (1 << 17)}"\n')
    world.remove("plain")
    kept = [".claude", ".claude/settings.json", ".codex", ".codex/config.toml", ".cursor", ".cursor/mcp.json"]
    assert below(world) == [*kept, "skillhub.lock", "skillhub.toml"]


@pytest.mark.parametrize("theirs", ["elsewhere", "project/mine"])
@pytest.mark.parametrize(("name", "held"), [(".claude", "skills"), (".codex", "config.toml")])
def test_attack_a_created_folder_replaced_by_a_link_is_not_removed_through(world, name, held, theirs):
    world.install(str(skill(world.base / "src", "plain")), agents=EVERYBODY)
    world.disable("plain")
    records = world.project.records()
    world.project.write_records(replace(records, created_paths=(*records.created_paths, name, f"{name}/{held}")))
    theirs = world.base / "mine" if theirs == "project/mine" else world.folder / theirs
    (theirs / "skills").mkdir(parents=True)
    (theirs / "config.toml").write_text("")
    shutil.rmtree(world.base / name, ignore_errors=True)
    (world.base / name).symlink_to(theirs)
    world.remove("plain")
    assert sorted(path.name for path in theirs.iterdir()) == ["config.toml", "skills"]
    assert (world.base / name).is_symlink()


def test_remove_cleans_the_home_of_a_user_install(world):
    home = Path(world.user_home)
    ports = replace(world.ports(), project=Project.of_user(str(home), world.home))
    install([parse_ref(needy(world, "plain"))], Options(agents=("claude-code",), mcp="configure"), ports)
    assert (home / ".claude" / "skills" / "plain").exists()
    assert (home / ".claude.json").exists()
    remove(["plain"], replace(world.ports(), project=ports.project))
    assert [*home.iterdir()] == []
