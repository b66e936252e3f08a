"""A repository that holds skills: its snapshot, plugins, layout, and the files of each skill."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Literal, Protocol

from skillhub.archive import Entry, Limits, Unpacked, gather
from skillhub.errors import Forbidden, FormatError, NotFound, SourceError, UnsafeArchive, UnsafeTransfer, WrongBytes
from skillhub.formats.text import is_object_id, quote
from skillhub.model.index import Index, Release
from skillhub.model.manifest import Glance, glance
from skillhub.model.tree import SKILL_MD, File
from skillhub.net.target import may_lead
from skillhub.sources.marketplace import (
    CAP,
    MANIFESTS,
    MARKETPLACES,
    SKILLS_MAX,
    Declined,
    Elsewhere,
    Here,
    Plugin,
    PluginManifest,
    below,
    holders,
    is_within,
    join,
    name_of_folder,
    plugin_folders,
    read_marketplace,
    read_plugin,
    skill_folders,
)

# What a whole repository or folder holds: paths with their kinds at once, bytes only when they are asked for.
# A skill that is taken out of one passes the checks that archives pass.

_LIMITS = Limits()
_REFUSED = {
    "link": "a skill holds no links, found a symbolic one",
    "submodule": "a skill holds no other repository, found a submodule",
}
# The pointer that Git LFS commits in place of a file (its specification 1.0: at most 1,024 bytes, this line first).
_LFS = b"version https://git-lfs.github.com/spec/v1\n"
_LFS_MAX = 1024
_AFTER_SLASH = chr(ord("/") + 1)


@dataclass(frozen=True, slots=True)
class SnapshotNode:
    """One path of a snapshot that is no folder.

    Attributes:
        size: Bytes of a file; 0 of anything else.
    """

    kind: Literal["file", "link", "submodule"]
    executable: bool = False
    size: int = 0


class Snapshot(Protocol):
    """The files of a repository at one commit, or of a folder as it is now."""

    @property
    def nodes(self) -> Mapping[str, SnapshotNode]:
        """Every path, ``/`` between segments, as it is spelled there: nobody judged it yet."""
        ...

    @property
    def rev(self) -> str | None:
        """The full commit; None of a folder, which has none."""
        ...

    @property
    def date(self) -> str | None:
        """When the commit was made, UTC, as whoever made it says; None of a folder."""
        ...

    def read(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of these files, in this order, exactly as the commit has them.

        Raises:
            SourceError: they cannot be had.
            SecurityError: they are not those of the commit.
        """
        ...


class Folders:
    """A snapshot by its folders; ``.git`` is in none of them.

    Args:
        snapshot: The repository or folder.
        where: What it is called in errors.
    """

    def __init__(self, snapshot: Snapshot, where: str) -> None:
        self.snapshot = snapshot
        self.where = where

    def nodes(self, folder: str) -> dict[str, SnapshotNode]:
        """Return what lies below a folder by its path from there, sorted."""
        first = bisect_left(self._paths, f"{folder}/") if folder else 0
        last = bisect_left(self._paths, folder + _AFTER_SLASH) if folder else len(self._paths)
        parts = ((path, below(path, folder)) for path in self._paths[first:last])
        return {"/".join(rest): self.snapshot.nodes[path] for path, rest in parts if ".git" not in rest}

    def unpack(self, folder: str) -> Unpacked:
        """Return the skill in a folder, bytes and execute bits as they are there.

        Raises:
            NotFound: there is no such folder, or no ``SKILL.md`` in it.
            UnsafeArchive: it holds what no skill may hold: links, submodules, names that are unsafe, too much.
            FormatError: a file is kept in Git LFS, so that these are not its bytes.
            SourceError: the files cannot be had.
            SecurityError: they are not those of the commit.
        """
        nodes = self.nodes(folder)
        if SKILL_MD not in nodes:
            raise NotFound(f"{quote(folder or '.')} has no {SKILL_MD}", where=self.where)
        _check(nodes, folder)
        return gather(self._entries(folder, nodes), wrapper=False)

    def shape(self, folder: str) -> tuple[tuple[str, SnapshotNode], ...]:
        """Return all that is known of what a folder holds before a byte is read."""
        return tuple(self.nodes(folder).items())

    def sums(self, folder: str) -> tuple[bytes, ...] | None:
        """Return what tells the bytes in a folder from any others; None of what could not be unpacked.

        Raises:
            SourceError, SecurityError: as for ``unpack``.
        """
        nodes = self.nodes(folder)
        try:
            _check(nodes, folder)
        except UnsafeArchive:
            return None
        contents = self.snapshot.read([join(folder, path) for path in nodes])
        return tuple(sha256(data).digest() for data in contents)

    @cached_property
    def _paths(self) -> list[str]:
        return sorted(self.snapshot.nodes)

    def _entries(self, folder: str, nodes: Mapping[str, SnapshotNode]) -> Iterator[Entry]:
        contents = self.snapshot.read([join(folder, path) for path in nodes])
        for (path, node), data in zip(nodes.items(), contents, strict=True):
            if len(data) <= _LFS_MAX and data.startswith(_LFS):
                raise FormatError(
                    "expected a file, found a pointer to where Git LFS keeps it",
                    where=_shown(folder, path),
                    hint="its author would have to commit the file itself",
                )
            yield Entry(path, File(data, node.executable))


def _check(nodes: Mapping[str, SnapshotNode], folder: str) -> None:
    """Refuse what the gate would, before a byte is fetched: a repository may be far larger than any skill."""
    for path, node in nodes.items():
        if node.kind != "file":
            raise UnsafeArchive("link", _REFUSED[node.kind], where=_shown(folder, path))
    if len(nodes) > _LIMITS.entries:
        message = f"a skill has at most {_LIMITS.files} files, found {len(nodes)}"
        raise UnsafeArchive("too-many-files", message, where=_shown(folder, ""))
    if sum(node.size for node in nodes.values()) > _LIMITS.total:
        message = f"a skill has at most {_LIMITS.total} bytes unpacked"
        raise UnsafeArchive("too-large", message, where=_shown(folder, ""))


def _shown(folder: str, path: str) -> str:
    return quote(join(folder, path) or ".")[1:-1]


# What says which skills and plugins a repository holds, read in one go: each read may be a request to a server.

_HEAD_MAX = 1024 * 1024  # bytes of a SKILL.md that is read to list it
_MANIFESTS_MAX = 4000


@dataclass(frozen=True, slots=True)
class Survey:
    """What says which skills and plugins there are below a folder.

    Attributes:
        heads: Of the ``SKILL.md`` of each folder that has one; empty where it could not be read.
        manifests: What the plugins in these folders say of themselves.
        plugins: What the marketplaces list; of two plugins with one name the first.
        warnings: Which marketplaces could not be read.
    """

    heads: Mapping[str, Glance]
    manifests: Mapping[str, PluginManifest]
    plugins: Mapping[str, Plugin]
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, snapshot: Snapshot, top: str) -> Survey:
        """Return what ``top`` of a snapshot holds.

        Raises:
            FormatError: there are more skills than anybody could pick from.
            SourceError: files cannot be had.
            SecurityError: they are not those of the commit.
        """
        inside = [path for path in snapshot.nodes if is_within(path, top)]
        heads = dict.fromkeys(sorted(holders(inside)), Glance())
        if len(heads) > SKILLS_MAX:
            message = f"expected at most {SKILLS_MAX} skills in one place, found {len(heads)}"
            raise FormatError(message, hint="name a folder of it")
        markets = [join(top, path) for path in MARKETPLACES]
        roots = {path: root for path in inside if (root := _root_of(path)) is not None}
        wanted = [*markets, *list(roots)[:_MANIFESTS_MAX], *(join(folder, SKILL_MD) for folder in heads)]
        manifests: dict[str, PluginManifest] = {}
        listed: dict[str, tuple[Plugin, ...] | FormatError] = {}
        for path, data in _files(snapshot, wanted):
            if path in roots:
                manifests[roots[path]] = _joined(manifests.get(roots[path]), data, path)
            elif path in markets:
                listed[path] = _marketplace(data, path)
            else:
                heads[path.removesuffix(SKILL_MD).rstrip("/")] = glance(data)
        return cls(heads, manifests, *_in_turn([(path, listed.get(path, ())) for path in markets]))


def _root_of(path: str) -> str | None:
    """Return the folder of the plugin whose manifest this is; None of any other path."""
    for end in MANIFESTS:
        if path == end or path.endswith(f"/{end}"):
            return path.removesuffix(end).rstrip("/")
    return None


def _in_turn(
    marketplaces: Iterable[tuple[str, tuple[Plugin, ...] | FormatError]],
) -> tuple[Mapping[str, Plugin], tuple[str, ...]]:
    """Return the plugins of all marketplaces by name, and what is to be said of those that are none."""
    plugins: dict[str, Plugin] = {}
    warnings = []
    for path, found in marketplaces:
        if isinstance(found, FormatError):
            warnings.append(f"{path} was not read: {found.message}")
        else:
            plugins = {each.name: each for each in found} | plugins
    return plugins, tuple(warnings)


def _files(snapshot: Snapshot, paths: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield those of the files that are there, are files, and are not far too large."""
    nodes = snapshot.nodes
    regular = [path for path in paths if path in nodes and nodes[path].kind == "file"]
    limits = {path: _HEAD_MAX if path.endswith(SKILL_MD) else CAP for path in regular}
    small = [path for path in regular if nodes[path].size <= limits[path]]
    for path, data in zip(small, snapshot.read(small), strict=True):
        if len(data) <= limits[path]:
            yield path, data


def _marketplace(data: bytes, path: str) -> tuple[Plugin, ...] | FormatError:
    try:
        return read_marketplace(data, path)
    except FormatError as error:
        return error


def _joined(known: PluginManifest | None, data: bytes, path: str) -> PluginManifest:
    """Return what a plugin says in one manifest and another; one that is none says nothing."""
    known = known or PluginManifest(None)
    try:
        said = read_plugin(data, path)
    except FormatError:
        return known
    return PluginManifest(known.name or said.name, tuple(dict.fromkeys(known.skills + said.skills)))


# The plugins that a repository lists, and the folders of their skills.

_DEFAULT = "skills"


@dataclass(frozen=True, slots=True)
class Rooted:
    """A plugin and its folder in a snapshot.

    Attributes:
        skills: Where the marketplace says that its skills are, relative to ``root``; None if it does not say.
    """

    name: str
    root: str
    skills: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class MarketplaceListing:
    """What the marketplaces of a repository list.

    Attributes:
        here: The plugins that are in it.
        elsewhere: Those in other repositories; their ``root`` is a folder there.
        warnings: What was declined, and why.
    """

    here: Sequence[Rooted]
    elsewhere: Sequence[tuple[Rooted, Elsewhere]]
    warnings: tuple[str, ...]


def listed_plugins(survey: Survey, top: str) -> MarketplaceListing:
    """Return the plugins that the marketplaces in ``top`` list, or the one that ``top`` is."""
    plugins = dict(survey.plugins)
    own = survey.manifests.get(top)
    if own is not None and own.name is not None and not plugins:
        plugins[own.name] = Plugin(own.name, Here(""))
    here, elsewhere, warnings = [], [], list(survey.warnings)
    for each in plugins.values():
        match each.source:
            case Here(path):
                here.append(Rooted(each.name, join(top, path), each.skills))
            case Elsewhere(_, _, path):
                elsewhere.append((Rooted(each.name, path, each.skills), each.source))
            case Declined(reason):
                warnings.append(f"plugin {each.name} was left out: {reason}")
    return MarketplaceListing(here, elsewhere, tuple(warnings))


def plugin_skills(survey: Survey, plugins: Iterable[Rooted]) -> Mapping[str, str]:
    """Return the folders of the skills of these plugins; one that several have belongs to the first.

    A plugin's own manifest says where skills are besides ``skills``; what a marketplace says goes before it.
    """
    owners: dict[str, str] = {}
    for each in plugins:
        places = each.skills
        if places is None:
            own = survey.manifests.get(each.root)
            places = (*(own.skills if own else ()), _DEFAULT)
        for folder in plugin_folders(survey.heads, each.root, places):
            owners.setdefault(folder, each.name)
    return owners


# A repository that holds skills, seen as a place: what it offers, and the very files of each.

_AT_ONCE = 8  # repositories that are opened side by side


OpenElsewhere = Callable[[str, str | None], Snapshot]
_Failure = SourceError | FormatError | UnsafeTransfer | Forbidden
_Where = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class _Here:
    """What a repository has without those that its marketplace names.

    Attributes:
        words: The names and folders of what was found.
    """

    found: Sequence[Release]
    words: Collection[str]
    elsewhere: Sequence[tuple[Rooted, Elsewhere]]
    index: Index

    def needed(self, words: Collection[str] | None) -> Sequence[tuple[Rooted, Elsewhere]]:
        """Return the plugins elsewhere that may hold what somebody is after and nothing here is."""
        if words is None or not all(word.strip("/") in self.words for word in words if ":" not in word):
            return self.elsewhere
        asked = {word.rpartition(":")[0] for word in words}
        return [(plugin, source) for plugin, source in self.elsewhere if plugin.name in asked]


class Repository:
    """A place: the skills of one snapshot, and of the plugins that its marketplace keeps in other repositories.

    Args:
        snapshot: What is in the repository.
        url: Where it is, absolute, as the lock will say it.
        path: Look only into this folder, which is a skill or holds several.
        elsewhere: Opens the repository at a URL, at a commit, branch or tag, or its newest commit, unless a policy
            forbids it; several threads may call it at once.
        leads: Raises for the URL of a repository that a marketplace here, at a URL, may not name.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        url: str,
        path: str | None = None,
        elsewhere: OpenElsewhere,
        leads: Callable[[str, str], None] = may_lead,
    ) -> None:
        self._own: _Where = (url, snapshot.rev)
        self._top = path or ""
        self._elsewhere = elsewhere
        self._leads = leads
        self._opened = {self._own: Folders(snapshot, url)}
        self._indexes: dict[frozenset[str] | None, Index] = {}

    def index(self, words: Collection[str] | None = None) -> Index:
        """Return the skills by name; those of one name that differ stand side by side, the foremost first.

        Args:
            words: Names, ``plugin:name`` or folders that somebody is after: plugins in other repositories are then
                only opened if it takes that. None is everything.

        Raises:
            NotFound: there is no folder ``path``.
            FormatError: there are too many skills.
            SourceError: files cannot be had, or a plugin that was asked for cannot be reached.
            SecurityError: files are not those of the commit.
            Forbidden: a policy forbids the repository that has what was asked for, or may have.
        """
        asked = None if words is None else frozenset(words)
        if asked not in self._indexes:
            self._indexes[asked] = self._index(asked)
        return self._indexes[asked]

    def unpacked(self, release: Release) -> Unpacked:
        """Return the files of a skill; its release may come from ``index`` or be built from a lock.

        Raises:
            NotFound: there is no such folder, commit or repository.
            WrongBytes: another commit came than the one that was pinned.
            UnsafeTransfer: the repository is one that no marketplace may name.
            Forbidden: a policy forbids it.
            SourceError, SecurityError, FormatError: as ``Folders.unpack`` says.
        """
        return self._folders(release).unpack(release.path or "")

    def committed(self, release: Release) -> str | None:
        """Return when the commit of a release was made, UTC, as whoever made it says; None of a folder.

        Raises:
            NotFound, WrongBytes, UnsafeTransfer, SourceError: as ``unpacked`` does.
        """
        return self._folders(release).snapshot.date

    @cached_property
    def _here(self) -> _Here:
        """What the repository itself has, looked for once however many ask."""
        url, _ = self._own
        folders = self._opened[self._own]
        if self._top and not any(is_within(path, self._top) for path in folders.snapshot.nodes):
            raise NotFound(f"there is no folder {quote(self._top)} here", where=url)
        survey = Survey.of(folders.snapshot, self._top)
        listed = listed_plugins(survey, self._top)
        warnings = list(listed.warnings)
        owners = plugin_skills(survey, listed.here)
        spots = {each: owners.get(each) for each in skill_folders(survey.heads, self._top, owners)}
        found = tuple(self._releases(self._own, spots, survey, warnings))
        words = frozenset(text for each in found for text in (each.name, each.path) if text)
        return _Here(found, words, listed.elsewhere, Index(self._told_apart(found), warnings=tuple(warnings)))

    def _index(self, words: Collection[str] | None) -> Index:
        here = self._here
        needed = here.needed(words)
        if not needed:
            return here.index
        found, warnings = list(here.found), list(here.index.warnings)
        forbidden = None
        for plugin, where in self._open_all(needed):
            if isinstance(where, Exception):
                if words is not None and any(word.startswith(f"{plugin.name}:") for word in words):
                    raise where
                warnings.append(f"plugin {plugin.name} was left out: {where}")
                forbidden = where if isinstance(where, Forbidden) else forbidden
                continue
            there = Survey.of(self._opened[where].snapshot, plugin.root)
            found += self._releases(where, plugin_skills(there, [plugin]), there, warnings)
        if forbidden is not None and words is not None and not _all_here(words, found):
            raise forbidden
        return Index(self._told_apart(found), warnings=tuple(warnings))

    def _folders(self, release: Release) -> Folders:
        where = (release.url, release.rev)
        if where not in self._opened:
            where = self._open(where)
        return self._opened[where]

    def _open(self, where: _Where) -> _Where:
        """Open another repository and return it with the commit that it is at."""
        url, rev = where
        self._leads(url, self._own[0])
        commit = self._elsewhere(url, rev)
        if rev is not None and is_object_id(rev) and commit.rev != rev:
            raise WrongBytes(f"expected the commit {rev}, found {commit.rev}", where=url)
        self._opened.setdefault((url, commit.rev), Folders(commit, url))
        return url, commit.rev

    def _open_all(self, plugins: Sequence[tuple[Rooted, Elsewhere]]) -> Iterator[tuple[Rooted, _Where | _Failure]]:
        """Yield each plugin with its repository, opened once however many are in it, or with why it was not."""
        asked = dict.fromkeys((source.url, source.rev) for _, source in plugins)

        def opened(where: _Where) -> _Where | _Failure:
            try:
                return self._open(where)
            except (SourceError, FormatError, UnsafeTransfer, Forbidden) as error:
                return error

        if asked:
            with ThreadPoolExecutor(min(_AT_ONCE, len(asked))) as pool:
                found = dict(zip(asked, pool.map(opened, asked), strict=True))
            for plugin, source in plugins:
                yield plugin, found[source.url, source.rev]

    def _releases(
        self, where: _Where, spots: Mapping[str, str | None], survey: Survey, warnings: list[str]
    ) -> Iterator[Release]:
        """Yield the releases of these folders, which are parts of these plugins."""
        url, rev = where
        for folder, plugin in spots.items():
            head = survey.heads[folder]
            if head.internal and folder != self._top:
                warnings.append(f"{quote(folder)} was left out: its author marks it as internal")
                continue
            yield Release(
                name=head.name or name_of_folder(folder or url),
                url=url,
                type="tree",
                description=head.description,
                rev=rev,
                path=folder or None,
                plugin=plugin,
            )

    def _told_apart(self, found: Iterable[Release]) -> dict[str, tuple[Release, ...]]:
        """Return the releases by name; the same bytes twice are one skill."""
        skills: dict[str, list[Release]] = {}
        for release in found:
            skills.setdefault(release.name, []).append(release)
        return {name: self._distinct(releases) for name, releases in skills.items()}

    def _distinct(self, releases: Sequence[Release]) -> tuple[Release, ...]:
        """Return the first of each content, or the first in a plugin; bytes are read only where need be."""
        if len(releases) == 1:
            return tuple(releases)
        shapes = [self._folders(each).shape(each.path or "") for each in releases]
        often = Counter(shapes)
        kept: dict[object, Release] = {}
        for release, shape in zip(releases, shapes, strict=True):
            key: object = shape
            if often[shape] > 1:
                sums = self._folders(release).sums(release.path or "")
                key = (release.url, release.path) if sums is None else (shape, sums)
            first = kept.setdefault(key, release)
            if first.plugin is None and release.plugin is not None and first.url == release.url:
                kept[key] = release
        return tuple(kept.values())


def _all_here(words: Iterable[str], found: Iterable[Release]) -> bool:
    """Say whether each of the words is the name or the folder of a skill that was found."""
    here = {text for release in found for text in (release.name, release.path)}
    return all(word.rpartition(":")[2].strip("/") in here for word in words)
