"""Show: the facts of one skill and the releases of its source, installed or not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skillhub.audit.show import Shown, show
from skillhub.errors import SourceError
from skillhub.model.reference import parse_ref
from tests.support.registry import Simulator
from tests.support.world import World


def shown(world: World, ref: str) -> Shown:
    return show(parse_ref(ref), world.ports())


def versions(found: Shown) -> list[str | None]:
    return [each.version for each in found.releases]


@pytest.mark.parametrize("ref", ["gh-fix-ci", "github:gh-fix-ci", "github:gh-fix-ci@1.1.0"])
def test_an_installed_skill_shows_the_releases_of_its_source(world: World, ref: str) -> None:
    before = shown(world, ref)
    world.install("github:gh-fix-ci", env={"GITHUB_TOKEN": "x"}, mcp="skip")
    after = shown(world, ref)
    assert versions(after) == versions(before) != []
    assert after.skill.managed is not ("@" in ref)
    assert after.warnings == ()


@pytest.fixture
def installed(world: World, hub: Simulator) -> World:
    """A machine with a skill of a registry that has a newer release."""
    world.add_source("acme", hub)
    world.install("acme:hello")
    hub.publish("hello", "1.1.0")
    return world


def test_an_installed_skill_shows_newer_releases(installed: World) -> None:
    found = shown(installed, "hello")
    assert (found.skill.version, versions(found)) == ("1.0.0", ["1.1.0", "1.0.0"])


def test_an_unreachable_source_hides_no_installed_skill(installed: World, hub: Simulator) -> None:
    def fail(path: str) -> None:
        raise SourceError("the network is down", where=path)

    hub.before = fail
    found = shown(installed, "hello")
    assert (found.skill.state, "SKILL.md" in found.tree) == ("enabled", True)
    assert found.warnings == (
        "acme was not contacted: the network is down; its releases are shown as they were last seen",
    )


def test_a_removed_source_hides_no_installed_skill(installed: World) -> None:
    installed.sources.remove("acme")
    found = shown(installed, "hello")
    assert found.skill.version == "1.0.0"
    assert found.warnings[0].startswith("acme was not contacted: no source is named ")


def test_another_source_of_the_alias_gets_no_request(installed: World, tmp_path) -> None:
    installed.sources.remove("acme")
    other = Simulator(tmp_path, label="other")
    other.publish("hello", "9.0.0")
    installed.add_source("acme", other)
    found = shown(installed, "hello")
    assert versions(found) == []
    assert "differs from the source of hello in the lock" in found.warnings[0]


def test_a_skill_without_consent_still_shows_its_description(installed: World) -> None:
    before = shown(installed, "hello").skill
    project = installed.ports().project
    project.write_records(replace(project.records(), skills={}))
    after = shown(installed, "hello").skill
    assert (before.state, after.state) == ("enabled", "disabled")
    assert after.description == before.description != ""
