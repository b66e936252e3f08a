"""Who is told who we are: the host that a person named, over https or on this machine, and nobody else."""

import os
import time
from base64 import b64encode

import pytest

from skillhub.errors import FormatError, RateLimited, SkillhubError, SourceError, UnsafeTransfer
from skillhub.net.client import Http
from skillhub.net.fetch import RequestOptions
from skillhub.net.settings import Logins
from skillhub.net.target import RequestTarget
from tests.support.web import Web, answer, by, redirect

SECRET = "s3cret-t0ken"


def known(tmp_path, tokens=None, netrc=None, **environ):
    if netrc is not None:
        (tmp_path / ".netrc").write_text(netrc)
    return Logins(tokens or {}, environ, str(tmp_path))


def told(web, path):
    return [head for head in web.heads if head.startswith(f"GET {path} ") and "Authorization" in head]


def test_a_token_goes_to_its_host_and_port(tmp_path):
    ask = known(tmp_path, {"a.example": "A", "a.example:8443": "B"}, A="one", B="two")
    assert ask(RequestTarget.parse("https://a.example/x")) == "Bearer one"
    assert ask(RequestTarget.parse("https://A.EXAMPLE/x")) == "Bearer one"
    assert ask(RequestTarget.parse("https://a.example:8443/x")) == "Bearer two"
    for other in ("https://b.example/", "https://x.a.example/", "https://a.example.evil/"):
        assert ask(RequestTarget.parse(other)) is None


def test_attack_plain_http_learns_no_secret(tmp_path):
    ask = known(tmp_path, {"a.example": "A"}, "machine a.example login me password pass", A=SECRET)
    assert ask(RequestTarget.parse("http://a.example/")) is None


def test_a_login_comes_from_netrc_and_default_is_nobodys(tmp_path):
    ask = known(tmp_path, None, "machine a.example\n login me\n password pass\ndefault login x password y\n")
    assert ask(RequestTarget.parse("https://a.example/")) == "Basic " + b64encode(b"me:pass").decode()
    assert ask(RequestTarget.parse("https://b.example/")) is None


def test_the_environment_names_another_netrc(tmp_path):
    (tmp_path / "other").write_text("machine a.example login me password pass")
    assert known(tmp_path, NETRC=str(tmp_path / "other"))(RequestTarget.parse("https://a.example/"))
    assert known(tmp_path, NETRC=str(tmp_path / "absent"))(RequestTarget.parse("https://a.example/")) is None


@pytest.mark.parametrize("content", [f"machine a.example {SECRET} {SECRET}", f"{SECRET} a.example"])
def test_a_broken_netrc_is_named_and_nothing_of_it_is_shown(tmp_path, content):
    with pytest.raises(FormatError) as caught:
        known(tmp_path, None, content)(RequestTarget.parse("https://a.example/"))
    assert ".netrc" in caught.value.where
    assert SECRET not in f"{caught.value} {caught.value.where} {caught.value.hint}"
    assert known(tmp_path)(RequestTarget.parse("https://b.example/")) is None  # of which it does not speak


def test_a_pipe_in_place_of_the_netrc_hangs_nobody(tmp_path):
    os.mkfifo(tmp_path / ".netrc")
    with pytest.raises(SkillhubError):
        known(tmp_path)(RequestTarget.parse("https://a.example/"))


@pytest.mark.parametrize("token", [f"{SECRET}\r\nX-Evil: 1", f"{SECRET}\n", f"{SECRET} b", "é"])
def test_attack_a_token_that_is_a_header_of_its_own(tmp_path, token):
    with pytest.raises(FormatError) as caught:
        known(tmp_path, {"a.example": "A"}, A=token)(RequestTarget.parse("https://a.example/"))
    assert SECRET not in str(caught.value)


def test_attack_a_redirect_carries_no_secret_away(tmp_path, web):
    """Another port is another origin; so is the same host under another name."""
    with Web() as evil, Http(credentials=known(tmp_path, {"127.0.0.1": "A"}, A=SECRET)) as http:
        evil.at("/x", answer(b"x"))
        url = web.at("/a", redirect(evil.url("/x")))
        with pytest.raises(UnsafeTransfer):
            http.get(url, cap=10)
        back = web.at("/b", redirect(f"http://localhost:{web.port}/c"))
        with pytest.raises(UnsafeTransfer):
            http.get(back, cap=10)
        assert len(told(web, "/a")) == len(told(web, "/b")) == 1
        assert not evil.heads


def test_attack_what_a_document_names_learns_no_secret(tmp_path, web):
    ask = known(tmp_path, {"127.0.0.1": "A"}, A=SECRET)
    with Web() as other, Http(credentials=ask) as http:
        http.get(other.at("/x", answer(b"x")), cap=1, named_by=by(web.url("/index.json")))
        assert not told(other, "/x")
        http.get(web.at("/y", answer(b"y")), cap=1, named_by=by(web.url("/index.json")))
        assert len(told(web, "/y")) == 1


def test_headers_of_a_caller_stay_with_the_first_origin(web):
    with Http() as http:
        url = web.at("/a", redirect("/b"))
        web.at("/b", answer(b"x"))
        headers = {"Authorization": f"Bearer {SECRET}", "X-Line": "a\r\nX-Evil: 1"}
        http.ask(url, cap=1, options=RequestOptions(headers=headers))
        assert len(told(web, "/a")) == len(told(web, "/b")) == 1
        assert not any("X-Evil" in head or "X-Line" in head for head in web.heads)


def test_whoever_is_not_known_learns_how_to_be(web):
    with Http() as http, pytest.raises(SourceError) as caught:
        http.get(web.at("/a", answer(b"", status="401 Unauthorized")), cap=1)
    assert "config.toml" in caught.value.hint


def test_an_answer_is_told_whatever_its_status(web):
    with Http() as http:
        for status in ("304 Not Modified", "401 Unauthorized", "403 Forbidden", "422 Unprocessable Content"):
            body = b"" if status.startswith("304") else b"why"
            found = http.ask(web.at("/a", answer(body, "X-Limit: 5", status=status)), cap=99)
            assert (found.status, found.data, found.headers["x-limit"]) == (int(status[:3]), body, "5")
        assert web.connections == 1


@pytest.mark.parametrize(
    ("status", "fields", "resets"),
    [
        ("403 Forbidden", ["X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1790000000"], 1790000000),
        ("429 Too Many Requests", ["Retry-After: soon"], None),
        ("429 Too Many Requests", ["Retry-After: 60"], ...),
    ],
)
def test_who_asked_too_often_is_told_until_when_and_asks_no_more(web, status, fields, resets):
    began = int(time.time())
    with Http() as http, pytest.raises(RateLimited) as caught:
        http.get(web.at("/a", answer(b"", *fields, status=status)), cap=9)
    assert web.seen["/a"] == 1
    if resets is ...:
        assert began <= caught.value.resets - 60 <= time.time()
    else:
        assert caught.value.resets == resets
