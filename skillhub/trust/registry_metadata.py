"""The TUF metadata of a registry as documents: creation, signing, key rotation, and the metadata bundle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.signer import Signature, SSlibKey  # type: ignore[attr-defined]
from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import (  # type: ignore[attr-defined]
    DelegatedRole,
    Delegations,
    Key,
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
from tuf.api.serialization import DeserializationError

from skillhub.errors import BadMetadata, BadMetadataSignature, FormatError, Refused, UsageError
from skillhub.formats.text import amount, as_command
from skillhub.model.discovery import Pinned
from skillhub.model.index import ADVISORIES, publisher_path
from skillhub.trust.keys import PrivateKey, PublicKey, takes_long
from skillhub.trust.roles import (
    LISTING,
    LOG,
    NAMESPACES,
    RELEASES,
    ROLES,
    ROOT,
    SNAPSHOT,
    TARGETS,
    TIMESTAMP,
    delegator_of,
    rule_of,
)

# Signing and verifying one document of a registry's metadata, by TUF's rules for keys and thresholds.

# Returns the available private keys of a role; called only for roles whose documents are signed.
RoleKeys = Callable[[str], Sequence[PrivateKey]]


def public_key(key: PublicKey) -> SSlibKey:
    """Return the key in the form of the metadata."""
    return SSlibKey.from_crypto(load_pem_public_key(key.pem))


def keyid(key: PublicKey) -> str:
    """Return TUF's name for the key."""
    key_id: str = public_key(key).keyid
    return key_id


def sign(role: str, document: Signed, delegators: Sequence[Any], keys: RoleKeys) -> bytes:
    """Return the document of ``role``, signed by exactly as many keys as the threshold of each of ``delegators``.

    Args:
        role: The role.
        document: The content of the document.
        delegators: The metadata that delegates to the role, or, for a root, that root and the one before.
        keys: The available keys; irrelevant ones are ignored.

    Raises:
        Refused: fewer keys of the role are available than the threshold.
    """
    metadata: Metadata[Any] = Metadata(document)
    data = metadata.signed_bytes
    keys_by_id = {keyid(key.public): key for key in keys(role if role in ROLES else RELEASES)}
    for delegator in delegators:
        rule = delegator.get_delegated_role(role)
        authorized = [name for name in keys_by_id if name in rule.keyids]
        if len(authorized) < rule.threshold:
            raise _too_few(role, rule.threshold, len(authorized))
        for name in authorized[: rule.threshold]:
            metadata.signatures[name] = Signature(name, keys_by_id[name].sign(data).hex())
    return metadata.to_bytes()


def verify(role: str, data: bytes, delegator: Any) -> int:  # noqa: ANN401 - root or targets: both delegate
    """Return the version of the document of ``role``, if it is signed as the metadata that delegates to it requires.

    Raises:
        BadMetadataSignature: fewer keys of the role have signed it than the threshold.
        FormatError: the document is no metadata.
    """
    try:
        metadata: Metadata[Any] = Metadata.from_bytes(data)
    except RepositoryError as error:
        raise FormatError("expected TUF metadata", where=f"{role}.json") from error
    try:
        delegator.verify_delegate(role, metadata.signed_bytes, metadata.signatures)
    except (RepositoryError, ValueError) as error:
        raise BadMetadataSignature("too few of the right keys have signed it", where=f"{role}.json") from error
    return int(metadata.signed.version)


def refuse_other_keys(data: bytes, where: str) -> None:
    """Refuse a document with a key of another kind than Ed25519, ECDSA and RSA: to read it may take minutes.

    Raises:
        BadMetadata: it has such a key.
    """
    if b"BEGIN" not in data and b"\\u" not in data:
        return  # no text in PEM, which a large document need not be parsed for
    try:
        signed = Metadata.from_bytes(data).signed
    except DeserializationError:
        return  # it is no metadata, and nobody reads its keys
    keys = signed if isinstance(signed, Root) else getattr(signed, "delegations", None)
    if keys and any(takes_long(str(key.keyval.get("public")).encode()) for key in keys.keys.values()):
        raise BadMetadata("expected keys of Ed25519, ECDSA or RSA, found one of another kind", where=where)


def _too_few(role: str, expected: int, actual: int) -> Refused:
    hint = "bring the offline keys of the registry (--keys DIR names their folder), and their passphrase"
    if rule_of(role).online:
        anew = as_command("skillhub", "registry", "rotate", "DIR", RELEASES if role.startswith(RELEASES) else role)
        hint = f"bring the online keys of the registry, and their passphrase; if they are lost: {anew}"
    return Refused(f"the role {role} needs signatures of {amount(expected, 'key')}, found {actual}", hint=hint)


# The first documents of a registry: the keys of each role, and no releases.


def founding(keys: RoleKeys, bin_bits: int) -> dict[str, Signed]:
    """Return the first documents of a registry, by role, unsigned.

    Args:
        keys: All keys of every role; none for ``log`` creates a registry without a log.
        bin_bits: The number of documents that the releases are spread over, as a power of two, 1 to 32.
    """
    public = [public_key(key.public) for key in keys(RELEASES)]
    bins = SuccinctRoles([key.keyid for key in public], ROLES[RELEASES].threshold, bin_bits, RELEASES)
    binned = Delegations({key.keyid: key for key in public}, succinct_roles=bins)
    return {
        ROOT: _root(keys),
        TARGETS: Targets(delegations=_delegations(keys)),
        NAMESPACES: Targets(),
        RELEASES: Targets(delegations=binned),
        LISTING: Targets(),
        **({LOG: Targets()} if keys(LOG) else {}),
        **{role: Targets() for role in bins.get_roles()},
        SNAPSHOT: Snapshot(meta={}),
        TIMESTAMP: Timestamp(),
    }


def _root(keys: RoleKeys) -> Root:
    root = Root(consistent_snapshot=True)
    for role in (ROOT, TARGETS, SNAPSHOT, TIMESTAMP):
        for key in keys(role):
            root.add_key(public_key(key.public), role)
        root.roles[role].threshold = ROLES[role].threshold
    return root


def _delegations(keys: RoleKeys) -> Delegations:
    known: dict[str, Key] = {}
    roles = {}
    for role in (NAMESPACES, RELEASES, LISTING, LOG):
        public = [public_key(key.public) for key in keys(role)]
        known |= {key.keyid: key for key in public}
        if public:
            roles[role] = _delegated_role(role, [key.keyid for key in public])
    return Delegations(known, roles)


def _delegated_role(role: str, keyids: list[str]) -> DelegatedRole:
    rule = ROLES[role]
    return DelegatedRole(role, keyids, rule.threshold, terminating=True, paths=list(rule.paths))


# The metadata bundle: the documents that every new client needs, in one file, which saves four round trips.
# It is only a transport: a client reads the document that it would otherwise fetch, by name and version, and verifies
# it as usual. A document that is missing from the bundle, or has another version there, is fetched by itself.

METADATA_BUNDLE_PATH = "metadata/ahead.txt"
_WANTED = tuple(f".{role}.json" for role in (SNAPSHOT, TARGETS, NAMESPACES, RELEASES, LOG))


def is_in_metadata_bundle(name: str) -> bool:
    """Return whether a document with this name belongs in the metadata bundle."""
    return name.endswith(_WANTED)


def metadata_bundle(files: Mapping[str, bytes]) -> bytes:
    """Return the bundle of a registry's newest metadata, ``files`` by path: a line with name and document each."""
    rows = {path.rpartition("/")[2]: data for path, data in files.items() if is_in_metadata_bundle(path)}
    return b"".join(b"%s %s\n" % (name.encode(), data) for name, data in rows.items() if b"\n" not in data)


def read_metadata_bundle(data: bytes) -> Mapping[str, bytes]:
    """Return the documents of a metadata bundle by name; other bytes have no document with a requested name.

    Roots and the timestamp are never in it, since they name the newest versions.
    """
    rows = (line.partition(b" ") for line in data.split(b"\n"))
    documents = {name.decode("latin-1"): document for name, _, document in rows}
    return MappingProxyType({name: data for name, data in documents.items() if is_in_metadata_bundle(name)})


# Building a registry's metadata: pure functions, with equal bytes for equal keys, targets and dates.

_Kind = TypeVar("_Kind", bound=Signed)


def publisher_target(publisher: str, pinned: Pinned) -> TargetFile:
    """Return the document of a publisher as a target file, so that it is named and verified like a target."""
    return pinned_target(publisher_path(publisher), pinned)


def pinned_target(path: str, pinned: Pinned) -> TargetFile:
    """Return a file that a signed document pins as a target file."""
    return TargetFile(pinned.size, {"sha256": pinned.digest.hex}, path)


def path_of(target: TargetFile) -> str:
    """Return the path of a target file below the site; its name has its digest, so that the file never changes."""
    return f"targets/{target.get_prefixed_paths()[0]}"


@dataclass(frozen=True, slots=True)
class Dates:
    """The time of signing, and the days until expiry: ``days``, or those in the rule of the role."""

    now: datetime
    days: int | None = None

    def expires(self, role: str) -> datetime:
        """Return the time at which metadata of ``role`` expires that is signed now.

        Raises:
            UsageError: the time is later than any date.
        """
        days = self.days or rule_of(role).days
        try:
            return self.now.replace(microsecond=0) + timedelta(days=days)
        except OverflowError as error:
            raise UsageError(f"expected dates before the year 10000, found {days} days after {self.now}") from error


@dataclass(frozen=True, slots=True)
class MetadataSet:
    """All metadata of one state of a registry: for each role the bytes of its newest document."""

    documents: Mapping[str, bytes]
    _parsed: dict[str, Signed] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def create(cls, keys: RoleKeys, bin_bits: int, dates: Dates) -> MetadataSet:
        """Return the metadata of a new registry that offers nothing.

        Args:
            keys: All keys of every role.
            bin_bits: The number of documents that the releases are spread over, as a power of two, 1 to 32.
            dates: The time of signing.

        Raises:
            Refused: a role has fewer keys than its threshold.
        """
        return cls(MappingProxyType({})).changed(founding(keys, bin_bits), keys, dates)

    @classmethod
    def load(cls, documents: Mapping[str, bytes]) -> MetadataSet:
        """Return the set of these documents, by role.

        Raises:
            FormatError: a document is no metadata.
        """
        metadata = cls(MappingProxyType(dict(documents)))
        for role in documents:
            metadata.read(role)
        return metadata

    def verify(self) -> Mapping[str, int]:
        """Return the version of every document, if each has the signatures that its role requires; not its expiry.

        Raises:
            BadMetadataSignature: a document lacks signatures.
            FormatError: a document is no metadata, or a role is missing.
        """
        return _versions(tuple(self.documents.items()))

    def revise(self, targets: Mapping[str, bytes | None], keys: RoleKeys, dates: Dates) -> MetadataSet:
        """Return the next state, with this content of these targets, None for a removed one; or an unchanged one.

        Raises:
            Refused: too few keys are available for a role whose targets change.
        """
        changed: dict[str, Targets] = {}
        for path, data in targets.items():
            if self.find(path) is None if data is None else self.holds(path, data):
                continue
            role = self.role_of(path)
            if role not in changed:
                changed[role] = self.signed(role, Targets)
            if data is None:
                del changed[role].targets[path]
            else:
                changed[role].targets[path] = TargetFile.from_data(path, data, ["sha256"])
        return self.changed(changed, keys, dates)

    def renewed(self, roles: Collection[str], keys: RoleKeys, dates: Dates) -> MetadataSet:
        """Return the next state, with the documents of these roles signed and dated again.

        Raises:
            Refused: too few keys of a role are available.
        """
        return self.changed({role: self.read(role) for role in roles}, keys, dates)

    def changed(self, documents: Mapping[str, Signed], keys: RoleKeys, dates: Dates) -> MetadataSet:
        """Return the next state, with these new documents; this state if there are none.

        The snapshot and the timestamp, which name them, are signed anew. A new root is signed by the keys of the old
        one as well (TUF, 6.1).

        Args:
            documents: The new documents by role; version and date are set here.
            keys: The available keys.
            dates: The time of signing.

        Raises:
            Refused: too few keys of a role are available.
        """
        if not documents:
            return self
        signer = _Signer(self, dict(documents), keys, dates)
        listed = [role for role in documents if role not in (ROOT, SNAPSHOT, TIMESTAMP)]
        for role in (ROOT, *listed) if ROOT in documents else listed:
            signer.sign(role)
        if listed or SNAPSHOT in documents:
            snapshot = signer.take(SNAPSHOT, Snapshot)
            snapshot.meta |= {f"{role}.json": MetaFile(signer.take(role, Targets).version) for role in listed}
            signer.sign(SNAPSHOT)
            meta = MetaFile.from_data(snapshot.version, signer.signed[SNAPSHOT], ["sha256"])
            signer.take(TIMESTAMP, Timestamp).snapshot_meta = meta
        if TIMESTAMP in signer.documents:
            signer.sign(TIMESTAMP)
        return MetadataSet(MappingProxyType({**self.documents, **signer.signed}))

    def files(self) -> Mapping[str, bytes]:
        """Return the documents by path below the site, in the order in which they have to be published.

        Immutable documents come first, then the timestamp, and a root last: clients use a root as soon as it is
        there, and need all documents that it requires.
        """
        names = {
            role: TIMESTAMP if role == TIMESTAMP else f"{self.read(role).version}.{role}" for role in self.documents
        }
        last = [role for role in (SNAPSHOT, TIMESTAMP, ROOT) if role in names]
        order = [role for role in names if role not in last] + last
        files = {f"metadata/{names[role]}.json": self.documents[role] for role in order}
        return {METADATA_BUNDLE_PATH: metadata_bundle(files), **files}

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
        """Return the time at which the newest document of ``role`` expires."""
        when: datetime = self.read(role).expires
        return when

    def is_outlived(self, before: MetadataSet, now: datetime) -> bool:
        """Return whether this state, signed now, would have expired already when the state before it was signed."""
        expires = self.expires(TIMESTAMP)
        return expires + (expires - now) <= before.expires(TIMESTAMP)

    def keyids(self, role: str) -> tuple[str, ...]:
        """Return the keys of ``role``, by TUF's name for a key."""
        if role not in self.documents:
            return ()  # a registry without a log
        delegator: Any = self.read(delegator_of(role))
        return tuple(delegator.get_delegated_role(role).keyids)

    def holds(self, path: str, data: bytes) -> bool:
        """Return whether target ``path`` has this content."""
        target = self.find(path)
        return target is not None and target.hashes == TargetFile.from_data(path, data, ["sha256"]).hashes

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The paths of the targets that assign names to publishers."""
        return tuple(sorted(self.signed(NAMESPACES, Targets).targets))

    def find(self, path: str) -> TargetFile | None:
        """Return the signed entry of target ``path``, or None."""
        return self._targets(self.role_of(path)).targets.get(path)

    def role_of(self, path: str) -> str:
        """Return the role that signs target ``path``.

        Raises:
            FormatError: no role signs it.
        """
        role = TARGETS
        while (path, role) != (ADVISORIES, RELEASES) and (delegations := self._targets(role).delegations):
            role = next((name for name, _ in delegations.get_roles_for_target(path)), "")
            if not role:
                raise FormatError(f"no role of the registry signs {path}")
        return role

    def _targets(self, role: str) -> Targets:
        """Return the document of ``role``, which must not be changed; cached, since it may have many targets."""
        targets = self._parsed.get(role)
        if not isinstance(targets, Targets):
            targets = self._parsed[role] = self.signed(role, Targets)
        return targets

    def read(self, role: str) -> Signed:
        """Return a copy of the content of the newest document of ``role``.

        Raises:
            FormatError: the document is missing, or is no metadata.
        """
        try:
            metadata: Metadata[Any] = Metadata.from_bytes(self.documents[role])
        except (RepositoryError, KeyError) as error:
            raise FormatError("expected TUF metadata", where=f"{role}.json") from error
        signed: Signed = metadata.signed
        return signed

    def signed(self, role: str, kind: type[_Kind]) -> _Kind:
        """Return the result of ``read``, which must be of the given kind.

        Raises:
            FormatError: the document is of another kind.
        """
        return _of_kind(self.read(role), kind, role)


@dataclass(slots=True)
class _Signer:
    """The documents of the state after ``before``, which are signed one by one."""

    before: MetadataSet
    documents: dict[str, Signed]
    keys: RoleKeys
    dates: Dates
    signed: dict[str, bytes] = field(default_factory=dict)

    def take(self, role: str, kind: type[_Kind]) -> _Kind:
        """Return the document of ``role``, to be changed by the caller."""
        if role not in self.documents:
            self.documents[role] = self.before.read(role)
        return _of_kind(self.documents[role], kind, role)

    def sign(self, role: str) -> None:
        document, delegator = self.documents[role], delegator_of(role)
        document.version += role in self.before.documents
        document.expires = self.dates.expires(role)
        after = self.documents.get(delegator) or self.before.read(delegator)
        delegators = [after]
        if role == ROOT and ROOT in self.before.documents:
            delegators.append(self.before.read(ROOT))
        self.signed[role] = sign(role, document, delegators, self.keys)


@lru_cache(maxsize=2)  # each step of a command verifies the state that the step before left
def _versions(documents: tuple[tuple[str, bytes], ...]) -> Mapping[str, int]:
    delegator = cache(MetadataSet(dict(documents)).read)  # releases has many roles
    return MappingProxyType({role: verify(role, data, delegator(delegator_of(role))) for role, data in documents})


def _of_kind(document: Signed, kind: type[_Kind], role: str) -> _Kind:
    if not isinstance(document, kind):
        raise FormatError(f"expected metadata of the kind {kind.__name__.lower()}", where=role)
    return document


# New keys for a role, in steps. The registry is valid after each step, so that an interrupted rotation is harmless.


@dataclass(frozen=True, slots=True)
class Rotation:
    """A change of the keys of a role.

    Attributes:
        role: The role.
        gone: The removed keys, by TUF's name for a key.
        new: The added keys.
    """

    role: str
    gone: frozenset[str]
    new: tuple[PublicKey, ...]


def states(before: MetadataSet, rotation: Rotation, keys: RoleKeys, dates: Dates) -> Iterator[MetadataSet]:
    """Yield the states after ``before``; the caller must publish each one before it takes the next.

    Clients use a root as soon as it is there, so that the documents of its roles cannot change with it. The first
    new root lists old and new keys, then the new keys sign, then the second new root removes the old keys.

    Args:
        before: The present state.
        rotation: The change.
        keys: The available keys, including the new ones.
        dates: The time of signing.

    Raises:
        Refused: too few keys are available, of the role, or of the role that delegates to it.
    """

    def lasting(role: str) -> Sequence[PrivateKey]:
        role_keys = keys(role)
        return [key for key in role_keys if role != rotation.role or keyid(key.public) not in rotation.gone]

    if rotation.role == ROOT:
        yield before.changed({ROOT: _rotated_root(before, rotation, rotation.gone)}, keys, dates)
    elif delegator_of(rotation.role) == ROOT:
        if not {keyid(key) for key in rotation.new} <= set(before.keyids(rotation.role)):
            before = before.changed({ROOT: _rotated_root(before, rotation, frozenset())}, keys, dates)
            yield before
        signed = before.renewed([rotation.role], lasting, dates)
        yield signed
        yield signed.changed({ROOT: _rotated_root(signed, rotation, rotation.gone)}, keys, dates)
    else:
        yield before.changed(_delegated(before, rotation), lasting, dates)


def _rotated_root(before: MetadataSet, rotation: Rotation, gone: frozenset[str]) -> Root:
    root = before.signed(ROOT, Root)
    _exchange_keys(root, rotation, gone)
    return root


def _delegated(before: MetadataSet, rotation: Rotation) -> dict[str, Signed]:
    """Return the documents that list the keys of a role below targets, and those that it signs, after a rotation."""
    targets = before.signed(TARGETS, Targets)
    if rotation.role not in before.documents and targets.delegations and targets.delegations.roles is not None:
        targets.delegations.roles[rotation.role] = _delegated_role(rotation.role, [])
    _exchange_keys(targets, rotation, rotation.gone)
    document = before.signed(rotation.role, Targets) if rotation.role in before.documents else Targets()
    documents: dict[str, Signed] = {TARGETS: targets, rotation.role: document}
    if rotation.role == RELEASES:
        _exchange_keys(document, rotation, rotation.gone)
        documents |= {role: before.read(role) for role in before.documents if role.startswith(f"{RELEASES}-")}
    return documents


def _exchange_keys(delegator: Root | Targets, rotation: Rotation, gone: frozenset[str]) -> None:
    for key in rotation.new:
        delegator.add_key(public_key(key), rotation.role)
    for name in gone:
        delegator.revoke_key(name, rotation.role)
