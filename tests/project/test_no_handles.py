"""Systems that cannot open folders, like Windows: each name of a path is checked again right before its use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.swapping import unchanged

RUN = """
import os, sys
os.supports_dir_fd.clear()
from skillhub.errors import LinkLeavesProject
from skillhub.model.tree import File, Tree
from skillhub.disk import files
from skillhub.project import copies
from skillhub.project.git_exclude import exclude
from skillhub.disk.folders import remove_tree, write_tree
from skillhub.disk.home import Home
from skillhub.project.project import Project
from skillhub.project.store import Store
assert not files.HAS_HANDLES
base, what = sys.argv[1:]
project = Project(base, "project", Home.of({"SKILLHUB_HOME": base + "-home"}))
tree = Tree({"SKILL.md": File(b"one\\n"), "a/b/c.md": File(b"two\\n")})
path = copies.path_of(project, ".agents/skills/plain")
if what == "work":
    copies.write_copy(project, path, tree, "/nowhere", "copy")
    copies.write_copy(project, path, tree, "/nowhere", "copy")
    assert copies.compare_copy(path, tree.listing, Store(base + "-home/data"), "copy")[0] == "equal"
    project.write_lock(b"x")
    exclude(project.around, [".agents/skills/plain"])
    assert "plain" in open(base + "/.git/info/exclude").read()
    write_tree(base + "/stored", tree.items(), read_only=True)
    remove_tree(base + "/stored")
    copies.sweep(project, [".agents/skills/plain"], ())
    copies.remove_copy(project, path)
    assert os.listdir(base + "/.agents/skills") == []
    sys.exit()
os.rename(base + "/.agents", base + "/.aside")
os.symlink(base + "-outside", base + "/.agents")
for act in (
    lambda: copies.write_copy(project, path, tree, "/nowhere", "copy"),
    lambda: copies.remove_copy(project, path),
    lambda: files.write_atomic(path, b"x", root=project.top),
    lambda: copies.sweep(project, [".agents/skills/plain"], ()),
):
    try:
        act()
    except LinkLeavesProject:
        continue
    raise AssertionError("the action followed a link")
"""


@pytest.mark.parametrize("mode", ["work", "attack"])
def test_attack_a_link_in_a_path_is_refused_without_folder_handles(tmp_path: Path, mode: str) -> None:
    base, outside = tmp_path / "project", tmp_path / "project-outside"
    for folder in (base / ".agents/skills", base / ".git/info", outside / "skills/plain"):
        folder.mkdir(parents=True)
    (outside / "skills/plain/SKILL.md").write_text("theirs\n")
    with unchanged(outside):
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(base), mode], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
