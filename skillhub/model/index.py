"""The releases that sources offer, their publishers, and the choice among them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict

from skillhub.errors import NotFound, SourceError, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.document import Read, Sha256, matching, part, text_that
from skillhub.formats.text import did_you_mean, is_name, quote
from skillhub.model.reference import Named
from skillhub.model.tree import SKILL_MD
from skillhub.model.version import Range, precedence

# `files`: single files beside a SKILL.md, from Agent Skills Discovery 0.1.0; `tree`: a folder of a git commit.
ReleaseType = Literal["archive", "skill-md", "files", "tree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One version of a skill as a source offers it; a site that is no registry has only name, url and digest.

    Attributes:
        url: The URL of the artifact: as written in a document, absolute in a release that a source returns. For a
            ``tree`` the URL of the repository, for ``files`` that of their folder.
        digest: SHA-256 of the artifact; None for a ``tree``, which ``rev`` pins, and for ``files``, which are not
            pinned.
        files: The paths of ``files``, relative to ``url``.
        rev: The full commit of a ``tree``.
        path: The folder of a ``tree`` in its repository; None is the whole repository.
        plugin: The plugin that the skill is part of, in a marketplace of plugins.
        source: The alias of its source, where releases of several sources are offered together.
        published: UTC, ``2026-01-02T03:04:05Z``, so that a comparison of texts is one of times.
        size: Bytes of the artifact.
        log: Its position in the log of its registry, or None.
        yanked: Why no new install should choose it, or None.
        withdrawn: Why no one may use it any longer, or None.
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
    source: str | None = None

    @property
    def qualifier(self) -> str | None:
        """The word before the colon that tells skills of one name apart: the source, or else the plugin."""
        return self.source or self.plugin

    @property
    def taken_back(self) -> str:
        """Whether the release is withdrawn or yanked, and why: ``yanked: broken``; empty if it is neither."""
        for word, reason in (("withdrawn", self.withdrawn), ("yanked", self.yanked)):
            if reason is not None:
                return f"{word}: {reason or 'no reason given'}"
        return ""


Releases = Mapping[str, tuple[Release, ...]]  # by the name of the skill


_TIME = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ", re.ASCII)
Pem = Annotated[
    str, Read(text_that(lambda text: text.startswith("-----BEGIN "), "PEM"), type="string", pattern="^-----BEGIN ")
]
UtcTime = Annotated[str, matching(_TIME, "a UTC time such as 2026-01-02T03:04:05Z")]
ALWAYS: Final = "1970-01-01T00:00:00Z"  # since when a key is revoked whose every signature is void


@part
@dataclass(frozen=True, slots=True)
class Revocation:
    """A revoked key of a publisher: its signatures on releases published at or after ``since`` are void.

    Attributes:
        fingerprint: That of the key (SPKI), or of a certificate with the key: a root, or one inside a chain.
        since: UTC, compared with the time at which a release was published.
        pem: The key or certificate itself; it may be one that was never admitted.
    """

    CONFIG: ClassVar = ConfigDict(extra="ignore")

    fingerprint: Sha256
    since: UtcTime
    pem: Pem


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A publisher as a registry admitted it: its keys (SPKI) and root certificates, as PEM, and its names."""

    publisher: str
    keys: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    revoked: tuple[Revocation, ...] = ()
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Index:
    """The releases that a source offers by name, newest first, and their publishers.

    A repository may hold several skills with one name, in several folders or plugins: then these are the "releases".
    """

    skills: Releases
    admissions: Mapping[str, Admission] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def filtered(self, is_kept: Callable[[Release], bool]) -> Index:
        """Return the index without the releases for which ``is_kept`` is false."""
        kept = {name: tuple(filter(is_kept, found)) for name, found in self.skills.items()}
        return replace(self, skills={name: found for name, found in kept.items() if found})

    def owner(self, name: str) -> str | None:
        """Return the publisher that owns a name, or None."""
        return next((publisher for publisher, admission in self.admissions.items() if name in admission.names), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names offered, sorted."""
        return tuple(sorted(self.skills))

    def releases(self, name: str) -> tuple[Release, ...]:
        """Return the releases of ``name``, newest first.

        Raises:
            NotFound: there is none.
        """
        try:
            return self.skills[name]
        except KeyError:
            raise NotFound(f"there is no skill {quote(name)}") from None


def newest_first(releases: tuple[Release, ...]) -> tuple[Release, ...]:
    """Return these releases by descending precedence; each has a version."""
    return tuple(sorted(releases, key=lambda release: precedence(release.version or "0.0.0"), reverse=True))


# The choice of skills of a source: by name, plugin or folder, or by a person who picks.

Choose = Callable[[Sequence[Release]], Sequence[Release]]


def choose_skills(
    place: str, index: Index, words: Sequence[str], *, every: bool, pick: Choose
) -> tuple[Release, ...]:
    """Return the chosen skills of a source: all, those that ``words`` name, its only skill, or those picked.

    Args:
        place: The reference, for messages.
        index: The skills of the source.
        words: Names, ``plugin:name``, or folders in the source.
        every: Choose all skills.
        pick: Asks a person; returns nothing if no person can answer.

    Raises:
        NotFound: the source has no skill, or none with such a name.
        UsageError: it has several and none was chosen, or a name fits several.
    """
    if not index.skills:
        reasons = "; ".join(index.warnings[:3])
        hint = "a skill is a folder with a SKILL.md"
        raise NotFound("there is no skill here" + (f": {reasons}" if reasons else ""), where=place, hint=hint)
    if words:
        return tuple(dict.fromkeys(_only_match(word, index, place) for word in words))
    offered = offered_by(index)
    if every or len(offered) == 1:
        return offered
    nameless = [release.name for release in offered if not is_name(release.name)]
    named = [release for release in offered if is_name(release.name)] or offered
    picked = tuple(pick(named))
    if not picked:
        names = ", ".join(dict.fromkeys(words_for(named).values()))
        broken = f"; and without a valid name: {', '.join(nameless)}" if nameless else ""
        hint = "say which: --skill NAME; install takes it several times, or --all"
        raise UsageError(f"there are {len(named)} skills here: {names}{broken}", where=place, hint=hint)
    return picked


def offered_by(index: Index) -> tuple[Release, ...]:
    """Return every skill of a source."""
    return tuple(release for name in index.names for release in index.skills[name])


def fitting(word: str, offered: Sequence[Release]) -> list[Release]:
    """Return the skills that a word fits: a name, ``plugin:name``, or else a folder."""
    plugin, _, name = word.rpartition(":")
    fits = [release for release in offered if release.name == name and (not plugin or release.plugin == plugin)]
    folder = word.strip("/").removesuffix(f"/{SKILL_MD}")
    return fits or [release for release in offered if release.path and release.path == folder]


def _only_match(word: str, index: Index, place: str) -> Release:
    # Those of the name first: a project looks up each of its skills, and a source may offer many.
    same_name = index.skills.get(word.rpartition(":")[2], ())
    fits = fitting(word, same_name) or fitting(word, offered_by(index))
    if not fits:
        error, offered = no_match(word, index.names[:40], place), offered_by(index)
        near = [called for release, called in words_for(offered).items() if f"/{release.path}".endswith(f"/{word}")]
        error.hint = f"{did_you_mean(near)} {error.hint}".lstrip()
        raise error
    if len(fits) > 1:
        names = ", ".join(map(words_for(offered_by(index)).__getitem__, fits))
        raise UsageError(f"{word} fits several skills: {names}", where=place, hint="give one of these with --skill")
    return fits[0]


def no_match(word: str, names: Sequence[str], place: str) -> NotFound:
    """Return the error for a word that fits none of these names."""
    hint = f"there are: {', '.join(dict.fromkeys(names))}"
    return NotFound(f"there is no skill {quote(word)} here", where=place, hint=hint)


def words_for(offered: Sequence[Release]) -> dict[Release, str]:
    """Return, for each release, the shortest word that no other release fits: name, ``qualifier:name`` or folder."""
    by_name = Counter(release.name for release in offered)
    qualified = Counter((release.name, release.qualifier) for release in offered)

    def word(release: Release) -> str:
        if by_name[release.name] == 1:
            return release.name
        if release.qualifier and qualified[release.name, release.qualifier] == 1:
            return f"{release.qualifier}:{release.name}"
        path = release.path or release.name
        return f"{path}/" if path in by_name else path  # without the slash it would be the name of several

    return {release: word(release) for release in offered}


# The paths of a registry's documents about a publisher.

DOCUMENT_CAP = 5_000_000  # bytes; python-tuf's limit for its own documents


def namespace_path(publisher: str) -> str:
    """Return the target that pins the document of ``publisher``; one of 256, which keeps signing ceremonies short."""
    return f"ns/{sha256(publisher.encode()).hexdigest()[:2]}.json"


def publisher_path(publisher: str) -> str:
    """Return the path of ``publisher``'s document, which no role signs: the target at ``namespace_path`` pins it."""
    return f"publishers/{publisher}.json"


def index_path(publisher: str) -> str:
    """Return the target that lists the releases of ``publisher``."""
    return f"idx/{publisher}.json"


# The role `releases` itself signs this target, and every client has its document. No publisher can have this name.
ADVISORIES = "idx/_advisories.json"


# The choice of a release: a pure function of the reference and the releases that a source offers.


class TakenBack(SourceError):
    """The requested version exists, but its registry has yanked or withdrawn it."""

    code = "taken-back"


def choose_release(ref: Named, releases: tuple[Release, ...], until: str | None = None) -> Release:
    """Return the newest of ``releases`` (newest first) that is in the range and neither yanked nor withdrawn.

    Without a range, a pre-release is chosen only if there is no other release. With ``until``, a time in the form
    of ``published``, a release published later is chosen only if there is no other.

    Raises:
        NotFound: no release is in the range; the hint names the existing ones.
        TakenBack: all releases in the range were yanked or withdrawn; the message gives the reason.
        UsageError: the range is malformed.
    """
    allowed = releases
    if ref.range is not None:
        version_range = Range(ref.range)
        allowed = tuple(release for release in releases if version_range.allows(release.version or "0.0.0"))
    others = [each.version or "one without a version" for each in releases if not each.taken_back][:8]
    hint = f"there are: {', '.join(others)}" if others else "no other release of it is offered"
    if not allowed:
        raise NotFound(f"no release of {ref.name} is {ref.range}", where=str(ref), hint=hint)
    chosen = [release for release in allowed if not release.taken_back]
    if not chosen:
        newest = allowed[0]
        what, _, why = newest.taken_back.partition(": ")
        raise TakenBack(f"{ref.name} {newest.version} was {what} by its registry: {why}", where=str(ref), hint=hint)
    chosen = [release for release in chosen if until is None or (release.published or "~") <= until] or chosen
    stable = [release for release in chosen if "-" not in (release.version or "").split("+")[0]]
    return (stable if ref.range is None and stable else chosen)[0]
