"""Credentials go only to the host that the user named, over https or on this machine."""

import os
import time
from base64 import b64encode

import pytest

from skillhub.errors import FormatError, RateLimited, SkillhubError, SourceError, UnsafeTransfer
from skillhub.net.client import Http
from skillhub.net.fetch import RequestOptions
from skillhub.net.settings import Logins
from skillhub.net.target import RequestTarget
from tests.support.web import Web, answer, redirect, requester_of

SECRET = "s3cret-t0ken"


def logins(tmp_path, tokens=None, netrc=None, **environ):
    if netrc is not None:
        (tmp_path / ".netrc").write_text(netrc)
    return Logins(tokens or {}, environ, str(tmp_path))


def requests_with_credentials(web, path):
    return [head for head in web.heads if head.startswith(f"GET {path} ") and "Authorization" in head]


def test_a_token_goes_to_its_host_and_port(tmp_path):
    credentials = logins(tmp_path, {"a.example": "A", "a.example:8443": "B"}, A="one", B="two")
    assert credentials(RequestTarget.parse("https://a.example/x")) == "Bearer one"
    assert credentials(RequestTarget.parse("https://A.EXAMPLE/x")) == "Bearer one"
    assert credentials(RequestTarget.parse("https://a.example:8443/x")) == "Bearer two"
    for other in ("https://b.example/", "https://x.a.example/", "https://a.example.evil/"):
        assert credentials(RequestTarget.parse(other)) is None


def test_attack_plain_http_gets_no_credentials(tmp_path):
    credentials = logins(tmp_path, {"a.example": "A"}, "machine a.example login me password pass", A=SECRET)
    assert credentials(RequestTarget.parse("http://a.example/")) is None


def test_netrc_provides_a_login_and_its_default_entry_is_ignored(tmp_path):
    credentials = logins(tmp_path, None, "machine a.example\n login me\n password pass\ndefault login x password y\n")
    assert credentials(RequestTarget.parse("https://a.example/")) == "Basic " + b64encode(b"me:pass").decode()
    assert credentials(RequestTarget.parse("https://b.example/")) is None


def test_variable_netrc_selects_another_file(tmp_path):
    (tmp_path / "other").write_text("machine a.example login me password pass")
    assert logins(tmp_path, NETRC=str(tmp_path / "other"))(RequestTarget.parse("https://a.example/"))
    assert logins(tmp_path, NETRC=str(tmp_path / "absent"))(RequestTarget.parse("https://a.example/")) is None


@pytest.mark.parametrize("content", [f"machine a.example {SECRET} {SECRET}", f"{SECRET} a.example"])
def test_error_of_a_broken_netrc_names_the_file_without_its_content(tmp_path, content):
    with pytest.raises(FormatError) as caught:
        logins(tmp_path, None, content)(RequestTarget.parse("https://a.example/"))
    assert ".netrc" in caught.value.where
    assert SECRET not in f"{caught.value} {caught.value.where} {caught.value.hint}"
    assert logins(tmp_path)(RequestTarget.parse("https://b.example/")) is None  # a host that this file does not name


def test_pipe_in_place_of_the_netrc_is_refused(tmp_path):
    os.mkfifo(tmp_path / ".netrc")
    with pytest.raises(SkillhubError):
        logins(tmp_path)(RequestTarget.parse("https://a.example/"))


@pytest.mark.parametrize("token", [f"{SECRET}\r\nX-Evil: 1", f"{SECRET}\n", f"{SECRET} b", "é"])
def test_attack_a_token_with_a_line_break_is_refused_and_not_shown(tmp_path, token):
    with pytest.raises(FormatError) as caught:
        logins(tmp_path, {"a.example": "A"}, A=token)(RequestTarget.parse("https://a.example/"))
    assert SECRET not in str(caught.value)


def test_attack_a_redirect_to_another_origin_carries_no_credentials(tmp_path, web):
    """Another port is another origin; so is the same host under another name."""
    with Web() as evil, Http(credentials=logins(tmp_path, {"127.0.0.1": "A"}, A=SECRET)) as http:
        evil.at("/x", answer(b"x"))
        url = web.at("/a", redirect(evil.url("/x")))
        with pytest.raises(UnsafeTransfer):
            http.get(url, cap=10)
        back = web.at("/b", redirect(f"http://localhost:{web.port}/c"))
        with pytest.raises(UnsafeTransfer):
            http.get(back, cap=10)
        assert len(requests_with_credentials(web, "/a")) == len(requests_with_credentials(web, "/b")) == 1
        assert not evil.heads


def test_attack_another_host_that_a_document_names_gets_no_credentials(tmp_path, web):
    credentials = logins(tmp_path, {"127.0.0.1": "A"}, A=SECRET)
    with Web() as other, Http(credentials=credentials) as http:
        http.get(other.at("/x", answer(b"x")), cap=1, named_by=requester_of(web.url("/index.json")))
        assert not requests_with_credentials(other, "/x")
        http.get(web.at("/y", answer(b"y")), cap=1, named_by=requester_of(web.url("/index.json")))
        assert len(requests_with_credentials(web, "/y")) == 1


def test_headers_of_a_caller_stay_with_the_first_origin(web):
    with Http() as http:
        url = web.at("/a", redirect("/b"))
        web.at("/b", answer(b"x"))
        headers = {"Authorization": f"Bearer {SECRET}", "X-Line": "a\r\nX-Evil: 1"}
        http.ask(url, cap=1, options=RequestOptions(headers=headers))
        assert len(requests_with_credentials(web, "/a")) == len(requests_with_credentials(web, "/b")) == 1
        assert not any("X-Evil" in head or "X-Line" in head for head in web.heads)


def test_hint_of_status_401_names_the_configuration_file(web):
    with Http() as http, pytest.raises(SourceError) as caught:
        http.get(web.at("/a", answer(b"", status="401 Unauthorized")), cap=1)
    assert "config.toml" in caught.value.hint


def test_ask_returns_the_answer_of_any_status(web):
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
def test_rate_limit_is_reported_with_its_end_and_not_retried(web, status, fields, resets):
    began = int(time.time())
    with Http() as http, pytest.raises(RateLimited) as caught:
        http.get(web.at("/a", answer(b"", *fields, status=status)), cap=9)
    assert web.seen["/a"] == 1
    if resets is ...:
        assert began <= caught.value.resets - 60 <= time.time()
    else:
        assert caught.value.resets == resets
