"""Files that a command writes to a path given by the user."""

from __future__ import annotations

import os

import pytest

from tests.support.here import Here

WRITING = [
    ("bundle", "export"),
    ("update", "--yes", "--pr-body"),
    ("update", "--check", "--pr-body"),
    ("audit", "--offline", "--sarif"),
    ("audit", "--offline", "--write-baseline"),
]


@pytest.fixture
def machine(tmp_path):
    found = Here(tmp_path)
    found.skill("project/skills/mine")
    (found.home / "precious").write_text("mine")
    assert found.run("install", "./skills/mine", "--yes", "--allow-unsigned").status == 0
    return found


@pytest.mark.parametrize("words", WRITING)
def test_attack_a_link_or_a_managed_file_is_not_overwritten(machine, words):
    project = machine.project
    (project / "link").symlink_to(machine.home / "precious")
    (project / "dangling").symlink_to(machine.home / "made")
    (project / "out").symlink_to(machine.home)
    (project / "folder").mkdir()
    machine.run("audit", "--offline", "--write-baseline", "known")  # an existing baseline may be replaced
    before = machine.files()
    for name in ("link", "dangling", "out/precious", "out/made", "folder", "skillhub.lock", "skillhub.toml"):
        done = machine.run(*words, name)
        assert done.status in (2, 7), (name, done.status, done.err)
    assert machine.files() == before
    for pipe in (project / "pipe", machine.home / "pipe"):
        os.mkfifo(pipe)
        assert machine.run(*words, pipe).status == 7
        assert pipe.is_fifo()
    (project / "inner").symlink_to("folder")
    for name in ("inner/written", machine.home / "written"):
        assert machine.run(*words, name).status == 0
        assert (project / name).is_file()
