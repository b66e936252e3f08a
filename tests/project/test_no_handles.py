"""A system that opens no folders, as Windows: each name on the way is looked at once more right before."""

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
from skillhub.project.project import exclude
from skillhub.disk.folders import remove_tree, write_tree
from skillhub.disk.home import Home
from skillhub.project.project import Project
from skillhub.project.store import Store
assert not files.HAS_HANDLES
base, what = sys.argv[1:]
project = Project(base, "project", Home.of({"SKILLHUB_HOME": base + "-home"}))
tree = Tree({"SKILL.md": File(b"one\\n"), "a/b/c.md": File(b"two\\n")})
path = copies.place(project, ".agents/skills/plain")
if what == "work":
    copies.make(project, path, tree, "/nowhere", "copy")
    copies.make(project, path, tree, "/nowhere", "copy")
    assert copies.inspect(path, tree.listing, Store(base + "-home/data"), "copy")[0] == "equal"
    project.write_lock(b"x")
    exclude(project.around, [".agents/skills/plain"])
    assert "plain" in open(base + "/.git/info/exclude").read()
    write_tree(base + "/stored", tree.items(), read_only=True)
    remove_tree(base + "/stored")
    copies.sweep(project, [".agents/skills/plain"], ())
    copies.unmake(project, path)
    assert os.listdir(base + "/.agents/skills") == []
    sys.exit()
os.rename(base + "/.agents", base + "/.aside")
os.symlink(base + "-outside", base + "/.agents")
for act in (
    lambda: copies.make(project, path, tree, "/nowhere", "copy"),
    lambda: copies.unmake(project, path),
    lambda: files.write_atomic(path, b"x", root=project.top),
    lambda: copies.sweep(project, [".agents/skills/plain"], ()),
):
    try:
        act()
    except LinkLeavesProject:
        continue
    raise AssertionError("it was done behind a link")
"""


@pytest.mark.parametrize("what", ["work", "attack"])
def test_attack_without_open_folders_a_link_on_the_way_is_seen_right_before(tmp_path: Path, what: str) -> None:
    base, outside = tmp_path / "project", tmp_path / "project-outside"
    for folder in (base / ".agents/skills", base / ".git/info", outside / "skills/plain"):
        folder.mkdir(parents=True)
    (outside / "skills/plain/SKILL.md").write_text("theirs\n")
    with unchanged(outside):
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(base), what], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
