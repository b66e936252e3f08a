"""What a registry last said is read without a network, and what is damaged of it says nothing."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.disk.home import Home
from skillhub.errors import FormatError
from skillhub.model.index import Index
from skillhub.model.lock import Lock
from skillhub.project.last_seen import HINTS, LastSeen, kept, known_bad, owners


@pytest.fixture
def folder(hub, tmp_path):
    hub.open(tmp_path / "m").release_index(["hello"])
    return str(tmp_path / "m")


def test_it_is_what_the_registry_said(hub, folder):
    said, seen = (hub.open(folder).release_index(["hello"]), LastSeen(folder).index(["hello", "absent", "../x"]))
    assert seen.admissions == said.admissions
    assert [each.digest for each in seen.releases("hello")] == [each.digest for each in said.releases("hello")]


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
def test_attack_settings_that_commands_refuse_switch_no_advisory_off_where_a_host_loads(tmp_path, text):
    home = Home(*(str(tmp_path / part) for part in ("config", "data", "cache", "state")))
    known_bad(Lock(), lambda tree: None, home)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.toml").write_text(text)
    with pytest.raises(FormatError):
        known_bad(Lock(), lambda tree: None, home)


def test_registry_that_was_never_asked(tmp_path):
    assert LastSeen(str(tmp_path / "absent")).index(["hello"]) == Index({})


@pytest.mark.parametrize("target", ["idx/acme.json", "publishers/acme.json", "ns", HINTS])
@pytest.mark.parametrize("data", [b"", b"\0" * 300, b"{", b"[]", b'{"publishers":[],"releases":1}'])
def test_what_is_damaged_says_nothing(folder, target, data):
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


def test_publisher_that_is_admitted_no_longer_has_no_name(folder):
    name = next(name for name in os.listdir(os.path.join(folder, "targets")) if name.startswith("ns%2F"))
    with open(os.path.join(folder, "targets", name), "wb") as file:
        file.write(b'{"publishers":{},"version":1}')
    assert LastSeen(folder).index(["hello"]).admissions["acme"].names == frozenset()


@given(st.binary())
def test_any_bytes_at_all(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("hints")
    (folder / HINTS).write_bytes(data)
    owners(str(folder))
    LastSeen(str(folder)).index(["hello"])
