"""Pick: what all sources list, for a person to choose from."""

from __future__ import annotations

from collections.abc import Iterator

from skillhub.flows.offered import listings
from skillhub.flows.ports import Ports
from skillhub.model.dataclass import dataclass, replace
from skillhub.model.ref import Named
from skillhub.model.release import Index, Release


@dataclass(frozen=True, slots=True)
class Offer:
    """What can be picked from, by name, and which sources could not be asked.

    Attributes:
        releases: The newest of each skill of each source, whose alias stands where a plugin's name would.
    """

    releases: tuple[Release, ...]
    warnings: tuple[str, ...] = ()


def offers(ports: Ports) -> Offer:
    """Return what all sources list; one that cannot be asked is told of and left out, unless no other is left.

    Raises:
        SourceError, Forbidden: no source can be reached, or a policy forbids it.
        SecurityError: a source shows signs of tampering.
        FormatError: a listing is malformed.
        StateError: the disk refuses.
    """
    listed = listings(ports)
    found = [each for source, listing in listed.each for each in _listed(source.alias, listing)]
    if listed.failed is not None and not found:
        raise listed.failed
    return Offer(tuple(sorted(found, key=lambda each: (each.name, each.plugin or ""))), listed.warnings)


def reference(picked: Release) -> Named:
    """Return what names a release of an ``Offer``."""
    return Named(picked.name, picked.plugin)


def _listed(alias: str, listing: Index) -> Iterator[Release]:
    for releases in listing.skills.values():
        chosen = next((each for each in releases if each.withdrawn is None and each.yanked is None), None)
        if chosen is not None:
            yield replace(chosen, plugin=alias)
