"""What a whole repository or folder holds: paths with their kinds at once, bytes only when they are asked for.

A skill that is taken out of one passes the checks that archives pass.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Literal, Protocol

from skillhub.archive import Entry, Limits, Unpacked, gather
from skillhub.errors import FormatError, NotFound, UnsafeArchive
from skillhub.model.layout import below, join
from skillhub.model.text import quote
from skillhub.model.tree import SKILL_MD, File

_LIMITS = Limits()
_REFUSED = {
    "link": "a skill holds no links, found a symbolic one",
    "submodule": "a skill holds no other repository, found a submodule",
}
# The pointer that Git LFS commits in place of a file (its specification 1.0: at most 1,024 bytes, this line first).
_LFS = b"version https://git-lfs.github.com/spec/v1\n"
_LFS_MAX = 1024
_AFTER_SLASH = chr(ord("/") + 1)


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


class Folders:
    """A snapshot by its folders; ``.git`` is in none of them.

    Args:
        snapshot: The repository or folder.
        where: What it is called in errors.
    """

    def __init__(self, snapshot: Snapshot, where: str) -> None:
        self.snapshot = snapshot
        self.where = where

    def nodes(self, folder: str) -> dict[str, Node]:
        """Return what lies below a folder by its path from there, sorted."""
        first = bisect_left(self._paths, f"{folder}/") if folder else 0
        last = bisect_left(self._paths, folder + _AFTER_SLASH) if folder else len(self._paths)
        parts = ((path, below(path, folder)) for path in self._paths[first:last])
        return {"/".join(rest): self.snapshot.nodes[path] for path, rest in parts if ".git" not in rest}

    def unpack(self, folder: str) -> Unpacked:
        """Return the skill in a folder, bytes and execute bits as they are there.

        Raises:
            NotFound: there is no such folder, or no ``SKILL.md`` in it.
            UnsafeArchive: it holds what no skill may hold: links, submodules, names that are unsafe, too much.
            FormatError: a file is kept in Git LFS, so that these are not its bytes.
            SourceError: the files cannot be had.
            SecurityError: they are not those of the commit.
        """
        nodes = self.nodes(folder)
        if SKILL_MD not in nodes:
            raise NotFound(f"{quote(folder or '.')} has no {SKILL_MD}", where=self.where)
        _check(nodes, folder)
        return gather(self._entries(folder, nodes), wrapper=False)

    def shape(self, folder: str) -> tuple[tuple[str, Node], ...]:
        """Return all that is known of what a folder holds before a byte is read."""
        return tuple(self.nodes(folder).items())

    def sums(self, folder: str) -> tuple[bytes, ...] | None:
        """Return what tells the bytes in a folder from any others; None of what could not be unpacked.

        Raises:
            SourceError, SecurityError: as for ``unpack``.
        """
        nodes = self.nodes(folder)
        try:
            _check(nodes, folder)
        except UnsafeArchive:
            return None
        contents = self.snapshot.read([join(folder, path) for path in nodes])
        return tuple(sha256(data).digest() for data in contents)

    @cached_property
    def _paths(self) -> list[str]:
        return sorted(self.snapshot.nodes)

    def _entries(self, folder: str, nodes: Mapping[str, Node]) -> Iterator[Entry]:
        contents = self.snapshot.read([join(folder, path) for path in nodes])
        for (path, node), data in zip(nodes.items(), contents, strict=True):
            if len(data) <= _LFS_MAX and data.startswith(_LFS):
                raise FormatError(
                    "expected a file, found a pointer to where Git LFS keeps it",
                    where=_shown(folder, path),
                    hint="its author would have to commit the file itself",
                )
            yield Entry(path, File(data, node.executable))


def _check(nodes: Mapping[str, Node], folder: str) -> None:
    """Refuse what the gate would, before a byte is fetched: a repository may be far larger than any skill."""
    for path, node in nodes.items():
        if node.kind != "file":
            raise UnsafeArchive("link", _REFUSED[node.kind], where=_shown(folder, path))
    if len(nodes) > _LIMITS.entries:
        message = f"a skill has at most {_LIMITS.files} files, found {len(nodes)}"
        raise UnsafeArchive("too-many-files", message, where=_shown(folder, ""))
    if sum(node.size for node in nodes.values()) > _LIMITS.total:
        message = f"a skill has at most {_LIMITS.total} bytes unpacked"
        raise UnsafeArchive("too-large", message, where=_shown(folder, ""))


def _shown(folder: str, path: str) -> str:
    return quote(join(folder, path) or ".")[1:-1]
