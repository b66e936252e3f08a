"""Building a registry's metadata: pure, and byte for byte the same for the same keys, targets and dates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeVar

from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.signer import Signature, SSlibKey  # type: ignore[attr-defined]
from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import (  # type: ignore[attr-defined]
    DelegatedRole,
    Delegations,
    Metadata,
    MetaFile,
    Root,
    Signed,
    Snapshot,
    SuccinctRoles,
    TargetFile,
    Targets,
    Timestamp,
)

from skillhub.errors import FormatError, Refused
from skillhub.trust.keys import PrivateKey
from skillhub.trust.roles import (
    LISTING,
    NAMESPACES,
    RELEASES,
    ROLES,
    ROOT,
    SNAPSHOT,
    TARGETS,
    TIMESTAMP,
    rule_of,
)

# The private keys of a role that are at hand; asked only for roles whose documents change.
Keys = Callable[[str], Sequence[PrivateKey]]
_Kind = TypeVar("_Kind", bound=Signed)


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
        public = _public(keys, RELEASES)
        bins = SuccinctRoles([key.keyid for key in public], ROLES[RELEASES].threshold, bin_bits, RELEASES)
        binned = Delegations({key.keyid: key for key in public}, succinct_roles=bins)
        signed: dict[str, Signed] = {
            ROOT: _root(keys, dates),
            TARGETS: Targets(expires=dates.expires(TARGETS), delegations=_delegations(keys)),
            RELEASES: Targets(expires=dates.expires(RELEASES), delegations=binned),
        }
        for role in (NAMESPACES, LISTING, *bins.get_roles()):
            signed[role] = Targets(expires=dates.expires(role))
        documents = {role: _sign(role, document, keys) for role, document in signed.items()}
        meta = {f"{role}.json": MetaFile(1) for role in signed if role != ROOT}
        snapshot = Snapshot(expires=dates.expires(SNAPSHOT), meta=meta)
        return cls(_sealed(documents, snapshot, 1, keys, dates))

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
        if not changed:
            return self
        snapshot, timestamp = self.signed(SNAPSHOT, Snapshot), self.signed(TIMESTAMP, Timestamp)
        documents = dict(self.documents)
        for role, document in changed.items():
            document.version += 1
            document.expires = dates.expires(role)
            documents[role] = _sign(role, document, keys)
            snapshot.meta[f"{role}.json"] = MetaFile(document.version)
        snapshot.version += 1
        snapshot.expires = dates.expires(SNAPSHOT)
        return MetadataSet(_sealed(documents, snapshot, timestamp.version + 1, keys, dates))

    def files(self) -> Mapping[str, bytes]:
        """Return the documents by path below the site, what is immutable first and the timestamp last."""
        names = {
            role: TIMESTAMP if role == TIMESTAMP else f"{self.read(role).version}.{role}"
            for role in self.documents
        }
        last = [role for role in (SNAPSHOT, TIMESTAMP) if role in names]
        order = [role for role in names if role not in last] + last
        return {f"metadata/{names[role]}.json": self.documents[role] for role in order}

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
        found = self.read(role)
        if not isinstance(found, kind):
            raise FormatError(f"expected metadata of the kind {kind.__name__.lower()}", where=role)
        return found


def _public(keys: Keys, role: str) -> list[SSlibKey]:
    return [SSlibKey.from_crypto(load_pem_public_key(key.public.pem)) for key in keys(role)]


def _root(keys: Keys, dates: Dates) -> Root:
    root = Root(expires=dates.expires(ROOT), consistent_snapshot=True)
    for role in (ROOT, TARGETS, SNAPSHOT, TIMESTAMP):
        for key in _public(keys, role):
            root.add_key(key, role)
        root.roles[role].threshold = ROLES[role].threshold
    return root


def _delegations(keys: Keys) -> Delegations:
    known: dict[str, SSlibKey] = {}
    roles = {}
    for role in (NAMESPACES, RELEASES, LISTING):
        rule, public = ROLES[role], _public(keys, role)
        known |= {key.keyid: key for key in public}
        keyids = [key.keyid for key in public]
        roles[role] = DelegatedRole(role, keyids, rule.threshold, terminating=True, paths=list(rule.paths))
    return Delegations(dict(known), roles)


def _sealed(
    documents: Mapping[str, bytes], snapshot: Snapshot, version: int, keys: Keys, dates: Dates
) -> Mapping[str, bytes]:
    sealed = _sign(SNAPSHOT, snapshot, keys)
    meta = MetaFile.from_data(snapshot.version, sealed, ["sha256"])
    timestamp = Timestamp(version=version, expires=dates.expires(TIMESTAMP), snapshot_meta=meta)
    last = {SNAPSHOT: sealed, TIMESTAMP: _sign(TIMESTAMP, timestamp, keys)}
    return MappingProxyType({**documents, **last})


def _sign(role: str, signed: Signed, keys: Keys) -> bytes:
    rule = rule_of(role)
    at_hand = keys(role if role in ROLES else RELEASES)
    if len(at_hand) < rule.threshold:
        kind = "online" if rule.online else "offline"
        raise Refused(
            f"the role {role} takes the signatures of {rule.threshold} keys, found {len(at_hand)}",
            hint=f"bring the {kind} keys of the registry, and their passphrase",
        )
    metadata: Metadata[Any] = Metadata(signed)
    data = metadata.signed_bytes
    for key in at_hand[: rule.threshold]:
        keyid = SSlibKey.from_crypto(load_pem_public_key(key.public.pem)).keyid
        metadata.signatures[keyid] = Signature(keyid, key.sign(data).hex())
    return metadata.to_bytes()
