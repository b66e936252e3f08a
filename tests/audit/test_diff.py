"""Diff: the changes of an update, and of a change of the lock; diff writes nothing."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from skillhub.audit.show import diff, diff_locks, edits_of
from skillhub.disk.folders import remove_tree
from skillhub.errors import NotFound, SourceMismatch
from skillhub.formats.digest import Digest
from skillhub.model.lock import Lock
from skillhub.model.reference import Named
from tests.support.reaching import Reaching
from tests.support.registry import Simulator
from tests.support.upstream import Upstream, text
from tests.support.web import Web
from tests.support.world import World, skill, snapshot

BEFORE = {"SKILL.md": text("one\n\ntwo"), "old name.txt": b"gone", "logo.png": b"\x89PNG\0\1", "run.sh": b"a"}
AFTER = {"SKILL.md": text("one\n\n2"), "new.txt": b"no line end", "logo.png": b"\x89PNG\0\2", "run.sh": b"a"}


@pytest.fixture
def upstream(upstream: Upstream) -> Upstream:
    upstream.have(BEFORE)
    return upstream


@pytest.fixture
def world(reaching: Reaching) -> Reaching:
    return reaching


@pytest.mark.parametrize("kind", ["git", "site"])
def test_the_patch_turns_the_locked_into_the_new_files_and_nothing_is_written(
    world: Reaching, upstream: Upstream, tmp_path: Path, kind: str
) -> None:
    world.install(upstream.ref(kind))
    upstream.have(AFTER)
    before = {**snapshot(world.base), **snapshot(world.top)}
    found = diff(Named("deploy"), world.ports(scratch=True))
    assert {**snapshot(world.base), **snapshot(world.top)} == before
    assert (found.status, found.binary) == ("changed", ("logo.png",))
    files = found.changes.files
    assert (files.added, files.removed) == (("new.txt",), ("old name.txt",))
    folder = shutil.copytree(world.copy("deploy"), tmp_path / "patched")
    subprocess.run(["git", "apply", "-"], input=found.patch.encode(), cwd=folder, check=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == AFTER | {"logo.png": BEFORE["logo.png"]}


def test_the_newest_version_gives_an_empty_diff(world: Reaching, upstream: Upstream) -> None:
    world.install(upstream.ref("git"))
    found = diff(Named("deploy"), world.ports())
    assert (found.status, found.patch, found.binary) == ("same", "", ())


def test_diff_of_an_unknown_skill_or_version_is_not_found(world: Reaching, upstream: Upstream) -> None:
    with pytest.raises(NotFound, match="no skill named 'deploy'"):
        diff(Named("deploy"), world.ports())
    world.install(upstream.ref("git"))
    with pytest.raises(NotFound, match="no versions"):
        diff(Named("deploy", range="1.0.0"), world.ports())


def test_any_version_of_a_registry_can_be_compared(tmp_path: Path) -> None:
    hub = Simulator(tmp_path)
    for version in ("1.0.0", "1.1.0"):
        hub.publish("hello", version)
    world = World(tmp_path)
    world.add_source("acme", hub)
    world.install("acme:hello")
    found = diff(Named("hello", range="1.0.0"), world.ports())
    assert found.changes.is_downgrade
    assert "-# hello 1.1.0" in found.patch
    assert "+# hello 1.0.0" in found.patch
    with pytest.raises(NotFound, match=r"3\.0\.0"):
        diff(Named("hello", range="3.0.0"), world.ports())


def test_an_intent_with_another_source_is_refused(world: Reaching, upstream: Upstream) -> None:
    world.install(upstream.ref("git"))
    (world.base / "skillhub.toml").write_text(f'[skills]\ndeploy = {{ from = "{upstream.ref("site")}" }}\n')
    with pytest.raises(SourceMismatch):
        diff(Named("deploy"), world.ports())


def test_two_locks_are_compared_skill_by_skill(world: Reaching, upstream: Upstream, tmp_path: Path) -> None:
    mail, notes = skill(tmp_path, "mail"), skill(tmp_path, "notes")
    world.install(upstream.ref("git"), str(mail))
    old = world.lock()
    upstream.have(AFTER)
    world.update("deploy")
    world.remove("mail")
    world.install(str(notes))
    remove_tree(world.home.data)  # trees are fetched again, at the commits in the locks
    found = {each.name: each for each in diff_locks(old, (), world.ports(scratch=True))}
    assert {name: each.status for name, each in found.items()} == {
        "deploy": "changed",
        "mail": "removed",
        "notes": "added",
    }
    assert "+2" in found["deploy"].patch
    assert [each.name for each in diff_locks(old, ["notes"], world.ports())] == ["notes"]
    assert diff_locks(world.lock(), (), world.ports()) == []


@pytest.mark.parametrize("gone", [True, False])
def test_without_files_only_the_facts_of_the_locks_are_compared(
    world: Reaching, upstream: Upstream, *, gone: bool
) -> None:
    world.install(upstream.ref("site"))
    now = world.lock()
    entry = replace(now.skills["deploy"], tree=Digest("sha256:" + "0" * 64), capabilities=("hooks",))
    if gone:
        upstream.vanish()
    else:
        upstream.have(AFTER)
    (found,) = diff_locks(Lock({"deploy": entry}, {}), (), world.ports(scratch=True))
    assert (found.status, found.patch, found.changes.files) == ("changed", "", None)
    assert found.changes.capabilities.removed == ("hooks",)
    assert any("not compared" in note for note in found.notes)


def test_attack_a_lock_under_review_leads_to_no_private_host(world: Reaching, upstream: Upstream, web: Web) -> None:
    """The reviewer has not agreed to the lock."""
    world.install(upstream.ref("site"))
    old = world.lock()
    url, other = f"https://0.0.0.0:{web.port}/deploy.zip", Digest("sha256:" + "0" * 64)
    entry = replace(old.skills["deploy"], source=url, url=url, tree=other, digest=other)
    (world.base / "skillhub.lock").write_bytes(Lock({"deploy": entry}, {}).dump())
    before = web.connections
    (found,) = diff_locks(old, (), world.ports(scratch=True))
    assert any("not compared" in note for note in found.notes)
    assert web.connections == before


def two_copies(world: Reaching, upstream: Upstream, **options: object) -> tuple[Path, Path]:
    world.install(upstream.ref("git"), agents=("claude-code",), **options)
    return world.copy("deploy"), world.copy("deploy", ".claude/skills")


def test_edits_are_a_patch_against_the_locked_files(world: Reaching, upstream: Upstream, tmp_path: Path) -> None:
    mine, other = two_copies(world, upstream)
    assert edits_of("deploy", world.ports(scratch=True)) == ()
    locked = shutil.copytree(mine, tmp_path / "locked")
    (mine / "SKILL.md").write_bytes(text("one\n\nmine"))
    (mine / "notes.txt").write_text("no line end")
    (mine / "logo.png").unlink()
    before = {**snapshot(world.base), **snapshot(world.top)}
    (found,) = edits_of("deploy", world.ports(scratch=True))
    assert {**snapshot(world.base), **snapshot(world.top)} == before
    assert (found.paths, found.binary) == ((".agents/skills/deploy",), ("logo.png",))
    subprocess.run(["git", "apply", "-"], input=found.patch.encode(), cwd=locked, check=True)
    assert (locked / "SKILL.md").read_bytes() == (mine / "SKILL.md").read_bytes()
    assert (locked / "notes.txt").read_bytes() == b"no line end"
    assert (other / "logo.png").exists()


def test_identical_edits_of_several_copies_are_reported_once(world: Reaching, upstream: Upstream) -> None:
    copies = two_copies(world, upstream)
    for copy in copies:
        (copy / "run.sh").write_bytes(b"b")
    (found,) = edits_of("deploy", world.ports())
    assert found.paths == (".agents/skills/deploy", ".claude/skills/deploy")
    (copies[1] / "run.sh").write_bytes(b"c")
    assert ["+b" in each.patch for each in edits_of("deploy", world.ports())] == [True, False]


def test_an_edit_through_a_link_into_the_store_is_reported(world: Reaching, upstream: Upstream) -> None:
    mine, _ = two_copies(world, upstream, link="symlink")
    stored = mine.resolve() / "run.sh"
    stored.chmod(0o644)
    stored.write_bytes(b"b")
    (found,) = edits_of("deploy", world.ports())
    assert len(found.paths) == 2
    assert "+b" in found.patch


def test_a_missing_or_disabled_copy_is_no_edit(world: Reaching, upstream: Upstream) -> None:
    mine, _ = two_copies(world, upstream)
    shutil.rmtree(mine)
    assert edits_of("deploy", world.ports()) == ()
    world.disable("deploy")
    assert edits_of("deploy", world.ports()) == ()
    with pytest.raises(NotFound):
        edits_of("nobody", world.ports())


def test_a_new_state_of_the_lock_is_no_edit(world: Reaching, upstream: Upstream) -> None:
    two_copies(world, upstream)
    lock = world.lock()
    entry = replace(lock.skills["deploy"], tree=Digest("sha256:" + "1" * 64))
    (world.base / "skillhub.lock").write_bytes(replace(lock, skills={"deploy": entry}).dump())
    assert edits_of("deploy", world.ports()) == ()
