"""Refresh: sign again what expires soon, the one thing that a registry needs while nothing changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from skillhub.errors import UsageError
from skillhub.flows.registry.opened import Signing, opened, refuse_unknown_role
from skillhub.trust.metadata import MetadataSet
from skillhub.trust.roles import CEREMONY_DAYS, RELEASES, ROLES, rule_of

WITHIN_DAYS = 2.0
DAYS_MAX = 3650


@dataclass(frozen=True, slots=True)
class Expiry:
    """When what a role has signed expires."""

    role: str
    when: datetime


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What was signed anew, and which offline roles wait for their ceremony."""

    renewed: tuple[Expiry, ...]
    waiting: tuple[Expiry, ...]


def refresh(
    folder: str, signing: Signing, within: float = WITHIN_DAYS, roles: Sequence[str] = ()
) -> Refreshed:
    """Sign anew what online keys have signed and what expires within so many days; nothing, if nothing does.

    Args:
        folder: The registry's.
        signing: When and with what.
        within: Days.
        roles: Sign for these in any case, be they offline.

    Raises:
        UsageError: there is no such role, or the days are none.
        NotFound: there is no such registry.
        Refused: a key is not at hand.
        SecurityError: the site is not what was signed.
        StateError: the disk refuses.
    """
    for role in roles:
        refuse_unknown_role(role)
    if not 0 <= within <= DAYS_MAX:
        raise UsageError(f"expected 0 to {DAYS_MAX} days, found {within}")
    with opened(folder, signing) as hub:
        due = [
            each.role
            for each in expiring(hub.metadata, signing.now, within)
            if rule_of(each.role).online and _base(each.role) not in roles
        ]
        wanted = [role for role in hub.metadata.documents if _base(role) in roles]
        after = hub.metadata.renewed([*wanted, *due], hub.keys.of, hub.dates)
        hub.serve(after)
    before = hub.metadata.documents
    renewed = [role for role, data in after.documents.items() if before[role] != data]
    waiting = expiring(after, signing.now, CEREMONY_DAYS)
    return Refreshed(
        tuple(Expiry(role, after.expires(role)) for role in renewed),
        tuple(each for each in waiting if not rule_of(each.role).online),
    )


def expiring(metadata: MetadataSet, now: datetime, within: float) -> tuple[Expiry, ...]:
    """Return the roles whose documents have expired or will in so many days, the first one first."""
    found = [Expiry(role, metadata.expires(role)) for role in metadata.documents]
    due = [each for each in found if each.when - now <= timedelta(days=within)]
    return tuple(sorted(due, key=lambda each: (each.when, each.role)))


def _base(role: str) -> str:
    return role if role in ROLES else RELEASES
