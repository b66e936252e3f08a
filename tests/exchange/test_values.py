"""A stored value reaches only the skills that the user named, in the project of storage."""

from __future__ import annotations

import json

import pytest

from skillhub.errors import ForbiddenVariable, NotFound, StateError, UsageError
from skillhub.exchange.values import due, forget, intended, keep, release, remainder
from skillhub.project.user_state import Secret
from tests.support.world import STDIO, TOKEN, Answers, World, needs, skill

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


def test_a_stored_value_satisfies_the_need_of_its_skill(world, vault):
    world.install(needy(world))
    assert world.record("plain").disabled_by == "needs"
    assert store(world, vault).skills == ("plain",)  # the skill that needs the value
    assert need(world) == ("enabled", [True])
    assert given(world, vault, {"A": "1"}) == {"A": "1", "TRACKER_TOKEN": VALUE}


def test_attack_a_value_for_a_misspelled_skill_is_not_stored(world, vault):
    world.install(needy(world))
    with pytest.raises(NotFound) as caught:
        store(world, vault, skills=["plain", "plian"])
    assert "did you mean plain?" in caught.value.hint
    assert (vault.values, world.project.secrets.all()) == ({}, ())
    assert [each.state for each in world.install(needy(world, "plian")).skills] == ["disabled"]
    assert given(world, vault) == {}


def test_attack_a_skill_gets_no_value_stored_for_another(world, vault):
    world.install(needy(world))
    store(world, vault)
    world.enable("plain")
    outcome = world.install(needy(world, "greedy"))
    assert [(each.state, each.requires[0].satisfied) for each in outcome.skills] == [("disabled", False)]
    world.disable("plain")
    assert given(world, vault) == {}


def test_attack_a_skill_of_the_name_in_another_project_gets_no_value(world, vault):
    world.install(needy(world))
    store(world, vault)
    other = World(world.folder / "other", home="../home")
    assert [each.state for each in other.install(needy(other)).skills] == ["disabled"]
    assert due(other.project, {}) == ()
    with pytest.raises(NotFound):
        remainder("TRACKER_TOKEN", (), other.project)


def test_attack_a_need_that_only_the_lock_states_gets_no_value(world, vault):
    """The skills that get a value by default follow from agreed files, never from a repository's lock."""
    world.install(str(skill(world.base / "src")))
    lock = json.loads((world.base / "skillhub.lock").read_bytes())
    lock["skills"]["plain"]["requires"] = ["env:TRACKER_TOKEN"]
    (world.base / "skillhub.lock").write_text(json.dumps(lock))
    assert intended("TRACKER_TOKEN", (), world.project).skills == ()


def test_attack_a_skill_with_the_name_of_a_removed_one_gets_no_value(world, vault):
    world.install(needy(world))
    store(world, vault)
    world.remove("plain")
    again = skill(world.folder / "elsewhere", agents__openai_yaml=NEEDY)
    assert [each.state for each in world.install(str(again)).skills] == ["disabled"]
    assert given(world, vault) == {}
    assert [each.skills for each in world.project.secrets.all()] == [()]


def test_attack_a_skill_with_a_server_that_left_the_lock_gets_no_value_when_it_is_another_one(world, vault):
    """Its record stays until ``remove``, for the MCP entry that was written."""
    tools = {"agents__openai_yaml": needs(TOKEN, STDIO)}
    folder = skill(world.base / "src", **tools)
    world.install(str(folder), mcp="configure", agents=("claude-code",))
    store(world, vault)
    world.enable("plain")
    (world.base / "skillhub.lock").write_text('{"skills": {}, "sources": {}, "version": 1}\n')
    (world.base / "skillhub.toml").write_text("[skills]\n")
    world.sync()
    assert ([*world.record("plain").mcp], given(world, vault)) == (["tracker"], {})
    world.install(str(skill(world.base / "src", body="Another one.\n", **tools)), mcp="configure")
    assert (world.record("plain").disabled_by, given(world, vault)) == ("needs", {})


def test_attack_a_skill_that_is_removed_while_the_value_is_typed_gets_none(world, vault):
    world.install(needy(world))
    secret = intended("TRACKER_TOKEN", (), world.project)
    world.remove("plain")
    with pytest.raises(NotFound):
        keep(secret, VALUE, world.project, vault)
    assert (vault.values, world.project.secrets.all()) == ({}, ())


def test_attack_no_value_is_stored_for_a_skill_that_only_the_lock_has(world, vault):
    """It would outlive the skill, which has no record that ends with it."""
    world.on_another_machine().install(needy(world))
    with pytest.raises(NotFound):
        store(world, vault, skills=["plain"])


def test_a_skill_with_another_tree_than_agreed_gets_no_value(world, vault):
    world.install(needy(world))
    store(world, vault)
    world.enable("plain")
    lock = (world.base / "skillhub.lock").read_text()
    (world.base / "skillhub.lock").write_text(lock.replace(world.record("plain").tree, "sha256:" + "0" * 64))
    assert given(world, vault) == {}


@pytest.mark.parametrize("name", ["PATH", "ld_preload", "PYTHONPATH", "SKILLHUB_HOME", "https_proxy", "GIT_SSH"])
def test_a_forbidden_variable_is_not_stored(world, name):
    with pytest.raises(ForbiddenVariable):
        intended(name, ["plain"], world.project)


def test_a_forbidden_variable_in_the_index_is_not_released(world, vault):
    world.install(str(skill(world.base / "src")))
    project = world.project
    bad = Secret(project.key, "project", project.base, "LD_PRELOAD", ("plain",))
    project.secrets.put(bad)
    vault.put(bad, "x")
    assert given(world, vault) == {}


@pytest.mark.parametrize("name", ["", "A B", "1A", "A=B", VALUE, "Ä"])
def test_an_invalid_name_is_refused_and_not_quoted(world, name):
    with pytest.raises(UsageError) as caught:
        intended(name, (), world.project)
    assert not name or name not in caught.value.message


@pytest.mark.parametrize("value", ["", "a\0b", "x" * 70_000])
def test_an_invalid_value_is_not_stored(world, vault, value):
    with pytest.raises(UsageError) as caught:
        store(world, vault, value=value)
    assert (vault.values, world.project.secrets.all()) == ({}, ())
    assert not value or value not in caught.value.message


def test_several_skills_that_need_a_value_must_be_named(world, vault):
    world.install(needy(world, "one"), needy(world, "two"))
    with pytest.raises(UsageError) as caught:
        intended("TRACKER_TOKEN", (), world.project)
    assert caught.value.hint == "name the skills that get it: --skill one --skill two"
    assert store(world, vault, skills=["two"]).skills == ("two",)
    assert store(world, vault, skills=["one"], value="new").skills == ("one", "two")
    assert store(world, vault, value="newest").skills == ("one", "two")
    assert list(vault.values.values()) == ["newest"]


def test_a_variable_of_the_process_takes_precedence(world, vault):
    world.install(needy(world))
    store(world, vault)
    world.enable("plain")
    assert given(world, vault, {"TRACKER_TOKEN": "mine"}) == {"TRACKER_TOKEN": "mine"}
    assert given(world, vault, {"TRACKER_TOKEN": ""}) == {"TRACKER_TOKEN": VALUE}


def test_unset_removes_a_value_from_one_skill_or_from_all(world, vault):
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
    assert world.sync().skills[0].state == "enabled"  # an enabled skill stays enabled


def test_a_value_missing_in_the_keyring_is_reported(world, vault):
    world.install(needy(world))
    store(world, vault)
    world.enable("plain")
    vault.values.clear()
    assert release(due(world.project, {}), {}, vault).missing == ("TRACKER_TOKEN",)


def test_a_value_is_removed_from_the_keyring_if_its_record_fails(world, vault):
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
