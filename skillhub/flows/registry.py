"""For who runs a registry: make one, put skills into it, check it as a client would."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from skillhub.errors import NameNotOwned, Refused, UsageError
from skillhub.flows.registry_submission import Submission, submit
from skillhub.model.digest import Digest
from skillhub.model.index import parse_listing, parse_namespaces, parse_releases
from skillhub.model.release import Admission, Release, newest_first
from skillhub.model.text import is_name, quote
from skillhub.trust.keys import Kind, PrivateKey
from skillhub.trust.metadata import Dates, MetadataSet
from skillhub.trust.registry import publisher_of
from skillhub.trust.registry_documents import LISTING_PATH, Shelf
from skillhub.trust.roles import ROLES, index_path, key_names
from skillhub.world.registry_dir import RegistryDir, Settings

NewKey = Callable[[str, Kind], PrivateKey]


def _random_key(name: str, kind: Kind) -> PrivateKey:
    return PrivateKey.generate(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a new registry is to be.

    Attributes:
        passphrase: What all private keys are encrypted with; None leaves them to the disk's protection.
        new_key: Makes the key of a name; random but for public test keys.
    """

    settings: Settings
    passphrase: bytes | None = None
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
    with registry.locked():
        if registry.exists:
            raise UsageError("there is a registry already", where=registry.path)
        own = setup.new_key(settings.publisher, "p256")
        registry.save_key(f"publishers/{settings.publisher}", own, setup.passphrase)
        keys = {role: [setup.new_key(name, "ed25519") for name in key_names(role)] for role in ROLES}
        for role, made in keys.items():
            for name, key in zip(key_names(role), made, strict=True):
                registry.save_key(name, key, setup.passphrase)
        dates = Dates(now, settings.days)
        admission = Admission(publisher=settings.publisher, keys=(own.public.pem.decode(),))
        shelf = Shelf({settings.publisher: admission}, {})
        targets = shelf.targets([settings.publisher], [])
        metadata = MetadataSet.create(keys.__getitem__, settings.bin_bits, dates)
        metadata = metadata.revise(targets, keys.__getitem__, dates)
        registry.publish({**_site(metadata, targets), **shelf.public(targets, [])})
        registry.create(settings)
    return Created(registry.path, registry.fingerprint())


def add(
    folder: str,
    skills: Sequence[str],
    *,
    now: datetime,
    passphrase: bytes | None = None,
    dry_run: bool = False,
) -> Added:
    """Publish skills, folders or archives, all or none; signed by the registry's own publisher if unsigned.

    Files that are never changed are written first and the timestamp last: whoever kills this leaves the site
    as it was, and the same call again finishes it.

    Raises:
        FormatError: a skill is not as the specification and a registry want it.
        SecurityError: one is unsafe, badly signed, or of a name that is another publisher's.
        Refused: a version is there with other content, a signer is unknown here, or a key is not at hand.
        UsageError: a key needs a passphrase.
        SourceError: there is no such registry or skill.
        StateError: the disk refuses.
    """
    registry = RegistryDir(folder)
    settings = registry.settings()
    with registry.locked():
        metadata = registry.metadata()
        shelf = _shelf(registry, metadata)
        admission = shelf.admissions[settings.publisher]
        key = registry.key(f"publishers/{settings.publisher}", passphrase)
        publisher = publisher_of(admission)
        submissions = [submit(path, publisher, key, now, settings.compress) for path in skills]
        fresh: list[Submission] = []
        for each in submissions:
            if _is_new(each, shelf):
                fresh.append(each)
                shelf = _with(shelf, each.release)
        names = sorted({each.release.name for each in submissions})
        targets = shelf.targets([settings.publisher], names)
        revised = metadata.revise(targets, registry.keys(passphrase), Dates(now, settings.days))
        archives = {each.release.url: each.artifact for each in submissions if each in fresh}
        if not dry_run:
            registry.publish({**archives, **_site(revised, targets), **shelf.public(targets, names)})
    old = tuple(each.release for each in submissions if each not in fresh)
    return Added(tuple(each.release for each in fresh), old)


def _shelf(registry: RegistryDir, metadata: MetadataSet) -> Shelf:
    """Read back what the registry offers; descriptions stand in the listing alone."""
    admissions: dict[str, Admission] = {}
    for path in metadata.namespaces:
        admissions |= parse_namespaces(registry.target(metadata, path) or b"", path)
    listing = parse_listing(registry.target(metadata, LISTING_PATH) or b"", LISTING_PATH)
    skills: dict[str, tuple[Release, ...]] = {}
    for publisher in admissions:
        data = registry.target(metadata, index_path(publisher))
        if data is not None:
            for release in parse_releases(data, index_path(publisher))[1]:
                described = listing.skills.get(release.name)
                text = described[0].description if described else ""
                skills[release.name] = (*skills.get(release.name, ()), replace(release, description=text))
    return Shelf(admissions, skills)


def _is_new(submission: Submission, shelf: Shelf) -> bool:
    """Say whether this version is new; if it is there, it must be there with this content."""
    release = submission.release
    for owner, admission in shelf.admissions.items():
        if owner != release.publisher and release.name in admission.names:
            raise NameNotOwned(f"the name {quote(release.name)} is {quote(owner)}'s", where=submission.path)
    same = [each for each in shelf.skills.get(release.name, ()) if each.version == release.version]
    if same and same[0].tree != release.tree:
        message = f"{release.name} {release.version} is published already, with other content"
        raise Refused(message, where=submission.path, hint="raise metadata.version; what is published stays")
    return not same


def _with(shelf: Shelf, release: Release) -> Shelf:
    publisher, name = release.publisher or "", release.name
    admission = shelf.admissions[publisher]
    claimed = replace(admission, names=admission.names | {name})
    releases = newest_first((*shelf.skills.get(name, ()), release))
    return Shelf({**shelf.admissions, publisher: claimed}, {**shelf.skills, name: releases})


def _site(metadata: MetadataSet, targets: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the signed part of the site in the order in which it may appear."""
    found = ((metadata.find(path), data) for path, data in targets.items())
    files = {f"targets/{target.get_prefixed_paths()[0]}": data for target, data in found if target}
    return {**files, **metadata.files()}
