"""The targets to which a registry's site is published: their interface, a folder, a branch of a git repository."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import TypeVar

from skillhub.disk import files, folders
from skillhub.errors import FormatError, SourceError, StateError, UsageError, hinting
from skillhub.formats.text import is_object_id, quote
from skillhub.model.reference import Git, GitHub, parse_ref, url_of
from skillhub.net.threads import threads
from skillhub.registry.outputs import is_fixed
from skillhub.sources.git_program import GitLimits, object_id
from skillhub.sources.git_repository import GitCache, check, remote
from skillhub.sources.git_snapshot import GitSnapshot, spellings
from skillhub.sources.github import login_for
from skillhub.trust.documents import SHARD_PATHS

TIMESTAMP_PATH = "metadata/timestamp.json"
_AT_ONCE = 8  # below the 10 connections that botocore and requests keep
FILE_CAP = 64 * 1024 * 1024  # bytes of the largest file that a site has
_RATE = 16 << 10  # bytes sent in a second by the slowest connection
APART = "two copies of the registry were changed separately: continue with the one that was pushed first"


@dataclass(frozen=True, slots=True)
class SiteFile:
    """A file of a site.

    Attributes:
        path: The path below the site, with ``/`` between segments.
        read: Returns the bytes, verified at each call.
    """

    path: str
    read: Callable[[], bytes]

    @property
    def fixed(self) -> bool:
        """Whether the content at this path never changes."""
        return is_fixed(self.path)


SiteFiles = Sequence[SiteFile]
_T = TypeVar("_T")


class Target:
    """A place to which a site is published.

    A target remembers the content that it first read of each mutable file, and replaces no other content.

    Attributes:
        is_browsed: Whether people and other clients read files there, so that built files are published, too.
        where: The place, for messages.
        is_there: Whether the place existed at the start, as far as the target knows.
    """

    is_browsed = True
    is_there = True
    where: str

    @abstractmethod
    def read(self, path: str) -> bytes | None:
        """Return a published file, or None if it does not exist.

        Raises:
            SourceError: the target cannot be reached.
            StateError: the target refuses, or another process publishes there at this moment.
        """

    def holds(self, file: SiteFile) -> bool | None:
        """Return what ``compare`` returns; raises as ``read``.

        Raises:
            StateError: a fixed file has other content there.
        """
        is_same = self.compare(file)
        if is_same is False and file.fixed:
            raise other_content(file.path, self.where)
        return is_same

    @abstractmethod
    def compare(self, file: SiteFile) -> bool | None:
        """Return whether the published file has the same content, or None if it does not exist."""

    @abstractmethod
    def publish(self, site: SiteFiles, changed: SiteFiles, gone: Sequence[str] = (), records: SiteFiles = ()) -> None:
        """Write the changed files in their order; each file appears as a whole, even after an interruption.

        Args:
            site: All files of the site, in the order of publication.
            changed: The files that the target does not hold.
            gone: The paths of files to remove after that; only a target that ``is_browsed`` gets some.
            records: Files to write last, as ``gone``.

        Raises:
            StateError: another process published there since the start; the files written so far are harmless, and a
                second push continues with them.
            SourceError: the target cannot be reached.
        """

    def remove_unfinished(self, site: SiteFiles) -> None:
        """Remove what a killed push of this site did not finish, if the target shows it to others."""

    def close(self) -> None:
        """Close the connections, if there are any."""


def in_stages(changed: Sequence[SiteFile], write: Callable[[SiteFile], None]) -> None:
    """Write files in stages, many at a time within a stage: fixed ones, others, lists.

    The timestamp, with which clients see the new state, and the files after it come last, one by one.
    """
    early = list(takewhile(lambda file: file.path != TIMESTAMP_PATH, changed))
    stages: list[list[SiteFile]] = [[], [], []]
    for file in early:
        is_list = file.path.endswith("index.json") or file.path in SHARD_PATHS
        stages[0 if file.fixed else 2 if is_list else 1].append(file)
    with threads(_AT_ONCE) as pool:
        for stage in stages:
            deque(pool.map(write, stage), 0)
    for file in changed[len(early) :]:
        write(file)


def other_content(path: str, where: str) -> StateError:
    """Return the error for a fixed file that is published with other content."""
    message = f"{quote(path)} exists with other content, and a file of this name never changes"
    return StateError(message, where=where, hint=APART)


def overtaken(path: str, where: str) -> StateError:
    """Return the error for a file that another writer changed since it was read."""
    hint = "nothing is lost: run the command again"
    return StateError(f"{quote(path)} was published by another writer during this push", where=where, hint=hint)


def not_kept(path: str, where: str) -> SourceError:
    """Return the error for a file that a store said to have written, and does not return."""
    return SourceError(f"the store accepted {quote(path)}, and does not have it", where=where)


def in_time(seconds: float, step: Callable[[], _T], where: str, size: int = 0) -> _T:
    """Return what ``step`` returns: a request with ``size`` bytes, and its answer.

    The clients of the stores limit only the wait for each byte, and a server may send a byte at a time for ever.

    Raises:
        SourceError: it takes longer than ``seconds`` and the time that a slow connection takes to send the bytes.
    """
    limit = seconds + size / _RATE
    try:
        with threads(1) as pool:
            return pool.submit(step).result(limit)
    except TimeoutError as error:
        raise SourceError(f"a request took more than {limit:.0f} s", where=where) from error


def read_at_most(cap: int, chunks: Iterable[bytes], name: str, where: str) -> bytes:
    """Return the bytes of an answer; raise FormatError if there are more than ``cap``."""
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > cap:
            raise FormatError(f"expected at most {cap} bytes, found more in {quote(name)}", where=where)
    return bytes(data)


class FolderTarget(Target):
    """A folder for a web server, or for a program that copies it elsewhere; each file appears by a rename.

    Args:
        path: The folder; created with the first file.
    """

    def __init__(self, path: str) -> None:
        self.where = os.path.abspath(path)
        self.is_there = os.path.isdir(path)
        self._top = files.HeldFolder(self.where)
        self._seen: dict[str, bytes | None] = {}  # only of mutable files, which are small

    def read(self, path: str) -> bytes | None:
        """Return a file as it was at the first call, or None if it did not exist; a fixed file is read each time.

        Raises:
            StateError: the disk refuses, or a folder on the way is a link.
            FormatError: the file is larger than any file of a site.
        """
        if is_fixed(path):
            return files.read(self._full(path), FILE_CAP, root=self._top)
        if path not in self._seen:
            self._seen[path] = files.read(self._full(path), FILE_CAP, root=self._top)
        return self._seen[path]

    def compare(self, file: SiteFile) -> bool | None:
        """Return whether the folder has the file with the same content, or None if it does not."""
        present = self.read(file.path)
        return None if present is None else present == file.read()

    def publish(self, site: SiteFiles, changed: SiteFiles, gone: Sequence[str] = (), records: SiteFiles = ()) -> None:
        """Write the changed files in their order, each by a rename.

        Raises:
            StateError: another process published there since the start, or the disk refuses.
        """
        for file in changed:
            self._write(file)
        for path in gone:
            folders.remove_below(self._full(path), self._top)
        for file in records:
            self._write(file)

    def remove_unfinished(self, site: SiteFiles) -> None:
        """Remove the temporary files of a killed push from the folders of this site; raises as ``publish``."""
        for folder in {os.path.dirname(self._full(file.path)) for file in site}:
            folders.remove_unfinished(folder, self._top)

    def _write(self, file: SiteFile) -> None:
        before = None if file.fixed else self.read(file.path)
        if not files.swap(self._full(file.path), before, file.read(), mode=0o644, root=self._top):
            raise overtaken(file.path, self.where)

    def _full(self, path: str) -> str:
        return os.path.join(self.where, *path.split("/"))


BRANCH = "gh-pages"
# With this file, GitHub Pages does not run Jekyll, which would omit folders whose names begin with a dot.
_NO_JEKYLL = SiteFile(".nojekyll", lambda: b"")


class GitTarget(Target):
    """A git branch, such as one for GitHub Pages. It gets one commit, if it did not move since the start.

    Other files of the branch stay. Nothing is checked out, and no hook, filter or program of the repository runs.

    Args:
        cache: The cache of the repository.
        branch: The branch, which may not exist yet.

    Raises:
        SourceError: the repository cannot be reached.
        FormatError, UnsafeArchive, WrongBytes: the repository has contents that no honest repository has.
    """

    def __init__(self, cache: GitCache, branch: str) -> None:
        self._cache, self._branch, self.where = cache, branch, f"{cache.url}@{branch}"
        self._ref = f"refs/heads/{branch}"
        self._parent = cache.ask([self._ref]).get(self._ref)
        if self._parent is not None and not is_object_id(self._parent):
            raise SourceError("expected a repository with SHA-1 ids, found another kind", where=cache.url)
        self._snapshot = GitSnapshot(cache, self._parent) if self._parent else None
        self.is_there = self._parent is not None

    def read(self, path: str) -> bytes | None:
        """Return a file that the branch had at the start, or None if it had none.

        Raises:
            StateError: the path is a link or a submodule.
        """
        leaf = self._snapshot.leaves.get(path) if self._snapshot else None
        if self._snapshot is None or leaf is None:
            return None
        if leaf.node.kind != "file":
            raise other_content(path, self.where)
        return next(iter(self._snapshot.read([path])))

    def compare(self, file: SiteFile) -> bool | None:
        """Compare the file with that of the branch by its object id, without fetching it."""
        leaf = self._snapshot.leaves.get(file.path) if self._snapshot else None
        return None if leaf is None else leaf.node.kind == "file" and leaf.id == object_id("blob", file.read())

    def publish(self, site: SiteFiles, changed: SiteFiles, gone: Sequence[str] = (), records: SiteFiles = ()) -> None:
        """Commit the changed files, and push the commit, which publishes all of them at once.

        Raises:
            StateError: another process pushed to the branch since the start, or the disk refuses.
            SourceError: the repository cannot be reached, or refuses.
        """
        files = [*changed, *records, *(() if self.compare(_NO_JEKYLL) is not None else (_NO_JEKYLL,))]
        message = f"Publish {len(changed)} of {len(site)} files of the registry"
        content = chain(((path, None) for path in gone), ((file.path, file.read()) for file in files))
        if not self._cache.push(self._ref, self._parent, message, content):
            raise overtaken(self._branch, self.where)


def branch_address(text: str, environ: Mapping[str, str]) -> str:
    """Return the address ``git+URL@BRANCH`` for any reference to a repository; the default branch is ``gh-pages``.

    Raises:
        UsageError: the text is not a reference to a git repository.
    """
    ref = parse_ref(text)
    if not isinstance(ref, Git | GitHub) or ref.path is not None:
        raise UsageError(f"expected a git repository and a branch of it, found {quote(text)}")
    branch = (ref.rev or BRANCH).removeprefix("refs/heads/")
    spellings(branch)
    check(url := url_of(ref, environ))
    return f"git+{url}@{branch}"


def open_branch(address: str, cache: str, environ: Mapping[str, str], tokens: Mapping[str, str]) -> Target:
    """Return the target for an address that ``branch_address`` returned.

    Args:
        address: The address.
        cache: The folder of all repository caches.
        environ: The environment of this process.
        tokens: The variable with the token for each host, as the user configured it.

    Raises:
        UsageError: the URL is not one from which skills are fetched.
        SourceError, NotFound, UnsafeTransfer: the repository cannot be reached.
        FormatError, UnsafeArchive, WrongBytes: the repository has contents that no honest repository has.
        StateError: the disk refuses, or another process holds the lock of the cache.
    """
    url, _, branch = address.removeprefix("git+").rpartition("@")
    bounds = GitLimits(tokens=tokens)
    git_remote = remote(url, environ, bounds, login_for(url, environ, tokens))
    with hinting(where=url, kinds=FormatError):
        return GitTarget(GitCache(git_remote, cache, environ, bounds), branch)
