"""Reading trusted root metadata (TUF 4.3) for a person: who holds which role, until when, and what changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from skillhub.model.syntax.document import ExtensibleDocument, Items, Members, integer


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


class _Metadata(ExtensibleDocument):
    CAP = 4 << 20

    signed: _Signed


class _Root(ExtensibleDocument):
    CAP = 4 << 20

    signed: _SignedRoot


def view_root(data: bytes, where: str) -> RootView:
    """Return what a root that is trusted already says.

    Raises:
        FormatError: it is no root.
    """
    signed = _Root.parse(data, where).signed
    roles = (RoleView(name, role.threshold, role.keyids) for name, role in sorted(signed.roles.items()))
    return RootView(signed.version, signed.expires, tuple(roles))


def view_expiry(data: bytes, where: str) -> tuple[int, str]:
    """Return version and expiry (UTC) of any trusted metadata.

    Raises:
        FormatError: it is no metadata.
    """
    signed = _Metadata.parse(data, where).signed
    return signed.version, signed.expires


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
