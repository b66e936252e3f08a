"""Sync makes store, copies and lock agree; it enables no new skill and needs no network for a full store."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from skillhub.disk.folders import remove_tree
from skillhub.errors import FormatError, NotFound, SourceError, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.model.lock import Lock
from tests.support.world import Answers, OfUser, World, skill, unlocked


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    world.install("github:code-review", str(skill(world.base / "src")), agents=("claude-code",))
    return world


def test_sync_without_changes_opens_no_registry(world):
    before, opened = unlocked(world.snapshot()), list(world.opened)
    assert not world.sync().changed
    assert unlocked(world.snapshot()) == before
    assert world.opened == opened


def test_sync_restores_an_empty_store_and_empty_folders(world):
    for path in (world.store.root, world.base / ".agents", world.base / ".claude"):
        remove_tree(str(path))
    assert world.sync().changed
    assert world.problems() == []


def test_sync_stores_nothing_if_one_skill_is_unavailable(world):
    for path in (world.store.root, world.base / "src", world.base / ".agents", world.base / ".claude"):
        remove_tree(str(path))
    before = unlocked(world.snapshot())
    with pytest.raises(NotFound):
        world.sync()
    assert unlocked(world.snapshot()) == before


def test_sync_removes_skills_that_left_the_lock_and_keeps_foreign_ones(world):
    skill(world.base / ".claude/skills", "foreign")
    (world.base / "skillhub.lock").write_text('{\n  "skills": {},\n  "sources": {},\n  "version": 1\n}\n')
    (world.base / "skillhub.toml").unlink()
    assert world.sync().warnings[:2] == tuple(
        f"{name} was removed from the agents' folders, because the lock does not name it: "
        f"{world.copy(name)}, {world.copy(name, '.claude/skills')}"
        for name in ("code-review", "plain")
    )
    left = [path.name for folder in (".agents", ".claude") for path in (world.base / folder / "skills").iterdir()]
    assert left == ["foreign"]
    records = world.project.records()
    assert (records.skills, {name: len(each.former) for name, each in records.left.items()}) == (
        {},
        {"code-review": 1, "plain": 1},
    )
    assert not any("taken out" in each for each in world.sync().warnings)


@pytest.mark.parametrize(
    ("is_locked", "why"), [(False, "the lock does not name it"), (True, "its locked version was not agreed to here")]
)
def test_sync_reports_each_removal_and_its_reason(world, is_locked, why):
    path = world.base / "skillhub.lock"
    if is_locked:
        document = json.loads(path.read_text())
        document["skills"]["plain"]["path"] = "elsewhere"
        path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    else:
        path.write_text('{"skills": {}, "sources": {}, "version": 1}\n')
        (world.base / "skillhub.toml").unlink()
    outcome = world.sync()
    (warning,) = [each for each in outcome.warnings if each.startswith("plain ")]
    assert why in warning
    assert str(world.copy("plain")) in warning
    assert not world.copy("plain").exists()
    assert outcome.changed


def test_sync_without_a_lock_removes_nothing_and_names_install(world):
    """Only a lock that no longer names a skill says that it is to go; a missing file may come back."""
    world.disable("plain")
    lock = (world.base / "skillhub.lock").read_bytes()
    (world.base / "skillhub.lock").unlink()
    before = unlocked(world.snapshot())
    missing = "skillhub.lock is missing, so these stay in the agents' folders: code-review"
    outcome = world.sync()
    assert outcome.warnings == (
        missing,
        "skillhub.toml names code-review, plain, and the lock does not: skillhub install",
    )
    assert not outcome.changed
    assert unlocked(world.snapshot()) == before
    (world.base / "skillhub.toml").unlink()
    assert world.sync().warnings == (f"{missing}; to remove: skillhub remove code-review",)
    (world.base / "skillhub.lock").write_bytes(lock)
    outcome = world.sync()
    assert not outcome.changed
    assert [(each.name, each.state) for each in outcome.skills] == [("code-review", "enabled"), ("plain", "disabled")]


def test_a_new_skill_beside_a_lost_lock_locks_all_of_the_intent(world):
    before = world.lock().skills
    (world.base / "skillhub.lock").unlink()
    outcome = world.install(str(skill(world.base / "more", "new")), agents=("claude-code",))
    assert {each.name for each in outcome.skills} == {"code-review", "new", "plain"}
    assert {name: entry for name, entry in world.lock().skills.items() if name != "new"} == before
    assert (world.sync().changed, world.sync().warnings) == (False, ())


def test_a_new_skill_beside_a_lost_lock_is_the_one_that_the_reference_names(world):
    (world.base / "skillhub.lock").unlink()
    world.install(str(skill(world.base / "more", "plain", body="Another.\n")), agents=("claude-code",))
    assert world.lock().skills.keys() == {"code-review", "plain"}
    assert world.lock().skills["plain"].path == "more/plain"


def test_a_new_skill_without_a_lock_is_installed_although_another_is_unavailable(world):
    (world.base / "skillhub.lock").unlink()
    intent = world.base / "skillhub.toml"
    intent.write_text(intent.read_text().replace('source = "github"', 'source = "zed"'))
    outcome = world.install(str(skill(world.base / "more", "new")), agents=("claude-code",))
    assert world.lock().skills.keys() == {"new"}
    assert "the other skills of skillhub.toml are not locked: no source is named 'zed'" in outcome.warnings
    assert any("names code-review, plain, and the lock does not" in each for each in outcome.warnings)


@pytest.mark.parametrize("theirs", ["a new skill", "a new version"])
def test_attack_the_flags_of_a_new_skill_accept_no_other_of_a_clone(world, theirs):
    (world.base / "skillhub.lock").unlink()
    skill(world.base / "theirs", "theirs")
    line = 'theirs = { path = "theirs/theirs" }\n' if theirs == "a new skill" else ""
    intent = world.base / "skillhub.toml"
    intent.write_text(f"{intent.read_text()}{line}")
    if not line:
        skill(world.base / "src", "plain", "Something else.\n")
    outcome = world.install(str(skill(world.base / "more", "new")), agents=("claude-code",))
    unlocked = "theirs" if line else "plain"
    assert {each.skill for each, _ in outcome.asked} == {"new"}
    assert unlocked not in world.lock().skills
    assert f"skillhub.toml names {unlocked}, and the lock does not: skillhub install" in outcome.warnings


def test_an_incomplete_lock_takes_no_skill_from_the_agents(world):
    """Sync leaves to ``install`` what skillhub.toml still names."""
    world.install(str(skill(world.base / "more", "new")), agents=("claude-code",))
    lock = world.lock()
    (world.base / "skillhub.lock").write_bytes(Lock({"new": lock.skills["new"]}, {}).dump())
    left = "skillhub.toml names code-review, plain, and the lock does not: skillhub install"
    kept = "skillhub.lock does not name all skills of skillhub.toml, so these stay in the agents' folders"
    assert world.sync().warnings == (f"{kept}: code-review, plain", left)
    assert world.install(str(skill(world.base / "more", "newer"))).warnings[-1] == left
    assert not any("left the lock" in each for each in world.install("github:gh-fix-ci").warnings)
    assert all(world.copy(name).exists() for name in ("code-review", "plain", "new"))
    world.install()
    assert world.sync().warnings == ()
    assert all(world.copy(name).exists() for name in ("code-review", "plain", "new"))


@pytest.mark.parametrize("text", ["", "{", '{"version": 99}', "<<<<<<< HEAD\n"])
def test_an_invalid_lock_stops_every_command(world, text):
    (world.base / "skillhub.lock").write_text(text)
    before = unlocked(world.snapshot())
    for act in (world.sync, world.problems, world.install, lambda: world.remove("plain")):
        with pytest.raises(FormatError):
            act()
    assert unlocked(world.snapshot()) == before


def test_temporary_files_of_a_killed_process_are_removed(world):
    left = [".agents/.skillhub-0123456789ab", ".claude/.skillhub-0123456789ab-old", ".skillhub-0123456789abcdef.tmp"]
    kept = [".agents/.skillhub-notes", ".skillhub-0123456789ab.txt", ".skillhub"]
    for name in left[:2]:
        (world.base / name).mkdir()
    for name in [left[2], *kept]:
        (world.base / name).write_text("x")
    world.sync()
    assert not [name for name in left if (world.base / name).exists()]
    assert all((world.base / name).exists() for name in kept)


@pytest.mark.parametrize("kind", [World, OfUser])
def test_in_shared_folders_only_old_temporary_files_are_removed(tmp_path, kind):
    world = kind(tmp_path)
    base, outside = Path(world.project.base), tmp_path / "outside"
    outside.mkdir()
    (base / ".git/info").mkdir(parents=True)
    (base / ".gemini").symlink_to(outside)
    old, young = ".skillhub-0123456789abcdef.tmp", ".skillhub-fedcba9876543210.tmp"
    for folder in (".codex", ".cursor", ".git/info", ".gemini"):
        (base / folder).mkdir(exist_ok=True)
        for name, age in ((old, 7200), (young, 60), ("mine.tmp", 7200)):
            (base / folder / name).touch()
            os.utime(base / folder / name, (time.time() - age,) * 2)
    world.sync()
    for folder in (".codex", ".cursor", ".git/info"):
        assert sorted(os.listdir(base / folder)) == [young, "mine.tmp"]
    assert len(os.listdir(outside)) == 3


def test_sync_with_an_unknown_source_is_an_error(world):
    remove_tree(world.store.root)
    world.sources.remove("github")
    with pytest.raises(SourceError):
        world.sync()


def test_sync_loads_no_network():
    heavy = ["tuf", "httpx", "typer", "tomlkit"]
    code = f"import sys, skillhub.install.links; print([each for each in {heavy} if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_sync_completes_an_agreed_change_killed_after_the_lock(world):
    world.install("github:systematic-debugging@1.0.0")
    path = world.base / "skillhub.toml"
    path.write_text(path.read_text().replace('"1.0.0"', '"^1"'))
    before = world.project.records()
    world.update("systematic-debugging")
    after = world.project.records()
    # As after a kill between lock and links: the record has the new state as pending.
    world.project.write_records(replace(before, pending=after.skills))
    copy = world.copy("systematic-debugging")
    shutil.rmtree(copy)
    for path, file in world.store.read(before.skills["systematic-debugging"].tree).items():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_bytes(file.data)
        (copy / path).chmod(0o755 if file.executable else 0o644)
    world.sync()
    assert world.project.records() == after
    assert world.problems() == []


def test_a_coming_record_that_never_took_effect_is_dropped(world):
    world.install("github:code-review")
    record = world.record("code-review")
    other = replace(record, tree=Digest.of(b"another"))
    world.project.write_records(replace(world.project.records(), pending={"code-review": other, "gone": other}))
    world.disable("code-review")
    assert world.project.records().pending == {}
    assert world.record("code-review").disabled_by == "user"
    assert world.sync().skills[0].state == "disabled"


def test_sync_reports_unchanged_and_repaired_skills_separately(world):
    (world.copy("code-review", ".claude/skills") / "SKILL.md").unlink()
    outcome = world.sync(Answers("yes"))
    assert (outcome.changed, outcome.unchanged) == (True, {"plain"})


def test_sync_reports_differences_between_intent_and_lock(world):
    wanted = 'plain = { path = "src/plain" }\n'
    (world.base / "skillhub.toml").write_text(f'[skills]\n{wanted}release-notes = "^1"\ngh-fix-ci = "^1"\n')
    assert world.sync().warnings == (
        "skillhub.toml names release-notes, gh-fix-ci, and the lock does not: skillhub install",
        "the lock has code-review, which skillhub.toml does not require: skillhub install removes it",
    )
    (world.base / "skillhub.toml").write_text(f'[skills]\n{wanted}code-review = "*"\n')
    assert world.sync().warnings == ()


def test_an_identical_copy_is_stored_again(world):
    """The present content of its source does not matter."""
    tree = world.lock().skills["plain"].tree
    skill(world.base / "src", body="It is otherwise by now.\n")
    remove_tree(world.home.data)
    assert world.problems("plain") == ["missing"]
    assert world.sync().changed
    assert world.problems("plain") == []
    assert world.store.check(tree) == []
    assert not (world.base / "skillhub-edits").exists()


def test_an_edited_copy_is_not_stored_again(world):
    (world.copy("plain") / "SKILL.md").write_text("edited")
    shutil.rmtree(world.copy("plain", ".claude/skills"))
    skill(world.base / "src", body="It is otherwise by now.\n")
    remove_tree(world.home.data)
    assert world.problems("plain") == ["missing", "unknown", "unknown"]
    with pytest.raises(WrongBytes) as caught:
        world.sync()
    assert "skillhub update plain" in caught.value.hint


def test_a_copy_without_consent_is_not_stored_again(world):
    remove_tree(world.home.data)
    other = world.on_another_machine()
    skill(world.base / "src", body="It is otherwise by now.\n")
    with pytest.raises(WrongBytes):
        other.sync()
