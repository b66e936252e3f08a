import socket
import ssl
import threading
from contextlib import suppress

import pytest

from skillhub.errors import SourceError, UnsafeTransfer
from skillhub.net.client import Http
from skillhub.server.site import SiteHandler, site_server
from tests.support import tls
from tests.support.serving import serving
from tests.support.web import Web, answer, raw, redirect, requester_of


class ByAnyName(SiteHandler):
    def is_own(self, host):
        return True


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return tls.authority(tmp_path_factory.mktemp("tls"), "site.invalid")


@pytest.fixture
def secure(authority, tmp_path):
    """Return the base URL of a site over https."""
    (tmp_path / "a.json").write_bytes(b"{}")
    server = site_server(str(tmp_path), handler=ByAnyName)
    server.socket = tls.server_context(authority).wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None
    with serving(server):
        yield f"https://127.0.0.1:{server.server_port}"


def test_valid_certificate_is_accepted(secure, authority):
    with Http(tls=ssl.create_default_context(cafile=authority)) as http:
        for _ in range(2):
            assert http.get(f"{secure}/a.json", cap=2).data == b"{}"


def test_certificate_of_an_unknown_authority_is_refused(secure):
    with Http() as http, pytest.raises(UnsafeTransfer, match="no valid certificate"):
        http.get(f"{secure}/a.json", cap=2)


def test_ssl_cert_file_provides_the_authorities(secure, authority, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", authority)
    with Http() as http:
        assert http.get(f"{secure}/a.json", cap=2).data == b"{}"


def test_certificate_of_another_host_is_refused(secure, authority):
    with Http(tls=ssl.create_default_context(cafile=authority)) as http, pytest.raises(UnsafeTransfer):
        http.get(f"{secure.replace('127.0.0.1', 'localhost')}/a.json", cap=2)


def test_redirect_to_a_private_https_site_is_refused(secure, authority):
    with Web() as web, Http(tls=ssl.create_default_context(cafile=authority)) as http:
        http.get(f"{secure}/a.json", cap=2)
        with pytest.raises(UnsafeTransfer, match="private"):
            http.get(web.at("/a", redirect(f"{secure}/a.json")), cap=2)


def test_the_wait_for_a_late_handshake_is_reported(authority):
    reported = threading.Event()

    def serve_late():
        connection, _ = listening.accept()
        reported.wait()
        with tls.server_context(authority).wrap_socket(connection, server_side=True) as stream:
            stream.recv(1)
            answer(b"x")(stream)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve_late)
        thread.start()
        context = ssl.create_default_context(cafile=authority)
        with Http(tls=context, arrived=lambda count: count or reported.set()) as http:
            url = f"https://127.0.0.1:{listening.getsockname()[1]}/a"
            assert http.get(url, cap=1).data == b"x"
        thread.join()


def relay(port):
    """Answer a CONNECT and relay each byte to ``port`` and back."""

    def copy(source, sink):
        with suppress(OSError):  # either end may hang up first
            while data := source.recv(65536):
                sink.sendall(data)

    def act(connection):
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with socket.create_connection(("127.0.0.1", port)) as there:
            threading.Thread(target=copy, args=(there, connection), daemon=True).start()
            copy(connection, there)

    return act


@pytest.fixture
def proxied(monkeypatch):
    for name in (
        "http_proxy",
        "HTTP_PROXY",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
        "no_proxy",
        "NO_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    with Web() as web:
        monkeypatch.setenv("https_proxy", f"http://me:p%40ss@127.0.0.1:{web.port}")
        monkeypatch.setenv("http_proxy", f"127.0.0.1:{web.port}")
        monkeypatch.setenv("no_proxy", "direct.invalid")
        yield web


def test_https_goes_through_one_tunnel_of_the_proxy(proxied, secure, authority):
    proxied.acts["site.invalid:443"] = relay(int(secure.rpartition(":")[2]))
    with Http(tls=ssl.create_default_context(cafile=authority)) as http:
        for _ in range(2):
            assert http.get("https://site.invalid/a.json", cap=2).data == b"{}"
    assert proxied.seen == {"site.invalid:443": 1}
    assert "Proxy-Authorization: Basic bWU6cEBzcw==" in proxied.heads[0]


def test_proxy_resolves_the_host_that_a_document_names(proxied, secure, authority):
    proxied.acts["site.invalid:443"] = relay(int(secure.rpartition(":")[2]))
    with Http(tls=ssl.create_default_context(cafile=authority)) as http:
        found = http.get("https://site.invalid/a.json", cap=2, named_by=requester_of("https://index.example/a.json"))
    assert (found.data, proxied.seen) == (b"{}", {"site.invalid:443": 1})


def test_plain_http_goes_through_a_proxy(proxied):
    proxied.acts["http://site.invalid/a"] = answer(b"x")
    with Http() as http:
        assert http.get("http://site.invalid/a", cap=1).data == b"x"


def test_refusing_proxy_is_an_error_and_excluded_hosts_bypass_the_proxy(proxied, secure, authority):
    proxied.acts["site.invalid:443"] = raw(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n")
    with Http(tls=ssl.create_default_context(cafile=authority)) as http:
        with pytest.raises(SourceError, match="407"):
            http.get("https://site.invalid/a", cap=1)
        assert http.get(f"{secure}/a.json", cap=2).data == b"{}"
        seen = proxied.seen.copy()
        with pytest.raises(SourceError):
            http.get("http://direct.invalid/a", cap=1)
    assert proxied.seen == seen


def test_redirect_into_a_private_network_is_refused_behind_a_proxy(proxied):
    proxied.acts["http://site.invalid/a"] = redirect("https://169.254.169.254/latest")
    with Http() as http, pytest.raises(UnsafeTransfer, match="private"):
        http.get("http://site.invalid/a", cap=1)
    assert len(proxied.seen) == 1


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1", "http://[::1", "http://127.0.0.1:x"])
def test_invalid_proxy_url_is_reported(proxied, monkeypatch, url):
    monkeypatch.setenv("https_proxy", url)
    with Http() as http, pytest.raises(SourceError, match="proxy"):
        http.get("https://site.invalid/a", cap=1)
