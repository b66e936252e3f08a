"""URLs below a prefix, and URLs that only look so."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.model.reference import Url, authority, is_prefix, is_under, masked, names_user, of_repository, parse

TEAM = "https://skills.example/team"


@pytest.mark.parametrize(
    ("url", "prefix"),
    [
        ("https://skills.example", "https://skills.example/"),
        ("https://skills.example/a/b", "https://skills.example"),
        (TEAM, TEAM),
        (TEAM, f"{TEAM}/"),
        (f"{TEAM}/x?y=1", TEAM),
        ("HTTPS://Skills.Example:443/team/x", TEAM),
        ("https://skills.example/te%61m/x", TEAM),
        ("ssh://git@git.example/acme/skills", "ssh://git.example/acme/"),
        ("file:///srv/skills/deploy", "file:///srv/skills"),
        ("file:///srv", "file:///"),
        ("oci://ghcr.io/acme/x", "oci://ghcr.io/acme"),
        ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080"),
    ],
)
def test_url_below_the_prefix_is_under_the_prefix(url, prefix):
    assert is_under(url, prefix)


@pytest.mark.parametrize(
    "url",
    [
        "https://skills.example/teams",
        "https://skills.example/team.evil/x",
        "https://skills.example/Team/x",
        "https://skills.example/",
        "http://skills.example/team/x",
        "https://skills.example:8443/team/x",
        "https://skills.example.evil/team/x",
        "https://evil.example/https://skills.example/team/x",
        "https://skills.example@evil.example/team/x",
        "https://evil.example#@skills.example/team",
        f"{TEAM}/../evil",
        f"{TEAM}/%2e%2E/evil",
        f"{TEAM}/..%2fevil",
        f"{TEAM}/%2e%2e%5cevil",
        f"{TEAM}/..\\evil",
        f"{TEAM}/./x",
        "https://skills.example//team/x",
        f"{TEAM}//x",
        f"{TEAM}/%00/x",
        "ssh://skills.example/team/x",
        "embedded:",
        "",
    ],
)
def test_lookalike_url_is_not_under_the_prefix(url):
    assert not is_under(url, TEAM)


def test_file_url_and_site_url_are_never_under_each_other():
    assert not is_under("file:///team", TEAM)
    assert not is_under(TEAM, "file:///")
    assert not is_under("file:///srv/skills/../../etc", "file:///srv/skills")


@pytest.mark.parametrize(
    "text", ["https://", "skills.example", "file://host/x", "data:x", "https://h:x/", "ftp://h/"]
)
def test_invalid_prefix_is_refused(text):
    assert not is_prefix(text)


@given(st.text(alphabet="htps:/.@%2eE#?\\ a[]", max_size=30), st.text(alphabet="htps:/.@%2eE#?\\ a[]", max_size=30))
def test_any_texts_are_compared_without_errors(url, prefix):
    assert is_under(url, prefix) in (True, False)
    assert not is_under(f"https://evil.example/{url}", TEAM)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("HTTPS://Host.Example", ("https", None, "host.example", 443, "", "")),
        ("http://u:p@ss@h:8080/a/b?x=/?y#z", ("http", "u:p@ss", "h", 8080, "/a/b", "x=/?y")),
        ("ssh://git@[::1]:/x", ("ssh", "git", "::1", 22, "/x", "")),
        ("file:///srv", ("file", None, "", None, "/srv", "")),
    ],
)
def test_url_is_parsed_into_parts(text, parts):
    assert parse(text) == Url(*parts)


@pytest.mark.parametrize(
    "text",
    [
        "", "h/x", "embedded:", "https:/h", "https://h h/", "https://h:x/", "https://h:0/", "https://h:65536/",
        "https://h:1:2/", "https://[::1/", "https://[1.2.3.4]/", "https://[::1]x/", "1://h", "https://h\\x/",
        "https://x[::1]/", "https://]@h/", "https://h/.\t./x", "https://h/\0",
    ],
)  # fmt: skip
def test_invalid_url_is_not_parsed(text):
    assert parse(text) is None


@given(st.text(alphabet="htps:/.@%2eE#?\\ a[]09", max_size=40))
def test_parsed_url_equals_that_of_urlsplit(text):
    """An accepted URL has the same parts for a reader by RFC 3986, such as `urlsplit`."""
    found = parse(text)
    if found is not None:
        split = urlsplit(text)
        assert (found.host, found.path, found.query) == (split.hostname or "", split.path, split.query)
        assert (found.user is None) == (split.username is None)


@pytest.mark.parametrize("url", ["https://u:secret@h/x", "git+https://secret@h", "https://a\\secret@h/"])
def test_password_is_detected_and_masked(url):
    assert names_user(url)
    assert "secret" not in masked(url)
    assert not names_user("https://h/a@b") and masked("https://h/a@b") == "https://h/a@b"


@pytest.mark.parametrize("end", "#?")
def test_attack_a_password_with_a_delimiter_is_masked(end):
    assert "secret" not in masked(f"https://u:sec{end}secret@h.example/x")


def test_scp_form_of_git_is_converted_to_a_url():
    assert of_repository("git@host.example:team/x.git") == "ssh://git@host.example/team/x.git"
    for same in ("ssh://git@host/x", "owner/repo", "C:\\x", "git@host", "git@host:a b", "git@host:x:y"):
        assert of_repository(same) == same
    assert [authority(each) for each in ("https://u@h:1/x", "https://h?x", "embedded:", "")] == ["u@h:1", "h", "", ""]
