"""One deadline for all of a request, and addresses that are judged when a connection is made."""

import socket
import socketserver
import threading
import time

import pytest

from skillhub.errors import SourceError, UnsafeTransfer
from skillhub.net.client import Http, Patience
from tests.support.bare import run_bare
from tests.support.serving import serving
from tests.support.web import answer, by, endless, redirect

PUBLIC = "https://site.example/a"
HURRY = Patience(grace=0.4, rate=10_000_000, pauses=(0.0,) * 1000)


@pytest.fixture
def hurried():
    with Http(patience=HURRY) as http:
        yield http


@pytest.fixture
def resolver(monkeypatch):
    """Names have the addresses that a test gives, one row for each look-up; the last counts for ever."""
    rows, asked, dialled = [], [], []

    def getaddrinfo(host, port, *_, **__):
        asked.append(host)
        found = rows.pop(0) if len(rows) > 1 else rows[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    def create_connection(address, timeout=None, **_):
        dialled.append(address[0])
        raise ConnectionRefusedError("nobody there")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "create_connection", create_connection)
    return rows, asked, dialled


def after(seconds, act):
    def late(connection):
        time.sleep(seconds)
        act(connection)

    return late


def test_attack_a_name_server_that_never_answers(hurried, monkeypatch):
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


def test_attack_a_handshake_that_drips(hurried):
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Drip)
    server.daemon_threads, server.block_on_close = True, False
    with serving(server), pytest.raises(SourceError):
        hurried.get(f"https://127.0.0.1:{server.server_address[1]}/a", cap=1)


def test_attack_a_proxy_that_drips(web, hurried, monkeypatch):
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


def test_attack_errors_that_drip_do_not_renew_the_deadline(web, hurried):
    head = b"HTTP/1.1 404 Not Found\r\nContent-Length: 50000\r\n\r\n"
    with pytest.raises(SourceError, match="in time"):
        hurried.get(web.at("/a", endless(head, b"x", 0.02)), cap=1)


def test_attack_a_redirect_that_drips_its_body(web, hurried):
    head = b"HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 50000\r\n\r\n"
    web.at("/b", answer(b"x"))
    with pytest.raises(SourceError, match="in time"):
        hurried.get(web.at("/a", endless(head, b"x", 0.02)), cap=1)


def test_attack_a_name_has_another_address_when_it_is_connected_to(resolver):
    rows, asked, dialled = resolver
    rows += [["1.1.1.1"], ["127.0.0.1"]]
    with Http(patience=Patience(pauses=())) as http, pytest.raises(SourceError):
        http.get(PUBLIC, cap=1, named_by=by("https://index.example/"))
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
def test_attack_one_of_many_addresses_is_private(resolver, addresses):
    rows, _, dialled = resolver
    rows.append(addresses)
    with Http() as http, pytest.raises(UnsafeTransfer, match="private network"):
        http.get(PUBLIC, cap=1, named_by=by("https://index.example/"))
    assert dialled == []


def test_attack_each_new_connection_is_judged_anew(resolver):
    rows, _, dialled = resolver
    rows += [["1.1.1.1"], ["10.0.0.1"]]
    with Http(patience=Patience(pauses=(0.0,))) as http, pytest.raises(UnsafeTransfer, match="private"):
        http.get(PUBLIC, cap=1, named_by=by("https://index.example/"))
    assert dialled == ["1.1.1.1"]


def test_attack_a_public_address_that_leads_back_into_this_network(web, resolver, monkeypatch):
    """A route or a rule of this machine's may do so; the other end says where it is."""
    rows, _, _ = resolver
    rows.append(["1.1.1.1"])

    def led_back(address, timeout=None, **_):
        sock = socket.socket()
        sock.settimeout(timeout)
        sock.connect(("127.0.0.1", web.port))
        return sock

    monkeypatch.setattr(socket, "create_connection", led_back)
    with Http() as http, pytest.raises(UnsafeTransfer, match="private network"):
        http.get(PUBLIC, cap=1, named_by=by("https://index.example/"))
    assert not web.heads


def test_the_client_loads_no_command_line_and_keeps_httpx_usable():
    code = "import sys, skillhub.net.client, httpx; httpx.AsyncClient; print(*sys.modules)"
    loaded = {name.partition(".")[0] for name in run_bare(code).split()}
    assert "httpx" in loaded
    assert not loaded & {"rich", "click", "pygments", "trio", "asyncio"}
