import threading
from dataclasses import replace

import pytest

from skillhub.errors import SecurityError, StateError, WrongBytes
from skillhub.flows.ahead import AT_ONCE, Ahead
from skillhub.flows.gather import staged
from skillhub.flows.obtain import from_path
from skillhub.model.digest import Digest
from skillhub.model.release import Release
from skillhub.world.sources import Source
from skillhub.world.staged import Staged
from tests.support.registry import write_skill
from tests.support.world import World

SOURCE = Source("acme", "https://registry.example", Digest.of(b"root"))


class Shelf:
    """A registry that gives the name for an artifact, and remembers how many were asked of it at once."""

    def __init__(self, bad: str = "") -> None:
        self.bad, self.asked, self.most = bad, [], 0
        self._now = 0
        self._lock = threading.Lock()

    def artifact(self, release: Release) -> bytes:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.asked.append(release.name)
        try:
            if release.name == self.bad:
                raise WrongBytes("expected others")
            return release.name.encode()
        finally:
            with self._lock:
                self._now -= 1


def offers(count: int, size: int = 10) -> list[tuple[Source, Release]]:
    names = [f"skill-{number}" for number in range(count)]
    return [
        (SOURCE, Release(name=name, url="", digest=Digest.of(name.encode()), size=size)) for name in names
    ]


@pytest.fixture
def ports(tmp_path):
    return World(tmp_path).ports()


def test_each_artifact_comes_once_and_in_the_order_of_asking(ports):
    shelf, rows = Shelf(), offers(50)
    with Ahead(rows, replace(ports, open=lambda source: shelf)) as ahead:
        registry = ahead.open(SOURCE)
        assert [registry.artifact(release) for _, release in rows] == [r.name.encode() for _, r in rows]
    assert sorted(shelf.asked) == sorted(release.name for _, release in rows)
    assert shelf.most <= AT_ONCE


@pytest.mark.parametrize(("size", "most"), [(10, AT_ONCE), (30 << 20, 2), (200 << 20, 1)])
def test_no_more_is_held_than_fits(ports, size, most):
    shelf, rows = Shelf(), offers(40, size)
    with Ahead(rows, replace(ports, open=lambda source: shelf)):
        pass
    assert 1 <= len(shelf.asked) <= most


def test_what_was_not_announced_is_fetched_when_asked_for(ports):
    shelf = Shelf()
    with Ahead(offers(2), replace(ports, open=lambda source: shelf)) as ahead:
        other = replace(offers(1)[0][1], name="other", digest=Digest.of(b"other"))
        assert ahead.open(SOURCE).artifact(other) == b"other"


def test_an_error_is_raised_where_the_artifact_is_asked_for(ports):
    shelf, rows = Shelf(bad="skill-1"), offers(3)
    with Ahead(rows, replace(ports, open=lambda source: shelf)) as ahead:
        registry = ahead.open(SOURCE)
        assert registry.artifact(rows[0][1]) == b"skill-0"
        with pytest.raises(SecurityError):
            registry.artifact(rows[1][1])
        assert registry.artifact(rows[2][1]) == b"skill-2"


def test_beyond_what_may_be_held_trees_wait_in_the_store(tmp_path, ports):
    made = [from_path(write_skill(tmp_path, f"skill-{number}"), ports) for number in range(4)]
    size = made[0].tree.size
    found = list(staged(made, ports.store, held_max=2 * size))
    assert [isinstance(each.tree, Staged) for each in found] == [False, False, True, True]
    assert [each.tree for each in found] == [each.tree for each in made]
    assert [ports.store.has(each.tree.digest) for each in found] == [False, False, True, True]
    assert not list(ports.project.records().skills)


def test_a_staged_candidate_whose_bytes_change_is_not_enabled(tmp_path, ports):
    made = from_path(write_skill(tmp_path), ports)
    (found,) = staged([made], ports.store, held_max=0)
    ports.store.drop(found.tree.digest)
    with pytest.raises(StateError):
        dict(found.tree.items())
