"""Limits of downloads: the exact second and the exact byte."""

from email.utils import formatdate

import pytest

from skillhub.errors import WrongBytes
from skillhub.formats.digest import Digest
from tests.support.web import answer, requester_of

ETAG = 'ETag: "v1"'


def test_document_is_reused_as_an_artifact_without_a_second_request(web, http, machine):
    url = web.at("/a", answer(b"x"))
    downloads = machine.downloads(http)
    downloads.document(url, cap=9)
    assert machine.cached() == []
    assert downloads.artifact(url, Digest.of(b"x"), named_by=requester_of(url)).data == b"x"
    assert (web.seen["/a"], len(machine.cached())) == (1, 1)


def test_attack_a_document_with_another_digest_is_no_artifact(web, http, machine):
    url = web.at("/a", answer(b"x"))
    downloads = machine.downloads(http)
    downloads.document(url, cap=9)
    with pytest.raises(WrongBytes):
        downloads.artifact(url, Digest.of(b"y"), named_by=requester_of(url))
    assert (web.seen["/a"], machine.cached()) == (2, [])


@pytest.mark.parametrize(("seconds", "asked"), [(0, 1), (299, 1), (300, 2), (301, 2)])
@pytest.mark.parametrize("lifetime", [300, 31_536_000])
def test_document_is_fresh_until_the_second_that_the_server_states(web, http, machine, lifetime, seconds, asked):
    url = web.at("/a", answer(b"x", ETAG, f"Cache-Control: max-age={lifetime}"))
    machine.downloads(http).document(url, cap=9)
    machine.now += seconds
    machine.downloads(http).document(url, cap=9)
    assert web.seen["/a"] == asked


@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["Cache-Control: no-cache"],
        ["Cache-Control: max-age=0"],
        ["Cache-Control: max-age=1", "Age: 5"],
        ["Expires: 0"],
        [f"Expires: {formatdate(1_000_000_000, usegmt=True)}"],
    ],
)
def test_document_that_cannot_be_revalidated_is_not_cached(web, http, machine, headers):
    machine.downloads(http).document(web.at("/a", answer(b"x", *headers)), cap=9)
    assert machine.cached() == []


@pytest.mark.parametrize(("more", "kept"), [(0, 1), (1, 0)])
def test_document_with_an_oversized_etag_is_not_cached(web, http, machine, more, kept):
    etag = '"%s"' % ("e" * (4096 - 2 - len(web.url("/a")) + more))
    machine.downloads(http).document(web.at("/a", answer(b"x", f"ETag: {etag}")), cap=9)
    assert len(machine.cached()) == kept


def test_validators_are_sent_unchanged_and_survive_an_answer_without_them(web, http, machine):
    url = web.at("/a", answer(b"x", ETAG))
    machine.downloads(http).document(url, cap=9)
    web.at("/a", answer(b"", status="304 Not Modified"))
    for _ in range(2):
        assert machine.downloads(http).document(url, cap=9).data == b"x"
    assert ['If-None-Match: "v1"\r\n' in head for head in web.heads] == [False, True, True]
    assert not any("If-Modified-Since" in head for head in web.heads)
    dated = "Last-Modified: Wed, 21 Oct 2026 07:28:00 GMT"
    url = web.at("/b", answer(b"x", dated))
    machine.downloads(http).document(url, cap=9)
    web.at("/b", answer(b"", status="304 Not Modified"))
    for _ in range(2):
        machine.downloads(http).document(url, cap=9)
    assert ["If-Modified-Since: Wed" in head for head in web.heads[3:]] == [False, True, True]
    assert not any("If-None-Match" in head for head in web.heads[3:])


@pytest.mark.parametrize(("digits", "asked"), [(11, 1), (12, 2), (5000, 2)])
def test_attack_a_lifetime_with_too_many_digits_is_ignored(web, http, machine, digits, asked):
    url = web.at("/a", answer(b"x", ETAG, f"Cache-Control: max-age={'9' * digits}"))
    for _ in range(2):
        machine.downloads(http).document(url, cap=9)
    assert web.seen["/a"] == asked
