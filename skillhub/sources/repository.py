"""A repository or local folder that holds skills, as a place: its plugins, its skills, the files of each skill."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from skillhub.archive.limits import Entry, Limits
from skillhub.archive.unpack import gather
from skillhub.disk import files
from skillhub.disk.folders import entries_below
from skillhub.errors import Forbidden, FormatError, NotFound, SourceError, UnsafeArchive, UnsafeTransfer, WrongBytes
from skillhub.formats.text import (
    NAME_RULE,
    as_command,
    did_you_mean,
    grouped,
    is_name,
    is_object_id,
    quote,
    spelled_like,
)
from skillhub.model.index import Index, Release
from skillhub.model.tree import SKILL_MD, File, Unpacked
from skillhub.net.target import check_marketplace_url
from skillhub.net.threads import threads
from skillhub.sources import layout
from skillhub.sources.layout import Elsewhere, Plugin, Snapshot, SnapshotNode, SnapshotNodes, Survey, join

# The files of each skill pass the same checks as those of an archive.

_LIMITS = Limits()
_REFUSED = {
    "link": "a skill holds no links, found a symbolic one",
    "submodule": "a skill holds no other repository, found a submodule",
}
# The pointer that Git LFS commits in place of a file (its specification 1.0: at most 1,024 bytes, this line first).
_LFS = b"version https://git-lfs.github.com/spec/v1\n"
_LFS_MAX = 1024


class Folders:
    """The folders of a snapshot, without ``.git``.

    Args:
        snapshot: The repository or folder.
        where: Its name in errors.
    """

    def __init__(self, snapshot: Snapshot, where: str) -> None:
        self.snapshot, self.where = snapshot, where

    def nodes(self, folder: str) -> dict[str, SnapshotNode]:
        """Return the nodes below a folder, by path relative to it, sorted."""
        nodes = self.snapshot.nodes
        parts = ((path, layout.below(path, folder)) for path in nodes.within(folder))
        return {"/".join(rest): nodes[path] for path, rest in parts if rest and ".git" not in rest}

    def unpack(self, folder: str) -> Unpacked:
        """Return the skill in a folder, with the bytes and execute bits of the snapshot.

        Raises:
            NotFound: there is no such folder, or no ``SKILL.md`` in it.
            UnsafeArchive: the folder holds what no skill may hold: links, submodules, unsafe names, too many bytes.
            FormatError: a file is a Git LFS pointer, so that the snapshot lacks its bytes.
            SourceError: the files cannot be fetched.
            SecurityError: the bytes are not those of the commit.
        """
        nodes = self.nodes(folder)
        if SKILL_MD not in nodes:
            raise NotFound(f"{quote(folder or '.')} has no {SKILL_MD}", where=self.where)
        _check(nodes, folder)
        return gather(self._entries(folder, nodes), wrapper=False)

    def sums(self, folder: str) -> tuple[bytes, ...] | None:
        """Return the SHA-256 of each file in a folder; None if the folder cannot be unpacked.

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

    def _entries(self, folder: str, nodes: Mapping[str, SnapshotNode]) -> Iterator[Entry]:
        contents = self.snapshot.read([join(folder, path) for path in nodes])
        for (path, node), data in zip(nodes.items(), contents, strict=True):
            if len(data) <= _LFS_MAX and data.startswith(_LFS):
                hint = "its author must commit the file itself"
                raise FormatError("expected a file, found a Git LFS pointer", where=_shown(folder, path), hint=hint)
            yield Entry(path, File(data, node.executable))


def _check(nodes: Mapping[str, SnapshotNode], folder: str) -> None:
    """Raise for what ``gather`` would refuse, before any file is fetched: it may be far larger than any skill."""
    for path, node in nodes.items():
        if node.kind != "file":
            raise UnsafeArchive("link", _REFUSED[node.kind], where=_shown(folder, path))
    if len(nodes) > _LIMITS.entries:
        message = f"a skill has at most {_LIMITS.files} files, found {len(nodes)}"
        raise UnsafeArchive("too-many-files", message, where=_shown(folder, ""))
    if sum(node.size for node in nodes.values()) > _LIMITS.total:
        raise UnsafeArchive("too-large", f"a skill has at most {_LIMITS.total} bytes", where=_shown(folder, ""))


def _shown(folder: str, path: str) -> str:
    return quote(join(folder, path) or ".")[1:-1]


# A repository as a place.

_AT_ONCE = 8  # repositories that are opened in parallel

OpenElsewhere = Callable[[str, str | None], Snapshot]
_Failure = SourceError | FormatError | UnsafeTransfer | Forbidden
_Where = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class _Own:
    """The offers of a repository itself, without those of the other repositories that its marketplace names.

    Attributes:
        words: The names and folders of the skills.
    """

    found: Sequence[Release]
    words: Collection[str]
    elsewhere: Sequence[tuple[Plugin, Elsewhere]]
    index: Index


class Repository:
    """A place: the skills of one snapshot, and of the plugins that its marketplace keeps in other repositories.

    Args:
        snapshot: The files of the repository.
        url: The absolute URL, as the lock will have it.
        path: The only folder to look in, which is a skill or holds several.
        elsewhere: Opens the repository at a URL, at a commit, branch or tag, or its newest commit; raises if a
            policy forbids it. Several threads may call it in parallel.
        leads: Raises if the marketplace of this repository may not name the URL of another; takes that URL, then
            the URL of this one.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        url: str,
        path: str | None = None,
        elsewhere: OpenElsewhere,
        leads: Callable[[str, str], None] = check_marketplace_url,
    ) -> None:
        self._own: _Where = (url, snapshot.rev)
        self._top = path or ""
        self._elsewhere, self._leads = elsewhere, leads
        self._opened = {self._own: Folders(snapshot, url)}
        self._indexes: dict[frozenset[str] | None, Index] = {}

    def index(self, words: Collection[str] | None = None) -> Index:
        """Return the skills by name; different skills with one name in the order of precedence.

        Args:
            words: The requested names, ``plugin:name`` or folders. Other repositories are then opened only if this
                one does not have all of them. None requests everything.

        Raises:
            NotFound: there is no folder ``path``.
            FormatError: there are too many skills, or it is the site of a registry.
            SourceError: files cannot be fetched, or the repository of a requested plugin cannot be reached.
            SecurityError: the bytes are not those of the commit.
            Forbidden: a policy forbids a repository that has, or may have, a requested skill.
        """
        asked = None if words is None else frozenset(words)
        if asked not in self._indexes:
            self._indexes[asked] = self._index(asked)
        return self._indexes[asked]

    def unpacked(self, release: Release) -> Unpacked:
        """Return the files of a skill, by a release of ``index`` or one built from a lock.

        Raises:
            NotFound: there is no such folder, commit or repository.
            WrongBytes: the repository was opened at another commit than the pinned one.
            UnsafeTransfer: no marketplace may name this repository.
            Forbidden: a policy forbids the repository.
            SourceError, SecurityError, FormatError: as for ``Folders.unpack``.
        """
        return self._folders(release).unpack(release.path or "")

    def committed(self, release: Release) -> str | None:
        """Return the time of a release's commit, UTC, as its committer states it; None for a folder.

        Raises:
            NotFound, WrongBytes, UnsafeTransfer, Forbidden, SourceError: as for ``unpacked``.
        """
        return self._folders(release).snapshot.date

    @cached_property
    def _offered(self) -> _Own:
        """The offers of the repository itself."""
        url, _ = self._own
        folders = self._opened[self._own]
        if self._top and not folders.snapshot.nodes.within(self._top):
            skills = (os.path.dirname(path) for path in folders.snapshot.nodes if path.endswith(f"/{SKILL_MD}"))
            meant = [*map(quote, spelled_like(self._top, skills))]
            hint = did_you_mean(meant, "without the folder, install and show list the skills there")
            raise NotFound(f"there is no folder {quote(self._top)} here", where=url, hint=hint)
        if join(self._top, "metadata/1.root.json") in folders.snapshot.nodes:
            # Its signed lists alone offer its skills; the copies for other clients are unsigned.
            hint = "its operator tells the URL of the site; to add it: skillhub source add NAME URL"
            raise FormatError("expected a repository of skills, found the site of a registry", where=url, hint=hint)
        survey = Survey.of(folders.snapshot, self._top)
        warnings = list(survey.warnings)
        owners = survey.skill_folders(survey.here)
        spots = {each: owners.get(each) for each in layout.skill_folders(survey.heads, self._top, owners)}
        found = tuple(self._releases(self._own, spots, survey, warnings))
        return _Own(found, _words(found), survey.elsewhere, Index(self._distinct(found), warnings=tuple(warnings)))

    def _index(self, words: Collection[str] | None) -> Index:
        own = self._offered
        needed = own.elsewhere
        if words is not None and all(word.strip("/") in own.words for word in words if ":" not in word):
            asked = {word.rpartition(":")[0] for word in words}
            needed = [(plugin, source) for plugin, source in needed if plugin.name in asked]
        if not needed:
            return own.index
        found, warnings = list(own.found), list(own.index.warnings)
        forbidden = None
        for plugin, root, where in self._open_all(needed):
            if isinstance(where, Exception):
                if words is not None and any(word.startswith(f"{plugin.name}:") for word in words):
                    raise where
                warnings.append(f"plugin {plugin.name} was left out: {where}")
                forbidden = where if isinstance(where, Forbidden) else forbidden
                continue
            there = Survey.of(self._opened[where].snapshot, root)
            found += self._releases(where, there.skill_folders([(plugin, root)]), there, warnings)
        if forbidden is not None and words is not None:
            offered = _words(found)
            if not all(word.rpartition(":")[2].strip("/") in offered for word in words):
                raise forbidden
        return Index(self._distinct(found), warnings=tuple(warnings))

    def _folders(self, release: Release) -> Folders:
        where = (release.url, release.rev)
        if where not in self._opened:
            where = self._open(where)
        return self._opened[where]

    def _open(self, where: _Where) -> _Where:
        """Open another repository and return its URL and its commit."""
        url, rev = where
        self._leads(url, self._own[0])
        commit = self._elsewhere(url, rev)
        if rev is not None and is_object_id(rev) and commit.rev != rev:
            raise WrongBytes(f"expected the commit {rev}, found {commit.rev}", where=url)
        self._opened.setdefault((url, commit.rev), Folders(commit, url))
        return url, commit.rev

    def _open_all(
        self, plugins: Sequence[tuple[Plugin, Elsewhere]]
    ) -> Iterator[tuple[Plugin, str, _Where | _Failure]]:
        """Yield each plugin with its folder and its repository, which is opened once, or the error of opening it."""
        asked = dict.fromkeys((source.url, source.rev) for _, source in plugins)

        def opened(where: _Where) -> _Where | _Failure:
            try:
                return self._open(where)
            except (SourceError, FormatError, UnsafeTransfer, Forbidden) as error:
                return error

        if asked:
            with threads(min(_AT_ONCE, len(asked))) as pool:
                found = dict(zip(asked, pool.map(opened, asked), strict=True))
            for plugin, source in plugins:
                yield plugin, source.path, found[source.url, source.rev]

    def _releases(
        self, where: _Where, spots: Mapping[str, str | None], survey: Survey, warnings: list[str]
    ) -> Iterator[Release]:
        """Yield the releases of folders of a repository; ``spots`` has the plugin of each folder, or None."""
        url, rev = where
        for folder, plugin in spots.items():
            head = survey.heads[folder]
            if head.internal and folder != self._top:
                warnings.append(f"{quote(folder)} was left out: its author marks it as internal")
                continue
            # Without a valid name it cannot be installed: a folder whose name is none either is shown by its path.
            called = layout.name_of_folder(folder or url)
            called = called if folder.rpartition("/")[2] in ("", called) else folder
            name, path = head.name or called, folder or None
            about = head.description if is_name(name) else f"cannot be installed: a name is of {NAME_RULE}"
            yield Release(name=name, url=url, type="tree", description=about, rev=rev, path=path, plugin=plugin)

    def _distinct(self, found: Iterable[Release]) -> dict[str, tuple[Release, ...]]:
        """Return the releases by name, one of those with equal bytes."""
        skills = grouped((release.name, release) for release in found)
        return {name: self._first_of_each(releases) for name, releases in skills.items()}

    def _first_of_each(self, releases: Sequence[Release]) -> tuple[Release, ...]:
        """Return one release of each content: the first in a plugin of the same repository, else the first."""
        if len(releases) == 1:
            return tuple(releases)
        # Folders with different paths, modes, sizes or ids differ. Only files without ids are read and hashed: a
        # small repository can hold one large file at a thousand paths.
        nodes = [self._folders(each).nodes(each.path or "").items() for each in releases]
        shapes = [tuple((path, node, node.id) for path, node in each) for each in nodes]
        often = Counter(shapes)
        kept: dict[object, Release] = {}
        for release, shape in zip(releases, shapes, strict=True):
            key: object = shape
            if often[shape] > 1 and not all(id_ for *_, id_ in shape):
                sums = self._folders(release).sums(release.path or "")
                key = (release.url, release.path) if sums is None else (shape, sums)
            first = kept.setdefault(key, release)
            if first.plugin is None and release.plugin is not None and first.url == release.url:
                kept[key] = release
        return tuple(kept.values())


def _words(found: Iterable[Release]) -> Collection[str]:
    """Return the names and folders of these releases, each of which may be requested."""
    return {text for release in found for text in (release.name, release.path) if text}


# A local folder that holds several skills, as a snapshot; no link in it is followed.

_NODES_MAX = 200_000
# Authors keep skills in neither: git's own folder, and the packages that are installed into a project.
_SKIPPED = frozenset({".git", "node_modules"})
_FILE_CAP = Limits().total


class FolderSnapshot:
    """The files of a folder now, without ``.git`` and ``node_modules``.

    Args:
        path: The folder, which may be a link itself.
    """

    rev = None
    date = None

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)

    @cached_property
    def nodes(self) -> SnapshotNodes:
        """The nodes of the folder by path.

        Raises:
            FormatError: there are too many files.
            SourceError: the folder is gone, or one below it cannot be read.
        """
        found = SnapshotNodes()
        try:
            for path, row in entries_below(self._path, _SKIPPED):
                status = row.stat(follow_symlinks=False)
                file = SnapshotNode("file", bool(status.st_mode & 0o100), status.st_size)
                found[path] = file if stat.S_ISREG(status.st_mode) else SnapshotNode("link")
                if len(found) > _NODES_MAX:
                    raise FormatError(f"more than {_NODES_MAX} files", where=self._path, hint="name a folder of it")
        except FileNotFoundError as error:
            raise SourceError("there is no such folder", where=self._path) from error
        except OSError as error:
            refused = files.disk_error(error, error.filename or self._path)
            raise SourceError(refused.message, where=refused.where, hint=refused.hint) from error
        return found

    def read(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of these files, in this order.

        Raises:
            NotFound: a file was removed meanwhile.
            StateError: a file cannot be read.
        """
        for path in paths:
            full = os.path.join(self._path, *path.split("/"))
            data = files.read(full, _FILE_CAP)
            if data is None:
                raise NotFound("the file is gone", where=full)
            yield data


def open_folder(path: str) -> Repository:
    """Return a local folder as a place; the paths of its skills are relative to it."""
    return Repository(FolderSnapshot(path), url=path, elsewhere=_nowhere)


def _nowhere(url: str, rev: str | None) -> Snapshot:
    command = as_command("skillhub", "install", f"git+{url}")
    raise NotFound(f"it is in another repository; to install from there: {command}")
