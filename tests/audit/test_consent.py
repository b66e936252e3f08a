"""Consent is for a user, a project, a skill and a tree; a repository cannot contain consent."""

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


def test_a_cloned_lock_needs_consent_before_any_copy_is_made(world):
    world.install("github:code-review", str(skill(world.base / "src")))
    other = world.on_another_machine()
    shutil.rmtree(world.base / ".agents")
    before = unlocked(other.snapshot())
    for reply in ("no", "unanswered"):
        with pytest.raises(Refused):
            other.install(answers=Answers(reply))
    assert unlocked(other.snapshot()) == before
    with pytest.raises(Refused):
        other.install(frozen=True, answers=Answers("yes", unsigned="unanswered"))  # the lock is no consent
    assert unlocked(other.snapshot()) == before
    other.sync()
    assert not (world.base / ".agents").exists()
    assert {skill.state for skill in other.install(frozen=True).skills} == {"enabled"}


def test_sync_stores_a_skill_without_consent_and_makes_no_copy(world):
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


def test_disable_gives_no_consent(world):
    world.install("github:code-review")
    other = world.on_another_machine()
    shutil.rmtree(world.base / ".agents")
    other.disable("code-review")
    answers = Answers()
    with pytest.raises(Refused):
        other.enable("code-review", answers=answers)
    assert answers.kinds_seen == ["install"]
    assert not (world.base / ".agents").exists()
    other.install(answers=Answers("yes"))
    assert not (world.base / ".agents/skills/code-review").exists()  # still disabled


def test_a_changed_lock_needs_consent_and_the_old_copy_is_removed(world):
    folder = skill(world.base / "src")
    world.install(str(folder))
    skill(world.base / "src", body="Worse.\n")
    (world.base / ".agents").rename(world.folder / "aside")
    world.on_another_machine().install(str(folder), answers=Answers("yes"))
    shutil.rmtree(world.base / ".agents")
    (world.folder / "aside").rename(world.base / ".agents")
    # A colleague's commit arrives on the first machine, whose copies are of the earlier tree.
    assert set(world.problems()) == {"missing", "other-tree"}
    with pytest.raises(Refused):
        world.install(answers=Answers())
    world.sync()
    assert not world.copy("plain").exists()
    assert world.problems() == []
    world.install(answers=Answers("yes"))
    assert "Worse" in (world.copy("plain") / "SKILL.md").read_text()


def test_consent_for_one_project_does_not_apply_to_another(world, tmp_path):
    world.install("github:code-review")
    (tmp_path / "second").mkdir()
    for name in ("skillhub.lock", "skillhub.toml"):
        shutil.copy(world.base / name, tmp_path / "second" / name)
    world.base = tmp_path / "second"
    answers = Answers()
    with pytest.raises(Refused):
        world.install(answers=answers)
    assert answers.kinds_seen == ["install"]
    assert not (world.base / ".agents").exists()


def test_a_question_shows_the_facts_of_the_files_and_not_of_the_lock(world):
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


def test_attack_a_key_pinned_for_one_skill_does_not_verify_another(world, hub):
    """The embedded registry's keys are public, so any attacker can sign with one."""

    world.add_source("acme", hub)
    world.install("acme:hello")
    entry = world.lock().skills["hello"]
    folder = skill(world.base / "evil", "evil")
    stolen = key_of("test")("acme", "p256")
    assert stolen.public.fingerprint in entry.signed_by[0]
    (folder / "skill.oms.sig").write_bytes(oms.sign(read_local(str(folder)).tree, "evil", stolen))
    tree = read_local(str(folder)).tree
    (world.base / "skillhub.toml").unlink()  # it would not require the skill
    document = json.loads((world.base / "skillhub.lock").read_text())
    # First an unsigned local skill, so that `sync` stores it without a question ...
    document["skills"]["evil"] = {
        "capabilities": [], "path": "evil/evil", "requires": [], "size": tree.size, "source": "local",
        "tree": tree.digest,
    }  # fmt: skip
    (world.base / "skillhub.lock").write_text(json.dumps(document))
    world.sync()
    assert world.store.check(tree.digest) == []
    # ... then a skill of the registry, signed by its publisher.
    forged = dict(document["skills"]["hello"], tree=tree.digest)
    for changes in ({}, {"source": "local", "path": "evil/evil", "url": None, "digest": None}):
        block = {key: value for key, value in {**forged, **changes}.items() if value is not None}
        document["skills"]["evil"] = block
        (world.base / "skillhub.lock").write_text(json.dumps(document))
        with pytest.raises(SkillhubError) as caught:
            world.install(answers=Answers("yes"))
        assert caught.value.exit_code in (3, 5), caught.value
        assert not world.copy("evil").exists()


def test_attack_another_version_or_url_in_the_lock_is_refused(world, tmp_path):
    world.install("github:gh-fix-ci@1.1.0", mcp="skip", env={"GITHUB_TOKEN": "x"})
    good = (world.base / "skillhub.lock").read_text()
    for changes in ({"version": "1.2.0"}, {"url": "https://github.com/well-known/skill.zip"}):
        (world.base / "skillhub.lock").write_text(good)
        edit_lock(world, "gh-fix-ci", **changes)
        (world.base / "skillhub.toml").unlink(missing_ok=True)
        for one in (world, world.on_another_machine()):
            with pytest.raises(SourceMismatch):
                one.install(answers=Answers("yes"))


def test_attack_a_lock_without_a_registrys_signer_is_verified_all_the_same(world):
    world.install("github:code-review")
    edit_lock(world, "code-review", signed_by=None)
    before = (world.base / "skillhub.lock").read_bytes()
    world.on_another_machine().install(answers=Answers("yes"))
    # The registry verified the skill; the lock is not rewritten.
    assert (world.base / "skillhub.lock").read_bytes() == before


def test_attack_a_project_that_redefines_a_source_of_the_user_is_refused(world, hub):
    world.add_source("acme", hub)
    root = world.sources.get("acme").root
    other = "sha256:" + "0" * 64
    for url, named in ((URL + "/else", root), (URL, other), ("embedded:", root)):
        text = f'[sources.acme]\nurl = "{url}"\nroot = "{named}"\n[skills]\nhello = "*"\n'
        (world.base / "skillhub.toml").write_text(text)
        with pytest.raises(SourceMismatch):
            world.install(answers=Answers("yes"))
    assert not (world.base / "skillhub.lock").exists()


def test_a_source_proposed_by_a_repository_needs_consent(world, hub):
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


def test_a_proposed_source_with_another_root_is_refused(world, tmp_path):
    simulator = Simulator(tmp_path)
    world.registries["acme"] = simulator
    other = "sha256:" + "0" * 64
    (world.base / "skillhub.toml").write_text(f'[sources.acme]\nurl = "{URL}"\nroot = "{other}"\n')
    with pytest.raises(SecurityError):
        world.install(answers=Answers("yes"))
    assert "acme" not in world.sources.all()


def test_an_unsigned_skill_has_a_question_of_its_own(world):
    folder = skill(world.base / "src")
    shy = Answers("yes", unsigned="unanswered")
    with pytest.raises(Refused):
        world.install(str(folder), answers=shy)
    assert shy.kinds_seen == ["unsigned", "install"]


def test_an_unknown_signer_is_asked_about_and_a_broken_signature_refused(world):

    folder = skill(world.base / "src")
    key = key_of("nobody")("publisher", "p256")
    (folder / "skill.oms.sig").write_bytes(oms.sign(read_local(str(folder)).tree, "plain", key))
    shy = Answers("yes", publisher="unanswered")
    with pytest.raises(Refused):
        world.install(str(folder), answers=shy)
    assert shy.kinds_seen == ["publisher", "install"]
    (folder / "more.txt").write_text("x")
    answers = Answers("yes")
    with pytest.raises(BadSignature):
        world.install(str(folder), answers=answers)
    assert answers.seen == []


def test_capabilities_missing_in_the_lock_are_reported_and_not_hidden(world):
    world.install("github:gh-fix-ci", enable=False)
    capabilities = world.lock().skills["gh-fix-ci"].capabilities
    assert "scripts" in capabilities
    edit_lock(world, "gh-fix-ci", capabilities=[])
    outcome = world.on_another_machine().install(enable=False)
    assert any("scripts" in warning for warning in outcome.warnings)
    assert outcome.skills[0].capabilities == capabilities
    assert world.lock().skills["gh-fix-ci"].capabilities == ()


def test_a_lock_without_the_capability_of_unknown_hosts_stays_valid(world):
    world.install("github:gh-fix-ci", enable=False)
    capabilities = world.lock().skills["gh-fix-ci"].capabilities
    assert "network:?" in capabilities
    edit_lock(world, "gh-fix-ci", capabilities=[each for each in capabilities if each != "network:?"])
    answers = Answers("no")
    assert not world.install(frozen=True, answers=answers, enable=False).changed
    assert not any(each.problems for each in verify((), world.ports()))
    assert answers.seen == []
    other = world.on_another_machine().install(frozen=True, enable=False)
    assert any("network:?" in warning for warning in other.warnings)
