"""What a well-known site says it offers: Agent Skills Discovery 0.2.0, and 0.1.0 as it was before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal
from urllib.parse import quote as percent_encoded
from urllib.parse import urljoin, urlsplit

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator

from skillhub.errors import FormatError
from skillhub.formats.document import (
    NAME,
    ForeignDocument,
    Ignored,
    Items,
    Lenient,
    Read,
    Sha256,
    few,
    text_that,
    wrong,
)
from skillhub.formats.json import strict_json
from skillhub.formats.text import clean, is_inner_path, quote
from skillhub.model.index import LISTING_CAP, SCHEMA, TYPES, Index, Release, SemVer, UtcTime, a_name, refuse_twice
from skillhub.model.tree import SKILL_MD

# One bad entry refuses the whole document, as in ``model.index``; only of files at a URL that is no well-known
# place it is skipped, and named, as OpenCode does. But whoever runs such a site owes us nothing
# beyond the specification: what an entry says beyond it and makes no sense is left out with a warning, and a
# description is cut, not refused.

CURRENT: Final = "0.2.0"
LEGACY: Final = "0.1.0"
_DESCRIPTION_MAX = 1024
_SIZE_MAX = 256 * 1024 * 1024
# RFC 3986, 4.1, of http and https alone, with neither user nor password, and nothing left to escape.
_SITE_URL = re.compile(
    r"(?:(?:(?i:https?):)?//(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?=[/?#]|$)"
    r"|(?!//)(?![A-Za-z][A-Za-z0-9+.-]*:))"
    r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?#-]|%[0-9A-Fa-f]{2})*",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class DiscoveredSite:
    """An index, and the version of the specification that it is of."""

    version: Literal["0.2.0", "0.1.0"]
    index: Index


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
_SiteName = Annotated[str, Read(a_name, **NAME)]
_Described = Annotated[str, Read(lambda value: clean(_text(value))[:_DESCRIPTION_MAX], type="string")]


class _Head(ForeignDocument):
    """What every entry has; of an unknown type nothing else is read."""

    name: _SiteName
    type: Annotated[str, Read(_text, type="string")]


class _Offer(_Head):
    """An entry of a type that is read here; a key that is not of the specification may mean something else."""

    description: _Described
    url: Annotated[
        str,
        Read(
            text_that(lambda url: url and _SITE_URL.fullmatch(url), "a relative, http or https URL"),
            type="string",
            format="uri-reference",
        ),
    ]
    digest: Sha256
    version: SemVer | None = None
    published: UtcTime | None = None
    size: Annotated[int, Field(ge=0, le=_SIZE_MAX)] | None = None
    yanked: _Described | None = None
    withdrawn: _Described | None = None


def _offer_or_head(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    head = _Head.model_validate(value)
    return handler(value) if head.type in TYPES else head


class _LegacyEntry(ForeignDocument):
    name: _SiteName
    files: Annotated[
        tuple[str, ...], Read(_files, type="array", items={"type": "string"}, contains={"const": SKILL_MD})
    ]
    description: _Described = ""
    version: SemVer | None = None


class DiscoveryListing(ForeignDocument):
    """Agent Skills Discovery 0.2.0."""

    skills: Items[Annotated[_Offer, WrapValidator(_offer_or_head)]]


class LegacyDiscoveryListing(ForeignDocument):
    """Agent Skills Discovery 0.1.0."""

    skills: Items[_LegacyEntry]


class FilesListing(ForeignDocument):
    """Entries of 0.1.0 at a URL that is no well-known place, as of OpenCode's ``skills.urls``."""

    CAP = LISTING_CAP

    skills: Items[Lenient[_LegacyEntry]]

    def offered(self, url: str) -> tuple[Release | FormatError, ...]:
        """Return, for each entry, what it offers, or why it is skipped; of two of one name the first counts."""
        found: list[Release | FormatError] = []
        names: set[str] = set()
        for number, entry in enumerate(self.skills):
            where = f"{url}: skills[{number}]"
            if isinstance(entry, Ignored):
                name = entry.found.get("name") if isinstance(entry.found, Mapping) else None
                named = f"{quote(name)}: " if isinstance(name, str) else ""
                found.append(FormatError(named + entry.message, where=where))
            elif entry.name in names:
                found.append(FormatError(f"{quote(entry.name)} occurs twice", where=where))
            else:
                names.add(entry.name)
                found.append(_of_files(entry, url))
        return tuple(found)


def parse_discovery(data: bytes, url: str, well_known: bool = True) -> DiscoveredSite:
    """Return what the ``index.json`` at ``url`` offers, its URLs resolved against that (RFC 3986, 5).

    Args:
        data: The document.
        url: Where it was in the end.
        well_known: Whether it is at a well-known place; else invalid entries without a digest are skipped.

    Raises:
        FormatError: it is of neither version, or one of its entries is malformed or there twice.
    """
    document = strict_json(data, url, LISTING_CAP)
    # The schema is looked at first: another one may mean anything by the rest.
    schema = document.get("$schema") if isinstance(document, dict) else None
    if schema is None and not well_known:
        return DiscoveredSite(LEGACY, _by_files(FilesListing.parse(document, url), url))
    if schema is None:
        return DiscoveredSite(LEGACY, _legacy(LegacyDiscoveryListing.parse(document, url), url))
    if schema != SCHEMA:
        raise FormatError(
            f"expected $schema {SCHEMA}, found {quote(schema)}: nothing of it is used",
            where=url,
            hint="a newer version of skillhub may support it",
        )
    return DiscoveredSite(CURRENT, _current(DiscoveryListing.parse(document, url), url))


def _current(listing: DiscoveryListing, url: str) -> Index:
    refuse_twice((entry.name for entry in listing.skills), url)
    skills: dict[str, tuple[Release, ...]] = {}
    skipped: list[str] = []
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


def _legacy(listing: LegacyDiscoveryListing, url: str) -> Index:
    refuse_twice((entry.name for entry in listing.skills), url)
    return Index({entry.name: (_of_files(entry, url),) for entry in listing.skills}, warnings=listing.warnings())


def _of_files(entry: _LegacyEntry, url: str) -> Release:
    facts = {key: getattr(entry, key) for key in _LegacyEntry.model_fields}
    return Release(**facts, type="files", url=urljoin(url, f"{entry.name}/"))


def _by_files(listing: FilesListing, url: str) -> Index:
    skills: dict[str, tuple[Release, ...]] = {}
    warnings: list[str] = []
    for number, (entry, each) in enumerate(zip(listing.skills, listing.offered(url), strict=True)):
        if isinstance(each, FormatError):
            warnings.append(f"skills[{number}]: {each.message}; skipped")
            continue
        skills[each.name] = (each,)
        if not isinstance(entry, Ignored):
            warnings += [f"skills[{number}].{path}: {message}; ignored" for path, message in entry.ignored()]
    return Index(skills, warnings=few(warnings))


def url_of(release: Release, path: str) -> str:
    """Return where one of the ``files`` of a release is."""
    return release.url + percent_encoded(path)
