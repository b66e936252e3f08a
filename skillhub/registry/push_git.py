"""A branch of a git repository to publish to, such as the one that GitHub Pages serves; one push, one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skillhub.errors import FormatError, SourceError, UsageError
from skillhub.formats.text import is_object_id, quote
from skillhub.model.reference import Git, GitHub, parse_ref, url_of
from skillhub.registry.push import SiteFile, Target, other_content, overtaken
from skillhub.sources.git_program import GitLimits
from skillhub.sources.git_repository import GitCache, check, remote
from skillhub.sources.git_snapshot import GitSnapshot, object_id, spellings
from skillhub.sources.github import login_for

BRANCH = "gh-pages"
# GitHub Pages hands out no folder whose name begins with a dot unless this file says that Jekyll is not to be run.
_NO_JEKYLL = SiteFile(".nojekyll", lambda: b"")


class GitTarget:
    """A ``Target`` that changes as a whole: the branch gets one commit, if it is still where it was at the start.

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


def address_of(text: str, environ: Mapping[str, str]) -> str:
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


def open_target(address: str, cache: str, environ: Mapping[str, str], tokens: Mapping[str, str]) -> Target:
    """Return the target of an address that ``address_of`` returned.

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
