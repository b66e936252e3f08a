"""Profiles: their content, the skills that they enable and disable, and that a change is all or nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from skillhub.command.ports import Options
from skillhub.errors import NotFound, Refused, StateError, UsageError
from skillhub.install.skill_sets import SkillProfiles, save_profile, saved_profiles, use_profile
from tests.support.killing import kill_everywhere
from tests.support.start import Start
from tests.support.world import Answers, World, refused

A, B, C = "code-review", "release-notes", "systematic-debugging"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A world with three skills: the profile ``two`` has the first two, ``last`` has the last."""
    world = World(tmp_path_factory.mktemp("profiles") / "machine")
    world.install(*(f"github:{each}" for each in (A, B, C)), agents=("claude-code",))
    world.disable(C)
    save_profile("two", world.ports())
    world.enable(C)
    world.disable(A, B)
    save_profile("last", world.ports())
    return Start(world.folder)


@pytest.fixture
def three(made):
    return World(made.restore())


def enabled(world):
    return sorted(each.name for each in world.copy("").iterdir())


def use(world, name, answers=None, **options):
    return use_profile(name, Options(**options), world.ports(answers))


def test_a_profile_enables_its_skills_and_disables_all_others(three):
    used = use(three, "two", Answers())
    assert (enabled(three), used.disabled, used.changed) == ([A, B], {C}, True)
    assert [(each.name, each.state) for each in used.skills] == [(A, "enabled"), (B, "enabled"), (C, "disabled")]
    assert three.problems() == []
    three.install(answers=Answers())
    assert enabled(three) == [A, B]  # a skill that the profile disabled stays disabled
    again = use(three, "two", Answers())
    assert (again.disabled, again.changed) == (set(), False)
    assert [(each.name, each.in_use) for each in saved_profiles(three.ports())] == [("last", False), ("two", True)]


def test_a_profile_is_stored_for_a_user_and_project_and_not_in_the_lock(three):
    before = {path: path.read_bytes() for path in (three.base / "skillhub.lock", three.base / "skillhub.toml")}
    use(three, "two")
    assert before == {path: path.read_bytes() for path in before}
    users = three.project.users(str(three.user_home))
    assert SkillProfiles(users).all() == {}
    assert SkillProfiles(three.project).all() == {"last": (C,), "two": (A, B)}


def test_a_skill_of_a_profile_that_is_not_installed_is_named(three):
    three.remove(B)
    used = use(three, "two")
    assert enabled(three) == [A]
    assert [(each.name, each.code) for each in used.left_out] == [(B, "not-installed")]
    assert saved_profiles(three.ports())[1].missing == (B,)
    refused(three, NotFound, lambda: use(three, "tow"))


def test_a_profile_asks_about_edits_and_a_no_changes_nothing(three):
    copy = three.copy(C) / "SKILL.md"
    copy.write_text(copy.read_text() + "Mine.\n")
    answers = Answers("no")
    refused(three, Refused, lambda: use(three, "two", answers))
    assert [(each.kind, each.skill) for each in answers.seen] == [("local-edit", C)]
    use(three, "two", Answers("save"))
    assert (enabled(three), os.listdir(three.base / "skillhub-edits")) == ([A, B], [f"{C}-1.patch"])


def test_a_dry_run_of_a_profile_changes_nothing(three):
    before = three.snapshot()
    use(three, "two", dry_run=True)
    save_profile("other", three.ports(), dry_run=True)
    assert {path: each[1] for path, each in before.items()} == {
        path: each[1] for path, each in three.snapshot().items()
    }


@pytest.mark.parametrize("name", ["", "../x", "Two", "a b", "a" * 65, "\x1b[2J", "-g"])
def test_attack_a_hostile_profile_name_is_refused(three, name):
    refused(three, UsageError, lambda: save_profile(name, three.ports()))
    refused(three, NotFound, lambda: use(three, name))


@pytest.mark.parametrize(
    "profiles",
    [
        b"",
        b"[]",
        b'{"version": 2, "profiles": []}',
        b'{"version": 1, "profiles": [{"key": "k", "project": "/", "name": "../x", "skills": []}]}',
        b'{"version": 1, "profiles": [{"key": "k", "project": "/", "name": "x", "skills": ["../../etc"]}]}',
        b'{"version": 1, "profiles": [{"key": "k", "project": "/", "name": "x", "skills": "all"}]}',
        b'{"version": 1, "profiles": [{"key": "k", "project": "/", "name": "x", "skills": [], "agree": true}]}',
        b'{"version": 1, "profiles": [], "profiles": []}',
    ],
)
def test_attack_a_forged_file_of_profiles_is_refused(three, profiles):
    Path(three.home.state, "profiles.json").write_bytes(profiles)
    error = refused(three, StateError, lambda: use(three, "two"))
    assert "profiles.json" in error.where


def test_attack_a_forged_profile_enables_no_skill_without_consent(three):
    """A profile names skills and contains no consent."""
    path = Path(three.home.state, "projects", f"{three.project.key}.json")
    document = json.loads(path.read_bytes())
    del document["skills"][A]
    path.write_text(json.dumps(document))
    answers = Answers("no")
    refused(three, Refused, lambda: use(three, "two", answers))
    assert ("install", A) in [(each.kind, each.skill) for each in answers.seen]


def test_attack_a_change_by_another_process_during_a_question_stops_the_profile(three):
    copy = three.copy(C) / "SKILL.md"
    copy.write_text(copy.read_text() + "Mine.\n")
    answers = Answers("save")
    answers.meanwhile = lambda: three.remove(A, answers=Answers("yes"))
    with pytest.raises(StateError, match="another process"):
        use(three, "two", answers)
    assert enabled(three) == [C]


def test_attack_a_killed_profile_change_is_repaired_by_sync(three):
    """After a kill before one of its steps, ``sync`` gives the state before or after the change."""
    healed = set()

    def look(kill, done):
        if not done:
            three.sync()
            assert three.problems() == []
            healed.add(tuple(enabled(three)))

    assert kill_everywhere(str(three.folder), lambda: use(three, "two"), look) > 3
    assert healed == {(C,), (A, B)}
    assert enabled(three) == [A, B]
