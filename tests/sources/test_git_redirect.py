"""Redirects of git: each hop is checked before git follows it; a refusal names the target."""

from __future__ import annotations

from base64 import b64encode
from functools import partial

import pytest

from skillhub.errors import SourceError, UnsafeTransfer
from skillhub.net.client import Http
from skillhub.net.fetch import PLAIN, Response
from skillhub.sources.git_program import GitLimits
from skillhub.sources.git_repository import redirected, remote
from skillhub.sources.git_snapshot import open_git
from tests.support.gitbackend import backend
from tests.support.gitrepos import SKILL, Repo
from tests.support.here import Here, close_resources
from tests.support.web import Web, answer, redirect

__all__ = ["close_resources"]
ASKED = "/info/refs?service=git-upload-pack"
PUBLIC = "93.184.216.34"


@pytest.fixture
def http():
    with Http() as http:
        yield http


@pytest.fixture
def opened(tmp_path, environ, http):
    bounds = GitLimits(web=http)
    return partial(open_git, cache=str(tmp_path / "cache"), environ=environ, bounds=bounds)


@pytest.fixture
def commit(tmp_path):
    return Repo(tmp_path / "served/now.git").commit({"deploy/SKILL.md": SKILL})


@pytest.fixture
def server(tmp_path):
    with backend(tmp_path / "served") as server:
        yield server


@pytest.mark.parametrize("rev", [None, "main", "COMMIT"])
def test_renamed_repository_is_found_by_its_old_name(rev, server, commit, opened):
    server.moved["old.git"] = "/now.git"
    snapshot = opened(server.url("/old.git"), commit if rev == "COMMIT" else rev)
    assert snapshot.rev == commit
    assert list(snapshot.read(["deploy/SKILL.md"])) == [SKILL]
    # Git is redirected once, and gets the new URL afterwards.
    assert sum(path.startswith("/old.git") for path in server.asked) == 2


def test_several_redirects_are_followed(server, commit, opened):
    server.moved |= {"oldest.git": "/older.git", "older.git": server.url("/old.git"), "old.git": "/now.git"}
    assert opened(server.url("/oldest.git"), None).rev == commit


def test_repository_without_redirect_gets_requests_of_git_only(server, commit, opened):
    assert opened(server.url("/now.git"), None).rev == commit
    assert not any("oldest" in path for path in server.asked)
    with pytest.raises(SourceError):
        opened(server.url("/none.git"), None)


@pytest.mark.parametrize(
    ("there", "message", "hint"),
    [
        ("https://10.0.0.7/x", "private network, to 10.0.0.7", "skillhub install git+https://10.0.0.7/x"),
        ("https://169.254.169.254/x", "private network", "skillhub install git+https://169.254.169.254/x"),
        ("https://[::1]/x", "private network", "skillhub install 'git+https://[::1]/x'"),
        ("https://10.0.0.7/x;id", "private network", "skillhub install 'git+https://10.0.0.7/x;id'"),
        ("http://93.184.216.34/x", "redirect to https, found 'http://93.184.216.34/x", None),
        ("file:///etc", "expected an http or https URL, found 'file:", None),
        ("ssh://git@host.example/x", "expected an http or https URL, found 'ssh:", None),
        ("https://me:pass@host.example/x", "expected an http or https URL", None),
    ],
)
def test_attack_a_redirect_to_a_forbidden_url_is_refused(there, message, hint, server, opened):
    server.moved["x"] = there
    with pytest.raises(UnsafeTransfer, match="the server redirects to another URL") as caught:
        opened(server.url("/x"), None)
    assert message in caught.value.message
    assert hint is None or hint in caught.value.hint


def test_attack_a_redirect_to_another_local_port_is_refused(server, opened):
    with Web() as inner:
        server.moved["x"] = inner.url("/internal/x")
        with pytest.raises(UnsafeTransfer, match="the server redirects to another URL") as caught:
            opened(server.url("/x"), None)
        assert inner.url("/internal/x") in caught.value.message
        assert not inner.connections


def test_attack_a_redirect_to_a_path_of_no_repository_is_refused(opened):
    with Web() as web:
        web.at(f"/x{ASKED}", redirect("/admin?do=it"))
        with pytest.raises(UnsafeTransfer, match="expected a redirect to a repository"):
            opened(web.url("/x"), None)
        web.at(f"/y{ASKED}", redirect(f"/a/../b{ASKED}"))
        web.at(f"/b{ASKED}", answer(b""))
        with pytest.raises((UnsafeTransfer, SourceError)):
            opened(web.url("/y"), None)


def test_attack_endless_redirects_of_git_are_refused(server, opened):
    server.moved |= {"a": "/b", "b": "/a"}
    with pytest.raises(UnsafeTransfer, match="at most 5 redirects"):
        opened(server.url("/a"), None)


def test_attack_a_redirect_that_only_git_gets_is_refused(opened):
    with Web() as web:
        heads = web.heads

        def act(connection):
            is_git = "User-Agent: git/" in heads[-1]
            (redirect("/y/info/refs?service=git-upload-pack") if is_git else answer(b""))(connection)

        web.at(f"/x{ASKED}", act)
        with pytest.raises(UnsafeTransfer, match="the server redirects to another URL"):
            opened(web.url("/x"), None)
        assert f"/y{ASKED}" not in web.seen


def test_attack_a_second_redirect_that_only_git_gets_is_refused(server, commit, opened):
    """The server redirects skillhub to one URL, and git, which goes there, to another."""
    with Web() as web:
        count = [0]

        def act(connection):
            count[0] += 1
            is_git = "User-Agent: git/" in web.heads[-1]
            (redirect(server.url(f"/now.git{ASKED}")) if is_git else answer(b""))(connection)

        web.at(f"/x{ASKED}", redirect(f"/y{ASKED}"))
        web.at(f"/y{ASKED}", act)
        with pytest.raises(UnsafeTransfer, match="the server redirects to another URL"):
            opened(web.url("/x"), None)
        assert not server.asked


@pytest.mark.parametrize("named_by", ["repository", "marketplace", "redirect"])
def test_attack_redirects_of_urls_that_no_user_named_are_not_followed(named_by, http, environ):
    with Web() as web:
        there = remote(web.url("/x"), environ, GitLimits())
        bounds = GitLimits(named_by=named_by, web=http)
        assert redirected(there.__class__(there.url, there.fetch_url, named_by, (), {}), environ, bounds) is None
        assert not web.connections


class Sent:
    """A client whose requests are all redirected to one URL."""

    def __init__(self, url):
        self.url = url
        self.asked = []

    def ask(self, url, *, cap, options=PLAIN):
        self.asked.append((url, dict(options.headers)))
        return Response(self.url, b"")


def test_attack_git_connects_to_the_checked_address_of_a_redirect(environ):
    web = Sent(f"https://{PUBLIC}/new/x{ASKED}")
    there = redirected(remote("https://git.example/x", environ, GitLimits(), "ghp_x"), environ, GitLimits(web=web))
    assert (there.url, there.fetch_url, there.named_by) == (
        "https://git.example/x",
        f"https://{PUBLIC}/new/x",
        "redirect",
    )
    assert there.pinned_options() == ("-c", f"http.curloptResolve={PUBLIC}:443:{PUBLIC}")
    assert "http.followRedirects=false" in there.options
    # The token is for the first host only.
    assert "ghp_x" not in there.variables.values()
    assert not any("credential" in option for option in there.options)
    private = redirected(
        remote("https://git.example/x", environ, GitLimits()),
        environ,
        GitLimits(web=Sent(f"https://10.0.0.7/x{ASKED}")),
    )
    with pytest.raises(UnsafeTransfer, match="private network") as caught:
        private.pinned_options()
    assert "skillhub install git+https://10.0.0.7/x" in caught.value.hint


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.usefixtures("close_resources")
def test_lock_keeps_the_url_that_the_user_typed(tmp_path, server, commit):
    server.moved["old.git"] = "/now.git"
    shell = Here(tmp_path / "machine")
    done = shell.run("install", f"git+{server.url('/old.git')}", "--all", "--yes", "--allow-unsigned")
    assert done.status == 0, done.err
    assert shell.lock()["skills"]["deploy"]["git"] == server.url("/old.git")
    server.moved["old.git"] = "https://10.0.0.7/x"
    done = shell.run("update", "--check")
    assert done.status == 5
    assert "skillhub install git+https://10.0.0.7/x" in done.err


def test_renamed_private_repository_is_found_with_the_token(server, commit, opened):
    server.password = "Basic " + b64encode(b"x-access-token:ghp_x").decode()
    server.moved["old.git"] = "/now.git"
    assert opened(server.url("/old.git"), None, token="ghp_x").rev == commit
    assert server.authorizations == {None, server.password}
