"""The program git: runs it with a clean environment and limits, turns its failures into errors, reads objects."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import sha1
from subprocess import Popen
from tempfile import TemporaryFile
from typing import IO

if sys.platform == "linux":
    import resource

from skillhub import errors
from skillhub.archive.limits import unsafe
from skillhub.disk.files import disk_errors, program, search_path
from skillhub.errors import FormatError, SkillhubError, SourceError, UnsafeTransfer
from skillhub.formats.text import clean, packaged, quote
from skillhub.net.fetch import Arrived, Web, Who, unheard

# Failures of git as errors with a hint.

# The user's own `url.….insteadOf` may put a token into a URL that git writes in its messages.
_SECRET = re.compile(r"://[^/@\s'\"]+@")
_REDIRECTED = "requested URL returned error: 30\\d"
_REFUSED = "[remote rejected]"
SAYS = ": git says "  # before git's own words in a message


@dataclass(frozen=True, slots=True)
class _Failure:
    """A row of ``git_failures.json``: a pattern for git's message, and the error that it means."""

    says: str
    error: str
    message: str
    hint: str | None = None


_UNSERVED = re.compile(
    "(?i)not our ref|unadvertised object|does not support shallow|upload-pack: not our|no such remote ref|"
    "couldn't find remote ref"
)


class GitError(Exception):
    """Git failed; its standard error is the only argument."""

    @property
    def may_be_ours(self) -> bool:
        """Whether the cause may be a damaged cache, so that a fresh one would help."""
        return self._cause is None or self._cause.error == FormatError.__name__

    @property
    def is_unexplained(self) -> bool:
        """Whether no row of ``git_failures.json`` matches the message."""
        return self._cause is None

    @property
    def is_unserved(self) -> bool:
        """Whether the server serves only branches and tags, or the requested object does not exist."""
        return _UNSERVED.search(str(self)) is not None

    @property
    def is_redirected(self) -> bool:
        """Whether the server answered with a redirect, which our git does not follow."""
        return re.search(_REDIRECTED, str(self), re.IGNORECASE) is not None

    @cached_property
    def _cause(self) -> _Failure | None:
        """The first row that matches the message."""
        return next((row for row in _failures() if re.search(row.says, str(self), re.IGNORECASE)), None)

    def explained(self, url: str, hint: str | None) -> SkillhubError:
        """Return the error that the message means.

        Args:
            url: The repository.
            hint: The hint to show if the failure may come from our restrictions on git; None if there were none.
        """
        text = str(self)
        lines = [line for line in text.splitlines() if line.startswith(("fatal:", "error:", "remote: "))]
        lines = [line.strip() for line in text.splitlines() if _REFUSED in line] or lines
        last = clean(_SECRET.sub("://", (lines or text.splitlines() or ["nothing"])[-1]))
        shown = quote(last, 300) if '"' in last else f'"{last[:300]}"'  # git quotes names by itself
        if self._cause is None:
            return SourceError(f"git failed: {shown}", where=url, hint=hint)
        kind: type[SkillhubError] = getattr(errors, self._cause.error)
        if hint is None or not issubclass(kind, SourceError | UnsafeTransfer):
            hint = self._cause.hint
        if kind is errors.NotFound and url.startswith("file:"):  # it is absent, whoever names it
            hint = "put the repository there again, or install the skill from another place"
        return kind(f"{self._cause.message}{SAYS}{shown}", where=url, hint=hint)


@cache
def _failures() -> tuple[_Failure, ...]:
    return tuple(_Failure(**row) for row in packaged("sources/git_failures.json"))


# Git runs with a clean environment, without hooks and prompts, within limits of time and size.

# The variables that git, ssh and the user's credential helpers need. Of git's own variables only those that say how
# to reach a server: GIT_CONFIG_COUNT, GIT_DIR, GIT_EXEC_PATH and the like could make git run a program.
_PASSED = """
PATH HOME USER LOGNAME TMPDIR TEMP TMP XDG_CONFIG_HOME XDG_CACHE_HOME XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS
SSH_AUTH_SOCK SSH_AGENT_PID GNUPGHOME SSL_CERT_FILE SSL_CERT_DIR HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
SYSTEMROOT SYSTEMDRIVE COMSPEC PATHEXT USERPROFILE HOMEDRIVE HOMEPATH APPDATA LOCALAPPDATA PROGRAMDATA PROGRAMFILES
GIT_SSH GIT_SSH_COMMAND GIT_SSH_VARIANT GIT_SSL_CAINFO GIT_SSL_CAPATH GIT_CONFIG_GLOBAL
"""
_SET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    # A repository on this machine may name a program for git to fetch missing objects with.
    "GIT_NO_LAZY_FETCH": "1",
    # The cache may come from another party: its replacements for objects are ignored.
    "GIT_NO_REPLACE_OBJECTS": "1",
    # The largest single allocation: a small pack may announce an object of any size.
    "GIT_ALLOC_LIMIT": "1g",
    "GIT_FLUSH": "1",
    "LC_ALL": "C",
}
# Settings for each run of git. The user's configuration applies, except where it would run programs or write files.
_OPTIONS = f"""
core.hooksPath={os.devnull} core.fsmonitor=false core.fsync=none fetch.fsckObjects=true transfer.fsckObjects=true
fetch.unpackLimit=1 fetch.recurseSubmodules=false submodule.recurse=false fetch.writeCommitGraph=false
transfer.bundleURI=false gc.auto=0 maintenance.auto=false protocol.version=2 http.lowSpeedLimit=1000
http.lowSpeedTime=30 http.sslVerify=true credential.interactive=false
"""
_HEAD = 64 << 20
_MEMORY = 2 << 30  # bytes that each process of git may have: a server may list branches without end
_TAIL = 16 << 10
_TICK = 0.2
_LAST_WORDS = 1.0


@dataclass(frozen=True, slots=True)
class GitLimits:
    """Where a repository may be fetched from, and how much time, disk and memory it may take.

    Attributes:
        seconds: The time that one git may run.
        fetched: The bytes that the cache of one repository may take on the disk.
        blob: The bytes of one file; no skill has a larger one.
        offline: Whether to fetch nothing.
        mirrors: Replacements for the beginning of a URL, as the user configured them; neither side ends with a
            slash. A mirror changes the server that objects come from, and no id.
        beneath: A second folder of caches, whose objects are read and which is never written.
        named_by: Who named the URL of the repository.
        tokens: The variable that holds a token, by host, as the user configured it.
        web: Sends the request that finds the target of a redirect; without it no redirect is followed.
        arrived: Called with the number of bytes that have arrived.
    """

    seconds: float = 600.0
    fetched: int = 2 << 30
    blob: int = 64 << 20
    offline: bool = False
    mirrors: Mapping[str, str] = field(default_factory=dict)
    beneath: str | None = None
    named_by: Who = "person"
    tokens: Mapping[str, str] = field(default_factory=dict)
    web: Web | None = None
    arrived: Arrived = unheard


class GitProgram:
    """The program ``git``, bound to one bare repository of ours.

    Args:
        folder: The repository.
        environ: The environment of this process.
        options: Settings for git besides the constant ones, as ``name=value``.
        variables: Variables of the environment besides the constant ones.
    """

    def __init__(
        self, folder: str, environ: Mapping[str, str], options: Sequence[str], variables: Mapping[str, str]
    ) -> None:
        passed = {name: value for name, value in environ.items() if name.upper() in _PASSED.split()}
        # Both: else a file `commondir` in the folder could name another folder, and its configuration.
        places = {"GIT_DIR": folder, "GIT_COMMON_DIR": folder}
        self._environ = {**passed, **_SET, **variables, **places, "PATH": search_path(environ)}
        settings = [word for option in (*_OPTIONS.split(), *options) for word in ("-c", option)]
        self._program = program("git", environ)
        self._settings = settings
        self._folder = folder

    def run(
        self, words: Sequence[str], bounds: GitLimits, *, stdin: Iterable[bytes] = (), grown: Callable[[], int] = int
    ) -> bytes:
        """Return git's standard output, at most the first 64 MiB.

        Args:
            words: The command and its arguments.
            bounds: The limits on time and size.
            stdin: The standard input in parts.
            grown: Returns the bytes on the disk so far; called several times a second.

        Raises:
            SourceError: git is not installed, or exceeded a limit.
            GitError: git failed.
            StateError: the disk refuses the standard input.
        """
        deadline = time.monotonic() + bounds.seconds
        # The whole input before git starts: a git that stays need not read it, and none takes a part for the whole.
        with disk_errors(self._folder), TemporaryFile(dir=os.path.dirname(self._folder)) as given:
            given.writelines(stdin)
            given.seek(0)
            process = self.start(words, given, subprocess.PIPE)
        end = weakref.finalize(self, stop, process)  # also if skillhub ends while a thread waits here
        out, err = _Drain(process.stdout), _Drain(process.stderr, tail=_TAIL)
        try:
            taken = grown()
            while not out.ended(_TICK):
                if time.monotonic() > deadline:
                    raise subprocess.TimeoutExpired(process.args, bounds.seconds)
                before, taken = taken, grown()
                bounds.arrived(taken - before)
                if taken > bounds.fetched:
                    raise SourceError(f"the repository has more than {bounds.fetched} bytes to fetch")
            failed = process.wait(max(0.0, deadline - time.monotonic()))
            # With a limit, since an ssh that stays for later connections keeps this pipe open.
            err.ended(_LAST_WORDS)
            if failed:
                raise GitError(err.data.decode("utf-8", "replace"))
            return bytes(out.data)
        except subprocess.TimeoutExpired as error:  # a git that closed its output may still run
            raise SourceError(f"git took more than {bounds.seconds:g} s") from error
        finally:
            end()

    def is_set(self, name: str) -> bool:
        """Return whether the user's or the machine's configuration of git has this setting.

        Raises:
            SourceError: git is not installed.
        """
        return bool(self.start(("config", "--get", name)).communicate()[0].strip())

    def start(
        self, words: Sequence[str], given: int | IO[bytes] = subprocess.PIPE, errors: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """Return a running git with pipes to and from it, in a session of its own, so that no terminal can prompt.

        Raises:
            SourceError: git is not installed.
        """
        if self._program is None:
            raise SourceError("cannot run git: it is not on PATH", hint="install git")
        try:
            process = subprocess.Popen(
                [self._program, *self._settings, *words],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self._folder,
                env=self._environ,
                start_new_session=True,
            )
        except OSError as error:
            raise SourceError(f"cannot run git: {error.strerror}") from error
        if sys.platform == "linux":
            with suppress(OSError):  # it may have ended, or have a lower limit
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        return process


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kill a git and the programs that it started; do nothing if it has ended."""
    if process.poll() is None:
        if sys.platform == "win32":
            process.kill()
        else:
            with suppress(OSError):  # it may have ended meanwhile
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()


class _Drain:
    """A thread that reads a pipe to its end and keeps the first 64 MiB, or the last ``tail`` bytes."""

    def __init__(self, pipe: IO[bytes] | None, *, tail: int = 0) -> None:
        self.data = bytearray()
        self._tail = tail
        self._thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._thread.start()

    def ended(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the end of the pipe; return whether it was reached."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            while part := os.read(pipe.fileno(), 65536):
                self.data += part
                del self.data[slice(None, -self._tail) if self._tail else slice(_HEAD, None)]


# One ``git cat-file --batch`` serves many reads, since git takes longer to start than to answer.

# Ids in one request: fewer bytes than the pipe of any system holds, so that neither side blocks the other.
AT_ONCE = 90


class GoneError(Exception):
    """The cache lacks an object or is damaged, and has to be filled again."""


class CatFile:
    """Reads objects from a repository; for one thread at a time.

    Args:
        git: The program, bound to the repository.
        largest: The limit on the bytes of one object; the objects of one call may have four times as many.
    """

    def __init__(self, git: GitProgram, largest: int) -> None:
        self._process = git.start(("cat-file", "--batch"))
        self._largest = largest
        self.close = weakref.finalize(self, _end, self._process)

    def read(self, kind: str, ids: Sequence[str]) -> list[bytes]:
        """Return the bytes of these objects, at most ``AT_ONCE``; after an error only ``close`` may be called.

        Raises:
            GoneError: an object is missing.
            FormatError: an object is of another kind.
            UnsafeArchive: ``too-large``.
        """
        asked, answers = self._process.stdin, self._process.stdout
        if asked is None or answers is None:
            raise GoneError
        try:
            asked.write("".join(f"{id_}\n" for id_ in ids).encode())
            asked.flush()
        except BrokenPipeError as error:
            raise GoneError from error
        left = 4 * self._largest
        found = []
        for id_ in ids:
            words = answers.readline().split()
            if len(words) != 3 or words[0] != id_.encode():
                raise GoneError(id_)
            if words[1] != kind.encode():
                raise FormatError(f"expected {id_} to be a {kind}, found a {words[1].decode()}")
            size = int(words[2])
            left -= size
            if size > self._largest or left < 0:
                raise unsafe("too-large", f"expected at most {self._largest} bytes in one {kind}, found {size}")
            data = answers.read(size + 1)
            if len(data) <= size:
                raise GoneError(id_)
            found.append(data[:-1])
        return found


def _end(process: Popen[bytes]) -> None:
    stop(process)
    if process.stdout is not None:
        process.stdout.close()


# The objects of git, from their content.


def object_id(kind: str, data: bytes) -> str:
    """Return the id that git gives to an object: SHA-1 over its kind, its length and its bytes, as 40 hex digits."""
    return sha1(b"%s %d\0%s" % (kind.encode(), len(data), data), usedforsecurity=False).hexdigest()


def tree_of(rows: Iterable[tuple[str, str, str]]) -> bytes:
    """Return the bytes of the tree with these entries: the mode as git writes it, the name and the id of each.

    Raises:
        FormatError: git could not write such an entry.
    """
    try:
        encoded = [(mode.encode(), name.encode(), bytes.fromhex(id_)) for mode, name, id_ in rows]
    except ValueError as error:
        raise FormatError("expected an entry of a tree, found one that git cannot write") from error
    # Git sorts a folder as if its name ended with a slash.
    encoded.sort(key=lambda row: row[1] + (b"/" if row[0] == b"40000" else b""))
    return b"".join(b"%s %s\0%s" % row for row in encoded)
