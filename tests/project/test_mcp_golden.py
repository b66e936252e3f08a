"""The configuration files of every agent: a new one, one with comments and another server, and
both after the entry is removed."""

import os
from pathlib import Path

import pytest

from skillhub.model.needs import McpServer
from skillhub.project import mcp_config
from tests.support.agents import Place

GOLDEN = Path(__file__).parents[1] / "golden/mcp"
LOCAL = McpServer("stdio", command=("npx", "-y", "@x/server@1.2.3"), env=("X_TOKEN",))
PLAIN = McpServer("stdio", command=("npx", "-y", "@x/server@1.2.3"))
REMOTE = McpServer("http", url="https://mcp.example/v1", bearer="X_TOKEN")
OPEN = McpServer("http", url="https://mcp.example/v1")
JSON = """{
  // mine
  "theme": "dark", /* "x": {} */
  "KEY": {
    "theirs": {"command": "b"}, // "skillhub"
  },
}
"""
TOML = '# mine\nmodel = "x"  # best\n\n[KEY.theirs]\ncommand = "b" # [KEY.ours]\n\n[z]\n'
YAML = """# mine
model: x  # best
KEY:
  theirs:
    cmd: b # ours:
    args:
      - '# no comment'
  # the last

z: 1
"""
LIST = "# mine\nKEY:\n  - name: theirs\n    command: b # - name: ours\n  - uses: somebody/else\nz: 1\n"


def texts(place, file):
    """Yield the states of the file, each with a title."""
    known = file.dialect.knows(LOCAL)
    there = {".toml": TOML, ".yaml": LIST if file.dialect.listed else YAML}.get(os.path.splitext(file.path)[1], JSON)
    for title, before in (("a new file", None), ("a file with comments and another server", there)):
        if before is not None:
            Path(file.path).write_text(before.replace("KEY", file.dialect.key))
        written = {}
        for name, server in (("local", LOCAL if known else PLAIN), ("remote", REMOTE if known else OPEN)):
            written[name] = mcp_config.write(file, name, server, place.owner)
        yield title, Path(file.path).read_text()
        for name, entry in written.items():
            assert mcp_config.remove(file, name, entry, place.owner)
        yield f"{title}, both removed again", Path(file.path).read_text()
        if before is not None:
            assert Path(file.path).read_text() == before.replace("KEY", file.dialect.key)


@pytest.mark.parametrize("scope", ["project", "user"])
@pytest.mark.parametrize("agent", mcp_config.DIALECTS)
def test_configuration_of_every_agent_matches_its_golden_file(tmp_path, agent, scope):
    place = Place(tmp_path)
    file = place.file(agent, scope)
    if file is None:
        assert not (GOLDEN / f"{agent}-{scope}.txt").exists()
        return
    os.makedirs(os.path.dirname(file.path), exist_ok=True)
    path = os.path.relpath(file.path, place.project if scope == "project" else place.home)
    text = "".join(f"## {path}: {title}\n{each}" for title, each in texts(place, file))
    assert text == (GOLDEN / f"{agent}-{scope}.txt").read_text()
