"""TUF's attacks by a thief of keys: one, or as many as a role needs; and the registry's recovery.

Each test asserts the error, and that project, store, lock, links and trusted metadata are unchanged, byte for byte,
except for documents with all required signatures: TUF keeps each of those once it is verified.
"""

from __future__ import annotations

import json

import pytest
from tuf.api.metadata import MetaFile, Root

from skillhub.archive.unpack import pack, unpack
from skillhub.errors import (
    BadMetadata,
    BadMetadataSignature,
    NameNotOwned,
    Rollback,
    SecurityError,
    SignerChanged,
    SourceMismatch,
    WrongBytes,
)
from skillhub.formats.digest import Digest
from skillhub.model.index import namespace_path, publisher_path
from skillhub.project.last_seen import kept
from skillhub.sources.local import read_local
from skillhub.trust import oms
from tests.attacks.scene import installs_other
from tests.attacks.thief import FAR, fresh_keys, public, sealed
from tests.support.registry import Simulator, key_of, write_skill

NEW_ROOT = frozenset({"root.json", "root_history/2.root.json"})
TOP = frozenset({"timestamp.json", "snapshot.json"})


def learned(thief):
    """Return the metadata trusted after a complete update to a new index document."""
    return TOP | {f"{thief.metadata.role_of('idx/acme.json')}.json", "targets/idx%2Facme.json"}


def packed(folder, name="other", version="1.0.0", key=None):
    source = write_skill(folder, name, version)
    if key is not None:
        signature = oms.sign(read_local(source).tree, name, key)
        with open(f"{source}/skill.oms.sig", "wb") as file:
            file.write(signature)
    return pack(read_local(source).tree)


# One key of a role that takes two


@pytest.mark.parametrize("number", [0, 1, 2])
def test_one_root_key_stolen(scene, thief, number):
    thief.root([thief.keys("root")[number]], timestamp=fresh_keys("evil"))
    assert scene.refuses(BadMetadataSignature, installs_other(scene)).code == "bad-metadata-signature"


def test_one_root_key_signs_twice(scene, hub, thief):
    """A signature listed under the id of another key is not that key's."""
    key, another, _ = thief.keys("root")
    thief.root([key], timestamp=fresh_keys("evil"))
    document = json.loads(hub.files["metadata/2.root.json"])
    document["signatures"].append({**document["signatures"][0], "keyid": public(another).keyid})
    hub.files["metadata/2.root.json"] = json.dumps(document).encode()
    scene.refuses(BadMetadataSignature, installs_other(scene))


def test_root_signed_only_by_its_own_new_keys(scene, thief):
    evil = fresh_keys("evil", 3)
    thief.root(evil[:2], root=evil)
    scene.refuses(BadMetadataSignature, installs_other(scene))


def test_one_targets_key_stolen(scene, thief):
    thief.targets("targets", {"idx/acme.json": thief.index(version="9.0.0")}, signers=1)
    scene.refuses(BadMetadataSignature, installs_other(scene), TOP)


def test_one_admission_key_stolen(scene, thief):
    """Without a second admission key the online keys cannot admit a publisher."""
    thief.targets("namespaces", {"ns/82.json": b'{"publishers":{},"version":1}'}, signers=1)
    scene.refuses(BadMetadataSignature, installs_other(scene), TOP)


def test_stolen_publisher_key_without_a_registry_key(scene, hub, tmp_path):
    """The signature is valid, but the registry has not signed these bytes."""
    path = next(path for path in hub.files if path.startswith("archives/other/"))
    hub.files[path] = packed(tmp_path / "evil", version="6.6.6", key=key_of("test")("acme", "p256"))
    scene.refuses(WrongBytes, installs_other(scene))


# A role of one key


def test_stolen_timestamp_key_rolls_the_snapshot_back(scene, thief):
    thief.timestamp(snapshot=MetaFile(1))
    assert scene.refuses(Rollback, installs_other(scene)).code == "rollback"


def test_stolen_timestamp_key_names_an_unsigned_snapshot(scene, hub, thief):
    thief.snapshot(signers=0)
    scene.refuses(BadMetadataSignature, installs_other(scene), {"timestamp.json"})


def test_stolen_snapshot_key_rolls_a_role_back(scene, thief):
    thief.snapshot(namespaces=1)
    scene.refuses(Rollback, installs_other(scene), {"timestamp.json"})


def test_stolen_snapshot_key_leaves_a_role_out(scene, thief):
    thief.snapshot(listing=None)
    assert scene.refuses(BadMetadata, installs_other(scene), {"timestamp.json"}).code in ("bad-metadata", "rollback")


def test_fast_forward_with_the_stolen_timestamp_key_and_the_way_back(scene, hub, thief):
    """Nothing is forged, and the honest registry is a rollback until its root names another key."""
    honest = dict(hub.files)
    thief.timestamp(version=FAR)
    installs_other(scene)()
    hub.files = honest
    scene.publish("third")
    scene.refuses(Rollback, installs_other(scene, "third"))
    key = fresh_keys("timestamp")
    thief.root(thief.keys("root")[:2], timestamp=key)
    thief.replace("timestamp", key)
    thief.timestamp()
    installs_other(scene, "third")()
    assert "third" in scene.machine.lock().skills


# All online keys.


def test_stolen_online_keys_offer_unsigned_bytes(scene, thief, tmp_path):
    thief.archive(packed(tmp_path / "evil", version="6.6.6"))
    error = scene.refuses(SecurityError, installs_other(scene), learned(thief))
    assert "signed" in error.message


def test_stolen_online_keys_offer_bytes_signed_by_a_stranger(scene, thief, tmp_path):
    thief.archive(packed(tmp_path / "evil", key=key_of("evil")("evil", "p256")))
    scene.refuses(SecurityError, installs_other(scene), learned(thief))


@pytest.mark.parametrize("change", [{"name": "bank"}, {"name": "hello-world"}])
def test_stolen_online_keys_take_a_name(scene, thief, change):
    thief.offer(**change)
    assert scene.refuses(NameNotOwned, installs_other(scene), learned(thief)).code == "name-not-owned"


def test_stolen_online_keys_offer_one_skill_as_another(scene, thief):
    index = json.loads(thief.index())
    hello = next(each for each in index["releases"] if each["name"] == "hello")
    thief.offer(**{field: hello[field] for field in ("url", "sha256", "size", "tree")})
    scene.refuses(SourceMismatch, installs_other(scene), learned(thief))


def test_stolen_online_keys_replay_an_old_release_as_a_new_one(scene, thief):
    thief.offer(version="9.0.0")
    scene.refuses(SourceMismatch, installs_other(scene), learned(thief))


def test_stolen_online_keys_add_an_execute_bit(scene, thief):
    thief.offer(tree="sha256:" + "0" * 64)
    scene.refuses(WrongBytes, installs_other(scene), learned(thief))


# As many keys as a role needs.


def test_stolen_admission_keys_do_not_change_the_locked_signer(scene, hub, thief, tmp_path):
    """With these keys a thief is the registry for new users; users with the skill keep its signer."""
    installs_other(scene)()
    evil = key_of("evil")("evil", "p256")
    data = packed(tmp_path / "evil", version="2.0.0", key=evil)
    facts = {"version": "2.0.0", "url": "archives/evil.zip", "sha256": Digest.of(data).hex, "size": len(data)}
    tree = unpack(data, "zip").tree.digest
    index = thief.index(**facts, tree=str(tree))
    hub.admit("acme", keys=[evil.public.pem.decode()])
    hub.revise({"idx/acme.json": index})
    hub.files["archives/evil.zip"] = data
    scene.remember()
    targets = {kept("", path) for path in (namespace_path("acme"), publisher_path("acme"))}
    trusted = learned(thief) | targets | {"namespaces.json"}
    error = scene.refuses(SignerChanged, lambda: scene.machine.install("acme:other@2.0.0"), trusted)
    assert error.code == "signer-changed"


def test_stolen_targets_keys_are_invalid_once_the_root_names_others(scene, hub, thief):
    thief.root(thief.keys("root")[:2], targets=fresh_keys("targets", 3))
    thief.targets("targets", {"x": b"x"}, signers=3)
    scene.refuses(BadMetadataSignature, installs_other(scene), TOP | NEW_ROOT)


# A lost key


def test_a_registry_recovers_from_a_lost_root_key(scene, hub, thief):
    """The other two keys name three keys again; with them the registry continues."""
    kept = thief.keys("root")[1:]
    fresh = [*kept, *fresh_keys("root")]
    thief.root(fresh, root=fresh)
    scene.remember()
    installs_other(scene)()
    assert "other" in scene.machine.lock().skills


def test_a_lost_root_key_signs_nothing_after_its_replacement(scene, hub, thief):
    lost, *kept = thief.keys("root")
    fresh = [*kept, *fresh_keys("root")]
    thief.root(fresh, root=fresh)
    second = json.loads(hub.files["metadata/2.root.json"])["signed"]
    second["version"] = 3
    hub.files["metadata/3.root.json"] = sealed(Root.from_dict(second), [lost, kept[0]])
    scene.refuses(BadMetadataSignature, installs_other(scene), NEW_ROOT)


def test_root_keys_lost_so_that_the_registry_starts_over_are_a_new_source(scene, hub, tmp_path):
    again = Simulator(tmp_path, "again")
    again.publish("other")
    for serves in (again.files, {**again.files, "metadata/2.root.json": again.root}):
        hub.files = serves
        scene.refuses(BadMetadataSignature, installs_other(scene))
