"""Agent Skills Discovery, clause by clause: docs/formats/discovery.md names these tests."""

import io
import json
import os
import tarfile

import pytest

import skillhub
from skillhub.archive.limits import Limits
from skillhub.errors import (
    FormatError,
    NotFound,
    SourceError,
    TrustDowngrade,
    UnsafeArchive,
    UnsafeTransfer,
    WrongBytes,
)
from skillhub.formats.digest import Digest
from skillhub.model.index import Release
from skillhub.net.fetch import PLAIN, Response
from skillhub.server.site import site_server
from tests.support.serving import serving
from tests.support.site import JSON, LEGACY, WELL_KNOWN, current, entry, legacy, offer, skill_md, tarred, zipped
from tests.support.web import answer, redirect

EMBEDDED = os.path.join(os.path.dirname(skillhub.__file__), "embedded")


@pytest.fixture
def visit(machine, http):
    """Return a function that opens the site at a URL as a new command does."""
    return lambda url: machine.open(url, http)


def files(site, name):
    (release,) = site.index().releases(name)
    return {path: file.data for path, file in site.unpacked(release).tree.items()}


def test_site_is_read_at_its_well_known_path(web, visit):
    web.at(WELL_KNOWN, answer(current(offer(web, "one"), offer(web, "two")), JSON))
    for url in (web.url(""), web.url("/"), web.url(WELL_KNOWN)):
        site = visit(url)
        assert site.index().names == ("one", "two")
        assert files(site, "two") == {"SKILL.md": skill_md("two")}


def test_opening_a_site_sends_no_request(web, visit):
    visit(web.url(""))
    assert not web.seen


def test_index_is_read_without_its_skills(web, visit):
    web.at(WELL_KNOWN, answer(current(offer(web, "one")), JSON))
    (release,) = visit(web.url("")).index().releases("one")
    assert release.description == "Does one."
    assert dict(web.seen) == {WELL_KNOWN: 1}


def test_registry_is_readable_as_a_site(visit):
    """Both its root and the index of one skill; signatures are checked later."""
    with serving(site_server(EMBEDDED)) as server:
        base = f"http://127.0.0.1:{server.server_port}"
        whole = visit(base).index()
        name = whole.names[0]
        alone = visit(f"{base}/{name}")
        assert alone.index().releases(name) == whole.releases(name)
        assert len(whole.names) > 1 and alone.index().names == (name,)
        assert "skill.oms.sig" in files(alone, name)


def test_unknown_schema_is_refused_without_fallback(web, visit):
    document = json.dumps({"$schema": "https://schemas.agentskills.io/discovery/0.9.0/schema.json", "skills": 7})
    web.at(WELL_KNOWN, answer(document.encode(), JSON))
    web.at(LEGACY, answer(legacy({"name": "old", "files": ["SKILL.md"]}), JSON))
    with pytest.raises(FormatError, match=r"0\.9\.0"):
        visit(web.url("")).index()
    assert not web.seen[LEGACY]


def test_attack_an_index_without_schema_at_the_current_path_is_refused(web, visit):
    web.at(WELL_KNOWN, answer(legacy({"name": "old", "files": ["SKILL.md"]}), JSON))
    with pytest.raises(FormatError, match="schema"):
        visit(web.url("")).index()


@pytest.mark.parametrize("place", ["/index.json", "/team/index.json", "/team/skills.json"])
def test_index_of_files_is_read_at_any_url_of_the_user(web, visit, place):
    web.at(place, answer(legacy({"name": "old", "description": "Old.", "files": ["SKILL.md"]}), JSON))
    web.at(place.rpartition("/")[0] + "/old/SKILL.md", answer(skill_md("old")))
    assert files(visit(web.url(place)), "old") == {"SKILL.md": skill_md("old")}


BROKEN = [
    1,
    {"name": "X Y", "files": ["SKILL.md"]},
    {"name": "../up", "files": ["SKILL.md"]},
    {"name": "new"},
    {"name": "new", "files": ["README.md"]},
    {"name": "new", "files": ["SKILL.md", "../../.ssh/config"]},
    {"name": "new", "files": ["SKILL.md", "SKILL.md"]},
    {"name": "new", "files": "SKILL.md"},
    {"name": "old", "files": ["SKILL.md", "run.sh"]},
]


@pytest.mark.parametrize("broken", BROKEN, ids=json.dumps)
def test_attack_a_broken_entry_outside_of_well_known_is_skipped_with_a_warning(web, visit, broken):
    """At a well-known path the whole index is refused, in any spelling of the URL and after redirects."""
    document = legacy({"name": "old", "files": ["SKILL.md"]}, broken)
    web.at("/team/index.json", answer(document, JSON))
    web.at("/team/old/SKILL.md", answer(skill_md("old")))
    site = visit(web.url("/team/index.json"))
    assert files(site, "old") == {"SKILL.md": skill_md("old")}
    assert site.index().names == ("old",)
    (warning,) = site.index().warnings
    assert warning.startswith("skills[1]: ") and warning.endswith("; skipped")
    assert not isinstance(broken, dict) or f"'{broken['name']}'" in warning
    spelled = "/%2ewell-known/skills/index.json"
    for path in (LEGACY, "/team" + LEGACY, spelled):
        web.at(path, answer(document, JSON))
    web.at("/away" + LEGACY, redirect(web.url("/team/index.json")))
    web.at("/hither/index.json", redirect(web.url(LEGACY)))
    for path in (LEGACY, "/team" + LEGACY, spelled, "/away" + LEGACY, "/hither/index.json"):
        with pytest.raises(FormatError):
            visit(web.url(path)).index()


@pytest.mark.parametrize("document", [b"[]", b"{}", b'{"skills": {}}', b"", b'{"skills": [], "skills": []}'])
def test_attack_an_invalid_index_at_any_url_is_refused(web, visit, document):
    web.at("/team/index.json", answer(document, JSON))
    with pytest.raises(FormatError):
        visit(web.url("/team/index.json")).index()


def test_attack_a_broken_entry_in_an_index_with_digests_refuses_the_index(web, visit):
    web.at("/team/index.json", answer(current(offer(web, "one"), {"name": "two", "type": "archive"}), JSON))
    with pytest.raises(FormatError):
        visit(web.url("/team/index.json")).index()


def test_attack_warnings_about_broken_entries_are_limited(web, visit):
    web.at("/team/index.json", answer(legacy({"name": "old", "files": ["SKILL.md"]}, *[{}] * 1000), JSON))
    assert len(visit(web.url("/team/index.json")).index().warnings) == 21


def test_attack_an_index_that_drops_its_digests_is_refused(web, visit):
    web.at("/team/index.json", answer(current(offer(web, "one")), JSON))
    assert visit(web.url("/team/index.json")).index().names == ("one",)
    web.at("/team/index.json", answer(legacy({"name": "one", "files": ["SKILL.md"]}), JSON))
    with pytest.raises(TrustDowngrade):
        visit(web.url("/team/index.json")).index()


def test_unknown_fields_and_types_are_skipped(web, visit):
    document = current(
        {**offer(web, "one"), "published": "yesterday", "size": "small", "license": {"a": [1]}},
        {"name": "later", "type": "wasm", "entry": 5},
        more=True,
    )
    web.at(WELL_KNOWN, answer(document, JSON))
    index = visit(web.url("")).index()
    assert index.names == ("one",)
    assert index.warnings == (
        "later: skipped, its type 'wasm' is unknown",
        "skills[0].published: expected a UTC time such as 2026-01-02T03:04:05Z, found 'yesterday'; ignored",
        "skills[0].size: expected a whole number, found 'small'; ignored",
    )


@pytest.mark.parametrize(
    "url", ["art/x.zip", "./art/x.zip", "/.well-known/agent-skills/art/x.zip", "../agent-skills/art/x.zip", "ABS"]
)
def test_relative_url_is_resolved_against_the_index(web, visit, url):
    data = zipped({"SKILL.md": skill_md("x"), "a/b.txt": b"b"})
    there = web.at("/.well-known/agent-skills/art/x.zip", answer(data))
    web.at(WELL_KNOWN, answer(current(entry("x", data, there if url == "ABS" else url)), JSON))
    site = visit(web.url(""))
    assert site.index().releases("x")[0].url == there
    assert files(site, "x")["a/b.txt"] == b"b"


def test_relative_url_is_resolved_against_the_redirected_index(web, visit):
    data = skill_md("x")
    web.at(WELL_KNOWN, redirect("/v2/index.json"))
    web.at("/v2/index.json", answer(current(entry("x", data, "x.md")), JSON))
    web.at("/v2/x.md", answer(data))
    assert files(visit(web.url("")), "x") == {"SKILL.md": data}


@pytest.mark.parametrize(
    ("name", "media", "make"),
    [
        ("x.zip", "application/gzip", tarred),
        ("x.tar.gz", "application/zip", zipped),
        ("x", "application/gzip", tarred),
        ("x", "application/zip; charset=binary", zipped),
        ("x.zip", "application/octet-stream", zipped),
        ("x.tar.gz", "", tarred),
        ("x.TGZ?v=1", "binary/octet-stream", tarred),
        ("x.skill", "text/plain", zipped),
    ],
)
def test_media_type_decides_the_format_before_the_extension(web, visit, name, media, make):
    data = make({"SKILL.md": skill_md("x"), "run.sh": b"#!/bin/sh\n"})
    web.at(f"/{name}", answer(data, *([f"Content-Type: {media}"] if media else [])))
    web.at(WELL_KNOWN, answer(current(entry("x", data, f"/{name}")), JSON))
    site = visit(web.url(""))
    assert set(files(site, "x")) == {"SKILL.md", "run.sh"}
    again = visit(web.url(""))
    assert set(files(again, "x")) == {"SKILL.md", "run.sh"}
    assert web.seen[f"/{name}"] == 1  # the second read is from the cache


def test_archive_of_unknown_format_is_refused(web, visit):
    data = b"\x89PNG\0"
    web.at("/x.rar", answer(data))
    web.at(WELL_KNOWN, answer(current(entry("x", data, "/x.rar")), JSON))
    with pytest.raises(FormatError, match=r"zip, a tar\.gz"):
        files(visit(web.url("")), "x")


def test_wrong_digest_is_reported_with_the_name_of_the_skill(web, visit):
    good, bad = offer(web, "good"), offer(web, "bad")
    web.at("/bad/SKILL.md", answer(skill_md("bad", "rm -rf ~"), "Content-Type: text/markdown"))
    web.at(WELL_KNOWN, answer(current(good, bad), JSON))
    site = visit(web.url(""))
    assert files(site, "good")
    with pytest.raises(WrongBytes, match="bad does not match its digest"):
        files(site, "bad")


def test_attack_an_endless_archive_is_refused_and_not_cached(web, visit, machine):
    web.at("/x.zip", answer(b"x", length=1 << 40))
    web.at(WELL_KNOWN, answer(current(entry("x", b"x", "/x.zip")), JSON))
    with pytest.raises(WrongBytes, match="x does not match"):
        files(visit(web.url("")), "x")
    assert len(machine.cached()) == 0


@pytest.mark.parametrize("make", [zipped, tarred])
@pytest.mark.parametrize("path", ["../evil", "/tmp-evil/x", "a/../../evil"])
def test_attack_an_archive_with_outward_paths_is_refused(web, visit, make, path):
    data = make({"SKILL.md": skill_md("x"), path: b"evil"})
    web.at("/x", answer(data, f"Content-Type: application/{'zip' if make is zipped else 'gzip'}"))
    web.at(WELL_KNOWN, answer(current(entry("x", data, "/x")), JSON))
    with pytest.raises(UnsafeArchive):
        files(visit(web.url("")), "x")


def test_attack_an_archive_with_links_is_refused(web, visit):
    for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE)):
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode="w:gz") as archive:
            text = tarfile.TarInfo("SKILL.md")
            text.size = len(skill_md("x"))
            archive.addfile(text, io.BytesIO(skill_md("x")))
            link = tarfile.TarInfo("link")
            link.type, link.linkname = kind, "../../outside"
            archive.addfile(link)
        data = held.getvalue()
        web.at(f"/{number}.tar.gz", answer(data))
        web.at(WELL_KNOWN, answer(current(entry("x", data, f"/{number}.tar.gz")), JSON))
        with pytest.raises(UnsafeArchive) as caught:
            files(visit(web.url("")), "x")
        assert caught.value.reason == "link"


def test_attack_an_archive_bomb_is_refused(web, visit):
    data = tarred({"SKILL.md": skill_md("x"), "zeros": bytes(Limits().total)})
    assert len(data) < 1 << 20
    web.at("/x.tar.gz", answer(data))
    web.at(WELL_KNOWN, answer(current(entry("x", data, "/x.tar.gz")), JSON))
    with pytest.raises(UnsafeArchive) as caught:
        files(visit(web.url("")), "x")
    assert caught.value.reason == "too-large"


def test_cached_files_are_not_executable(web, visit, machine):
    data = zipped({"SKILL.md": skill_md("x"), "scripts/run.sh": b"#!/bin/sh\n"})
    web.at("/x.zip", answer(data))
    web.at("/y", answer(b"#!/bin/sh\n"))
    entries = entry("x", data, "/x.zip"), {**entry("y", b"#!/bin/sh\n", "/y"), "type": "skill-md"}
    web.at(WELL_KNOWN, answer(current(*entries), JSON))
    site = visit(web.url(""))
    assert files(site, "x") and files(site, "y")
    kept = machine.cached()
    assert len(kept) == 2 and not any(os.stat(path).st_mode & 0o111 for path in kept)
    assert {os.path.basename(path) for path in kept} == {Digest.of(data).hex, Digest.of(b"#!/bin/sh\n").hex}


@pytest.mark.parametrize("name", ["..", "Upper", "-a", "a--b", "a" * 65, "a\n", "é", ""])
def test_attack_an_invalid_name_refuses_the_whole_index(web, visit, name):
    web.at(WELL_KNOWN, answer(current(offer(web, "good"), {**offer(web, "x"), "name": name}), JSON))
    with pytest.raises(FormatError) as caught:
        visit(web.url("")).index()
    assert "skills[1].name" in caught.value.where


def test_duplicate_name_refuses_the_whole_index(web, visit):
    web.at(WELL_KNOWN, answer(current(offer(web, "x"), offer(web, "x")), JSON))
    with pytest.raises(FormatError, match="once"):
        visit(web.url("")).index()


def test_attack_an_index_of_a_public_site_reaches_no_private_network(web, http, machine, visit):
    """No test can serve a public site, so the URL is in a release of a lock; the rule is the same."""
    secret = web.at("/secret.zip", answer(b"secret"))
    site = machine.open("https://public.example", http)
    for url in (secret, f"https://127.0.0.1:{web.port}/secret.zip"):
        with pytest.raises(UnsafeTransfer):
            site.unpacked(Release(name="x", url=url, digest=Digest.of(b"secret")))
    assert not web.seen


def test_locked_skill_is_fetched_without_the_index(web, visit):
    data = zipped({"SKILL.md": skill_md("x")})
    url = web.at("/x.zip", answer(data, "Content-Type: application/zip"))
    page = web.at("/x/SKILL.md", answer(skill_md("y")))
    site = visit(web.url(""))
    assert "SKILL.md" in site.unpacked(Release(name="x", url=url, digest=Digest.of(data))).tree
    y = Release(name="y", url=page, digest=Digest.of(skill_md("y")))
    assert site.unpacked(y).tree["SKILL.md"].data == skill_md("y")
    assert not web.seen[WELL_KNOWN]


def test_site_at_a_path_does_not_fall_back_to_the_root_of_its_host(web, visit):
    web.at(WELL_KNOWN, answer(current(offer(web, "root")), JSON))
    web.at(LEGACY, answer(legacy({"name": "old", "files": ["SKILL.md"]}), JSON))
    with pytest.raises(NotFound) as caught:
        visit(web.url("/team/")).index()
    assert web.url("") in caught.value.hint
    assert not web.seen[WELL_KNOWN] and not web.seen[LEGACY]
    web.at("/team" + WELL_KNOWN, answer(current(offer(web, "mine", "/team")), JSON))
    assert visit(web.url("/team/")).index().names == ("mine",)


@pytest.mark.parametrize("status", ["500 Internal Server Error", "401 Unauthorized", "200 OK"])
def test_attack_a_failing_index_does_not_fall_back_to_the_weaker_version(web, visit, status):
    web.at(WELL_KNOWN, answer(b"{", JSON, status=status))
    web.at(LEGACY, answer(legacy({"name": "old", "files": ["SKILL.md"]}), JSON))
    with pytest.raises((SourceError, FormatError)):
        visit(web.url("")).index()
    assert not web.seen[LEGACY]


def old_site(web, **files):
    paths = {path.replace("_", "/"): data for path, data in files.items()}
    for path, data in paths.items():
        web.at(f"/.well-known/skills/old/{path.replace(' ', '%20')}", answer(data))
    web.at(LEGACY, answer(legacy({"name": "old", "description": "Old.", "files": ["SKILL.md", *paths]}), JSON))
    web.at("/.well-known/skills/old/SKILL.md", answer(skill_md("old")))


def test_site_of_the_first_version_is_read(web, visit):
    old_site(web, **{"scripts_a b.sh": b"1", "c.txt": b"2"})
    web.at(WELL_KNOWN, answer(b"<html>No such page</html>", "Content-Type: text/html; charset=utf-8"))
    site = visit(web.url(""))
    (release,) = site.index().releases("old")
    assert (release.type, release.digest) == ("files", None)
    expected = {"SKILL.md": skill_md("old"), "scripts/a b.sh": b"1", "c.txt": b"2"}
    assert files(site, "old") == expected
    locked = Release(name="old", url=release.url, type="files")
    assert {path: file.data for path, file in visit(web.url("")).unpacked(locked).tree.items()} == expected


def test_many_files_of_the_first_version_are_read(web, visit):
    many = {f"f{number}.txt": str(number).encode() for number in range(40)}
    old_site(web, **many)
    assert files(visit(web.url("")), "old") == {"SKILL.md": skill_md("old"), **many}


def test_attack_a_site_that_sends_one_file_after_another_late_is_given_up(web, visit):
    """Each of its 2,000 files could take nearly as long as one request may."""
    old_site(web, **{f"f{number}.txt": b"" for number in range(40)})
    site = visit(web.url(""))
    site.seconds = -1.0
    with pytest.raises(SourceError, match="took more than -1 s for old"):
        files(site, "old")
    assert sum(web.seen.values()) < 10


def test_attack_a_list_of_unsafe_files_is_refused_before_the_first_one_is_fetched(web, visit):
    old_site(web, **{f"f{number}.txt": b"" for number in range(40)}, CON=b"")
    with pytest.raises(UnsafeArchive):
        files(visit(web.url("")), "old")
    assert not web.seen["/.well-known/skills/old/SKILL.md"]


def test_attack_a_downgrade_to_the_version_without_digests_is_refused(web, visit):
    old_site(web)
    assert visit(web.url("")).index().names == ("old",)
    web.at(WELL_KNOWN, answer(current(offer(web, "new")), JSON))
    assert visit(web.url("")).index().names == ("new",)
    del web.acts[WELL_KNOWN]
    with pytest.raises(TrustDowngrade) as caught:
        visit(web.url("")).index()
    assert caught.value.code == "trust-downgrade"
    old = Release(name="old", url=web.url("/.well-known/skills/old/"), type="files")
    with pytest.raises(TrustDowngrade):
        visit(web.url("")).unpacked(old)


def team_site(web):
    """Serve a site of the first version below a path of the host."""
    team = {"name": "team", "description": "Theirs.", "files": ["SKILL.md"]}
    web.at("/team" + LEGACY, answer(legacy(team), JSON))
    web.at("/team/.well-known/skills/team/SKILL.md", answer(skill_md("team")))


def test_memory_of_a_host_does_not_apply_to_a_site_at_a_path(web, visit):
    web.at(WELL_KNOWN, answer(current(offer(web, "new")), JSON))
    team_site(web)
    for _ in range(2):
        assert visit(web.url("")).index().names == ("new",)
        assert visit(web.url("/team")).index().names == ("team",)


@pytest.mark.parametrize("spelled", ["/team", "//team/", "/./team", "/t%65am", "/x/../team"])
def test_attack_a_downgrade_at_a_path_is_refused_in_any_spelling(web, visit, spelled):
    web.at("/team" + WELL_KNOWN, answer(current(offer(web, "new")), JSON))
    assert visit(web.url("/team")).index().names == ("new",)
    del web.acts["/team" + WELL_KNOWN]
    team_site(web)
    web.acts[spelled.rstrip("/") + LEGACY] = web.acts["/team" + LEGACY]
    with pytest.raises(TrustDowngrade):
        visit(web.url(spelled)).index()


def test_attack_a_redirect_to_a_downgraded_site_is_refused(web, visit):
    web.at(WELL_KNOWN, answer(current(offer(web, "new")), JSON))
    visit(web.url("")).index()
    old_site(web)
    web.at("/team" + LEGACY, redirect(web.url(LEGACY)))
    with pytest.raises(TrustDowngrade):
        visit(web.url("/team")).index()


@pytest.mark.parametrize("places", [(WELL_KNOWN,), (WELL_KNOWN, LEGACY)])
def test_html_page_in_place_of_an_index_is_refused(web, visit, places):
    """Captive portals, and web servers for missing files, answer with such a page."""
    for place in places:
        web.at(place, answer(b"<html>Log in</html>", "Content-Type: text/html"))
    with pytest.raises(FormatError) as caught:
        visit(web.url("")).index()
    assert caught.value.where == web.url(WELL_KNOWN)


@pytest.mark.parametrize(
    "path", ["../../x", "/x", "a//b", "a/./b", "..", "", "a\\b", "a\x00", "a\u202eb", "https://e/x/../../y"]
)
def test_attack_a_file_with_an_outward_path_refuses_the_whole_index(web, visit, path):
    web.at(LEGACY, answer(legacy({"name": "old", "files": ["SKILL.md", path]}), JSON))
    with pytest.raises(FormatError):
        visit(web.url("")).index()


@pytest.mark.parametrize("listed", [[], ["README.md"], ["SKILL.md", "SKILL.md"], "SKILL.md", [7], None])
def test_files_must_hold_skill_md_once(web, visit, listed):
    web.at(LEGACY, answer(legacy({"name": "old", "files": listed}), JSON))
    with pytest.raises(FormatError):
        visit(web.url("")).index()


def test_attack_a_file_without_digest_from_another_origin_is_refused(web, visit):
    old_site(web, **{"run.sh": b"x"})
    web.at("/.well-known/skills/old/run.sh", redirect(f"https://localhost:{web.port}/evil"))
    with pytest.raises(UnsafeTransfer):
        files(visit(web.url("")), "old")


@pytest.mark.parametrize(
    ("path", "media", "data"),
    [
        ("/x.zip", "", zipped({"SKILL.md": skill_md("x")})),
        ("/x.skill", "application/octet-stream", zipped({"SKILL.md": skill_md("x")})),
        ("/get?id=5", "application/gzip", tarred({"SKILL.md": skill_md("x")})),
        ("/download", "application/zip", zipped({"x-1.0/SKILL.md": skill_md("x")})),
        ("/x/SKILL.md", "text/markdown", skill_md("x")),
        ("/raw?file=SKILL.md", "text/plain; charset=utf-8", skill_md("x")),
    ],
)
def test_url_of_one_archive_or_skill_md_is_read(web, visit, path, media, data):
    url = web.at(path, answer(data, *([f"Content-Type: {media}"] if media else [])))
    site = visit(url)
    (release,) = site.index().releases("x")
    assert (release.url, release.digest) == (url, Digest.of(data))
    assert files(site, "x") == {"SKILL.md": skill_md("x")}
    assert web.seen[path] == 1
    web.at(path, answer(zipped({"SKILL.md": skill_md("x", "changed")}), "Content-Type: application/zip"))
    locked = Release(name="x", url=url, digest=Digest.of(b"what was locked"))
    with pytest.raises(WrongBytes):
        visit(url).unpacked(locked)


def test_index_is_recognized_by_its_media_type(web, visit):
    web.at("/api?page=1", answer(current(offer(web, "x")), JSON))
    assert visit(web.url("/api?page=1")).index().names == ("x",)


@pytest.mark.parametrize(
    "url", ["https://[:::::]/", "file:///etc/passwd", "https://me:pass@a.example/", "https://a:0"]
)
def test_invalid_url_is_refused(web, visit, url):
    with pytest.raises(UnsafeTransfer):
        visit(url)
    with pytest.raises(UnsafeTransfer):
        visit(web.url("")).unpacked(Release(name="x", url=url, digest=Digest.of(b"x")))


def test_plain_http_gives_a_warning(tmp_path, machine):
    class Plain:
        def ask(self, url, *, cap, options=PLAIN):
            return Response(url, current(), "application/json")

    (warning,) = machine.open("http://intranet.example", Plain()).index().warnings
    assert "plain http" in warning
    assert machine.open("https://intranet.example", Plain()).index().warnings == ()


@pytest.mark.parametrize("path", ["", "/docs", "/docs?page=1"])
def test_html_page_at_any_path_has_no_skills(web, visit, path):
    for place in (path or "/", WELL_KNOWN, LEGACY, f"/docs{WELL_KNOWN}", f"/docs{LEGACY}"):
        web.at(place, answer(b"<!doctype html>", "Content-Type: text/html"))
    with pytest.raises(NotFound if "?" in path else FormatError, match="no skills"):
        visit(web.url(path)).index()
