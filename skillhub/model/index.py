"""What sources offer: releases by name, the publishers behind them, and what is chosen among them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict

from skillhub.errors import NotFound, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.document import Read, Sha256, matching, part, text_that
from skillhub.formats.text import quote
from skillhub.model.tree import SKILL_MD
from skillhub.model.version import precedence

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


_TIME = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ", re.ASCII)
Pem = Annotated[
    str, Read(text_that(lambda text: text.startswith("-----BEGIN "), "PEM"), type="string", pattern="^-----BEGIN ")
]
UtcTime = Annotated[str, matching(_TIME, "a UTC time such as 2026-01-02T03:04:05Z")]


@part
@dataclass(frozen=True, slots=True)
class Revocation:
    """A key that no longer speaks for its publisher: what it signed from ``since`` on is void.

    Attributes:
        fingerprint: Of the key (SPKI), or of a certificate that bears it: a root, or one inside a chain.
        since: UTC, held against the time at which a release was published.
        pem: The key or certificate itself; it need not be among those that are admitted.
    """

    CONFIG: ClassVar = ConfigDict(extra="ignore")

    fingerprint: Sha256
    since: UtcTime
    pem: Pem


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


# Where a registry has what it says of a publisher.

DOCUMENT_CAP = 5_000_000  # What python-tuf allows to a document of its own.


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
