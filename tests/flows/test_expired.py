"""A certificate that has expired: a warning for the tree and signer that are locked, a refusal of any other."""

from __future__ import annotations

import shutil
from datetime import timedelta

import pytest

from fixtures.attacks_oms.forge import LEAF, MIDDLE, ROOT, chain, leaf_key
from skillhub.errors import BadSignature
from skillhub.flows.signers import EXPIRED
from skillhub.trust import x509
from skillhub.trust.oms import sign
from skillhub.world.local import read_local
from skillhub.world.publishers import Trusted
from tests.support.world import NOW, World, refused, skill

CHAIN = tuple(x509.parse(each) for each in chain(LEAF, MIDDLE, ROOT))
WARNING = f"plain: {EXPIRED}"


def signed(world, body="Do it.\n"):
    folder = skill(world.folder / "src", body=body)
    tree = read_local(str(folder))[0].tree
    (folder / "skill.oms.sig").write_bytes(sign(tree, "plain", leaf_key(), CHAIN))
    return str(folder)


@pytest.fixture
def world(tmp_path):
    """A machine with a skill whose certificate has expired since it was installed."""
    world = World(tmp_path)
    world.publishers.trust(Trusted("corp", certificates=(CHAIN[-1].pem.decode(),)))
    world.install(signed(world))
    world.now = NOW + timedelta(days=400)
    return world


def lose(world):
    for path in (world.store.root, world.base / ".agents"):
        shutil.rmtree(path)


@pytest.mark.parametrize("wishes", [{}, {"frozen": True}], ids=["as it is", "frozen"])
@pytest.mark.parametrize("is_lost", [False, True], ids=["all there", "all lost"])
def test_install_bears_it_for_what_is_locked(world, is_lost, wishes):
    lock = world.lock()
    if is_lost:
        lose(world)
    outcome = world.install(**wishes)
    assert WARNING in outcome.warnings
    assert (world.lock(), world.problems()) == (lock, [])


def test_sync_and_update_bear_it_for_what_is_locked(world):
    lose(world)
    assert world.sync().changed
    outcome = world.update()
    assert (outcome.warnings, outcome.changed, world.problems()) == ((WARNING,), False, [])


def test_asked_for_again_it_is_borne(world):
    lose(world)
    assert WARNING in world.install(str(world.folder / "src" / "plain")).warnings


@pytest.mark.parametrize("act", ["update", "install"])
def test_another_tree_is_refused_and_named(world, act):
    path = signed(world, body="Do something else.\n")
    error = refused(world, BadSignature, lambda: world.update() if act == "update" else world.install(path))
    assert error.reason == "certificate-expired"
    assert "plain" in error.where


def test_what_sync_cannot_put_back_is_named(world):
    signed(world, body="Do something else.\n")
    lose(world)
    with pytest.raises(BadSignature) as caught:
        world.sync()
    assert (caught.value.reason, caught.value.where) == ("certificate-expired", "plain: skill.oms.sig")


def test_what_nobody_locked_is_refused(world):
    world.remove("plain")
    error = refused(world, BadSignature, lambda: world.install(str(world.folder / "src" / "plain")))
    assert error.reason == "certificate-expired"
