"""``new`` creates a valid skill, completely or not at all."""

from __future__ import annotations

import os
import re

import pytest

from skillhub.author.author import begin, content, unfilled, validate
from skillhub.errors import StateError, UsageError
from skillhub.model.needs import read as declared
from skillhub.model.tree import File, Tree
from skillhub.scan import scan
from tests.support.world import NOW, World


@pytest.mark.parametrize("name", ["my-skill", "a", "1", "true", "null", "2026-11", "x" * 64])
def test_a_new_skill_is_valid_and_has_no_findings(tmp_path, name):
    world = World(tmp_path)
    begun = begin(name, str(tmp_path))
    found = validate(begun.path, world.publishers, NOW)
    assert (found.errors, found.name) == ((), name)
    assert [(each.code, each.where) for each in found.warnings] == [
        ("unfilled", "SKILL.md:3"),
        ("unfilled", "SKILL.md:10"),
    ]
    assert not list(scan(content(name)))
    assert sorted(os.listdir(begun.path)) == ["SKILL.md", "agents"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_filled_lines_are_no_longer_reported(end):
    text = content("mine")["SKILL.md"].data.decode().replace("\n", end)
    lines = text.split(end)
    lines[2] = "description: Greets. Use it to greet."
    assert [each.where for each in unfilled(Tree({"SKILL.md": File(end.join(lines).encode())}))] == ["SKILL.md:10"]
    lines[9] = "Say hello."
    assert [each.where for each in unfilled(Tree({"SKILL.md": File(end.join(lines).encode())}))] == ["SKILL.md:12"]
    written = [*lines[:10], "", "What this skill does is plain.", ""]
    assert unfilled(Tree({"SKILL.md": File(end.join(written).encode())})) == ()


def test_a_new_skill_can_be_installed(tmp_path):
    world = World(tmp_path)
    outcome = world.install(begin("mine", str(world.base)).path)
    assert [(each.state, each.version, each.requires) for each in outcome.skills] == [("enabled", "0.1.0", ())]


def test_the_commented_needs_of_the_template_are_valid():
    shown = content("mine")["agents/skillhub.yaml"].data.decode()
    text = re.sub(r"^# (?=dependencies| )", "", shown, flags=re.MULTILINE)
    found = declared(Tree({"agents/skillhub.yaml": File(text.encode(), executable=False)}), {})
    assert [need.spell() for need in found.requires] == [
        "env:EXAMPLE_TOKEN",
        "mcp:example",
        "mcp:local-example",
        "program:jq",
        "skill:another-skill",
    ]
    assert found.warnings == ()


@pytest.mark.parametrize("name", ["", "A", "a b", "../up", "a/b", "-a", ".git", "x" * 65, "a\x1b[2Jb"])
def test_an_invalid_name_creates_nothing(tmp_path, name):
    with pytest.raises(UsageError) as caught:
        begin(name, str(tmp_path))
    assert "\x1b" not in caught.value.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("existing", ["folder", "file", "link"])
def test_an_existing_file_or_folder_is_not_touched(tmp_path, existing):
    place = tmp_path / "mine"
    if existing == "folder":
        place.mkdir()
    elif existing == "file":
        place.write_text("x")
    else:
        place.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError):
        begin("mine", str(tmp_path))
    assert [each.name for each in tmp_path.rglob("*")] == ["mine"]


def test_an_unwritable_folder_stays_unchanged(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StateError):
        begin("mine", str(tmp_path / "file"))
    assert [each.name for each in tmp_path.rglob("*")] == ["file"]


def test_a_dry_run_creates_nothing(tmp_path):
    begun = begin("mine", str(tmp_path), dry_run=True)
    assert begun.files == ("SKILL.md", "agents/skillhub.yaml")
    assert list(tmp_path.iterdir()) == []
