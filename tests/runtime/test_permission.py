"""Rules of permission: deny over allow over ask, by name with wildcards, and what was answered before."""

from __future__ import annotations

import pytest

from skillhub.model.record import Skill
from skillhub.runtime.state import PermissionRule, permitted
from tests.support.effort import at_most


def skill(name, namespace=None):
    return Skill(name=name, path=f"/{name}", scope="user", state="enabled", namespace=namespace)


DEMO = skill("demo", "git")


@pytest.mark.parametrize("rules", [["deny", "allow", "ask"], ["ask", "allow", "deny"], ["allow", "deny"]])
def test_a_deny_counts_more_than_an_allow_in_any_order(rules):
    assert permitted(DEMO, [PermissionRule("*", action) for action in rules]) == "deny"


def test_an_allow_counts_more_than_an_ask():
    assert permitted(DEMO, [PermissionRule("*", "ask"), PermissionRule("demo", "allow")]) == "allow"
    assert permitted(DEMO, [PermissionRule("demo", "allow"), PermissionRule("*", "ask")]) == "allow"


@pytest.mark.parametrize("otherwise", ["allow", "ask", "deny"])
def test_without_a_rule_the_host_decides(otherwise):
    assert permitted(DEMO, [PermissionRule("other", "deny")], otherwise=otherwise) == otherwise


@pytest.mark.parametrize("pattern", ["demo", "git:demo", "*", "git:*", "d*o", "de?o", "*m*", "d*e*m*o"])
def test_patterns_that_match(pattern):
    assert permitted(DEMO, [PermissionRule(pattern, "deny")]) == "deny"


@pytest.mark.parametrize("pattern", ["dem", "emo", "de??o", "hub:*", "[d]emo", "DEMO", "", "d*x*o", "demo."])
def test_patterns_that_do_not(pattern):
    assert permitted(DEMO, [PermissionRule(pattern, "deny")]) == "allow"


def test_an_answer_is_remembered_and_lifts_no_deny():
    ask, deny = [PermissionRule("*", "ask")], [PermissionRule("*", "ask"), PermissionRule("demo", "deny")]
    assert permitted(DEMO, ask) == "ask"
    assert permitted(DEMO, ask, {"git:demo": True}) == "allow"
    assert permitted(DEMO, ask, {"git:demo": False}) == "deny"
    assert permitted(DEMO, ask, {"demo": True}) == "ask"
    assert permitted(DEMO, deny, {"git:demo": True}) == "deny"


def test_a_pattern_of_many_stars_takes_no_time():
    with at_most(1):
        assert permitted(skill("a" * 5000), [PermissionRule("a*" * 40 + "b", "deny")]) == "allow"


@pytest.mark.parametrize(
    ("rules", "action"),
    [
        ([("*", "deny"), ("demo", "allow")], "allow"),
        ([("demo", "allow"), ("*", "deny")], "deny"),
        ([("demo", "deny"), ("*", "ask")], "ask"),
        ([("other", "deny")], "allow"),
    ],
)
def test_where_the_last_rule_wins(rules, action):
    given = [PermissionRule(*rule) for rule in rules]
    assert permitted(skill("demo"), given, last_wins=True) == action
