"""Rotate: new keys for a role, as a routine or because one was lost or stolen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skillhub.errors import Refused, UsageError
from skillhub.flows.registry.opened import Opened, Signing, opened, refuse_unknown_role
from skillhub.model.text import quote
from skillhub.trust import rotation
from skillhub.trust.keys import PrivateKey
from skillhub.trust.roles import ROLES, delegator_of
from skillhub.trust.rotation import Rotation
from skillhub.trust.signing import keyid

_ID_MIN = 8


@dataclass(frozen=True, slots=True)
class Rotated:
    """The keys of a role, by TUF's name for a key.

    Attributes:
        gone: Those that count no longer.
        new: Those that do from now on; in a dry run none is made.
        kept: Those that go on.
        at_hand: Those of before whose private half is here.
    """

    role: str
    gone: tuple[str, ...]
    new: tuple[str, ...]
    kept: tuple[str, ...]
    at_hand: frozenset[str]


def rotate(folder: str, role: str, signing: Signing, lost: Sequence[str] = ()) -> Rotated:
    """Give ``role`` new keys, all of them, or in place of those that are lost; clients follow by themselves.

    Private keys are kept before anything believes them, and put aside once nothing does: whoever kills this
    leaves a sound registry, and the same call again finishes it.

    Args:
        folder: The registry's.
        role: Whose keys.
        signing: When and with what.
        lost: TUF's names of keys, or how they begin; lost or stolen alike.

    Raises:
        UsageError: there is no such role or key.
        NotFound: there is no such registry.
        Refused: too few keys are at hand: of root, for a role of the root; of targets, for those below it.
        SecurityError: the site is not what was signed.
        StateError: the disk refuses.
    """
    refuse_unknown_role(role)
    with opened(folder, signing) as hub:
        now = hub.metadata.keyids(role)
        # Keys that are pending were made by this very call, which was cut off.
        pending = list(hub.keys.pending(role))
        old = [name for name in now if name not in map(_id, pending)]
        kept = _kept(old, lost, finished=len(old) < len(now))
        at_hand = hub.at_hand(role)
        made = pending[: ROLES[role].keys - len(kept)]
        if not signing.dry_run:
            _check(hub, role)
            made += _make(hub, role, ROLES[role].keys - len(kept) - len(made))
            _walk(hub, role, kept, made)
        new = tuple(map(_id, made))
    return Rotated(role, tuple(name for name in now if name not in (*kept, *new)), new, kept, at_hand)


def _id(key: PrivateKey) -> str:
    return keyid(key.public)


def _kept(old: Sequence[str], lost: Sequence[str], *, finished: bool) -> tuple[str, ...]:
    """Return the old keys that stay: all but the lost ones; none where none is lost, for then all are replaced."""
    if not lost:
        return ()
    gone = set()
    for start in lost:
        found = [name for name in old if name.startswith(start)]
        if len(start) < _ID_MIN or len(found) > 1 or not (found or finished):
            hint = f"the keys are: {', '.join(old)}"
            raise UsageError(f"expected a key of the role, found {quote(start)}", hint=hint)
        gone |= set(found)
    return tuple(name for name in old if name not in gone)


def _walk(hub: Opened, role: str, kept: Sequence[str], made: Sequence[PrivateKey]) -> None:
    lasting = {*kept, *map(_id, made)}
    now = set(hub.metadata.keyids(role))
    if lasting != now:
        change = Rotation(role, frozenset(now - lasting), tuple(key.public for key in made))
        for state in rotation.states(hub.metadata, change, hub.keys.of, hub.dates):
            hub.serve(state)
    hub.keys.settle(role, lasting)


def _check(hub: Opened, role: str) -> None:
    """Refuse before any key is made."""
    delegator, needed = delegator_of(role), ROLES[delegator_of(role)].threshold
    if (able := len(hub.at_hand(delegator))) < needed:
        message = f"new keys for {role} take {needed} keys of {delegator}, found {able}"
        raise Refused(message, hint="bring the offline keys: --keys DIR, and their passphrase")


def _make(hub: Opened, role: str, count: int) -> list[PrivateKey]:
    made = [PrivateKey.generate("ed25519") for _ in range(count)]
    for key in made:
        hub.keys.add(role, key)
    return made
