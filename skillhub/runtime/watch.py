"""Tells a host when its catalogue is out of date: with the extra ``watch`` at once, without it by polling."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from importlib import import_module
from threading import Event

from skillhub.model.hosts import Profile
from skillhub.runtime.agent import catalog_of
from skillhub.runtime.catalog import Catalog, Root
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.walk import Cache

_QUIET = 10  # times as long between two looks where the system tells of changes


def changes(
    profile: Profile,
    around: Surroundings,
    since: Catalog | None = None,
    stop: Event | None = None,
    interval: float = 2.0,
    cache: Cache | None = None,
) -> Iterator[Catalog]:
    """Yield each catalogue that differs from the one before, and wait meanwhile.

    Skills, locks, this machine's record and the host's own settings count alike. With the extra ``watch`` a change in
    a folder of skills is told at once; whatever else changed, and everything without that extra, is found by a look.

    Args:
        profile: The host.
        around: Where it runs.
        since: The catalogue that the host has; None for the one at the first call of ``next``.
        stop: Ends the waiting once it is set.
        interval: Seconds between two looks; ten times that with the extra ``watch``.
        cache: Where looks into folders are kept; None keeps them in memory.
    """
    stop, cache = stop or Event(), cache or Cache()
    seen = since or catalog_of(profile, around, cache=cache)
    while not stop.is_set():
        found = catalog_of(profile, around, cache=cache)
        if found != seen:
            seen = found
            yield found
        else:
            _wait(found.roots, stop, interval)


def _wait(roots: Iterable[Root], stop: Event, interval: float) -> None:
    there = [root.path for root in roots if os.path.isdir(root.path)]
    try:
        watch = import_module("watchfiles").watch
    except ModuleNotFoundError:
        there = []
    if not there:
        stop.wait(interval)
        return
    until = int(interval * _QUIET * 1000)
    told = watch(*there, stop_event=stop, debounce=200, watch_filter=None, rust_timeout=until, yield_on_timeout=True)
    next(told, None)
