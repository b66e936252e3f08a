"""Fetching artifacts before they are asked for, so that waiting for the network and verifying overlap."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from skillhub.flows.ports import Ports, Registry
from skillhub.model.digest import Digest
from skillhub.model.release import Index, Release
from skillhub.world.sources import Source

AT_ONCE = 16
_BYTES_MAX = 64 * 1024 * 1024  # of what was fetched and nobody has asked for yet

Offer = tuple[Source, Release]
_Key = tuple[str, Digest | None]


class Ahead:
    """Fetches these artifacts from up to 16 threads, in this order, few enough to be held in memory.

    Nothing is verified here but what ``Registry.artifact`` verifies; an error is raised where the artifact is
    asked for. Use ``open`` in place of ``Ports.open`` within a ``with``.
    """

    def __init__(self, offers: Sequence[Offer], ports: Ports) -> None:
        self._todo = deque(offers)
        self._ports = ports
        self._of = len(offers)
        self._asked = 0
        self._held = 0
        self._coming: dict[_Key, Future[bytes]] = {}
        self._pool = ThreadPoolExecutor(AT_ONCE) if len(offers) > 1 else None

    def __enter__(self) -> Self:
        self._go_on()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def open(self, source: Source) -> Registry:
        """Return the registry of ``source``, whose artifacts may have come already."""
        return _Hasty(self._ports.open(source), source, self)

    def artifact(self, source: Source, release: Release) -> bytes:
        """Return what ``Registry.artifact`` does, and raise what it raises."""
        self._ports.report("fetching", self._asked, self._of)
        self._asked += 1
        coming = self._coming.pop((source.alias, release.digest), None)
        if coming is None:
            return self._ports.open(source).artifact(release)
        data = coming.result()
        self._held -= release.size or 0
        self._go_on()
        return data

    def _go_on(self) -> None:
        while self._pool and self._todo and len(self._coming) < AT_ONCE:
            source, release = self._todo[0]
            size = release.size or 0
            if self._coming and self._held + size > _BYTES_MAX:
                return
            self._todo.popleft()
            key = (source.alias, release.digest)
            if key not in self._coming:
                self._held += size
                self._coming[key] = self._pool.submit(self._ports.open(source).artifact, release)


class _Hasty:
    """A registry whose artifacts are fetched ahead."""

    def __init__(self, registry: Registry, source: Source, ahead: Ahead) -> None:
        self._registry = registry
        self._source = source
        self._ahead = ahead

    def release_index(self, names: Iterable[str]) -> Index:
        return self._registry.release_index(names)

    def listing(self) -> Index:
        return self._registry.listing()

    def artifact(self, release: Release) -> bytes:
        return self._ahead.artifact(self._source, release)
