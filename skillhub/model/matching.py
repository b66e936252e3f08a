"""Regular expressions over files that may be hostile: a budget says how many matches are looked at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

# More than an honest program has.
_MATCHES_MAX = 50_000


def words(text: str) -> tuple[str, ...]:
    """Return the words of a table that is written as one text."""
    return tuple(text.split())


class TooMany(Exception):
    """A file has more matches than an honest one: it is written to keep its readers busy."""


class Budget:
    """How many matches may still be looked at."""

    def __init__(self) -> None:
        self._left = _MATCHES_MAX

    def matches(self, pattern: bytes, data: bytes) -> list[re.Match[bytes]]:
        """Return the matches.

        Raises:
            TooMany: there are more than may be looked at.
        """
        found = list(islice(re.finditer(pattern, data), self._left + 1))
        self._left -= len(found)
        if self._left < 0:
            raise TooMany
        return found

    def all(self, pattern: bytes, data: bytes) -> Iterator[bytes]:
        """Yield the group that matched, or ``*`` where there is none.

        Raises:
            TooMany: there are more than may be looked at.
        """
        return (match[match.lastindex] if match.lastindex else b"*" for match in self.matches(pattern, data))

    def of_rows(self, rows: Iterable[tuple[bytes, ...]], data: bytes) -> set[bytes]:
        """Return ``all`` of the patterns in each row of which the first member, plain letters, is there.

        Raises:
            TooMany: there are more than may be looked at.
        """
        patterns = (pattern for letters, *patterns in rows if letters in data for pattern in patterns)
        return {found for pattern in patterns for found in self.all(pattern, data)}
