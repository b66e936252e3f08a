"""Trees on disk: exact modes, every difference reported, no link followed."""

from __future__ import annotations

import os

import pytest

from skillhub.archive.limits import Limits
from skillhub.disk.folders import LARGEST, compare, list_folder, one_look, remove_tree, walk, write_tree
from skillhub.errors import UnsafeArchive
from skillhub.model.tree import File, Tree
from tests.support.cli import run_code

TREE = Tree({"SKILL.md": File(b"x\n"), "a/b/run.sh": File(b"#!\n", executable=True), "empty": File(b"")})


@pytest.fixture
def folder(tmp_path):
    write_tree(str(tmp_path / "tree"), TREE.items(), read_only=False)
    return tmp_path / "tree"


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_modes_of_files_do_not_depend_on_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_tree(str(tmp_path / "tree"), TREE.items(), read_only=False)
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "tree").rglob("*") if path.is_file()}
    assert modes == {"SKILL.md": 0o644, "run.sh": 0o755, "empty": 0o644}


def test_a_written_tree_compares_as_equal(folder):
    assert compare(str(folder), TREE.listing) == []
    assert list_folder(str(folder)).digest == TREE.digest


@pytest.mark.parametrize(
    "code,harm",
    [
        ("changed-file", lambda folder: (folder / "SKILL.md").write_text("y\n")),
        ("changed-mode", lambda folder: (folder / "SKILL.md").chmod(0o755)),
        ("changed-mode", lambda folder: (folder / "a/b/run.sh").chmod(0o644)),
        ("missing-file", lambda folder: (folder / "empty").unlink()),
        ("extra-file", lambda folder: (folder / "a/b/more").touch()),
        ("not-a-file", lambda folder: os.mkfifo(folder / "a/pipe")),
        ("not-a-file", lambda folder: (folder / "link").symlink_to("SKILL.md")),
        ("not-a-file", lambda folder: (folder / "a/link").symlink_to("/")),
    ],
)
def test_every_difference_is_reported(folder, code, harm):
    harm(folder)
    assert [problem.code for problem in compare(str(folder), TREE.listing)] == [code]


def test_a_missing_folder_is_unreadable(tmp_path):
    assert [problem.code for problem in compare(str(tmp_path / "no"), TREE.listing)] == ["unreadable"]


def test_walk_stops_at_a_file_over_the_limit(folder):
    with pytest.raises(UnsafeArchive):
        list(walk(str(folder), largest=1))


def test_the_limit_of_walk_is_that_of_a_skill():
    assert Limits().total == LARGEST


@pytest.mark.skipif(not os.path.isdir("/proc/sys/kernel/random"), reason="no files that say they are empty")
def test_walk_stops_at_a_file_longer_than_its_size():
    with pytest.raises(UnsafeArchive):
        list(walk("/proc/sys/kernel/random", largest=3))


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX modes")
def test_a_read_only_folder_is_moved_to_another_folder(tmp_path):
    for name in ("from", "to"):
        (tmp_path / name).mkdir()
    write_tree(str(tmp_path / "from/tree"), TREE.items(), read_only=True)
    for path in (tmp_path, *tmp_path.rglob("*")) if os.getuid() == 0 else ():
        os.chown(path, 65534, 65534)
    code = """
import os, sys
from skillhub.disk.folders import move_tree
os.chdir(sys.argv[1])
if os.getuid() == 0:  # permissions do not hold root back
    os.setuid(65534)
os.chmod("from/tree", 0o555)
move_tree("from/tree", "to/tree", None, None)
"""
    done = run_code(code, tmp_path)
    assert sorted(os.listdir(tmp_path / "to/tree")) == ["SKILL.md", "a", "empty"], done.err


def test_remove_tree_removes_read_only_folders_and_follows_no_link(tmp_path):
    write_tree(str(tmp_path / "tree"), TREE.items(), read_only=True)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    (tmp_path / "tree/out").symlink_to(tmp_path / "kept")
    for folder in [path for path in (tmp_path / "tree").rglob("*") if path.is_dir()] + [tmp_path / "tree"]:
        os.chmod(folder, 0o555)
    remove_tree(str(tmp_path / "tree"))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    remove_tree(str(tmp_path / "link"))
    remove_tree(str(tmp_path / "link"))
    assert (tmp_path / "kept/file").exists()


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_real_equals_realpath_for_any_links(tmp_path):
    top = tmp_path / "top"
    (top / "real/inner/deep").mkdir(parents=True)
    (top / "real/file").write_text("")
    links = {"to": "real", "twice": "to/inner", "up": "real/inner/..", "loop": "loop", "a": "b", "b": "a/x"}
    links |= {"gone": "nowhere/at/all", "real/inner/back": "../../to", "abs": str(top / "real/inner")}
    for name, target in links.items():
        (top / name).symlink_to(target)
    names = ["", "real/file/x", "to/../to", "twice/../file", "up/inner", "loop/x", "a/y", "gone/z", "absent/../to"]
    names += [*links, "twice/back/inner/back/file", "abs/back/inner", "./to/./inner/", "to//inner", "d/" * 150 + "e"]
    real = one_look()
    for path in [*(f"{top}/{name}" for name in names), "/", "//tmp", "", "x/../y", f"{top}/{'d' * 300}/x"]:
        assert real(path) == os.path.realpath(path), path
    with pytest.raises(ValueError, match="null"):
        real(f"{top}/to\0")
