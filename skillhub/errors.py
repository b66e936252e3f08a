"""Every error, sorted by what the caller should do about it.

Six families decide the exit status; a class below a family names one cause with a stable ``code``.
Messages say what was expected and what was found, with untrusted text passed through ``quote``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class SkillhubError(Exception):
    """The base class; ``exit_code`` is the exit status of the command line.

    Args:
        message: What was expected and what was found: one sentence without a full stop.
        where: The file, line, key path or URL that the message concerns.
        hint: What the user can do next.
    """

    code = "error"
    exit_code = 70

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.where, self.hint = message, where, hint

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle without ``__init__``, whose parameters differ; a pool of processes pickles errors."""
        return _unpickled, (type(self), self.message), self.__dict__


def _unpickled(error: type[SkillhubError], message: str) -> SkillhubError:
    return error.__new__(error, message)


@contextmanager
def hinting(
    hint: str | None = None,
    *,
    where: str | None = None,
    kinds: type[SkillhubError] | tuple[type[SkillhubError], ...] = SkillhubError,
) -> Iterator[None]:
    """Add the hint and the place to an error of these kinds that is raised within and has none."""
    try:
        yield
    except kinds as error:
        error.hint, error.where = error.hint or hint, error.where or where
        raise


class UsageError(SkillhubError):
    """The request is invalid; a retry does not help."""

    code = "usage"
    exit_code = 2


class PassphraseNeeded(UsageError):
    """A key is encrypted and no passphrase was given."""

    code = "passphrase-needed"


class SourceError(SkillhubError):
    """A source is unreachable, or does not have what was requested; a retry may help."""

    code = "source"
    exit_code = 3


class NotFound(SourceError):
    """No skill, version, source or path has this name."""

    code = "not-found"


class FormatError(SkillhubError):
    """The bytes do not have the expected format."""

    code = "format"
    exit_code = 4


class SecurityError(SkillhubError):
    """Evidence of tampering or of a hostile archive; nothing was changed."""

    code = "security"
    exit_code = 5


class Reasoned(SecurityError):
    """A SecurityError with one ``code`` for many causes, each with its own ``reason``."""

    def __init__(self, reason: str, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, where=where, hint=hint)
        self.reason = reason


class UnsafeArchive(Reasoned):
    """An archive, folder or git tree contains something that no honest skill needs."""

    code = "unsafe-archive"


class BadSignature(Reasoned):
    """A publisher's signature is invalid; this is never a question, and no flag overrides it."""

    code = "bad-signature"


class WrongBytes(SecurityError):
    """The digest or the size of the bytes is not the expected one."""

    code = "wrong-bytes"


class SignerChanged(SecurityError):
    """A skill is signed by another signer than the lock says, or is no longer signed."""

    code = "signer-changed"


class SourceMismatch(SecurityError):
    """A repository, lock or registry uses a name for something else than this user does."""

    code = "source-mismatch"


class ForbiddenVariable(SecurityError):
    """A skill needs an environment variable that controls programs or loaders."""

    code = "forbidden-variable"


class Refused(SkillhubError):
    """A person or a policy refused, no person could be asked, or a need is open.

    Attributes:
        asked: The questions of the command with their answers, if it asked any.
        left_out: The skills that the command left out before it asked, and why.
    """

    code = "refused"
    exit_code = 6
    asked: Sequence[tuple[Any, Any]] = ()
    left_out: Sequence[Any] = ()


class StateError(SkillhubError):
    """The local disk, lock or store prevents the operation."""

    code = "state"
    exit_code = 7


class LinkLeavesProject(StateError):
    """A folder or file of the project is a link that leads outside the project."""

    code = "link-leaves-project"


class UnsafeTransfer(SecurityError):
    """A server redirects to a forbidden address, or sends an answer that was not requested."""

    code = "unsafe-transfer"


class BadMetadata(SecurityError):
    """A registry's signed metadata is inconsistent, or a path in it leads outside the registry."""

    code = "bad-metadata"


class BadMetadataSignature(BadMetadata):
    """A registry's metadata has too few valid signatures of its role's keys."""

    code = "bad-metadata-signature"


class MetadataExpired(BadMetadata):
    """A registry's metadata has expired: it was not refreshed, or newer metadata is withheld."""

    code = "metadata-expired"


class Rollback(BadMetadata):
    """A registry's metadata is older than what this machine has seen."""

    code = "rollback"


class BadLog(SecurityError):
    """A registry's log is missing, was rewritten, or does not contain what the registry offers."""

    code = "bad-log"


class NameNotOwned(SecurityError):
    """The publisher of a release does not own its name in the registry."""

    code = "name-not-owned"


class UndeclaredVariable(SecurityError):
    """An MCP server would get a variable that its skill does not declare."""

    code = "undeclared-variable"


class Withdrawn(SecurityError):
    """The lock names a release that its registry has withdrawn; it must not be used."""

    code = "withdrawn"


class KnownBad(SecurityError):
    """A skill is known to be malicious, by its digest or a critical advisory; no flag overrides it."""

    code = "known-bad"


class TrustDowngrade(SecurityError):
    """A site that offered digests before now offers skills without digests."""

    code = "trust-downgrade"


class RateLimited(SourceError):
    """A server refuses further requests for a while.

    Attributes:
        resets: When it accepts requests again, in seconds since the epoch, if it says so.
    """

    code = "rate-limited"

    def __init__(
        self, message: str, *, where: str | None = None, hint: str | None = None, resets: int | None = None
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.resets = resets


class Drifted(SecurityError):
    """The files of a skill differ from the agreed ones; no agent may load it."""

    code = "drifted"


class OutsideSkill(SecurityError):
    """A path leads outside its skill, or through a link inside it."""

    code = "outside-skill"


class Forbidden(Refused):
    """A policy of the machine, the user or the project forbids it; ``where`` is its file."""

    code = "policy"
