"""Repair of a lock that two branches changed: by the program, and by git with the merge driver."""

import os
import shlex
import subprocess
from dataclasses import replace

import pytest

from skillhub.disk.home import Home
from skillhub.edits.lock_merge import conflict, drive, fix, sides
from skillhub.errors import FormatError, NotFound, Refused, SignerChanged, SkillhubError, SourceMismatch
from skillhub.install.resolve import satisfies
from skillhub.model.lock import Lock
from skillhub.project.intent import Wanted
from skillhub.project.project import Project, edit, parse_intent
from tests.edits.test_lock_merge import ACME, HIS, ONE, THREE, TWO, local, lock, released
from tests.support import forked
from tests.support.cli import REPO, SECONDS


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project").mkdir()
    return Project(str(tmp_path / "project"), "project", Home.of({"SKILLHUB_HOME": str(tmp_path / "hub")}))


def clashing(project, ours, theirs):
    data = conflict(ours.dump(), theirs.dump())
    write(project.lock_path, data)
    return data


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def want(project, text):
    write(project.intent_path, text.encode())


def test_a_lock_without_a_conflict_is_not_written(project):
    assert not fix(project, {}, satisfies).changed
    project.write_lock(lock(a=ONE).dump())
    before = os.stat(project.lock_path)
    assert not fix(project, {}, satisfies).changed
    after = os.stat(project.lock_path)
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_fix_keeps_the_skills_of_both_sides(project):
    clashing(project, lock(a=ONE, c=TWO), lock(b=ONE, c=THREE))
    done = fix(project, {}, satisfies)
    assert project.lock() == lock(a=ONE, b=ONE, c=THREE)
    assert {each.name: each.took for each in done.choices} == {"a": "ours", "b": "theirs", "c": "theirs"}


def test_the_intent_decides_between_versions(project):
    want(project, '[skills]\na = { source = "acme", version = "~1.1" }\n')
    clashing(project, lock(a=TWO), lock(a=THREE))
    assert "skillhub.toml allows only 1.1.0" in fix(project, {}, satisfies).choices[0].why
    assert project.lock().skills == {"a": TWO}


def test_the_intent_of_a_package_decides_and_its_conflict_is_an_error(project):
    want(project, '[workspace]\nmembers = ["packages/*"]\n')
    package = os.path.join(project.root, "packages", "web", "skillhub.toml")
    os.makedirs(os.path.dirname(package))
    for line, took in (("~1.1", "ours"), ("^1.1", "theirs")):
        clashing(project, lock(a=TWO), lock(a=THREE))
        write(package, f'[skills]\na = "{line}"\n'.encode())
        assert [each.took for each in fix(project, {}, satisfies, dry_run=True).choices] == [took], line
    write(package, conflict(b'[skills]\na = "1"\n', b"[skills]\n"))
    with pytest.raises(FormatError) as caught:
        fix(project, {}, satisfies)
    assert (caught.value.where, "conflict" in caught.value.message) == (package, True)


def test_a_removal_is_recognized_from_the_base_of_diff3(project):
    base, ours, theirs = lock(a=ONE, b=ONE), lock(a=TWO), lock(a=THREE, b=ONE)
    parts = [each.dump() for each in (ours, base, theirs)]
    data = b"<<<<<<< a\n%b||||||| o\n%b=======\n%b>>>>>>> b\n" % tuple(parts)
    write(project.lock_path, data)
    assert fix(project, {}, satisfies).choices[1].took is None
    assert project.lock().skills == {"a": THREE}


def test_a_dry_run_of_fix_writes_nothing(project):
    data = clashing(project, lock(a=ONE), lock(b=ONE))
    assert fix(project, {}, satisfies, dry_run=True).changed
    assert read(project.lock_path) == data


@pytest.mark.parametrize(
    ("theirs", "error", "shown"),
    [
        (released("9.0.0", HIS), SignerChanged, f"signed by {HIS}"),
        (released("9.0.0", signer=None), SignerChanged, "unsigned"),
        (local(b"x"), SourceMismatch, "skills/deploy"),
        (released("1.1.0", content=b"x"), Refused, "1.1.0 with tree"),
    ],
)
def test_another_signer_source_or_content_is_refused_until_a_side_is_chosen(project, theirs, error, shown):
    ours = lock(a=TWO, b=ONE)
    data = clashing(project, ours, lock(a=theirs, b=ONE))
    with pytest.raises(error) as caught:
        fix(project, {}, satisfies)
    assert shown in caught.value.message
    assert "a: ours is" in caught.value.message
    assert "--ours NAME" in caught.value.hint
    assert read(project.lock_path) == data
    fix(project, {"a": "theirs"}, satisfies)
    assert project.lock().skills["a"] == theirs


def test_an_alias_with_another_registry_is_refused_until_a_side_is_chosen(project):
    evil = {"acme": replace(ACME["acme"], url="https://evil.example")}
    data = clashing(project, lock(ACME, a=ONE), lock(evil, a=ONE))
    with pytest.raises(SourceMismatch, match="evil"):
        fix(project, {}, satisfies)
    assert read(project.lock_path) == data
    fix(project, {"acme": "ours"}, satisfies)
    assert project.lock() == lock(ACME, a=ONE)


def test_a_side_for_an_unknown_name_is_not_found(project):
    clashing(project, lock(deploy=ONE), lock(b=ONE))
    for name, hint in (("deplyo", "did you mean deploy?"), ("x", "there are: acme, b, deploy")):
        with pytest.raises(NotFound, match="neither side") as caught:
            fix(project, {name: "ours"}, satisfies)
        assert caught.value.hint == hint


def test_a_conflict_in_the_intent_must_be_resolved_first(project):
    want(project, "[skills]\n<<<<<<< a\na = '1'\n=======\na = '2'\n>>>>>>> b\n")
    for other in (THREE, TWO):  # also after the merge driver, which leaves no conflict in the lock
        clashing(project, lock(a=TWO), lock(a=other))
        with pytest.raises(FormatError, match=r"skillhub\.toml holds a merge conflict") as raised:
            fix(project, {}, satisfies)
        hint = raised.value.hint
        assert hint.startswith("first edit it: ") and hint.endswith("then: skillhub lock fix")


@pytest.mark.parametrize("data", [b"<<<<<<< a\n", b"{"])
def test_the_hint_for_a_lock_that_fix_cannot_mend_does_not_name_fix(project, data):
    write(project.lock_path, data)
    with pytest.raises(FormatError) as raised:
        fix(project, {}, satisfies)
    assert raised.value.hint == "restore it from version control, if that has it, or delete it and install again"


@pytest.mark.parametrize(
    "data",
    [b"<<<<<<< a\n{}\n=======\n{}\n>>>>>>> b\n", b"<<<<<<< a\n", b"{", b"", b"<<<<<<< a\n=======\n>>>>>>> b\n"],
)
def test_an_invalid_lock_stays_unchanged(project, data):
    write(project.lock_path, data)
    with pytest.raises(SkillhubError) as caught:
        fix(project, {}, satisfies)
    assert caught.value.exit_code == 4
    assert read(project.lock_path) == data


def test_the_driver_merges_changes_that_conflict_as_text():
    done = drive(lock(a=ONE).dump(), lock(a=TWO, b=ONE).dump(), lock(a=THREE, c=ONE).dump())
    assert done.error is None
    assert Lock.parse(done.data) == lock(a=THREE, b=ONE, c=ONE)


def test_the_driver_leaves_a_conflict_between_signers():
    ours, theirs = lock(a=TWO, b=ONE), lock(a=released("9.0.0", HIS), c=ONE)
    done = drive(lock(a=ONE).dump(), ours.dump(), theirs.dump())
    assert isinstance(done.error, SignerChanged)
    one, other, _ = sides(done.data)
    assert Lock.parse(one) == lock(a=TWO, b=ONE, c=ONE)
    assert Lock.parse(other) == lock(a=theirs.skills["a"], b=ONE, c=ONE)


def test_the_driver_keeps_both_sides_if_one_is_invalid():
    done = drive(b"", lock(a=ONE).dump(), b"not a lock\n")
    assert done.error.exit_code == 4
    assert sides(done.data) == (lock(a=ONE).dump(), b"not a lock\n", None)


def test_locks_without_a_common_base_are_merged():
    assert Lock.parse(drive(b"", lock(a=ONE).dump(), lock(b=ONE).dump()).data) == lock(a=ONE, b=ONE)


class Repository:
    """A git repository of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": str(folder.parent),
            "PYTHONPATH": str(REPO),
            "SKILLHUB_HOME": str(folder.parent / "hub"),
        } | {f"GIT_{who}_{what}": "a@example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words, status=0):
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env=self.environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def commit(self, of):
        (self.folder / "skillhub.lock").write_bytes(of.dump())
        self.git("add", ".")
        self.git("commit", "-qm", "x")

    def apart(self, base, ours, theirs):
        self.commit(base)
        self.git("checkout", "-qb", "other")
        self.commit(theirs)
        self.git("checkout", "-q", "main")
        self.commit(ours)

    def lock(self):
        return Lock.parse((self.folder / "skillhub.lock").read_bytes())

    def drive(self):
        """Set up the driver as described in docs/ci.md, with this program."""
        program = shlex.join(forked.words("skillhub.cli.main", SECONDS))
        self.git("config", "merge.skillhub.driver", f"{program} lock merge %O %A %B")
        (self.folder / ".gitattributes").write_text("skillhub.lock merge=skillhub\n")


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "clone")


def test_two_branches_with_distant_additions_merge_without_the_driver(repository):
    base = lock(b=ONE, m=ONE, y=ONE)
    repository.apart(base, lock(**base.skills, f=TWO), lock(**base.skills, r=THREE))
    repository.git("merge", "-q", "other", "-m", "both")
    assert repository.lock() == lock(**base.skills, f=TWO, r=THREE)


def test_two_branches_that_each_add_a_skill_to_the_intent_merge(repository):
    path = repository.folder / "skillhub.toml"
    path.write_bytes(b"")

    def added(*names):
        path.write_bytes(edit(path.read_bytes(), dict.fromkeys(names, Wanted(source="acme")), ()))
        repository.commit(lock(**dict.fromkeys(parse_intent(path.read_bytes()).skills, ONE)))

    added("b", "m")
    repository.git("checkout", "-qb", "other")
    added("a")
    repository.git("checkout", "-q", "main")
    added("f", "z")
    repository.git("merge", "-q", "other", "-m", "both")
    assert list(parse_intent(path.read_bytes()).skills) == list(repository.lock().skills) == ["a", "b", "f", "m", "z"]


def test_neighbouring_changes_conflict_in_git_and_fix_resolves_them(repository):
    repository.apart(lock(b=ONE), lock(b=TWO, c=ONE), lock(b=THREE, d=ONE))
    repository.git("merge", "other", "-m", "both", status=1)
    project = Project(
        str(repository.folder), "project", Home.of({"SKILLHUB_HOME": str(repository.folder.parent / "hub")})
    )
    fix(project, {}, satisfies)
    assert repository.lock() == lock(b=THREE, c=ONE, d=ONE)


def test_git_merges_locks_with_the_skillhub_driver(repository):
    repository.drive()
    repository.apart(lock(b=ONE), lock(b=TWO, c=ONE), lock(b=THREE, d=ONE))
    output = repository.git("merge", "other", "-m", "both")
    assert repository.lock() == lock(b=THREE, c=ONE, d=ONE)
    assert "b: theirs: both changed it; 1.2.0 is higher than 1.1.0" in output


def test_the_driver_leaves_a_conflict_between_signers_in_git(repository):
    repository.drive()
    repository.apart(lock(b=ONE), lock(b=TWO), lock(b=released("9.0.0", HIS)))
    output = repository.git("merge", "other", "-m", "both", status=1)
    assert "signer-changed" in output
    assert "UU skillhub.lock" in repository.git("status", "--short")
    assert sides((repository.folder / "skillhub.lock").read_bytes()) is not None
