"""How rules that are patterns are found: in time linear in the size of the file.

Patterns see the bytes of a file in lower case, with line ends that a shell would join blanked out, and only
if their words are there. A pattern holds only small bounded repeats; "this, and later on that line
that" is two patterns and never one, for a single one would look through the whole gap from every start.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cached_property

from skillhub.model.finding import Rule, Severity

GAP_MAX = 1500


class Shape:
    """A pattern, which matches no empty text; where it begins with ``\\b``, all of it stands behind that.

    The engine would try ``\\b`` at every byte. Without it, it skips to the letters that may begin a match, and
    whether one is the first of a word is seen afterwards.
    """

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._begins_word = source.startswith(rb"\b")

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        # Few skills have the words that make a pattern be looked for; to compile them all takes 40 ms.
        return re.compile(self.source.removeprefix(rb"\b"), re.MULTILINE)

    def search(self, data: bytes, at: int = 0) -> re.Match[bytes] | None:
        """Return the first match from ``at`` on."""
        found = self._pattern.search(data, at)
        while found and self._begins_word and _is_word(data[found.start() - 1 : found.start()]):
            found = self._pattern.search(data, found.start() + 1)
        return found

    def finditer(self, data: bytes, at: int = 0) -> Iterator[re.Match[bytes]]:
        """Yield every match from ``at`` on, none in another."""
        while found := self.search(data, at):
            yield found
            at = found.end()


def _is_word(before: bytes) -> bool:
    return before.isalnum() or before == b"_"


@dataclass(frozen=True, slots=True)
class Look:
    """Where to look: at every ``first`` that is followed, on its line and within 1,500 bytes, by ``then``.

    Attributes:
        words: Groups of words in lower case; a file without one of each group is not searched.
    """

    words: tuple[frozenset[bytes], ...]
    first: Shape
    then: Shape | None

    def is_worth(self, words: Set[bytes]) -> bool:
        """Say whether a file that holds these words, whole and in whatever case, is to be searched."""
        for group in self.words:  # noqa: SIM110 - as a generator it took a third of the whole scan
            if group.isdisjoint(words):
                return False
        return True

    def places(self, lowered: bytes) -> Iterator[int]:
        """Yield the offset of each place, in order."""
        if self.then is None:
            yield from (match.start() for match in self.first.finditer(lowered))
            return
        if self.then.search(lowered) is None:
            return
        starts = [match.end() for match in self.first.finditer(lowered)]
        for match in self.then.finditer(lowered, starts[0]) if starts else ():
            start = starts[bisect_right(starts, match.start()) - 1]
            if match.start() - start <= GAP_MAX and b"\n" not in lowered[start : match.start()]:
                yield start


def pattern(
    id_: str, severity: Severity, title: str, hint: str, looks: tuple[Look, ...]
) -> tuple[Rule, tuple[Look, ...]]:
    """Return a rule, and where it is looked for."""
    return Rule(id_, severity, title, hint), looks


def look(words: str, first: bytes, then: bytes | None = None) -> Look:
    """Return a ``Look``; between words are blanks, between groups of them slashes."""
    groups = tuple(frozenset(group.encode().split()) for group in words.split("/"))
    return Look(groups, Shape(first), None if then is None else Shape(then))
