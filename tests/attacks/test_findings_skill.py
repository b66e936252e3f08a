"""Hostile skills: harm to users who pack, edit or update them."""

from __future__ import annotations

import os
import random

import pytest

from skillhub.author.author import pack_skill
from skillhub.disk.files import write_atomic
from skillhub.edits.patch import difference
from skillhub.errors import UsageError
from skillhub.install.trusted_sources import Pin, add_source
from skillhub.model.needs import McpServer
from skillhub.model.tree import File, Tree
from tests.support.effort import at_most
from tests.support.world import NOW, World, skill


@pytest.mark.parametrize("version", ["/../../../stolen", "../x", "1.0.0/..", "\\\\..\\\\x", "1" * 300])
def test_a_version_with_a_path_does_not_change_the_folder_of_an_archive(tmp_path, version):
    folder = skill(tmp_path, head=f'metadata:\n  version: "{version}"\n')
    target = tmp_path / "a/b/c"
    target.mkdir(parents=True)
    packed = pack_skill(str(folder), str(target), "zip", NOW, write_atomic)
    assert os.path.dirname(packed.path) == str(target)
    assert [path.name for path in tmp_path.rglob("*.zip")] == ["plain.zip"]


def test_files_with_very_many_differing_lines_are_not_compared():
    lines = [f"{number % 101}\n" for number in range(200_000)]
    base = Tree({"SKILL.md": File(b"x"), "big.md": File("".join(lines).encode())})
    random.Random(1).shuffle(lines)
    now = {"SKILL.md": File(b"x"), "big.md": File("".join(lines).encode())}
    with at_most(5):
        assert difference(base, now) == ("", {"big.md": now["big.md"]})


@pytest.mark.parametrize("command", ["bash5.2", "/usr/bin/bash-5.2", "pwsh7", "zsh-5.9", "bash-static", "env ksh93"])
def test_a_shell_with_a_version_in_its_name_is_a_shell(command):
    assert McpServer("stdio", tuple(command.split())).risk == "shell"


@pytest.mark.parametrize("url", ["https://user:secret@host/", "https://user:secret@host?x", "HTTPS://u:secret@h"])
def test_a_password_in_the_url_of_a_source_is_refused_and_not_quoted(tmp_path, url):
    with pytest.raises(UsageError) as caught:
        add_source("acme", url, Pin(), World(tmp_path).ports())
    assert "secret" not in f"{caught.value.message}{caught.value.where}{caught.value.hint}"


@pytest.mark.parametrize(("alias", "url"), [("https", "https://h"), ("a/b", "https://h"), ("acme", "file:///etc")])
def test_an_invalid_source_is_refused_without_a_question(tmp_path, alias, url):
    world = World(tmp_path)
    with pytest.raises(UsageError):
        add_source(alias, url, Pin(), world.ports())
    assert world.answers.seen == [] and list(world.sources.all()) == ["github"]
