"""Limits of the client: one byte more, a neighbouring site, a proxy between."""

import errno
import socket
from threading import Event
from urllib.parse import urlsplit

import pytest

from skillhub.errors import NotFound, SourceError, UnsafeTransfer, WrongBytes
from skillhub.net.client import Deadline, Http, Patience, _Body, _dial, _Exchange, _Stream
from skillhub.net.fetch import LONG_WAIT
from skillhub.net.target import RequestTarget, judged, look_up
from tests.support.web import answer, closed_port, hang_up, in_turn, raw, redirect, requester_of


@pytest.fixture
def http():
    with Http() as http:
        yield http


@pytest.mark.parametrize("length", [0, 1, 7])
def test_body_of_unknown_length_may_have_exactly_the_limit(web, http, length):
    url = web.at("/a", hang_up(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(length)))
    assert http.get(url, cap=length).data == bytes(length)
    more = web.at("/b", hang_up(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(length + 1)))
    with pytest.raises(WrongBytes):
        http.get(more, cap=length)


def test_announced_body_may_have_exactly_the_limit(web, http):
    url = web.at("/a", answer(bytes(5)))
    assert http.get(url, cap=5).data == bytes(5)
    with pytest.raises(WrongBytes):
        http.get(url, cap=4)


def test_document_may_name_a_url_of_its_own_origin(web, http):
    assert http.get(web.at("/a", answer(b"x")), cap=1, named_by=requester_of(web.url("/index.json"))).data == b"x"


def test_attack_a_site_behind_a_local_proxy_is_not_local(web, http, monkeypatch):
    """The proxy is on this machine, the site behind it is not."""
    monkeypatch.setenv("http_proxy", web.url(""))
    site = "http://site.example/index.json"
    web.at(site, answer(b"x"))
    assert http.get(site, cap=1).data == b"x"
    url = web.at("/secret", answer(b"secret"))
    with pytest.raises(UnsafeTransfer):
        http.get(url, cap=10, named_by=requester_of(site))


def test_http_site_that_the_user_named_may_name_urls_of_its_origin(web, http, monkeypatch):
    monkeypatch.setenv("http_proxy", web.url(""))
    url = "http://site.example/a"
    web.at(url, answer(b"x"))
    assert http.get(url, cap=1, named_by=requester_of("http://site.example/index.json")).data == b"x"
    with pytest.raises(UnsafeTransfer):
        http.get(url, cap=1, named_by=requester_of("http://site.example:8080/index.json"))


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 305, 306, 307, 308, 309])
def test_only_redirect_statuses_are_followed(web, http, status):
    web.at("/b", answer(b"x"))
    found = http.ask(web.at("/a", redirect("/b", f"{status} There")), cap=1)
    assert (found.status, found.data) == ((200, b"x") if status in (301, 302, 303, 307, 308) else (status, b""))


@pytest.mark.parametrize("status", [401, 407, 408, 409, 425, 429, 499, 500, 501, 502, 503, 504, 505])
def test_only_temporary_statuses_are_retried(web, status):
    act = in_turn(answer(b"", status=f"{status} Why"), answer(b"x"))
    with Http(patience=Patience(pauses=(0.0,))) as http:
        found = http.ask(web.at("/a", act), cap=1)
    assert found.status == (200 if status in (408, 429, 500, 502, 503, 504) else status)


def test_deadline_expires_and_grows_up_to_its_total():
    with pytest.raises(TimeoutError):
        Deadline(Patience(grace=0.0)).left()
    with pytest.raises(TimeoutError):
        Deadline(Patience(total=0.0)).left()
    deadline = Deadline(Patience(grace=100.0, rate=0.1, total=500.0))
    deadline.extend(20)
    assert 200.0 < deadline.left() <= 300.0
    deadline.extend(10)
    assert 300.0 < deadline.left() <= 400.0
    deadline.extend(1000)
    assert 400.0 < deadline.left() <= 500.0


def test_a_long_wait_is_reported_and_then_takes_the_remaining_time():
    reported, limits = [], []

    def step(seconds):
        limits.append(seconds)
        if not reported:
            raise TimeoutError
        return "done"

    assert Deadline(Patience(grace=100.0), reported.append).wait(step, 0.5) == "done"
    assert (reported, limits[0]) == ([0], LONG_WAIT)
    assert LONG_WAIT < limits[1] <= 50.0


def test_a_limit_of_the_system_is_no_long_wait():
    reported = []

    def step(seconds):
        raise TimeoutError(errno.ETIMEDOUT, "gone")

    with pytest.raises(TimeoutError, match="gone"):
        Deadline(Patience(), reported.append).wait(step)
    assert reported == []


def test_the_wait_for_a_late_answer_is_reported_before_the_answer(web):
    reported = Event()

    def late(connection):
        reported.wait()
        answer(b"x")(connection)

    with Http(arrived=lambda count: count or reported.set()) as http:
        assert http.get(web.at("/a", late), cap=1).data == b"x"
    assert reported.is_set()


def test_the_wait_for_a_late_resolver_is_reported(monkeypatch):
    reported = Event()

    def late(host, port, **more):
        reported.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", late)
    assert look_up("late.example", 80, 600.0, lambda _: reported.set()) == [("127.0.0.1", 80)]


def test_attack_an_endless_line_does_not_extend_the_deadline():
    deadline = Deadline(Patience(grace=100.0, rate=0.1, total=5000.0))
    exchange = _Exchange(RequestTarget.parse("https://site.example/a"), deadline, None, False)
    exchange.receive(50)  # a line and its rest
    assert deadline.left() <= 100.0
    exchange.deliver(bytes(30))
    assert 300.0 < deadline.left() <= 400.0


@pytest.mark.parametrize("proxy", [None, "http://proxy.example:3128"])
@pytest.mark.parametrize("guarded", [False, True])
def test_attack_a_silent_resolver_ends_at_the_deadline(monkeypatch, proxy, guarded):
    """The attacker runs the name server; the client resolves the host or, where a proxy is set, the proxy."""
    asked, over = [], Event()

    def wait(host, *words, **more):
        asked.append(host)
        over.wait()
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", wait)
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    if proxy:
        monkeypatch.setenv("https_proxy", proxy)
    requester = requester_of("https://other.example") if guarded else requester_of(None)
    patience = Patience(grace=0.5, pauses=(0.0, 0.0))
    try:
        with Http(patience=patience) as http, pytest.raises(SourceError, match="in time"):
            http.get("https://slow.example/x", cap=1, named_by=requester)
    finally:
        over.set()
    assert set(asked) <= {"proxy.example" if proxy and not guarded else "slow.example"}


def test_look_up_returns_addresses_and_raises_errors_of_the_resolver():
    assert look_up("127.0.0.1", 80, 60.0) == [("127.0.0.1", 80)]
    with pytest.raises(UnicodeError):
        look_up("a" * 64 + ".example", 80, 60.0)
    with pytest.raises(OSError):
        look_up("::1%none", 80, 60.0)


@pytest.mark.parametrize(("address", "public"), [("1.1.1.1", True), ("127.0.0.1", False), ("fc00::1", False)])
def test_peer_address_decides_whether_a_connection_is_public(address, public):
    class Peer:
        def getpeername(self):
            return address, 443

    assert _Stream(Peer()).public is public


def test_body_at_the_required_rate_may_take_longer_than_the_grace():
    deadline = Deadline(Patience(grace=100.0, rate=1.0, total=5000.0))
    exchange = _Exchange(RequestTarget.parse("https://site.example/a"), deadline, None, False)
    exchange.receive(1000)
    assert deadline.left() <= 100.0
    exchange.deliver(bytes(1000))
    assert deadline.left() > 1000.0


def test_addresses_of_a_host_are_checked_and_tried_in_order(web):
    public = RequestTarget.parse("https://1.1.1.1:8443/", public_only=True)
    for is_proxied in (False, True):
        assert judged(public, is_proxied=is_proxied) == [("1.1.1.1", 8443)]
    assert judged(RequestTarget.parse("https://1.1.1.1/"), is_proxied=True) == []
    deadline = Deadline(Patience())
    with closed_port() as url:
        nowhere = ("127.0.0.1", urlsplit(url).port)
        with _dial([nowhere, ("127.0.0.1", web.port)], deadline) as sock:
            assert sock.getpeername()[1] == web.port
        for addresses in ([], [nowhere]):
            with pytest.raises(OSError):
                _dial(addresses, deadline)


CHUNK = b"11170\r\n" + bytes(70_000) + b"\r\n"
UNREAD = {
    "announced": answer(bytes(100_000), status="404 Not Found"),
    "chunked": raw(b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNK + b"0\r\n\r\n"),
    "last of its connection": answer(b"", "Connection: close", status="404 Not Found"),
}


@pytest.mark.parametrize("first", UNREAD)
def test_attack_the_rest_of_an_answer_is_not_read_as_the_next_answer(web, http, first):
    with pytest.raises(NotFound):
        http.get(web.at("/absent", UNREAD[first]), cap=1 << 20)
    assert http.get(web.at("/a", answer(b"x")), cap=1).data == b"x"
    assert (web.connections, web.seen["/a"]) == (2, 1)


def test_every_request_has_a_user_agent_and_identity_encoding(web, http):
    http.get(web.at("/a", answer(b"x")), cap=1)
    assert web.heads == [
        f"GET /a HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\nUser-Agent: skillhub\r\n"
        "Accept-Encoding: identity\r\nAccept: */*\r\n"
    ]


def test_connection_is_released_though_closing_its_answer_fails():
    class Broken:
        def close(self):
            raise OSError("broken pipe")

    closed = []
    with pytest.raises(OSError, match="broken pipe"):
        _Body(Broken(), None, lambda: closed.append("closed")).close()
    assert closed == ["closed"]
