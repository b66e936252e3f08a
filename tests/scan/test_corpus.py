"""How much of the corpus the rules find, family by family, and that they take no honest skill for hostile."""

from __future__ import annotations

import pytest

from skillhub.model.finding import at_least
from skillhub.model.tree import Tree
from skillhub.scan import scan
from tests.scan.corpus import families

HOSTILE, HARMLESS = families("hostile"), families("harmless")
# Of each family, how many are found at the least. Nobody lowers a number without saying why in the commit.
FOUND = {
    "agent-demands": 18,
    "credentials-sent": 12,
    "data-leak-prose": 13,
    "destruction": 8,
    "disguised-program": 10,
    "download-and-run": 14,
    "encoded-payload": 14,
    "environment-sent": 12,
    "evasion": 21,
    "fake-prerequisite": 14,
    "hidden-text": 14,
    "memory-write": 11,
    "persistence": 10,
    "prompt-injection": 12,
    "reverse-shell": 11,
    "safety-off": 16,
    "supply-chain": 12,
}


def is_flagged(tree: Tree) -> bool:
    return any(at_least(finding.severity, "high") for finding in scan(tree))


def test_the_corpus_is_as_large_as_it_says():
    assert set(HOSTILE) == set(FOUND)
    assert len(HOSTILE) >= 15
    assert sum(map(len, HOSTILE.values())) >= 150
    assert sum(map(len, HARMLESS.values())) >= 100


@pytest.mark.parametrize("family", HOSTILE)
def test_attack_of_each_family_most_are_found(family):
    missed = [name for name, tree in HOSTILE[family].items() if not is_flagged(tree)]
    assert len(HOSTILE[family]) - len(missed) >= FOUND[family], missed


@pytest.mark.parametrize(
    ("family", "name", "rule"),
    [
        ("supply-chain", "index-of-an-unknown-host", "SH117"),
        ("supply-chain", "registry-by-number", "SH117"),
        ("supply-chain", "index-in-a-settings-file", "SH117"),
        ("persistence", "hook-of-each-tool", "SH312"),
        ("persistence", "hook-of-each-commit", "SH312"),
    ],
)
def test_attack_an_index_of_anybodys_and_a_hook_that_sends_have_rules_of_their_own(family, name, rule):
    assert rule in {finding.rule for finding in scan(HOSTILE[family][name])}


@pytest.mark.parametrize("family", HARMLESS)
def test_no_harmless_skill_is_taken_for_a_hostile_one(family):
    assert [name for name, tree in HARMLESS[family].items() if is_flagged(tree)] == []
