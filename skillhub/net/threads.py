"""Requests on threads, for which an interrupt does not wait."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Yield threads for requests; an interrupt or a timeout does not wait for them: a server may take ten minutes."""
    pool, is_stopped = ThreadPoolExecutor(count), False
    try:
        yield pool
    except (KeyboardInterrupt, TimeoutError):
        is_stopped = True
        raise
    finally:
        pool.shutdown(wait=not is_stopped, cancel_futures=True)
