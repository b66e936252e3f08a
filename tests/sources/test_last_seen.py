"""The last documents of a registry are read without a network; damaged ones are ignored."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.disk.home import Home
from skillhub.errors import FormatError
from skillhub.model.index import ADVISORIES, Index
from skillhub.model.lock import Lock
from skillhub.project.intent import Intent
from skillhub.project.last_seen import HINTS, LastSeen, LoadCheck, kept, owners
from skillhub.project.store import Store
from skillhub.registry.operator import Signing
from skillhub.registry.upkeep import withdraw


@pytest.fixture
def folder(hub, tmp_path):
    hub.open(tmp_path / "m").release_index(["hello"])
    return str(tmp_path / "m")


def test_last_seen_index_equals_the_index_of_the_registry(hub, folder):
    current, seen = (hub.open(folder).release_index(["hello"]), LastSeen(folder).index(["hello", "absent", "../x"]))
    assert seen.admissions == current.admissions
    assert [each.digest for each in seen.releases("hello")] == [each.digest for each in current.releases("hello")]


@pytest.mark.parametrize(
    "text",
    [
        'advisories = "bad.txt"',
        "advisories = [1]",
        'advisories = ["http://mirror.example/bad"]',
        'advisory = ["bad.txt"]',
        f"# {'x' * (1 << 18)}",
    ],
)
def test_attack_invalid_settings_do_not_disable_advisories_at_load(tmp_path, text):
    home = Home(*(str(tmp_path / part) for part in ("config", "data", "cache", "state")))
    LoadCheck(Lock(), Store(home.data), home, "", "project", Intent)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.toml").write_text(text)
    with pytest.raises(FormatError):
        LoadCheck(Lock(), Store(home.data), home, "", "project", Intent)


def test_registry_without_stored_documents_has_an_empty_index(tmp_path):
    assert LastSeen(str(tmp_path / "absent")).index(["hello"]) == Index({})


@pytest.mark.parametrize("target", ["idx/acme.json", "publishers/acme.json", "ns", HINTS])
@pytest.mark.parametrize("data", [b"", b"\0" * 300, b"{", b"[]", b'{"publishers":[],"releases":1}'])
def test_damaged_document_is_ignored(folder, target, data):
    names = os.listdir(os.path.join(folder, "targets"))
    found = [os.path.join(folder, "targets", name) for name in names if name.startswith("ns%2F")]
    path = {"ns": found[0], HINTS: os.path.join(folder, HINTS)}.get(target, kept(folder, target))
    with open(path, "wb") as file:
        file.write(data)
    seen = LastSeen(folder).index(["hello"])
    assert ("hello" in seen.skills, "acme" in seen.admissions) == {
        "idx/acme.json": (False, True),
        "publishers/acme.json": (True, False),
        "ns": (True, False),
        HINTS: (False, False),
    }[target]


def test_publisher_without_admission_owns_no_name(folder):
    name = next(name for name in os.listdir(os.path.join(folder, "targets")) if name.startswith("ns%2F"))
    with open(os.path.join(folder, "targets", name), "wb") as file:
        file.write(b'{"publishers":{},"version":1}')
    assert LastSeen(folder).index(["hello"]).admissions["acme"].names == frozenset()


@given(st.binary())
def test_any_bytes_of_hints_are_read_without_error(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("hints")
    (folder / HINTS).write_bytes(data)
    owners(str(folder))
    LastSeen(str(folder)).index(["hello"])


def test_attack_a_slow_answer_hides_no_withdrawal_that_another_process_has_seen(hub, tmp_path):
    folder = str(tmp_path / "m")
    slow, slower = hub.open(folder), hub.open(folder)  # they see the state before the withdrawal
    withdraw(hub.dir.path, "hello@1.0.0", "harmful", Signing(now=hub.when))
    hub.revise({ADVISORIES: b'{"advisories": []}'})
    other = hub.open(folder)
    other.release_index(["hello"])
    other.advisories()
    slow.release_index(["hello"])
    slower.advisories()
    assert [each.withdrawn for each in LastSeen(folder).index(["hello"]).releases("hello")] == ["harmful"]
    assert os.path.exists(kept(folder, ADVISORIES))


def test_attack_a_slow_answer_changes_no_owner_that_another_process_has_seen(hub, tmp_path):
    folder = str(tmp_path / "m")
    slow = hub.open(folder)
    hub.publish("other")  # the metadata is newer, whatever it says of owners
    hub.open(folder)
    slow.release_index(["hello"])
    assert "hello" not in LastSeen(folder).names
    hub.open(folder).release_index(["hello"])
    assert "hello" in LastSeen(folder).names
