"""``env`` with the library ``keyring`` and a backend set by its variable."""

from __future__ import annotations

import json
import subprocess

import pytest

pytest.importorskip("keyring", reason="the extra `keyring`")

from tests.support.cli import Shell

pytestmark = pytest.mark.interop
VALUE = "hunter2-correct-horse"
NEEDY = "dependencies:\n  tools:\n    - type: env_var\n      value: DEMO_TOKEN\n"
SHOW = 'import os; print(os.environ.get("DEMO_TOKEN"))'


@pytest.fixture
def shell(tmp_path):
    """A machine with a keyring, and a skill that waits for its variable."""
    shell = Shell(tmp_path / "machine")
    shell.environ |= {
        "PYTHON_KEYRING_BACKEND": "tests.support.keyring_file.FileKeyring",
        "TEST_KEYRING": str(tmp_path / "keyring.json"),
    }
    shell.skill("project/needy", **{"agents/openai.yaml": NEEDY})
    assert shell.run("install", "./needy", "--yes", "--allow-unsigned").status == 6
    return shell


def piped(shell, *words, value=VALUE + "\n", **environ):
    """Run the program with a value on stdin."""
    return subprocess.run(
        shell.words(*words),
        cwd=shell.project,
        env=shell.having(environ),
        input=value.encode() if isinstance(value, str) else value,
        capture_output=True,
        check=False,
    )


def kept(shell):
    with open(shell.environ["TEST_KEYRING"], encoding="utf-8") as file:
        return list(json.load(file).values())


def nowhere(shell, *outputs):
    for done in outputs:
        assert VALUE.encode() not in done
    assert not any(VALUE.encode() in data for data in shell.files().values())


def test_a_value_is_stored_in_the_keyring_and_reaches_the_program_only(shell):
    stored = piped(shell, "env", "set", "DEMO_TOKEN", "--json", "--verbose")
    assert stored.returncode == 0, stored.stderr
    assert json.loads(stored.stdout)["skills"] == ["needy"]
    assert kept(shell) == [VALUE]
    enabled = shell.run("enable", "needy", "--json")
    assert (enabled.status, enabled.json["skills"][0]["state"]) == (0, "enabled")
    ran = shell.run("env", "exec", "--", "python3", "-c", SHOW)
    assert (ran.status, ran.out, ran.err) == (0, f"{VALUE}\n", "")
    listed = shell.run("env", "list", "--json")
    assert listed.json["variables"] == [
        {"name": "DEMO_TOKEN", "skills": ["needy"], "scope": "project", "project": str(shell.project)}
    ]
    would = shell.run("env", "exec", "--dry-run", "--", "python3", "-c", SHOW)
    assert would.out == "would run python3 with DEMO_TOKEN\n"
    outputs = [each.raw + each.raw_err for each in (enabled, listed, would, shell.run("doctor"))]
    nowhere(shell, stored.stdout, stored.stderr, *outputs)
    assert shell.run("env", "unset", "DEMO_TOKEN").status == 0
    assert kept(shell) == []
    assert shell.run("env", "exec", "--", "python3", "-c", SHOW).out == "None\n"
    assert shell.run("env", "unset", "DEMO_TOKEN").status == 3


def test_a_typed_value_is_not_shown(shell):
    done = shell.at_terminal("env", "set", "DEMO_TOKEN", say=[("(not shown): ", f"{VALUE}\n")])
    assert done.status == 0
    assert VALUE not in done.out
    assert kept(shell) == [VALUE]


@pytest.mark.parametrize("value", ["", "\n", b"\xff\xfe", "a\0b", "x" * 2_000_000])
def test_an_invalid_value_is_refused(shell, value):
    done = piped(shell, "env", "set", "DEMO_TOKEN", "--json", value=value)
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, "usage")
    assert shell.run("env", "list", "--json").json == {"schema": 1, "variables": []}


def test_one_trailing_line_break_is_not_part_of_a_value(shell):
    for value in (VALUE, f"{VALUE}\n", f"{VALUE}\r\n"):
        assert piped(shell, "env", "set", "DEMO_TOKEN", value=value).returncode == 0
        assert kept(shell) == [VALUE]


def test_json_at_a_terminal_asks_no_question(shell):
    assert shell.at_terminal("env", "set", "DEMO_TOKEN", "--json").status == 2


def test_a_locked_keyring_changes_nothing_and_is_not_quoted(shell):
    piped(shell, "env", "set", "DEMO_TOKEN")
    before = shell.files()
    for words in (("env", "set", "DEMO_TOKEN", "--json"), ("env", "unset", "DEMO_TOKEN", "--json")):
        done = piped(shell, *words, TEST_KEYRING_LOCKED="1")
        assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (7, "state")
        assert shell.environ["TEST_KEYRING"].encode() not in done.stdout + done.stderr
    assert shell.files() == before


@pytest.mark.parametrize("backend", ["keyring.backends.fail.Keyring", "keyring.backends.null.Keyring"])
def test_a_missing_keyring_is_an_error(shell, backend):
    done = piped(shell, "env", "set", "DEMO_TOKEN", "--json", PYTHON_KEYRING_BACKEND=backend)
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, "usage")
    assert shell.run("env", "list", "--json").json == {"schema": 1, "variables": []}


def test_a_dry_run_asks_for_no_value_and_stores_none(shell):
    assert shell.run("env", "set", "DEMO_TOKEN", "--dry-run").out.startswith("would store DEMO_TOKEN for needy")
    piped(shell, "env", "set", "DEMO_TOKEN")
    before = shell.files()
    assert shell.run("env", "unset", "DEMO_TOKEN", "--dry-run").status == 0
    assert (shell.files(), kept(shell)) == (before, [VALUE])
