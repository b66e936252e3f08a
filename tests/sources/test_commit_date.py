"""The date of a commit, read by git and by GitHub's API; an invalid date gives None."""

from __future__ import annotations

import os

import pytest

from skillhub.model.index import Release
from skillhub.net.client import Http
from skillhub.sources.git_program import GitLimits
from skillhub.sources.git_snapshot import date_of, open_git
from skillhub.sources.github import open_repository
from skillhub.sources.repository import Repository, open_folder
from tests.support.github_api import GitHubServer
from tests.support.gitrepos import SKILL, Repo
from tests.support.snapshot import Hub

DATE, TEXT = 1_767_323_045, "2026-01-02T03:04:05Z"
HEAD = b"tree %s\nauthor A <a@example.org> 1 +0000\n" % (b"a" * 40)


@pytest.fixture
def repo(tmp_path):
    made = Repo(tmp_path / "repo")
    made.commit({"pdf/SKILL.md": SKILL}, date=DATE)
    return made


def test_git_gives_the_date_of_the_commit(repo, tmp_path):
    found = open_git(repo.url, None, cache=str(tmp_path / "cache"), environ=os.environ)
    assert found.date == TEXT
    place = Repository(found, url=repo.url, elsewhere=Hub())
    assert place.committed(Release(name="pdf", url=repo.url, rev=found.rev, type="tree", path="pdf")) == TEXT


def test_github_gives_the_date_of_the_commit(repo, tmp_path):
    (tmp_path / "empty").mkdir()
    with GitHubServer(repo) as server, Http() as web:
        environ = {"PATH": str(tmp_path / "empty"), "HOME": str(tmp_path), "GITHUB_API_URL": server.url}
        found = open_repository(
            "https://github.com/acme/skills",
            None,
            cache=str(tmp_path / "cache"),
            environ=environ,
            bounds=GitLimits(web=web),
        )
        assert found.date == TEXT


def test_local_folder_has_no_commit_date(tmp_path):
    place = open_folder(str(tmp_path))
    assert place.committed(Release(name="pdf", url=str(tmp_path), type="tree", path="pdf")) is None


@pytest.mark.parametrize(
    ("rest", "date"),
    [
        (b"committer B <b@example.org> 1767323045 +0530\n\nwhy\n", TEXT),
        (b"committer B > <b> 1767323045 +0000\ngpgsig x\n committer C <c> 1 +0000\n\n", TEXT),
        (b"\ncommitter B <b@example.org> 1767323045 +0000\n", None),
        (b" committer B <b@example.org> 1767323045 +0000\n\n", None),
        (b"committer B <b@example.org> soon +0000\n\n", None),
        (b"committer B <b@example.org> -5 +0000\n\n", None),
        (b"committer B <b@example.org> 999999999999 +0000\n\n", None),
        (b"", None),
    ],
)
def test_date_is_read_from_the_head_of_a_commit(rest, date):
    assert date_of(HEAD + rest) == date
