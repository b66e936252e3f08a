"""What a request tells to whom, and when it is made again."""

import time
from concurrent.futures import ThreadPoolExecutor
from socket import SHUT_RDWR
from threading import Barrier

import pytest

from skillhub.errors import SourceError, UnsafeTransfer
from skillhub.net.client import Http, Patience, _fields
from skillhub.net.fetch import Mirrors, RequestOptions
from skillhub.net.settings import Settings
from skillhub.net.target import PERSON, judge
from tests.support.web import answer, by

OURS = judge("https://ours.example/a", PERSON)
THEIRS = OURS.follow("https://theirs.example/a")


def sent(hop, headers=None, secret="Bearer known"):
    """Return what a request that began at our origin says to ``hop``, and whose secrets were asked for."""
    asked = []

    def credentials(hop):
        asked.append(hop.origin)
        return secret

    fields = _fields(hop, headers or {}, OURS.origin, credentials)
    return "".join(f"{name}: {value}\r\n" for name, value in fields), asked


def test_secret_goes_to_the_origin_that_a_person_named():
    assert sent(OURS) == ("Accept: */*\r\nAuthorization: Bearer known\r\n", [OURS.origin])
    assert sent(OURS, secret=None) == ("Accept: */*\r\n", [OURS.origin])


def test_field_of_the_caller_goes_before_what_is_known():
    asking = {"authorization": "Bearer given", "accept": "text/plain"}
    assert sent(OURS, asking) == ("Accept: text/plain\r\nAuthorization: Bearer given\r\n", [])


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer given"}, {"AUTHORIZATION": "Bearer given"}])
def test_attack_redirect_that_wants_to_hear_a_secret(headers):
    assert sent(THEIRS, headers) == ("Accept: */*\r\n", [])
    back = THEIRS.follow("https://ours.example/b")
    assert sent(back)[1] == []  # who was led there by somebody else tells nothing of their own


@pytest.mark.parametrize("secret", ["a\r\nHost: evil.example", "a\nb", "é", "\x7f", "a\0"])
def test_attack_secret_that_would_begin_another_field(secret):
    assert sent(OURS, secret=secret)[0] == "Accept: */*\r\n"


def test_site_on_this_machine_names_nothing_by_plain_http_but_its_neighbours(web):
    with Http() as http, pytest.raises(UnsafeTransfer, match="expected https"):
        http.get("http://site.invalid/a", cap=1, named_by=by(web.url("/index.json")))


def test_last_answer_counts_where_none_heals(web):
    url = web.at("/a", answer(b"why", status="503 Service Unavailable"))
    with Http(patience=Patience(pauses=(0.05, 0.05))) as http:
        began = time.monotonic()
        assert (http.ask(url, cap=3).status, web.seen["/a"]) == (503, 3)
        assert time.monotonic() - began >= 0.1
        with pytest.raises(SourceError, match="503"):
            http.get(url, cap=3)


def test_after_one_dead_connection_a_new_one_is_made(web):
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


def test_answer_is_what_came_and_nothing_else(web):
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
def test_attack_an_option_of_a_request_is_misspelled(web, slip):
    with pytest.raises(TypeError, match=slip):
        RequestOptions(**{slip: {}})
    with Http() as http, pytest.raises(TypeError, match=slip):
        Mirrors(http, Settings.parse({}, "")).ask(web.at("/a", answer(b"x")), cap=1, **{slip: {}})
    assert not web.seen["/a"]
