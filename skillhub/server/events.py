"""The stream of changes: tells every client that listens when the skills that agents find here have changed."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from threading import Event
from typing import Any, Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from skillhub.answers import VERSION
from skillhub.audit.workplace import Workplace
from skillhub.errors import StateError
from skillhub.model.hosts import profile
from skillhub.runtime.agent import changes
from skillhub.runtime.catalog import Catalog

STREAMS_MAX: Final = 64
_KEPT: Final = 100
_HEARTBEAT: Final = 15.0


class ChangeStreams:
    """Tells all streams of each change; looks while one is open, and keeps the last hundred for who was away.

    Args:
        workplace: Whose skills.
        interval: Seconds between two looks, where the system does not tell of changes.
    """

    def __init__(self, workplace: Workplace, interval: float = 2.0) -> None:
        self._workplace = workplace
        self._interval = interval
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)
        self._streams = 0
        self._told = asyncio.Event()
        self._stop = Event()
        self._looking: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._is_closed = False

    def close(self) -> None:
        """End every stream."""
        self._is_closed = True
        self._stop.set()
        self._told.set()

    async def stream(self, after: int | None) -> Response:
        """Return the events behind number ``after``, and each as it comes; a slow client gets what is still kept.

        Raises:
            StateError: too many streams are open.
        """
        if self._streams >= STREAMS_MAX or self._is_closed:
            raise StateError(f"expected at most {STREAMS_MAX} open streams", hint="close one, or ask again later")
        self._streams += 1
        with ExitStack() as undo:
            undo.callback(self._leave)
            await self._look_on()
            undo.pop_all()
        last = self._number if after is None else after
        # A number that is still to come is of a server before this one.
        return _Stream(self._events(last if last <= self._number else 0), self._leave)

    async def _events(self, last: int) -> AsyncIterator[bytes]:
        yield f"retry: 2000\nid: {last}\n\n".encode()
        while not self._is_closed:
            told = self._told
            for number, text in [each for each in self._kept if each[0] > last]:
                last = number
                yield text
            try:
                await asyncio.wait_for(told.wait(), _HEARTBEAT)
            except TimeoutError:
                yield b": no change\n\n"
                await self._look_on()

    def _leave(self) -> None:
        self._streams -= 1
        if self._streams == 0:
            self._stop.set()

    async def _look_on(self) -> None:
        """Look for changes from now on, unless that is done already."""
        async with self._starting:
            if self._looking is None or self._looking.done() or self._stop.is_set():
                _, seen = await asyncio.to_thread(self._workplace.seen, "agents")
                self._stop = Event()
                look = asyncio.to_thread(self._look, seen, asyncio.get_running_loop(), self._stop)
                self._looking = asyncio.create_task(look)

    @property
    def _number(self) -> int:
        return self._kept[-1][0] if self._kept else 0

    def _look(self, seen: Catalog, loop: asyncio.AbstractEventLoop, stop: Event) -> None:
        for found in changes(profile("agents"), self._workplace.around, seen, stop, self._interval):
            if not stop.is_set():
                loop.call_soon_threadsafe(self._tell, _difference(seen, found))
            seen = found

    def _tell(self, change: dict[str, Any]) -> None:
        number = self._number + 1
        text = json.dumps({"schema": VERSION, **change})
        self._kept.append((number, f"event: change\nid: {number}\ndata: {text}\n\n".encode()))
        told, self._told = self._told, asyncio.Event()
        told.set()


class _Stream(StreamingResponse):
    """A stream that says when it is over, however it ends."""

    def __init__(self, events: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


def _difference(before: Catalog, after: Catalog) -> dict[str, list[str]]:
    old, new = ({skill.path or skill.name: skill for skill in each.skills} for each in (before, after))
    return {
        "added": sorted(new.keys() - old.keys()),
        "removed": sorted(old.keys() - new.keys()),
        "changed": sorted(path for path in new.keys() & old.keys() if new[path] != old[path]),
    }
