"""Trusted publishers, and pinned signers."""

from __future__ import annotations

import pytest

from skillhub.disk.home import Home
from skillhub.errors import NotFound, StateError, UsageError
from skillhub.formats.digest import Digest
from skillhub.project.user_state import Publishers, Trusted


@pytest.fixture
def publishers(tmp_path):
    return Publishers(Home.of({"SKILLHUB_HOME": str(tmp_path)}))


def test_keys_of_one_publisher_are_merged(publishers):
    publishers.trust(Trusted(keys=("k1",), sources=("acme",), name="ann"))
    merged = publishers.trust(Trusted(keys=("k2", "k1"), certificates=("c",), sources=("hub",), name="ann"))
    assert merged == Trusted(("k1", "k2"), ("c",), ("acme", "hub"), name="ann")
    assert publishers.all() == {"ann": merged}


def test_trust_for_every_source_is_not_narrowed_later(publishers):
    publishers.trust(Trusted(keys=("k1",), name="ann"))
    assert publishers.trust(Trusted(keys=("k2",), sources=("acme",), name="ann")).sources == ()


def test_parallel_commands_lose_no_trust(publishers, tmp_path):
    other = Publishers(Home.of({"SKILLHUB_HOME": str(tmp_path)}))
    assert (publishers.all(), other.all()) == ({}, {})
    publishers.trust(Trusted(keys=("k1",), name="ann"))
    other.trust(Trusted(keys=("k2",), name="bob"))
    publishers.trust(Trusted(keys=("k3",), name="eve"))
    assert other.remove("eve").name == "eve"
    assert list(Publishers(Home.of({"SKILLHUB_HOME": str(tmp_path)})).all()) == ["ann", "bob"]


def test_removed_publisher_is_gone(publishers):
    publishers.trust(Trusted(keys=("k1",), name="ann"))
    assert publishers.remove("ann").name == "ann"
    assert publishers.all() == {}
    with pytest.raises(NotFound):
        publishers.remove("ann")


def test_invalid_name_is_refused(publishers):
    with pytest.raises(UsageError):
        publishers.trust(Trusted(keys=("k",), name="Ann!"))


def test_pin_is_stored_by_fingerprint(publishers, tmp_path):
    one, two = Digest.of(b"one"), Digest.of(b"two")
    publishers.pin(one, "pem")
    assert (publishers.pinned(one), publishers.pinned(two)) == ("pem", None)
    (path,) = (tmp_path / "state/signers").iterdir()
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("torn", [b"", b"\0" * 200, b"-----BEGIN\0\0"])
def test_torn_pin_is_ignored_and_written_again(publishers, tmp_path, torn):
    one = Digest.of(b"one")
    publishers.pin(one, "pem")
    (pin,) = tmp_path.rglob("*.pem")
    pin.write_bytes(torn)
    assert publishers.pinned(one) is None
    publishers.pin(one, "pem")
    assert publishers.pinned(one) == "pem"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 1, "publishers": []}',
        '{"version": 1, "publishers": {"a": {}}}',
        '{"version": 1, "publishers": {"a": 1}}',
        '{"version": 1, "publishers": {"a": {"keys": "k1", "certificates": [], "sources": []}}}',
    ],
)
def test_invalid_file_of_publishers_is_refused(publishers, tmp_path, text):
    (tmp_path / "state").mkdir()
    (tmp_path / "state/publishers.json").write_text(text)
    with pytest.raises(StateError):
        publishers.all()
