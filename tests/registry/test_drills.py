"""Drills: a thief has stolen keys of a registry, one kind after the other.

The thief can also write to the site. The tests compare the trust of clients with the promises of trust.md.
"""

import json
import os
import shutil
from dataclasses import replace

import pytest
from tuf.api.metadata import Timestamp

from skillhub.errors import BadMetadata, BadMetadataSignature, NameNotOwned, Refused, Rollback, SecurityError
from skillhub.formats.digest import Digest
from skillhub.model.index import TakenBack, index_path, namespace_path
from skillhub.project.user_state import Trusted
from skillhub.registry.build import add
from skillhub.registry.operator import Signing
from skillhub.registry.upkeep import AdmissionChange, delegate, rotate
from skillhub.trust.keys import PrivateKey
from skillhub.trust.registry_metadata import Dates, path_of
from skillhub.trust.roles import ROLES
from tests.registry.test_delegate import by, give
from tests.support.registry import Simulator, key_of, role_keys
from tests.support.world import World

THIEF = PrivateKey.from_seed(b"\x09" * 32)
OTHER = PrivateKey.from_seed(b"\x0a" * 32)
ONLINE = [role for role, rule in ROLES.items() if rule.online]
OFFLINE = [role for role, rule in ROLES.items() if not rule.online]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    simulator = Simulator(tmp_path_factory.mktemp("made"), bits=1)
    simulator.publish()
    return simulator


def stolen(*roles):
    """Return the keys of these roles only."""
    keys = role_keys("test")
    return lambda role: keys(role) if role in roles else []


def serve(hub, metadata, targets=None):
    """Write a state to the site, like an attacker with access to it."""
    found = {path_of(metadata.find(path)): data for path, data in (targets or {}).items()}
    hub.files |= {**found, **metadata.files()}


def forged(hub, parent, key=THIEF):
    """Return the index of acme with hello 9.0.0, signed by another key, and serve its archive."""
    twin = hub.copy(parent)
    give(twin, "acme", keys=(key.public.pem,))
    add(twin.dir.path, [by(key, parent, "hello", "9.0.0")], Signing(now=hub.when))
    twin.pull()
    hub.files |= {path: data for path, data in twin.files.items() if path.startswith("archives/")}
    return twin.dir.target(twin.dir.metadata(), "idx/acme.json")


@pytest.mark.parametrize("role", ONLINE)
def test_one_stolen_online_key_forges_no_release(hub, tmp_path, role):
    document = forged(hub, tmp_path / "t")
    with pytest.raises(Refused):
        hub.dir.metadata().revise({"idx/acme.json": document}, stolen(role), Dates(hub.when))


def test_all_stolen_online_keys_forge_no_release(hub, tmp_path):
    """They list the release; the offline keys did not admit its signer."""
    targets = {"idx/acme.json": forged(hub, tmp_path / "t")}
    serve(hub, hub.dir.metadata().revise(targets, stolen(*ONLINE), Dates(hub.when)), targets)
    assert hub.open(tmp_path / "m").release_index(["hello"]).releases("hello")[0].version == "9.0.0"
    world = World(tmp_path / "w")
    world.add_source("hub", hub)
    with pytest.raises(SecurityError, match="signed by acme"):
        world.install("hub:hello")
    assert not world.copy("hello").exists()
    assert not (world.base / "skillhub.lock").exists()


def test_publisher_trusted_by_the_user_does_not_override_the_registry(hub, tmp_path):
    """The registry decides the owner of a name, not the list of signers of the user."""
    targets = {"idx/acme.json": forged(hub, tmp_path / "t")}
    serve(hub, hub.dir.metadata().revise(targets, stolen(*ONLINE), Dates(hub.when)), targets)
    world = World(tmp_path / "w")
    world.add_source("hub", hub)
    world.publishers.trust(Trusted(keys=(THIEF.public.pem.decode(),), name="acme"))
    with pytest.raises(SecurityError, match="signed by acme"):
        world.install("hub:hello")
    assert not world.copy("hello").exists()


def test_all_stolen_online_keys_move_no_name_and_admit_no_key(hub, tmp_path):
    give(hub, "rival", keys=(OTHER.public.pem,))
    metadata = hub.dir.metadata()
    path = namespace_path("acme")
    evil = hub.files[hub.publisher("acme")].replace(b'"keys":[', b'"keys":["-----BEGIN PUBLIC KEY-----",')
    pins = {"acme": {"sha256": Digest.of(evil).hex, "size": len(evil)}}
    admitting = json.dumps({"publishers": pins}).encode()
    with pytest.raises(Refused, match="namespaces"):
        metadata.revise({path: admitting}, stolen(*ONLINE), Dates(hub.when))
    document = hub.dir.target(metadata, "idx/acme.json").replace(b'"acme"', b'"rival"')
    targets = {index_path("rival"): document, "idx/acme.json": b'{"publisher":"acme","releases":[]}'}
    serve(hub, metadata.revise(targets, stolen(*ONLINE), Dates(hub.when)), targets)
    hint = hub.files[".well-known/agent-skills/skills/hello.json"].replace(b'"acme"', b'"rival"')
    hub.files[".well-known/agent-skills/skills/hello.json"] = hint
    with pytest.raises(NameNotOwned):
        hub.open(tmp_path / "m").release_index(["hello"])


def test_one_key_of_each_offline_role_is_not_enough(hub, tmp_path):
    """One key of three is below each threshold."""
    one = {role: role_keys("test")(role)[: 3 if ROLES[role].online else 1] for role in ROLES}
    for role in OFFLINE:
        with pytest.raises(Refused, match=role):
            hub.dir.metadata().renewed([role], one.__getitem__, Dates(hub.when))


def test_forged_document_on_the_site_is_not_signed_by_the_next_ceremony(hub, tmp_path):
    """The thief admits his key in an unsigned document, and waits until the operator signs the next version."""
    metadata, path = hub.dir.metadata(), namespace_path("acme")
    twin = hub.copy(tmp_path / "twin")
    give(twin, "acme", keys=(THIEF.public.pem,))
    targets = {path: twin.dir.target(twin.dir.metadata(), path)}
    version = metadata.target_versions["namespaces"]
    thieves = twin.files[f"metadata/{version + 1}.namespaces.json"]
    unsigned = json.dumps({**json.loads(thieves), "signatures": []}).encode()
    state = replace(metadata, documents={**metadata.documents, "namespaces": unsigned})
    sealed = state.renewed(["listing"], stolen(*ONLINE), Dates(hub.when))
    snapshot = sealed.read("snapshot")
    snapshot.meta["namespaces.json"].version = version + 1
    sealed = sealed.changed({"snapshot": snapshot}, stolen(*ONLINE), Dates(hub.when))
    serve(hub, sealed, {})
    hub.files |= {path_of(sealed.find(path)): data for path, data in targets.items()}
    hub.dir.publish(hub.files)
    with pytest.raises(BadMetadataSignature):
        delegate(hub.dir.path, AdmissionChange(publisher="acme", names=("new",)), Signing(now=hub.when))
    with pytest.raises(BadMetadataSignature):
        hub.open(tmp_path / "m").release_index(["hello"])


def test_clients_recover_from_a_fast_forward_attack_on_the_timestamp(hub, tmp_path):
    """Fast-forward: the versions are so high that correct ones look like a rollback."""
    client, honest = tmp_path / "m", dict(hub.files)
    metadata = hub.dir.metadata()
    timestamp = metadata.signed("timestamp", Timestamp)
    timestamp.version = 1_000_000
    serve(hub, metadata.changed({"timestamp": timestamp}, stolen("timestamp"), Dates(hub.when)))
    hub.open(client)
    hub.files = honest
    with pytest.raises(Rollback):
        hub.open(client)
    rotate(hub.dir.path, "timestamp", Signing(now=hub.when))
    hub.pull()
    assert hub.open(client).release_index(["hello"]).names == ("hello",)
    serve(hub, metadata.changed({"timestamp": timestamp}, stolen("timestamp"), Dates(hub.when)))
    with pytest.raises(BadMetadataSignature):
        hub.open(client)


def test_clients_recover_from_a_fast_forward_attack_on_online_roles(hub, tmp_path):
    client = tmp_path / "m"
    ahead = hub.dir.metadata()
    snapshot, listing = ahead.read("snapshot"), ahead.read("listing")
    snapshot.version = listing.version = 1_000_000
    serve(hub, ahead.changed({"listing": listing, "snapshot": snapshot}, stolen(*ONLINE), Dates(hub.when)))
    hub.open(client).listing()
    for role in ONLINE:
        rotate(hub.dir.path, role, Signing(now=hub.when))
    hub.pull()
    registry = hub.open(client)
    assert registry.listing().names == registry.release_index(["hello"]).names == ("hello",)


def test_stolen_publisher_key_signs_only_its_names_until_revoked(hub, tmp_path):
    """With all online keys, too, the key signs only releases of its names, until a document revokes the key."""
    give(hub, "rival", keys=(OTHER.public.pem,), names=("owned",))
    document = forged(hub, tmp_path / "t", OTHER)
    targets = {"idx/acme.json": document}
    serve(hub, hub.dir.metadata().revise(targets, stolen(*ONLINE), Dates(hub.when)), targets)
    world = World(tmp_path / "w")
    world.add_source("hub", hub)
    with pytest.raises(SecurityError, match="signed by acme"):
        world.install("hub:hello")
    hub.pull()
    add(hub.dir.path, [by(OTHER, tmp_path, version="1.0.0")], Signing(now=hub.when))
    give(hub, "rival", revoke=(OTHER.public.fingerprint,))
    with pytest.raises(TakenBack, match="revoked"):
        world.install("hub:owned")
    # The thief still has the online keys, and removes the withdrawal.
    document = json.loads(hub.dir.target(hub.dir.metadata(), "idx/rival.json"))
    document["releases"][0]["withdrawn"] = None
    hub.revise({"idx/rival.json": json.dumps(document).encode()})
    with pytest.raises(SecurityError) as caught:
        world.install("hub:owned")
    assert (caught.value.code, caught.value.reason) == ("bad-signature", "revoked")
    assert not world.copy("owned").exists()


def test_one_stolen_root_key_signs_no_root(hub):
    metadata = hub.dir.metadata()
    one = {**{role: role_keys("test")(role) for role in ONLINE}, "root": role_keys("test")("root")[:1]}
    with pytest.raises(Refused):
        metadata.renewed(["root"], one.__getitem__, Dates(hub.when))
    mixed = [*one["root"], key_of("thief")("root-1", "ed25519")]
    with pytest.raises(Refused, match="found 1"):
        metadata.renewed(["root"], lambda role: mixed, Dates(hub.when))


def test_site_restored_to_a_state_before_a_revocation_is_not_signed(hub, tmp_path):
    """All of its files have valid signatures; the next ceremony would undo the revocation."""
    give(hub, "rival", keys=(OTHER.public.pem,))
    before = dict(hub.files)
    give(hub, "rival", keys=(THIEF.public.pem,), revoke=(OTHER.public.fingerprint,))
    shutil.rmtree(hub.dir.site)
    hub.dir.publish(before)
    with pytest.raises(Rollback):
        give(hub, "rival", names=("more",))
    hub.dir.keys().save_signed_versions({})
    give(hub, "rival", names=("more",))


def test_attack_an_older_document_in_the_place_of_a_newer_one_is_refused(hub):
    """The thief has no key; the operator's next state would be built on the document, and signed."""
    metadata = hub.dir.metadata()
    role = metadata.role_of(index_path("acme"))
    version = metadata.target_versions[role]
    older, newer = (os.path.join(hub.dir.site, "metadata", f"{each}.{role}.json") for each in (version - 1, version))
    shutil.copyfile(older, newer)
    with pytest.raises(BadMetadata, match=f"expected version {version} of {role}"):
        hub.dir.metadata()
