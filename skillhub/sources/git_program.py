"""The program git: a clean environment, limits, its failures as errors, and object reads."""

from __future__ import annotations

import json
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
from subprocess import Popen
from typing import IO

from skillhub import errors
from skillhub.archive.entries import unsafe
from skillhub.errors import FormatError, SkillhubError, SourceError, UnsafeTransfer
from skillhub.formats.text import clean, quote
from skillhub.net.fetch import Arrived, Web, unheard
from skillhub.net.target import Who

# What git says when it fails, as an error that tells a person what to do.

# A person's own `url.….insteadOf` may put a token into the URL that git then writes.
_SECRET = re.compile(r"://[^/@\s'\"]+@")
_REDIRECTED = "requested URL returned error: 30\\d"
_REFUSED = "[remote rejected]"


@dataclass(frozen=True, slots=True)
class _Failure:
    """A row of ``git_failures.json``: the words of git, and the error that tells a person what to do."""

    says: str
    error: str
    message: str
    hint: str | None = None


_UNSERVED = re.compile(
    "not our ref|unadvertised object|does not support shallow|upload-pack: not our|no such remote ref|"
    "couldn't find remote ref",
    re.IGNORECASE,
)


class GitError(Exception):
    """Git ended with a failure; its words are the only argument."""

    @property
    def may_be_ours(self) -> bool:
        """Whether the cause may be a damaged cache, so that a fresh one would help."""
        return self._cause is None or self._cause.error == FormatError.__name__

    @property
    def is_unexplained(self) -> bool:
        """Whether nothing is known of what the words mean."""
        return self._cause is None

    @property
    def is_unserved(self) -> bool:
        """Whether the server gives branches and tags alone, or the object that was asked for does not exist."""
        return _UNSERVED.search(str(self)) is not None

    @property
    def is_redirected(self) -> bool:
        """Whether the server sends git elsewhere, where it does not go by itself."""
        return re.search(_REDIRECTED, str(self), re.IGNORECASE) is not None

    @cached_property
    def _cause(self) -> _Failure | None:
        """The first row that fits."""
        return next((row for row in _failures() if re.search(row.says, str(self), re.IGNORECASE)), None)

    def explained(self, url: str, hint: str | None) -> SkillhubError:
        """Return the error that git's words mean; ``hint`` is what to do where git was not let go its usual ways."""
        said = str(self)
        lines = [line for line in said.splitlines() if line.startswith(("fatal:", "error:", "remote: "))]
        lines = [line.strip() for line in said.splitlines() if _REFUSED in line] or lines
        last = clean(_SECRET.sub("://", (lines or said.splitlines() or ["nothing"])[-1]))
        shown = quote(last, 300) if '"' in last else f'"{last[:300]}"'  # git quotes names by itself
        if self._cause is None:
            return SourceError(f"git failed: {shown}", where=url, hint=hint)
        kind: type[SkillhubError] = getattr(errors, self._cause.error)
        if hint is None or not issubclass(kind, SourceError | UnsafeTransfer):
            hint = self._cause.hint
        return kind(f"{self._cause.message}: git says {shown}", where=url, hint=hint)


@cache
def _failures() -> tuple[_Failure, ...]:
    with open(os.path.join(os.path.dirname(__file__), "git_failures.json"), encoding="utf-8") as file:
        return tuple(_Failure(**row) for row in json.load(file))


# Running git with a clean environment, without hooks and prompts, within limits of time and size.

# What git, ssh and a person's credential helpers need. Of git's own variables only those by which people say how
# to reach a server; GIT_CONFIG_COUNT, GIT_DIR, GIT_EXEC_PATH and their like could make it run something.
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
    # A repository on this machine may name a program that its missing objects are fetched with.
    "GIT_NO_LAZY_FETCH": "1",
    # Our cache may come from elsewhere: what it puts in place of an object is not asked for.
    "GIT_NO_REPLACE_OBJECTS": "1",
    # One allocation at most: a small pack may announce an object of any size.
    "GIT_ALLOC_LIMIT": "1g",
    "GIT_FLUSH": "1",
    "LC_ALL": "C",
}
# Said to each git: a person's own configuration counts but for what would run a program or write elsewhere.
_OPTIONS = f"""
core.hooksPath={os.devnull} core.fsmonitor=false core.fsync=none fetch.fsckObjects=true transfer.fsckObjects=true
fetch.unpackLimit=1 fetch.recurseSubmodules=false submodule.recurse=false fetch.writeCommitGraph=false
transfer.bundleURI=false gc.auto=0 maintenance.auto=false protocol.version=2 http.lowSpeedLimit=1000
http.lowSpeedTime=30 http.sslVerify=true credential.interactive=false
"""
_HEAD = 64 << 20
_TAIL = 16 << 10
_TICK = 0.2
_LAST_WORDS = 1.0


@dataclass(frozen=True, slots=True)
class GitLimits:
    """Where a repository may be fetched from, and how much it may ask of this machine.

    Attributes:
        seconds: The time that one git may run.
        fetched: The bytes that the cache of one repository may take on the disk.
        blob: The bytes of one file; no skill has a larger one.
        offline: Whether nothing may be fetched at all.
        mirrors: What to put in place of the beginning of a URL, as the person configured it; neither ends with a
            slash. It changes where objects come from, and no id.
        beneath: The folder of all caches whose objects are read too, and which stays as it is.
        named_by: Who says where it is.
        tokens: By host the variable that holds a token for it, as the person configured it.
        web: Finds out where a server redirects git; without it no redirect is followed.
        arrived: Is told how many bytes came.
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
        options: Settings for git besides those that always hold, as ``name=value``.
        variables: Of the environment, besides those that always hold.
    """

    def __init__(
        self, folder: str, environ: Mapping[str, str], options: Sequence[str], variables: Mapping[str, str]
    ) -> None:
        passed = {name: value for name, value in environ.items() if name.upper() in _PASSED.split()}
        # Both, for a file `commondir` in the one would name another, and with it another configuration.
        places = {"GIT_DIR": folder, "GIT_COMMON_DIR": folder}
        self._environ = {**passed, **_SET, **variables, **places}
        settings = [word for option in (*_OPTIONS.split(), *options) for word in ("-c", option)]
        self._words = ["git", *settings]
        self._folder = folder

    def run(
        self,
        words: Sequence[str],
        bounds: GitLimits,
        *,
        stdin: bytes | Iterable[bytes] = b"",
        grown: Callable[[], int] = int,
    ) -> bytes:
        """Return what git writes, at most 64 MiB of it.

        Args:
            words: The command and its arguments.
            bounds: When to give up.
            stdin: What git reads, whole or in parts.
            grown: Says how much it has taken of the disk; asked several times a second.

        Raises:
            SourceError: there is no git, or it took too long or too much.
            GitError: git failed.
        """
        process = self.start(words, errors=subprocess.PIPE)
        out, err = _Drain(process.stdout), _Drain(process.stderr, tail=_TAIL)
        try:
            _feed(process.stdin, stdin)
            deadline, taken = time.monotonic() + bounds.seconds, grown()
            while not out.ended(_TICK):
                if time.monotonic() > deadline:
                    raise SourceError(f"git took more than {bounds.seconds:g} s")
                before, taken = taken, grown()
                bounds.arrived(taken - before)
                if taken > bounds.fetched:
                    raise SourceError(f"the repository has more than {bounds.fetched} bytes to fetch")
            failed = process.wait(bounds.seconds)
            # Not for ever: an ssh that stays for later connections keeps this pipe open.
            err.ended(_LAST_WORDS)
            if failed:
                raise GitError(err.data.decode("utf-8", "replace"))
            return bytes(out.data)
        finally:
            stop(process)

    def is_set(self, name: str) -> bool:
        """Say whether the person, or who cares for the machine, has set this in git's configuration.

        Raises:
            SourceError: there is no git.
        """
        try:
            return bool(self.run(("config", "--get", name), GitLimits()).strip())
        except GitError:
            return False

    def start(self, words: Sequence[str], errors: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Return a git at work, with pipes to and from it, in a session of its own: it has no terminal to ask on.

        Raises:
            SourceError: there is no git.
        """
        try:
            return subprocess.Popen(
                [*self._words, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self._folder,
                env=self._environ,
                start_new_session=True,
            )
        except OSError as error:
            hint = "install git" if isinstance(error, FileNotFoundError) else None
            raise SourceError(f"cannot run git: {error.strerror}", hint=hint) from error


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a git and whatever it started; one that has ended is fine."""
    if process.poll() is None:
        if sys.platform == "win32":
            process.kill()
        else:
            with suppress(OSError):  # It ended just now.
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    _feed(process.stdin, b"")


class _Drain:
    """Reads a pipe to its end in a thread, keeping the first 64 MiB, or the last ``tail`` bytes."""

    def __init__(self, pipe: IO[bytes] | None, *, tail: int = 0) -> None:
        self.data = bytearray()
        self._tail = tail
        self._thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._thread.start()

    def ended(self, seconds: float) -> bool:
        """Wait so long for the end; say whether it came."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            while part := os.read(pipe.fileno(), 65536):
                self.data += part
                del self.data[slice(None, -self._tail) if self._tail else slice(_HEAD, None)]


def _feed(pipe: IO[bytes] | None, data: bytes | Iterable[bytes]) -> None:
    """Write all of it and close the pipe; a git that ends before it read everything says why in words."""
    if pipe is not None and not pipe.closed:
        with suppress(BrokenPipeError, ValueError):  # of a pipe that another thread closed just now
            for part in (data,) if isinstance(data, bytes) else data:
                pipe.write(part)
        with suppress(BrokenPipeError):
            pipe.close()


# One ``git cat-file --batch`` that stays at work, for it takes longer to start than to answer.

# Ids to ask for at a time: fewer bytes than any system's pipe holds, so that neither side waits for the other.
AT_ONCE = 90


class GoneError(Exception):
    """The cache lacks an object or is damaged: it has to be filled again."""


class CatFile:
    """Reads objects out of a repository; used by one thread at a time.

    Args:
        git: Bound to the repository.
        largest: The bytes that an object may have at most; those that are asked for together four times as many.
    """

    def __init__(self, git: GitProgram, largest: int) -> None:
        self._process = git.start(("cat-file", "--batch"))
        self._largest = largest
        self.close = weakref.finalize(self, _end, self._process)

    def read(self, kind: str, ids: Sequence[str]) -> list[bytes]:
        """Return these objects, ``AT_ONCE`` at most, as they are stored; after an error only ``close`` may follow.

        Raises:
            GoneError: one is not here.
            FormatError: one is of another kind.
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
