"""TUF's attacks by the network or a mirror, without stolen keys.

On each machine a skill is installed and enabled, and a second one is wanted. Each test asserts the error, and that
project, store, lock, links and trusted metadata are unchanged, byte for byte.
"""

from __future__ import annotations

import json

import pytest

from skillhub.archive.unpack import pack
from skillhub.errors import BadMetadataSignature, FormatError, MetadataExpired, Rollback, SourceError, WrongBytes
from skillhub.sources.local import read_local
from skillhub.trust import oms
from tests.attacks.scene import installs_other
from tests.attacks.thief import FAR, TIMESTAMP
from tests.support.registry import Simulator, key_of, long_ago, write_skill

HTML = b"<!doctype html><html><body>Please sign in</body></html>"


def test_without_an_attack_the_second_skill_is_installed(scene):
    installs_other(scene)()
    assert set(scene.machine.lock().skills) == {"hello", "other"}
    assert scene.machine.problems() == []


def archive_of(hub, name):
    return next(path for path in hub.files if path.startswith(f"archives/{name}/"))


def newest(hub, role):
    return max((path for path in hub.files if path.endswith(f".{role}.json")), key=version_of)


def version_of(path):
    return int(path.rpartition("/")[2].partition(".")[0])


def signed_archive(folder, key, name="other"):
    source = write_skill(folder, name)
    signature = oms.sign(read_local(source).tree, name, key)
    with open(f"{source}/skill.oms.sig", "wb") as file:
        file.write(signature)
    return pack(read_local(source).tree)


@pytest.mark.parametrize("data", [b"", b"PK\x05\x06" + bytes(18), bytes(1_000_000)])
def test_arbitrary_software(scene, hub, data):
    hub.files[archive_of(hub, "other")] = data
    assert scene.refuses(WrongBytes, installs_other(scene)).code == "wrong-bytes"


def test_arbitrary_software_of_the_same_size(scene, hub):
    path = archive_of(hub, "other")
    hub.files[path] = bytes(len(hub.files[path]))
    scene.refuses(WrongBytes, installs_other(scene))


def test_arbitrary_software_signed_by_its_maker(scene, hub, tmp_path):
    hub.files[archive_of(hub, "other")] = signed_archive(tmp_path / "evil", key_of("evil")("evil", "p256"))
    scene.refuses(WrongBytes, installs_other(scene))


def test_rollback(scene, hub):
    old = dict(hub.files)
    scene.publish("third")
    scene.machine.install("acme:third")
    hub.files = old
    assert scene.refuses(Rollback, installs_other(scene)).code == "rollback"


def test_rollback_of_a_role_under_its_newer_version_number(scene, hub):
    """The version of a document is checked against the version that the snapshot names."""
    old = newest(hub, "namespaces")
    scene.publish("third")
    hub.files[newest(hub, "namespaces")] = hub.files[old]
    error = scene.refuses(Rollback, lambda: scene.machine.install("acme:third"), {"timestamp.json", "snapshot.json"})
    assert error.code == "rollback"


@pytest.mark.parametrize("days", [4, 8, 400])
def test_freeze(scene, hub, days):
    """A captured state is served until its timestamp, its snapshot, and everything has expired."""
    hub.set_back(long_ago(days))
    scene.publish("third")
    assert scene.refuses(MetadataExpired, installs_other(scene)).code == "metadata-expired"


def test_freeze_by_withholding(scene, hub):
    del hub.files[TIMESTAMP]
    scene.refuses(SourceError, installs_other(scene))


def test_fast_forward(scene, hub):
    """Without a key an attacker cannot raise versions, so the true documents stay newer than the trusted ones."""
    document = json.loads(hub.files[TIMESTAMP])
    document["signed"]["version"] = FAR
    hub.files[TIMESTAMP] = json.dumps(document).encode()
    assert scene.refuses(BadMetadataSignature, installs_other(scene)).code == "bad-metadata-signature"


def test_mix_and_match_of_an_old_snapshot_and_a_new_timestamp(scene, hub):
    before = newest(hub, "snapshot")
    scene.publish("third")
    hub.files[newest(hub, "snapshot")] = hub.files[before]
    assert scene.refuses(WrongBytes, installs_other(scene), {"timestamp.json"}).code == "wrong-bytes"


def test_mix_and_match_of_an_old_index_and_new_metadata(scene, hub):
    scene.publish("other", "1.1.0")
    indexes = [path for path in hub.files if path.startswith("targets/idx/")]
    old, new = sorted(indexes, key=lambda path: len(hub.files[path]))[-2:]
    hub.files[new] = hub.files[old]
    learned = {"timestamp.json", "snapshot.json", bin_of(hub)}
    scene.refuses(WrongBytes, installs_other(scene), learned)


def bin_of(hub):
    return f"{hub.dir.metadata().role_of('idx/acme.json')}.json"


def test_wrong_software_of_another_skill(scene, hub):
    """Every byte is the registry's own, but of another skill."""
    hub.files[archive_of(hub, "other")] = hub.files[archive_of(hub, "hello")]
    scene.refuses(WrongBytes, installs_other(scene))


def test_wrong_software_of_an_older_version(scene, hub):
    old = archive_of(hub, "other")
    scene.publish("other", "1.1.0")
    scene.machine.install("acme:other")
    scene.publish("other", "1.2.0")
    new = next(path for path in hub.files if path.startswith("archives/other/1.2.0/"))
    hub.files[new] = hub.files[old]
    learned = {"timestamp.json", "snapshot.json", bin_of(hub), "targets/idx%2Facme.json"}
    scene.refuses(WrongBytes, lambda: scene.machine.install("acme:other@1.2.0"), learned)


def test_malicious_mirror_with_a_registry_of_its_own(scene, hub, tmp_path):
    theirs = Simulator(tmp_path, "evil")
    theirs.publish("other")
    hub.files = theirs.files
    scene.refuses(BadMetadataSignature, installs_other(scene))


def test_malicious_mirror_with_a_root_of_its_own(scene, hub, tmp_path):
    """A registry that starts over is a new source, never the next root of the old one."""
    theirs = Simulator(tmp_path, "evil")
    hub.files["metadata/2.root.json"] = theirs.root
    scene.refuses(BadMetadataSignature, installs_other(scene))


@pytest.mark.parametrize("path", ["metadata/2.root.json", TIMESTAMP])
def test_malicious_mirror_that_is_a_portal(scene, hub, path):
    hub.files[path] = HTML
    assert scene.refuses(FormatError, installs_other(scene)).code == "format"
