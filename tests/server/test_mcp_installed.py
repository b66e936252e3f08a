"""The server of ``skillhub mcp`` is a source for another skillhub, and an agent starts it from its entry."""

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
    """Serve the skills of a machine and yield the URL."""
    process = machine.start("serve", "--port", "0")
    try:
        yield f"{process.stdout.readline().decode().strip().rstrip('/')}/mcp"
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture
def machine(tmp_path):
    """Return a machine with two consented skills."""
    found = agreed(tmp_path / "one")
    found.skill("project/mine/files", head="metadata:\n  version: 1.0\n  draft: yes\n", **FILES)
    assert found.run("install", "./mine/files", "--yes", "--allow-unsigned").status == 0
    return found


def test_served_skills_are_installed_and_updated(machine, tmp_path):
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
def test_served_skills_are_read_in_both_eras(machine, monkeypatch, era):
    if era == "handshake":  # as a client that knows only the handshake
        monkeypatch.setattr(mcp, "_STATELESS", "1999-01-01")
    with served(machine) as url, Http(patience=Patience(pauses=(0.1, 0.3, 1.0, 3.0))) as http:
        place = McpPlace(Mcp(url), http)
        (release,) = place.index().releases("files")
        assert place.unpacked(release).tree.digest == machine.lock()["skills"]["files"]["tree"]


def test_entry_of_an_agent_starts_the_server(machine):
    shell = Shell(machine.folder)
    for each in (machine, shell):
        del each.environ["SKILLHUB_HOME"]  # an agent passes only the variables that its entry names
    assert machine.run("install", "--yes", "--allow-unsigned").status == 0
    assert machine.run("mcp", "install", "--agent", "claude-code", "--yes").status == 0
    done = shell.at_terminal("mcp", "check", "skillhub", say=[("[N]o:", "y\n")], columns=200)
    assert done.status == 0, done.out
    assert "skills: skill://demo/SKILL.md, skill://files/SKILL.md" in done.out
    assert "search_skills" in done.out
