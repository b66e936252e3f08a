"""The folders for skillhub's own files."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from skillhub.disk.home import Home
from skillhub.errors import StateError
from skillhub.formats.text import as_command
from tests.support.here import Here

FOLDERS = ("", "config", "state")


def test_skillhub_home_puts_all_folders_below_one(tmp_path):
    home = Home.of({"SKILLHUB_HOME": str(tmp_path)})
    assert (home.config, home.data, home.cache, home.state) == tuple(
        str(tmp_path / part) for part in ("config", "data", "cache", "state")
    )


def test_an_empty_home_is_ignored():
    assert "skillhub" in Home.of({"SKILLHUB_HOME": ""}).data


@pytest.mark.parametrize("hub", [".skillhub", "./.skillhub", "../project/.skillhub", "~nobody-of-this-name/hub"])
def test_attack_a_repository_does_not_bring_the_users_policy_by_a_relative_home(tmp_path, hub):
    shell = Here(tmp_path)
    shell.write("project/.skillhub/config/policy.toml", 'agree = ["unsigned"]\n')
    shell.skill("project/loose")
    before = shell.files()
    for words in (("list",), ("install", "./loose", "--yes"), ("catalog",)):
        error = shell.run(*words, "--json", SKILLHUB_HOME=hub).error
        assert (error["code"], error["where"]) == ("state", "SKILLHUB_HOME")
    assert shell.files() == before


def test_without_skillhub_home_the_platforms_folders_are_used(tmp_path):
    code = "import os; from skillhub.disk.home import Home; print(Home.of(os.environ).data)"
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path))


# "~" is also the home of a user with neither HOME nor a line in passwd.
@pytest.mark.skipif(os.name != "posix", reason="HOME is of POSIX")
@pytest.mark.parametrize("found", ["", "~", "rel"])
@pytest.mark.parametrize("hub", ["", "~/hub"])
def test_a_home_that_depends_on_the_working_folder_is_refused(tmp_path, found, hub):
    shell = Here(tmp_path)
    shell.skill("project/loose")
    before = shell.files()
    mine = ("install", "./loose", "-g", "--yes", "--allow-unsigned")
    for words in (("list",), ("doctor",), ("key", "new"), mine):
        error = shell.run(*words, "--json", HOME=found, SKILLHUB_HOME=hub).error
        assert (error["code"], error["where"], error["hint"]) == ("state", "HOME", "set HOME to it")
    assert shell.run(*mine, "--json", HOME=found).error["where"] == "HOME"
    assert shell.files() == before


def test_a_home_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(StateError, match="expected a folder") as caught:
        Home.of({"SKILLHUB_HOME": os.devnull})
    assert "SKILLHUB_HOME" in caught.value.hint


@pytest.fixture
def environ(tmp_path):
    for folder in FOLDERS:
        (tmp_path / "hub" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "hub" / folder).chmod(0o755)
    return {"SKILLHUB_HOME": str(tmp_path / "hub")}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize("folder", FOLDERS)
def test_attack_a_home_of_another_user_is_refused(tmp_path, environ, folder):
    Home.of(environ)
    os.chown(tmp_path / "hub" / folder, 65534, 65534)
    with pytest.raises(StateError) as caught:
        Home.of(environ)
    assert "another user" in caught.value.message
    assert caught.value.where == str(tmp_path / "hub" / folder)


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
@pytest.mark.parametrize("folder", FOLDERS)
def test_attack_a_home_that_other_users_can_write_is_refused(tmp_path, environ, folder):
    for mode in (0o757, 0o777, 0o1777, 0o702):
        (tmp_path / "hub" / folder).chmod(mode)
        with pytest.raises(StateError) as caught:
            Home.of(environ)
        assert caught.value.hint.endswith(as_command("chmod", "go-w", str(tmp_path / "hub" / folder)))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_group_writable_home_is_accepted_only_for_the_users_own_group(tmp_path, environ, folder):
    (tmp_path / "hub" / folder).chmod(0o775)
    Home.of(environ)
    os.chown(tmp_path / "hub" / folder, -1, 65534)
    with pytest.raises(StateError):
        Home.of(environ)
    (tmp_path / "hub" / folder).chmod(0o755)
    Home.of(environ)


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_attack_a_planted_home_is_refused(tmp_path):
    shell = Here(tmp_path)
    shell.write("hub/config/policy.toml", 'agree = ["install", "unsigned", "finding"]\n')
    shell.write("hub/state/sources.json", "{}")
    shell.skill("project/loose")
    shell.hub.chmod(0o777)
    before = shell.files()
    for words in (("source", "list"), ("doctor",), ("install", "./loose", "--yes", "--allow-unsigned")):
        done = shell.run(*words, "--json")
        assert done.error["code"] == "state"
        assert shell.files() == before


@pytest.mark.parametrize(
    "variables", [{}, {"XDG_STATE_HOME": "/x/state"}, {"XDG_DATA_HOME": " "}, {"XDG_STATE_HOME": "rel"}]
)
def test_the_home_of_another_user_is_computed_like_in_their_own_process(tmp_path, monkeypatch, variables):
    for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    theirs = Home.around(variables, str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Home.of({}) == theirs
    assert os.path.isabs(theirs.state)
    named = {"SKILLHUB_HOME": "~/hub"}
    assert Home.around(named, str(tmp_path)) == Home.of(named) == Home.of({"SKILLHUB_HOME": str(tmp_path / "hub")})
