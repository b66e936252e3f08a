"""Answers with wrong, double or missing framing are refused, never guessed."""

import io
import logging
import socket
import tracemalloc

import pytest

from skillhub.errors import SourceError, UnsafeTransfer, WrongBytes
from skillhub.net.client import Http, Patience
from tests.support.web import answer, raw, redirect

ONCE = Patience(grace=10, pauses=())
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def http():
    with Http(patience=ONCE) as http:
        yield http


def hanging_up(data):
    def act(connection):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_RDWR)  # a close alone waits for the server's own end of reading
        connection.close()

    return act


LENGTHS = ["+5", "-5", "0x5", "5 5", "5;", "", "5, 6", "9" * 30, "٥", "1e1", "5_0", "5.0"]


@pytest.mark.parametrize("length", LENGTHS)
def test_attack_an_invalid_content_length_is_refused(web, http, length):
    head = OK + f"Content-Length: {length}\r\n\r\n".encode()
    with pytest.raises(SourceError):
        http.get(web.at("/a", raw(head + b"hello world")), cap=100)


FRAMES = {
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n",
    "two lengths, the second in another case": b"Content-Length: 5\r\ncontent-length: 11\r\n",
    "two codings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "two codings in one field": b"Transfer-Encoding: chunked, chunked\r\n",
    "another coding": b"Transfer-Encoding: gzip\r\n",
    "another coding first": b"Transfer-Encoding: gzip, chunked\r\n",
    "an unknown coding": b"Transfer-Encoding: xchunked\r\n",
    "the coding identity": b"Transfer-Encoding: identity\r\n",
    "a coding before a length": b"Transfer-Encoding: \x0bchunked\r\nContent-Length: 5\r\n",
    "a blank before the colon": b"Content-Length : 5\r\n",
    "a field without a colon": b"Content-Length\r\n",
    "a field without a name": b": 5\r\n",
    "a continuation of nothing": b" Content-Length: 5\r\n",
    "a NUL": b"X: a\0b\r\nContent-Length: 5\r\n",
    "a return alone": b"X: a\rContent-Length: 5\r\n",
    "too many bytes": b"X: " + b"a" * 200_000 + b"\r\nContent-Length: 5\r\n",
    "too many fields": b"X: a\r\n" * 50_000 + b"Content-Length: 5\r\n",
}


@pytest.mark.parametrize("frame", FRAMES)
def test_attack_an_ambiguous_head_is_refused(web, http, frame):
    with pytest.raises(SourceError):
        http.get(web.at("/a", hanging_up(OK + FRAMES[frame] + b"\r\n5\r\nhello\r\n0\r\n\r\n")), cap=100)


@pytest.mark.parametrize(
    "line",
    [
        b"HTTP/1.1 20 OK",
        b"HTTP/1.1 2000 OK",
        b"HTTP/1.1 -20 OK",
        b"HTTP/1.1 099 No",
        b"http/1.1 200 OK",
        b"HTTP/1.1  200 OK",
        b"HTTP/x.1 200 OK",
        b"HTTP/1.1 101 Switching Protocols",
        b"ICY 200 OK",
        b"",
        b"hello",
    ],
)
def test_attack_an_invalid_status_line_is_refused(web, http, line):
    with pytest.raises(SourceError):
        http.get(web.at("/a", hanging_up(line + b"\r\nContent-Length: 5\r\n\r\nhello")), cap=100)


@pytest.mark.parametrize(
    "size", [b"-5", b"+5", b"0x5", b"5 5", b" 5", b"", b"5,", b"\xb5", b"0" * 20 + b"5", b"g", b"5\n"]
)
def test_attack_an_invalid_chunk_size_is_refused(web, http, size):
    with pytest.raises(SourceError):
        http.get(web.at("/a", hanging_up(CHUNKED + size + b"\r\nhello\r\n0\r\n\r\n")), cap=100)


@pytest.mark.parametrize("end", [b"\n", b"xx", b"", b"\r\r", b"o\r\n"])
def test_attack_a_chunk_longer_than_its_size_is_refused(web, http, end):
    with pytest.raises(SourceError):
        http.get(web.at("/a", hanging_up(CHUNKED + b"5\r\nhello" + end + b"0\r\n\r\n")), cap=100)


def test_attack_a_chunk_size_beyond_memory_is_refused(web, http):
    with pytest.raises(SourceError):
        http.get(web.at("/a", hanging_up(CHUNKED + b"f" * 20 + b"\r\nhello")), cap=100)


def test_chunked_coding_overrides_the_length(web, http):
    """RFC 9112, 6.3."""
    both = OK + b"Content-Length: 900\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    assert http.get(web.at("/a", raw(both)), cap=5).data == b"hello"
    assert http.get(web.at("/b", answer(b"next")), cap=5).data == b"next"


def test_attack_chunks_beyond_the_limit_are_refused_despite_a_small_length(web, http):
    both = OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    with pytest.raises(WrongBytes):
        http.get(web.at("/a", raw(both)), cap=4)


def test_attack_chunks_of_one_byte_are_refused_after_a_while(web, http):
    """Each takes 20 microseconds, and there could be 64 million."""
    ones = CHUNKED + b"1\r\na\r\n" * 70_000 + b"0\r\n\r\n"
    with pytest.raises(SourceError, match="too many bytes around"):
        http.get(web.at("/a", raw(ones)), cap=100_000)
    assert len(http.get(web.at("/b", raw(CHUNKED + b"1\r\na\r\n" * 9_000 + b"0\r\n\r\n")), cap=9_000).data) == 9_000


def test_attack_small_chunks_take_little_more_memory_than_their_bytes(web, http):
    """A list of 32 million parts of two bytes took more than a gigabyte."""
    path = web.at("/a", raw(CHUNKED + b"8\r\nabcdefgh\r\n" * 8_000 + b"0\r\n\r\n"))
    http.get(web.at("/b", answer(b"what is loaded at the first request")), cap=100)
    tracemalloc.start()
    try:
        assert len(http.get(path, cap=64_000).data) == 64_000
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()


EVIL = OK + b"Content-Length: 4\r\n\r\nevil"
LEFT_OVER = {
    "a whole answer": EVIL,
    "an answer that goes on": EVIL[:-2],
    "half a head": OK + b"X: ",
    "a blank line and an answer": b"\r\n" + EVIL,
    "one byte": b"x",
    "an answer of zero bytes": OK + b"Content-Length: 0\r\n\r\n",
    "early hints and an answer": b"HTTP/1.1 103 Early Hints\r\n\r\n" + EVIL,
}
FIRST = {
    "of a known length": OK + b"Content-Length: 5\r\n\r\nfirst",
    "in chunks": CHUNKED + b"5\r\nfirst\r\n0\r\n\r\n",
    "with trailers": CHUNKED + b"5\r\nfirst\r\n0\r\nA: b\r\n\r\n",
}


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("rest", LEFT_OVER)
def test_attack_bytes_after_an_answer_do_not_answer_the_next_request(web, first, rest):
    with Http(patience=Patience(grace=10, pauses=(0.0,))) as http:
        assert http.get(web.at("/a", raw(FIRST[first] + LEFT_OVER[rest])), cap=100).data == b"first"
        assert http.get(web.at("/b", answer(b"the answer")), cap=100).data == b"the answer"


def test_attack_two_encodings_are_refused_though_one_is_identity(web, http):
    for fields in (
        ("Content-Encoding: gzip", "Content-Encoding: identity"),
        ("Content-Encoding: identity", "Content-Encoding: gzip"),
    ):
        with pytest.raises(UnsafeTransfer):
            http.get(web.at("/a", answer(b"x", *fields)), cap=100)


def test_attack_a_redirect_with_two_locations_is_refused(web, http):
    web.at("/b", answer(b"x"))
    with pytest.raises((UnsafeTransfer, SourceError)):
        http.get(web.at("/a", answer(b"", "Location: /b", "Location: /c", status="302 Found")), cap=100)
    assert web.seen["/c"] == 0


@pytest.mark.parametrize("path", ["/a%2Fb/%2e%2e/c", '/a"b', "/a|b?c=[d]", "/a?b=%zz&c=`", "/A?{}^", "/a//b/"])
def test_path_is_sent_unchanged(web, http, path):
    """A second parser could read another path than the one that the client checked."""
    assert http.get(web.at(path, answer(b"x")), cap=1).data == b"x"


def test_attack_a_cookie_is_neither_kept_nor_sent(web, http):
    hostile = "a=" + "b" * 5000 + "; expires=" + "1 " * 5000
    for _ in range(2):
        http.get(web.at("/a", answer(b"x", "Set-Cookie: who=me; Path=/", f"Set-Cookie: {hostile}")), cap=1)
        http.get(web.at("/b", redirect("/a")), cap=1)
    assert len(web.heads) == 6
    assert not any("cookie" in head.lower() for head in web.heads)


def test_a_request_is_not_logged(web, http):
    log, root_logger = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(log), root_logger.level
    root_logger.addHandler(handler)
    root_logger.setLevel("INFO")
    try:
        web.at("/b?token=secret", answer(b"x"))
        http.get(web.at("/a", redirect("/b?token=secret")), cap=1)
    finally:
        root_logger.removeHandler(handler)
        root_logger.setLevel(level)
    assert not log.getvalue()


def test_httpx_reads_no_netrc(web, http, monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    http.get(web.at("/a", answer(b"x")), cap=1)
    assert "Authorization" not in web.heads[0]
