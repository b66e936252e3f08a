"""A git repository at one commit: each object is hashed against its id; nothing is checked out or run."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from skillhub.archive.limits import unsafe
from skillhub.errors import FormatError, NotFound, SourceError, UsageError, WrongBytes
from skillhub.formats.text import as_command, is_object_id, quote, spell_time
from skillhub.model.reference import is_rev
from skillhub.model.tree import SKILL_MD
from skillhub.sources.git_program import AT_ONCE, GitLimits, GoneError, object_id
from skillhub.sources.git_repository import GitCache, remote
from skillhub.sources.layout import SnapshotNode, SnapshotNodes

# Git does not hash the objects that it reads from a pack. Every object from a cache or a server therefore passes
# ``checked``, from the commit down, so that neither can replace the bytes of a file.

MAX_NODES = 200_000
MAX_DEPTH = 64
# The limit on all trees of a commit together: trees that name each other many times are small in a pack.
_MAX_TREE_BYTES = 256 << 20
_HEADER = re.compile(rb"tree ([0-9a-f]{40})\n")
_COMMITTED = re.compile(rb"^committer [^\n]*> ([0-9]{1,12}) [+-][0-9]{4}$", re.MULTILINE)
# The nodes by mode; None for a folder.
_KINDS: Mapping[int, SnapshotNode | None] = {
    0o040000: None,
    0o100644: SnapshotNode("file"),
    0o100664: SnapshotNode("file"),  # git wrote this mode before 2005
    0o100755: SnapshotNode("file", executable=True),
    0o120000: SnapshotNode("link"),
    0o160000: SnapshotNode("submodule"),
}


@dataclass(frozen=True, slots=True)
class Leaf:
    """The entry of a commit at one path, and the id of its object."""

    node: SnapshotNode
    id: str


@dataclass(frozen=True, slots=True)
class Proved:
    """The facts that the objects of one folder prove: the time of its commit, and its entries by path."""

    date: str | None
    leaves: Mapping[str, Leaf]


def checked(wanted: str, kind: str, data: bytes) -> bytes:
    """Return ``data`` if it is the object with the id ``wanted``.

    Raises:
        WrongBytes: it has another id.
    """
    if (found := object_id(kind, data)) != wanted:
        raise WrongBytes(f"expected the {kind} {wanted}, found {found}")
    return data


def root_of(commit: bytes) -> str:
    """Return the id of a commit's tree.

    Raises:
        FormatError: the object is no commit.
    """
    found = _HEADER.match(commit)
    if found is None:
        raise FormatError("expected a commit to begin with its tree")
    return found[1].decode()


def date_of(commit: bytes) -> str | None:
    """Return the committer's time of a commit, UTC; None if it states no valid time."""
    head = commit.partition(b"\n\n")[0]
    found = _COMMITTED.search(head)
    with suppress(ValueError, OverflowError, OSError):
        return spell_time(datetime.fromtimestamp(int(found[1]), UTC)) if found else None
    return None


def entries(tree: bytes) -> Iterator[tuple[str, SnapshotNode | None, str]]:
    """Yield the name of each entry of a tree, its node (None for a folder), and the id of its object.

    Names are decoded as UTF-8, with lone surrogates for other bytes.

    Raises:
        FormatError: the object is no tree, or has two entries with one name.
        UnsafeArchive: ``path-traversal``: a name is empty, ``.``, ``..``, or has a slash.
    """
    seen: set[bytes] = set()
    at = 0
    while at < len(tree):
        end = tree.find(b"\0", at)
        mode, blank, name = tree[at:end].partition(b" ")
        if end < 0 or not blank or end + 21 > len(tree) or not re.fullmatch(rb"[0-7]{5,6}", mode):
            raise FormatError(f"expected a mode, a name and an id at byte {at} of a tree")
        text = name.decode("utf-8", "surrogateescape")
        if name in (b"", b".", b"..") or b"/" in name:
            raise unsafe("path-traversal", f"expected a name in a tree, found {quote(text)}")
        if name in seen:
            raise FormatError(f"expected each name once in a tree, found {quote(text)} twice")
        seen.add(name)
        if (kind := int(mode, 8)) not in _KINDS:
            raise FormatError(f"expected the mode of a file, folder, link or submodule, found {kind:o}")
        yield text, _KINDS[kind], tree[end + 1 : end + 21].hex()
        at = end + 21


def walk(root: str, read: Callable[[Sequence[str]], Iterable[bytes]]) -> dict[str, Leaf]:
    """Return all files, links and submodules below the tree ``root``, by path, sorted.

    Args:
        root: The id of the tree.
        read: Returns the trees with these ids, checked, in this order; called once for each level.

    Raises:
        FormatError, UnsafeArchive: as for ``entries``; also ``too-many-files`` and ``too-deep``.
    """
    found: dict[str, Leaf] = {}
    level = [("", root)]
    size = 0
    for _ in range(MAX_DEPTH):
        below = []
        for (folder, _), tree in zip(level, read([tree for _, tree in level]), strict=True):
            size += len(tree) + len(folder)
            for name, node, id_ in entries(tree):
                size += len(folder)
                if node is None:
                    below.append((f"{folder}{name}/", id_))
                else:
                    found[folder + name] = Leaf(node, id_)
            if len(found) + len(below) > MAX_NODES or size > _MAX_TREE_BYTES:
                raise unsafe("too-many-files", f"a repository has at most {MAX_NODES} files and folders")
        if not below:
            return dict(sorted(found.items()))
        level = below
    raise unsafe("too-deep", f"folders of a repository are at most {MAX_DEPTH} deep", level[0][0])


def folder_at(rev: str, folder: str, read: Callable[[str, Sequence[str]], Sequence[bytes]]) -> Proved:
    """Return the entries of a commit below one folder, without reading its other folders.

    Args:
        rev: The full commit.
        folder: The path of the folder; empty for the whole commit.
        read: Returns the objects of a kind with these ids, checked, in this order.

    Raises:
        NotFound: there is no such folder.
        FormatError, UnsafeArchive: as for ``walk``.
    """
    (commit,) = read("commit", [rev])
    tree = root_of(commit)
    for segment in filter(None, folder.split("/")):
        below = entries(*read("tree", [tree]))
        found = next((id_ for name, node, id_ in below if name == segment and node is None), None)
        if found is None:
            raise NotFound(f"the commit {rev} has no folder {quote(folder)}")
        tree = found
    leaves = walk(tree, lambda ids: read("tree", ids))
    return Proved(date_of(commit), {f"{folder}/{path}".lstrip("/"): leaf for path, leaf in leaves.items()})


def file_id(leaves: Mapping[str, Leaf], path: str, url: str) -> str:
    """Return the id of the file at a path.

    Raises:
        NotFound: the commit, of the repository at ``url``, has no such file.
    """
    leaf = leaves.get(path)
    if leaf is None or leaf.node.kind != "file":
        raise NotFound(f"the commit has no file {quote(path)}", where=url)
    return leaf.id


def nodes_of(leaves: Mapping[str, Leaf], sizes: Mapping[str, int]) -> SnapshotNodes:
    """Return the nodes of a snapshot by path; ``sizes`` has the sizes of files by id, as far as they are known."""
    return SnapshotNodes(
        (path, replace(leaf.node, id=leaf.id, size=sizes.get(leaf.id, 0) if leaf.node.kind == "file" else 0))
        for path, leaf in leaves.items()
    )


def of_skills(leaves: Mapping[str, Leaf]) -> set[str]:
    """Return the ids of the files below the folders with a ``SKILL.md``, at any depth."""
    ids = {path: leaf.id for path, leaf in leaves.items() if leaf.node.kind == "file"}
    homes = {path[: -len(SKILL_MD)] for path in ids if path == SKILL_MD or path.endswith("/" + SKILL_MD)}
    if "" in homes:
        return set(ids.values())
    slashes = ((path, at) for path in ids for at, char in enumerate(path) if char == "/")
    return {ids[path] for path, at in slashes if path[: at + 1] in homes}


# The commit of a branch or tag.

_SHORT = re.compile(r"[0-9a-f]{4,39}", re.ASCII)


def spellings(rev: str | None) -> list[str]:
    """Return the refs that ``rev`` may be short for; ``HEAD``, the default branch, for None.

    Raises:
        UsageError: ``rev`` is no name of a branch, tag or commit.
    """
    if rev is None:
        return ["HEAD"]
    if not is_rev(rev):
        raise UsageError(f"expected a branch, a tag or a commit, found {quote(rev)}")
    refs = [f"refs/heads/{rev}", f"refs/tags/{rev}"]
    if rev.startswith(("heads/", "tags/")):
        refs.append(f"refs/{rev}")
    if rev.startswith(("refs/heads/", "refs/tags/")):
        refs.append(rev)
    return refs


def choose(commits: Mapping[str, str], rev: str | None, url: str) -> str:
    """Return the commit that all these refs name.

    Git prefers one of a branch and a tag with the same name. This function does not, since a user who may push only
    one of them could then replace the other.

    Raises:
        NotFound: there are no refs.
        UsageError: the refs name different commits.
    """
    if len(set(commits.values())) == 1:
        return next(iter(commits.values()))
    if commits:
        hint = "say which: " + ", ".join(f"@{ref}" for ref in commits)
        raise UsageError(f"{quote(rev)} is a branch and a tag, at different commits", where=url, hint=hint)
    if rev is None:
        hint = "another branch: @BRANCH behind it; the registry of a site: skillhub source add NAME URL"
        raise NotFound("the repository has no commits on its default branch", where=url, hint=hint)
    hint = f"{as_command('git', 'ls-remote', url)} lists them"
    hint = "name a commit by its full 40 digits" if _SHORT.fullmatch(rev) else hint
    raise NotFound(f"the repository has no branch and no tag {quote(rev)}", where=url, hint=hint)


# Any git repository at one commit, through the program ``git``.

_AT_ONCE_BYTES = 16 << 20
_SINGLY = 2
_DEFAULT = GitLimits()
_T = TypeVar("_T")


def open_git(
    url: str,
    rev: str | None,
    *,
    cache: str,
    environ: Mapping[str, str],
    bounds: GitLimits = _DEFAULT,
    token: str | None = None,
) -> GitSnapshot:
    """Return the repository at ``url`` at a branch, a tag or a commit.

    A full commit that the cache holds needs no network.

    Args:
        url: https, ssh, file, or http on this machine.
        rev: A branch, a tag or a commit; None for the default branch.
        cache: The folder of all caches.
        environ: The environment of this process.
        bounds: The limits on time, disk and memory.
        token: The credential for ``url``, offered when the server asks for one.

    Raises:
        UsageError: skills are not fetched from such a URL; ``rev`` is no name, or names a branch and a tag.
        NotFound: there is no such repository, branch, tag or commit.
        SourceError: the repository cannot be fetched, or git is not installed.
        FormatError, UnsafeArchive: it holds objects that no honest repository holds.
        UnsafeTransfer: the server redirects to a forbidden URL, or cannot prove its identity.
        WrongBytes: the fetched objects are not those of the commit.
        StateError: the disk refuses, or another process holds the lock for too long.
    """
    store = GitCache(remote(url, environ, bounds, token), cache, environ, bounds)
    if rev is not None and is_object_id(rev):
        return GitSnapshot(store, rev)
    if rev is None and (first := store.first()) is not None:
        return GitSnapshot(store, first)
    refs = spellings(rev)
    found = store.ask([*refs, *(f"{ref}^{{}}" for ref in refs)])
    # For an annotated tag, ``NAME^{}`` is the tagged commit.
    commit = choose({ref: found.get(f"{ref}^{{}}", found[ref]) for ref in refs if ref in found}, rev, store.url)
    if not is_object_id(commit):
        raise SourceError("expected a repository with SHA-1 ids, found another kind", where=store.url)
    return GitSnapshot(store, commit)


class GitSnapshot:
    """A repository at one commit: a ``Snapshot`` that hashes every object it reads.

    ``nodes`` has the size 0 for a file that a partial clone left out; only a read shows its size.

    Args:
        store: The cache of the repository.
        rev: The full commit.

    Raises:
        The same as ``open_git``.
    """

    def __init__(self, store: GitCache, rev: str) -> None:
        self.rev = rev
        self.date: str | None = None
        self._store = store
        self._sizes: dict[str, int] = {}
        self._fetches = 0
        self._mutex = threading.RLock()
        try:
            self.leaves = self._walk()
        except GoneError:
            store.fetch(rev)
            self.leaves = self._with_repair(self._walk)
        except WrongBytes:
            self.leaves = self._with_repair(self._walk)
        self._sizes = self._store.sizes({leaf.id for leaf in self.leaves.values()})
        self.nodes = nodes_of(self.leaves, self._sizes)

    def read(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of these files, in this order, exactly as the commit has them.

        Raises:
            NotFound: the commit has no such file.
            SourceError, UnsafeTransfer, StateError: the files cannot be fetched.
            UnsafeArchive: ``too-large``.
            WrongBytes: the bytes are not those of the commit.
        """
        ids = [file_id(self.leaves, path, self._store.url) for path in paths]
        self._with_repair(lambda: self._fetch_missing(ids))
        while ids:
            portion = ids[: self._portion(ids)]
            del ids[: len(portion)]
            yield from self._with_repair(partial(self._files, portion))

    def proof(self, folder: str) -> dict[str, bytes]:
        """Return the objects that prove a folder, by id: the commit, the trees down to it and in it, its files.

        Raises:
            The same as ``folder_at`` and ``read``.
        """
        found: dict[str, bytes] = {}

        def read(kind: str, ids: Sequence[str]) -> list[bytes]:
            objects = self._objects(kind, ids)
            found.update(zip(ids, objects, strict=True))
            return objects

        leaves = folder_at(self.rev, folder, read).leaves
        files = {path: leaf.id for path, leaf in leaves.items() if leaf.node.kind == "file"}
        found.update(zip(files.values(), self.read(files), strict=True))
        return found

    def _with_repair(self, act: Callable[[], _T]) -> _T:
        """Return the result of ``act``; if the cache is damaged, fill a new one and call it again."""
        try:
            return act()
        except (GoneError, WrongBytes):
            with self._mutex:
                self._store.discard()
                self._sizes.clear()
                self._store.fetch(self.rev)
        try:
            return act()
        except GoneError as error:
            raise WrongBytes(f"the repository lacks objects of commit {self.rev}", where=self._store.url) from error

    def _walk(self) -> dict[str, Leaf]:
        (commit,) = self._objects("commit", [self.rev])
        self.date = date_of(commit)
        return walk(root_of(commit), self._trees)

    def _trees(self, ids: Sequence[str]) -> Iterator[bytes]:
        for at in range(0, len(ids), AT_ONCE):
            yield from self._objects("tree", ids[at : at + AT_ONCE])

    def _files(self, ids: Sequence[str]) -> list[bytes]:
        self._fetch_missing(ids)
        return self._objects("blob", ids)

    def _objects(self, kind: str, ids: Sequence[str]) -> list[bytes]:
        return [checked(id_, kind, data) for id_, data in zip(ids, self._store.read(kind, ids), strict=True)]

    def _portion(self, ids: Sequence[str]) -> int:
        """Return how many of the first ``ids`` to read together: at least one, about 16 MiB at most."""
        size = 0
        for at, id_ in enumerate(ids[:AT_ONCE]):
            size += self._sizes.get(id_, 0)
            if size > _AT_ONCE_BYTES:
                return at or 1
        return AT_ONCE

    def _fetch_missing(self, ids: Iterable[str]) -> None:
        """Fetch those of these files that the cache lacks; from the third fetch on, the files of all skills."""
        with self._mutex:
            if not self._sizes:
                self._sizes = self._store.sizes({leaf.id for leaf in self.leaves.values()})
            wanted = {id_ for id_ in ids if id_ not in self._sizes}
            if not wanted:
                return
            # The first fetch gets each SKILL.md, the second one skill. A third one shows that many skills are
            # installed, and each would need a fetch of its own.
            self._fetches += 1
            if self._fetches > _SINGLY:
                wanted |= of_skills(self.leaves) - self._sizes.keys()
            self._store.fetch_files(sorted(wanted))
            self._sizes |= self._store.sizes(wanted)
            if not wanted <= self._sizes.keys():
                raise GoneError
