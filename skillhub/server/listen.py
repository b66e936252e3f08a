"""The process that listens: HTTP/1.1 of uvicorn, which no slow client holds up, ended without waiting for streams."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from skillhub.audit.workplace import Workplace
from skillhub.errors import StateError, UsageError
from skillhub.formats.text import quote
from skillhub.server.application import application
from skillhub.server.events import ChangeStreams
from skillhub.server.guard import HEADERS_MAX, TARGET_MAX, AccessRules, is_loopback

STALLED: Final = 30.0  # seconds in which a head has to end, and something of an answer has to be taken
_CONNECTIONS: Final = 512
_GRACE: Final = 3


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen: ``host`` as it was typed, and the address that it is.

    Attributes:
        port: 0 takes a free one.
    """

    host: str
    ip: str
    port: int

    @classmethod
    def of(cls, host: str, port: int) -> Address:
        """Return the address of a host. Raises UsageError for one that has none, or a port that is none."""
        if not 0 <= port <= 65535:
            raise UsageError(f"expected a port from 0 to 65535, found {port}")
        bare = host.removeprefix("[").removesuffix("]")
        try:
            found = socket.getaddrinfo(bare, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except (OSError, UnicodeError) as error:
            raise UsageError(f"expected an address of this machine, found {quote(host)}") from error
        # A name may have several; one of them decides whether strangers reach it.
        loopback_last = sorted((str(each[4][0]) for each in found), key=is_loopback)
        return cls(bare, loopback_last[0].partition("%")[0], port)

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.ip)

    def url(self, port: int) -> str:
        """Return what to open in a browser on this machine."""
        ip = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.ip, self.ip)  # noqa: S104 - compared, not listened on
        return f"http://[{ip}]:{port}" if ":" in ip else f"http://{ip}:{port}"

    def listen(self) -> socket.socket:
        """Return a socket that listens; who connects from now on is answered once the server runs.

        Raises:
            StateError: the address is taken or not this machine's.
        """
        family = socket.AF_INET6 if ":" in self.ip else socket.AF_INET
        try:
            return socket.create_server((self.ip, self.port), family=family, backlog=256)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise StateError(f"cannot listen: {why}", where=f"{self.host}:{self.port}") from error


def server_of(workplace: Workplace, access: AccessRules) -> uvicorn.Server:
    """Return a server that does not run yet."""
    changes = ChangeStreams(workplace)
    config = uvicorn.Config(
        application(workplace, access, changes),
        http=_Protocol,
        ws="none",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE,
        h11_max_incomplete_event_size=TARGET_MAX + HEADERS_MAX,
    )
    server = _Server(config)
    server.changes = changes
    return server


def run(server: uvicorn.Server, listener: socket.socket, announce: Callable[[], None]) -> None:
    """Announce the server and answer until Ctrl-C or SIGTERM; then end streams, and give requests three seconds."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    gc.freeze()
    gc.enable()  # a command has it off, for it ends soon
    try:
        announce()
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # which uvicorn raises again at its end
    finally:
        signal.signal(signal.SIGTERM, before)
        listener.close()


class _Protocol(H11Protocol):
    """HTTP/1.1 of uvicorn, with a limit to how long a client may take for a head, or take nothing of an answer."""

    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(STALLED, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._write_timer)

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._head_timer)
        _cancel(self._write_timer)
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            _cancel(self._head_timer)
            self._head_timer = None
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(STALLED, self.transport.abort)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


class _Server(uvicorn.Server):
    """A server that ends its streams before it waits for them."""

    changes: ChangeStreams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        self.changes.close()
        await super().shutdown(sockets)
