"""The documents that a registry signs and serves, as bytes; ``model.index`` is the way back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from types import MappingProxyType

from skillhub.formats.digest import Digest
from skillhub.model.index import SCHEMA, Admission, Index, Pinned, Release
from skillhub.trust.metadata import path_of, publisher_target
from skillhub.trust.roles import WELL_KNOWN, index_path, namespace_path, skill_path

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
    rows = [
        _facts(each) | {"name": each.name, "sha256": each.digest.hex if each.digest else None, "url": each.url}
        for each in releases
    ]
    return _dump({"publisher": publisher, "releases": rows, "version": 1})


def _listing(index: Index, names: Iterable[str], home: str) -> bytes:
    rows = [
        _facts(newest)
        | _public(newest, home)
        | {
            "name": name,
            "type": newest.type,
            "description": newest.description,
            "publisher": newest.publisher,
            "releases": f"{home}{WELL_KNOWN}/{skill_path(name)}",
        }
        for name in sorted(names)
        for newest in [_best(index.skills[name])]
    ]
    return _dump({"$schema": SCHEMA, "skills": rows})


def _best(releases: tuple[Release, ...]) -> Release:
    """Return the newest release that one may choose; of those withdrawn, too, the newest."""
    return min(releases, key=lambda each: (each.withdrawn is not None, each.yanked is not None))


def _skill(name: str, releases: tuple[Release, ...]) -> bytes:
    newest = releases[0]
    rows = [_facts(each) | _public(each, "../../../") for each in releases]
    shared = {"name": name, "publisher": newest.publisher, "description": newest.description}
    return _dump({**shared, "releases": rows, "version": 1})


def _namespaces(documents: Mapping[str, bytes]) -> bytes:
    pins = {publisher: _pin(data) for publisher, data in documents.items()}
    rows = {publisher: {"sha256": pin.digest.hex, "size": pin.size} for publisher, pin in pins.items()}
    return _dump({"publishers": rows, "version": 1})


def _pin(document: bytes) -> Pinned:
    return Pinned(Digest.of(document), len(document))


def _publisher(admission: Admission) -> bytes:
    row = {
        "certificates": admission.certificates,
        "keys": admission.keys,
        "names": sorted(admission.names),
        "publisher": admission.publisher,
        "revoked": [asdict(gone) for gone in admission.revoked],
    }
    return _dump({**row, "version": 1})


def _facts(release: Release) -> dict[str, object]:
    fields = ("version", "published", "size", "tree", "requires", "capabilities", "yanked", "withdrawn")
    return {field: getattr(release, field) for field in fields}


def _public(release: Release, home: str) -> dict[str, object]:
    return {"url": home + release.url, "digest": release.digest}


def _dump(document: Mapping[str, object]) -> bytes:
    return (json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n").encode()
