"""An operator's registry, opened for writing: its metadata verified, its folder locked against other processes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType

from tuf.api.metadata import TargetFile  # type: ignore[attr-defined]

from skillhub.errors import UsageError, WrongBytes
from skillhub.model import time as times
from skillhub.model.index import parse_listing, parse_namespaces, parse_releases
from skillhub.model.release import Index, Release
from skillhub.model.text import quote
from skillhub.trust.metadata import Dates, MetadataSet, path_of, publisher_target
from skillhub.trust.registry import admitted, checked, refuse_shared
from skillhub.trust.registry_documents import (
    LISTING_PATH,
    pinned_documents,
    public_documents,
    signed_documents,
)
from skillhub.trust.roles import NAMESPACES, ROLES, ROOT, TARGETS, index_path
from skillhub.trust.signing import keyid
from skillhub.world.registry_dir import RegistryDir, RegistrySettings
from skillhub.world.registry_keys import RegistryKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """When and with what an operator signs.

    Attributes:
        now: The time, with its zone.
        passphrase: Of the keys, if they have one.
        keys: The folder of the offline keys, if they are not in the registry's own.
        dry_run: Do everything but write.
    """

    now: datetime
    passphrase: bytes | None = field(default=None, repr=False)
    keys: str | None = None
    dry_run: bool = False

    @property
    def time(self) -> str:
        """``now`` as documents have it."""
        return times.spell(self.now)


@dataclass(frozen=True, slots=True)
class Opened:
    """A registry, what its documents say, and what to sign the next ones with."""

    registry: RegistryDir
    settings: RegistrySettings
    metadata: MetadataSet
    keys: RegistryKeys
    signing: Signing

    @property
    def dates(self) -> Dates:
        """When what is signed now expires."""
        return Dates(self.signing.now, self.settings.days)

    def at_hand(self, role: str) -> frozenset[str]:
        """Return the keys that count for a role and whose private halves are here, by TUF's name for a key."""
        return frozenset(keyid(key.public) for key in self.keys.of(role)) & set(self.metadata.keyids(role))

    def publishers(self) -> Mapping[str, TargetFile]:
        """Return what is signed of each publisher's document.

        Raises:
            SecurityError: a document is not what is signed of it.
            StateError: one is gone.
        """
        return {
            publisher: publisher_target(publisher, pinned)
            for path in self.metadata.namespaces
            for publisher, pinned in parse_namespaces(self.signed(path), path).items()
        }

    def index(self) -> Index:
        """Return what the registry offers, read from its documents; descriptions are in the listing alone.

        Raises:
            SecurityError: a document is not what is signed of it.
            StateError: one is gone.
        """
        admissions = {
            publisher: admitted(publisher, self.registry.content(target), target.path)
            for publisher, target in self.publishers().items()
        }
        listing = parse_listing(self.signed(LISTING_PATH), LISTING_PATH)
        skills: dict[str, tuple[Release, ...]] = {}
        for publisher in admissions:
            path = index_path(publisher)
            data = self.registry.target(self.metadata, path)
            for release in parse_releases(data, path)[1] if data else ():
                described = listing.skills.get(release.name)
                text = described[0].description if described else ""
                skills[release.name] = (*skills.get(release.name, ()), replace(release, description=text))
        return Index(skills, admissions)

    def publish(
        self,
        index: Index,
        publishers: Collection[str],
        names: Collection[str],
        archives: Mapping[str, bytes] | None = None,
    ) -> None:
        """Make this what the registry offers, as far as it is about these publishers and skills.

        Raises:
            NameNotOwned: a name would have two publishers.
            Refused: too few keys are at hand of a role whose documents change.
            StateError: the disk refuses.
        """
        refuse_shared(index.admissions.values())
        targets = signed_documents(index, publishers, names)
        revised = self.metadata.revise(targets, self.keys.of, self.dates)
        found = ((revised.find(path), data) for path, data in targets.items())
        signed = {path_of(target): data for target, data in found if target}
        first = {**(archives or {}), **pinned_documents(index, publishers), **signed}
        self.serve(revised, first, public_documents(index, targets, names))

    def serve(
        self,
        state: MetadataSet,
        first: Mapping[str, bytes] = MappingProxyType({}),
        last: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        """Make this the state that is served, unless this is a dry run; other files come first or last.

        Raises:
            StateError: the disk refuses.
        """
        if self.signing.dry_run:
            return
        self.registry.publish({**first, **state.files(), **last})
        versions = {role: state.read(role).version for role in (ROOT, TARGETS, NAMESPACES)}
        if any(state.documents[role] != self.metadata.documents.get(role) for role in versions):
            self.keys.remember(versions)

    def signed(self, path: str) -> bytes:
        """Return the content of a target.

        Raises:
            WrongBytes: there is none of that name.
            SecurityError: it is not what is signed.
            StateError: the file is gone.
        """
        data = self.registry.target(self.metadata, path)
        if data is None:
            raise WrongBytes("expected a target that is signed", where=path)
        return data

    def artifact(self, release: Release) -> bytes:
        """Return the archive of a release.

        Raises:
            WrongBytes: it is another.
            StateError: it is gone.
        """
        return checked(release, self.registry.served(release.url))


def refuse_unknown_role(role: str) -> None:
    """Refuse a role that registries do not have.

    Raises:
        UsageError: there is none of that name.
    """
    if role not in ROLES:
        raise UsageError(f"there is no role {quote(role)}", hint=f"there are: {', '.join(ROLES)}")


@contextmanager
def opened(folder: str, signing: Signing) -> Iterator[Opened]:
    """Open a registry, and keep other processes from changing it meanwhile.

    Raises:
        NotFound: there is none.
        BadMetadata: its site is not what its keys have signed.
        FormatError: a document of it is malformed.
        StateError: one is gone, or another process is at it.
    """
    registry = RegistryDir(folder)
    settings = registry.settings()
    keys = registry.keys(signing.passphrase, signing.keys)
    with registry.locked():
        yield Opened(registry, settings, registry.metadata(keys), keys, signing)
