"""Make a registry, and publish skills in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from skillhub.errors import NameNotOwned, Refused, UsageError
from skillhub.flows.registry.opened import Opened, Signing, opened
from skillhub.flows.registry.submission import Submission, submit
from skillhub.model.digest import Digest
from skillhub.model.release import Admission, Index, Release, newest_first
from skillhub.model.text import as_command, is_name, quote
from skillhub.trust.keys import Kind, PrivateKey
from skillhub.trust.metadata import Dates, MetadataSet
from skillhub.trust.registry import publisher_of
from skillhub.trust.roles import NAMESPACES, ROLES, ROOT, key_names
from skillhub.world.publishers import Publishers
from skillhub.world.registry_dir import RegistryDir, RegistrySettings

NewKey = Callable[[str, Kind], PrivateKey]


def _random_key(name: str, kind: Kind) -> PrivateKey:
    return PrivateKey.generate(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a new registry is to be.

    Attributes:
        passphrase: What all private keys are encrypted with; None leaves them to the disk's protection.
        keys: The folder for the offline keys; None for one in the registry's own.
        new_key: Makes the key of a name; random but for public test keys.
    """

    settings: RegistrySettings
    passphrase: bytes | None = field(default=None, repr=False)
    keys: str | None = None
    new_key: NewKey = field(default=_random_key)


@dataclass(frozen=True, slots=True)
class Created:
    """A new registry: its folder, and the fingerprint by which clients are to pin it."""

    path: str
    fingerprint: Digest


@dataclass(frozen=True, slots=True)
class Added:
    """What ``add`` published, and what was published before with the same content."""

    releases: tuple[Release, ...]
    unchanged: tuple[Release, ...]


def init(folder: str, setup: Setup, now: datetime) -> Created:
    """Make a registry that offers nothing yet: keys, roles, and a publisher that is admitted.

    Raises:
        UsageError: a registry is there already, or the publisher's name is none.
        StateError: the disk refuses.
    """
    registry, settings = RegistryDir(folder), setup.settings
    if not is_name(settings.publisher):
        raise UsageError(f"expected a name of a-z, 0-9 and hyphens, found {quote(settings.publisher)}")
    keys = registry.keys(setup.passphrase, setup.keys)
    with registry.locked():
        if registry.exists:
            raise UsageError("there is a registry already", where=registry.path)
        if keys.first_root() is not None:
            hint = "each registry has keys of its own; name an empty folder, or move these away"
            raise UsageError("there are the offline keys of a registry already", where=setup.keys, hint=hint)
        own = setup.new_key(settings.publisher, "p256")
        keys.save(f"publishers/{settings.publisher}", own)
        made = {role: [setup.new_key(name, "ed25519") for name in key_names(role)] for role in ROLES}
        for role, several in made.items():
            for name, key in zip(key_names(role), several, strict=True):
                keys.save(name, key)
        metadata = MetadataSet.create(made.__getitem__, settings.bin_bits, Dates(now, settings.days))
        admission = Admission(publisher=settings.publisher, keys=(own.public.pem.decode(),))
        hub = Opened(registry, settings, metadata, keys, Signing(now=now))
        hub.publish(Index({}, {settings.publisher: admission}), [settings.publisher], [])
        keys.save_first_root(metadata.documents[ROOT])
        registry.create(settings)
    return Created(registry.path, registry.fingerprint())


def add(folder: str, skills: Sequence[str], signing: Signing, mine: Publishers | None = None) -> Added:
    """Publish skills, folders or archives, all or none; signed by the registry's own publisher if unsigned.

    Files that are never changed are written first and the timestamp last: whoever kills this leaves the site
    as it was, and the same call again finishes it. ``mine`` knows the operator's own keys, for a hint alone.

    Raises:
        FormatError: a skill is not as the specification and a registry want it.
        SecurityError: one is unsafe, badly signed, or of a name that is another publisher's.
        Refused: a version is there with other content, a signer is unknown here, or a key is not at hand.
        UsageError: a key needs a passphrase.
        SourceError: there is no such registry or skill.
        StateError: the disk refuses.
    """
    with opened(folder, signing) as hub:
        index = hub.index()
        publishers = [publisher_of(each, signing.time) for each in index.admissions.values()]
        submissions = [submit(path, hub, index, publishers, mine) for path in skills]
        fresh: list[Submission] = []
        for each in submissions:
            if _is_new(each, index):
                fresh.append(each)
                index = _with(index, each.release, hub)
        changed = sorted({each.release.publisher or "" for each in submissions})
        archives = {each.release.url: each.artifact for each in fresh}
        hub.publish(index, changed, sorted({each.release.name for each in submissions}), archives)
    old = tuple(each.release for each in submissions if each not in fresh)
    return Added(tuple(each.release for each in fresh), old)


def _is_new(submission: Submission, index: Index) -> bool:
    """Say whether this version is new; if it is there, it must be there with this content."""
    release = submission.release
    owner = index.owner(release.name)
    if owner not in (None, release.publisher):
        raise NameNotOwned(f"the name {quote(release.name)} is {quote(owner)}'s", where=submission.path)
    same = [each for each in index.skills.get(release.name, ()) if each.version == release.version]
    if same and same[0].tree != release.tree:
        message = f"{release.name} {release.version} is published already, with other content"
        raise Refused(message, where=submission.path, hint="raise metadata.version; what is published stays")
    return not same


def _with(index: Index, release: Release, hub: Opened) -> Index:
    publisher, name = release.publisher or "", release.name
    admission = index.admissions[publisher]
    if name not in admission.names:
        _may_claim(release, hub)
    claimed = replace(admission, names=admission.names | {name})
    releases = newest_first((*index.skills.get(name, ()), release))
    return Index({**index.skills, name: releases}, {**index.admissions, publisher: claimed})


def _may_claim(release: Release, hub: Opened) -> None:
    """Refuse a new name if too few keys are at hand to give it to a publisher."""
    able, needed = len(hub.at_hand(NAMESPACES)), ROLES[NAMESPACES].threshold
    if able < needed:
        message = (
            f"{release.name} is a new name, and to give it takes {needed} keys of namespaces, found {able}"
        )
        words = (hub.registry.path, release.publisher or "", "--name", release.name)
        command = as_command("skillhub", "registry", "delegate", *words)
        raise Refused(message, hint=f"bring the offline keys (--keys DIR), or have somebody run: {command}")
