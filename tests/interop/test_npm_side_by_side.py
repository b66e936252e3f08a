"""The npm client ``skills`` and ours on the same site and the same repository: the same files on disk.

``SKILLHUB_NPM_SKILLS`` names the ``node_modules`` with the client, with Node beside it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import Shell
from tests.support.site import JSON, LEGACY, WELL_KNOWN, current, entry, legacy, skill_md, tarred, zipped
from tests.support.web import Web, answer

pytestmark = pytest.mark.interop
REPO = Path(__file__).resolve().parents[2]
FOLDER = ".claude/skills"
CONTENT = {
    "pdf-tools": {"SKILL.md": skill_md("pdf-tools"), "scripts/run.sh": b"#!/bin/sh\necho\n", "a/b/c.bin": bytes(99)},
    "wrangler": {"SKILL.md": skill_md("wrangler"), "references/DEEP.md": "Ünïcode ✓\n".encode()},
    "git-workflow": {"SKILL.md": skill_md("git-workflow", "Line\r\nline\n\n\n")},
}


@pytest.fixture(scope="module")
def modules():
    found = Path(os.environ.get("SKILLHUB_NPM_SKILLS", REPO / ".venv-interop/npm/node_modules"))
    if not (found / "skills").is_dir():
        pytest.skip("there is no npm client")
    return found


@pytest.fixture
def both(modules, tmp_path):
    """Install all skills of a place with both clients; return the files that each put into the agent's folder."""
    theirs, home, ours = tmp_path / "theirs", tmp_path / "home", Shell(tmp_path / "ours")
    theirs.mkdir()
    home.mkdir()

    def install(place, our_word=None):
        words = [modules / ".bin/node", modules / "skills/bin/cli.mjs", "add", place, "-y", "-a", "claude-code"]
        environ = {"PATH": os.environ["PATH"], "HOME": str(home), "DISABLE_TELEMETRY": "1", "CI": "1"}
        done = subprocess.run(
            [*words, "--skill", "*"],
            cwd=theirs,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        words = ("install", our_word or place, "--all", "--yes", "--allow-unsigned", "--agent", "claude-code")
        mine = ours.run(*words)
        assert mine.status == 0, mine.err
        return files(theirs / FOLDER), files(ours.project / FOLDER)

    return install


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def expected():
    return {f"{name}/{path}": data for name, held in CONTENT.items() for path, data in held.items()}


def test_a_site_of_0_2_0_gives_the_same_files_as_npm(both):
    with Web() as web:
        zip_, tar = zipped(CONTENT["pdf-tools"]), tarred(CONTENT["wrangler"])
        text = CONTENT["git-workflow"]["SKILL.md"]
        web.at("/art/pdf.zip", answer(zip_, "Content-Type: application/zip"))
        web.at("/.well-known/agent-skills/w.tar.gz", answer(tar, "Content-Type: application/gzip"))
        web.at("/.well-known/agent-skills/git-workflow/SKILL.md", answer(text, "Content-Type: text/markdown"))
        entries = (
            entry("pdf-tools", zip_, "/art/pdf.zip"),
            entry("wrangler", tar, "w.tar.gz"),
            entry("git-workflow", text, "git-workflow/SKILL.md"),
        )
        web.at(WELL_KNOWN, answer(current(*entries), JSON))
        theirs, ours = both(web.url(""))
    assert theirs == ours == expected()


def test_a_site_of_0_1_0_gives_the_same_files_as_npm(both):
    with Web() as web:
        for name, held in CONTENT.items():
            for path, data in held.items():
                web.at(f"/.well-known/skills/{name}/{path}", answer(data))
        entries = [
            {"name": name, "description": f"Does {name}.", "files": list(held)} for name, held in CONTENT.items()
        ]
        web.at(LEGACY, answer(legacy(*entries), JSON))
        theirs, ours = both(web.url(""))
    assert theirs == ours == expected()


def test_a_git_repository_gives_the_same_files_as_npm(both, tmp_path):
    repository = tmp_path / "repository"
    for name, held in CONTENT.items():
        for path, data in held.items():
            full = repository / "skills" / name / path
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(data)
    git = ["git", "-C", repository, "-c", "user.name=x", "-c", "user.email=x@example.com"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "skills"]):
        subprocess.run([*git, *words], check=True)
    theirs, ours = both(f"file://{repository}", f"git+file://{repository}")
    assert theirs == ours == expected()
