"""Rights to publish: admitted publishers, further keys, revoked keys, assigned and moved names."""

import os
import shutil
from datetime import timedelta

import pytest

from fixtures.attacks_oms.forge import LEAF, MIDDLE, NOW, ROOT, chain, leaf_key
from skillhub.errors import BadSignature, FormatError, NameNotOwned, NotFound, Refused, UsageError, Withdrawn
from skillhub.model.discovery import parse_namespaces
from skillhub.model.index import DOCUMENT_CAP, Admission, Index
from skillhub.registry.build import add
from skillhub.registry.check import check
from skillhub.registry.operator import Signing, opened
from skillhub.registry.upkeep import AdmissionChange, delegate
from skillhub.sources.local import read_local
from skillhub.trust import x509
from skillhub.trust.keys import PrivateKey
from skillhub.trust.oms import sign
from skillhub.trust.publishers import publisher_of
from tests.support.killing import OldClients, kill_everywhere
from tests.support.published import tree_of
from tests.support.registry import Simulator, now, write_skill
from tests.support.world import World

RIVAL, SECOND = (PrivateKey.from_seed(bytes([number]) * 32) for number in (7, 8))
EVER = "1970-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    simulator = Simulator(tmp_path_factory.mktemp("made"), bits=1)
    simulator.publish()
    give(simulator, "rival", keys=(RIVAL.public.pem,), names=("owned",))
    return simulator


def give(hub, publisher, days=0, dry_run=False, **change):
    signing = Signing(now=hub.when + timedelta(days=days), dry_run=dry_run)
    done = delegate(hub.dir.path, AdmissionChange(publisher=publisher, **change), signing)
    hub.pull()
    return done


def by(key, parent, name="owned", version="1.0.0", **files):
    """Write a skill, signed by ``key``."""
    folder = write_skill(parent, name, version, **files)
    with open(os.path.join(folder, "skill.oms.sig"), "wb") as file:
        file.write(sign(read_local(folder).tree, name, key))
    return folder


def publish(hub, *folders, days=0):
    done = add(hub.dir.path, folders, Signing(now=hub.when + timedelta(days=days)))
    hub.pull()
    return done


def stamp(hub, days=0):
    return Signing(now=hub.when + timedelta(days=days)).time


def unchanged(hub, error, act, **match):
    before = tree_of(hub.dir.path)
    with pytest.raises(error, **match):
        act()
    assert tree_of(hub.dir.path) == before


def test_admitted_publisher_publishes_its_names_without_offline_keys(hub, tmp_path):
    for path in (tmp_path / "registry/keys/offline").glob("*.pem"):
        path.unlink()
    publish(hub, by(RIVAL, tmp_path))
    index = hub.open(tmp_path / "m").release_index(["owned", "hello"])
    assert index.releases("owned")[0].publisher == "rival"
    assert index.admissions["rival"].names == {"owned"}
    assert check(hub.dir.path, now()).problems == ()


def test_name_of_another_publisher_can_be_neither_claimed_nor_published(hub, tmp_path):
    with pytest.raises(NameNotOwned) as caught:
        publish(hub, by(RIVAL, tmp_path, "hello", "2.0.0"))
    assert caught.value.hint.endswith(f"delegate {hub.dir.path} rival --name hello --move")
    assert "if you are acme, delete skill.oms.sig" in caught.value.hint
    assert "whose releases are then withdrawn for good" in caught.value.hint
    unchanged(hub, NameNotOwned, lambda: publish(hub, by(RIVAL, tmp_path, "hello", "2.0.0")))
    unchanged(hub, Refused, lambda: publish(hub, write_skill(tmp_path / "x", "owned")), match="unsigned; rival")
    unchanged(hub, NameNotOwned, lambda: give(hub, "rival", names=("hello",)), match="acme")
    unchanged(hub, NameNotOwned, lambda: give(hub, "third", keys=(SECOND.public.pem,), names=("hello",)))


def test_a_document_of_a_publisher_that_no_client_reads_is_not_signed(hub):
    huge = Admission(publisher="rival", keys=("x" * DOCUMENT_CAP,))

    def admit():
        with opened(hub.dir.path, Signing(now=hub.when)) as own:
            own.publish(Index({}, {**own.index().admissions, "rival": huge}), ["rival"], [])

    unchanged(hub, Refused, admit, match=r"rival\.json would have .* clients read at most 5,000,000")


def test_new_name_needs_offline_keys(hub, tmp_path):
    folder = by(RIVAL, tmp_path, "fresh")
    offline = tmp_path / "registry/keys/offline"
    offline.rename(tmp_path / "disk")
    with pytest.raises(Refused, match="new name") as caught:
        publish(hub, folder)
    assert "delegate" in caught.value.hint
    assert "rival --name fresh" in caught.value.hint
    (tmp_path / "disk").rename(offline)
    publish(hub, folder)
    assert hub.open(tmp_path / "m").release_index(["fresh"]).releases("fresh")[0].publisher == "rival"


def test_signer_without_admission_is_refused(hub, tmp_path):
    unchanged(hub, Refused, lambda: publish(hub, by(SECOND, tmp_path)), match="signature by rival")


@pytest.mark.parametrize(
    ("publisher", "change", "error"),
    [
        ("new", {}, UsageError),
        ("new", {"names": ("x",)}, UsageError),
        ("../x", {"keys": (RIVAL.public.pem,)}, UsageError),
        ("rival", {"names": ("../x",)}, UsageError),
        ("rival", {"names": ("A",)}, UsageError),
        ("rival", {"keys": (b"junk",)}, FormatError),
        ("rival", {"keys": (RIVAL.pem(),)}, FormatError),
        ("rival", {"certificates": (RIVAL.public.pem,)}, FormatError),
        ("rival", {"revoke": ("sha256:" + "0" * 64,)}, NotFound),
        ("rival", {"since": "2026-01-01T00:00:00Z"}, UsageError),
        ("rival", {"revoke": (RIVAL.public.fingerprint,), "since": "2999-01-01T00:00:00Z"}, UsageError),
    ],
)
def test_invalid_mandate_is_refused(hub, publisher, change, error):
    unchanged(hub, error, lambda: give(hub, publisher, **change))


def test_dry_run_and_repeated_mandate_change_no_file(hub):
    before = tree_of(hub.dir.path)
    give(hub, "rival", keys=(RIVAL.public.pem,), names=("owned",))
    give(hub, "rival", keys=(SECOND.public.pem,), names=("more",), dry_run=True)
    assert tree_of(hub.dir.path) == before


@pytest.mark.parametrize("number", [1, 2])
def test_threshold_of_offline_keys_is_required(hub, tmp_path, number):
    for each in range(1, number + 1):
        (tmp_path / f"registry/keys/offline/namespaces-{each}.pem").unlink()
    act = lambda: give(hub, "rival", keys=(SECOND.public.pem,))  # noqa: E731
    act() if number == 1 else unchanged(hub, Refused, act, match="namespaces")


def test_planned_key_change_keeps_earlier_releases(hub, tmp_path):
    """Releases of the first key from before its revocation stay valid, and locks proceed to the second key."""
    world = World(tmp_path / "w")
    world.add_source("hub", hub)
    publish(hub, by(RIVAL, tmp_path))
    world.install("hub:owned")
    give(hub, "rival", keys=(SECOND.public.pem,))
    done = give(hub, "rival", days=1, revoke=(RIVAL.public.fingerprint,), since=stamp(hub, 1))
    assert done.withdrawn == ()
    unchanged(hub, BadSignature, lambda: publish(hub, by(RIVAL, tmp_path, version="1.1.0"), days=1))
    publish(hub, by(SECOND, tmp_path / "2", version="1.2.0"), days=1)
    assert check(hub.dir.path, now()).problems == ()
    other = world.on_another_machine()
    other.sources.add("hub", world.sources.get("hub").url, hub.root)
    other.install()
    assert other.lock().skills["owned"].version == "1.0.0"
    (tmp_path / "w/project-2").mkdir()
    first, second = world.base, tmp_path / "w/project-2"
    shutil.copy(first / "skillhub.lock", second)
    world.base = second
    world.install()
    world.base = first
    (tmp_path / "w/project/skillhub.toml").write_text('[skills]\nowned = {source = "hub", version = "1.2.0"}\n')
    other.install()
    entry = other.lock().skills["owned"]
    assert (entry.version, SECOND.public.fingerprint in entry.signed_by[0]) == ("1.2.0", True)
    # A user who consented to the first key accepts the lock, too: from the registry and then from the store.
    for project in (first, second):
        world.base = project
        (project / "skillhub.lock").write_bytes(other.lock().dump())
        world.install()
        assert SECOND.public.fingerprint in world.record("owned").provenance.signers[0]


def test_revocation_of_a_stolen_key_withdraws_its_releases(hub, tmp_path):
    world = World(tmp_path / "w")
    world.add_source("hub", hub)
    publish(hub, by(RIVAL, tmp_path))
    world.install("hub:owned")
    old = tmp_path / "old"
    hub.open(old).release_index(["owned"])
    done = give(hub, "rival", keys=(SECOND.public.pem,), revoke=(RIVAL.public.fingerprint,))
    assert [each.version for each in done.withdrawn] == ["1.0.0"]
    publish(hub, by(SECOND, tmp_path / "2", version="1.1.0"))
    newest, oldest = hub.open(old).release_index(["owned"]).releases("owned")
    assert newest.withdrawn is None
    assert "revoked" in oldest.withdrawn
    assert check(hub.dir.path, now()).problems == ()
    other = world.on_another_machine()
    other.sources.add("hub", world.sources.get("hub").url, hub.root)
    with pytest.raises(Withdrawn, match="withdrawn"):
        other.install()
    newcomer = World(tmp_path / "n")
    newcomer.add_source("hub", hub)
    newcomer.install("hub:owned")
    assert newcomer.lock().skills["owned"].version == "1.1.0"
    unchanged(hub, Refused, lambda: give(hub, "rival", keys=(RIVAL.public.pem,)), match="revoked")


def test_revocation_is_never_weakened(hub):
    give(hub, "rival", keys=(SECOND.public.pem,), revoke=(RIVAL.public.fingerprint,))
    done = give(hub, "rival", days=1, revoke=(RIVAL.public.fingerprint,), since=stamp(hub))
    assert [each.since for each in done.admission.revoked] == [EVER]


def test_unknown_key_is_revoked_by_its_pem(hub):
    done = give(hub, "rival", revoke=(SECOND.public.pem.decode(),))
    assert [each.fingerprint for each in done.admission.revoked] == [SECOND.public.fingerprint]
    assert publisher_of(done.admission).revoked == (SECOND.public,)
    unchanged(hub, Refused, lambda: give(hub, "rival", keys=(SECOND.public.pem,)))


def certified(parent):
    """Write a skill signed by a leaf certificate, and return its folder and the chain."""
    made = tuple(x509.parse(each) for each in chain(LEAF, MIDDLE, ROOT))
    folder = write_skill(parent, "certified")
    with open(os.path.join(folder, "skill.oms.sig"), "wb") as file:
        file.write(sign(read_local(folder).tree, "certified", leaf_key(), made))
    return folder, made


@pytest.mark.parametrize("place", [0, 1, 2], ids=["leaf", "middle", "root"])
@pytest.mark.parametrize("how", ["certificate", "key"])
def test_any_certificate_of_a_chain_can_be_revoked(tmp_path, place, how):
    hub = Simulator(tmp_path, when=NOW, bits=1)
    folder, made = certified(tmp_path)
    give(hub, "rival", certificates=(made[-1].pem,), names=("certified",))
    publish(hub, folder)
    found = made[place].fingerprint if how == "certificate" else made[place].key.fingerprint
    spared = give(hub, "rival", days=1, revoke=(found,), since=stamp(hub, 1))
    assert spared.withdrawn == ()
    done = give(hub, "rival", days=1, revoke=(found,))
    assert [each.name for each in done.withdrawn] == ["certified"]
    assert bool(publisher_of(done.admission).roots) == (place != 2)
    assert publisher_of(done.admission).revoked == (made[place].key,)


def test_moved_name_withdraws_releases_of_the_old_owner(hub, tmp_path):
    """Releases of the new owner are offered; those of the old owner are withdrawn, for lack of its signature."""
    old = tmp_path / "old"
    hub.open(old).release_index(["hello"])
    done = give(hub, "rival", names=("hello",), move=True)
    assert [each.withdrawn for each in done.withdrawn] == ["it is not signed by rival, the present owner of the name"]
    publish(hub, by(RIVAL, tmp_path, "hello", "2.0.0"))
    index = hub.open(old).release_index(["hello"])
    assert [(each.version, each.publisher, each.withdrawn is None) for each in index.releases("hello")] == [
        ("2.0.0", "rival", True),
        ("1.0.0", "rival", False),
    ]
    assert index.admissions["rival"].names == {"hello", "owned"}
    assert check(hub.dir.path, now()).problems == ()
    unchanged(hub, Refused, lambda: hub.publish(version="3.0.0"), match="unsigned; rival")


def test_name_moved_with_its_key_keeps_its_releases(hub, tmp_path):
    own = PrivateKey.load((tmp_path / "registry/keys/publishers/acme.pem").read_bytes())
    done = give(hub, "successor", keys=(own.public.pem,), names=("hello",), move=True)
    assert done.withdrawn == ()
    assert check(hub.dir.path, now()).problems == ()


@pytest.mark.parametrize("revoked_since", [None, 1])
def test_skills_are_unchanged_after_the_registrys_own_key_was_replaced(hub, tmp_path, revoked_since):
    path = tmp_path / "registry/keys/publishers/acme.pem"
    old = PrivateKey.load(path.read_bytes())
    more = {"revoke": (old.public.fingerprint,), "since": stamp(hub, revoked_since)} if revoked_since else {}
    give(hub, "acme", days=2, keys=(SECOND.public.pem,), **more)
    path.write_bytes(SECOND.pem())
    before = hub.open(tmp_path / "m").release_index(["hello"]).releases("hello")
    done = publish(hub, write_skill(tmp_path, "hello"), days=3)
    assert [each.tree for each in done.unchanged] == [each.tree for each in before] and done.releases == ()
    changed = write_skill(tmp_path, "hello", **{"more.md": "More."})
    unchanged(hub, Refused, lambda: publish(hub, changed, days=3), match="with other content")
    assert check(hub.dir.path, now()).problems == ()


CHANGES = {
    "admit": {"keys": (SECOND.public.pem,), "names": ("more",)},
    "revoke": {"keys": (SECOND.public.pem,), "revoke": (RIVAL.public.fingerprint,)},
    "move": {"names": ("hello",), "move": True},
}


@pytest.mark.parametrize("change", CHANGES)
def test_killed_delegate_shows_clients_the_old_or_the_new_state(hub, tmp_path, change):
    publish(hub, by(RIVAL, tmp_path))
    clients = OldClients(hub, tmp_path, "hello", "owned")

    def look(kill, done):
        hub.pull()
        buckets = [data for path, data in hub.files.items() if path.startswith("targets/ns/")]
        for publisher, pin in [row for data in buckets for row in parse_namespaces(data, "ns").items()]:
            assert f"targets/publishers/{pin.digest.hex}.{publisher}.json" in hub.files
        for registry in (clients.open(kill), clients.fresh(kill, done)):
            index = registry.release_index(["owned"])
            (release,) = index.releases("owned")
            keys = publisher_of(index.admissions["rival"]).keys
            assert (RIVAL.public in keys) == (release.withdrawn is None)
            assert done <= (keys != (RIVAL.public,) or change == "move")
        assert not done or check(hub.dir.path, now()).problems == ()

    assert kill_everywhere(hub.dir.path, lambda: give(hub, "rival", **CHANGES[change]), look) >= 4
