"""The roles of a registry with their keys and thresholds, and views of trusted metadata to show to a person."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Annotated

from skillhub.disk import files
from skillhub.formats.document import ExtensibleDocument, Items, Members, integer
from skillhub.formats.text import spell_time

ROOT, TIMESTAMP, SNAPSHOT, TARGETS = "root", "timestamp", "snapshot", "targets"
NAMESPACES, RELEASES, LISTING, LOG = "namespaces", "releases", "listing", "log"
_CAP = 16 << 20
CEREMONY_DAYS = 30  # the days before the expiry of a document with offline keys from which skillhub warns
WELL_KNOWN = ".well-known/agent-skills"  # the folder of the public documents (Agent Skills Discovery)


# No skill can have this name, so no file of a skill is ever below it.
OWN = "-"
# The registry's own folders. A skill may have such a name, but then no files are built for it.
SIGNED_FOLDERS = frozenset({"metadata", "targets", "archives", "tile"})


@dataclass(frozen=True, slots=True)
class Role:
    """The rule of one role.

    Attributes:
        keys: The number of its keys in a new registry.
        threshold: The number of keys that must sign.
        days: The days until a signed document expires.
        online: Whether the keys are on the machine that makes releases; offline keys are used in ceremonies only.
        paths: The targets delegated to the role, as TUF patterns.
    """

    keys: int
    threshold: int
    days: int
    online: bool
    paths: tuple[str, ...] = ()


# A stolen online key can withhold releases; it can neither give a name to another publisher nor admit a key.
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
    """Return the rule of ``role``; a bin of ``releases`` has the rule of ``releases``."""
    return ROLES[RELEASES if role.startswith(RELEASES) else role]


def signed_by(expires: Mapping[str, datetime]) -> datetime:
    """Return the latest time of signing that metadata shows: the expiry of a role minus the days of its rule.

    If the registry signs its metadata for more days, the result is later than the real time of signing.

    Args:
        expires: The expiry by role, for roles of TUF itself.
    """
    return max(when - timedelta(days=ROLES[role].days) for role, when in expires.items())


def delegator_of(role: str) -> str:
    """Return the role whose document lists the keys of ``role``."""
    if role in (ROOT, TARGETS, SNAPSHOT, TIMESTAMP):
        return ROOT
    return TARGETS if role in ROLES else RELEASES


def key_names(role: str) -> Iterator[str]:
    """Yield the names of the keys of ``role``: the name of the role, numbered if there are several."""
    count = ROLES[role].keys
    yield from (role,) if count == 1 else (f"{role}-{number}" for number in range(1, count + 1))


NAMESPACE_PATHS = tuple(f"ns/{number:02x}.json" for number in range(256))


# The newest checkpoint of the registry's log. A registry announces a log by delegating the role `log`.
LOG_HEAD = "log/head"
LOG_SEEN = "log-seen.json"  # the state of the log as last seen, beside the trusted metadata of the registry


def skill_path(name: str) -> str:
    """Return the path of the target that lists every release of a skill, as information: it authorizes nothing."""
    return f"skills/{name}.json"


# The first part of a large listing, which the role `listing` signs instead of `index.json`. No skill has such a name.
PARTS = "skills/_all.json"


# Views of trusted metadata (TUF 4.3), to be shown: the keys of each role, the expiry, and the changes of a root.


class _Signed(ExtensibleDocument):
    version: Annotated[int, integer("a version")]
    expires: str


class RoleView(ExtensibleDocument):
    """A role in a root: its keys, and how many of them must sign."""

    threshold: Annotated[int, integer("a number of keys")]
    keyids: Items[str]


class RootView(_Signed):
    """The fields of a root that are shown to a person: its version, its expiry (UTC), and its roles by name."""

    roles: Members[str, RoleView]


class MetadataFile(ExtensibleDocument):
    """TUF metadata of any role: the fields that are shown to a person."""

    CAP = 4 << 20

    signed: _Signed


class RootFile(ExtensibleDocument):
    """``root.json`` of TUF: the fields that are shown to a person."""

    CAP = 4 << 20

    signed: RootView


@dataclass(frozen=True, slots=True)
class MetadataExpiry:
    """The version and the expiry (UTC) of one metadata file."""

    role: str
    version: int
    expires: str

    def expires_within(self, days: float, now: datetime) -> bool:
        """Return whether the file expires within ``days``."""
        return self.expires <= spell_time(now + timedelta(days=days))


def metadata_files(folder: str, roles: Iterable[str]) -> tuple[MetadataExpiry, ...]:
    """Return the metadata of these roles that a client keeps in ``folder``, without those that it never fetched.

    Raises:
        FormatError: a file is damaged.
        StateError: a file cannot be read.
    """
    documents = ((role, kept_metadata(folder, role)) for role in roles)
    views = ((role, MetadataFile.parse(data, folder).signed) for role, data in documents if data)
    return tuple(MetadataExpiry(role, view.version, view.expires) for role, view in views)


def kept_metadata(folder: str, role: str) -> bytes | None:
    """Return the newest metadata of a role that a client keeps in ``folder``; None if it never fetched any."""
    # The client keeps every root of the chain, and a link to the newest one.
    return files.read(os.path.realpath(os.path.join(folder, f"{role}.json")), _CAP)


def changes(before: RootView, now: RootView) -> Iterator[str]:
    """Yield the differences between the pinned root and the one that is trusted now, a line each."""
    if before.version != now.version:
        yield f"root went from version {before.version} to {now.version}"
    for name, role in sorted(now.roles.items()):
        old = before.roles.get(name)
        keys, threshold = (old.keyids, old.threshold) if old else ((), 0)
        yield from (f"{name} gained the key {key}" for key in role.keyids if key not in keys)
        yield from (f"{name} lost the key {key}" for key in keys if key not in role.keyids)
        if threshold != role.threshold:
            yield f"{name} needs {role.threshold} keys instead of {threshold}"
