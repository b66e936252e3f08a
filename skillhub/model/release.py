"""What a source offers: releases by name, and who may publish them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from skillhub.errors import NotFound
from skillhub.model.digest import Digest
from skillhub.model.text import quote
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


@dataclass(frozen=True, slots=True)
class Revocation:
    """A key that no longer speaks for its publisher: what it signed from ``since`` on is void.

    Attributes:
        fingerprint: Of the key (SPKI), or of a certificate that bears it: a root, or one inside a chain.
        since: UTC, held against the time at which a release was published.
        pem: The key or certificate itself; it need not be among those that are admitted.
    """

    fingerprint: Digest
    since: str
    pem: str


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
        """Return the publisher that has a name; None if nobody has."""
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
