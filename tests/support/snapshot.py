"""A repository in memory: what git and GitHub give, without either."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping

from skillhub.errors import NotFound
from skillhub.sources.layout import SnapshotNode, SnapshotNodes


class Memory:
    """A snapshot of these files; a path that ends in ``*`` is executable, None is a link, ... a submodule."""

    def __init__(
        self, files: Mapping[str, object], rev: str = "a" * 40, date: str | None = "2026-01-02T03:04:05Z"
    ) -> None:
        self.rev = rev
        self.date = date
        self.nodes = SnapshotNodes()
        self.reads: list[tuple[str, ...]] = []
        self._data: dict[str, bytes] = {}
        for path, held in files.items():
            name = path.removesuffix("*")
            if held is None or held is ...:
                self.nodes[name] = SnapshotNode("link" if held is None else "submodule")
                continue
            data = held if isinstance(held, bytes) else str(held).encode()
            self._data[name] = data
            self.nodes[name] = SnapshotNode("file", path.endswith("*"), len(data))

    def read(self, paths: Iterable[str]) -> Iterator[bytes]:
        asked = tuple(paths)
        self.reads.append(asked)
        return (self._data[path] for path in asked)


class Hub:
    """Repositories by URL, as ``Repository`` is handed them; counts which were opened."""

    def __init__(self, **repositories: Memory) -> None:
        self.at = {f"https://git.example/{name}.git": each for name, each in repositories.items()}
        self.opened: list[tuple[str, str | None]] = []
        self._lock = threading.Lock()

    def __call__(self, url: str, rev: str | None) -> Memory:
        with self._lock:
            self.opened.append((url, rev))
        if url not in self.at:
            raise NotFound("there is no such repository", where=url)
        return self.at[url]


def skill(name: str = "", body: str = "Do it.", more: str = "") -> str:
    """Return a ``SKILL.md``."""
    named = f"name: {name}\n" if name else ""
    return f"---\n{named}description: What {name or 'it'} does.\n{more}---\n{body}\n"
