"""Lines in git's exclude file, checked with git itself."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from skillhub.disk.files import HeldFolder
from skillhub.errors import LinkLeavesProject
from skillhub.project.git_exclude import exclude

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is the judge")
LINKS = (".agents/skills/plain", ".claude/skills/plain")


def git(folder, *words):
    options = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *options, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ignored(folder, path):
    (folder / path).mkdir(parents=True, exist_ok=True)
    (folder / path / "SKILL.md").touch()
    return f"{path}/SKILL.md" not in git(folder, "status", "--porcelain", "-uall", ".")


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def text_of(repository):
    return (repository / ".git/info/exclude").read_text()


def test_only_enabled_copies_are_ignored(repository):
    exclude(HeldFolder(str(repository)), LINKS)
    assert all(ignored(repository, link) for link in LINKS)
    assert not ignored(repository, ".agents/skills/other")
    assert not ignored(repository, "below/.agents/skills/plain")


def test_other_lines_stay_byte_for_byte(repository):
    path = repository / ".git/info/exclude"
    path.write_bytes(b"# mine\r\n*.swp\n\xff\x0c\n\nno end")
    before = path.read_bytes()
    exclude(HeldFolder(str(repository)), LINKS)
    assert path.read_bytes().startswith(before + b"\n")
    exclude(HeldFolder(str(repository)), ())
    assert path.read_bytes() == before + b"\n"
    text = path.stat().st_mtime_ns
    exclude(HeldFolder(str(repository)), ())
    assert path.stat().st_mtime_ns == text


def test_block_without_its_end_line_removes_no_other_line(repository):
    exclude(HeldFolder(str(repository)), LINKS)
    path = repository / ".git/info/exclude"
    path.write_text(path.read_text().replace("# skillhub: end\n", "") + "*.mine\n")
    exclude(HeldFolder(str(repository)), ())
    assert "*.mine\n" in path.read_text()


@pytest.mark.parametrize("name", ["below", "a[b]", "a*", "a?b", "#a", "!a", "back\\slash", "b ", "two\nlines"])
def test_project_below_the_root_may_have_any_name(repository, name):
    project = repository / "in" / name
    project.mkdir(parents=True)
    exclude(HeldFolder(str(project)), LINKS)
    assert ignored(project, LINKS[0])
    assert not ignored(repository, LINKS[0])
    assert text_of(repository).count("# skillhub: end") == 1
    exclude(HeldFolder(str(project)), ())
    assert "skillhub" not in text_of(repository)


def test_projects_of_one_repository_have_separate_blocks(repository):
    one, two = repository / "one", repository / "two"
    for project in (one, two, repository):
        project.mkdir(exist_ok=True)
        exclude(HeldFolder(str(project)), LINKS)
    exclude(HeldFolder(str(repository)), ())
    assert ignored(one, LINKS[0])
    assert ignored(two, LINKS[0])
    exclude(HeldFolder(str(one)), ())
    assert not ignored(one, LINKS[0])
    assert ignored(two, LINKS[0])


def test_work_trees_share_one_exclude_file(repository, tmp_path):
    git(repository, "worktree", "add", "-q", "../other")
    exclude(HeldFolder(str(tmp_path / "other")), LINKS[:1])
    exclude(HeldFolder(str(repository)), LINKS[1:])
    assert ignored(tmp_path / "other", LINKS[0])
    assert ignored(repository, LINKS[1])
    exclude(HeldFolder(str(repository)), ())
    assert ignored(tmp_path / "other", LINKS[0])


def test_copies_in_a_submodule_are_ignored(repository, tmp_path):
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "submodule", "--quiet", "add", str(repository), "inner")
    exclude(HeldFolder(str(outer / "inner")), LINKS)
    assert ignored(outer / "inner", LINKS[0])
    assert (outer / "inner/.git").is_file()


@pytest.mark.parametrize("linked", ["info", "info/exclude"])
def test_exclude_file_linked_out_of_the_repository_is_refused(repository, tmp_path, linked):
    path = repository / ".git" / linked
    path.rename(tmp_path / "mine")
    path.symlink_to(tmp_path / "mine")
    with pytest.raises(LinkLeavesProject):
        exclude(HeldFolder(str(repository)), LINKS)
    assert "skillhub" not in text_of(repository)


def test_folder_without_a_repository_stays_unchanged(tmp_path):
    (tmp_path / "project").mkdir()
    exclude(HeldFolder(str(tmp_path / "project")), LINKS)
    assert list((tmp_path / "project").iterdir()) == []


@pytest.mark.parametrize("text", ["", "gitdir: nowhere\n", "gitdir: /\n", "nonsense"])
def test_git_file_without_a_repository_changes_no_file(tmp_path, text):
    (tmp_path / ".git").write_text(text)
    exclude(HeldFolder(str(tmp_path)), LINKS)
    assert [path.name for path in tmp_path.iterdir()] == [".git"]


def test_absolute_links_are_not_excluded(repository):
    exclude(HeldFolder(str(repository)), ("/home/else/.claude/skills/plain",))
    assert "skillhub" not in text_of(repository)
