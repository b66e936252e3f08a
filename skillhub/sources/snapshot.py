"""The files of a repository at one commit, or of a folder now: what the sources of repositories have in common."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

_AFTER_SLASH = chr(ord("/") + 1)


@dataclass(frozen=True, slots=True)
class SnapshotNode:
    """A file, link or submodule of a snapshot.

    Attributes:
        size: The bytes of a file; 0 for the other kinds.
    """

    kind: Literal["file", "link", "submodule"]
    executable: bool = False
    size: int = 0


class SnapshotNodes(dict[str, SnapshotNode]):
    """The nodes of a snapshot by path, ``/`` between segments; paths are untrusted, spelled as in the source.

    They are not changed any more once ``within`` was called.
    """

    def within(self, folder: str) -> list[str]:
        """Return ``folder``, if it is a path, and the paths below it, sorted; for an empty one all paths."""
        if not folder:
            return self._paths
        first, last = (bisect_left(self._paths, f"{folder}{end}") for end in ("/", _AFTER_SLASH))
        return [*([folder] if folder in self else ()), *self._paths[first:last]]

    @cached_property
    def _paths(self) -> list[str]:
        return sorted(self)


class Snapshot(Protocol):
    """The files of a repository at one commit, or of a folder now: all paths at once, bytes on request."""

    @property
    def nodes(self) -> SnapshotNodes:
        """The nodes of all files, links and submodules."""

    @property
    def rev(self) -> str | None:
        """The full commit; None for a folder."""

    @property
    def date(self) -> str | None:
        """The time of the commit, UTC, as its committer states it; None for a folder."""

    def read(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of these files, in this order, exactly as the commit has them.

        Raises:
            SourceError: the files cannot be fetched.
            SecurityError: the bytes are not those of the commit.
        """
