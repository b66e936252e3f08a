"""The port through which all bytes from elsewhere come in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Answer:
    """What a fetch brought: the whole body, and the URL it came from after all redirects."""

    url: str
    data: bytes
    content_type: str = ""


class Fetcher(Protocol):
    """Gets bytes; usable by many threads at once."""

    def get(self, url: str, *, cap: int, named_by: str | None = None) -> Answer:
        """Return what is at ``url``.

        Args:
            url: Absolute.
            cap: The bytes that the body may have at most.
            named_by: The URL of the site, trusted by a person, whose index or lock named ``url``; None if a
                person did. What only a document names may lead neither to plain http nor into a private
                network that the site is not part of.

        Raises:
            NotFound: there is nothing (404, 410), or nothing for us (403).
            SourceError: it cannot be reached, breaks off or is too slow.
            WrongBytes: the body is longer than ``cap``.
            UnsafeTransfer: it leads where it may not, or answers what was not asked.
        """
        ...
