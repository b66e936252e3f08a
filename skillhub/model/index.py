"""The documents of a source: its public listing, and what a registry signs.

One bad entry refuses the whole document: a name is a path later on, and who can slip in one such entry can
slip in another. Unknown fields are ignored, as the Agent Skills Discovery specification asks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from skillhub.errors import FormatError
from skillhub.model.digest import Digest
from skillhub.model.json import strict_json
from skillhub.model.release import Admission, Index, Release, Revocation, newest_first
from skillhub.model.text import clean, is_name, quote
from skillhub.model.version import is_version

SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
LISTING_CAP = 32 * 1024 * 1024
DOCUMENT_CAP = 5_000_000  # What python-tuf allows to a document of its own.
_MAX_SIZE = 256 * 1024 * 1024
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)
_TIME = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ", re.ASCII)
# RFC 3986: absolute over http or https, with neither user nor password, or relative; nothing left to escape.
_URL = re.compile(
    r"(?:https?://[A-Za-z0-9._:\[\]-]+(?![^/?#])|(?![A-Za-z][A-Za-z0-9+.-]*:))[A-Za-z0-9._~!$&'()*+,;=:@%/?#-]*",
    re.ASCII,
)
_PATH = re.compile(r"[A-Za-z0-9_~+-][A-Za-z0-9._~+-]*(?:/[A-Za-z0-9_~+-][A-Za-z0-9._~+-]*)*", re.ASCII)


def _must(holds: Callable[[str], object], expected: str) -> AfterValidator:
    def check(text: str) -> str:
        if not holds(text):
            raise ValueError(f"expected {expected}, found {quote(text)}")
        return text

    return AfterValidator(check)


def _is_url(text: str) -> bool:
    return bool(text) and not text.startswith("//") and _URL.fullmatch(text) is not None


Name = Annotated[str, _must(is_name, "a name of a-z, 0-9 and single hyphens, 64 at most")]
Sha = Annotated[
    str,
    _must(lambda text: text.startswith("sha256:") and _HEX.fullmatch(text[7:]), "sha256: and 64 hex digits"),
    AfterValidator(Digest),
]
Hex = Annotated[str, _must(_HEX.fullmatch, "64 lowercase hex digits")]
Url = Annotated[str, _must(_is_url, "a relative, http or https URL")]
Path = Annotated[str, _must(_PATH.fullmatch, "a relative path without dot segments")]
Version = Annotated[str, _must(is_version, "a version by SemVer 2.0.0")]
Time = Annotated[str, _must(_TIME.fullmatch, "a UTC time such as 2026-01-02T03:04:05Z")]
Size = Annotated[int, Field(ge=0, le=_MAX_SIZE)]
Reason = Annotated[str, Field(max_length=1024), AfterValidator(clean)]
Labels = tuple[Annotated[str, Field(min_length=1, max_length=1024)], ...]
Pem = Annotated[str, _must(lambda text: text.startswith("-----BEGIN "), "PEM")]


class _Document(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class _Facts(_Document):
    """What every document of ours says of a release."""

    version: Version | None = None
    published: Time | None = None
    size: Size | None = None
    tree: Sha | None = None
    requires: Labels = ()
    capabilities: Labels = ()
    yanked: Reason | None = None
    withdrawn: Reason | None = None

    def release(self, **more: object) -> Release:
        facts = {field: getattr(self, field) for field in _Facts.model_fields}
        return Release(**{**facts, **more})


class _Entry(_Facts):
    name: Name
    type: str
    description: Annotated[str, Field(max_length=1024), AfterValidator(clean)]
    # Sites of others have versions of their own making; only a registry's signed documents owe us SemVer.
    version: Annotated[str, AfterValidator(lambda text: text if is_version(text) else None)] | None = None
    url: Url | None = None
    digest: Sha | None = None
    publisher: Name | None = None

    @property
    def known(self) -> bool:
        return self.type in ("archive", "skill-md")

    @model_validator(mode="after")
    def _complete(self) -> _Entry:
        if self.known and (self.url is None or self.digest is None):
            raise ValueError("expected url and digest")
        return self


class _Listing(_Document):
    schema_: Annotated[str, Field(alias="$schema")]
    skills: tuple[_Entry, ...]


class _Published(_Facts):
    """A release of a registry, complete."""

    version: Version
    published: Time
    size: Size
    tree: Sha


class _SkillRelease(_Published):
    url: Url
    digest: Sha


class _Skill(_Document):
    name: Name
    publisher: Name
    description: Annotated[str, Field(max_length=1024), AfterValidator(clean)] = ""
    releases: tuple[_SkillRelease, ...]


class _IndexRelease(_Published):
    name: Name
    sha256: Hex
    url: Path


class _Releases(_Document):
    publisher: Name
    releases: tuple[_IndexRelease, ...]


class _Revocation(_Document):
    fingerprint: Sha
    since: Time
    pem: Pem


class _Publisher(_Document):
    keys: tuple[Pem, ...] = ()
    certificates: tuple[Pem, ...] = ()
    revoked: tuple[_Revocation, ...] = ()
    names: tuple[Name, ...] = ()


class _Namespaces(_Document):
    publishers: dict[Name, _Publisher]


def parse_listing(data: bytes, where: str) -> Index:
    """Return what the ``index.json`` of a site offers (Agent Skills Discovery v0.2.0), one release a name.

    Raises:
        FormatError: it is not of that version, or one of its entries is malformed or there twice.
    """
    document = _parse(_Listing, data, where, LISTING_CAP)
    if document.schema_ != SCHEMA:
        raise FormatError(f"expected $schema {SCHEMA}, found {quote(document.schema_)}", where=where)
    _refuse_twice((entry.name for entry in document.skills), where)
    warnings = tuple(
        f"{entry.name}: skipped, its type {quote(entry.type)} is unknown"
        for entry in document.skills
        if not entry.known
    )
    skills = {
        entry.name: (
            entry.release(
                name=entry.name,
                type=entry.type,
                description=entry.description,
                url=entry.url,
                digest=entry.digest,
                publisher=entry.publisher,
            ),
        )
        for entry in document.skills
        if entry.known
    }
    return Index(skills, warnings=warnings)


def parse_skill(data: bytes, where: str) -> tuple[Release, ...]:
    """Return every release in a ``skills/<name>.json``, newest first.

    Raises:
        FormatError: it is malformed, holds no release, or one twice.
    """
    document = _parse(_Skill, data, where, DOCUMENT_CAP)
    _refuse_twice((release.version for release in document.releases), where)
    if not document.releases:
        raise FormatError("expected at least one release, found none", where=where)
    shared = {field: getattr(document, field) for field in ("name", "publisher", "description")}
    return newest_first(
        tuple(each.release(url=each.url, digest=each.digest, **shared) for each in document.releases)
    )


def parse_releases(data: bytes, where: str) -> tuple[str, tuple[Release, ...]]:
    """Return the publisher of an ``idx/<publisher>.json``, and all of its releases, newest first.

    Raises:
        FormatError: it is malformed, or holds a release twice.
    """
    document = _parse(_Releases, data, where, DOCUMENT_CAP)
    _refuse_twice((f"{each.name} {each.version}" for each in document.releases), where)
    return document.publisher, newest_first(
        tuple(
            each.release(
                name=each.name,
                publisher=document.publisher,
                url=each.url,
                digest=Digest("sha256:" + each.sha256),
            )
            for each in document.releases
        )
    )


def parse_namespaces(data: bytes, where: str) -> Mapping[str, Admission]:
    """Return the publishers of an ``ns/<2 hex>.json``.

    Raises:
        FormatError: it is malformed, or gives one name to two publishers.
    """
    document = _parse(_Namespaces, data, where, DOCUMENT_CAP)
    _refuse_twice((name for each in document.publishers.values() for name in each.names), where)
    return {
        publisher: Admission(
            publisher=publisher,
            keys=entry.keys,
            certificates=entry.certificates,
            revoked=tuple(
                Revocation(Digest(each.fingerprint), each.since, each.pem) for each in entry.revoked
            ),
            names=frozenset(entry.names),
        )
        for publisher, entry in document.publishers.items()
    }


_Model = TypeVar("_Model", bound=_Document)


def _parse(model: type[_Model], data: bytes, where: str, cap: int) -> _Model:
    # pydantic's own parser takes the last of two equal keys, so ours looks first; but only where pydantic has
    # parsed the JSON itself does its strict mode take an array for a tuple.
    strict_json(data, where, cap)
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = "".join(
            f"[{part}]" if isinstance(part, int) else f".{quote(part)[1:-1]}" for part in first["loc"]
        )
        raise FormatError(f"{first['msg'].removeprefix('Value error, ')}", where=f"{where} {path}") from error


def _refuse_twice(values: Iterable[str], where: str) -> None:
    for value, count in Counter(values).most_common(1):
        if count > 1:
            raise FormatError(f"expected {quote(value)} once, found it {count} times", where=where)
