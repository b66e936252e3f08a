"""Advisories as an operator publishes them: signed, checked, replaced, taken back."""

import json
from pathlib import Path

import pytest

from skillhub.errors import FormatError, Refused, SecurityError, SourceError, UsageError
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
from tests.support.registry import Simulator, now

BAD = Digest.of(b"bad")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    simulator = Simulator(tmp_path_factory.mktemp("made"))
    simulator.publish()
    return simulator


def said(hub, *documents, digests=(), withdrawn=(), **signing):
    data = {"advisories": list(documents), "digests": dict.fromkeys(digests, "harm")}
    parsed = AdvisoriesDocument.parse(data, "test")
    return advise(hub.dir.path, [parsed], Signing(now=hub.when, **signing), withdrawn)


def told(hub, folder):
    hub.pull()
    document = hub.open(folder).advisories().document
    return {each.id: each.summary for each in document.advisories}, dict(document.digests)


def test_what_is_published_is_signed_and_read(hub, tmp_path):
    said(hub, osv([package()]), digests=[BAD])
    assert told(hub, tmp_path / "m") == ({"TEST-2026-1": "sends tokens away"}, {BAD: "harm"})
    assert check(hub.dir.path, now()).problems == ()
    said(hub, osv([package()], summary="is worse"), osv([package()], id="TEST-2026-2"))
    assert told(hub, tmp_path / "m")[0] == {"TEST-2026-1": "is worse", "TEST-2026-2": "sends tokens away"}
    said(hub, withdrawn=["TEST-2026-1", BAD])
    assert told(hub, tmp_path / "m") == ({"TEST-2026-2": "sends tokens away"}, {})


@pytest.mark.parametrize("modified", ["2026-10-31T23:59:59Z", "2026-11-01T00:30:00+01:00", "yesterday"])
def test_an_earlier_version_of_an_advisory_does_not_replace_a_later_one(hub, modified):
    said(hub, osv([package()]))
    before = tree_of(hub.dir.path)
    with pytest.raises(UsageError, match="TEST-2026-1: modified: expected a time not before 2026-11-01T00:00:00Z"):
        said(hub, osv([package(versions=["1.0.0"])], modified=modified))
    assert tree_of(hub.dir.path) == before


def test_it_stays_through_all_else_that_an_operator_does(hub, tmp_path):
    said(hub, digests=[BAD])
    hub.publish(version="1.1.0")
    withdraw(hub.dir.path, "hello@1.0.0", "old", Signing(now=hub.when))
    refresh(hub.dir.path, Signing(now=hub.when), roles=["releases"])
    for role in ("releases", "targets", "snapshot"):
        rotate(hub.dir.path, role, Signing(now=hub.when))
    assert told(hub, tmp_path / "m")[1] == {BAD: "harm"}
    assert check(hub.dir.path, now()).problems == ()
    (tmp_path / "served").mkdir()
    push(hub.dir.path, str(tmp_path / "served"), FolderTarget, now=hub.when)
    assert check(hub.dir.path, now()).problems == ()
    assert any("_advisories" in path for path in tree_of(tmp_path / "served"))


def test_only_the_online_keys_of_releases_are_needed(hub, tmp_path):
    for path in (tmp_path / "registry/keys/offline").glob("*.pem"):
        path.unlink()
    said(hub, digests=[BAD])
    (tmp_path / "registry/keys/online/releases.pem").unlink()
    before = tree_of(hub.dir.path)
    with pytest.raises(Refused):
        said(hub, digests=[Digest.of(b"more")])
    assert tree_of(hub.dir.path) == before


def test_the_same_again_and_a_dry_run_change_nothing(hub):
    said(hub, osv([package()]), digests=[BAD])
    before = tree_of(hub.dir.path)
    said(hub, osv([package()]), digests=[BAD])
    said(hub, digests=[Digest.of(b"more")], dry_run=True)
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
        ([], {"withdrawn": ["TEST-2026-1"]}),
        ([], {"withdrawn": [BAD]}),
    ],
)
def test_what_clients_would_take_otherwise_than_it_is_meant_is_not_signed(hub, documents, more):
    before = tree_of(hub.dir.path)
    with pytest.raises(UsageError):
        said(hub, *documents, **more)
    assert tree_of(hub.dir.path) == before


def test_attack_a_changed_document_is_found_by_check_and_never_signed_again(hub):
    said(hub, digests=[BAD])
    file = next(Path(hub.dir.site).rglob("*_advisories.json"))
    file.write_bytes(file.read_bytes().replace(b"harm", b"fine"))
    assert [each.code for each in check(hub.dir.path, now()).problems] == ["wrong-bytes"]
    with pytest.raises(SecurityError):
        said(hub, digests=[Digest.of(b"more")])
    file.unlink()
    with pytest.raises(SourceError, match="a signed file is missing"):
        check(hub.dir.path, now())


@pytest.mark.parametrize("data", [b"[]", b"<html>", b'{"version": 2}', b'{"digests": {"x": "y"}}'])
def test_attack_a_thief_signs_what_is_no_document(hub, tmp_path, data):
    hub.revise({"idx/_advisories.json": data})
    if data == b"[]":  # says nothing, and harms nobody
        assert hub.open(tmp_path / "m").advisories() == AdvisoryFeed(AdvisoriesDocument(), Digest.of(hub.root))
        return
    with pytest.raises(FormatError):
        hub.open(tmp_path / "m").advisories()
    assert [each.code for each in check(hub.dir.path, now()).problems] == ["format"]


def test_attack_the_key_of_the_listing_signs_advisories(hub, tmp_path):
    """The listing informs, and has no say in what is refused."""
    hub.revise({"advisories/all.json": json.dumps({"digests": {BAD: "x"}}).encode()})
    assert told(hub, tmp_path / "m") == ({}, {})


@pytest.mark.parametrize("damage", [b"damaged", b"", b'{"digests": {', BAD.encode()])
def test_what_was_heard_is_kept_and_refused_where_it_is_damaged_until_it_is_fetched_again(hub, tmp_path, damage):
    said(hub, digests=[BAD])
    told(hub, tmp_path / "m")
    root = Digest.of(hub.root)
    assert LastSeen(str(tmp_path / "m")).advisories(root).document.digests == {BAD: "harm"}
    path = tmp_path / "m/targets/idx%2F_advisories.json"
    path.write_bytes(damage)
    with pytest.raises(FormatError) as caught:
        LastSeen(str(tmp_path / "m")).advisories(root)
    assert caught.value.hint == "skillhub audit fetches it again"
    assert told(hub, tmp_path / "m")[1] == {BAD: "harm"}
