"""A local folder that holds several skills, as a snapshot; no link in it is followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from skillhub.archive import Limits
from skillhub.disk import files
from skillhub.errors import FormatError, NotFound
from skillhub.formats.text import quote
from skillhub.sources.layout import Snapshot, SnapshotNode
from skillhub.sources.repository import Repository

_NODES_MAX = 200_000
# A repository's own, and what is installed into a project: neither is where somebody keeps skills.
_SKIPPED = frozenset({".git", "node_modules"})
_FILE_CAP = Limits().total


class FolderSnapshot:
    """The files of a folder as they are now, ``.git`` and ``node_modules`` apart.

    Args:
        path: The folder; it may itself be reached through a link.
    """

    rev = None
    date = None

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)

    @cached_property
    def nodes(self) -> Mapping[str, SnapshotNode]:
        """Every path below the folder that is no folder.

        Raises:
            FormatError: there are more than anybody keeps skills among.
            StateError: a folder cannot be read.
        """
        found: dict[str, SnapshotNode] = {}
        waiting = [""]
        while waiting:
            prefix = waiting.pop()
            folder = os.path.join(self._path, prefix)
            with files.disk_errors(folder), os.scandir(folder) as rows:
                for row in rows:
                    if row.name in _SKIPPED:
                        continue
                    if row.is_dir(follow_symlinks=False):
                        waiting.append(f"{prefix}{row.name}/")
                    else:
                        status = row.stat(follow_symlinks=False)
                        file = SnapshotNode("file", bool(status.st_mode & 0o100), status.st_size)
                        found[prefix + row.name] = file if stat.S_ISREG(status.st_mode) else SnapshotNode("link")
            if len(found) > _NODES_MAX:
                raise FormatError(
                    f"expected at most {_NODES_MAX} files, found more",
                    where=self._path,
                    hint="name the folder in it that holds the skills",
                )
        return found

    def read(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of these files.

        Raises:
            NotFound: one is gone by now.
            StateError: one cannot be read.
        """
        for path in paths:
            full = os.path.join(self._path, *path.split("/"))
            data = files.read(full, _FILE_CAP)
            if data is None:
                raise NotFound("the file is gone", where=full)
            yield data


def open_folder(path: str) -> Repository:
    """Return the place that a local folder is: its skills, their paths relative to it."""
    return Repository(FolderSnapshot(path), url=path, elsewhere=_nowhere)


def _nowhere(url: str, rev: str | None) -> Snapshot:
    raise NotFound(f"it is in another repository, {quote(url)}; install from there")
