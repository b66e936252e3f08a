"""For who writes skills: a new one that is to be filled in, validate, pack, sign."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from skillhub.archive import Kind, pack
from skillhub.disk import files
from skillhub.disk.folders import remove_tree, write_tree
from skillhub.errors import BadSignature, NotFound, Reasoned, SkillhubError, StateError, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.text import NAME_MAX, as_command, is_name, quote
from skillhub.install import candidates
from skillhub.model.finding import Finding, Issue
from skillhub.model.manifest import Manifest, problems
from skillhub.model.tree import SIGNATURE, SKILL_MD, File, Tree
from skillhub.project.user_state import Publishers
from skillhub.scan import scan
from skillhub.sources.local import named, read_local
from skillhub.trust import oms
from skillhub.trust.keys import PrivateKey, has_private_key
from skillhub.trust.publishers import Publisher, judge

if TYPE_CHECKING:
    from skillhub.trust.x509 import Certificate

# A new skill: the folder that an author begins with, such as ``validate`` accepts; what is not filled in yet.

VERSION = "0.1.0"

_TEMPLATES = os.path.join(os.path.dirname(__file__), "templates")
_FILES = {SKILL_MD: "SKILL.md", "agents/skillhub.yaml": "skillhub.yaml"}


@dataclass(frozen=True, slots=True)
class Begun:
    """A new skill.

    Attributes:
        path: Its folder.
        files: What is in it, ``/`` between segments.
    """

    name: str
    path: str
    files: tuple[str, ...]


def begin(name: str, parent: str, *, dry_run: bool = False) -> Begun:
    """Make the folder ``name`` below ``parent``, with a skill in it to be filled in; never over another.

    Raises:
        UsageError: the name is none, or is taken there.
        StateError: the disk refuses; nothing is left behind.
    """
    if not is_name(name):
        hint = f"lowercase letters, digits and single hyphens, at most {NAME_MAX}"
        raise UsageError(f"{quote(name)} cannot name a skill", hint=hint)
    path = os.path.join(parent, name)
    if os.path.lexists(path):
        raise UsageError(f"{name} exists already", where=path, hint="choose another name")
    tree = content(name)
    if not dry_run:
        _write(path, tree)
    return Begun(name, path, tuple(sorted(tree)))


def content(name: str) -> Tree:
    """Return what a new skill of this name holds."""
    title = name.replace("-", " ").capitalize()
    texts = {file: _template(each).format(name=name, title=title, version=VERSION) for file, each in _FILES.items()}
    return Tree({file: File(text.encode(), executable=False) for file, text in texts.items()})


@cache
def _template(name: str) -> str:
    with open(os.path.join(_TEMPLATES, name), encoding="utf-8") as file:
        return file.read()


@cache
def _prompts() -> frozenset[str]:
    """Return the lines that an author is to replace with words of their own: the description, and the body."""
    head, _, body = _template(_FILES[SKILL_MD]).partition("# {title}\n")
    lines = (line for line in head.splitlines() if line.startswith("description:"))
    return frozenset([*lines, *filter(None, body.splitlines())])


def unfilled(tree: Tree) -> tuple[Issue, ...]:
    """Return where ``SKILL.md`` says what ``begin`` wrote there: a warning ``unfilled`` for each stretch of lines."""
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
    """What a skill's signature is worth.

    Attributes:
        code: What is wrong with an ``invalid`` one; so says ``message``.
        claim: As in a ``Verdict``, which is no fingerprint: it is of the file, not of the key.
        own: The user's own key that signed, where they have not trusted it.
    """

    status: str
    identity: str | None = None
    fingerprint: Digest | None = None
    code: str | None = None
    claim: Digest | None = None
    own: candidates.OwnKey | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Validated:
    """What was found about one path; errors are about the content, the signature stands apart.

    Attributes:
        tree: Of what was signed, or of all there is.
        content: All there is.
        trust: What to type to trust the key that signed, where nobody here does.
        error: Why there was nothing to look at.
        findings: What the scan saw.
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
        """Whether the content is as it should be."""
        return not self.errors


def validate_all(paths: Sequence[str], publishers: Publishers, now: datetime) -> list[Validated]:
    """Check the skills at these paths; one with nothing to look at does not hide the others.

    Raises:
        NotFound, UsageError: as ``validate``, if it is so of all of them.
    """
    found = []
    for path in paths:
        try:
            found.append(validate(path, publishers, now))
        except (NotFound, UsageError) as error:
            found.append(Validated(path, None, None, (_issue(error, path),), (), None, error=error))
    errors = [each.error for each in found if each.error is not None]
    if errors and len(errors) == len(found):
        raise errors[0]
    return found


def validate(path: str, publishers: Publishers, now: datetime) -> Validated:
    """Check the skill at ``path``: a folder by the specification, an archive just as install would.

    What is no fault and yet worth knowing is a warning: a template that was left as it is, a key that nobody trusts;
    so is what the scan sees, whatever install asks about it.

    Raises:
        NotFound: nothing is there.
        UsageError: a file that is no archive.
        StateError: it cannot be read.
    """
    try:
        unpacked, _ = read_local(path)
    except (NotFound, UsageError):
        raise
    except SkillhubError as error:
        return Validated(path, None, None, (_issue(error, path),), (), None)
    warnings = tuple(Issue("archive", text, path) for text in unpacked.warnings)
    tree, signature = signature_of(unpacked.tree, publishers, now)
    is_folder = os.path.isdir(os.path.expanduser(path))
    errors, noted = problems(tree, os.path.basename(os.path.abspath(path)) if is_folder else None)
    name: str | None = None
    refused: tuple[Issue, ...] = ()
    try:
        name = Manifest.read(tree).name
    except SkillhubError as error:
        refused = (_issue(error, path),)
    if not is_folder:  # what install takes is no error, however it is formed
        errors, noted = refused, () if refused else (*errors, *noted)
    untrusted, trust = _trusting(signature)
    warnings = (*warnings, *noted, *unfilled(tree), *untrusted)
    found = errors or refused
    seen = scan(tree)
    return Validated(path, name, tree.digest, found, warnings, signature, trust, None, unpacked.tree, seen)


def signature_of(tree: Tree, publishers: Publishers, now: datetime) -> tuple[Tree, Signature]:
    """Return what was signed, all there is if that is nothing, and what the signature is worth to this user."""
    try:
        verdict, own = candidates.judge_with_own_keys(tree, publishers, None, now)
    except BadSignature as error:
        return tree, Signature("invalid", code=error.reason, message=error.message)
    signer = verdict.signer
    if signer is None:
        return verdict.tree, Signature(verdict.status, claim=verdict.claim)
    return verdict.tree, Signature(verdict.status, signer.identity, signer.fingerprint, own=own)


def _trusting(signature: Signature) -> tuple[tuple[Issue, ...], str | None]:
    """Return a warning if nobody here trusts the key that signed, and what to type to trust it."""
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
    """An archive that was written."""

    path: str
    digest: Digest
    tree: Digest
    size: int


def pack_skill(
    path: str, output: str | None, kind: Kind, now: datetime, write: Callable[[str, bytes], None] = files.write_atomic
) -> Packed:
    """Write the skill at ``path`` as an archive, the same bytes each time, and what a signature ignores left out.

    Args:
        path: The skill's folder, or an archive to be packed anew.
        output: The file to write, or a folder for it; None is the working folder, or the one that holds the skill
            where that is no place outside of it.
        kind: The form.
        now: The time that certificates are judged by.
        write: Writes the file.

    Raises:
        UsageError: ``output`` lies in the skill: no signature covers it, and the next archive would hold it; or a
            private key does.
        FormatError: it is no skill.
        SecurityError: it is unsafe, or its signature is broken.
        StateError: the disk refuses.
    """
    with named(path):
        unpacked, _ = read_local(path)
        refuse_keys(unpacked.tree, path)
        tree = judge(unpacked.tree, (), None, now).tree
        manifest = Manifest.read(tree, strict=True)
    # Whoever wrote the skill wrote its version, which need not be one: it may not lead to another folder.
    version = f"-{manifest.version}" if _IN_A_NAME.fullmatch(manifest.version or "") else ""
    target = output or _outside(path)
    if target.endswith((os.sep, os.altsep or os.sep)) or os.path.isdir(target):
        target = os.path.join(target, f"{manifest.name}{version}.{kind}")
    if _lies_in(os.path.dirname(os.path.realpath(target)), path):
        form = () if kind == "zip" else ("--format", kind)
        hint = f"without -o it is written outside: {as_command('skillhub', 'pack', path, *form)}"
        raise UsageError("the archive must be outside the skill", where=target, hint=hint)
    data = pack(tree, kind)
    write(os.path.abspath(target), data)
    return Packed(target, Digest.of(data), tree.digest, len(data))


def refuse_keys(tree: Tree, path: str) -> None:
    """Refuse a skill with a private key in one of its files, such as those of a registry in its folder.

    Raises:
        UsageError: a file has one.
    """
    for name, file in tree.items():
        if has_private_key(file.data):
            message = f"expected no private key in a skill, found one in {quote(name)}"
            raise UsageError(message, where=path, hint="move it out of the skill's folder: all in it is the skill")


def _lies_in(folder: str, skill: str) -> bool:
    """Say whether a folder, which need not be there yet, is the skill's or below it; an archive holds none."""
    inner, outer = (os.path.normcase(os.path.realpath(each)) for each in (folder, os.path.expanduser(skill)))
    return os.path.isdir(outer) and os.path.join(inner, "").startswith(os.path.join(outer, ""))


def _outside(skill: str) -> str:
    """Return the working folder, or where that is in the skill the one that holds the skill."""
    if not _lies_in(".", skill):
        return "."
    return os.path.relpath(os.path.dirname(os.path.realpath(os.path.expanduser(skill))), os.path.realpath("."))


@dataclass(frozen=True, slots=True)
class Signed:
    """A skill that was signed; ``identity`` is the subject of the certificate, if one goes with the key."""

    path: str
    tree: Digest
    fingerprint: Digest
    identity: str | None = None


def sign_skill(
    path: str, load: Callable[[], PrivateKey], chain: tuple[Certificate, ...], now: datetime, *, dry_run: bool = False
) -> Signed:
    """Write ``skill.oms.sig`` into the skill's folder and touch nothing else, nothing at all in a dry run.

    No signature is written that this program would not accept.

    Args:
        path: The skill's folder.
        load: Gives the key that signs; called when the skill is found fit to be signed, for it may ask a person.
        chain: The certificate of the key, then its issuers; empty to sign with the bare key.
        now: The time that the certificates must be valid at.
        dry_run: Write nothing.

    Raises:
        NotFound, PassphraseNeeded: nothing is there, or a folder without ``SKILL.md``; or as ``load`` raises them.
        UsageError: it is no folder, a private key is in it, or the first certificate is another key's.
        FormatError: it is no skill as the specification has it.
        SecurityError: it holds what no skill may hold, or the chain is unsound or past its time.
        StateError: the disk refuses.
    """
    folder = os.path.expanduser(path)
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{quote(path)} is not a folder", hint="sign the folder, then pack it")
    with named(path):
        unpacked, _ = read_local(path)
        refuse_keys(unpacked.tree, path)
        manifest = Manifest.read(unpacked.tree, strict=True)
    key = load()
    bundle = oms.sign(unpacked.tree, manifest.name, key, chain)
    signed = Tree({**unpacked.tree, SIGNATURE: File(bundle)})
    tree = judge(signed, [Publisher(manifest.name, keys=(key.public,))], None, now).tree
    if not dry_run:
        files.write_atomic(os.path.join(os.path.abspath(folder), SIGNATURE), bundle)
        _read_back(path, key, tree.digest)
    return Signed(path, tree.digest, key.public.fingerprint, chain[0].subject if chain else None)


def _read_back(path: str, key: PrivateKey, tree: Digest) -> None:
    """Prove that what lies there now is what was signed."""
    envelope = oms.read(read_local(path)[0].tree)
    if envelope is None or envelope.tree.digest != tree:
        raise StateError("the skill was changed while it was signed; sign it again", where=path)
    envelope.prove(key.public)
