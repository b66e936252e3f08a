"""``--frozen`` installs exactly the lock or fails; and statements of a lock that are refused."""

from __future__ import annotations

import json
import shutil

import pytest

from skillhub.errors import FormatError, NotFound, SourceMismatch, UsageError, WrongBytes
from tests.support.registry import Simulator
from tests.support.world import TOKEN, needs, refused, skill


def local(world, **files):
    folder = skill(world.base / "skills", **files)
    world.install(str(folder))
    return folder


def test_frozen_installs_the_lock_or_fails(world):
    world.install("github:code-review")
    intent = world.base / "skillhub.toml"
    text = intent.read_text()
    intent.write_text(text.replace("^1.0.0", "^2"))
    refused(world, FormatError, lambda: world.install(frozen=True))
    intent.write_text(text + 'release-notes = "*"\n')
    refused(world, FormatError, lambda: world.install(frozen=True))
    intent.write_text(text)
    refused(world, UsageError, lambda: world.install("github:code-review", frozen=True))
    shutil.rmtree(world.base / ".agents")
    before = (world.base / "skillhub.lock").stat().st_mtime_ns
    assert world.install(frozen=True).skills[0].links
    assert (world.base / "skillhub.lock").stat().st_mtime_ns == before
    (world.base / "skillhub.lock").unlink()
    assert refused(world, FormatError, lambda: world.install(frozen=True)).message == "there is no lock"


def test_frozen_refuses_content_that_differs_from_the_lock(world):
    folder = local(world)
    other = world.on_another_machine()
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "More.\n")
    refused(other, WrongBytes, lambda: other.install(frozen=True))
    shutil.rmtree(world.copy("plain"))
    world.install(frozen=True)  # the store has the locked tree
    assert not world.copy("plain").joinpath("SKILL.md").read_text().endswith("More.\n")


def test_frozen_without_the_local_path_is_not_found(world):
    folder = local(world)
    other = world.on_another_machine()
    shutil.rmtree(folder)
    shutil.rmtree(world.copy("plain"))
    error = refused(other, NotFound, lambda: other.install(frozen=True))
    assert (error.message, error.where) == ("the lock has plain from a path that is not here", str(folder))
    assert "skillhub remove plain" in error.hint
    assert world.install(frozen=True).skills[0].state == "enabled"


def test_a_lock_with_another_name_than_the_skill_is_refused(world):
    local(world)
    path = world.base / "skillhub.lock"
    path.write_text(path.read_text().replace('"plain":', '"other":'))
    (world.base / "skillhub.toml").unlink()
    refused(world, SourceMismatch, lambda: world.install())


@pytest.mark.parametrize("name", ["gamma", "never-there"])
@pytest.mark.parametrize("frozen", [True, False])
def test_attack_a_lock_entry_with_the_url_of_another_skill_is_refused(world, tmp_path, name, frozen):
    """The tree is not in the store, and the registry has no such release under the name in the lock."""
    hub = Simulator(tmp_path)
    hub.publish("alpha", "1.1.0")
    hub.publish("gamma", "1.0.0")
    world.add_source("acme", hub)
    world.install("acme:alpha", "acme:gamma")
    other = world.on_another_machine()
    other.add_source("acme", hub)
    path = world.base / "skillhub.lock"
    lock = json.loads(path.read_text())
    lock["skills"][name] = lock["skills"]["alpha"]
    path.write_text(json.dumps(lock, indent=2, sort_keys=True) + "\n")
    (world.base / "skillhub.toml").unlink()
    error = refused(other, SourceMismatch, lambda: other.install(frozen=frozen))
    assert error.message == f"the lock names {name}, its URL 'alpha'"


def test_a_locked_release_that_its_registry_no_longer_has_is_not_found(world, tmp_path):
    hub = Simulator(tmp_path)
    hub.publish("alpha", "1.0.0")
    world.add_source("acme", hub)
    world.install("acme:alpha")
    other = world.on_another_machine()
    other.add_source("acme", hub)
    path = world.base / "skillhub.lock"
    lock = json.loads(path.read_text())
    entry = lock["skills"]["alpha"]
    entry |= {"version": "0.9.0", "digest": f"sha256:{'0' * 64}"}
    entry["url"] = entry["url"].replace("1.0.0", "0.9.0")
    path.write_text(json.dumps(lock, indent=2, sort_keys=True) + "\n")
    (world.base / "skillhub.toml").unlink()
    refused(other, NotFound, lambda: other.install(frozen=True))


UNTRUE = [
    {"size": 5},
    {"size": 0},
    {"requires": ["env:FOO"]},
    {"capabilities": ["scripts"]},
    {"capabilities": ["tools:Bash"]},
]


@pytest.mark.parametrize("change", UNTRUE, ids=str)
@pytest.mark.parametrize("kind", ["local", "registry"])
def test_attack_a_lock_that_misstates_facts_of_a_skill_is_refused(world, change, kind):
    """Otherwise an update would not report these facts as new."""
    if kind == "local":
        local(world)
    else:
        world.install("github:code-review")
    path = world.base / "skillhub.lock"
    lock = json.loads(path.read_text())
    (entry,) = lock["skills"].values()
    entry |= change if "size" in change else {key: [*entry[key], *value] for key, value in change.items()}
    path.write_text(json.dumps(lock))
    other = world.on_another_machine()
    error = refused(other, WrongBytes, lambda: other.install(frozen=True))
    assert error.code == "wrong-bytes"


@pytest.mark.parametrize("key", ["tree", "digest"])
def test_the_hint_for_a_lock_that_differs_from_its_registry_does_not_name_update_which_fails_too(world, key):
    world.install("github:code-review")
    path = world.base / "skillhub.lock"
    lock = json.loads(path.read_text())
    lock["skills"]["code-review"][key] = f"sha256:{'0' * 64}"
    path.write_text(json.dumps(lock))
    hint = refused(world, WrongBytes, lambda: world.install(frozen=True)).hint
    assert hint.startswith("skillhub.lock differs from github, whose releases never change: restore it from version")
    assert hint.endswith("otherwise: skillhub remove code-review, then skillhub install github:code-review")
    world.remove("code-review")
    assert world.install("github:code-review").changed


def test_a_need_missing_in_the_lock_is_reported(world):
    world.install(str(skill(world.base, "plain", agents__openai_yaml=needs(TOKEN))))
    path = world.base / "skillhub.lock"
    lock = json.loads(path.read_text())
    lock["skills"]["plain"]["requires"] = []
    path.write_text(json.dumps(lock))
    found = world.on_another_machine().install(frozen=True)
    assert any("does not list these needs: env:TRACKER_TOKEN" in each for each in found.warnings)
