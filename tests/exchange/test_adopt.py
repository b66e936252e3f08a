"""``adopt`` is killed, and meets a full disk, at its steps; no file of the user is lost."""

import os
import shutil

import pytest

from skillhub.command.ports import Options
from skillhub.disk.folders import list_folder
from skillhub.errors import FormatError, KnownBad, StateError
from skillhub.exchange.adopt import adopt
from tests.install.test_faults import Case, left_over, look
from tests.install.test_known_bad import publish_advisories
from tests.model.test_advisory import osv, package
from tests.support.faults import kill, no_space, sample
from tests.support.world import Answers, World, skill

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the fault is put into a forked child")


def prepare(world):
    skill(world.base / ".agents/skills", "loose", **{"scripts/run.sh": "#!/bin/sh\n"})
    (world.base / ".claude/skills").mkdir(parents=True)
    (world.base / ".claude/skills/loose").symlink_to("../../.agents/skills/loose")


def act(world):
    adopt([], "skills", Options(), world.ports())


@pytest.mark.parametrize("happen", [kill, no_space], ids=["killed", "full"])
def test_an_interruption_at_any_step_loses_nothing_and_can_be_completed(tmp_path, happen):
    case = Case(tmp_path, prepare, act)
    world = case.world
    assert set(case.after.folders) == {".agents/skills/loose", ".claude/skills/loose"}
    mine = case.before.folders[".agents/skills/loose"]
    for at in case.interruptions({happen: sample(case.kinds, happen, "adopt")}):
        assert list_folder(str(world.copy("loose"))).digest == mine, at
        if (world.base / "skills/loose").exists():
            assert list_folder(str(world.base / "skills/loose")).digest == mine, at
        if "loose" not in world.lock().skills and "loose" not in world.project.intent().skills:
            act(world)
        world.sync()
        world.install()
        assert look(world).folders == case.after.folders, at
        assert look(world).documents == case.after.documents, at
        assert left_over(world) == [], at
        assert world.problems() == [], at


def test_attack_a_copy_that_was_edited_during_the_question_is_not_adopted(tmp_path):
    world = World(tmp_path)
    folder = skill(world.base / ".agents/skills", "loose")
    answers = Answers("yes")
    answers.meanwhile = lambda: (folder / "more.md").write_text("Not what was agreed to.\n")
    before = world.lock()
    with pytest.raises(StateError, match="edited meanwhile"):
        adopt([], "skills", Options(), world.ports(answers))
    assert world.lock() == before
    assert not (world.base / "skills").exists()


@pytest.mark.parametrize("path", ["skills/loose/more.md", "skillhub.lock"])
def test_attack_a_file_that_appears_during_the_question_removes_no_link_of_the_user(tmp_path, path):
    world = World(tmp_path)
    prepare(world)
    answers = Answers("yes")

    def appear():
        (world.base / path).parent.mkdir(parents=True, exist_ok=True)
        (world.base / path).write_text("{")

    answers.meanwhile = appear
    with pytest.raises((StateError, FormatError)):
        adopt([], "skills", Options(), world.ports(answers))
    assert (world.base / ".claude/skills/loose").is_symlink()
    assert not (world.base / "skills/loose/SKILL.md").exists()


@pytest.fixture
def taken_along(scene):
    """The scene with the files of ``acme:other`` in an agent's folder, in no lock."""
    scene.publish("other")
    scene.machine.install("acme:other")
    kept = scene.machine.folder / "kept"
    shutil.copytree(scene.machine.copy("other"), kept)
    scene.machine.remove("other")
    shutil.copytree(kept, scene.machine.copy("other"))
    return scene


def test_attack_a_known_bad_release_in_an_agents_folder_is_not_adopted_as_a_local_skill(taken_along):
    world = taken_along.machine
    advisory = osv([package(name="other", versions=["1.0.0"])], database_specific={"severity": "CRITICAL"})
    publish_advisories(taken_along, advisory)
    with pytest.raises(KnownBad, match=r"other .* is known to be bad"):
        adopt(["other"], "skills", Options(), world.ports())
    assert ("other" in world.lock().skills, (world.base / "skills").exists()) == (False, False)


def test_attack_a_line_of_the_intent_is_not_replaced_unsaid(taken_along):
    world = taken_along.machine
    file = world.base / "skillhub.toml"
    file.write_text(file.read_text() + 'other = { git = "https://git.example/other" }\n')
    adopt(["other"], "skills", Options(), world.ports(answers := Answers("yes")))
    assert "note: skillhub.toml has a line for it, which will be replaced" in answers.seen[-1].details
    assert world.project.intent().skills["other"].source == "acme"
