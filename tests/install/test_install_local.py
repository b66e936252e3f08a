"""Installing a folder or an archive from this machine."""

from __future__ import annotations

import os
import tarfile
import zipfile

import pytest

from skillhub.archive.unpack import pack
from skillhub.command.ports import Options
from skillhub.errors import FormatError, NotFound, SkillhubError, StateError, UsageError
from skillhub.exchange.adopt import adopt
from skillhub.sources.local import read_local
from tests.support.world import refused, skill, wanted


def zipped(folder, path):
    with zipfile.ZipFile(path, "w") as archive:
        for each in sorted(folder.rglob("*")):
            if each.is_file():
                archive.write(each, each.relative_to(folder))
    return path


def tarred(folder, path):
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for each in sorted(folder.rglob("*")):
            archive.add(each, str(each.relative_to(folder)), recursive=False)
    return path


def test_a_folder_and_its_archives_have_one_tree(world, tmp_path):
    folder = skill(tmp_path / "src", scripts__run_sh="echo\n")
    trees = set()
    for path in (folder, zipped(folder, tmp_path / "a.zip"), tarred(folder, tmp_path / "a.tar.gz")):
        outcome = world.install(str(path))
        entry = world.lock().skills["plain"]
        trees.add(entry.tree)
        assert (entry.digest is None) == (path == folder)
        assert entry.path == str(path)
        assert any("outside the project" in note for note in outcome.warnings)
        world.remove("plain")
    assert len(trees) == 1


def test_a_local_skill_in_the_project_is_locked_by_its_relative_path(world):
    skill(world.base / "skills")
    outcome = world.install(str(world.base / "skills/plain"))
    assert world.lock().skills["plain"].path == "skills/plain"
    assert not outcome.warnings
    assert wanted(world) == {"plain": {"path": "skills/plain"}}


def test_a_skill_around_the_agents_folders_is_refused_since_each_update_would_add_the_copies(world, tmp_path):
    skill(tmp_path, world.base.name)
    error = refused(world, UsageError, lambda: world.install(str(world.base)))
    assert (error.where, error.hint.split(": ")[1]) == (str(world.base), f"skillhub install {world.base} --global")
    world.install(str(world.base), enable=False)
    error = refused(world, UsageError, lambda: world.enable(world.base.name))
    assert error.hint == "move the skill into a folder of its own"


def test_a_missing_or_invalid_local_skill_is_refused(world, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.txt").write_text("x")
    os.mkfifo(tmp_path / "pipe.zip")
    (tmp_path / "no.zip").write_bytes(b"no")
    for name, error in (("no", NotFound), ("empty", NotFound), ("a.txt", UsageError), ("no.zip", FormatError)):
        refused(world, error, lambda name=name: world.install(str(tmp_path / name)))
    refused(world, SkillhubError, lambda: world.install(str(tmp_path / "pipe.zip")))


def test_an_archive_by_pack_installs_the_tree_of_its_folder(world, tmp_path):
    folder = skill(tmp_path / "src", scripts__run_sh="echo\n")
    tree = read_local(str(folder)).tree
    (tmp_path / "plain.skill").write_bytes(pack(tree))
    world.install(str(tmp_path / "plain.skill"))
    assert world.lock().skills["plain"].tree == tree.digest


def test_a_bare_name_names_the_skill_locked_from_a_folder(world):
    path = skill(world.base / "src")
    world.install(str(path))
    before = (world.base / "skillhub.toml").read_bytes(), (world.base / "skillhub.lock").read_bytes()
    assert [each.name for each in world.install("plain").skills] == ["plain"]
    assert ((world.base / "skillhub.toml").read_bytes(), (world.base / "skillhub.lock").read_bytes()) == before


@pytest.mark.parametrize("link", ["copy", "symlink"])
def test_attack_a_skill_in_an_agents_folder_is_not_taken_over_from_its_user(world, link):
    own = skill(world.base / ".agents" / "skills", "plain")
    before = (own / "SKILL.md").read_bytes()
    error = refused(world, StateError, lambda: world.install(str(own), link=link))
    assert "skillhub adopt plain" in error.hint
    (world.base / "skillhub.toml").write_text('[skills]\nplain = { path = ".agents/skills/plain" }\n')
    refused(world, StateError, world.install)
    assert (own / "SKILL.md").read_bytes() == before
    assert not own.is_symlink()


def test_a_locked_skill_whose_source_an_agent_reads_gets_no_copy_in_its_place(world):
    skill(world.base / ".claude" / "skills", "plain")
    adopt((), "skills", Options(), world.ports())
    source = world.base / "skills/plain/SKILL.md"
    assert world.install(agents=("openclaw",)).skills[0].state == "enabled"  # which reads the project's `skills`
    assert not world.install(agents=("openclaw",)).changed
    world.disable("plain")
    world.enable("plain", agents=("openclaw",))
    world.remove("plain")
    assert source.exists()
