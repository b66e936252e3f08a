"""Skills of an MCP server: both eras, every digest, and hostile or broken servers."""

import json
import threading
from dataclasses import replace

import pytest

from skillhub.archive.limits import Limits
from skillhub.errors import (
    FormatError,
    NotFound,
    RateLimited,
    SkillhubError,
    SourceError,
    UnsafeArchive,
    UnsafeTransfer,
    WrongBytes,
)
from skillhub.formats.digest import Digest
from skillhub.model.discovery import LeadsOut
from skillhub.model.index import Release
from skillhub.model.reference import Mcp, parse_ref
from skillhub.net.client import Http, Patience
from skillhub.net.mirrors import Mirrors, UntrustedClient
from skillhub.net.settings import Settings
from skillhub.sources import mcp
from skillhub.sources.mcp import McpPlace
from tests.support.skill_server import EXTENSION, Raw, skill, skill_server

ONCE = Patience(pauses=())
FILES = {"scripts/run.sh": b"#!/bin/sh\n", "assets/x y.bin": b"\xff\xfe\x00", "notes.md": "Grüße\r\n".encode()}


@pytest.fixture
def server():
    with skill_server() as found:
        yield found


@pytest.fixture
def opened(server):
    """Return a function that opens the server, or one of its skills."""
    with Http(patience=ONCE) as http:
        yield lambda path=None, **more: McpPlace(Mcp(server.url, path), http, **more)


def plain(unpacked):
    return {path: file.data for path, file in unpacked.tree.items()}


def only(place):
    (releases,) = place.index().skills.values()
    (release,) = releases
    return release


@pytest.mark.parametrize("streams", [False, True], ids=["json", "events"])
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_skill_is_read_in_both_eras_and_both_formats(server, opened, era, streams):
    server.era, server.streams = era, streams
    uri = server.add("pdf", "skill://acme/docs/pdf", FILES, metadata={"version": 1.0, "x": True, "n": None})
    place = opened()
    release = only(place)
    assert (release.name, release.url, release.path) == ("pdf", server.url, uri)
    assert (release.type, release.digest, release.description) == ("files", None, "What pdf does.")
    found = place.unpacked(release)
    assert plain(found) == server.skills[uri]
    assert found.tree.digest == release.tree
    assert not any(file.executable for file in found.tree.values())
    opening = ["server/discover", *(["initialize", "notifications/initialized"] if era == "handshake" else [])]
    assert server.methods == [*opening, "skills/list", *["resources/read"] * 4]


def test_all_pages_of_the_list_are_read(server, opened):
    server.page = 3
    for number in range(10):
        server.add(f"s{number}")
    assert opened().index().names == tuple(f"s{number}" for number in range(10))
    assert server.methods.count("skills/list") == 4


def test_locked_skill_is_read_without_the_list(server, opened):
    uri = server.add("pdf", files=FILES)
    locked = Release(name="pdf", url=server.url, path=uri, type="files")
    assert plain(opened().unpacked(locked)) == server.skills[uri]
    assert "skills/list" not in server.methods


def test_unlisted_skill_is_read_by_its_uri(server, opened):
    uri = server.add("pdf", "skill://acme/pdf")
    server.unlisted.add(uri)
    assert "the server lists none" in opened().index().warnings[0]
    for word in (uri, f"{uri}/SKILL.md", f"{uri}/"):
        assert opened().index((word,)).names == ("pdf",)
    assert opened(uri).index().names == ("pdf",)
    with pytest.raises(NotFound, match="nothing at"):
        opened("skill://acme/gone").index()


def test_skills_of_one_name_are_separate_releases(server, opened):
    for folder in ("skill://sales/refunds", "skill://support/refunds", "github://a/b/refunds"):
        server.add("refunds", folder)
    found = opened().index().releases("refunds")
    assert [each.path for each in found] == [*server.skills]


def test_dynamic_and_too_large_skills_are_left_out_with_a_warning(server, opened):
    server.add("good")
    server.entries[server.add("moves")] = {"resources": "dynamic"}
    server.add("many", files={f"f{number}": b"" for number in range(512)})
    big = server.add("big")
    rows = server.entry(big)["resources"]
    server.entries[big] = {"resources": [*rows, {**rows[0], "uri": f"{big}/x", "size": 16 << 20}]}
    index = opened().index()
    assert index.names == ("good",)
    assert len(index.warnings) == 3
    for uri, message in (("skill://moves", "generated"), ("skill://many", "513 files"), (big, "16777")):
        with pytest.raises(FormatError, match=message):
            opened().unpacked(Release(name=uri[8:], url=server.url, path=uri))


def test_attack_warnings_about_skills_that_are_left_out_are_limited(server, opened):
    for number in range(30):
        server.entries[server.add(f"moves-{number}")] = {"resources": "dynamic"}
    assert opened().index().warnings[-1] == "10 more are ignored"


def test_dropped_session_is_opened_again(server, opened):
    server.era = "handshake"
    server.add("pdf")
    place = opened()
    release = only(place)
    server.sessions.clear()
    assert plain(place.unpacked(release))
    assert server.methods.count("initialize") == 2


def test_attack_a_server_that_drops_every_session_is_an_error(server, opened):
    server.era = "handshake"
    server.add("pdf")
    place = opened()
    release = only(place)
    server.alter = lambda method, params, result: server.sessions.clear() or result
    server.sessions.clear()
    server.seen.clear()
    with pytest.raises(SourceError):
        place.unpacked(release)
    assert len(server.seen) < 10


def test_server_without_the_extension_is_reported(server, opened):
    server.extensions = {"io.modelcontextprotocol/ui": {}}
    with pytest.raises(NotFound, match="serves no skills"):
        opened().index()
    server.extensions = {EXTENSION: True}
    with pytest.raises(NotFound, match="serves no skills"):
        opened().index()
    assert "skills/list" not in server.methods


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (401, {}, SourceError),
        (403, {}, SourceError),
        (404, {}, SourceError),
        (429, {"Retry-After": "9"}, RateLimited),
        (500, {}, SourceError),
        (204, {}, SourceError),
    ],
)
def test_refused_access_is_reported(server, opened, status, headers, kind):
    server.alter = lambda *_: Raw(b"no", status, {"Content-Type": "text/plain", **headers})
    with pytest.raises(kind):
        opened().index()
    assert "skills/list" not in server.methods


def test_url_without_an_mcp_server_is_not_found(server, opened):
    server.era = "handshake"
    server.alter = lambda *_: Raw(b"no", 404, {"Content-Type": "text/plain"})
    with pytest.raises(NotFound, match="404"):
        opened().index()


def test_encoded_names_of_files_are_decoded(server, opened):
    files = {"a b/c+d.md": b"1", "ü/é.md": b"2", "x%20y": b"3", "q?.md".replace("?", "#"): b"4"}
    uri = server.add("pdf", files=files)
    place = opened()
    assert plain(place.unpacked(only(place))) == server.skills[uri]


@pytest.mark.parametrize(
    ("yaml", "value", "is_same"),
    [
        ("1.0", 1.0, True),
        ("1.0", "1.0", True),
        ("1.0", 1, True),
        ("1.0", 2, False),
        ("yes", True, True),
        ("yes", "yes", True),
        ("no", True, False),
        ("", None, True),
        ("~", None, True),
        ("a", None, False),
        ("0x1F", 31, True),
        ("0o17", 15, True),
        ("0o9a", 5, False),
        ("nan", "nan", True),
        ("a", 1, False),
        ("1", True, False),
        ({"a": "1"}, {"a": 1}, True),
        ({"a": "1"}, {"a": 1, "b": 2}, False),
        (["1", "x"], [1, "x"], True),
        (["1"], [1, 2], False),
        (["1"], {"0": 1}, False),
        ("x", ["x"], False),
        ({}, "", False),
    ],
)
def test_scalars_of_yaml_and_json_are_compared(yaml, value, is_same):
    assert mcp._is_same(yaml, value) == is_same


# Hostile and broken servers.


def fails(place, kind, match=None):
    with pytest.raises(kind, match=match) as caught:
        place.unpacked(only(place))
    assert "\x1b" not in f"{caught.value.message}{caught.value.where}"
    return caught.value


def reading(server, change):
    """Make the server change its answer for the file ``SKILL.md``."""

    def alter(method, params, result):
        return change(result) if method == "resources/read" and params["uri"].endswith("SKILL.md") else result

    server.alter = alter


def entry_with(server, **changed):
    uri = server.add("pdf", files=FILES)
    server.entries[uri] = changed
    return uri


def resource(server, number=0, **changed):
    """Serve a skill with changed values in the entry of one file."""
    uri = server.add("pdf", files=FILES)
    rows = server.entry(uri)["resources"]
    rows[number] = {**rows[number], **changed}
    server.entries[uri] = {"resources": rows}
    return rows


def test_attack_an_entry_of_another_skill_than_asked_for_is_refused(server, opened):
    uri = entry_with(server, uri="skill://other/pdf/SKILL.md", resources="dynamic")
    server.unlisted.add(uri)
    with pytest.raises(FormatError, match="skill://other"):
        opened(uri).index(["pdf"])


@pytest.mark.parametrize("number", range(4))
def test_attack_a_file_with_another_digest_is_refused(server, opened, number):
    resource(server, number, digest=str(Digest.of(b"other")))
    fails(opened(), WrongBytes, "expected .* bytes with sha256")


@pytest.mark.parametrize("change", [-1, 1, 1000])
def test_attack_a_file_with_another_size_is_refused(server, opened, change):
    uri = server.add("pdf", files=FILES)
    resource(server, size=len(server.skills[uri]["SKILL.md"]) + change)
    fails(opened(), WrongBytes)


def test_attack_a_file_far_larger_than_its_entry_is_cut_off(server, opened):
    server.add("pdf")
    server.alter = lambda method, params, result: (
        {**result, "contents": [{"uri": params["uri"], "text": "x" * (8 << 20)}]} if "read" in method else result
    )
    fails(opened(), WrongBytes, "at most")


def test_attack_a_skill_changed_between_list_and_read_is_refused(server, opened):
    uri = server.add("pdf", files=FILES)
    place = opened()
    release = only(place)
    server.skills[uri]["scripts/run.sh"] = b"#!/bin/sh\ncurl evil\n"
    with pytest.raises(WrongBytes, match="expected 10 bytes"):
        place.unpacked(release)


def test_attack_a_listed_file_that_is_missing_is_reported(server, opened):
    uri = server.add("pdf", files=FILES)
    place = opened()
    release = only(place)
    del server.skills[uri]["notes.md"]
    with pytest.raises(NotFound):
        place.unpacked(release)


@pytest.mark.parametrize(
    "uri",
    [
        "skill://other/x.md",
        "skill://pdf-2/x.md",
        "skill://pdfx.md",
        "skill://pdf",
        "file:///etc/passwd",
        "https://evil.example/x.md",
        "skill://evil/pdf/x.md",
        "skill://pdf/a%2Fb.md",
        "skill://pdf/..%2f..%2fx.md",
    ],
)
def test_attack_a_file_outside_of_its_skill_is_refused(server, opened, uri):
    resource(server, 1, uri=uri)
    fails(opened(), LeadsOut)
    assert "resources/read" not in server.methods


@pytest.mark.parametrize(
    "path",
    [
        "../x.md",
        "a/../../x.md",
        "%2e%2e/x.md",
        "a//b.md",
        "./a.md",
        "",
        "a\\b.md",
        "%5c%5cserver",
        "C:x.md",
        "con.md",
        "a%00b",
        ".git/hooks/x",
        "a.",
        "%e2%80%ae.md",
        "skill.md",
        "SK%C4%B0LL.md",
        "scripts",
        "SCRIPTS/RUN.SH",
        "assets/X%20Y.bin",
        "x" * 256,
        "/".join("abcdefghijklmnopqrstuvwxyzabcdefghijk"),
    ],
)
def test_attack_an_unsafe_path_is_refused(server, opened, path):
    resource(server, 3, uri=f"skill://pdf/{path}")
    fails(opened(), UnsafeArchive)
    assert "resources/read" not in server.methods  # names are checked before the first file is fetched


@pytest.mark.parametrize("path", ["%ff%fe", "a%C0%AF"])
def test_attack_a_path_that_is_not_utf_8_is_refused(server, opened, path):
    resource(server, 1, uri=f"skill://pdf/{path}")
    fails(opened(), FormatError, "UTF-8")


@pytest.mark.parametrize(
    "changed",
    [
        {"uri": "skill://pdf"},
        {"uri": "skill://evil/SKILL.md"},
        {"uri": "skill://pdf/x/../SKILL.md"},
        {"uri": "skill://x/../pdf/SKILL.md"},
        {"uri": "skill://x/%2e%2e/pdf/SKILL.md"},
        {"uri": "skill:///pdf/SKILL.md"},
        {"uri": "pdf/SKILL.md"},
        {"uri": "skill://pdf/SKILL.md?x=1"},
        {"uri": "skill://pdf/SKILL.md\x1b[2J"},
        {"uri": None},
        {"uri": "skill://PDF/SKILL.md", "frontmatter": {"name": "PDF", "description": "d"}},
        {"frontmatter": {"name": "evil", "description": "d"}},
        {"frontmatter": {"name": "pdf"}},
        {"frontmatter": {"name": ["pdf"], "description": "d"}},
        {"frontmatter": None},
        {"resources": None},
        {"resources": "static"},
        {"resources": {}},
        {"resources": [{}]},
        {"resources": [{"uri": "skill://pdf/SKILL.md", "digest": "sha256:" + "A" * 64, "size": 1}]},
        {"resources": [{"uri": "skill://pdf/SKILL.md", "digest": "sha1:" + "a" * 40, "size": 1}]},
        {"resources": [{"uri": "skill://pdf/SKILL.md", "digest": "sha256:" + "a" * 64, "size": -1}]},
        {"resources": [{"uri": "skill://pdf/SKILL.md", "digest": "sha256:" + "a" * 64, "size": 1.5}]},
        {"resources": [{"uri": "skill://pdf/SKILL.md", "digest": "sha256:" + "a" * 64, "size": "1"}]},
        {"resources": [{"uri": "skill://pdf/SKILL.md", "digest": "sha256:" + "a" * 64}]},
        {"resources": [{"uri": "skill://pdf/x.md", "digest": "sha256:" + "a" * 64, "size": 1}]},
        {"resources": [{"uri": "skill://pdf/SKILL.md", "digest": "sha256:" + "a" * 64, "size": 1}] * 2},
        {
            "resources": [
                {"uri": f"skill://pdf/{each}", "digest": "sha256:" + "a" * 64, "size": 1}
                for each in ("SKILL.md", "a%62.md", "ab.md")
            ]
        },
    ],
    ids=str,
)
def test_attack_a_malformed_entry_refuses_the_list(server, opened, changed):
    server.add("good")
    entry_with(server, **changed)
    with pytest.raises(FormatError) as caught:
        opened().index()
    assert "\x1b" not in f"{caught.value.message}{caught.value.where}"


@pytest.mark.parametrize("data", [b"---\nname: pdf\ndescription: \xff\n---\n", b"---\nname: pdf\x00\n---\n"])
def test_attack_a_skill_md_that_is_not_text_is_refused(server, opened, data):
    uri = server.add("pdf")
    before = server.entry(uri)["frontmatter"]
    server.skills[uri]["SKILL.md"] = data
    row = {"uri": f"{uri}/SKILL.md", "digest": str(Digest.of(data)), "size": len(data)}
    server.entries[uri] = {"frontmatter": before, "resources": [row]}
    server.entry = lambda folder: {"uri": f"{uri}/SKILL.md", **server.entries[uri]}
    fails(opened(), UnsafeArchive)


def test_handshake_follows_any_refusal_of_discovery(server, opened):
    server.era = "handshake"
    server.add("pdf")
    refuse = server.refuse
    for status in (400, 403, 405, 406, 500):
        server.refuse = lambda method, status=status: status if method == "server/discover" else refuse(method)
        assert opened().index().names == ("pdf",)


def test_attack_two_entries_with_one_uri_refuse_the_list(server, opened):
    uri = server.add("pdf")
    server.entries[server.add("other")] = server.entry(uri)
    with pytest.raises(FormatError, match="once"):
        opened().index()


@pytest.mark.parametrize(
    "front",
    [
        {"name": "pdf", "description": "Harmless."},
        {"name": "pdf", "description": "What pdf does.", "allowed-tools": "Read"},
        {"name": "pdf", "description": "What pdf does.", "metadata": {"version": "1"}},
    ],
    ids=str,
)
def test_attack_a_list_with_another_frontmatter_is_refused(server, opened, front):
    uri = entry_with(server, frontmatter=front)
    server.skills[uri]["SKILL.md"] = skill("pdf", metadata={"version": "2"})
    fails(opened(), WrongBytes, "frontmatter")


def test_attack_a_tool_missing_in_the_list_is_refused(server, opened):
    uri = server.add("pdf", **{"allowed-tools": "Bash"})
    server.entries[uri] = {"frontmatter": {"name": "pdf", "description": "What pdf does."}}
    fails(opened(), WrongBytes, "allowed-tools")


def test_attack_a_huge_frontmatter_is_refused(server, opened):
    uri = server.add("pdf")
    server.entries[uri] = {"frontmatter": {"name": "pdf", "description": "What pdf does.", "x": "y" * (9 << 20)}}
    with pytest.raises(WrongBytes, match="at most"):
        opened().index()
    server.entries[uri] = {"frontmatter": {"name": "pdf", "description": "d" * 100_000}}
    assert len(only(opened()).description) == 1024
    fails(opened(), WrongBytes, "frontmatter")
    deep: object = "x"
    for _ in range(900):
        deep = [deep]
    server.entries[uri] = {"frontmatter": {**server.entry(uri)["frontmatter"], "deep": deep}}
    with pytest.raises(SkillhubError):
        opened().unpacked(only(opened()))


def test_attack_endless_pages_are_refused(server, opened, monkeypatch):
    monkeypatch.setattr(mcp, "_PAGES_MAX", 20)
    server.add("pdf")
    numbers = iter(range(10**9))
    server.alter = lambda method, params, result: (
        {**result, "skills": [], "nextCursor": str(next(numbers))} if method == "skills/list" else result
    )
    with pytest.raises(FormatError, match="at most"):
        opened().index()
    assert server.methods.count("skills/list") == 20


@pytest.mark.parametrize("cursor", ["same", "", 7, ["x"], True, "x" * 5000])
def test_attack_a_repeated_or_invalid_cursor_is_refused(server, opened, cursor):
    server.add("pdf")
    server.alter = lambda method, params, result: (
        {**result, "skills": [], "nextCursor": cursor} if method == "skills/list" else result
    )
    with pytest.raises(FormatError):
        opened().index()
    assert server.methods.count("skills/list") <= 2


def test_attack_too_many_skills_are_refused(server, opened, monkeypatch):
    monkeypatch.setattr(mcp, "_SKILLS_MAX", 10)
    server.page = 4
    for number in range(40):
        server.add(f"s{number}")
    with pytest.raises(FormatError, match="at most"):
        opened().index()
    monkeypatch.setattr(mcp, "_SKILLS_MAX", 100)
    monkeypatch.setattr(mcp, "LISTING_CAP", 3000)
    with pytest.raises(FormatError, match="at most"):
        opened().index()


def test_attack_a_deadline_covers_all_requests_of_a_place(server, opened):
    server.add("pdf", files=FILES)
    with pytest.raises(SourceError, match="took more than -1 s"):
        opened(seconds=-1.0).index()
    place = opened(seconds=-1.0)
    with pytest.raises(SourceError, match="took more than -1 s"):
        place.unpacked(Release(name="pdf", url=server.url, path="skill://pdf"))
    assert "resources/read" not in server.methods


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("data", [b" ", b": ping\n\n"])
def test_attack_an_endless_dripping_answer_ends_at_the_deadline(server, kind, data):
    server.add("pdf")
    raw = Raw(data, headers={"Content-Type": kind}, pause=0.05, is_endless=True)
    server.alter = lambda method, params, result: raw if method == "skills/list" else result
    with Http(patience=Patience(grace=0.5, pauses=())) as http, pytest.raises(SourceError, match="in time"):
        McpPlace(Mcp(server.url), http).index()


def test_attack_an_endless_stream_of_events_is_refused(server, opened):
    server.add("pdf")
    event = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"x":"' + b"x" * 60_000 + b'"}}\n\n'
    raw = Raw(event, headers={"Content-Type": "text/event-stream"}, is_endless=True)
    server.alter = lambda method, params, result: raw if method == "skills/list" else result
    with pytest.raises(WrongBytes, match="at most"):
        opened().index()


@pytest.mark.parametrize("kind", ["text/html", "text/plain", "application/octet-stream", "", "application/jsonx"])
def test_attack_an_answer_of_another_media_type_is_refused(server, opened, kind):
    server.add("pdf")
    raw = Raw(b'{"jsonrpc":"2.0"}', headers={"Content-Type": kind} if kind else {})
    server.alter = lambda method, params, result: raw if method == "skills/list" else result
    with pytest.raises(FormatError, match="expected an answer of MCP"):
        opened().index()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":"skillhub-99","result":{"skills":[]}}',
        b'{"jsonrpc":"2.0","result":{"skills":[]}}',
        b'{"jsonrpc":"2.0","id":"skillhub-2"}',
        b'{"jsonrpc":"2.0","id":"skillhub-2","result":[]}',
        b'{"jsonrpc":"2.0","id":"skillhub-2","result":{}}',
        b'{"jsonrpc":"2.0","id":"skillhub-2","result":{"resultType":"input_required","skills":[]}}',
        b'{"jsonrpc":"2.0","id":"skillhub-2","result":{"skills":{}}}',
        b'{"jsonrpc":"2.0","id":["skillhub-2"],"result":{"skills":[]}}',
        b'{"jsonrpc":"2.0","id":"skillhub-2","result":{"skills":[],"resultType":[]}}',
        b'{"jsonrpc":"2.0","id":"skillhub-2","result":{"skills":[{"uri":{},"frontmatter":[],"resources":{}}]}}',
        b'{"jsonrpc":"2.0","id":"skillhub-2","result":{"skills":[1]}}',
        b'{"jsonrpc":"2.0","id":"skillhub-2","result":{"skills":[],"skills":[]}}',
        b'{"jsonrpc":"2.0","id":"skillhub-2","result":{"skills":[NaN]}}',
        b"\xff\xfe",
    ],
)
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_attack_an_invalid_answer_is_refused(server, opened, message, kind):
    server.add("pdf")
    data = b"data: " + message + b"\n\n" if kind == "text/event-stream" else message
    server.alter = lambda method, params, result: (
        Raw(data, headers={"Content-Type": kind}) if method == "skills/list" else result
    )
    with pytest.raises(FormatError):
        opened().index()


@pytest.mark.parametrize(
    "error",
    ["no", None, {}, {"code": "x", "message": ["\x1b[2J"]}, {"code": -32603}, {"code": []}, {"code": {}}, [1]],
)
def test_attack_an_error_of_any_shape_is_reported_escaped(server, opened, error):
    data = json.dumps({"jsonrpc": "2.0", "id": "skillhub-2", "error": error}).encode()
    for status in (200, 400, 404):
        server.alter = lambda method, params, result, status=status: (
            Raw(data, status) if method == "skills/list" else result
        )
        with pytest.raises(SourceError) as caught:
            opened().index()
        assert "\x1b" not in caught.value.message


@pytest.mark.parametrize(
    "contents",
    [
        [],
        None,
        {},
        "text",
        [{"uri": "skill://pdf/SKILL.md"}],
        [{"uri": "skill://other/SKILL.md", "text": "x"}],
        [{"uri": "skill://pdf/SKILL.md", "text": "x", "blob": "eA=="}],
        [{"uri": "skill://pdf/SKILL.md", "blob": "not base64!"}],
        [{"uri": "skill://pdf/SKILL.md", "blob": "eA"}],
        [{"uri": "skill://pdf/SKILL.md", "blob": "é"}],
        [{"uri": "skill://pdf/SKILL.md", "text": 7}],
        [{"uri": "skill://pdf/SKILL.md", "text": "x"}, {"uri": "skill://pdf/SKILL.md", "text": "y"}],
    ],
    ids=str,
)
def test_attack_content_of_another_file_is_refused(server, opened, contents):
    server.add("pdf")
    reading(server, lambda result: {**result, "contents": contents})
    fails(opened(), FormatError, "expected the content")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_attack_a_redirect_to_another_origin_is_refused(server, opened, status):
    server.add("pdf")
    for place in (
        "https://evil.example/mcp",
        "http://169.254.169.254/",
        "//evil.example/mcp",
        "http://localhost/mcp",
    ):
        raw = Raw(status=status, headers={"Location": place})
        server.alter = lambda method, params, result, raw=raw: raw if method == "skills/list" else result
        with pytest.raises(UnsafeTransfer, match="redirect"):
            opened().index()


@pytest.mark.parametrize("status", [301, 302, 303])
def test_attack_a_redirect_that_changes_the_method_is_refused(server, opened, status):
    server.add("pdf")
    raw = Raw(status=status, headers={"Location": "/mcp"})
    server.alter = lambda method, params, result: raw if method == "skills/list" else result
    with pytest.raises(UnsafeTransfer, match="redirect"):
        opened().index()
    assert "GET" not in server.methods


def test_redirect_within_the_origin_repeats_the_request(server, opened):
    server.add("pdf")
    redirects = iter([Raw(status=307, headers={"Location": "/mcp/"})])
    server.alter = lambda method, params, result: next(redirects, result) if method == "skills/list" else result
    assert opened().index().names == ("pdf",)
    assert server.methods.count("skills/list") == 2


def test_attack_endless_redirects_are_refused(server, opened):
    server.alter = lambda *_: Raw(status=308, headers={"Location": "/mcp"})
    with pytest.raises(UnsafeTransfer, match="at most 5"):
        opened().index()


def test_attack_a_local_server_that_only_a_repository_names_is_refused(server):
    server.add("pdf")
    with Http(patience=ONCE) as http:
        web = UntrustedClient(http, server.ref)
        with pytest.raises(UnsafeTransfer) as caught:
            McpPlace(Mcp(server.url), web).index()
    assert caught.value.hint == f"only this repository names it; to use it: skillhub install {server.ref}"
    assert server.seen == []


@pytest.mark.parametrize("host", ["10.0.0.1", "169.254.169.254", "[::1]", "192.168.1.1:8080"])
def test_attack_a_private_server_that_only_a_repository_names_is_refused(host):
    with Http(patience=ONCE) as http, pytest.raises(UnsafeTransfer):
        McpPlace(Mcp(f"https://{host}/mcp"), UntrustedClient(http, "mcp+https://x")).index()


def test_login_is_sent_only_to_its_server(server, opened):
    server.add("pdf")
    asked = []

    def login(target):
        asked.append(target.origin)
        return "Bearer secret"

    with Http(patience=ONCE, credentials=login) as http:
        assert McpPlace(Mcp(server.url), http).index().names == ("pdf",)
        assert {headers["authorization"] for _, headers in server.seen} == {"Bearer secret"}
        assert set(asked) == {server.url.removesuffix("/mcp")}
        server.seen.clear()
        raw = Raw(status=307, headers={"Location": "http://localhost:1/mcp"})
        server.alter = lambda *_: raw
        with pytest.raises(UnsafeTransfer):
            McpPlace(Mcp(server.url), http).index()
        assert "http://localhost:1" not in asked


def test_mirror_serves_a_skill_without_a_login(server):
    server.add("pdf")
    settings = Settings.parse({"mirrors": {"https://mcp.example": server.url.removesuffix("/mcp")}}, "")
    with Http(patience=ONCE, credentials=lambda target: None) as http:
        place = McpPlace(Mcp("https://mcp.example/mcp"), Mirrors(http, settings))
        assert plain(place.unpacked(only(place)))
        assert only(place).url == "https://mcp.example/mcp"


def test_parallel_reads_share_one_session(server, opened):
    server.era = "handshake"
    for number in range(8):
        server.add(f"s{number}")
    place = opened()
    failed = []

    def read(number):
        try:
            place.unpacked(Release(name=f"s{number}", url=server.url, path=f"skill://s{number}"))
        except SkillhubError as error:
            failed.append(error)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failed == []
    assert server.methods.count("initialize") == 1


@pytest.mark.parametrize("session", ["x" * 2000, "s1\r\nX-Evil: 1", "é"])
def test_attack_an_invalid_session_id_is_refused(server, opened, session):
    server.era = "handshake"
    server.add("pdf")
    headers = {"Content-Type": "application/json", "Mcp-Session-Id": session.replace("\r\n", " ")}
    result = {"protocolVersion": "2025-11-25", "capabilities": server.capabilities}
    data = json.dumps({"jsonrpc": "2.0", "id": "skillhub-2", "result": result}).encode()
    server.alter = lambda method, params, result: Raw(data, headers=headers) if method == "initialize" else result
    with pytest.raises(SkillhubError):
        opened().index()
    assert all("x-evil" not in headers for _, headers in server.seen)


def test_plain_http_gives_a_warning(server):
    class Far(Mirrors):
        def ask(self, url, **asked):
            return super().ask(server.url, **asked)

    server.add("pdf")
    with Http(patience=ONCE) as http:
        index = McpPlace(Mcp("http://intranet.example/mcp"), Far(http, Settings.parse({}, ""))).index()
    assert "plain http" in index.warnings[0]


def test_limits_of_mcp_are_within_those_of_any_skill():
    assert Limits().files >= mcp._FILES_MAX
    assert Limits().total >= mcp._BYTES_MAX


REFS = [
    "mcp+https://h.example/mcp",
    "mcp+http://127.0.0.1:8/mcp#skill://a/b/pdf",
    "mcp+https://h/x?y=1#github://o/r/pdf",
]


@pytest.mark.parametrize("text", REFS)
def test_references_to_servers_are_parsed(text):
    ref = parse_ref(text)
    assert isinstance(ref, Mcp)
    assert (str(ref), ref.source) == (text, text.partition("#")[0])
    assert replace(ref, path=None) == parse_ref(ref.source)


@pytest.mark.parametrize(
    "text",
    [
        "mcp+https://",
        "mcp+ftp://h/mcp",
        "mcp+ssh://h/mcp",
        "mcp+file:///x",
        "mcp+stdio://x",
        "mcp+https://user:pw@h/mcp",
        "mcp+https://h/mcp?token=abcdef123456",
        "mcp+https://h/mcp#",
        "mcp+https://h/mcp#pdf",
        "mcp+https://h/mcp#skill://../pdf",
        "mcp+https://h/mcp#skill://a/%2e%2e/pdf",
        "mcp+https://h/mcp#skill://a/PDF",
        "mcp+https://h/mcp#skill://a/pdf/",
        "mcp+https://h/mcp#skill://a/pdf#x",
        "mcp+https://h/m cp",
        "mcp:",
        "mcp:a b",
        "mcp:a/b",
        "mcp:" + "x" * 65,
    ],
)
def test_attack_an_invalid_reference_to_a_server_is_refused(text):
    with pytest.raises(SkillhubError):
        parse_ref(text)
