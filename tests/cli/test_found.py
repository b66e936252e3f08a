"""Skills in agents' folders outside the lock: listed, shown, and reported if broken."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from skillhub.disk.folders import remove_tree
from skillhub.disk.installer import extra_command
from skillhub.model.finding import NO_PARSER, is_about_parsers
from skillhub.scan.code import PARSERS
from tests.support.cli import hidden_in

GOOD = "---\nname: good\ndescription: Does good.\n---\n\nDo it.\n"
BROKEN = {
    "no frontmatter": "x\n",
    "an empty file": "",
    "open frontmatter": "---\nname: bad\n",
    "bad frontmatter": "---\nname: [x\n---\n",
    "a key twice": "---\nname: bad\nname: bad\ndescription: d\n---\n",
    "no name": "---\ndescription: d\n---\n",
    "a name that is a path": "---\nname: ../x\ndescription: d\n---\n",
    "no description": "---\nname: bad\n---\n",
    "not UTF-8": b"---\nname: bad\ndescription: \xff\n---\n",
    "a NUL byte": b"---\nname: bad\ndescription: d\n---\n\0",
}


@pytest.fixture
def folder(shell):
    """Return an agent's folder with a valid skill in it."""
    shell.write("project/.claude/skills/good/SKILL.md", GOOD)
    return shell.project / ".claude/skills"


def bad(shell, *words):
    """Return the row of ``list`` for the broken skill; assert that the valid skill is listed, too."""
    done = shell.run("list", "--json", *words)
    assert done.status == 0
    found = {each["name"]: each for each in done.json["skills"]}
    assert found["good"]["description"] == "Does good."
    return found.get("bad")


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_skill_is_listed_and_hides_no_other(shell, folder, how):
    text = BROKEN[how]
    path = shell.write("project/.claude/skills/bad/SKILL.md", text).parent
    found = bad(shell)
    assert (found["managed"], found["state"], found["path"]) == (False, "enabled", str(path))
    assert (found["source"], found["tree"], found["links"]) == (None, None, [])
    assert found["description"].startswith("cannot be read: ")
    for words in ((), ("--verbose",)):
        done = shell.run("list", *words)
        assert done.status == 0
        assert [line.split()[:3] for line in done.out.splitlines() if line[:1] not in ("", " ")][1:] == [
            ["bad", "-", "(unmanaged)"],
            ["good", "-", "(unmanaged)"],
        ]
    done = shell.run("show", "bad", "--json")
    assert done.status in (4, 5)
    assert str(path) in done.error["where"]


def test_the_target_of_a_link_is_not_shown(shell, folder):
    secret = shell.write("secret", "hunter2\n")
    (folder / "bad").mkdir()
    (folder / "bad/SKILL.md").symlink_to(secret)
    assert bad(shell)["description"] == "cannot be read: expected a file, found a link"
    done = shell.run("show", "bad")
    assert done.status == 5
    assert "hunter2" not in done.out + done.err


def test_a_linked_optional_metadata_file_does_not_break_a_skill(shell, folder):
    (folder / "good/agents").mkdir()
    (folder / "good/agents/openai.yaml").symlink_to(shell.write("secret", "hunter2\n"))
    assert bad(shell) is None


def test_list_with_global_lists_a_broken_skill_of_the_user(shell):
    shell.write("home/.claude/skills/bad/SKILL.md", "x\n")
    shell.write("home/.claude/skills/good/SKILL.md", GOOD)
    assert bad(shell, "-g")["scope"] == "user"


def test_a_hostile_folder_name_is_escaped(shell, folder):
    for name in (b"e\x1b[31mvil", "\u200b".encode(), b"\xff"):
        os.mkdir(os.path.join(os.fsencode(folder), name))
        with open(os.path.join(os.fsencode(folder), name, b"SKILL.md"), "w") as file:
            file.write("x\n")
    done = shell.run("list")
    assert (done.status, hidden_in(done.raw)) == (0, [])
    names = [each["name"] for each in shell.run("list", "--json").json["skills"]]
    assert names == ["'\\u{200b}'", "'\\u{dcff}'", "e[31mvil", "good"]


def test_a_broken_skill_does_not_shadow_a_skill_of_the_user(shell, folder):
    assert shell.run("install", "github:release-notes", "--yes", "-g").status == 0
    shell.write("project/.claude/skills/release-notes/SKILL.md", "x\n")
    assert shell.run("list", "--json").json["shadowed"] == []


def test_show_and_list_give_the_same_row(shell, folder):
    shell.write("project/.claude/skills/good/scripts/run.sh", "echo\n")
    done = shell.run("show", "good", "--json")
    (listed,) = shell.run("list", "--json").json["skills"]
    assert {key: done.json[key] for key in listed} == {**listed, "capabilities": ["scripts"]}
    assert [each["path"] for each in done.json["files"]] == ["SKILL.md", "scripts/run.sh"]
    assert (done.json["manifest"]["description"], done.json["releases"]) == ("Does good.", [])
    text = shell.run("show", "good").out
    assert "(unmanaged)" in text
    assert "not installed" not in text
    # A source's skill of that name is still shown by its reference.
    shell.skill("project/.claude/skills/code-review")
    assert shell.run("show", "code-review", "--json").json["source"] is None
    assert shell.run("show", "github:code-review", "--json").json["source"] == "github"


def test_show_scans_a_skill_outside_the_lock_as_install_does(shell, folder):
    shell.write("project/.claude/skills/good/scripts/run.sh", "curl https://x.example/a\n")
    found = shell.run("show", "good", "--json").json["capabilities"]
    assert found == shell.run("show", "./.claude/skills/good", "--json").json["capabilities"]
    assert "network:x.example" in found
    assert "network: none seen" not in shell.run("show", "good").out


@pytest.fixture
def tampered(shell, folder):
    """Sign the skill in the agent's folder, then change its text."""
    assert shell.run("key", "new").status == 0
    assert shell.run("sign", "./.claude/skills/good").status == 0
    shell.write("project/.claude/skills/good/SKILL.md", GOOD + "More.\n")
    return folder / "good"


def test_show_says_whether_the_signature_of_a_skill_outside_the_lock_fits(shell, tampered):
    done = shell.run("show", "good")
    assert done.status == 0
    assert "nobody: its signature does not fit" in done.out
    assert "does not fit: changed since it was signed" in done.err and "('SKILL.md')" in done.err
    assert "does not fit" in shell.run("show", "good", "--json").json["warnings"][0]
    (tampered / "SKILL.md").write_text(GOOD)
    done = shell.run("show", "good")
    assert "signed by" in done.out
    assert "(not signed)" not in done.out and "does not fit" not in done.out + done.err
    assert shell.run("show", "good", "--json").json["trust"] == "signed"


def test_list_does_not_call_a_skill_unsigned_whose_signature_it_has_not_checked(shell, tampered):
    shell.write("project/.claude/skills/plain/SKILL.md", GOOD.replace("good", "plain"))
    good, plain = shell.run("list").out.splitlines()[1:]
    assert " not checked " in good
    assert " unsigned " in plain


def test_the_hint_about_an_unreadable_skill_outside_the_lock_removes_it(shell, folder):
    (folder / "good/link").symlink_to("/nowhere")
    findings = shell.run("audit", "good", "--json").json["findings"]
    assert [each["hint"] for each in findings if each["rule"] == "unsafe-archive"] == [
        "rm -r .claude/skills/good removes it"
    ]


def test_attack_the_hint_about_a_folder_with_a_hidden_character_removes_no_other_skill(shell, folder):
    hostile = folder / "good\u200b"
    shell.write("project/.claude/skills/good\u200b/SKILL.md", GOOD.replace("good", "good\u200b"))
    (hint,) = [each for each in shell.run("audit").out.splitlines() if "rm -r" in each]
    command = hint.rpartition("; ")[2].removesuffix(" removes it")
    subprocess.run(["sh", "-c", command], cwd=folder.parents[1], check=True)
    assert (hostile.exists(), (folder / "good").is_dir()) == (False, True)


def test_audit_names_the_changed_file_and_the_command_that_removes_a_skill_outside_the_lock(shell, tampered):
    def hint(*words, cwd=None):
        findings = shell.run(*words, "--json", cwd=cwd).json["findings"]
        (finding,) = [each for each in findings if each["rule"] == "signature"]
        assert finding["message"].startswith("'SKILL.md': changed since it was signed")
        return finding["hint"]

    assert hint("audit", "good") == "rm -r .claude/skills/good removes it"
    assert hint("audit", "./.claude/skills/good") == "do not use it"
    # A folder below the project may have a skill at the same relative path.
    below = shell.write("project/src/x", "").parent
    assert hint("audit", "good", "--project", "..", cwd=below) == f"rm -r {tampered} removes it"
    tampered.rename(tampered.with_name("it's"))
    assert hint("audit") == "rm -r '.claude/skills/it'\"'\"'s' removes it"


def test_remove_of_a_skill_outside_the_lock_names_the_command_that_removes_it(shell, folder):
    shell.skill("project/src/goad")
    assert shell.run("install", "./src/goad", "--yes", "--allow-unsigned").status == 0
    done = shell.run("remove", "good", "--json")
    assert (done.status, done.error["code"]) == (3, "not-found")
    assert done.error["hint"] == "an agent's folder has it, and no lock: rm -r .claude/skills/good removes it"
    shell.write("project/.claude/skills/it's/SKILL.md", GOOD)
    both = "rm -r .claude/skills/good && rm -r '.claude/skills/it'\"'\"'s' removes it"
    assert shell.run("remove", "good", "--json").error["hint"].endswith(both)
    assert "did you mean goad?" in shell.run("remove", "gaod", "--json").error["hint"]
    assert "did you mean goad?" in shell.run("update", "local:goad@2.0.0", "--json").error["hint"]
    again = shell.run("update", "goad@2.0.0", "--json")
    assert again.error["hint"] == "to install another version: skillhub install goad@2.0.0"
    done = shell.run("remove", "goad", "gaod", "--json")
    assert "did you mean goad?" in done.error["hint"]


def test_the_hint_about_an_agents_folder_that_is_a_skill_keeps_the_skills_in_it(shell, tampered):
    for path in tampered.iterdir():
        path.rename(tampered.parent / path.name)
    findings = shell.run("audit", "skills", "--json").json["findings"]
    assert [each["hint"] for each in findings if each["rule"] == "signature"] == [
        "rm .claude/skills/SKILL.md removes it"
    ]


def test_list_and_show_mark_an_edited_copy_and_keep_its_state(shell):
    shell.skill("project/src/mine")
    assert shell.run("install", "./src/mine", "--yes", "--allow-unsigned").status == 0
    (row,) = shell.run("list", "--json").json["skills"]
    assert (row["state"], row["edited"]) == ("enabled", [])
    copy = shell.project / ".agents/skills/mine"
    for change in (
        lambda: shell.write("project/.agents/skills/mine/more.txt", "x"),
        lambda: os.unlink(copy / "SKILL.md"),
    ):
        change()
        for row in (shell.run("list", "--json").json["skills"][0], shell.run("show", "mine", "--json").json):
            assert (row["state"], row["edited"]) == ("enabled", [str(copy)])
        shown = shell.run("list").out
        assert " edited " in shown and "skillhub diff mine" in shown
        assert "edited" in shell.run("show", "mine").out
    assert shell.run("sync", "--yes").status == 0
    assert shell.run("list", "--json").json["skills"][0]["edited"] == []


def test_list_says_that_the_copies_of_an_enabled_skill_are_missing(shell):
    shell.skill("project/src/mine")
    assert shell.run("install", "./src/mine", "--agent", "claude-code", "--yes", "--allow-unsigned").status == 0
    copies = [shell.project / folder / "skills/mine" for folder in (".agents", ".claude")]
    said = "enabled, but missing in the agents' folders: mine; skillhub sync restores them"
    remove_tree(str(copies[0]))
    shown = shell.run("list").out
    assert " missing " not in shown.partition("enabled, but")[0]
    assert said.replace(": mine;", ": .agents/skills/mine;") in shown
    remove_tree(str(copies[1]))
    for _ in range(2):
        shown = shell.run("list").out
        assert " missing " in shown and said in shown
    assert "skillhub sync restores" in shell.run("load", "mine", "--json").error["hint"]
    assert shell.run("list", "--json").json["skills"][0]["state"] == "enabled"
    assert shell.run("sync").status == 0
    assert " missing " not in shell.run("list").out


def test_list_says_that_an_unmanaged_copy_of_a_locked_name_is_enabled_whatever_the_locked_one_is(shell):
    shell.skill("project/src/mine")
    assert shell.run("install", "./src/mine", "--yes", "--allow-unsigned").status == 0
    remove_tree(str(shell.hub / "state/projects"))  # as on a machine whose user agreed to nothing
    rows = [line.split()[:6] for line in shell.run("list").out.splitlines() if line.startswith("mine ")]
    assert rows[0][3:6] == ["not", "agreed", "to"]
    assert rows[1][2:5] == ["(unmanaged)", ".agents/skills/mine", "enabled"]


def test_list_shows_the_folder_of_an_unmanaged_skill_that_shares_its_name(shell, folder):
    assert "(unmanaged) ." not in shell.run("list").out
    shell.write("project/.claude/skills/other/SKILL.md", GOOD)
    shown = shell.run("list").out
    assert "(unmanaged) .claude/skills/good " in shown and "(unmanaged) .claude/skills/other " in shown


def test_an_unmanaged_skill_is_meant_by_its_own_name_and_by_that_of_its_folder(shell):
    shell.write("project/.claude/skills/folder/SKILL.md", GOOD.replace("name: good", "name: own"))
    for name in ("own", "folder"):
        assert shell.run("show", name, "--json").json["name"] == "own"
        found = shell.run("audit", name, "--json").json["findings"]
        assert [(each["skill"], each["rule"]) for each in found] == [("folder", "unmanaged")]
        for command, state in (("disable", "disabled"), ("enable", "enabled")):
            assert shell.run(command, name).status == 0
            assert [each["state"] for each in shell.run("list", "--json").json["skills"]] == [state]
        adopted = shell.run("adopt", name, "--dry-run")
        assert "its SKILL.md names it own; rename the folder or the skill" in adopted.out + adopted.err
    shell.write("project/.claude/skills/other/SKILL.md", GOOD.replace("name: good", "name: folder"))
    assert shell.run("show", "folder", "--json").json["name"] == "folder"  # as ``list`` shows it


def test_show_names_the_capabilities_of_an_unmanaged_skill_which_list_does_not_scan(shell, folder):
    shell.write("project/.claude/skills/good/run.sh", "#!/bin/sh\necho 1\n")
    (row,) = shell.run("list", "--json").json["skills"]
    assert (row["managed"], row["capabilities"]) == (False, [])
    assert shell.run("show", "good", "--json").json["capabilities"] == ["scripts"]
    assert "show NAME scans it" in " ".join(shell.run("list", "--help").out.split())


def test_an_empty_list_names_a_skill_only_of_a_source_that_is_configured(shell):
    assert "skillhub install github:code-review" in shell.run("list").err
    assert shell.run("source", "remove", "github", "--yes").status == 0
    assert "github" not in shell.run("list").err


def test_attack_a_skill_in_an_agents_folder_below_the_project_is_audited(shell):
    nested = ("src/.claude/skills/good", "src/web/.agents/skills/more/good", "node_modules/x/.claude/skills/good")
    for path in (*nested, ".roo/skills-code/good", ".new/skills/good", ".new/skillset/good", ".claude/skills/it"):
        shell.write(f"project/{path}/SKILL.md", GOOD)
    own = shell.write("project/own/skillhub.toml", "").parent
    shell.skill("project/own/src/mine")
    assert shell.run("install", "./src/mine", "--yes", "--allow-unsigned", cwd=own).status == 0
    shell.write("project/own/.agents/skills/good/SKILL.md", GOOD)
    findings = shell.run("audit", "--json").json["findings"]
    assert {each["path"] for each in findings if each["rule"] == "unmanaged"} == {
        *nested[:2],
        *(".claude/skills/it", ".new/skills/good", ".roo/skills-code/good", "own/.agents/skills/good"),
    }


@pytest.mark.parametrize("parent", [".opencode", ".codex", ".github", ".gemini", ".agent"])
def test_a_folder_that_only_a_host_reads_is_listed_audited_and_adopted(shell, parent):
    shell.write(f"project/{parent}/skills/good/SKILL.md", GOOD)
    assert [each["name"] for each in shell.run("list", "--json").json["skills"]] == ["good"]
    (finding,) = shell.run("audit", "--json").json["findings"]
    assert (finding["skill"], finding["rule"]) == ("good", "unmanaged")
    assert f"{parent}/skills (project)" in shell.run("doctor").out
    assert shell.run("adopt", "good", "--yes", "--allow-unsigned").status == 0
    assert [each["source"] for each in shell.run("list", "--json").json["skills"]] == ["local"]


@pytest.fixture
def unparsed(shell, monkeypatch):
    """Two skills, each with two shell scripts, on a machine without the parsers."""
    for name in PARSERS.values():
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("one", "two"):
        path = shell.skill(f"src/{name}")
        for script in ("a.sh", "b.sh"):
            shell.write(str((path / script).relative_to(shell.folder)), 'eval "$1"\n')
    return "../src/one", "../src/two"


@pytest.mark.parametrize("words", [("install", "--yes", "--allow-unsigned"), ("audit",)])
def test_missing_parsers_are_reported_once_in_a_command_with_what_installs_them(shell, unparsed, words):
    done = shell.run(*words, *unparsed)
    text = done.out + done.err
    assert (
        text.count("are not installed [SH609]")
        == text.count(f"to install the parsers: {extra_command('audit')}")
        == 1
    )


def test_the_report_for_programs_has_each_file_that_was_not_parsed(shell, unparsed):
    found = shell.run("audit", *unparsed, "--json").json["findings"]
    assert [each["path"].rpartition("/")[2] for each in found if each["rule"] == "SH609"] == ["a.sh", "b.sh"] * 2
    warnings = shell.run("use", unparsed[0], "--json").json["warnings"]
    assert len([each for each in warnings if each.endswith("[SH609]")]) == 2


@pytest.mark.parametrize("line", ["high: a: {} [SH101]", "| low: a: {} [SH609]", "low: a: {} [SH609] then"])
def test_attack_a_text_about_the_parsers_hides_no_other_line(line):
    assert not is_about_parsers(line.format(NO_PARSER))
