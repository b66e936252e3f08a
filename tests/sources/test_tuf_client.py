import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from ssl import DER_cert_to_PEM_cert

import pytest
from tuf.api.metadata import DelegatedRole, Delegations, Targets

from skillhub.errors import (
    BadMetadata,
    BadMetadataSignature,
    FormatError,
    MetadataExpired,
    NameNotOwned,
    NotFound,
    Rollback,
    SecurityError,
    SkillhubError,
    SourceError,
    StateError,
    WrongBytes,
)
from skillhub.formats.digest import Digest
from skillhub.model.index import ADVISORIES
from skillhub.project.last_seen import kept
from skillhub.registry.operator import Signing
from skillhub.registry.upkeep import rotate
from skillhub.sources.configured import EMBEDDED_URL, embedded, embedded_root
from skillhub.sources.registry_client import TufRegistry, fetch_root
from skillhub.trust import roles
from skillhub.trust.registry_metadata import METADATA_BUNDLE_PATH, Dates, MetadataSet
from tests.support.published import tree_of
from tests.support.registry import URL, Simulator, key_of, long_ago, now, role_keys
from tests.trust.test_keys import DIFFIE_HELLMAN

HTML = b"<!doctype html><html><body>Please sign in</body></html>"
TIMESTAMP = "metadata/timestamp.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    simulator = Simulator(tmp_path_factory.mktemp("made"))
    simulator.publish()
    simulator.publish(version="1.1.0")
    return simulator


def test_url_below_a_registry_is_refused_with_a_hint_at_its_folder(hub):
    with pytest.raises(NotFound) as caught:
        fetch_root(f"{URL}/index.html", hub)
    assert "without a file name" in caught.value.hint


def test_release_has_its_publisher_and_its_bytes(hub, tmp_path):
    assert fetch_root(URL, hub) == hub.root
    registry = hub.open(tmp_path / "m")
    index = registry.release_index(["hello"])
    newest, oldest = index.releases("hello")
    assert (newest.version, oldest.version) == ("1.1.0", "1.0.0")
    assert newest.url == f"{URL}/archives/hello/1.1.0/{newest.digest.hex}.zip"
    assert index.admissions["acme"].names == {"hello"}
    assert Digest.of(registry.artifact(newest)) == newest.digest
    assert registry.fingerprint == Digest.of(hub.root)
    assert registry.listing().releases("hello")[0].version == "1.1.0"


def test_known_registry_takes_two_requests(hub, tmp_path):
    hub.publish("another")
    registry = hub.open(tmp_path / "m")
    registry.release_index(["hello"])
    assert hub.asked.total() == 8
    registry.release_index(["hello", "another"])
    assert hub.asked.total() == 8
    hub.asked.clear()
    hub.open(tmp_path / "m").release_index(["another", "hello"])
    assert hub.asked == {"metadata/2.root.json": 1, TIMESTAMP: 1}


def test_a_registry_whose_keys_were_changed_for_years_has_new_and_old_clients(hub, tmp_path):
    hub.open(tmp_path / "old")
    state, keys = hub.dir.metadata(), hub.dir.keys()
    for number in range(2, 300):
        state = state.renewed([roles.ROOT], keys.of, Dates(now()))
        hub.dir.publish({f"metadata/{number}.root.json": state.documents[roles.ROOT]})
    rotate(hub.dir.path, roles.TIMESTAMP, Signing(now=now()))
    hub.pull()
    assert "metadata/301.root.json" in hub.files
    for client in ("old", "old", "new"):
        assert hub.open(tmp_path / client).release_index(["hello"]).names == ("hello",)


@pytest.mark.parametrize("junk", [b"", b"[]", HTML, b'{"hello": 7}', b'{"hello": "../x"}', b'{"hello": "rival"}'])
def test_stored_hints_and_documents_are_not_trusted(hub, tmp_path, junk):
    hub.open(tmp_path / "m").release_index(["hello"])
    (tmp_path / "m" / "publishers.json").write_bytes(junk)
    for path in (tmp_path / "m" / "targets").iterdir():
        path.write_bytes(junk)
    assert len(hub.open(tmp_path / "m").release_index(["hello"]).releases("hello")) == 2


@pytest.mark.parametrize("name", ["absent", "../../etc/passwd", "", "A"])
def test_missing_skill_is_not_found(hub, tmp_path, name):
    with pytest.raises(NotFound):
        hub.open(tmp_path / "m").release_index([name])


def test_embedded_registry_opens_and_every_artifact_is_complete(tmp_path):
    registry = TufRegistry.open(EMBEDDED_URL, embedded_root(), embedded(), str(tmp_path))
    names = registry.listing().names
    assert len(names) == 8
    index = registry.release_index(names)
    for name in names:
        for release in index.releases(name):
            assert len(registry.artifact(release)) == release.size


# Attacks. None changes the metadata that the client trusted before.


def attacked(hub, folder, error):
    """Open the registry, which must fail with ``error`` and leave the trusted metadata unchanged."""
    before = tree_of(folder)
    with pytest.raises(SkillhubError) as caught:
        hub.open(folder)
    assert type(caught.value) is error
    assert tree_of(folder) == before
    return caught.value


def test_swapped_archive_is_refused(hub, tmp_path):
    registry = hub.open(tmp_path / "m")
    newest, oldest = registry.release_index(["hello"]).releases("hello")
    path = newest.url.removeprefix(URL + "/")
    same_size = bytes(newest.size)
    for data in (hub.files[oldest.url.removeprefix(URL + "/")], same_size, hub.files[path] + b"x", b""):
        hub.files[path] = data
        with pytest.raises(WrongBytes) as caught:
            registry.artifact(newest)
        assert caught.value.code == "wrong-bytes"


def test_swapped_target_document_is_refused(hub, tmp_path):
    registry = hub.open(tmp_path / "m")
    for path in [path for path in hub.files if path.startswith("targets/idx/")]:
        hub.files[path] = hub.files[path].replace(b"1.1.0", b"9.1.0")
    with pytest.raises(WrongBytes):
        registry.release_index(["hello"])


def test_metadata_of_another_key_is_refused(hub, tmp_path):
    hub.open(tmp_path / "m")
    other = MetadataSet.create(role_keys("thief"), 4, Dates(now()))
    forged = other
    for number in range(5):
        forged = forged.revise({"index.json": b"%d" % number}, role_keys("thief"), Dates(now()))
    hub.files |= {path: data for path, data in forged.files().items() if "root" not in path}
    assert attacked(hub, tmp_path / "m", BadMetadataSignature).code == "bad-metadata-signature"


def with_other_key(document):
    """Return a document with one more key, of a kind that may take minutes to read."""
    found = json.loads(document)
    keys = (found["signed"].get("delegations") or found["signed"])["keys"]
    pem = DER_cert_to_PEM_cert(DIFFIE_HELLMAN).replace("CERTIFICATE", "PUBLIC KEY")
    keys["0" * 64] = {"keytype": "ecdsa", "scheme": "ecdsa-sha2-nistp256", "keyval": {"public": pem}}
    return json.dumps(found).encode()


@pytest.mark.parametrize("spelled", [b"BEGIN", b"\\u0042EGIN", b"BEG\\u0049N"])
def test_attack_a_root_with_a_key_that_takes_long_is_refused_unverified(hub, tmp_path, spelled):
    hub.files["metadata/1.root.json"] = with_other_key(hub.root).replace(b"BEGIN", spelled)
    with pytest.raises(BadMetadata, match="found one of another kind"):
        hub.open(tmp_path / "m")


@pytest.mark.parametrize("role", ["root", "targets"])
def test_attack_metadata_with_a_key_that_takes_long_is_refused_unverified(hub, tmp_path, role):
    (newest,) = (path for path in hub.files if path.endswith(f".{role}.json"))
    hub.files.pop(METADATA_BUNDLE_PATH)
    hub.files[newest.replace("1.root", "2.root")] = with_other_key(hub.files[newest])
    with pytest.raises(BadMetadata, match="found one of another kind"):
        TufRegistry.open(URL, hub.root, hub, str(tmp_path / "m"))


def test_root_of_another_registry_is_refused(hub, tmp_path):
    other = Simulator(tmp_path, "other")
    with pytest.raises(BadMetadataSignature):
        TufRegistry.open(URL, other.root, hub, str(tmp_path / "m"))


def test_next_root_without_known_signatures_is_refused(hub, tmp_path):
    hub.open(tmp_path / "m")
    document = json.loads(Simulator(tmp_path, "thief").root)
    document["signed"]["version"] = 2
    hub.files["metadata/2.root.json"] = json.dumps(document).encode()
    attacked(hub, tmp_path / "m", BadMetadataSignature)


@pytest.mark.parametrize("days", [4, 8, 400])
def test_expired_metadata_is_refused(tmp_path, days):
    hub = Simulator(tmp_path, when=long_ago(days))
    with pytest.raises(MetadataExpired) as caught:
        hub.open(tmp_path / "m")
    assert caught.value.code == "metadata-expired"
    assert caught.value.hint.endswith("the operator of the registry must refresh it")


def test_rollback_to_an_older_state_is_refused(hub, tmp_path):
    old = dict(hub.files)
    hub.publish(version="1.2.0")
    hub.open(tmp_path / "m").release_index(["hello"])
    hub.files = old
    assert attacked(hub, tmp_path / "m", Rollback).code == "rollback"


def test_mix_and_match_of_two_states_is_refused(hub, tmp_path):
    """A new timestamp comes with the old snapshot under the name of the new one."""
    hub.open(tmp_path / "m")
    snapshots = sorted(path for path in hub.files if path.endswith(".snapshot.json"))
    hub.files[snapshots[-1]] = hub.files[snapshots[-2]]
    del hub.files[METADATA_BUNDLE_PATH]
    with pytest.raises(SecurityError) as caught:
        hub.open(tmp_path / "fresh")
    assert caught.value.code in ("wrong-bytes", "bad-metadata")


def test_older_role_under_the_name_of_the_newer_is_refused(hub, tmp_path):
    roles = sorted(path for path in hub.files if path.endswith(".namespaces.json"))
    hub.files[roles[-1]] = hub.files[roles[0]]
    del hub.files[METADATA_BUNDLE_PATH]
    with pytest.raises(Rollback):
        hub.open(tmp_path / "m").release_index(["hello"])


def test_withheld_role_is_an_error(hub, tmp_path):
    for path in [path for path in hub.files if path.endswith(".targets.json")]:
        del hub.files[path]
    del hub.files[METADATA_BUNDLE_PATH]
    with pytest.raises(SourceError):
        hub.open(tmp_path / "m")


def test_endless_metadata_is_refused(hub, tmp_path):
    hub.files[TIMESTAMP] += b" " * 100_000
    with pytest.raises(WrongBytes):
        hub.open(tmp_path / "m")


@pytest.mark.parametrize("path", ["metadata/2.root.json", TIMESTAMP])
@pytest.mark.parametrize("page", [HTML, b"", b"{}", b"[" * 5000, b'{"signed": {"_type": "root"}, "signatures": []}'])
def test_page_of_a_captive_portal_is_refused(hub, tmp_path, path, page):
    hub.open(tmp_path / "m")
    hub.files[path] = page
    error = attacked(hub, tmp_path / "m", FormatError)
    assert (error.code, error.message) == ("format", "expected signed metadata, found something else")


def test_page_of_a_captive_portal_in_place_of_the_hint_is_refused(hub, tmp_path):
    hub.files[".well-known/agent-skills/skills/hello.json"] = HTML
    with pytest.raises(FormatError):
        hub.open(tmp_path / "m").release_index(["hello"])


def hint(name, publisher):
    release = {
        "version": "1.0.0",
        "published": "2026-01-01T00:00:00Z",
        "size": 1,
        "tree": "sha256:" + "0" * 64,
        "digest": "sha256:" + "0" * 64,
        "url": "x.zip",
    }
    return json.dumps({"name": name, "publisher": publisher, "releases": [release]}).encode()


@pytest.mark.parametrize("publisher", ["evil", "acme"])
def test_hint_to_a_publisher_without_the_name_is_refused(hub, tmp_path, publisher):
    hub.files[".well-known/agent-skills/skills/other.json"] = hint("other", publisher)
    with pytest.raises(NameNotOwned) as caught:
        hub.open(tmp_path / "m").release_index(["other"])
    assert caught.value.code == "name-not-owned"


def test_hint_for_another_name_or_with_an_outward_path_is_refused(hub, tmp_path):
    for document, error in (
        (hint("other", "acme"), FormatError),
        (hint("hello", "../../acme"), BadMetadata),
        (hint("../../hello", "acme"), BadMetadata),
    ):
        hub.files[".well-known/agent-skills/skills/hello.json"] = document
        with pytest.raises(error):
            hub.open(tmp_path / "m").release_index(["hello"])


def test_stolen_online_key_cannot_publish_another_name(hub, tmp_path):
    """An attacker with the keys of `releases` and `listing` still needs the offline keys for a name."""
    metadata = hub.dir.metadata()
    index = json.loads(hub.dir.target(metadata, "idx/acme.json"))
    index["releases"].append({**index["releases"][0], "name": "bank"})
    hub.revise({"idx/acme.json": json.dumps(index).encode()})
    for name in ("bank", "hello"):
        hub.files[f".well-known/agent-skills/skills/{name}.json"] = hint(name, "acme")
        with pytest.raises(NameNotOwned) as caught:
            hub.open(tmp_path / "m").release_index([name])
        assert caught.value.code == "name-not-owned"


@pytest.mark.parametrize("url", ["../../x.zip", "https://evil.example/x.zip", "/etc/passwd"])
def test_archive_url_outside_of_the_registry_is_refused(hub, tmp_path, url):
    index = json.loads(hub.dir.target(hub.dir.metadata(), "idx/acme.json"))
    index["releases"][0]["url"] = url
    hub.revise({"idx/acme.json": json.dumps(index).encode()})
    with pytest.raises(BadMetadata, match="dot segments") as caught:
        hub.open(tmp_path / "m").release_index(["hello"])
    assert caught.value.where.endswith(".acme.json: releases[0].url")


@pytest.mark.parametrize("name", ["..", "../evil", "/evil", "C:evil", "a\\b"])
@pytest.mark.parametrize("path", ["idx/acme.json", "index.json"])
def test_attack_a_signed_name_with_an_outward_path_is_refused(hub, tmp_path, path, name):
    document = json.loads(hub.dir.target(hub.dir.metadata(), path))
    (document.get("releases") or document["skills"])[0]["name"] = name
    hub.revise({path: json.dumps(document).encode()})
    with pytest.raises(BadMetadata, match="a name of a-z"):
        hub.open(tmp_path / "m").release_index(["hello"])
        hub.open(tmp_path / "m").listing()


def test_release_without_a_digest_is_never_fetched(hub, tmp_path):
    registry = hub.open(tmp_path / "m")
    release = registry.release_index(["hello"]).releases("hello")[0]
    with pytest.raises(NotFound):
        registry.artifact(replace(release, digest=None))


def test_next_run_succeeds_after_any_request_failed(hub, tmp_path):
    hub.open(tmp_path / "count").release_index(["hello"])
    for number in range(hub.asked.total() - hub.asked[METADATA_BUNDLE_PATH]):
        left = [number]

        def fail(path, left=left):
            left[0] -= path != METADATA_BUNDLE_PATH
            if left[0] == -1:
                raise SourceError("the wire broke", where=path)

        hub.before = fail
        with pytest.raises(SourceError):
            hub.open(tmp_path / f"m{number}").release_index(["hello"])
        hub.before = lambda path: None
        assert hub.open(tmp_path / f"m{number}").release_index(["hello"]).names == ("hello",)


def test_unwritable_folder_is_an_error(hub, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StateError):
        hub.open(tmp_path / "file")


def test_unremovable_old_advisories_are_a_state_error(hub, tmp_path):
    registry = hub.open(tmp_path / "m")
    folder = Path(kept(str(tmp_path / "m"), ADVISORIES))
    folder.mkdir(parents=True)
    with pytest.raises(StateError) as refused:
        registry.advisories()
    assert refused.value.where == str(folder)
    folder.rmdir()
    assert registry.advisories().document.advisories == ()


def test_target_removed_from_the_snapshot_is_refused(hub, tmp_path):
    hub.open(tmp_path / "m")
    from tuf.api.metadata import Metadata, MetaFile, Snapshot, Timestamp

    keys, metadata = role_keys("test"), hub.dir.metadata()
    snapshot = metadata.signed("snapshot", Snapshot)
    snapshot.meta.pop("listing.json")
    snapshot.version += 1
    sealed = signed_by(Metadata(snapshot), keys("snapshot"))
    timestamp = metadata.signed("timestamp", Timestamp)
    timestamp.version += 1
    timestamp.snapshot_meta = MetaFile.from_data(snapshot.version, sealed, ["sha256"])
    hub.files[f"metadata/{snapshot.version}.snapshot.json"] = sealed
    hub.files[TIMESTAMP] = signed_by(Metadata(timestamp), keys("timestamp"))
    with pytest.raises(BadMetadata):
        hub.open(tmp_path / "m")


def signed_by(metadata, keys):
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.signer import Signature, SSlibKey

    for key in keys:
        keyid = SSlibKey.from_crypto(load_pem_public_key(key.public.pem)).keyid
        metadata.signatures[keyid] = Signature(keyid, key.sign(metadata.signed_bytes).hex())
    return metadata.to_bytes()


def test_simulators_have_different_keys():
    assert key_of("a")("root-1", "ed25519").public != key_of("b")("root-1", "ed25519").public


def test_attack_no_signed_document_fills_the_memory(hub, tmp_path):
    hub.revise({"index.json": bytes((32 << 20) + 1)})
    with pytest.raises(WrongBytes, match="at most 33554432 bytes"):
        hub.open(tmp_path / "m").listing()


@pytest.mark.parametrize("paths", [["idx/" + "?*" * 5000], ["idx/*a*b"] * 1300])
def test_attack_a_role_with_too_many_patterns_is_refused(hub, tmp_path, paths):
    """Five megabytes of them took two minutes for each name."""
    state, keys = hub.dir.metadata(), hub.dir.keys()
    targets = state.read(roles.TARGETS)
    targets.delegations.roles[roles.RELEASES].paths = paths
    hub.dir.publish(state.changed({roles.TARGETS: targets}, keys.of, Dates(now())).files())
    hub.pull()
    with pytest.raises(BadMetadata, match="fewer or shorter paths"):
        hub.open(tmp_path / "m").release_index(["hello"])


def test_attack_a_name_is_looked_for_in_few_of_very_many_roles(hub, tmp_path):
    """In all of them it filled gigabytes of memory."""
    state, keys = hub.dir.metadata(), hub.dir.keys()
    releases = state.read(roles.RELEASES)
    (owner,) = releases.delegations.keys
    names = [f"{roles.RELEASES}-{number}" for number in range(40)]
    many = {name: DelegatedRole(name, [owner], 1, False, paths=["idx/*"]) for name in names}
    releases.delegations = Delegations(releases.delegations.keys, many)
    state = state.changed({roles.RELEASES: releases, **{name: Targets() for name in names}}, keys.of, Dates(now()))
    hub.dir.publish(state.files())
    hub.pull()
    with suppress(SkillhubError):
        hub.open(tmp_path / "m").release_index(["hello"])
    read = sum(count for path, count in hub.asked.items() if f".{roles.RELEASES}-" in path)
    assert 0 < read <= 8


def test_attack_a_role_whose_name_is_no_text_is_refused(hub, tmp_path):
    state, keys = hub.dir.metadata(), hub.dir.keys()
    targets = state.read(roles.TARGETS)
    targets.delegations.roles[roles.NAMESPACES].name = 7
    hub.dir.publish(state.changed({roles.TARGETS: targets}, keys.of, Dates(now())).files())
    hub.pull()
    with pytest.raises(BadMetadata, match="name of a role"):
        hub.open(tmp_path / "m").release_index(["hello"])
