"""Roles of a registry: who signs what and how many must; and the view of a trusted root for a person."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Annotated

from skillhub.disk import files
from skillhub.formats import text as times
from skillhub.formats.document import ExtensibleDocument, Items, Members, integer

# Which roles a registry has: who signs what, how many must, and for how long it holds.

ROOT, TIMESTAMP, SNAPSHOT, TARGETS = "root", "timestamp", "snapshot", "targets"
NAMESPACES, RELEASES, LISTING, LOG = "namespaces", "releases", "listing", "log"
_CAP = 16 << 20
CEREMONY_DAYS = 30  # Documents of offline keys: warn this long before they expire.
WELL_KNOWN = ".well-known/agent-skills"  # Where Agent Skills Discovery has the public documents.


@dataclass(frozen=True, slots=True)
class Role:
    """The rule of one role.

    Attributes:
        keys: How many keys it is made with.
        threshold: How many of them must sign.
        days: How long what they sign is valid.
        online: Whether the keys lie where releases are made, or are brought out for a ceremony.
        paths: The targets delegated to it, as TUF patterns.
    """

    keys: int
    threshold: int
    days: int
    online: bool
    paths: tuple[str, ...] = ()


# A stolen online key can withhold; it cannot give a name to another publisher nor admit a publisher's key.
ROLES: Mapping[str, Role] = MappingProxyType(
    {
        ROOT: Role(keys=3, threshold=2, days=365, online=False),
        TARGETS: Role(keys=3, threshold=2, days=182, online=False),
        NAMESPACES: Role(keys=3, threshold=2, days=90, online=False, paths=("ns/*",)),
        RELEASES: Role(keys=1, threshold=1, days=30, online=True, paths=("idx/*",)),
        LISTING: Role(keys=1, threshold=1, days=30, online=True, paths=("index.json", "skills/*", "advisories/*")),
        LOG: Role(keys=1, threshold=1, days=30, online=True, paths=("log/*",)),
        SNAPSHOT: Role(keys=1, threshold=1, days=7, online=True),
        TIMESTAMP: Role(keys=1, threshold=1, days=3, online=True),
    }
)


def rule_of(role: str) -> Role:
    """Return the rule of ``role``; a bin of ``releases`` goes by that."""
    return ROLES[RELEASES if role.startswith(RELEASES) else role]


def signed_by(expires: Mapping[str, datetime]) -> datetime:
    """Return the latest time that metadata shows: each role's expiry less the days that its rule gives it.

    Of a registry that lets its metadata hold longer, the result lies after the day on which it was signed.

    Args:
        expires: By role, one of the four that TUF itself has.
    """
    return max(when - timedelta(days=ROLES[role].days) for role, when in expires.items())


def delegator_of(role: str) -> str:
    """Return the role whose document says which keys count for ``role``."""
    if role in (ROOT, TARGETS, SNAPSHOT, TIMESTAMP):
        return ROOT
    return TARGETS if role in ROLES else RELEASES


def key_names(role: str) -> Iterator[str]:
    """Name the keys of ``role``: the role itself, numbered if there are several."""
    count = ROLES[role].keys
    yield from (role,) if count == 1 else (f"{role}-{number}" for number in range(1, count + 1))


NAMESPACE_PATHS = tuple(f"ns/{number:02x}.json" for number in range(256))


# The newest checkpoint of the registry's log; where the role `log` is delegated, the registry has announced one.
LOG_HEAD = "log/head"
LOG_SEEN = "log-seen.json"  # What was seen of the log, beside the trusted metadata of the registry.


def skill_path(name: str) -> str:
    """Return the target that lists every release of a skill; it informs people and authorizes nothing."""
    return f"skills/{name}.json"


# The first part of a large listing, which the role `listing` signs in place of `index.json`. No skill is named so.
PARTS = "skills/_all.json"


# Reading trusted root metadata (TUF 4.3) for a person: who holds which role, until when, and what changed.


@dataclass(frozen=True, slots=True)
class RoleView:
    """A role as root has it: how many of which keys must sign."""

    name: str
    threshold: int
    key_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RootView:
    """A root: its version, when it expires (UTC), and its roles."""

    version: int
    expires: str
    roles: tuple[RoleView, ...]


class _Signed(ExtensibleDocument):
    version: Annotated[int, integer("a version")]
    expires: str


class _Role(ExtensibleDocument):
    threshold: Annotated[int, integer("a number of keys")]
    keyids: Items[str]


class _SignedRoot(_Signed):
    roles: Members[str, _Role]


class MetadataFile(ExtensibleDocument):
    """TUF metadata of any role: the fields that are shown to a person."""

    CAP = 4 << 20

    signed: _Signed


class RootFile(ExtensibleDocument):
    """``root.json`` of TUF: the fields that are shown to a person."""

    CAP = 4 << 20

    signed: _SignedRoot


def view_root(data: bytes, where: str) -> RootView:
    """Return what a root that is trusted already says.

    Raises:
        FormatError: it is no root.
    """
    signed = RootFile.parse(data, where).signed
    roles = (RoleView(name, role.threshold, role.keyids) for name, role in sorted(signed.roles.items()))
    return RootView(signed.version, signed.expires, tuple(roles))


def view_expiry(data: bytes, where: str) -> tuple[int, str]:
    """Return version and expiry (UTC) of any trusted metadata.

    Raises:
        FormatError: it is no metadata.
    """
    signed = MetadataFile.parse(data, where).signed
    return signed.version, signed.expires


@dataclass(frozen=True, slots=True)
class MetadataExpiry:
    """One metadata file: its version, and until when it holds (UTC)."""

    role: str
    version: int
    expires: str

    def expires_within(self, days: float, now: datetime) -> bool:
        """Return whether it holds no longer in so many days."""
        return self.expires <= times.spell(now + timedelta(days=days))


def metadata_files(folder: str, roles: Iterable[str]) -> tuple[MetadataExpiry, ...]:
    """Return what a client keeps in ``folder`` of these roles' metadata; nothing of what it never fetched.

    Raises:
        FormatError: it is damaged.
        StateError: it cannot be read.
    """
    found = ((role, kept_metadata(folder, role)) for role in roles)
    return tuple(MetadataExpiry(role, *view_expiry(data, folder)) for role, data in found if data)


def kept_metadata(folder: str, role: str) -> bytes | None:
    """Return the newest metadata of a role that a client keeps in ``folder``; None if it never fetched any."""
    # The client keeps every root it walked through and links to the last one.
    return files.read(os.path.realpath(os.path.join(folder, f"{role}.json")), _CAP)


def changes(before: RootView, now: RootView) -> Iterator[str]:
    """Yield what differs between the root that was pinned and the one that is trusted now, a line each."""
    if before.version != now.version:
        yield f"root went from version {before.version} to {now.version}"
    earlier = {role.name: role for role in before.roles}
    for role in now.roles:
        old = earlier.get(role.name, RoleView(role.name, 0, ()))
        for key in role.key_ids:
            if key not in old.key_ids:
                yield f"{role.name} gained the key {key}"
        for key in old.key_ids:
            if key not in role.key_ids:
                yield f"{role.name} lost the key {key}"
        if old.threshold != role.threshold:
            yield f"{role.name} needs {role.threshold} keys instead of {old.threshold}"
