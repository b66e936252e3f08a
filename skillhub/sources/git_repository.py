"""The local cache of a git repository: URL, redirects, revisions, fetches."""

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
from skillhub.disk.folders import is_link, remove_tree
from skillhub.errors import NotFound, SourceError, UnsafeTransfer, UsageError, WrongBytes
from skillhub.formats.text import as_command, is_object_id, quote
from skillhub.model.reference import Git, parse_ref
from skillhub.net.fetch import RequestOptions, Response, Web
from skillhub.net.settings import base_of
from skillhub.net.target import RULES, RequestTarget, Who, judged, proxy_for
from skillhub.sources.git_program import CatFile, GitError, GitLimits, GitProgram, GoneError

# Where git fetches a repository from, and with which settings and variables.

# Not "origin", of which a person may have settings for all repositories.
REMOTE = "skillhub"
# Asked only once a server wants credentials and no helper of the person's own has any; the token is in no argument,
# where other users of the machine could read it.
_VARIABLE = "SKILLHUB_GIT_VARIABLE"
_HELPER = f'!f() {{ test "$1" = get && printf "username=x-access-token\\npassword=%s\\n" "${_VARIABLE}"; }}; f'
# What a repository on this machine names is not run when it takes a push: hooks, and programs in its configuration.
_RECEIVING = (
    f"-c core.hooksPath={os.devnull} -c core.fsmonitor=false -c core.alternateRefsCommand=: -c receive.autogc=false "
    "-c receive.denyCurrentBranch=refuse"
)
# A person's settings of git may hold secrets, or lead elsewhere; curl looks for a netrc in the home folder.
_NOBODY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "HOME": os.devnull,
    "XDG_CONFIG_HOME": os.devnull,
}


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository somewhere, as git is told of it.

    Attributes:
        url: Which one.
        place: Where it is fetched from: there, or from its mirror.
        named_by: As ``Bounds`` has it; whoever configured a mirror has named it.
        options: Settings, ``name=value``.
        variables: Of the environment.
        token: Lets one in at ``place``, and is among these.
    """

    url: str
    place: str
    named_by: Who
    options: tuple[str, ...]
    variables: Mapping[str, str] = field(repr=False)
    token: str | None = field(default=None, repr=False)

    @property
    def hint(self) -> str | None:
        """What to do if it is reached with care and that is not enough."""
        if self.named_by == "person":
            return None
        who = "this repository" if self.named_by == "repository" else f"a {self.named_by}"
        url = self.place if self.named_by == "redirect" else self.url
        return f"only {who} names it; to use it: {as_command('skillhub', 'install', f'git+{url}')}"

    def pinned_options(self) -> tuple[str, ...]:
        """Return the words that hold git to addresses that were judged; to be called before git goes there.

        Raises:
            UnsafeTransfer: no person has named it, and it is not on the public internet.
            SourceError: its host has no address.
        """
        scheme, _, rest = self.place.partition("://")
        rule = RULES[self.named_by]
        if rule.anywhere:
            return ()
        # Two slashes, which git decodes, lead to a server on Windows.
        if scheme == "file" and unquote(rest)[1:2] not in ("/", "\\", "?"):
            return ()  # a `path` reads this disk as well, and what is there goes nowhere
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
            raise SourceError("its host has no address", where=self.url) from error
        if proxy is not None or scheme == "ssh" or ":" in target.host:
            return ()
        # A second look-up could give another answer. Git before 2.37 does not know the setting.
        return "-c", f"http.curloptResolve={target.host}:{target.port}:{','.join(addresses)}"


def remote(url: str, environ: Mapping[str, str], bounds: GitLimits, token: str | None = None) -> Remote:
    """Return what git is told to fetch from ``url``, which anybody may have written, or from its mirror.

    Args:
        url: https, ssh, file, or http on this machine.
        environ: The environment of this process.
        bounds: Names the mirrors, and says who named ``url``.
        token: Lets one in where ``url`` is; offered when the server asks. A mirror never gets it, nor a repository
            that no person has named.

    Raises:
        UsageError: it is no URL that skills are fetched from.
        SourceError: there is no git.
    """
    check(url)
    base = base_of(url, bounds.mirrors)
    place = url if base is None else bounds.mirrors[base] + url[len(base) :]
    if place.startswith("http:") and place == url and not RequestTarget.parse(url).loopback:
        raise UsageError(
            f"expected https, found {quote(url)}", hint="git+https://… proves the identity of the server"
        )
    named_by = bounds.named_by if place == url else "person"
    return told(url, place, named_by, environ, token if place == url else None)


def told(url: str, place: str, named_by: Who, environ: Mapping[str, str], token: str | None = None) -> Remote:
    """Return what git is told of the repository at ``url`` that is fetched from ``place``; see ``remote``.

    Raises:
        SourceError: there is no git.
    """
    # ext:: runs commands; git:// proves nothing of who answers. A person's own `insteadOf` may lead to any of these.
    protocols = "https:ssh:file"
    if place.startswith("http:"):
        protocols += ":http"
    # Git does not judge where a redirect leads; ``git_redirect`` does.
    options = [f"remote.{REMOTE}.url={place}", "http.followRedirects=false"]
    if place.startswith("file:"):
        # Git before 2.45.1 has it fetch what it lacks, with whatever program it names (CVE-2024-32465).
        options.append(f"remote.{REMOTE}.uploadpack=GIT_ALLOW_PROTOCOL=none git-upload-pack")
        options.append(f"remote.{REMOTE}.receivepack=GIT_ALLOW_PROTOCOL=none git {_RECEIVING} receive-pack")
    if not RULES[named_by].settings:
        protocol = "file" if place.startswith("file:") else "https"
        return Remote(url, place, named_by, tuple(options), {"GIT_ALLOW_PROTOCOL": protocol, **_NOBODY})
    variables = {"GIT_ALLOW_PROTOCOL": protocols}
    # An ssh of the person's own cannot ask anything without a terminal either.
    is_usual = place.startswith("ssh:") and environ.keys().isdisjoint(("GIT_SSH_COMMAND", "GIT_SSH"))
    if is_usual and not GitProgram(os.curdir, environ, (), {}).is_set("core.sshCommand"):
        variables["GIT_SSH_COMMAND"] = "ssh -oBatchMode=yes"
    if not RULES[named_by].sends_credentials or not place.startswith(("https:", "http:")):
        token = None
    if token is not None:
        origin = "/".join(place.split("/")[:3])
        options.append(f"credential.{origin}.helper={_HELPER}")
        variables[_VARIABLE] = token
    return Remote(url, place, named_by, tuple(options), variables, token)


def check(url: str) -> None:
    """Return if that is the URL of a repository, whoever wrote it.

    Raises:
        UsageError: it is none.
    """
    if parse_ref(f"git+{url}") != Git(url) or ".." in url.split("/"):
        raise UsageError(f"expected the URL of a git repository, found {quote(url)}")


# Where a server sends git: each target is judged before it is made, for git follows and judges none.
# Only what a person named is followed at all. Forges redirect a repository that was renamed or moved, and hosts
# that have another name now; whoever serves the old name could as well lead into the network that we are in.

_ASKED = "/info/refs?service=git-upload-pack"  # what git asks first (gitprotocol-http)
_CAP = 16 << 20  # of an answer that lists all branches and tags; by version 2 of the protocol it is short
_V2 = {"Git-Protocol": "version=2"}


def redirected(remote: Remote, environ: Mapping[str, str], bounds: GitLimits) -> Remote | None:
    """Return the repository as git is to be told of it after the server redirected it; None if that is not known.

    On its own origin it stays what a person named. Elsewhere it is reached over https, at the public addresses that
    were judged, and gets no token that was meant for the first.

    Raises:
        UnsafeTransfer: it leads to plain http, into a private network, or to no repository; the error names where.
    """
    if bounds.web is None or remote.named_by != "person" or not remote.place.startswith(("https:", "http:")):
        return None
    place = remote.place.rstrip("/")
    # First nothing of who asks, and where that led nowhere what lets one in, as git is told it.
    sent: list[Mapping[str, str]] = [_V2]
    if remote.token is not None:
        secret = b64encode(f"x-access-token:{remote.token}".encode()).decode()
        sent.append({**_V2, "Authorization": f"Basic {secret}"})
    for headers in sent:
        try:
            answer = _asked(bounds.web, place, headers)
        except (SourceError, WrongBytes):
            return None
        if answer.url != place + _ASKED:
            return _at(answer.url, remote, environ)
    return None


def _asked(web: Web, place: str, headers: Mapping[str, str]) -> Response:
    try:
        return web.ask(place + _ASKED, cap=_CAP, options=RequestOptions(headers=headers))
    except UnsafeTransfer as error:
        found = (error.where or "").removesuffix(_ASKED)
        meant = as_command("skillhub", "install", f"git+{found}")
        hint = f"if that is intended: {meant}" if found not in ("", place) else None
        message = f"the server redirects to another URL: {error.message}"
        raise UnsafeTransfer(message, where=error.where, hint=hint) from error


def _at(url: str, remote: Remote, environ: Mapping[str, str]) -> Remote:
    place = url.removesuffix(_ASKED)
    try:
        if place == url:
            raise UsageError(f"expected a redirect to a repository, found {quote(url)}")
        check(place)
        is_same = RequestTarget.parse(place).origin == RequestTarget.parse(remote.place).origin
        return told(remote.url, place, "person" if is_same else "redirect", environ, remote.token)
    except UsageError as error:
        message = f"the server redirects to another URL: {error.message}"
        raise UnsafeTransfer(message, where=remote.url, hint="give the present URL of the repository") from error


# A bare repository of our own for each URL, filled with what is asked for and no more; safe to delete at any
# time.
# Nobody relies on what it holds: whoever reads an object hashes it. Two processes do not fill it at once, and
# what a killed one left half-done is swept away by the next, or all of it is thrown away and fetched again.

_FILES = {"config": b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n", "HEAD": b"ref: refs/heads/none\n"}
_FOLDERS = ("", "objects", "objects/pack", "refs", "refs/commits")
_OURS = frozenset({*_FILES, "objects", "refs", "shallow"})
# What a git, or one of us, at work in another process may just be writing.
_GITS = (".tmp-", "tmp_")
_WRITTEN = (*_GITS, ".skillhub-")
# Partial clone as git's own configuration has it, but said to the fetch alone: a `cat-file` that knows of it would
# fetch each object that is missing, one connection for each.
_PARTIAL = ("-c", f"remote.{REMOTE}.promisor=true", "-c", f"remote.{REMOTE}.partialCloneFilter=blob:none")
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", REMOTE)
_IMPORT = ("-c", "fastimport.unpackLimit=1", "fast-import", "--quiet", "--force", "--done")
# Of a person's settings only those count that say how to reach the server.
_UNASKED = ("push.gpgSign=false", "push.followTags=false", "push.recurseSubmodules=no", "push.pushOption=")
_PUSH = (*(word for each in _UNASKED for word in ("-c", each)), "push", "--quiet")
_NEW = "refs/commits/new"
_FIRST = "refs/commits/first"
_REJECTED = re.compile(r"\[rejected\]|stale info|cannot lock ref|failed to update ref|reference already exists", re.I)
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

    def __init__(self, remote: Remote, cache: str, environ: Mapping[str, str], bounds: GitLimits) -> None:
        self.url = remote.url
        self._bounds = bounds
        self._environ = environ
        name = os.path.join("git", sha256(remote.url.encode()).hexdigest()[:32])
        self._folder = os.path.join(cache, name)
        self._remote = remote
        self._git = GitProgram(self._folder, environ, remote.options, remote.variables)
        self._beneath = bounds.beneath and os.path.join(bounds.beneath, name, "objects")
        more = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": self._beneath} if self._beneath else {}
        # Not for a fetch, which would go on from commits whose parents are not there.
        self._looking = GitProgram(self._folder, environ, remote.options, {**remote.variables, **more})
        self._reader: CatFile | None = None
        self._turn = threading.Lock()

    def ask(self, refs: Iterable[str]) -> dict[str, str]:
        """Return the ids of those of these refs that the repository has, and perhaps of others.

        Raises:
            SourceError, NotFound, UnsafeTransfer: it cannot be asked.
            StateError: the disk refuses.
        """

        def listed(address: Sequence[str]) -> bytes:
            self._prepare()
            return self._git.run((*address, "ls-remote", "--quiet", REMOTE, *refs), self._bounds)

        rows = (line.partition("\t") for line in self._online(listed).decode("utf-8", "replace").splitlines())
        return {name: id_ for id_, _, name in rows}

    def first(self) -> str | None:
        """Bring the newest commit of the first branch as ``fetch`` does, without asking first which it is.

        Return which; None if this cache is not empty, or if only ``ask`` will tell what is the matter.

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
            return None  # it need not wait for who is at work there
        return self._online(brought)

    def _renamed_first(self) -> str | None:
        """Return what was fetched, under the ref that ``fetch`` gives it."""
        path = os.path.join(self._folder, *_FIRST.split("/"))
        commit = (files.read(path, 1 << 10) or b"").decode("ascii", "replace").strip()
        if not is_object_id(commit):
            return None
        with files.disk_errors(path):
            os.replace(path, os.path.join(os.path.dirname(path), commit))
        return commit

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

    def push(self, ref: str, parent: str | None, message: str, changed: Iterable[tuple[str, bytes]]) -> bool:
        """Commit files over those of ``parent``, and put the commit at ``ref`` if that is there still.

        Nothing is checked out, no hook or filter runs. Return False if somebody else has moved the ref, or made it.

        Raises:
            SourceError, NotFound, UnsafeTransfer: it cannot be pushed.
            StateError: the disk, or another process.
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
        """Return who commits, and when, as git has it; a name of ours where the person has configured none."""
        with suppress(GitError):
            return self._git.run(
                ("-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT"), self._bounds
            ).strip()
        return b"skillhub <skillhub@localhost> %d +0000" % time.time()

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
        if self._bounds.offline:
            raise SourceError("it is not in the cache, and --offline forbids fetching it", where=self.url)
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

    def _bring(self, way: Sequence[str], words: Sequence[str], ids: Sequence[str]) -> None:
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
                        return self._bring_all(way, wanted)
                    if fresh or not error.may_be_ours:
                        raise
                # Perhaps it is the cache that git stumbles over.
                self._discard()
                fresh = True

    def _forget_shallow(self) -> None:
        with files.disk_errors(self._folder), suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, "shallow"))  # It would speak of what is not here.

    def _bring_all(self, way: Sequence[str], wanted: Sequence[str]) -> None:
        """Bring every branch and tag whole, from a server that gives no single objects."""
        self._fetch((*way, *_FETCH, *_ALL), ())
        if not self.sizes(wanted).keys() >= set(wanted):
            raise NotFound(f"the repository has no object with the id {wanted[0]}", where=self.url)

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
            written = [row for row in rows if not (row.name.endswith(".lock") or row.name.startswith(_WRITTEN))]
        strange = [row.path for row in written if row.name not in _OURS]
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


def _imported(
    committer: bytes, parent: str | None, message: str, changed: Iterable[tuple[str, bytes]]
) -> Iterator[bytes]:
    """Yield a commit as ``git fast-import`` reads it; every path is quoted, for it may hold anything."""
    said = message.encode()
    yield b"commit %s\ncommitter %s\ndata %d\n%s\n" % (_NEW.encode(), committer, len(said), said)
    if parent:
        yield b"from %s\n" % parent.encode()
    for path, data in changed:
        quoted = path.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
        yield b'M 100644 inline "%s"\ndata %d\n' % (quoted, len(data))
        yield data
        yield b"\n"
    yield b"done\n"
