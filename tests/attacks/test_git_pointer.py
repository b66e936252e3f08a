"""A ``.git`` that leads to another repository: skillhub writes no exclude lines there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from skillhub.disk.files import HeldFolder
from skillhub.errors import LinkLeavesProject
from skillhub.project.git_exclude import exclude, unrelated_git
from tests.support.swapping import unchanged

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git makes the repositories")
LINKS = (".agents/skills/plain",)


def git(folder, *words):
    options = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *options, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def repository(parent):
    """Make a repository with a work tree and a submodule, ``theirs`` beside ``tree`` and ``inner``."""
    folder = parent / "theirs"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    git(folder, "worktree", "add", "-q", "../tree")
    inner = parent / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    git(inner, "commit", "-q", "--allow-empty", "-m", "first")
    git(folder, "submodule", "--quiet", "add", str(inner), "module")
    return folder


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """Another user's repository, which no test changes."""
    return repository(tmp_path_factory.mktemp("theirs"))


@pytest.fixture
def own(tmp_path):
    """A repository of one test."""
    return repository(tmp_path)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def write_excludes(project):
    exclude(HeldFolder(str(project)), LINKS)


@pytest.mark.parametrize(
    "leads", [".git", ".git/worktrees/tree", ".git/modules/module", "../tree/.git", ".git/worktrees/../."]
)
@pytest.mark.parametrize("how", ["absolute", "relative", "link"])
def test_attack_a_git_file_or_link_to_another_repository_is_not_written_through(theirs, project, leads, how):
    target = theirs / leads
    if how == "link":
        (project / ".git").symlink_to(target)
    else:
        spelled = target if how == "absolute" else os.path.relpath(target, project)
        (project / ".git").write_text(f"gitdir: {spelled}\n")
    with unchanged(theirs, theirs.parent / "tree"):
        write_excludes(project)
    assert unrelated_git(HeldFolder(str(project))) == str(project / ".git")
    assert unrelated_git(HeldFolder(str(theirs))) is None


def forge(project, theirs, common):
    """Make a git folder in the project that names the project, and another repository's as its common folder."""
    forged = project / "forged/worktrees/tree"
    forged.mkdir(parents=True)
    (forged / "HEAD").write_text("ref: refs/heads/main\n")
    (forged / "gitdir").write_text(f"{project}/.git\n")
    (forged / "commondir").write_text(common)
    (project / ".git").write_text(f"gitdir: {forged}\n")


@pytest.mark.parametrize("spelled", ["absolute", "relative"])
def test_attack_a_forged_work_tree_with_another_common_folder_is_ignored(theirs, project, spelled):
    path = theirs / ".git"
    common = str(path) if spelled == "absolute" else os.path.relpath(path, project / "forged/worktrees/tree")
    forge(project, theirs, f"{common}\n")
    with unchanged(theirs, theirs.parent / "tree"):
        write_excludes(project)


def test_attack_a_forged_work_tree_with_a_linked_folder_is_refused(theirs, project):
    forge(project, theirs, "../..\n")
    (project / "forged/info").symlink_to(theirs / ".git/info")
    with unchanged(theirs, theirs.parent / "tree"), pytest.raises(LinkLeavesProject, match="link"):
        write_excludes(project)


def test_attack_a_git_folder_of_another_work_tree_is_not_written(own, project):
    git(own, "config", "core.worktree", str(own))
    (project / ".git").write_text(f"gitdir: {own}/.git\n")
    with unchanged(own):
        write_excludes(project)


@pytest.mark.parametrize("options", [(), ("--relative-paths",)])
def test_excludes_are_written_for_own_work_trees_and_submodules(own, tmp_path, options):
    if (
        options
        and subprocess.run(
            ["git", "worktree", "add", "-q", *options, "../other"], cwd=own, capture_output=True
        ).returncode
    ):
        pytest.skip("this git knows no relative work trees")
    for each in ("../tree", "module", *(["../other"] if options else [])):
        exclude(HeldFolder(str((own / each).resolve())), LINKS)
    assert (own / ".git/info/exclude").read_text().count("plain") == 1 + bool(options)
    assert (own / ".git/modules/module/info/exclude").read_text().count("plain") == 1


def test_excludes_are_written_for_a_submodule_with_a_quoted_name(own, tmp_path):
    name = 'a "b" \\ c'
    git(own, "submodule", "--quiet", "add", str(tmp_path / "inner"), name)
    exclude(HeldFolder(str(own / name)), LINKS)
    pointer = (own / name / ".git").read_text().removeprefix("gitdir: ").strip()
    assert "plain" in (own / name / pointer / "info/exclude").read_text()


def test_a_separate_git_folder_that_names_the_work_tree_gets_excludes(tmp_path, project):
    git(project, "init", "-q", "--separate-git-dir", str(tmp_path / "apart"))
    write_excludes(project)
    excluded = tmp_path / "apart/info/exclude"
    before = excluded.read_text() if excluded.exists() else ""
    assert "plain" not in before
    git(project, "config", "core.worktree", str(project))
    write_excludes(project)
    assert "plain" in excluded.read_text()


def test_a_git_folder_behind_a_link_inside_the_project_gets_excludes(project):
    git(project, "init", "-q")
    (project / ".git").rename(project / ".bare")
    (project / ".git").symlink_to(".bare")
    write_excludes(project)
    assert "plain" in (project / ".bare/info/exclude").read_text()


def test_a_project_behind_a_link_uses_the_repository_of_its_real_folder(own, tmp_path):
    (own / "below").mkdir()
    (tmp_path / "alias").symlink_to(own / "below")
    write_excludes(Path(tmp_path / "alias"))
    assert "/below/.agents/skills/plain\n" in (own / ".git/info/exclude").read_text()
