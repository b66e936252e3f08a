"""Number of tries of the patterns on honest texts: a word that opens a pattern must not be in most of them.

The scan searches for a pattern only in a text with its words. One common word among these makes every scan slower and
changes no finding, so no other test notices it. Here tries are counted, and no time is measured.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from skillhub.model.manifest import Manifest
from skillhub.model.tree import Tree
from skillhub.scan import capabilities_and_findings, capability, code, offline
from skillhub.scan.pattern import PHRASES, LinePattern, Sign
from skillhub.scan.scanner import LINE_PATTERNS
from skillhub.scan.skill_files import SkillFiles
from skillhub.sources.local import read_local
from tests.scan.corpus import families

SKILLS: Final = Path(__file__).parents[2] / "fixtures" / "skills"
# Tries of one pattern over all honest texts. Patterns of variables have up to 64, all others up to 36; a common word
# adds a hundred or more. Who raises the limit says in the commit which rule needs the word, and what it costs.
TRIES_MAX: Final = 70
# Files whose programs have signs of one kind, by which they are parsed; today up to 34.
PARSED_MAX: Final = 40


@pytest.fixture(scope="module")
def honest() -> Sequence[Tree]:
    harmless = [tree for family in families("harmless").values() for tree in family.values()]
    return [*(read_local(str(each.parent)).tree for each in sorted(SKILLS.rglob("SKILL.md"))), *harmless]


def names() -> dict[int, str]:
    """Return the name of each pattern that words open, by the identity of the pattern."""
    named = {
        id(pattern.first): f"{rule.id} (pattern {number})" for number, (rule, pattern) in enumerate(LINE_PATTERNS)
    }
    for number, pattern in enumerate((*offline._PATTERNS, offline._AS_COMMAND)):
        named[id(pattern.first)] = f"network:? (pattern {number})"
    for table, signs in PHRASES.items():
        named |= {id(sign.patterns): f"{table}: {name}" for name, sign in signs.items()}
    for name, each in vars(capability).items():
        patterns = [(name, each)] if isinstance(each, capability._PrefilteredPattern) else []
        if name in ("_READS", "_ALL"):
            patterns = [(f"{name} {pattern.words[0].decode()}", pattern) for pattern in each]
        named |= {id(pattern.pattern): f"capability: {key}" for key, pattern in patterns}
    return named


def present(pattern: Any, *args: Any) -> list[Collection[Any]]:
    """Return, for each group of a pattern's words, the words that a text has."""
    if isinstance(pattern, LinePattern):
        return [group & args[0] for group in pattern.words]
    if isinstance(pattern, Sign):
        return [[word for word in group if word in args[0]] for group in pattern.groups]
    letters = args[0]
    return [[word for word in pattern.words if word in (letters.data if word.isupper() else letters.lowered)]]


class Tries:
    """Counts how often the words of a text open each pattern, and how often one word alone does it."""

    def __init__(self) -> None:
        self.tries = Counter[str]()
        self._by_word = defaultdict[str, Counter[str]](Counter)

    def add(self, name: str, groups: list[Collection[Any]]) -> None:
        self.tries[name] += 1
        words = [word for group in groups if len(group) == 1 for word in group]
        self._by_word[name].update({word.decode() if isinstance(word, bytes) else word for word in words})

    def too_many(self, limit: int) -> Iterator[str]:
        for name, count in sorted(self.tries.items()):
            if count > limit:
                words = ", ".join(
                    f"{word!r} alone {times} times" for word, times in self._by_word[name].most_common(2)
                )
                yield f"{name} is tried {count} times, more than {limit}; opened by {words or 'several words'}"


def test_no_common_word_opens_a_pattern(honest, monkeypatch):
    counted, named = Tries(), names()

    def counting(is_worth: Callable[..., bool]) -> Callable[..., bool]:
        def count(pattern: Any, *args: Any) -> bool:
            parts = {LinePattern: "first", Sign: "patterns", capability._PrefilteredPattern: "pattern"}
            name = named.get(id(getattr(pattern, parts[type(pattern)])))
            found = is_worth(pattern, *args)
            if found and name is not None:  # others are made for one text, of the names in it
                counted.add(name, present(pattern, *args))
            return found

        return count

    for kind in (LinePattern, Sign, capability._PrefilteredPattern):
        monkeypatch.setattr(kind, "may_match", counting(kind.may_match))
    for tree in honest:
        capabilities_and_findings(tree, Manifest.read(tree))
        for file in SkillFiles(tree):  # few of them run, and only those are searched for variables
            capability.variables([(file.path, file.letters)])
    assert sum(counted.tries.values()) > 400  # the patterns are counted at all
    assert not (over := [*counted.too_many(TRIES_MAX)]), "\n".join(over)


def test_no_common_word_makes_programs_parsed(honest):
    counted = Tries()
    for file in (file for tree in honest for file in SkillFiles(tree)):
        text = b"\n".join(code._without_blanks(file.lowered))
        for kind in code._signs(file):
            counted.add(f"code: {kind}", [[word for word in code.SIGNS[kind].all if word in text]])
    assert len(counted.tries) == len(code.SIGNS)
    assert not (over := [*counted.too_many(PARSED_MAX)]), "\n".join(over)
