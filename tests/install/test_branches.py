"""A branch without a skill: ``sync`` and ``install`` take it away, and remember what the user agreed to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skillhub.audit.verify import verify
from skillhub.disk.folders import remove_tree
from skillhub.errors import NotFound, Refused
from skillhub.formats.digest import NO_FILES
from skillhub.model.provenance import Record
from skillhub.model.question import HoldReason
from skillhub.project.copies import not_agreed
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.locks import Locks
from tests.install.test_open_needs import needy
from tests.model.test_advisory import osv, package
from tests.support.world import STDIO, Answers, World, refused, skill

Branch = dict[Path, bytes]


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.install(str(skill(world.base / "src", "plain")))
    return world


@pytest.fixture
def alone(world: World) -> Branch:
    """The branch that has the skill ``plain``."""
    return documents(world)


@pytest.fixture
def both(world: World, alone: Branch) -> Branch:
    """The branch that has the skill ``more`` too. The user agreed to it, and it is enabled."""
    world.install(str(skill(world.base / "src", "more")))
    return documents(world)


def documents(world: World) -> Branch:
    """Return the lock and the intent, as a branch has them."""
    return {path: path.read_bytes() for path in world.base.iterdir() if path.is_file()}


def switch(branch: Branch) -> None:
    for path, data in branch.items():
        path.write_bytes(data)


def reason(world: World) -> HoldReason | None:
    """Return why agents are told that they cannot read ``more``."""
    around = Surroundings(cwd=str(world.base), home=str(world.user_home), state=world.home.state)
    locks = Locks(replace(around, environ={"SKILLHUB_HOME": str(world.top / "skillhub")}), [str(world.copy(""))])
    return {each.name: each.held for each in locks.read().skills}["more"]


def leave_by_sync(world: World, alone: Branch) -> None:
    switch(alone)
    assert world.sync().changed


def leave_by_install(world: World, alone: Branch) -> None:
    """Only the intent changes, as a merge may leave it: ``install`` removes what it does not require."""
    switch({path: data for path, data in alone.items() if path.suffix == ".toml"})
    assert world.install().changed


LEAVE = pytest.mark.parametrize("leave", [leave_by_sync, leave_by_install])
Leave = Callable[[World, Branch], None]


@LEAVE
@pytest.mark.parametrize("options", [{}, {"frozen": True}], ids=["default", "frozen"])
def test_a_lock_that_has_an_agreed_skill_again_asks_nothing(world: World, alone, both, leave: Leave, options) -> None:
    for _ in range(2):
        leave(world, alone)
        assert (world.copy("more").exists(), {*world.project.records().skills}) == (False, {"plain"})
        switch(both)
        assert {each.name: each.state for each in world.sync().skills} == {"more": "disabled", "plain": "enabled"}
        done = world.install(answers=Answers(), **options)
        assert (world.answers.seen, done.changed, world.problems()) == ([], True, [])
        assert (world.copy("more").exists(), world.project.records().left) == (True, {})


@LEAVE
def test_attack_other_content_under_the_remembered_name_asks(world: World, alone, both, leave: Leave) -> None:
    leave(world, alone)
    path = world.base / "src/more/SKILL.md"
    path.write_text(path.read_text() + "More.\n")
    world.on_another_machine().install(str(path.parent))
    asked = refused(world, Refused, lambda: world.install(answers=Answers())).asked
    assert "install" in [question.kind for question, _ in asked]
    why = HoldReason("not-agreed", "was not agreed to on this machine in its locked version", "skillhub install")
    assert (not_agreed(world.project), reason(world)) == (["more"], why)


@LEAVE
def test_attack_another_origin_of_the_remembered_tree_asks(world: World, alone, both, leave: Leave) -> None:
    leave(world, alone)
    (world.base / "other").mkdir()
    (world.base / "src/more").rename(world.base / "other/more")
    switch({path: data.replace(b"src/more", b"other/more") for path, data in both.items()})
    asked = refused(world, Refused, lambda: world.install(answers=Answers())).asked
    assert {*world.problems("more")} >= {"origin-changed"}
    (question,) = (question for question, _ in asked if question.kind == "install")
    place = "more was agreed to from local ({}/more); the lock now has it from local ({}/more); agree?"
    assert question.message == place.format("src", "other")


@LEAVE
def test_a_skill_that_the_user_disabled_stays_so(world: World, alone, both, leave: Leave) -> None:
    world.disable("more")
    leave(world, alone)
    switch(both)
    world.install(answers=Answers())
    assert (world.record("more").disabled_by, world.copy("more").exists()) == ("user", False)
    assert world.enable("more", answers=Answers()).skills[0].state == "enabled"


@LEAVE
def test_a_skill_that_is_back_is_shown_as_disabled_with_the_command_that_enables_it(
    world, alone, both, leave
) -> None:
    leave(world, alone)
    switch(both)
    for act in (lambda: None, world.sync):  # `sync` writes the record, and changes no answer
        act()
        assert (not_agreed(world.project), reason(world)) == (
            [],
            HoldReason("disabled", "was agreed to before the lock lacked it", "skillhub install"),
        )
    world.disable("more")
    leave(world, alone)
    switch(both)
    assert (not_agreed(world.project), reason(world)) == (
        [],
        HoldReason("disabled", "is disabled", "skillhub enable more"),
    )


def test_verify_does_not_call_a_skill_that_is_back_not_agreed_to(world: World, alone, both) -> None:
    leave_by_sync(world, alone)
    switch(both)
    remove_tree(world.store.root)
    (message,) = (each.message for each in verify(["more"], world.ports())[0].problems)
    assert message == "the store does not hold this tree"
    world.sync()
    assert world.problems("more") == []


@pytest.mark.parametrize(
    ("is_disabled", "why"),
    [(False, "the lock lacked it meanwhile; skillhub install enables the locked one"), (True, "it is not enabled")],
)
def test_sync_says_why_it_removes_the_copy_of_a_branch(
    world: World, alone, both, is_disabled: bool, why: str
) -> None:
    if is_disabled:
        world.disable("more")
    leave_by_sync(world, alone)
    switch(both)
    shutil.copytree(world.base / "src/more", path := world.copy("more"))
    (line,) = (each for each in world.sync().warnings if each.startswith("more was removed"))
    assert line == f"more was removed from the agents' folders, because {why}: {path}"


def test_a_consent_without_an_origin_is_not_remembered(world: World, alone, both) -> None:
    records = world.project.records()
    older = {name: replace(each, provenance=None) for name, each in records.skills.items()}
    switch(alone)
    world.project.write_records(replace(records, skills=older))
    world.sync()
    switch(both)
    asked = refused(world, Refused, lambda: world.install(answers=Answers())).asked
    assert "install" in [question.kind for question, _ in asked]


@LEAVE
def test_a_skill_that_is_installed_anew_is_remembered_as_it_is_then(world: World, alone, both, leave: Leave) -> None:
    world.disable("more")
    leave(world, alone)
    world.install(str(world.base / "src/more"))
    leave(world, alone)
    switch(both)
    world.install(answers=Answers())
    assert world.record("more").enabled


def test_disabling_is_no_consent_when_the_skill_comes_back(world: World, alone) -> None:
    world.on_another_machine().install(str(skill(world.base / "src", "more")))
    both = documents(world)
    world.disable("more")
    leave_by_sync(world, alone)
    switch(both)
    for act in (world.install, lambda **answers: world.enable("more", **answers)):
        assert refused(world, Refused, lambda act=act: act(answers=Answers())).asked
    assert [each.state for each in world.sync().skills] == ["disabled", "enabled"]
    assert world.record("more") == Record(tree=NO_FILES, enabled=False, disabled_by="user")


def test_what_the_user_removes_is_forgotten(world: World, alone, both) -> None:
    leave_by_sync(world, alone)
    switch(both)
    world.remove("more")
    assert world.project.records().left == {}
    switch(both)
    assert refused(world, Refused, lambda: world.install(answers=Answers())).asked


@LEAVE
def test_a_skill_that_is_back_is_linked_as_it_was(world: World, alone, both, leave: Leave) -> None:
    world.install(link="symlink")
    leave(world, alone)
    switch(both)
    world.install(answers=Answers())
    assert world.copy("more").is_symlink()


@LEAVE
def test_the_user_may_remove_a_skill_that_left(world: World, alone, both, leave: Leave) -> None:
    leave(world, alone)
    assert world.remove("more").warnings == ("more, which skillhub.lock does not name, was forgotten",)
    assert ({*world.project.records().left}, {*world.lock().skills}) == (set(), {"plain"})
    switch(both)
    assert refused(world, Refused, lambda: world.install(answers=Answers())).asked
    refused(world, NotFound, lambda: world.remove("other"))


def agreed_with_server(world: World) -> Path:
    """Install and enable ``more``, in a version and with an MCP server, and return its folder."""
    text = '---\nname: more\ndescription: Does it.\nmetadata:\n  version: "1.0.0"\n---\n'
    folder = needy(world, STDIO, name="more", SKILL_md=text)
    world.install(folder, agents=("claude-code",), mcp="configure")
    return Path(folder)


def away_disabled(world: World, _: Branch) -> None:
    world.disable("more")


def away_without_the_skill(world: World, alone: Branch) -> None:
    both = {path: path.read_bytes() for path in alone}
    leave_by_sync(world, alone)
    switch(both)


def away_with_another_version(world: World, alone: Branch) -> None:
    both, file = {path: path.read_bytes() for path in alone}, world.base / "src/more/SKILL.md"
    text = file.read_text()
    file.write_text(text.replace("1.0.0", "2.0.0"))
    world.on_another_machine().install(str(file.parent), enable=False)
    assert world.sync().changed
    file.write_text(text)
    switch(both)


@pytest.mark.parametrize("away", [away_disabled, away_without_the_skill, away_with_another_version])
def test_attack_a_skill_is_enabled_again_with_an_advisory_since(world: World, alone, away) -> None:
    agreed_with_server(world)
    away(world, alone)
    advisory = osv([package(name="more", versions=["1.0.0"])], database_specific={"severity": "HIGH"})
    (file := world.folder / "advisory.json").write_text(json.dumps(advisory))
    world.advisories = [str(file)]
    assert refused(world, Refused, lambda: world.enable("more", answers=Answers())).asked[0][0].kind == "finding"
    world.enable("more", answers=Answers(finding="yes", mcp="yes"))
    assert world.answers.kinds_seen[:1] == ["finding"]
    world.install(answers=Answers())
    assert world.answers.seen == []  # agents read it now


def test_a_skill_that_left_is_not_installed(world: World, alone, both) -> None:
    """No command takes a remembered consent for a skill; the store need not keep its tree."""
    leave_by_sync(world, alone)
    records = world.project.records()
    assert ({*records.left}, records.left["more"].tree, records.left["more"].links) == ({"more"}, NO_FILES, ())
    assert [each.name for each in world.sync().skills] == ["plain"]


def test_attack_a_returned_version_with_an_advisory_asks_also_if_a_program_is_missing(world: World) -> None:
    """A missing program keeps no skill disabled that was enabled."""
    head = 'metadata:\n  version: "1.0.0"\n  openclaw:\n    requires:\n      bins: [python3]\n'
    folder = skill(world.base / "src", "more", head=head)
    world.install(str(folder))
    older = {path: path.read_bytes() for path in (*documents(world), folder / "SKILL.md")}
    (folder / "SKILL.md").write_bytes(older[folder / "SKILL.md"].replace(b"1.0.0", b"1.1.0"))
    world.install(str(folder))
    advisory = osv([package(name="more", versions=["1.0.0"])], database_specific={"severity": "HIGH"})
    (file := world.folder / "advisory.json").write_text(json.dumps(advisory))
    world.advisories = [str(file)]
    world.environ["PATH"] = str(world.folder)
    switch(older)
    assert refused(world, Refused, lambda: world.install(answers=Answers())).asked[0][0].kind == "finding"
    assert "1.1.0" in world.copy("more").joinpath("SKILL.md").read_text()
