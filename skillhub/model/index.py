"""What sources offer: a registry's documents, releases, and Agent Skills Discovery 0.2.0 and 0.1.0."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, PlainSerializer

from skillhub.errors import FormatError, NameNotOwned, NotFound, UsageError
from skillhub.formats.digest import Digest, is_hex
from skillhub.formats.document import (
    NAME,
    Absent,
    Before,
    ExtensibleDocument,
    Items,
    Members,
    Read,
    Sha256,
    integer,
    matching,
    part,
    text_that,
    version_of,
)
from skillhub.formats.text import clean, is_inner_path, is_name, quote
from skillhub.model.tree import SKILL_MD
from skillhub.model.version import VERSION_PATTERN, is_version, precedence

# `files`: single files beside a SKILL.md, as v0.1.0 of the discovery has them; `tree`: a folder of a git commit.
ReleaseType = Literal["archive", "skill-md", "files", "tree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One version of a skill as a source offers it; a site that is no registry knows name, url and digest.

    Attributes:
        url: Where the artifact is; as written in a document, absolute once a source has handed it out. Of a
            ``tree`` the repository, of ``files`` the folder that they are in.
        digest: SHA-256 of the artifact; None of a ``tree``, which ``rev`` pins, and of ``files``, which nothing does.
        files: The paths of ``files``, relative to ``url``.
        rev: The full commit of a ``tree``.
        path: The folder of a ``tree`` in its repository; None is all of it.
        plugin: The plugin that the skill is part of, in a marketplace of plugins.
        published: UTC, ``2026-01-02T03:04:05Z``, so that texts compare as times do.
        size: Bytes of the artifact.
        log: Its position in the log of its registry, or None.
        yanked: Why no new install should choose it, or None.
        withdrawn: Why nobody may use it any more, or None.
    """

    name: str
    url: str
    digest: Digest | None = None
    type: ReleaseType = "archive"
    version: str | None = None
    published: str | None = None
    size: int | None = None
    tree: Digest | None = None
    publisher: str | None = None
    description: str = ""
    requires: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    log: int | None = None
    yanked: str | None = None
    withdrawn: str | None = None
    files: tuple[str, ...] = ()
    rev: str | None = None
    path: str | None = None
    plugin: str | None = None

    @property
    def taken_back(self) -> str:
        """What became of it and why, ``yanked: broken``; empty if anybody may choose it."""
        for what, reason in (("withdrawn", self.withdrawn), ("yanked", self.yanked)):
            if reason is not None:
                return f"{what}: {reason or 'no reason given'}"
        return ""


_EXTENSIBLE = ConfigDict(extra="ignore")


@part
@dataclass(frozen=True, slots=True)
class Revocation:
    """A key that no longer speaks for its publisher: what it signed from ``since`` on is void.

    Attributes:
        fingerprint: Of the key (SPKI), or of a certificate that bears it: a root, or one inside a chain.
        since: UTC, held against the time at which a release was published.
        pem: The key or certificate itself; it need not be among those that are admitted.
    """

    CONFIG: ClassVar = _EXTENSIBLE

    fingerprint: Sha256
    since: UtcTime
    pem: _Pem


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What a registry has admitted a publisher to: the keys (SPKI) and roots, as PEM, and the names."""

    publisher: str
    keys: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    revoked: tuple[Revocation, ...] = ()
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Index:
    """The releases that a source offers by name, newest first, and the publishers behind them.

    A repository may hold several skills of one name, one to a folder or plugin: then these are the "releases".
    """

    skills: Mapping[str, tuple[Release, ...]]
    admissions: Mapping[str, Admission] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def owner(self, name: str) -> str | None:
        """Return the publisher that owns a name, or None."""
        return next((publisher for publisher, each in self.admissions.items() if name in each.names), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names offered, sorted."""
        return tuple(sorted(self.skills))

    def releases(self, name: str) -> tuple[Release, ...]:
        """Return what is offered under ``name``, newest first.

        Raises:
            NotFound: nothing is.
        """
        try:
            return self.skills[name]
        except KeyError:
            raise NotFound(f"there is no skill {quote(name)}") from None


def newest_first(releases: tuple[Release, ...]) -> tuple[Release, ...]:
    """Return these releases, all of which have a version, by descending precedence."""
    return tuple(sorted(releases, key=lambda release: precedence(release.version or "0.0.0"), reverse=True))


# Which skills of a place are meant: by name, plugin or folder, or as a person picks.

Choose = Callable[[Sequence[Release]], Sequence[Release]]


def choose_skills(
    asked: str, index: Index, words: Sequence[str], *, every: bool, pick: Choose
) -> tuple[Release, ...]:
    """Return the skills of a place that are meant: all, those of ``words``, its only one, or those picked.

    Args:
        asked: The reference, for messages.
        index: What the place offers.
        words: Names, ``plugin:name``, or folders of the place.
        every: Take all of them.
        pick: Asks a person; with nobody there it returns nothing.

    Raises:
        NotFound: the place has no skill, or none of that name.
        UsageError: it has several, and none was chosen; or a name fits several.
    """
    if not index.skills:
        reasons = "; ".join(index.warnings[:3])
        hint = "a skill is a folder with a SKILL.md"
        raise NotFound("there is no skill here" + (f": {reasons}" if reasons else ""), where=asked, hint=hint)
    if words:
        return tuple(dict.fromkeys(_the_match(word, index, asked) for word in words))
    offered = offered_by(index)
    if every or len(offered) == 1:
        return offered
    picked = tuple(pick(offered))
    if not picked:
        names = ", ".join(dict.fromkeys(words_for(offered).values()))
        hint = "say which: --skill NAME; install takes it several times, or --all"
        raise UsageError(f"there are {len(offered)} skills here: {names}", where=asked, hint=hint)
    return picked


def offered_by(index: Index) -> tuple[Release, ...]:
    """Return each skill of a place."""
    return tuple(release for name in index.names for release in index.skills[name])


def fitting(word: str, offered: Sequence[Release]) -> list[Release]:
    """Return the skills that a word fits: a name, ``plugin:name``, or else a folder."""
    plugin, _, name = word.rpartition(":")
    fits = [each for each in offered if each.name == name and (not plugin or each.plugin == plugin)]
    folder = word.strip("/").removesuffix(f"/{SKILL_MD}")
    return fits or [each for each in offered if each.path and each.path == folder]


def _the_match(word: str, index: Index, asked: str) -> Release:
    named = index.skills.get(word.rpartition(":")[2], ())  # a project looks up each of its skills: not in all of them
    fits = fitting(word, named) or fitting(word, offered_by(index))
    if not fits:
        raise no_match(word, index.names[:40], asked)
    if len(fits) > 1:
        names = ", ".join(map(words_for(offered_by(index)).__getitem__, fits))
        raise UsageError(f"{word} fits several skills: {names}", where=asked, hint="give one of these with --skill")
    return fits[0]


def no_match(word: str, names: Sequence[str], asked: str) -> NotFound:
    """Return the error about a word that none of these names fits."""
    hint = f"there are: {', '.join(dict.fromkeys(names))}"
    return NotFound(f"there is no skill {quote(word)} here", where=asked, hint=hint)


def words_for(offered: Sequence[Release]) -> dict[Release, str]:
    """Return what tells each release from all others of its name."""
    named = Counter(each.name for each in offered)
    of_plugin = Counter((each.name, each.plugin) for each in offered)

    def word(release: Release) -> str:
        if named[release.name] == 1:
            return release.name
        if release.plugin and of_plugin[release.name, release.plugin] == 1:
            return f"{release.plugin}:{release.name}"
        return release.path or release.name

    return {each: word(each) for each in offered}


# The documents of a source: its public listing, and what a registry signs. One bad entry refuses all of it: a name is
# a path later on, and who can slip in one can slip in another. Unknown fields are ignored, as the specification asks.

SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
LISTING_CAP = 32 * 1024 * 1024
DOCUMENT_CAP = 5_000_000  # What python-tuf allows to a document of its own.
PART_CAP = 256 * 1024
_MAX_SIZE = 256 * 1024 * 1024
_TIME = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ", re.ASCII)
# RFC 3986: absolute over http or https, with neither user nor password, or relative; nothing left to escape.
_URL = re.compile(
    r"(?:https?://[A-Za-z0-9._:\[\]-]+(?![^/?#])|(?![A-Za-z][A-Za-z0-9+.-]*:))[A-Za-z0-9._~!$&'()*+,;=:@%/?#-]*",
    re.ASCII,
)
_PATH = re.compile(r"[A-Za-z0-9_~+-][A-Za-z0-9._~+-]*(?:/[A-Za-z0-9_~+-][A-Za-z0-9._~+-]*)*", re.ASCII)


_PATHS = {"type": "string", "pattern": f"^{_PATH.pattern}$"}


class LeadsOut(FormatError):
    """A name or a path leads outside its folder; of a registry it is `bad-metadata`."""

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


_hex = text_that(is_hex, "64 lowercase hex digits")
_FromHex = Annotated[
    Digest,
    Read(lambda value: Digest(f"sha256:{_hex(value)}"), type="string", pattern="^[0-9a-f]{64}$"),
    PlainSerializer(lambda digest: digest and digest[7:]),
    Field(alias="sha256"),
]
_Label = Annotated[str, matching(re.compile(r"[\s\S]{1,1024}"), "a text of 1 to 1024 characters")]
a_name = text_that(is_name, "a name of a-z, 0-9 and single hyphens, 64 at most")
_Name = Annotated[str, Read(_inner(a_name), **NAME)]
_Path = Annotated[str, Read(_inner(text_that(_PATH.fullmatch, "a relative path without dot segments")), **_PATHS)]
_Pem = Annotated[
    str, Read(text_that(lambda text: text.startswith("-----BEGIN "), "PEM"), type="string", pattern="^-----BEGIN ")
]
_Shown = Annotated[str, Read(_shown, type="string", maxLength=1024)]
_Size = Annotated[int, integer(f"0 to {_MAX_SIZE}", _MAX_SIZE)]
UtcTime = Annotated[str, matching(_TIME, "a UTC time such as 2026-01-02T03:04:05Z")]
_Url = Annotated[
    str, Read(_inner(text_that(_is_url, "a relative, http or https URL")), type="string", format="uri-reference")
]
SemVer = Annotated[
    str, Read(text_that(is_version, "a version by SemVer 2.0.0"), type="string", pattern=VERSION_PATTERN)
]
TYPES = ("archive", "skill-md")


class _Published(ExtensibleDocument):
    """A document that a registry signs or serves: on one line, keys sorted, null where there is nothing to say."""

    def dump(self) -> bytes:
        """Return the document's bytes; the same content gives the same bytes."""
        value = self.model_dump(by_alias=True)
        return (json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n").encode()


class _Row(ExtensibleDocument):
    """What a document says of a release."""

    requires: Items[_Label] = ()
    capabilities: Items[_Label] = ()
    yanked: _Shown | None = None
    withdrawn: _Shown | None = None

    @classmethod
    def of(cls, release: Release, **others: object) -> Self:
        """Return the row of a release; ``others`` is what it says besides, or says otherwise."""
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
            FormatError: it is one.
        """
        if self.type in TYPES and (self.url is None or self.digest is None):
            raise FormatError("expected url and digest")


class IndexListing(_Published):
    """``index.json``: what a registry offers, for everybody."""

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
    """What only registries have: of another version of the format nothing else is read."""

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


class PublisherDocument(_OfRegistry):
    """``publishers/<publisher>.json``: what a publisher is admitted to."""

    publisher: _Name
    keys: Items[_Pem] = ()
    certificates: Items[_Pem] = ()
    revoked: Items[Revocation] = ()
    names: Items[_Name] = ()


@part
@dataclass(frozen=True, slots=True)
class Pinned:
    """What a signed document says of another one: the digest and the number of its bytes."""

    CONFIG: ClassVar = _EXTENSIBLE

    digest: _FromHex
    size: Annotated[int, integer(f"0 to {DOCUMENT_CAP}", DOCUMENT_CAP)]


class NamespacesDocument(_OfRegistry):
    """``ns/<2 hex>.json``: the document of each publisher of a bucket."""

    publishers: Members[_Name, Pinned]


@part
@dataclass(frozen=True, slots=True)
class PinnedPart(Pinned):
    """What a part says of one below it; ``count`` is how many rows are there."""

    size: Annotated[int, integer(f"0 to {PART_CAP}", PART_CAP)]
    count: Annotated[int, integer("a number of rows")]


class PartRow(ExtensibleDocument):
    """A skill under one of its words, in a part of a large listing; ``document`` pins its ``skills/<name>.json``."""

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


def parse_listing(data: bytes, where: str) -> Index:
    """Return what the ``index.json`` of a site offers (Agent Skills Discovery v0.2.0), one release a name.

    Raises:
        FormatError: it is not of that version, or one of its entries is malformed or there twice.
    """
    document = IndexListing.parse(data, where)
    if document.format != SCHEMA:
        raise FormatError(f"expected $schema {SCHEMA}, found {quote(document.format)}", where=where)
    refuse_twice((entry.name for entry in document.skills), where)
    warnings = tuple(
        f"{entry.name}: skipped, its type {quote(entry.type)} is unknown"
        for entry in document.skills
        if entry.type not in TYPES
    )
    facts = (entry.model_dump(exclude={"releases"}) for entry in document.skills if entry.type in TYPES)
    skills = {each["name"]: (Release(**each),) for each in facts}
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
    releases = tuple(Release(publisher=document.publisher, **dict(release)) for release in document.releases)
    return document.publisher, newest_first(releases)


def parse_namespaces(data: bytes, where: str) -> Mapping[str, Pinned]:
    """Return the document of each publisher of an ``ns/<2 hex>.json``.

    Raises:
        FormatError: it is malformed.
    """
    return NamespacesDocument.parse(data, where).publishers


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
        revoked=document.revoked,
        names=frozenset(document.names),
    )


def admitted(publisher: str, data: bytes, where: str) -> Admission:
    """Return what the document of ``publisher`` admits it to.

    Raises:
        FormatError: the document is malformed.
        NameNotOwned: it is another publisher's.
    """
    found = parse_publisher(data, where)
    if found.publisher != publisher:
        message = f"expected the document of {quote(publisher)}, found {quote(found.publisher)}'s"
        raise NameNotOwned(message, where=where)
    return found


def namespace_path(publisher: str) -> str:
    """Return the target that pins the document of ``publisher``; one of 256, so ceremonies are short."""
    return f"ns/{sha256(publisher.encode()).hexdigest()[:2]}.json"


def publisher_path(publisher: str) -> str:
    """Return the document of ``publisher``, which no role signs: the target at ``namespace_path`` pins it."""
    return f"publishers/{publisher}.json"


def index_path(publisher: str) -> str:
    """Return the target that says what ``publisher`` has published."""
    return f"idx/{publisher}.json"


# Signed by `releases` itself, whose document each client has. No publisher is named so.
ADVISORIES = "idx/_advisories.json"


def refuse_twice(values: Iterable[str], where: str) -> None:
    """Refuse a document in which one of these values occurs twice.

    Raises:
        FormatError: one is.
    """
    for value, count in Counter(values).most_common(1):
        if count > 1:
            raise FormatError(f"expected {quote(value)} once, found it {count} times", where=where)
