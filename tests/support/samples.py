"""Texts that a pattern matches: one for each branch in it, each letter of a class, each least and greater repeat."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from re import _constants as code  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

# Where a match may stand, and what it may run on into, as far as the pattern lets it.
_AROUND: Final = (("", ""), (" ", " "), ("", "ing "), ("x", ""), ("7", "7"), ("q", "q"))
_KINDS: Final = {
    code.CATEGORY_SPACE: " ",
    code.CATEGORY_DIGIT: "7",
    code.CATEGORY_WORD: "q",
    code.CATEGORY_NOT_SPACE: "q",
    code.CATEGORY_NOT_WORD: " ",
    code.CATEGORY_NOT_DIGIT: "q",
}


def samples(source: str) -> list[str]:
    """Return texts in which a pattern finds something."""
    pattern = re.compile(source, re.MULTILINE)
    texts = (begin + each + end for each in forms(source) for begin, end in _AROUND)
    return [each for each in dict.fromkeys(texts) if pattern.search(each)]


def forms(source: str) -> list[str]:
    """Return what a pattern may match, but for what it asks of the text around."""
    return _sequence(parser.parse(source, re.MULTILINE))


def _sequence(items: Iterable[tuple[Any, Any]]) -> list[str]:
    """Return the texts in which one item is varied at a time, beside the simplest and the fullest of all others."""
    variants = [_variants(*item) for item in items]
    found = []
    for place, several in enumerate(variants):
        for others in (0, -1):
            rest = [each[others] for each in variants]
            found += ["".join((*rest[:place], each, *rest[place + 1 :])) for each in several]
    return list(dict.fromkeys(found)) or [""]


def _variants(kind: Any, of: Any) -> list[str]:
    if kind is code.LITERAL:
        return [chr(of)]
    if kind in (code.NOT_LITERAL, code.ANY):
        return ["q", " "]
    if kind is code.IN:
        return list(_letters(of))
    if kind in (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT):
        least, most, inner = of
        several = _sequence(inner)
        return [each * times for times in dict.fromkeys((least, min(int(most), least + 1))) for each in several]
    if kind is code.BRANCH:
        return [each for branch in of[1] for each in _sequence(branch)]
    if kind in (code.SUBPATTERN, code.ATOMIC_GROUP):
        return _sequence(of[3] if kind is code.SUBPATTERN else of)
    if kind is code.ASSERT and of[0] > 0:
        return ["", *_sequence(of[1])]
    return [""]


def _letters(members: list[tuple[Any, Any]]) -> Iterator[str]:
    if members[0][0] is code.NEGATE:
        none = set(_excluded(members[1:]))
        yield from [each for each in "q /\\" if ord(each) not in none][:2]
        return
    for kind, of in members:
        yield _KINDS[of] if kind is code.CATEGORY else chr(of if kind is code.LITERAL else of[0])


def _excluded(members: list[tuple[Any, Any]]) -> Iterator[int]:
    for kind, of in members:
        if kind is code.CATEGORY:
            yield from map(ord, " \t\r\n" if of is code.CATEGORY_SPACE else "abcdefghijklmnopqrstuvwxyz0123456789_")
        else:
            yield from (of,) if kind is code.LITERAL else range(of[0], of[1] + 1)
