"""The entry that runs ``skillhub mcp``: shown, written with consent, and removed if it is unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib

import pytest
import yaml

from skillhub.project.mcp_config import DIALECTS, agents_with_file
from tests.support.cli import Shell
from tests.support.here import Here

pytest.importorskip("mcp")
CLAUDE = ("--agent", "claude-code")


@pytest.fixture
def here(tmp_path):
    return Here(tmp_path)


def entry(here, path=".mcp.json"):
    return json.loads((here.project / path).read_text().replace("// mine", ""))["mcpServers"].get("skillhub")


@pytest.mark.parametrize("agent", DIALECTS)
def test_print_config_shows_the_entry_of_every_agent(here, agent):
    flags = () if agent in agents_with_file("project") else ("-g",)
    done = here.run("mcp", "--print-config", agent, *flags)
    assert done.status == 0, done.err
    load = {"codex": tomllib.loads, "continue": yaml.safe_load, "goose": yaml.safe_load}.get(agent, json.loads)
    parsed = load(done.out)
    answer = here.run("mcp", "--print-config", agent, "--json", *flags).json
    found = parsed[DIALECTS[agent].key]
    found = {each.pop("name"): each for each in found} if agent == "continue" else found
    assert found["skillhub"] == answer["entry"]
    assert answer["path"] in done.err.replace("\n", "").replace(" ", "") or done.err
    assert not os.path.exists(answer["path"])


def test_the_written_entry_starts_in_any_folder_and_environment(here, tmp_path):
    assert here.run("mcp", "install", *CLAUDE, "--yes").status == 0
    found = entry(here)
    assert os.path.isabs(found["command"])
    assert found["args"][-2:] == ["--project", str(here.project)]
    hostile = tmp_path / "hostile"
    for name in ("skillhub/__init__.py", "json.py", "sitecustomize.py"):
        (hostile / name).parent.mkdir(parents=True, exist_ok=True)
        (hostile / name).write_text("open('RAN', 'w')")
    at = found["args"].index("mcp")
    done = subprocess.run(
        [found["command"], *found["args"][:at], "--version"],
        cwd=hostile,
        env={"PYTHONPATH": str(hostile), "PYTHONSTARTUP": str(hostile / "json.py"), "PATH": ""},
        capture_output=True,
        check=True,
    )
    assert done.stdout.startswith(b"skillhub ")
    assert not (hostile / "RAN").exists()


def test_a_project_whose_path_an_agent_would_expand_gets_no_entry(here):
    folder = here.folder / "of-$USER"
    folder.mkdir()
    done = here.run("mcp", "install", *CLAUDE, "--yes", "--json", cwd=folder)
    assert (done.status, done.error["code"], done.error["where"]) == (7, "state", str(folder))
    assert "which an agent would expand" in done.error["message"]
    hint = done.error["hint"].partition("for all projects: skillhub ")[2]
    assert here.run(*hint.split(), "--yes", cwd=folder).status == 0
    assert not (folder / ".mcp.json").exists()


def test_the_entry_is_written_with_consent_and_removed(here):
    before = '{\n  // mine\n  "mcpServers": {"other": {"command": "x"}}\n}\n'
    here.write("project/.mcp.json", before)
    done = here.run("mcp", "install", *CLAUDE, "--json")
    assert (done.status, [each["kind"] for each in done.json["questions"]]) == (6, ["mcp-serve"])
    assert (here.project / ".mcp.json").read_text() == before
    assert here.run("mcp", "install", *CLAUDE, "--yes", "--dry-run").status == 0
    assert (here.project / ".mcp.json").read_text() == before
    done = here.run("mcp", "install", *CLAUDE, "--yes", "--json")
    assert (done.status, done.json["changed"]) == (0, True)
    assert entry(here) == done.json["entries"][0]["entry"]
    again = here.run("mcp", "install", *CLAUDE, "--yes", "--json")
    assert (again.json["changed"], again.json["questions"]) == (False, [])
    assert here.run("mcp", "remove", *CLAUDE, "--dry-run").status == 0
    assert entry(here)
    assert here.run("mcp", "remove", *CLAUDE, "--json").json["changed"] is True
    assert (here.project / ".mcp.json").read_text() == before
    assert here.run("mcp", "remove", *CLAUDE, "--json").json["changed"] is False


def test_an_entry_of_the_user_names_no_project(here):
    assert here.run("mcp", "install", *CLAUDE, "-g", "--yes").status == 0
    found = json.loads((here.home / ".claude.json").read_text())["mcpServers"]["skillhub"]
    assert "--project" not in found["args"]
    assert here.run("mcp", "remove", *CLAUDE, "-g").status == 0


def test_an_entry_is_written_after_a_yes_at_a_terminal(tmp_path):
    shell = Shell(tmp_path)
    done = shell.at_terminal("mcp", "install", *CLAUDE, say=[("[N]o:", "n\n")])
    assert done.status == 6
    assert not (shell.project / ".mcp.json").exists()
    done = shell.at_terminal("mcp", "install", *CLAUDE, say=[("[N]o:", "y\n")])
    assert done.status == 0
    assert "do not commit it" in done.out
    assert entry(shell)


@pytest.mark.parametrize(
    "changed", [{"command": "/bin/evil"}, {"env": {"A": "b"}}, {"args": []}, {"disabled": True}], ids=str
)
def test_attack_a_changed_entry_is_neither_removed_nor_replaced(here, changed):
    assert here.run("mcp", "install", *CLAUDE, "--yes").status == 0
    document = {"mcpServers": {"skillhub": {**entry(here), **changed}}}
    here.write("project/.mcp.json", json.dumps(document))
    for verb in (("install", "--yes"), ("remove",)):
        done = here.run("mcp", verb[0], *CLAUDE, *verb[1:], "--json")
        assert (done.status, done.error["code"]) == (7, "state")
        assert json.loads((here.project / ".mcp.json").read_text()) == document


def test_attack_an_entry_of_the_repository_is_neither_removed_nor_replaced(here):
    here.write("project/.mcp.json", json.dumps({"mcpServers": {"skillhub": {"command": "evil"}}}))
    for verb in (("install", "--yes"), ("remove",)):
        done = here.run("mcp", verb[0], *CLAUDE, *verb[1:])
        assert done.status == 7
        assert ("theirs: it runs: evil; ours: it runs: " in done.err) == (verb[0] == "install")
    assert entry(here) == {"command": "evil"}


def test_an_entry_of_an_older_interpreter_is_replaced(here):
    assert here.run("mcp", "install", *CLAUDE, "--yes").status == 0
    path = here.hub / "state/mcp-entries.json"
    text = path.read_text()
    old = {**entry(here), "command": "/old/python"}
    state = json.loads(text)
    state["entries"] = dict.fromkeys(state["entries"], old)
    path.write_text(json.dumps(state))
    here.write("project/.mcp.json", json.dumps({"mcpServers": {"skillhub": old}}))
    done = here.run("mcp", "install", *CLAUDE, "--yes", "--json")
    assert (done.status, done.json["changed"]) == (0, True)
    assert entry(here)["command"] != "/old/python"


def test_an_older_entry_that_cannot_be_replaced_is_still_ours(here):
    assert here.run("mcp", "install", "--agent", "codex", "--yes").status == 0
    path, place = here.hub / "state/mcp-entries.json", here.project / ".codex/config.toml"
    for each in (path, place):
        each.write_text(each.read_text().replace(sys.executable, "/usr/bin/python-old"))
    ours = place.read_text()
    # tomlkit prints such a file otherwise, so it is not edited.
    place.write_text(f"[mcp_servers.other]\ncommand = 'x'\n\n[[hooks]]\na = 1\n\n{ours}")
    assert here.run("mcp", "install", "--agent", "codex", "--yes").status == 4
    place.write_text(ours)
    assert here.run("mcp", "remove", "--agent", "codex", "--dry-run").status == 0
    assert here.run("mcp", "install", "--agent", "codex", "--yes").status == 0
    assert sys.executable in place.read_text()


def test_attack_a_link_that_leads_the_entry_out_of_the_project_is_refused(here):
    (here.folder / "outside.json").write_text("{}")
    (here.project / ".mcp.json").symlink_to(here.folder / "outside.json")
    assert here.run("mcp", "install", *CLAUDE, "--yes").status == 7
    assert (here.folder / "outside.json").read_text() == "{}"


def test_an_unparsable_file_stays_unchanged(here):
    here.write("project/.mcp.json", '{"mcpServers": [')
    assert here.run("mcp", "install", *CLAUDE, "--yes").status == 4
    assert (here.project / ".mcp.json").read_text() == '{"mcpServers": ['


@pytest.mark.parametrize(
    "words", [("install",), ("remove",), ("install", "--agent", "nobody"), ("install", "--agent", "goose")]
)
def test_a_missing_or_unsupported_agent_is_a_usage_error(here, words):
    done = here.run("mcp", *words, "--yes", "--json")
    assert done.status == 2
    assert done.error["hint"]


@pytest.mark.parametrize(
    ("agent", "hint"),
    [
        ("nobody", f"agents with a file for MCP servers: {', '.join(DIALECTS)}"),
        ("adal", f"agents with a file for MCP servers: {', '.join(DIALECTS)}"),
        ("codx", "did you mean codex?"),
    ],
)
def test_the_hint_for_a_wrong_agent_names_only_agents_with_a_file(here, agent, hint):
    done = here.run("mcp", "--print-config", agent, "--json")
    assert (done.status, done.error["hint"]) == (2, hint)


def test_one_agent_without_a_file_writes_no_entry_for_others(shell):
    before = shell.files()
    done = shell.run("mcp", "install", "--agent", "claude-code", "--agent", "windsurf", "--yes")
    assert done.status == 2
    assert not (shell.project / ".mcp.json").exists()
    assert {path for path in shell.files() if path.startswith(str(shell.project))} <= {*before}


def test_two_entries_of_skillhub_are_one_server_to_mcp_check(shell):
    done = shell.run("mcp", "install", "--agent", "claude-code", "--agent", "cursor", "--yes")
    assert done.status == 0, done.err
    checked = shell.run("mcp", "check", "skillhub")
    assert "is not the same server" not in checked.err
    assert checked.status == 6  # no answer was given


@pytest.mark.parametrize("flags", [(), ("-g",)])
@pytest.mark.parametrize("agent", ["cursor", "codex", "opencode"])
def test_remove_deletes_files_and_folders_created_for_the_entry(here, agent, flags):
    before = here.run("agents", "--json").json
    place = here.home if flags else here.project
    for more in ((), ("keep",)):
        assert here.run("mcp", "install", "--agent", agent, "--yes", *flags).status == 0
        written = here.run("mcp", "--print-config", agent, "--json", *flags).json["path"]
        if more:
            (place / os.path.dirname(written) / "mine").write_text("x")
        assert here.run("mcp", "remove", "--agent", agent, *flags).status == 0
        assert not os.path.exists(written)
        if not more:
            assert here.run("agents", "--json").json == before
    assert (place / os.path.dirname(written) / "mine").exists()


def test_an_existing_empty_file_stays_after_remove(here):
    for text in ("", "{}", '{"mcpServers": {}}\n'):
        here.write("project/.cursor/mcp.json", text)
        assert here.run("mcp", "install", "--agent", "cursor", "--yes").status == 0
        assert here.run("mcp", "remove", "--agent", "cursor").status == 0
        assert (here.project / ".cursor/mcp.json").exists()


def test_the_hint_for_all_agents_names_them(here):
    hint = here.run("mcp", "install", "--json").error["hint"]
    assert hint.startswith("skillhub mcp install --agent AGENT; AGENT is one of amp, claude-code, ")
    here.write("project/.cursor/x", "")
    for words in (("--agent", "all"), ()):
        done = here.run("mcp", "install", *words, "--yes", "--json")
        assert (done.status, done.error["hint"]) == (2, "skillhub mcp install --agent cursor")
    assert here.run(*done.error["hint"].split()[1:], "--yes").status == 0


def test_install_warns_of_a_custom_skillhub_home(here):
    assert "start with the same SKILLHUB_HOME" in here.run("mcp", "install", *CLAUDE, "--yes").err
