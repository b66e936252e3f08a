"""The store: each tree once and complete; no tree is trusted for its presence."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from skillhub.errors import StateError
from skillhub.formats.digest import Digest
from skillhub.model.tree import File, Tree
from skillhub.project.store import Store

TREE = Tree({"SKILL.md": File(b"x\n"), "scripts/deep/run.sh": File(b"#!\n", executable=True)})


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "data"))


def test_stored_tree_is_complete_and_read_only(store):
    path = Path(store.put(TREE))
    assert str(path) == store.path(TREE.digest)
    assert store.read(TREE.digest).digest == TREE.digest
    assert store.listing(TREE.digest).digest == TREE.digest
    assert store.check(TREE.digest) == []
    assert not [each for each in path.rglob("*") if each.is_file() and each.stat().st_mode & 0o222]
    assert (path / "scripts/deep/run.sh").stat().st_mode & 0o111 == 0o111


def test_user_can_remove_the_store_with_rm(tmp_path):
    """Modes apply to users other than root; no other user can change the store."""
    data = tmp_path / "data"
    path = Path(Store(str(data)).put(TREE))
    others = [each for each in (path, *path.rglob("*")) if each.stat().st_mode & 0o022]
    user = 65534 if os.geteuid() == 0 else None
    for each in (data, *data.rglob("*")) if user else ():
        os.chown(each, user, user)
    subprocess.run(["rm", "-rf", "store"], cwd=data, user=user, check=True, stdin=subprocess.DEVNULL)
    assert (others, os.listdir(data)) == ([], [])


def test_attack_a_replaced_file_of_the_store_is_not_read(store):
    """Like an editor that saves by rename: the folders allow it, and no reader accepts the file."""
    path = Path(store.put(TREE))
    (path / "new").write_bytes(b"y\n")
    os.replace(path / "new", path / "SKILL.md")
    assert [each.code for each in store.check(TREE.digest)] == ["changed-file"]
    assert store.read(TREE.digest) is None


def test_stored_tree_is_not_written_again(store):
    path = Path(store.put(TREE))
    before = path.stat().st_ino
    store.put(TREE)
    assert path.stat().st_ino == before
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name, f"{path.name}.listing"]


def damage_a_file(path):
    (path / "SKILL.md").chmod(0o644)
    (path / "SKILL.md").write_text("y\n")


def swap_for_a_link(path):
    path.rename(path.parent / "away")
    path.symlink_to(path.parent / "away")


def swap_for_a_dangling_link(path):
    path.rename(path.parent / "away")
    path.symlink_to("nowhere")


def swap_for_a_file(path):
    path.rename(path.parent / "away")
    path.write_text("x")


@pytest.mark.parametrize(
    "harm",
    [damage_a_file, swap_for_a_link, swap_for_a_dangling_link, swap_for_a_file,
     lambda path: (path / "extra").touch(), lambda path: os.mkfifo(path / "pipe"),
     lambda path: os.symlink("SKILL.md", path / "link"), lambda path: (path / "SKILL.md").unlink(),
     lambda path: (path / "SKILL.md").chmod(0o555)],
)  # fmt: skip
def test_damaged_tree_is_found_and_repaired(store, harm):
    path = Path(store.put(TREE))
    path.chmod(0o755)
    harm(path)
    assert store.check(TREE.digest)
    if not path.is_symlink():
        assert store.read(TREE.digest) is None
    store.put(TREE)
    assert store.check(TREE.digest) == []
    assert not path.is_symlink()


def test_removal_does_not_follow_links(store, tmp_path):
    path = Path(store.put(TREE))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/kept").touch()
    path.chmod(0o755)
    (path / "out").symlink_to(tmp_path / "mine")
    store.discard(store.set_aside(TREE.digest))
    assert (tmp_path / "mine/kept").exists()
    assert list(path.parent.iterdir()) == []


def test_unknown_tree_is_missing(store):
    nothing = Digest.of(b"nothing")
    assert (store.has(nothing), store.read(nothing), store.listing(nothing)) == (False, None, None)
    assert [problem.code for problem in store.check(nothing)] == ["missing"]
    store.discard(store.set_aside(nothing))


def test_file_in_place_of_the_store_is_an_error(store, tmp_path):
    (tmp_path / "data").write_text("a file")
    with pytest.raises(StateError):
        store.put(TREE)


def test_failed_write_leaves_no_partial_tree(store, tmp_path):
    path = Path(store.put(TREE))
    impossible = Tree({"SKILL.md": File(b"x"), "SKILL.md/below": File(b"x")})
    with pytest.raises(StateError):
        store.put(impossible)
    assert [each for each in Path(store.root).rglob("*.tmp*")] == []
    assert path.is_dir()
