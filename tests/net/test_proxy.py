"""The proxy that the environment names for a URL."""

import pytest

from skillhub.errors import SourceError
from skillhub.net.target import Proxy, RequestTarget, proxy_for

NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture
def proxy_of(monkeypatch):
    """Return a function that sets variables of proxies and returns the proxy of a URL."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)

    def set_to(url="https://site.example/", **proxies):
        for name, value in proxies.items():
            monkeypatch.setenv(name, value)
        return proxy_for(RequestTarget.parse(url))

    return set_to


def test_no_variable_for_the_scheme_means_no_proxy(proxy_of):
    assert proxy_of() is None
    assert proxy_of(http_proxy="http://proxy.example:3128") is None


@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY", "all_proxy"])
def test_variable_names_the_proxy_of_one_scheme_or_of_all(proxy_of, name):
    assert proxy_of(**{name: "http://proxy.example:3128"}) == Proxy("proxy.example", 3128, "")
    assert proxy_of("http://site.example/") == (Proxy("proxy.example", 3128) if name == "all_proxy" else None)


def test_variable_of_the_scheme_takes_precedence(proxy_of):
    assert proxy_of(https_proxy="first.example:1", all_proxy="second.example:2") == Proxy("first.example", 1)


def test_default_port_of_a_proxy_is_80(proxy_of):
    assert proxy_of(https_proxy="proxy.example") == Proxy("proxy.example", 80)


@pytest.mark.parametrize("url", ["https://localhost/", "https://127.0.0.1:8443/", "https://left.example/"])
def test_local_and_excluded_hosts_have_no_proxy(proxy_of, url):
    assert proxy_of(url, https_proxy="http://proxy.example", no_proxy="left.example") is None


def test_login_of_the_proxy_is_sent_and_not_shown(proxy_of):
    found = proxy_of(https_proxy="http://m%40e:p%3As@proxy.example:8080")
    assert (found.host, found.port) == ("proxy.example", 8080)
    assert found.authorization == "Basic bUBlOnA6cw=="
    assert "Basic" not in repr(found)
    assert proxy_of(https_proxy="http://me@proxy.example").authorization == "Basic bWU6"


@pytest.mark.parametrize(
    "url", ["socks5://p.example:1", "https://u:secret@p.example", "http://[::1", "http://:secret@"]
)
def test_invalid_proxy_is_refused_without_showing_its_password(proxy_of, url):
    with pytest.raises(SourceError, match="expected a proxy") as caught:
        proxy_of(https_proxy=url)
    assert "secret" not in str(caught.value)
