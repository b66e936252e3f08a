"""The offers of a registry, their publishers, and the limits of downloads."""

import json
import stat
from dataclasses import replace

import pytest
from tuf.api.exceptions import DownloadError, DownloadHTTPError
from tuf.api.metadata import Targets

from skillhub.errors import FormatError, NotFound
from skillhub.formats.digest import Digest
from skillhub.model.index import DOCUMENT_CAP, Admission, Index, Release, index_path
from skillhub.net.fetch import PERSON
from skillhub.project.last_seen import HINTS
from skillhub.sources.registry_client import TufRegistry, _Bridge, fetch_root
from skillhub.trust.documents import LISTING_PATH, pinned_documents, signed_documents
from skillhub.trust.registry_metadata import METADATA_BUNDLE_PATH, Dates
from tests.support.registry import URL, Simulator

THEIRS = Release(
    name="theirs",
    url="archives/theirs/1.0.0/x.zip",
    digest=Digest.of(b"x"),
    size=1,
    tree=Digest.of(b"tree"),
    version="1.0.0",
    published="2026-01-01T00:00:00Z",
    publisher="rival",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    simulator = Simulator(tmp_path_factory.mktemp("made"))
    simulator.publish()
    rival = Admission(publisher="rival", names=frozenset({"theirs", "unused"}))
    bare = Admission(publisher="bare", names=frozenset({"nothing"}))
    index = Index({"theirs": (THEIRS,)}, {"rival": rival, "bare": bare})
    targets = dict(signed_documents(index, ["rival", "bare"], ["theirs"]))
    del targets[LISTING_PATH], targets[index_path("bare")]
    simulator.dir.publish(pinned_documents(index, ["rival", "bare"]))
    simulator.revise(targets)
    simulator.files[".well-known/agent-skills/skills/theirs.json"] = targets["skills/theirs.json"]
    return simulator


@pytest.fixture
def hub(made, tmp_path):
    twin = made.copy(tmp_path)
    twin.files |= made.files
    return twin


def test_offers_include_every_publisher(hub, tmp_path):
    offers = hub.open(tmp_path / "m").offers()
    assert offers.names == ("hello", "theirs")
    assert set(offers.admissions) == {"acme", "rival", "bare"}
    assert offers.releases("theirs") == (replace(THEIRS, url=f"{URL}/{THEIRS.url}"),)


def test_admitted_name_without_a_release_is_not_found(hub, tmp_path):
    registry = hub.open(tmp_path / "m")
    assert registry.release_index(["theirs"]).names == ("theirs",)
    with pytest.raises(NotFound, match="no release of 'unused'"):
        registry.release_index(["unused"])


def test_hint_without_a_publisher_is_refused(hub, tmp_path):
    path = ".well-known/agent-skills/skills/theirs.json"
    hub.files[path] = json.dumps({**json.loads(hub.files[path]), "publisher": None}).encode()
    with pytest.raises(FormatError):
        hub.open(tmp_path / "m").release_index(["theirs"])


def test_attack_stored_documents_of_an_older_state_are_not_used(hub, tmp_path):
    hub.open(tmp_path / "m").release_index(["hello"])
    old = {path: path.read_bytes() for path in (tmp_path / "m").rglob("*") if path.is_file()}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in old if path.parent.name == "targets")
    assert stat.S_IMODE((tmp_path / "m" / HINTS).stat().st_mode) == 0o600
    hub.publish(version="1.1.0")
    assert len(hub.open(tmp_path / "m").release_index(["hello"]).releases("hello")) == 2
    for path, data in old.items():
        if path.suffix != ".json" or path.parent.name == "targets":
            path.write_bytes(data)
    assert len(hub.open(tmp_path / "m").release_index(["hello"]).releases("hello")) == 2


def test_registry_without_a_listing_is_reported(hub, tmp_path):
    metadata = hub.dir.metadata()
    listing = metadata.signed("listing", Targets)
    del listing.targets[LISTING_PATH]
    without = metadata.changed({"listing": listing}, hub.dir.keys().of, Dates(hub.when))
    hub.dir.publish(without.files())
    hub.pull()
    with pytest.raises(NotFound, match="no listing"):
        hub.open(tmp_path / "m").listing()


@pytest.mark.parametrize("name", ["", "../x", "A", "a/b", "é"])
def test_invalid_name_sends_no_request(hub, tmp_path, name):
    registry = hub.open(tmp_path / "m")
    hub.asked.clear()
    with pytest.raises(NotFound):
        registry.release_index([name])
    assert hub.asked.total() == 0


def test_known_registry_does_not_request_the_bundle(hub, tmp_path):
    hub.open(tmp_path / "m").release_index(["hello"])
    hub.publish(version="1.1.0")
    hub.asked.clear()
    assert len(hub.open(tmp_path / "m").release_index(["hello"]).releases("hello")) == 2
    assert METADATA_BUNDLE_PATH not in hub.asked


def test_every_download_has_its_limit(hub, tmp_path):
    caps = {}

    class Counted:
        def get(self, url, *, cap, named_by=PERSON):
            caps[url.removeprefix(f"{URL}/")] = cap
            return hub.get(url, cap=cap, named_by=named_by)

    root = fetch_root(f"{URL}/", Counted())
    registry = TufRegistry.open(f"{URL}/", root, Counted(), str(tmp_path / "m"))
    assert (registry.url, caps["metadata/1.root.json"], caps[METADATA_BUNDLE_PATH]) == (URL, 32_000, 8_000_000)
    (release,) = registry.release_index(["hello"]).releases("hello")
    document = hub.publisher("acme")
    assert caps[document] == len(hub.files[document])
    path = release.url.removeprefix(f"{URL}/")
    for offered, cap in ((release, release.size), (replace(release, size=None), DOCUMENT_CAP)):
        assert Digest.of(registry.artifact(offered)) == release.digest
        assert caps[path] == cap


def test_oversized_document_of_the_bundle_is_fetched_instead(hub):
    bridge = _Bridge(hub, f"{URL}/{METADATA_BUNDLE_PATH}")
    document = hub.files["metadata/1.targets.json"]
    hub.files[METADATA_BUNDLE_PATH] = b"1.targets.json " + document + b" \n"
    url = f"{URL}/metadata/1.targets.json"
    assert bridge.download_bytes(url, len(document) + 1) == document + b" "
    assert bridge.download_bytes(url, len(document)) == document


def test_bridge_streams_its_downloads_up_to_the_limit(hub):
    bridge = _Bridge(hub, None)
    url = f"{URL}/metadata/1.targets.json"
    assert b"".join(bridge.fetch(url)) == hub.files["metadata/1.targets.json"]
    hub.files["metadata/1.targets.json"] = bytes(8_000_001)
    with pytest.raises(DownloadError):
        bridge.fetch(url)
    with pytest.raises(DownloadHTTPError):
        bridge.fetch(f"{URL}/metadata/none.json")
