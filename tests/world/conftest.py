"""What most tests of places share: a client, a user's machine, a repository and a git to open it."""

import os
from functools import partial

import pytest

from skillhub.world.git.snapshot import open_git
from skillhub.world.home import Home
from skillhub.world.http import Http
from skillhub.world.project import Project
from tests.support.gitrepos import Repo
from tests.support.site import AT_ONCE, Machine


@pytest.fixture
def http():
    with Http(patience=AT_ONCE) as fetcher:
        yield fetcher


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def home(tmp_path):
    return Home.of({"SKILLHUB_HOME": str(tmp_path / "home")})


@pytest.fixture
def project(tmp_path, home):
    (tmp_path / "project").mkdir()
    return Project(str(tmp_path / "project"), "project", home)


@pytest.fixture
def repo(tmp_path):
    return Repo(tmp_path / "repo")


@pytest.fixture
def environ(tmp_path):
    (tmp_path / "home").mkdir()
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}


@pytest.fixture
def opened(tmp_path, environ):
    """Opens a repository; whatever it makes run leaves a mark, and there is none in the end."""
    yield partial(open_git, cache=str(tmp_path / "cache"), environ=environ)
    assert not (tmp_path / "PWNED").exists()
