"""Share of the corpus that the rules find in each family; no harmless skill is flagged."""

from __future__ import annotations

import pytest

from skillhub.model.finding import at_least
from skillhub.model.tree import Tree
from skillhub.scan import scan
from tests.scan.corpus import families

HOSTILE, HARMLESS = families("hostile"), families("harmless")
# The least number of found cases in each family. A commit that lowers one gives the reason.
FOUND = {
    "agent-demands": 21,
    "behind-the-back": 23,
    "credentials-sent": 22,
    "data-leak-prose": 19,
    "destruction": 12,
    "disguised-program": 12,
    "download-and-run": 18,
    "encoded-payload": 17,
    "environment-sent": 13,
    "evasion": 23,
    "fake-prerequisite": 18,
    "hidden-text": 14,
    "loaded-code": 18,
    "memory-write": 12,
    "persistence": 10,
    "prompt-injection": 12,
    "recorded": 5,
    "reverse-shell": 16,
    "safety-off": 17,
    "supply-chain": 20,
}


def is_flagged(tree: Tree) -> bool:
    return any(at_least(finding.severity, "high") for finding in scan(tree))


def test_corpus_has_the_expected_size():
    assert set(HOSTILE) == set(FOUND)
    assert len(HOSTILE) >= 15
    assert sum(map(len, HOSTILE.values())) >= 150
    assert sum(map(len, HARMLESS.values())) >= 100


@pytest.mark.parametrize("family", HOSTILE)
def test_attack_cases_of_each_family_are_found_in_the_expected_number(family):
    missed = [name for name, tree in HOSTILE[family].items() if not is_flagged(tree)]
    assert len(HOSTILE[family]) - len(missed) >= FOUND[family], missed


@pytest.mark.parametrize(
    ("family", "name", "rule"),
    [
        ("supply-chain", "index-of-an-unknown-host", "SH117"),
        ("supply-chain", "registry-by-number", "SH117"),
        ("supply-chain", "index-in-a-settings-file", "SH117"),
        ("supply-chain", "package-at-an-address", "SH117"),
        ("supply-chain", "server-from-an-address", "SH117"),
        ("supply-chain", "server-from-an-address-in-prose", "SH117"),
        ("supply-chain", "server-that-runs-code-at-an-address", "SH105"),
        ("fake-prerequisite", "paste-what-was-copied", "SH119"),
        ("fake-prerequisite", "run-dialog", "SH119"),
        ("fake-prerequisite", "terminal-and-clipboard", "SH119"),
        ("download-and-run", "cloned-and-started", "SH113"),
        ("download-and-run", "cloned-and-built", "SH113"),
        ("data-leak-prose", "message-in-a-picture", "SH307"),
        ("data-leak-prose", "conversation-in-a-picture", "SH307"),
        ("encoded-payload", "address-in-base64", "SH614"),
        ("encoded-payload", "address-in-base64-in-a-shell", "SH614"),
        ("encoded-payload", "code-of-a-temporary-file", "SH105"),
        ("reverse-shell", "listens-into-a-shell", "SH402"),
        ("reverse-shell", "listens-with-a-quoted-shell", "SH402"),
        ("persistence", "hook-of-each-tool", "SH312"),
        ("persistence", "hook-of-each-commit", "SH312"),
    ],
)
def test_attack_an_unknown_index_and_a_sending_hook_have_own_rules(family, name, rule):
    assert rule in {finding.rule for finding in scan(HOSTILE[family][name])}


@pytest.mark.parametrize("name", HOSTILE["loaded-code"])
def test_attack_loaded_code_of_the_network_has_its_rule(name):
    assert {finding.rule for finding in scan(HOSTILE["loaded-code"][name])} == {"SH105"}


@pytest.mark.parametrize("family", HARMLESS)
def test_harmless_skills_are_not_flagged(family):
    assert [name for name, tree in HARMLESS[family].items() if is_flagged(tree)] == []
