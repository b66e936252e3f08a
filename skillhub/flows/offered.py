"""What a source offers, of either kind: a registry proves it, a well-known site that is none only says it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from skillhub.errors import Forbidden, SourceError
from skillhub.flows.obtain import Way, by_place, by_registry
from skillhub.flows.policy import under
from skillhub.flows.ports import Ports
from skillhub.model.dataclass import dataclass
from skillhub.model.digest import Digest
from skillhub.model.ref import Site
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
    index = ports.reach(Site(source.url)).index((name,))
    return Index({name: index.releases(name)}, warnings=index.warnings)


def listing_of(source: Source, ports: Ports) -> Index:
    """Return the newest release of every skill, to search in and to show; never the authority.

    Raises:
        SourceError, SecurityError, FormatError: the source cannot be opened.
    """
    if source.root is not None:
        return ports.open(source).listing()
    return ports.reach(Site(source.url)).index()


@dataclass(frozen=True, slots=True)
class Listings:
    """What all sources list, a warning for each that could not be asked, and why the last of them could not."""

    each: tuple[tuple[Source, Index], ...]
    warnings: tuple[str, ...]
    failed: SourceError | Forbidden | None


def listings(ports: Ports) -> Listings:
    """Return the listing of every source that can be reached and that no policy forbids.

    Raises:
        SecurityError: a source shows signs of tampering.
        FormatError: a listing is malformed.
        StateError: the disk refuses.
    """
    ports = under(ports.project.intent(), ports)
    found, warnings, failed = [], [], None
    for alias, source in ports.sources.all().items():
        try:
            found.append((source, listing_of(source, ports)))
        except (SourceError, Forbidden) as error:
            failed = error
            warnings.append(f"{alias} was left out: {error.message}")
    return Listings(tuple(found), tuple(warnings), failed)


def by_source(
    source: Source, release: Release, index: Index, ports: Ports, locked: Collection[Digest] = ()
) -> Way[Any]:
    """Return how a release is had that ``releases_of`` gave; ``locked`` is as for ``by_place``."""
    if source.root is not None:
        return by_registry(source, release, index.admissions[release.publisher or ""], ports, locked)
    return by_place(ports.reach(Site(source.url)), source.alias, release, ports, locked)
