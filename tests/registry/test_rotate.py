"""New keys for every role, lost keys and stolen ones; clients follow or keep the old state."""

import os
from contextlib import suppress

import pytest

from skillhub.errors import BadMetadata, Refused, UsageError
from skillhub.registry.build import add
from skillhub.registry.check import check
from skillhub.registry.operator import Signing
from skillhub.registry.upkeep import refresh, rotate
from skillhub.trust.registry_metadata import Dates, keyid
from skillhub.trust.roles import ROLES
from tests.support.killing import OldClients, kill_everywhere
from tests.support.published import tree_of
from tests.support.registry import Simulator, key_of, now, write_skill

OFFLINE = "registry/keys/offline"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    simulator = Simulator(tmp_path_factory.mktemp("made"), bits=1, log=True)
    simulator.publish()
    return simulator


def signing(hub, **more):
    return Signing(now=hub.when, **more)


def id_of(name):
    return keyid(key_of("test")(name, "ed25519").public)


@pytest.mark.parametrize("role", ROLES)
def test_old_clients_accept_new_keys_of_a_role(hub, tmp_path, role):
    old = tmp_path / "old"
    hub.open(old).release_index(["hello"])
    before = hub.dir.metadata().keyids(role)
    done = rotate(hub.dir.path, role, signing(hub))
    assert (done.gone, done.kept) == (before, ())
    assert set(done.new) == set(hub.dir.metadata().keyids(role))
    assert len(done.new) == ROLES[role].keys
    hub.publish(version="1.1.0")
    assert len(hub.open(old).release_index(["hello"]).releases("hello")) == 2
    assert check(hub.dir.path, now()).problems == ()
    assert len(os.listdir(tmp_path / "registry/keys/retired")) == ROLES[role].keys
    refresh(hub.dir.path, signing(hub), roles=list(ROLES))
    assert check(hub.dir.path, now()).problems == ()


@pytest.mark.parametrize("role", ROLES)
def test_old_keys_are_refused_after_a_rotation(hub, tmp_path, role):
    """A thief uses a stolen key after its rotation."""
    keys = hub.dir.keys()
    stolen = {each: keys.of(each) for each in ROLES}
    rotate(hub.dir.path, role, signing(hub))
    metadata = hub.dir.metadata()
    at_hand = {each: hub.dir.keys().of(each) for each in ROLES}
    with pytest.raises(Refused, match=role):
        metadata.renewed([role], {**at_hand, role: stolen[role]}.__getitem__, Dates(hub.when))


def test_lost_root_key_is_replaced_with_the_other_two(hub, tmp_path):
    """A third key is made; clients that know only the first root follow the chain."""
    old = tmp_path / "old"
    hub.open(old)
    (tmp_path / OFFLINE / "root-2.pem").unlink()
    seen = rotate(hub.dir.path, "root", signing(hub, dry_run=True))
    (lost,) = {*seen.gone} - seen.at_hand
    assert lost == id_of("root-2")
    done = rotate(hub.dir.path, "root", signing(hub), [lost[:10]])
    assert done.gone == (lost,)
    assert set(done.kept) == {id_of("root-1"), id_of("root-3")}
    assert len(done.new) == 1
    hub.pull()
    hub.open(old)
    hub.open(tmp_path / "new")
    (tmp_path / OFFLINE / "root-1.pem").unlink()
    rotate(hub.dir.path, "timestamp", signing(hub))
    hub.pull()
    assert hub.open(old).release_index(["hello"]).names == ("hello",)


def test_two_lost_root_keys_prevent_any_rotation(hub, tmp_path):
    for number in (1, 2):
        (tmp_path / OFFLINE / f"root-{number}.pem").unlink()
    before = tree_of(hub.dir.path)
    for role in ("root", "targets", "timestamp"):
        with pytest.raises(Refused, match="2 keys of root, found 1"):
            rotate(hub.dir.path, role, signing(hub))
    assert tree_of(hub.dir.path) == before


@pytest.mark.parametrize("role", ["timestamp", "snapshot", "releases", "listing"])
def test_lost_online_key_is_replaced_with_offline_keys(hub, tmp_path, role):
    (tmp_path / f"registry/keys/online/{role}.pem").unlink()
    old = tmp_path / "old"
    hub.open(old).release_index(["hello"])
    rotate(hub.dir.path, role, signing(hub))
    hub.publish(version="1.1.0")
    assert len(hub.open(old).release_index(["hello"]).releases("hello")) == 2


def test_lost_namespace_keys_are_replaced_with_keys_of_targets(hub, tmp_path):
    for number in (1, 2, 3):
        (tmp_path / OFFLINE / f"namespaces-{number}.pem").unlink()
    rotate(hub.dir.path, "namespaces", signing(hub))
    hub.publish("another")
    assert check(hub.dir.path, now()).problems == ()


@pytest.mark.parametrize(
    ("role", "lost"), [("nobody", []), ("releases-0", []), ("root", ["abc"]), ("root", ["0" * 64])]
)
def test_unknown_role_or_key_is_a_usage_error(hub, role, lost):
    before = tree_of(hub.dir.path)
    with pytest.raises(UsageError):
        rotate(hub.dir.path, role, signing(hub), lost)
    assert tree_of(hub.dir.path) == before


def test_offline_keys_may_be_in_another_folder(hub, tmp_path):
    """The folder is a disk that is present only for the ceremony."""
    (tmp_path / OFFLINE).rename(tmp_path / "disk")
    with pytest.raises(Refused):
        rotate(hub.dir.path, "root", signing(hub))
    done = rotate(hub.dir.path, "root", signing(hub, keys=str(tmp_path / "disk")))
    kept = sorted(path.name for path in (tmp_path / "disk").glob("root-*"))
    assert kept == sorted(f"root-{name[:8]}.pem" for name in done.new)
    skill = write_skill(tmp_path, "another")
    with pytest.raises(Refused, match="new name"):
        add(hub.dir.path, [skill], Signing(now=hub.when))
    add(hub.dir.path, [skill], Signing(now=hub.when, keys=str(tmp_path / "disk")))
    assert check(hub.dir.path, now()).problems == ()


def test_keys_of_another_registry_are_refused(hub, tmp_path):
    other = Simulator(tmp_path, "other")
    before = tree_of(other.dir.path), tree_of(hub.dir.path)
    with pytest.raises(BadMetadata, match="first root"):
        rotate(hub.dir.path, "root", signing(hub, keys=os.path.join(other.dir.path, "keys", "offline")))
    assert (tree_of(other.dir.path), tree_of(hub.dir.path)) == before


@pytest.mark.parametrize("role", ROLES)
def test_killed_rotation_keeps_clients_working_and_is_completed_later(made, tmp_path, role):
    hub = made.copy(tmp_path / "hub")
    clients = OldClients(hub, tmp_path, "hello")

    def look(kill, done):
        for registry in (clients.open(kill), clients.fresh(kill, done)):
            assert registry.release_index(["hello"]).names == ("hello",)
        if done:
            assert len(hub.dir.metadata().keyids(role)) == ROLES[role].keys
            at_hand = {keyid(key.public) for key in hub.dir.keys().of(role)}
            assert at_hand == set(hub.dir.metadata().keyids(role))
            assert hub.dir.keys().pending(role) == []

    def run():
        rotate(hub.dir.path, role, signing(hub))

    assert kill_everywhere(hub.dir.path, run, look) >= 4


def test_killed_replacement_of_a_lost_key_keeps_clients_working(hub, tmp_path):
    (tmp_path / OFFLINE / "targets-1.pem").unlink()
    clients, lost = OldClients(hub, tmp_path, "hello"), id_of("targets-1")

    def look(kill, done):
        for registry in (clients.open(kill), clients.fresh(kill, done)):
            assert registry.release_index(["hello"]).names == ("hello",)
        keys = hub.dir.metadata().keyids("targets")
        assert not done or (len(keys) == 3 and lost not in keys)

    def replace():
        with suppress(UsageError):  # the key is replaced already
            rotate(hub.dir.path, "targets", signing(hub), [lost])

    kill_everywhere(hub.dir.path, replace, look)


def test_changed_metadata_on_the_site_is_not_signed(hub, tmp_path):
    """An attacker who can write to the site cannot get content signed by offline keys."""
    hub.publish("another")
    site = tmp_path / "registry/site/metadata"
    version = hub.dir.metadata().target_versions["namespaces"]
    first, last = site / "2.namespaces.json", site / f"{version}.namespaces.json"
    data = last.read_bytes()
    for forged in (data.replace(b'"ns/', b'"nz/'), first.read_bytes()):
        assert forged != data
        last.write_bytes(forged)
        with pytest.raises(BadMetadata):
            rotate(hub.dir.path, "namespaces", signing(hub))
    last.write_bytes(data)
    rotate(hub.dir.path, "namespaces", signing(hub))


def test_foreign_registry_in_place_of_the_site_is_not_signed(hub, tmp_path):
    """A thief signs a complete valid registry, so that the operator signs it with offline keys."""
    thief = Simulator(tmp_path, "thief")
    hub.dir.publish(thief.files)
    with pytest.raises(BadMetadata, match="first root"):
        rotate(hub.dir.path, "namespaces", signing(hub))
