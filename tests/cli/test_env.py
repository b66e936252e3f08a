"""``env`` without the library ``keyring``: its functions and its errors."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from skillhub.disk.home import Home
from skillhub.project.project import Project
from skillhub.project.user_state import Secret
from tests.support.absent import without
from tests.support.cli import SECONDS

PYTHON = sys.executable


def test_without_the_extra_no_value_is_stored(shell, monkeypatch):
    without(monkeypatch, "keyring", loaded_by=("skillhub.project.keyring",))
    done = shell.run("env", "set", "TOKEN", "--json")
    assert (done.status, done.error["code"]) == (2, "usage")
    assert re.search(r" install .*'keyring\S*'$", done.error["hint"])


def test_without_the_extra_a_program_runs_if_no_value_is_stored(shell):
    shell.write("bug/keyring.py", "raise ModuleNotFoundError('no module named keyring', name='keyring')\n")
    shell.environ["PYTHONPATH"] = f"{shell.folder}/bug:{shell.environ['PYTHONPATH']}"
    done = shell.run_anew("env", "exec", "--", PYTHON, "-c", "print(1)")
    assert (done.status, done.out, done.err) == (0, "1\n", "")


def test_a_new_project_has_no_stored_values(shell):
    assert shell.run("env", "list", "--json").json == {"schema": 1, "variables": []}
    assert shell.run("env", "unset", "TOKEN", "--json").error["code"] == "not-found"


def test_a_dry_run_of_unset_removes_no_value(shell):
    project = Project(str(shell.project), "project", Home.of(shell.environ))
    secret = Secret(project.key, project.scope, project.base, "TOKEN", ("a", "b"))
    project.secrets.put(secret)
    done = shell.run("env", "unset", "TOKEN", "--skill", "a", "--dry-run")
    assert (done.status, done.out) == (0, "the value of TOKEN would stay for b\n")
    assert project.secrets.all() == (secret,)


def test_a_forbidden_variable_is_refused(shell):
    done = shell.run("env", "set", "LD_PRELOAD", "--json")
    assert (done.status, done.error["code"]) == (5, "forbidden-variable")


@pytest.mark.parametrize(
    "words",
    [("TOKEN", "hunter2"), ("TOKEN=hunter2",), ("TOKEN=hunter2", "x"), ("TOKEN", "--skill", "a", "hunter2", "x")],
)
def test_a_value_on_the_command_line_is_refused_and_not_quoted_back(shell, words):
    done = shell.run("env", "set", *words, "--json")
    assert (done.status, done.error["code"]) == (2, "usage")
    assert "hunter2" not in done.out + done.err


@pytest.mark.parametrize("dashes", [(), ("--",)])
def test_exec_passes_arguments_unchanged_and_without_a_shell(shell, dashes):
    words = ("--json", "--help", "$HOME; *", "--", "-y", "")
    done = shell.run("env", "exec", *dashes, PYTHON, "-c", "import sys; print(sys.argv[1:])", *words)
    assert (done.status, done.out) == (0, f"{list(words)}\n")


def test_exec_exits_with_the_status_of_the_program(shell):
    assert shell.run("env", "exec", "--", PYTHON, "-c", "raise SystemExit(23)").status == 23


def test_exec_passes_no_secret_of_skillhub_itself(shell):
    own = {name: "s3cret" for name in ("SKILLHUB_PASSPHRASE", "SKILLHUB_OCI_PASSWORD", "SKILLHUB_REGISTRY")}
    code = "import os; print(*sorted(name for name in os.environ if name.startswith('SKILLHUB_') or name == 'TOKEN'))"
    kept = {"TOKEN": "mine", "SKILLHUB_OCI_USERNAME": "me", "SKILLHUB_REGISTRY_KEYS": "keys"}
    done = shell.run("env", "exec", "--", PYTHON, "-c", code, **own, **kept)
    assert done.out.split() == sorted({"SKILLHUB_HOME", *kept})


def test_a_missing_program_is_reported_without_control_characters(shell):
    assert shell.run("env", "exec", "--", "no-such\x1b[2Jprogram").status == 3
    assert "\x1b" not in shell.run("env", "exec", "--", "no-such\x1b[2Jprogram").err
    assert shell.run("env", "exec", "--", str(shell.project)).status == 7
    assert shell.run("env", "exec").status == 2
    (shell.folder / "bin/no-such").mkdir(parents=True)
    path = f"{shell.folder}/bin:{shell.environ['PATH']}"
    assert shell.run("env", "exec", "--", "no-such", PATH=path).status == 3, "a folder may not be run either"


def test_exec_refuses_the_json_flag(shell):
    done = shell.run("env", "exec", "--json", "--", PYTHON, "-c", "print(1)")
    assert (done.status, done.error["code"]) == (2, "usage")


def test_exec_ends_if_the_reader_of_its_output_closes(shell):
    words = shell.words("env", "exec", "--", "yes")
    with subprocess.Popen(words, cwd=shell.project, env=shell.environ, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(SECONDS) == -13  # SIGPIPE, and no error message


def test_a_system_without_a_keyring_is_reported_before_the_value_is_read(shell):
    errors = "class KeyringError(Exception): ...\nclass NoKeyringError(KeyringError, RuntimeError): ...\n"
    shell.write("none/keyring/errors.py", errors)
    refuse = "    raise NoKeyringError\n"
    lines = [f"def {name}(*words):\n{refuse}" for name in ("get_password", "set_password", "delete_password")]
    shell.write("none/keyring/__init__.py", "from keyring.errors import NoKeyringError\n" + "".join(lines))
    shell.environ["PYTHONPATH"] = f"{shell.folder}/none:{shell.environ['PYTHONPATH']}"
    done = shell.run_anew("env", "set", "TOKEN")  # stdin is empty: reading it would give another error
    assert done.status == 2
    assert "this system has no keyring" in done.err


@pytest.mark.parametrize("variable", ["XDG_CONFIG_HOME", "XDG_DATA_HOME"])
def test_attack_the_keyring_takes_no_configuration_of_the_working_folder(shell, variable):
    shell.write(
        "none/keyring/errors.py", "class KeyringError(Exception): ...\nclass NoKeyringError(KeyringError): ...\n"
    )
    shell.write("none/keyring/__init__.py", "def get_password(*words):\n    print('read')\n")
    paths = f"{shell.folder}/none:{shell.environ['PYTHONPATH']}"
    done = shell.run_anew("env", "set", "TOKEN", PYTHONPATH=paths, **{variable: ".config"})
    assert (done.status, done.out) == (2, "")
    assert f"where: {variable}" in done.err
