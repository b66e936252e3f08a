"""The table of docs/sources.md: the requester of an address decides where it may lead and who gets credentials."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from skillhub.errors import UnsafeTransfer
from skillhub.net.fetch import Requester
from skillhub.net.target import RULES, RequestRule, check_marketplace_url, judge
from skillhub.sources.git_repository import remote_at

PAGE = (Path(__file__).parents[2] / "docs/sources.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(\w+)`: .*? \| ([a-z, ]+) \| (any|public) \| (yes|no) \| (yes|no) \|$", PAGE, re.MULTILINE)
PUBLIC, PRIVATE = "93.184.216.34", "10.0.0.7"
ENVIRON = {"PATH": os.environ["PATH"]}
each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])


def allowed(act):
    try:
        act()
    except UnsafeTransfer:
        return False
    return True


def test_the_table_has_every_rule():
    assert {
        requester: RequestRule(tuple(schemes.split(", ")), network == "any", credentials == "yes", settings == "yes")
        for requester, schemes, network, credentials, settings in ROWS
    } == RULES


@each_row
def test_requester_decides_schemes_networks_and_credentials(row):
    requester, schemes, network, credentials, _ = row
    by = Requester(requester, "https://site.example/index.json")
    assert allowed(lambda: judge(f"http://{PUBLIC}/x", by)) == ("http" in schemes.split(", "))
    hop = judge(f"https://{PUBLIC}/x", by)
    assert (hop.public_only, hop.sends_credentials) == (network == "public", credentials == "yes")
    away = hop.follow("https://other.example/")
    assert (away.public_only, away.sends_credentials) == (True, False)


@each_row
def test_requester_decides_schemes_settings_and_credentials_of_git(row):
    requester, schemes, network, credentials, settings = row
    ways = {
        scheme: remote_at(url, url, requester, ENVIRON, "s3cret")
        for scheme in ("https", "ssh")
        for url in (f"{scheme}://{PUBLIC}/x",)
    }
    assert {scheme for scheme, way in ways.items() if allowed(lambda way=way: way.pinned_options())} == {
        "https",
        "ssh",
    } & {*schemes.split(", ")}
    assert ("s3cret" in ways["https"].variables.values()) == (credentials == "yes")
    assert ("GIT_CONFIG_GLOBAL" in ways["https"].variables) == (settings == "no")
    inside = f"https://{PRIVATE}/x"
    assert allowed(lambda: remote_at(inside, inside, requester, ENVIRON).pinned_options()) == (network == "any")


@pytest.mark.parametrize("url", ["https://[x/y.git", "https://a]b/y.git", "https://h:x/y.git", "https://[::1/y.git"])
def test_attack_an_unparsable_url_of_a_marketplace_is_refused(url):
    with pytest.raises(UnsafeTransfer, match="expected a repository"):
        check_marketplace_url(url, "https://market.example/x.git")


def test_attack_a_requester_without_a_site_is_treated_as_foreign():
    """A caller that does not name its site gets the rules of a foreign site."""
    with pytest.raises(UnsafeTransfer):
        judge("http://10.0.0.7/x", Requester("site"))
    hop = judge("https://10.0.0.7/x", Requester("site"))
    assert (hop.public_only, hop.sends_credentials) == (True, False)
