"""Which proxy the environment names for a URL, if one."""

import pytest

from skillhub.errors import SourceError
from skillhub.net.target import Proxy, RequestTarget, proxy_for

NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture
def named(monkeypatch):
    """Return a function that names proxies in an environment that names none."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)

    def set_to(url="https://site.example/", **proxies):
        for name, value in proxies.items():
            monkeypatch.setenv(name, value)
        return proxy_for(RequestTarget.parse(url))

    return set_to


def test_nothing_named_is_no_proxy(named):
    assert named() is None
    assert named(http_proxy="http://proxy.example:3128") is None


@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY", "all_proxy"])
def test_named_for_the_scheme_or_for_all(named, name):
    assert named(**{name: "http://proxy.example:3128"}) == Proxy("proxy.example", 3128, "")
    assert named("http://site.example/") == (Proxy("proxy.example", 3128) if name == "all_proxy" else None)


def test_what_is_named_for_the_scheme_goes_first(named):
    assert named(https_proxy="first.example:1", all_proxy="second.example:2") == Proxy("first.example", 1)


def test_port_is_80_where_none_is_said(named):
    assert named(https_proxy="proxy.example") == Proxy("proxy.example", 80)


@pytest.mark.parametrize("url", ["https://localhost/", "https://127.0.0.1:8443/", "https://left.example/"])
def test_this_machine_and_what_is_left_out_need_none(named, url):
    assert named(url, https_proxy="http://proxy.example", no_proxy="left.example") is None


def test_user_and_password_are_told_to_the_proxy_and_shown_to_nobody(named):
    found = named(https_proxy="http://m%40e:p%3As@proxy.example:8080")
    assert (found.host, found.port) == ("proxy.example", 8080)
    assert found.authorization == "Basic bUBlOnA6cw=="
    assert "Basic" not in repr(found)
    assert named(https_proxy="http://me@proxy.example").authorization == "Basic bWU6"


@pytest.mark.parametrize(
    "url", ["socks5://p.example:1", "https://u:secret@p.example", "http://[::1", "http://:secret@"]
)
def test_what_is_no_http_proxy_is_refused_and_not_repeated(named, url):
    with pytest.raises(SourceError, match="expected a proxy") as caught:
        named(https_proxy=url)
    assert "secret" not in str(caught.value)
