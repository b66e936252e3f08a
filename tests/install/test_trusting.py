"""Trust in registries comes from a pin or an answer, and not from a repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillhub.audit.sources import view_source
from skillhub.errors import BadMetadataSignature, Forbidden, FormatError, NotFound, Refused, UsageError, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.install.trusted_sources import Pin, add_source, trust_source
from skillhub.trust.roles import RootFile
from tests.support.registry import URL, Simulator
from tests.support.world import NOW, Answers, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.registries["acme"] = Simulator(tmp_path)
    return world


def root_of(world: World) -> bytes:
    return world.registries["acme"].root


def test_a_given_fingerprint_needs_no_question(world: World) -> None:
    source = add_source("acme", URL, Pin(fingerprint=Digest.of(root_of(world))), world.ports())
    assert world.sources.all()["acme"] == source
    assert world.answers.seen == []


def test_a_root_with_another_fingerprint_is_refused(world: World) -> None:
    before = world.snapshot()
    with pytest.raises(WrongBytes):
        add_source("acme", URL, Pin(fingerprint=Digest.of(b"another")), world.ports())
    assert world.snapshot() == before


def test_without_a_pin_the_question_shows_the_fingerprint(world: World) -> None:
    add_source("acme", URL, Pin(), world.ports(Answers(root="yes")))
    assert any(Digest.of(root_of(world)) in line for line in world.answers.seen[0].details)


def test_without_a_pin_and_an_answer_no_source_is_added(world: World) -> None:
    before = world.snapshot()
    with pytest.raises(Refused):
        add_source("acme", URL, Pin(), world.ports(Answers()))
    assert world.snapshot() == before


def test_a_name_that_another_url_has_is_refused_before_any_request(world: World) -> None:
    source = add_source("acme", URL, Pin(fingerprint=Digest.of(root_of(world))), world.ports())
    del world.registries["acme"]
    before = world.snapshot()
    for dry_run in (False, True):
        with pytest.raises(UsageError) as refused:
            add_source("acme", "https://other.example", Pin(), world.ports(), dry_run=dry_run)
        assert refused.value.message.endswith("it cannot also name https://other.example")
        assert (refused.value.hint or "").endswith("to free this one: skillhub source remove acme")
    assert (world.snapshot(), world.sources.get("acme")) == (before, source)


def test_a_source_is_added_again_by_its_url_with_a_slash(world: World) -> None:
    pin = Pin(fingerprint=Digest.of(root_of(world)))
    source = add_source("acme", URL, pin, world.ports())
    assert add_source("acme", f"{URL}/", pin, world.ports()) == source


def test_a_root_file_of_another_registry_is_refused(world: World, tmp_path: Path) -> None:
    other = Simulator(tmp_path / "other", "other")
    with pytest.raises(BadMetadataSignature):
        add_source("acme", URL, Pin(root=other.root), world.ports())
    assert "acme" not in world.sources.all()


def test_a_registry_with_a_new_root_is_trusted_only_with_its_fingerprint(world: World, tmp_path: Path) -> None:
    world.add_source("acme", world.registries["acme"])
    world.registries["acme"] = Simulator(tmp_path / "again", "again")
    new = Digest.of(root_of(world))
    with pytest.raises(Refused):
        trust_source("acme", Pin(), world.ports(Answers()))
    assert world.sources.get("acme").root != new
    assert trust_source("acme", Pin(fingerprint=new), world.ports()).root == new


def test_a_failed_new_trust_keeps_the_old_root(world: World, tmp_path: Path) -> None:
    world.add_source("acme", world.registries["acme"])
    before = world.sources.get("acme")
    other = Simulator(tmp_path / "other", "other")
    with pytest.raises(BadMetadataSignature):
        trust_source("acme", Pin(root=other.root), world.ports())
    assert world.sources.get("acme") == before


@pytest.mark.parametrize("is_proposed", [False, True])
def test_a_dry_run_of_trust_asks_and_trusts_nothing(world: World, tmp_path: Path, is_proposed: bool) -> None:
    if is_proposed:
        proposing(world)
    else:
        world.add_source("acme", world.registries["acme"])
        world.registries["acme"] = Simulator(tmp_path / "again", "again")
    before, answers = world.snapshot(), Answers("yes")
    source = trust_source("acme", Pin(), world.ports(answers), dry_run=True)
    assert (source.url, source.root) == (URL, Digest.of(root_of(world)))
    assert answers.seen == []
    assert world.snapshot() == before


def test_a_proposed_source_is_trusted_by_the_root_of_the_proposal(world: World) -> None:
    (world.base / "skillhub.toml").write_text(f'[sources.acme]\nurl = "{URL}"\nroot = "{Digest.of(b"another")}"\n')
    with pytest.raises(WrongBytes):
        trust_source("acme", Pin(), world.ports(Answers(root="yes")))
    (world.base / "skillhub.toml").write_text(
        f'[sources.acme]\nurl = "{URL}"\nroot = "{Digest.of(root_of(world))}"\n'
    )
    with pytest.raises(Refused):
        trust_source("acme", Pin(), world.ports(Answers()))
    assert trust_source("acme", Pin(), world.ports(Answers(root="yes"))).url == URL


def proposing(world: World) -> None:
    (world.base / "skillhub.toml").write_text(f'[sources.acme]\nurl = "{URL}"\n')


def test_a_proposal_without_a_root_is_refused_with_a_hint(world: World) -> None:
    proposing(world)
    with pytest.raises(Refused) as caught:
        world.install(answers=Answers("yes", root="unanswered"))
    assert caught.value.hint.startswith("to trust it: --trust-source acme=sha256:… with the fingerprint that")
    [(question, _)] = caught.value.asked
    assert question.details[1:] == (f"url {URL}", "the project names no root for it")


def test_the_question_about_a_proposal_without_a_root_shows_its_root(world: World) -> None:
    proposing(world)
    root = Digest.of(root_of(world))
    answers = Answers("yes")
    world.install(answers=answers)
    assert answers.kinds_seen == ["root", "root"]
    assert f"root {root}" in answers.seen[1].details
    assert world.ports().sources.get("acme").root == root


def test_the_roots_of_several_proposals_are_seen_in_the_order_of_the_proposals(world: World) -> None:
    aliases = ["juno", "ceres", "vesta", "hygiea", "pallas"]
    lines = [f'[sources.{alias}]\nurl = "{URL}"\n' for alias in aliases]
    (world.base / "skillhub.toml").write_text("".join(lines))
    world.registries |= dict.fromkeys(aliases, world.registries["acme"])
    answers = Answers("yes")
    world.install(answers=answers)
    assert [question.skill for question in answers.seen] == [*aliases, *aliases]


def test_an_unknown_source_and_the_embedded_registry_cannot_be_trusted_again(world: World) -> None:
    with pytest.raises(NotFound):
        trust_source("nobody", Pin(), world.ports())
    with pytest.raises(UsageError):
        trust_source("github", Pin(), world.ports())


def test_a_source_is_shown_with_its_keys_and_their_expiry(world: World) -> None:
    source = add_source("acme", URL, Pin(root=root_of(world)), world.ports())
    view = view_source(source, world.sources, NOW)
    assert [(name, role.threshold, len(role.keyids)) for name, role in sorted(view.root.roles.items())] == [
        ("root", 2, 3),
        ("snapshot", 1, 1),
        ("targets", 2, 3),
        ("timestamp", 1, 1),
    ]
    assert view.root.version == 1
    assert view.changes == ()


def test_an_invalid_root_is_a_format_error(world: World) -> None:
    for data in (
        b"{}",
        b'{"signed": {"version": 1, "expires": "x"}}',
        b'{"signed": {"version": 1, "expires": "x", "roles": {"root": 3}}}',
    ):
        with pytest.raises(FormatError):
            RootFile.parse(data, "here")
    assert RootFile.parse(root_of(world), "here").signed.version == 1


def test_a_policy_with_a_root_only_permits_the_registry_with_that_root(world: World) -> None:
    root = Digest.of(root_of(world))
    path = Path(world.home.config, "policy.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'sources = ["{root}"]\n')
    with pytest.raises(Forbidden):
        add_source("acme", URL, Pin(), world.ports(Answers("yes")))
    assert add_source("acme", URL, Pin(fingerprint=root), world.ports()).root == root
