"""A publisher's document is pinned by the bucket that offline keys sign, so the network cannot replace it."""

from __future__ import annotations

import json

import pytest

from skillhub.errors import FormatError, NameNotOwned, Refused, SourceError, WrongBytes
from skillhub.model.index import namespace_path, publisher_path
from skillhub.project.last_seen import LastSeen, kept
from skillhub.registry.build import add
from skillhub.registry.check import check
from skillhub.registry.operator import Signing
from skillhub.registry.push import push
from skillhub.registry.push_targets import FolderTarget
from skillhub.registry.upkeep import AdmissionChange, delegate
from tests.attacks.scene import installs_other
from tests.support.registry import key_of, write_skill

TOP = {"timestamp.json", "snapshot.json", "namespaces.json"}
BUCKET = kept("", namespace_path("acme"))
STOLEN, RIVAL = (key_of("more")(name, "p256").public.pem for name in ("stolen", "rival"))


def mandate(scene, publisher, **change):
    delegate(scene.hub.dir.path, AdmissionChange(publisher=publisher, **change), Signing(now=scene.hub.when))
    scene.hub.pull()
    scene.remember()


def revoked(scene):
    """Return the revoked keys of ``acme`` that this machine knows."""
    seen = LastSeen(scene.machine.trust_folder(scene.machine.sources.get("acme")))
    return seen.index(["hello"]).admissions["acme"].revoked


def served(scene, **change):
    """Return the previous document of ``acme``, and the path of the next one."""
    before = scene.hub.files[scene.hub.publisher("acme")]
    mandate(scene, "acme", **change)
    return before, scene.hub.publisher("acme")


def test_older_document_with_fewer_revocations(scene):
    older, path = served(scene, revoke=(STOLEN.decode(),))
    assert b"fingerprint" not in older
    assert b"fingerprint" in scene.hub.files[path]
    scene.hub.files[path] = older
    assert scene.refuses(WrongBytes, installs_other(scene), TOP | {BUCKET}).code == "wrong-bytes"


def test_another_publishers_document_is_refused(scene):
    mandate(scene, "rival", keys=(RIVAL,), names=("owned",))
    _, path = served(scene, names=("more",))
    scene.hub.files[path] = scene.hub.files[scene.hub.publisher("rival")]
    scene.refuses(WrongBytes, installs_other(scene), TOP | {BUCKET})


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data + b" ",
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: data.replace(b"more", b"evil"),
        lambda data: data + bytes(10_000_000),
    ],
    ids=["longer", "shorter", "empty", "as long", "endless"],
)
def test_a_document_of_another_length_or_digest_is_refused(scene, change):
    _, path = served(scene, names=("more",))
    scene.hub.files[path] = change(scene.hub.files[path])
    scene.refuses(WrongBytes, installs_other(scene), TOP | {BUCKET})


def test_a_missing_document_is_an_error(scene):
    _, path = served(scene, names=("more",))
    del scene.hub.files[path]
    scene.refuses(SourceError, installs_other(scene), TOP | {BUCKET})


def test_a_document_withheld_after_a_revocation_keeps_the_revocation(scene):
    """The bucket is newer than the cached document, the last one received."""
    mandate(scene, "acme", revoke=(STOLEN.decode(),))
    installs_other(scene)()
    assert len(revoked(scene)) == 1
    _, path = served(scene, names=("more",))
    del scene.hub.files[path]
    with pytest.raises(SourceError):
        scene.hub.open(scene.machine.trust_folder(scene.machine.sources.get("acme"))).release_index(["other"])
    assert len(revoked(scene)) == 1


def test_a_swapped_cached_document_is_fetched_again(scene):
    """The cached document is checked against the bucket at each use of the registry."""
    older, path = served(scene, revoke=(STOLEN.decode(),))
    installs_other(scene)()
    trust = scene.machine.trust_folder(scene.machine.sources.get("acme"))
    with open(kept(trust, publisher_path("acme")), "wb") as file:
        file.write(older)
    index = scene.hub.open(trust).release_index(["other"])
    assert len(index.admissions["acme"].revoked) == len(revoked(scene)) == 1
    assert scene.hub.asked[path] == 2


# With the keys of namespaces


def test_a_bucket_that_pins_another_publishers_document_is_refused(scene):
    scene.hub.admit("acme", publisher="rival")
    scene.remember()
    error = scene.refuses(NameNotOwned, installs_other(scene), TOP | {BUCKET})
    assert error.code == "name-not-owned"
    assert check(scene.hub.dir.path, scene.hub.when).problems[0].code == "name-not-owned"


@pytest.mark.parametrize("digest", ["0" * 63, "../../x", ""])
def test_a_bucket_with_an_invalid_digest_is_refused(scene, digest):
    bucket = {"publishers": {"acme": {"sha256": digest, "size": 412}}}
    scene.hub.revise({namespace_path("acme"): json.dumps(bucket).encode()})
    scene.remember()
    scene.refuses(FormatError, installs_other(scene), TOP)


def test_a_name_of_two_publishers_is_refused(scene, tmp_path):
    """Their documents are pinned in different buckets; a reader of all of them reports the conflict."""
    hub = scene.hub
    hub.admit("rival", names=["hello"], keys=[RIVAL.decode()])
    assert namespace_path("rival") != namespace_path("acme")
    assert "name-not-owned" in [issue.code for issue in check(hub.dir.path, hub.when).problems]
    before = dict(hub.files)
    with pytest.raises(Refused, match="is invalid"):
        push(hub.dir.path, str(tmp_path / "www"), FolderTarget, now=hub.when)
    with pytest.raises(NameNotOwned):
        add(hub.dir.path, [write_skill(tmp_path, "third")], Signing(now=hub.when))
    with pytest.raises(NameNotOwned):
        mandate(scene, "third", keys=(STOLEN,), names=("third",))
    hub.pull()
    assert hub.files == before
    mandate(scene, "acme", names=("hello",), move=True)
    assert check(hub.dir.path, hub.when).problems == ()
