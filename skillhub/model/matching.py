"""Patterns held against files that may be written to keep whoever reads them busy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

# More that looks like a reading than an honest program has.
_MATCHES_MAX = 50_000


class TooMany(Exception):
    """There is no end of it."""


class Budget:
    """How many matches may still be looked at; beyond them a file is no program but an attack on its reader."""

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
