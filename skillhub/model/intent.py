"""``skillhub.toml``: what a project wants, as a person writes it; edits keep its comments and its order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from skillhub.errors import FormatError, UsageError
from skillhub.model.dataclass import dataclass, field, replace
from skillhub.model.digest import Digest
from skillhub.model.policy import Policy
from skillhub.model.policy_file import policy_of
from skillhub.model.record import LinkKind
from skillhub.model.ref import Git, GitHub, Remote, parse_remote
from skillhub.model.text import clean, is_alias, is_name, quote
from skillhub.model.toml import strict_toml
from skillhub.model.version import Range

_URL = re.compile(r"https?://[^/?#\\]|embedded:\Z", re.ASCII | re.IGNORECASE)
_USER = re.compile(r"[^/?#]*://[^/?#\\]*@")
_SECTIONS = ("install", "policy", "skills", "sources")


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
        whence = {"source": self.source, "version": self.version, "git": self.git, "rev": self.rev}
        values = {**whence, "from": self.origin, "path": self.path, "plugin": self.plugin}
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ProposedSource:
    """A source that the repository proposes; to a user who does not have it, it is a Question."""

    url: str
    root: Digest | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """The whole file; an absent one is an empty one."""

    skills: Mapping[str, Wanted] = field(default_factory=dict)
    sources: Mapping[str, ProposedSource] = field(default_factory=dict)
    agents: tuple[str, ...] = ()
    link: LinkKind | None = None
    policy: Policy | None = None

    @classmethod
    def parse(cls, data: bytes, where: str = "skillhub.toml") -> Intent:
        """Return the intent that these bytes spell.

        Raises:
            FormatError: not TOML, or a key that is unknown or of the wrong kind; nothing is skipped,
                for what a team wrote and skillhub does not heed would be a false promise.
        """
        document = strict_toml(data, where)
        for key in sorted(document.keys() - set(_SECTIONS)):
            hint = f"this version knows {', '.join(f'[{each}]' for each in _SECTIONS)}"
            raise FormatError(f"unknown section {quote(key)}", where=f"{where}: {clean(key[:64])}", hint=hint)
        agents, link = _install(document.get("install", {}), f"{where}: install")
        return cls(
            _blocks(document.get("skills", {}), is_name, _wanted, f"{where}: skills"),
            _blocks(document.get("sources", {}), is_alias, _source, f"{where}: sources"),
            agents,
            link,
            policy_of(document["policy"], "project", where, data) if "policy" in document else None,
        )


def _install(value: object, where: str) -> tuple[tuple[str, ...], LinkKind | None]:
    table = _table(value, ("agents", "link"), where)
    agents = table.get("agents", [])
    if not isinstance(agents, list):
        raise FormatError(f"expected a list of texts, found {quote(agents)}", where=f"{where}.agents")
    link = table.get("link")
    if link not in (None, "copy", "symlink"):
        raise FormatError(f'expected "copy" or "symlink", found {quote(link)}', where=f"{where}.link")
    return tuple(_text(agent, f"{where}.agents") for agent in agents), cast("LinkKind | None", link)


def _blocks(
    value: object, is_good: Callable[[str], bool], read: Callable[[object, str], Any], where: str
) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"expected a table, found {quote(value)}", where=where)
    for name in value:
        if not is_good(name):
            raise FormatError(f"{quote(name)} is no name", where=f"{where}.{clean(name[:64])}")
    return {name: read(block, f"{where}.{name}") for name, block in value.items()}


def _table(value: object, known: tuple[str, ...], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"expected a table, found {quote(value)}", where=where)
    for key in sorted(value.keys() - set(known)):
        hint = f"known: {', '.join(known)}"
        raise FormatError(f"unknown key {quote(key)}", where=f"{where}.{clean(key[:64])}", hint=hint)
    return value


def _texts(value: object, known: tuple[str, ...], where: str) -> dict[str, str]:
    return {key: _text(text, f"{where}.{key}") for key, text in _table(value, known, where).items()}


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value or clean(value) != value:
        raise FormatError(f"expected text without hidden characters, found {quote(value)}", where=where)
    return value


def _wanted(value: object, where: str) -> Wanted:
    # `name = "^1.2"` is the short spelling that cargo's users expect.
    table = {"version": value} if isinstance(value, str) else value
    texts = _texts(table, ("source", "version", "path", "git", "rev", "from", "plugin"), where)
    if "from" in texts:
        texts["origin"] = texts.pop("from")
    wanted = Wanted(**texts)
    _one_origin(wanted, where)
    if wanted.source is not None and not is_alias(wanted.source):
        raise FormatError(f"{quote(wanted.source)} is no source", where=f"{where}.source")
    try:
        Range(wanted.version or "*")
    except UsageError as error:
        raise FormatError(error.message, where=f"{where}.version") from error
    if wanted.plugin is not None and not is_name(wanted.plugin):
        raise FormatError(f"{quote(wanted.plugin)} is no plugin", where=f"{where}.plugin")
    try:
        place = wanted.remote()
        if place is not None and parse_remote(str(place)) != place:
            raise UsageError(f"{quote(str(place))} is no place in a repository")
    except UsageError as error:
        raise FormatError(error.message, where=where, hint=error.hint) from error
    return wanted


def _one_origin(wanted: Wanted, where: str) -> None:
    """Refuse keys that contradict each other."""
    if wanted.path is not None and (wanted.source or wanted.version):
        raise FormatError("a path goes with neither source nor version", where=where)
    kinds = [
        wanted.source or wanted.version,
        wanted.path if wanted.git is None else None,
        wanted.git,
        wanted.origin,
    ]
    if sum(each is not None for each in kinds) > 1:
        raise FormatError("expected one of source, path, git and from", where=where)
    if wanted.rev is not None and wanted.git is None:
        raise FormatError("a rev goes with git", where=where)
    if wanted.plugin is not None and (wanted.git, wanted.origin, wanted.path) == (None, None, None):
        raise FormatError("a plugin goes with git, from or path", where=where)


def _source(value: object, where: str) -> ProposedSource:
    table = _texts(value, ("url", "root"), where)
    if "url" not in table:
        raise FormatError("the key 'url' is missing", where=f"{where}.url")
    if not _URL.match(table["url"]) or _USER.match(table["url"]):
        # A password there is not repeated.
        message = "expected the URL of a source, https:// and no user in it"
        raise FormatError(message, where=f"{where}.url")
    root = Digest.parse(table["root"], f"{where}.root") if "root" in table else None
    return ProposedSource(table["url"], root)
