"""The files of policies; a malformed or unreadable policy permits no skill."""

from __future__ import annotations

import os

import pytest

from skillhub.disk.home import Home
from skillhub.errors import FormatError, StateError
from skillhub.project.deciding_paths import deciding_paths
from skillhub.project.project import Project, machine_policy, policy_places, read_policies


@pytest.fixture
def home(tmp_path):
    return Home.of({"SKILLHUB_HOME": str(tmp_path)})


@pytest.fixture
def project(home, tmp_path):
    (tmp_path / "project").mkdir()
    return Project(str(tmp_path / "project"), "project", home)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return str(path)


def test_missing_policies_are_empty(home, project, tmp_path):
    assert not read_policies(home, project.policy, str(tmp_path / "none.toml"))


def test_policy_of_the_machine_comes_first(home, project, tmp_path):
    machine = write(tmp_path / "etc" / "policy.toml", "signed = 'required'\n")
    user = write(os.path.join(home.config, "policy.toml"), "\n[policy]\nmin-age-days = 3\n")
    intent = write(project.intent_path, "[policy]\nsigned = 'required'\n")
    found = read_policies(home, project.policy, machine)
    paths = [("machine", machine), ("user", user), ("project", intent)]
    assert [(each.level, each.path) for each in found.all] == paths


def test_no_variable_moves_the_policy_of_the_machine(monkeypatch, tmp_path):
    before = machine_policy()
    for name in ("SKILLHUB_HOME", "PROGRAMDATA", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    assert machine_policy() == before == "/etc/skillhub/policy.toml"
    assert policy_places(Home.of(os.environ))["machine"] == before


def test_the_policies_of_machine_and_user_decide_whether_a_command_is_answered_from_memory(home, project, tmp_path):
    found = {*deciding_paths(project, str(tmp_path), {})}
    assert {machine_policy(), os.path.join(home.config, "policy.toml")} <= found


@pytest.mark.parametrize("text", ["signed = 'no'", "sign = 'required'", "[policy", "\x00"])
def test_malformed_policy_permits_no_skill(home, project, tmp_path, text):
    machine = write(tmp_path / "policy.toml", text)
    policies = read_policies(home, project.policy, machine)
    with pytest.raises(FormatError) as caught:
        bool(policies)
    assert caught.value.where.startswith(machine)


def test_unreadable_policy_permits_no_skill(home, project, tmp_path):
    (tmp_path / "policy.toml").mkdir()
    policies = read_policies(home, project.policy, str(tmp_path / "policy.toml"))
    with pytest.raises(StateError):
        policies.agrees("install")


def test_linked_policy_is_read(home, project, tmp_path):
    real = write(tmp_path / "real.toml", "signed = 'required'\n")
    (tmp_path / "policy.toml").symlink_to(real)
    (found,) = read_policies(home, project.policy, str(tmp_path / "policy.toml")).all
    assert found.signed == "required"


def test_policy_of_a_project_is_that_of_its_file(project):
    assert project.policy() is None
    write(project.intent_path, "[policy]\nsigned = 'required'\n")
    found = project.policy()
    assert (found.signed, found.path) == ("required", project.intent_path)


def test_edit_of_the_intent_keeps_the_policy(project):
    path = write(project.intent_path, "[skills]\npdf = '^1'\n\n[policy]\nsigned = 'required'\n")
    before = project.policy()
    assert project.edit_intent({}, ["pdf"])
    assert (project.intent().skills, project.policy()) == ({}, before)
    with open(path, encoding="utf-8") as file:
        assert "signed = 'required'" in file.read()
