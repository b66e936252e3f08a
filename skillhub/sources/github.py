"""A repository on GitHub at one commit, through the REST API, for machines without git; tokens for git servers."""

from __future__ import annotations

import os
import re
import tarfile
import threading
import zlib
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from io import BytesIO
from itertools import islice
from typing import Annotated, ClassVar, Self, TypeVar
from urllib.parse import quote as percent_encode

from pydantic import ConfigDict

from skillhub import errors
from skillhub.archive.limits import unsafe
from skillhub.disk import files
from skillhub.disk.home import user_home
from skillhub.errors import FormatError, NotFound, RateLimited, SourceError, StateError, UsageError, WrongBytes
from skillhub.formats import yaml
from skillhub.formats.document import ForeignDocument, Items, matching
from skillhub.formats.json import refuse_many
from skillhub.formats.text import is_object_id, quote
from skillhub.model.reference import PUBLIC, site_of
from skillhub.net.fetch import RequestOptions, Response, Web, whole
from skillhub.net.mirrors import UntrustedClient
from skillhub.net.settings import token_variable
from skillhub.net.target import RULES, RequestTarget
from skillhub.net.threads import threads
from skillhub.sources import git_snapshot
from skillhub.sources.git_program import GitLimits, object_id, tree_of
from skillhub.sources.git_snapshot import GitSnapshot, choose, of_skills, open_git, spellings

# The GitHub that the environment names, github.com or a company's server, with its token; tokens for other servers.

_TOKEN = re.compile(r"[!-~]{1,1024}", re.ASCII)
_HOST_CAP = 1 << 16
_HOST = re.compile(r"(?i)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[1-9][0-9]{0,4})?", re.ASCII)
_HOSTED = ".ghe.com"  # servers that GitHub runs for companies, with the variables and the API of github.com


@dataclass(frozen=True, slots=True)
class GitHubHost:
    """A GitHub server.

    Attributes:
        site: The base URL of its repositories.
        api: The base URL of its REST API.
        token: The user's token; it is sent to ``site`` and ``api`` only, and is in no message.
        variable: A variable of the environment that may hold a token for this server, for hints.
    """

    site: str
    api: str
    token: str | None = field(repr=False)
    variable: str


def host_of(environ: Mapping[str, str]) -> GitHubHost:
    """Return the GitHub server that the environment names, as GitHub's own tools read it; github.com by default.

    ``GH_HOST`` or ``GITHUB_SERVER_URL`` names the site, ``GITHUB_API_URL`` the API. The token is ``GH_TOKEN`` or
    ``GITHUB_TOKEN``, for a company's own server ``GH_ENTERPRISE_TOKEN`` or ``GITHUB_ENTERPRISE_TOKEN``, else the one
    in ``gh``'s ``hosts.yml``.

    Raises:
        UsageError: a URL is neither https nor on this machine, ``GH_HOST`` is no host, or the token cannot be sent.
    """
    named = environ.get("GH_HOST")
    if named and not _HOST.fullmatch(named):
        raise UsageError(f"expected a host such as git.corp.example, found {quote(named)}", where="GH_HOST")
    site = site_of(environ)
    usual = "https://api.github.com" if site == PUBLIC else f"{site}/api/v3"
    if site.endswith(_HOSTED):
        usual = site.replace("https://", "https://api.", 1)
    api = (environ.get("GITHUB_API_URL") or usual).rstrip("/")
    for name, url in (("GITHUB_SERVER_URL", site), ("GITHUB_API_URL", api)):
        if not url.startswith("https://") and not RequestTarget.parse(url).loopback:
            raise UsageError("expected a URL that begins with https://", where=name)
    variables = ["GH_TOKEN", "GITHUB_TOKEN"]
    if site != PUBLIC and not site.endswith(_HOSTED):
        # Like gh, send no token of github.com to a server that only ``GH_HOST`` names.
        public = [] if named else variables
        variables = ["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", *public]
    return GitHubHost(site, api, _token(environ, site, variables), variables[-1])


def _token(environ: Mapping[str, str], site: str, variables: Sequence[str]) -> str | None:
    """Return the token in the first of these variables that is set, else the one in ``gh``'s file."""
    variable = next((name for name in variables if environ.get(name)), None)
    token = (environ[variable].strip() if variable else None) or _kept(environ, site)
    return _sendable(token, variable or "gh's hosts.yml")


def _sendable(token: str | None, where: str | None) -> str | None:
    """Return a token, or None for an empty one. Raises UsageError: it cannot be sent in a header."""
    if token and not _TOKEN.fullmatch(token):
        raise UsageError("expected a token of visible ASCII characters", where=where)
    return token or None


def _kept(environ: Mapping[str, str], site: str) -> str | None:
    """Return the token in ``gh``'s file. Newer versions keep it in the system's keyring, which is not read."""
    # The file is another program's: if it cannot be read, there is no token.
    with suppress(FormatError, StateError, UnicodeDecodeError):
        path = os.path.realpath(os.path.join(_gh_folder(environ), "hosts.yml"))
        data = files.read(path, _HOST_CAP)
        if data is None:
            return None
        hosts = yaml.parse(data.decode(), path)
        entry = hosts.get(RequestTarget.parse(site).host) if isinstance(hosts, dict) else None
        token = entry.get("oauth_token") if isinstance(entry, dict) else None
        return token if isinstance(token, str) and token else None
    return None


def token_for(url: str, environ: Mapping[str, str], tokens: Mapping[str, str]) -> str | None:
    """Return the token for a repository: one that the user's settings name, or ``GITLAB_TOKEN`` at GitLab.

    Args:
        url: The repository. Only one over https, or on this machine, gets a token.
        environ: The environment; ``GITLAB_HOST`` names a company's own GitLab.
        tokens: The variable that holds the token, by host, or host and port.

    Raises:
        UsageError: the token cannot be sent.
    """
    try:
        target = RequestTarget.parse(url)
    except errors.UnsafeTransfer:  # the request itself will report it
        return None
    if target.is_plain:
        return None
    variable = token_variable(target, tokens)
    gitlab = (environ.get("GITLAB_HOST") or "gitlab.com").removeprefix("https://").rstrip("/").lower()
    if variable is None and target.authority == gitlab:
        variable = "GITLAB_TOKEN"
    return _sendable(environ.get(variable or "", "").strip(), variable)


def _gh_folder(environ: Mapping[str, str]) -> str:
    for variable, below in (("GH_CONFIG_DIR", ""), ("XDG_CONFIG_HOME", "gh"), ("APPDATA", "GitHub CLI")):
        if folder := environ.get(variable):
            return os.path.join(folder, below)
    return os.path.join(environ.get("HOME") or user_home(), ".config", "gh")


# A repository on GitHub at one commit, through its REST API.
# GitHub is trusted for the tree of a commit alone; every id below it is computed from the API's answers. The archive
# of a commit saves many requests, but git attributes may omit or change files in it: its bytes count only if they
# have the right id, and it never decides which files exist.

_JSON = "application/vnd.github+json"
_RAW = "application/vnd.github.raw"
_SHA = "application/vnd.github.sha"
_CAP = 32 << 20
_BLOB = 64 << 20
_ARCHIVE = 128 << 20
_UNPACKED = 512 << 20
_MEMBERS = 100_000
_KEPT = 128 << 20
_HEADER = 64 << 10  # bytes of a header in an archive about the entry after it
# More files than this are read from the archive, which takes one request; without a token 60 are allowed in an hour.
_SINGLY = 4
_AT_ONCE = 8
_T = TypeVar("_T", bound=ForeignDocument)
_Id = Annotated[str, matching(re.compile("[0-9a-f]{40}"), "40 hex digits")]


class _Object(ForeignDocument):
    sha: _Id


class _Signature(ForeignDocument):
    date: str | None = None


class GitHubCommit(ForeignDocument):
    """A commit in the API's answer."""

    tree: _Object
    committer: _Signature | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """A file or folder; a dataclass and no model, since a repository may have a hundred thousand."""

    __pydantic_config__ = ConfigDict(extra="ignore")

    path: str
    mode: str
    type: str
    sha: _Id
    size: int | None = None


class GitHubTree(ForeignDocument):
    """The files of a commit in the API's answer."""

    CAP: ClassVar[int] = _CAP

    tree: Items[_Row]


def open_github_api(owner: str, repo: str, *, rev: str | None, web: Web, host: GitHubHost) -> GitHubSnapshot:
    """Return the repository at a branch, a tag or a commit.

    Raises:
        UsageError: ``rev`` is no name, or names a branch and a tag.
        NotFound: there is no such repository, branch, tag or commit, or the token does not permit to read it.
        RateLimited: GitHub accepts no more requests for a while.
        SourceError: GitHub cannot be reached.
        FormatError, UnsafeArchive: the repository holds objects that no honest repository holds.
        WrongBytes: the answer has another id than the requested one.
        UnsafeTransfer: GitHub redirects to a forbidden URL.
    """
    api = _Api(f"{host.api}/repos/{percent_encode(owner, safe='')}/{percent_encode(repo, safe='')}", web, host)
    if rev is not None and is_object_id(rev):
        return GitHubSnapshot(api, rev)
    # The API takes refs without ``refs/``.
    found = {ref: api.commit(ref.removeprefix("refs/")) for ref in spellings(rev)}
    commits = {ref: commit for ref, commit in found.items() if commit is not None}
    if not commits:
        api.ask("", _JSON, _CAP)  # raises NotFound if the repository itself is missing
    return GitHubSnapshot(api, choose(commits, rev, api.url))


class GitHubSnapshot:
    """A repository on GitHub at one commit: a ``Snapshot``."""

    def __init__(self, api: _Api, rev: str) -> None:
        self.rev, self._api = rev, api
        self._trees: dict[str, bytes] = {}
        self._sizes: dict[str, int] = {}
        self._kept: dict[str, bytes] = {}
        self._unpacked = False
        self._mutex = threading.Lock()
        commit = api.read(GitHubCommit, f"git/commits/{rev}")
        self.date = commit.committer.date if commit.committer else None
        self._leaves = git_snapshot.walk(commit.tree.sha, self._read_trees)
        self.nodes = git_snapshot.nodes_of(self._leaves, self._sizes)

    def read(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of these files, in this order, exactly as the commit has them.

        Raises:
            NotFound: the commit has no such file.
            SourceError, UnsafeTransfer: the files cannot be fetched.
            UnsafeArchive: ``too-large``: a file is larger than a whole skill may be.
            WrongBytes: the bytes are not those of the commit.
        """
        ids = [git_snapshot.file_id(self._leaves, path, self._api.url) for path in paths]
        with self._mutex:
            wanted = {id_ for id_ in ids if id_ not in self._kept}
            if len(wanted) > _SINGLY and not self._unpacked:
                self._unpack(wanted)
        if wanted <= self._kept.keys():
            yield from (self._kept[id_] for id_ in ids)
            return
        with threads(_AT_ONCE) as pool:
            for at in range(0, len(ids), _AT_ONCE):
                yield from pool.map(self._blob, ids[at : at + _AT_ONCE])

    def _read_trees(self, ids: Sequence[str]) -> Iterator[bytes]:
        for id_ in ids:
            # First the tree with all below it. GitHub cuts the answer for a very large one: then this tree alone.
            for query in ("?recursive=1", ""):
                if id_ not in self._trees:
                    self._keep_trees(f"git/trees/{id_}{query}")
            if id_ not in self._trees:
                raise WrongBytes(f"expected the tree {id_}, GitHub answered another", where=self._api.url)
            yield self._trees[id_]

    def _keep_trees(self, path: str) -> None:
        folders: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
        folders[""] = []
        for row in self._api.read(GitHubTree, path).tree:
            folder, _, name = row.path.rpartition("/")
            folders[folder].append((row.mode.removeprefix("0"), name, row.sha))
            if row.type == "tree":
                folders.setdefault(row.path, [])
            self._sizes[row.sha] = row.size or 0
        for rows in folders.values():
            data = tree_of(rows)
            self._trees[object_id("tree", data)] = data

    def _blob(self, id_: str) -> bytes:
        if id_ in self._kept:
            return self._kept[id_]
        if (size := self._sizes.get(id_, 0)) > _BLOB:
            raise unsafe("too-large", f"expected at most {_BLOB} bytes in one file, found {size}")
        return git_snapshot.checked(id_, "blob", self._api.ask(f"git/blobs/{id_}", _RAW, _BLOB).data)

    def _unpack(self, wanted: set[str]) -> None:
        """Keep the bytes that the archive has of the wanted files and of the files of all skills."""
        self._unpacked = True
        wanted = wanted | of_skills(self._leaves)
        with suppress(NotFound, WrongBytes):  # no archive, or too large a one: each file is fetched by itself
            archive = self._api.ask(f"tarball/{self.rev}", _JSON, _ARCHIVE).data
            for path, data in _members(archive, {path for path, leaf in self._leaves.items() if leaf.id in wanted}):
                if object_id("blob", data) == self._leaves[path].id:
                    self._kept[self._leaves[path].id] = data


class _Api:
    """The part of the API for one repository, below ``url``."""

    def __init__(self, url: str, web: Web, host: GitHubHost) -> None:
        self.url, self._web, self._host = url, web, host
        authorization = {"Authorization": f"Bearer {host.token}"} if host.token is not None else {}
        self._fields = {"X-GitHub-Api-Version": "2022-11-28", **authorization}

    def commit(self, ref: str) -> str | None:
        """Return the commit of a ref; None if there is no such ref."""
        url = f"{self.url}/commits/{percent_encode(ref)}"
        answer = self._web.ask(url, cap=_CAP, options=RequestOptions(headers={**self._fields, "Accept": _SHA}))
        # 409: an empty repository; 422: no such commit.
        if answer.status in (404, 409, 422):
            return None
        text = self._checked(answer).data.decode("ascii", "replace").strip()
        if not is_object_id(text):
            raise FormatError(f"expected the id of a commit, found {quote(text)}", where=url)
        return text

    def read(self, kind: type[_T], path: str) -> _T:
        """Return the document at this path."""
        answer = self.ask(path, _JSON, _CAP)
        refuse_many(answer.data, answer.url)
        return kind.parse(answer.data, answer.url)

    def ask(self, path: str, media: str, cap: int) -> Response:
        """Return the answer to a request for this path."""
        url = f"{self.url}/{path}".rstrip("/")
        options = RequestOptions(headers={**self._fields, "Accept": media})
        return self._checked(self._web.ask(url, cap=cap, options=options))

    def _checked(self, answer: Response) -> Response:
        # The query is left out: a redirect to the archive of a private repository has a token in it.
        answer = replace(answer, url=answer.url.partition("?")[0])
        if answer.status == 401:
            raise SourceError("GitHub rejects the token", where=answer.url, hint=f"check {self._host.variable}")
        try:
            return whole(answer)
        except RateLimited as error:
            until = "for a while"
            with suppress(ValueError, OverflowError, OSError):
                if error.resets is not None:
                    until = f"until {datetime.fromtimestamp(error.resets, UTC):%H:%M} UTC"
            message = f"GitHub's rate limit allows no more requests {until}"
            without = f"set {self._host.variable}, or install git, which has no such limit"
            advice = without if self._host.token is None else "wait"
            raise RateLimited(message, where=answer.url, hint=advice, resets=error.resets) from error
        except NotFound as error:
            hint = f"for a private repository set {self._host.variable}" if self._host.token is None else None
            raise NotFound(error.message, where=answer.url, hint=hint) from error


class _Member(tarfile.TarInfo):
    # The step of every Python's tarfile between a header and its data; `frombuf` is not called by those of 2026.
    def _proc_member(self, archive: tarfile.TarFile) -> Self:
        if not self.isreg() and self.size > _HEADER:  # tarfile would read all of it, and more than once
            raise tarfile.ReadError("a header is too large")
        member: Self = super()._proc_member(archive)  # type: ignore[misc]
        return member


def _members(archive: bytes, paths: Container[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the files at these paths of an untrusted archive, as far as it can be read and memory allows."""
    broken = (tarfile.TarError, EOFError, OSError, zlib.error, ValueError, LookupError, OverflowError, RecursionError)
    left = _KEPT
    with suppress(*broken), tarfile.open(fileobj=BytesIO(archive), mode="r|gz", tarinfo=_Member) as tar:
        for member in islice(tar, _MEMBERS):
            if member.offset > _UNPACKED:
                return
            # All files are in one folder, which has the names of the repository and the commit.
            path = member.name.partition("/")[2]
            is_read = member.isreg() and path in paths and member.size <= min(_BLOB, left)
            if is_read and (file := tar.extractfile(member)) is not None:
                left -= member.size
                yield path, file.read()


# A repository by its URL: through git if it is installed, else, for one on GitHub, through GitHub's API.

_PATH = re.compile(r"/([A-Za-z0-9][A-Za-z0-9-]*)/([A-Za-z0-9._-]+?)(?:\.git)?/?", re.ASCII)
_DEFAULT = GitLimits()


def open_repository(
    url: str, rev: str | None, *, cache: str, environ: Mapping[str, str], bounds: GitLimits = _DEFAULT
) -> GitSnapshot | GitHubSnapshot:
    """Return the repository at ``url`` at a branch, a tag or a commit.

    Args:
        url: https, ssh, file, or http on this machine.
        rev: All 40 digits of a commit, or the name of a branch or tag; None for the default branch.
        cache: The folder of all caches.
        environ: The environment of this process, which locates git and names the GitHub server.
        bounds: The limits on time, disk and memory, whether fetching is allowed, and who named the URL; its ``web``
            sends the requests to GitHub's API.

    Raises:
        As ``open_git`` and ``open_github_api``; SourceError: git is not installed, and the repository is not on
            GitHub.
    """
    inner, token = _inner(url, environ), login_for(url, environ, bounds.tokens)
    if inner is not None and files.program("git", environ) is None:
        host = replace(host_of(environ), token=token)
        web = bounds.web
        if web is None or bounds.offline:
            raise SourceError("--offline forbids GitHub's API, and git is not installed", where=url)
        if not RULES[bounds.named_by].sends_credentials:
            web, host = UntrustedClient(web, f"git+{url}"), replace(host, token=None)
        return open_github_api(inner[1], inner[2], rev=rev, web=web, host=host)
    return open_git(url, rev, cache=cache, environ=environ, bounds=bounds, token=token)


def login_for(url: str, environ: Mapping[str, str], tokens: Mapping[str, str]) -> str | None:
    """Return the token for a repository, on GitHub or elsewhere; raises as ``token_for`` and ``host_of``."""
    token = token_for(url, environ, tokens)
    return token or (host_of(environ).token if _inner(url, environ) else None)


def _inner(url: str, environ: Mapping[str, str]) -> re.Match[str] | None:
    """Return the match of the owner and the name in ``url``, if the repository is on the named GitHub server."""
    site = site_of(environ)
    return _PATH.fullmatch(url.removeprefix(site)) if url.startswith(site + "/") else None
