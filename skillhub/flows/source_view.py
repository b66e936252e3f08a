"""What a user trusts a source by, read off the metadata that is trusted already; no network."""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from skillhub.model import time as times
from skillhub.model.dataclass import dataclass
from skillhub.trust.root_view import RootView, changes, view_expiry, view_root
from skillhub.world import files
from skillhub.world.sources import Source, Sources

_CAP = 16 << 20
_SOON = timedelta(days=30)
OFFLINE = ("root", "targets", "namespaces")  # signed in a ceremony, months ahead
_DATED = ("root", "targets", "snapshot", "timestamp", "namespaces", "releases", "listing")


@dataclass(frozen=True, slots=True)
class Dated:
    """One metadata file: its version, and until when it holds (UTC)."""

    role: str
    version: int
    expires: str


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source and the trust in it.

    Attributes:
        root: The root that is trusted now.
        metadata: What was seen of each role when the source was last refreshed.
        refreshed: When that was (UTC); None if never, or if the source is inside the package.
        changes: What became of trust since the source was added, a line each.
        warnings: What is about to expire.
    """

    source: Source
    root: RootView
    metadata: tuple[Dated, ...]
    refreshed: str | None
    changes: tuple[str, ...]
    warnings: tuple[str, ...]


def view_source(source: Source, sources: Sources, now: datetime) -> SourceView:
    """Return the trust in a registry as it stands on this machine.

    Raises:
        FormatError: the metadata kept here is damaged.
        StateError: it cannot be read.
    """
    first = view_root(sources.root(source), source.url)
    folder = sources.metadata(source)
    data = {role: _metadata(folder, role) for role in _DATED}
    root = view_root(data["root"], folder) if data["root"] else first
    dated = tuple(Dated(role, *view_expiry(text, folder)) for role, text in data.items() if text)
    soon = times.spell(now + _SOON)
    late = tuple(
        f"{each.role} expires {each.expires}; tell whoever runs the registry"
        for each in dated
        if each.role in OFFLINE and each.expires < soon
    )
    refreshed = sources.last_seen(source.root).refreshed if source.root else None
    return SourceView(source, root, dated, refreshed, tuple(changes(first, root)), late)


def _metadata(folder: str, role: str) -> bytes | None:
    path = os.path.join(folder, f"{role}.json")
    # The client keeps every root it walked through and links to the last one.
    return files.read(os.path.realpath(path), _CAP) if os.path.lexists(path) else None
