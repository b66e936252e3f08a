"""Registry metadata as documents: founding, signing, key rotation, and the bundle for new clients."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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

from skillhub.errors import BadMetadataSignature, FormatError, Refused
from skillhub.model.discovery import Pinned
from skillhub.model.index import ADVISORIES, publisher_path
from skillhub.trust.keys import PrivateKey, PublicKey
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

# Signing and verifying one document of a registry's metadata, by TUF's rules of keys and thresholds.

# Returns the available private keys of a role; called only for roles whose documents are signed.
Keys = Callable[[str], Sequence[PrivateKey]]


def public_key(key: PublicKey) -> SSlibKey:
    """Return the key as metadata lists it."""
    return SSlibKey.from_crypto(load_pem_public_key(key.pem))


def keyid(key: PublicKey) -> str:
    """Return TUF's name for the key."""
    found: str = public_key(key).keyid
    return found


def sign(role: str, document: Signed, delegators: Sequence[Any], keys: Keys) -> bytes:
    """Return the document of ``role``, signed by just as many keys as each of ``delegators`` asks for.

    Args:
        role: The role.
        document: What it says.
        delegators: The metadata that delegates to the role, or, for a root, that root and the one before.
        keys: The available keys; irrelevant ones are ignored.

    Raises:
        Refused: too few of the right keys are at hand.
    """
    metadata: Metadata[Any] = Metadata(document)
    data = metadata.signed_bytes
    at_hand = {keyid(key.public): key for key in keys(role if role in ROLES else RELEASES)}
    for delegator in delegators:
        rule = delegator.get_delegated_role(role)
        able = [name for name in at_hand if name in rule.keyids]
        if len(able) < rule.threshold:
            raise _too_few(role, rule.threshold, len(able))
        for name in able[: rule.threshold]:
            metadata.signatures[name] = Signature(name, at_hand[name].sign(data).hex())
    return metadata.to_bytes()


def verify(role: str, data: bytes, delegator: Any) -> None:  # noqa: ANN401 - root or targets: both delegate
    """Return if the document of ``role`` is signed as ``delegator``, the metadata that delegates to it, asks.

    Raises:
        BadMetadataSignature: too few of the right keys have signed it.
        FormatError: it is no metadata.
    """
    try:
        metadata: Metadata[Any] = Metadata.from_bytes(data)
    except RepositoryError as error:
        raise FormatError("expected TUF metadata", where=role) from error
    try:
        delegator.verify_delegate(role, metadata.signed_bytes, metadata.signatures)
    except (RepositoryError, ValueError) as error:
        raise BadMetadataSignature("too few of the right keys have signed it", where=role) from error


def _too_few(role: str, expected: int, found: int) -> Refused:
    kind = "online" if rule_of(role).online else "offline"
    return Refused(
        f"the role {role} needs the signatures of {expected} keys, found {found}",
        hint=f"bring the {kind} keys of the registry, and their passphrase",
    )


# What the documents of a new registry say, role by role: which keys count for what, and nothing offered yet.


def founding(keys: Keys, bin_bits: int) -> dict[str, Signed]:
    """Return the first documents of a registry, by role, unsigned.

    Args:
        keys: All keys of every role; none of ``log``, if the registry is to have no log.
        bin_bits: The releases are spread over two to the power of this many documents, 1 to 32.
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


def _root(keys: Keys) -> Root:
    root = Root(consistent_snapshot=True)
    for role in (ROOT, TARGETS, SNAPSHOT, TIMESTAMP):
        for key in keys(role):
            root.add_key(public_key(key.public), role)
        root.roles[role].threshold = ROLES[role].threshold
    return root


def _delegations(keys: Keys) -> Delegations:
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


# The documents that every new client wants, whatever it installs, in one file: four round trips for one.
# A transport and nothing more. A client takes a document out of it where it would have fetched that very one,
# by its name and version, and verifies it all the same; one that is stale or not there is fetched on its own.

AHEAD_PATH = "metadata/ahead.txt"
_WANTED = tuple(f".{role}.json" for role in (SNAPSHOT, TARGETS, NAMESPACES, RELEASES, LOG))


def is_ahead(name: str) -> bool:
    """Return whether a document of that name may be among those that are packed."""
    return name.endswith(_WANTED)


def ahead(files: Mapping[str, bytes]) -> bytes:
    """Return the file made of a registry's newest metadata, given by path: for each a line of name and document."""
    rows = {path.rpartition("/")[2]: data for path, data in files.items() if is_ahead(path)}
    return b"".join(b"%s %s\n" % (name.encode(), data) for name, data in rows.items() if b"\n" not in data)


def read_ahead(data: bytes) -> Mapping[str, bytes]:
    """Return the documents by name. Bytes that are something else hold nothing that is asked for.

    Roots and the timestamp are always fetched, since they name the newest versions.
    """
    rows = (line.partition(b" ") for line in data.split(b"\n"))
    found = {name.decode("latin-1"): document for name, _, document in rows}
    return MappingProxyType({name: data for name, data in found.items() if is_ahead(name)})


# Building a registry's metadata: pure, and byte for byte the same for the same keys, targets and dates.

_Kind = TypeVar("_Kind", bound=Signed)


def publisher_target(publisher: str, pinned: Pinned) -> TargetFile:
    """Return the document of a publisher as a target file, to be named and verified like every other."""
    return pinned_target(publisher_path(publisher), pinned)


def pinned_target(path: str, pinned: Pinned) -> TargetFile:
    """Return a file that a signed document pins as a target file."""
    return TargetFile(pinned.size, {"sha256": pinned.digest.hex}, path)


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

    def revise(self, targets: Mapping[str, bytes | None], keys: Keys, dates: Dates) -> MetadataSet:
        """Return the next state, in which these targets have this content, or are none; this one if that is so now.

        Raises:
            Refused: too few keys are at hand of a role whose targets change.
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

    def renewed(self, roles: Collection[str], keys: Keys, dates: Dates) -> MetadataSet:
        """Return the next state, with the same content for these roles, signed and dated again.

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
            role: TIMESTAMP if role == TIMESTAMP else f"{self.read(role).version}.{role}" for role in self.documents
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
        if role not in self.documents:
            return ()  # a log that was not announced
        delegator: Any = self.read(delegator_of(role))
        return tuple(delegator.get_delegated_role(role).keyids)

    def holds(self, path: str, data: bytes) -> bool:
        """Return whether target ``path`` has this content."""
        target = self.find(path)
        return target is not None and target.hashes == TargetFile.from_data(path, data, ["sha256"]).hashes

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The paths of the targets that say who may publish what."""
        return tuple(sorted(self.signed(NAMESPACES, Targets).targets))

    def find(self, path: str) -> TargetFile | None:
        """Return the signed entry of target ``path``, or None."""
        return self._targets(self.role_of(path)).targets.get(path)

    def role_of(self, path: str) -> str:
        """Return the role that signs target ``path``.

        Raises:
            FormatError: none does.
        """
        role = TARGETS
        while (path, role) != (ADVISORIES, RELEASES) and (delegations := self._targets(role).delegations):
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


# New keys for a role, in steps: a registry is valid after each of them, and so may stop there.


@dataclass(frozen=True, slots=True)
class Rotation:
    """A change of keys.

    Attributes:
        role: Whose.
        gone: The keys that count no longer, by TUF's name for a key.
        new: Those that do from now on.
    """

    role: str
    gone: frozenset[str]
    new: tuple[PublicKey, ...]


def states(before: MetadataSet, rotation: Rotation, keys: Keys, dates: Dates) -> Iterator[MetadataSet]:
    """Yield the states after ``before``; each must be published before the next one is asked for.

    A root counts for clients from the moment that it is there, so what it delegates to cannot change with it:
    one root believes old and new keys, then the new ones sign, then another root forgets the old ones.

    Args:
        before: The state now.
        rotation: The change.
        keys: The available keys, including the new ones.
        dates: When.

    Raises:
        Refused: too few keys are at hand, of the role, or of the one that says which keys count for it.
    """

    def lasting(role: str) -> Sequence[PrivateKey]:
        found = keys(role)
        return [key for key in found if role != rotation.role or keyid(key.public) not in rotation.gone]

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
    _exchange(root, rotation, gone)
    return root


def _delegated(before: MetadataSet, rotation: Rotation) -> dict[str, Signed]:
    """Return the documents that say which keys count for a role below targets, and those that it signs."""
    targets = before.signed(TARGETS, Targets)
    if rotation.role not in before.documents and targets.delegations and targets.delegations.roles is not None:
        targets.delegations.roles[rotation.role] = _delegated_role(rotation.role, [])
    _exchange(targets, rotation, rotation.gone)
    document = before.signed(rotation.role, Targets) if rotation.role in before.documents else Targets()
    found: dict[str, Signed] = {TARGETS: targets, rotation.role: document}
    if rotation.role == RELEASES:
        _exchange(document, rotation, rotation.gone)
        found |= {role: before.read(role) for role in before.documents if role.startswith(f"{RELEASES}-")}
    return found


def _exchange(delegator: Root | Targets, rotation: Rotation, gone: frozenset[str]) -> None:
    for key in rotation.new:
        delegator.add_key(public_key(key), rotation.role)
    for name in gone:
        delegator.revoke_key(name, rotation.role)
