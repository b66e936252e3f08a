"""Yanked and withdrawn releases: the commands of the operator, and the behaviour of clients."""

import json

import pytest

from skillhub.errors import NotFound, Refused, UsageError, Withdrawn
from skillhub.model.index import TakenBack
from skillhub.registry.check import check
from skillhub.registry.operator import Signing
from skillhub.registry.upkeep import withdraw, yank
from tests.support.killing import OldClients, kill_everywhere
from tests.support.published import tree_of
from tests.support.registry import Simulator, now
from tests.support.world import World

LISTING = ".well-known/agent-skills/index.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    simulator = Simulator(tmp_path_factory.mktemp("made"))
    simulator.publish(version="1.0.0")
    simulator.publish(version="1.1.0")
    return simulator


def signing(hub):
    return Signing(now=hub.when)


def offered(hub, folder):
    """Return the versions of hello in the view of a client, with the reasons of their recall."""
    hub.pull()
    releases = hub.open(folder).release_index(["hello"]).releases("hello")
    return {each.version: (each.yanked, each.withdrawn) for each in releases}


def test_yanked_release_reaches_old_clients_and_leaves_the_listing(hub, tmp_path):
    assert offered(hub, tmp_path / "m") == {"1.1.0": (None, None), "1.0.0": (None, None)}
    yank(hub.dir.path, "hello@1.1.0", "deletes  files\x1b[31m", signing(hub))
    assert offered(hub, tmp_path / "m") == {"1.1.0": ("deletes  files[31m", None), "1.0.0": (None, None)}
    for base in ("", "hello/"):
        (entry,) = json.loads(hub.files[base + LISTING])["skills"]
        assert entry["version"] == "1.0.0"
    assert check(hub.dir.path, now()).problems == ()
    yank(hub.dir.path, "hello@1.1.0", None, signing(hub))
    assert offered(hub, tmp_path / "m")["1.1.0"] == (None, None)
    assert json.loads(hub.files[LISTING])["skills"][0]["version"] == "1.1.0"


def test_misspelled_name_of_a_release_gives_a_suggestion(hub):
    with pytest.raises(NotFound) as caught:
        yank(hub.dir.path, "helo@1.1.0", "broken", signing(hub))
    assert caught.value.hint == "did you mean hello?"


def test_recall_needs_only_online_keys(hub, tmp_path):
    for path in (tmp_path / "registry/keys/offline").glob("*.pem"):
        path.unlink()
    yank(hub.dir.path, "hello@1.1.0", "broken", signing(hub))
    withdraw(hub.dir.path, "hello@1.0.0", "harmful", signing(hub))
    assert offered(hub, tmp_path / "m") == {"1.1.0": ("broken", None), "1.0.0": (None, "harmful")}
    (tmp_path / "registry/keys/online/releases.pem").unlink()
    before = tree_of(hub.dir.path)
    with pytest.raises(Refused):
        yank(hub.dir.path, "hello@1.1.0", None, signing(hub))
    assert tree_of(hub.dir.path) == before


def test_repeated_recall_and_dry_run_change_no_file(hub):
    yank(hub.dir.path, "hello@1.1.0", "broken", signing(hub))
    before = tree_of(hub.dir.path)
    yank(hub.dir.path, "hello@1.1.0", "broken", signing(hub))
    withdraw(hub.dir.path, "hello@1.1.0", "harmful", Signing(now=hub.when, dry_run=True))
    assert tree_of(hub.dir.path) == before


def test_withdrawal_is_permanent(hub, tmp_path):
    withdraw(hub.dir.path, "hello@1.1.0", "harmful", signing(hub))
    for change in (
        lambda: yank(hub.dir.path, "hello@1.1.0", None, signing(hub)),
        lambda: yank(hub.dir.path, "hello@1.1.0", "broken", signing(hub)),
    ):
        with pytest.raises(UsageError, match="harmful"):
            change()
    with pytest.raises(Refused, match="was withdrawn: 'harmful'") as caught:
        hub.publish(version="1.1.0")
    assert "raise metadata.version" in caught.value.hint
    assert offered(hub, tmp_path / "m")["1.1.0"] == (None, "harmful")


def test_archive_of_a_withdrawn_release_may_be_deleted(hub, tmp_path):
    release = withdraw(hub.dir.path, "hello@1.1.0", "harmful", signing(hub))
    (tmp_path / "registry/site" / release.url).unlink()
    assert check(hub.dir.path, now()).problems == ()


@pytest.mark.parametrize(
    ("wanted", "reason", "error"),
    [
        ("hello", "x", UsageError),
        ("@1.0.0", "x", UsageError),
        ("hello@", "x", UsageError),
        ("hello@9.0.0", "x", NotFound),
        ("absent@1.0.0", "x", NotFound),
        ("../evil@1.0.0", "x", NotFound),
        ("hello@1.0.0", "", UsageError),
        ("hello@1.0.0", " \u200b ", UsageError),
        ("hello@1.0.0", "x" * 1025, UsageError),
    ],
)
def test_invalid_recall_is_refused(hub, wanted, reason, error):
    before = tree_of(hub.dir.path)
    for change in (yank, withdraw):
        with pytest.raises(error):
            change(hub.dir.path, wanted, reason, signing(hub))
    assert tree_of(hub.dir.path) == before


def test_clients_skip_yanked_and_refuse_withdrawn_releases(hub, tmp_path):
    """A lock installs a yanked release with a warning and refuses a withdrawn one; neither is selected anew."""
    world = World(tmp_path / "w")
    world.add_source("hub", hub)
    world.install("hub:hello")
    yank(hub.dir.path, "hello@1.1.0", "broken", signing(hub))
    hub.pull()
    colleague = world.on_another_machine()
    colleague.sources.add("hub", world.sources.get("hub").url, hub.root)
    assert world.lock().skills["hello"].version == "1.1.0"
    assert colleague.install().warnings == ("hello: version 1.1.0 was yanked: broken",)
    assert colleague.problems() == []
    newcomer = World(tmp_path / "n")
    newcomer.add_source("hub", hub)
    newcomer.install("hub:hello")
    assert newcomer.lock().skills["hello"].version == "1.0.0"
    withdraw(hub.dir.path, "hello@1.1.0", "harmful", signing(hub))
    hub.pull()
    third = World(tmp_path / "w", home="third")
    third.add_source("hub", hub)
    with pytest.raises(Withdrawn, match="harmful"):
        third.install()
    assert not third.copy("hello", "store").exists()
    newcomer.remove("hello")
    with pytest.raises(TakenBack, match="harmful"):
        newcomer.install("hub:hello@1.1.0")


@pytest.mark.parametrize("change", [yank, withdraw])
def test_killed_recall_shows_clients_the_old_or_the_new_state(hub, tmp_path, change):
    clients = OldClients(hub, tmp_path, "hello")

    def look(kill, done):
        for registry in (clients.open(kill), clients.fresh(kill, done)):
            newest, oldest = registry.release_index(["hello"]).releases("hello")
            assert oldest.yanked is oldest.withdrawn is None
            assert "broken" in (newest.yanked, newest.withdrawn) or not done
            assert registry.artifact(newest)
        assert not done or check(hub.dir.path, now()).problems == ()

    def run():
        change(hub.dir.path, "hello@1.1.0", "broken", signing(hub))

    assert kill_everywhere(hub.dir.path, run, look) >= 8
