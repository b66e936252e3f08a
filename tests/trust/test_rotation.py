"""New keys for a role: the states of a rotation, and the keys of each state."""

from datetime import UTC, datetime

import pytest

from skillhub.trust.keys import PrivateKey
from skillhub.trust.registry_metadata import Dates, MetadataSet, Rotation, keyid, states
from tests.support.registry import role_keys

KEYS = role_keys("rotation")
DATES = Dates(datetime(2026, 1, 1, tzinfo=UTC))
MADE = MetadataSet.create(KEYS, 1, DATES)
NEW = PrivateKey.from_seed(bytes(31) + b"\6")


def rotated(role, before=MADE, lost=False):
    """Return for each state whether the role has its old and its new key; a lost key signs no document."""
    old = KEYS(role)[0]
    change = Rotation(role, frozenset({keyid(old.public)}), (NEW.public,))

    def at_hand(asked):
        found = [key for key in KEYS(asked) if not (lost and key is old)]
        return [*found, NEW] if asked == role else found

    made = list(states(before, change, at_hand, DATES))
    for state in made:
        state.verify()
    return [(keyid(old.public) in state.keyids(role), keyid(NEW.public) in state.keyids(role)) for state in made]


@pytest.mark.parametrize("role", ["root", "namespaces", "releases", "listing"])
def test_role_with_a_changed_delegator_takes_one_state(role):
    assert rotated(role) == [(False, True)]


@pytest.mark.parametrize("role", ["targets", "snapshot", "timestamp"])
def test_role_below_root_has_both_keys_before_the_old_one_is_removed(role):
    assert rotated(role) == [(True, True), (True, True), (False, True)]


@pytest.mark.parametrize("role", ["targets", "snapshot", "timestamp"])
def test_interrupted_rotation_continues(role):
    old = KEYS(role)[0]
    change = Rotation(role, frozenset({keyid(old.public)}), (NEW.public,))
    first = next(states(MADE, change, lambda asked: [*KEYS(asked), NEW], DATES))
    assert rotated(role, before=first) == [(True, True), (False, True)]


@pytest.mark.parametrize("role", ["root", "targets", "namespaces"])
def test_rotation_succeeds_without_a_lost_key(role):
    assert rotated(role, lost=True)[-1] == (False, True)


def test_rotation_to_a_present_key_takes_two_states():
    change = Rotation("snapshot", frozenset(), (KEYS("snapshot")[0].public,))
    assert len(list(states(MADE, change, KEYS, DATES))) == 2


def test_shared_key_is_removed_from_one_role_only():
    def shared(role):
        return KEYS("snapshot" if role == "timestamp" else role)

    before = MetadataSet.create(shared, 1, DATES)
    change = Rotation("snapshot", frozenset({keyid(KEYS("snapshot")[0].public)}), (NEW.public,))
    *_, last = states(before, change, lambda role: [*shared(role), NEW], DATES)
    last.verify()
    assert last.keyids("snapshot") == (keyid(NEW.public),)
    assert last.keyids("timestamp") == (keyid(KEYS("snapshot")[0].public),)
