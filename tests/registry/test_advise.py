"""Advisories of an operator: signed, checked, replaced, withdrawn."""

import json
from pathlib import Path

import pytest

from skillhub.errors import FormatError, NotFound, Refused, SecurityError, UsageError
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.model.advisory import AdvisoriesDocument, AdvisoryFeed
from skillhub.project.last_seen import LastSeen
from skillhub.registry.check import check
from skillhub.registry.operator import Signing
from skillhub.registry.push import push
from skillhub.registry.push_targets import FolderTarget
from skillhub.registry.upkeep import advise, refresh, rotate, withdraw
from tests.model.test_advisory import osv, package, semver
from tests.support.published import tree_of
from tests.support.registry import now

BAD = Digest.of(b"bad")


def publish_advisories(hub, *documents, digests=(), withdrawn=(), **signing):
    data = {"advisories": list(documents), "digests": dict.fromkeys(digests, "harm")}
    parsed = AdvisoriesDocument.parse(data, "test")
    return advise(hub.dir.path, [parsed], Signing(now=hub.when, **signing), withdrawn)


def advisories_of_client(hub, folder):
    hub.pull()
    document = hub.open(folder).advisories().document
    return {each.id: each.summary for each in document.advisories}, dict(document.digests)


def test_published_advisory_is_signed_and_read(hub, tmp_path):
    publish_advisories(hub, osv([package()]), digests=[BAD])
    assert advisories_of_client(hub, tmp_path / "m") == ({"TEST-2026-1": "sends tokens away"}, {BAD: "harm"})
    assert check(hub.dir.path, now()).problems == ()
    publish_advisories(hub, osv([package()], summary="is worse"), osv([package()], id="TEST-2026-2"))
    assert advisories_of_client(hub, tmp_path / "m")[0] == {
        "TEST-2026-1": "is worse",
        "TEST-2026-2": "sends tokens away",
    }
    publish_advisories(hub, withdrawn=["TEST-2026-1", BAD])
    assert advisories_of_client(hub, tmp_path / "m") == ({"TEST-2026-2": "sends tokens away"}, {})


@pytest.mark.parametrize("modified", ["2026-10-31T23:59:59Z", "2026-11-01T00:30:00+01:00", "yesterday"])
def test_earlier_version_of_an_advisory_does_not_replace_a_later_one(hub, modified):
    publish_advisories(hub, osv([package()]))
    before = tree_of(hub.dir.path)
    with pytest.raises(UsageError, match="TEST-2026-1: modified: expected a time not before 2026-11-01T00:00:00Z"):
        publish_advisories(hub, osv([package(versions=["1.0.0"])], modified=modified))
    assert tree_of(hub.dir.path) == before


def test_attack_more_advisories_than_clients_read_are_not_published(hub):
    half = {str(Digest.of(bytes([number]))): "x" * (1 << 20) for number in range(40)}
    halves = [dict([*half.items()][start : start + 20]) for start in (0, 20)]
    parts = [AdvisoriesDocument.parse({"digests": each}, "test") for each in halves]
    advise(hub.dir.path, parts[:1], Signing(now=hub.when))
    before = tree_of(hub.dir.path)
    with pytest.raises(Refused, match="clients read at most 33,554,432"):
        advise(hub.dir.path, parts[1:], Signing(now=hub.when))
    assert tree_of(hub.dir.path) == before


def test_advisories_survive_other_commands_of_the_operator(hub, tmp_path):
    publish_advisories(hub, digests=[BAD])
    hub.publish(version="1.1.0")
    withdraw(hub.dir.path, "hello@1.0.0", "old", Signing(now=hub.when))
    refresh(hub.dir.path, Signing(now=hub.when), roles=["releases"])
    for role in ("releases", "targets", "snapshot"):
        rotate(hub.dir.path, role, Signing(now=hub.when))
    assert advisories_of_client(hub, tmp_path / "m")[1] == {BAD: "harm"}
    assert check(hub.dir.path, now()).problems == ()
    (tmp_path / "served").mkdir()
    push(hub.dir.path, str(tmp_path / "served"), FolderTarget, now=hub.when)
    assert check(hub.dir.path, now()).problems == ()
    assert any("_advisories" in path for path in tree_of(tmp_path / "served"))


def test_only_the_online_keys_of_releases_are_needed(hub, tmp_path):
    for path in (tmp_path / "registry/keys/offline").glob("*.pem"):
        path.unlink()
    publish_advisories(hub, digests=[BAD])
    (tmp_path / "registry/keys/online/releases.pem").unlink()
    before = tree_of(hub.dir.path)
    with pytest.raises(Refused):
        publish_advisories(hub, digests=[Digest.of(b"more")])
    assert tree_of(hub.dir.path) == before


def test_repeated_advisory_and_dry_run_change_no_file(hub):
    publish_advisories(hub, osv([package()]), digests=[BAD])
    before = tree_of(hub.dir.path)
    publish_advisories(hub, osv([package()]), digests=[BAD])
    publish_advisories(hub, digests=[Digest.of(b"more")], dry_run=True)
    assert tree_of(hub.dir.path) == before


@pytest.mark.parametrize(
    ("documents", "more"),
    [
        ([osv([package("npm")])], {}),
        ([osv([package("agentskills")])], {}),
        ([osv([package("AgentSkillsX")])], {}),
        ([osv([package(**semver(("introduced", "0"), ("fixed", "0")))])], {}),
        ([osv([package(**semver(("introduced", "0"), ("limit", "2")))])], {}),
        ([osv([package(ranges=[{"type": "SEMVER", "events": [{"introduced": "0", "fixed": "1.0.0"}]}])])], {}),
        ([osv([package(**semver(("introduced", "1.2")))])], {}),
        ([osv([package(**semver(("introduced", "0"), ("fixed", "v1.2.0")))])], {}),
        ([osv([package(**semver(("introduced", "0"), ("last_affected", "latest")))])], {}),
        ([osv([package(versions=["1.0.0", "v1.1.0"])])], {}),
        ([osv([package(versions=["1.0"])])], {}),
        ([osv([package()], withdrawn="9999-01-01T00:00:00Z")], {}),
        ([osv([], database_specific={"digests": [NO_FILES]})], {}),
        ([osv([{"database_specific": {"digests": [NO_FILES]}}])], {}),
        ([], {"digests": [NO_FILES]}),
    ],
)
def test_advisory_that_clients_would_misread_is_not_signed(hub, documents, more):
    before = tree_of(hub.dir.path)
    with pytest.raises(UsageError):
        publish_advisories(hub, *documents, **more)
    assert tree_of(hub.dir.path) == before


@pytest.mark.parametrize("withdrawn", ["TEST-2026-1", BAD])
def test_an_unknown_advisory_is_not_withdrawn(hub, withdrawn):
    before = tree_of(hub.dir.path)
    with pytest.raises(NotFound):
        publish_advisories(hub, withdrawn=[withdrawn])
    assert tree_of(hub.dir.path) == before


def test_attack_a_changed_document_is_found_and_never_signed_again(hub):
    publish_advisories(hub, digests=[BAD])
    file = next(Path(hub.dir.site).rglob("*_advisories.json"))
    file.write_bytes(file.read_bytes().replace(b"harm", b"fine"))
    assert [each.code for each in check(hub.dir.path, now()).problems] == ["wrong-bytes"]
    with pytest.raises(SecurityError):
        publish_advisories(hub, digests=[Digest.of(b"more")])
    file.unlink()
    (problem,) = check(hub.dir.path, now()).problems
    assert (problem.message, problem.where) == ("a signed file is missing", str(file))


@pytest.mark.parametrize("data", [b"[]", b"<html>", b'{"version": 2}', b'{"digests": {"x": "y"}}'])
def test_attack_an_invalid_document_with_stolen_keys_is_refused(hub, tmp_path, data):
    hub.revise({"idx/_advisories.json": data})
    if data == b"[]":  # an empty list is harmless
        assert hub.open(tmp_path / "m").advisories() == AdvisoryFeed(AdvisoriesDocument(), Digest.of(hub.root))
        return
    with pytest.raises(FormatError):
        hub.open(tmp_path / "m").advisories()
    assert [each.code for each in check(hub.dir.path, now()).problems] == ["format"]


def test_attack_advisories_signed_by_the_key_of_the_listing_are_ignored(hub, tmp_path):
    """The listing informs; it decides no refusal."""
    hub.revise({"advisories/all.json": json.dumps({"digests": {BAD: "x"}}).encode()})
    assert advisories_of_client(hub, tmp_path / "m") == ({}, {})


@pytest.mark.parametrize("damage", [b"damaged", b"", b'{"digests": {', BAD.encode()])
def test_stored_advisories_are_refused_when_damaged_until_fetched_again(hub, tmp_path, damage):
    publish_advisories(hub, digests=[BAD])
    advisories_of_client(hub, tmp_path / "m")
    root = Digest.of(hub.root)
    assert LastSeen(str(tmp_path / "m")).advisories(root).document.digests == {BAD: "harm"}
    path = tmp_path / "m/targets/idx%2F_advisories.json"
    path.write_bytes(damage)
    with pytest.raises(FormatError) as caught:
        LastSeen(str(tmp_path / "m")).advisories(root)
    assert caught.value.hint == "skillhub audit fetches it again"
    assert advisories_of_client(hub, tmp_path / "m")[1] == {BAD: "harm"}
