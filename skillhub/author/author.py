"""For authors of skills: make a skill from the template, validate, pack and sign it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from skillhub.archive.unpack import pack
from skillhub.disk import files
from skillhub.disk.folders import remove_tree, write_tree
from skillhub.errors import BadSignature, NotFound, Reasoned, SkillhubError, StateError, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.text import NAME_RULE, as_command, did_you_mean, is_name, quote
from skillhub.install import pins
from skillhub.model.finding import Finding, Issue
from skillhub.model.manifest import Manifest, problems
from skillhub.model.tree import SIGNATURE, SKILL_MD, ArchiveKind, File, Tree, kind_of
from skillhub.project.user_state import OwnKey, Publishers
from skillhub.scan import scan
from skillhub.sources.local import files_of_project, named, read_local
from skillhub.trust import oms
from skillhub.trust.keys import PrivateKey, has_private_key
from skillhub.trust.publishers import Publisher, judge

if TYPE_CHECKING:
    from skillhub.trust.x509 import Certificate

# A new skill: the folder for an author to complete, which ``validate`` accepts; the lines that are not replaced yet.

VERSION = "0.1.0"

_TEMPLATES = os.path.join(os.path.dirname(__file__), "templates")
_FILES = {SKILL_MD: "SKILL.md", "agents/skillhub.yaml": "skillhub.yaml"}


@dataclass(frozen=True, slots=True)
class Begun:
    """A new skill.

    Attributes:
        name: Its name.
        path: Its folder.
        files: The paths of its files, with ``/`` between segments.
    """

    name: str
    path: str
    files: tuple[str, ...]


def begin(name: str, parent: str, *, dry_run: bool = False) -> Begun:
    """Write a skill for the author to complete to the new folder ``name`` below ``parent``.

    Args:
        name: The name of the skill.
        parent: The folder around it.
        dry_run: Whether to write nothing.

    Raises:
        UsageError: the name is invalid, or ``parent`` has something of that name.
        StateError: the disk refuses; nothing is left behind.
    """
    if not is_name(name):
        meant = name.lower().replace("_", "-").replace(" ", "-")
        hint = did_you_mean([meant] if is_name(meant) else [], f"a name is of {NAME_RULE}")
        raise UsageError(f"{quote(name)} cannot name a skill", hint=hint)
    path = os.path.join(parent, name)
    if os.path.lexists(path):
        raise UsageError(f"{name} exists already", where=path, hint="choose another name")
    tree = content(name)
    if not dry_run:
        _write(path, tree)
    return Begun(name, path, tuple(sorted(tree)))


def content(name: str) -> Tree:
    """Return the files of a new skill of this name."""
    title = name.replace("-", " ").capitalize()
    texts = {file: _template(each).format(name=name, title=title, version=VERSION) for file, each in _FILES.items()}
    return Tree({file: File(text.encode(), executable=False) for file, text in texts.items()})


@cache
def _template(name: str) -> str:
    with open(os.path.join(_TEMPLATES, name), encoding="utf-8") as file:
        return file.read()


@cache
def _prompts() -> frozenset[str]:
    """Return the lines of the template that an author has to replace: the description and the body."""
    head, _, body = _template(_FILES[SKILL_MD]).partition("# {title}\n")
    lines = (line for line in head.splitlines() if line.startswith("description:"))
    return frozenset([*lines, *filter(None, body.splitlines())])


def describes_nothing(description: str | None) -> bool:
    """Return whether a description is still the template's."""
    return f"description: {description}" in _prompts()


def unfilled(tree: Tree) -> tuple[Issue, ...]:
    """Return a warning ``unfilled`` for each block of lines in ``SKILL.md`` that is still the template's."""
    file = tree.get(SKILL_MD)
    lines = file.data.decode("utf-8", "replace").split("\n") if file else []
    found, is_within = [], False
    for number, line in enumerate(map(str.strip, lines), 1):
        if line in _prompts() and not is_within:
            message = "expected text of your own, found the template of skillhub new"
            found.append(Issue("unfilled", message, f"{SKILL_MD}:{number}"))
        is_within = line in _prompts() or (is_within and not line)
    return tuple(found)


def _write(path: str, tree: Tree) -> None:
    staged = f"{path}.{os.urandom(4).hex()}.tmp"
    try:
        write_tree(staged, tree.items(), read_only=False)
        os.rename(staged, path)
    except OSError as error:
        with suppress(OSError):
            remove_tree(staged)
        raise files.disk_error(error, path) from error


# Skills that are validated, packed and signed.

_IN_A_NAME = re.compile(r"[0-9A-Za-z.+_-]{1,100}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Signature:
    """The verdict on a skill's signature.

    Attributes:
        status: ``valid``, ``untrusted``, ``invalid`` or ``unsigned``.
        identity: The name of the proven signer; None if it is unknown.
        fingerprint: The fingerprint of the proven signer's key; None if no signer is proven.
        code: The code of the error of an ``invalid`` signature.
        claim: The digest of the key's file, as in a ``Verdict``; this is no fingerprint, which is of the key itself.
        own: The user's own key that signed, if the user does not trust it yet.
        message: The error of an ``invalid`` signature.
    """

    status: str
    identity: str | None = None
    fingerprint: Digest | None = None
    code: str | None = None
    claim: Digest | None = None
    own: OwnKey | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Validated:
    """The result of ``validate`` for one path.

    Attributes:
        path: The path.
        name: The name in ``SKILL.md``; None if it cannot be read.
        tree: The digest of the signed files, or of all files if there is no signature.
        errors: The faults of the contents; a bad signature is not among them.
        warnings: Facts worth knowing that are no faults.
        signature: The verdict on the signature; None if there was nothing to validate.
        trust: The command that trusts the key that signed; None if it is trusted or unknown.
        error: Why there was nothing to validate.
        content: All files, signed or not.
        findings: The findings of the scan.
    """

    path: str
    name: str | None
    tree: Digest | None
    errors: tuple[Issue, ...]
    warnings: tuple[Issue, ...]
    signature: Signature | None
    trust: str | None = None
    error: SkillhubError | None = None
    content: Tree | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the contents have no fault."""
        return not self.errors


def validate_all(paths: Sequence[str], publishers: Publishers, now: datetime) -> list[Validated]:
    """Validate the skills at these paths; a path without a skill does not hide the results of others.

    Raises:
        NotFound, UsageError: no path has a skill.
    """
    found = []
    for path in paths:
        try:
            found.append(validate(path, publishers, now, files_of_project(path)))
        except (NotFound, UsageError) as error:
            found.append(Validated(path, None, None, (_issue(error, path),), (), None, error=error))
    errors = [each.error for each in found if each.error is not None]
    if errors and len(errors) == len(found):
        raise errors[0]
    return found


def validate(path: str, publishers: Publishers, now: datetime, leave_out: Sequence[str] = ()) -> Validated:
    """Validate the skill at ``path``: a folder by the specification, an archive by the rules of install.

    A fact worth knowing that is no fault becomes a warning, such as unchanged lines of the template or a key that is
    not trusted. Findings of the scan are no errors either.

    Args:
        path: A folder, or an archive.
        publishers: The publishers that the user trusts.
        now: The time at which certificates must be valid.
        leave_out: As for ``read_local``.

    Raises:
        NotFound: ``path`` does not exist.
        UsageError: ``path`` is a file, but no archive.
        FormatError, StateError: the user's list of publishers is malformed, or cannot be read.
    """
    try:
        unpacked = read_local(path, leave_out=leave_out)
    except (NotFound, UsageError):
        raise
    except SkillhubError as error:
        return Validated(path, None, None, (_issue(error, path),), (), None)
    warnings = tuple(Issue("archive" if unpacked.archive else "left-out", text, path) for text in unpacked.warnings)
    tree, signature = signature_of(unpacked.tree, publishers, now)
    is_folder = os.path.isdir(os.path.expanduser(path))
    errors, noted = problems(tree, os.path.basename(os.path.abspath(path)) if is_folder else None)
    name: str | None = None
    refused: tuple[Issue, ...] = ()
    try:
        name = Manifest.read(tree).name
    except SkillhubError as error:
        refused = (_issue(error, path),)
    if not is_folder:  # what install accepts is no error, even if the specification forbids it
        errors, noted = refused, () if refused else (*errors, *noted)
    untrusted, trust = _trusting(signature)
    warnings = (*warnings, *noted, *unfilled(tree), *untrusted)
    found = errors or refused
    return Validated(path, name, tree.digest, found, warnings, signature, trust, None, unpacked.tree, scan(tree))


def signature_of(tree: Tree, publishers: Publishers, now: datetime) -> tuple[Tree, Signature]:
    """Return the signed files (all files if there is no valid signature), and the verdict on the signature."""
    try:
        verdict, own = pins.judge_with_own_keys(tree, publishers, None, now)
    except BadSignature as error:
        # The error is about a file that the signature covers, a certificate or the signature itself.
        message = error.message if error.where in (None, SIGNATURE) else f"{error.where}: {error.message}"
        return tree, Signature("invalid", code=error.reason, message=message)
    signer = verdict.signer
    if signer is None:
        return verdict.tree, Signature(verdict.status, claim=verdict.claim)
    return verdict.tree, Signature(verdict.status, signer.identity, signer.fingerprint, own=own)


def _trusting(signature: Signature) -> tuple[tuple[Issue, ...], str | None]:
    """Return a warning if the key that signed is not trusted, and the command that trusts it."""
    if signature.own is not None:
        who = f"{signature.identity}, a key of yours that you do not trust yet"
        return (Issue("untrusted", f"signed by {who}", SIGNATURE),), signature.own.trusting
    if signature.status != "untrusted" or signature.identity is not None:
        return (), None
    said = f", which claims the key in a PEM file of {signature.claim}" if signature.claim else ""
    message = f"signed by an unknown key{said}"
    return (Issue("untrusted", message, SIGNATURE),), "skillhub publisher trust NAME --key FILE"


def _issue(error: SkillhubError, path: str) -> Issue:
    reason = f" ({error.reason})" if isinstance(error, Reasoned) else ""
    return Issue(error.code, error.message + reason, error.where or path)


@dataclass(frozen=True, slots=True)
class Packed:
    """The archive that ``pack_skill`` wrote.

    Attributes:
        path: The file.
        digest: The digest of the file.
        tree: The digest of the skill in it.
        size: The size of the file in bytes.
        warnings: Warnings about the folder, for a person.
    """

    path: str
    digest: Digest
    tree: Digest
    size: int
    warnings: tuple[str, ...] = ()


def pack_skill(
    path: str, output: str | None, kind: ArchiveKind, now: datetime, write: Callable[[str, bytes], None]
) -> Packed:
    """Write the skill at ``path`` to an archive, reproducibly, without the files that a signature ignores.

    Args:
        path: The skill's folder, or an archive to pack again.
        output: The file to write, or a folder for it. None means the working folder, or the parent of the skill if
            the working folder is inside the skill.
        kind: The format of the archive.
        now: The time at which certificates must be valid.
        write: Writes the file.

    Raises:
        NotFound: ``path`` does not exist.
        UsageError: ``output`` is inside the skill, where no signature would cover it and the next archive would
            contain it; or the skill contains a private key.
        FormatError: ``path`` is no skill.
        SecurityError: the skill is unsafe, or its signature is invalid.
        StateError: the disk refuses.
    """
    with named(path):
        unpacked = read_local(path, leave_out=files_of_project(path))
        refuse_keys(unpacked.tree, path)
        tree = judge(unpacked.tree, (), None, now).tree
        manifest = Manifest.read(tree, strict=True)
    # A skill's version is any text of its author; in a file name it must not lead to another folder.
    version = f"-{manifest.version}" if _IN_A_NAME.fullmatch(manifest.version or "") else ""
    target = output or _outside(path)
    if target.endswith((os.sep, os.altsep or os.sep)) or os.path.isdir(target):
        target = os.path.join(target, f"{manifest.name}{version}.{kind}")
    if _lies_in(os.path.dirname(os.path.realpath(target)), path):
        form = () if kind == "zip" else ("--format", kind)
        hint = f"without -o it is written outside: {as_command('skillhub', 'pack', path, *form)}"
        raise UsageError("the archive must be outside the skill", where=target, hint=hint)
    if (other := kind_of(os.path.basename(target))) not in (None, kind):
        raise UsageError(f"expected a name for a {kind} archive, found one for {other}", where=target)
    data = pack(tree, kind)
    write(os.path.abspath(target), data)
    return Packed(target, Digest.of(data), tree.digest, len(data), unpacked.warnings)


def refuse_keys(tree: Tree, path: str) -> None:
    """Raise an error if a file of a skill contains a private key, such as one of a registry inside its folder.

    Raises:
        UsageError: a file contains a private key.
    """
    for name, file in tree.items():
        if has_private_key(file.data):
            message = f"expected no private key in a skill, found one in {quote(name)}"
            raise UsageError(message, where=path, hint="move it out of the skill's folder: all in it is the skill")


def _lies_in(folder: str, skill: str) -> bool:
    """Return whether a folder, which may not exist yet, is the skill's folder or below it; false for an archive."""
    inner, outer = (os.path.normcase(os.path.realpath(each)) for each in (folder, os.path.expanduser(skill)))
    return os.path.isdir(outer) and os.path.join(inner, "").startswith(os.path.join(outer, ""))


def _outside(skill: str) -> str:
    """Return the working folder, or the parent of the skill if the working folder is inside the skill."""
    if not _lies_in(".", skill):
        return "."
    return os.path.relpath(os.path.dirname(os.path.realpath(os.path.expanduser(skill))), os.path.realpath("."))


@dataclass(frozen=True, slots=True)
class Signed:
    """The result of ``sign_skill``; ``identity`` is the subject of the certificate, if the key has one."""

    path: str
    tree: Digest
    fingerprint: Digest
    identity: str | None = None
    warnings: tuple[str, ...] = ()


def sign_skill(
    path: str, load: Callable[[], PrivateKey], chain: tuple[Certificate, ...], now: datetime, *, dry_run: bool = False
) -> Signed:
    """Sign a skill: write ``skill.oms.sig`` into its folder, and nothing else.

    The signature is verified before it is written, so that skillhub accepts every signature that it writes.

    Args:
        path: The skill's folder.
        load: Returns the key that signs. It may ask for a passphrase, so it is called after the skill was checked.
        chain: The certificate of the key, then those of its issuers; empty to sign with the key alone.
        now: The time at which the certificates must be valid.
        dry_run: Whether to write nothing.

    Raises:
        NotFound: ``path`` does not exist, or has no ``SKILL.md``.
        PassphraseNeeded: raised by ``load``, like any other error of it.
        UsageError: ``path`` is no folder, it contains a private key, or the first certificate is of another key.
        FormatError: the skill does not conform to the specification.
        SecurityError: the skill contains something that no skill may contain, or the chain is invalid or expired.
        StateError: the disk refuses.
    """
    folder = os.path.expanduser(path)
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{quote(path)} is not a folder", hint="sign the folder, then pack it")
    with named(path):
        unpacked = read_local(path, leave_out=files_of_project(path))
        refuse_keys(unpacked.tree, path)
        manifest = Manifest.read(unpacked.tree, strict=True)
    key = load()
    bundle = oms.sign(unpacked.tree, manifest.name, key, chain, unpacked.left_out)
    signed = Tree({**unpacked.tree, SIGNATURE: File(bundle)})
    tree = judge(signed, [Publisher(manifest.name, keys=(key.public,))], None, now).tree
    if not dry_run:
        files.write_atomic(os.path.join(os.path.abspath(folder), SIGNATURE), bundle)
        _read_back(path, key, tree.digest)
    warnings = (*unpacked.warnings, *(f"{issue.where}: {issue.message}" for issue in unfilled(unpacked.tree)))
    return Signed(path, tree.digest, key.public.fingerprint, chain[0].subject if chain else None, warnings)


def _read_back(path: str, key: PrivateKey, tree: Digest) -> None:
    """Verify the signature of the folder's present contents.

    Raises:
        StateError: the contents differ from the signed tree.
    """
    envelope = oms.read(read_local(path, leave_out=files_of_project(path)).tree)
    if envelope is None or envelope.tree.digest != tree:
        raise StateError("the skill was changed while it was signed; sign it again", where=path)
    envelope.prove(key.public)
