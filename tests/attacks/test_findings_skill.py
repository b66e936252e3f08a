"""A skill that was made to do harm to whoever packs, edits or updates it."""

from __future__ import annotations

import os
import random

import pytest

from skillhub.author.author import pack_skill
from skillhub.edits.patch import difference
from skillhub.errors import UsageError
from skillhub.install.sources import Pin, add_source
from skillhub.model.needs import McpServer
from skillhub.model.tree import File, Tree
from tests.support.effort import at_most
from tests.support.world import NOW, World, skill


@pytest.mark.parametrize("version", ["/../../../stolen", "../x", "1.0.0/..", "\\\\..\\\\x", "1" * 300])
def test_a_version_that_leads_an_archive_to_another_folder(tmp_path, version):
    folder = skill(tmp_path, head=f'metadata:\n  version: "{version}"\n')
    target = tmp_path / "a/b/c"
    target.mkdir(parents=True)
    packed = pack_skill(str(folder), str(target), "zip", NOW)
    assert os.path.dirname(packed.path) == str(target)
    assert [path.name for path in tmp_path.rglob("*.zip")] == ["plain.zip"]


def test_lines_that_take_hours_to_compare():
    lines = [f"{number % 101}\n" for number in range(200_000)]
    base = Tree({"SKILL.md": File(b"x"), "big.md": File("".join(lines).encode())})
    random.Random(1).shuffle(lines)
    now = {"SKILL.md": File(b"x"), "big.md": File("".join(lines).encode())}
    with at_most(5):
        assert difference(base, now) == ("", {"big.md": now["big.md"]})


@pytest.mark.parametrize("command", ["bash5.2", "/usr/bin/bash-5.2", "pwsh7", "zsh-5.9", "bash-static", "env ksh93"])
def test_a_shell_whose_name_has_a_version(command):
    assert McpServer("stdio", tuple(command.split())).risk == "shell"


@pytest.mark.parametrize("url", ["https://user:secret@host/", "https://user:secret@host?x", "HTTPS://u:secret@h"])
def test_a_password_in_the_url_of_a_source(tmp_path, url):
    with pytest.raises(UsageError) as caught:
        add_source("acme", url, Pin(), World(tmp_path).ports())
    assert "secret" not in f"{caught.value.message}{caught.value.where}{caught.value.hint}"


@pytest.mark.parametrize(("alias", "url"), [("https", "https://h"), ("a/b", "https://h"), ("acme", "file:///etc")])
def test_a_source_that_can_be_none_is_not_asked_for(tmp_path, alias, url):
    world = World(tmp_path)
    with pytest.raises(UsageError):
        add_source(alias, url, Pin(), world.ports())
    assert world.answers.seen == [] and list(world.sources.all()) == ["github"]
