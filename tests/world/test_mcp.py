import json
import os
import stat
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from skillhub.errors import FormatError, LinkLeavesProject, StateError, UsageError
from skillhub.model.requirement import McpServer
from skillhub.world import mcp

REPOSITORY = Path(__file__).parents[2]
STDIO = McpServer("stdio", command=("npx", "-y", "@x/server"), env=("X_TOKEN", "X_URL"))
PLAIN = McpServer("stdio", command=("server",))
HTTP = McpServer("http", url="https://mcp.example/v1", bearer="X_TOKEN")
OPEN = McpServer("http", url="https://mcp.example/v1")

SPELLED = {
    ("claude-code", STDIO): {
        "type": "stdio",
        "command": "npx",
        "args": ["-y", "@x/server"],
        "env": {"X_TOKEN": "${X_TOKEN}", "X_URL": "${X_URL}"},
    },
    ("claude-code", PLAIN): {"type": "stdio", "command": "server", "args": []},
    ("claude-code", HTTP): {
        "type": "http",
        "url": "https://mcp.example/v1",
        "headers": {"Authorization": "Bearer ${X_TOKEN}"},
    },
    ("cursor", STDIO): {
        "command": "npx",
        "args": ["-y", "@x/server"],
        "env": {"X_TOKEN": "${env:X_TOKEN}", "X_URL": "${env:X_URL}"},
    },
    ("cursor", HTTP): {
        "url": "https://mcp.example/v1",
        "headers": {"Authorization": "Bearer ${env:X_TOKEN}"},
    },
    ("cursor", OPEN): {"url": "https://mcp.example/v1"},
    ("vscode", STDIO): {
        "type": "stdio",
        "command": "npx",
        "args": ["-y", "@x/server"],
        "env": {"X_TOKEN": "${env:X_TOKEN}", "X_URL": "${env:X_URL}"},
    },
    ("github-copilot", OPEN): {"type": "http", "url": "https://mcp.example/v1"},
    ("codex", STDIO): {
        "command": "npx",
        "args": ["-y", "@x/server"],
        "env_vars": ["X_TOKEN", "X_URL"],
    },
    ("codex", PLAIN): {"command": "server", "args": []},
    ("codex", HTTP): {"url": "https://mcp.example/v1", "bearer_token_env_var": "X_TOKEN"},
    ("codex", OPEN): {"url": "https://mcp.example/v1"},
    ("opencode", STDIO): {
        "type": "local",
        "command": ["npx", "-y", "@x/server"],
        "environment": {"X_TOKEN": "{env:X_TOKEN}", "X_URL": "{env:X_URL}"},
        "enabled": True,
    },
    ("opencode", HTTP): {
        "type": "remote",
        "url": "https://mcp.example/v1",
        "headers": {"Authorization": "Bearer {env:X_TOKEN}"},
        "enabled": True,
    },
}
PROJECT_FILES = {
    "claude-code": (".mcp.json", "mcpServers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "github-copilot": (".vscode/mcp.json", "servers"),
    "opencode": ("opencode.json", "mcp"),
}
every_agent = pytest.mark.parametrize("agent", mcp.AGENTS_WITH_MCP)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


class Place:
    """A project, a home and a lock file."""

    def __init__(self, folder):
        self.project, self.home = folder / "project", folder / "home"
        self.project.mkdir()
        self.home.mkdir()
        self.lock = str(folder / "state/mcp.lock")

    def file(self, agent, scope="project", **environ):
        return mcp.config_file(agent, scope, str(self.project), str(self.home), environ)

    def everything(self):
        return sorted(str(path.relative_to(self.project)) for path in self.project.rglob("*"))


def load(file):
    text = Path(file.path).read_text()
    return tomllib.loads(text) if file.path.endswith(".toml") else json.loads(text)


@pytest.mark.parametrize(("agent", "server"), SPELLED)
def test_each_agent_has_its_spelling_and_only_names_of_variables(agent, server):
    assert mcp.entry(agent, server) == SPELLED[agent, server]


def test_an_agent_without_such_a_file_is_a_usage_error(place):
    with pytest.raises(UsageError):
        mcp.entry("goose", STDIO)
    with pytest.raises(UsageError):
        mcp.entry("nobody", STDIO)
    assert place.file("goose") is None
    assert place.file("vscode", "user") is None
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
        ("opencode", {}, "home/.config/opencode/opencode.jsonc"),
        ("opencode", {"XDG_CONFIG_HOME": "{}/x"}, "x/opencode/opencode.jsonc"),
    ],
)
def test_the_file_of_a_user(place, tmp_path, agent, environ, expected):
    environ = {name: value.replace("{}", str(tmp_path)) for name, value in environ.items()}
    assert place.file(agent, "user", **environ).path == str(tmp_path / expected)


@every_agent
def test_the_file_of_a_project(place, agent):
    path, key = PROJECT_FILES[agent]
    file = place.file(agent)
    assert (file.agent, file.scope, file.path) == (agent, "project", str(place.project / path))
    mcp.write(file, "ours", STDIO, place.lock)
    assert load(file) == {key: {"ours": mcp.entry(agent, STDIO)}}
    assert place.everything() == sorted({path, *map(str, Path(path).parents)} - {"."})


def test_of_two_files_that_an_agent_reads_the_one_that_is_there_is_meant(place):
    (place.project / "opencode.jsonc").write_text("{}")
    assert place.file("opencode").path.endswith("opencode.jsonc")
    (place.project / "opencode.json").write_text("{}")
    assert place.file("opencode").path.endswith("opencode.json")


@every_agent
@pytest.mark.parametrize("server", [STDIO, PLAIN, HTTP, OPEN])
@pytest.mark.parametrize("scope", ["project", "user"])
def test_absent_written_equal_removed(place, agent, server, scope):
    file = place.file(agent, scope)
    if file is None:
        return
    assert mcp.servers(file) == {}
    assert mcp.present(file, "ours") is None
    assert mcp.state(file, "ours", server) == "absent"
    written = mcp.write(file, "ours", server, place.lock)
    assert mcp.present(file, "ours") == written == mcp.entry(agent, server)
    assert mcp.state(file, "ours", server) == "equal"
    assert mcp.state(file, "ours", McpServer("stdio", command=("other",))) == "different"
    before = Path(file.path).read_bytes(), os.stat(file.path).st_mtime_ns
    assert mcp.write(file, "ours", server, place.lock) == written
    assert (Path(file.path).read_bytes(), os.stat(file.path).st_mtime_ns) == before
    assert mcp.remove(file, "ours", written, place.lock)
    assert mcp.state(file, "ours", server) == "absent"
    assert not mcp.remove(file, "ours", written, place.lock)


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
}


@pytest.mark.parametrize(
    ("agent", "style"),
    [
        (agent, style)
        for agent in mcp.AGENTS_WITH_MCP
        for style in STYLES["toml" if agent == "codex" else "json"]
    ],
)
@pytest.mark.parametrize("server", [STDIO, HTTP])
def test_after_write_and_remove_the_file_is_the_same_to_the_byte(place, agent, style, server):
    path, key = PROJECT_FILES[agent]
    before = STYLES["toml" if agent == "codex" else "json"][style].replace("KEY", key).encode()
    (place.project / path).parent.mkdir(exist_ok=True)
    (place.project / path).write_bytes(before)
    (place.project / path).chmod(0o640)
    file = place.file(agent)
    others = mcp.servers(file)
    written = mcp.write(file, "ours", server, place.lock)
    during = (place.project / path).read_bytes()
    assert mcp.servers(file) == {**others, "ours": written}
    assert (b"\r\n" in before) == (b"\r\n" in during)
    assert not (b"\r\n" in before and b"\n" in during.replace(b"\r\n", b""))
    assert os.name == "nt" or stat.S_IMODE(os.stat(file.path).st_mode) == 0o640
    assert mcp.remove(file, "ours", written, place.lock)
    assert (place.project / path).read_bytes() == before


@every_agent
def test_a_server_of_that_name_that_is_not_ours_is_left_alone(place, agent):
    file = place.file(agent)
    theirs = mcp.write(file, "ours", PLAIN, place.lock)
    before = Path(file.path).read_bytes()
    with pytest.raises(StateError) as caught:
        mcp.write(file, "ours", STDIO, place.lock)
    assert caught.value.where == file.path
    assert not mcp.remove(file, "ours", mcp.entry(agent, STDIO), place.lock)
    assert Path(file.path).read_bytes() == before
    assert mcp.present(file, "ours") == theirs


@pytest.mark.parametrize(("ours", "theirs"), [(True, 1), (1, True), (None, {}), ({}, None)])
def test_what_is_nearly_ours_is_not_ours(place, ours, theirs):
    file = place.file("opencode")
    Path(file.path).write_text(json.dumps({"mcp": {"ours": theirs}}))
    before = Path(file.path).read_bytes()
    written = {**mcp.entry("opencode", PLAIN), "enabled": ours}
    Path(file.path).write_text(json.dumps({"mcp": {"ours": {**written, "enabled": theirs}}}))
    assert not mcp.remove(file, "ours", written, place.lock)
    Path(file.path).write_bytes(before)
    assert not mcp.remove(file, "ours", written, place.lock)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"mcpServers": []}',
        b'{"mcpServers": null}',
        b'{"mcpServers": {}, "mcpServers": {}}',
        b'{"mcpServers": {"a": 1, "a": 2}}',
        b'{"mcpServers": {"b": {}}}\xff',
        b"\xff\xfe{\0}\0",
        b'<<<<<<< HEAD\n{"mcpServers": {}}',
        b"{}\n{}",
        b"\0\0\0\0",
    ],
)
def test_a_file_that_cannot_be_understood_is_left_as_it_is(place, content):
    file = place.file("claude-code")
    Path(file.path).write_bytes(content)
    for action in (
        lambda: mcp.state(file, "ours", STDIO),
        lambda: mcp.write(file, "ours", STDIO, place.lock),
        lambda: mcp.remove(file, "ours", {}, place.lock),
    ):
        with pytest.raises(FormatError) as caught:
            action()
        assert caught.value.where.startswith(file.path)
        assert Path(file.path).read_bytes() == content
    assert place.everything() == [".mcp.json"]


@pytest.mark.parametrize(
    "content", [b"[", b"mcp_servers = 1", b"[[mcp_servers]]", b"mcp_servers = {}", b"a=1\xff"]
)
def test_a_toml_file_that_cannot_be_understood_is_left_as_it_is(place, content):
    file = place.file("codex")
    os.mkdir(os.path.dirname(file.path))
    Path(file.path).write_bytes(content)
    with pytest.raises(FormatError):
        mcp.write(file, "ours", STDIO, place.lock)
    assert Path(file.path).read_bytes() == content


@every_agent
@pytest.mark.parametrize(
    "name",
    ["", "__proto__", "a b", "a.b", 'a"b', "../x", "a\n[b]", "${HOME}", "{env:X}", "é", "a" * 65, "a\0"],
)
def test_a_hostile_name_is_refused_before_anything_is_written(place, agent, name):
    file = place.file(agent)
    with pytest.raises(FormatError):
        mcp.write(file, name, STDIO, place.lock)
    assert place.everything() == []


@every_agent
def test_a_hostile_server_stays_text(place, agent):
    words = ('a"b', "back\\slash", "'''", '"""', "]", "[mcp_servers.evil]", "//", "/*", "😀", "$", "{", "}")
    server = McpServer("stdio", command=words)
    file = place.file(agent)
    written = mcp.write(file, "ours", server, place.lock)
    assert mcp.servers(file) == {"ours": written}
    assert mcp.remove(file, "ours", written, place.lock)


@every_agent
def test_a_link_out_of_the_project_is_refused_and_nothing_is_written(place, agent, tmp_path):
    path, _ = PROJECT_FILES[agent]
    outside = tmp_path / "outside"
    outside.mkdir()
    target = outside / "config"
    (place.project / path).parent.mkdir(exist_ok=True)
    (place.project / path).symlink_to(target)
    with pytest.raises(LinkLeavesProject):
        place.file(agent)
    target.write_text("{}")
    with pytest.raises(LinkLeavesProject):
        place.file(agent)
    assert target.read_text() == "{}"
    assert os.listdir(outside) == ["config"]


def test_a_folder_that_is_a_link_out_of_the_project_is_refused(place, tmp_path):
    (tmp_path / "outside").mkdir()
    (place.project / ".cursor").symlink_to(tmp_path / "outside")
    with pytest.raises(LinkLeavesProject):
        place.file("cursor")
    assert os.listdir(tmp_path / "outside") == []


def test_a_link_that_stays_inside_is_followed_and_kept(place):
    (place.project / "settings.json").write_text("{}")
    (place.project / ".mcp.json").symlink_to("settings.json")
    mcp.write(place.file("claude-code"), "ours", STDIO, place.lock)
    assert (place.project / ".mcp.json").is_symlink()
    assert "ours" in (place.project / "settings.json").read_text()


def test_a_link_that_appears_after_the_look_is_not_followed(place, tmp_path):
    file = place.file("claude-code")
    (tmp_path / "outside").write_text("{}")
    Path(file.path).symlink_to(tmp_path / "outside")
    with pytest.raises(StateError):
        mcp.write(file, "ours", STDIO, place.lock)
    assert (tmp_path / "outside").read_text() == "{}"


def test_a_user_may_keep_the_file_elsewhere_behind_a_link(place, tmp_path):
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles/claude.json").write_text('{"mcpServers": {}}')
    (place.home / ".claude.json").symlink_to(tmp_path / "dotfiles/claude.json")
    mcp.write(place.file("claude-code", "user"), "ours", STDIO, place.lock)
    assert (place.home / ".claude.json").is_symlink()
    assert "ours" in (tmp_path / "dotfiles/claude.json").read_text()


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX modes")
def test_a_new_file_of_a_user_is_for_that_user_alone(place):
    file = place.file("claude-code", "user")
    mcp.write(file, "ours", STDIO, place.lock)
    assert stat.S_IMODE(os.stat(file.path).st_mode) == 0o600


@pytest.mark.skipif(os.name == "nt", reason="needs a FIFO")
def test_a_pipe_in_place_of_the_file_does_not_hang(place):
    os.mkfifo(place.project / ".mcp.json")
    with pytest.raises(StateError):
        mcp.write(place.file("claude-code"), "ours", STDIO, place.lock)


WRITER = """
import sys
from skillhub.model.requirement import McpServer
from skillhub.world import mcp
project, lock, agent, start = sys.argv[1:]
file = mcp.config_file(agent, "project", project, project, {})
for number in range(int(start), int(start) + 8):
    mcp.write(file, f"server-{number}", McpServer("stdio", command=("x", str(number))), lock)
"""


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_no_writer_undoes_another(place, agent):
    def run(start):
        arguments = [sys.executable, "-c", WRITER, str(place.project), place.lock, agent, str(start)]
        subprocess.run(arguments, cwd=REPOSITORY, check=True, timeout=60)

    threads = [threading.Thread(target=run, args=(start,)) for start in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {f"server-{number}" for start in (0, 100, 200) for number in range(start, start + 8)}
    assert set(mcp.servers(place.file(agent))) == expected


MEANWHILE = """
import sys
from skillhub.errors import StateError
from skillhub.model.requirement import McpServer
from skillhub.world import mcp
project, lock, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
file = mcp.config_file("claude-code", "project", project, project, {})
busy = False
def agent(event, arguments):
    # The agent, which knows nothing of our lock, writes after we read and before we rename.
    global busy, times
    if event == "open" and ".skillhub-" in str(arguments[0]) and times and not busy:
        busy, times = True, times - 1
        with open(file.path, "w") as stream:
            stream.write('{"n": %d}' % times)
        busy = False
sys.addaudithook(agent)
try:
    mcp.write(file, "ours", McpServer("stdio", command=("x",)), lock)
except StateError as error:
    print(error.message)
"""


@pytest.mark.parametrize(("times", "data"), [(2, {"n": 0, "mcpServers": {"ours": ...}}), (99, {"n": 94})])
def test_what_an_agent_writes_meanwhile_is_not_undone(place, times, data):
    file = place.file("claude-code")
    Path(file.path).write_text("{}")
    arguments = [sys.executable, "-c", MEANWHILE, str(place.project), place.lock, str(times)]
    done = subprocess.run(arguments, cwd=REPOSITORY, check=True, timeout=60, capture_output=True, text=True)
    found = load(file)
    if "mcpServers" in found:
        found["mcpServers"]["ours"] = ...
    assert found == data
    assert ("keeps changing" in done.stdout) == (times == 99)
    assert place.everything() == [".mcp.json"]
