import os

import pytest

from skillhub.errors import UsageError
from skillhub.model import hosts
from skillhub.project.mcp_config import agents_with_file, config_file

HOME = os.path.join(os.sep, "home", "u")
PROJECT = os.path.join(os.sep, "work", "p")


def folder(name, scope, **environ):
    path = hosts.skill_folder(hosts.host(name), scope, PROJECT, HOME, environ)
    return path and path.replace(os.sep, "/")


def detected(*paths, **environ):
    there = {path.replace("/", os.sep) for path in paths}
    return [each.id for each in hosts.detect(PROJECT, HOME, environ, there.__contains__)]


def test_table_of_agents_is_complete_and_valid():
    table = hosts.hosts()
    assert len(table) == 79
    assert all(each.id == key and each.name for key, each in table.items())
    for each in table.values():
        assert each.project_dir or each.user_dir
        for path in (each.project_dir, each.user_dir, *each.other_dirs, *each.config):
            assert path is None or ".." not in path.split("/")
            assert path is None or not path.startswith("/")
        assert each.user_dir is None or each.user_dir.startswith("~/")
        if each.user_dir_env:
            assert each.user_dir.count("/") == 2, "the variable stands for the first segment"


def test_table_is_read_once_and_immutable():
    assert hosts.hosts() is hosts.hosts()
    with pytest.raises(TypeError):
        hosts.hosts()["x"] = hosts.host("codex")


@pytest.mark.parametrize(
    ("name", "scope", "environ", "expected"),
    [
        ("claude-code", "project", {}, "/work/p/.claude/skills"),
        ("claude-code", "user", {}, "/home/u/.claude/skills"),
        ("claude-code", "user", {"CLAUDE_CONFIG_DIR": "/etc/c"}, "/etc/c/skills"),
        ("claude-code", "user", {"CLAUDE_CONFIG_DIR": "~/c"}, "/home/u/c/skills"),
        ("claude-code", "user", {"CLAUDE_CONFIG_DIR": ""}, "/home/u/.claude/skills"),
        ("claude-code", "user", {"CLAUDE_CONFIG_DIR": "relative"}, "/home/u/.claude/skills"),
        ("claude-code", "project", {"CLAUDE_CONFIG_DIR": "/etc/c"}, "/work/p/.claude/skills"),
        ("mistral-vibe", "user", {"VIBE_HOME": "/v"}, "/v/skills"),
        ("codex", "project", {}, "/work/p/.agents/skills"),
        ("codex", "user", {"CLAUDE_CONFIG_DIR": "/etc/c"}, "/home/u/.agents/skills"),
        ("opencode", "user", {}, "/home/u/.config/opencode/skills"),
        ("opencode", "user", {"XDG_CONFIG_HOME": "/x"}, "/x/opencode/skills"),
        ("opencode", "user", {"XDG_CONFIG_HOME": "x"}, "/home/u/.config/opencode/skills"),
        ("cortex", "user", {}, "/home/u/.snowflake/cortex/skills"),
        ("openclaw", "project", {}, "/work/p/skills"),
        ("eve", "user", {}, None),
        ("vscode", "user", {}, "/home/u/.copilot/skills"),
    ],
)
def test_folder_of_an_agent(name, scope, environ, expected):
    assert folder(name, scope, **environ) == expected


def test_the_folders_read_are_those_of_every_agent_and_of_every_host():
    read = {
        scope: hosts.folders_read(None, scope, PROJECT, HOME, {"CODEX_HOME": "/c"}) for scope in ("project", "user")
    }
    assert {f"{PROJECT}/{each}/skills" for each in (".claude", ".factory", ".opencode", ".codex")} <= {
        *read["project"]
    }
    assert {f"{HOME}/.claude/skills", f"{HOME}/.opencode/skill", "/c/skills"} <= {*read["user"]}
    only = hosts.folders_read([hosts.host("opencode")], "project", PROJECT, HOME, {})
    assert f"{PROJECT}/.opencode/skills" in only and f"{PROJECT}/.codex/skills" not in only


def test_unknown_agent_is_a_usage_error_with_similar_names():
    with pytest.raises(UsageError) as caught:
        hosts.host("claude")
    assert "claude-code" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        hosts.host("\x1b[31m")
    assert "\x1b" not in caught.value.message
    assert caught.value.hint.endswith("; `all` means all of them")


def test_alias_names_the_agent():
    assert hosts.host("vscode") is hosts.host("github-copilot")


def test_agent_is_detected_by_its_folder():
    assert detected("/home/u/.claude") == ["claude-code"]
    assert detected("/work/p/.claude") == ["claude-code"]
    assert detected("/home/u/.codex") == ["codex"]
    assert detected("/work/p/.cursor", "/home/u/.config/opencode") == ["cursor", "opencode"]
    assert detected("/c", CLAUDE_CONFIG_DIR="/c") == ["claude-code"]
    assert detected("/x/opencode", XDG_CONFIG_HOME="/x") == ["opencode"]
    assert [each.id for each in hosts.detect(PROJECT, HOME, {}, lambda path: path.endswith("goose"))] == ["goose"]


@pytest.mark.parametrize(
    ("path", "agent"),
    [
        ("/work/p/.mcp.json", "claude-code"),
        ("/home/u/.claude.json", "claude-code"),
        ("/work/p/.vscode/mcp.json", "github-copilot"),
        ("/work/p/.github/copilot-instructions.md", "github-copilot"),
        ("/home/u/.config/Code/User/mcp.json", "github-copilot"),
        ("/work/p/opencode.json", "opencode"),
        ("/work/p/opencode.jsonc", "opencode"),
    ],
)
def test_agent_is_detected_by_a_file_of_its_own(path, agent):
    assert detected(path) == [agent]


@pytest.mark.parametrize("agent", agents_with_file("project"))
def test_agent_is_detected_by_its_file_of_servers(agent):
    file = config_file(agent, "project", PROJECT, HOME, {})
    above = [os.path.dirname(file.path), os.path.dirname(os.path.dirname(file.path))]
    there = (file.path, *(each for each in above if each.startswith(f"{PROJECT}/")))
    assert [each for each in detected(*there) if each == agent] == [agent]


def test_shared_folders_detect_no_agent():
    assert detected("/home/u/.agents", "/home/u/.config/agents", "/work/p/.agents") == []
    assert detected("/work/p", "/work/p/", "/work/p/data", "/work/p/agent", "/work/p/skills") == []
    assert detected("/home/u", "/home/u/.config") == []
    assert detected("/work/p/.vscode", "/work/p/.vscode/settings.json", "/work/p/.github", "/home/u/.vscode") == []
