"""The server of a registry's site: static and read-only, for a trial, or behind a proxy with TLS."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from time import monotonic
from typing import BinaryIO
from urllib.parse import unquote_to_bytes, urlsplit

from skillhub.errors import NotFound, StateError, UsageError
from skillhub.net.target import is_loopback
from skillhub.registry.outputs import WITH_SEARCH, cache_control, media_type
from skillhub.server.headers import HEADERS

_PIECE = 1 << 16
_OVERLOAD = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO})
_PAGE_POLICY = f"{WITH_SEARCH}; frame-ancestors 'none'"
_SEGMENT = re.compile(r'[^\0-\x1f\x7f/\\:*?"<>|]+')


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Page:
    """An answer.

    Attributes:
        content: The bytes, or the open file with them, of which slow clients keep no copies in memory.
        type: The media type.
        cache: The value of ``Cache-Control``.
    """

    content: bytes | io.BufferedReader
    type: str = "application/json"
    cache: str = "no-store"

    def opened(self) -> io.BytesIO | io.BufferedReader:
        """Return the content as a file, which the caller closes."""
        return io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content


def find_page(site: str, target: str) -> Page | None:
    """Return the file for a request, or None if there is no plain file.

    Args:
        site: The folder of the site.
        target: Path and query of the request line.

    Raises:
        OSError: the server has too many open files, or the disk fails.
    """
    try:
        path = unquote_to_bytes(target.partition("?")[0]).decode("utf-8")
    except UnicodeDecodeError:
        return None
    path += "index.html" if path.endswith("/") else ""
    segments = path.split("/")[1:]
    if not path.startswith("/") or any(part in (".", "..") or not _SEGMENT.fullmatch(part) for part in segments):
        return None
    full_path = os.path.join(site, *segments)
    try:
        if not stat.S_ISREG(os.lstat(full_path).st_mode):
            return None
        # A link anywhere in the path could lead out of the site.
        if os.path.realpath(full_path) != os.path.join(os.path.realpath(site), *segments):
            return None
        return Page(open(full_path, "rb"), media_type(path), cache_control(path))
    except OSError as error:
        if error.errno in _OVERLOAD:
            raise
        return None


class _Pace:
    """The time that a client has left: it may fall behind a rate by a number of seconds.

    Args:
        connection: The connection to the client.
        seconds: How far the client may fall behind.
        rate: The bytes that the client must send or take in a second.
    """

    def __init__(self, connection: socket, seconds: float, rate: int) -> None:
        self.connection, self._most, self._left, self._rate = connection, seconds, seconds, rate

    def restart(self) -> None:
        """Forget how far the client fell behind."""
        self._left = self._most

    def transfer(self, step: Callable[[], int]) -> int:
        """Return how many bytes one call of the connection sent or received.

        Raises:
            TimeoutError: the client is too slow; it occupies resources that others need.
        """
        if self._left <= 0:
            raise TimeoutError
        self.connection.settimeout(self._left)
        start = monotonic()
        count = step()
        self._left = min(self._most, self._left + count / self._rate) - (monotonic() - start)
        self.connection.settimeout(self._most)
        return count


class _Requests(io.RawIOBase):
    """The bytes of the requests on a connection; a client that sends a request too slowly is disconnected."""

    def __init__(self, pace: _Pace) -> None:
        self._pace, self._is_begun = pace, False

    def next(self) -> None:
        """Expect another request, whose time begins with its first bytes."""
        self._pace.restart()
        self._is_begun = False

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read what has arrived, and wait for it. Raises as ``_Pace.transfer``."""
        count = self._pace.transfer(partial(self._pace.connection.recv_into, buffer))
        if not self._is_begun:
            self.next()
            self._is_begun = True
        return count


class SiteHandler(BaseHTTPRequestHandler):
    """The handler of requests for the files of a site."""

    protocol_version = "HTTP/1.1"
    server_version = "skillhub"
    sys_version = ""
    timeout = 30.0  # seconds that a connection may be idle, or a client may fall behind ``rate``
    rate = 16 << 10  # bytes that a client must send or take in a second
    # Otherwise an answer larger than one buffer waits 40 ms for an acknowledgement of its first part.
    wbufsize, disable_nagle_algorithm = -1, True
    server: _Server
    rfile: io.BufferedIOBase
    _requests: _Requests

    def setup(self) -> None:
        """Read requests at the client's pace."""
        super().setup()
        self.rfile.close()
        self._requests = _Requests(_Pace(self.connection, self.timeout, self.rate))
        self.rfile = io.BufferedReader(self._requests)

    def handle_one_request(self) -> None:
        """Answer one request."""
        self._requests.next()
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Return whether a request with a certain end was read; otherwise its rest could pass for another request."""
        if not super().parse_request():
            return False
        lengths = self.headers.get_all("Content-Length", [])
        if "Transfer-Encoding" in self.headers or len(lengths) > 1:
            self.send_error(411)
            return False
        is_local = is_loopback(str(self.server.server_address[0]))
        if is_local and not all(map(self.is_own, self.headers.get_all("Host", []))):
            self.send_error(421)
            return False
        if self.command != "POST" and lengths not in ([], ["0"]):
            self.close_connection = True  # the body is not read
        return True

    def is_own(self, host: str) -> bool:
        """Return whether a server that only this machine reaches has this ``Host``.

        A page of another site can have a name that resolves to this machine, and read the answers (DNS rebinding).
        """
        try:
            return is_loopback(urlsplit(f"//{host}").hostname or "")
        except ValueError:
            return False

    def do_GET(self) -> None:
        """Answer with head and body."""
        self.serve(with_body=True)

    def do_HEAD(self) -> None:
        """Answer with the head only."""
        self.serve(with_body=False)

    def serve(self, with_body: bool) -> None:
        """Answer with the requested file."""
        try:
            page = find_page(self.server.site, self.path)
        except OSError:  # to a client, a missing file of the log is evidence of tampering
            self.send_error(503)
            return
        if page is None:
            page = find_page(self.server.site, "/404.html") or Page(b"", "text/plain")
            self.send_page(404, replace(page, cache="no-store"), with_body)
        else:
            self.send_page(200, page, with_body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer with the name of a status, and end the connection; the answer repeats nothing of the request."""
        body = f"{HTTPStatus(code).phrase}\n".encode()
        self.send_response(code)
        kind = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))}
        for name, value in {"Connection": "close", **kind, **HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_page(self, status: int, page: Page, with_body: bool) -> None:
        """Answer with this page, or with status 304 if the client has it."""
        with page.opened() as content:
            size, digest = content.seek(0, os.SEEK_END), sha256()
            for part in _parts(content, size):
                digest.update(part)
            etag = f'"{digest.hexdigest()}"'  # a strong validator (RFC 9110, 8.8.3)
            known = {tag.strip().removeprefix("W/") for tag in self.headers.get("If-None-Match", "").split(",")}
            if status == 200 and etag in known:
                status, with_body = 304, False
            self.send_response(status)
            if status != 304:
                self.send_header("Content-Type", page.type)
                self.send_header("Content-Length", str(size))
            self._send_headers(page, etag)
            self.end_headers()
            if with_body:
                self.send_parts(_parts(content, size))

    def send_parts(self, parts: Iterable[bytes]) -> None:
        """Send a body; disconnect a client that takes it too slowly.

        Raises:
            OSError: the client was disconnected, or closed the connection.
        """
        self.wfile.flush()
        pace = _Pace(self.connection, self.timeout, self.rate)
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[pace.transfer(partial(self.connection.send, view[:_PIECE])) :]

    def _send_headers(self, page: Page, etag: str) -> None:
        # A part of a file cannot be verified, so ranges are not served and a Range header is ignored.
        self.send_header("Accept-Ranges", "none")
        self.send_header("Cache-Control", page.cache)
        self.send_header("ETag", etag)
        for name, value in HEADERS.items():
            if name == "Content-Security-Policy" and page.type.startswith("text/html"):
                self.send_header(name, _PAGE_POLICY)
            elif name != "Cache-Control":
                self.send_header(name, value)

    def log_message(self, format: str, *args: object) -> None:
        """Write no log; a production site runs behind a web server with its own."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], site: str, handler: type[SiteHandler]) -> None:
        self.site = os.path.abspath(site)
        super().__init__(address, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing, since any client can close its connection at any time."""


def site_server(
    site: str, host: str = "127.0.0.1", port: int = 0, handler: type[SiteHandler] = SiteHandler
) -> ThreadingHTTPServer:
    """Return a bound server of the folder ``site``; the caller runs ``serve_forever`` and closes it.

    Args:
        site: The folder.
        host: The address to listen on.
        port: The port; 0 for any free one, which is then in ``server_port``.
        handler: The handler of requests.

    Raises:
        NotFound: the folder does not exist.
        UsageError: the port is out of range.
        StateError: the address is in use, or does not belong to this machine.
    """
    if not os.path.isdir(site):
        raise NotFound("there is no such folder", where=site)
    try:
        return _Server((host, port), site, handler)
    except OverflowError as error:
        raise UsageError(f"expected a port from 0 to 65535, found {port}") from error
    except OSError as error:
        why = error.strerror or error  # `str` would add the number
        hint = "--port 0 takes a free port, --host an address of this machine"
        raise StateError(f"cannot listen: {why}", where=f"{host}:{port}", hint=hint) from error


def _parts(content: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the first ``size`` bytes of a file.

    Raises:
        OSError: the file became shorter.
    """
    content.seek(0)
    while size:
        part = content.read(min(size, _PIECE))
        if not part:
            raise OSError("the file became shorter while it was sent")
        size -= len(part)
        yield part
