"""Consent is bound to a user, a project, a skill and a tree; no repository brings its own."""

from __future__ import annotations

import json
import shutil

import pytest

from skillhub.audit.verify import verify
from skillhub.errors import BadSignature, Refused, SecurityError, SkillhubError, SourceMismatch
from skillhub.formats.digest import Digest
from skillhub.sources.local import read_local
from skillhub.trust import oms
from tests.support.registry import URL, Simulator, key_of
from tests.support.world import Answers, skill, unlocked


def edit_lock(world, name, **changes):
    path = world.base / "skillhub.lock"
    document = json.loads(path.read_text())
    block = {**document["skills"][name], **changes}
    document["skills"][name] = {key: value for key, value in block.items() if value is not None}
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")


def test_a_cloned_lock_asks_again_and_links_nothing_without_an_answer(world):
    world.install("github:code-review", str(skill(world.base / "src")))
    other = world.on_another_machine()
    shutil.rmtree(world.base / ".agents")
    before = unlocked(other.snapshot())
    for said in ("no", "unanswered"):
        with pytest.raises(Refused):
            other.install(answers=Answers(said))
    assert unlocked(other.snapshot()) == before
    with pytest.raises(Refused):
        other.install(frozen=True, answers=Answers("yes", unsigned="unanswered"))  # the lock is no consent
    assert unlocked(other.snapshot()) == before
    other.sync()
    assert not (world.base / ".agents").exists()
    assert {skill.state for skill in other.install(frozen=True).skills} == {"enabled"}


def test_sync_stores_what_nobody_agreed_to_and_links_nothing(world):
    world.install("github:code-review")
    shutil.rmtree(world.base / ".agents")
    other = world.on_another_machine()
    outcome = other.sync()
    assert [each.state for each in outcome.skills] == ["disabled"]
    assert other.store.check(other.lock().skills["code-review"].tree) == []
    assert not (world.base / ".agents").exists()
    answers = Answers("yes")
    other.install(answers=answers)
    assert answers.kinds_seen == ["install"]


def test_to_disable_is_not_to_agree(world):
    world.install("github:code-review")
    other = world.on_another_machine()
    shutil.rmtree(world.base / ".agents")
    other.disable("code-review")
    silent = Answers()
    with pytest.raises(Refused):
        other.enable("code-review", answers=silent)
    assert silent.kinds_seen == ["install"]
    assert not (world.base / ".agents").exists()
    other.install(answers=Answers("yes"))
    assert not (world.base / ".agents/skills/code-review").exists()  # disabled, and stays so


def test_a_changed_lock_asks_again_and_the_old_copy_does_not_stay(world):
    folder = skill(world.base / "src")
    world.install(str(folder))
    skill(world.base / "src", body="Worse.\n")
    (world.base / ".agents").rename(world.folder / "aside")
    world.on_another_machine().install(str(folder), answers=Answers("yes"))
    shutil.rmtree(world.base / ".agents")
    (world.folder / "aside").rename(world.base / ".agents")
    # What a colleague committed comes back to the first machine, whose copies are of the tree before.
    assert set(world.problems()) == {"missing", "other-tree"}
    with pytest.raises(Refused):
        world.install(answers=Answers())
    world.sync()
    assert not world.copy("plain").exists()
    assert world.problems() == []
    world.install(answers=Answers("yes"))
    assert "Worse" in (world.copy("plain") / "SKILL.md").read_text()


def test_consent_in_one_project_is_none_in_another(world, tmp_path):
    world.install("github:code-review")
    (tmp_path / "second").mkdir()
    for name in ("skillhub.lock", "skillhub.toml"):
        shutil.copy(world.base / name, tmp_path / "second" / name)
    world.base = tmp_path / "second"
    silent = Answers()
    with pytest.raises(Refused):
        world.install(answers=silent)
    assert silent.kinds_seen == ["install"]
    assert not (world.base / ".agents").exists()


def test_a_question_shows_what_the_bytes_say_not_what_the_lock_says(world):
    world.install(str(skill(world.base / "src", scripts__run_sh="curl https://evil.example\n")))
    edit_lock(world, "plain", capabilities=[], requires=[])
    shutil.rmtree(world.base / ".agents")
    answers = Answers("yes")
    world.on_another_machine().install(answers=answers)
    (question,) = [question for question in answers.seen if question.kind == "install"]
    assert any("scripts" in line for line in question.details)
    # On the first machine the tree is stored already.
    world.remove("plain")
    world.install(str(world.base / "src/plain"))
    edit_lock(world, "plain", capabilities=[])
    world.disable("plain")
    shutil.rmtree(world.top / "skillhub/state")
    answers = Answers("yes")
    world.install(answers=answers)
    assert any("scripts" in line for line in answers.seen[-1].details)


def test_attack_a_key_pinned_for_one_skill_vouches_for_another(world, hub):
    """The embedded registry's keys are public: whoever signs with one is nobody."""

    world.add_source("acme", hub)
    world.install("acme:hello")
    entry = world.lock().skills["hello"]
    folder = skill(world.base / "evil", "evil")
    stolen = key_of("test")("acme", "p256")
    assert stolen.public.fingerprint in entry.signed_by[0]
    (folder / "skill.oms.sig").write_bytes(oms.sign(read_local(str(folder))[0].tree, "evil", stolen))
    tree = read_local(str(folder))[0].tree
    (world.base / "skillhub.toml").unlink()  # which would have no need of it
    document = json.loads((world.base / "skillhub.lock").read_text())
    # First, as an unsigned local skill, so that `sync` stores it without a question ...
    document["skills"]["evil"] = {
        "capabilities": [], "path": "evil/evil", "requires": [], "size": tree.size, "source": "local",
        "tree": tree.digest,
    }  # fmt: skip
    (world.base / "skillhub.lock").write_text(json.dumps(document))
    world.sync()
    assert world.store.check(tree.digest) == []
    # ... then as one of the registry's, signed by its publisher.
    forged = dict(document["skills"]["hello"], tree=tree.digest)
    for changes in ({}, {"source": "local", "path": "evil/evil", "url": None, "digest": None}):
        block = {key: value for key, value in {**forged, **changes}.items() if value is not None}
        document["skills"]["evil"] = block
        (world.base / "skillhub.lock").write_text(json.dumps(document))
        with pytest.raises(SkillhubError) as caught:
            world.install(answers=Answers("yes"))
        assert caught.value.exit_code in (3, 5), caught.value
        assert not world.copy("evil").exists()


def test_attack_a_lock_says_another_version_or_url_than_was_verified(world, tmp_path):
    world.install("github:gh-fix-ci@1.1.0", mcp="skip", env={"GITHUB_TOKEN": "x"})
    good = (world.base / "skillhub.lock").read_text()
    for changes in ({"version": "1.2.0"}, {"url": "https://github.com/well-known/skill.zip"}):
        (world.base / "skillhub.lock").write_text(good)
        edit_lock(world, "gh-fix-ci", **changes)
        (world.base / "skillhub.toml").unlink(missing_ok=True)
        for one in (world, world.on_another_machine()):
            with pytest.raises(SourceMismatch):
                one.install(answers=Answers("yes"))


def test_attack_a_lock_drops_the_signer_of_a_registry_s_skill(world):
    world.install("github:code-review")
    edit_lock(world, "code-review", signed_by=None)
    before = (world.base / "skillhub.lock").read_bytes()
    world.on_another_machine().install(answers=Answers("yes"))
    # It was verified all the same, against the registry; the lock is not rewritten.
    assert (world.base / "skillhub.lock").read_bytes() == before


def test_attack_a_repository_redefines_a_source_of_mine(world, hub):
    world.add_source("acme", hub)
    root = world.sources.get("acme").root
    other = "sha256:" + "0" * 64
    for url, named in ((URL + "/else", root), (URL, other), ("embedded:", root)):
        text = f'[sources.acme]\nurl = "{url}"\nroot = "{named}"\n[skills]\nhello = "*"\n'
        (world.base / "skillhub.toml").write_text(text)
        with pytest.raises(SourceMismatch):
            world.install(answers=Answers("yes"))
    assert not (world.base / "skillhub.lock").exists()


def test_a_source_that_a_repository_proposes_is_asked_about(world, hub):
    world.registries["acme"] = hub

    root = Digest.of(hub.root)
    (world.base / "skillhub.toml").write_text(
        f'[sources.acme]\nurl = "{URL}"\nroot = "{root}"\n[skills]\nhello = {{ source = "acme" }}\n'
    )
    before = unlocked(world.snapshot())
    with pytest.raises(Refused):
        world.install(answers=Answers())
    assert unlocked(world.snapshot()) == before
    answers = Answers("yes")
    world.install(answers=answers)
    assert answers.kinds_seen == ["source", "install"]
    assert world.ports().sources.get("acme").root == root
    assert "acme" not in world.sources.all()


def test_a_proposed_source_with_another_root_than_it_says(world, tmp_path):
    simulator = Simulator(tmp_path)
    world.registries["acme"] = simulator
    other = "sha256:" + "0" * 64
    (world.base / "skillhub.toml").write_text(f'[sources.acme]\nurl = "{URL}"\nroot = "{other}"\n')
    with pytest.raises(SecurityError):
        world.install(answers=Answers("yes"))
    assert "acme" not in world.sources.all()


def test_an_unsigned_skill_is_a_question_of_its_own(world):
    folder = skill(world.base / "src")
    shy = Answers("yes", unsigned="unanswered")
    with pytest.raises(Refused):
        world.install(str(folder), answers=shy)
    assert shy.kinds_seen == ["unsigned", "install"]


def test_a_signature_of_nobody_known_is_a_question_and_a_broken_one_is_none(world):

    folder = skill(world.base / "src")
    key = key_of("nobody")("publisher", "p256")
    (folder / "skill.oms.sig").write_bytes(oms.sign(read_local(str(folder))[0].tree, "plain", key))
    shy = Answers("yes", publisher="unanswered")
    with pytest.raises(Refused):
        world.install(str(folder), answers=shy)
    assert shy.kinds_seen == ["publisher", "install"]
    (folder / "more.txt").write_text("x")
    answers = Answers("yes")
    with pytest.raises(BadSignature):
        world.install(str(folder), answers=answers)
    assert answers.seen == []


def test_a_lock_that_keeps_silent_of_capabilities_is_told_of_and_not_repeated(world):
    world.install("github:gh-fix-ci", enable=False)
    said = world.lock().skills["gh-fix-ci"].capabilities
    assert "scripts" in said
    edit_lock(world, "gh-fix-ci", capabilities=[])
    outcome = world.on_another_machine().install(enable=False)
    assert any("scripts" in warning for warning in outcome.warnings)
    assert outcome.skills[0].capabilities == said
    assert world.lock().skills["gh-fix-ci"].capabilities == ()


def test_a_lock_written_before_the_network_could_be_unknown_stays_valid(world):
    world.install("github:gh-fix-ci", enable=False)
    said = world.lock().skills["gh-fix-ci"].capabilities
    assert "network:?" in said
    edit_lock(world, "gh-fix-ci", capabilities=[each for each in said if each != "network:?"])
    answers = Answers("no")
    assert not world.install(frozen=True, answers=answers, enable=False).changed
    assert not any(each.problems for each in verify((), world.ports()))
    assert answers.seen == []
    other = world.on_another_machine().install(frozen=True, enable=False)
    assert any("network:?" in warning for warning in other.warnings)
