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
    "data-leak-prose": 11,
    "destruction": 8,
    "disguised-program": 9,
    "download-and-run": 12,
    "encoded-payload": 14,
    "environment-sent": 11,
    "evasion": 21,
    "fake-prerequisite": 13,
    "hidden-text": 14,
    "memory-write": 11,
    "persistence": 8,
    "prompt-injection": 12,
    "reverse-shell": 11,
    "safety-off": 12,
    "supply-chain": 9,
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


@pytest.mark.parametrize("family", HARMLESS)
def test_no_harmless_skill_is_taken_for_a_hostile_one(family):
    assert [name for name, tree in HARMLESS[family].items() if is_flagged(tree)] == []
