"""Plugin marketplaces, and the folders of a repository where installers look for skills."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar

from pydantic import Field

from skillhub.errors import FormatError
from skillhub.formats.document import ForeignDocument, Read, text_that, wrong
from skillhub.formats.text import NAME_MAX, clean, is_inner_path, is_object_id, quote
from skillhub.model.hosts import hosts
from skillhub.model.reference import is_rev, of_repository
from skillhub.model.tree import SKILL_MD

# Marketplaces of plugins: ``.claude-plugin/marketplace.json`` and ``.agents/plugins/marketplace.json``.
# A repository that has one lists plugins, each in a folder of its own or in another repository; skills are one
# of the things that a plugin may hold. One bad entry is declined by itself, for its neighbours come from
# others.

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
_Name = Annotated[str, Read(text_that(_NAME.fullmatch, "a name of letters, digits, dots, hyphens and underscores"))]


# What says where something is, or at which commit, is never left out: the rest would say another place.
class _Metadata(ForeignDocument):
    BINDING: ClassVar = frozenset({"pluginRoot"})

    plugin_root: _Inner = Field("", alias="pluginRoot")


class MarketplaceFile(ForeignDocument):
    """``marketplace.json``: the plugins of a repository."""

    CAP: ClassVar[int] = CAP
    BINDING: ClassVar = frozenset({"metadata"})

    plugins: tuple[object, ...] = Field(max_length=_PLUGINS_MAX)
    metadata: _Metadata = Field(default_factory=lambda: _Metadata.parse({}, ""))


class PluginFile(ForeignDocument):
    """``plugin.json``: a plugin's own name, and where it has skills besides ``skills``."""

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
    found = MarketplaceFile.parse(data, where)
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
    found = PluginFile.parse(data, where)
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


# Where installers look for skills in a repository or folder that holds many.
# A skill at the top is the only one. Else they are where agents and authors keep them, in this order: right
# below the top, in ``skills`` and its shelves (``.curated`` and the like), in the folder of any agent, in the
# plugins of ``plugins``. Only if none is there, anywhere else, not too deep. What lies in the folder of a skill
# is part of it.

SKILLS_MAX = 4000
_SKILLS = "skills"
_PLUGINS = "plugins"
_SKIPPED = frozenset({"node_modules", ".git", "dist", "build", "__pycache__"})
_SHELVES = 3  # folders from where skills are kept down to one
_WALK = 5  # folders from the top down to one that is kept nowhere in particular
# Of agents that have moved to `.agents/skills` since.
_FORMER = (".github/skills", ".codex/skills", ".cursor/skills", ".opencode/skills", ".cline/skills", ".pi/skills")
_NO_NAME = re.compile(r"[^a-z0-9]+")


def holders(paths: Iterable[str]) -> frozenset[str]:
    """Return the folders that hold a ``SKILL.md``, of all paths of a place, ``/`` between segments."""
    cut = len(SKILL_MD)
    return frozenset(
        path[:-cut].rstrip("/") for path in paths if path.endswith(SKILL_MD) and path[:-cut][-1:] in ("", "/")
    )


def skill_folders(holding: Collection[str], top: str = "", declared: Collection[str] = ()) -> tuple[str, ...]:
    """Return the folders of the skills below ``top``, in order of precedence.

    Args:
        holding: The ``holders`` of the place.
        top: The folder to look in; empty is all of it.
        declared: Folders that the author names as skills, which are ones wherever they lie.

    Raises:
        FormatError: more than ``SKILLS_MAX``.
    """
    holding = {folder for folder in holding if is_within(folder, top)}
    named = [folder for folder in dict.fromkeys(declared) if folder in holding]
    if top in holding:
        return (top, *(folder for folder in named if folder != top))
    ranks = {folder: _rank(below(folder, top)) for folder in holding}
    kept = sorted(((rank, folder) for folder, rank in ranks.items() if rank), key=_in_order)
    found = dict.fromkeys([folder for _, folder in kept] + named)
    if not found:
        walked = [below(folder, top) for folder in holding]
        found = dict.fromkeys(join(top, "/".join(parts)) for parts in sorted(walked) if _is_near(parts))
    if len(found) > SKILLS_MAX:
        raise FormatError(
            f"expected at most {SKILLS_MAX} skills in one place, found {len(found)}", hint="name a folder of it"
        )
    return tuple(folder for folder in found if folder in named or not _is_part(folder, found))


def plugin_folders(holding: Collection[str], root: str, places: Iterable[str]) -> tuple[str, ...]:
    """Return the folders of a plugin's skills: each place is a skill, or holds some; if none does, the plugin is one.

    Args:
        holding: The ``holders`` of the repository.
        root: The folder of the plugin.
        places: Folders relative to it.
    """
    holding = {folder for folder in holding if is_within(folder, root)}
    found: dict[str, None] = {}
    for place in places:
        at = join(root, place)
        inner = [folder for folder in holding if folder != at and is_within(folder, at)]
        shelved = [folder for folder in inner if len(below(folder, at)) <= _SHELVES]
        found |= dict.fromkeys([at] if at in holding else sorted(shelved))
    if not found and root in holding:
        return (root,)
    return tuple(folder for folder in found if not _is_part(folder, found))


def is_within(path: str, folder: str) -> bool:
    """Say whether ``path`` is ``folder`` or below it; the empty folder holds everything."""
    return not folder or path == folder or path.startswith(f"{folder}/")


def below(path: str, folder: str) -> list[str]:
    """Return the segments of ``path`` from ``folder``, which holds it, on."""
    rest = path[len(folder) :].strip("/")
    return rest.split("/") if rest else []


def join(folder: str, path: str) -> str:
    """Return ``path`` below ``folder``; either may be empty."""
    return f"{folder}/{path}" if folder and path else folder or path


def name_of_folder(folder: str) -> str:
    """Return the name of a skill that says none itself: its folder's, spelled as a name."""
    last = folder.rstrip("/").rpartition("/")[2].removesuffix(".git").lower()
    return _NO_NAME.sub("-", last).strip("-")[:NAME_MAX].strip("-") or "skill"


@cache
def _containers() -> Mapping[str, int]:
    """Return the folders that skills are kept in, by their rank."""
    of_agents = (folder for host in hosts().values() for folder in (host.project_dir, *host.other_dirs))
    own = (folder for folder in of_agents if folder and not folder.startswith("~"))
    kept = dict.fromkeys((_SKILLS, ".agents/skills", ".claude/skills", *own, *_FORMER))
    return {folder: rank for rank, folder in enumerate(kept, 1)}


def _rank(parts: list[str]) -> tuple[int, int] | None:
    """Return how early a folder comes: by where it is kept, then by how deep; None if it is kept nowhere."""
    if _SKIPPED.intersection(parts):
        return None
    if len(parts) == 1:
        return 0, 1
    for depth in range(1, min(_SHELVES, len(parts) - 1) + 1):
        rank = _containers().get("/".join(parts[:-depth]))
        if rank:
            return rank, depth
    if len(parts) == 4 and (parts[0], parts[2]) == (_PLUGINS, _SKILLS):
        return len(_containers()) + 1, 1
    return None


def _in_order(ranked: tuple[tuple[int, int] | None, str]) -> tuple[tuple[int, int], str]:
    return ranked[0] or (0, 0), ranked[1]


def _is_near(parts: list[str]) -> bool:
    return len(parts) <= _WALK and not _SKIPPED.intersection(parts)


def _is_part(folder: str, found: Collection[str]) -> bool:
    """Say whether the folder lies in another of those found."""
    return any(folder[:end] in found for end, char in enumerate(folder) if char == "/") or (
        bool(folder) and "" in found
    )
