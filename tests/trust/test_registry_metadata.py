import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tuf.api.metadata import Metadata, Root, Targets

from fixtures.attacks_oms.forge import LEAF, MIDDLE, NOW, ROOT, chain
from skillhub.errors import FormatError, NameNotOwned, NotFound, Refused, SourceMismatch, UsageError, WrongBytes
from skillhub.formats.digest import Digest
from skillhub.model.discovery import admitted, parse_listing, parse_namespaces, parse_releases, parse_skill
from skillhub.model.index import Admission, Index, Release, Revocation, index_path, namespace_path
from skillhub.trust import x509
from skillhub.trust.documents import pinned_documents, signed_documents
from skillhub.trust.keys import PrivateKey
from skillhub.trust.publishers import publisher_of
from skillhub.trust.registry_metadata import Dates, MetadataSet, publisher_target
from skillhub.trust.registry_rules import admission_of, agrees, checked, refuse_shared, released_by
from skillhub.trust.roles import NAMESPACE_PATHS, ROLES, key_names
from tests.support.registry import role_keys

KEYS = role_keys("metadata")
DATES = Dates(datetime(2026, 1, 1, tzinfo=UTC))
MADE = MetadataSet.create(KEYS, 4, DATES)
TREE = Digest("sha256:" + "1" * 64)


def release(name="hello", version="1.0.0", **fields):
    data = f"{name} {version}".encode()
    facts = {"digest": Digest.of(data), "size": len(data), "tree": TREE, "publisher": "acme"}
    url = f"archives/{name}/{version}/x.zip"
    return Release(name=name, version=version, published="2026-01-01T00:00:00Z", url=url, **{**facts, **fields})


@pytest.mark.parametrize("dates", [replace(DATES, days=1 << 40), Dates(datetime.max.replace(tzinfo=UTC))])
def test_a_date_of_expiry_beyond_the_calendar_is_refused(dates):
    with pytest.raises(UsageError, match="year 10000"):
        dates.expires("root")


def test_roles_have_their_keys_thresholds_and_lifetimes():
    root = MADE.signed("root", Root)
    assert root.consistent_snapshot
    thresholds = {role: (len(each.keyids), each.threshold) for role, each in root.roles.items()}
    assert thresholds == {"root": (3, 2), "targets": (3, 2), "snapshot": (1, 1), "timestamp": (1, 1)}
    delegated = MADE.signed("targets", Targets).delegations.roles
    assert list(delegated) == ["namespaces", "releases", "listing", "log"]
    assert all(role.terminating for role in delegated.values())
    assert delegated["namespaces"].threshold == 2
    for role, rule in ROLES.items():
        assert (MADE.read(role).expires - DATES.now).days == rule.days
        assert len(list(key_names(role))) == rule.keys
    keys = {key.keyid for role in root.roles for key in map(root.get_key, root.roles[role].keyids)}
    assert len(keys) == 8


def test_rules_of_the_roles_match_the_contract():
    rules = {role: (rule.keys, rule.threshold, rule.days, rule.online) for role, rule in ROLES.items()}
    assert rules == {
        "root": (3, 2, 365, False),
        "targets": (3, 2, 182, False),
        "namespaces": (3, 2, 90, False),
        "releases": (1, 1, 30, True),
        "listing": (1, 1, 30, True),
        "log": (1, 1, 30, True),
        "snapshot": (1, 1, 7, True),
        "timestamp": (1, 1, 3, True),
    }


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("ns/00.json", "namespaces"),
        ("index.json", "listing"),
        ("skills/a.json", "listing"),
        ("advisories/1.json", "listing"),
    ],
)
def test_path_is_signed_by_its_role(path, role):
    assert MADE.role_of(path) == role


def test_releases_are_spread_over_bins():
    roles = {MADE.role_of(index_path(f"publisher-{number}")) for number in range(200)}
    assert roles == {f"releases-{number:x}" for number in range(16)}


@pytest.mark.parametrize("path", ["other.json", "ns/a/b.json", "", "metadata/1.root.json"])
def test_path_without_a_role_is_refused(path):
    with pytest.raises(FormatError):
        MADE.role_of(path)


def test_online_keys_cannot_sign_owners_of_names():
    """Neither online keys nor a single offline key can sign the owner of a name."""
    keys = {role: KEYS(role) for role in ROLES}
    for few in ([], keys["namespaces"][:1]):
        with pytest.raises(Refused, match="namespaces"):
            MADE.revise({"ns/00.json": b"{}"}, {**keys, "namespaces": few}.__getitem__, DATES)
    online = {role: keys[role] if ROLES[role].online else [] for role in ROLES}
    revised = MADE.revise({"idx/acme.json": b"{}", "index.json": b"{}"}, online.__getitem__, DATES)
    assert revised.find("idx/acme.json").length == 2


def test_revision_raises_only_versions_of_changed_roles():
    revised = MADE.revise({"idx/acme.json": b"{}"}, KEYS, DATES)
    changed = {role for role in revised.documents if revised.documents[role] != MADE.documents[role]}
    assert changed == {MADE.role_of("idx/acme.json"), "snapshot", "timestamp"}
    assert all(revised.read(role).version == MADE.read(role).version + 1 for role in changed)
    assert revised.revise({"idx/acme.json": b"{}"}, KEYS, DATES) is revised
    last = ["metadata/2.snapshot.json", "metadata/timestamp.json", "metadata/1.root.json"]
    assert list(revised.files())[-3:] == last


def test_metadata_is_reproducible_and_every_signature_is_valid():
    assert MetadataSet.create(KEYS, 4, DATES).documents == MADE.documents
    assert MADE.find("index.json") is None
    assert MetadataSet.load(MADE.documents) == MADE
    root = MADE.signed("root", Root)
    for role in ("root", "targets", "snapshot", "timestamp"):
        document = Metadata.from_bytes(MADE.documents[role])
        root.verify_delegate(role, document.signed_bytes, document.signatures)
    targets = MADE.signed("targets", Targets)
    for role in ("namespaces", "releases", "listing"):
        document = Metadata.from_bytes(MADE.documents[role])
        targets.verify_delegate(role, document.signed_bytes, document.signatures)


@pytest.mark.parametrize("data", [b"", b"<html>", b"{}"])
def test_invalid_metadata_is_refused(data):
    with pytest.raises(FormatError):
        MetadataSet.load({"timestamp": data})


def test_document_of_another_kind_is_refused():
    with pytest.raises(FormatError, match="of the kind root"):
        MADE.signed("timestamp", Root)


def read_back(index, bucket):
    """Return the admissions of publishers by the documents that a bucket pins."""
    files, found = pinned_documents(index, ["acme"]), {}
    for publisher, pin in parse_namespaces(bucket, "ns").items():
        data = files[f"targets/publishers/{pin.digest.hex}.{publisher}.json"]
        publisher_target(publisher, pin).verify_length_and_hashes(data)
        found[publisher] = admitted(publisher, data, "publishers")
    assert len(files) == len(found)
    return found


def test_documents_are_read_back():
    key = PrivateKey.generate().public
    admission = Admission(
        publisher="acme",
        keys=(key.pem.decode(),),
        revoked=(Revocation(key.fingerprint, "2026-01-01T00:00:00Z", key.pem.decode()),),
        names=frozenset({"hello", "unused"}),
    )
    newest = release(version="2.0.0", description="Größe 😀", yanked="broken", requires=("env:TOKEN",))
    releases = (newest, release(capabilities=("scripts",), description="Größe 😀"))
    index = Index({"hello": releases}, {"acme": admission})
    targets = signed_documents(index, ["acme"], ["hello"])
    assert read_back(index, targets[namespace_path("acme")]) == {"acme": admission}
    publisher, read = parse_releases(targets[index_path("acme")], "idx")
    assert publisher == "acme"
    assert [(each.version, each.digest, each.yanked) for each in read] == [
        (each.version, each.digest, each.yanked) for each in releases
    ]
    listed = parse_skill(targets["skills/hello.json"], "skills")
    assert [each.description for each in listed] == ["Größe 😀"] * 2
    (offered,) = parse_listing(targets["index.json"], "index").releases("hello")
    assert offered.version == "1.0.0", "the newest one is yanked"
    assert json.loads(targets["index.json"])["skills"][0]["url"] == "../../archives/hello/1.0.0/x.zip"


def test_neighbours_in_a_bucket_are_kept():
    first = "acme"
    second = next(
        name for name in (f"p{number}" for number in range(9999)) if namespace_path(name) == namespace_path(first)
    )
    both = {name: Admission(publisher=name, names=frozenset({f"of-{name}"})) for name in (first, second)}
    far = {"rival": Admission(publisher="rival")}
    index = Index({}, {**both, **far})
    targets = signed_documents(index, [first], [])
    assert read_back(index, targets[namespace_path(first)]) == both


def test_name_and_document_have_one_publisher():
    acme, rival = (Admission(publisher=each, names=frozenset({"hello", each})) for each in ("acme", "rival"))
    refuse_shared([acme, replace(rival, names=frozenset({"rival"}))])
    with pytest.raises(NameNotOwned, match="both"):
        refuse_shared([acme, rival])
    with pytest.raises(NameNotOwned, match="rival"):
        admitted("rival", b'{"publisher": "acme"}', "publishers/rival.json")


def test_publishers_are_spread_over_all_buckets():
    assert {namespace_path(f"p{number}") for number in range(5000)} == set(NAMESPACE_PATHS)


def test_name_must_belong_to_the_publisher():
    admission = Admission(publisher="acme", names=frozenset({"hello"}))
    assert admission_of("hello", "acme", {"acme": admission}) is admission
    for name, publisher in (("hello", "rival"), ("other", "acme")):
        with pytest.raises(NameNotOwned):
            admission_of(name, publisher, {"acme": admission})
    assert released_by(admission, "acme", (release(),)) == {"hello": (release(),)}
    for publisher, name in (("acme", "other"), ("rival", "hello")):
        with pytest.raises(NameNotOwned):
            released_by(admission, publisher, (release(name),))


def test_content_must_match_the_release():
    offered = release()
    agrees(offered, name="hello", version="1.0.0", tree=TREE)
    with pytest.raises(WrongBytes):
        agrees(offered, name="hello", version="1.0.0", tree=Digest.of(b"other"))
    for name, version in (("other", "1.0.0"), ("hello", "0.9.0"), ("hello", None)):
        with pytest.raises(SourceMismatch):
            agrees(offered, name=name, version=version, tree=TREE)


def test_artifact_must_match_the_release():
    offered = release()
    assert checked(offered, b"hello 1.0.0") == b"hello 1.0.0"
    for data in (b"hello 1.0.1", b"hello", b"", b"hello 1.0.0 "):
        with pytest.raises(WrongBytes):
            checked(offered, data)
    assert checked(replace(offered, size=None), b"hello 1.0.0") == b"hello 1.0.0"
    with pytest.raises(NotFound):
        checked(replace(offered, digest=None), b"hello 1.0.0")


def test_revoked_key_is_listed_as_revoked():
    good, gone = PrivateKey.generate().public, PrivateKey.generate("ed25519").public
    admission = Admission(
        publisher="acme",
        keys=(good.pem.decode(), gone.pem.decode()),
        revoked=(Revocation(gone.fingerprint, "2026-01-01T00:00:00Z", gone.pem.decode()),),
    )
    publisher = publisher_of(admission)
    assert publisher.keys == (good,)
    assert publisher.revoked == (gone,)
    with pytest.raises(FormatError):
        publisher_of(Admission(publisher="acme", keys=("-----BEGIN PUBLIC KEY-----\nAAAA\n",)))


def test_names_of_an_admission_do_not_change_its_publisher():
    good = PrivateKey.generate().public.pem.decode()
    first = Admission(publisher="acme", keys=(good,), names=frozenset(["a"]))
    assert publisher_of(first) is publisher_of(replace(first, names=frozenset(["a", "b"])))
    assert publisher_of(first) != publisher_of(Admission(publisher="other", keys=(good,)))


CERTIFIED = [x509.parse(der) for der in chain(LEAF, MIDDLE, ROOT)]
RENEWED, OTHER = (
    x509.parse(chain(root)[0]) for root in (replace(ROOT, end=NOW + timedelta(days=9)), replace(ROOT, seed="other"))
)


@pytest.mark.parametrize("named", [CERTIFIED[2].fingerprint, CERTIFIED[2].key.fingerprint])
def test_revoked_root_removes_every_root_with_its_key(named):
    pem = CERTIFIED[2].pem.decode()
    admission = Admission(
        publisher="acme",
        certificates=(pem, RENEWED.pem.decode(), OTHER.pem.decode()),
        revoked=(Revocation(named, "2026-01-01T00:00:00Z", pem),),
    )
    publisher = publisher_of(admission)
    assert (publisher.roots, publisher.revoked) == ((OTHER,), (CERTIFIED[2].key,))
    assert publisher.former == {named}


@pytest.mark.parametrize("pem", [CERTIFIED[0].pem, CERTIFIED[0].key.pem], ids=["certificate", "key"])
def test_attack_a_revocation_with_another_key_is_refused(pem):
    false = Revocation(CERTIFIED[1].key.fingerprint, "2026-01-01T00:00:00Z", pem.decode())
    with pytest.raises(FormatError, match="expected the key"):
        publisher_of(Admission(publisher="acme", revoked=(false,)))


def test_revocation_applies_from_its_first_second():
    key = CERTIFIED[0].key
    admission = Admission(
        publisher="acme",
        keys=(key.pem.decode(),),
        revoked=(Revocation(key.fingerprint, "2026-01-01T00:00:00Z", key.pem.decode()),),
    )
    assert publisher_of(admission, "2025-12-31T23:59:59Z").keys == (key,)
    for published in ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", None):
        assert publisher_of(admission, published).keys == ()
