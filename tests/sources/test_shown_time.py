"""A clock that was set back: expired documents stay expired. Every clock in these tests is a value."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from skillhub.audit.doctor import diagnose
from skillhub.cli.network import OpenNetwork
from skillhub.disk.home import Home
from skillhub.errors import BadMetadataSignature, MetadataExpired, StateError
from skillhub.registry.build import Setup, init
from skillhub.registry.check import check
from skillhub.registry.operator import RegistrySettings, Signing
from skillhub.registry.upkeep import refresh
from skillhub.sources.configured import EMBEDDED_URL, Sources
from skillhub.sources.history import ShownTime
from skillhub.trust.roles import NAMESPACES, ROLES, SNAPSHOT, TIMESTAMP, signed_by
from tests.support.registry import URL, Simulator, key_of
from tests.support.world import World

TODAY = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY, YEAR = timedelta(days=1), timedelta(days=365)


class Computer:
    """A machine whose clock is a value and whose registries are in memory."""

    def __init__(self, folder):
        self.home = Home.of({"SKILLHUB_HOME": str(folder / "home")})
        self.sources = Sources(self.home)
        self.clock = TODAY
        self.path = Path(self.home.state, "shown-time.json")
        self.hubs = {}

    def add(self, alias, hub):
        url = f"{URL}/{alias}"
        self.hubs[url] = Moved(hub, url)
        self.sources.add(alias, url, hub.root)

    def time(self, **options):
        return ShownTime(self.home, lambda: self.clock, **options)

    def open(self, alias, *, named_by="person", scratch=False):
        time = self.time(remember=not scratch)
        net = Reached(self.home, self.sources, str(self.home.state), scratch=scratch, time=time)
        net.hubs = self.hubs
        try:
            return net.open_registry(replace(self.sources.get(alias), named_by=named_by))
        finally:
            net.close()

    @property
    def latest(self):
        return json.loads(self.path.read_text())["latest"] if self.path.exists() else None


class Reached(OpenNetwork):
    def fetcher(self, url, named_by="person"):
        return self.hubs.get(url) or super().fetcher(url, named_by)


class Moved:
    """A registry in memory under another URL."""

    def __init__(self, hub, url):
        self._hub, self._url = hub, url

    def get(self, url, **options):
        return self._hub.get(URL + url.removeprefix(self._url), **options)


def made(folder, label, when=TODAY, days=None):
    """Return a registry that was last signed at ``when``; its documents are valid for ``days``."""
    hub = object.__new__(Simulator)
    hub.when = when
    hub._settle(folder, str(folder / f"registry-{label}"))
    init(hub.dir.path, Setup(settings=RegistrySettings.of("acme", 2, days), new_key=key_of(label)), when)
    hub.publish()
    return hub


@pytest.fixture
def computer(tmp_path):
    return Computer(tmp_path)


@pytest.mark.parametrize("back", [5 * DAY, 40 * DAY, YEAR, 2 * YEAR, 20 * YEAR])
def test_attack_expired_metadata_is_refused_with_a_clock_set_back(computer, tmp_path, back):
    computer.add("fresh", made(tmp_path, "fresh"))
    computer.add("frozen", made(tmp_path, "frozen", TODAY - back))
    with pytest.raises(MetadataExpired):
        computer.open("frozen")
    computer.open("fresh")
    computer.clock = TODAY - back
    with pytest.raises(MetadataExpired) as caught:
        computer.open("frozen")
    assert f"the clock says {TODAY - back:%Y-%m-%dT%H:%M:%SZ}" in caught.value.hint
    assert "is dated 2026-11-20T12:00:00Z" in caught.value.hint
    assert str(computer.path) in caught.value.hint


def test_attack_an_expired_delegation_is_refused_with_a_clock_set_back(computer, tmp_path):
    """The timestamp is signed each day; the offline keys signed the owners of names long ago."""
    hub = made(tmp_path, "hub", TODAY - 100 * DAY)
    refresh(hub.dir.path, Signing(now=TODAY), within=100, roles=())
    hub.pull()
    computer.add("acme", hub)
    with pytest.raises(MetadataExpired):
        computer.open("acme").release_index(["hello"])
    computer.clock = TODAY - 50 * DAY
    with pytest.raises(MetadataExpired) as caught:
        computer.open("acme").release_index(["hello"])
    assert NAMESPACES in caught.value.message
    assert "the clock says" in caught.value.hint


def test_valid_metadata_is_accepted_with_a_clock_set_back(computer, tmp_path):
    computer.add("acme", made(tmp_path, "hub"))
    for computer.clock in (TODAY, TODAY - YEAR, TODAY + DAY, TODAY - 20 * YEAR):
        assert computer.open("acme").release_index(["hello"]).names == ("hello",)


def test_shown_time_never_goes_back(computer, tmp_path):
    computer.add("late", made(tmp_path, "late", TODAY + 30 * DAY))
    computer.add("early", made(tmp_path, "early"))
    computer.open("early")
    assert computer.latest == "2026-11-20T12:00:00Z"
    computer.clock = TODAY + 30 * DAY
    computer.open("late")
    assert computer.latest == "2026-12-20T12:00:00Z"
    computer.clock = TODAY
    with pytest.raises(MetadataExpired):
        computer.open("early")
    assert computer.latest == "2026-12-20T12:00:00Z"


@pytest.mark.parametrize("days", [30, 365, 3650, 100_000])
def test_attack_a_registry_dated_into_the_future_locks_no_user_out(computer, tmp_path, days):
    """With a correct clock, no registry changes the result for itself or for others."""
    computer.add("hostile", made(tmp_path, "hostile", days=days))
    computer.add("honest", made(tmp_path, "honest"))
    computer.open("hostile")
    assert computer.latest == "2026-11-20T12:00:00Z"
    assert computer.time().now() == TODAY
    computer.clock = TODAY + 3 * DAY - timedelta(seconds=1)  # the last second of the honest timestamp
    computer.open("hostile")
    computer.open("honest")
    assert computer.time().behind is None


def test_attack_unverified_metadata_does_not_advance_the_time(computer, tmp_path):
    hub = made(tmp_path, "hub")
    computer.add("acme", hub)
    path = "metadata/timestamp.json"
    hub.files[path] = hub.files[path].replace(b'"2026-', b'"2999-')
    with pytest.raises(BadMetadataSignature, match="keys have signed"):
        computer.open("acme")
    assert computer.latest is None


def test_attack_a_registry_that_only_a_project_names_does_not_advance_the_time(computer, tmp_path):
    """The time of other registries applies to it, its own time does not count."""
    computer.add("proposed", made(tmp_path, "proposed", days=3650))
    computer.open("proposed", named_by="repository")
    assert computer.latest is None


def test_dry_runs_and_the_embedded_registry_do_not_advance_the_time(computer, tmp_path):
    computer.add("acme", made(tmp_path, "hub"))
    computer.open("acme", scratch=True)
    assert computer.sources.get("github").url == EMBEDDED_URL
    computer.open("github")
    assert computer.latest is None


def test_read_only_command_applies_the_shown_time(computer, tmp_path):
    computer.add("fresh", made(tmp_path, "fresh"))
    computer.add("frozen", made(tmp_path, "frozen", TODAY - YEAR))
    computer.open("fresh")
    computer.clock -= YEAR
    with pytest.raises(MetadataExpired):
        computer.open("frozen", scratch=True)


def test_attack_registry_check_reports_expiry_with_a_clock_set_back(computer, tmp_path):
    frozen = made(tmp_path, "frozen", TODAY - YEAR)
    computer.add("fresh", made(tmp_path, "fresh"))
    computer.open("fresh")
    computer.clock -= YEAR
    time = computer.time()
    assert [each.code for each in check(frozen.dir.path, time.now(), time).problems] == ["metadata-expired"]
    assert computer.latest == "2026-11-20T12:00:00Z"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"{}",
        b'{"version": 1}',
        b'{"version": 2, "latest": "2026-11-20T12:00:00Z", "by": "x"}',
        b'{"version": 1, "latest": "2026-11-20", "by": "x"}',
        b'{"version": 1, "latest": "2026-11-20T12:00:00", "by": "x"}',
        b'{"version": 1, "latest": 1, "by": "x"}',
        b'{"version": 1, "latest": "2026-11-20T12:00:00Z"}',
    ],
)
def test_attack_a_damaged_file_of_the_time_is_an_error(computer, tmp_path, data):
    computer.add("acme", made(tmp_path, "hub"))
    computer.path.write_bytes(data)
    with pytest.raises(StateError) as caught:
        computer.open("acme")
    assert caught.value.hint
    assert computer.path.read_bytes() == data
    (check,) = (each for each in diagnose(World(tmp_path).ports(), computer.time()).checks if not each.ok)
    assert check.name == "clock"


def test_doctor_reports_a_clock_that_is_behind(computer, tmp_path):
    world = World(tmp_path)
    computer.add("acme", made(tmp_path, "hub"))
    computer.open("acme")

    def clock_messages():
        found = diagnose(world.ports(), computer.time()).checks
        return [(each.message, each.hint) for each in found if each.name == "clock"]

    for computer.clock in (TODAY, TODAY + YEAR, TODAY - DAY):
        assert clock_messages() == []
    computer.clock = TODAY - DAY - timedelta(seconds=1)
    ((message, hint),) = clock_messages()
    assert message == (
        f"the clock says 2026-11-19T11:59:59Z, a document signed by '{URL}/acme' is dated 2026-11-20T12:00:00Z"
    )
    assert hint == f"set the clock; if it is right, delete '{computer.path}'"


def test_time_is_stored_in_seconds(computer):
    computer.clock = TODAY.replace(microsecond=999_999)
    computer.time().learn(computer.clock, "x")
    assert computer.latest == "2026-11-20T12:00:00Z"


def test_signing_time_is_derived_from_the_expiry_of_roles():
    expires = {TIMESTAMP: TODAY, SNAPSHOT: TODAY + 5 * DAY}
    assert signed_by(expires) == TODAY - 2 * DAY
    assert {ROLES[role].days for role in expires} == {3, 7}
