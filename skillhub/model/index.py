"""The documents of a source: its public listing, and what a registry signs.

One bad entry refuses the whole document: a name is a path later on, and who can slip in one such entry can
slip in another. Unknown fields are ignored, as the Agent Skills Discovery specification asks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from skillhub.errors import FormatError
from skillhub.model.digest import Digest, is_hex
from skillhub.model.release import Admission, Index, Release, Revocation, newest_first
from skillhub.model.syntax.document import (
    Before,
    ExtensibleDocument,
    Items,
    Members,
    Read,
    Sha256,
    integer,
    text_that,
    version_of,
)
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


def _inner(read: Callable[[object], str]) -> Callable[[object], str]:
    """Return a reader that tells apart, of what ``read`` refuses, what would lead out."""

    def read_inner(value: object) -> str:
        try:
            return read(value)
        except FormatError as error:
            if isinstance(value, str) and (":" in value or not is_inner_path(value)):
                raise LeadsOut(error.message) from error
            raise

    return read_inner


def _is_url(text: str) -> bool:
    return bool(text) and not text.startswith("//") and _URL.fullmatch(text) is not None


_prose = text_that(lambda text: len(text) <= 1024, "a text of at most 1024 characters")


def _shown(value: object) -> str:
    return clean(_prose(value))


def _any_version(value: object) -> object:
    # Sites of others have versions of their own making; only a registry's signed documents owe us SemVer.
    return None if isinstance(value, str) and not is_version(value) else value


_Hex = Annotated[str, Read(text_that(is_hex, "64 lowercase hex digits"))]
_Label = Annotated[
    str, Read(text_that(lambda text: 1 <= len(text) <= 1024, "a text of 1 to 1024 characters"))
]
_Name = Annotated[str, Read(_inner(text_that(is_name, "a name of a-z, 0-9 and single hyphens, 64 at most")))]
_Path = Annotated[str, Read(_inner(text_that(_PATH.fullmatch, "a relative path without dot segments")))]
_Pem = Annotated[str, Read(text_that(lambda text: text.startswith("-----BEGIN "), "PEM"))]
_Shown = Annotated[str, Read(_shown)]
_Size = Annotated[int, integer(f"0 to {_MAX_SIZE}", _MAX_SIZE)]
_Time = Annotated[str, Read(text_that(_TIME.fullmatch, "a UTC time such as 2026-01-02T03:04:05Z"))]
_Url = Annotated[str, Read(_inner(text_that(_is_url, "a relative, http or https URL")))]
_Version = Annotated[str, Read(text_that(is_version, "a version by SemVer 2.0.0"))]
TYPES = ("archive", "skill-md")


class _Entry(ExtensibleDocument):
    name: _Name
    type: str
    description: _Shown
    version: Annotated[str | None, Before(_any_version)] = None
    published: _Time | None = None
    size: _Size | None = None
    tree: Sha256 | None = None
    requires: Items[_Label] = ()
    capabilities: Items[_Label] = ()
    yanked: _Shown | None = None
    withdrawn: _Shown | None = None
    url: _Url | None = None
    digest: Sha256 | None = None
    publisher: _Name | None = None

    def check(self) -> None:
        """Refuse an entry without an artifact.

        Raises:
            FormatError: it is one.
        """
        if self.type in TYPES and (self.url is None or self.digest is None):
            raise FormatError("expected url and digest")


class Listing(ExtensibleDocument):
    """``index.json``: what a registry offers, for everybody."""

    CAP = LISTING_CAP

    format: str = Field(alias="$schema")
    skills: Items[_Entry]


class _Facts(ExtensibleDocument):
    """What every signed document says of a release."""

    version: _Version
    published: _Time
    size: _Size
    tree: Sha256
    requires: Items[_Label] = ()
    capabilities: Items[_Label] = ()
    yanked: _Shown | None = None
    withdrawn: _Shown | None = None


class _SkillRelease(_Facts):
    url: _Url
    digest: Sha256


class _PublisherRelease(_Facts):
    name: _Name
    url: _Path
    sha256: _Hex


class _OfRegistry(ExtensibleDocument):
    """What only registries have: of another version of the format nothing else is told."""

    CAP = DOCUMENT_CAP

    version: Annotated[int, version_of("version", 1)] = 1


class SkillDocument(_OfRegistry):
    """``skills/<name>.json``: every release of a skill."""

    name: _Name
    publisher: _Name
    releases: Items[_SkillRelease]
    description: _Shown = ""


class ReleasesDocument(_OfRegistry):
    """``idx/<publisher>.json``: every release of a publisher."""

    publisher: _Name
    releases: Items[_PublisherRelease]


class _Revocation(ExtensibleDocument):
    fingerprint: Sha256
    since: _Time
    pem: _Pem


class PublisherDocument(_OfRegistry):
    """``publishers/<publisher>.json``: what a publisher is admitted to."""

    publisher: _Name
    keys: Items[_Pem] = ()
    certificates: Items[_Pem] = ()
    revoked: Items[_Revocation] = ()
    names: Items[_Name] = ()


class _Pinned(ExtensibleDocument):
    sha256: _Hex
    size: Annotated[int, integer(f"0 to {DOCUMENT_CAP}", DOCUMENT_CAP)]


class NamespacesDocument(_OfRegistry):
    """``ns/<2 hex>.json``: the document of each publisher of a bucket."""

    publishers: Members[_Name, _Pinned]


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
    document = Listing.parse(data, where)
    if document.format != SCHEMA:
        raise FormatError(f"expected $schema {SCHEMA}, found {quote(document.format)}", where=where)
    refuse_twice((entry.name for entry in document.skills), where)
    warnings = tuple(
        f"{entry.name}: skipped, its type {quote(entry.type)} is unknown"
        for entry in document.skills
        if entry.type not in TYPES
    )
    skills = {entry.name: (Release(**dict(entry)),) for entry in document.skills if entry.type in TYPES}
    return Index(skills, warnings=warnings)


def parse_skill(data: bytes, where: str) -> tuple[Release, ...]:
    """Return every release in a ``skills/<name>.json``, newest first.

    Raises:
        FormatError: it is malformed, holds no release, or one twice.
    """
    document = SkillDocument.parse(data, where)
    refuse_twice((release.version for release in document.releases), where)
    if not document.releases:
        raise FormatError("expected at least one release, found none", where=where)
    whole = {key: getattr(document, key) for key in ("name", "publisher", "description")}
    return newest_first(tuple(Release(**dict(release), **whole) for release in document.releases))


def parse_releases(data: bytes, where: str) -> tuple[str, tuple[Release, ...]]:
    """Return the publisher of an ``idx/<publisher>.json``, and all of its releases, newest first.

    Raises:
        FormatError: it is malformed, or holds a release twice.
    """
    document = ReleasesDocument.parse(data, where)
    refuse_twice((f"{release.name} {release.version}" for release in document.releases), where)
    releases = tuple(_released(document.publisher, **dict(release)) for release in document.releases)
    return document.publisher, newest_first(releases)


def _released(publisher: str, sha256: str, **facts: Any) -> Release:  # noqa: ANN401 - the fields of a release
    return Release(publisher=publisher, digest=Digest("sha256:" + sha256), **facts)


def parse_namespaces(data: bytes, where: str) -> Mapping[str, Pinned]:
    """Return the document of each publisher of an ``ns/<2 hex>.json``.

    Raises:
        FormatError: it is malformed.
    """
    publishers = NamespacesDocument.parse(data, where).publishers
    return {name: Pinned(Digest("sha256:" + each.sha256), each.size) for name, each in publishers.items()}


def parse_publisher(data: bytes, where: str) -> Admission:
    """Return what a ``publishers/<publisher>.json`` says of the publisher that it names.

    Raises:
        FormatError: it is malformed, or holds a name twice.
    """
    document = PublisherDocument.parse(data, where)
    refuse_twice(document.names, where)
    return Admission(
        publisher=document.publisher,
        keys=document.keys,
        certificates=document.certificates,
        revoked=tuple(Revocation(**dict(each)) for each in document.revoked),
        names=frozenset(document.names),
    )


def refuse_twice(values: Iterable[str], where: str) -> None:
    """Refuse a document in which one of these values is there twice.

    Raises:
        FormatError: one is.
    """
    for value, count in Counter(values).most_common(1):
        if count > 1:
            raise FormatError(f"expected {quote(value)} once, found it {count} times", where=where)
