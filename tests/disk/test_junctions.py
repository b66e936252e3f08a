"""Junctions of Windows, imitated by folders: in Python 3.11 they are folders with a reparse tag."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from skillhub.disk import files, folders
from skillhub.disk.files import _is_link
from skillhub.model.tree import Listing
from skillhub.project import copies
from skillhub.project.store import Store

TAG = 0xA0000003  # IO_REPARSE_TAG_MOUNT_POINT


@pytest.fixture
def junction(tmp_path, monkeypatch):
    """A folder whose status is that of a junction; its removal moves it away, since the target stays."""
    path, lstat, unlink = tmp_path / "top" / "junction", os.lstat, os.unlink
    path.mkdir(parents=True)
    (path / "behind.txt").write_text("not ours\n")

    def seen(each, **at):
        status = lstat(each, **at)
        if os.fspath(each) != str(path):
            return status
        return SimpleNamespace(st_mode=status.st_mode, st_reparse_tag=TAG)

    def removed(each, **at):
        if os.fspath(each) == str(path):
            os.rename(each, tmp_path / "behind")
        else:
            unlink(each, **at)

    monkeypatch.setattr(os, "lstat", seen)
    monkeypatch.setattr(os, "unlink", removed)
    return path


def test_a_junction_is_treated_as_a_link(junction):
    assert files.is_link(str(junction))
    assert not files.is_link(str(junction.parent))
    assert _is_link(os.lstat(junction))


def test_attack_the_target_of_a_junction_is_not_removed(junction, monkeypatch, tmp_path):
    monkeypatch.setattr(folders, "HAS_HANDLES", False)
    folders.remove_tree(str(junction.parent))
    assert not junction.parent.exists()
    assert (tmp_path / "behind" / "behind.txt").read_text() == "not ours\n"


def test_attack_the_target_of_a_junction_is_no_part_of_a_skill(junction, monkeypatch):
    monkeypatch.setattr(folders, "_HAS_JUNCTIONS", True)
    assert [path for path, _ in folders.entries_below(str(junction.parent))] == ["junction"]


def test_a_junction_in_an_agents_folder_is_a_wrong_link(junction, tmp_path):
    (found, problems) = copies.compare_copy(str(junction), Listing({}), Store(str(tmp_path)), "copy")
    assert found == "edited"
    assert [problem.code for problem in problems] == ["wrong-link"]
