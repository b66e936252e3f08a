"""Reading trusted root metadata (TUF 4.3) for a person: who holds which role, until when, and what changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skillhub.model.syntax.decode import array, integer, located, mapping, record, text
from skillhub.model.syntax.json import strict_json

_CAP = 4 << 20


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


def view_root(data: bytes, where: str) -> RootView:
    """Return what a root that is trusted already says.

    Raises:
        FormatError: it is no root.
    """
    with located(where):
        signed = _ROOT(strict_json(data, where, _CAP))["signed"]
    roles = (
        RoleView(name, role["threshold"], role["keyids"]) for name, role in sorted(signed["roles"].items())
    )
    return RootView(signed["version"], signed["expires"], tuple(roles))


def view_expiry(data: bytes, where: str) -> tuple[int, str]:
    """Return version and expiry (UTC) of any trusted metadata.

    Raises:
        FormatError: it is no metadata.
    """
    with located(where):
        signed = _DOCUMENT(strict_json(data, where, _CAP))["signed"]
    return signed["version"], signed["expires"]


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


_SIGNED = {"version": integer("a version"), "expires": text}
_ROLE = record({"threshold": integer("a number of keys"), "keyids": array(text)})
_DOCUMENT = record({"signed": record(_SIGNED)})
_ROOT = record({"signed": record({**_SIGNED, "roles": mapping(text, _ROLE)})})
