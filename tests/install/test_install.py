"""Install: its questions, its refusals, and that a refusal changes not a byte."""

from __future__ import annotations

import json
import os
import time

import pytest

from skillhub.disk.folders import remove_tree
from skillhub.errors import NotFound, Refused, SignerChanged, SourceMismatch, UnsafeArchive, UsageError, Withdrawn
from skillhub.model.index import TakenBack
from skillhub.sources.local import read_local
from tests.support.registry import Simulator, key_of
from tests.support.world import Answers, refused, skill, unlocked, wanted


def test_from_the_embedded_registry_to_the_folder_of_an_agent(world):
    outcome = world.install("github:code-review", agents=("claude-code",), mcp="configure")
    (found,) = outcome.skills
    assert (found.state, found.version, found.source, outcome.changed) == ("enabled", "1.0.0", "github", True)
    assert found.links == (str(world.copy("code-review")), str(world.copy("code-review", ".claude/skills")))
    assert world.problems() == []
    assert world.lock().skills["code-review"].signed_by[0].endswith(":skillhub-examples")
    assert wanted(world) == {"code-review": {"source": "github", "version": "^1.0.0"}}


def test_during_a_question_no_file_of_the_skill_is_on_disk(world):
    before = unlocked(world.snapshot())
    answers = Answers("yes")
    during = []
    answers.meanwhile = lambda: during.append(unlocked(world.snapshot()))
    world.install("github:code-review", answers=answers)
    assert during == [before]
    assert world.copy("code-review").is_dir()


@pytest.mark.parametrize("reply", ["no", "unanswered"])
def test_a_refusal_changes_nothing(world, reply):
    world.install("github:code-review")
    error = refused(
        world, Refused, lambda: world.install("github:release-notes", "github:gh-fix-ci", answers=Answers(reply))
    )
    assert {answer.said for _, answer in error.asked} == {reply}
    assert [question.kind for question, _ in error.asked if question.kind == "install"] == ["install"] * 2


def test_several_references_are_installed_all_or_none(world, tmp_path):
    good, bad = skill(tmp_path / "src", "good"), skill(tmp_path / "src", "bad")
    os.symlink("/etc/hostname", bad / "link")
    refused(world, UnsafeArchive, lambda: world.install(str(good), str(bad)))
    refused(world, NotFound, lambda: world.install(str(good), "github:there-is-none"))
    refused(world, NotFound, lambda: world.install(str(good), str(tmp_path / "nowhere")))
    refused(world, UsageError, lambda: world.install(str(good), str(skill(tmp_path / "other", "good", "Else."))))


def test_a_skill_of_a_locked_name_from_another_source_is_refused(world, tmp_path):
    world.install("github:code-review")
    local = skill(tmp_path / "src", "code-review")
    error = refused(world, SourceMismatch, lambda: world.install(str(local)))
    assert "remove code-review" in error.hint
    simulator = Simulator(tmp_path)
    simulator.publish("code-review", "9.0.0")
    world.add_source("acme", simulator)
    refused(world, SourceMismatch, lambda: world.install("acme:code-review"))


def test_two_versions_of_a_skill_are_refused_with_the_reason(world, tmp_path):
    simulator = Simulator(tmp_path)
    for version in ("1.0.0", "1.1.0"):
        simulator.publish("hello", version)
    world.add_source("acme", simulator)
    error = refused(world, UsageError, lambda: world.install("acme:hello@1.0.0", "acme:hello@1.1.0"))
    assert error.hint == "name it once: a project has one version of a skill"


def test_a_bare_name_in_two_sources_lists_both(world, tmp_path):
    simulator = Simulator(tmp_path)
    simulator.publish("code-review", "9.0.0")
    world.add_source("acme", simulator)
    error = refused(world, UsageError, lambda: world.install("code-review"))
    assert "github:code-review" in error.message
    assert "acme:code-review" in error.message
    error = refused(world, UsageError, lambda: world.install("code-review@9"))
    assert (error.hint, "github:code-review@9" in error.message) == ("say which: acme:code-review@9", True)


def test_an_install_without_changes_touches_no_file(world):
    world.install("github:code-review", "github:systematic-debugging", agents=("claude-code",))
    before = world.snapshot()
    for refs in ((), ("github:code-review",), ("code-review",)):
        answers = Answers()
        outcome = world.install(*refs, answers=answers)
        assert (outcome.changed, answers.seen) == (False, [])
    assert world.opened == ["github"]  # the first install only: a stored skill needs no registry
    assert {k: v for k, v in world.snapshot().items() if v[1] is not None} == {
        k: v for k, v in before.items() if v[1] is not None
    }


def test_another_version_is_asked_about_as_an_update(world):
    world.install("github:gh-fix-ci@1.1.0", mcp="skip", env={"GITHUB_TOKEN": "x"})
    answers = Answers("yes")
    world.install("github:gh-fix-ci@1.2.0", answers=answers)
    assert world.lock().skills["gh-fix-ci"].version == "1.2.0"
    assert answers.seen[0].message == "Update gh-fix-ci to 1.2.0?"
    refused(world, NotFound, lambda: world.install("github:gh-fix-ci@7.0.0"))


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("acme:hello@^1.0", {"source": "acme", "version": "^1.0"}),
        ("hello@>=1,<3", {"source": "acme", "version": ">=1,<3"}),
        ("acme:hello@1.0.0", {"source": "acme", "version": "1.0.0"}),
        ("acme:hello", {"source": "acme", "version": "1.0.0"}),
        ("hello", {"source": "acme", "version": "1.0.0"}),
    ],
)
def test_a_new_reference_to_a_locked_skill_replaces_its_range(world, hub, asked, line):
    """A reference without a range keeps the line of the intent."""
    world.add_source("acme", hub)
    world.install("acme:hello@1.0.0")
    hub.publish("hello", "1.1.0")
    before = world.lock()
    outcome = world.install(asked)
    assert wanted(world)["hello"] == line
    assert world.lock() == before
    assert outcome.changed is (line["version"] != "1.0.0")
    assert bool(world.update(dry_run=True).skills) is outcome.changed


@pytest.mark.parametrize("reply", ["unanswered", "yes", "no"])
def test_a_dry_run_changes_nothing_with_any_answer(world, reply):
    before = unlocked(world.snapshot())
    outcome = world.install("github:code-review", dry_run=True, answers=Answers(reply))
    assert unlocked(world.snapshot()) == before
    assert [answer.said for _, answer in outcome.asked] == [reply]
    assert not outcome.changed


def test_a_dry_run_adds_no_source_that_the_intent_proposes(world, hub):
    world.add_source("acme", hub)
    root = world.sources.get("acme").root
    world.sources.remove("acme")
    (world.base / "skillhub.toml").write_text(
        f'[sources.acme]\nurl = "https://registry.example/hub"\nroot = "{root}"\n[skills]\nhello = "*"\n'
    )
    before = unlocked(world.snapshot())
    outcome = world.install(dry_run=True, answers=Answers("yes"))
    assert [(question.kind, answer.said) for question, answer in outcome.asked] == [("source", "yes")]
    assert "you do not have the source acme" in outcome.warnings[0]
    assert unlocked(world.snapshot()) == before


@pytest.fixture
def acme(world, hub):
    world.add_source("acme", hub)
    return hub


def recall(simulator, what):
    """Yank or withdraw ``hello`` 1.0.0 with the registry's keys."""
    kept = [each for each in simulator.files if "idx/" in each and each.endswith("acme.json")]
    document = max((json.loads(simulator.files[path]) for path in kept), key=lambda each: len(each["releases"]))
    document["releases"][0][what] = "it was bad"
    simulator.revise({"idx/acme.json": json.dumps(document).encode()})


@pytest.mark.parametrize("what", ["yanked", "withdrawn"])
def test_a_yanked_or_withdrawn_release_is_not_chosen(world, acme, what):
    recall(acme, what)
    for ref in ("acme:hello", "acme:hello@1.0.0"):
        error = refused(world, TakenBack, lambda ref=ref: world.install(ref))
        assert f"was {what} by its registry: " in error.message  # as for one that is locked
        assert "it was bad" in error.message
        assert error.hint in ("there are: 1.1.0", "no other release of it is offered")
    assert refused(world, NotFound, lambda: world.install("acme:hello@9")).hint == error.hint


def test_frozen_installs_a_yanked_release_and_refuses_a_withdrawn_one(world, acme):
    world.install("acme:hello")
    recall(acme, "yanked")
    remove_tree(world.store.root)
    assert world.install(frozen=True).skills[0].state == "enabled"
    recall(acme, "withdrawn")
    remove_tree(world.store.root)
    refused(world, Withdrawn, lambda: world.install(frozen=True))


def test_another_signer_than_the_locked_one_is_refused(world, acme):
    world.install("acme:hello")
    path = world.base / "skillhub.lock"
    text = path.read_text()
    entry = world.lock().skills["hello"]
    path.write_text(text.replace(entry.signed_by[0], "key:sha256:" + "0" * 64 + ":acme"))
    refused(world, SignerChanged, lambda: world.install())
    acme.publish(version="1.1.0")
    refused(world, SignerChanged, lambda: world.install("acme:hello@1.1.0"))


def signed(parent, key, name="plain", body="Do it.\n"):
    from skillhub.trust import oms

    folder = skill(parent, name, body)
    tree = read_local(str(folder)).tree
    (folder / "skill.oms.sig").write_bytes(oms.sign(tree, name, key))
    return folder


def test_a_local_skill_with_another_or_no_signer_is_refused(world, tmp_path):
    from skillhub.project.user_state import Trusted

    one, two = (key_of(label)("publisher", "p256") for label in ("one", "two"))
    for name, key in (("ann", one), ("bob", two)):
        world.publishers.trust(Trusted((key.public.pem.decode(),), name=name))
    folder = signed(tmp_path / "src", one)
    world.install(str(folder))
    assert world.lock().skills["plain"].signed_by == (f"key:{one.public.fingerprint}:ann",)
    assert world.problems() == []
    signed(tmp_path / "src", two, body="Another.\n")
    refused(world, SignerChanged, lambda: world.install(str(folder)))
    (folder / "skill.oms.sig").unlink()
    refused(world, SignerChanged, lambda: world.install(str(folder)))
    world.publishers.trust(Trusted((two.public.pem.decode(),), name="ann"))
    world.publishers.remove("bob")
    signed(tmp_path / "src", two, body="Another.\n")
    world.install(str(folder))  # a second key of the same publisher
    assert world.lock().skills["plain"].signed_by == (f"key:{two.public.fingerprint}:ann",)


def test_install_without_reference_lock_and_intent_is_a_usage_error(world):
    assert refused(world, UsageError, lambda: world.install()).hint
    assert "--project" in refused(world, UsageError, lambda: world.install(frozen=True)).hint


def test_the_scanner_thread_ends_with_a_failed_install_and_raises_nothing(world, monkeypatch):
    ended, raised = [], []

    def fail():
        time.sleep(0.3)  # longer than the search for the missing skill
        ended.append(True)
        raise ImportError("tree_sitter")

    monkeypatch.setattr("threading.excepthook", raised.append)
    monkeypatch.setattr("skillhub.scan.load", fail)
    refused(world, NotFound, lambda: world.install("not-there"))
    assert (ended, raised) == ([True], [])


def test_no_enable_stores_and_locks_without_enabling_and_keeps_enabled_skills(world):
    assert world.install("github:code-review", enable=False).skills[0].state == "disabled"
    assert not world.copy("code-review").exists()
    assert not (world.base / ".agents").exists()
    answers = Answers()
    assert world.install(answers=answers).skills[0].state == "enabled"
    assert answers.seen == []
    assert world.install("github:code-review", enable=False).skills[0].state == "enabled"
    assert world.copy("code-review").is_dir()


def test_no_enable_of_another_version_asks_about_edits(world):
    world.install("github:systematic-debugging@1.0.0")
    (world.copy("systematic-debugging") / "SKILL.md").write_text("mine\n")
    shy = Answers("yes", local_edit="unanswered")
    refused(world, Refused, lambda: world.install("github:systematic-debugging@1.1.0", enable=False, answers=shy))
    world.install("github:systematic-debugging@1.1.0", enable=False)
    assert not world.copy("systematic-debugging").exists()
    assert "+mine" in (world.base / "skillhub-edits/systematic-debugging-1.patch").read_text()
