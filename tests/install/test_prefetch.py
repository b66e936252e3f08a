import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from skillhub.errors import SecurityError, StateError, WrongBytes
from skillhub.install.candidates import TreeBudget
from skillhub.install.gather import AT_ONCE, prefetched
from skillhub.install.obtain import Acquisition, by_path, nothing
from skillhub.model.index import Release
from skillhub.project.store import Staged
from skillhub.scan import MANY
from skillhub.scan.results import PART
from tests.support.registry import write_skill
from tests.support.world import World


class Shelf:
    """Returns the skill's name as its artifact, and records the greatest number of simultaneous requests."""

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
    # The candidate is the fetched bytes: these tests read no candidate.
    return [Acquisition(partial(shelf.artifact, release), lambda came, _: came, size) for release in releases]


def silent(what, done, of):
    pass


def taken(ways, report=silent):
    with prefetched(ways, report) as coming:
        return [turn() for turn in coming]


@pytest.fixture
def ports(tmp_path):
    return World(tmp_path).ports()


def test_each_artifact_is_fetched_once_and_returned_in_order():
    shelf = Shelf()
    reported = []
    found = taken(ways(shelf, 50), lambda what, done, of: reported.append((done, of)))
    names = [f"skill-{number}" for number in range(50)]
    assert found == [name.encode() for name in names]
    assert sorted(shelf.asked) == sorted(names)
    assert shelf.most <= AT_ONCE
    assert reported == [(done, 50) for done in range(50)]


def test_sixteen_artifacts_are_requested_at_once():
    asked_for, wanted, most = 0, 0, 0
    change = threading.Condition()

    def fetch(number: int) -> bytes:
        """Return after the turn that wants it, a moment later: then every turn waits, on the slowest machine, too."""
        nonlocal asked_for, most
        with change:
            asked_for += 1
            most = max(most, asked_for)
            assert change.wait_for(lambda: wanted > number, timeout=300)
        time.sleep(0.02)
        with change:
            asked_for -= 1
        return b"came"

    with prefetched(
        [Acquisition(partial(fetch, number), lambda came, _: len(came)) for number in range(40)], silent
    ) as coming:
        for turn in coming:
            with change:
                wanted += 1
                change.notify_all()
            assert turn() == len(b"came")
    assert most == AT_ONCE


@pytest.mark.parametrize(("size", "most"), [(10, AT_ONCE), (0, AT_ONCE), (30 << 20, 2), (200 << 20, 1)])
def test_prefetched_bytes_are_limited(size, most):
    shelf = Shelf()
    with prefetched(ways(shelf, 40, size), silent) as coming:
        assert next(coming)() == b"skill-0"
    assert 1 <= len(shelf.asked) <= most


def test_attack_unknown_sizes_do_not_fill_memory():
    large, asked = bytes(33 << 20), []

    def fetch() -> bytes:
        asked.append(1)
        time.sleep(0.01)  # long enough for several fetches at once
        return large

    with prefetched([Acquisition(fetch, lambda came, _: len(came)) for _ in range(40)], silent) as coming:
        for _ in range(8):
            assert next(coming)() == len(large)
    assert len(asked) <= 8 + 3  # four at first, then as many as fit


def test_an_acquisition_without_a_download_waits_for_its_turn():
    shelf = Shelf()
    first, second = ways(shelf, 2)
    here = Acquisition(nothing, lambda came, _: "here")
    assert taken([first, here, second]) == [b"skill-0", "here", b"skill-1"]
    assert taken([here]) == ["here"]


def test_an_error_is_raised_in_the_turn_of_its_skill():
    with prefetched(ways(Shelf(bad="skill-1"), 3), silent) as coming:
        assert next(coming)() == b"skill-0"
        with pytest.raises(SecurityError):
            next(coming)()
        assert next(coming)() == b"skill-2"


def test_local_skills_are_scanned_ahead_and_the_results_are_cached(tmp_path, ports):
    found = [by_path(write_skill(tmp_path, f"skill-{number}"), ports) for number in range(MANY)]
    with prefetched(found, silent, home=ports.project.home) as coming:
        candidates = [turn() for turn in coming]
    results = [each for each in Path(ports.project.home.cache, PART).rglob("*") if each.is_file()]
    assert len(results) == len({each.tree.digest for each in candidates}) == MANY


def test_a_local_skill_of_the_lock_is_read_in_its_turn(tmp_path, ports):
    path = write_skill(tmp_path)
    known = by_path(path, ports).run().entry
    assert by_path(path, ports, known=known).fetch is nothing


def test_trees_beyond_the_budget_are_staged_in_the_store(tmp_path, ports):
    made = [by_path(write_skill(tmp_path, f"skill-{number}"), ports).run() for number in range(4)]
    held = TreeBudget(ports.store, held_max=2 * made[0].tree.size)
    found = [held.keep(each) for each in made]
    assert [isinstance(each.tree, Staged) for each in found] == [False, False, True, True]
    assert [each.tree for each in found] == [each.tree for each in made]
    assert not any(each.manifest.body for each in found)  # the tree contains it
    assert [ports.store.has(each.tree.digest) for each in found] == [False, False, True, True]
    assert not list(ports.project.records().skills)


def test_a_staged_candidate_missing_in_the_store_is_an_error(tmp_path, ports):
    made = by_path(write_skill(tmp_path), ports).run()
    found = TreeBudget(ports.store, held_max=0).keep(made)
    ports.store.discard(ports.store.set_aside(found.tree.digest))
    with pytest.raises(StateError):
        dict(found.tree.items())


def test_attack_an_endless_download_does_not_prevent_an_interrupt():
    began, ended, finished = threading.Event(), threading.Event(), threading.Event()

    def stopped():
        assert began.wait(300)
        raise KeyboardInterrupt

    def dripping():
        began.set()
        ended.wait(300)
        finished.set()

    with pytest.raises(KeyboardInterrupt):
        taken([Acquisition(fetch, lambda came, _: came, 1) for fetch in (stopped, dripping)])
    assert not finished.is_set()  # the download has not ended
    ended.set()
    assert finished.wait(300)


@pytest.mark.parametrize("when", ["verified", "held"])
def test_an_interrupt_during_a_turn_waits_for_no_download(when):
    began, ended, finished = threading.Event(), threading.Event(), threading.Event()

    def dripping():
        began.set()
        ended.wait(300)
        finished.set()

    def stopped(at):
        if at == when:
            assert began.wait(300)
            raise KeyboardInterrupt

    acquired = [
        Acquisition(lambda: b"", lambda came, _: stopped("verified"), 1),
        Acquisition(dripping, lambda came, _: came, 1),
    ]
    with suppress(KeyboardInterrupt), prefetched(acquired, silent) as coming:
        next(coming)()
        stopped("held")
    assert began.is_set()
    assert not finished.is_set()  # the download has not ended
    ended.set()
    assert finished.wait(300)


def test_progress_is_reported_repeatedly_during_a_download():
    reports, may_end = [], threading.Event()

    def fetch():
        assert may_end.wait(300)
        return b"came"

    def report(what, done, of):
        reports.append((what, done, of))
        if len(reports) == 4:
            may_end.set()

    acquisitions = [Acquisition(fetch, lambda came, _: came, 10) for _ in range(2)]
    assert taken(acquisitions, report) == [b"came", b"came"]
    assert reports[:4] == [("fetching", 0, 2)] * 4
