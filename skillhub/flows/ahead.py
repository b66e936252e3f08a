"""Fetching before it is asked for, so that waiting for the network and verifying overlap."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from skillhub.flows.candidate import Candidate
from skillhub.flows.obtain import Way, held, nothing
from skillhub.flows.ports import Report

AT_ONCE = 16
_FIRST = 4
_WAIT = 0.005  # seconds; for less, more threads cost more than they bring
_BYTES_MAX = 64 * 1024 * 1024  # of what was fetched and nobody has asked for yet
_GUESS = 2 * 1024 * 1024  # of what nobody said the size of, until a larger one came: few skills are


@contextmanager
def turns(ways: Sequence[Way[Any]], report: Report) -> Iterator[Iterator[Callable[[], Candidate]]]:
    """Give out what makes the candidate of each way, in this order, while up to 16 threads fetch for the next ones.

    There are four at first, and twice as many whenever what is next had to be waited for. What is fetched and waits
    is little enough to be held in memory. Nothing is verified on a thread but what ``fetch`` verifies; an error of
    either step is raised by the turn that it belongs to.
    """
    is_stopped = False
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        yield _turns(ways, report, pool)
    except KeyboardInterrupt:
        is_stopped = True
        raise
    finally:
        # Who stops the command waits for no server, which may take ten minutes over each answer.
        pool.shutdown(wait=not is_stopped, cancel_futures=True)


def _turns(
    ways: Sequence[Way[Any]], report: Report, pool: ThreadPoolExecutor
) -> Iterator[Callable[[], Candidate]]:
    coming = [way for way in ways if way.fetch is not nothing]
    if len(coming) < 2:
        yield from (way.go for way in ways)
        return
    todo = deque(coming)
    started: deque[tuple[Future[Any], int]] = deque()
    pace = _Pace()
    for way in ways:
        if way.fetch is nothing:
            yield way.go
            continue
        _start(todo, started, pool, pace)
        report("fetching", len(coming) - len(todo) - len(started), len(coming))
        yield partial(_made, way, started.popleft()[0], pace)


class _Pace:
    """How many are to be fetched at once, by how long was waited for them and how large they were."""

    def __init__(self) -> None:
        self.at_once = _FIRST
        self.guess = _GUESS

    def wait(self, coming: Future[Any]) -> Any:  # noqa: ANN401 - whatever the way fetches
        """Return what came, or raise what was raised instead."""
        start = time.monotonic()
        try:
            return coming.result()
        finally:
            if time.monotonic() - start > _WAIT:
                self.at_once = min(AT_ONCE, 2 * self.at_once)


def _made(way: Way[Any], coming: Future[Any], pace: _Pace) -> Candidate:
    came = pace.wait(coming)
    pace.guess = max(pace.guess, held(came))  # a site that says no sizes may have one for all
    return way.make(came)


def _start(
    todo: deque[Way[Any]], started: deque[tuple[Future[Any], int]], pool: ThreadPoolExecutor, pace: _Pace
) -> None:
    while todo and len(started) < pace.at_once:
        size = todo[0].size or pace.guess
        if started and sum(each for _, each in started) + size > _BYTES_MAX:
            return
        started.append((pool.submit(todo.popleft().fetch), size))
