"""The trust in a source, as stored on this machine: its root, its keys, the expiry of its metadata; no network."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from skillhub.project.last_seen import LastSeen
from skillhub.sources.configured import Source, Sources
from skillhub.trust.roles import (
    CEREMONY_DAYS,
    LISTING,
    NAMESPACES,
    RELEASES,
    ROOT,
    SNAPSHOT,
    TARGETS,
    TIMESTAMP,
    MetadataExpiry,
    RootView,
    changes,
    kept_metadata,
    metadata_files,
    rule_of,
    view_root,
)

_ROLES = (ROOT, TARGETS, SNAPSHOT, TIMESTAMP, NAMESPACES, RELEASES, LISTING)


@dataclass(frozen=True, slots=True)
class SourceView:
    """The trust in a source.

    Attributes:
        root: The root that is trusted now.
        metadata: The metadata of each role at the last refresh of the source.
        late: The metadata signed by offline keys that has expired or soon will.
        refreshed: The time of the last refresh (UTC); None if never, or if the source is inside the package.
        changes: The changes of trust since the source was added, one line each.
    """

    root: RootView
    metadata: tuple[MetadataExpiry, ...]
    late: tuple[MetadataExpiry, ...]
    refreshed: str | None
    changes: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """A line for each entry of ``late``."""
        return tuple(f"{entry.role} expires {entry.expires}; tell the registry's operator" for entry in self.late)


def view_source(source: Source, sources: Sources, now: datetime) -> SourceView:
    """Return the trust in a registry, as stored on this machine.

    Raises:
        FormatError: the stored metadata is damaged.
        StateError: it cannot be read.
    """
    first = view_root(sources.root(source), source.url)
    folder = sources.metadata(source)
    newest = kept_metadata(folder, ROOT)
    root = view_root(newest, folder) if newest else first
    metadata = metadata_files(folder, _ROLES)
    late = tuple(
        entry for entry in metadata if not rule_of(entry.role).online and entry.expires_within(CEREMONY_DAYS, now)
    )
    refreshed = LastSeen(folder).refreshed
    return SourceView(root, metadata, late, refreshed, tuple(changes(first, root)))
