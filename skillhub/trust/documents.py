"""The documents that a registry signs and serves, as bytes; ``model.index`` is the way back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from skillhub.errors import Refused
from skillhub.formats.digest import Digest
from skillhub.model.index import (
    DOCUMENT_CAP,
    LISTING_CAP,
    Admission,
    Index,
    IndexEntry,
    IndexListing,
    NamespacesDocument,
    Pinned,
    PublisherDocument,
    PublisherRelease,
    Release,
    ReleasesDocument,
    SkillDocument,
    SkillRelease,
    index_path,
    namespace_path,
)
from skillhub.trust.metadata import path_of, publisher_target
from skillhub.trust.roles import WELL_KNOWN, skill_path

LISTING_PATH = "index.json"


def signed_documents(index: Index, publishers: Iterable[str], names: Iterable[str]) -> Mapping[str, bytes]:
    """Return the signed documents about these publishers and skills, and the listing, by target path."""
    found = {}
    for publisher in publishers:
        path = namespace_path(publisher)
        found[path] = _namespaces(_neighbours(index, [path]))
        found[index_path(publisher)] = _releases(index, publisher)
    for name in names:
        found[skill_path(name)] = _skill(name, index.skills[name])
    found[LISTING_PATH] = _listing(index, index.skills, "../../")
    return MappingProxyType(found)


def pinned_documents(index: Index, publishers: Collection[str]) -> Mapping[str, bytes]:
    """Return all publishers' documents that the signed ones about these pin, by path below the site."""
    found = _neighbours(index, {namespace_path(publisher) for publisher in publishers})
    return MappingProxyType(
        {path_of(publisher_target(publisher, _pin(data))): data for publisher, data in found.items()}
    )


def public_documents(index: Index, signed: Mapping[str, bytes], names: Iterable[str]) -> Mapping[str, bytes]:
    """Return the documents for clients without TUF, by their plain path below the site.

    The scoped index of a skill is for those that would read the whole listing to find one.
    """
    found = {f"{name}/{WELL_KNOWN}/{LISTING_PATH}": _listing(index, [name], "../../../") for name in names}
    found |= {f"{WELL_KNOWN}/{skill_path(name)}": signed[skill_path(name)] for name in names}
    found[f"{WELL_KNOWN}/{LISTING_PATH}"] = signed[LISTING_PATH]
    return MappingProxyType(found)


def refuse_large(documents: Mapping[str, bytes]) -> None:
    """Refuse to publish documents, by path, of which one is larger than clients read.

    Raises:
        Refused: one is.
    """
    for path, data in documents.items():
        cap = LISTING_CAP if path == LISTING_PATH else DOCUMENT_CAP
        if len(data) > cap:
            hint = "nothing was published; publish under another publisher, or in another registry"
            raise Refused(
                f"{path} would have {len(data):,} bytes, more than the {cap:,} that clients read", hint=hint
            )


def _neighbours(index: Index, paths: Collection[str]) -> Mapping[str, bytes]:
    """Return the documents of the publishers that the targets at ``paths`` name."""
    return {
        publisher: _publisher(each)
        for publisher, each in index.admissions.items()
        if namespace_path(publisher) in paths
    }


def _releases(index: Index, publisher: str) -> bytes:
    names = sorted(index.skills)
    releases = [each for name in names for each in index.skills[name] if each.publisher == publisher]
    rows = tuple(PublisherRelease.of(each, sha256=each.digest) for each in releases)
    return ReleasesDocument.model_construct(publisher=publisher, releases=rows).dump()


def _listing(index: Index, names: Iterable[str], home: str) -> bytes:
    rows = []
    for name in sorted(names):
        newest = best_release(index.skills[name])
        document = f"{home}{WELL_KNOWN}/{skill_path(name)}"
        rows.append(IndexEntry.of(newest, name=name, url=home + newest.url, releases=document))
    return IndexListing.model_construct(skills=tuple(rows)).dump()


def best_release(releases: tuple[Release, ...]) -> Release:
    """Return the newest release that one may choose; of those withdrawn, too, the newest."""
    return min(releases, key=lambda each: (each.withdrawn is not None, each.yanked is not None))


def _skill(name: str, releases: tuple[Release, ...]) -> bytes:
    newest = releases[0]
    return SkillDocument.model_construct(
        name=name,
        publisher=newest.publisher,
        description=newest.description,
        releases=tuple(SkillRelease.of(each, url=f"../../../{each.url}") for each in releases),
    ).dump()


def _namespaces(documents: Mapping[str, bytes]) -> bytes:
    pins = {publisher: _pin(data) for publisher, data in documents.items()}
    return NamespacesDocument.model_construct(publishers=pins).dump()


def _pin(document: bytes) -> Pinned:
    return Pinned(Digest.of(document), len(document))


def _publisher(admission: Admission) -> bytes:
    return PublisherDocument.model_construct(
        publisher=admission.publisher,
        keys=admission.keys,
        certificates=admission.certificates,
        revoked=admission.revoked,
        names=tuple(sorted(admission.names)),
    ).dump()
