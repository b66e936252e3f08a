"""A folder to publish to: one that a web server serves, or that something else copies on."""

from __future__ import annotations

import os
from collections.abc import Sequence

from skillhub.world import files
from skillhub.world.push.target import FILE_CAP, File, Target, other_content, overtaken
from skillhub.world.site_files import is_fixed


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

    def holds(self, file: File) -> bool:
        """Say whether the file is there as it is to be.

        Raises:
            StateError: it never changes, and is there with other content; or the disk refuses.
            FormatError: what is there is larger than any file of a site.
        """
        found, wanted = self.read(file.path), file.read()
        if file.fixed and found not in (None, wanted):
            raise other_content(file.path, self._path)
        return found == wanted

    def publish(self, site: Sequence[File], changed: Sequence[File]) -> None:
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
