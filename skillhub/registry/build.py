"""Create a registry and publish skills in it: validate, sign, pack, and describe each skill by its own files."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from skillhub.archive.unpack import pack
from skillhub.author.author import describes_nothing, refuse_keys, unfilled
from skillhub.errors import FormatError, NameNotOwned, NotFound, Refused, SkillhubError, StateError, UsageError
from skillhub.formats.digest import Digest
from skillhub.formats.text import as_command, quote
from skillhub.install.pins import judge_with_own_keys, own_key
from skillhub.model.index import Admission, Index, Release, newest_first
from skillhub.model.manifest import Manifest, problems
from skillhub.model.tree import SIGNATURE, SKILL_MD, File, Tree
from skillhub.model.version import is_version
from skillhub.project.user_state import OWN_SUFFIX, OwnKey, Publishers
from skillhub.registry.operator import FIRST_ROOT, OpenRegistry, RegistryDir, RegistrySettings, Signing, opened
from skillhub.scan import capabilities
from skillhub.sources.local import files_of_project, named, read_local
from skillhub.trust import oms
from skillhub.trust.keys import KeyKind, PrivateKey
from skillhub.trust.publishers import Publisher, Verdict, judge, publisher_of
from skillhub.trust.registry_metadata import Dates, MetadataSet
from skillhub.trust.roles import LOG, NAMESPACES, ROLES, ROOT, key_names

# From a folder or an archive to a release.


@dataclass(frozen=True, slots=True)
class Submission:
    """A release, its artifact, and the path of the skill that the operator named.

    Attributes:
        tree: The skill without the files that its signature ignores.
        key: The fingerprint of the signer's key, or of the root of its certificate.
        warnings: Warnings about the archive or folder, and about lines of a template, for a person.
        is_signed_here: Whether the registry signed it with the key of its own publisher.
    """

    path: str
    release: Release
    artifact: bytes
    tree: Tree
    key: Digest
    warnings: tuple[str, ...]
    is_signed_here: bool


VERSION_HINT = "published releases never change: raise metadata.version in SKILL.md"
Prepare = Callable[[Tree], Tree]


def submit(
    path: str,
    hub: OpenRegistry,
    index: Index,
    publishers: Iterable[Publisher],
    own_publishers: Publishers | None,
    prepare: Prepare | None = None,
) -> Submission:
    """Return the folder or archive at ``path`` as a release of the admitted publisher that signed it.

    Args:
        path: The folder or archive of the skill. The registry's own publisher signs an unsigned skill.
        hub: The registry.
        index: The current releases and admissions of the registry.
        publishers: All admitted publishers.
        own_publishers: The publishers that the operator trusts, with the operator's own keys.
        prepare: Returns the tree to publish for the tree at ``path``.

    Raises:
        FormatError: the skill violates the specification, or has no version.
        SecurityError: the skill is unsafe, or its signature is broken.
        UsageError: the skill contains a private key.
        Refused: the signer is not admitted, the skill is unsigned and the key of the own publisher is missing, or the
            description is that of the template.
        SourceError: no skill is at ``path``.
    """
    folder = os.path.basename(os.path.abspath(path)) if os.path.isdir(path) else None
    with named(path):
        unpacked = read_local(path, wrapper=False, leave_out=files_of_project(path))
        tree = unpacked.tree
        refuse_keys(tree, path)
        tree = prepare(tree) if prepare else tree
        errors, _ = problems(tree, folder)
        if errors:
            raise FormatError(errors[0].message, where=errors[0].where)
        manifest = Manifest.read(tree, strict=True)
        template = unfilled(tree)
    if describes_nothing(manifest.description):
        hint = "write what the skill does and when an agent should use it: agents choose it by that"
        where = f"{path}: {template[0].where if template else SKILL_MD}"
        message = "expected a description of your own, found the template of skillhub new"
        raise Refused(message, where=where, hint=hint)
    if manifest.version is None or not is_version(manifest.version):
        hint = "set metadata.version in SKILL.md; versions follow Semantic Versioning 2.0.0"
        found = quote(manifest.version) if manifest.version else "none"
        raise FormatError(f"expected metadata.version such as 1.0.0, found {found}", where=path, hint=hint)
    owner, now = index.owner(manifest.name), hub.signing.now
    # The owner of the name comes first, since two publishers may share a key.
    preferred = owner or hub.settings.publisher
    signers = sorted(publishers, key=lambda publisher: publisher.name != preferred)
    with named(path):
        if SIGNATURE not in tree and owner not in (None, hub.settings.publisher):
            sign = as_command("skillhub", "sign", path, *_named_key(signers[0], own_publishers))
            raise Refused(f"unsigned; {owner} owns the name {manifest.name} and must sign it", where=path, hint=sign)
        is_signed_here = SIGNATURE not in tree
        tree = _signed(tree, manifest.name, hub, path)
        verdict = judge(tree, signers, None, now)
    if verdict.status != "valid" or verdict.signer is None:
        with named(path):
            operators_key = _operators_key(tree, verdict, hub, own_publishers) if own_publishers else None
        message = f"expected a signature by {owner or 'a publisher that is admitted here'}, found another"
        hint, own = _admission_hint(verdict, owner, hub, operators_key), hub.settings.publisher
        if owner in (None, own) and os.path.exists(os.path.join(path, SIGNATURE)):
            hint = f"for a signature by {own}, delete {SIGNATURE}; {hint}"
        raise Refused(message, where=path, hint=hint)
    artifact = pack(verdict.tree, "zip", hub.settings.compress)
    digest = Digest.of(artifact)
    release = Release(
        name=manifest.name,
        version=manifest.version,
        published=hub.signing.time,
        digest=digest,
        size=len(artifact),
        url=f"archives/{manifest.name}/{manifest.version}/{digest.hex}.zip",
        tree=verdict.tree.digest,
        publisher=verdict.signer.identity,
        description=manifest.description,
        requires=tuple(need.spell() for need in manifest.requires),
        capabilities=capabilities(verdict.tree, manifest),
    )
    notes = (*unpacked.warnings, *(f"{issue.where}: {issue.message}" for issue in template))
    return Submission(path, release, artifact, verdict.tree, verdict.signer.fingerprint, notes, is_signed_here)


def _operators_key(tree: Tree, verdict: Verdict, hub: OpenRegistry, own_publishers: Publishers) -> OwnKey | None:
    # Raises if the signature names a key of the operator that did not make it.
    judge_with_own_keys(tree, own_publishers, None, hub.signing.now)
    return own_key(verdict.claim, own_publishers)


def _admission_hint(verdict: Verdict, owner: str | None, hub: OpenRegistry, key: OwnKey | None) -> str:
    """Return the command that admits the signer, with placeholders for unknown names and files."""
    command = partial(as_command, "skillhub", "registry", "delegate", hub.registry.path)
    offline = ("--keys", hub.signing.keys) if hub.signing.keys else ()
    if key is not None:
        return f"to admit your key {key.name}: {command(owner or key.name, '--key', key.path, *offline)}"
    signer, option = verdict.signer, "--key"
    if signer is not None and signer.kind == "sigstore":
        return f"a registry admits keys and certificates, not {signer.identity}; sign it with one"
    signer_text = f"its signer, with a key that it claims is in a PEM file of {verdict.claim}"
    if verdict.claim is None:
        signer_text, option = signer.identity if signer else "its signer", "--certificate"
    return f"to admit {signer_text}: {command(owner or 'PUBLISHER', option, 'FILE', *offline)}"


def _named_key(owner: Publisher, own_publishers: Publishers | None) -> tuple[str, ...]:
    """Return the option with which ``sign`` uses the operator's own key that the registry admits for the owner."""
    own = [own_publishers.own(Digest.of(key.pem)) for key in owner.keys] if own_publishers else []
    names = [os.path.basename(path).removesuffix(OWN_SUFFIX) for path in own if path]
    return ("--key", names[0]) if names else ()


def _signed(tree: Tree, name: str, hub: OpenRegistry, path: str) -> Tree:
    if SIGNATURE in tree:
        return tree
    registry_publisher = hub.settings.publisher
    key = hub.keys.publisher(registry_publisher)
    if key is None:
        sign = as_command("skillhub", "sign", path)
        hint = f"{sign}, or bring the key of {registry_publisher} as keys/publishers/{registry_publisher}.pem"
        raise Refused("unsigned; a registry accepts only signed skills", where=path, hint=hint)
    return Tree({**tree, SIGNATURE: File(oms.sign(tree, name, key))})


# A new registry, and new releases in a registry.

NewKey = Callable[[str, KeyKind], PrivateKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The options of a new registry.

    Attributes:
        passphrase: Encrypts all private keys; with None, they are stored unencrypted.
        keys: The folder for the offline keys; None for a folder inside the registry.
        new_key: Makes the key with a name; random by default, fixed for public test keys.
        log: Whether the registry has a log.
    """

    settings: RegistrySettings
    passphrase: bytes | None = field(default=None, repr=False)
    keys: str | None = None
    new_key: NewKey = lambda _, kind: PrivateKey.generate(kind)
    log: bool = True


@dataclass(frozen=True, slots=True)
class Added:
    """The releases that ``add`` published, and those that were already published with the same content.

    Attributes:
        submissions: New and unchanged releases, in the order of the arguments.
        before: The index of the registry before.
    """

    releases: tuple[Release, ...]
    unchanged: tuple[Release, ...]
    submissions: tuple[Submission, ...]
    before: Index


def refuse_existing(folder: str, keys: str | None) -> None:
    """Return if ``init`` could create a registry at ``folder`` with its offline keys in ``keys``.

    A call that was killed leaves no registry, and the next call makes all keys anew. It refuses if the folder of the
    offline keys already has the first root: the registry may only lack its settings, and clients may have pinned it.

    Raises:
        UsageError: the folder already has a registry or is for something else, or the folder of offline keys has
            those of this or another registry.
        StateError: the disk refuses.
    """
    registry = RegistryDir(folder)
    for file, found, reader in (SKILL_MD, "a skill", "the skill"), (FIRST_ROOT, "a registry's site", "a web server"):
        if os.path.lexists(os.path.join(registry.path, file)):
            hint = f"name another folder, such as ./registry: {reader} would publish the registry's keys"
            raise UsageError(f"expected a folder for a registry, found {found}", where=registry.path, hint=hint)
    if registry.exists:
        checks = as_command("skillhub", "registry", "check", folder)
        raise UsageError("there is a registry already", where=registry.path, hint=f"{checks} checks it")
    own_keys = registry.keys(None, keys)
    first_root = own_keys.first_root()
    if first_root is not None and first_root == registry.read(FIRST_ROOT):
        remove = as_command("rm", own_keys.first_root_path)
        hint = f"restore registry.json; if nobody has the root yet, registry init makes all anew after: {remove}"
        raise UsageError("there is a registry without its registry.json", where=registry.path, hint=hint)
    if first_root is not None:
        hint = "each registry has its own keys; name an empty folder, or move these keys away"
        raise UsageError("there are the offline keys of a registry already", where=keys, hint=hint)
    for name in ("site", "keys"):
        place = os.path.join(registry.path, name)
        if os.path.lexists(place) and not os.path.lexists(registry.lock):
            hint = "name another folder, such as ./registry, which gets its own site and keys"
            raise UsageError("there is a folder of this name already", where=place, hint=hint)


def init(folder: str, setup: Setup, now: datetime) -> Digest:
    """Create a registry without releases: keys, roles, one admitted publisher; return the fingerprint that pins it.

    Raises:
        UsageError: the folder already has a registry, or the folder of offline keys has those of another one.
        StateError: the disk refuses.
    """
    registry, settings = RegistryDir(folder), setup.settings
    keys = registry.keys(setup.passphrase, setup.keys)
    with registry.locked():
        refuse_existing(folder, setup.keys)
        publisher_key = setup.new_key(settings.publisher, "p256")
        keys.save(f"publishers/{settings.publisher}", publisher_key)
        roles = [role for role in ROLES if role != LOG or setup.log]
        new_keys = {role: [setup.new_key(name, "ed25519") for name in key_names(role)] for role in roles}
        for role, role_keys in new_keys.items():
            for name, key in zip(key_names(role), role_keys, strict=True):
                keys.save(name, key)
        dates = Dates(now, settings.days)
        metadata = MetadataSet.create(lambda role: new_keys.get(role, []), settings.bin_bits, dates)
        admission = Admission(publisher=settings.publisher, keys=(publisher_key.public.pem.decode(),))
        hub = OpenRegistry(registry, settings, metadata, keys, Signing(now=now))
        registry.publish({FIRST_ROOT: metadata.documents[ROOT]})  # the log's origin contains its digest
        hub.publish(Index({}, {settings.publisher: admission}), [settings.publisher], [])
        keys.save_first_root(metadata.documents[ROOT])
        registry.create(settings)
    return registry.fingerprint()


def add(
    folder: str,
    skills: Sequence[str],
    signing: Signing,
    own_publishers: Publishers | None = None,
    prepare: Prepare | None = None,
    agreed: Collection[Digest] | None = None,
) -> Added:
    """Publish skills, folders or archives, all or none; the registry's own publisher signs unsigned ones.

    Immutable files are written first and the timestamp last: if the process is killed, clients see the site
    as before, and the same call finishes the work.

    Args:
        folder: The folder of the registry.
        skills: The folders or archives of the skills.
        signing: When and with which keys to sign.
        own_publishers: The operator's own keys, used only for the hint of a refusal.
        prepare: As for ``submit``.
        agreed: The digests of the trees that the operator confirmed; None if no confirmation was asked for.

    Raises:
        FormatError: a skill violates the specification, or the stricter rules of a registry.
        SecurityError: a skill is unsafe, has a broken signature, or has a name that belongs to another publisher.
        Refused: a version was withdrawn or exists with other content, a signer is not admitted, a key is missing, or
            a description is that of the template.
        UsageError: a key needs a passphrase; the folder of a skill contains the registry or private keys.
        SourceError: the registry or a skill does not exist.
        StateError: the disk refuses, or a tree is not in ``agreed``, since the skill changed meanwhile.
    """
    for path in skills:
        refuse_within(path, folder, signing.keys)
    if not RegistryDir(folder).exists and len(skills) == 1 and RegistryDir(skills[0]).exists:
        hint = f"did you swap the two? {as_command('skillhub', 'registry', 'add', skills[0], folder)}"
        raise NotFound("there is no registry", where=folder, hint=hint)
    with opened(folder, signing) as hub:
        index = hub.index([*_readable_names(skills)] if hub.large else None)
        publishers = [publisher_of(admission, signing.time) for admission in index.admissions.values()]
        submissions = [submit(path, hub, index, publishers, own_publishers, prepare) for path in skills]
        owners = sorted({submission.release.publisher or "" for submission in submissions})
        names = sorted({submission.release.name for submission in submissions})
        if hub.large:  # the signers, whose releases are read now, are known only after ``submit``
            index = hub.index(names, owners)
        before = index
        submissions = [_as_published(each, index, hub) for each in submissions]
        for submission in submissions:
            if agreed is not None and submission.tree.digest not in agreed:
                message = "the skill was changed after its differences were shown"
                raise StateError(message, where=submission.path, hint="nothing was published; run the command again")
        fresh: list[Submission] = []
        for submission in submissions:
            if _is_new(submission, index, hub):
                fresh.append(submission)
                index = _index_with(index, submission.release, hub)
        hub.publish(index, owners, names, {submission.release.url: submission.artifact for submission in fresh})
    unchanged = tuple(submission.release for submission in submissions if submission not in fresh)
    return Added(tuple(submission.release for submission in fresh), unchanged, tuple(submissions), before)


def _readable_names(skills: Sequence[str]) -> Iterator[str]:
    """Yield the names of readable skills; ``submit`` reports the unreadable ones."""
    for path in skills:
        with suppress(SkillhubError):
            yield Manifest.read(read_local(path, wrapper=False, leave_out=files_of_project(path)).tree).name


def refuse_within(path: str, *places: str | None) -> None:
    """Refuse a skill whose folder contains one of these places: private keys would be published with the skill.

    Raises:
        UsageError: the folder contains one of the places.
    """
    folder = os.path.join(os.path.realpath(os.path.expanduser(path)), "")
    for place in places:
        if place and "://" not in place and os.path.join(os.path.realpath(place), "").startswith(folder):
            message = f"expected it outside the folder of the skill, {quote(path)}, which is published as a whole"
            raise UsageError(message, where=place, hint="move it out of the folder of the skill")


def _as_published(submission: Submission, index: Index, hub: OpenRegistry) -> Submission:
    """Return a skill as it was published, if only the key differs with which the registry signed it."""
    mine = submission.release
    found = [each for each in index.skills.get(mine.name, ()) if each.version == mine.version]
    if not (submission.is_signed_here and found) or found[0].tree == mine.tree or found[0].withdrawn is not None:
        return submission
    tree = hub.tree(found[0])
    if tree.without([SIGNATURE]).digest != submission.tree.without([SIGNATURE]).digest:
        return submission
    return replace(submission, release=found[0], artifact=hub.artifact(found[0]), tree=tree)


def _is_new(submission: Submission, index: Index, hub: OpenRegistry) -> bool:
    """Return whether this version is new.

    Raises:
        NameNotOwned: the name belongs to another publisher.
        Refused: the version was withdrawn, is published with other content, or in another case: many disks could
            not store both.
    """
    release = submission.release
    owner = index.owner(release.name)
    if owner not in (None, release.publisher):
        words = (hub.registry.path, release.publisher or "", "--name", release.name, "--move")
        move = as_command("skillhub", "registry", "delegate", *words)
        hint = (
            f"choose another name; if you are {owner}, delete {SIGNATURE} of the skill, and publish signs it; to take"
            f" the name from {owner}, whose releases are then withdrawn for good: {move}"
        )
        message = f"the name {quote(release.name)} belongs to {quote(owner)}"
        raise NameNotOwned(message, where=submission.path, hint=hint)
    published, version = index.skills.get(release.name, ()), release.version or ""
    same_version = [other for other in published if other.version == version]
    twin = next((other.version for other in published if (other.version or "").lower() == version.lower()), None)
    if twin and not same_version:
        message = f"{release.name} {version} differs from the published {twin} only in case"
        raise Refused(message, where=submission.path, hint=VERSION_HINT)
    if same_version and (reason := same_version[0].withdrawn) is not None:
        message = f"{release.name} {release.version} was withdrawn: {quote(reason)}"
        raise Refused(message, where=submission.path, hint=VERSION_HINT)
    if same_version and same_version[0].tree != release.tree:
        message = f"{release.name} {release.version} is published already, with other content"
        raise Refused(message, where=submission.path, hint=VERSION_HINT)
    return not same_version


def _index_with(index: Index, release: Release, hub: OpenRegistry) -> Index:
    publisher, name = release.publisher or "", release.name
    admission = index.admissions[publisher]
    if name not in admission.names:
        delegate = as_command("skillhub", "registry", "delegate", hub.registry.path, publisher, "--name", name)
        hint = f"name the folder of the offline keys (--keys DIR), or ask their owner to run: {delegate}"
        hub.refuse_without_keys(NAMESPACES, f"{name} is a new name, and assigning it needs", hint)
    claimed = replace(admission, names=admission.names | {name})
    releases = newest_first((*index.skills.get(name, ()), release))
    return Index({**index.skills, name: releases}, {**index.admissions, publisher: claimed})
