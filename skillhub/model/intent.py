"""``skillhub.toml``: what a project wants, as a person writes it; edits keep its comments and its order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from skillhub.errors import FormatError, UsageError
from skillhub.model.digest import Digest
from skillhub.model.policy import Policy
from skillhub.model.policy_file import policy_of
from skillhub.model.record import LinkKind
from skillhub.model.ref import Git, GitHub, Remote, parse_remote
from skillhub.model.syntax.decode import array, located, name_that, text_that, visible
from skillhub.model.syntax.toml import strict_toml, table, tables
from skillhub.model.text import is_alias, is_name, quote
from skillhub.model.url import NO_SECRET, holds_secret
from skillhub.model.version import Range

_URL = re.compile(r"https?://[^/?#\\]|embedded:\Z", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One line of ``[skills]``: a skill of a source within a range, of a place on the network, or something local.

    Attributes:
        path: Something local; beside ``git`` a folder in the repository.
        git: The URL of a repository, at ``rev`` if that is there.
        origin: Any reference to a place on the network, written ``from``.
        plugin: The plugin that it is part of, there; of something local it is told and decides nothing.
    """

    source: str | None = None
    version: str | None = None
    path: str | None = None
    git: str | None = None
    rev: str | None = None
    origin: str | None = None
    plugin: str | None = None

    @classmethod
    def of(cls, ref: Remote, path: str | None, plugin: str | None) -> Wanted:
        """Return the line that asks for one skill of the place again."""
        if isinstance(ref, Git):
            return cls(git=ref.url, rev=ref.rev, path=path, plugin=plugin)
        if isinstance(ref, GitHub):
            return cls(origin=str(replace(ref, path=path)), plugin=plugin)
        return cls(origin=str(ref), plugin=plugin)

    def remote(self) -> Remote | None:
        """Return the place on the network that it comes from, if from one that has no alias."""
        if self.git is not None:
            return Git(self.git, self.rev, self.path)
        return parse_remote(self.origin) if self.origin is not None else None

    def spell(self) -> dict[str, str]:
        """Return the keys and values of the line."""
        named = {"source": self.source, "version": self.version, "git": self.git, "rev": self.rev}
        values = {**named, "from": self.origin, "path": self.path, "plugin": self.plugin}
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ProposedSource:
    """A source that the repository proposes; to a user who does not have it, it is a Question."""

    url: str
    root: Digest | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """The whole file; an absent one is an empty one.

    Attributes:
        lists: Whether it has a table of skills: then what it does not name is wanted only where another needs it.
    """

    skills: Mapping[str, Wanted] = field(default_factory=dict)
    sources: Mapping[str, ProposedSource] = field(default_factory=dict)
    agents: tuple[str, ...] = ()
    link: LinkKind | None = None
    policy: Policy | None = None
    lists: bool = False

    @classmethod
    def parse(cls, data: bytes, where: str = "skillhub.toml") -> Intent:
        """Return the intent that these bytes spell.

        Raises:
            FormatError: not TOML, or a key that is unknown or of the wrong kind; nothing is skipped,
                for what a team wrote and skillhub does not heed would be a false promise.
        """
        document = strict_toml(data, where)
        with located(where):
            found = _READ(document)
        install = found.get("install", {})
        return cls(
            found.get("skills", {}),
            found.get("sources", {}),
            install.get("agents", ()),
            install.get("link"),
            policy_of(document["policy"], "project", where, data) if "policy" in document else None,
            "skills" in found,
        )


def _wanted(value: object) -> Wanted:
    # `name = "^1.2"` is the short spelling that cargo's users expect.
    texts = _WANTED({"version": value} if isinstance(value, str) else value)
    if "from" in texts:
        texts["origin"] = texts.pop("from")
    wanted = Wanted(**texts)
    _one_origin(wanted)
    try:
        place = wanted.remote()
        if place is not None and parse_remote(str(place)) != place:
            raise UsageError(f"{quote(str(place))} is no place in a repository")
    except UsageError as error:
        raise FormatError(error.message, hint=error.hint) from error
    return wanted


def _one_origin(wanted: Wanted) -> None:
    """Refuse keys that contradict each other."""
    if wanted.path is not None and (wanted.source or wanted.version):
        raise FormatError("a path goes with neither source nor version")
    kinds = [
        wanted.source or wanted.version,
        wanted.path if wanted.git is None else None,
        wanted.git,
        wanted.origin,
    ]
    if sum(each is not None for each in kinds) > 1:
        raise FormatError("expected one of source, path, git and from")
    if wanted.rev is not None and wanted.git is None:
        raise FormatError("a rev goes with git")
    if wanted.plugin is not None and (wanted.git, wanted.origin, wanted.path) == (None, None, None):
        raise FormatError("a plugin goes with git, from or path")


def _range(value: object) -> str:
    text = visible(value)
    try:
        Range(text)
    except UsageError as error:
        raise FormatError(error.message) from error
    return text


def _url(value: object) -> str:
    url = visible(value)
    if not _URL.match(url) or holds_secret(url):
        # A credential there is not repeated.
        raise FormatError("expected the URL of a source, https:// and no user in it")
    return url


def _place(value: object) -> str:
    place = visible(value)
    if "://" in place and holds_secret(place):
        raise FormatError("expected a place without password or another credential", hint=NO_SECRET)
    return place


_WANTED = table(
    {},
    {
        "source": name_that(is_alias, "source"),
        "version": _range,
        **dict.fromkeys(("path", "rev"), visible),
        **dict.fromkeys(("git", "from"), _place),
        "plugin": name_that(is_name, "plugin"),
    },
    unknown="known: source, version, path, git, rev, from, plugin",
)
_SOURCE = table({"url": _url}, {"root": Digest.parse}, unknown="known: url, root")
_LINK = text_that(("copy", "symlink").__contains__, '"copy" or "symlink"')
_READ = table(
    {},
    {
        "install": table({}, {"agents": array(visible), "link": _LINK}, unknown="known: agents, link"),
        "policy": lambda value: value,
        "skills": tables(name_that(is_name), _wanted),
        "sources": tables(
            name_that(is_alias, "alias of a source"), lambda value: ProposedSource(**_SOURCE(value))
        ),
    },
    unknown="this version knows [install], [policy], [skills], [sources]",
)
