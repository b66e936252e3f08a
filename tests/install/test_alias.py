"""Skills under an alias: installed beside a skill of the same name, and handled by every command."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from skillhub.audit.audit import AuditRequest, audit
from skillhub.audit.show import show
from skillhub.edits.lock_merge import merge
from skillhub.errors import FormatError, NotFound, SourceMismatch, UsageError, Withdrawn, WrongBytes
from skillhub.model.lock import Lock
from skillhub.model.reference import Named
from skillhub.model.skill import Skill
from skillhub.project.intent import Intent
from skillhub.project.last_seen import LoadCheck
from skillhub.registry.operator import Signing
from skillhub.registry.upkeep import withdraw
from skillhub.runtime import Surroundings, catalog_of, load, mentioned, pick, profile
from skillhub.runtime.mention_parser import Suggestions
from tests.install.test_known_bad import publish_advisories
from tests.install.test_recalled import heard, restart
from tests.model.test_advisory import osv, package, semver
from tests.support.registry import Simulator
from tests.support.start import Start
from tests.support.world import Answers, World, refused, skill, wanted


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A world with ``code-review`` of one source, and a registry with another skill of that name."""
    world = World(tmp_path_factory.mktemp("alias") / "machine")
    simulator = Simulator(tmp_path_factory.mktemp("acme"))
    simulator.publish("code-review", "9.0.0")
    world.add_source("acme", simulator)
    world.install("github:code-review")
    return Start(world.folder), simulator


@pytest.fixture
def two(made, tmp_path):
    start, simulator = made
    world = World(start.restore())
    world.simulator = world.registries["acme"] = simulator.copy(tmp_path)
    return world


def test_two_skills_of_one_name_are_installed_side_by_side(two):
    answers = Answers("yes")
    (found,) = two.install("acme:code-review", alias="acme-review", answers=answers).skills
    assert (found.name, found.own_name, found.state, found.version) == (
        "acme-review",
        "code-review",
        "enabled",
        "9.0.0",
    )
    assert answers.seen[-1].message == "Install code-review as acme-review 9.0.0?"
    assert "it calls itself code-review, and is called acme-review here" in answers.seen[-1].details
    entries = two.lock().skills
    assert [*entries] == ["acme-review", "code-review"]
    assert (entries["acme-review"].name, entries["code-review"].name) == ("code-review", None)
    assert wanted(two)["acme-review"] == {"source": "acme", "version": "^9.0.0", "name": "code-review"}
    # The files are unchanged, as signed.
    assert b"name: code-review\n" in (two.copy("acme-review") / "SKILL.md").read_bytes()
    assert two.problems() == []


@pytest.fixture
def both(two):
    two.install("acme:code-review", alias="acme-review")
    return two


def test_an_alias_is_updated_synced_enabled_edited_and_removed_as_any_skill_is(both):
    both.simulator.publish("code-review", "9.1.0")
    both._opened.clear()
    outcome = both.update("acme-review")
    assert [(each.name, each.version) for each in outcome.skills] == [("acme-review", "9.1.0")]
    assert "SKILL.md" in outcome.changes["acme-review"].files.changed
    assert both.lock().skills["acme-review"].name == "code-review"
    assert both.lock().skills["code-review"].version == "1.0.0"
    copy = both.copy("acme-review") / "SKILL.md"
    copy.write_text(copy.read_text() + "\nMine.\n")
    assert both.problems() == ["changed-file"]
    both.sync(Answers("save"))
    assert (both.problems(), [*os.listdir(both.base / "skillhub-edits")]) == ([], ["acme-review-1.patch"])
    both.disable("acme-review")
    assert not copy.parent.exists()
    both.enable("acme-review")
    assert copy.is_file()
    before = both.lock().skills["code-review"]
    both.remove("acme-review")
    assert both.lock().skills == {"code-review": before}
    assert wanted(both).keys() == {"code-review"}
    assert both.problems() == []


def test_an_alias_is_restored_from_lock_and_from_intent(both):
    assert both.install(frozen=True, answers=Answers()).changed is False
    assert both.install("acme:code-review", alias="acme-review", answers=Answers()).changed is False
    data = (both.base / "skillhub.lock").read_bytes()
    (both.base / "skillhub.lock").unlink()
    both.install()
    assert (both.base / "skillhub.lock").read_bytes() == data
    assert Lock.parse(data).dump() == data


def test_agents_see_load_and_mention_an_alias_by_its_name_here(both):
    around = Surroundings(cwd=str(both.base), home=str(both.user_home), environ=both.environ, state=both.home.state)
    found = catalog_of(profile("agents"), around)
    assert [(each.name, each.managed, each.held) for each in found.skills] == [
        ("acme-review", True, None),
        ("code-review", True, None),
    ]
    assert found.problems == ()
    assert "# code-review 9.0.0" in load(pick(found, "acme-review")).body
    (mention,) = mentioned("$acme-review now", found).mentions
    assert (mention.outcome, mention.skill.name) == ("activated", "acme-review")


def test_the_own_name_of_an_aliased_skill_suggests_the_alias():
    rows = [Skill(name="mine", path="/x", scope="project", state="enabled", own_name="code-review")]
    for typed in ("code-review", "Code-Review"):
        assert [each.name for each in Suggestions(rows).like(typed).skills] == ["mine"]
    assert not Suggestions(rows).like("code-reviewers").skills


def test_an_alias_from_a_folder_is_named_in_the_line_of_the_intent(world):
    path = skill(world.base / "src", "deploy")
    world.install(str(path))
    other = skill(world.base / "other", "deploy", "Else.\n")
    world.install(str(other), alias="deploy-other")
    assert wanted(world)["deploy-other"] == {"path": "other/deploy", "name": "deploy"}
    (other / "SKILL.md").write_text("---\nname: deploy\ndescription: Does it.\n---\n\nNewer.\n")
    world.update()
    assert (world.copy("deploy-other") / "SKILL.md").read_text().endswith("Newer.\n")
    assert (world.copy("deploy") / "SKILL.md").read_text().endswith("Do it.\n")
    assert world.problems() == []
    (other / "SKILL.md").write_text("---\nname: evil\ndescription: Does it.\n---\n\nNewer.\n")
    refused(world, FormatError, lambda: world.update("deploy-other"))


@pytest.mark.parametrize(
    "alias",
    [
        "",
        "Pdf",
        "a b",
        "../up",
        "a/b",
        "-x",
        "x-",
        "a--b",
        "a" * 65,
        "päf",
        "р",
        "con",
        "nul",
        "com1",
        ".git",
        "a\n",
        "a:b",
    ],
)
def test_attack_a_hostile_alias_is_refused(two, alias):
    refused(two, UsageError, lambda: two.install("acme:code-review", alias=alias))


def test_attack_an_alias_in_use_is_refused(both, tmp_path):
    both.simulator.publish("other", "1.0.0")
    both._opened.clear()
    for ref, alias in (
        ("acme:other", "acme-review"),
        ("acme:other", "code-review"),
        ("acme:code-review", "code-review"),
        ("github:code-review", "acme-review"),
        (str(skill(tmp_path / "src", "other")), "acme-review"),
    ):
        error = refused(both, SourceMismatch, lambda ref=ref, alias=alias: both.install(ref, alias=alias))
        assert "--as" in error.hint
    both.install("acme:other", alias="third")
    refused(both, SourceMismatch, lambda: both.install("acme:code-review", alias="third"))
    # An alias is no name of a source.
    refused(both, NotFound, lambda: both.install("third", alias="fourth"))


def test_attack_one_alias_for_several_skills_is_refused(two, tmp_path):
    for refs, options in (
        ((), {}),
        (("acme:code-review", "github:release-notes"), {}),
        (("acme:code-review",), {"every": True}),
    ):
        refused(two, UsageError, lambda refs=refs, options=options: two.install(*refs, alias="mine", **options))


def test_attack_a_changed_own_name_in_the_lock_is_refused(both):
    path = both.base / "skillhub.lock"
    document = json.loads(path.read_bytes())
    for name, error in (
        ("release-notes", (SourceMismatch, WrongBytes)),
        ("acme-review", FormatError),
        ("../x", FormatError),
    ):
        document["skills"]["acme-review"]["name"] = name
        path.write_text(json.dumps(document, indent=2))
        with pytest.raises(error):
            both.install(answers=Answers())
    del document["skills"]["acme-review"]["name"]
    path.write_text(json.dumps(document, indent=2))
    with pytest.raises((SourceMismatch, WrongBytes, FormatError)):
        both.install(frozen=True, answers=Answers())


def test_attack_an_alias_does_not_hide_a_withdrawal(scene):
    scene.machine.install("acme:hello", alias="hi")
    withdraw(scene.hub.dir.path, "hello@1.0.0", "sends tokens away", Signing(now=scene.hub.when))
    scene.hub.pull()
    machine = heard(scene)
    restart(machine)
    error = scene.refuses(Withdrawn, lambda: machine.install(frozen=True))
    assert error.message.startswith("hello 1.0.0 was withdrawn")
    assert sorted(machine.problems("hi")) == ["withdrawn"]


def test_attack_an_alias_does_not_hide_an_advisory(scene):
    world = scene.machine
    world.install("acme:hello", alias="hi")
    publish_advisories(
        scene, osv([package(**semver(("introduced", "0")))], database_specific={"severity": "critical"})
    )
    restart(world)
    report = audit(AuditRequest(refresh=True), world.ports())
    assert {each.skill for each in report.findings if "advis" in each.rule or "known" in each.rule} == {"hello", "hi"}
    check = LoadCheck(world.lock(), world.store, world.home, world.project.key, "project", Intent)
    assert {name for name, entry in world.lock().skills.items() if check.matches(name, entry, None)} == {
        "hello",
        "hi",
    }


def test_an_agent_that_requires_the_own_name_is_named_in_the_refusal(two):
    error = refused(two, UsageError, lambda: two.install("acme:code-review", alias="mine", agents=("opencode",)))
    assert error.message == "OpenCode loads a skill only from a folder of its own name, code-review; mine is another"
    (two.base / ".opencode").mkdir()
    answers = Answers("yes")
    outcome = two.install("acme:code-review", alias="mine", answers=answers)
    note = "note: OpenCode will not load it: it requires a folder named code-review, like the skill"
    assert note in answers.seen[-1].details
    assert f"mine: {note.removeprefix('note: ')}" in outcome.warnings
    outcome = two.install("acme:code-review", alias="mine", agents=("claude-code",))
    assert outcome.skills[0].links[-1].endswith(".claude/skills/mine")
    for refs in (("acme:code-review",), ()):  # the skill is installed already, and other skills may use the agent
        warnings = two.install(*refs, alias="mine" if refs else None, agents=("cursor",)).warnings
        assert "mine: Cursor will not load it: it requires a folder with the name in SKILL.md" in warnings


def test_an_alias_does_not_hide_a_source_skill_of_that_name(two):
    two.install("acme:code-review", alias="release-notes")
    found = show(Named("release-notes", "github"), two.ports())
    assert (found.skill.name, found.skill.managed, found.skill.source) == ("release-notes", False, "github")
    assert show(Named("release-notes"), two.ports()).skill.own_name == "code-review"
    refused(two, SourceMismatch, lambda: two.install("github:release-notes"))
    refused(two, SourceMismatch, lambda: two.install("release-notes"))


def test_attack_a_merge_of_two_skills_under_one_alias_is_a_conflict(both):
    lock = both.lock()
    other = replace(lock.skills["acme-review"], name="release-notes")
    theirs = replace(lock, skills={**lock.skills, "acme-review": other})
    done = merge(lock, theirs, Lock(), lambda *_: True, {})
    assert [(each.name, each.about) for each in done.clashes] == [("acme-review", "source")]
    base = merge(lock, theirs, lock, lambda *_: True, {})
    assert "release-notes" in base.choices[0].why


def test_show_and_sync_list_alias_and_own_name(both):
    found = show(Named("acme-review"), both.ports()).to_json()
    assert (found["name"], found["own_name"], found["manifest"].name) == ("acme-review", "code-review", "code-review")
    found = {each["name"]: each["own_name"] for each in (skill.to_json() for skill in both.sync().skills)}
    assert found == {"acme-review": "code-review", "code-review": None}
