"""What lies below a URL, and what only looks as if it did."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.model.url_prefix import is_prefix, is_under

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
def test_below(url, prefix):
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
def test_what_only_looks_as_if_it_were_below(url):
    assert not is_under(url, TEAM)


def test_a_local_path_is_below_no_site_and_a_site_below_no_folder():
    assert not is_under("file:///team", TEAM)
    assert not is_under(TEAM, "file:///")
    assert not is_under("file:///srv/skills/../../etc", "file:///srv/skills")


@pytest.mark.parametrize(
    "text", ["https://", "skills.example", "file://host/x", "data:x", "https://h:x/", "ftp://h/"]
)
def test_no_prefix(text):
    assert not is_prefix(text)


@given(
    st.text(alphabet="htps:/.@%2eE#?\\ a[]", max_size=30),
    st.text(alphabet="htps:/.@%2eE#?\\ a[]", max_size=30),
)
def test_any_two_texts_are_compared(url, prefix):
    assert is_under(url, prefix) in (True, False)
    assert not is_under(f"https://evil.example/{url}", TEAM)
