"""A release that its registry recalled is refused from lock, store and offline, once the recall was read."""

import json
from pathlib import Path

import pytest

from skillhub.command.ports import Options
from skillhub.disk.folders import remove_tree
from skillhub.edits.patch import difference
from skillhub.errors import BadSignature, NameNotOwned, SourceError, Withdrawn
from skillhub.formats.digest import Digest
from skillhub.install.apply import enable
from skillhub.install.install import update
from skillhub.registry.operator import Signing
from skillhub.registry.upkeep import AdmissionChange, delegate, withdraw, yank
from skillhub.sources.configured import Sources
from tests.support.world import Answers

DOORS = ("install", "frozen", "sync", "enable")


def change(scene, act, *words, **change):
    act(scene.hub.dir.path, *words, Signing(now=scene.hub.when))
    scene.hub.pull()


def heard(scene):
    """Read the registry's metadata, as audit does; then cut the registry off."""
    machine = scene.machine
    machine.ports().open_registry(machine.sources.get("acme")).release_index(["hello"])
    cut_off(scene)
    return machine


def cut_off(scene):
    def refuse(path):
        raise SourceError("there is no network", where=path)

    scene.hub.before = refuse


def restart(machine):
    """Drop what was read of the disk: each command is a process of its own."""
    machine.sources = Sources(machine.home)


def acts(machine):
    restart(machine)
    return {
        "install": machine.install,
        "frozen": lambda: machine.install(frozen=True),
        "sync": machine.sync,
        "enable": lambda: enable(["hello"], Options(), machine.ports()),
    }


def kept(machine, start):
    """Return the cached document of this name: ``ns`` and ``publishers`` state what acme may publish."""
    folder = Path(machine.trust_folder(machine.sources.get("acme")), "targets")
    return next(path for path in folder.iterdir() if path.name.startswith(f"{start}%2F"))


@pytest.mark.parametrize("door", DOORS)
def test_a_withdrawn_release_is_refused_from_a_lock_with_everything_stored(scene, door):
    change(scene, withdraw, "hello@1.0.0", "sends tokens away")
    cut_off(scene)
    assert not acts(scene.machine)[door]().changed
    scene.hub.before = lambda path: None
    machine = heard(scene)
    error = scene.refuses(Withdrawn, acts(machine)[door])
    assert "sends tokens away" in error.message
    assert error.hint.startswith("skillhub remove hello removes it; its registry has no other")
    assert (error.exit_code, error.code) == (5, "withdrawn")
    assert machine.problems() == ["withdrawn"]


@pytest.mark.parametrize("door", DOORS)
def test_attack_a_lock_returns_to_an_agreed_release_that_was_withdrawn(scene, door):
    older = {path: path.read_bytes() for path in scene.machine.base.iterdir() if path.is_file()}
    scene.publish("hello", "1.1.0")
    update(["hello"], Options(), scene.machine.ports())
    assert [each.tree for each in scene.machine.record("hello").former] == [
        json.loads(older[scene.machine.base / "skillhub.lock"])["skills"]["hello"]["tree"]
    ]
    change(scene, withdraw, "hello@1.0.0", "bad")
    machine = heard(scene)
    for path, data in older.items():
        path.write_bytes(data)
    scene.refuses(Withdrawn, acts(machine)[door])


@pytest.mark.parametrize("door", DOORS)
def test_attack_a_lock_has_an_agreed_release_again_that_was_withdrawn(scene, door):
    with_hello = {path: path.read_bytes() for path in scene.machine.base.iterdir() if path.is_file()}
    (scene.machine.base / "skillhub.lock").write_text('{"skills": {}, "sources": {}, "version": 1}\n')
    (scene.machine.base / "skillhub.toml").write_text("[skills]\n")
    acts(scene.machine)["sync"]()
    assert [len(each.former) for each in scene.machine.project.records().left.values()] == [1]
    change(scene, withdraw, "hello@1.0.0", "bad")
    machine = heard(scene)
    for path, data in with_hello.items():
        path.write_bytes(data)
    scene.refuses(Withdrawn, acts(machine)[door])


def patch_back(scene, older):
    """Add a patch to the lock that makes the locked version the one of ``older``, an earlier lock."""
    machine, path = scene.machine, scene.machine.base / "skillhub.lock"
    document = json.loads(path.read_text())
    entry, tree = document["skills"]["hello"], json.loads(older)["skills"]["hello"]["tree"]
    text, unpatchable = difference(machine.store.read(Digest(entry["tree"])), machine.store.read(Digest(tree)))
    assert not unpatchable
    (machine.base / "skillhub-edits").mkdir()
    (machine.base / "skillhub-edits/hello-1.patch").write_text(text)
    digest = str(Digest.of(text.encode()))
    entry["patch"] = {"base": entry["tree"], "digest": digest, "path": "skillhub-edits/hello-1.patch"}
    entry["tree"] = tree
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")


@pytest.mark.parametrize("door", DOORS)
def test_attack_a_patch_makes_a_version_the_withdrawn_one_that_was_agreed_to(scene, door):
    older = (scene.machine.base / "skillhub.lock").read_text()
    scene.publish("hello", "1.1.0")
    update(["hello"], Options(), scene.machine.ports())
    patch_back(scene, older)
    change(scene, withdraw, "hello@1.0.0", "bad")
    machine = heard(scene)
    scene.refuses(Withdrawn, acts(machine)[door])


def test_a_withdrawn_skill_can_be_removed_and_another_installed(scene):
    change(scene, withdraw, "hello@1.0.0", "bad")
    machine = heard(scene)
    scene.hub.before = lambda path: None
    machine.remove("hello")
    restart(machine)
    assert machine.install("acme:other").skills[0].state == "enabled"
    assert machine.problems() == []


def test_update_replaces_a_withdrawn_version(scene):
    scene.publish("hello", "1.1.0")
    change(scene, withdraw, "hello@1.0.0", "bad")
    machine = heard(scene)
    assert "skillhub update hello" in scene.refuses(Withdrawn, acts(machine)["install"]).hint
    scene.hub.before = lambda path: None
    restart(machine)
    assert update(["hello"], Options(), machine.ports()).skills[0].version == "1.1.0"
    restart(machine)
    assert machine.problems() == []
    assert not machine.install().changed


@pytest.mark.parametrize("door", DOORS)
def test_the_hint_for_a_withdrawn_release_outside_of_the_range_works(scene, door):
    scene.publish("hello", "2.0.0")
    (scene.machine.base / "skillhub.toml").write_text('[skills]\nhello = {source = "acme", version = "~1.0"}\n')
    change(scene, withdraw, "hello@1.0.0", "bad")
    machine = heard(scene)
    hint = scene.refuses(Withdrawn, acts(machine)[door]).hint
    assert hint.startswith(
        "skillhub install 'acme:hello@^2.0.0' installs 2.0.0, which skillhub.toml does not allow yet"
    )
    assert "skillhub remove hello removes it" in hint
    assert "skillhub update" not in hint
    scene.hub.before = lambda path: None
    restart(machine)
    assert machine.install("acme:hello@^2.0.0").skills[0].version == "2.0.0"
    restart(machine)
    assert machine.problems() == []


def test_a_range_replaces_a_withdrawn_pin(scene):
    scene.publish("hello", "1.1.0")
    (scene.machine.base / "skillhub.toml").write_text('[skills]\nhello = {source = "acme", version = "1.0.0"}\n')
    change(scene, withdraw, "hello@1.0.0", "bad")
    machine = heard(scene)
    scene.hub.before = lambda path: None
    restart(machine)
    assert scene.refuses(Withdrawn, lambda: machine.install("acme:hello")).hint.startswith(
        "skillhub install 'acme:hello@^1.1.0' installs 1.1.0"
    )
    restart(machine)
    assert machine.install("acme:hello@^1.0").skills[0].version == "1.1.0"
    assert '"^1.0"' in (machine.base / "skillhub.toml").read_text()
    restart(machine)
    assert machine.problems() == []


def test_an_update_without_replacement_for_a_withdrawn_skill_is_pending(scene):
    change(scene, withdraw, "hello@1.0.0", "bad")
    restart(scene.machine)
    assert update([], Options(), scene.machine.ports()).pending
    scene.publish("hello", "1.1.0")
    restart(scene.machine)
    done = update([], Options(), scene.machine.ports())
    assert (done.skills[0].version, done.pending) == ("1.1.0", False)


def test_yanked_release_is_installed_from_a_lock_with_a_warning(scene):
    change(scene, yank, "hello@1.0.0", "slow")
    machine = heard(scene)
    for door in ("install", "frozen", "enable"):
        assert acts(machine)[door]().warnings == ("hello: version 1.0.0 was yanked: slow",)
    assert machine.problems() == []


def key_of_hello(scene):
    return scene.machine.lock().skills["hello"].signed_by[0][4:75]


def revoke(scene, since):
    """Let the cached document name the key as revoked from then on, with no release withdrawn yet."""
    path = kept(scene.machine, "publishers")
    document = json.loads(path.read_bytes())
    document["revoked"] = [{"fingerprint": key_of_hello(scene), "since": since, "pem": document["keys"][0]}]
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("door", DOORS)
def test_a_key_revoked_before_the_release_is_refused_with_everything_stored(scene, door):
    machine = heard(scene)
    revoke(scene, "1970-01-01T00:00:00Z")
    error = scene.refuses(BadSignature, acts(machine)[door])
    assert error.reason == "revoked"
    restart(machine)
    assert machine.problems() == ["revoked"]


@pytest.mark.parametrize("door", DOORS)
def test_a_key_revoked_after_the_release_does_not_affect_it(scene, door):
    machine = heard(scene)
    revoke(scene, "9999-01-01T00:00:00Z")
    assert not acts(machine)[door]().changed
    assert machine.problems() == []


@pytest.mark.parametrize("door", DOORS)
def test_a_name_taken_from_its_publisher_is_refused(scene, door):
    machine = heard(scene)
    kept(machine, "ns").write_bytes(b'{"publishers":{},"version":1}')
    scene.refuses(NameNotOwned, acts(machine)[door])
    assert machine.problems() == ["name-not-owned"]


def test_a_revocation_by_the_registry_is_enforced(scene):
    """In the same step the registry withdraws the releases signed with the key."""
    fingerprint = key_of_hello(scene)
    signing = Signing(now=scene.hub.when)
    delegate(scene.hub.dir.path, AdmissionChange(publisher="acme", revoke=(fingerprint,)), signing)
    scene.hub.pull()
    machine = heard(scene)
    scene.refuses(Withdrawn, acts(machine)["install"])


def test_sync_does_not_store_a_withdrawn_release_again(scene):
    change(scene, withdraw, "hello@1.0.0", "bad")
    remove_tree(scene.machine.store.root)
    with pytest.raises(Withdrawn):
        scene.machine.sync(Answers("yes"))
    assert not scene.machine.store.has(scene.machine.lock().skills["hello"].tree)
