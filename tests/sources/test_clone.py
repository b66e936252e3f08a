"""Reflinked copies: what is cloned is hashed, so a store that was tampered with is never spread."""

import os
from pathlib import Path

from skillhub.disk.folders import clone_tree, compare, write_tree
from skillhub.model.tree import File, Tree

TREE = Tree({"SKILL.md": File(b"# text\n" * 2000), "scripts/run.py": File(b"#!/bin/sh\n" * 900, True)})


def test_a_clone_is_the_tree_or_did_not_happen(tmp_path: Path) -> None:
    store, copy = str(tmp_path / "store"), str(tmp_path / "copy")
    write_tree(store, TREE.items(), read_only=True)
    if clone_tree(store, copy, TREE):  # a file system that shares blocks
        assert compare(copy, TREE.listing) == []
        assert os.access(f"{copy}/SKILL.md", os.W_OK)
    else:
        assert not os.path.lexists(copy)


def test_a_store_that_was_tampered_with_is_not_cloned(tmp_path: Path) -> None:
    store, copy = str(tmp_path / "store"), str(tmp_path / "copy")
    write_tree(store, TREE.items(), read_only=False)
    Path(store, "SKILL.md").write_bytes(b"# evil\n" * 2000)
    assert not clone_tree(store, copy, TREE)
    assert not os.path.lexists(copy)
