"""A skill that is not enabled is in no agent's folder, whatever put or kept a copy there."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from skillhub.audit.verify import verify
from skillhub.command.ports import Options
from skillhub.disk.folders import remove_tree
from skillhub.errors import NotFound, Refused, StateError
from skillhub.install.install import install
from skillhub.install.obtain import obtain_locked
from skillhub.install.sync import sync
from skillhub.model.lock import Lock
from skillhub.model.reference import parse_ref
from skillhub.project.copies import unmanaged
from skillhub.project.project import Project
from tests.support.world import TOKEN, Answers, World, needs, plain, skill, unlocked

PLACES = (".agents/skills", ".claude/skills")


@pytest.fixture
def waiting(world):
    """A world with a disabled skill, and a copy of the skill in another folder."""
    world.install(plain(world))
    shutil.copytree(world.copy("plain"), world.folder / "kept")
    world.disable("plain")
    return world


def put(world, place=PLACES[0]):
    return shutil.copytree(world.folder / "kept", world.copy("plain", place))


@pytest.mark.parametrize("place", PLACES)
def test_a_copy_of_a_disabled_skill_is_reported_and_removed(waiting, place):
    put(waiting, place)
    assert waiting.problems() == ["not-enabled"]
    outcome = waiting.sync(Answers())
    assert (outcome.changed, outcome.left_out, outcome.unchanged) == (True, (), frozenset())
    assert not waiting.copy("plain", place).exists()
    assert waiting.problems() == []
    assert not waiting.sync(Answers()).changed
    assert waiting.enable("plain").skills[0].state == "enabled"


def test_a_copy_of_a_skill_with_an_open_need_is_removed(world):
    world.install(str(skill(world.base / "src", agents__openai_yaml=needs(TOKEN))))
    stored = world.store.path(world.lock().skills["plain"].tree)
    shutil.copytree(stored, world.copy("plain"))
    world.copy("plain").chmod(0o755)
    assert world.problems() == ["not-enabled"]
    world.sync(Answers())
    assert not world.copy("plain").exists()
    assert world.problems() == []


def test_a_copy_of_a_skill_without_consent_is_removed(waiting):
    put(waiting)
    other = waiting.on_another_machine()
    assert other.sync(Answers()).changed  # its store was empty before
    assert not other.copy("plain").exists()
    assert other.problems() == []


def test_a_link_to_a_disabled_skill_is_removed_and_its_target_stays(waiting):
    place = waiting.copy("plain")
    place.symlink_to(waiting.folder / "kept")
    assert waiting.problems() == ["not-enabled"]
    waiting.sync(Answers())
    assert not place.is_symlink()
    assert (waiting.folder / "kept/SKILL.md").exists()


def test_an_edited_copy_is_saved_with_consent_before_removal(waiting):
    (put(waiting) / "SKILL.md").write_text("by hand\n")
    assert waiting.problems() == ["not-enabled"]
    before = unlocked(waiting.snapshot())
    with pytest.raises(Refused, match="the copy will be deleted"):
        waiting.sync(Answers())
    assert unlocked(waiting.snapshot()) == before
    assert waiting.sync(Answers("yes")).changed
    assert not waiting.copy("plain").exists()
    assert "+by hand" in (waiting.base / "skillhub-edits/plain-1.patch").read_text()
    assert waiting.problems() == []


def _older(world):
    """The lock has a newer version; the version of this machine is in the agent's folder again."""
    plain(world, notes_md="A newer version.\n")
    world.on_another_machine().update("plain", enable=False)
    put(world)


COPIES = {
    "equal": put,
    "edited": lambda world: (put(world) / "SKILL.md").write_text("by hand\n"),
    "edited, in an agent's own folder": lambda world: (put(world, PLACES[1]) / "SKILL.md").write_text("by hand\n"),
    "a file more": lambda world: (put(world) / "more").touch(),
    "a file less": lambda world: (put(world) / "notes.md").unlink(),
    "executable": lambda world: (put(world) / "SKILL.md").chmod(0o755),
    "another skill": lambda world: skill(world.base / PLACES[0], body="Obey.\n"),
    "an older version": _older,
    "a link": lambda world: world.copy("plain").symlink_to(world.folder / "kept"),
    "a link to an edited one": lambda world: (
        (world.folder / "kept/SKILL.md").write_text("by hand\n"),
        world.copy("plain").symlink_to(world.folder / "kept"),
    ),
    "in the folder of another agent": lambda world: (put(world, ".windsurf/skills") / "SKILL.md").write_text("x\n"),
    "in two folders": lambda world: [(put(world, each) / "SKILL.md").write_text("x\n") for each in PLACES],
}


@pytest.mark.parametrize("how", COPIES)
def test_verify_reports_a_copy_of_a_disabled_skill_as_sync_treats_it(world, how):
    world.install(plain(world, notes_md="Notes.\n"), agents=("claude-code",))
    shutil.copytree(world.copy("plain"), world.folder / "kept")
    world.disable("plain")
    COPIES[how](world)
    (found,) = verify((), world.ports())
    reported = {
        problem.path: problem.code for problem in found.problems if problem.code in ("not-enabled", "other-skill")
    }
    assert reported
    world.sync(Answers("yes"))
    for path, code in reported.items():
        assert (code == "other-skill") == os.path.lexists(path), (path, code)


def test_verify_reports_a_copy_while_the_chosen_agents_are_unreadable(waiting):
    (put(waiting) / "SKILL.md").write_text("by hand\n")
    (waiting.base / "skillhub.toml").write_text("[install]\nagents = ['none-such']\n")
    assert waiting.problems() == ["other-skill"]
    (waiting.base / "skillhub.toml").write_text("[skills")
    assert waiting.problems() == ["not-enabled"]


@pytest.mark.parametrize("how", ["no consent", "enabled elsewhere", "a link"])
def test_a_copy_that_skillhub_did_not_make_stays_and_is_reported(waiting, how):
    world = waiting
    (world.folder / "kept/SKILL.md").write_text("---\nname: plain\ndescription: Another.\n---\n")
    if how == "enabled elsewhere":
        world.enable("plain")
    place = world.copy("plain", PLACES[1])
    if how == "a link":
        place.parent.mkdir(parents=True)
        place.symlink_to(world.folder / "kept")
    else:
        put(world, PLACES[1])
    if how == "no consent":
        world = world.on_another_machine()
    for _ in range(2):
        outcome = world.sync(Answers())
        assert [(each.name, each.code) for each in outcome.left_out] == [("plain", "other-skill")]
        assert str(place) in outcome.left_out[0].message
        assert (place / "SKILL.md").exists()
        assert world.problems() == ["other-skill"]


@pytest.mark.parametrize(("real", "link"), [PLACES, PLACES[::-1]])
def test_two_agents_folders_with_one_target_are_one_place(world, real, link):
    (world.base / real).mkdir(parents=True)
    (world.base / link).parent.mkdir()
    (world.base / link).symlink_to(f"../{real}")
    world.install(plain(world))
    (world.copy("plain") / "SKILL.md").write_text("by hand\n")
    assert world.problems() == ["changed-file"]
    assert world.sync(Answers("yes")).left_out == ()


def test_the_source_folder_of_a_local_skill_stays(world):
    path = skill(world.base / ".claude/skills")
    world.install(str(path), agents=("codex",))
    world.disable("plain")
    assert world.problems() == []
    assert world.sync(Answers()).left_out == ()
    assert (path / "SKILL.md").exists()


@pytest.mark.parametrize("led", ["", ".claude/skills", ".agents/skills"])
def test_the_folder_of_an_author_is_no_copy_even_if_an_agent_reads_it(waiting, led):
    own = put(waiting, "skills")
    if led:
        (waiting.base / led).parent.mkdir(exist_ok=True)
        shutil.rmtree(waiting.base / led, ignore_errors=True)
        (waiting.base / led).symlink_to("../skills")
    for world in (waiting, waiting.on_another_machine()):
        assert world.sync(Answers("yes")).left_out == ()
        assert (own / "SKILL.md").exists()
        assert world.problems() == []


@pytest.mark.parametrize("edited", [False, True])
def test_attack_sync_removes_nothing_behind_a_link_out_of_the_project(waiting, edited):
    """An attacker who writes the lock chooses the tree, for example that of a skill in another folder."""
    own = Path(shutil.copytree(waiting.folder / "kept", waiting.user_home / ".claude/skills/plain"))
    if edited:
        (own / "SKILL.md").write_text("by hand\n")
    (waiting.base / ".claude").mkdir()
    (waiting.base / ".claude/skills").symlink_to(own.parent)
    before = sorted(own.iterdir())
    for world in (waiting, waiting.on_another_machine()):
        outcome = world.sync(Answers("yes"))
        assert [(each.name, each.code) for each in outcome.left_out] == [("plain", "other-skill")]
        assert world.problems() == ["other-skill"]
        assert sorted(own.iterdir()) == before


def test_a_copy_behind_links_inside_the_home_is_removed(world):
    (world.user_home / "dotfiles/skills").mkdir(parents=True)
    (world.user_home / ".claude").mkdir()
    (world.user_home / ".claude/skills").symlink_to("../dotfiles/skills")
    ports = replace(world.ports(), project=Project.of_user(str(world.user_home), world.home))
    install([parse_ref(plain(world))], Options(enable=False), ports)
    copy = shutil.copytree(world.base / "src/plain", world.user_home / "dotfiles/skills/plain")
    sync(partial(obtain_locked, ports=ports), ports)
    assert not copy.exists()


@pytest.mark.parametrize("held", ["never enabled", "other agents", "never agreed to"])
def test_a_users_skill_in_a_folder_that_skillhub_did_not_use_stays(world, held):
    world.install(plain(world), enable=held != "never enabled", agents=("codex",))
    if held != "never enabled":
        world.disable("plain")
    if held == "never agreed to":
        world = world.on_another_machine()
        world.disable("plain")
    own = skill(world.base / PLACES[held == "other agents"], body="My own.\n")
    outcome = world.sync(Answers("yes"))
    assert [each.code for each in outcome.left_out] == ["other-skill"]
    assert (own / "SKILL.md").read_text().endswith("My own.\n")


def test_a_copy_of_another_version_in_the_store_is_not_the_locked_one(waiting):
    other = skill(waiting.folder / "elsewhere", body="Another version.\n")
    second = World(waiting.folder / "second")
    second.store = waiting.store
    second.install(str(other))
    own = shutil.copytree(other, waiting.copy("plain", PLACES[1]))
    with pytest.raises(Refused, match="the copy will be deleted"):
        waiting.sync(Answers())
    assert (own / "SKILL.md").exists()


def test_the_last_copy_of_a_lost_version_is_asked_about(waiting):
    """The store lost it, and the lock has another version: no command could restore it."""
    own = put(waiting)
    plain(waiting, notes_md="A newer version.\n")
    waiting.on_another_machine().update("plain", enable=False)
    remove_tree(waiting.store.root)
    with pytest.raises(Refused, match="the copy will be deleted"):
        waiting.sync(Answers())
    assert (own / "SKILL.md").exists()


def test_a_copy_that_contains_the_source_of_another_skill_stays(waiting):
    own = put(waiting)
    inner = skill(own, "inner")
    waiting.install(str(inner), agents=("codex",))
    shutil.copytree(own, waiting.folder / "as it was")
    waiting.sync(Answers("yes"))
    assert (inner / "SKILL.md").exists()


@pytest.mark.parametrize("verb", ["disable", "remove", "sync"])
def test_an_edit_made_during_a_question_is_not_lost(world, verb):
    world.install(plain(world), str(skill(world.base / "src", "other")))
    shutil.copytree(world.copy("plain"), world.folder / "kept")
    if verb == "sync":
        shutil.copytree(world.copy("other"), world.folder / "kept other")
        world.disable("plain", "other")
        put(world)
        shutil.copytree(world.folder / "kept other", world.copy("other"))
    (world.copy("other") / "SKILL.md").write_text("so that something is asked\n")
    answers = Answers("yes")
    answers.meanwhile = lambda: (world.copy("plain") / "notes.md").write_text("precious\n")
    act = getattr(world, verb)
    with pytest.raises(StateError, match="edited again meanwhile"):
        act(*([] if verb == "sync" else ["plain", "other"]), answers=answers)
    assert (world.copy("plain") / "notes.md").exists()
    world.sync(Answers("yes"))
    assert "+precious" in (world.base / "skillhub-edits/plain-1.patch").read_text()


@pytest.mark.parametrize("verb", ["disable", "remove", "sync", "update"])
def test_an_edit_made_during_the_question_is_not_thrown_away_with_those_that_it_shows(world, verb):
    world.install(plain(world))
    file = world.copy("plain") / "SKILL.md"
    file.write_text("of no worth\n")
    if verb == "update":
        plain(world, notes_md="A newer version.\n")
    answers = Answers("yes", local_edit="take")
    answers.meanwhile = lambda: file.write_text("precious\n")
    act = getattr(world, verb)
    with pytest.raises(StateError, match="edited again meanwhile"):
        act(*([] if verb in ("sync", "update") else ["plain"]), answers=answers)
    assert file.read_text() == "precious\n"
    act(*([] if verb in ("sync", "update") else ["plain"]), answers=Answers("yes", local_edit="take"))
    assert not file.exists() or "precious" not in file.read_text()


@pytest.mark.parametrize(("enable", "newer"), [(False, {}), (True, {"agents__openai_yaml": needs(TOKEN)})])
def test_an_edit_made_during_the_question_of_a_disabled_update_is_not_lost(world, enable, newer):
    world.install(plain(world))
    plain(world, notes_md="A newer version.\n", **newer)
    answers = Answers("yes", env="unanswered")
    answers.meanwhile = lambda: (world.copy("plain") / "mine.md").write_text("precious\n")
    with pytest.raises(StateError, match="edited again meanwhile"):
        world.update(answers=answers, enable=enable)
    assert (world.copy("plain") / "mine.md").exists()
    world.sync(Answers("yes"))
    assert "+precious" in (world.base / "skillhub-edits/plain-1.patch").read_text()


@pytest.mark.parametrize("verb", ["disable", "remove"])
def test_a_copy_that_could_not_be_removed_is_reported_until_its_removal(world, monkeypatch, verb):
    world.install("github:code-review", plain(world))
    place, rename = world.copy("plain"), os.rename

    def failing(source, target, **folders):
        if os.path.basename(source) == "plain":
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target, **folders)

    with monkeypatch.context() as disk:
        disk.setattr(os, "rename", failing)
        with pytest.raises(StateError):
            getattr(world, verb)("plain")
    look(world, ["not-enabled"], [str(place)])
    world.sync()
    assert not place.exists()
    look(world, [], [])
    assert world.copy("code-review").exists()


def look(world, problems, loose):
    assert world.problems() == problems
    if problems:
        assert world.problems("plain") == problems
    assert list(unmanaged(world.project, str(world.user_home), world.environ)) == loose


def test_verify_takes_the_name_of_a_skill_that_left_the_lock(world):
    world.install("github:code-review", plain(world))
    with pytest.raises(NotFound):
        world.problems("else")
    (world.base / "skillhub.lock").write_text('{"skills": {}, "sources": {}, "version": 1}\n')
    assert world.problems() == ["not-enabled", "not-enabled"]
    assert world.problems("plain") == ["not-enabled"]
    (world.base / "skillhub.lock").unlink()
    assert world.problems() == []


def test_install_names_a_skill_that_left_the_lock_until_sync_removes_it(world):
    world.install("github:code-review", plain(world))
    assert world.install().warnings == ()
    lock = world.lock()
    (world.base / "skillhub.lock").write_bytes(
        replace(lock, skills={"code-review": lock.skills["code-review"]}).dump()
    )
    (world.base / "skillhub.toml").write_text('[skills]\ncode-review = { source = "github", version = "^1.0.0" }\n')
    line = "plain left the lock, and agents still read it: skillhub sync removes it"
    assert world.install().warnings == (line,)
    world.sync()
    assert world.install().warnings == ()


def test_install_of_one_skill_names_the_others_of_a_lock_and_an_intent_that_are_gone(world):
    world.install("github:code-review", plain(world))
    for name in ("skillhub.lock", "skillhub.toml"):
        (world.base / name).unlink()
    line = "plain left the lock, and agents still read it: skillhub sync removes it"
    assert world.install("github:code-review").warnings == (line,)


def test_the_path_of_a_skill_in_its_repository_is_no_source_folder_here(world):
    world.install(plain(world))
    loose = skill(world.base / PLACES[1], "other")
    entry = world.lock().skills["plain"]
    there = replace(
        entry, source="github:acme/x", git="https://github.com/acme/x.git", rev="0" * 40, path=f"{PLACES[1]}/other"
    )
    (world.base / "skillhub.lock").write_bytes(Lock({"plain": there}, {}).dump())
    found = list(unmanaged(world.project, str(world.user_home), world.environ))
    assert found == [str(loose)]
