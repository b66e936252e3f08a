"""Expiry: the roles that refresh signs, those that it only reports, and the warnings of check."""

from datetime import timedelta

import pytest

from skillhub.errors import MetadataExpired, PassphraseNeeded, Refused, UsageError
from skillhub.formats.text import spell_time
from skillhub.registry.build import Setup, add, init
from skillhub.registry.check import check
from skillhub.registry.operator import RegistrySettings, Signing
from skillhub.registry.upkeep import refresh
from skillhub.trust.registry_metadata import Dates
from tests.support.killing import OldClients, kill_everywhere
from tests.support.published import tree_of
from tests.support.registry import Simulator, key_of, now, write_skill

BINS = {f"releases-{number:x}" for number in range(2)}
ONLINE = BINS | {"releases", "listing", "snapshot", "timestamp"}
OFFLINE = {"root", "targets", "namespaces"}


def later(hub, days):
    return Signing(now=hub.when + timedelta(days=days))


def roles(expiries):
    return {each.role for each in expiries}


def test_refresh_before_any_expiry_changes_no_file(hub):
    before = tree_of(hub.dir.path)
    done = refresh(hub.dir.path, later(hub, 0.5))
    assert done.renewed == done.waiting == ()
    assert tree_of(hub.dir.path) == before


@pytest.mark.parametrize(
    ("days", "renewed", "waiting"),
    [
        (1.5, {"timestamp"}, set()),
        (5.5, {"timestamp", "snapshot"}, set()),
        (28.5, ONLINE, set()),
        (61, ONLINE, {"namespaces"}),
        (364, ONLINE, OFFLINE),
    ],
)
def test_due_online_roles_are_signed_and_offline_ones_reported(hub, tmp_path, days, renewed, waiting):
    for path in (tmp_path / "registry/keys/offline").glob("*.pem"):
        path.unlink()
    done = refresh(hub.dir.path, later(hub, days))
    assert roles(done.renewed) == renewed
    assert roles(done.waiting) == waiting
    assert all(each.expires > spell_time(hub.when + timedelta(days=days + 2)) for each in done.renewed)
    again = refresh(hub.dir.path, later(hub, days))
    assert again.renewed == ()
    assert again.waiting == done.waiting


def test_a_clock_that_was_set_back_signs_no_release_until_it_is_right_or_said_to_be(hub, tmp_path):
    refresh(hub.dir.path, later(hub, 40), roles=["timestamp"])
    before, skill = tree_of(hub.dir.path), [write_skill(tmp_path, "other")]
    with pytest.raises(MetadataExpired, match="would have expired when the present state was signed") as caught:
        add(hub.dir.path, skill, later(hub, 30))
    assert tree_of(hub.dir.path) == before
    assert caught.value.hint.endswith(f"refresh {hub.dir.path} --role timestamp")
    add(hub.dir.path, skill, later(hub, 39))
    refresh(hub.dir.path, later(hub, 30), roles=["timestamp"])
    add(hub.dir.path, [write_skill(tmp_path, "third")], later(hub, 30))


def test_attack_a_clock_years_ahead_signs_nothing(hub):
    """Else the timestamp would stay valid for these years, and could be shown to new clients until then."""
    before, ahead = tree_of(hub.dir.path), later(hub, 3650)
    hub.when = ahead.now
    for act in (lambda: refresh(hub.dir.path, ahead), lambda: hub.publish("other")):
        with pytest.raises(MetadataExpired) as caught:
            act()
        assert caught.value.hint.endswith(f"skillhub registry refresh {hub.dir.path} --role root")
    assert tree_of(hub.dir.path) == before
    assert "root" in roles(refresh(hub.dir.path, ahead, roles=["root"]).renewed)


def test_client_accepts_refreshed_metadata(tmp_path):
    hub = Simulator(tmp_path, when=now() - timedelta(days=3.5))
    hub.publish()
    with pytest.raises(MetadataExpired):
        hub.open(tmp_path / "m")
    refresh(hub.dir.path, Signing(now=now()))
    hub.pull()
    assert hub.open(tmp_path / "m").release_index(["hello"]).names == ("hello",)
    assert check(hub.dir.path, now()).problems == ()


def test_within_sets_the_days_before_expiry(hub):
    assert roles(refresh(hub.dir.path, later(hub, 0.5), within=1).renewed) == set()
    assert roles(refresh(hub.dir.path, later(hub, 0.5), within=7).renewed) == {"timestamp", "snapshot"}


def test_named_offline_role_is_signed(hub, tmp_path):
    old = tmp_path / "m"
    hub.open(old)
    done = refresh(hub.dir.path, later(hub, 0), roles=["root", "namespaces", "targets"])
    assert roles(done.renewed) == OFFLINE | {"snapshot", "timestamp"}
    hub.pull()
    assert "metadata/2.root.json" in hub.files
    assert hub.open(old).release_index(["hello"]).names == ("hello",)
    assert roles(refresh(hub.dir.path, later(hub, 0), roles=["releases"]).renewed) == ONLINE - {"listing"}


def test_one_of_two_offline_keys_is_not_enough(hub, tmp_path):
    for number in (1, 2):
        (tmp_path / f"registry/keys/offline/root-{number}.pem").unlink()
    before = tree_of(hub.dir.path)
    with pytest.raises(Refused, match="root"):
        refresh(hub.dir.path, later(hub, 0), roles=["root"])
    with pytest.raises(UsageError):
        refresh(hub.dir.path, later(hub, 0), roles=["nobody"])
    assert tree_of(hub.dir.path) == before


def test_dry_run_lists_due_roles_and_writes_no_file(hub):
    before = tree_of(hub.dir.path)
    signing = Signing(now=hub.when + timedelta(days=2), dry_run=True)
    assert roles(refresh(hub.dir.path, signing).renewed) == {"timestamp"}
    assert tree_of(hub.dir.path) == before


def test_passphrase_is_required_only_for_due_roles(tmp_path):
    folder, when = str(tmp_path / "r"), now()
    init(folder, Setup(settings=RegistrySettings.of("acme", bins=2), passphrase=b"s", new_key=key_of("p")), when)
    assert refresh(folder, Signing(now=when)).renewed == ()
    with pytest.raises(PassphraseNeeded):
        refresh(folder, Signing(now=when + timedelta(days=2)))
    assert refresh(folder, Signing(now=when + timedelta(days=2), passphrase=b"s")).renewed


def test_check_warns_about_near_expiry(hub):
    assert check(hub.dir.path, now()).warnings == ()
    found = check(hub.dir.path, now() + timedelta(days=2.5)).warnings
    assert {issue.where for issue in found} == {"timestamp"}
    metadata = hub.dir.metadata()
    late = metadata.renewed(["root", "namespaces"], hub.dir.keys().of, Dates(now(), 20))
    hub.dir.publish(late.files())
    warned = check(hub.dir.path, now()).warnings
    assert {issue.where for issue in warned} == {"root", "namespaces"}
    assert all("refresh --role" in issue.message for issue in warned)
    assert check(hub.dir.path, now()).problems == ()


def test_check_finds_releases_hidden_by_the_listing(hub):
    """A thief with the key of the listing can hide a skill; check reads its releases anyway."""
    hub.revise({"index.json": hub.dir.target(hub.dir.metadata(), "index.json").replace(b'"hello"', b'"h"')})
    found = {(issue.code, issue.where) for issue in check(hub.dir.path, now()).problems}
    assert ("wrong-bytes", f"{hub.dir.site}/.well-known/agent-skills/index.json") in found
    listing = b'{"$schema":"https://schemas.agentskills.io/discovery/0.2.0/schema.json","skills":[]}'
    hub.revise({"index.json": listing})
    hub.dir.publish({".well-known/agent-skills/index.json": listing})
    assert [(issue.code, issue.where) for issue in check(hub.dir.path, now()).problems] == [("not-listed", "hello")]


def test_killed_refresh_keeps_clients_working(hub, tmp_path):
    clients, signing = OldClients(hub, tmp_path, "hello"), later(hub, 5.5)

    def look(kill, done):
        for registry in (clients.open(kill), clients.fresh(kill, done)):
            assert registry.release_index(["hello"]).names == ("hello",)
        assert not done or refresh(hub.dir.path, signing).renewed == ()

    assert kill_everywhere(hub.dir.path, lambda: refresh(hub.dir.path, signing), look) >= 1
