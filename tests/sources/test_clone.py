"""Reflinked copies: each clone is hashed, so a changed store is never copied."""

import os
from pathlib import Path

from skillhub.disk.folders import clone_tree, compare, write_tree
from skillhub.model.tree import File, Tree

TREE = Tree({"SKILL.md": File(b"# text\n" * 2000), "scripts/run.py": File(b"#!/bin/sh\n" * 900, True)})


def test_clone_is_complete_or_absent(tmp_path: Path) -> None:
    store, copy = str(tmp_path / "store"), str(tmp_path / "copy")
    write_tree(store, TREE.items(), read_only=True)
    if clone_tree(store, copy, TREE):  # a file system that shares blocks
        assert compare(copy, TREE.listing) == []
        assert os.access(f"{copy}/SKILL.md", os.W_OK)
    else:
        assert not os.path.lexists(copy)


def test_changed_store_is_not_cloned(tmp_path: Path) -> None:
    store, copy = str(tmp_path / "store"), str(tmp_path / "copy")
    write_tree(store, TREE.items(), read_only=False)
    Path(store, "SKILL.md").write_bytes(b"# evil\n" * 2000)
    assert not clone_tree(store, copy, TREE)
    assert not os.path.lexists(copy)
