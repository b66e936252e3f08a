import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError
from skillhub.model.discovery import SCHEMA, parse_discovery, parse_listing, url_of

DIGEST = "sha256:" + "a" * 64
BASE = "http://a/b/c/d"  # of RFC 3986, 5.4, but for its parameters, which belong to the path


def index(**fields):
    one = {"name": "x", "type": "archive", "description": "d", "url": "x.zip", "digest": DIGEST, **fields}
    return json.dumps({"$schema": SCHEMA, "skills": [{key: v for key, v in one.items() if v is not ...}]}).encode()


def only(data, url=BASE):
    (release,) = parse_discovery(data, url).index.releases("x")
    return release


@pytest.mark.parametrize("parse", [lambda *given: parse_discovery(*given).index, parse_listing])
def test_attack_warnings_about_entries_of_unknown_type_are_limited(parse):
    rows = [{"name": f"s{number}", "type": "wasm", "description": "d"} for number in range(1_000)]
    warnings = parse(json.dumps({"$schema": SCHEMA, "skills": rows}).encode(), BASE).warnings
    assert (len(warnings), warnings[-1]) == (21, "980 more are ignored")


@pytest.mark.parametrize("parse", [parse_discovery, parse_listing])
@pytest.mark.parametrize(
    ("row", "count", "expected"),
    [("{}", 500_000, "at most 1000000 values"), ('{"name":"x"}', 50_001, "at most 50000 skills")],
)
def test_attack_a_list_that_would_fill_the_memory_is_refused_unread(parse, row, count, expected):
    """32 MiB of empty objects took 870 MB of memory, 180,000 skills 500 MB and 13 s."""
    data = f'{{"$schema":"{SCHEMA}","skills":[{",".join([row] * count)}]}}'.encode()
    with pytest.raises(FormatError, match=expected):
        parse(data, BASE)


@pytest.mark.parametrize(
    ("url", "resolved"),
    [
        ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g"),
        ("?y", "http://a/b/c/d?y"),
        ("g?y", "http://a/b/c/g?y"),
        ("g;x", "http://a/b/c/g;x"),
        ("../g", "http://a/b/g"),
        ("../../g", "http://a/g"),
        ("../../../g", "http://a/g"),
        ("/./g", "http://a/g"),
        ("/../g", "http://a/g"),
        ("g.", "http://a/b/c/g."),
        ("./g/.", "http://a/b/c/g/"),
        ("g/../h", "http://a/b/c/h"),
        ("g?y/../x", "http://a/b/c/g?y/../x"),
        ("https://[2606:4700::1111]:8443/g", "https://[2606:4700::1111]:8443/g"),
        ("HTTPS://g/x%20y", "https://g/x%20y"),
    ],
)
def test_urls_resolve_as_in_rfc_3986(url, resolved):
    assert only(index(url=url)).url == resolved


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ...),
        ("type", ...),
        ("type", 1),
        ("description", ...),
        ("description", None),
        ("digest", ...),
        ("digest", "sha256:" + "A" * 64),
        ("digest", "sha512:" + "a" * 128),
        ("digest", None),
        ("url", ...),
        ("url", ""),
        ("url", None),
        ("url", "file:///etc/passwd"),
        ("url", "data:,x"),
        ("url", "javascript:x"),
        ("url", "https://me:pass@host/x"),
        ("url", "https:///x"),
        ("url", "///x"),
        ("url", "https://[::::::::::]/x"),
        ("url", "x y"),
        ("url", "x\\y"),
        ("url", "%zz"),
        ("url", "é"),
    ],
)
def test_one_malformed_entry_refuses_the_whole_index(field, value):
    with pytest.raises(FormatError) as caught:
        parse_discovery(index(**{field: value}), "https://a/index.json")
    assert caught.value.where.startswith("https://a/index.json")


def test_long_description_is_shortened_without_hidden_characters():
    assert only(index(description="\x1b[2J" + "d" * 2000)).description == "[2J" + "d" * 1021


def test_valid_fields_of_skillhub_are_read_and_others_ignored():
    release = only(index(version="1.2.0", published="2026-01-02T03:04:05Z", yanked="broken", tree=7))
    assert (release.version, release.published, release.yanked) == ("1.2.0", "2026-01-02T03:04:05Z", "broken")
    release = only(index(version="v1", published=5, yanked=None, size=-1, requires="all", publisher="../x"))
    assert (release.version, release.published, release.yanked, release.size) == (None, None, None, None)
    assert (release.requires, release.publisher) == ((), None)


def test_number_in_quotes_is_read():
    assert only(index(size="7")).size == 7


@pytest.mark.parametrize("number", [10, 1_000])
def test_attack_the_number_of_warnings_is_limited(number):
    entries = [
        {"name": f"x{at}", "type": "archive", "description": "", "url": "x", "digest": DIGEST, "size": "x"}
        for at in range(number)
    ]
    data = json.dumps({"$schema": SCHEMA, "skills": entries}).encode()
    assert len(parse_discovery(data, BASE).index.warnings) == min(number, 21)


@pytest.mark.parametrize("data", [b"", b"[]", b"7", b"{}", b'{"skills": {}}', b'{"$schema": null, "skills": 1}'])
def test_invalid_index_is_refused(data):
    with pytest.raises(FormatError):
        parse_discovery(data, "https://a/index.json")


def test_files_of_the_first_version_are_below_the_name_of_the_skill():
    data = json.dumps({"skills": [{"name": "x", "files": ["SKILL.md", "a b/ü%.md"], "version": 1}]}).encode()
    release = only(data, "https://a/.well-known/skills/index.json")
    assert release.url == "https://a/.well-known/skills/x/"
    assert url_of(release, release.files[1]) == "https://a/.well-known/skills/x/a%20b/%C3%BC%25.md"
    assert release.version is None


@given(
    st.recursive(
        st.none()
        | st.integers()
        | st.text(max_size=9)
        | st.sampled_from([SCHEMA, DIGEST, "archive", "x", "SKILL.md"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["$schema", "skills", "name", "type", "url", "digest", "files", "description"]),
                inner,
                max_size=6,
            )
        ),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=60)
)
def test_any_document_is_parsed_or_refused(data):
    with contextlib.suppress(FormatError):
        parse_discovery(data, "https://a/index.json")
