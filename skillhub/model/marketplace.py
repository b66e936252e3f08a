"""Marketplaces of plugins: ``.claude-plugin/marketplace.json`` and ``.agents/plugins/marketplace.json``.

A repository that has one lists plugins, each in a folder of its own or in another repository; skills are one of the
things that a plugin may hold. One bad entry is declined by itself, for its neighbours come from others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skillhub.errors import FormatError
from skillhub.model.ref import is_rev
from skillhub.model.syntax.decode import array, located, record, text, text_that, wrong
from skillhub.model.syntax.json import strict_json
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


def read_marketplace(data: bytes, where: str) -> tuple[Plugin, ...]:
    """Return the plugins of a marketplace; of two with one name the first.

    Raises:
        FormatError: it is no marketplace; of a single entry that is malformed the plugin says so itself.
    """
    with located(where):
        found = _MARKETPLACE(strict_json(data, where, CAP))
    entries = found["plugins"]
    if len(entries) > _PLUGINS_MAX:
        raise FormatError(f"expected at most {_PLUGINS_MAX} plugins, found {len(entries)}", where=where)
    base = found.get("metadata", {}).get("pluginRoot", "")
    plugins: dict[str, Plugin] = {}
    for number, entry in enumerate(entries):
        plugin = _plugin(entry, number, base)
        plugins.setdefault(plugin.name, plugin)
    return tuple(plugins.values())


def read_plugin(data: bytes, where: str) -> PluginManifest:
    """Return what a ``plugin.json`` says.

    Raises:
        FormatError: it is none.
    """
    with located(where):
        found = _MANIFEST(strict_json(data, where, CAP))
    return PluginManifest(found.get("name"), found.get("skills", ()))


def _plugin(entry: object, number: int, base: str) -> Plugin:
    name = f"plugin {number + 1}"
    try:
        name = _ENTRY_NAME(entry)["name"]
        found = _ENTRY(entry)
        return Plugin(name, _source(found["source"], base), found.get("skills"))
    except FormatError as error:
        return Plugin(
            name, Declined(f"its entry is malformed at {error.where or 'its top'}: {error.message}")
        )


def _inner(value: object) -> str:
    """Read a folder inside a repository: ``./``, ``./a/b`` or ``a/b``; empty is all of it."""
    path = text(value)
    if clean(path) != path or path.startswith("/"):
        wrong("a folder of the repository", value)
    path = path.removeprefix("./").rstrip("/")
    if path in ("", "."):
        return ""
    return path if is_inner_path(path) else wrong("a folder of the repository", value)


def _inner_paths(value: object) -> tuple[str, ...]:
    return (_inner(value),) if isinstance(value, str) else array(_inner)(value)


def _repository(value: object) -> str:
    """Read the URL of a repository, as git takes it; ``owner/repo`` is one on GitHub."""
    url = of_repository(text(value))
    if _REPO.fullmatch(url):
        return f"https://github.com/{url}.git"
    return url if _URL.fullmatch(url) else wrong("the URL of a git repository", value)


_name = text_that(_NAME.fullmatch, "a name of letters, digits, dots, hyphens and underscores")
_rev = text_that(is_rev, "a branch, a tag or a commit")
_commit = text_that(is_object_id, "a commit of 40 hex digits")
_on_github = text_that(_REPO.fullmatch, "owner/repo")
_MARKETPLACE = record(
    {"plugins": array(lambda entry: entry)}, {"metadata": record({}, {"pluginRoot": _inner})}
)
_MANIFEST = record({}, {"name": _name, "skills": _inner_paths})
_ENTRY_NAME = record({"name": _name})
_ENTRY = record({"source": lambda source: source}, {"skills": _inner_paths})
_KIND = record({"source": text})
_PIN = {"ref": _rev, "sha": _commit, "path": _inner}


def _elsewhere(url: str, found: dict[str, Any]) -> Elsewhere:
    # Where both are given the commit is what was agreed to, the branch only where it was found.
    return Elsewhere(url, found.get("sha") or found.get("ref"), found.get("path", ""))


def _from_github(source: object) -> PluginSource:
    found = record({"repo": _on_github}, _PIN)(source)
    return _elsewhere(f"https://github.com/{found['repo']}.git", found)


def _from_git(source: object) -> PluginSource:
    found = record({"url": _repository}, _PIN)(source)
    return _elsewhere(found["url"], found)


def _from_folder(source: object) -> PluginSource:
    return Here(record({"path": _inner})(source)["path"])


def _from_packages(source: object) -> PluginSource:
    package = record({}, {"package": text})(source).get("package", "?")
    return Declined(
        f"it is the package {quote(package)} of a package registry, whose files are no commit that could be pinned; "
        "install it with the agent's own command, or from the plugin's repository"
    )


_KINDS: dict[str, Callable[[object], PluginSource]] = {
    "local": _from_folder,
    "github": _from_github,
    "url": _from_git,
    "git": _from_git,
    "git-subdir": _from_git,
    "npm": _from_packages,
    "pip": _from_packages,
}


def _source(source: object, base: str) -> PluginSource:
    if isinstance(source, str):
        path = _inner(source)
        return Here(f"{base}/{path}" if base and path else base or path)
    kind = _KIND(source)["source"]
    read = _KINDS.get(kind)
    return read(source) if read else Declined(f"{quote(kind)} is no kind of source that is read here")
