"""Splits and stems words, and measures how far one spelling is from another."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

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
