"""Where a registry's site is published: the interface of all such places, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from skillhub.errors import StateError
from skillhub.model.text import quote
from skillhub.world.site_files import is_fixed

FILE_CAP = 64 * 1024 * 1024  # bytes of the largest file that a site has
APART = "two copies of the registry were changed apart: go on with the one that was pushed first"


@dataclass(frozen=True, slots=True)
class File:
    """A file of a site; ``read`` gives its bytes, proved anew each time.

    Attributes:
        path: Below the site, with ``/`` between segments.
    """

    path: str
    read: Callable[[], bytes]

    @property
    def fixed(self) -> bool:
        """Whether what is under this name is never to change."""
        return is_fixed(self.path)


class Target(Protocol):
    """A place that a site is published to.

    What may change is compared: a target remembers what it first saw of a file, and writes over nothing else.
    """

    def read(self, path: str) -> bytes | None:
        """Return the file as it is served there, or None if there is none.

        Raises:
            SourceError: the place cannot be reached.
            StateError: it refuses, or somebody else publishes there at this moment.
        """
        ...

    def holds(self, file: File) -> bool:
        """Say whether the file is there as it is to be.

        Raises:
            StateError: it never changes, and is there with other content.
        """
        ...

    def publish(self, site: Sequence[File], changed: Sequence[File]) -> None:
        """Write what ``holds`` said is not there, in its order; whatever happens, no file is seen in part.

        Args:
            site: All of it, in the order in which it may appear.
            changed: Those of them that are to be written.

        Raises:
            StateError: somebody else has published there since; what was written does no harm, nor is it lost.
            SourceError: the place cannot be reached any more.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


def other_content(path: str, where: str) -> StateError:
    """Return the error for a file that never changes, and is there with other content."""
    return StateError(
        f"{quote(path)} is there with other content, and what is under this name never changes",
        where=where,
        hint=APART,
    )


def overtaken(path: str, where: str) -> StateError:
    """Return the error for a file that another writer has changed since it was looked at."""
    return StateError(
        f"somebody else has published {quote(path)} meanwhile",
        where=where,
        hint="nothing is lost: run the command again",
    )
