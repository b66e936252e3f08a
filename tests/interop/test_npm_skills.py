"""The npm client ``skills`` installs from a site of our registry: other clients can read its index.

It needs Node 22, so both have a folder of their own; ``SKILLHUB_NPM_SKILLS`` names its ``node_modules``.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from skillhub.model.tree import SIGNATURE
from tests.interop.test_npm_side_by_side import files, modules
from tests.support.cli import SKILLS, Shell

__all__ = ["modules"]
pytestmark = pytest.mark.interop
SOURCES = {
    "release-notes": SKILLS / "release-notes/1.0.0",
    "gh-fix-ci": SKILLS / "gh-fix-ci/1.2.0",  # contains a program
    "code-review": SKILLS / "code-review/1.0.0",
}


@pytest.fixture(scope="module")
def maker(tmp_path_factory):
    """A machine whose user operates a registry of three skills."""
    shell = Shell(tmp_path_factory.mktemp("registry"))
    registry = shell.folder / "registry"
    named = shell.folder / "skills"  # a skill's folder has its name
    for name, source in SOURCES.items():
        shutil.copytree(source, named / name)
    made = shell.run("registry", "init", registry, "--publisher", "acme")
    assert made.status == 0, made.err
    added = shell.run("registry", "add", registry, *named.iterdir())
    assert added.status == 0, added.err
    return shell


@pytest.fixture
def site(maker, tmp_path):
    """A copy of the registry, served; the folder of its site, and its URL."""
    registry = Path(shutil.copytree(maker.folder / "registry", tmp_path / "registry"))
    process, url = maker.serve(registry)
    yield registry / "site", url
    process.terminate()
    process.communicate()


@pytest.fixture
def client(modules, tmp_path):
    """A function that runs the client in an empty project, and the folder of its installed skills."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()

    def run(*words):
        command = [modules / ".bin/node", modules / "skills/bin/cli.mjs", *words]
        environ = {"PATH": os.environ["PATH"], "HOME": str(home), "DISABLE_TELEMETRY": "1", "CI": "1"}
        return subprocess.run(
            command, cwd=project, env=environ, capture_output=True, text=True, timeout=120, check=False
        )

    return run, project / ".claude/skills"


def is_whole(installed):
    """Return whether every published byte and the publisher's signature are there."""
    found = files(installed)
    return found.pop(SIGNATURE, None) is not None and found == files(SOURCES[installed.name])


def test_all_skills_of_the_root_index_are_installed(site, client):
    run, folder = client
    done = run("add", site[1], "-y", "-a", "claude-code", "--skill", "*")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {each.name for each in folder.iterdir()} == set(SOURCES)
    assert all(is_whole(each) for each in folder.iterdir())


def test_one_skill_of_the_root_index_is_installed(site, client):
    run, folder = client
    done = run("add", site[1], "-y", "-a", "claude-code", "--skill", "gh-fix-ci")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [each.name for each in folder.iterdir()] == ["gh-fix-ci"]
    assert is_whole(folder / "gh-fix-ci")


def test_npm_skills_installs_the_skill_of_a_scoped_index(site, client):
    run, folder = client
    done = run("add", f"{site[1]}/code-review", "-y", "-a", "claude-code")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [each.name for each in folder.iterdir()] == ["code-review"]
    assert is_whole(folder / "code-review")


def test_a_swapped_archive_is_refused_by_its_digest(site, client):
    run, folder = client
    listing = site[0] / ".well-known/agent-skills/index.json"
    archive = {
        each["name"]: (listing.parent / each["url"]).resolve() for each in json.loads(listing.read_bytes())["skills"]
    }
    archive["code-review"].chmod(0o644)
    shutil.copyfile(archive["release-notes"], archive["code-review"])
    run("add", site[1], "-y", "-a", "claude-code", "--skill", "*")
    assert not (folder / "code-review").exists()
    assert is_whole(folder / "release-notes")
