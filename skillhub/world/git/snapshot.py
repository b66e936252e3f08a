"""Any git repository at one commit, through the program ``git``: nothing is checked out or run, all is hashed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from skillhub.errors import SourceError, WrongBytes
from skillhub.model.text import is_object_id
from skillhub.world.git.cache import GitCache
from skillhub.world.git.catfile import AT_ONCE, GoneError
from skillhub.world.git.objects import Leaf, checked, date_of, file_id, of_skills, root_of, walk
from skillhub.world.git.program import Bounds
from skillhub.world.git.remote import remote
from skillhub.world.git.revision import choose, spellings
from skillhub.world.snapshot import Node

_AT_ONCE_BYTES = 16 << 20
_SINGLY = 2
_DEFAULT = Bounds()
_T = TypeVar("_T")


def open_git(
    url: str,
    rev: str | None,
    *,
    cache: str,
    environ: Mapping[str, str],
    bounds: Bounds = _DEFAULT,
    token: str | None = None,
) -> GitSnapshot:
    """Return the repository at ``url`` as it is at a branch, a tag or a commit.

    A full commit that the cache holds needs no network.

    Args:
        url: https, ssh, file, or http on this machine.
        rev: None is the branch that the repository itself puts first.
        cache: The folder of all caches.
        environ: The environment of this process.
        bounds: How much the repository may ask of this machine.
        token: Lets one in where ``url`` is; offered when the server asks for it.

    Raises:
        UsageError: no URL that skills are fetched from; ``rev`` is no name, or a branch and a tag have it.
        NotFound: there is no such repository, branch, tag or commit.
        SourceError: it cannot be fetched, or there is no git.
        FormatError, UnsafeArchive: it holds what no honest repository holds.
        UnsafeTransfer: the server leads elsewhere, or cannot prove who it is.
        WrongBytes: what was fetched is not the commit.
        StateError: the disk, or another process.
    """
    store = GitCache(remote(url, environ, bounds, token), cache, environ, bounds)
    commit = rev if rev is not None and is_object_id(rev) else _resolve(store, rev)
    return GitSnapshot(store, commit)


class GitSnapshot:
    """A repository at one commit: a ``Snapshot``, of which every object that is read was hashed.

    The size of a file that a partial clone left out is 0 in ``nodes``: only reading it tells.

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
        self._turn = threading.RLock()
        try:
            self._leaves = self._walk()
        except GoneError:
            store.fetch(rev)
            self._leaves = self._soundly(self._walk)
        except WrongBytes:
            self._leaves = self._soundly(self._walk)
        self._sizes = self._store.sizes({leaf.id for leaf in self._leaves.values()})
        self.nodes: Mapping[str, Node] = {path: self._node(leaf) for path, leaf in self._leaves.items()}

    def read(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of these files, in this order, exactly as the commit has them.

        Raises:
            NotFound: the commit has no such file.
            SourceError, UnsafeTransfer, StateError: they cannot be fetched.
            UnsafeArchive: ``too-large``.
            WrongBytes: they are not those of the commit.
        """
        ids = [file_id(self._leaves, path, self._store.url) for path in paths]
        self._soundly(lambda: self._bring(ids))
        while ids:
            portion = ids[: self._portion(ids)]
            del ids[: len(portion)]
            yield from self._soundly(partial(self._files, portion))

    def _node(self, leaf: Leaf) -> Node:
        size = self._sizes.get(leaf.id, 0)
        return replace(leaf.node, size=size) if size and leaf.node.kind == "file" else leaf.node

    def _soundly(self, act: Callable[[], _T]) -> _T:
        """Do it; where the cache turns out to be damaged, fill a new one and do it again."""
        try:
            return act()
        except (GoneError, WrongBytes):
            with self._turn:
                self._store.discard()
                self._sizes.clear()
                self._store.fetch(self.rev)
        try:
            return act()
        except GoneError as error:
            message = f"the repository does not have all that its commit {self.rev} names"
            raise WrongBytes(message, where=self._store.url) from error

    def _walk(self) -> dict[str, Leaf]:
        (commit,) = self._objects("commit", [self.rev])
        self.date = date_of(commit)
        return walk(root_of(commit), self._trees)

    def _trees(self, ids: Sequence[str]) -> Iterator[bytes]:
        for at in range(0, len(ids), AT_ONCE):
            yield from self._objects("tree", ids[at : at + AT_ONCE])

    def _files(self, ids: Sequence[str]) -> list[bytes]:
        self._bring(ids)
        return self._objects("blob", ids)

    def _objects(self, kind: str, ids: Sequence[str]) -> list[bytes]:
        return [checked(id_, kind, data) for id_, data in zip(ids, self._store.read(kind, ids), strict=True)]

    def _portion(self, ids: Sequence[str]) -> int:
        """Return how many of the first ``ids`` to read at a time: some, but not more than fit into memory well."""
        size = 0
        for at, id_ in enumerate(ids[:AT_ONCE]):
            size += self._sizes.get(id_, 0)
            if size > _AT_ONCE_BYTES:
                return at or 1
        return AT_ONCE

    def _bring(self, ids: Iterable[str]) -> None:
        """Have these files in the cache, with as few questions to the server as an honest guess allows."""
        with self._turn:
            if not self._sizes:
                self._sizes = self._store.sizes({leaf.id for leaf in self._leaves.values()})
            wanted = {id_ for id_ in ids if id_ not in self._sizes}
            if not wanted:
                return
            # Heads, then one skill; who comes a third time installs many, and each would be a fetch of its own.
            self._fetches += 1
            if self._fetches > _SINGLY:
                wanted |= of_skills(self._leaves) - self._sizes.keys()
            self._store.fetch_files(sorted(wanted))
            self._sizes |= self._store.sizes(wanted)
            if not wanted <= self._sizes.keys():
                raise GoneError


def _resolve(store: GitCache, rev: str | None) -> str:
    """Return the commit that a branch or tag of the repository is at now."""
    refs = spellings(rev)
    found = store.ask([*refs, *(f"{ref}^{{}}" for ref in refs)])
    # What an annotated tag is put on has its name with ^{} behind it.
    commit = choose(
        {ref: found.get(f"{ref}^{{}}", found[ref]) for ref in refs if ref in found}, rev, store.url
    )
    if not is_object_id(commit):
        raise SourceError("expected a repository with SHA-1 ids, found another kind", where=store.url)
    return commit
