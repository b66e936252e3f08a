"""The page for agents: its examples run, and its table has the library's messages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from skillhub.errors import UsageError
from skillhub.model.hosts import profile, profiles
from skillhub.runtime.agent import catalog_of, context_inspect, skills_list
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.mention_resolver import mentioned
from skillhub.runtime.toolset import tools

REPO = Path(__file__).resolve().parents[1]
PAGE = (REPO / "docs" / "runtime.md").read_text(encoding="utf-8")


@pytest.fixture
def names(tmp_path, monkeypatch):
    monkeypatch.delenv("SKILLHUB_HOME", raising=False)
    for variable in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    project = tmp_path / "project"
    skills = {
        "meeting-notes": ("Sums up a meeting.", "Who, what, when.\n"),
        "release-notes": ("Drafts notes for a release.", "Write the notes since $ARGUMENTS.\n"),
        "tdd": ("Write the test first.", "Red, green, clean.\n"),
    }
    (project / ".git").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    for name, (description, body) in skills.items():
        folder = project / ".agents" / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}")
    style = project / ".agents/skills/release-notes/references/style.md"
    style.parent.mkdir()
    style.write_text("Short.\n")
    return {"PROJECT": str(project), "HOME": str(tmp_path / "home")}


BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_examples_run_in_order_as_copied(names, tmp_path, monkeypatch):
    """Only names on the page are defined; the fixture keeps this machine's own folders out."""
    assert len(BLOCKS) == 19
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    copied = {}
    with tempfile.TemporaryDirectory() as folder:  # not a folder of pytest: long paths are cut in the output
        monkeypatch.setattr(tempfile, "tempdir", folder)
        for block in BLOCKS:
            exec(compile(block, "docs/runtime.md", "exec"), copied)
        assert copied["PROJECT"].startswith(folder)


def test_the_examples_run_in_a_program_of_their_own(tmp_path):
    (tmp_path / "copied.py").write_text("".join(BLOCKS[:2]))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PYTHONPATH": str(REPO)}
    done = subprocess.run([sys.executable, "copied.py"], cwd=tmp_path, env=environ, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_table_has_the_outcomes_and_messages_of_the_library(names):
    catalog = catalog_of(profile("agents"), Surroundings(cwd=names["PROJECT"], home=names["HOME"]))
    rows = re.findall(r"^\| `([$\[].*?)` \| `([a-z-]+)` \| `(.*?)` \|$", PAGE, re.MULTILINE)
    assert len(rows) == 6
    for typed, outcome, message in rows:
        found = mentioned(typed, catalog).mentions[0]
        assert found.outcome == outcome
        assert found.message == message


def test_skills_list_answers_for_several_folders_with_more_roots(names, tmp_path):
    more = tmp_path / "more" / "extra"
    more.mkdir(parents=True)
    (more / "SKILL.md").write_text("---\nname: extra\ndescription: x\n---\n")
    (tmp_path / "broken" / ".agents/skills/bad").mkdir(parents=True)
    (tmp_path / "broken" / ".agents/skills/bad" / "SKILL.md").write_text("no frontmatter")
    around = [
        Surroundings(cwd=names["PROJECT"], home=names["HOME"], extra=(str(more.parent),)),
        Surroundings(cwd=str(tmp_path / "broken"), home=names["HOME"]),
    ]
    first, second = skills_list(profile("agents"), around, reload=True)["data"]
    assert {each["name"] for each in first["skills"]} == {"meeting-notes", "release-notes", "tdd", "extra"}
    assert (second["skills"], len(second["errors"])) == ([], 1)
    record = first["skills"][0]
    assert {"id", "name", "description", "path", "dir", "scope", "enabled", "mtime_ms"} <= set(record)
    with pytest.raises(UsageError):
        skills_list(profile("agents"), [Surroundings(cwd=names["PROJECT"], home="/", extra=("relative",))])


def test_context_inspect_lists_skills_only_on_request(names):
    catalog = catalog_of(profile("agents"), Surroundings(cwd=names["PROJECT"], home=names["HOME"]))
    assert context_inspect(catalog, include_skills=False) == {}
    assert len(context_inspect(catalog)["skills"]["catalog"]) == 3


def test_the_page_begins_with_a_whole_host_of_forty_lines():
    assert "def turn(" in BLOCKS[1]
    assert len(BLOCKS[1].splitlines()) <= 40


def test_the_table_of_tools_lists_the_tools_of_each_host(names):
    catalog = catalog_of(profile("agents"), Surroundings(cwd=names["PROJECT"], home=names["HOME"]))
    table = PAGE.partition("| host | tools |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*?`) \| (.*?) \|$", table, re.MULTILINE)
    listed = {host: re.findall(r"`(\w+)`", cell) for hosts, cell in rows for host in re.findall(r"`([\w-]+)`", hosts)}
    assert listed == {host: [tool.name for tool in tools(host, catalog)] for host in profiles()}
