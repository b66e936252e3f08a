"""Rules of permission: deny over allow over ask, names with wildcards, remembered answers."""

from __future__ import annotations

import pytest

from skillhub.model.skill import PermissionRule, Skill, permitted
from tests.support.effort import at_most


def skill(name, namespace=None):
    return Skill(name=name, path=f"/{name}", scope="user", state="enabled", namespace=namespace)


DEMO = skill("demo", "git")


@pytest.mark.parametrize("rules", [["deny", "allow", "ask"], ["ask", "allow", "deny"], ["allow", "deny"]])
def test_deny_precedes_allow_in_any_order(rules):
    assert permitted(DEMO, [PermissionRule("*", action) for action in rules]) == "deny"


def test_allow_precedes_ask():
    assert permitted(DEMO, [PermissionRule("*", "ask"), PermissionRule("demo", "allow")]) == "allow"
    assert permitted(DEMO, [PermissionRule("demo", "allow"), PermissionRule("*", "ask")]) == "allow"


@pytest.mark.parametrize("otherwise", ["allow", "ask", "deny"])
def test_default_of_the_host_applies_without_a_rule(otherwise):
    assert permitted(DEMO, [PermissionRule("other", "deny")], otherwise=otherwise) == otherwise


@pytest.mark.parametrize("pattern", ["demo", "git:demo", "*", "git:*", "d*o", "de?o", "*m*", "d*e*m*o"])
def test_pattern_matches_the_name(pattern):
    assert permitted(DEMO, [PermissionRule(pattern, "deny")]) == "deny"


@pytest.mark.parametrize("pattern", ["dem", "emo", "de??o", "hub:*", "[d]emo", "DEMO", "", "d*x*o", "demo."])
def test_pattern_does_not_match_another_name(pattern):
    assert permitted(DEMO, [PermissionRule(pattern, "deny")]) == "allow"


def test_remembered_answer_applies_and_lifts_no_deny():
    ask, deny = [PermissionRule("*", "ask")], [PermissionRule("*", "ask"), PermissionRule("demo", "deny")]
    assert permitted(DEMO, ask) == "ask"
    assert permitted(DEMO, ask, {"git:demo": True}) == "allow"
    assert permitted(DEMO, ask, {"git:demo": False}) == "deny"
    assert permitted(DEMO, ask, {"demo": True}) == "ask"
    assert permitted(DEMO, deny, {"git:demo": True}) == "deny"


def test_pattern_of_many_stars_is_fast():
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
def test_last_rule_counts_with_last_wins(rules, action):
    given = [PermissionRule(*rule) for rule in rules]
    assert permitted(skill("demo"), given, last_wins=True) == action
