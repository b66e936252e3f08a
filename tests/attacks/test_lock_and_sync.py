"""Attacks on commands without a reference: a clone of the project on a new machine, and a lost store.

The new machine has never read the registry, so it has only the lock and the root to compare with.
"""

from __future__ import annotations

import json
import os

import pytest

from skillhub.errors import (
    BadMetadataSignature,
    FormatError,
    MetadataExpired,
    NotFound,
    Rollback,
    SecurityError,
    SkillhubError,
    SourceError,
    SourceMismatch,
    Withdrawn,
    WrongBytes,
)
from tests.attacks.thief import TIMESTAMP
from tests.support.registry import Simulator, long_ago


@pytest.fixture
def clone(scene):
    """A second machine with the project and its lock, and of this registry only the root."""
    scene.second_machine()
    scene.hub.asked.clear()
    return scene


@pytest.fixture
def lost(scene):
    """The machine without its store."""
    scene.empty_store()
    scene.hub.asked.clear()
    return scene


def archive_of(files):
    return next(path for path in files if path.startswith("archives/hello/"))


def fails(scene, act):
    """Assert that ``act`` fails and changes only trusted metadata; return the error.

    Trusted metadata has all its signatures.
    """
    before = scene.seen()
    with pytest.raises(SkillhubError) as caught:
        act()
    after = scene.seen()
    trust = scene.machine.trust_folder(scene.machine.sources.get("acme"))
    moved = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert all(path.startswith(trust) for path in moved)
    unsigned = {os.path.basename(path) for path in moved if after[path][1] not in scene.signed}
    assert unsigned <= {"root.json", "publishers.json"}  # a link, and a hint that is verified before its use
    return caught.value


def test_without_an_attack_the_clone_installs(clone):
    assert clone.machine.install(frozen=True).skills[0].state == "enabled"
    assert clone.machine.problems() == []


def test_without_an_attack_sync_restores_the_lost_store(lost):
    assert lost.machine.sync().changed
    assert lost.machine.problems() == []


def evil_archive(scene):
    path = archive_of(scene.hub.files)
    scene.hub.files[path] = bytes(len(scene.hub.files[path]))


def evil_index(scene):
    for path in [path for path in scene.hub.files if path.startswith("targets/idx/")]:
        scene.hub.files[path] = scene.hub.files[path].replace(b"hello", b"holla")


def endless_timestamp(scene):
    scene.hub.files[TIMESTAMP] += b" " * 1_000_000


def portal(scene):
    scene.hub.files[TIMESTAMP] = b"<!doctype html>"


def unsigned_timestamp(scene):
    document = json.loads(scene.hub.files[TIMESTAMP])
    document["signatures"] = []
    scene.hub.files[TIMESTAMP] = json.dumps(document).encode()


def frozen_state(scene):
    scene.hub.set_back(long_ago(4))
    scene.publish("third")


ROAD = [
    (evil_archive, WrongBytes),
    (endless_timestamp, WrongBytes),
    (portal, FormatError),
    (unsigned_timestamp, BadMetadataSignature),
    (frozen_state, MetadataExpired),
]


@pytest.mark.parametrize(("attack", "error"), [*ROAD, (evil_index, WrongBytes)])
def test_attack_on_the_registry_of_a_clone_is_refused(clone, attack, error):
    attack(clone)
    assert type(fails(clone, clone.machine.install)) is error


@pytest.mark.parametrize(("attack", "error"), ROAD)
def test_attack_on_the_registry_of_a_lost_store_is_refused(lost, attack, error):
    attack(lost)
    assert type(fails(lost, lost.machine.sync)) is error


def test_rollback_of_the_registry_of_a_lost_store_is_refused(scene):
    old = dict(scene.hub.files)
    scene.publish("third")
    scene.machine.install("acme:third")
    scene.empty_store()
    scene.hub.files = old
    scene.refuses(Rollback, scene.machine.sync)


def test_another_registry_at_the_same_url_is_refused(clone, tmp_path):
    theirs = Simulator(tmp_path, "evil")
    theirs.publish("hello")
    clone.hub.files = theirs.files
    assert type(fails(clone, clone.machine.install)) is BadMetadataSignature


def test_a_lock_with_another_root_is_refused(clone, tmp_path):
    path = clone.machine.base / "skillhub.lock"
    root = str(clone.machine.sources.get("acme").root)
    path.write_text(path.read_text().replace(root, "sha256:" + "0" * 64))
    assert type(fails(clone, clone.machine.install)) is SourceMismatch


@pytest.mark.parametrize("field", ["digest", "tree", "url", "version", "signed_by"])
def test_a_changed_lock_is_refused(clone, field):
    path = clone.machine.base / "skillhub.lock"
    document = json.loads(path.read_text())
    entry = document["skills"]["hello"]
    entry[field] = {
        "digest": "sha256:" + "0" * 64,
        "tree": "sha256:" + "0" * 64,
        "url": "https://evil.example/x.zip",
        "version": "1.0.1",
        "signed_by": ["key:sha256:" + "0" * 64 + ":acme"],
    }[field]
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    error = fails(clone, clone.machine.install)
    assert isinstance(error, SecurityError)


@pytest.mark.parametrize("door", ["install", "sync"])
def test_other_content_for_a_locked_version_by_stolen_online_keys_is_refused(scene, thief, door):
    """Stolen online keys can sign any facts of 1.0.0; the lock has its digest."""
    scene.second_machine() if door == "install" else scene.empty_store()
    index = json.loads(thief.index())
    other = next(each for each in index["releases"] if each["name"] == "other")
    hello = next(each for each in index["releases"] if each["name"] == "hello")
    hello.update({field: other[field] for field in ("url", "sha256", "size", "tree")})
    scene.hub.revise({"idx/acme.json": json.dumps(index).encode()})
    scene.remember()
    error = fails(scene, getattr(scene.machine, door))
    assert type(error) is WrongBytes


def test_a_withdrawn_release_is_not_installed_from_a_lock(clone, thief):
    index = json.loads(thief.index())
    for release in index["releases"]:
        release["withdrawn"] = "it was bad"
    clone.hub.revise({"idx/acme.json": json.dumps(index).encode()})
    clone.remember()
    assert type(fails(clone, clone.machine.install)) is Withdrawn


def test_a_release_removed_by_a_thief_is_not_found(clone, thief):
    clone.hub.revise({"idx/acme.json": b'{"publisher":"acme","releases":[],"version":1}'})
    clone.remember()
    assert isinstance(fails(clone, clone.machine.install), NotFound)


@pytest.mark.parametrize("door", ["install", "sync"])
def test_a_mirror_that_withholds_any_file_is_an_error(scene, door):
    scene.second_machine() if door == "install" else scene.empty_store()
    hub, act, asked = scene.hub, getattr(scene.machine, door), []
    honest, hub.files, hub.before = hub.files, {}, asked.append
    while archive_of(honest) not in hub.files:
        assert isinstance(fails(scene, act), SourceError)
        withheld = next(path for path in reversed(asked) if path in honest and path not in hub.files)
        hub.files[withheld] = honest[withheld]
    assert act().skills[0].name == "hello"
