"""One deadline covers the whole request; addresses are checked when the client connects."""

import socket
import socketserver
import threading
import time

import pytest

from skillhub.errors import SourceError, UnsafeTransfer
from skillhub.net.client import Http, Patience
from tests.support.bare import run_bare
from tests.support.serving import serving
from tests.support.web import answer, endless, redirect, requester_of

PUBLIC = "https://site.example/a"
HURRY = Patience(grace=0.4, rate=10_000_000, pauses=(0.0,) * 1000)


@pytest.fixture
def hurried():
    with Http(patience=HURRY) as http:
        yield http


@pytest.fixture
def resolver(monkeypatch):
    """Resolve names to the rows that the test gives, one row for each look-up; the last row stays."""
    rows, asked, dialled = [], [], []

    def getaddrinfo(host, port, *_, **__):
        asked.append(host)
        found = rows.pop(0) if len(rows) > 1 else rows[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    def create_connection(address, timeout=None, **_):
        dialled.append(address[0])
        raise ConnectionRefusedError("connection refused")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "create_connection", create_connection)
    return rows, asked, dialled


def after(seconds, act):
    def late(connection):
        time.sleep(seconds)
        act(connection)

    return late


def test_attack_a_silent_name_server_ends_at_the_deadline(hurried, monkeypatch):
    over = threading.Event()

    def getaddrinfo(*_, **__):
        over.wait(300)
        raise socket.gaierror("the name server never answered")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    try:
        with pytest.raises(SourceError, match="in time"):
            hurried.get(PUBLIC, cap=1)
    finally:
        over.set()


class _Drip(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")
        try:
            while True:
                time.sleep(0.02)
                self.request.sendall(b"\0")
        except OSError:
            return


def test_attack_a_dripping_handshake_ends_at_the_deadline(hurried):
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Drip)
    server.daemon_threads, server.block_on_close = True, False
    with serving(server), pytest.raises(SourceError):
        hurried.get(f"https://127.0.0.1:{server.server_address[1]}/a", cap=1)


def test_attack_a_dripping_proxy_ends_at_the_deadline(web, hurried, monkeypatch):
    monkeypatch.setenv("https_proxy", web.url(""))
    web.acts["site.invalid:443"] = endless(b"HTTP/1.1 200 OK\r\nX: ", b"x", 0.02)
    with pytest.raises(SourceError, match="in time"):
        hurried.get("https://site.invalid/a", cap=1)


def test_attack_redirects_do_not_renew_the_deadline(web, hurried):
    with pytest.raises(SourceError, match="in time"):
        hurried.get(web.at("/a", after(0.2, redirect("/a"))), cap=1)


def test_attack_retries_do_not_renew_the_deadline(web, hurried):
    with pytest.raises(SourceError, match="in time"):
        hurried.get(web.at("/a", after(0.05, answer(b"", status="503 Later"))), cap=1)


def test_attack_a_dripping_error_body_does_not_renew_the_deadline(web, hurried):
    head = b"HTTP/1.1 404 Not Found\r\nContent-Length: 50000\r\n\r\n"
    with pytest.raises(SourceError, match="in time"):
        hurried.get(web.at("/a", endless(head, b"x", 0.02)), cap=1)


def test_attack_a_dripping_redirect_body_ends_at_the_deadline(web, hurried):
    head = b"HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 50000\r\n\r\n"
    web.at("/b", answer(b"x"))
    with pytest.raises(SourceError, match="in time"):
        hurried.get(web.at("/a", endless(head, b"x", 0.02)), cap=1)


def test_attack_the_client_connects_to_the_checked_address(resolver):
    rows, asked, dialled = resolver
    rows += [["1.1.1.1"], ["127.0.0.1"]]
    with Http(patience=Patience(pauses=())) as http, pytest.raises(SourceError):
        http.get(PUBLIC, cap=1, named_by=requester_of("https://index.example/"))
    assert (asked, dialled) == (["site.example"], ["1.1.1.1"])


@pytest.mark.parametrize(
    "addresses",
    [
        ["1.1.1.1", "127.0.0.1"],
        ["127.0.0.1", "1.1.1.1"],
        ["1.1.1.1", "::ffff:10.0.0.1"],
        ["169.254.169.254"],
        ["fe80::1%lo"],
    ],
)
def test_attack_a_host_with_one_private_address_is_refused(resolver, addresses):
    rows, _, dialled = resolver
    rows.append(addresses)
    with Http() as http, pytest.raises(UnsafeTransfer, match="private network"):
        http.get(PUBLIC, cap=1, named_by=requester_of("https://index.example/"))
    assert dialled == []


def test_attack_each_new_connection_checks_its_address(resolver):
    rows, _, dialled = resolver
    rows += [["1.1.1.1"], ["10.0.0.1"]]
    with Http(patience=Patience(pauses=(0.0,))) as http, pytest.raises(UnsafeTransfer, match="private"):
        http.get(PUBLIC, cap=1, named_by=requester_of("https://index.example/"))
    assert dialled == ["1.1.1.1"]


class PublicPeer(socket.socket):
    """A connection whose peer has a public address."""

    def getpeername(self):
        return "1.1.1.1", 80


@pytest.mark.parametrize("is_cached", [False, True], ids=["the index is fetched", "the index is in the cache"])
def test_attack_a_host_that_gets_a_private_address_after_its_index_was_read_names_none(
    web, resolver, monkeypatch, is_cached
):
    """DNS rebinding: else the index, which is from the internet, could name any server of this network."""
    rows, _, _ = resolver
    rows += [["127.0.0.1"]] if is_cached else [["1.1.1.1"], ["127.0.0.1"]]

    def connect(address, timeout=None, **_):
        sock = PublicPeer() if address[0] == "1.1.1.1" else socket.socket()
        sock.settimeout(timeout)
        sock.connect(("127.0.0.1", web.port))
        return sock

    monkeypatch.setattr(socket, "create_connection", connect)
    secret = web.at("/secret", answer(b"secret"))
    for path in ("/index.json", "/a.zip", "/b"):
        web.at(path, answer(b"x", "Connection: close"))
    by = requester_of("http://site.example/")
    with Http(patience=Patience(pauses=())) as http:
        if not is_cached:
            http.get("http://site.example/index.json", cap=1)
        http.get("http://site.example/a.zip", cap=1, named_by=by)
        if not is_cached:
            http.get("http://site.example/b", cap=1)
        with pytest.raises(UnsafeTransfer):
            http.get(secret, cap=10, named_by=by)
    assert not web.seen["/secret"]


def test_attack_a_public_address_routed_to_a_private_peer_is_refused(web, resolver, monkeypatch):
    """A route or a firewall rule can redirect the connection; the address of the peer counts."""
    rows, _, _ = resolver
    rows.append(["1.1.1.1"])

    def led_back(address, timeout=None, **_):
        sock = socket.socket()
        sock.settimeout(timeout)
        sock.connect(("127.0.0.1", web.port))
        return sock

    monkeypatch.setattr(socket, "create_connection", led_back)
    with Http() as http, pytest.raises(UnsafeTransfer, match="private network"):
        http.get(PUBLIC, cap=1, named_by=requester_of("https://index.example/"))
    assert not web.heads


def test_the_client_loads_no_command_line_and_keeps_httpx_usable():
    code = "import sys, skillhub.net.client, httpx; httpx.AsyncClient; print(*sys.modules)"
    loaded = {name.partition(".")[0] for name in run_bare(code).split()}
    assert "httpx" in loaded
    assert not loaded & {"rich", "click", "pygments", "trio", "asyncio"}
