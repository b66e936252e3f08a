"""The download cache fetches no verified bytes again, and uses no bytes that it cannot verify."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path

import pytest

from skillhub.errors import SourceError, StateError, UnsafeTransfer, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.net.download import Copy, DownloadCache, SiteMemory
from skillhub.net.fetch import PERSON, PLAIN, RequestOptions, Response
from tests.support.site import JSON, WELL_KNOWN, current, entry, offer, skill_md
from tests.support.web import answer, redirect, requester_of

ETAG = 'ETag: "v1"'


def conditional(body, *headers, when='If-None-Match: "v1"'):
    """Answer 304 to a request whose validator matches."""

    def act(connection, head):
        asked = when in head
        status = "304 Not Modified" if asked else "200 OK"
        answer(b"" if asked else body, *headers, status=status, length=0 if asked else len(body))(connection)

    return act


def at(web, path, act):
    """Serve ``path`` by ``act``, which gets the connection and the head of the request."""
    return web.at(path, lambda connection: act(connection, web.heads[-1]))


def test_document_is_fetched_once_within_a_command(web, http, machine):
    url = web.at("/a", answer(b"x", "Cache-Control: no-store"))
    downloads = machine.downloads(http)
    assert [downloads.document(url, cap=9).data for _ in range(3)] == [b"x"] * 3
    assert web.seen["/a"] == 1
    assert machine.cached() == [] and not os.path.exists(machine.state)


@pytest.mark.parametrize(
    ("validator", "when"),
    [
        (ETAG, 'If-None-Match: "v1"'),
        ("Last-Modified: Wed, 21 Oct 2026 07:28:00 GMT", "If-Modified-Since: Wed, 21 Oct 2026 07:28:00 GMT"),
    ],
)
def test_unchanged_document_is_revalidated_without_its_body(web, http, machine, validator, when):
    url = at(web, "/a", conditional(b"x" * 100, validator, JSON, when=when))
    for _ in range(3):
        found = machine.downloads(http).document(url, cap=100)
        assert (found.data, found.content_type) == (b"x" * 100, "application/json")
    assert [when in head for head in web.heads] == [False, True, True]
    web.at("/a", answer(b"y", 'ETag: "v2"'))
    assert machine.downloads(http).document(url, cap=100).data == b"y"


@pytest.mark.parametrize(
    ("field", "seconds"),
    [
        ("Cache-Control: public, max-age=60", 60),
        ("Cache-Control: max-age=31536000, immutable", 300),
        ("Cache-Control: max-age=60\r\nAge: 50", 10),
        ("Cache-Control: max-age=60, no-cache", 0),
        ("Cache-Control: max-age=0", 0),
        ("Cache-Control: max-age=soon", 0),
        ("Cache-Control: s-maxage=60", 0),
        (f"Expires: {formatdate(1_790_000_030, usegmt=True)}", 30),
        ("Expires: 0", 0),
    ],
)
def test_document_is_fresh_for_the_lifetime_that_the_server_states(web, http, machine, field, seconds):
    url = web.at("/a", answer(b"x", ETAG, field))
    machine.downloads(http).document(url, cap=9)
    if seconds:
        machine.now += seconds - 1
        assert machine.downloads(http).document(url, cap=9).data == b"x"
        assert web.seen["/a"] == 1
        machine.now += 2
    machine.downloads(http).document(url, cap=9)
    assert web.seen["/a"] == 2


def test_clock_that_was_set_back_makes_no_document_fresh(web, http, machine):
    url = web.at("/a", answer(b"x", ETAG, "Cache-Control: max-age=60"))
    machine.downloads(http).document(url, cap=9)
    machine.now -= 1e6
    machine.downloads(http).document(url, cap=9)
    assert web.seen["/a"] == 2


def test_attack_an_etag_that_is_too_long_is_not_remembered(web, http, machine):
    url = web.at("/a", answer(b"x", f"ETag: {'e' * 60000}"))
    machine.downloads(http).document(url, cap=9)
    assert SiteMemory(machine.state).copy(url) is None


def test_no_store_is_not_stored(web, http, machine):
    url = web.at("/a", answer(b"x", ETAG, "Cache-Control: max-age=60"))
    machine.downloads(http).document(url, cap=9)
    machine.now += 61
    web.at("/a", answer(b"secret", ETAG, "Cache-Control: no-store, max-age=60"))
    machine.downloads(http).document(url, cap=9)
    machine.downloads(http).document(url, cap=9)
    assert web.seen["/a"] == 3
    assert SiteMemory(machine.state).copy(url) is None
    assert not any(b"secret" in Path(path).read_bytes() for path in machine.cached())


def test_attack_not_modified_of_another_url_is_not_accepted(web, http, machine):
    """A redirect now leads to another document with the same ETag."""
    url = at(web, "/a", conditional(b"x", ETAG))
    assert machine.downloads(http).document(url, cap=9).data == b"x"
    web.at("/a", redirect("/b"))
    at(web, "/b", conditional(b"y", ETAG))
    assert machine.downloads(http).document(url, cap=9).data == b"y"


def test_unrequested_not_modified_is_an_error(web, http, machine):
    with pytest.raises(SourceError, match="304"):
        machine.downloads(http).document(web.at("/a", answer(b"", status="304 Not Modified")), cap=9)


def test_artifact_is_fetched_only_once(web, http, machine):
    url = web.at("/x.zip", answer(b"x", "Content-Type: application/zip"))
    for client in (http, http, None):
        found = machine.downloads(client).artifact(url, Digest.of(b"x"), named_by=requester_of(web.url("")))
        assert (found.data, found.content_type) == (b"x", "application/zip")
    assert web.seen["/x.zip"] == 1


@pytest.mark.parametrize("poison", [b"application/zip\nevil", b"", b"\n", b"application/zip\nx\n", b"x"])
def test_attack_a_poisoned_cache_entry_is_discarded(web, http, machine, poison):
    url = web.at("/x.zip", answer(b"x", "Content-Type: application/zip"))
    document = web.at("/a", answer(b"x", ETAG, "Cache-Control: max-age=60", "Content-Type: application/zip"))
    machine.downloads(http).artifact(url, Digest.of(b"x"), named_by=requester_of(web.url("")))
    machine.downloads(http).document(document, cap=9)
    (path,) = machine.cached()
    Path(path).write_bytes(poison)
    with pytest.raises(SourceError):
        machine.downloads(None).document(document, cap=9)
    assert machine.cached() == []
    Path(path).write_bytes(poison)
    assert machine.downloads(http).artifact(url, Digest.of(b"x"), named_by=requester_of(web.url(""))).data == b"x"
    assert machine.downloads(http).document(document, cap=9).data == b"x"
    assert Path(path).read_bytes() == b"application/zip\nx"


def test_attack_links_and_pipes_in_the_cache_are_not_used(web, http, machine, tmp_path):
    url = web.at("/x.zip", answer(b"x"))
    digest = Digest.of(b"x")
    path = os.path.join(machine.cache, digest.hex[:2], digest.hex)
    os.makedirs(os.path.dirname(path))
    (tmp_path / "own").write_bytes(b"my own")
    for make in (lambda: os.mkfifo(path), lambda: os.symlink(tmp_path / "own", path), lambda: os.mkdir(path)):
        make()
        assert machine.downloads(http).artifact(url, digest, named_by=requester_of(web.url(""))).data == b"x"
        assert (tmp_path / "own").read_bytes() == b"my own"
        os.rmdir(path) if os.path.isdir(path) else os.unlink(path)


def test_download_succeeds_with_an_unwritable_cache(web, http, machine):
    os.makedirs(os.path.dirname(machine.cache))
    Path(machine.cache).write_text("a file where the folder should be")
    url = web.at("/x.zip", answer(b"x"))
    assert machine.downloads(http).artifact(url, Digest.of(b"x"), named_by=requester_of(web.url(""))).data == b"x"


def test_wrong_bytes_are_not_cached(web, http, machine):
    url = web.at("/x.zip", answer(b"evil"))
    with pytest.raises(WrongBytes):
        machine.downloads(http).artifact(url, Digest.of(b"x"), named_by=requester_of(web.url("")))
    assert machine.cached() == []


def test_fresh_index_is_fetched_again_after_its_digest_was_wrong(web, http, machine):
    """The site changed the index and the skill, and the cache has the old index."""
    web.at(WELL_KNOWN, answer(current(offer(web, "x")), JSON, "Cache-Control: max-age=60"))
    machine.open(web.url(""), http).index()
    web.at("/x/SKILL.md", answer(skill_md("x", "new")))
    web.at(WELL_KNOWN, answer(current(entry("x", skill_md("x", "new"), "/x/SKILL.md")), JSON))
    for expected in (WrongBytes, None):
        site = machine.open(web.url(""), http)
        (release,) = site.index().releases("x")
        if expected:
            with pytest.raises(expected):
                site.unpacked(release)
        else:
            assert site.unpacked(release).tree["SKILL.md"].data == skill_md("x", "new")


def test_offline_serves_only_cached_and_verified_skills(web, http, machine):
    web.at(WELL_KNOWN, answer(current(offer(web, "x"), offer(web, "y")), JSON, ETAG))
    site = machine.open(web.url(""), http)
    site.unpacked(site.index().releases("x")[0])
    machine.now += 1e6
    offline = machine.open(web.url(""), None)
    assert offline.unpacked(offline.index().releases("x")[0]).tree["SKILL.md"].data == skill_md("x")
    with pytest.raises(SourceError, match="offline"):
        offline.unpacked(offline.index().releases("y")[0])
    with pytest.raises(SourceError, match="offline"):
        machine.open(web.url("/team"), None).index()


def test_parallel_downloads_keep_all_entries(web, http, machine):
    url = at(web, "/a", conditional(b"x", ETAG, "Cache-Control: max-age=0"))

    def command(number):
        downloads = machine.downloads(http)
        other = web.at(f"/{number}", answer(b"y", ETAG))
        return downloads.document(url, cap=9).data + downloads.document(other, cap=9).data

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(command, range(24))) == {b"xy"}
    seen = SiteMemory(machine.state)
    assert all(seen.copy(web.url(f"/{number}")) for number in range(24))


def test_unreadable_state_is_an_error_with_its_place(machine, tmp_path):
    path = Path(machine.state, "sites.json")
    os.makedirs(machine.state)
    for text, fault in (
        ("", ":1:1"),
        ("{", ":1:2"),
        ('{"copies": {}, "sites": []}', ": version"),
        ('{"version": 1, "copies": {}}', ": sites"),
        ('{"version": 1, "sites": []}', ": copies"),
        ('{"version": 1, "copies": {"a": {}}, "sites": []}', ": copies.a.url"),
        ('{"version": 1, "copies": {}, "sites": [7]}', ": sites[0]"),
    ):
        path.write_text(text)
        with pytest.raises(StateError) as caught:
            SiteMemory(machine.state).promised("https://a.example:443/")
        assert caught.value.where == f"{path}{fault}"
        assert path.read_text() == text


def test_remembered_copies_are_bounded_and_promises_of_sites_stay(machine):
    seen = SiteMemory(machine.state)
    seen.promised("https://a.example:443/")
    rows = {f"https://a.example/{number}": {"url": "https://a.example/", "digest": Digest.of(b""), "etag": "",
            "modified": "", "fresh_until": 0} for number in range(1100)}  # fmt: skip
    Path(machine.state, "sites.json").write_text(
        json.dumps({"version": 1, "copies": rows, "sites": ["https://b.example:443/"]})
    )
    seen = SiteMemory(machine.state)
    seen.keep("https://b.example/", Copy("https://b.example/", Digest.of(b"x")))
    known = json.loads(Path(machine.state, "sites.json").read_text())
    assert len(known["copies"]) == 1000
    assert "https://b.example/" in known["copies"]
    assert known["sites"] == ["https://b.example:443/"]


def test_cached_bytes_above_the_limit_are_not_returned(tmp_path):
    """The limit of the bytes does not grow by what the line with the media type leaves unused."""
    cache, data = DownloadCache(str(tmp_path)), bytes(300)
    cache.put(Digest.of(data), Response("https://a.invalid/x", data, "a/b"))
    assert [cache.get(Digest.of(data), "u", limit) is None for limit in (10, 299, 300)] == [True, True, False]


def test_a_media_type_cannot_pass_for_content(tmp_path):
    cache = DownloadCache(str(tmp_path))
    cache.put(Digest.of(b"x"), Response("", b"x", "text/plain\nevil" + "y" * 999))
    found = cache.get(Digest.of(b"x"), "", 1)
    assert found.data == b"x" and found.content_type.startswith("text/plain evil")


class Elsewhere:
    """A web that answers from another origin with public addresses, which no server of a test can have."""

    def ask(self, url, *, cap, options=PLAIN):
        if url.endswith("index.json"):
            document = {"skills": [{"name": "old", "files": ["SKILL.md"]}]}
            return Response(url, json.dumps(document).encode()) if "/skills/" in url else Response(url, b"", "", 404)
        return Response(url.replace("a.example", "b.example"), skill_md("old"))

    def get(self, url, *, cap, named_by=PERSON):
        return self.ask(url, cap=cap, options=RequestOptions(named_by=named_by))


def test_attack_unpinned_files_from_another_origin_are_refused(machine):
    site = machine.open("https://a.example", Elsewhere())
    (release,) = site.index().releases("old")
    with pytest.raises(UnsafeTransfer, match=r"b\.example"):
        site.unpacked(release)
