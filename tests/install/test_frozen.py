"""``--frozen``: the lock as it stands, or nothing; and what a lock may not say."""

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


def test_frozen_is_the_lock_or_nothing(world):
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


def test_frozen_bytes_that_differ(world):
    folder = local(world)
    other = world.on_another_machine()
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "More.\n")
    refused(other, WrongBytes, lambda: other.install(frozen=True))
    shutil.rmtree(world.copy("plain"))
    world.install(frozen=True)  # the store has what was locked
    assert not world.copy("plain").joinpath("SKILL.md").read_text().endswith("More.\n")


def test_frozen_without_the_path(world):
    folder = local(world)
    other = world.on_another_machine()
    shutil.rmtree(folder)
    shutil.rmtree(world.copy("plain"))
    refused(other, NotFound, lambda: other.install(frozen=True))
    assert world.install(frozen=True).skills[0].state == "enabled"


def test_a_lock_that_names_another_name_than_the_skill_has(world):
    local(world)
    path = world.base / "skillhub.lock"
    path.write_text(path.read_text().replace('"plain":', '"other":'))
    (world.base / "skillhub.toml").unlink()
    refused(world, SourceMismatch, lambda: world.install())


@pytest.mark.parametrize("name", ["gamma", "never-there"])
@pytest.mark.parametrize("frozen", [True, False])
def test_attack_the_entry_of_another_skill_of_the_registry(world, tmp_path, name, frozen):
    """Not in the store and, under the name that the lock gives it, never in the registry either."""
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


def test_a_release_that_its_registry_no_longer_has(world, tmp_path):
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
def test_attack_a_lock_says_of_a_skill_what_its_files_do_not(world, change, kind):
    """Else what an update adds would be no news."""
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


def test_what_a_lock_does_not_say_that_a_skill_needs_is_told(world):
    world.install(str(skill(world.base, "plain", agents__openai_yaml=needs(TOKEN))))
    path = world.base / "skillhub.lock"
    lock = json.loads(path.read_text())
    lock["skills"]["plain"]["requires"] = []
    path.write_text(json.dumps(lock))
    found = world.on_another_machine().install(frozen=True)
    assert any("does not list these needs: env:TRACKER_TOKEN" in each for each in found.warnings)
