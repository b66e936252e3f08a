"""Skills that ``skillhub.toml`` no longer requires are removed: their line or their dependent is gone."""

import json

import pytest

from skillhub.errors import FormatError, StateError, WrongBytes
from skillhub.install import apply
from skillhub.install.apply import remove
from tests.support.registry import Simulator
from tests.support.world import Answers, World, skill


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    simulator = Simulator(tmp_path_factory.mktemp("shelf"))
    for name, version, needs in [
        ("base", "1.0.0", ""),
        ("top", "1.0.0", '  requires: "base"\n'),
        ("top", "2.0.0", ""),
        ("more", "1.0.0", ""),
        ("other", "1.0.0", ""),
        ("other", "2.0.0", '  requires: "more"\n'),
    ]:
        head = f'name: {name}\ndescription: Says hello.\nmetadata:\n  version: "{version}"\n{needs}'
        simulator.publish(name, version, **{"SKILL.md": f"---\n{head}---\n\n# {name}\n"})
    return simulator


@pytest.fixture
def world(tmp_path, shelf):
    world = World(tmp_path)
    world.add_source("acme", shelf)
    world.install("acme:top@1.0.0", str(skill(world.base / "src")))
    return world


def delete_line(world, name):
    path = world.base / "skillhub.toml"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith(f"{name} =")))


def test_a_line_deleted_by_hand_removes_the_skill(world):
    delete_line(world, "top")
    outcome = world.install()
    assert outcome.changed
    assert outcome.warnings == tuple(
        f"{name} was removed: skillhub.toml does not require it" for name in ("base", "top")
    )
    assert [*world.lock().skills] == ["plain"]
    assert not world.copy("top").exists()
    assert not world.copy("base").exists()
    assert world.problems() == []
    assert not world.install().changed


def test_a_deleted_last_line_is_a_removal(world):
    for name in ("top", "plain"):
        delete_line(world, name)
    world.install()
    assert world.lock().skills == {}


@pytest.mark.parametrize("name", ["top", "plain"])
def test_frozen_refuses_a_lock_that_differs_from_the_intent(world, name):
    delete_line(world, name)
    before = world.snapshot()
    with pytest.raises(FormatError) as caught:
        world.install(frozen=True)
    assert name in caught.value.message
    assert world.snapshot() == before
    world.install()
    world.install(frozen=True)


def test_a_dry_run_reports_the_removal_and_changes_nothing(world):
    delete_line(world, "top")
    before = world.snapshot()
    outcome = world.install(dry_run=True)
    assert "top would be removed: skillhub.toml does not require it" in outcome.warnings
    assert (outcome.changed, outcome.pending) == (False, True)
    assert world.snapshot() == before


@pytest.mark.parametrize("how", ["install", "update"])
def test_a_dependency_that_a_newer_version_does_not_need_is_removed(world, how):
    if how == "install":
        world.install("acme:top@2.0.0")
    else:
        path = world.base / "skillhub.toml"
        path.write_text(path.read_text().replace("1.0.0", "*"))
        world.update()
    assert {*world.lock().skills} == {"top", "plain"}
    world.install(frozen=True)


@pytest.mark.parametrize("text", ["", '[policy]\nfail-on = "high"\n', None])
def test_an_intent_without_skills_keeps_all_of_the_lock(world, text):
    path = world.base / "skillhub.toml"
    path.unlink()
    if text is not None:
        path.write_text(text)
    locked = {*world.lock().skills}
    assert not world.install().changed
    world.install(frozen=True)
    assert {*world.lock().skills} == locked == {"top", "base", "plain"}
    # A later install by name keeps the present skills, too.
    world.install("github:code-review")
    world.install()
    assert {*world.lock().skills} == {*locked, "code-review"}
    assert {*world.project.intent().skills} == {"top", "plain", "code-review"}


def test_an_edited_unwanted_skill_is_kept_until_an_answer(world):
    (world.copy("plain") / "SKILL.md").write_text("edited")
    delete_line(world, "plain")
    outcome = world.install(answers=Answers())
    assert [(left.name, left.code) for left in outcome.left_out] == [("plain", "refused")]
    assert (world.copy("plain") / "SKILL.md").read_text() == "edited"
    assert "plain" in world.lock().skills
    world.install(answers=Answers("yes"))
    assert "plain" not in world.lock().skills
    assert len([*(world.base / "skillhub-edits").iterdir()]) == 1


def test_a_skill_wanted_again_during_the_question_about_its_edits_stays(world):
    (world.copy("plain") / "SKILL.md").write_text("edited")
    intent = world.base / "skillhub.toml"
    text = intent.read_text()
    delete_line(world, "plain")

    class Slow(Answers):
        def answer(self, questions):
            intent.write_text(text)
            return super().answer(questions)

    with pytest.raises(StateError, match="plain is wanted again"):
        world.install(answers=Slow("yes"))
    assert intent.read_text() == text
    assert (world.copy("plain") / "SKILL.md").read_text() == "edited"
    assert "plain" in world.lock().skills


def test_a_simultaneous_removal_by_another_process_is_no_error(world, monkeypatch):
    delete_line(world, "plain")
    quicker = iter([lambda: world.install(), lambda: None])
    monkeypatch.setattr(apply, "remove", lambda *a, **k: (next(quicker)(), remove(*a, **k))[1])
    world.install()
    assert "plain" not in world.lock().skills
    assert not world.copy("plain").exists()


def test_a_removal_killed_after_the_intent_is_completed_by_install(world):
    class Cut(Exception):
        """Stands for a kill."""

    ports = world.ports(world.answers)

    def write_lock(data):
        raise Cut

    ports.project.write_lock = write_lock
    with pytest.raises(Cut):
        remove(("plain",), ports)
    assert "plain" in json.loads((world.base / "skillhub.lock").read_text())["skills"]
    (warning,) = world.sync().warnings
    assert warning == "the lock has plain, which skillhub.toml does not require: skillhub install removes it"
    world.install()
    assert "plain" not in world.lock().skills
    assert not world.copy("plain").exists()


def test_attack_a_skill_that_only_the_lock_names_is_removed(world):
    """install does not fetch a skill that only the lock names, and removes it from the lock."""
    document = json.loads((world.base / "skillhub.lock").read_text())
    document["skills"]["evil"] = {**document["skills"]["plain"], "path": "evil"}
    (world.base / "skillhub.lock").write_text(json.dumps(document))
    with pytest.raises(FormatError):
        world.install(frozen=True)
    world.install()
    assert "evil" not in world.lock().skills


def test_attack_a_lock_that_hides_a_dependency_does_not_remove_it(world):
    """Dependencies were read from the files at the time of consent: they stay, in every later install as well."""
    document = json.loads((world.base / "skillhub.lock").read_text())
    document["skills"]["top"]["requires"] = []
    (world.base / "skillhub.lock").write_text(json.dumps(document))
    for _ in range(2):
        outcome = world.install()
        assert outcome.warnings == ("top: the lock does not list these needs: skill:base",)
        assert not outcome.changed
    world.install("github:code-review")
    assert {"top", "base"} <= {*world.lock().skills}
    assert world.copy("base").exists()


def test_sync_leaves_to_install_a_skill_and_its_dependency_that_a_merge_lost_from_the_lock(world):
    document = json.loads((world.base / "skillhub.lock").read_text())
    for name in ("top", "base"):
        del document["skills"][name]
    (world.base / "skillhub.lock").write_text(json.dumps(document))
    outcome = world.sync()
    assert outcome.warnings == (
        "skillhub.lock does not name all skills of skillhub.toml, so these stay in the agents' folders: base, top",
        "skillhub.toml names top, and the lock does not: skillhub install",
    )
    assert all(world.copy(name).exists() for name in ("top", "base", "plain"))
    delete_line(world, "top")
    world.sync()
    assert not any(world.copy(name).exists() for name in ("top", "base"))
    assert world.copy("plain").exists()


def test_attack_a_dependency_cycle_in_the_lock_is_refused(world):
    (world.base / "skillhub.toml").unlink()
    document = json.loads((world.base / "skillhub.lock").read_text())
    document["skills"]["plain"]["requires"] = ["skill:top"]
    document["skills"]["top"]["requires"] = ["skill:base", "skill:plain"]
    (world.base / "skillhub.lock").write_text(json.dumps(document))
    locked = {*world.lock().skills}
    world.install("github:code-review")
    with pytest.raises(WrongBytes):
        world.install()  # the files contain no such needs
    assert {*world.lock().skills} == {*locked, "code-review"}


def test_a_dependency_of_a_refused_version_does_not_stay(world):
    world.install("acme:other@1.0.0")
    locked = world.lock()
    (world.copy("other") / "SKILL.md").write_text("edited")
    kept = Answers("yes", local_edit="no")
    world.install("acme:other@2.0.0", answers=kept)
    assert "local-edit" in kept.kinds_seen
    assert world.lock() == locked
    world.install(frozen=True, answers=kept)
