"""What a whole repository or folder holds: paths with their kinds at once, bytes only when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, Protocol

from skillhub.model.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """One path of a snapshot that is no folder.

    Attributes:
        size: Bytes of a file; 0 of anything else.
    """

    kind: Literal["file", "link", "submodule"]
    executable: bool = False
    size: int = 0


class Snapshot(Protocol):
    """The files of a repository at one commit, or of a folder as it is now."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every path, ``/`` between segments, as it is spelled there: nobody judged it yet."""
        ...

    @property
    def rev(self) -> str | None:
        """The full commit; None of a folder, which has none."""
        ...

    @property
    def date(self) -> str | None:
        """When the commit was made, UTC, as whoever made it says; None of a folder."""
        ...

    def read(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of these files, in this order, exactly as the commit has them.

        Raises:
            SourceError: they cannot be had.
            SecurityError: they are not those of the commit.
        """
        ...
