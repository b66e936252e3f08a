"""The question to install a skill names known skills of other sources whose names it has, or nearly has."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillhub.errors import Refused
from skillhub.model.provenance import place_at_any_revision
from skillhub.sources.configured import root_fingerprint
from tests.install.test_policy import repository
from tests.support.world import Answers, skill


def about_names(world, ref, **options):
    """Return the lines about other names in the question to install this skill."""
    answers = Answers("no")
    with pytest.raises(Refused):
        world.install(ref, answers=answers, **options)
    (question,) = [each for each in answers.seen if each.kind == "install"]
    return [line for line in question.details if "name is nearly" in line or "not compared" in line]


NEARLY = "note: its name is nearly that of another skill: code-review of github"


@pytest.mark.parametrize("name", ["code-reveiw", "c0de-review", "code-reviews", "code-revlew", "coder-eview"])
def test_attack_a_name_that_is_nearly_that_of_an_installed_skill_is_named(world, name):
    world.install("github:code-review")
    assert about_names(world, str(skill(world.folder / "src", name))) == [NEARLY]


def test_attack_a_name_that_a_source_had_when_last_asked_is_named(world):
    folder = Path(world.home.state) / "tuf" / root_fingerprint().hex
    folder.mkdir(parents=True)
    (folder / "publishers.json").write_text('{"release-notes": "skillhub-examples"}')
    opened = len(world.opened)
    (line,) = about_names(world, str(skill(world.folder / "src", "release-notes")))
    assert line == "note: github has a skill release-notes, too; the two were not compared"
    (line,) = about_names(world, str(skill(world.folder / "src", "release-note")))
    assert line == "note: its name is nearly that of another skill: release-notes of github"
    assert world.opened[opened:] == []  # the other source is not asked


def test_attack_an_alias_does_not_hide_the_name_of_an_installed_skill(world):
    world.install("github:code-review")
    (line,) = about_names(world, str(skill(world.folder / "src", "code-review")), alias="other")
    assert line == "note: github has a skill code-review, too; the two were not compared"


def test_attack_the_skill_has_no_note_before_it(world):
    world.install("github:code-review")
    answers = Answers("no")
    with pytest.raises(Refused):
        world.install(str(skill(world.folder / "src", "code-reviews", notes__txt=b"\xff")), answers=answers)
    (question,) = [each for each in answers.seen if each.kind == "install"]
    first, second, *_ = [line for line in question.details if line.startswith("note:")]
    assert (first, "outside the project" in second) == (NEARLY, True)


def test_skills_of_one_source_and_other_names_are_not_named(world):
    world.install(str(skill(world.folder / "src", "plain-one")), "github:code-review")
    for name in ("plain-two", "plain-ones", "review", "code"):
        assert about_names(world, str(skill(world.folder / "src", name))) == []


def test_an_update_of_an_agreed_skill_names_them_again_and_a_repeated_install_does_not(world):
    world.install("github:code-review")
    source = skill(world.folder / "src", "code-reviews")
    outcome = world.install(str(source))
    assert any("code-review of github" in warning for warning in outcome.warnings)
    assert not any("code-review of github" in warning for warning in world.install(str(source)).warnings)
    (source / "notes.md").write_text("More.\n")
    assert about_names(world, str(source)) == [NEARLY]


def test_a_listed_repository_is_another_place_for_others_but_not_for_its_own_skills(world):
    place = repository(world)
    world.sources.add("acme", place, None)
    world.ports().listing(world.sources.get("acme"))
    assert about_names(world, "acme:pdf") == about_names(world, place, skills=("pdf",)) == []
    (line,) = about_names(world, str(skill(world.folder / "src", "pdf")))
    assert line == "note: git+https://git.example/skills has a skill pdf, too; the two were not compared"


def test_one_registry_is_one_place_under_each_of_its_names(world, hub):
    for alias in ("acme", "company"):
        world.add_source(alias, hub)
        folder = Path(world.sources.metadata(world.sources.get(alias)))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "publishers.json").write_text('{"hello": "acme"}')
    assert about_names(world, "acme:hello") == []
    assert len(about_names(world, str(skill(world.folder / "src", "hello")))) == 2


def test_one_repository_is_one_place_in_each_spelling():
    sources = ["git+https://Host.example/skills@main", "git+https://host.example:443/skills@v2?plugin=x"]
    assert {*map(place_at_any_revision, sources)} == {"git+https://host.example/skills"}
