import json
import os
import re
import stat
import tomllib
from pathlib import Path

import pytest
import yaml

from skillhub.errors import StateError, UsageError
from skillhub.model.needs import McpServer
from skillhub.project import mcp_config
from skillhub.project.mcp_config import DIALECTS
from tests.support.agents import Place

STDIO = McpServer("stdio", command=("npx", "-y", "@x/server"), env=("X_TOKEN", "X_URL"))
PLAIN = McpServer("stdio", command=("server",))
HTTP = McpServer("http", url="https://mcp.example/v1", bearer="X_TOKEN")
OPEN = McpServer("http", url="https://mcp.example/v1")

NPX = {"command": "npx", "args": ["-y", "@x/server"]}
SERVER = {"command": "server", "args": []}
THERE = {"url": "https://mcp.example/v1"}
NAMED = {"X_TOKEN": "${X_TOKEN}", "X_URL": "${X_URL}"}
NAMED_ENV = {"X_TOKEN": "${env:X_TOKEN}", "X_URL": "${env:X_URL}"}

SPELLED = {
    ("claude-code", STDIO): {"type": "stdio", **NPX, "env": NAMED},
    ("claude-code", PLAIN): {"type": "stdio", **SERVER},
    ("claude-code", HTTP): {"type": "http", **THERE, "headers": {"Authorization": "Bearer ${X_TOKEN}"}},
    ("cursor", STDIO): {**NPX, "env": NAMED_ENV},
    ("cursor", HTTP): {**THERE, "headers": {"Authorization": "Bearer ${env:X_TOKEN}"}},
    ("cursor", OPEN): THERE,
    ("vscode", STDIO): {"type": "stdio", **NPX, "env": NAMED_ENV},
    ("github-copilot", OPEN): {"type": "http", **THERE},
    ("codex", STDIO): {**NPX, "env_vars": ["X_TOKEN", "X_URL"]},
    ("codex", PLAIN): SERVER,
    ("codex", HTTP): {**THERE, "bearer_token_env_var": "X_TOKEN"},
    ("codex", OPEN): THERE,
    ("opencode", STDIO): {
        "type": "local",
        "command": ["npx", "-y", "@x/server"],
        "environment": {"X_TOKEN": "{env:X_TOKEN}", "X_URL": "{env:X_URL}"},
        "enabled": True,
    },
    ("opencode", HTTP): {
        "type": "remote",
        **THERE,
        "headers": {"Authorization": "Bearer {env:X_TOKEN}"},
        "enabled": True,
    },
    ("kiro-cli", STDIO): {**NPX, "env": NAMED},
    ("kiro-cli", HTTP): {**THERE, "headers": {"Authorization": "Bearer ${X_TOKEN}"}},
    ("kiro-cli", OPEN): THERE,
    ("gemini-cli", PLAIN): SERVER,
    ("gemini-cli", OPEN): {"httpUrl": "https://mcp.example/v1"},
    ("gemini-cli", STDIO): {**NPX, "env": NAMED},
    ("windsurf", STDIO): {**NPX, "env": NAMED_ENV},
    ("windsurf", OPEN): {"serverUrl": "https://mcp.example/v1"},
    ("zed", PLAIN): SERVER,
    ("zed", OPEN): THERE,
    ("amp", STDIO): {**NPX, "env": NAMED},
    ("cline", STDIO): {**NPX, "env": NAMED_ENV},
    ("cline", OPEN): {"type": "streamableHttp", **THERE},
    ("roo", HTTP): {"type": "streamable-http", **THERE, "headers": {"Authorization": "Bearer ${env:X_TOKEN}"}},
    ("goose", STDIO): {
        "enabled": True,
        "type": "stdio",
        "cmd": "npx",
        "args": ["-y", "@x/server"],
        "env_keys": ["X_TOKEN", "X_URL"],
        "timeout": 300,
    },
    ("goose", HTTP): {
        "enabled": True,
        "type": "streamable_http",
        "uri": "https://mcp.example/v1",
        "headers": {"Authorization": "Bearer ${X_TOKEN}"},
        "env_keys": ["X_TOKEN"],
        "timeout": 300,
    },
    ("continue", STDIO): {
        "type": "stdio",
        **NPX,
        "env": {"X_TOKEN": "${{ secrets.X_TOKEN }}", "X_URL": "${{ secrets.X_URL }}"},
    },
    ("continue", HTTP): {
        "type": "streamable-http",
        **THERE,
        "requestOptions": {"headers": {"Authorization": "Bearer ${{ secrets.X_TOKEN }}"}},
    },
}
PROJECT_FILES = {
    "amp": (".amp/settings.json", "amp.mcpServers"),
    "claude-code": (".mcp.json", "mcpServers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "gemini-cli": (".gemini/settings.json", "mcpServers"),
    "kiro-cli": (".kiro/settings/mcp.json", "mcpServers"),
    "github-copilot": (".vscode/mcp.json", "servers"),
    "opencode": ("opencode.json", "mcp"),
    "continue": (".continue/mcpServers/skillhub.yaml", "mcpServers"),
    "roo": (".roo/mcp.json", "mcpServers"),
}
# How Zed spells a variable is unknown.
FLUENT = tuple(each for each in mcp_config.agents_with_file("project") if mcp_config.is_spelled(each, STDIO))
every_agent = pytest.mark.parametrize("agent", FLUENT)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def load(file):
    text = Path(file.path).read_text()
    if file.path.endswith(".yaml"):
        found = yaml.safe_load(text)
        return {"mcpServers": {each.pop("name"): each for each in found["mcpServers"]}}
    return tomllib.loads(text) if file.path.endswith(".toml") else json.loads(text)


@pytest.mark.parametrize(("agent", "server"), SPELLED)
def test_entry_has_the_spelling_of_the_agent_without_values(agent, server):
    assert mcp_config.entry(agent, server) == SPELLED[agent, server]


@pytest.mark.parametrize(("agent", "server"), [("zed", STDIO), ("zed", HTTP)])
def test_unknown_spelling_is_refused_with_a_hint(agent, server):
    assert not mcp_config.is_spelled(agent, server)
    with pytest.raises(UsageError) as caught:
        mcp_config.entry(agent, server)
    assert "yourself" in caught.value.hint


@pytest.mark.parametrize(
    ("agent", "scope"), [("gemini-cli", "project"), ("gemini-cli", "user"), ("windsurf", "user")]
)
def test_entry_is_written_and_removed_for_agents_with_partial_spelling(place, agent, scope):
    file = place.file(agent, scope)
    mcp_config.write(file, "ours", PLAIN, place.owner)
    assert load(file) == {"mcpServers": {"ours": {"command": "server", "args": []}}}
    assert mcp_config.state(file, "ours", PLAIN) == "equal"
    assert mcp_config.remove(file, "ours", mcp_config.entry(agent, PLAIN), place.owner)
    assert mcp_config.servers(file) == {}


@pytest.mark.parametrize(
    "typed",
    [
        {"command": "server"},
        {"command": "server", "args": [], "env": {}},
        {"type": "stdio", "command": "server", "env": {}},
    ],
)
def test_an_entry_is_equal_with_and_without_its_defaults(place, typed):
    for agent in ("claude-code", "cursor", "gemini-cli"):
        file = place.file(agent, "project")
        Path(file.path).parent.mkdir(exist_ok=True)
        Path(file.path).write_text(json.dumps({"mcpServers": {"ours": typed}}))
        assert mcp_config.state(file, "ours", PLAIN) == "equal"


@pytest.mark.parametrize(
    "typed",
    [
        {"command": "server", "type": "sse"},
        {"command": "server", "env": {"A": "1"}},
        {"command": "server", "args": False},
        {"command": "server", "disabled": False},
        {"type": "stdio", "url": "https://mcp.example/v1"},
    ],
)
def test_an_entry_with_other_members_is_different(place, typed):
    file = place.file("claude-code", "project")
    Path(file.path).write_text(json.dumps({"mcpServers": {"ours": typed}}))
    assert mcp_config.state(file, "ours", PLAIN) == "different"


def test_page_names_the_files_of_every_agent():
    page = (Path(__file__).parents[2] / "docs/values.md").read_text()
    rows = [line.split("|")[1:5] for line in page.splitlines() if re.match(r"\| `[a-z-]+`[^|]*\| ", line)]
    rows_of_agents = {row[0].split("`")[1]: [cell.strip(" `") for cell in row[1:]] for row in rows if len(row) == 4}
    assert tuple(rows_of_agents) == tuple(mcp_config.DIALECTS)
    for agent, (project, user, left) in rows_of_agents.items():
        written = [[*mcp_config.dialects(agent, "project")][:1], [*mcp_config.dialects(agent, "user")][:1]]
        assert [project] == ([each.project[0] for each in written[0]] or [""])
        assert [user] == ([each.user[0] for each in written[1]] or [""])
        assert (not left) == all(mcp_config.is_spelled(agent, each) for each in (STDIO, PLAIN, HTTP, OPEN))


def test_agent_without_a_configuration_file_is_a_usage_error(place):
    with pytest.raises(UsageError):
        mcp_config.entry("pi", STDIO)
    with pytest.raises(UsageError):
        mcp_config.entry("nobody", STDIO)
    assert place.file("pi") is None
    assert [each for each in mcp_config.DIALECTS if place.file(each) is None] == ["cline", "goose", "windsurf"]
    assert [each for each in mcp_config.DIALECTS if place.file(each, "user") is None] == ["roo"]
    with pytest.raises(UsageError):
        place.file("nobody")


@pytest.mark.parametrize(
    ("agent", "environ", "expected"),
    [
        ("claude-code", {}, "home/.claude.json"),
        ("claude-code", {"CLAUDE_CONFIG_DIR": "{}/c"}, "c/.claude.json"),
        ("codex", {}, "home/.codex/config.toml"),
        ("codex", {"CODEX_HOME": "{}/c"}, "c/config.toml"),
        ("codex", {"CODEX_HOME": "relative"}, "home/.codex/config.toml"),
        ("cursor", {}, "home/.cursor/mcp.json"),
        ("gemini-cli", {}, "home/.gemini/settings.json"),
        ("kiro-cli", {}, "home/.kiro/settings/mcp.json"),
        ("windsurf", {}, "home/.codeium/windsurf/mcp_config.json"),
        ("vscode", {}, "home/.copilot/mcp-config.json"),
        ("github-copilot", {"COPILOT_HOME": "{}/c"}, "c/mcp-config.json"),
        ("cline", {}, "home/.cline/data/settings/cline_mcp_settings.json"),
        ("cline", {"CLINE_MCP_SETTINGS_PATH": "{}/c.json"}, "c.json"),
        ("goose", {"XDG_CONFIG_HOME": "{}/x"}, "x/goose/config.yaml"),
        ("zed", {}, "home/.config/zed/settings.json"),
        ("opencode", {}, "home/.config/opencode/opencode.jsonc"),
        ("opencode", {"XDG_CONFIG_HOME": "{}/x"}, "x/opencode/opencode.jsonc"),
    ],
)
def test_user_file_of_an_agent(place, tmp_path, agent, environ, expected):
    environ = {name: value.replace("{}", str(tmp_path)) for name, value in environ.items()}
    assert place.file(agent, "user", **environ).path == str(tmp_path / expected)


@every_agent
def test_project_file_of_an_agent(place, agent):
    path, key = PROJECT_FILES[agent]
    file = place.file(agent)
    assert (file.agent, file.scope, file.path) == (agent, "project", str(place.project / path))
    mcp_config.write(file, "ours", STDIO, place.owner)
    assert load(file) == {key: {"ours": mcp_config.entry(agent, STDIO)}}
    assert place.everything() == sorted({path, *map(str, Path(path).parents)} - {"."})


def test_existing_one_of_two_configuration_files_is_used(place):
    (place.project / "opencode.jsonc").write_text("{}")
    assert place.file("opencode").path.endswith("opencode.jsonc")
    (place.project / "opencode.json").write_text("{}")
    assert place.file("opencode").path.endswith("opencode.json")


@every_agent
@pytest.mark.parametrize("server", [STDIO, PLAIN, HTTP, OPEN])
@pytest.mark.parametrize("scope", ["project", "user"])
def test_entry_is_absent_written_equal_and_removed(place, agent, server, scope):
    file = place.file(agent, scope)
    if file is None:
        return
    assert mcp_config.servers(file) == {}
    assert "ours" not in mcp_config.servers(file)
    assert mcp_config.state(file, "ours", server) == "absent"
    written = mcp_config.write(file, "ours", server, place.owner)
    assert mcp_config.servers(file)["ours"] == written == mcp_config.entry(agent, server, scope)
    assert mcp_config.state(file, "ours", server) == "equal"
    assert mcp_config.state(file, "ours", McpServer("stdio", command=("other",))) == "different"
    before = Path(file.path).read_bytes(), os.stat(file.path).st_mtime_ns
    assert mcp_config.write(file, "ours", server, place.owner) == written
    assert (Path(file.path).read_bytes(), os.stat(file.path).st_mtime_ns) == before
    assert mcp_config.remove(file, "ours", written, place.owner)
    assert mcp_config.state(file, "ours", server) == "absent"
    assert not mcp_config.remove(file, "ours", written, place.owner)


STYLES = {
    "json": {
        "pretty": '{\n  "KEY": {\n    "a": {"url": "x"}\n  },\n  "z": [1, 2]\n}\n',
        "empty": '{\n  "KEY": {}\n}',
        "minified": '{"KEY":{"a":{"url":"x"}},"z":1}',
        "comments": '// top\n{\n  "KEY": {\n    "a": {}, // mine\n    /* end */\n  }, // "z"\n}\n',
        "tabs": '{\n\t"z": 1,\n\t"KEY": {\n\t\t"a": {}\n\t}\n}\n',
        "CRLF and byte order mark": '\ufeff{\r\n    "KEY": {\r\n        "a": {}\r\n    }\r\n}\r\n',
    },
    "toml": {
        "empty": "",
        "settings": '# mine\nmodel = "x"   # best\n\n[KEY.a]\nurl = "x"\n\n[z]\n',
        "no last line end": "[KEY.a]\nurl = 'x' # note",
        "CRLF and byte order mark": '\ufeffmodel = "x"\r\n[KEY.a]\r\n',
    },
    "yaml": {
        "empty": "",
        "settings": "# mine\nmodel: x   # best\nKEY:\n  - name: a\n    url: x # y\n  # tail\n\nz: 1\n",
        "flow": "KEY: [{name: a, url: x}]\nz: [1, 2]\n",
        "indentless, no last line end": "KEY:\n- name: a\n  url: |\n    x\n- name: b\n  note: 'the \U0001f600 end'",
        "CRLF and byte order mark": "\ufeffmodel: x\r\nKEY:\r\n    - name: a\r\n      url: x\r\n",
    },
}
FORMATS = {"claude-code": "json", "opencode": "json", "codex": "toml", "continue": "yaml"}


@pytest.mark.parametrize(
    ("agent", "style"), [(agent, style) for agent, kind in FORMATS.items() for style in STYLES[kind]]
)
@pytest.mark.parametrize("server", [STDIO, HTTP])
def test_write_replace_and_remove_restore_the_file_byte_for_byte(place, agent, style, server):
    path, key = PROJECT_FILES[agent]
    before = STYLES[FORMATS[agent]][style].replace("KEY", key).encode()
    (place.project / path).parent.mkdir(exist_ok=True, parents=True)
    (place.project / path).write_bytes(before)
    (place.project / path).chmod(0o640)
    file = place.file(agent)
    others = mcp_config.servers(file)
    written = mcp_config.write(file, "ours", server, place.owner)
    during = (place.project / path).read_bytes()
    assert mcp_config.servers(file) == {**others, "ours": written}
    written = mcp_config.write(file, "ours", PLAIN, place.owner, replaced=written)
    assert mcp_config.servers(file) == {**others, "ours": written}
    assert (b"\r\n" in before) == (b"\r\n" in during)
    assert not (b"\r\n" in before and b"\n" in during.replace(b"\r\n", b""))
    assert os.name == "nt" or stat.S_IMODE(os.stat(file.path).st_mode) == 0o640
    assert mcp_config.remove(file, "ours", written, place.owner)
    empty = before or DIALECTS[agent].head.encode()
    assert (place.project / path).read_bytes() == empty


def test_null_in_place_of_the_servers_counts_as_none(place):
    file = place.file("claude-code")
    Path(file.path).write_bytes(b'{"mcpServers": null}\n')
    assert mcp_config.state(file, "ours", STDIO) == "absent"
    written = mcp_config.write(file, "ours", STDIO, place.owner)
    assert mcp_config.servers(file) == {"ours": written}


@every_agent
def test_foreign_server_of_the_name_stays_unchanged(place, agent):
    file = place.file(agent)
    theirs = mcp_config.write(file, "ours", PLAIN, place.owner)
    before = Path(file.path).read_bytes()
    with pytest.raises(StateError) as caught:
        mcp_config.write(file, "ours", STDIO, place.owner)
    assert caught.value.where == file.path
    assert caught.value.message == "the server ours changed meanwhile"
    assert not mcp_config.remove(file, "ours", mcp_config.entry(agent, STDIO), place.owner)
    assert Path(file.path).read_bytes() == before
    assert mcp_config.servers(file)["ours"] == theirs


@pytest.mark.parametrize(("ours", "theirs"), [(True, 1), (1, True), (None, {}), ({}, None)])
def test_similar_entry_is_not_removed(place, ours, theirs):
    file = place.file("opencode")
    Path(file.path).write_text(json.dumps({"mcp": {"ours": theirs}}))
    before = Path(file.path).read_bytes()
    written = {**mcp_config.entry("opencode", PLAIN), "enabled": ours}
    Path(file.path).write_text(json.dumps({"mcp": {"ours": {**written, "enabled": theirs}}}))
    assert not mcp_config.remove(file, "ours", written, place.owner)
    Path(file.path).write_bytes(before)
    assert not mcp_config.remove(file, "ours", written, place.owner)
