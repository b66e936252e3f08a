"""The header fields of a request, and its retries."""

import time
from concurrent.futures import ThreadPoolExecutor
from socket import SHUT_RDWR
from threading import Barrier

import pytest

from skillhub.errors import SourceError, UnsafeTransfer
from skillhub.net.client import Http, Patience, _fields
from skillhub.net.fetch import PERSON, RequestOptions
from skillhub.net.mirrors import Mirrors
from skillhub.net.settings import Settings
from skillhub.net.target import judge
from tests.support.web import answer, requester_of

OURS = judge("https://ours.example/a", PERSON)
THEIRS = OURS.follow("https://theirs.example/a")


def sent(hop, headers=None, secret="Bearer known"):
    """Return the fields of a request from our origin to ``hop``, and the origins whose secrets were looked up."""
    asked = []

    def credentials(hop):
        asked.append(hop.origin)
        return secret

    fields = _fields(hop, headers or {}, OURS.origin, credentials)
    return "".join(f"{name}: {value}\r\n" for name, value in fields), asked


def test_secret_goes_to_the_origin_that_the_user_named():
    assert sent(OURS) == ("Accept: */*\r\nAuthorization: Bearer known\r\n", [OURS.origin])
    assert sent(OURS, secret=None) == ("Accept: */*\r\n", [OURS.origin])


def test_header_of_the_caller_takes_precedence_over_a_stored_login():
    asking = {"authorization": "Bearer given", "accept": "text/plain"}
    assert sent(OURS, asking) == ("Accept: text/plain\r\nAuthorization: Bearer given\r\n", [])


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer given"}, {"AUTHORIZATION": "Bearer given"}])
def test_attack_a_redirect_to_another_origin_gets_no_secret(headers):
    assert sent(THEIRS, headers) == ("Accept: */*\r\n", [])
    back = THEIRS.follow("https://ours.example/b")
    assert sent(back)[1] == []  # a foreign redirect led back, so no secret is sent


@pytest.mark.parametrize("secret", ["a\r\nHost: evil.example", "a\nb", "é", "\x7f", "a\0"])
def test_attack_a_secret_with_a_line_break_is_not_sent(secret):
    assert sent(OURS, secret=secret)[0] == "Accept: */*\r\n"


def test_local_site_names_no_remote_host_over_plain_http(web):
    with Http() as http, pytest.raises(UnsafeTransfer, match="expected https"):
        http.get("http://site.invalid/a", cap=1, named_by=requester_of(web.url("/index.json")))


def test_last_answer_counts_after_failed_retries(web):
    url = web.at("/a", answer(b"why", status="503 Service Unavailable"))
    with Http(patience=Patience(pauses=(0.05, 0.05))) as http:
        began = time.monotonic()
        assert (http.ask(url, cap=3).status, web.seen["/a"]) == (503, 3)
        assert time.monotonic() - began >= 0.1
        with pytest.raises(SourceError, match="503"):
            http.get(url, cap=3)


def test_dead_connection_is_replaced(web):
    together = Barrier(3)

    def part(connection):
        together.wait(300)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
        connection.shutdown(SHUT_RDWR)

    url = web.at("/a", part)
    with Http(patience=Patience(pauses=(0.0,))) as http:
        with ThreadPoolExecutor(3) as pool:
            assert [each.data for each in pool.map(lambda _: http.get(url, cap=1), range(3))] == [b"x"] * 3
        assert http.get(web.at("/b", answer(b"y")), cap=1).data == b"y"
        assert web.connections == 4


def test_answer_has_the_exact_bytes_and_no_assumed_media_type(web):
    large = bytes(range(256)) * 10_000
    with Http() as http:
        found = http.ask(
            web.at("/a", answer(large)), cap=len(large), options=RequestOptions(headers={"if-none-match": '"x"'})
        )
        assert (found.data == large, found.content_type) == (True, "")
        assert 'If-None-Match: "x"\r\n' in web.heads[0]
        with pytest.raises(UnsafeTransfer, match="at most 5 redirects"):
            http.ask(web.at("/b", answer(b"", status="302 Nowhere")), cap=1)


@pytest.mark.parametrize("slip", ["header", "named", "data", "Headers", "timeout"])
def test_attack_a_misspelled_option_of_a_request_is_an_error(web, slip):
    with pytest.raises(TypeError, match=slip):
        RequestOptions(**{slip: {}})
    with Http() as http, pytest.raises(TypeError, match=slip):
        Mirrors(http, Settings.parse({}, "")).ask(web.at("/a", answer(b"x")), cap=1, **{slip: {}})
    assert not web.seen["/a"]
