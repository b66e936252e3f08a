"""New keys for a role, in steps: a registry is valid after each of them, and so may stop there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuf.api.metadata import Root, Signed, Targets  # type: ignore[attr-defined]

from skillhub.trust.keys import PrivateKey, PublicKey
from skillhub.trust.metadata import Dates, MetadataSet
from skillhub.trust.roles import RELEASES, ROOT, TARGETS, delegator_of
from skillhub.trust.signing import Keys, keyid, public_key


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
        keys: The keys at hand, the new ones among them.
        dates: When.

    Raises:
        Refused: too few keys are at hand, of the role, or of the one that says which keys count for it.
    """

    def lasting(role: str) -> Sequence[PrivateKey]:
        found = keys(role)
        return [key for key in found if role != rotation.role or keyid(key.public) not in rotation.gone]

    if rotation.role == ROOT:
        yield before.changed({ROOT: _root(before, rotation, rotation.gone)}, keys, dates)
    elif delegator_of(rotation.role) == ROOT:
        if not {keyid(key) for key in rotation.new} <= set(before.keyids(rotation.role)):
            before = before.changed({ROOT: _root(before, rotation, frozenset())}, keys, dates)
            yield before
        signed = before.renewed([rotation.role], lasting, dates)
        yield signed
        yield signed.changed({ROOT: _root(signed, rotation, rotation.gone)}, keys, dates)
    else:
        yield before.changed(_delegated(before, rotation), lasting, dates)


def _root(before: MetadataSet, rotation: Rotation, gone: frozenset[str]) -> Root:
    root = before.signed(ROOT, Root)
    _exchange(root, rotation, gone)
    return root


def _delegated(before: MetadataSet, rotation: Rotation) -> dict[str, Signed]:
    """Return the documents that say which keys count for a role below targets, and those that it signs."""
    targets = before.signed(TARGETS, Targets)
    _exchange(targets, rotation, rotation.gone)
    document = before.signed(rotation.role, Targets)
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
