"""What git says when it fails, as an error that tells a person what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from skillhub.errors import FormatError, NotFound, SkillhubError, SourceError, StateError, UnsafeTransfer
from skillhub.model.text import clean, quote

_HELPER = "git must be able to fetch it without asking: see `git help credentials`, or use ssh with an agent"
_KEY = "load a key that the server knows into ssh-agent, or name it in ~/.ssh/config"
# A person's own `url.….insteadOf` may put a token into the URL that git then writes.
_SECRET = re.compile(r"://[^/@\s'\"]+@")


class GitError(Exception):
    """Git ended with a failure; its words are the only argument."""


@dataclass(frozen=True, slots=True)
class _Cause:
    words: str
    error: type[SkillhubError]
    message: str
    hint: str | None = None

    def fits(self, said: str) -> bool:
        return re.search(self.words, said, re.IGNORECASE) is not None


_ELSEWHERE = _Cause(
    "requested URL returned error: 30\\d",
    UnsafeTransfer,
    "the server sends one elsewhere",
    "name the repository where it is now",
)
# The first that fits counts.
_CAUSES = (
    _Cause(
        "could not read (?:username|password)|authentication failed|terminal prompts disabled|error: 40[13]",
        SourceError,
        "the server wants to know who asks, and no credentials were found that it takes",
        _HELPER,
    ),
    _Cause("permission denied \\(", SourceError, "the server takes no ssh key that was offered", _KEY),
    _Cause(
        "host key verification failed|no \\S+ host key is known",
        SourceError,
        "ssh does not know the server's key, or knows another",
        "connect to the server once with ssh and compare the key's fingerprint",
    ),
    _Cause(
        "dubious ownership|detected dubious",
        SourceError,
        "git does not read a repository that belongs to somebody else",
        "`git config --global --add safe.directory FOLDER` if you trust it",
    ),
    _Cause(
        "transport '.*' not allowed",
        UnsafeTransfer,
        "it leads to a protocol that skills are not fetched with",
    ),
    _ELSEWHERE,
    _Cause("certificate|SSL peer|TLS", UnsafeTransfer, "the server cannot prove who it is"),
    _Cause("no space left|disk quota|read-only file system", StateError, "the disk refused"),
    _Cause(
        "in packed object|fsck error|bad object|in a tree|fatal: pack |invalid object|out of memory|over limit"
        "|corrupt",
        FormatError,
        "the repository holds an object that git refuses",
    ),
    _Cause(
        "could not resolve host|connection (?:refused|timed out|reset)|timed out|unreachable|failed to connect"
        "|hung up|early EOF|too slow|RPC failed|error: 5\\d\\d|error: 429",
        SourceError,
        "the server cannot be reached",
    ),
    _Cause(
        "does not appear to be a git repository|repository .*not found|repository .*does not exist"
        "|error: 404|no such file or directory",
        NotFound,
        "there is no such repository, or none for you",
        "a private repository looks just so to git without credentials",
    ),
)
_UNSERVED = re.compile(
    "not our ref|unadvertised object|does not support shallow|upload-pack: not our|no such remote ref|"
    "couldn't find remote ref",
    re.IGNORECASE,
)


def may_be_ours(said: str) -> bool:
    """Say whether the cause may be a damaged cache, so that a fresh one would help."""
    cause = _find(said)
    return cause is None or cause.error is FormatError


def is_unserved(said: str) -> bool:
    """Say whether the server gives branches and tags alone, or the object that was asked for does not exist."""
    return _UNSERVED.search(said) is not None


def is_redirected(said: str) -> bool:
    """Say whether the server sends git elsewhere, where it does not go by itself."""
    return _ELSEWHERE.fits(said)


def explain(said: str, url: str, hint: str | None) -> SkillhubError:
    """Return the error that git's words mean; ``hint`` is what to do where git was not let go its usual ways."""
    lines = [line for line in said.splitlines() if line.startswith(("fatal:", "error:", "remote: "))]
    last = clean(_SECRET.sub("://", (lines or said.splitlines() or ["nothing"])[-1]))
    cause = _find(said)
    if cause is None:
        return SourceError(f"git failed: {quote(last, 300)}", where=url, hint=hint)
    if hint is None or not issubclass(cause.error, SourceError | UnsafeTransfer):
        hint = cause.hint
    return cause.error(f"{cause.message}: git says {quote(last, 300)}", where=url, hint=hint)


def _find(said: str) -> _Cause | None:
    return next((cause for cause in _CAUSES if cause.fits(said)), None)
