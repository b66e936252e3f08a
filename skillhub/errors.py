"""Every error, sorted by what the caller should do about it.

Six families decide the exit status; a class below a family names one cause with a stable ``code``.
Messages say what was expected and what was found, with untrusted text passed through ``quote``.
"""

from __future__ import annotations

from collections.abc import Sequence


def extra(name: str) -> str:
    """Return the hint of a missing part: from where skillhub came from, for its bare name may be a stranger's."""
    return f"pip install '.[{name}]' in the folder that skillhub was installed from"


class SkillhubError(Exception):
    """The base of all; ``exit_code`` is the process status that the command line turns it into.

    Args:
        message: What was expected and what was found, one sentence, no trailing full stop needed.
        where: The file, line, key path or URL that the message is about.
        hint: What the reader can do next.
    """

    code = "error"
    exit_code = 70

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint


class UsageError(SkillhubError):
    """The request makes no sense; asking again the same way will not help."""

    code = "usage"
    exit_code = 2


class PassphraseNeeded(UsageError):
    """A key is encrypted, and no passphrase was given."""

    code = "passphrase-needed"


class SourceError(SkillhubError):
    """A source cannot be reached, or has no such thing; a retry may help."""

    code = "source"
    exit_code = 3


class NotFound(SourceError):
    """There is no skill, version, source or path of that name."""

    code = "not-found"


class FormatError(SkillhubError):
    """The bytes are not the format that they should be."""

    code = "format"
    exit_code = 4


class SecurityError(SkillhubError):
    """Evidence of tampering, or of an archive made to do harm; nothing was changed."""

    code = "security"
    exit_code = 5


class Reasoned(SecurityError):
    """A SecurityError whose one ``code`` covers many causes, each with a ``reason`` of its own."""

    def __init__(self, reason: str, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, where=where, hint=hint)
        self.reason = reason


class UnsafeArchive(Reasoned):
    """An archive, folder or git tree that holds what no honest skill needs."""

    code = "unsafe-archive"


class BadSignature(Reasoned):
    """A publisher's signature is there and is broken; never a question, never lifted by a flag."""

    code = "bad-signature"


class WrongBytes(SecurityError):
    """Bytes whose digest or size is not the one that was promised."""

    code = "wrong-bytes"


class SignerChanged(SecurityError):
    """A skill is signed by another than the lock says, or no longer signed."""

    code = "signer-changed"


class SourceMismatch(SecurityError):
    """A repository, lock or registry gives a name to something else than this user knows by it."""

    code = "source-mismatch"


class ForbiddenVariable(SecurityError):
    """A skill asks for an environment variable that steers programs or loaders."""

    code = "forbidden-variable"


class Refused(SkillhubError):
    """A person or a policy said no, nobody was there to ask, or a need is open.

    Attributes:
        asked: The questions of the command with their answers, where it came to questions.
    """

    code = "refused"
    exit_code = 6

    def __init__(
        self, message: str, *, where: str | None = None, hint: str | None = None, asked: Sequence[object] = ()
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.asked = tuple(asked)


class StateError(SkillhubError):
    """The local disk, lock or store is in the way."""

    code = "state"
    exit_code = 7


class LinkLeavesProject(StateError):
    """A folder or file of the project is a link to somewhere outside of it."""

    code = "link-leaves-project"


class UnsafeTransfer(SecurityError):
    """A server that leads elsewhere than it may, or answers what nobody asked for."""

    code = "unsafe-transfer"


class BadMetadata(SecurityError):
    """A registry's signed metadata contradicts itself, or one of its documents leads out of its folder."""

    code = "bad-metadata"


class BadMetadataSignature(BadMetadata):
    """Metadata of a registry that too few of its role's keys have signed."""

    code = "bad-metadata-signature"


class MetadataExpired(BadMetadata):
    """Metadata of a registry that is out of date: nobody refreshes it, or somebody withholds the newer."""

    code = "metadata-expired"


class Rollback(BadMetadata):
    """Metadata of a registry that is older than what was seen before."""

    code = "rollback"


class NameNotOwned(SecurityError):
    """A release of a name that the registry has not given to its publisher."""

    code = "name-not-owned"


class UndeclaredVariable(SecurityError):
    """An MCP server is to be given a variable that its own skill does not declare."""

    code = "undeclared-variable"


class Withdrawn(SecurityError):
    """The lock names a release that its registry has withdrawn since: nobody may use it any more."""

    code = "withdrawn"


class TrustDowngrade(SecurityError):
    """A site that offered digests before now offers skills without any."""

    code = "trust-downgrade"


class RateLimited(SourceError):
    """A server answers no more for now.

    Attributes:
        resets: When it will again, in seconds since the epoch, as far as it said so.
    """

    code = "rate-limited"

    def __init__(
        self, message: str, *, where: str | None = None, hint: str | None = None, resets: int | None = None
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.resets = resets


class Drifted(SecurityError):
    """The files of a skill are not those that were agreed to, so that no agent may have it."""

    code = "drifted"


class OutsideSkill(SecurityError):
    """A path that leads out of the skill that it is asked of, or over a link inside of it."""

    code = "outside-skill"


class Forbidden(Refused):
    """A policy of the machine, the user or the project forbids it; ``where`` is the line that does."""

    code = "policy"
