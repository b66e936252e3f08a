"""An interrupt does not wait for requests on threads; a failure does, and begins no more."""

from __future__ import annotations

import threading

import pytest

from skillhub.net.threads import threads


@pytest.mark.parametrize("stop", [KeyboardInterrupt, TimeoutError])
def test_an_interrupt_waits_for_no_request_and_begins_no_more(stop):
    over = threading.Event()
    try:
        with pytest.raises(stop), threads(1) as pool:
            begun = threading.Event()
            running = pool.submit(lambda: begun.set() or over.wait(300))
            waiting = pool.submit(over.wait)
            begun.wait(300)
            raise stop
        assert not running.done() and waiting.cancelled()
    finally:
        over.set()


def test_a_failure_waits_for_requests_that_run_and_begins_no_more():
    ended, begun, failed = [], threading.Event(), threading.Event()
    with pytest.raises(ValueError, match="x"), threads(1) as pool:
        running = pool.submit(lambda: begun.set() or failed.wait(300) or ended.append(1))
        waiting = pool.submit(ended.append, 2)
        begun.wait(300)
        threading.Timer(0.05, failed.set).start()
        raise ValueError("x")
    assert running.done() and waiting.cancelled() and not ended
