"""The number of consecutive waits of a client for answers of a registry, counted without a clock."""

from __future__ import annotations

import pytest

from skillhub.errors import BadLog, NotFound, SourceError
from skillhub.registry.operator import Signing
from skillhub.registry.upkeep import rotate
from skillhub.sources.registry_client import TufRegistry
from tests.support.registry import URL, Simulator, Waits

FIRST = ("metadata/2.root.json", ".well-known/agent-skills/skills/*")
LAST = ("targets/publishers/*", "targets/idx/*")


def installed(hub, folder, log=False):
    """Return the number of waits before the artifact of a skill."""
    logged = ("targets/log/*.head",) if log else ()
    waits = Waits(hub, [FIRST, ("targets/ns/*", "metadata/*.releases-*.json"), (*LAST, *logged)])
    registry = waits.open(folder)
    (release,) = registry.release_index(["hello"]).releases("hello")
    registry.advisories()
    registry.artifact(release)
    return max(count for path, count in waits.waits.items() if not path.startswith("archives/"))


@pytest.mark.parametrize("log", [False, True])
def test_first_install_of_a_skill_takes_five_waits_and_one_for_a_log(tmp_path, log):
    hub = Simulator(tmp_path, log=log)
    hub.publish()
    assert installed(hub, tmp_path / "new", log) == 5 + log
    hub.open(tmp_path / "known")  # as `source add` does
    assert installed(hub, tmp_path / "known", log) == 4 + log


def test_attack_a_log_that_is_not_served_is_reported_before_a_missing_skill(tmp_path):
    """Both are asked for at once."""
    hub = Simulator(tmp_path, log=True)
    hub.publish()
    registry = hub.open(tmp_path / "m")
    for path in [each for each in hub.files if each.startswith("targets/log/")]:
        del hub.files[path]
    for name in ("not-there", "hello"):
        with pytest.raises(BadLog, match="does not serve it"):
            registry.release_index([name])


def test_key_rotation_takes_two_more_waits(tmp_path):
    hub = Simulator(tmp_path)
    hub.publish()
    rotate(hub.dir.path, "timestamp", Signing(now=hub.when))
    hub.pull()
    assert installed(hub, tmp_path / "new") == 5 + 2  # for new keys, and without the old ones


@pytest.mark.parametrize("error", [SourceError("the server answered 500"), NotFound("gone")])
def test_failure_of_an_early_question_for_the_publisher_is_ignored_until_the_answer_is_needed(tmp_path, error):
    hub = Simulator(tmp_path)
    hub.publish()

    def fail(asked):
        if asked.startswith(".well-known/"):
            raise error

    hub.before = fail
    registry = TufRegistry.open(URL, hub.root, hub, str(tmp_path / "m"), name="hello")
    assert registry.advisories()
    with pytest.raises(type(error)):
        registry.release_index(["hello"])


def test_the_publisher_of_a_skill_is_asked_for_once(tmp_path):
    hub = Simulator(tmp_path)
    hub.publish()
    for _ in range(2):
        registry = TufRegistry.open(URL, hub.root, hub, str(tmp_path / "m"), name="hello")
        assert registry.release_index(["hello"]).names == ("hello",)
    assert hub.asked[".well-known/agent-skills/skills/hello.json"] == 1


def test_failure_of_early_releases_is_ignored_until_the_name_is_verified(hub, tmp_path):
    registry = hub.open(tmp_path / "m")

    def fail(path):
        if path.startswith(("metadata/1.releases-", "metadata/2.releases-", "targets/idx")):
            raise SourceError("the server answered 500")

    hub.before = fail
    document = hub.files.pop(publisher := hub.publisher("acme"))
    with pytest.raises(SourceError, match="missing"):
        registry.release_index(["hello"])
    hub.files[publisher] = document
    with pytest.raises(SourceError, match="500"):
        registry.release_index(["hello"])


@pytest.mark.parametrize("path", ["metadata/timestamp.json", "metadata/2.root.json"])
@pytest.mark.parametrize("error", [SourceError("the server answered 500"), NotFound("gone")])
def test_parallel_request_fails_as_a_single_one(hub, tmp_path, path, error):
    def fail(asked):
        if asked == path:
            raise error

    hub.before = fail
    if path.endswith("root.json") and isinstance(error, NotFound):
        assert hub.open(tmp_path / "m").release_index(["hello"]).names == ("hello",)
    else:
        with pytest.raises(SourceError):
            hub.open(tmp_path / "m")
        assert not (tmp_path / "m" / "timestamp.json").exists()
