"""Fetching before it is asked for, so that waiting for the network and verifying overlap."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from skillhub.flows.candidate import Candidate
from skillhub.flows.obtain import Way, nothing
from skillhub.flows.ports import Report

AT_ONCE = 16
_FIRST = 4  # threads that no wait is worth cost more than they bring
_BYTES_MAX = 64 * 1024 * 1024  # of what was fetched and nobody has asked for yet
_GUESS = 2 * 1024 * 1024  # of what nobody said the size of: few skills are larger


def turns(ways: Sequence[Way[Any]], report: Report) -> Iterator[Callable[[], Candidate]]:
    """Yield what makes the candidate of each way, in this order, while up to 16 threads fetch for the next ones.

    There are four at first, and one more each time that what is next has not come yet. What is fetched and waits
    is little enough to be held in memory. Nothing is verified on a thread but what ``fetch`` verifies; an error of
    either step is raised by the turn that it belongs to.
    """
    coming = [way for way in ways if way.fetch is not nothing]
    if len(coming) < 2:
        yield from (way.go for way in ways)
        return
    todo = deque(coming)
    started: deque[tuple[Future[Any], int]] = deque()
    at_once = _FIRST
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            for way in ways:
                if way.fetch is nothing:
                    yield way.go
                    continue
                _start(todo, started, pool, at_once)
                report("fetching", len(coming) - len(todo) - len(started), len(coming))
                coming_next, _ = started.popleft()
                at_once = min(AT_ONCE, at_once + (not coming_next.done()))
                yield partial(_made, way, coming_next)
        finally:
            pool.shutdown(cancel_futures=True)


def _made(way: Way[Any], coming: Future[Any]) -> Candidate:
    return way.make(coming.result())


def _start(
    todo: deque[Way[Any]], started: deque[tuple[Future[Any], int]], pool: ThreadPoolExecutor, at_once: int
) -> None:
    while todo and len(started) < at_once:
        size = todo[0].size or _GUESS
        if started and sum(each for _, each in started) + size > _BYTES_MAX:
            return
        started.append((pool.submit(todo.popleft().fetch), size))
