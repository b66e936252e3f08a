"""The documents that registries sign, and the listings of sites by Agent Skills Discovery 0.2.0 and 0.1.0."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self
from urllib.parse import quote as percent_encode
from urllib.parse import urljoin, urlsplit

from pydantic import ConfigDict, Field, PlainSerializer, ValidatorFunctionWrapHandler, WrapValidator

from skillhub.errors import FormatError, NameNotOwned
from skillhub.formats.digest import Digest, is_hex
from skillhub.formats.document import (
    NAME,
    Absent,
    Before,
    ExtensibleDocument,
    ForeignDocument,
    Ignored,
    Items,
    Lenient,
    Members,
    Read,
    Sha256,
    few,
    integer,
    matching,
    part,
    text_that,
    version_of,
    wrong,
)
from skillhub.formats.json import refuse_many, strict_json
from skillhub.formats.text import NAME_RULE, clean, is_inner_path, is_name, quote
from skillhub.model.index import DOCUMENT_CAP, Admission, Index, Pem, Release, Revocation, UtcTime, newest_first
from skillhub.model.tree import SKILL_MD
from skillhub.model.version import VERSION_PATTERN, is_version

# The public listing of a source, and the documents that a registry signs. One bad entry refuses the whole document: a
# name becomes a path, and an attacker who can add one bad entry can add another. Unknown fields are ignored, as the
# specification demands.

SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
LISTING_CAP = 32 * 1024 * 1024
PART_CAP = 256 * 1024
_SKILLS_MAX = 50_000  # of a listing; a registry has about 36,000 in one
_MAX_SIZE = 256 * 1024 * 1024
# RFC 3986: absolute over http or https, without user and password, or relative; every character needs no escape.
_URL = re.compile(
    r"(?a)(?:https?://[A-Za-z0-9._:\[\]-]+(?![^/?#])|(?![A-Za-z][A-Za-z0-9+.-]*:))[A-Za-z0-9._~!$&'()*+,;=:@%/?#-]*"
)
_PATH = re.compile(r"[A-Za-z0-9_~+-][A-Za-z0-9._~+-]*(?:/[A-Za-z0-9_~+-][A-Za-z0-9._~+-]*)*", re.ASCII)


_PATHS = {"type": "string", "pattern": f"^{_PATH.pattern}$"}


class LeadsOut(FormatError):
    """A name or a path leads outside its folder; in a registry's document the code is `bad-metadata`."""

    code = "leads-out"


def _inner(read: Callable[[object], str]) -> Callable[[object], str]:
    """Return a reader like ``read`` that raises ``LeadsOut`` for a refused value that leads outside its folder."""

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


def _any_version(value: object) -> object:
    # Sites may have versions in any form; only the signed documents of a registry must follow SemVer.
    return None if isinstance(value, str) and not is_version(value) else value


_hex = text_that(is_hex, "64 lowercase hex digits")
_FromHex = Annotated[
    Digest,
    Read(lambda value: Digest(f"sha256:{_hex(value)}"), type="string", pattern="^[0-9a-f]{64}$"),
    PlainSerializer(lambda digest: digest and digest[7:]),
    Field(alias="sha256"),
]
_Label = Annotated[str, matching(re.compile(r"[\s\S]{1,1024}"), "a text of 1 to 1024 characters")]
a_name = text_that(is_name, f"a name of {NAME_RULE}")
_Name = Annotated[str, Read(_inner(a_name), **NAME)]
_Path = Annotated[str, Read(_inner(text_that(_PATH.fullmatch, "a relative path without dot segments")), **_PATHS)]
_Shown = Annotated[str, Read(lambda value: clean(_prose(value)), type="string", maxLength=1024)]
_Size = Annotated[int, integer(f"0 to {_MAX_SIZE}", _MAX_SIZE)]
_Url = Annotated[
    str, Read(_inner(text_that(_is_url, "a relative, http or https URL")), type="string", format="uri-reference")
]
SemVer = Annotated[
    str, Read(text_that(is_version, "a version by SemVer 2.0.0"), type="string", pattern=VERSION_PATTERN)
]
TYPES = ("archive", "skill-md")


class _Published(ExtensibleDocument):
    """A document that a registry signs or serves: on one line, keys sorted, null for an absent value."""

    def dump(self) -> bytes:
        """Return the document's bytes; the same content gives the same bytes."""
        value = self.model_dump(by_alias=True)
        return (json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n").encode()


class _Row(ExtensibleDocument):
    """A release in a document."""

    requires: Items[_Label] = ()
    capabilities: Items[_Label] = ()
    yanked: _Shown | None = None
    withdrawn: _Shown | None = None

    @classmethod
    def of(cls, release: Release, **others: object) -> Self:
        """Return the row of a release; ``others`` adds values and replaces those of the release."""
        facts = {name: getattr(release, name) for name in cls.model_fields if hasattr(release, name)}
        return cls.model_construct(**facts | others)


class IndexEntry(_Row):
    """An entry of ``index.json``: the newest release of a skill."""

    name: _Name
    type: str
    description: _Shown
    version: Annotated[str | None, Before(_any_version)] = None
    published: UtcTime | None = None
    size: _Size | None = None
    tree: Sha256 | None = None
    url: _Url | None = None
    digest: Sha256 | None = None
    publisher: _Name | None = None
    releases: Annotated[str | None, Before(lambda value: value if isinstance(value, str) else None)] = None

    def check(self) -> None:
        """Refuse an entry without an artifact.

        Raises:
            FormatError: ``url`` or ``digest`` is absent.
        """
        if self.type in TYPES and (self.url is None or self.digest is None):
            raise FormatError("expected url and digest")


class IndexListing(_Published):
    """``index.json``: the newest release of each skill of a registry, for every client."""

    CAP = LISTING_CAP

    format: str = Field(SCHEMA, alias="$schema")
    skills: Items[IndexEntry]


class SkillRelease(_Row):
    """A release, in the document of its skill."""

    version: SemVer
    published: UtcTime
    size: _Size
    tree: Sha256
    url: _Url
    digest: Sha256


class PublisherRelease(SkillRelease):
    """A release, in the document of its publisher."""

    name: _Name
    url: _Path
    digest: _FromHex
    log: Absent[Annotated[int, integer("a position")]] = Field(None, exclude_if=lambda position: position is None)


class _OfRegistry(_Published):
    """A document that only registries have; another version of the format is refused before any other key is read."""

    CAP = DOCUMENT_CAP

    version: Annotated[int, version_of("version", 1)] = 1


class SkillDocument(_OfRegistry):
    """``skills/<name>.json``: every release of a skill."""

    name: _Name
    publisher: _Name
    releases: Items[SkillRelease]
    description: _Shown = ""


class ReleasesDocument(_OfRegistry):
    """``idx/<publisher>.json``: every release of a publisher."""

    publisher: _Name
    releases: Items[PublisherRelease]


ADMITTED = ("publisher", "keys", "certificates", "revoked")  # as an ``Admission`` has them, too


class PublisherDocument(_OfRegistry):
    """``publishers/<publisher>.json``: the keys, certificates and names that a publisher is admitted with."""

    publisher: _Name
    keys: Items[Pem] = ()
    certificates: Items[Pem] = ()
    revoked: Items[Revocation] = ()
    names: Items[_Name] = ()


@part
@dataclass(frozen=True, slots=True)
class Pinned:
    """The digest and the size in bytes of a document, as a signed document states them."""

    CONFIG: ClassVar = ConfigDict(extra="ignore")

    digest: _FromHex
    size: Annotated[int, integer(f"0 to {DOCUMENT_CAP}", DOCUMENT_CAP)]


class NamespacesDocument(_OfRegistry):
    """``ns/<2 hex>.json``: the document of each publisher of a bucket."""

    publishers: Members[_Name, Pinned]


@part
@dataclass(frozen=True, slots=True)
class PinnedPart(Pinned):
    """The digest and size of a part below this part; ``count`` is the number of its rows."""

    size: Annotated[int, integer(f"0 to {PART_CAP}", PART_CAP)]
    count: Annotated[int, integer("a number of rows")]


class PartRow(ExtensibleDocument):
    """A skill under one word of it, in a part of a large listing; ``document`` pins its ``skills/<name>.json``."""

    key: Annotated[str, matching(re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*--[a-z0-9-]{1,64}\."), "words and a name")]
    name: _Name
    publisher: _Name
    version: SemVer
    description: _Shown
    yanked: Absent[_Shown] = Field(None, exclude_if=lambda why: why is None)
    withdrawn: Absent[_Shown] = Field(None, exclude_if=lambda why: why is None)
    document: Absent[Pinned] = Field(None, exclude_if=lambda pinned: pinned is None)


_Prefix = Annotated[str, matching(re.compile(r"[a-z0-9-]{0,160}\.?"), "the beginning of a key")]


class PartDocument(_OfRegistry):
    """A part of a large listing: every row whose key begins with ``prefix``, or the best of them and ``parts``."""

    CAP = PART_CAP

    prefix: _Prefix
    count: Annotated[int, integer("a number of rows")]
    rows: Items[PartRow]
    parts: Members[_Prefix, PinnedPart]


ReadPart = Callable[[str, PinnedPart], PartDocument]  # by its prefix


def parse_listing(data: bytes, where: str) -> Index:
    """Return the skills in the ``index.json`` of a site (Agent Skills Discovery v0.2.0), one release for each name.

    Raises:
        FormatError: the document has another version, or an entry is malformed or occurs twice.
    """
    document = IndexListing.parse(_read_listing(data, where), where)
    if document.format != SCHEMA:
        raise FormatError(f"expected $schema {SCHEMA}, found {quote(document.format)}", where=where)
    refuse_twice((entry.name for entry in document.skills), where)
    unknown = (entry for entry in document.skills if entry.type not in TYPES)
    warnings = few([f"{entry.name}: skipped, its type {quote(entry.type)} is unknown" for entry in unknown])
    rows = (entry.model_dump(exclude={"releases"}) for entry in document.skills if entry.type in TYPES)
    skills = {row["name"]: (Release(**row),) for row in rows}
    return Index(skills, warnings=warnings)


def _read_listing(data: bytes, where: str) -> object:
    """Return the JSON of a listing that anybody may have written, if it is not too large for the memory."""
    refuse_many(data, where)
    document = strict_json(data, where, LISTING_CAP)
    skills = document.get("skills") if isinstance(document, dict) else None
    if isinstance(skills, list) and len(skills) > _SKILLS_MAX:
        raise FormatError(f"expected at most {_SKILLS_MAX} skills in a list, found {len(skills)}", where=where)
    return document


def parse_skill(data: bytes, where: str) -> tuple[Release, ...]:
    """Return every release in a ``skills/<name>.json``, newest first.

    Raises:
        FormatError: the document is malformed, holds no release, or holds one twice.
    """
    document = SkillDocument.parse(data, where)
    refuse_twice((release.version for release in document.releases), where)
    if not document.releases:
        raise FormatError("expected at least one release, found none", where=where)
    shared = {key: getattr(document, key) for key in ("name", "publisher", "description")}
    return newest_first(tuple(Release(**dict(release), **shared) for release in document.releases))


def parse_releases(data: bytes, where: str) -> tuple[str, tuple[Release, ...]]:
    """Return the publisher of an ``idx/<publisher>.json`` and all its releases, newest first.

    Raises:
        FormatError: the document is malformed, or holds a release twice.
    """
    document = ReleasesDocument.parse(data, where)
    refuse_twice((f"{release.name} {release.version}" for release in document.releases), where)
    releases = tuple(Release(publisher=document.publisher, **dict(release)) for release in document.releases)
    return document.publisher, newest_first(releases)


def parse_namespaces(data: bytes, where: str) -> Mapping[str, Pinned]:
    """Return digest and size of the document of each publisher in an ``ns/<2 hex>.json``.

    Raises:
        FormatError: the document is malformed.
    """
    return NamespacesDocument.parse(data, where).publishers


def parse_publisher(data: bytes, where: str) -> Admission:
    """Return the admission in a ``publishers/<publisher>.json``.

    Raises:
        FormatError: the document is malformed, or holds a name twice.
    """
    document = PublisherDocument.parse(data, where)
    refuse_twice(document.names, where)
    facts = {fact: getattr(document, fact) for fact in ADMITTED}
    return Admission(**facts, names=frozenset(document.names))


def admitted(publisher: str, data: bytes, where: str) -> Admission:
    """Return the admission in the document of ``publisher``.

    Raises:
        FormatError: the document is malformed.
        NameNotOwned: it is the document of another publisher.
    """
    document = parse_publisher(data, where)
    if document.publisher != publisher:
        raise NameNotOwned(f"expected publisher {quote(publisher)}, found {quote(document.publisher)}", where=where)
    return document


def refuse_twice(values: Iterable[str], where: str) -> None:
    """Refuse a document in which one of these values occurs twice.

    Raises:
        FormatError: one does.
    """
    for value, count in Counter(values).most_common(1):
        if count > 1:
            raise FormatError(f"expected {quote(value)} once, found it {count} times", where=where)


# The listing of a well-known site.

# One bad entry refuses the whole document, as above; only in a listing of files at a URL that is no well-known place
# a bad entry is skipped with a warning, as in OpenCode. But the specification alone binds such a site: an invalid
# value under a key beyond the specification is left out with a warning, and a long description is cut, not refused.

_DESCRIPTION_MAX = 1024
# RFC 3986, 4.1, for http and https only, without user and password; every character needs no escape.
_SITE_URL = re.compile(
    r"(?a)(?:(?:(?i:https?):)?//(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?=[/?#]|$)"
    r"|(?!//)(?![A-Za-z][A-Za-z0-9+.-]*:))"
    r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?#-]|%[0-9A-Fa-f]{2})*"
)


@dataclass(frozen=True, slots=True)
class DiscoveredSite:
    """The index of a site, and whether its version of the specification demands digests: 0.2.0 does, 0.1.0 not."""

    index: Index
    has_digests: bool


def _is_file(path: str) -> bool:
    """Return whether ``path`` is a relative path of one file; ``archive.unpack.gather`` refuses all else."""
    return clean(path) == path and is_inner_path(path)


def _files(value: object) -> tuple[str, ...]:
    paths = tuple(map(_path, value)) if isinstance(value, list) else wrong("a list", value)
    if SKILL_MD not in paths or len(set(paths)) < len(paths):
        wrong(f"{SKILL_MD} among the files, and each of them once", value)
    return paths


_text = text_that(lambda text: True, "a text")
_path = text_that(_is_file, "a relative path without dot segments")
_SiteName = Annotated[str, Read(a_name, **NAME)]
_Described = Annotated[str, Read(lambda value: clean(_text(value))[:_DESCRIPTION_MAX], type="string")]


class _Head(ForeignDocument):
    """The keys of every entry; from an entry of unknown type no other key is read."""

    name: _SiteName
    type: Annotated[str, Read(_text, type="string")]


class _Offer(_Head):
    """An entry of a supported type; a key beyond the specification may have another meaning on a site."""

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
    size: Annotated[int, Field(ge=0, le=_MAX_SIZE)] | None = None
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
    """Entries of 0.1.0 at a URL that is no well-known place, such as one in OpenCode's ``skills.urls``."""

    CAP = LISTING_CAP

    skills: Items[Lenient[_LegacyEntry]]

    def offered(self, url: str) -> tuple[Release | FormatError, ...]:
        """Return each entry's release, or the reason to skip it; of two entries with one name the first counts."""
        offers: list[Release | FormatError] = []
        names: set[str] = set()
        for number, entry in enumerate(self.skills):
            where = f"{url}: skills[{number}]"
            if isinstance(entry, Ignored):
                name = entry.found.get("name") if isinstance(entry.found, Mapping) else None
                prefix = f"{quote(name)}: " if isinstance(name, str) else ""
                offers.append(FormatError(prefix + entry.message, where=where))
            elif entry.name in names:
                offers.append(FormatError(f"{quote(entry.name)} occurs twice", where=where))
            else:
                names.add(entry.name)
                offers.append(_of_files(entry, url))
        return tuple(offers)


def parse_discovery(data: bytes, url: str, well_known: bool = True) -> DiscoveredSite:
    """Return the skills in the ``index.json`` at ``url``, their URLs resolved against ``url`` (RFC 3986, 5).

    Args:
        data: The document.
        url: Its URL after all redirects.
        well_known: Whether it is at a well-known place; else invalid entries without a digest are skipped.

    Raises:
        FormatError: the document has neither version, or an entry is malformed or occurs twice.
    """
    document = _read_listing(data, url)
    # The schema decides first: in another schema the other keys may have any meaning.
    schema = document.get("$schema") if isinstance(document, dict) else None
    if schema is None and not well_known:
        return DiscoveredSite(_by_files(FilesListing.parse(document, url), url), has_digests=False)
    if schema is None:
        listing = LegacyDiscoveryListing.parse(document, url)
        refuse_twice((entry.name for entry in listing.skills), url)
        skills = {entry.name: (_of_files(entry, url),) for entry in listing.skills}
        return DiscoveredSite(Index(skills, warnings=listing.warnings()), has_digests=False)
    if schema != SCHEMA:
        message = f"expected $schema {SCHEMA}, found {quote(schema)}: nothing of it is used"
        raise FormatError(message, where=url, hint="a newer version of skillhub may support it")
    return DiscoveredSite(_current(DiscoveryListing.parse(document, url), url), has_digests=True)


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
    return Index(skills, warnings=few([*skipped, *listing.warnings()]))


def _resolved(base: str, url: str) -> str:
    try:
        return urlsplit(urljoin(base, url)).geturl().partition("#")[0]
    except ValueError as error:  # the brackets hold no IP address
        raise FormatError(f"expected a URL, found {quote(url)}", where=base) from error


def _of_files(entry: _LegacyEntry, url: str) -> Release:
    facts = {key: getattr(entry, key) for key in _LegacyEntry.model_fields}
    return Release(**facts, type="files", url=urljoin(url, f"{entry.name}/"))


def _by_files(listing: FilesListing, url: str) -> Index:
    skills: dict[str, tuple[Release, ...]] = {}
    warnings: list[str] = []
    for number, (entry, offer) in enumerate(zip(listing.skills, listing.offered(url), strict=True)):
        if isinstance(offer, FormatError):
            warnings.append(f"skills[{number}]: {offer.message}; skipped")
            continue
        skills[offer.name] = (offer,)
        if not isinstance(entry, Ignored):
            warnings += [f"skills[{number}].{path}: {message}; ignored" for path, message in entry.ignored()]
    return Index(skills, warnings=few(warnings))


def url_of(release: Release, path: str) -> str:
    """Return the URL of one of the ``files`` of a release."""
    return release.url + percent_encode(path)
