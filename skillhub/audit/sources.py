"""The trust in a source, as stored on this machine: its root, its keys, the expiry of its metadata; no network."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from skillhub.project.last_seen import LastSeen
from skillhub.sources.configured import Source, Sources
from skillhub.trust import roles

_ROLES = (roles.ROOT, roles.TARGETS, roles.SNAPSHOT, roles.TIMESTAMP, roles.NAMESPACES, roles.RELEASES, roles.LISTING)


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

    root: roles.RootView
    metadata: tuple[roles.MetadataExpiry, ...]
    late: tuple[roles.MetadataExpiry, ...]
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
    first = roles.RootFile.parse(sources.root(source), source.url).signed
    folder = sources.metadata(source)
    newest = roles.kept_metadata(folder, roles.ROOT)
    root = roles.RootFile.parse(newest, folder).signed if newest else first
    metadata = roles.metadata_files(folder, _ROLES)
    offline = (entry for entry in metadata if not roles.rule_of(entry.role).online)
    late = tuple(entry for entry in offline if entry.expires_within(roles.CEREMONY_DAYS, now))
    return SourceView(root, metadata, late, LastSeen(folder).refreshed, tuple(roles.changes(first, root)))
