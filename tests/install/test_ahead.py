import threading
import time
from contextlib import suppress
from functools import partial

import pytest

from skillhub.errors import SecurityError, StateError, WrongBytes
from skillhub.install.candidates import TreeBudget
from skillhub.install.obtain import AT_ONCE, Acquisition, from_path, nothing, prefetched
from skillhub.model.index import Release
from skillhub.project.store import Staged
from tests.support.registry import write_skill
from tests.support.world import World


class Shelf:
    """Gives the name for an artifact, and remembers how many were asked of it at once."""

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


def ways(shelf: Shelf, count: int, size: int = 10) -> list[Acquisition]:
    releases = [Release(name=f"skill-{number}", url="") for number in range(count)]
    # What is made is the bytes that came: nothing here looks at a candidate.
    return [Acquisition(partial(shelf.artifact, release), lambda came: came, size) for release in releases]


def silent(what, done, of):
    pass


def taken(ways, report=silent):
    with prefetched(ways, report) as coming:
        return [turn() for turn in coming]


@pytest.fixture
def ports(tmp_path):
    return World(tmp_path).ports()


def test_each_comes_once_and_in_the_order_of_asking():
    shelf = Shelf()
    told = []
    found = taken(ways(shelf, 50), lambda what, done, of: told.append((done, of)))
    names = [f"skill-{number}" for number in range(50)]
    assert found == [name.encode() for name in names]
    assert sorted(shelf.asked) == sorted(names)
    assert shelf.most <= AT_ONCE
    assert told == [(done, 50) for done in range(50)]


def test_where_there_is_waiting_sixteen_are_asked_for_at_once():
    asked_for, wanted, most = 0, 0, 0
    change = threading.Condition()

    def fetch(number: int) -> bytes:
        """Come only after it was wanted, a while later: then every turn waits, however slow this machine is."""
        nonlocal asked_for, most
        with change:
            asked_for += 1
            most = max(most, asked_for)
            assert change.wait_for(lambda: wanted > number, timeout=300)
        time.sleep(0.02)
        with change:
            asked_for -= 1
        return b"came"

    with prefetched([Acquisition(partial(fetch, number), len) for number in range(40)], silent) as coming:
        for turn in coming:
            with change:
                wanted += 1
                change.notify_all()
            assert turn() == len(b"came")
    assert most == AT_ONCE


@pytest.mark.parametrize(("size", "most"), [(10, AT_ONCE), (0, AT_ONCE), (30 << 20, 2), (200 << 20, 1)])
def test_no_more_is_held_than_fits(size, most):
    shelf = Shelf()
    with prefetched(ways(shelf, 40, size), silent) as coming:
        assert next(coming)() == b"skill-0"
    assert 1 <= len(shelf.asked) <= most


def test_attack_a_site_that_says_no_sizes_is_not_fetched_into_memory_whole():
    large, asked = bytes(33 << 20), []

    def fetch() -> bytes:
        asked.append(1)
        time.sleep(0.01)  # long enough for more to be fetched at once
        return large

    with prefetched([Acquisition(fetch, len) for _ in range(40)], silent) as coming:
        for _ in range(8):
            assert next(coming)() == len(large)
    assert len(asked) <= 8 + 3  # four at first, then as many as fit


def test_what_needs_no_wire_waits_for_its_turn():
    shelf = Shelf()
    first, second = ways(shelf, 2)
    here = Acquisition(nothing, lambda came: "here")
    assert taken([first, here, second]) == [b"skill-0", "here", b"skill-1"]
    assert taken([here]) == ["here"]


def test_an_error_is_raised_by_the_turn_that_it_belongs_to():
    with prefetched(ways(Shelf(bad="skill-1"), 3), silent) as coming:
        assert next(coming)() == b"skill-0"
        with pytest.raises(SecurityError):
            next(coming)()
        assert next(coming)() == b"skill-2"


def test_beyond_what_may_be_held_trees_wait_in_the_store(tmp_path, ports):
    made = [from_path(write_skill(tmp_path, f"skill-{number}"), ports) for number in range(4)]
    held = TreeBudget(ports.store, held_max=2 * made[0].tree.size)
    found = [held.keep(each) for each in made]
    assert [isinstance(each.tree, Staged) for each in found] == [False, False, True, True]
    assert [each.tree for each in found] == [each.tree for each in made]
    assert not any(each.manifest.body for each in found)  # the tree has it
    assert [ports.store.has(each.tree.digest) for each in found] == [False, False, True, True]
    assert not list(ports.project.records().skills)


def test_a_staged_candidate_whose_bytes_change_is_not_enabled(tmp_path, ports):
    made = from_path(write_skill(tmp_path), ports)
    found = TreeBudget(ports.store, held_max=0).keep(made)
    ports.store.drop(found.tree.digest)
    with pytest.raises(StateError):
        dict(found.tree.items())


def test_attack_a_server_that_never_ends_keeps_nobody_from_stopping():
    began, ended, over = threading.Event(), threading.Event(), threading.Event()

    def stopped():
        assert began.wait(300)
        raise KeyboardInterrupt

    def dripping():
        began.set()
        ended.wait(300)
        over.set()

    with pytest.raises(KeyboardInterrupt):
        taken([Acquisition(fetch, lambda came: came, 1) for fetch in (stopped, dripping)])
    assert not over.is_set()  # it drips still
    ended.set()
    assert over.wait(300)


@pytest.mark.parametrize("when", ["verified", "held"])
def test_who_stops_the_command_while_a_skill_is_worked_on_waits_for_no_server(when):
    began, ended, over = threading.Event(), threading.Event(), threading.Event()

    def dripping():
        began.set()
        ended.wait(300)
        over.set()

    def stopped(at):
        if at == when:
            assert began.wait(300)
            raise KeyboardInterrupt

    acquired = [
        Acquisition(lambda: b"", lambda came: stopped("verified"), 1),
        Acquisition(dripping, lambda came: came, 1),
    ]
    with suppress(KeyboardInterrupt), prefetched(acquired, silent) as coming:
        next(coming)()
        stopped("held")
    assert began.is_set()
    assert not over.is_set()  # it drips still
    ended.set()
    assert over.wait(300)


def test_who_waits_for_a_download_is_told_again_and_again_how_far_it_is():
    told, may_end = [], threading.Event()

    def fetch():
        assert may_end.wait(300)
        return b"came"

    def report(what, done, of):
        told.append((what, done, of))
        if len(told) == 4:
            may_end.set()

    acquisitions = [Acquisition(fetch, lambda came: came, 10) for _ in range(2)]
    assert taken(acquisitions, report) == [b"came", b"came"]
    assert told[:4] == [("fetching", 0, 2)] * 4
