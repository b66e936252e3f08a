"""The documents of a source: its public listing, and what a registry signs.

One bad entry refuses the whole document: a name is a path later on, and who can slip in one such entry can
slip in another. Unknown fields are ignored, as the Agent Skills Discovery specification asks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from skillhub.errors import FormatError
from skillhub.model.digest import Digest, is_hex
from skillhub.model.release import Admission, Index, Release, Revocation, newest_first
from skillhub.model.syntax.decode import (
    Read,
    array,
    integer,
    located,
    mapping,
    nullable,
    record,
    text,
    text_that,
    version_of,
)
from skillhub.model.syntax.json import strict_json
from skillhub.model.text import clean, is_inner_path, is_name, quote
from skillhub.model.version import is_version

SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
LISTING_CAP = 32 * 1024 * 1024
DOCUMENT_CAP = 5_000_000  # What python-tuf allows to a document of its own.
_MAX_SIZE = 256 * 1024 * 1024
_TIME = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ", re.ASCII)
# RFC 3986: absolute over http or https, with neither user nor password, or relative; nothing left to escape.
_URL = re.compile(
    r"(?:https?://[A-Za-z0-9._:\[\]-]+(?![^/?#])|(?![A-Za-z][A-Za-z0-9+.-]*:))[A-Za-z0-9._~!$&'()*+,;=:@%/?#-]*",
    re.ASCII,
)
_PATH = re.compile(r"[A-Za-z0-9_~+-][A-Za-z0-9._~+-]*(?:/[A-Za-z0-9_~+-][A-Za-z0-9._~+-]*)*", re.ASCII)


class LeadsOut(FormatError):
    """A name or a path that would lead out of its folder; of a registry it is `bad-metadata`."""

    code = "leads-out"


def _inner(read: Read) -> Read:
    """Return a reader that tells apart, of what ``read`` refuses, what would lead out."""

    def read_inner(value: object) -> str:
        try:
            found: str = read(value)
        except FormatError as error:
            if isinstance(value, str) and (":" in value or not is_inner_path(value)):
                raise LeadsOut(error.message) from error
            raise
        return found

    return read_inner


def _is_url(text: str) -> bool:
    return bool(text) and not text.startswith("//") and _URL.fullmatch(text) is not None


_name = _inner(text_that(is_name, "a name of a-z, 0-9 and single hyphens, 64 at most"))
_hex = text_that(is_hex, "64 lowercase hex digits")
_url = _inner(text_that(_is_url, "a relative, http or https URL"))
_path = _inner(text_that(_PATH.fullmatch, "a relative path without dot segments"))
_version = text_that(is_version, "a version by SemVer 2.0.0")
_time = text_that(_TIME.fullmatch, "a UTC time such as 2026-01-02T03:04:05Z")
_prose = text_that(lambda text: len(text) <= 1024, "a text of at most 1024 characters")
_label = text_that(lambda text: 1 <= len(text) <= 1024, "a text of 1 to 1024 characters")
_pem = text_that(lambda text: text.startswith("-----BEGIN "), "PEM")


def _shown(value: object) -> str:
    return clean(_prose(value))


def _any_version(value: object) -> str | None:
    # Sites of others have versions of their own making; only a registry's signed documents owe us SemVer.
    version = text(value)
    return version if is_version(version) else None


def _complete(value: object) -> dict[str, Any]:
    entry = _ENTRY(value)
    if entry["type"] in TYPES and (entry.get("url") is None or entry.get("digest") is None):
        raise FormatError("expected url and digest")
    return entry


# What every document of ours says of a release.
FACTS: Mapping[str, Read] = {
    "version": _version,
    "published": _time,
    "size": integer(f"0 to {_MAX_SIZE}", _MAX_SIZE),
    "tree": Digest.parse,
}
_MORE: Mapping[str, Read] = {
    "requires": array(_label),
    "capabilities": array(_label),
    "yanked": nullable(_shown),
    "withdrawn": nullable(_shown),
}
TYPES = ("archive", "skill-md")
_ENTRY = record(
    {"name": _name, "type": text, "description": _shown},
    {
        **{key: nullable(read) for key, read in FACTS.items()},
        **_MORE,
        "version": nullable(_any_version),
        "url": nullable(_url),
        "digest": nullable(Digest.parse),
        "publisher": nullable(_name),
    },
)
_LISTING = record({"$schema": text, "skills": array(_complete)})
_FORMAT = record({}, {"version": version_of("version", 1)})


def _of_registry(
    needed: Mapping[str, Read], optional: Mapping[str, Read] | None = None
) -> Callable[[object], dict[str, Any]]:
    """Return a reader of what only registries have: of another version of the format nothing else is read."""
    read = record(needed, optional)

    def read_versioned(value: object) -> dict[str, Any]:
        _FORMAT(value)
        return read(value)

    return read_versioned


_SKILL = _of_registry(
    {
        "name": _name,
        "publisher": _name,
        "releases": array(record({**FACTS, "url": _url, "digest": Digest.parse}, _MORE)),
    },
    {"description": _shown},
)
_RELEASES = _of_registry(
    {
        "publisher": _name,
        "releases": array(record({**FACTS, "name": _name, "url": _path, "sha256": _hex}, _MORE)),
    }
)
_REVOCATION = record({"fingerprint": Digest.parse, "since": _time, "pem": _pem})
_PUBLISHER = _of_registry(
    {"publisher": _name},
    {
        "keys": array(_pem),
        "certificates": array(_pem),
        "revoked": array(lambda value: Revocation(**_REVOCATION(value))),
        "names": array(_name),
    },
)
_PINNED = record({"sha256": _hex, "size": integer(f"0 to {DOCUMENT_CAP}", DOCUMENT_CAP)})
_NAMESPACES = _of_registry({"publishers": mapping(_name, _PINNED)})


@dataclass(frozen=True, slots=True)
class Pinned:
    """What a signed document says of another one: the digest and the number of its bytes."""

    digest: Digest
    size: int


def parse_listing(data: bytes, where: str) -> Index:
    """Return what the ``index.json`` of a site offers (Agent Skills Discovery v0.2.0), one release a name.

    Raises:
        FormatError: it is not of that version, or one of its entries is malformed or there twice.
    """
    document = _parse(_LISTING, data, where, LISTING_CAP)
    if document["$schema"] != SCHEMA:
        raise FormatError(f"expected $schema {SCHEMA}, found {quote(document['$schema'])}", where=where)
    entries = document["skills"]
    refuse_twice((entry["name"] for entry in entries), where)
    warnings = tuple(
        f"{entry['name']}: skipped, its type {quote(entry['type'])} is unknown"
        for entry in entries
        if entry["type"] not in TYPES
    )
    skills = {entry["name"]: (Release(**entry),) for entry in entries if entry["type"] in TYPES}
    return Index(skills, warnings=warnings)


def parse_skill(data: bytes, where: str) -> tuple[Release, ...]:
    """Return every release in a ``skills/<name>.json``, newest first.

    Raises:
        FormatError: it is malformed, holds no release, or one twice.
    """
    document = _parse(_SKILL, data, where, DOCUMENT_CAP)
    releases = document.pop("releases")
    refuse_twice((release["version"] for release in releases), where)
    if not releases:
        raise FormatError("expected at least one release, found none", where=where)
    return newest_first(tuple(Release(**release, **document) for release in releases))


def parse_releases(data: bytes, where: str) -> tuple[str, tuple[Release, ...]]:
    """Return the publisher of an ``idx/<publisher>.json``, and all of its releases, newest first.

    Raises:
        FormatError: it is malformed, or holds a release twice.
    """
    document = _parse(_RELEASES, data, where, DOCUMENT_CAP)
    publisher, releases = document["publisher"], document["releases"]
    refuse_twice((f"{release['name']} {release['version']}" for release in releases), where)
    return publisher, newest_first(tuple(_released(publisher, **release) for release in releases))


def _released(publisher: str, sha256: str, **facts: Any) -> Release:  # noqa: ANN401 - as the readers gave them
    return Release(publisher=publisher, digest=Digest("sha256:" + sha256), **facts)


def parse_namespaces(data: bytes, where: str) -> Mapping[str, Pinned]:
    """Return the document of each publisher of an ``ns/<2 hex>.json``.

    Raises:
        FormatError: it is malformed.
    """
    publishers = _parse(_NAMESPACES, data, where, DOCUMENT_CAP)["publishers"]
    return {
        name: Pinned(Digest("sha256:" + entry["sha256"]), entry["size"]) for name, entry in publishers.items()
    }


def parse_publisher(data: bytes, where: str) -> Admission:
    """Return what a ``publishers/<publisher>.json`` says of the publisher that it names.

    Raises:
        FormatError: it is malformed, or holds a name twice.
    """
    document = _parse(_PUBLISHER, data, where, DOCUMENT_CAP)
    names = document.pop("names", ())
    refuse_twice(names, where)
    return Admission(**document, names=frozenset(names))


def _parse(read: Callable[[object], dict[str, Any]], data: bytes, where: str, cap: int) -> dict[str, Any]:
    document = strict_json(data, where, cap)
    with located(where):
        return read(document)


def refuse_twice(values: Iterable[str], where: str) -> None:
    """Refuse a document in which one of these values is there twice.

    Raises:
        FormatError: one is.
    """
    for value, count in Counter(values).most_common(1):
        if count > 1:
            raise FormatError(f"expected {quote(value)} once, found it {count} times", where=where)
