"""The bundle of metadata for new clients is a transport: its content changes nothing about trust."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import BadMetadataSignature, NotFound, SourceError, WrongBytes
from skillhub.trust.registry_metadata import METADATA_BUNDLE_PATH, metadata_bundle, read_metadata_bundle
from tests.support.registry import Simulator


def trusted(folder):
    return {name: (folder / name).read_bytes() for name in os.listdir(folder) if name.endswith(".json")}


def test_bundle_saves_a_new_client_four_requests(hub, tmp_path):
    hub.open(tmp_path / "m").release_index(["hello"])
    assert hub.asked.total() == 8
    packed = {f"metadata/{name}" for name in read_metadata_bundle(hub.files[METADATA_BUNDLE_PATH])}
    assert len(packed) == 4
    assert packed <= hub.files.keys() - hub.asked.keys()


def test_bundle_has_only_needed_documents_of_one_line():
    assert METADATA_BUNDLE_PATH == "metadata/ahead.txt"
    assert metadata_bundle({"metadata/2.targets.json": b"{}"}) == b"2.targets.json {}\n"
    for name in ("timestamp", "1.root", "1.listing"):
        assert metadata_bundle({f"metadata/{name}.json": b"{}"}) == b""
    assert metadata_bundle({"metadata/1.targets.json": b"{\n}"}) == b""


@pytest.mark.parametrize("data", [None, b"", b"<!doctype html>", b"\n\n \n", b"timestamp.json {}", bytes(9_000_000)])
def test_missing_or_invalid_bundle_changes_no_result(hub, tmp_path, data):
    hub.open(tmp_path / "with").release_index(["hello"])
    hub.files[METADATA_BUNDLE_PATH] = data
    if data is None:
        del hub.files[METADATA_BUNDLE_PATH]
    hub.asked.clear()
    hub.open(tmp_path / "without").release_index(["hello"])
    assert hub.asked.total() == 12
    assert trusted(tmp_path / "without") == trusted(tmp_path / "with")


@pytest.mark.parametrize("error", [SourceError("the server answered 500"), NotFound("403"), WrongBytes("too long")])
def test_failing_request_for_the_bundle_is_ignored(hub, tmp_path, error):
    def fail(path):
        if path == METADATA_BUNDLE_PATH:
            raise error

    hub.before = fail
    assert hub.open(tmp_path / "m").release_index(["hello"]).names == ("hello",)
    assert (hub.asked[METADATA_BUNDLE_PATH], hub.asked.total()) == (1, 12)


def test_bundle_is_not_requested_from_a_failing_site(hub, tmp_path):
    def down(path):
        raise SourceError("no answer")

    hub.before = down
    with pytest.raises(SourceError):
        hub.open(tmp_path / "m")
    assert METADATA_BUNDLE_PATH not in hub.asked


def test_stale_bundle_does_not_hide_a_new_release(hub, tmp_path):
    """The client takes from the bundle only the documents that the current timestamp and snapshot name."""
    old = hub.files[METADATA_BUNDLE_PATH]
    hub.publish(version="1.1.0")
    hub.files[METADATA_BUNDLE_PATH] = old
    newest = hub.open(tmp_path / "m").release_index(["hello"]).releases("hello")[0]
    assert newest.version == "1.1.0"
    assert hub.asked.keys() & {f"metadata/{name}" for name in read_metadata_bundle(old)} == set()


def test_attack_forged_documents_in_the_bundle_are_refused(hub, tmp_path):
    """The bundle has documents of another registry under the names of this one."""
    other = Simulator(tmp_path, "other")
    other.publish()
    hub.files[METADATA_BUNDLE_PATH] = metadata_bundle(
        {path: data for path, data in other.files.items() if "metadata/" in path}
    )
    with pytest.raises((BadMetadataSignature, WrongBytes)):
        hub.open(tmp_path / "m")
    assert "snapshot.json" not in trusted(tmp_path / "m")


def test_attack_a_root_or_timestamp_in_the_bundle_is_ignored(hub, tmp_path):
    hub.files[METADATA_BUNDLE_PATH] += b"2.root.json {}\ntimestamp.json {}\n"
    hub.open(tmp_path / "m").release_index(["hello"])
    assert hub.asked["metadata/2.root.json"] == hub.asked["metadata/timestamp.json"] == 1


@given(st.binary())
def test_any_bytes_are_read_as_a_bundle(data):
    read_metadata_bundle(data)


@given(st.binary().filter(lambda data: b"\n" not in data))
def test_bundle_is_read_back(data):
    bundle = metadata_bundle({"metadata/7.targets.json": data, "metadata/7.other.json": b""})
    assert read_metadata_bundle(bundle)["7.targets.json"] == data
