"""What no person has named: where git goes for it, and what it tells of who asks."""

import os
from dataclasses import replace

import pytest

from skillhub.errors import SourceError, UnsafeTransfer
from skillhub.formats.text import as_word
from skillhub.net.client import Http
from skillhub.sources.git_program import GitLimits, GitProgram
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
    """A machine where every ssh leaves a mark."""
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
def test_attack_a_lock_leads_git_into_a_private_network_or_makes_it_start_ssh(url, rev, opened, tmp_path):
    with pytest.raises(UnsafeTransfer) as caught:
        opened(url, rev, bounds=STRANGER)
    meant = as_word(f"git+{url}")
    assert caught.value.hint == f"only this repository names it; to use it: skillhub install {meant}"
    assert not (tmp_path / "cache/git").exists() or not list((tmp_path / "cache/git").rglob("*.pack"))


def test_attack_a_lock_makes_git_ask_what_listens_on_this_machine(repo, opened):
    commit = repo.commit({"SKILL.md": SKILL})
    with served(repo.path) as server:
        for rev in (None, commit):
            with pytest.raises(UnsafeTransfer):
                opened(server.url, rev, bounds=STRANGER)
        assert server.seen == set()
        assert opened(server.url, None).rev == commit  # a person names it


def test_a_repository_on_this_disk_is_read_whoever_names_it_as_a_path_is(repo, opened):
    commit = repo.commit({"SKILL.md": SKILL})
    for rev in (None, "main", commit):
        assert list(opened(repo.url, rev, bounds=STRANGER).read(["SKILL.md"])) == [SKILL]


@pytest.mark.parametrize("url", ["https://10.0.0.7/x", "ssh://git@10.0.0.7/x", "ssh://git@localhost/x"])
def test_attack_a_name_in_a_marketplace_has_a_private_address(url, opened):
    with pytest.raises(UnsafeTransfer, match="private network") as caught:
        opened(url, None, bounds=MARKETPLACE)
    assert f"skillhub install git+{url}" in (caught.value.hint or "")


def test_a_host_without_an_address_is_no_attack(opened):
    with pytest.raises(SourceError, match="no address"):
        opened("https://host.invalid/x", None, bounds=STRANGER)


@pytest.mark.parametrize("bounds", [STRANGER, MARKETPLACE])
def test_attack_a_host_that_has_another_address_when_it_is_looked_up_again(bounds, environ):
    """Git is told the addresses that were judged, and looks up none."""
    way = remote(f"https://{PUBLIC}:444/x", environ, bounds).pinned_options()
    assert way == ("-c", f"http.curloptResolve={PUBLIC}:444:{PUBLIC}")
    assert remote(f"https://{PUBLIC}:444/x", environ, GitLimits()).pinned_options() == ()


def test_attack_a_lock_has_a_server_told_who_asks(environ, tmp_path):
    (tmp_path / "home/.gitconfig").write_text(
        '[credential]\n\thelper = store\n[http]\n\textraHeader = "Authorization: Basic eDp5"\n'
        '[url "ssh://git@host.example/"]\n\tinsteadOf = https://host.example/\n'
    )
    url = "https://host.example/x"
    names = ("credential.helper", "http.extraheader", "url.ssh://git@host.example/.insteadof")
    for bounds, told in ((STRANGER, False), (MARKETPLACE, True), (GitLimits(), True)):
        there = remote(url, environ, bounds, "ghp_x")
        git = GitProgram(str(tmp_path), environ, there.options, there.variables)
        assert [git.is_set(name) for name in names] == [told] * 3
        assert ("ghp_x" in there.variables.values()) == told
        assert any("helper" in option for option in there.options) == told


def test_attack_a_redirect_leads_git_elsewhere(opened, environ):
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


def test_a_mirror_that_a_person_configured_is_where_they_want_it(repo, opened):
    commit = repo.commit({"SKILL.md": SKILL})
    with served(repo.path) as server:
        mirrors = {"https://git.example/x": server.url.rstrip("/")}
        bounds = GitLimits(mirrors=mirrors, named_by="repository")
        assert opened("https://git.example/x", None, bounds=bounds).rev == commit


def test_what_is_here_needs_no_way_there(repo, opened):
    commit = repo.commit({"SKILL.md": SKILL})
    with served(repo.path) as server:
        list(opened(server.url, commit).read(["SKILL.md"]))
        assert list(opened(server.url, commit, bounds=STRANGER).read(["SKILL.md"])) == [SKILL]


def test_attack_a_lock_has_the_api_told_who_asks_where_there_is_no_git(environ, tmp_path):
    with Web() as web, Http() as http:
        environ |= {"PATH": str(tmp_path), "GITHUB_API_URL": web.url(""), "GITHUB_TOKEN": "ghp_x"}
        for bounds in (STRANGER, GitLimits()):
            with pytest.raises((SourceError, UnsafeTransfer)):
                open_repository(
                    "https://github.com/o/r", "b" * 40, cache="", environ=environ, bounds=replace(bounds, web=http)
                )
            assert any("ghp_x" in head for head in web.heads) == (bounds is not STRANGER)
