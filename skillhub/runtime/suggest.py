"""Suggestions for a name that no skill has, from stems and edit distance."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from skillhub.model.record import Skill

# Splits and stems words, and measures how far one spelling is from another.

_WORD = re.compile(r"[^\W_]+")
# Longest first; what is left of a word has at least three letters, so that `sing` keeps its end.
_ENDINGS: Final = (
    *(("ational", "ate"), ("ization", "ize"), ("ically", "ic"), ("iness", "y"), ("ments", "ment")),
    *(("ations", "ate"), ("ation", "ate"), ("ingly", ""), ("edly", ""), ("ings", ""), ("ing", "")),
    *(("ies", "y"), ("ied", "y"), ("ers", ""), ("ed", ""), ("er", ""), ("es", "e"), ("ly", ""), ("s", "")),
)
_STEM_MIN = 3


def words(text: str) -> list[str]:
    """Return the words of ``text`` in lower case, as they come; hyphens, colons and underscores part them."""
    return _WORD.findall(text.lower())


@lru_cache(16384)
def stem(word: str) -> str:
    """Return ``word`` (lower case) without its English ending: ``debugging`` and ``debugger`` are ``debug``."""
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_MIN and not word.endswith("ss"):
            word = word.removesuffix(ending) + instead
            break
    if len(word) > _STEM_MIN and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > _STEM_MIN + 1 else word


def stems(text: str) -> frozenset[str]:
    """Return the stems of the words of ``text``."""
    return frozenset(map(stem, words(text)))


def distance(left: str, right: str, limit: int) -> int:
    """Return how many letters were added, dropped, replaced or swapped with a neighbour; ``limit + 1`` for more.

    This is the restricted Damerau-Levenshtein distance, over the diagonal band that ``limit`` allows.
    """
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(right) + 1))
    for at, char in enumerate(left, 1):
        older, before, row = before, row, [at]
        first, last = max(1, at - limit), min(len(right), at + limit)
        row += [limit + 1] * (first - 1)
        for to in range(first, last + 1):
            best = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (char != right[to - 1]))
            if at > 1 and to > 1 and char == right[to - 2] and left[at - 2] == right[to - 1]:
                best = min(best, older[to - 2] + 1)
            row.append(best)
        row += [limit + 1] * (len(right) - last)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def slips(word: str) -> int:
    """Return how many slips a word of this length may hold and still be taken for another."""
    return 0 if len(word) < 3 else 1 if len(word) < 6 else 2


def close(word: str, known: Iterable[str]) -> list[str]:
    """Return those of ``known`` that ``word`` may be a slip for, the closest first, else as they come."""
    limit = slips(word)
    if not limit:
        return []
    letters = set(word)
    # A slip changes which letters there are by two at most, which takes less time to see.
    alike = (
        each
        for each in known
        if abs(len(each) - len(word)) <= limit and len(letters.symmetric_difference(each)) <= 2 * limit
    )
    found = [(distance(word, each, limit), each) for each in alike]
    return [each for far, each in sorted(found, key=lambda pair: pair[0]) if far <= limit]


# Suggests what somebody may have meant by a name that no skill has.

_INITIALS = re.compile(r"[a-z0-9]{2,8}")


@dataclass(frozen=True, slots=True)
class Suggested:
    """Skills whose names are alike, the likeliest first.

    Attributes:
        is_short_form: Whether the one skill was named by its initials (``tdd``), which is as good as its name
            to who typed it.
    """

    skills: tuple[Skill, ...] = ()
    is_short_form: bool = False


class Suggestions:
    """The names to suggest from.

    Args:
        skills: In order of precedence; only those that may be used.
    """

    def __init__(self, skills: Iterable[Skill]) -> None:
        self._skills = list(skills)
        self._names = [skill.full_name.lower() for skill in self._skills]
        # All names in one text, a line each: one search through it takes the time of a few names apart.
        self._lines = "".join(f"\n{name}" for name in self._names) + "\n"

    def beginning(self, name: str) -> tuple[Skill, ...]:
        """Return the skills whose full name begins so."""
        return self._matching(rf"\n{re.escape(name.lower())}(?!\Z)")

    def containing(self, name: str) -> tuple[Skill, ...]:
        """Return the skills whose full name has this part."""
        return self._matching(re.escape(name.lower())) if name else ()

    def like(self, name: str) -> Suggested:
        """Return what is like ``name`` by beginning, part, words, initials or spelling: the first that has any."""
        if found := self.beginning(name) or self.containing(name) or self._sharing(stems(name)):
            return Suggested(found)
        if found := self._short_for(name.lower()):
            return Suggested(found, is_short_form=len(found) == 1)
        return Suggested(self._misspelt(name.lower()))

    def _matching(self, pattern: str) -> tuple[Skill, ...]:
        """Return the skills in whose lines the pattern is found."""
        at = number = 0
        found = []
        for hit in re.finditer(pattern, self._lines):
            number += self._lines.count("\n", at, hit.start() + 1)
            at = hit.start() + 1
            found.append(self._skills[number - 1])
        return _unique(found)

    def _sharing(self, wanted: frozenset[str]) -> tuple[Skill, ...]:
        """Return the skills whose names have all of these words, in whatever order and form."""
        if not wanted:
            return ()
        # A stem is how its words begin, but for its last letter.
        longest = max(wanted, key=len)
        found = self.containing(longest[:-1] if len(longest) > 1 else longest)
        return tuple(skill for skill in found if wanted <= stems(skill.full_name))

    def _short_for(self, initials: str) -> tuple[Skill, ...]:
        if not _INITIALS.fullmatch(initials):
            return ()
        return self._matching(r"[\n:]" + "-".join(rf"{char}[^-:\n]*" for char in initials) + r"(?=\n)")

    def _misspelt(self, name: str) -> tuple[Skill, ...]:
        spellings: dict[str, list[Skill]] = {}
        for full, skill in zip(self._names, self._skills, strict=True):
            spellings.setdefault(full, []).append(skill)
            if ":" in full:
                spellings.setdefault(full.rpartition(":")[2], []).append(skill)
        return _unique(skill for each in close(name, spellings) for skill in spellings[each])


def _unique(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    return tuple({skill.full_name: skill for skill in skills}.values())
