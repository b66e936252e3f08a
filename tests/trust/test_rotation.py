"""New keys for a role: how many states it takes, and whose keys count in each."""

from datetime import UTC, datetime

import pytest

from skillhub.trust.keys import PrivateKey
from skillhub.trust.metadata import Dates, MetadataSet, Rotation, keyid, states
from tests.support.registry import role_keys

KEYS = role_keys("rotation")
DATES = Dates(datetime(2026, 1, 1, tzinfo=UTC))
MADE = MetadataSet.create(KEYS, 1, DATES)
NEW = PrivateKey.from_seed(bytes(31) + b"\6")


def rotated(role, before=MADE, lost=False):
    """Exchange the first key of a role; the thief who has it is gone from the keys at hand if it is lost."""
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
def test_a_role_whose_delegator_changes_with_it_takes_one_state(role):
    assert rotated(role) == [(False, True)]


@pytest.mark.parametrize("role", ["targets", "snapshot", "timestamp"])
def test_a_role_below_root_is_believed_with_both_before_the_old_one_is_forgotten(role):
    assert rotated(role) == [(True, True), (True, True), (False, True)]


@pytest.mark.parametrize("role", ["targets", "snapshot", "timestamp"])
def test_rotation_that_was_broken_off_goes_on_where_it_was(role):
    old = KEYS(role)[0]
    change = Rotation(role, frozenset({keyid(old.public)}), (NEW.public,))
    first = next(states(MADE, change, lambda asked: [*KEYS(asked), NEW], DATES))
    assert rotated(role, before=first) == [(True, True), (False, True)]


@pytest.mark.parametrize("role", ["root", "targets", "namespaces"])
def test_a_key_that_is_lost_is_not_asked_for(role):
    assert rotated(role, lost=True)[-1] == (False, True)


def test_keys_that_the_role_has_already_are_signed_with_at_once():
    change = Rotation("snapshot", frozenset(), (KEYS("snapshot")[0].public,))
    assert len(list(states(MADE, change, KEYS, DATES))) == 2


def test_a_key_that_another_role_has_too_is_gone_from_one_of_them_alone():
    def shared(role):
        return KEYS("snapshot" if role == "timestamp" else role)

    before = MetadataSet.create(shared, 1, DATES)
    change = Rotation("snapshot", frozenset({keyid(KEYS("snapshot")[0].public)}), (NEW.public,))
    *_, last = states(before, change, lambda role: [*shared(role), NEW], DATES)
    last.verify()
    assert last.keyids("snapshot") == (keyid(NEW.public),)
    assert last.keyids("timestamp") == (keyid(KEYS("snapshot")[0].public),)
