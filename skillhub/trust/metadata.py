"""Building a registry's metadata: pure, and byte for byte the same for the same keys, targets and dates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeVar

from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import (  # type: ignore[attr-defined]
    Metadata,
    MetaFile,
    Signed,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)

from skillhub.errors import FormatError
from skillhub.model.index import Pinned
from skillhub.trust.ahead import AHEAD_PATH, ahead
from skillhub.trust.founding import founding
from skillhub.trust.roles import (
    NAMESPACES,
    ROOT,
    SNAPSHOT,
    TARGETS,
    TIMESTAMP,
    delegator_of,
    publisher_path,
    rule_of,
)
from skillhub.trust.signing import Keys, sign, verify

_Kind = TypeVar("_Kind", bound=Signed)


def publisher_target(publisher: str, pinned: Pinned) -> TargetFile:
    """Return the document of a publisher as what is named and verified like every other target file."""
    return TargetFile(pinned.size, {"sha256": pinned.digest.hex}, publisher_path(publisher))


def path_of(target: TargetFile) -> str:
    """Return where a target file is served, below the site: its name has its digest, so that it never changes."""
    return f"targets/{target.get_prefixed_paths()[0]}"


@dataclass(frozen=True, slots=True)
class Dates:
    """When something is signed, and how long it holds: ``days``, or what the rule of its role says."""

    now: datetime
    days: int | None = None

    def expires(self, role: str) -> datetime:
        """Return when metadata of ``role`` that is signed now expires."""
        return self.now.replace(microsecond=0) + timedelta(days=self.days or rule_of(role).days)


@dataclass(frozen=True, slots=True)
class MetadataSet:
    """All metadata of one state of a registry: for each role the bytes of its newest document."""

    documents: Mapping[str, bytes]
    _parsed: dict[str, Signed] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def create(cls, keys: Keys, bin_bits: int, dates: Dates) -> MetadataSet:
        """Return the metadata of a new registry that offers nothing.

        Args:
            keys: All keys of every role.
            bin_bits: The releases are spread over two to the power of this many documents, 1 to 32.
            dates: When.

        Raises:
            Refused: a role has fewer keys than its threshold.
        """
        return cls(MappingProxyType({})).changed(founding(keys, bin_bits), keys, dates)

    @classmethod
    def load(cls, documents: Mapping[str, bytes]) -> MetadataSet:
        """Return the set that these documents are, by role.

        Raises:
            FormatError: one of them is no metadata.
        """
        found = cls(MappingProxyType(dict(documents)))
        for role in documents:
            found.read(role)
        return found

    def verify(self) -> None:
        """Return if every document is signed as its role wants it; its date is not looked at.

        Raises:
            BadMetadataSignature: one is not.
            FormatError: one is no metadata, or a role is missing.
        """
        for role, data in self.documents.items():
            verify(role, data, self.read(delegator_of(role)))

    def revise(self, targets: Mapping[str, bytes], keys: Keys, dates: Dates) -> MetadataSet:
        """Return the next state, in which these targets have this content; this one if they have it now.

        Raises:
            Refused: too few keys are at hand of a role whose targets change.
        """
        changed: dict[str, Targets] = {}
        for path, data in targets.items():
            if self.holds(path, data):
                continue
            role = self.role_of(path)
            if role not in changed:
                changed[role] = self.signed(role, Targets)
            changed[role].targets[path] = TargetFile.from_data(path, data, ["sha256"])
        return self.changed(changed, keys, dates)

    def renewed(self, roles: Collection[str], keys: Keys, dates: Dates) -> MetadataSet:
        """Return the next state, in which these roles say what they said, signed and dated anew.

        Raises:
            Refused: too few keys of one of them are at hand.
        """
        return self.changed({role: self.read(role) for role in roles}, keys, dates)

    def changed(self, documents: Mapping[str, Signed], keys: Keys, dates: Dates) -> MetadataSet:
        """Return the next state, in which these roles say this; this state if there are none.

        What names them is signed anew with them: the snapshot, and the timestamp. A new root is signed by those
        that the old one names as well (TUF, 6.1).

        Args:
            documents: By role, as they are to be but for version and date.
            keys: The keys at hand.
            dates: When.

        Raises:
            Refused: too few keys of a role are at hand.
        """
        if not documents:
            return self
        made = _Signer(self, dict(documents), keys, dates)
        listed = [role for role in documents if role not in (ROOT, SNAPSHOT, TIMESTAMP)]
        for role in (ROOT, *listed) if ROOT in documents else listed:
            made.sign(role)
        if listed or SNAPSHOT in documents:
            snapshot = made.take(SNAPSHOT, Snapshot)
            snapshot.meta |= {f"{role}.json": MetaFile(made.take(role, Targets).version) for role in listed}
            made.sign(SNAPSHOT)
            meta = MetaFile.from_data(snapshot.version, made.signed[SNAPSHOT], ["sha256"])
            made.take(TIMESTAMP, Timestamp).snapshot_meta = meta
        if TIMESTAMP in made.documents:
            made.sign(TIMESTAMP)
        return MetadataSet(MappingProxyType({**self.documents, **made.signed}))

    def files(self) -> Mapping[str, bytes]:
        """Return the documents by path below the site, in the order in which they may appear.

        What is immutable comes first, then the timestamp; a root counts from the moment that it is there, so
        it comes when all that it asks for is.
        """
        names = {
            role: TIMESTAMP if role == TIMESTAMP else f"{self.read(role).version}.{role}"
            for role in self.documents
        }
        last = [role for role in (SNAPSHOT, TIMESTAMP, ROOT) if role in names]
        order = [role for role in names if role not in last] + last
        found = {f"metadata/{names[role]}.json": self.documents[role] for role in order}
        return {AHEAD_PATH: ahead(found), **found}

    @property
    def snapshot_version(self) -> int:
        """The version of the snapshot that the timestamp names."""
        version: int = self.signed(TIMESTAMP, Timestamp).snapshot_meta.version
        return version

    @property
    def target_versions(self) -> Mapping[str, int]:
        """The versions of the roles that sign targets, as the snapshot names them."""
        meta = self.signed(SNAPSHOT, Snapshot).meta
        return {name.removesuffix(".json"): file.version for name, file in meta.items()}

    def expires(self, role: str) -> datetime:
        """Return when the newest document of ``role`` expires."""
        when: datetime = self.read(role).expires
        return when

    def keyids(self, role: str) -> tuple[str, ...]:
        """Return the keys whose signatures count for ``role``, by TUF's name for a key."""
        delegator: Any = self.read(delegator_of(role))
        return tuple(delegator.get_delegated_role(role).keyids)

    def holds(self, path: str, data: bytes) -> bool:
        """Say whether target ``path`` has this content."""
        target = self.find(path)
        return target is not None and target.hashes == TargetFile.from_data(path, data, ["sha256"]).hashes

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The paths of the targets that say who may publish what."""
        return tuple(sorted(self.signed(NAMESPACES, Targets).targets))

    def find(self, path: str) -> TargetFile | None:
        """Return what is signed of target ``path``, or None."""
        return self._targets(self.role_of(path)).targets.get(path)

    def role_of(self, path: str) -> str:
        """Return the role that signs target ``path``.

        Raises:
            FormatError: none does.
        """
        role = TARGETS
        while delegations := self._targets(role).delegations:
            role = next((name for name, _ in delegations.get_roles_for_target(path)), "")
            if not role:
                raise FormatError(f"no role of the registry signs {path}")
        return role

    def _targets(self, role: str) -> Targets:
        """Return the document of ``role``, to look at and not to change: a thousand targets ask for it."""
        found = self._parsed.get(role)
        if not isinstance(found, Targets):
            found = self._parsed[role] = self.signed(role, Targets)
        return found

    def read(self, role: str) -> Signed:
        """Return a copy of what the newest document of ``role`` says.

        Raises:
            FormatError: there is none, or it is no metadata.
        """
        try:
            metadata: Metadata[Any] = Metadata.from_bytes(self.documents[role])
        except (RepositoryError, KeyError) as error:
            raise FormatError("expected TUF metadata", where=role) from error
        signed: Signed = metadata.signed
        return signed

    def signed(self, role: str, kind: type[_Kind]) -> _Kind:
        """Return what ``read`` does, of the given kind.

        Raises:
            FormatError: it is of another.
        """
        return _as(self.read(role), kind, role)


@dataclass(slots=True)
class _Signer:
    """The documents of the state after ``before``, while they are being signed."""

    before: MetadataSet
    documents: dict[str, Signed]
    keys: Keys
    dates: Dates
    signed: dict[str, bytes] = field(default_factory=dict)

    def take(self, role: str, kind: type[_Kind]) -> _Kind:
        """Return the document of ``role``, which is going to be changed."""
        if role not in self.documents:
            self.documents[role] = self.before.read(role)
        return _as(self.documents[role], kind, role)

    def sign(self, role: str) -> None:
        document, delegator = self.documents[role], delegator_of(role)
        document.version += role in self.before.documents
        document.expires = self.dates.expires(role)
        after = self.documents.get(delegator) or self.before.read(delegator)
        delegators = [after]
        if role == ROOT and ROOT in self.before.documents:
            delegators.append(self.before.read(ROOT))
        self.signed[role] = sign(role, document, delegators, self.keys)


def _as(document: Signed, kind: type[_Kind], role: str) -> _Kind:
    if not isinstance(document, kind):
        raise FormatError(f"expected metadata of the kind {kind.__name__.lower()}", where=role)
    return document
