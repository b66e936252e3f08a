"""Where a registry's site is published: the interface, its file rules, and a plain folder."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from skillhub.disk import files
from skillhub.errors import StateError
from skillhub.formats.text import quote

# How the files of a registry's site are served, by whichever server: as what, and how long they may be kept.

_TYPES = {
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".zip": "application/zip",
    ".gz": "application/gzip",
}
# A version or a hash in the name: what is under it never changes.
_FIXED = re.compile(r"(?:[0-9]+\.[^/]+\.json|[0-9a-f]{64}\.[^/]+)", re.ASCII)


def is_fixed(path: str) -> bool:
    """Say whether what is under this name is never to change."""
    return _FIXED.fullmatch(path.rpartition("/")[2]) is not None


def media_type(path: str) -> str:
    """Return the media type of a file."""
    return _TYPES.get(os.path.splitext(path)[1], "application/octet-stream")


def cache_control(path: str) -> str:
    """Return how long others may keep it, as ``Cache-Control`` says it."""
    return "public, max-age=31536000, immutable" if is_fixed(path) else "public, max-age=60"


# Where a registry's site is published: the interface of all such places, and what they have in common.

FILE_CAP = 64 * 1024 * 1024  # bytes of the largest file that a site has
APART = "two copies of the registry were changed apart: go on with the one that was pushed first"


@dataclass(frozen=True, slots=True)
class SiteFile:
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

    def holds(self, file: SiteFile) -> bool:
        """Say whether the file is there as it is to be.

        Raises:
            StateError: it never changes, and is there with other content.
        """
        ...

    def publish(self, site: Sequence[SiteFile], changed: Sequence[SiteFile]) -> None:
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


# A folder to publish to: one that a web server serves, or that something else copies on.


class FolderTarget:
    """A ``Target`` whose every file appears by a rename.

    Args:
        path: The folder; made when there is something to put into it.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self._seen: dict[str, bytes | None] = {}  # of files that may change, and of no others: they are small

    def read(self, path: str) -> bytes | None:
        """Return the file as it was when first asked for, or None if there was none.

        Raises:
            StateError: the disk refuses.
            FormatError: it is larger than any file of a site.
        """
        if is_fixed(path):
            return files.read(self._full(path), FILE_CAP)
        if path not in self._seen:
            self._seen[path] = files.read(self._full(path), FILE_CAP)
        return self._seen[path]

    def holds(self, file: SiteFile) -> bool:
        """Say whether the file is there as it is to be.

        Raises:
            StateError: it never changes, and is there with other content; or the disk refuses.
            FormatError: what is there is larger than any file of a site.
        """
        found, wanted = self.read(file.path), file.read()
        if file.fixed and found not in (None, wanted):
            raise other_content(file.path, self._path)
        return found == wanted

    def publish(self, site: Sequence[SiteFile], changed: Sequence[SiteFile]) -> None:
        """Write the files that changed, in their order, each by a rename.

        Raises:
            StateError: somebody else has published there since, or the disk refuses.
        """
        for file in changed:
            before = None if file.fixed else self.read(file.path)
            if not files.swap(self._full(file.path), before, file.read(), mode=0o644):
                raise overtaken(file.path, self._path)

    def close(self) -> None:
        """Do nothing: no file is open."""

    def _full(self, path: str) -> str:
        return os.path.join(self._path, *path.split("/"))


def open_target(address: str) -> Target:
    """Return the target that is the folder ``address``."""
    return FolderTarget(address)
