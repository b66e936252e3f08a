"""A stored value reaches the skills that a person named, in the project that it was stored in, and nobody else."""

from __future__ import annotations

import json

import pytest

from skillhub.errors import ForbiddenVariable, NotFound, StateError, UsageError
from skillhub.exchange.values import due, forget, intended, keep, release, remainder
from skillhub.project.user_state import Secret
from tests.support.world import TOKEN, Answers, World, needs, skill

NEEDY = needs(TOKEN)
VALUE = "hunter2-correct-horse"


class Memory:
    """A vault in memory."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], str] = {}

    def get(self, secret: Secret) -> str | None:
        return self.values.get((secret.key, secret.name))

    def put(self, secret: Secret, value: str) -> None:
        self.values[secret.key, secret.name] = value

    def drop(self, secret: Secret) -> None:
        self.values.pop((secret.key, secret.name), None)


@pytest.fixture
def vault():
    return Memory()


def store(world, vault, name="TRACKER_TOKEN", skills=(), value=VALUE):
    secret = intended(name, skills, world.project)
    keep(secret, value, world.project, vault)
    return secret


def needy(world, name="plain", **more):
    return str(skill(world.base / "src", name, agents__openai_yaml=NEEDY, **more))


def given(world, vault, environ=None):
    environ = {} if environ is None else environ
    return dict(release(due(world.project, environ), environ, vault).environ)


def need(world, name="plain", **options):
    found = world.enable(name, answers=Answers(), **options).skills[0]
    return found.state, [each.satisfied for each in found.requires]


def test_a_stored_value_meets_the_need_of_its_skill(world, vault):
    world.install(needy(world))
    assert world.record("plain").disabled_by == "needs"
    assert store(world, vault).skills == ("plain",)  # the one that needs it
    assert need(world) == ("enabled", [True])
    assert given(world, vault, {"A": "1"}) == {"A": "1", "TRACKER_TOKEN": VALUE}


def test_attack_a_skill_takes_the_name_that_was_mistyped_when_a_value_was_stored(world, vault):
    world.install(needy(world))
    with pytest.raises(NotFound) as caught:
        store(world, vault, skills=["plain", "plian"])
    assert "did you mean plain?" in caught.value.hint
    assert (vault.values, world.project.secrets.all()) == ({}, ())
    assert [each.state for each in world.install(needy(world, "plian")).skills] == ["disabled"]
    assert given(world, vault) == {}


def test_attack_a_skill_declares_a_variable_that_was_stored_for_another(world, vault):
    world.install(needy(world))
    store(world, vault)
    world.enable("plain")
    outcome = world.install(needy(world, "greedy"))
    assert [(each.state, each.requires[0].satisfied) for each in outcome.skills] == [("disabled", False)]
    world.disable("plain")
    assert given(world, vault) == {}


def test_attack_another_project_declares_a_skill_of_that_name(world, vault):
    world.install(needy(world))
    store(world, vault)
    other = World(world.folder / "other", home="../home")
    assert [each.state for each in other.install(needy(other)).skills] == ["disabled"]
    assert due(other.project, {}) == ()
    with pytest.raises(NotFound):
        remainder("TRACKER_TOKEN", (), other.project)


def test_attack_a_lock_says_that_a_skill_needs_it(world, vault):
    """Who may have a value without being named is read off agreed bytes, never off a repository's lock."""
    world.install(str(skill(world.base / "src")))
    lock = json.loads((world.base / "skillhub.lock").read_bytes())
    lock["skills"]["plain"]["requires"] = ["env:TRACKER_TOKEN"]
    (world.base / "skillhub.lock").write_text(json.dumps(lock))
    assert intended("TRACKER_TOKEN", (), world.project).skills == ()


def test_attack_a_skill_takes_the_name_of_one_that_was_removed(world, vault):
    world.install(needy(world))
    store(world, vault)
    world.remove("plain")
    again = skill(world.folder / "elsewhere", agents__openai_yaml=NEEDY)
    assert [each.state for each in world.install(str(again)).skills] == ["disabled"]
    assert given(world, vault) == {}
    assert [each.skills for each in world.project.secrets.all()] == [()]


def test_a_skill_whose_tree_nobody_agreed_to_gets_nothing(world, vault):
    world.install(needy(world))
    store(world, vault)
    world.enable("plain")
    lock = (world.base / "skillhub.lock").read_text()
    (world.base / "skillhub.lock").write_text(lock.replace(world.record("plain").tree, "sha256:" + "0" * 64))
    assert given(world, vault) == {}


@pytest.mark.parametrize("name", ["PATH", "ld_preload", "PYTHONPATH", "SKILLHUB_HOME", "https_proxy", "GIT_SSH"])
def test_what_steers_programs_is_not_stored(world, name):
    with pytest.raises(ForbiddenVariable):
        intended(name, ["plain"], world.project)


def test_what_steers_programs_is_not_released_even_if_the_index_has_it(world, vault):
    world.install(str(skill(world.base / "src")))
    project = world.project
    bad = Secret(project.key, "project", project.base, "LD_PRELOAD", ("plain",))
    project.secrets.put(bad)
    vault.put(bad, "x")
    assert given(world, vault) == {}


@pytest.mark.parametrize("name", ["", "A B", "1A", "A=B", VALUE, "Ä"])
def test_what_is_no_name_is_not_quoted_back(world, name):
    with pytest.raises(UsageError) as caught:
        intended(name, (), world.project)
    assert not name or name not in caught.value.message


@pytest.mark.parametrize("value", ["", "a\0b", "x" * 70_000])
def test_what_is_no_value_is_not_stored(world, vault, value):
    with pytest.raises(UsageError) as caught:
        store(world, vault, value=value)
    assert (vault.values, world.project.secrets.all()) == ({}, ())
    assert not value or value not in caught.value.message


def test_several_that_need_it_have_to_be_named(world, vault):
    world.install(needy(world, "one"), needy(world, "two"))
    with pytest.raises(UsageError) as caught:
        intended("TRACKER_TOKEN", (), world.project)
    assert caught.value.hint == "name the skills that get it: --skill one --skill two"
    assert store(world, vault, skills=["two"]).skills == ("two",)
    assert store(world, vault, skills=["one"], value="new").skills == ("one", "two")
    assert store(world, vault, value="newest").skills == ("one", "two")
    assert list(vault.values.values()) == ["newest"]


def test_what_the_process_has_stays(world, vault):
    world.install(needy(world))
    store(world, vault)
    world.enable("plain")
    assert given(world, vault, {"TRACKER_TOKEN": "mine"}) == {"TRACKER_TOKEN": "mine"}
    assert given(world, vault, {"TRACKER_TOKEN": ""}) == {"TRACKER_TOKEN": VALUE}


def test_it_is_taken_from_one_skill_or_from_all(world, vault):
    world.install(needy(world, "one"), needy(world, "two"))
    store(world, vault, skills=["one", "two"])
    assert need(world, "one") == ("enabled", [True])
    with pytest.raises(NotFound):
        remainder("TRACKER_TOKEN", ["three"], world.project)
    forget(remainder("TRACKER_TOKEN", ["one"], world.project), world.project, vault)
    assert vault.values
    assert given(world, vault) == {}
    forget(remainder("TRACKER_TOKEN", (), world.project), world.project, vault)
    assert (vault.values, world.project.secrets.all()) == ({}, ())
    assert world.sync().skills[0].state == "enabled"  # what is enabled stays so


def test_a_value_that_the_keyring_lost_is_told_of(world, vault):
    world.install(needy(world))
    store(world, vault)
    world.enable("plain")
    vault.values.clear()
    assert release(due(world.project, {}), {}, vault).missing == ("TRACKER_TOKEN",)


def test_nothing_stays_in_the_keyring_if_nobody_can_be_told_of_it(world, vault):
    world.install(needy(world))
    secret = intended("TRACKER_TOKEN", ["plain"], world.project)
    path = world.top / "skillhub" / "state" / "secrets.json"
    path.mkdir(parents=True)
    with pytest.raises(StateError):
        keep(secret, VALUE, world.project, vault)
    assert vault.values == {}


def test_no_value_is_in_a_repr(world, vault):
    world.install(needy(world))
    store(world, vault)
    world.enable("plain")
    assert VALUE not in repr(release(due(world.project, {}), {}, vault))
    assert not any(VALUE in str(content) for content in world.snapshot().values())
