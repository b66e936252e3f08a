"""Where a registry's site is published: the interface of all such places; a folder; a branch of a git repository."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

from skillhub.disk import files
from skillhub.errors import FormatError, SourceError, StateError, UsageError
from skillhub.formats.text import is_object_id, quote
from skillhub.model.reference import Git, GitHub, parse_ref, url_of
from skillhub.registry.outputs import is_fixed
from skillhub.sources.git_program import GitLimits
from skillhub.sources.git_repository import GitCache, check, remote
from skillhub.sources.git_snapshot import GitSnapshot, object_id, spellings
from skillhub.sources.github import login_for
from skillhub.trust.documents import SHARD_PATHS

TIMESTAMP_PATH = "metadata/timestamp.json"
_AT_ONCE = 8  # below the 10 connections that botocore and requests keep
FILE_CAP = 64 * 1024 * 1024  # bytes of the largest file that a site has
APART = "two copies of the registry were changed separately: continue with the one that was pushed first"


@dataclass(frozen=True, slots=True)
class SiteFile:
    """A file of a site; ``read`` gives its bytes, proved anew each time.

    Attributes:
        path: Below the site, with ``/`` between segments.
    """

    path: str
    read: Callable[[], bytes]

    @property
    def fixed(self) -> bool:
        """Whether what is under this name is never to change."""
        return is_fixed(self.path)


class Target(Protocol):
    """A place that a site is published to.

    What may change is compared: a target remembers what it first saw of a file, and writes over nothing else.

    Attributes:
        is_browsed: Whether people and other clients read files there, so that pages are of use.
    """

    is_browsed: bool

    def read(self, path: str) -> bytes | None:
        """Return the file as it is served there, or None if there is none.

        Raises:
            SourceError: the place cannot be reached.
            StateError: it refuses, or somebody else publishes there at this moment.
        """
        ...

    def holds(self, file: SiteFile) -> bool:
        """Say whether the file is there as it is to be.

        Raises:
            StateError: it never changes, and is there with other content.
        """
        ...

    def publish(self, site: Sequence[SiteFile], changed: Sequence[SiteFile]) -> None:
        """Write what ``holds`` said is not there, in its order; whatever happens, no file is seen in part.

        Args:
            site: All of it, in the order in which it may appear.
            changed: Those of them that are to be written.

        Raises:
            StateError: somebody else has published there since; what was written does no harm, nor is it lost.
            SourceError: the place cannot be reached any more.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


def in_stages(changed: Sequence[SiteFile], write: Callable[[SiteFile], None]) -> None:
    """Write many files at a time where their order does not matter: fixed ones, others, lists.

    The timestamp, by which clients see what is new, and the roots after it come last, one by one.
    """
    early = list(takewhile(lambda file: file.path != TIMESTAMP_PATH, changed))
    stages: list[list[SiteFile]] = [[], [], []]
    for file in early:
        is_list = file.path.endswith("index.json") or file.path in SHARD_PATHS
        stages[0 if file.fixed else 2 if is_list else 1].append(file)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for stage in stages:
            deque(pool.map(write, stage), 0)
    for file in changed[len(early) :]:
        write(file)


def other_content(path: str, where: str) -> StateError:
    """Return the error for a file that never changes, and is there with other content."""
    return StateError(
        f"{quote(path)} exists with other content, and a file of this name never changes", where=where, hint=APART
    )


def overtaken(path: str, where: str) -> StateError:
    """Return the error for a file that another writer has changed since it was looked at."""
    return StateError(
        f"{quote(path)} was published by another writer during this push",
        where=where,
        hint="nothing is lost: run the command again",
    )


class FolderTarget:
    """A folder that a web server serves, or that something else copies on; every file appears by a rename.

    Args:
        path: The folder; made when there is something to put into it.
    """

    is_browsed = True

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self._seen: dict[str, bytes | None] = {}  # of files that may change, and of no others: they are small

    def read(self, path: str) -> bytes | None:
        """Return the file as it was when first asked for, or None if there was none.

        Raises:
            StateError: the disk refuses.
            FormatError: it is larger than any file of a site.
        """
        if is_fixed(path):
            return files.read(self._full(path), FILE_CAP)
        if path not in self._seen:
            self._seen[path] = files.read(self._full(path), FILE_CAP)
        return self._seen[path]

    def holds(self, file: SiteFile) -> bool:
        """Say whether the file is there as it is to be.

        Raises:
            StateError: it never changes, and is there with other content; or the disk refuses.
            FormatError: what is there is larger than any file of a site.
        """
        found, wanted = self.read(file.path), file.read()
        if file.fixed and found not in (None, wanted):
            raise other_content(file.path, self._path)
        return found == wanted

    def publish(self, site: Sequence[SiteFile], changed: Sequence[SiteFile]) -> None:
        """Write the files that changed, in their order, each by a rename.

        Raises:
            StateError: somebody else has published there since, or the disk refuses.
        """
        for file in changed:
            before = None if file.fixed else self.read(file.path)
            if not files.swap(self._full(file.path), before, file.read(), mode=0o644):
                raise overtaken(file.path, self._path)

    def close(self) -> None:
        """Do nothing: no file is open."""

    def _full(self, path: str) -> str:
        return os.path.join(self._path, *path.split("/"))


BRANCH = "gh-pages"
# GitHub Pages hands out no folder whose name begins with a dot unless this file says that Jekyll is not to be run.
_NO_JEKYLL = SiteFile(".nojekyll", lambda: b"")


class GitTarget:
    """A branch, such as GitHub Pages serves: it gets one commit, if it is still where it was at the start.

    Other files of the branch stay. Nothing is checked out, and no hook, filter or program of the repository is run.

    Args:
        cache: The cache of the repository.
        branch: The branch, which need not be there.

    Raises:
        SourceError: the repository cannot be reached.
        FormatError, UnsafeArchive, WrongBytes: it holds what no honest repository holds.
    """

    is_browsed = True

    def __init__(self, cache: GitCache, branch: str) -> None:
        self._cache, self._branch = cache, branch
        self._ref = f"refs/heads/{branch}"
        self._parent = cache.ask([self._ref]).get(self._ref)
        if self._parent is not None and not is_object_id(self._parent):
            raise SourceError("expected a repository with SHA-1 ids, found another kind", where=cache.url)
        self._there = GitSnapshot(cache, self._parent) if self._parent else None

    def read(self, path: str) -> bytes | None:
        """Return the file as the branch had it at the start, or None if it had none.

        Raises:
            StateError: it is a link, or another repository.
        """
        leaf = self._there.leaves.get(path) if self._there else None
        if self._there is None or leaf is None:
            return None
        if leaf.node.kind != "file":
            raise other_content(path, self._cache.url)
        return next(iter(self._there.read([path])))

    def holds(self, file: SiteFile) -> bool:
        """Say whether the branch has the file as it is to be; its id tells, and nothing is fetched.

        Raises:
            StateError: it never changes, and is there with other content.
        """
        leaf = self._there.leaves.get(file.path) if self._there else None
        if leaf is not None and leaf.node.kind == "file" and leaf.id == object_id("blob", file.read()):
            return True
        if leaf is not None and file.fixed:
            raise other_content(file.path, self._cache.url)
        return False

    def publish(self, site: Sequence[SiteFile], changed: Sequence[SiteFile]) -> None:
        """Commit what changed, and push the commit, by which all of it appears at once.

        Raises:
            StateError: somebody else has pushed to the branch since; or the disk refuses.
            SourceError: the repository cannot be reached any more, or refuses.
        """
        files = [*changed, *(() if self.holds(_NO_JEKYLL) else (_NO_JEKYLL,))]
        message = f"Publish {len(changed)} of {len(site)} files of the registry"
        content = ((file.path, file.read()) for file in files)
        if not self._cache.push(self._ref, self._parent, message, content):
            raise overtaken(self._branch, self._cache.url)

    def close(self) -> None:
        """Do nothing: each git has ended."""


def branch_address(text: str, environ: Mapping[str, str]) -> str:
    """Return the address ``git+URL@BRANCH`` of any reference to a repository; without a branch it is ``gh-pages``.

    Raises:
        UsageError: it is none.
    """
    ref = parse_ref(text)
    if not isinstance(ref, Git | GitHub) or ref.path is not None:
        raise UsageError(f"expected a git repository and a branch of it, found {quote(text)}")
    branch = (ref.rev or BRANCH).removeprefix("refs/heads/")
    spellings(branch)
    check(url := url_of(ref, environ))
    return f"git+{url}@{branch}"


def open_branch(address: str, cache: str, environ: Mapping[str, str], tokens: Mapping[str, str]) -> Target:
    """Return the target of an address that ``branch_address`` returned.

    Args:
        address: It.
        cache: The folder of all caches of repositories.
        environ: The environment of this process.
        tokens: By host the variable that holds a token for it, as the person configured it.

    Raises:
        UsageError: it is no URL that skills are fetched from.
        SourceError, NotFound, UnsafeTransfer: the repository cannot be reached.
        FormatError, UnsafeArchive, WrongBytes: it holds what no honest repository holds.
        StateError: the disk, or another process.
    """
    url, _, branch = address.removeprefix("git+").rpartition("@")
    bounds = GitLimits(tokens=tokens)
    told = remote(url, environ, bounds, login_for(url, environ, tokens))
    try:
        return GitTarget(GitCache(told, cache, environ, bounds), branch)
    except FormatError as error:
        error.where = error.where or url
        raise
