"""The trust in a source as this machine keeps it: its root, its keys, when its metadata expires; no network."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from skillhub.model import time as times
from skillhub.trust.roles import (
    CEREMONY_DAYS,
    LISTING,
    NAMESPACES,
    RELEASES,
    ROOT,
    SNAPSHOT,
    TARGETS,
    TIMESTAMP,
    rule_of,
)
from skillhub.trust.root_view import RootView, changes, view_expiry, view_root
from skillhub.world import files
from skillhub.world.sources import Source, Sources

_CAP = 16 << 20
_ROLES = (ROOT, TARGETS, SNAPSHOT, TIMESTAMP, NAMESPACES, RELEASES, LISTING)


@dataclass(frozen=True, slots=True)
class Dated:
    """One metadata file: its version, and until when it holds (UTC)."""

    role: str
    version: int
    expires: str

    def expires_within(self, days: float, now: datetime) -> bool:
        """Say whether it holds no longer in so many days."""
        return self.expires <= times.spell(now + timedelta(days=days))


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source and the trust in it.

    Attributes:
        root: The root that is trusted now.
        metadata: What was seen of each role when the source was last refreshed.
        late: What of it has expired or is about to, though offline keys signed it, months ahead.
        refreshed: When that was (UTC); None if never, or if the source is inside the package.
        changes: What became of trust since the source was added, a line each.
    """

    source: Source
    root: RootView
    metadata: tuple[Dated, ...]
    late: tuple[Dated, ...]
    refreshed: str | None
    changes: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is ``late``, a line each."""
        return tuple(
            f"{each.role} expires {each.expires}; tell whoever runs the registry" for each in self.late
        )


def view_source(source: Source, sources: Sources, now: datetime) -> SourceView:
    """Return the trust in a registry as it stands on this machine.

    Raises:
        FormatError: the metadata kept here is damaged.
        StateError: it cannot be read.
    """
    first = view_root(sources.root(source), source.url)
    folder = sources.metadata(source)
    newest = _metadata(folder, ROOT)
    root = view_root(newest, folder) if newest else first
    metadata = dated(folder, _ROLES)
    late = tuple(
        each for each in metadata if not rule_of(each.role).online and each.expires_within(CEREMONY_DAYS, now)
    )
    refreshed = sources.last_seen(source.root).refreshed if source.root else None
    return SourceView(source, root, metadata, late, refreshed, tuple(changes(first, root)))


def dated(folder: str, roles: Iterable[str]) -> tuple[Dated, ...]:
    """Return what a client keeps in ``folder`` of these roles' metadata; nothing of what it never fetched.

    Raises:
        FormatError: it is damaged.
        StateError: it cannot be read.
    """
    found = ((role, _metadata(folder, role)) for role in roles)
    return tuple(Dated(role, *view_expiry(data, folder)) for role, data in found if data)


def _metadata(folder: str, role: str) -> bytes | None:
    # The client keeps every root it walked through and links to the last one.
    return files.read(os.path.realpath(os.path.join(folder, f"{role}.json")), _CAP)
