"""File systems that keep no modes: what is asked of them, and how trees are compared there."""

from __future__ import annotations

import os

import pytest

from skillhub.disk import files
from skillhub.disk.folders import TreeProblem, compare, list_folder, walk, write_tree
from skillhub.disk.home import Home
from skillhub.errors import StateError
from skillhub.model.tree import File, Tree
from tests.support.one_mode import EXECUTABLE, PLAIN, keep_no_modes

TREE = Tree({"SKILL.md": File(b"# One\n"), "run.sh": File(b"true\n", executable=True)})
SAME_MODE = pytest.mark.parametrize("mode", [EXECUTABLE, PLAIN])


@pytest.fixture(params=[True, False], ids=["nameless", "named"])
def nameless(request, monkeypatch):
    """Systems with and without files that have no name."""
    if not request.param:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "skill"
    write_tree(str(path), TREE.items(), read_only=False)
    return path


def test_a_usual_file_system_keeps_modes_and_the_question_leaves_no_file(tmp_path, monkeypatch, nameless):
    monkeypatch.setattr(files, "_KEPT_MODES", {})
    assert files.keeps_modes(str(tmp_path))
    assert os.listdir(tmp_path) == []


@SAME_MODE
def test_a_file_system_with_one_mode_for_all_keeps_none(tmp_path, monkeypatch, nameless, mode):
    keep_no_modes(monkeypatch, mode)
    assert not files.keeps_modes(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_where_no_file_can_be_made_modes_count(tmp_path, monkeypatch):
    keep_no_modes(monkeypatch, EXECUTABLE)
    assert files.keeps_modes(str(tmp_path / "absent"))


@SAME_MODE
def test_a_copy_on_such_a_file_system_is_equal(written, monkeypatch, mode):
    keep_no_modes(monkeypatch, mode)
    assert compare(str(written), TREE.listing) == []
    assert list_folder(str(written), TREE) == TREE.listing
    assert Tree(dict(walk(str(written), largest=99, like=TREE))) == TREE
    top = os.open(written.parent, os.O_RDONLY)
    try:
        found = Tree(dict(walk("skill", largest=99, dir_fd=top, like=TREE)))
    finally:
        os.close(top)
    assert found == TREE


@SAME_MODE
def test_an_unknown_file_has_no_execute_bit_there(written, monkeypatch, mode):
    keep_no_modes(monkeypatch, mode)
    assert not any(each.executable for each in list_folder(str(written)).values())
    assert not any(file.executable for _, file in walk(str(written), largest=99))


@SAME_MODE
def test_attack_changed_bytes_are_found_there(written, monkeypatch, mode):
    (written / "run.sh").write_bytes(b"evil\n")
    keep_no_modes(monkeypatch, mode)
    assert [each.code for each in compare(str(written), TREE.listing)] == ["changed-file"]


def test_attack_an_execute_bit_counts_where_it_is_kept(written, monkeypatch):
    monkeypatch.setattr(files, "_KEPT_MODES", {})
    (written / "SKILL.md").chmod(0o755)
    (written / "run.sh").chmod(0o755)
    expected = TreeProblem("changed-mode", f"{written}/SKILL.md", "the execute bit was set")
    assert compare(str(written), TREE.listing) == [expected]
    assert list_folder(str(written), TREE)["SKILL.md"].executable


def test_attack_a_home_that_all_users_could_write_is_refused_before_it_exists(tmp_path, monkeypatch):
    tmp_path.chmod(0o777)
    folder = str(tmp_path / "hub")
    Home.of({"SKILLHUB_HOME": folder})  # a folder made here has a mode of its own
    keep_no_modes(monkeypatch, EXECUTABLE)
    with pytest.raises(StateError, match="other users may write it") as refused:
        Home.of({"SKILLHUB_HOME": folder})
    assert refused.value.hint.endswith("let SKILLHUB_HOME name a folder on another one")
