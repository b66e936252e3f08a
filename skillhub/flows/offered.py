"""What a source offers, of either kind: a registry proves it, a well-known site that is none only says it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from skillhub.errors import Forbidden, SourceError
from skillhub.flows.obtain import Way, by_place, by_registry
from skillhub.flows.ports import Ports
from skillhub.model.digest import Digest
from skillhub.model.ref import Named, Site
from skillhub.model.release import Index, Release
from skillhub.world.sources import Source


def releases_of(source: Source, name: str, ports: Ports) -> Index:
    """Return the releases of one skill.

    Raises:
        NotFound: the source has no skill of that name.
        SourceError, SecurityError, FormatError: it cannot be opened.
    """
    if source.root is not None:
        return ports.open(source).release_index([name])
    index = ports.reach(Site(source.url), named_by=source.named_by).index((name,))
    return Index({name: index.releases(name)}, warnings=index.warnings)


def listing_of(source: Source, ports: Ports) -> Index:
    """Return the newest release of every skill, to search in and to show; never the authority.

    Raises:
        SourceError, SecurityError, FormatError: the source cannot be opened.
    """
    if source.root is not None:
        return ports.open(source).listing()
    return ports.reach(Site(source.url), named_by=source.named_by).index()


@dataclass(frozen=True, slots=True)
class Listings:
    """What all sources list, and a warning for each that could not be asked."""

    each: tuple[tuple[Source, Index], ...] = ()
    warnings: tuple[str, ...] = ()

    def releases(self) -> tuple[Release, ...]:
        """Return the newest release of each skill of each source that one may choose, by name.

        The source's alias stands where a plugin's name would; ``reference`` takes it from there.
        """
        found = (
            replace(chosen, plugin=source.alias)
            for source, listing in self.each
            for releases in listing.skills.values()
            if (chosen := next((each for each in releases if not each.taken_back), None))
        )
        return tuple(sorted(found, key=lambda each: (each.name, each.plugin or "")))


def reference(picked: Release) -> Named:
    """Return what names a release that ``Listings.releases`` gave."""
    return Named(picked.name, picked.plugin)


def listings(ports: Ports, *, needed: bool = True) -> Listings:
    """Return the listing of every source that can be asked and that no policy forbids; others are told of.

    Args:
        ports: The world.
        needed: There is nothing else to choose from, so that one source at least has to answer.

    Raises:
        SourceError, Forbidden: none can be asked, and that is ``needed``.
        SecurityError: a source shows signs of tampering.
        FormatError: a listing is malformed.
        StateError: the disk refuses.
    """
    found, warnings, failed = [], [], None
    for alias, source in ports.sources.all().items():
        try:
            found.append((source, listing_of(source, ports)))
        except (SourceError, Forbidden) as error:
            failed = error
            warnings.append(f"{alias} was left out: {error.message}")
    if needed and failed is not None and not found:
        raise failed
    return Listings(tuple(found), tuple(warnings))


def by_source(
    source: Source, release: Release, index: Index, ports: Ports, locked: Collection[Digest] = ()
) -> Way[Any]:
    """Return how a release is had that ``releases_of`` gave; ``locked`` is as for ``by_place``."""
    if source.root is not None:
        return by_registry(source, release, index.admissions[release.publisher or ""], ports, locked)
    place = ports.reach(Site(source.url), named_by=source.named_by)
    return by_place(place, source.alias, release, ports, locked)
