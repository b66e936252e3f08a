import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError, NotFound
from skillhub.model.discovery import (
    SCHEMA,
    parse_listing,
    parse_namespaces,
    parse_publisher,
    parse_releases,
    parse_skill,
)
from skillhub.model.index import Index, choose_skills

DIGEST = "sha256:" + "a" * 64
FACTS = {"version": "1.2.0", "published": "2026-01-02T03:04:05Z", "size": 5, "tree": DIGEST}
ENTRY = {"name": "gh-fix-ci", "type": "archive", "description": "Fixes CI", "url": "a.zip", "digest": DIGEST}
PARSERS = [parse_listing, parse_skill, parse_releases, parse_namespaces, parse_publisher]


def listing(*entries, **fields):
    return json.dumps({"$schema": SCHEMA, "skills": list(entries), **fields}).encode()


def releases(**fields):
    release = {"name": "gh-fix-ci", "sha256": "a" * 64, "url": "archives/gh-fix-ci/1.2.0/x.zip", **FACTS, **fields}
    return json.dumps({"publisher": "acme", "releases": [release]}).encode()


def test_listing_is_read_with_and_without_fields_of_skillhub():
    plain = {**ENTRY, "name": "plain", "license": "MIT"}
    index = parse_listing(listing({**ENTRY, **FACTS, "yanked": "broken"}, plain), "index.json")
    assert index.names == ("gh-fix-ci", "plain")
    assert index.releases("gh-fix-ci")[0].yanked == "broken"
    assert index.releases("plain")[0].version is None
    with pytest.raises(NotFound):
        index.releases("absent")


def test_unknown_type_is_skipped_with_a_warning():
    index = parse_listing(listing({"name": "later", "type": "wasm", "description": ""}, ENTRY), "index.json")
    assert index.names == ("gh-fix-ci",)
    assert index.warnings == ("later: skipped, its type 'wasm' is unknown",)


def test_invalid_version_is_refused_in_a_registry_and_ignored_in_a_site():
    assert parse_listing(listing({**ENTRY, "version": "v1"}), "x").releases("gh-fix-ci")[0].version is None
    with pytest.raises(FormatError, match="SemVer"):
        parse_releases(releases(version="v1"), "x")


def test_text_for_a_terminal_is_stripped_of_control_characters():
    index = parse_listing(listing({**ENTRY, "description": "a\x1b[2Jb\u202ec"}), "x")
    assert index.releases("gh-fix-ci")[0].description == "a[2Jbc"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "../../etc"),
        ("name", ".."),
        ("name", "Upper"),
        ("name", "a" * 65),
        ("name", "a\n"),
        ("name", 7),
        ("digest", "sha256:" + "A" * 64),
        ("digest", "md5:" + "a" * 32),
        ("digest", None),
        ("url", ""),
        ("url", None),
        ("url", "file:///etc/passwd"),
        ("url", "data:text/plain,hi"),
        ("url", "javascript:alert(1)"),
        ("url", "//evil.example/a.zip"),
        ("url", "https://host\\@evil/a.zip"),
        ("url", "a b.zip"),
        ("url", "a\x00.zip"),
        ("size", -1),
        ("size", "5"),
        ("size", 2**63),
        ("tree", "sha256:"),
        ("published", "yesterday"),
        ("description", "x" * 1025),
        ("publisher", "../acme"),
    ],
)
def test_one_malformed_entry_refuses_the_whole_listing_and_names_its_path(field, value):
    with pytest.raises(FormatError) as caught:
        parse_listing(listing({**ENTRY, "name": "good"}, {**ENTRY, field: value}), "index.json")
    assert "skills[1]" in caught.value.where


def test_repeated_name_refuses_the_whole_listing():
    with pytest.raises(FormatError, match="once"):
        parse_listing(listing(ENTRY, ENTRY), "index.json")


def test_duplicate_key_in_an_entry_is_refused():
    data = listing(ENTRY).replace(b'"name"', b'"name": "other", "name"')
    with pytest.raises(FormatError, match="twice"):
        parse_listing(data, "index.json")


def test_unknown_schema_is_refused():
    with pytest.raises(FormatError, match="schema"):
        parse_listing(json.dumps({"$schema": "https://x/0.9.0", "skills": []}).encode(), "index.json")


@pytest.mark.parametrize(
    "url", ["../x.zip", "/x.zip", "https://evil.example/x.zip", "a/../../x.zip", "a//b", "a/./b", "a?b", "a%2e", ""]
)
def test_archive_of_a_registry_cannot_leave_it(url):
    with pytest.raises(FormatError, match="dot segments"):
        parse_releases(releases(url=url), "idx/acme.json")


def test_releases_come_newest_first():
    document = {"name": "a", "publisher": "acme", "releases": []}
    for version in ("1.2.0", "1.10.0", "2.0.0-rc.1", "2.0.0"):
        document["releases"].append({**FACTS, "version": version, "url": "x.zip", "digest": DIGEST})
    found = parse_skill(json.dumps(document).encode(), "skills/a.json")
    assert [release.version for release in found] == ["2.0.0", "2.0.0-rc.1", "1.10.0", "1.2.0"]
    document["releases"].append(document["releases"][0])
    with pytest.raises(FormatError, match="once"):
        parse_skill(json.dumps(document).encode(), "skills/a.json")


def test_duplicate_name_in_a_document_of_a_publisher_is_refused():
    with pytest.raises(FormatError, match="once"):
        parse_publisher(b'{"publisher": "acme", "names": ["a", "a"]}', "publishers/acme.json")


@pytest.mark.parametrize(
    "change",
    [{"sha256": each} for each in ("", "0" * 63, "A" * 64, "sha256:" + "0" * 64, "../" + "0" * 61, 0, None)]
    + [{"size": each} for each in (-1, 5_000_001, True, 1.0, "1", None)],
)
def test_invalid_digest_or_size_of_a_publisher_is_refused(change):
    entry = {"sha256": "0" * 64, "size": 412}
    bucket = {"publishers": {"acme": entry}}
    assert parse_namespaces(json.dumps(bucket).encode(), "ns/00.json")["acme"].size == 412
    entry.update(change)
    with pytest.raises(FormatError):
        parse_namespaces(json.dumps(bucket).encode(), "ns/00.json")


@pytest.mark.parametrize("version", [2, 0, "1", 1.0, True, None])
@pytest.mark.parametrize(
    ("parse", "document"),
    [
        (parse_skill, {"name": "a", "publisher": "acme", "releases": []}),
        (parse_releases, json.loads(releases())),
        (parse_namespaces, {"publishers": {}}),
        (parse_publisher, {"publisher": "acme", "names": []}),
    ],
)
def test_unknown_version_of_the_format_is_refused(parse, document, version):
    with pytest.raises(FormatError, match="expected version 1, found") as caught:
        parse(json.dumps({**document, "version": version}).encode(), "idx/acme.json")
    assert caught.value.where == "idx/acme.json: version"
    assert ("upgrade skillhub" in (caught.value.hint or "")) == (version == 2)
    with pytest.raises(FormatError, match="expected version 1, found"):  # though all other keys differ, too
        parse(json.dumps({"version": version, "publisher": {}}).encode(), "idx/acme.json")
    if document.get("releases") != []:
        assert parse(json.dumps({**document, "version": 1}).encode(), "x") is not None


@pytest.mark.parametrize("parse", PARSERS)
@given(
    data=st.one_of(
        st.binary(max_size=99),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=9),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["$schema", "skills", "releases", "publishers", "name", "type"]),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=9,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_any_document_of_an_index_is_parsed_or_refused(parse, data):
    with contextlib.suppress(FormatError):
        parse(data, "x")


class _Many(dict):
    def __iter__(self):
        raise AssertionError("the look-up reads all skills")


def test_skill_is_chosen_without_reading_all_others():
    here = parse_listing(listing(ENTRY, {**ENTRY, "name": "other"}), "index.json")
    found = choose_skills("place", Index(_Many(here.skills)), ("gh-fix-ci",), every=False, pick=lambda _: ())
    assert found == here.skills["gh-fix-ci"]
