"""Faults around a command: the clock, other processes, stale locks, permissions, case-insensitive disks."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from skillhub.command.ports import Options
from skillhub.disk import files
from skillhub.edits.lock_merge import conflict, fix
from skillhub.errors import MetadataExpired, Refused, StateError, UnsafeArchive
from skillhub.exchange.adopt import adopt
from skillhub.install.resolve import satisfies
from skillhub.model.reference import parse_ref
from tests.install.test_concurrency import at_once
from tests.install.test_faults import as_ordinary_user, give, left_over, look, reachable, shut
from tests.install.test_faults_update import BOTH, OURS, THEIRS, Reaching
from tests.support.faults import in_child
from tests.support.forked import REPO
from tests.support.gitrepos import Repo
from tests.support.registry import URL, Simulator, long_ago
from tests.support.site import skill_md
from tests.support.world import NOW, Answers, skill

__all__ = ["reachable"]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each command runs in a forked child")
CLASH = conflict(OURS.dump(), THEIRS.dump())


class Timed(Reaching):
    """A machine whose clock may be wrong."""

    now = NOW

    def ports(self, answers=None):
        return replace(super().ports(answers), clock=lambda: self.now)


def behind(folder, hub):
    """Return a machine with ``hello`` 1.0.0 and a registry that has 1.1.0."""
    machine = Timed(folder)
    machine.road = hub
    machine.sources.add("acme", URL, hub.root)
    machine.install("acme:hello")
    hub.publish("hello", "1.1.0", **{"run.py": "print()\n"})
    return machine


@pytest.fixture
def machine(tmp_path, hub):
    return behind(tmp_path / "machine", hub)


def version(machine):
    return machine.lock().skills["hello"].version


@pytest.mark.parametrize("days", [-20_000, -1, 1, 10_000])
def test_a_wrong_clock_removes_nothing_and_does_not_prevent_an_update(machine, days):
    machine.now = NOW + timedelta(days=days)
    before = look(machine)
    assert machine.sync().changed is False
    assert machine.install(frozen=True).changed is False
    assert (machine.problems(), look(machine)) == ([], before)
    machine.update()
    assert (version(machine), machine.problems()) == ("1.1.0", [])
    machine.now = NOW
    assert machine.sync().changed is False


def test_expired_metadata_stops_an_update_but_not_sync_and_frozen(machine, hub):
    fresh = hub.when
    hub.set_back(long_ago(5))
    hub.publish("other")
    before = look(machine)
    with pytest.raises(MetadataExpired):
        machine.update()
    shutil.rmtree(machine.copy("hello"))
    assert machine.sync().changed
    assert machine.install(frozen=True).changed is False
    assert (look(machine), machine.problems()) == (before, [])
    hub.when = fresh
    hub.publish("third")
    machine.update()
    assert version(machine) == "1.1.0"


def test_an_update_killed_between_lock_and_record_is_completed_by_the_next(machine):
    known = Path(machine.project._state)
    before = known.read_bytes()
    machine.update()
    known.write_bytes(before)
    machine.sync(Answers())
    assert not machine.copy("hello").exists()  # no record shows consent to the newly locked release
    again = machine.update()
    assert [(each.name, each.state) for each in again.skills] == [("hello", "enabled")]
    assert machine.copy("hello").joinpath("run.py").exists()
    assert (version(machine), machine.problems()) == ("1.1.0", [])
    assert machine.update().changed is False


def test_two_simultaneous_updates_update_once(machine):
    assert set(at_once(machine.update, machine.update)) <= {0, StateError.exit_code}
    machine.update()
    machine.sync()
    assert (version(machine), machine.problems(), left_over(machine)) == ("1.1.0", [], [])


def test_update_remove_and_install_at_once_leave_the_project_sound(machine):
    other = str(skill(machine.base / "src", "other"))
    ended = at_once(machine.update, lambda: machine.install(other), lambda: machine.remove("hello"))
    assert set(ended) <= {0, StateError.exit_code}
    machine.sync()
    assert set(machine.lock().skills) - {"hello"} == ({"other"} if ended[1] == 0 else set())
    assert (machine.problems(), left_over(machine)) == ([], [])


def test_two_installs_from_one_repository_at_once_both_succeed(machine, tmp_path):
    repo = Repo(tmp_path / "repo")
    repo.commit({f"{name}/SKILL.md": skill_md(name) for name in ("one", "two")})
    acts = [lambda name=name: machine.install(f"git+{repo.url}", skills=(name,)) for name in ("one", "two")]
    assert at_once(*acts) == [0, 0]
    assert set(machine.lock().skills) == {"hello", "one", "two"}
    assert (machine.problems(), left_over(machine)) == ([], [])


def test_two_simultaneous_repairs_resolve_a_lock_once(tmp_path):
    machine = Timed(tmp_path)
    (machine.base / "skillhub.lock").write_bytes(CLASH)
    assert at_once(*[lambda: fix(machine.project, {}, satisfies)] * 2) == [0, 0]
    assert machine.lock() == BOTH


def without_sources(folder):
    """Return a machine on which no source is compared with what it adopts."""
    machine = Timed(folder)
    machine.sources.remove("github")
    return machine


def test_two_simultaneous_adoptions_lose_nothing(tmp_path):
    machine = without_sources(tmp_path)
    loose = skill(machine.base / ".claude/skills", "loose", **{"scripts/run.sh": "echo\n"})
    mine = (loose / "SKILL.md").read_bytes()
    ended = at_once(*[lambda: adopt([], "skills", Options(), machine.ports())] * 2)
    assert set(ended) <= {0, StateError.exit_code}
    machine.install()
    machine.sync()
    for folder in ("skills", ".claude/skills", ".agents/skills"):
        assert (machine.base / folder / "loose/SKILL.md").read_bytes() == mine
    assert (machine.problems(), left_over(machine)) == ([], [])


def test_simultaneous_adoptions_of_several_skills_all_succeed(tmp_path):
    machine = without_sources(tmp_path)
    names = [f"s{number}" for number in range(8)]
    for name in names:
        skill(machine.base / ".claude/skills", name, **{f"notes-{number}.md": "Note.\n" for number in range(20)})
    assert (
        at_once(*[lambda name=name: adopt([name], "skills", Options(), machine.ports()) for name in names]) == [0] * 8
    )
    assert sorted(machine.lock().skills) == names
    assert (machine.problems(), left_over(machine)) == ([], [])


def test_adoption_writes_nothing_while_another_process_changes_the_project(tmp_path):
    machine = without_sources(tmp_path)
    skill(machine.base / ".claude/skills", "loose")
    machine.patience = 0
    with machine.project.exclusively(), pytest.raises(StateError, match="another skillhub process"):
        adopt([], "skills", Options(), machine.ports())
    assert not (machine.base / "skills").exists()


def test_a_lock_file_of_a_dead_process_blocks_no_command(machine):
    held = f"{machine.project._state}.lock"

    def die():
        with files.lock(held):
            Path(held).write_text("4194303\n")
            os._exit(9)

    assert in_child(die) == 9
    assert Path(held).exists()
    machine.patience = 0.5
    machine.update()
    (machine.base / "skillhub.lock").rename(machine.base / "aside")
    (machine.base / "skillhub.lock").write_bytes(CLASH)
    fix(machine.project, {}, satisfies)
    assert machine.lock() == BOTH


# Each of these commands looks at the files of skillhub itself, or loads a library late.
@pytest.mark.skipif(
    os.geteuid() == 0 and not all(each.stat().st_mode & 0o005 == 0o005 for each in (REPO, *REPO.parents)),
    reason="an ordinary user cannot read this clone",
)
@pytest.mark.parametrize("verb", ["update", "fix", "adopt", "git"])
def test_a_read_only_checkout_fails_without_changes(reachable, verb):
    hub = Simulator(reachable)
    hub.publish("hello")
    machine = behind(reachable / "now", hub)
    repo = Repo(reachable / "now" / "repo")
    repo.commit({"SKILL.md": skill_md("deploy")})
    if verb == "fix":
        (machine.base / "skillhub.lock").write_bytes(CLASH)
    if verb == "adopt":
        skill(machine.base / ".claude/skills", "loose")
    acts = {
        "update": machine.update,
        "fix": lambda: fix(machine.project, {}, satisfies),
        "adopt": lambda: adopt([], "skills", Options(), machine.ports()),
        "git": lambda: machine.install(f"git+{repo.url}"),
    }
    machine.ports().open_place(parse_ref(f"git+{repo.url}")).index()  # loads all modules: an ordinary user may not
    give(reachable / "now")
    before = {path: path.read_bytes() for path in machine.base.rglob("*") if path.is_file()}
    modes = {path: path.stat().st_mode for path in (machine.base, *machine.base.rglob("*")) if path.is_dir()}
    shut(machine.base)
    try:
        assert in_child(acts[verb], as_ordinary_user) == StateError.exit_code
        if verb in ("update", "git"):
            assert in_child(lambda: os._exit(len(machine.problems())), as_ordinary_user) == 0
            assert in_child(lambda: machine.install(frozen=True), as_ordinary_user) == 0
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    assert {path: path.read_bytes() for path in machine.base.rglob("*") if path.is_file()} == before
    assert in_child(acts[verb], as_ordinary_user) == 0
    if verb != "fix":
        assert in_child(lambda: machine.sync() and None, as_ordinary_user) == 0
        assert in_child(lambda: os._exit(len(machine.problems())), as_ordinary_user) == 0


TWINS = {"SKILL.md": skill_md("deploy"), "Notes.md": b"one\n", "notes.md": b"two\n"}
FOLDERS = {"SKILL.md": skill_md("deploy"), "Docs/one.md": b"one\n", "docs/two.md": b"two\n"}
SHARP = {"SKILL.md": skill_md("deploy"), "stra\u00dfe.md": b"one\n", "STRASSE.md": b"two\n"}


@pytest.mark.parametrize("content", [TWINS, FOLDERS, SHARP], ids=["files", "folders", "folded"])
def test_names_that_collide_on_some_disks_are_refused_on_every_disk(machine, tmp_path, content):
    repo = Repo(tmp_path / "repo")
    repo.commit({"SKILL.md": skill_md("deploy")})
    machine.install(f"git+{repo.url}")
    repo.commit(content)
    before = look(machine)
    with pytest.raises(UnsafeArchive) as caught:
        machine.update("deploy")
    assert caught.value.reason == "collision"
    assert look(machine) == before
    for path, data in content.items():
        full = machine.base / ".claude/skills/loose" / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(data.replace(b"deploy", b"loose"))
    outcome = adopt([], "skills", Options(), machine.ports())
    assert [(each.name, each.code) for each in outcome.left_out] == [("loose", "unsafe-archive")]
    assert look(machine).documents == before.documents


def test_an_update_that_changes_only_the_case_of_a_name(machine, tmp_path):
    repo = Repo(tmp_path / "repo")
    repo.commit({"SKILL.md": skill_md("deploy"), "Notes.md": b"x\n"})
    machine.install(f"git+{repo.url}")
    repo.commit({"SKILL.md": skill_md("deploy"), "notes.md": b"x\n"})
    machine.update("deploy")
    assert sorted(os.listdir(machine.copy("deploy"))) == ["SKILL.md", "notes.md"]
    assert machine.problems() == []


@pytest.mark.parametrize("verb", ["install", "update", "sync"])
def test_a_folder_with_the_name_in_another_case_is_never_deleted(machine, verb):
    """A case-insensitive disk finds the user's ``Hello`` as ``hello``; this link imitates it."""
    shutil.rmtree(machine.copy("hello"))
    theirs = machine.copy("Hello")
    theirs.mkdir()
    (theirs / "mine.txt").write_text("mine\n")
    machine.copy("hello").symlink_to("Hello")
    acts = {
        "install": lambda answers: machine.install(answers=answers),
        "update": lambda answers: machine.update(answers=answers),
        "sync": lambda answers: machine.sync(answers),
    }
    for reply in ("unanswered", "no"):
        with suppress(Refused):
            acts[verb](Answers("yes", local_edit=reply))
        assert os.readlink(machine.copy("hello")) == "Hello"
    acts[verb](Answers("yes"))
    assert (theirs / "mine.txt").read_text() == "mine\n"
    assert machine.problems() == []
