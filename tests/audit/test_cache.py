"""The cache drops unneeded entries and keeps needed ones, in spite of other processes."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from skillhub.audit import cache
from skillhub.audit.cache import known_projects
from skillhub.command.ports import Options
from skillhub.disk import files
from skillhub.errors import FormatError, Refused, StateError
from skillhub.install.install import install
from skillhub.model.reference import parse_ref
from skillhub.model.tree import File, Tree
from skillhub.project.project import Project
from tests.support.world import NOW, TOKEN, Answers, World, needs, refused, skill, unlocked

OLD = NOW.timestamp() - 40 * cache.DAY


def collect(world, answers=None, days=30, **more):
    return cache.collect(world.home, days, world.ports(answers), **more)


def stored(world):
    return set(world.store.trees())


def old(path, data=b"x", when=OLD):
    """Write an old file, or an old folder if there is no data."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir() if data is None else path.write_bytes(data)
    os.utime(path, (when, when))
    return path


def test_gc_keeps_trees_of_a_project_and_removes_the_others(world):
    world.install(str(skill(world.base / "src", "kept")), str(skill(world.base / "src", "gone")))
    tree = world.lock().skills["gone"].tree
    world.remove("gone")
    found = collect(world)
    assert [(each.kind, each.name, each.tree) for each in found.waste] == [("tree", "gone", tree)]
    assert found.size > 0
    assert stored(world) == {world.lock().skills["kept"].tree}
    assert not list(Path(world.store.root).rglob("*.tmp*"))
    assert world.problems() == []
    assert collect(world, Answers()).waste == ()  # nothing is asked where nothing is to go


def test_gc_keeps_disabled_skills_and_those_of_other_projects_and_the_user(world):
    world.install(str(skill(world.base / "src", "mine")))
    world.disable("mine")
    other = World(world.folder / "other", home="../home")
    other.install(str(skill(other.base / "src", "theirs")))
    users = Project.of_user(str(world.user_home), world.home)
    ref = parse_ref(str(skill(world.folder / "src", "everywhere")))
    install([ref], Options(), replace(world.ports(), project=users))
    assert len(stored(world)) == 3
    assert collect(world).waste == ()
    assert len(stored(world)) == 3


def test_gc_keeps_trees_that_sync_stored_for_a_clone_without_consent(world):
    world.install(str(skill(world.base / "src", "locked")))
    other = world.on_another_machine()
    other.sync()
    assert collect(other).waste == ()
    assert stored(other) == stored(world)


def test_without_consent_gc_removes_nothing(world):
    world.install(str(skill(world.base / "src")))
    world.remove("plain")
    old(Path(world.home.cache) / "http/ab/cd")
    refused(world, Refused, lambda: collect(world, Answers()))
    refused(world, Refused, lambda: collect(world, Answers("no")))


def test_a_dry_run_of_gc_lists_and_removes_nothing(world):
    world.install(str(skill(world.base / "src")))
    world.remove("plain")
    old(Path(world.home.cache) / "http/ab/cd")
    before = unlocked(world.snapshot())
    answers = Answers()
    assert [each.kind for each in collect(world, answers, dry_run=True).waste] == ["tree", "download"]
    assert answers.seen == []
    assert unlocked(world.snapshot()) == before


def test_a_project_is_forgotten_only_if_its_folder_is_gone(world):
    world.install(str(skill(world.folder / "src")))
    (world.base / "skillhub.lock").rename(world.folder / "kept.lock")
    assert collect(world).waste == ()  # the copies still need the tree
    world.base.rename(world.folder / "moved")
    answers = Answers("yes")
    found = collect(world, answers)
    assert (found.gone, len(found.waste)) == ((str(world.base),), 1)
    assert answers.seen[0].details[-1] == f"{world.base} used some of these, and no longer exists"
    assert stored(world) == set()


def test_attack_a_project_whose_path_is_not_known_exactly_is_never_gone(world):
    """Bytes that are not UTF-8 became question marks in the record."""
    world.install(str(skill(world.folder / "src")))
    (record,) = (Path(world.home.state) / "projects").glob("*.json")
    record.write_text(record.read_text().replace(str(world.base), f"{world.base}?"))
    assert collect(world).waste == ()
    assert [each.gone for each in known_projects(world.home)] == [False]


@pytest.mark.parametrize("data", [b"", b"<<<<<<< ours\n", b"{}"])
def test_with_an_unreadable_lock_gc_removes_nothing(world, data):
    world.install(str(skill(world.base / "src")))
    world.remove("plain")
    (world.base / "skillhub.lock").write_bytes(data)
    error = refused(world, FormatError, lambda: collect(world))
    if b"<" in data:  # the project may be another than that of the command
        assert error.hint.startswith(f"skillhub lock fix --project {world.base} ")


def test_attack_state_with_an_invalid_project_path_stops_gc(world):
    world.install(str(skill(world.base / "src")))
    world.remove("plain")
    old(Path(world.home.state) / "projects" / "0.json", b'{"agents":[],"project":"../x","skills":{},"version":1}')
    refused(world, FormatError, lambda: collect(world))


def test_gc_waits_for_a_project_in_use(world):
    world.install(str(skill(world.base / "src")))
    world.remove("plain")
    tree = stored(world)
    with world.project.exclusively(), pytest.raises(StateError):
        list(known_projects(world.home, patience=0.05))
    assert stored(world) == tree


def test_a_skill_installed_again_during_the_question_is_kept(world):
    folder = skill(world.base / "src")
    world.install(str(folder))
    world.remove("plain")
    answers = Answers("yes")
    answers.meanwhile = lambda: World(world.folder).install(str(folder))
    assert collect(world, answers).waste == ()
    assert stored(world) == {world.lock().skills["plain"].tree}
    assert world.problems() == []


def test_a_tree_removed_during_a_question_of_enable_is_stored_again(world):
    world.install(str(skill(world.base / "src", agents__openai_yaml=needs(TOKEN))))
    answers = Answers("yes")
    answers.values["TRACKER_TOKEN"] = "x"
    answers.meanwhile = lambda: [world.store.discard(world.store.set_aside(tree)) for tree in stored(world)]
    assert world.enable("plain", answers=answers).skills[0].state == "enabled"
    assert world.problems() == []


def test_trees_set_aside_are_restored_if_a_lock_becomes_unreadable(world):
    folder = skill(world.base / "src")
    world.install(str(folder))
    world.remove("plain")
    answers = Answers("yes")
    answers.meanwhile = lambda: (world.base / "skillhub.lock").write_bytes(b"")
    tree = stored(world)
    with pytest.raises(FormatError):
        collect(world, answers)
    assert stored(world) == tree
    assert world.store.check(*tree) == []


def test_temporary_files_of_killed_processes_are_removed_after_a_day(world):
    one = "0" * 64
    shelf = Path(world.store.root) / "00"
    places = [
        old(shelf / f"{one}.0123abcd.tmp" / "SKILL.md").parent,
        old(shelf / f"{one}.0123abcd.tmp.listing"),
        old(Path(world.home.cache) / "http/ab/.skillhub-0123456789abcdef.tmp"),
        old(Path(world.home.state) / ".skillhub-0123456789abcdef.tmp"),
        old(Path(world.home.cache) / "git" / f"{'1' * 32}.0123abcd.gone" / "HEAD").parent,
    ]
    for place in places:
        os.utime(place, (OLD, OLD))
    young = old(Path(world.home.state) / ".skillhub-fedcba9876543210.tmp", when=NOW.timestamp() - 60)
    found = collect(world, Answers(), days=100)
    assert {each.path for each in found.waste} == set(map(str, places))
    assert not any(place.exists() for place in places)
    assert young.exists()


def test_old_downloads_and_repositories_are_removed_and_locks_stay(world):
    top = Path(world.home.cache)
    repository = top / "git" / ("1" * 32)
    gone = [old(top / "http/ab/cd"), old(repository / "HEAD"), old(top / "search/x.db")]
    (repository / "objects/pack").mkdir(parents=True)
    for each in (repository / "objects/pack", repository / "objects", repository):
        os.utime(each, (OLD, OLD))
    fresh = old(top / "git" / ("2" * 32) / "HEAD", when=NOW.timestamp())
    kept = [fresh, old(top / "http/ab/ef", when=NOW.timestamp() - cache.DAY), old(top / "git" / f"{'1' * 32}.lock")]
    found = collect(world, Answers())
    assert sorted((each.kind, os.path.relpath(each.path, top)) for each in found.waste) == [
        ("download", "http/ab/cd"),
        ("download", "search/x.db"),
        ("repository", f"git/{'1' * 32}"),
    ]
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in kept)


def test_the_memory_of_commands_that_nobody_repeats_is_removed(world):
    """There is a file for each working folder and command line."""
    top = Path(world.home.state) / "proved"
    gone = [old(top / "idle-0.json"), old(top / "0123.json")]
    kept = old(top / "idle-1.json", when=NOW.timestamp() - cache.DAY)
    found = collect(world, Answers())
    assert sorted((each.kind, each.path) for each in found.waste) == sorted(("leftover", str(each)) for each in gone)
    assert kept.exists() and not any(path.exists() for path in gone)


def test_a_repository_in_use_is_kept(world):
    repository = Path(world.home.cache) / "git" / ("1" * 32)
    old(repository / "HEAD")
    os.utime(repository, (OLD, OLD))
    with files.lock(f"{repository}.lock"):
        assert collect(world).waste == ()
    assert (repository / "HEAD").exists()
    assert [each.kind for each in collect(world).waste] == ["repository"]


def test_attack_links_in_the_cache_are_not_followed(world):
    precious = old(world.folder / "precious" / "file")
    top = Path(world.home.cache)
    top.mkdir(parents=True)
    (top / "http").symlink_to(precious.parent)
    (top / "git").mkdir()
    (top / "git" / ("1" * 32)).symlink_to(precious.parent)
    (Path(world.home.data) / "store").mkdir(parents=True)
    (precious.parent / ("0" * 64)).mkdir()
    (Path(world.home.data) / "store" / "00").symlink_to(precious.parent)
    for each in ("http", "git/" + "1" * 32):
        os.utime(top / each, (OLD, OLD), follow_symlinks=False)
    collect(world, days=0)
    assert precious.read_bytes() == b"x"
    assert (precious.parent / ("0" * 64)).exists()


def test_attack_a_file_of_a_skill_named_like_a_temporary_file_is_kept(world):
    name = ".skillhub-0123456789abcdef.tmp"
    folder = skill(world.base / "src")
    (folder / name).write_text("mine")
    world.install(str(folder))
    place = Path(world.store.path(world.lock().skills["plain"].tree)) / name
    os.utime(place, (OLD, OLD))
    assert collect(world).waste == ()
    assert place.exists()


def test_an_incomplete_tree_is_removed_without_a_name(world):
    world.install(str(skill(world.base / "src")))
    world.remove("plain")
    place = Path(world.store.path(*stored(world)))
    place.chmod(0o755)
    (place / "SKILL.md").unlink()
    assert [each.name for each in collect(world).waste] == [None]
    assert stored(world) == set()


def test_places_are_counted_with_files_and_sizes(world):
    old(Path(world.home.cache) / "http/ab/cd", b"12345")
    old(Path(world.home.cache) / "search/x.db", b"12")
    world.store.put(Tree({"SKILL.md": File(b"x\n", executable=False)}))
    found = {each.name: (each.files, each.size) for each in cache.places(world.home, world.store)}
    assert found == {"store": (2, 2 + 77), "downloads": (1, 5), "git": (0, 0), "search": (1, 2)}


def test_other_files_in_the_store_are_no_trees(world):
    top = Path(world.home.data) / "store"
    old(top / "00" / ("0" * 64))  # a file
    old(top / "ff" / ("0" * 64) / "SKILL.md")  # in the wrong folder
    old(top / "00" / "notes" / "x")
    assert stored(world) == set()
    shutil.rmtree(top)
    assert stored(world) == set()
