"""An unreadable ``skillhub.toml``, the commit that ``show`` prints, and ``--project`` in hints."""

from __future__ import annotations

import shlex

import pytest

from tests.support.gitrepos import Repo

BROKEN = {
    "cut off": b"[skills",
    "not UTF-8": b"\xff\xfe",
    "a number": b"[skills]\ncode-review = 5\n",
    "no range": b'[skills]\ncode-review = "github:code-review"\n',
    "unknown key": b"[policy]\nx = 1\n",
    "conflict": b"<<<<<<< HEAD\n",
}


@pytest.mark.parametrize("how", BROKEN)
def test_list_and_verify_warn_of_an_unreadable_intent_and_doctor_names_it(shell, how):
    (shell.project / "skillhub.toml").write_bytes(BROKEN[how])
    for words in (("list",), ("list", "--json"), ("verify",), ("verify", "--json")):
        done = shell.run(*words)
        assert (done.status, "warning: " in done.err, "skillhub.toml" in done.err) == (0, True, True), words
    checks = {each["name"]: each for each in shell.run("doctor", "--json").json["checks"]}
    assert (checks["skillhub.toml"]["ok"], "policy" in checks) == (False, False)
    shell.write("hub/config/policy.toml", "x = 1")
    checks = {each["name"]: each["ok"] for each in shell.run("doctor", "--json").json["checks"]}
    assert (checks["skillhub.toml"], checks["policy"]) == (False, False)


@pytest.mark.parametrize("text", ["skills = 3", "a = = b", "[[audit.suppress]]\nexpires = soon"])
def test_a_broken_intent_has_a_hint_and_list_does_not_say_that_nothing_is_installed(shell, text):
    shell.write("project/skillhub.toml", text)
    error = shell.run("install", "--json").error
    assert (error["code"], error["hint"]) == (
        "format",
        "correct it, or restore it from version control, if that has it",
    )
    assert "; correct it, or restore it from version control" in shell.run("list").err
    assert "no skills are installed here" not in shell.run("list").err


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("5", "expected a string or a table, found '5'"),
        ("true", "expected a string or a table"),
        ("[]", "expected a string or a table"),
        ('"github:code-review"', "expected a version or a range"),
        ('""', "expected a text that is not empty"),
    ],
)
def test_a_line_of_the_intent_is_named_by_its_skill(shell, value, message):
    shell.write("project/skillhub.toml", f"[skills]\ncode-review = {value}\n")
    error = shell.run("install", "--json").error
    assert error["where"].endswith("skillhub.toml: skills.code-review")
    assert message in error["message"]
    assert ("a place is a table" in error["hint"]) is (":" in value)


def test_an_unknown_trusted_source_gives_the_proposed_names_as_hint(shell):
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    wrong = f"acme=sha256:{'3' * 64}"
    error = shell.run("install", "--frozen", "--yes", "--trust-source", wrong, "--json").error
    assert (error["code"], error["hint"]) == ("usage", "it proposes none that you do not have")
    proposed = "".join(f'[sources.{each}]\nurl = "https://{each}.example"\n' for each in ("site", "team"))
    root = f'root = "sha256:{"4" * 64}"\n'
    shell.write("project/skillhub.toml", f"{proposed}{root}")
    error = shell.run("install", "--yes", "--trust-source", wrong, "--json").error
    assert error["hint"] == "it proposes site, team"


def test_show_prints_the_commit_of_a_skill_from_git(shell):
    repo = Repo(shell.folder / "repo.git")
    rev = repo.commit({"SKILL.md": b"---\nname: deploy\ndescription: Deploys.\n---\nDo it.\n"})
    for name in (f"git+{repo.url}", "deploy"):
        out = shell.run("show", name).out
        assert out.startswith("deploy\n")
        assert f"  commit        {rev[:12]}\n" in out
        assert shell.run("install", f"git+{repo.url}", "--yes", "--allow-unsigned").status == 0
    assert "commit" not in shell.run("show", "deploy", "--json").json


@pytest.mark.parametrize("folder", ["project", "./a b", "-x"])
def test_hints_repeat_the_project_option(shell, folder):
    (shell.folder / folder).mkdir(exist_ok=True)
    shell.skill("mine")
    project = ("--project", folder) if folder[0] != "-" else (f"--project={folder}",)
    done = shell.run("install", "./mine", "--yes", "--allow-unsigned", "--no-enable", *project, cwd=shell.folder)
    typed = shlex.split(done.err.strip().splitlines()[-1].rpartition(": ")[2])
    assert typed[:3] == ["skillhub", "enable", "mine"]
    assert shell.run(*typed[1:], cwd=shell.folder).status == 0
    assert (shell.folder / folder / ".agents/skills/mine/SKILL.md").exists()
    assert "--project" not in shell.run("install", "./absent", cwd=shell.folder).err
