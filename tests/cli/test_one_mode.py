"""The program in a project on a file system that keeps no execute bits, as on exFAT, NTFS or a share."""

from __future__ import annotations

import shutil

import pytest

from skillhub.disk.home import Home
from skillhub.edits.patch import merged
from skillhub.formats.digest import Digest
from skillhub.project.project import Project
from skillhub.project.store import Store
from tests.support.one_mode import EXECUTABLE, PLAIN, keep_no_modes

REF, NAME = "github:systematic-debugging@1.0.0", "systematic-debugging"


@pytest.fixture(params=[EXECUTABLE, PLAIN], ids=["executable", "plain"])
def machine(request, shell, monkeypatch):
    """A machine whose files have one mode, with an installed skill that has a script."""
    keep_no_modes(monkeypatch, request.param)
    assert shell.run("install", REF, "--yes").status == 0
    return shell


def edited(machine):
    for copy in machine.project.glob(f".*/skills/{NAME}/SKILL.md"):
        copy.write_text(copy.read_text() + "\nOurs.\n")


def patches(machine):
    return [each.read_text() for each in sorted((machine.project / "skillhub-edits").glob("*.patch"))]


def states(machine):
    return {each["name"]: (each["state"], each["edited"]) for each in machine.run("list", "--json").json["skills"]}


def test_nothing_counts_as_edited(machine):
    assert machine.run("verify").status == 0
    assert states(machine) == {NAME: ("enabled", [])}
    for words in (("sync",), ("install",), ("install", "--frozen")):
        assert "already up to date" in machine.run(*words).err, words
    assert machine.run("disable", NAME).status == 0
    assert machine.run("enable", NAME, "--yes").status == 0
    assert patches(machine) == []


def test_an_update_needs_no_answer_about_edits(machine):
    done = machine.run("install", f"github:{NAME}", "--yes")
    assert (done.status, patches(machine)) == (0, []), done.err
    assert machine.run("verify").status == 0
    assert machine.run("remove", NAME).status == 0
    assert not list(machine.project.glob(f".*/skills/{NAME}"))


def test_edits_are_found_shown_and_saved_without_modes(machine):
    edited(machine)
    done = machine.run("verify")
    assert (done.status, done.out.count("[changed-file]"), done.out.count("[changed-mode]")) == (1, 1, 0)
    shown = machine.run("diff", NAME).out
    assert "+Ours." in shown
    assert "mode" not in shown
    assert machine.run("sync", "--yes").status == 0
    (saved,) = patches(machine)
    assert "+Ours." in saved
    assert "mode 100" not in saved


def test_edits_become_a_patch_of_the_project_without_modes(machine):
    edited(machine)
    assert machine.run("patch", NAME, "--yes").status == 0
    (saved,) = patches(machine)
    assert "mode 100" not in saved
    assert machine.run("verify").status == 0
    assert states(machine) == {NAME: ("enabled", [])}


def test_edits_are_merged_without_modes(machine):
    edited(machine)
    project = Project(str(machine.project), "project", Home.of({"SKILLHUB_HOME": str(machine.hub)}))
    base = Store(project.home.data).read(Digest(machine.lock()["skills"][NAME]["tree"]))
    found = merged(base, str(machine.project / f".agents/skills/{NAME}"), base, project)
    assert {path for path in base if found[path] != base[path]} == {"SKILL.md"}
    assert not found["SKILL.md"].executable


def test_sync_removes_what_left_the_lock_and_was_not_edited(machine):
    machine.write("project/skillhub.lock", '{"skills": {}, "sources": {}, "version": 1}')
    machine.write("project/skillhub.toml", "")
    assert machine.run("sync").status == 0
    assert not list(machine.project.glob(f".*/skills/{NAME}"))


def test_sync_removes_the_exact_copy_of_a_disabled_skill(machine):
    copy = machine.project / f".agents/skills/{NAME}"
    shutil.copytree(copy, machine.folder / "before")
    assert machine.run("disable", NAME).status == 0
    shutil.copytree(machine.folder / "before", copy)
    assert machine.run("sync").status == 0
    assert not copy.exists()
    assert not (machine.project / "skillhub-edits").exists()


def test_an_uninstall_removes_the_copies(machine):
    assert machine.run("self", "uninstall", "--yes").status == 0
    assert not list(machine.project.glob(f".*/skills/{NAME}"))


def test_a_lost_copy_is_restored(machine):
    for file in [*machine.project.glob(f".agents/skills/{NAME}/SKILL.md")]:
        file.unlink()
    assert machine.run("sync", "--yes").status == 0
    assert machine.run("verify").status == 0


def test_a_folder_of_the_project_is_installed_and_follows_its_lock(machine):
    machine.skill("project/mine", **{"run.sh": "true\n"})
    assert machine.run("install", "./mine", "--yes", "--allow-unsigned").status == 0
    assert "already up to date" in machine.run("install", "./mine", "--yes", "--allow-unsigned").err
    assert machine.run("update", "--check").status == 0
    assert machine.run("install", "--frozen").status == 0


def test_a_locked_folder_keeps_the_execute_bits_of_its_lock(shell, monkeypatch):
    skill = shell.skill("project/mine", **{"run.sh": "true\n"})
    (skill / "run.sh").chmod(0o755)
    assert shell.run("install", "./mine", "--yes", "--allow-unsigned").status == 0
    keep_no_modes(monkeypatch, EXECUTABLE)
    assert shell.run("update", "--check").status == 0
    assert shell.run("audit", "--json").json["ok"]
    lock = shell.lock()
    assert "already up to date" in shell.run("install", "./mine", "--yes", "--allow-unsigned").err
    assert shell.lock() == lock


def test_an_agent_loads_the_skill(machine):
    done = machine.run("load", NAME, "--json")
    assert (done.status, done.json["name"]) == (0, NAME)


def test_attack_an_agent_loads_no_changed_skill(machine):
    edited(machine)
    done = machine.run("load", NAME, "--json")
    assert (done.status, done.error["code"]) == (5, "drifted")
