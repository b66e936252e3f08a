"""The folder of the project, and the owner of its files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skillhub.disk.home import Home
from skillhub.errors import FormatError, LinkLeavesProject, StateError
from skillhub.formats.digest import Digest
from skillhub.model.lock import CAP, Lock, Locked
from skillhub.model.provenance import Record, Records
from skillhub.project.intent import Wanted
from skillhub.project.project import Project, _parse

ENTRY = Locked(source="local", tree=Digest.of(b"t"), size=1, path="src")


def test_project_is_the_nearest_lock_or_intent_then_the_git_root(tmp_path, home):
    deep = tmp_path / "a/b/c/d"
    deep.mkdir(parents=True)
    assert Project.find(str(deep), home).base == str(deep)
    (tmp_path / "a/.git").mkdir()
    assert Project.find(str(deep), home).base == str(tmp_path / "a")
    for name in ("skillhub.toml", "skillhub.lock"):
        (tmp_path / "a/b" / name).touch()
        assert Project.find(str(deep), home).base == str(tmp_path / "a/b")
        (tmp_path / "a/b" / name).unlink()
    (tmp_path / "skillhub.lock").touch()
    assert Project.find(str(deep), home).base == str(tmp_path / "a")  # not above git's root
    (tmp_path / "a/.git").rmdir()
    (tmp_path / "a/.git").write_text("gitdir: elsewhere\n")
    assert Project.find(str(deep), home).base == str(tmp_path / "a")


def test_the_last_lock_is_the_one_last_read_absent_or_not(project):
    """A command asks for it once for each skill, and must not look at the disk each time."""
    lock = Lock({"plain": ENTRY})
    assert project.lock() == Lock()
    Path(project.lock_path).write_bytes(lock.dump())  # another process
    assert project.last_lock() == Lock()
    assert (project.lock(), project.last_lock()) == (lock, lock)
    os.remove(project.lock_path)
    assert project.last_lock() == lock
    assert (project.lock(), project.last_lock()) == (Lock(), Lock())


def test_documents_are_written_only_when_changed(project, tmp_path):
    assert (project.lock(), project.records(), project.has_lock_or_intent()) == (Lock(), Records(), False)
    lock = Lock({"plain": ENTRY})
    project.write_lock(lock.dump())
    assert project.lock() == lock
    before = (tmp_path / "project/skillhub.lock").stat().st_mtime_ns
    project.write_lock(lock.dump())
    assert (tmp_path / "project/skillhub.lock").stat().st_mtime_ns == before
    records = Records({"plain": Record(tree=ENTRY.tree, enabled=True)})
    project.write_records(records)
    assert project.records() == records
    assert Project(project.base, "project", Home.of({"SKILLHUB_HOME": str(tmp_path / "home")})).records() == records


BOUNDED = """
import resource, sys
from skillhub.errors import FormatError
from skillhub.disk.home import Home
from skillhub.project.project import Project
resource.setrlimit(resource.RLIMIT_AS, (500 << 20, 500 << 20))
try:
    Project(sys.argv[1], "project", Home.of({"SKILLHUB_HOME": sys.argv[1] + "/hub"})).lock()
except FormatError as error:
    print(error.message)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory cannot be bounded")
@pytest.mark.parametrize(("size", "said"), [(CAP, "'version' is missing"), (60 << 20, "at most")])
def test_attack_a_huge_lock_is_read_within_a_memory_limit(tmp_path, size, said):
    unit = b'{"":[[]]},'  # of the forms that were tried it takes most memory for its length
    units = unit * ((size - 20) // len(unit))
    (tmp_path / "skillhub.lock").write_bytes(b'{"skills": [' + units[:-1] + b"]}")
    done = subprocess.run([sys.executable, "-c", BOUNDED, str(tmp_path)], capture_output=True, text=True, check=True)
    assert said in done.stdout


def test_records_are_private_to_the_user(project, tmp_path):
    project.write_records(Records())
    (path,) = (tmp_path / "home/state/projects").iterdir()
    assert path.stat().st_mode & 0o077 == 0


def test_an_edit_of_the_intent_is_parsed_once_and_an_error_names_the_file(project, tmp_path):
    path, parses = tmp_path / "project/skillhub.toml", _parse.cache_info
    before = parses().misses
    assert project.edit_intent({"demo": Wanted(path="./demo")}, ())
    assert [*project.intent().skills] == ["demo"]
    assert parses().misses - before == 2  # the bytes before and after the edit
    path.write_text("[skills")
    with pytest.raises(FormatError) as caught:
        project.edit_intent({"demo": Wanted(path="./demo")}, ())
    assert str(path) in caught.value.where


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("name", ["skillhub.lock", "skillhub.toml"])
def test_attack_a_document_of_another_user_is_refused(project, tmp_path, name):
    path = tmp_path / "project" / name
    path.write_bytes(Lock().dump() if name.endswith("lock") else b"")
    os.chown(path, 65534, 65534)
    read, write = (project.lock, lambda: project.write_lock(Lock({"plain": ENTRY}).dump()))
    if name.endswith("toml"):
        read, write = project.intent, lambda: project.edit_intent({"demo": Wanted(path="demo")}, ())
    for act in (read, write):
        with pytest.raises(StateError) as caught:
            act()
        assert "another user" in caught.value.message
    assert path.stat().st_uid == 65534


@pytest.mark.parametrize("name", ["skillhub.lock", "skillhub.toml"])
@pytest.mark.parametrize("target", ["../outside", "/etc/hostname", "../nowhere", "../project-not/x"])
def test_attack_a_document_linked_out_of_the_project_is_refused(project, tmp_path, name, target):
    (tmp_path / "outside").write_text("kept")
    (tmp_path / "project" / name).symlink_to(target)
    acts = [project.lock, lambda: project.write_lock(Lock({"plain": ENTRY}).dump())]
    if name.endswith("toml"):
        acts = [
            project.intent,
            lambda: project.intent_bytes(""),
            lambda: project.edit_intent({"demo": Wanted(path="demo")}, ()),
        ]
    for act in acts:
        with pytest.raises(LinkLeavesProject):
            act()
    assert (tmp_path / "outside").read_text() == "kept"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("make", ["mkfifo", "mkdir"])
def test_document_that_is_no_file_is_refused(project, tmp_path, make):
    getattr(os, make)(tmp_path / "project/skillhub.lock")
    with pytest.raises(StateError):
        project.lock()


def test_empty_lock_is_a_format_error(project, tmp_path):
    (tmp_path / "project/skillhub.lock").touch()
    with pytest.raises(FormatError):
        project.lock()


def test_linked_folder_is_the_same_project(tmp_path, home, project):
    (tmp_path / "link").symlink_to("project")
    project.write_records(Records(agents=("codex",)))
    assert Project(str(tmp_path / "link"), "project", home).records().agents == ("codex",)


def test_scope_of_the_user_is_separate_from_a_project(tmp_path, home):
    user = Project.of_user(str(tmp_path), home)
    user.write_lock(Lock({"plain": ENTRY}).dump())
    assert not (tmp_path / "skillhub.lock").exists()
    assert (tmp_path / "home/state/skillhub.lock").exists()
    assert Project(str(tmp_path), "project", home).records() == Records()


def test_uncreatable_state_folder_is_an_error(tmp_path, project):
    (tmp_path / "home").write_text("a file")
    for act in (lambda: project.write_records(Records()), lambda: project.exclusively().__enter__()):
        with pytest.raises(StateError):
            act()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_attack_a_parent_repository_of_another_user_is_refused(tmp_path, home):
    (tmp_path / ".git").mkdir()
    os.chown(tmp_path / ".git", 65534, 65534)
    (tmp_path / "work").mkdir()
    with pytest.raises(StateError) as caught:
        Project.find(str(tmp_path / "work"), home)
    assert "another user" in caught.value.message
    (tmp_path / "work" / ".git").mkdir()
    assert Project.find(str(tmp_path / "work"), home).base == str(tmp_path / "work")
