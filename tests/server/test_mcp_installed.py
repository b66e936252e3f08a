"""What ``skillhub mcp`` serves is a source for another skillhub, and starts from the entry that an agent has."""

from __future__ import annotations

import contextlib

import pytest

from skillhub.model.reference import Mcp
from skillhub.net.client import Http, Patience
from skillhub.sources import mcp
from skillhub.sources.mcp import McpPlace
from tests.support.cli import Shell
from tests.support.here import Here
from tests.support.locked import agreed

pytest.importorskip("mcp")
pytest.importorskip("uvicorn")

FILES = {"scripts/run.sh": "echo\n", "a b/ü.md": "odd\r\n"}


@contextlib.contextmanager
def served(machine):
    """Serve the skills of a machine meanwhile; give the URL."""
    process = machine.start("serve", "--port", "0")
    try:
        yield f"{process.stdout.readline().decode().strip().rstrip('/')}/mcp"
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture
def machine(tmp_path):
    """A machine with two skills that its user agreed to."""
    found = agreed(tmp_path / "one")
    found.skill("project/mine/files", head="metadata:\n  version: 1.0\n  draft: yes\n", **FILES)
    assert found.run("install", "./mine/files", "--yes", "--allow-unsigned").status == 0
    return found


def test_what_we_serve_is_installed_and_updated(machine, tmp_path):
    other = Here(tmp_path / "two")
    with served(machine) as url:
        done = other.run("install", f"mcp+{url}", "--all", "--yes", "--allow-unsigned", "--json")
        assert done.status == 0, done.out
        there, here = machine.lock()["skills"], other.lock()["skills"]
        assert {name: each["tree"] for name, each in here.items()} == {
            name: each["tree"] for name, each in there.items()
        }
        assert other.run("update", "--check").status == 0
        assert other.run("verify").status == 0
        machine.skill("project/mine/files", head="metadata:\n  version: 2.0\n", **FILES)
        assert machine.run("update", "files", "--yes", "--allow-unsigned").status == 0
        assert other.run("update", "--check").status == 1
        assert other.run("update", "--yes", "--allow-unsigned").status == 0
        assert other.lock()["skills"]["files"]["version"] == "2.0"


@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_what_we_serve_is_read_in_either_era(machine, monkeypatch, era):
    if era == "handshake":  # as a client that knows no other
        monkeypatch.setattr(mcp, "_STATELESS", "1999-01-01")
    with served(machine) as url, Http(patience=Patience(pauses=(0.1, 0.3, 1.0, 3.0))) as http:
        place = McpPlace(Mcp(url), http)
        (release,) = place.index().releases("files")
        assert place.unpacked(release).tree.digest == machine.lock()["skills"]["files"]["tree"]


def test_the_entry_of_an_agent_starts_it(machine):
    shell = Shell(machine.folder)
    for each in (machine, shell):
        del each.environ["SKILLHUB_HOME"]  # an agent hands on no variable that its entry does not name
    assert machine.run("install", "--yes", "--allow-unsigned").status == 0
    assert machine.run("mcp", "install", "--agent", "claude-code", "--yes").status == 0
    done = shell.at_terminal("mcp", "check", "skillhub", say=[("[N]o:", "y\n")], columns=200)
    assert done.status == 0, done.out
    assert "skills: skill://demo/SKILL.md, skill://files/SKILL.md" in done.out
    assert "search_skills" in done.out
