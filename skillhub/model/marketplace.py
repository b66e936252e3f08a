"""Marketplaces of plugins: ``.claude-plugin/marketplace.json`` and ``.agents/plugins/marketplace.json``.

A repository that has one lists plugins, each in a folder of its own or in another repository; skills are one of the
things that a plugin may hold. One bad entry is declined by itself, for its neighbours come from others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from skillhub.errors import FormatError
from skillhub.model.ref import is_rev
from skillhub.model.syntax.document import ForeignDocument, Read, text_that, wrong
from skillhub.model.text import clean, is_inner_path, is_object_id, quote
from skillhub.model.url import of_repository

MARKETPLACES = (".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json")
MANIFESTS = (".claude-plugin/plugin.json", ".codex-plugin/plugin.json")
CAP = 8 * 1024 * 1024
_PLUGINS_MAX = 4000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}", re.ASCII)
_URL = re.compile(r"(?:https?|ssh|file)://[A-Za-z0-9._~!$&'()*+,;=:@%/\[\]-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Here:
    """A plugin in this very repository; ``path`` is its folder, relative to the marketplace's, empty for that one."""

    path: str


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A plugin in another repository; ``path`` is its folder there, empty for all of it.

    Attributes:
        rev: A full commit, a branch or a tag; None is whatever is newest.
    """

    url: str
    rev: str | None = None
    path: str = ""


@dataclass(frozen=True, slots=True)
class Declined:
    """A plugin that is not read, and why, in words that follow its name."""

    reason: str


PluginSource = Here | Elsewhere | Declined


@dataclass(frozen=True, slots=True)
class Plugin:
    """One plugin that a marketplace lists.

    Attributes:
        skills: Where its skills are, relative to its folder, if the entry says so; else its own manifest does.
    """

    name: str
    source: PluginSource
    skills: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class PluginManifest:
    """A plugin's own ``plugin.json``: its name, and where it has skills besides ``skills``."""

    name: str | None
    skills: tuple[str, ...] = ()


def _inner(value: object) -> str:
    """Read a folder inside a repository: ``./``, ``./a/b`` or ``a/b``; empty is all of it."""
    if not isinstance(value, str) or clean(value) != value or value.startswith("/"):
        wrong("a folder of the repository", value)
    path = value.removeprefix("./").rstrip("/")
    if path in ("", "."):
        return ""
    return path if is_inner_path(path) else wrong("a folder of the repository", value)


def _inner_paths(value: object) -> tuple[str, ...]:
    paths = [value] if isinstance(value, str) else value
    return tuple(map(_inner, paths)) if isinstance(paths, list) else wrong("folders of the repository", value)


def _repository(value: object) -> str:
    """Read the URL of a repository, as git takes it; ``owner/repo`` is one on GitHub."""
    url = of_repository(value) if isinstance(value, str) else ""
    if _REPO.fullmatch(url):
        return f"https://github.com/{url}.git"
    return url if _URL.fullmatch(url) else wrong("the URL of a git repository", value)


_Inner = Annotated[str, Read(_inner)]
_InnerPaths = Annotated[tuple[str, ...], Read(_inner_paths)]
_Name = Annotated[
    str, Read(text_that(_NAME.fullmatch, "a name of letters, digits, dots, hyphens and underscores"))
]


# What says where something is, or at which commit, is never left out: the rest would say another place.
class _Metadata(ForeignDocument):
    BINDING: ClassVar = frozenset({"pluginRoot"})

    plugin_root: _Inner = Field("", alias="pluginRoot")


class _Marketplace(ForeignDocument):
    CAP: ClassVar[int] = CAP
    BINDING: ClassVar = frozenset({"metadata"})

    plugins: tuple[object, ...] = Field(max_length=_PLUGINS_MAX)
    metadata: _Metadata = Field(default_factory=lambda: _Metadata.parse({}, ""))


class _Manifest(ForeignDocument):
    CAP: ClassVar[int] = CAP
    BINDING: ClassVar = frozenset({"name", "skills"})

    name: _Name | None = None
    skills: _InnerPaths = ()


class _Named(ForeignDocument):
    name: _Name


class _Kind(ForeignDocument):
    """A source that is an object; which keys it has, its ``source`` says."""

    source: str


class _Entry(_Named):
    BINDING: ClassVar = frozenset({"skills"})

    source: object
    skills: _InnerPaths | None = None


class _Folder(ForeignDocument):
    path: _Inner

    def read(self) -> PluginSource:
        return Here(self.path)


class _Repository(ForeignDocument):
    BINDING: ClassVar = frozenset({"ref", "sha", "path"})

    ref: Annotated[str, Read(text_that(is_rev, "a branch, a tag or a commit"))] = ""
    sha: Annotated[str, Read(text_that(is_object_id, "a commit of 40 hex digits"))] = ""
    path: _Inner = ""

    def at(self, url: str) -> Elsewhere:
        # Where both are given the commit is what was agreed to, the branch only where it was found.
        return Elsewhere(url, self.sha or self.ref or None, self.path)


class _GitHub(_Repository):
    repo: Annotated[str, Read(text_that(_REPO.fullmatch, "owner/repo"))]

    def read(self) -> PluginSource:
        return self.at(f"https://github.com/{self.repo}.git")


class _Git(_Repository):
    url: Annotated[str, Read(_repository)]

    def read(self) -> PluginSource:
        return self.at(self.url)


class _Package(ForeignDocument):
    package: str = "?"

    def read(self) -> PluginSource:
        return Declined(
            f"it is the package {quote(self.package)} of a package registry, whose files are no commit that could be "
            "pinned; install it with the agent's own command, or from the plugin's repository"
        )


_KINDS: dict[str, type[_Folder | _GitHub | _Git | _Package]] = {
    "local": _Folder,
    "github": _GitHub,
    "url": _Git,
    "git": _Git,
    "git-subdir": _Git,
    "npm": _Package,
    "pip": _Package,
}


def read_marketplace(data: bytes, where: str) -> tuple[Plugin, ...]:
    """Return the plugins of a marketplace; of two with one name the first.

    Raises:
        FormatError: it is no marketplace; of a single entry that is malformed the plugin says so itself.
    """
    found = _Marketplace.parse(data, where)
    plugins: dict[str, Plugin] = {}
    for number, entry in enumerate(found.plugins):
        plugin = _plugin(entry, number, found.metadata.plugin_root)
        plugins.setdefault(plugin.name, plugin)
    return tuple(plugins.values())


def read_plugin(data: bytes, where: str) -> PluginManifest:
    """Return what a ``plugin.json`` says.

    Raises:
        FormatError: it is none.
    """
    found = _Manifest.parse(data, where)
    return PluginManifest(found.name, found.skills)


def _plugin(entry: object, number: int, base: str) -> Plugin:
    name = f"plugin {number + 1}"
    try:
        name = _Named.parse(entry, name).name
        found = _Entry.parse(entry, name)
        return Plugin(name, _source(found.source, base, f"{name}: source"), found.skills)
    except FormatError as error:
        return Plugin(name, Declined(f"its entry is malformed: {error.message} ({error.where})"))


def _source(source: object, base: str, where: str) -> PluginSource:
    if isinstance(source, str):
        path = _inner(source)
        return Here(f"{base}/{path}" if base and path else base or path)
    kind = _Kind.parse(source, where).source
    read = _KINDS.get(kind)
    if read is None:
        return Declined(f"{quote(kind)} is no kind of source that is read here")
    return read.parse(source, where).read()
