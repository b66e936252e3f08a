"""Commands in hints are for the scope in use and are quoted for a shell."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from skillhub.disk.folders import remove_tree
from skillhub.errors import Refused, SecurityError, SourceMismatch, Withdrawn, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.formats.text import command, reinstall
from skillhub.install.candidates import check_against_lock
from skillhub.install.gather import UnsafeSkills
from skillhub.install.obtain import by_path
from skillhub.install.trusted_sources import propose_source
from skillhub.model.index import Index, Release
from skillhub.model.lock import Locked, LockedSource
from skillhub.project.last_seen import ReleaseStatus
from tests.support.world import OfUser, World, skill

WITHDRAWN = Digest.of(b"one")


@pytest.fixture(params=[World, OfUser], ids=["project", "user"])
def world(request, tmp_path):
    return request.param(tmp_path)


@pytest.fixture
def scope(world):
    """The flag that commands need in this scope."""
    return " --global" if world.project.scope == "user" else ""


def test_a_command_has_its_scope_and_quotes_its_arguments():
    assert command("project", "install", "a b", "c@^1") == "skillhub install 'a b' 'c@^1'"
    assert command("user", "sync") == "skillhub sync --global"
    assert (
        reinstall("user", "one", ["./x;y"]) == "skillhub remove one --global, then skillhub install './x;y' --global"
    )


def test_the_hint_for_a_name_locked_from_another_source(world, scope):
    world.install(str(skill(world.folder / "one")))
    with pytest.raises(SourceMismatch) as caught:
        world.install(str(skill(world.folder / "two")))
    both = "to have both, install it with another name: --as plain-2"
    instead = f"to replace it: skillhub remove plain{scope}, then install the other one"
    intent = "or, if skillhub.toml names the other one, correct its line"
    assert caught.value.hint == f"{both}; {instead}; {intent}"


def test_the_hint_for_a_local_skill_that_changed(world, scope):
    path = skill(world.folder / "one")
    world.install(str(path))
    (path / "notes.md").write_text("More.\n")
    remove_tree(world.store.path(world.lock().skills["plain"].tree))
    with pytest.raises(WrongBytes) as caught:
        world.install()
    assert caught.value.hint.startswith("if it changed there, this shows the difference")
    assert caught.value.hint.endswith(f": skillhub update plain{scope}")


def test_the_warning_for_a_skill_that_only_the_intent_names(world, scope):
    Path(world.project.root).mkdir(parents=True, exist_ok=True)
    Path(world.project.intent_path).write_text('[skills]\nplain = {path = "/one"}\n')
    assert world.sync().warnings == (f"skillhub.toml names plain, and the lock does not: skillhub install{scope}",)


def test_the_hint_for_removing_a_required_skill(world, scope):
    top = skill(world.folder / "src", "top", head="metadata:\n  requires: plain\n")
    skill(world.folder / "src")
    world.install(str(world.folder / "src/plain"), str(top))
    with pytest.raises(Refused) as caught:
        world.remove("plain")
    assert caught.value.hint == f"remove both: skillhub remove top plain{scope}"


def test_the_warning_for_a_newer_version_outside_of_the_range(world, scope):
    world.install("github:systematic-debugging@<1.1")
    (warning,) = [note for note in world.update(dry_run=True).warnings if "to install it" in note]
    assert warning.endswith(f"to install it: skillhub install 'github:systematic-debugging@^1.1.0'{scope}")


@pytest.mark.parametrize(
    "other", [(), (Release(name="hello", url="u", digest=Digest.of(b"two")),)], ids=["alone", "two"]
)
def test_the_hint_for_a_withdrawn_release(world, scope, other):
    release = Release(name="hello", url="u", digest=WITHDRAWN, version="1.0.0", withdrawn="bad")
    entry = Locked(source="acme", tree=Digest.of(b"tree"), size=1, digest=WITHDRAWN)
    with pytest.raises(Withdrawn) as caught:
        status = ReleaseStatus("hello", entry, Index({"hello": (release, *other)}))
        status.refuse(world.project.scope, world.project.intent)
    assert f"skillhub remove hello{scope} removes it" in caught.value.hint
    assert (f"skillhub update hello{scope} installs another" in caught.value.hint) is bool(other)


@pytest.mark.parametrize("word", ["skills/[one]", "two words"])
def test_the_hint_for_unsafe_skills_quotes_each_name(word):
    error = UnsafeSkills([(word, SecurityError("bad"))], where="here")
    typed = error.hint.removeprefix("to install the others: ")
    assert shlex.split(typed) == ["--all", "--except", word]
    assert shlex.quote(word) in typed


def test_the_hint_quotes_a_repository_of_the_lock(world):
    url = "https://host/$(id)"
    found = by_path(str(skill(world.folder)), world.ports()).run()
    theirs = replace(found.entry, source=f"git+{url}", git=url, rev="0" * 40, path=None)
    locked = replace(theirs, source=f"git+{url}.git", git=f"{url}.git")
    with pytest.raises(SourceMismatch) as caught:
        check_against_lock(replace(found, entry=theirs), locked, "project")
    assert caught.value.hint.endswith(f": 'git+{url}.git'")


def test_attack_the_hint_for_a_proposed_registry_omits_its_fingerprint():
    source = LockedSource(kind="registry", url="https://host/[x]", root=Digest.of(b"root"))
    subject = propose_source("acme", source).subject
    assert subject == "--trust-source acme=sha256:… with the fingerprint that its operator publishes elsewhere"
    assert str(source.root) in propose_source("acme", source).details[2]
