"""A web server on loopback whose answer to each path a test defines, down to single bytes."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from skillhub.net.fetch import PERSON, Requester

Act = Callable[[socket.socket], None]


class Web:
    """Runs while entered; ``at(path, act)`` sets the answer to a path, ``seen`` counts the requests."""

    def __init__(self) -> None:
        self.acts: dict[str, Act] = {}
        self.seen: Counter[str] = Counter()
        self.heads: list[str] = []
        self.connections = 0
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.web = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Web:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def at(self, path: str, act: Act) -> str:
        self.acts[path] = act
        return self.url(path)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    web: Web

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that hang up: many tests do."""


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        web = self.server.web
        web.connections += 1
        while head := self._head():
            path = head.split(" ")[1]
            web.seen[path] += 1
            web.heads.append(head)
            web.acts.get(path, answer(b"", status="404 Not Found"))(self.connection)

    def _head(self) -> str:
        lines = []
        while (line := self.rfile.readline()) not in (b"", b"\r\n"):
            lines.append(line)
        return b"".join(lines).decode("latin-1")


@contextmanager
def closed_port() -> Iterator[str]:
    """Yield a URL without a listener: the port is bound, so that no other server gets it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/"


def answer(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> Act:
    """Answer in full; ``length`` lies about the size of the body."""
    fields = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers]
    return raw("\r\n".join(fields).encode() + b"\r\n\r\n" + body)


def requester_of(site: str | None) -> Requester:
    """Return the requester of a URL: the site whose documents name it, or a person."""
    return Requester("site", site) if site else PERSON


def raw(data: bytes) -> Act:
    """Send exactly these bytes."""
    return lambda connection: connection.sendall(data)


def redirect(location: str, status: str = "302 Found") -> Act:
    return answer(b"", f"Location: {location}", status=status)


def endless(head: bytes, chunk: bytes, pause: float = 0.0) -> Act:
    """Send ``chunk`` repeatedly until the client hangs up."""
    tick = threading.Event()

    def act(connection: socket.socket) -> None:
        connection.sendall(head)
        while not tick.wait(pause):
            connection.sendall(chunk)

    return act


def hang_up(data: bytes) -> Act:
    """Send these bytes and close the connection."""

    def act(connection: socket.socket) -> None:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_RDWR)

    return act


def in_turn(*acts: Act) -> Act:
    """Do one act per request in this order, and then repeat the last."""
    left = list(acts)
    return lambda connection: (left.pop(0) if len(left) > 1 else left[0])(connection)
