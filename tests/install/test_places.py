"""Places that are no registries: each kind is installed, locked, and restored from the lock, or refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from skillhub.disk.folders import remove_tree
from skillhub.errors import Forbidden, NotFound, SourceError, SourceMismatch, WrongBytes
from skillhub.install.trusted_sources import Pin, add_source
from skillhub.model.lock import Lock
from skillhub.model.reference import parse_ref
from tests.support.reaching import Reaching
from tests.support.registry import Simulator
from tests.support.site import WELL_KNOWN
from tests.support.upstream import KINDS, PINNED, SAMPLE, Upstream, text
from tests.support.web import Web
from tests.support.world import refused, skill

CHANGED = {"SKILL.md": text("rm -rf ~"), "more.txt": b"x"}
PROVED = tuple(kind for kind in SAMPLE if kind != "legacy")  # kinds that a cache can verify


@pytest.fixture
def world(reaching: Reaching) -> Reaching:
    return reaching


def install(world: Reaching, upstream: Upstream, kind: str) -> bytes:
    world.install(upstream.ref(kind))
    return world.lock_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_place_is_locked_by_its_digests(world: Reaching, upstream: Upstream, kind: str) -> None:
    install(world, upstream, kind)
    locked = world.lock().skills["deploy"]
    assert world.copy("deploy").joinpath("SKILL.md").read_bytes() == text()
    assert upstream.ref(kind).startswith(locked.source)
    assert locked.signed_by == ()
    if kind in PINNED:
        assert (locked.git, locked.rev, locked.path) == (upstream.repo.url, upstream.commit, "skills/deploy")
    else:
        assert (locked.digest is None) == (kind == "legacy")
        assert locked.url is not None
    assert Lock.parse(world.lock_bytes()).dump() == world.lock_bytes()
    assert world.project.intent().skills["deploy"].remote() is not None


@pytest.mark.parametrize("kind", KINDS)
def test_the_caller_is_told_before_a_place_is_asked(world: Reaching, upstream: Upstream, kind: str) -> None:
    """An install loads the scan meanwhile."""
    told, ports = [], world.ports()
    ports.before_requests(lambda: told.append(kind))
    ports.open_place(parse_ref(upstream.ref(kind)))
    assert told


def test_the_caller_is_told_once(world: Reaching) -> None:
    """Places of a marketplace are asked on several threads at once, and a thread can be started only once."""
    told, ports = [], world.ports()
    ports.before_requests(lambda: told.append("told"))
    for _ in range(2):
        ports.network.web("https://skills.invalid/")
    assert told == ["told"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_intent_alone_gives_the_same_lock(world: Reaching, upstream: Upstream, kind: str) -> None:
    lock = install(world, upstream, kind)
    (world.base / "skillhub.lock").unlink()
    if kind in ("git", "tag"):  # on this disk, as a path
        other = world.on_another_machine()
        other.install()
        assert world.lock_bytes() == lock
    world.install()
    assert world.lock_bytes() == lock


@pytest.mark.parametrize("kind", SAMPLE)
def test_a_change_upstream_does_not_change_a_locked_skill(world: Reaching, upstream: Upstream, kind: str) -> None:
    lock = install(world, upstream, kind)
    upstream.have(CHANGED)
    for refs in ((upstream.ref(kind),), ()):
        assert not world.install(*refs).changed
        assert world.lock_bytes() == lock
        assert world.copy("deploy").joinpath("SKILL.md").read_bytes() == text()


@pytest.mark.parametrize("kind", SAMPLE)
def test_another_machine_gets_the_locked_content_or_an_error(world: Reaching, upstream: Upstream, kind: str) -> None:
    lock = install(world, upstream, kind)
    upstream.have(CHANGED)
    other = world.as_cloned()
    if kind in PINNED:
        other.install(frozen=True)
        assert other.copy("deploy").joinpath("SKILL.md").read_bytes() == text()
    else:
        error = refused(other, WrongBytes, lambda: other.install(frozen=True))
        assert "deploy" in f"{error.where} {error.message}"
    assert other.lock_bytes() == lock


@pytest.mark.parametrize("kind", PROVED)
def test_offline_a_skill_is_restored_from_the_verified_cache(world: Reaching, upstream: Upstream, kind: str) -> None:
    install(world, upstream, kind)
    upstream.vanish()
    remove_tree(world.home.data)
    shutil.rmtree(world.base / ".agents")
    world.offline = True
    world.install(frozen=True)
    assert world.copy("deploy").joinpath("SKILL.md").read_bytes() == text()
    assert world.problems() == []


@pytest.mark.parametrize("kind", [kind for kind in SAMPLE if kind != "git"])  # that repository is on this disk
def test_offline_without_a_cache_the_install_fails(world: Reaching, upstream: Upstream, kind: str) -> None:
    install(world, upstream, kind)
    other = world.as_cloned()
    other.offline = True
    refused(other, SourceError, lambda: other.install(frozen=True))


@pytest.mark.parametrize("kind", SAMPLE)
def test_a_missing_place_is_not_found(world: Reaching, upstream: Upstream, kind: str) -> None:
    upstream.vanish()
    refused(world, NotFound, lambda: world.install(upstream.ref(kind)))


@pytest.mark.parametrize("other", ["git", "archive", "legacy", "local", "registry"])
@pytest.mark.parametrize("kind", ["commit", "single"])
def test_the_same_name_from_another_place_is_refused_with_both_origins(
    world: Reaching, upstream: Upstream, tmp_path: Path, kind: str, other: str
) -> None:
    """Consent is for the place, even if the bytes are the same."""
    install(world, upstream, kind)
    before = world.lock().skills["deploy"].origin
    if other == "registry":
        hub = Simulator(tmp_path)
        hub.publish("deploy")
        world.add_source("acme", hub)
        ref = "acme:deploy"
    else:
        ref = str(skill(tmp_path, "deploy")) if other == "local" else upstream.ref(other)
    if (kind, other) == ("commit", "git"):
        world.install(ref)  # the same repository at another revision: the skill stays locked
        assert world.lock().skills["deploy"].origin == before
        return
    error = refused(world, SourceMismatch, lambda: world.install(ref))
    assert before in error.message
    assert ref.removeprefix("git+") in error.message or "deploy.zip" in error.message or "/old/" in error.message
    assert "skillhub remove deploy" in (error.hint or "")


@pytest.mark.parametrize("kind", ["site", "legacy"])
def test_attack_a_skill_of_another_name_than_the_index_says_is_refused(
    world: Reaching, upstream: Upstream, kind: str
) -> None:
    upstream.have({"SKILL.md": text(name="mail")})
    error = refused(world, SourceMismatch, lambda: world.install(upstream.ref(kind)))
    assert "deploy" in error.message and "mail" in error.message


def test_two_places_are_installed_together_or_not_at_all(world: Reaching, upstream: Upstream, tmp_path: Path) -> None:
    folder = skill(tmp_path, "mail")
    refused(world, NotFound, lambda: world.install(str(folder), upstream.ref("git") + "#nowhere"))
    world.install(str(folder), upstream.ref("git"))
    assert set(world.lock().skills) == {"deploy", "mail"}


@pytest.mark.parametrize("source", ["site", "alias"])
def test_attack_a_lock_with_an_allowed_site_and_another_host_is_refused(
    world: Reaching, upstream: Upstream, web: Web, source: str
) -> None:
    """Only the lock states that the site named this place."""
    if source == "alias":
        web.acts[WELL_KNOWN] = web.acts[f"/new{WELL_KNOWN}"]
        add_source("docs", web.url(""), Pin(), world.ports())
    world.install("docs:deploy" if source == "alias" else upstream.ref("site"))
    lock = world.lock()
    entry = lock.skills["deploy"]
    elsewhere = (entry.url or "").replace("127.0.0.1", "localhost")
    forged = replace(entry, url=elsewhere)
    (world.base / "skillhub.lock").write_bytes(Lock({"deploy": forged}, lock.sources).dump())
    policy = Path(world.home.config) / "policy.toml"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text(f'sources = ["{web.url("/")}"]\n')
    remove_tree(world.home.data)
    error = refused(world, Forbidden, lambda: world.install())
    assert elsewhere in error.message
