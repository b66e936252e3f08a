from concurrent.futures import ThreadPoolExecutor

import pytest

from skillhub.errors import NotFound, SourceError, UnsafeTransfer, WrongBytes
from skillhub.net.client import Http, Patience
from tests.support.web import Web, answer, closed_port, endless, hang_up, in_turn, raw, redirect, requester_of

# AGAIN leaves an answer enough time on a busy machine; HURRY soon ends an answer without an end.
AGAIN = Patience(pauses=(0.0, 0.01))
HURRY = Patience(grace=0.5, rate=10_000_000, pauses=())
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def http():
    with Http(patience=AGAIN) as fetcher:
        yield fetcher


def test_response_has_data_final_url_and_media_type(web, http):
    there = web.at("/b?x=1", answer(b"hello", "Content-Type: application/zip"))
    url = web.at("/a", redirect("/b?x=1"))
    found = http.get(url + "#part", cap=5)
    assert (found.data, found.url, found.content_type) == (b"hello", there, "application/zip")
    assert "Accept-Encoding: identity" in web.heads[0]


def test_chunked_and_unframed_bodies_are_read_completely(web, http):
    chunked = raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    assert http.get(web.at("/chunked", chunked), cap=5).data == b"abcde"
    assert http.get(web.at("/old", hang_up(b"HTTP/1.0 200 OK\r\n\r\nabcde")), cap=5).data == b"abcde"


def test_connection_is_reused_after_a_404(web, http):
    url = web.at("/a", answer(b"x"))
    for _ in range(3):
        http.get(url, cap=1)
        with pytest.raises(NotFound):
            http.get(web.url("/absent"), cap=1)
    assert web.connections == 1


def test_sixteen_threads_share_a_fetcher(web, http):
    url = web.at("/a", answer(b"x" * 1000))
    with ThreadPoolExecutor(16) as pool:
        bodies = list(pool.map(lambda _: http.get(url, cap=1000).data, range(200)))
    assert set(bodies) == {b"x" * 1000}
    assert web.connections <= 16


@pytest.mark.parametrize("status", ["404 Not Found", "403 Forbidden", "410 Gone"])
def test_not_found_is_not_retried(web, http, status):
    with pytest.raises(NotFound) as caught:
        http.get(web.at("/a", answer(b"<html>", status=status)), cap=100)
    assert caught.value.where == web.url("/a")
    assert web.seen["/a"] == 1


@pytest.mark.parametrize(
    "broken",
    [
        answer(b"", status="503 Service Unavailable"),
        answer(b"", status="429 Too Many Requests"),
        hang_up(b""),
        hang_up(b"HTTP/1.1 200"),
        hang_up(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal"),
        hang_up(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhal"),
        hang_up(b"SSH-2.0-OpenSSH\r\n"),
    ],
)
def test_temporary_failure_is_retried_and_then_an_error(web, http, broken):
    url = web.at("/a", in_turn(broken, answer(b"healed")))
    assert http.get(url, cap=100).data == b"healed"
    with pytest.raises(SourceError) as caught:
        http.get(web.at("/b", broken), cap=100)
    assert caught.value.code == "source"
    assert web.seen["/b"] == 3


def test_closed_port_is_an_error(http):
    with closed_port() as url, pytest.raises(SourceError):
        http.get(url, cap=100)


def test_body_longer_than_the_limit_is_refused(web, http):
    url = web.at("/a", answer(b"x" * 11))
    with pytest.raises(WrongBytes, match="announced 11"):
        http.get(url, cap=10)


def test_endless_body_is_cut_at_the_limit(web, http):
    unframed = endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000)
    chunked = endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"3e8\r\n" + b"x" * 1000 + b"\r\n")
    for path, act in (("/unframed", unframed), ("/chunked", chunked)):
        with pytest.raises(WrongBytes, match="found more"):
            http.get(web.at(path, act), cap=5000)
        assert web.seen[path] == 1


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"])
def test_slow_drip_ends_at_the_deadline(web, head):
    """The first answer never ends, the second would be complete after two seconds."""
    with Http(patience=HURRY) as http, pytest.raises(SourceError, match="in time"):
        http.get(web.at("/a", endless(head, b"x", 0.02)), cap=100)


def test_endless_headers_are_refused(web, http):
    with pytest.raises(SourceError):
        http.get(web.at("/a", endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n")), cap=100)


FRAMING = {
    "100 Continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "100 Continue with fields": (b"", b"HTTP/1.1 100 Continue\r\nA: b\r\nB: c\r\n\r\n"),
    "100 Continue in one field": (b"HTTP/1.1 100 Continue\r\n", b"A: b\r\n"),
    "trailers": (CHUNKED + b"1\r\nx\r\n0\r\n", b"A: b\r\n"),
    "long trailers": (CHUNKED + b"0\r\n", b"A: " + b"b" * 60000 + b"\r\n"),
    "trailers of another status": (CHUNKED.replace(b"200 OK", b"404 No") + b"0\r\n", b"A: b\r\n"),
    "extensions of chunks": (CHUNKED, b"1;" + b"a" * 60000 + b"\r\nx\r\n"),
    "a long field": (b"HTTP/1.1 200 OK\r\nA: ", b"b" * 1000),
    "a long first line": (b"HTTP/1.1 200 O", b"K" * 1000),
    "a long size of a chunk": (CHUNKED + b"1;", b"a" * 1000),
    "a long trailer": (CHUNKED + b"1\r\nx\r\n0\r\nA: ", b"b" * 1000),
}


@pytest.mark.parametrize("part", FRAMING)
def test_attack_endless_framing_at_full_speed_is_refused(web, part):
    """The deadline is a day, so that only the limit of bytes ends the request."""
    patience = Patience(grace=86400, total=86400, pauses=(0.0,))
    with Http(patience=patience) as http, pytest.raises(SourceError):
        http.get(web.at("/a", endless(*FRAMING[part])), cap=1 << 30)


@pytest.mark.parametrize("part", [each for each in FRAMING if "chunks" not in each])
def test_attack_framing_does_not_extend_the_deadline(web, part):
    """If each byte of the framing extended the deadline by a second, the request would never end."""
    patience = Patience(grace=0.3, rate=1.0, total=86400, pauses=(0.0,))
    head, piece = FRAMING[part]
    if len(piece) > 100:
        piece = piece[:10] + piece[-2:]
    with Http(patience=patience) as http, pytest.raises(SourceError):
        http.get(web.at("/a", endless(head, piece, 0.01)), cap=1 << 30)


def test_attack_a_chunk_of_negative_size_is_refused(web):
    with Http(patience=Patience(grace=86400, total=86400, pauses=(0.0,))) as http:
        for size in (b"-1", b"-2", b"-ffffff"):
            head = CHUNKED + size + b"\r\n"
            with pytest.raises(SourceError):
                http.get(web.at("/a", endless(head, b"x" * 65536)), cap=100)


def test_attack_the_answer_after_early_hints_belongs_to_the_same_request(web, http):
    hints = b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"
    found = http.ask(web.at("/a", raw(hints)), cap=100)
    assert (found.status, found.data) == (200, b"x")
    assert http.get(web.at("/b", answer(b"the answer")), cap=100).data == b"the answer"


def test_chunks_of_one_byte_are_read(web, http):
    data = bytes(range(256)) * 100
    body = b"".join(b"1\r\n%c\r\n" % each for each in data)
    assert http.get(web.at("/a", raw(CHUNKED + body + b"0\r\n\r\n")), cap=1 << 20).data == data


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate, identity"])
def test_unrequested_content_encoding_is_refused(web, http, encoding):
    with pytest.raises(UnsafeTransfer):
        http.get(web.at("/a", answer(b"x", f"Content-Encoding: {encoding}")), cap=100)


def test_unrequested_partial_content_is_refused(web, http):
    with pytest.raises(UnsafeTransfer):
        http.get(web.at("/a", answer(b"x", status="206 Partial Content")), cap=100)
    with pytest.raises(UnsafeTransfer):
        http.get(web.at("/b", answer(b"x", "Content-Range: bytes 0-0/2")), cap=100)


def test_redirect_loop_ends_after_five_redirects(web, http):
    with pytest.raises(UnsafeTransfer, match="at most 5"):
        http.get(web.at("/a", redirect("/a")), cap=100)
    assert web.seen["/a"] == 6


@pytest.mark.parametrize(
    "location",
    [
        "http://example.com/a",
        "http://127.0.0.1:1/",
        "file:///etc/passwd",
        "data:text/plain,hi",
        "ftp://example.com/",
        "https://user:secret@example.com/",
        "https://example.com:99999/",
        "//[::1",
    ],
)
def test_redirect_to_an_unsafe_or_invalid_url_is_refused(web, http, location):
    with pytest.raises(UnsafeTransfer):
        http.get(web.at("/a", redirect(location)), cap=100)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.1.1",
        "100.100.100.200",
        "168.63.129.16",
        "0.0.0.0",
        "[::1]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "localhost",
        "2130706433",
        "0x7f.1",
    ],
)
def test_redirect_into_a_private_network_is_refused(web, http, host):
    with pytest.raises(UnsafeTransfer, match="private network"):
        http.get(web.at("/a", redirect(f"https://{host}/latest/meta-data/")), cap=100)


def test_public_index_cannot_name_private_addresses(web, http):
    web.at("/a", answer(b"x"))
    for url in (web.url("/a"), f"https://127.0.0.1:{web.port}/a", "http://example.com/a"):
        with pytest.raises(UnsafeTransfer):
            http.get(url, cap=100, named_by=requester_of("https://public.example/index.json"))
    assert not web.seen


def test_idle_private_connection_is_not_reused_for_a_guarded_request(web, http):
    """The client checks the address when it connects, so a guarded request must not take an idle connection."""
    http.get(web.at("/a", answer(b"x")), cap=100)
    with pytest.raises(UnsafeTransfer):
        http.get(web.at("/b", redirect(f"https://127.0.0.1:{web.port}/a")), cap=100)
    with pytest.raises(UnsafeTransfer):
        http.get(web.url("/a"), cap=100, named_by=requester_of("https://public.example/"))
    assert web.seen["/a"] == 1


def test_private_site_may_name_another_port_after_a_connection(web, http):
    """0.0.0.0 is this machine, too, but no loopback address."""
    site = web.at("/index.json", answer(b"x")).replace("127.0.0.1", "0.0.0.0")
    with Web() as other:
        url = other.at("/x", answer(b"x"))
        with pytest.raises(UnsafeTransfer):
            http.get(url, cap=1, named_by=requester_of(site))
        assert http.get(site, cap=1).data == b"x"
        assert http.get(url, cap=1, named_by=requester_of(site)).data == b"x"


def test_loopback_site_may_name_another_port(web, http):
    with Web() as other:
        url = other.at("/x", answer(b"x"))
        assert http.get(url, cap=1, named_by=requester_of(web.url("/index.json"))).data == b"x"


@pytest.mark.parametrize(
    "url", ["file:///etc/hostname", "http://", "http://a b/", "http://h/\r\nX: y", "http://é/", ""]
)
def test_invalid_url_is_refused(http, url):
    with pytest.raises(UnsafeTransfer):
        http.get(url, cap=100)
