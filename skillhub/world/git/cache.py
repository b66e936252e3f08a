"""A bare repository of our own for each URL, filled with what is asked for and no more; safe to delete at any time.

Nobody relies on what it holds: whoever reads an object hashes it. Two processes do not fill it at once, and what a
killed one left half-done is swept away by the next, or all of it is thrown away and fetched again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TypeVar

from skillhub.errors import NotFound, SkillhubError, SourceError
from skillhub.world import files
from skillhub.world.folders import is_link, remove_tree
from skillhub.world.git.catfile import CatFile, GoneError
from skillhub.world.git.failure import GitError, explain, is_redirected, is_unserved, may_be_ours
from skillhub.world.git.program import Bounds, GitProgram
from skillhub.world.git.redirect import redirected
from skillhub.world.git.remote import REMOTE, Remote
from skillhub.world.requester import RULES

_FILES = {
    "config": b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
    "HEAD": b"ref: refs/heads/none\n",
}
_FOLDERS = ("", "objects", "objects/pack", "refs", "refs/commits")
_OURS = frozenset({*_FILES, "objects", "refs", "shallow"})
# What a git, or one of us, at work in another process may just be writing.
_GITS = (".tmp-", "tmp_")
_WRITTEN = (*_GITS, ".skillhub-")
# Partial clone as git's own configuration has it, but said to the fetch alone: a `cat-file` that knows of it would
# fetch each object that is missing, one connection for each.
_PARTIAL = ("-c", f"remote.{REMOTE}.promisor=true", "-c", f"remote.{REMOTE}.partialCloneFilter=blob:none")
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", REMOTE)
_T = TypeVar("_T")
_ALL = ("+refs/heads/*:refs/all/heads/*", "+refs/tags/*:refs/all/tags/*")


class GitCache:
    """The objects of one repository, as far as they were needed; usable by many threads.

    Args:
        remote: The repository.
        cache: The folder of all caches; this one is below ``git/`` in it.
        environ: The environment of this process.
        bounds: How much the repository may ask of this machine.
    """

    def __init__(self, remote: Remote, cache: str, environ: Mapping[str, str], bounds: Bounds) -> None:
        self.url = remote.url
        self._bounds = bounds
        self._environ = environ
        name = os.path.join("git", sha256(remote.url.encode()).hexdigest()[:32])
        self._folder = os.path.join(cache, name)
        self._tell(remote)
        self._beneath = bounds.beneath and os.path.join(bounds.beneath, name, "objects")
        more = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": self._beneath} if self._beneath else {}
        # Not for a fetch, which would go on from commits whose parents are not there.
        self._looking = GitProgram(self._folder, environ, remote.options, {**remote.variables, **more})
        self._reader: CatFile | None = None
        self._turn = threading.Lock()

    def _tell(self, remote: Remote) -> None:
        self._remote = remote
        self._git = GitProgram(self._folder, self._environ, remote.options, remote.variables)

    def ask(self, refs: Iterable[str]) -> dict[str, str]:
        """Return the ids of those of these refs that the repository has, and perhaps of others.

        Raises:
            SourceError, NotFound, UnsafeTransfer: it cannot be asked.
            StateError: the disk refuses.
        """
        words = ("ls-remote", "--quiet", REMOTE, *refs)

        def asked(way: Sequence[str]) -> bytes:
            self._prepare()
            return self._git.run((*way, *words), self._bounds)

        said = self._online(asked)
        rows = (line.partition("\t") for line in said.decode("utf-8", "replace").splitlines())
        return {name: id_ for id_, _, name in rows}

    def fetch(self, commit: str) -> None:
        """Bring a commit with its trees; with its files too where the server knows no partial clone.

        Raises:
            NotFound: the repository has no such commit, or gives it to nobody.
            SourceError, FormatError, UnsafeTransfer: it cannot be fetched.
            StateError: the disk, or another process.
        """
        # The ref is for git: what it points to need not be sent again with the next commit.
        words = (*_FETCH, "--depth=1", f"+{commit}:refs/commits/{commit}")
        self._online(lambda way: self._bring(way, words, [commit]))

    def fetch_files(self, ids: Sequence[str]) -> None:
        """Bring the files with these ids; git must not tell the server that it has their commit, so: ``noop``.

        Raises:
            The same as ``fetch``.
        """
        words = ("-c", "fetch.negotiationAlgorithm=noop", *_FETCH, "--stdin")
        self._online(lambda way: self._bring(way, words, ids))

    def sizes(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the sizes of those of these objects that are here.

        Raises:
            SourceError: there is no git.
            StateError: the disk refuses.
        """
        self._prepare()
        asked = "".join(f"{id_}\n" for id_ in ids).encode()
        words = ("cat-file", "--batch-check=%(objectname) %(objectsize)")
        try:
            said = self._looking.run(words, self._bounds, stdin=asked)
        except GitError:
            return {}
        rows = (line.split() for line in said.decode("ascii", "replace").splitlines())
        return {id_: int(size) for id_, size in rows if size.isdigit()}

    def read(self, kind: str, ids: Sequence[str]) -> list[bytes]:
        """Return these objects, ``AT_ONCE`` at most, as they are stored.

        Raises:
            GoneError: one is not here; fetch it and ask again.
            UnsafeArchive: ``too-large``: one is larger than all of a skill may be.
            SourceError: there is no git.
            StateError: the disk refuses.
        """
        with self._turn:
            if self._reader is None:
                self._prepare()
                if self._is_empty():
                    raise GoneError
                self._reader = CatFile(self._looking, self._bounds.blob)
            reader, self._reader = self._reader, None
            try:
                found = reader.read(kind, ids)
                self._reader = reader
            finally:
                if self._reader is None:
                    reader.close()
            return found

    def discard(self) -> None:
        """Throw all of it away.

        Raises:
            StateError: the disk refuses, or another process is at work for too long.
        """
        with files.lock(self._folder + ".lock", timeout=self._bounds.seconds):
            self._discard()

    def _online(self, act: Callable[[Sequence[str]], _T]) -> _T:
        """Do what goes to the server; if that redirects git, do it where that leads, once that is judged."""
        try:
            return act(self._way())
        except GitError as error:
            there = (
                redirected(self._remote, self._environ, self._bounds) if is_redirected(str(error)) else None
            )
            if there is None:
                raise self._explained(error) from error
        self._tell(there)
        try:
            return act(self._way())
        except GitError as error:
            raise self._explained(error) from error

    def _bring(self, way: Sequence[str], words: Sequence[str], ids: Sequence[str]) -> None:
        with files.lock(self._folder + ".lock", timeout=self._bounds.seconds):
            self._prepare()
            fresh = self._is_empty()
            if self._size() > self._bounds.fetched // 2:
                self._discard()
                fresh = True
            if fresh:
                with files.disk_errors(self._folder), suppress(FileNotFoundError):
                    os.unlink(os.path.join(self._folder, "shallow"))  # It would speak of what is not here.
            here = {} if fresh else self.sizes(ids)
            wanted = [id_ for id_ in ids if id_ not in here]
            if not wanted:
                return
            while True:
                try:
                    return self._fetch((*_PARTIAL, *way, *words), wanted)
                except GitError as error:
                    said = str(error)
                    if is_unserved(said):
                        return self._bring_all(way, wanted)
                    if fresh or not may_be_ours(said):
                        raise
                # Perhaps it is the cache that git stumbles over.
                self._discard()
                fresh = True

    def _bring_all(self, way: Sequence[str], wanted: Sequence[str]) -> None:
        """Bring every branch and tag whole, from a server that gives no single objects."""
        self._fetch((*way, *_FETCH, *_ALL), ())
        if not self.sizes(wanted).keys() >= set(wanted):
            raise NotFound(f"the repository has nothing with the id {wanted[0]}", where=self.url)

    def _fetch(self, words: Sequence[str], ids: Sequence[str]) -> None:
        with files.disk_errors(self._folder):
            self._sweep()
        stdin = "".join(f"{id_}\n" for id_ in ids).encode() if "--stdin" in words else b""
        self._git.run(words, self._bounds, stdin=stdin, grown=self._size)

    def _sweep(self) -> None:
        """Take away what a killed process left; under our lock nobody else is at work here."""
        for name in _FOLDERS:
            with os.scandir(os.path.join(self._folder, name)) as rows:
                for row in rows:
                    if row.name.endswith(".lock") or row.name.startswith(_GITS):
                        os.unlink(row.path)

    def _prepare(self) -> None:
        """Make the repository if there is none, and take away what none of ours has.

        Whoever can write here, or brought a cache of theirs, shall not tell git what to run or where to look.
        """
        with files.disk_errors(self._folder):
            for name in _FOLDERS:
                folder = os.path.join(self._folder, name).rstrip(os.sep)
                if is_link(folder):
                    os.unlink(folder)
                os.makedirs(folder, exist_ok=True)
            self._tidy()
        for name, data in _FILES.items():
            path = os.path.join(self._folder, name)
            if files.read(path, 1 << 20) != data:
                files.write_atomic(path, data, sync=False)

    def _tidy(self) -> None:
        with os.scandir(self._folder) as rows:
            strange = [row.path for row in rows if not _is_known(row.name)]
        # The commit-graphs, alternates and the like that git reads and we never write.
        for path in (*strange, os.path.join(self._folder, "objects", "info")):
            with suppress(FileNotFoundError):  # Another does it too.
                remove_tree(path)

    def _is_empty(self) -> bool:
        if self._beneath and os.path.isdir(self._beneath):
            return False
        objects = os.path.join(self._folder, "objects")
        with files.disk_errors(objects):
            return os.listdir(objects) == ["pack"] and not os.listdir(os.path.join(objects, "pack"))

    def _size(self) -> int:
        # Packs, and the single files that a server of plain files is copied into.
        size = 0
        for folder, _, names in os.walk(os.path.join(self._folder, "objects")):
            for name in names:
                with suppress(FileNotFoundError):
                    size += os.stat(os.path.join(folder, name)).st_size
        return size

    def _discard(self) -> None:
        with self._turn:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
            gone = f"{self._folder}.{os.urandom(4).hex()}.gone"
            with files.disk_errors(self._folder), suppress(FileNotFoundError):
                # At once, for others may just be looking whether it is there.
                os.rename(self._folder, gone)
                remove_tree(gone)
            self._prepare()

    def _way(self) -> tuple[str, ...]:
        if self._bounds.offline:
            raise SourceError("it is not in the cache, and --offline forbids to fetch it", where=self.url)
        return self._remote.way()

    def _explained(self, error: GitError) -> SkillhubError:
        remote = self._remote
        return explain(str(error), self.url, None if RULES[remote.named_by].settings else remote.hint)


def _is_known(name: str) -> bool:
    return name in _OURS or name.endswith(".lock") or name.startswith(_WRITTEN)
