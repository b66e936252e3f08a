"""The local cache of a git repository, and the fetches and pushes that use it: URL, settings of git, redirects."""

from __future__ import annotations

import os
import re
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeVar
from urllib.parse import unquote

from skillhub.disk import files
from skillhub.disk.folders import remove_tree
from skillhub.errors import NotFound, SourceError, UnsafeTransfer, UsageError, WrongBytes
from skillhub.formats.text import as_command, is_object_id, quote
from skillhub.model.reference import Git, parse_ref
from skillhub.net.fetch import RequestOptions, Response, Web, Who
from skillhub.net.settings import base_of
from skillhub.net.target import RULES, RequestTarget, judged, proxy_for
from skillhub.sources.git_program import CatFile, GitError, GitLimits, GitProgram, GoneError

# The URL that git fetches a repository from, with its settings and variables.

# Not "origin", since the user may have settings for the "origin" of all repositories.
REMOTE = "skillhub"
# Git runs this helper once a server asks for credentials and none of the user's helpers has any. The token is in a
# variable, since other users of the machine can read arguments.
_VARIABLE = "SKILLHUB_GIT_VARIABLE"
_HELPER = f'!f() {{ test "$1" = get && printf "username=x-access-token\\npassword=%s\\n" "${_VARIABLE}"; }}; f'
# A repository on this machine that receives a push runs no hook, and no program that its configuration names.
_RECEIVING = (
    f"-c core.hooksPath={os.devnull} -c core.fsmonitor=false -c core.alternateRefsCommand=: -c receive.autogc=false "
    "-c receive.denyCurrentBranch=refuse"
)
# The user's settings of git may hold secrets or replace URLs, and curl looks for a netrc in the home folder.
_NO_USER_SETTINGS = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "HOME": os.devnull,
    "XDG_CONFIG_HOME": os.devnull,
}


@dataclass(frozen=True, slots=True)
class GitRemote:
    """A remote repository, with the settings that git uses for it.

    Attributes:
        url: The URL that was named.
        fetch_url: The URL to fetch from: ``url``, its mirror, or the target of a redirect.
        named_by: Who named ``fetch_url``; the user, for a mirror.
        options: Settings of git, as ``name=value``.
        variables: Variables of the environment.
        token: The credential for ``fetch_url``, which ``variables`` has too.
    """

    url: str
    fetch_url: str
    named_by: Who
    options: tuple[str, ...]
    variables: Mapping[str, str] = field(repr=False)
    token: str | None = field(default=None, repr=False)

    @property
    def hint(self) -> str | None:
        """The hint for a failure that may come from restrictions, as no person named the URL; None if one did."""
        if self.named_by == "person":
            return None
        who = "this repository" if self.named_by == "repository" else f"a {self.named_by}"
        url = self.fetch_url if self.named_by == "redirect" else self.url
        return f"only {who} names it; to use it: {as_command('skillhub', 'install', f'git+{url}')}"

    def pinned_options(self) -> tuple[str, ...]:
        """Judge the addresses of the host, and return the options that hold git to them; call it before each fetch.

        Raises:
            UnsafeTransfer: no person named the URL, and its host is not on the public internet.
            SourceError: the host has no address.
        """
        scheme, _, rest = self.fetch_url.partition("://")
        rule = RULES[self.named_by]
        if rule.anywhere:
            return ()
        # On Windows two slashes, which git decodes, lead to a server.
        if scheme == "file" and unquote(rest)[1:2] not in ("/", "\\", "?"):
            return ()  # a `path` source may read this disk too, and no byte of it leaves the machine
        if scheme not in rule.schemes:
            raise UnsafeTransfer("expected a repository at an https URL", where=self.url, hint=self.hint)
        authority = rest.partition("/")[0].rpartition("@")[2]
        target = RequestTarget.parse(f"https://{authority}/", public_only=True)
        proxy = proxy_for(target)
        try:
            addresses = [address for address, _ in judged(target, is_proxied=proxy is not None)]
        except UnsafeTransfer as error:
            raise UnsafeTransfer(error.message, where=self.url, hint=self.hint) from error
        except OSError as error:
            raise SourceError("the host of the repository has no address", where=self.url) from error
        if proxy is not None or scheme == "ssh" or ":" in target.host:
            return ()
        # A second look-up by git could give other addresses. Git before 2.37 ignores the setting.
        return "-c", f"http.curloptResolve={target.host}:{target.port}:{','.join(addresses)}"


def remote(url: str, environ: Mapping[str, str], bounds: GitLimits, token: str | None = None) -> GitRemote:
    """Return the repository at ``url``, which may be untrusted, with its mirror if one is configured.

    Args:
        url: https, ssh, file, or http on this machine.
        environ: The environment of this process.
        bounds: Has the mirrors, and who named ``url``.
        token: The credential for ``url``, offered when the server asks. It is never sent to a mirror, nor to a
            repository that no person named.

    Raises:
        UsageError: skills are not fetched from such a URL.
        SourceError: git is not installed.
    """
    check(url)
    base = base_of(url, bounds.mirrors)
    fetch_url = url if base is None else bounds.mirrors[base] + url[len(base) :]
    if fetch_url.startswith("http:") and fetch_url == url and not RequestTarget.parse(url).loopback:
        raise UsageError(f"expected https, found {quote(url)}", hint="git+https://… proves which server it is")
    named_by = bounds.named_by if fetch_url == url else "person"
    return remote_at(url, fetch_url, named_by, environ, token if fetch_url == url else None)


def remote_at(
    url: str, fetch_url: str, named_by: Who, environ: Mapping[str, str], token: str | None = None
) -> GitRemote:
    """Return the repository at ``url``, to be fetched from ``fetch_url``; see ``remote``.

    Raises:
        SourceError: git is not installed.
    """
    # ext:: runs commands; git:// does not authenticate the server. The user's own `insteadOf` may lead to either.
    protocols = "https:ssh:file"
    if fetch_url.startswith("http:"):
        protocols += ":http"
    # Git does not judge the target of a redirect; ``redirected`` does.
    options = [f"remote.{REMOTE}.url={fetch_url}", "http.followRedirects=false"]
    if fetch_url.startswith("file:"):
        # Git before 2.45.1 lets it fetch missing objects with any program that it names (CVE-2024-32465).
        options.append(f"remote.{REMOTE}.uploadpack=GIT_ALLOW_PROTOCOL=none git-upload-pack")
        options.append(f"remote.{REMOTE}.receivepack=GIT_ALLOW_PROTOCOL=none git {_RECEIVING} receive-pack")
    if not RULES[named_by].settings:
        protocol = "file" if fetch_url.startswith("file:") else "https"
        variables = {"GIT_ALLOW_PROTOCOL": protocol, **_NO_USER_SETTINGS}
        return GitRemote(url, fetch_url, named_by, tuple(options), variables)
    variables = {"GIT_ALLOW_PROTOCOL": protocols}
    # An ssh command of the user is kept; without a terminal it cannot prompt either.
    is_usual = fetch_url.startswith("ssh:") and environ.keys().isdisjoint(("GIT_SSH_COMMAND", "GIT_SSH"))
    if is_usual and not GitProgram(os.path.abspath(os.sep), environ, (), {}).is_set("core.sshCommand"):
        variables["GIT_SSH_COMMAND"] = "ssh -oBatchMode=yes"
    if not RULES[named_by].sends_credentials or not fetch_url.startswith(("https:", "http:")):
        token = None
    if token is not None:
        origin = "/".join(fetch_url.split("/")[:3])
        options.append(f"credential.{origin}.helper={_HELPER}")
        variables[_VARIABLE] = token
    return GitRemote(url, fetch_url, named_by, tuple(options), variables, token)


def check(url: str) -> None:
    """Raise unless an untrusted text is the URL of a repository.

    Raises:
        UsageError: the text is no such URL.
    """
    if parse_ref(f"git+{url}") != Git(url) or ".." in url.split("/"):
        raise UsageError(f"expected the URL of a git repository, found {quote(url)}")


# Redirects of git's server: git follows none, and each target is judged before git connects to it. Only redirects of
# a URL that a person named are followed. Forges redirect a renamed or moved repository, and a renamed host; the
# server of the old name could as well redirect into this machine's network.

_REFS_QUERY = "/info/refs?service=git-upload-pack"  # git's first request (gitprotocol-http)
_CAP = 16 << 20  # an answer may list all branches and tags; in version 2 of the protocol it is short
_V2 = {"Git-Protocol": "version=2"}


def redirected(remote: GitRemote, environ: Mapping[str, str], bounds: GitLimits) -> GitRemote | None:
    """Return the repository at the target of the server's redirect; None if the target cannot be determined.

    A target of the same origin counts as named by a person. Another one is reached over https, at the public
    addresses that were judged, and without the token for the first.

    Raises:
        UnsafeTransfer: the target is plain http, in a private network, or no repository; the error names it.
    """
    if bounds.web is None or remote.named_by != "person" or not remote.fetch_url.startswith(("https:", "http:")):
        return None
    fetch_url = remote.fetch_url.rstrip("/")
    # First without a credential; if that request is not redirected, with the token that git has.
    attempts: list[Mapping[str, str]] = [_V2]
    if remote.token is not None:
        secret = b64encode(f"x-access-token:{remote.token}".encode()).decode()
        attempts.append({**_V2, "Authorization": f"Basic {secret}"})
    for headers in attempts:
        try:
            answer = _refs_answer(bounds.web, fetch_url, headers)
        except (SourceError, WrongBytes):
            return None
        if answer.url != fetch_url + _REFS_QUERY:
            return _at(answer.url, remote, environ)
    return None


def _refs_answer(web: Web, fetch_url: str, headers: Mapping[str, str]) -> Response:
    try:
        return web.ask(fetch_url + _REFS_QUERY, cap=_CAP, options=RequestOptions(headers=headers))
    except UnsafeTransfer as error:
        found = (error.where or "").removesuffix(_REFS_QUERY)
        command = as_command("skillhub", "install", f"git+{found}")
        hint = f"if that is intended: {command}" if found not in ("", fetch_url) else None
        message = f"the server redirects to another URL: {error.message}"
        raise UnsafeTransfer(message, where=error.where, hint=hint) from error


def _at(url: str, remote: GitRemote, environ: Mapping[str, str]) -> GitRemote:
    fetch_url = url.removesuffix(_REFS_QUERY)
    try:
        if fetch_url == url:
            raise UsageError(f"expected a redirect to a repository, found {quote(url)}")
        check(fetch_url)
        is_same = RequestTarget.parse(fetch_url).origin == RequestTarget.parse(remote.fetch_url).origin
        return remote_at(remote.url, fetch_url, "person" if is_same else "redirect", environ, remote.token)
    except UsageError as error:
        message = f"the server redirects to another URL: {error.message}"
        raise UnsafeTransfer(message, where=remote.url, hint="give the present URL of the repository") from error


# The cache: a bare repository for each URL, filled with the requested objects alone, and safe to delete at any time.
# It is not trusted: the reader hashes each object. A lock lets one process at a time fill it. The next process
# removes the unfinished files of a killed one, or deletes the whole cache and fetches it again.

_FILES = {"config": b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n", "HEAD": b"ref: refs/heads/none\n"}
_FOLDERS = ("", "objects", "objects/pack", "refs", "refs/commits")
_OURS = frozenset({*_FILES, "objects", "refs", "shallow"})
# The beginnings of names that git, or skillhub in another process, gives to unfinished files.
_GITS = (".tmp-", "tmp_")
_WRITTEN = (*_GITS, ".skillhub-")
# The settings of a partial clone, for the fetch alone: a `cat-file` with them would fetch each missing object, with
# one connection each.
_PARTIAL = ("-c", f"remote.{REMOTE}.promisor=true", "-c", f"remote.{REMOTE}.partialCloneFilter=blob:none")
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", REMOTE)
_IMPORT = ("-c", "fastimport.unpackLimit=1", "fast-import", "--quiet", "--force", "--done")
# For a push, only those of the user's settings apply that say how to reach the server.
_UNASKED = ("push.gpgSign=false", "push.followTags=false", "push.recurseSubmodules=no", "push.pushOption=")
_PUSH = (*(word for each in _UNASKED for word in ("-c", each)), "push", "--quiet")
_NEW = "refs/commits/new"
_FIRST = "refs/commits/first"
_UNNAMED = "only the repository knows which commit a branch or a tag names now"
_REJECTED = re.compile(r"\[rejected\]|stale info|cannot lock ref|failed to update ref|reference already exists", re.I)
_T = TypeVar("_T")
_ALL = ("+refs/heads/*:refs/all/heads/*", "+refs/tags/*:refs/all/tags/*")


class GitCache:
    """The objects of one repository that were needed so far; safe for many threads.

    Args:
        remote: The repository.
        cache: The folder of all caches; this one is below ``git/`` in it.
        environ: The environment of this process.
        bounds: The limits on time, disk and memory.
    """

    def __init__(self, remote: GitRemote, cache: str, environ: Mapping[str, str], bounds: GitLimits) -> None:
        self.url = remote.url
        self._bounds, self._environ = bounds, environ
        name = os.path.join("git", sha256(remote.url.encode()).hexdigest()[:32])
        self._folder = os.path.join(cache, name)
        self._remote = remote
        self._git = GitProgram(self._folder, environ, remote.options, remote.variables)
        self._beneath = bounds.beneath and os.path.join(bounds.beneath, name, "objects")
        more = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": self._beneath} if self._beneath else {}
        # Not for a fetch, which would build on commits whose parents are missing.
        self._git_with_alternates = GitProgram(self._folder, environ, remote.options, {**remote.variables, **more})
        self._reader: CatFile | None = None
        self._mutex = threading.Lock()

    def ask(self, refs: Iterable[str]) -> dict[str, str]:
        """Return the ids of these refs, as far as the repository has them, and perhaps of others.

        Raises:
            SourceError, NotFound, UnsafeTransfer: the refs cannot be read from the server.
            StateError: the disk refuses.
        """

        def listed(address: Sequence[str]) -> bytes:
            self._prepare()
            return self._git.run((*address, "ls-remote", "--quiet", REMOTE, *refs), self._bounds)

        answer = self._online(listed, _UNNAMED).decode("utf-8", "replace")
        rows = (line.partition("\t") for line in answer.splitlines())
        return {name: id_ for id_, _, name in rows}

    def first(self) -> str | None:
        """Fetch the newest commit of the default branch, as ``fetch`` does, and return its id.

        This saves the request of ``ask``. Return None if the cache is not empty, or if git fails for a reason that
        ``ask`` reports better.

        Raises:
            The same as ``fetch``.
        """

        def brought(way: Sequence[str]) -> str | None:
            with files.lock(self._folder + ".lock", timeout=self._bounds.seconds):
                self._prepare()
                if not self._is_empty():
                    return None
                self._forget_shallow()
                try:
                    self._fetch((*_PARTIAL, *way, *_FETCH, "--depth=1", f"+HEAD:{_FIRST}"), ())
                except GitError as error:
                    if error.is_unserved or error.is_unexplained:
                        return None
                    raise
                return self._renamed_first()

        if os.path.isdir(os.path.join(self._folder, "objects", "pack")) and not self._is_empty():
            return None  # without waiting for the lock, which another process may hold
        return self._online(brought, _UNNAMED)

    def _renamed_first(self) -> str | None:
        """Rename the ref of the fetched commit as ``fetch`` names it, and return the commit."""
        path = os.path.join(self._folder, *_FIRST.split("/"))
        commit = (files.read(path, 1 << 10) or b"").decode("ascii", "replace").strip()
        if not is_object_id(commit):
            return None
        with files.disk_errors(path):
            os.replace(path, os.path.join(os.path.dirname(path), commit))
        return commit

    def fetch(self, commit: str) -> None:
        """Fetch a commit with its trees; with its files too if the server does not support partial clones.

        Raises:
            NotFound: the repository has no such commit, or does not serve it.
            SourceError, FormatError, UnsafeTransfer: it cannot be fetched.
            StateError: the disk refuses, or another process holds the lock for too long.
        """
        # The ref tells git which objects the server need not send again with the next commit.
        words = (*_FETCH, "--depth=1", f"+{commit}:refs/commits/{commit}")
        self._online(lambda way: self._fetch_missing(way, words, [commit]))

    def fetch_files(self, ids: Sequence[str]) -> None:
        """Fetch the files with these ids.

        Raises:
            The same as ``fetch``.
        """
        # ``noop``: git must not tell the server that the cache has their commit, or it would send no files.
        words = ("-c", "fetch.negotiationAlgorithm=noop", *_FETCH, "--stdin")
        self._online(lambda way: self._fetch_missing(way, words, ids))

    def push(self, ref: str, parent: str | None, message: str, changed: Iterable[tuple[str, bytes | None]]) -> bool:
        """Commit files over those of ``parent``, and push the commit to ``ref`` if that is still at ``parent``.

        A file without content is removed.

        Nothing is checked out, no hook or filter runs. Return False if another push moved or created the ref.

        Raises:
            SourceError, NotFound, UnsafeTransfer: it cannot be pushed.
            StateError: the disk refuses, or another process holds the lock for too long.
        """

        def pushed(address: Sequence[str]) -> bool:
            words = (*address, *_PUSH, f"--force-with-lease={ref}:{parent or ''}", REMOTE, f"{_NEW}:{ref}")
            try:
                self._git.run(words, self._bounds)
            except GitError as error:
                if _REJECTED.search(str(error)):
                    return False
                raise
            return True

        with files.lock(self._folder + ".lock", timeout=self._bounds.seconds):
            self._prepare()
            try:
                stream = _imported(self._committer(), parent, message, changed)
                self._git.run(_IMPORT, self._bounds, stdin=stream)
            except GitError as error:
                raise error.explained(self.url, None) from error
            return self._online(pushed)

    def _committer(self) -> bytes:
        """Return the committer and the time in git's format; skillhub's name if the user configured none."""
        with suppress(GitError):
            words = ("-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT")
            return self._git.run(words, self._bounds).strip()
        return b"skillhub <skillhub@localhost> %d +0000" % time.time()

    def sizes(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the sizes of these objects, by id, as far as the cache has them.

        Raises:
            SourceError: git is not installed.
            StateError: the disk refuses.
        """
        self._prepare()
        lines = [f"{id_}\n".encode() for id_ in ids]
        words = ("cat-file", "--batch-check=%(objectname) %(objectsize)")
        try:
            output = self._git_with_alternates.run(words, self._bounds, stdin=lines)
        except GitError:
            return {}
        rows = (line.split() for line in output.decode("ascii", "replace").splitlines())
        return {id_: int(size) for id_, size in rows if size.isdigit()}

    def read(self, kind: str, ids: Sequence[str]) -> list[bytes]:
        """Return the bytes of these objects, at most ``AT_ONCE``.

        Raises:
            GoneError: an object is missing; fetch it and read again.
            UnsafeArchive: ``too-large``: an object is larger than a whole skill may be.
            SourceError: git is not installed.
            StateError: the disk refuses.
        """
        with self._mutex:
            if self._reader is None:
                self._prepare()
                if self._is_empty():
                    raise GoneError
                self._reader = CatFile(self._git_with_alternates, self._bounds.blob)
            reader, self._reader = self._reader, None
            try:
                found = reader.read(kind, ids)
                self._reader = reader
            finally:
                if self._reader is None:
                    reader.close()
            return found

    def discard(self) -> None:
        """Delete the cache of this repository.

        Raises:
            StateError: the disk refuses, or another process holds the lock for too long.
        """
        with files.lock(self._folder + ".lock", timeout=self._bounds.seconds):
            self._discard()

    def _online(self, act: Callable[[Sequence[str]], _T], lacking: str = "the cache does not have its files") -> _T:
        """Return the result of a request to the server; after a redirect, judge the target and repeat it there.

        A repository on this disk is asked with ``--offline``, too; otherwise the error says what is ``lacking``.
        """
        if self._bounds.offline and not self._remote.fetch_url.startswith("file:"):
            raise SourceError(f"{lacking}, and --offline forbids asking the repository", where=self.url)
        is_first = True
        while True:
            try:
                return act(self._remote.pinned_options())
            except GitError as error:
                is_led = is_first and error.is_redirected
                there = redirected(self._remote, self._environ, self._bounds) if is_led else None
                if there is None:
                    hint = None if RULES[self._remote.named_by].settings else self._remote.hint
                    raise error.explained(self.url, hint) from error
                self._remote = there
                self._git = GitProgram(self._folder, self._environ, there.options, there.variables)
                is_first = False

    def _fetch_missing(self, way: Sequence[str], words: Sequence[str], ids: Sequence[str]) -> None:
        with files.lock(self._folder + ".lock", timeout=self._bounds.seconds):
            self._prepare()
            fresh = self._is_empty()
            if self._size() > self._bounds.fetched // 2:
                self._discard()
                fresh = True
            if fresh:
                self._forget_shallow()
            here = {} if fresh else self.sizes(ids)
            wanted = [id_ for id_ in ids if id_ not in here]
            if not wanted:
                return
            while True:
                try:
                    return self._fetch((*_PARTIAL, *way, *words), wanted)
                except GitError as error:
                    if error.is_unserved:
                        return self._fetch_everything(way, wanted)
                    if fresh or not error.may_be_ours:
                        raise
                # The cause may be a damaged cache: try again with an empty one.
                self._discard()
                fresh = True

    def _forget_shallow(self) -> None:
        with files.disk_errors(self._folder), suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, "shallow"))  # it would name commits that an empty cache lacks

    def _fetch_everything(self, way: Sequence[str], wanted: Sequence[str]) -> None:
        """Fetch every branch and tag with all objects, from a server that serves no single objects."""
        self._fetch((*way, *_FETCH, *_ALL), ())
        if not self.sizes(wanted).keys() >= set(wanted):
            hint = "if its history was rewritten: skillhub remove NAME, then install the skill again"
            raise NotFound(f"the repository has no object with the id {wanted[0]}", where=self.url, hint=hint)

    def _fetch(self, words: Sequence[str], ids: Sequence[str]) -> None:
        with files.disk_errors(self._folder):
            self._sweep()
        stdin = [f"{id_}\n".encode() for id_ in ids] if "--stdin" in words else ()
        self._git.run(words, self._bounds, stdin=stdin, grown=self._size)

    def _sweep(self) -> None:
        """Remove the unfinished files of a killed process; the lock keeps other processes out."""
        for name in _FOLDERS:
            with os.scandir(os.path.join(self._folder, name)) as rows:
                for row in rows:
                    if row.name.endswith(".lock") or row.name.startswith(_GITS):
                        os.unlink(row.path)

    def _prepare(self) -> None:
        """Create the repository if it is missing, and remove files that skillhub never writes.

        Another party with access to the cache shall not make git run programs or read other folders.
        """
        with files.disk_errors(self._folder):
            for name in _FOLDERS:
                folder = os.path.join(self._folder, name).rstrip(os.sep)
                if files.is_link(folder):
                    os.unlink(folder)
                os.makedirs(folder, exist_ok=True)
            self._tidy()
        for name, data in _FILES.items():
            path = os.path.join(self._folder, name)
            if files.read(path, 1 << 20) != data:
                files.write_atomic(path, data, sync=False)

    def _tidy(self) -> None:
        with os.scandir(self._folder) as rows:
            written = [row for row in rows if not (row.name.endswith(".lock") or row.name.startswith(_WRITTEN))]
        strange = [row.path for row in written if row.name not in _OURS]
        # ``objects/info`` has commit-graphs, alternates and the like, which git reads and skillhub never writes.
        for path in (*strange, os.path.join(self._folder, "objects", "info")):
            with suppress(FileNotFoundError):  # another process may remove it too
                remove_tree(path)

    def _is_empty(self) -> bool:
        if self._beneath and os.path.isdir(self._beneath):
            return False
        objects = os.path.join(self._folder, "objects")
        with files.disk_errors(objects):
            return os.listdir(objects) == ["pack"] and not os.listdir(os.path.join(objects, "pack"))

    def _size(self) -> int:
        # Packs, and the loose objects that git copies from a server of plain files.
        size = 0
        for folder, _, names in os.walk(os.path.join(self._folder, "objects")):
            for name in names:
                with suppress(FileNotFoundError):
                    size += os.stat(os.path.join(folder, name)).st_size
        return size

    def _discard(self) -> None:
        with self._mutex:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
            gone = f"{self._folder}.{os.urandom(4).hex()}.gone"
            with files.disk_errors(self._folder), suppress(FileNotFoundError):
                # One rename, since other processes may look for the folder meanwhile.
                os.rename(self._folder, gone)
                remove_tree(gone)
            self._prepare()


def _imported(
    committer: bytes, parent: str | None, message: str, changed: Iterable[tuple[str, bytes | None]]
) -> Iterator[bytes]:
    """Yield a commit in the format of ``git fast-import``; every path is quoted, since it may hold any character."""
    text = message.encode()
    yield b"commit %s\ncommitter %s\ndata %d\n%s\n" % (_NEW.encode(), committer, len(text), text)
    if parent:
        yield b"from %s\n" % parent.encode()
    for path, data in changed:
        quoted = path.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
        if data is None:
            yield b'D "%s"\n' % quoted
            continue
        yield b'M 100644 inline "%s"\ndata %d\n' % (quoted, len(data))
        yield data
        yield b"\n"
    yield b"done\n"
