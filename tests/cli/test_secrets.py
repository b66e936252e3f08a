"""A value given on the command line serves that command and is in no file, output or traceback."""

from __future__ import annotations

import os

import pytest

SECRET = "hunter2-correct-horse"
NEEDY = "dependencies:\n  tools:\n    - type: env_var\n      value: DEMO_TOKEN\n"
BROKEN = """\
import shutil


def broken(*words, **more):
    raise RuntimeError(words, more)


shutil.which = broken
"""


def nowhere(shell, *outputs):
    assert not any(SECRET in done.out + done.err for done in outputs)
    assert not any(SECRET.encode() in data for path, data in shell.files().items() if not path.endswith(".env"))


@pytest.fixture
def needy(shell):
    shell.skill("project/needy", **{"agents/openai.yaml": NEEDY})
    return shell


GIVEN = [
    (("--env", f"DEMO_TOKEN={SECRET}"), {}),
    (("--env", "DEMO_TOKEN"), {"DEMO_TOKEN": SECRET}),
    (("--env-file", "../values.env"), {}),
    ((), {"DEMO_TOKEN": SECRET}),
]


@pytest.mark.parametrize(("flags", "environ"), GIVEN, ids=lambda each: " ".join(each)[:22])
def test_a_given_value_enables_the_skill_and_is_not_stored(needy, flags, environ):
    needy.write("values.env", f"# mine\nexport DEMO_TOKEN='{SECRET}'\n")
    words = ("install", "./needy", "--yes", "--allow-unsigned", "--json", "--verbose", *flags)
    done = needy.run(*words, **environ)
    assert done.status == 0, done.err
    assert done.json["skills"][0]["state"] == "enabled"
    assert done.json["skills"][0]["requires"][0]["satisfied"] is True
    nowhere(needy, done, needy.run("list", "--json"), needy.run("doctor"), needy.run("show", "needy", "--json"))
    assert needy.run("sync", "--json").json["skills"][0]["state"] == "enabled"


def test_an_empty_value_does_not_satisfy_a_need(needy):
    done = needy.run("install", "./needy", "--yes", "--allow-unsigned", "--env", "DEMO_TOKEN=")
    assert done.status == 6


def test_a_variable_that_the_process_does_not_have_is_a_usage_error(needy):
    done = needy.run("install", "./needy", "--yes", "--env", "DEMO_TOKEN", "--json")
    assert (done.status, done.error["code"]) == (2, "usage")


@pytest.mark.parametrize("content", [SECRET, f"DEMO_TOKEN {SECRET}\n", f"export {SECRET}\n"])
def test_a_malformed_file_is_not_quoted(needy, content):
    needy.write("values.env", content)
    done = needy.run("install", "./needy", "--yes", "--env-file", "../values.env", "--json")
    assert (done.status, done.error["code"]) == (2, "usage")
    assert done.error["where"].endswith("values.env:1")
    nowhere(needy, done)


def test_a_value_without_its_name_is_not_printed(needy):
    done = needy.run("install", "./needy", "--yes", "--env", SECRET, "--json")
    assert done.status == 2
    assert SECRET not in done.out + done.err


def test_an_internal_error_prints_no_values(needy):
    needy.write("bug/sitecustomize.py", BROKEN)
    (needy.project / ".claude").mkdir()
    server = "    - type: mcp\n      value: demo\n      transport: stdio\n      command: demo-server\n"
    needy.write("project/needy/agents/openai.yaml", NEEDY + server)
    done = needy.run(
        "install", "./needy", "--yes", "--allow-unsigned", "--env", f"DEMO_TOKEN={SECRET}", "--json",
        PYTHONPATH=f"{needy.folder}/bug{os.pathsep}{needy.environ['PYTHONPATH']}",
        SKILLHUB_TRACEBACK="1",
    )  # fmt: skip
    assert done.status == 70
    assert "in broken" in done.err
    nowhere(needy, done)


def test_a_skill_that_needs_a_forbidden_variable_is_refused(shell):
    for name in ("LD_PRELOAD", "path", "PYTHONPATH", "GIT_SSH_COMMAND", "https_proxy"):
        shell.skill("project/evil", **{"agents/openai.yaml": NEEDY.replace("DEMO_TOKEN", name)})
        done = shell.run("install", "./evil", "--yes", "--allow-unsigned", "--json")
        assert (done.status, done.error["code"]) == (5, "forbidden-variable")
    assert not (shell.project / "skillhub.lock").exists()
