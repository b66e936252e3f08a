"""A repository or folder that holds skills: its snapshot, its plugins, and the folders of its skills."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import Field

from skillhub.errors import FormatError
from skillhub.formats.document import ForeignDocument, Read, text_that, wrong
from skillhub.formats.text import NAME_MAX, clean, is_inner_path, is_object_id, quote
from skillhub.model.hosts import hosts
from skillhub.model.manifest import Glance, glance
from skillhub.model.reference import is_rev, of_repository
from skillhub.model.tree import SKILL_MD, misnamed

# The files of a repository at one commit, or of a folder now: what the sources of repositories have in common.

_AFTER_SLASH = chr(ord("/") + 1)


@dataclass(frozen=True, slots=True)
class SnapshotNode:
    """A file, link or submodule of a snapshot.

    Attributes:
        size: The bytes of a file; 0 for the other kinds.
        id: The id of its object of git; empty in a folder.
    """

    kind: Literal["file", "link", "submodule"]
    executable: bool = False
    size: int = 0
    id: str = field(default="", compare=False)


class SnapshotNodes(dict[str, SnapshotNode]):
    """The nodes of a snapshot by path, ``/`` between segments; paths are untrusted, spelled as in the source.

    They are not changed any more once ``within`` was called.
    """

    def within(self, folder: str) -> list[str]:
        """Return ``folder``, if it is a path, and the paths below it, sorted; for an empty one all paths."""
        if not folder:
            return self._paths
        first, last = (bisect_left(self._paths, f"{folder}{end}") for end in ("/", _AFTER_SLASH))
        return [*([folder] if folder in self else ()), *self._paths[first:last]]

    @cached_property
    def _paths(self) -> list[str]:
        return sorted(self)


class Snapshot(Protocol):
    """The files of a repository at one commit, or of a folder now: all paths at once, bytes on request."""

    @property
    def nodes(self) -> SnapshotNodes:
        """The nodes of all files, links and submodules."""

    @property
    def rev(self) -> str | None:
        """The full commit; None for a folder."""

    @property
    def date(self) -> str | None:
        """The time of the commit, UTC, as its committer states it; None for a folder."""

    def read(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of these files, in this order, exactly as the commit has them.

        Raises:
            SourceError: the files cannot be fetched.
            SecurityError: the bytes are not those of the commit.
        """


# Marketplaces of plugins: ``.claude-plugin/marketplace.json`` and ``.agents/plugins/marketplace.json``.
# A marketplace lists plugins, each in a folder of this repository or in another repository. A plugin may hold skills,
# among other things. A malformed entry is declined alone, since the other entries have other authors.

MARKETPLACES = (".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json")
MANIFESTS = (".claude-plugin/plugin.json", ".codex-plugin/plugin.json")
CAP = 8 * 1024 * 1024
_PLUGINS_MAX = 4000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}", re.ASCII)
_URL = re.compile(r"(?:https?|ssh|file)://[A-Za-z0-9._~!$&'()*+,;=:@%/\[\]-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Here:
    """A plugin in this repository; ``path`` is its folder relative to the marketplace's, empty for the same one."""

    path: str


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A plugin in another repository.

    Attributes:
        rev: A full commit, a branch or a tag; None for the newest commit.
        path: The folder of the plugin there; empty for the whole repository.
    """

    url: str
    rev: str | None = None
    path: str = ""


@dataclass(frozen=True, slots=True)
class Declined:
    """A plugin that is not read, and the reason, in words that follow its name."""

    reason: str


PluginSource = Here | Elsewhere | Declined


@dataclass(frozen=True, slots=True)
class Plugin:
    """One plugin that a marketplace lists.

    Attributes:
        skills: The folders of its skills, relative to its folder; None if its own manifest has to name them.
    """

    name: str
    source: PluginSource
    skills: tuple[str, ...] | None = None


def _inner(value: object) -> str:
    """Read a folder inside a repository: ``./``, ``./a/b`` or ``a/b``; the result is empty for the top folder."""
    if not isinstance(value, str) or clean(value) != value or value.startswith("/"):
        wrong("a folder of the repository", value)
    path = value.removeprefix("./").rstrip("/")
    if path in ("", "."):
        return ""
    return path if is_inner_path(path) else wrong("a folder of the repository", value)


def _inner_paths(value: object) -> tuple[str, ...]:
    paths = [value] if isinstance(value, str) else value
    return tuple(map(_inner, paths)) if isinstance(paths, list) else wrong("folders of the repository", value)


def _on_github(value: object) -> str:
    found = isinstance(value, str) and _REPO.fullmatch(value)
    return f"https://github.com/{value}.git" if found else wrong("owner/repo", value)


def _repository(value: object) -> str:
    """Read the URL of a git repository; ``owner/repo`` names one on GitHub."""
    url = of_repository(value) if isinstance(value, str) else ""
    if _REPO.fullmatch(url):
        return _on_github(url)
    return url if _URL.fullmatch(url) else wrong("the URL of a git repository", value)


_Inner = Annotated[str, Read(_inner)]
_InnerPaths = Annotated[tuple[str, ...], Read(_inner_paths)]
_Name = Annotated[str, Read(text_that(_NAME.fullmatch, "a name of letters, digits, dots, hyphens and underscores"))]


# Without ``LENIENT`` keys: a malformed location or commit is an error, since the entry would name another place.
class _Metadata(ForeignDocument):
    LENIENT: ClassVar = ()

    plugin_root: _Inner = Field("", alias="pluginRoot")


class MarketplaceFile(ForeignDocument):
    """``marketplace.json``: the plugins of a repository."""

    CAP: ClassVar[int] = CAP
    LENIENT: ClassVar = ()

    plugins: tuple[object, ...] = Field(max_length=_PLUGINS_MAX)
    metadata: _Metadata = Field(default_factory=lambda: _Metadata.parse({}, ""))


class PluginFile(ForeignDocument):
    """``plugin.json``: the name of a plugin, and its folders of skills besides ``skills``."""

    CAP: ClassVar[int] = CAP
    LENIENT: ClassVar = ()

    name: _Name | None = None
    skills: _InnerPaths = ()


class _Named(ForeignDocument):
    name: _Name


class _Kind(ForeignDocument):
    """A source that is an object, whose ``source`` decides which keys it has."""

    source: str
    package: str = "?"


class _Entry(_Named):
    LENIENT: ClassVar = ()

    source: object
    skills: _InnerPaths | None = None


class _Folder(ForeignDocument):
    path: _Inner


class _Git(ForeignDocument):
    LENIENT: ClassVar = ()

    url: Annotated[str, Read(_repository)]
    ref: Annotated[str, Read(text_that(is_rev, "a branch, a tag or a commit"))] = ""
    sha: Annotated[str, Read(text_that(is_object_id, "a commit of 40 hex digits"))] = ""
    path: _Inner = ""

    def read(self) -> Elsewhere:
        # If the entry has both, the commit pins the plugin, and the branch only says where it was found.
        return Elsewhere(self.url, self.sha or self.ref or None, self.path)


class _GitHub(_Git):
    url: Annotated[str, Read(_on_github)] = Field(alias="repo")


def read_marketplace(data: bytes, where: str) -> tuple[Plugin, ...]:
    """Return the plugins of a marketplace; of two with one name the first.

    Raises:
        FormatError: the document is no marketplace. A single malformed entry gives a plugin that is ``Declined``.
    """
    found = MarketplaceFile.parse(data, where)
    plugins: dict[str, Plugin] = {}
    for number, entry in enumerate(found.plugins):
        plugin = _plugin(entry, number, found.metadata.plugin_root)
        plugins.setdefault(plugin.name, plugin)
    return tuple(plugins.values())


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
        return Here(join(base, _inner(source)))
    kind = _Kind.parse(source, where)
    match kind.source:
        case "local":
            return Here(_Folder.parse(source, where).path)
        case "github":
            return _GitHub.parse(source, where).read()
        case "url" | "git" | "git-subdir":
            return _Git.parse(source, where).read()
        case "npm" | "pip":
            return Declined(
                f"it is the package {quote(kind.package)} of a package registry, whose files are no commit that "
                "could be pinned; install it with the agent's own command, or from the plugin's repository"
            )
    return Declined(f"{quote(kind.source)} is not a supported kind of source")


# The folders of a repository or local folder in which installers look for skills.
# A skill at the top is the only one. Otherwise skills are in the folders where agents and authors keep them, in this
# order: directly below the top, in ``skills`` and up to two folders deeper (``.curated`` and the like), in the folder
# of any agent, in the plugins of ``plugins``. Only if none of these has a skill, all other folders count, up to a
# depth. The folders inside a skill are part of it.

SKILLS_MAX = 4000
_SKILLS = "skills"
_PLUGINS = "plugins"
_SKIPPED = frozenset({"node_modules", ".git", "dist", "build", "__pycache__"})
_SHELVES = 3  # the depth of a skill below a folder that skills are kept in
_WALK = 5  # the depth of a skill in any other folder below the top
_NO_NAME = re.compile(r"[^a-z0-9]+")


def holders(paths: Iterable[str]) -> frozenset[str]:
    """Return the folders that hold a ``SKILL.md``; ``paths`` are all paths of a place, ``/`` between segments."""
    named = (path.rpartition("/") for path in paths if path.endswith(SKILL_MD))
    return frozenset(folder for folder, _, name in named if name == SKILL_MD)


def skill_folders(holding: Collection[str], top: str = "", declared: Collection[str] = ()) -> tuple[str, ...]:
    """Return the folders of the skills below ``top``, in order of precedence.

    Args:
        holding: The ``holders`` of the place.
        top: The folder to look in; empty for the whole place.
        declared: Folders that the author names as skills; these count at any place and depth.

    Raises:
        FormatError: there are more than ``SKILLS_MAX``.
    """
    holding = {folder for folder in holding if is_within(folder, top)}
    named = [folder for folder in dict.fromkeys(declared) if folder in holding]
    if top in holding:
        return (top, *(folder for folder in named if folder != top))
    ranks = {folder: rank for folder in holding if (rank := _rank(below(folder, top)))}
    found = dict.fromkeys(sorted(ranks, key=lambda folder: (ranks[folder], folder)) + named)
    if not found:
        walked = sorted(below(folder, top) for folder in holding)
        near = [parts for parts in walked if len(parts) <= _WALK and not _SKIPPED.intersection(parts)]
        found = dict.fromkeys(join(top, "/".join(parts)) for parts in near)
    _refuse_many(found)
    return tuple(folder for folder in found if folder in named or not _is_part(folder, found))


def _refuse_many(folders: Collection[str]) -> None:
    if len(folders) > SKILLS_MAX:
        raise FormatError(f"expected at most {SKILLS_MAX} skills, found {len(folders)}", hint="name a folder of it")


def shelves(holding: Iterable[str]) -> Mapping[str, list[str]]:
    """Return the folders of ``holding`` that lie at most ``_SHELVES`` folders below each folder, sorted."""
    found: dict[str, list[str]] = {}
    for folder in sorted(filter(None, holding)):
        parts = folder.split("/")
        for end in range(max(0, len(parts) - _SHELVES), len(parts)):
            found.setdefault("/".join(parts[:end]), []).append(folder)
    return found


def plugin_folders(
    holding: Collection[str], shelved: Mapping[str, list[str]], root: str, places: Iterable[str]
) -> tuple[str, ...]:
    """Return the folders of a plugin's skills: each place is a skill or holds skills; else the plugin may be one.

    Args:
        holding: The ``holders`` of the repository.
        shelved: The ``shelves`` of ``holding``.
        root: The folder of the plugin.
        places: Folders relative to ``root``.
    """
    found: dict[str, None] = {}
    for at in dict.fromkeys(join(root, place) for place in places):
        found |= dict.fromkeys([at] if at in holding else shelved.get(at, ()))
    if not found and root in holding:
        return (root,)
    return tuple(folder for folder in found if not _is_part(folder, found))


def is_within(path: str, folder: str) -> bool:
    """Return whether ``path`` is ``folder`` or below it; every path is below the empty folder."""
    return not folder or path == folder or path.startswith(f"{folder}/")


def below(path: str, folder: str) -> list[str]:
    """Return the segments of ``path`` after those of ``folder``, which holds it."""
    rest = path[len(folder) :].strip("/")
    return rest.split("/") if rest else []


def join(folder: str, path: str) -> str:
    """Return ``path`` below ``folder``; either may be empty."""
    return f"{folder}/{path}" if folder and path else folder or path


def name_of_folder(folder: str) -> str:
    """Return the name for a skill that declares none: that of its folder, with only the characters of a name."""
    last = folder.rstrip("/").rpartition("/")[2].removesuffix(".git").lower()
    return _NO_NAME.sub("-", last).strip("-")[:NAME_MAX].strip("-") or "skill"


@cache
def _containers() -> Mapping[str, int]:
    """Return the rank of each folder that skills are kept in."""
    of_agents = (folder for host in hosts().values() for folder in (host.project_dir, *host.other_dirs))
    own = (folder for folder in of_agents if folder and not folder.startswith("~"))
    kept = dict.fromkeys((_SKILLS, ".agents/skills", ".claude/skills", *own))
    return {folder: rank for rank, folder in enumerate(kept, 1)}


def _rank(parts: list[str]) -> tuple[int, int] | None:
    """Return the rank of a skill's folder: that of the folder it is kept in, then its depth; None for any other."""
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


def _is_part(folder: str, found: Collection[str]) -> bool:
    """Return whether the folder lies in another one of ``found``."""
    parents = (folder[:end] for end, char in enumerate(folder) if char == "/")
    return any(parent in found for parent in parents) or (bool(folder) and "" in found)


# The files that name the skills and plugins of a repository are read together, since each read may be a request.

_HEAD_MAX = 1024 * 1024  # bytes of a SKILL.md that is read to list it
_MANIFESTS_MAX = 4000
_READ_MAX = 64 << 20  # bytes of all these files together
_OWNED_MAX = 100_000  # a skill may be in several plugins
_Plugins = Sequence[tuple[Plugin, str]]


@dataclass(frozen=True, slots=True)
class Survey:
    """The skills and plugins below a folder, as its files declare them.

    Attributes:
        heads: The beginning of each ``SKILL.md``, by folder; an empty one if it could not be read.
        places: The folders of skills besides ``skills`` that the manifests of each plugin name, by its folder.
        here: The plugins in this repository that the marketplaces list, with their folders; if they list none, the
            plugin that the folder itself is.
        elsewhere: The plugins in other repositories.
        warnings: The marketplaces that could not be read, the plugins that are left out, and the reasons; without
            a skill, the files whose names are nearly that of a skill's file.
    """

    heads: Mapping[str, Glance]
    places: Mapping[str, tuple[str, ...]]
    here: _Plugins
    elsewhere: Sequence[tuple[Plugin, Elsewhere]]
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, snapshot: Snapshot, top: str) -> Survey:
        """Return the survey of the folder ``top`` of a snapshot.

        Raises:
            FormatError: there are more than ``SKILLS_MAX`` skills.
            SourceError: files cannot be fetched.
            SecurityError: the bytes are not those of the commit.
        """
        inside = snapshot.nodes.within(top)
        heads = dict.fromkeys(sorted(holders(inside)), Glance())
        _refuse_many(heads)
        markets = [join(top, path) for path in MARKETPLACES]
        roots = {path: root for path in inside if (root := _root_of(path)) is not None}
        wanted = [*markets, *list(roots)[:_MANIFESTS_MAX], *(join(folder, SKILL_MD) for folder in heads)]
        names: dict[str, str] = {}
        places: dict[str, tuple[str, ...]] = {}
        listings = {}
        for path, data in _files(snapshot, wanted):
            if path in roots:
                with suppress(FormatError):  # a malformed manifest is ignored
                    found, root = PluginFile.parse(data, path), roots[path]
                    if found.name:
                        names.setdefault(root, found.name)
                    places[root] = tuple(dict.fromkeys(places.get(root, ()) + found.skills))
            elif path in markets:
                listings[path] = data
            else:
                heads[path.removesuffix(SKILL_MD).rstrip("/")] = glance(data)
        plugins, warnings = _listed((path, listings[path]) for path in markets if path in listings)
        if not plugins and top in names:
            plugins = [Plugin(names[top], Here(""))]
        here, elsewhere = [], []
        for each in plugins:
            match each.source:
                case Here(path):
                    here.append((each, join(top, path)))
                case Elsewhere():
                    elsewhere.append((each, each.source))
                case Declined(reason):
                    warnings.append(f"plugin {each.name} was left out: {reason}")
        if not heads and (near := misnamed(inside)):
            warnings.append(near)
        return cls(heads, places, here, elsewhere, tuple(warnings))

    def skill_folders(self, plugins: _Plugins) -> Mapping[str, str]:
        """Return the name of the plugin for each folder of a skill in these plugins; of several plugins the first.

        The folders that the marketplace names replace those of the plugin's own manifest, which add to ``skills``.
        """
        owners: dict[str, str] = {}
        shelved, left = shelves(self.heads), _OWNED_MAX
        for plugin, root in plugins:
            places = (*self.places.get(root, ()), _SKILLS) if plugin.skills is None else plugin.skills
            folders = plugin_folders(self.heads, shelved, root, places)
            if (left := left - len(folders)) < 0:
                raise FormatError(f"expected at most {_OWNED_MAX} skills in all plugins together, found more")
            for folder in folders:
                owners.setdefault(folder, plugin.name)
        return owners


def _root_of(path: str) -> str | None:
    """Return the folder of the plugin whose manifest is at ``path``; None for any other path."""
    for end in MANIFESTS:
        if path == end or path.endswith(f"/{end}"):
            return path.removesuffix(end).rstrip("/")
    return None


def _listed(marketplaces: Iterable[tuple[str, bytes]]) -> tuple[list[Plugin], list[str]]:
    """Return the plugins of all marketplaces, of two with one name the first, and a warning for each unread one."""
    plugins: dict[str, Plugin] = {}
    warnings = []
    for path, data in marketplaces:
        try:
            plugins = {each.name: each for each in read_marketplace(data, path)} | plugins
        except FormatError as error:
            warnings.append(f"{path} was not read: {error.message}")
    return list(plugins.values()), warnings


def _files(snapshot: Snapshot, paths: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the bytes of each existing regular file that is not too large.

    Raises:
        FormatError: all files together are too large; a repository can hold one large file at a thousand paths.
    """
    nodes = snapshot.nodes
    regular = [path for path in paths if path in nodes and nodes[path].kind == "file"]
    limits = {path: _HEAD_MAX if path.endswith(SKILL_MD) else CAP for path in regular}
    small, left = [path for path in regular if nodes[path].size <= limits[path]], _READ_MAX
    for path, data in zip(small, snapshot.read(small), strict=True):
        if (left := left - len(data)) < 0:
            raise FormatError(f"expected at most {_READ_MAX} bytes of descriptions", hint="name a folder of it")
        if len(data) <= limits[path]:
            yield path, data
