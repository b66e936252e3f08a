"""Machines that tests run the program on; slow ones are made once per session and copied or only read."""

from __future__ import annotations

import pytest

from tests.support.cli import Shell
from tests.support.gitrepos import Repo, files
from tests.support.served import online


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """A read-only machine: one enabled skill, one skill with an open need, one skill outside the lock."""
    shell = Shell(tmp_path_factory.mktemp("installed"))
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    assert shell.run("install", "github:gh-fix-ci", "--yes", "--mcp", "skip").status == 6
    shell.skill("project/.agents/skills/loose")
    return shell


@pytest.fixture(scope="session")
def offered(tmp_path_factory):
    """A machine with a registry at ``folder/registry`` that offers one skill; read-only, or copied."""
    shell = Shell(tmp_path_factory.mktemp("offered"))
    shell.skill("src/greeting", head='metadata:\n  version: "1.0.0"\n')
    assert shell.run("registry", "init", shell.folder / "registry", "--publisher", "acme").status == 0
    assert shell.run("registry", "add", shell.folder / "registry", shell.folder / "src/greeting").status == 0
    return shell


@pytest.fixture(scope="session")
def served(offered):
    """Serve the registry; return its URL."""
    with online(offered.folder / "registry/site") as url:
        yield url


@pytest.fixture
def repo(shell):
    """A repository with one skill."""
    repo = Repo(shell.folder / "repo.git")
    repo.commit(files("Do it.\n"))
    return repo
