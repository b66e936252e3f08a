import os

import pytest

from skillhub.errors import StateError
from skillhub.model.tree import File, Tree
from skillhub.project.store import Staged, Store

TREE = Tree({"SKILL.md": File(b"---\nname: a\n---\n"), "bin/run": File(b"#!/bin/sh\n", executable=True)})


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path))


def test_staged_tree_equals_the_tree(store):
    staged = Staged(store.put(TREE), TREE)
    assert staged == TREE
    assert (staged.digest, staged.size, list(staged.items())) == (TREE.digest, TREE.size, list(TREE.items()))
    assert staged.without(["bin/run"]) == TREE.without(["bin/run"])
    assert store.put(staged) == store.path(TREE.digest)


@pytest.mark.parametrize("change", ["other bytes", "gone", "a link", "more bytes than all files have"])
def test_file_changed_in_the_store_is_refused(store, change):
    staged = Staged(store.put(TREE), TREE)
    path = os.path.join(store.path(TREE.digest), "bin", "run")
    os.chmod(os.path.dirname(path), 0o755)
    os.unlink(path)
    if change == "a link":
        os.symlink("../SKILL.md", path)
    elif change != "gone":
        with open(path, "wb") as file:
            file.write(b"x" * (10 if change == "other bytes" else TREE.size + 1))
    with pytest.raises(StateError):
        staged["bin/run"]
    assert staged["SKILL.md"] == TREE["SKILL.md"]
