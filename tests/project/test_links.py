"""Links: the folders of agents, each once, and atomic copies in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skillhub.disk.home import Home
from skillhub.errors import LinkLeavesProject, StateError
from skillhub.model.hosts import host, hosts
from skillhub.model.tree import File, Tree
from skillhub.project import copies
from skillhub.project.project import Project
from skillhub.project.store import Store

ONE = Tree({"SKILL.md": File(b"one\n"), "run.sh": File(b"#!\n", executable=True)})
TWO = Tree({"SKILL.md": File(b"two\n")})


@pytest.fixture
def stored(home):
    store = Store(home.data)
    return {tree.digest: store.put(tree) for tree in (ONE, TWO)}


def folders(project, *names):
    return copies.link_folders(project, map(host, names), "/nowhere", {})


def test_shared_folder_comes_first_and_each_folder_once(project):
    assert folders(project) == (".agents/skills",)
    assert folders(project, "codex", "claude-code", "claude-code") == (".agents/skills", ".claude/skills")


def test_every_agent_has_a_folder_inside_of_the_project(project):
    found = copies.link_folders(project, hosts().values(), "/nowhere", {})
    assert len(found) == len(set(found)) > 20
    assert not [folder for folder in found if os.path.isabs(folder) or ".." in folder.split("/")]


def test_folders_of_the_user_are_in_the_home_or_in_a_variable(tmp_path, home):
    user = Project.of_user(str(tmp_path), home)
    moved = {"CLAUDE_CONFIG_DIR": "/elsewhere/claude"}
    found = copies.link_folders(user, [host("claude-code")], str(tmp_path), {})
    assert found == (".agents/skills", ".claude/skills")
    assert copies.link_folders(user, [host("claude-code")], str(tmp_path), moved)[1] == "/elsewhere/claude/skills"


@pytest.mark.parametrize("link", ["../out/x", ".agents/../../x", "a//b", ".", "./x/y"])
def test_attack_a_link_outside_of_the_project_is_refused(project, link):
    with pytest.raises(LinkLeavesProject):
        copies.path_of(project, f"{link}/name")


@pytest.mark.parametrize("kind", ["copy", "symlink"])
def test_copy_is_made_replaced_and_removed(project, stored, kind):
    path = copies.path_of(project, ".agents/skills/plain")
    for tree in (ONE, TWO, ONE):
        copies.write_copy(project, path, tree, stored[tree.digest], kind)
        assert copies.compare_copy(path, tree.listing, Store(project.home.data), kind) == ("equal", [])
    assert os.path.islink(path) == (kind == "symlink")
    assert os.listdir(os.path.dirname(path)) == ["plain"]
    copies.remove_copy(project, path)
    copies.remove_copy(project, path)
    assert copies.compare_copy(path, ONE.listing, Store(project.home.data), kind)[0] == "absent"
    assert os.listdir(os.path.join(project.base, ".agents")) == ["skills"]
    assert Path(stored[ONE.digest], "SKILL.md").read_bytes() == b"one\n"


def test_copy_is_writable_by_its_user(project, stored):
    path = copies.path_of(project, ".agents/skills/plain")
    copies.write_copy(project, path, ONE, stored[ONE.digest], "copy")
    modes = {each.name: each.stat().st_mode & 0o777 for each in Path(path).iterdir()}
    assert modes == {"SKILL.md": 0o644, "run.sh": 0o755}


def test_a_copy_shares_no_file_with_the_store(project, stored):
    path = copies.path_of(project, ".agents/skills/plain")
    copies.write_copy(project, path, ONE, stored[ONE.digest], "copy")
    Path(path, "SKILL.md").write_bytes(b"mine\n")
    assert Path(stored[ONE.digest], "SKILL.md").read_bytes() == b"one\n"


def test_failed_copy_leaves_the_earlier_one(project, stored):
    path = copies.path_of(project, ".agents/skills/plain")
    copies.write_copy(project, path, ONE, stored[ONE.digest], "copy")
    impossible = Tree({"SKILL.md": File(b"x"), "SKILL.md/below": File(b"x")})
    with pytest.raises(StateError):
        copies.write_copy(project, path, impossible, stored[ONE.digest] + "-none", "copy")
    assert copies.compare_copy(path, ONE.listing, Store(project.home.data), "copy")[0] == "equal"
    assert os.listdir(os.path.join(project.base, ".agents")) == ["skills"]


def test_file_in_place_of_a_folder_is_an_error(project, stored):
    Path(project.base, ".agents").write_text("x")
    with pytest.raises(StateError):
        copies.write_copy(
            project, os.path.join(project.base, ".agents/skills/plain"), ONE, stored[ONE.digest], "copy"
        )
    assert os.listdir(project.base) == [".agents"]


def test_linked_folder_is_followed_in_a_home_and_refused_in_a_project(tmp_path: Path, home: Home) -> None:
    base = tmp_path / "base"
    (tmp_path / "dotfiles").mkdir()
    base.mkdir()
    (base / ".claude").symlink_to(tmp_path / "dotfiles")
    link = ".claude/skills/hello"
    assert copies.path_of(Project.of_user(str(base), home), link) == str(tmp_path / "dotfiles" / "skills" / "hello")
    with pytest.raises(LinkLeavesProject):
        copies.path_of(Project(str(base), "project", home), link)


@pytest.mark.parametrize(
    ("path", "spelled"),
    [
        ("/p", "."),
        ("/p/a/b", "a/b"),
        ("/p/a/../b", "b"),
        ("/p/..a/b", "..a/b"),
        ("/", "/"),
        ("/pa/b", "/pa/b"),
        ("/q/../r", "/r"),
    ],
)
@pytest.mark.skipif(os.name != "posix", reason="paths of POSIX")
def test_path_inside_of_the_project_is_spelled_relative(path, spelled):
    assert copies.portable(path, "/p") == spelled
