"""Repositories that no user named: the hosts that git may reach, and the credentials that it sends."""

import os
import sys
from dataclasses import replace

import pytest

from skillhub.errors import FormatError, SourceError, UnsafeTransfer
from skillhub.formats.text import as_word
from skillhub.net.client import Http
from skillhub.sources.git_program import GitError, GitLimits, GitProgram
from skillhub.sources.git_repository import remote
from skillhub.sources.github import open_repository
from tests.support.gitrepos import SKILL
from tests.support.gitserver import served
from tests.support.web import Web, redirect

STRANGER = GitLimits(named_by="repository")
MARKETPLACE = GitLimits(named_by="marketplace")
PUBLIC = "93.184.216.34"


@pytest.fixture
def environ(tmp_path):
    """Return an environment where each start of ssh writes the file ``PWNED``."""
    (tmp_path / "home").mkdir()
    (tmp_path / "ssh").write_text(f'#!/bin/sh\ntouch "{tmp_path}/PWNED"\nexit 1\n')
    (tmp_path / "ssh").chmod(0o755)
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "GIT_SSH": str(tmp_path / "ssh")}


@pytest.mark.parametrize("rev", [None, "b" * 40])
@pytest.mark.parametrize(
    "url",
    [
        "https://10.0.0.7/x", "https://169.254.169.254/x", "https://127.0.0.1:1/x", "https://localhost/x",
        "https://[::1]/x", "https://[fd00::1]/x", "ssh://git@host.example/x", "ssh://git@93.184.216.34/x",
        "file:////host/share/x", "file:///%2Fhost/share/x", "file:///%5chost/share/x", "file:///%3F%3F/UNC/host/x",
    ],
)  # fmt: skip
def test_attack_a_lock_starts_no_ssh_and_reaches_no_private_network(url, rev, opened, tmp_path):
    with pytest.raises(UnsafeTransfer) as caught:
        opened(url, rev, bounds=STRANGER)
    meant = as_word(f"git+{url}")
    assert caught.value.hint == f"only this repository names it; to use it: skillhub install {meant}"
    assert not (tmp_path / "cache/git").exists() or not list((tmp_path / "cache/git").rglob("*.pack"))


def test_attack_a_lock_makes_git_reach_no_local_server(repo, opened):
    commit = repo.commit({"SKILL.md": SKILL})
    with served(repo.path) as server:
        for rev in (None, commit):
            with pytest.raises(UnsafeTransfer):
                opened(server.url, rev, bounds=STRANGER)
        assert server.seen == set()
        assert opened(server.url, None).rev == commit  # the user names it


def test_local_repository_in_a_lock_is_read(repo, opened):
    commit = repo.commit({"SKILL.md": SKILL})
    for rev in (None, "main", commit):
        assert list(opened(repo.url, rev, bounds=STRANGER).read(["SKILL.md"])) == [SKILL]


@pytest.mark.parametrize("url", ["https://10.0.0.7/x", "ssh://git@10.0.0.7/x", "ssh://git@localhost/x"])
def test_attack_a_private_address_in_a_marketplace_is_refused(url, opened):
    with pytest.raises(UnsafeTransfer, match="private network") as caught:
        opened(url, None, bounds=MARKETPLACE)
    assert f"skillhub install git+{url}" in (caught.value.hint or "")


def test_unresolvable_host_is_a_source_error(opened):
    with pytest.raises(SourceError, match="no address"):
        opened("https://host.invalid/x", None, bounds=STRANGER)


@pytest.mark.parametrize("bounds", [STRANGER, MARKETPLACE])
def test_attack_git_connects_to_the_checked_address(bounds, environ):
    """Git gets the addresses that were checked, and resolves no name."""
    way = remote(f"https://{PUBLIC}:444/x", environ, bounds).pinned_options()
    assert way == ("-c", f"http.curloptResolve={PUBLIC}:444:{PUBLIC}")
    assert remote(f"https://{PUBLIC}:444/x", environ, GitLimits()).pinned_options() == ()


def test_attack_a_repository_that_only_a_lock_names_gets_no_credentials(environ, tmp_path):
    (tmp_path / "home/.gitconfig").write_text(
        '[credential]\n\thelper = store\n[http]\n\textraHeader = "Authorization: Basic eDp5"\n'
        '[url "ssh://git@host.example/"]\n\tinsteadOf = https://host.example/\n'
    )
    url = "https://host.example/x"
    names = ("credential.helper", "http.extraheader", "url.ssh://git@host.example/.insteadof")
    for bounds, expected in ((STRANGER, False), (MARKETPLACE, True), (GitLimits(), True)):
        there = remote(url, environ, bounds, "ghp_x")
        git = GitProgram(str(tmp_path), environ, there.options, there.variables)
        assert [git.is_set(name) for name in names] == [expected] * 3
        assert ("ghp_x" in there.variables.values()) == expected
        assert any("helper" in option for option in there.options) == expected


def test_attack_git_follows_no_redirect(opened, environ):
    with Web() as inner, Web() as outer:
        outer.at("/x/info/refs?service=git-upload-pack", redirect(inner.url("/internal/x")))
        with pytest.raises(UnsafeTransfer, match="redirects to another URL"):
            opened(outer.url("/x"), None)
        assert not inner.seen
    follow = {
        bounds.named_by: [
            option.partition("=")[2]
            for option in remote("https://host.example/x", environ, bounds).options
            if option.startswith("http.followRedirects=")
        ]
        for bounds in (GitLimits(), MARKETPLACE, STRANGER)
    }
    assert follow == {"person": ["false"], "marketplace": ["false"], "repository": ["false"]}


def test_configured_mirror_is_used_for_a_repository_of_a_lock(repo, opened):
    commit = repo.commit({"SKILL.md": SKILL})
    with served(repo.path) as server:
        mirrors = {"https://git.example/x": server.url.rstrip("/")}
        bounds = GitLimits(mirrors=mirrors, named_by="repository")
        assert opened("https://git.example/x", None, bounds=bounds).rev == commit


def test_cached_commit_needs_no_permission_for_its_host(repo, opened):
    commit = repo.commit({"SKILL.md": SKILL})
    with served(repo.path) as server:
        list(opened(server.url, commit).read(["SKILL.md"]))
        assert list(opened(server.url, commit, bounds=STRANGER).read(["SKILL.md"])) == [SKILL]


def test_attack_github_api_gets_no_token_for_a_repository_of_a_lock(environ, tmp_path):
    with Web() as web, Http() as http:
        environ |= {"PATH": str(tmp_path), "GITHUB_API_URL": web.url(""), "GITHUB_TOKEN": "ghp_x"}
        for bounds in (STRANGER, GitLimits()):
            with pytest.raises((SourceError, UnsafeTransfer)):
                open_repository(
                    "https://github.com/o/r", "b" * 40, cache="", environ=environ, bounds=replace(bounds, web=http)
                )
            assert any("ghp_x" in head for head in web.heads) == (bounds is not STRANGER)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits another process")
def test_attack_a_server_that_lists_branches_without_end_does_not_fill_the_memory(environ, tmp_path):
    resource = pytest.importorskip("resource")
    process = GitProgram(str(tmp_path), environ, (), {}).start(("hash-object", "--stdin"))
    assert resource.prlimit(process.pid, resource.RLIMIT_DATA) == (2 << 30, 2 << 30)
    process.communicate()
    error = GitError("fatal: Out of memory, calloc failed\n").explained("https://x.example/", None)
    assert isinstance(error, FormatError) and "takes more memory than git may have" in error.message
