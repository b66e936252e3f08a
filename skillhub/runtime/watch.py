"""Waits until skills change, for agents that do not want to poll; needs the extra ``watch``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from threading import Event

from watchfiles import watch

from skillhub.runtime.catalog import Root


def changes(roots: Iterable[Root], stop: Event | None = None) -> Iterator[tuple[Root, ...]]:
    """Yield, each time that something below them changes, the roots that this is about; wait meanwhile.

    What is behind a link, and a root that was not there at first, is not watched: ``catalog_of`` sees it when it
    is asked the next time. Nothing is read here, so that a change that is none costs one look.

    Args:
        roots: Where to watch.
        stop: Ends the waiting once it is set.
    """
    watched = {os.path.realpath(root.path): root for root in roots if os.path.isdir(root.path)}
    if not watched:
        return
    for changed in watch(*watched, stop_event=stop, debounce=200, watch_filter=None):
        paths = [path for _, path in changed]
        yield tuple(root for place, root in watched.items() if any(_is_below(path, place) for path in paths))


def _is_below(path: str, place: str) -> bool:
    return path == place or path.startswith(os.path.join(place, ""))
