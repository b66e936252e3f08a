import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from skillhub.errors import FormatError, LinkLeavesProject, StateError
from skillhub.model.needs import McpServer
from skillhub.project import mcp_config
from tests.support.agents import Place
from tests.support.cli import run_code

STDIO = McpServer("stdio", command=("npx", "-y", "@x/server"), env=("X_TOKEN", "X_URL"))

PROJECT_FILES = {
    "claude-code": ".mcp.json",
    "codex": ".codex/config.toml",
    "cursor": ".cursor/mcp.json",
    "github-copilot": ".vscode/mcp.json",
    "kiro-cli": ".kiro/settings/mcp.json",
    "opencode": "opencode.json",
}
every_agent = pytest.mark.parametrize("agent", tuple(PROJECT_FILES))


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"mcpServers": []}',
        b'{"mcpServers": {}, "mcpServers": {}}',
        b'{"mcpServers": {"a": 1, "a": 2}}',
        b'{"mcpServers": {"b": {}}}\xff',
        b"\xff\xfe{\0}\0",
        b'<<<<<<< HEAD\n{"mcpServers": {}}',
        b"{}\n{}",
        b"\0\0\0\0",
    ],
)
def test_unreadable_json_file_stays_unchanged(place, content):
    file = place.file("claude-code")
    Path(file.path).write_bytes(content)
    for action in (
        lambda: mcp_config.state(file, "ours", STDIO),
        lambda: mcp_config.write(file, "ours", STDIO, place.owner),
        lambda: mcp_config.remove(file, "ours", {}, place.owner),
    ):
        with pytest.raises(FormatError) as caught:
            action()
        assert caught.value.where.startswith(file.path)
        assert Path(file.path).read_bytes() == content
    assert place.everything() == [".mcp.json"]


@pytest.mark.parametrize("content", [b"[", b"mcp_servers = 1", b"[[mcp_servers]]", b"a=1\xff"])
def test_unreadable_toml_file_stays_unchanged(place, content):
    file = place.file("codex")
    os.mkdir(os.path.dirname(file.path))
    Path(file.path).write_bytes(content)
    with pytest.raises(FormatError):
        mcp_config.write(file, "ours", STDIO, place.owner)
    assert Path(file.path).read_bytes() == content


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nextensions: {e: *b}\n"


@pytest.mark.parametrize(
    "content",
    [
        "extensions: [",
        "extensions: 1\n",
        "extensions:\n  a: {}\n  a: {}\n",
        "extensions: {}\nextensions: {}\n",
        "extensions: &x {}\nz: *x\n",
        BOMB,
        "extensions: !!python/object/apply:os.system [id]\n",
        "%TAG ! tag:x,2000:\n---\nextensions: !x {}\n",
        "extensions:\n  <<: {a: {}}\n",
        "a: 1\n---\nextensions: {}\n",
        "a: 1\rextensions: {}\n",
        "a: 1\x85b: 2\n",
        "a: 1\u2028extensions: {}\n",
        "- extensions\n",
        "{extensions: {}}\n",
        "a: 1\n...\n",
        "extensions: ~\n",
        "extensions: {a: {},}\n",
        "extensions:\n  a: |+\n    x\n\n\n\n",
        "[" * 10_000,
        "a: " + "x" * 300_000 + "\n",
        b"extensions: {}\xff",
        b"\xff\xfee\0:\0",
        "\0",
    ],
)
def test_attack_an_uneditable_yaml_file_stays_unchanged(place, content):
    file = place.file("goose", "user")
    os.makedirs(os.path.dirname(file.path))
    data = content if isinstance(content, bytes) else content.encode()
    Path(file.path).write_bytes(data)
    with suppress(FormatError):
        written = mcp_config.write(file, "ours", STDIO, place.owner)
        # An edited file keeps every other byte, and removing the entry restores it.
        assert mcp_config.remove(file, "ours", written, place.owner)
    assert Path(file.path).read_bytes() == data


@pytest.mark.parametrize("name", ["true", "NO", "y", "null", "123", "0x1F", "1e3", "-x", "_", "on", "Y"])
def test_attack_a_name_like_a_yaml_scalar_stays_a_name(place, name):
    for agent in ("goose", "continue"):
        file = place.file(agent, "user")
        written = mcp_config.write(file, name, STDIO, place.owner)
        found = yaml.safe_load(Path(file.path).read_text())[file.dialect.key]
        assert (found[0]["name"] if agent == "continue" else next(iter(found))) == name
        assert mcp_config.remove(file, name, written, place.owner)


@pytest.mark.parametrize(
    "word", ["a: b", "#", "- x", "'", '"', "*x", "&x", "!x", "%", "@x", "| y", "é\U0001f600", "{a", "]", "\\n"]
)
def test_attack_a_word_with_yaml_syntax_stays_text(place, word):
    server = McpServer("stdio", command=("hub", word, "--"))
    file = place.file("goose", "user")
    os.makedirs(os.path.dirname(file.path))
    for before in ("", "extensions: {}\n", "extensions:\n  a: {}\n"):
        Path(file.path).write_text(before)
        mcp_config.write(file, "ours", server, place.owner)
        assert yaml.safe_load(Path(file.path).read_text())["extensions"]["ours"]["args"] == [word, "--"]


@pytest.mark.skipif(os.name == "nt", reason="links")
@pytest.mark.parametrize("target", [".env", ".ENV", ".env.local", "sub/.Env"])
def test_attack_a_configuration_linked_to_an_env_file_is_refused(place, target):
    (place.project / "sub").mkdir()
    (place.project / target).write_text("")
    os.symlink(target, place.project / ".mcp.json")
    with pytest.raises(StateError, match=r"\.env file"):
        place.file("claude-code")
    os.symlink(place.project / target, place.home / ".claude.json")
    with pytest.raises(StateError, match=r"\.env file"):
        place.file("claude-code", "user")
    assert (place.project / target).read_text() == ""


def test_attack_a_server_of_the_name_in_another_file_is_found(place):
    folder = place.project / ".continue/mcpServers"
    folder.mkdir(parents=True)
    there = ("continue", str(place.project), str(place.home), {})
    (folder / "a.yaml").write_text("mcpServers:\n- {name: Ours, command: sh}\n- uses: x/y\n")
    (folder / "b.json").write_text('{"mcpServers": {"ours": {"url": "http://evil.example"}}}')
    (folder / "notes.md").write_text("mcpServers: [")
    file = place.file("continue")
    others = mcp_config.elsewhere(file, "ours", *there[1:])
    found = [(Path(where.split(",")[0]).name, entry) for where, entry in others]
    assert found == [("a.yaml", {"command": "sh"}), ("b.json", {"url": "http://evil.example"})]
    (folder / "c.yml").write_text("mcpServers: [")
    with pytest.raises(FormatError, match="YAML"):
        [*mcp_config.elsewhere(file, "ours", *there[1:])]
    for number in range(100):
        (folder / f"{number}.yaml").write_text("")
    with pytest.raises(StateError, match="at most"):
        [*mcp_config.elsewhere(file, "ours", *there[1:])]
    os.unlink(folder / "a.yaml")
    for each in folder.iterdir():
        each.unlink()
    os.symlink(place.home / "x.yaml", folder / "x.yaml")
    with pytest.raises(LinkLeavesProject):
        [*mcp_config.elsewhere(file, "ours", *there[1:])]


@every_agent
@pytest.mark.parametrize(
    "name", ["", "__proto__", "a b", "a.b", 'a"b', "../x", "a\n[b]", "${HOME}", "{env:X}", "é", "a" * 65, "a\0"]
)
def test_hostile_name_is_refused_before_writing(place, agent, name):
    file = place.file(agent)
    with pytest.raises(FormatError):
        mcp_config.write(file, name, STDIO, place.owner)
    assert place.everything() == []


@every_agent
def test_a_hostile_server_stays_text(place, agent):
    words = ('a"b', "back\\slash", "'''", '"""', "]", "[mcp_servers.evil]", "//", "/*", "😀", "$", "{", "}")
    server = McpServer("stdio", command=words)
    file = place.file(agent)
    written = mcp_config.write(file, "ours", server, place.owner)
    assert mcp_config.servers(file) == {"ours": written}
    assert mcp_config.remove(file, "ours", written, place.owner)


@every_agent
def test_link_out_of_the_project_is_refused(place, agent, tmp_path):
    path = PROJECT_FILES[agent]
    outside = tmp_path / "outside"
    outside.mkdir()
    target = outside / "config"
    (place.project / path).parent.mkdir(exist_ok=True, parents=True)
    (place.project / path).symlink_to(target)
    with pytest.raises(LinkLeavesProject):
        place.file(agent)
    target.write_text("{}")
    with pytest.raises(LinkLeavesProject):
        place.file(agent)
    assert target.read_text() == "{}"
    assert os.listdir(outside) == ["config"]


def test_linked_folder_out_of_the_project_is_refused(place, tmp_path):
    (tmp_path / "outside").mkdir()
    (place.project / ".cursor").symlink_to(tmp_path / "outside")
    with pytest.raises(LinkLeavesProject):
        place.file("cursor")
    assert os.listdir(tmp_path / "outside") == []


def test_link_inside_of_the_project_is_followed_and_kept(place):
    (place.project / "settings.json").write_text("{}")
    (place.project / ".mcp.json").symlink_to("settings.json")
    mcp_config.write(place.file("claude-code"), "ours", STDIO, place.owner)
    assert (place.project / ".mcp.json").is_symlink()
    assert "ours" in (place.project / "settings.json").read_text()


def test_link_created_after_the_check_is_not_followed(place, tmp_path):
    file = place.file("claude-code")
    (tmp_path / "outside").write_text("{}")
    Path(file.path).symlink_to(tmp_path / "outside")
    with pytest.raises(StateError):
        mcp_config.write(file, "ours", STDIO, place.owner)
    assert (tmp_path / "outside").read_text() == "{}"


def test_linked_file_of_the_user_is_written(place, tmp_path):
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles/claude.json").write_text('{"mcpServers": {}}')
    (place.home / ".claude.json").symlink_to(tmp_path / "dotfiles/claude.json")
    mcp_config.write(place.file("claude-code", "user"), "ours", STDIO, place.owner)
    assert (place.home / ".claude.json").is_symlink()
    assert "ours" in (tmp_path / "dotfiles/claude.json").read_text()


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX modes")
def test_new_file_of_the_user_is_private(place):
    file = place.file("claude-code", "user")
    mcp_config.write(file, "ours", STDIO, place.owner)
    assert stat.S_IMODE(os.stat(file.path).st_mode) == 0o600


@pytest.mark.skipif(os.name == "nt", reason="needs a FIFO")
def test_pipe_in_place_of_the_file_is_refused(place):
    os.mkfifo(place.project / ".mcp.json")
    with pytest.raises(StateError):
        mcp_config.write(place.file("claude-code"), "ours", STDIO, place.owner)


WRITER = """
import sys
from skillhub.model.needs import McpServer
from skillhub.project import mcp_config
from tests.support.agents import owner
project, agent, start = sys.argv[1:]
file = mcp_config.config_file(agent, "project", project, project, {})
for number in range(int(start), int(start) + 8):
    mcp_config.write(file, f"server-{number}", McpServer("stdio", command=("x", str(number))), owner(project))
"""


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_parallel_writers_keep_all_entries(place, agent):
    def run(start):
        ended.append(run_code(WRITER, place.project, agent, start).status)

    ended = []
    threads = [threading.Thread(target=run, args=(start,)) for start in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == [0, 0, 0]
    expected = {f"server-{number}" for start in (0, 100, 200) for number in range(start, start + 8)}
    assert set(mcp_config.servers(place.file(agent))) == expected


MEANWHILE = """
import sys
from skillhub.errors import StateError
from skillhub.model.needs import McpServer
from skillhub.project import mcp_config
from tests.support.agents import owner
project, times = sys.argv[1], int(sys.argv[2])
file = mcp_config.config_file(sys.argv[3], "project", project, project, {})
busy = False
def agent(event, arguments):
    # The agent, which knows nothing of our lock, writes after we read and before we rename.
    global busy, times
    if event == "open" and ".skillhub-" in str(arguments[0]) and times and not busy:
        busy, times = True, times - 1
        with open(file.path, "w") as stream:
            stream.write(('{"n": %d}' if file.path.endswith("json") else "n: %d\\n") % times)
        busy = False
sys.addaudithook(agent)
try:
    mcp_config.write(file, "ours", McpServer("stdio", command=("x",)), owner(project))
except StateError as error:
    print(error.message)
"""


@pytest.mark.parametrize("agent", ["claude-code", "continue"])
@pytest.mark.parametrize(("times", "number"), [(2, 0), (99, 94)])
def test_concurrent_write_of_an_agent_is_kept(place, times, number, agent):
    file = place.file(agent)
    os.makedirs(os.path.dirname(file.path), exist_ok=True)
    Path(file.path).write_text("{}" if agent == "claude-code" else "")
    there = place.everything()
    done = run_code(MEANWHILE, place.project, times, agent)
    assert done.status == 0, done.err
    found = yaml.safe_load(Path(file.path).read_text())
    assert found["n"] == number
    assert ("mcpServers" in found) == (times == 2)
    assert ("keeps changing" in done.out) == (times == 99)
    assert place.everything() == there
