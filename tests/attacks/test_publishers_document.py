"""A publisher's document is pinned by the bucket that offline keys sign: nobody on the road serves another."""

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
from skillhub.registry.upkeep import Mandate, delegate
from tests.attacks.scene import installs_other
from tests.support.registry import key_of, write_skill

TOP = {"timestamp.json", "snapshot.json", "namespaces.json"}
BUCKET = kept("", namespace_path("acme"))
STOLEN, RIVAL = (key_of("more")(name, "p256").public.pem for name in ("stolen", "rival"))


def mandate(scene, publisher, **change):
    delegate(scene.hub.dir.path, Mandate(publisher=publisher, **change), Signing(now=scene.hub.when))
    scene.hub.pull()
    scene.remember()


def revoked(scene):
    """Return what is revoked of the keys of ``acme``, as far as this machine has heard."""
    seen = LastSeen(scene.machine.trust_folder(scene.machine.sources.get("acme")))
    return seen.index(["hello"]).admissions["acme"].revoked


def served(scene, **change):
    """Return the document of ``acme`` as it was, and the path at which the next one is served."""
    before = scene.hub.files[scene.hub.publisher("acme")]
    mandate(scene, "acme", **change)
    return before, scene.hub.publisher("acme")


def test_older_document_with_fewer_revocations(scene):
    older, path = served(scene, revoke=(STOLEN.decode(),))
    assert b"fingerprint" not in older
    assert b"fingerprint" in scene.hub.files[path]
    scene.hub.files[path] = older
    assert scene.refuses(WrongBytes, installs_other(scene), TOP | {BUCKET}).code == "wrong-bytes"


def test_another_publishers_document_in_its_place(scene):
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
def test_document_that_is_not_as_long_or_not_as_pinned(scene, change):
    _, path = served(scene, names=("more",))
    scene.hub.files[path] = change(scene.hub.files[path])
    scene.refuses(WrongBytes, installs_other(scene), TOP | {BUCKET})


def test_document_that_is_missing(scene):
    _, path = served(scene, names=("more",))
    del scene.hub.files[path]
    scene.refuses(SourceError, installs_other(scene), TOP | {BUCKET})


def test_document_that_is_withheld_after_a_revocation_does_not_make_it_forgotten(scene):
    """The bucket is newer by then than the document that is kept, which is all that was ever heard."""
    mandate(scene, "acme", revoke=(STOLEN.decode(),))
    installs_other(scene)()
    assert len(revoked(scene)) == 1
    _, path = served(scene, names=("more",))
    del scene.hub.files[path]
    with pytest.raises(SourceError):
        scene.hub.open(scene.machine.trust_folder(scene.machine.sources.get("acme"))).release_index(["other"])
    assert len(revoked(scene)) == 1


def test_kept_document_that_was_swapped_is_fetched_anew(scene):
    """What a machine keeps is held against the bucket each time that the registry is asked."""
    older, path = served(scene, revoke=(STOLEN.decode(),))
    installs_other(scene)()
    trust = scene.machine.trust_folder(scene.machine.sources.get("acme"))
    with open(kept(trust, publisher_path("acme")), "wb") as file:
        file.write(older)
    index = scene.hub.open(trust).release_index(["other"])
    assert len(index.admissions["acme"].revoked) == len(revoked(scene)) == 1
    assert scene.hub.asked[path] == 2


# With the keys of namespaces


def test_bucket_that_pins_the_document_of_another(scene):
    scene.hub.admit("acme", publisher="rival")
    scene.remember()
    error = scene.refuses(NameNotOwned, installs_other(scene), TOP | {BUCKET})
    assert error.code == "name-not-owned"
    assert check(scene.hub.dir.path, scene.hub.when).problems[0].code == "name-not-owned"


@pytest.mark.parametrize("digest", ["0" * 63, "../../x", ""])
def test_bucket_that_pins_a_digest_that_is_none(scene, digest):
    bucket = {"publishers": {"acme": {"sha256": digest, "size": 412}}}
    scene.hub.revise({namespace_path("acme"): json.dumps(bucket).encode()})
    scene.remember()
    scene.refuses(FormatError, installs_other(scene), TOP)


def test_name_that_two_publishers_are_given(scene, tmp_path):
    """Their documents are pinned in different buckets; who reads all of them tells, and publishes no more."""
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
