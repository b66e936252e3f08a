"""What a well-known site says it offers: Agent Skills Discovery 0.2.0, and 0.1.0 as it was before.

One bad entry refuses the whole document, as in ``model.index``. But whoever runs such a site owes us nothing beyond
the specification: what an entry says beyond it and makes no sense is left out with a warning, and a description is
cut, not refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final, Literal
from urllib.parse import quote as percent_encoded
from urllib.parse import urljoin, urlsplit

from pydantic import Field

from skillhub.errors import FormatError
from skillhub.model.digest import Digest
from skillhub.model.index import LISTING_CAP, SCHEMA, TYPES, refuse_twice
from skillhub.model.release import Index, Release
from skillhub.model.syntax.document import ForeignDocument, Items, Read, text_that, wrong
from skillhub.model.syntax.json import strict_json
from skillhub.model.text import clean, is_inner_path, is_name, quote
from skillhub.model.tree import SKILL_MD
from skillhub.model.version import is_version

CURRENT: Final = "0.2.0"
LEGACY: Final = "0.1.0"
_DESCRIPTION_MAX = 1024
_SIZE_MAX = 256 * 1024 * 1024
_TIME = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ", re.ASCII)
# RFC 3986, 4.1, of http and https alone, with neither user nor password, and nothing left to escape.
_URL = re.compile(
    r"(?:(?:(?i:https?):)?//(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?=[/?#]|$)"
    r"|(?!//)(?![A-Za-z][A-Za-z0-9+.-]*:))"
    r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?#-]|%[0-9A-Fa-f]{2})*",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Discovered:
    """An index, and the version of the specification that it is of."""

    version: Literal["0.2.0", "0.1.0"]
    index: Index


def _described(value: object) -> str:
    return clean(_text(value))[:_DESCRIPTION_MAX]


def _is_file(path: str) -> bool:
    """Say whether it is a relative path that names one file; what else it may not be is for the archive's gate."""
    return clean(path) == path and is_inner_path(path)


def _files(value: object) -> tuple[str, ...]:
    found = tuple(map(_path, value)) if isinstance(value, list) else wrong("a list", value)
    if SKILL_MD not in found or len(set(found)) < len(found):
        wrong(f"{SKILL_MD} among the files, and each of them once", value)
    return found


_text = text_that(lambda text: True, "a text")
_path = text_that(_is_file, "a relative path without dot segments")
_Name = Annotated[str, Read(text_that(is_name, "a name of a-z, 0-9 and single hyphens, 64 at most"))]
_Described = Annotated[str, Read(_described)]
_Version = Annotated[str, Read(text_that(is_version, "a version by SemVer 2.0.0"))]
_Time = Annotated[str, Read(text_that(_TIME.fullmatch, "a UTC time such as 2026-01-02T03:04:05Z"))]


class _Head(ForeignDocument):
    """What every entry has; of an unknown type nothing else is read."""

    name: _Name
    type: Annotated[str, Read(_text)]


class _Offer(_Head):
    """An entry of a type that is read here; a key that is not of the specification may mean something else."""

    description: _Described
    url: Annotated[
        str, Read(text_that(lambda url: url and _URL.fullmatch(url), "a relative, http or https URL"))
    ]
    digest: Annotated[Digest, Read(Digest.parse)]
    version: _Version | None = None
    published: _Time | None = None
    size: Annotated[int, Field(ge=0, le=_SIZE_MAX)] | None = None
    yanked: _Described | None = None
    withdrawn: _Described | None = None


def _entry(value: object) -> _Head:
    head = _Head.model_validate(value)
    return _Offer.model_validate(value) if head.type in TYPES else head


class _LegacyEntry(ForeignDocument):
    name: _Name
    files: Annotated[tuple[str, ...], Read(_files)]
    description: _Described = ""
    version: _Version | None = None


class _Listing(ForeignDocument):
    """Agent Skills Discovery 0.2.0."""

    skills: Items[Annotated[_Head, Read(_entry)]]


class _LegacyListing(ForeignDocument):
    """Agent Skills Discovery 0.1.0."""

    skills: Items[_LegacyEntry]


def parse_discovery(data: bytes, url: str) -> Discovered:
    """Return what the ``index.json`` at ``url`` offers, its URLs resolved against that (RFC 3986, 5).

    Raises:
        FormatError: it is of neither version, or one of its entries is malformed or there twice.
    """
    document = strict_json(data, url, LISTING_CAP)
    # The schema is looked at first: another one may mean anything by the rest.
    schema = document.get("$schema") if isinstance(document, dict) else None
    if schema is None:
        return Discovered(LEGACY, _legacy(_LegacyListing.parse(document, url), url))
    if schema != SCHEMA:
        raise FormatError(
            f"expected $schema {SCHEMA}, found {quote(schema)}: nothing of it is used",
            where=url,
            hint="a newer skillhub may know it",
        )
    return Discovered(CURRENT, _current(_Listing.parse(document, url), url))


def _current(listing: _Listing, url: str) -> Index:
    refuse_twice((entry.name for entry in listing.skills), url)
    skills, skipped = {}, []
    for entry in listing.skills:
        if isinstance(entry, _Offer):
            facts = {key: getattr(entry, key) for key in _Offer.model_fields}
            skills[entry.name] = (Release(**facts | {"url": _resolved(url, entry.url)}),)
        else:
            skipped.append(f"{entry.name}: skipped, its type {quote(entry.type)} is unknown")
    return Index(skills, warnings=(*skipped, *listing.warnings()))


def _resolved(base: str, url: str) -> str:
    try:
        return urlsplit(urljoin(base, url)).geturl().partition("#")[0]
    except ValueError as error:  # what stands in brackets is no address
        raise FormatError(f"expected a URL, found {quote(url)}", where=base) from error


def _legacy(listing: _LegacyListing, url: str) -> Index:
    refuse_twice((entry.name for entry in listing.skills), url)
    skills = {}
    for entry in listing.skills:
        facts = {key: getattr(entry, key) for key in _LegacyEntry.model_fields}
        skills[entry.name] = (Release(**facts, type="files", url=urljoin(url, f"{entry.name}/")),)
    return Index(skills, warnings=listing.warnings())


def url_of(release: Release, path: str) -> str:
    """Return where one of the ``files`` of a release is."""
    return release.url + percent_encoded(path)
