"""A known bad skill is refused by every command that takes it, and reported where it is installed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from skillhub.audit.audit import AuditRequest, audit
from skillhub.audit.doctor import diagnose
from skillhub.disk.folders import remove_tree
from skillhub.errors import FormatError, KnownBad, NotFound, Refused, SecurityError, SourceError
from skillhub.formats.digest import Digest
from skillhub.install.gather import UnsafeSkills
from skillhub.install.install import available_updates
from skillhub.model.advisory import AdvisoriesDocument, AdvisoryFeed
from skillhub.model.index import ADVISORIES
from skillhub.registry.operator import Signing
from skillhub.registry.upkeep import advise
from skillhub.sources.repository import open_folder
from tests.install.test_recalled import cut_off, patch_back, restart
from tests.model.test_advisory import osv, package, semver
from tests.support.world import Answers, skill, snapshot

URL = "https://advisories.example/skills.json"


def refused(world, error, act):
    """Assert that ``act`` raises this error and changes neither project nor store; caches may change."""
    store = world.folder / "home/skillhub/data"

    def seen():
        found = {**snapshot(world.base), **(snapshot(store) if store.exists() else {})}
        return {
            path: each[:2] for path, each in found.items() if not path.endswith(".lock") or "skillhub.lock" in path
        }

    before = seen()
    with pytest.raises(error) as caught:
        act()
    assert seen() == before
    return caught.value


def publish_advisories(scene, *documents, digests=()):
    """Publish these advisories as the operator of acme."""
    data = {"advisories": list(documents), "digests": dict.fromkeys(digests, "sends tokens away")}
    advise(scene.hub.dir.path, [AdvisoriesDocument.parse(data, "test")], Signing(now=scene.hub.when))
    scene.hub.pull()
    scene.remember()


def digests_of(scene, name="hello"):
    entry = scene.machine.lock().skills[name]
    listing = scene.machine.store.listing(entry.tree)
    return {"artifact": entry.digest, "tree": entry.tree, "file": f"sha256:{listing['SKILL.md'].sha256}"}


def found(world, refresh=True):
    report = audit(AuditRequest(refresh=refresh), world.ports())
    return {(each.rule, each.severity): each for each in report.findings}


@pytest.fixture(params=["artifact", "tree", "file"])
def named(request, scene):
    """The scene whose registry lists hello by this digest as known bad; no machine has read the list yet."""
    publish_advisories(scene, digests=[digests_of(scene)[request.param]])
    restart(scene.machine)
    return scene


def test_attack_a_skill_listed_by_digest_is_not_installed(named):
    other = named.second_machine()
    (other.base / "skillhub.lock").unlink()
    (other.base / "skillhub.toml").unlink()
    error = refused(other, KnownBad, lambda: other.install("acme:hello", answers=None))
    assert (error.exit_code, error.code) == (5, "known-bad")
    assert "sends tokens away" in error.message


def test_attack_a_locked_skill_listed_by_digest_is_not_installed(named):
    other = named.second_machine()
    for frozen in (True, False):
        refused(other, KnownBad, lambda frozen=frozen: other.install(frozen=frozen))


def test_an_installed_skill_that_becomes_known_bad_is_refused_offline_too(named):
    world = named.machine
    world.sync()  # no machine has read the list
    (finding,) = found(world).values()
    assert (finding.rule, finding.skill, finding.severity) == ("known-bad", "hello", "critical")
    assert finding.path == "skillhub.lock"
    cut_off(named)
    restart(world)
    assert ("known-bad", "critical") in found(world, refresh=False)
    (check,) = [each for each in diagnose(world.ports()).checks if each.name == "advisory on hello"]
    assert not check.ok
    for act in (world.sync, world.install, lambda: world.install(frozen=True), lambda: world.enable("hello")):
        error = refused(world, KnownBad, act)
        assert "skillhub remove hello removes it" in error.hint
    world.remove("hello")
    assert found(world, refresh=False) == {}


def test_attack_an_update_to_a_known_bad_release_is_refused(scene):
    scene.publish("hello", "1.1.0")
    world = scene.machine
    index = world.ports().open_registry(world.sources.get("acme")).release_index(["hello"])
    tree = next(each.tree for each in index.releases("hello"))
    publish_advisories(scene, digests=[tree])
    for act in (lambda: world.update(), lambda: world.update("hello")):
        restart(world)
        refused(world, KnownBad, act)
    restart(world)
    with pytest.raises(KnownBad):
        available_updates((), world.ports())
    assert world.lock().skills["hello"].version == "1.0.0"


def test_attack_no_answer_and_no_policy_allows_a_known_bad_skill(world):
    folder = skill(world.base / "src")
    world.advisories = [str(world.folder / "bad.txt")]
    (world.folder / "bad.txt").write_text(f"{digest_of_file(folder / 'SKILL.md')} known")
    policy = world.folder / "machine/policy.toml"
    policy.parent.mkdir()
    policy.write_text(
        'agree = ["install", "unsigned", "finding"]\nallow-findings = ["SH101"]\nfail-on = "critical"\n'
    )
    refused(world, KnownBad, lambda: world.install(str(folder)))
    (world.folder / "bad.txt").write_text("# nothing\n")
    assert world.install(str(folder)).changed


def digest_of_file(path):
    return Digest.of(path.read_bytes())


def test_attack_a_bad_file_is_found_in_another_tree_and_name(world):
    bad = b"#!/bin/sh\necho harm\n"
    world.advisories = [str(world.folder / "bad.txt")]
    (world.folder / "bad.txt").write_text(Digest.of(bad))
    folder = skill(world.base / "src", "renamed", scripts__deep__run_sh=bad)
    error = refused(world, KnownBad, lambda: world.install(str(folder)))
    assert "by the digest of its file scripts/deep/run.sh" in error.message


def test_known_bad_skills_of_all_are_listed_and_can_be_excluded(world):
    for name in ("good", "bad", "worse"):
        skill(world.base / "many", name, body=f"{name}\n")
    world.advisories = [str(world.folder / "bad.txt")]
    lines = [digest_of_file(world.base / "many" / name / "SKILL.md") for name in ("bad", "worse")]
    (world.folder / "bad.txt").write_text("\n".join(lines))
    world.places = {}
    many = str(world.base / "many")
    world.places[many] = open_folder(many)
    error = refused(world, UnsafeSkills, lambda: world.install(many, every=True))
    assert sorted(each["name"] for each in error.skills) == ["bad", "worse"]
    assert error.code == "known-bad"
    done = world.install(many, every=True, excepted=("bad", "worse"))
    assert [each.name for each in done.skills] == ["good"]


@pytest.mark.parametrize(("severity", "outcome"), [("CRITICAL", KnownBad), ("HIGH", Refused), ("MODERATE", None)])
def test_an_advisory_on_a_version_asks_warns_or_refuses_by_its_severity(scene, severity, outcome):
    ranges = semver(("introduced", "0"), ("fixed", "1.2.0"))
    publish_advisories(scene, osv([package(**ranges)], database_specific={"severity": severity}))
    other = scene.second_machine()
    for name in ("skillhub.lock", "skillhub.toml"):
        (other.base / name).unlink()
    yes = Answers("unanswered", install="yes")
    if outcome is None:
        done = other.install("acme:hello", answers=yes)
        assert any("TEST-2026-1 (medium" in each for each in done.warnings)
    else:
        error = refused(other, outcome, lambda: other.install("acme:hello", answers=yes))
        assert type(error) is outcome
    if outcome is Refused:
        assert yes.kinds_seen == ["finding", "install"]
        assert "fixed in 1.2.0" in yes.seen[0].details[0]


def test_attack_a_lock_returns_to_an_agreed_version_with_a_new_advisory(scene):
    older = {path: path.read_bytes() for path in scene.machine.base.iterdir() if path.is_file()}
    scene.publish("hello", "1.1.0")
    scene.machine.update(answers=Answers("yes"))
    ranges = semver(("introduced", "0"), ("fixed", "1.1.0"))
    publish_advisories(scene, osv([package(**ranges)], database_specific={"severity": "HIGH"}))
    restart(scene.machine)
    found(scene.machine)  # it reads the advisories
    for path, data in older.items():
        path.write_bytes(data)
    answers = Answers()
    refused(scene.machine, Refused, lambda: scene.machine.install(answers=answers))
    assert answers.kinds_seen == ["finding"]
    assert "fixed in 1.1.0" in answers.seen[0].details[0]


def test_attack_a_lock_has_an_agreed_version_again_with_a_new_advisory(scene):
    with_hello = {path: path.read_bytes() for path in scene.machine.base.iterdir() if path.is_file()}
    (scene.machine.base / "skillhub.lock").write_text('{"skills": {}, "sources": {}, "version": 1}\n')
    (scene.machine.base / "skillhub.toml").write_text("[skills]\n")
    assert scene.machine.sync().changed
    ranges = semver(("introduced", "0"), ("fixed", "1.1.0"))
    publish_advisories(scene, osv([package(**ranges)], database_specific={"severity": "HIGH"}))
    restart(scene.machine)
    for path, data in with_hello.items():
        path.write_bytes(data)
    found(scene.machine)  # it reads the advisories
    answers = Answers()
    refused(scene.machine, Refused, lambda: scene.machine.install(answers=answers))
    assert answers.kinds_seen == ["finding"]


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "collected"])
def test_attack_a_patch_makes_a_version_the_one_that_an_advisory_names(scene, is_stored):
    older = (scene.machine.base / "skillhub.lock").read_text()
    scene.publish("hello", "1.1.0")
    scene.machine.update(answers=Answers("yes"))
    patch_back(scene, older)
    if not is_stored:
        remove_tree(scene.machine.store.path(Digest(json.loads(older)["skills"]["hello"]["tree"])))
    ranges = semver(("introduced", "0"), ("fixed", "1.1.0"))
    publish_advisories(scene, osv([package(**ranges)], database_specific={"severity": "CRITICAL"}))
    restart(scene.machine)
    found(scene.machine)  # it reads the advisories
    refused(scene.machine, KnownBad, lambda: scene.machine.install(answers=Answers("yes")))


def test_an_advisory_on_an_installed_skill_is_reported_with_its_fix(scene):
    ranges = semver(("introduced", "0"), ("fixed", "1.2.0"))
    publish_advisories(scene, osv([package(**ranges)], database_specific={"severity": "MODERATE"}))
    restart(scene.machine)
    finding = found(scene.machine)["advisory", "medium"]
    assert (finding.message, finding.hint) == (
        "TEST-2026-1 (medium, by its version): sends tokens away; fixed in 1.2.0",
        "take version 1.2.0 or a later one",
    )
    scene.machine.sync()
    scene.machine.install(frozen=True)


def test_attack_a_registry_that_withholds_its_advisories_is_reported(scene):
    publish_advisories(scene, digests=[digests_of(scene)["tree"]])
    for path in [path for path in scene.hub.files if "_advisories" in path]:
        del scene.hub.files[path]
    restart(scene.machine)
    assert ("source-unreachable", "high") in found(scene.machine)
    other = scene.second_machine()
    refused(other, SourceError, other.install)


def test_attack_advisories_of_a_registry_are_changed_on_the_road(scene):
    publish_advisories(scene, digests=[digests_of(scene)["tree"]])
    for path in [path for path in scene.hub.files if "_advisories" in path]:
        scene.hub.files[path] = scene.hub.files[path].replace(b"sends tokens away", b"is all very well")
    other = scene.second_machine()
    refused(other, SecurityError, other.install)


def test_attack_older_advisories_are_refused(scene):
    before = dict(scene.hub.files)
    publish_advisories(scene, digests=[digests_of(scene)["tree"]])
    restart(scene.machine)
    assert ("known-bad", "critical") in found(scene.machine)
    scene.hub.files.clear()
    scene.hub.files.update(before)
    restart(scene.machine)
    assert {rule for rule, _ in found(scene.machine)} == {"known-bad", "source-refused"}
    refused(scene.machine, KnownBad, scene.machine.sync)


def test_a_retracted_digest_is_no_longer_in_force(scene):
    tree = digests_of(scene)["tree"]
    publish_advisories(scene, digests=[tree])
    restart(scene.machine)
    assert found(scene.machine)
    advise(scene.hub.dir.path, [], Signing(now=scene.hub.when), [tree])
    scene.hub.pull()
    restart(scene.machine)
    assert found(scene.machine) == {}
    scene.machine.sync()


def test_a_client_without_advisories_is_not_affected(scene, tmp_path):
    """An old client asks by path for the same files as before, and asks for no advisories."""
    publish_advisories(scene, digests=[Digest.of(b"x")])
    registry = scene.hub.open(tmp_path / "m")
    assert registry.release_index(["hello"]).names == ("hello",)
    assert not any("_advisories" in path for path in scene.hub.asked)
    assert registry.advisories().document.digests == {Digest.of(b"x"): "sends tokens away"}


def test_a_registry_without_advisories_gets_no_more_requests(scene, tmp_path):
    scene.hub.open(tmp_path / "m").release_index(["hello"])
    asked = scene.hub.asked.copy()
    registry = scene.hub.open(tmp_path / "m")
    assert registry.advisories() == AdvisoryFeed(AdvisoriesDocument(), registry.fingerprint)
    # Root and timestamp, as before.
    assert {path for path in (scene.hub.asked - asked)} == {"metadata/2.root.json", "metadata/timestamp.json"}
    assert ADVISORIES.startswith("idx/")


# Files and mirrors that the user names.


def test_the_last_answer_of_a_mirror_stays_in_force(world):
    folder = skill(world.base / "src")
    world.install(str(folder))
    world.advisories = [URL]
    with pytest.raises(SourceError):  # the mirror has never answered
        world.sync()
    world.mirrors[URL] = json.dumps({"digests": {world.lock().skills["plain"].tree: "harm"}}).encode()
    refused(world, KnownBad, world.sync)
    world.mirrors.clear()
    error = refused(world, KnownBad, world.sync)
    assert "harm" in error.message
    assert {rule for rule, _ in found(world)} >= {"known-bad", "source-unreachable"}
    world.mirrors[URL] = b"{}"
    world.sync()


@pytest.mark.parametrize("data", [b"<html>", b'{"digests": {"x": ""}}', b"\xff\xfe\x00"])
def test_attack_an_invalid_answer_of_a_mirror_stops_installs_and_is_reported(world, data):
    folder, other = skill(world.base / "src"), skill(world.base / "src", "next")
    world.install(str(folder))
    world.advisories, world.mirrors = [URL], {URL: data}
    refused(world, FormatError, lambda: world.install(str(other)))
    refused(world, FormatError, world.sync)
    assert ("source-refused", "critical") in found(world)
    assert any(each.name == "advisories" and not each.ok for each in diagnose(world.ports()).checks)


def test_a_missing_advisory_file_stops_an_install(world):
    folder = skill(world.base / "src")
    world.advisories = ["/nowhere/bad.txt"]
    refused(world, NotFound, lambda: world.install(str(folder)))


def test_attack_a_skill_or_a_project_brings_no_advisories(world):
    """Only the user's settings name advisories: a file of a project can neither add nor hide one."""
    tree = {"advisories.json": json.dumps({"digests": {}}), "config.toml": 'advisories = ["x"]'}
    folder = skill(world.base / "src", **{key.replace(".", "_"): text for key, text in tree.items()})
    for name, text in tree.items():
        (world.base / name).write_text(text)
    assert world.install(str(folder)).changed
    assert {rule for rule, _ in found(world)} == {"unsigned"}


def test_attack_the_digest_of_an_empty_file_is_ignored(world):
    world.advisories = [str(world.folder / "bad.txt")]
    (world.folder / "bad.txt").write_text(Digest.of(b""))
    assert world.install(str(skill(world.base / "src", empty_txt=b""))).changed


def test_an_unlocked_skill_is_looked_up_by_tree_file_and_name(world):
    folder = skill(world.base / ".agents/skills", "loose", head='metadata:\n  version: "1.0.0"\n')
    world.advisories = [str(world.folder / "bad.json")]
    events = semver(("introduced", "0"), ("fixed", "1.0.1"))
    (world.folder / "bad.json").write_text(json.dumps(osv([package(name="loose", **events)])))
    assert ("advisory", "high") in found(world)
    (world.folder / "bad.json").write_text(digest_of_file(folder / "SKILL.md"))
    assert ("known-bad", "critical") in found(world)
    ports = world.ports()
    (world.folder / "bad.json").write_text("")
    request = AuditRequest(paths=(str(folder),))
    assert not any(each.rule == "known-bad" for each in audit(request, world.ports()).findings)
    (world.folder / "bad.json").write_text(digest_of_file(folder / "SKILL.md"))
    assert any(each.rule == "known-bad" for each in audit(request, replace(ports)).findings)
