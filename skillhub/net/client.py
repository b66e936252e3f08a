"""The HTTP client: httpx, over a network backend that judges addresses, enforces deadlines and counts bytes."""

from __future__ import annotations

import select
import socket
import ssl
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import ExitStack, closing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Self, TypeVar

from skillhub.errors import SourceError, UnsafeTransfer, WrongBytes
from skillhub.formats.text import quote
from skillhub.model.reference import errors_masked
from skillhub.net.fetch import LONG_WAIT, PLAIN, Arrived, Headers, RequestOptions, Response, Web, is_limited, unheard
from skillhub.net.target import Proxy, RequestTarget, is_public, judge, judged, look_up, proxy_for

# httpx imports its command line, and with it rich, click and Pygments if they are installed; the library needs none.
if "httpx" not in sys.modules:
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
import httpcore
import httpx

AGENT = "skillhub"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEEPS_METHOD = frozenset({307, 308})
_MAX_REDIRECTS = 5
_ERROR_CAP = 65536  # the bytes that are read of an error's body; after a shorter one the connection is reused
_MAY_HEAL = frozenset({408, 429, 500, 502, 503, 504})
# The limit on bytes that are not body (heads, interim answers, sizes of chunks, trailers): a constant for each
# answer, and a number for each byte of the body, which may arrive in small chunks.
_OVERHEAD_MAX = 256 << 10
_OVERHEAD_PER_BYTE = 1


_url = lru_cache(maxsize=64)(httpx.URL)  # parsed once for all requests to a server

# Returns the value of ``Authorization`` that the user has for an origin, or None.
Credentials = Callable[[RequestTarget], str | None]
_Fields = list[tuple[str, str]]
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Patience:
    """The time limit of a request: ``grace`` seconds, one more for each ``rate`` bytes of body, ``total`` at most.

    ``pauses`` are the seconds before each retry after a temporary failure; the first retry is for a stale connection.
    """

    grace: float = 20.0
    rate: float = 4096.0
    total: float = 600.0
    pauses: tuple[float, ...] = (0.0, 0.3, 1.0)


class Deadline:
    """The deadline of a whole request: name lookup, connecting, TLS, head, body, redirects and retries.

    Args:
        patience: The time limits.
        arrived: Called with zero bytes during a long wait.
    """

    def __init__(self, patience: Patience, arrived: Arrived = unheard) -> None:
        self._patience, self.arrived = patience, arrived
        self._start = time.monotonic()
        self._bytes = 0

    def extend(self, count: int) -> None:
        """Add the time that ``count`` bytes of body allow."""
        self._bytes += count

    def left(self) -> float:
        """Return the seconds until the deadline.

        Raises:
            TimeoutError: the deadline has passed.
        """
        allowed = min(self._patience.total, self._patience.grace + self._bytes / self._patience.rate)
        left = allowed - (time.monotonic() - self._start)
        if left <= 0:
            raise TimeoutError(f"the answer took more than {allowed:.0f} s")
        return left

    def wait(self, step: Callable[[float], _Result], share: float = 1.0) -> _Result:
        """Return the result of a step, which waits at most the given seconds and can be repeated.

        Args:
            step: The step.
            share: The part of the remaining time that it may take.

        Raises:
            TimeoutError: the time is over.
        """
        limit = self.left() * share
        try:
            return step(min(LONG_WAIT, limit))
        except TimeoutError as error:
            if error.errno or limit <= LONG_WAIT:  # an error number is the limit of the system, not ours
                raise
        self.arrived(0)
        return step(limit - LONG_WAIT)


def _fields(target: RequestTarget, headers: Headers, first: str, credentials: Credentials | None) -> _Fields:
    """Return the header fields for ``target``; credentials are sent to ``first``, the requested origin, alone."""
    sent = {"Accept": "*/*"} | {name.title(): value.strip() for name, value in headers.items()}
    if target.origin != first:
        sent.pop("Authorization", None)
    elif credentials and target.sends_credentials and "Authorization" not in sent:
        sent["Authorization"] = credentials(target) or ""
    # A line break would begin another field, or another request. A field with an empty value is not sent.
    return [(name, value) for name, value in sent.items() if value and value.isascii() and value.isprintable()]


class Http(Web):
    """A ``Web`` over the network; all threads share its connections, which are kept alive.

    Args:
        tls: The trust settings for https; by default the system's certificate authorities, or ``SSL_CERT_FILE``.
        patience: The time limits and retries.
        credentials: Called for each origin that may receive credentials, and for no other.
        arrived: Called with the number of bytes of a body that have arrived, and with zero during a long wait.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        patience: Patience | None = None,
        credentials: Credentials | None = None,
        arrived: Arrived = unheard,
    ) -> None:
        self._patience = patience or Patience()
        self._credentials = credentials
        self._arrived = arrived
        self._transport = _Transport(tls)
        self._proxies: dict[str, Proxy | None] = {}

    @errors_masked()
    def ask(self, url: str, *, cap: int, options: RequestOptions = PLAIN) -> Response:
        """Return the server's answer, as ``Web.ask`` promises.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: as for ``Web.ask``.
        """
        target = judge(url, options.named_by, self._transport.private)
        first, deadline = target.origin, Deadline(self._patience, self._arrived)
        for _ in range(1 + _MAX_REDIRECTS):
            fields = _fields(target, options.headers, first, self._credentials)
            found = self._with_retries(target, (fields, options.body), deadline, cap)
            if isinstance(found, Response):
                return found
            target = found
        raise UnsafeTransfer(f"expected at most {_MAX_REDIRECTS} redirects, found more", where=url)

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _with_retries(
        self, target: RequestTarget, sent: tuple[_Fields, bytes | None], deadline: Deadline, cap: int
    ) -> Response | RequestTarget:
        """Send the request; after a temporary failure, send it again on a new connection."""
        known = [("Host", target.authority), ("User-Agent", AGENT), ("Accept-Encoding", "identity")]
        pauses = iter(self._patience.pauses)
        fields, body = sent
        method = "GET" if body is None else "POST"
        if target.origin not in self._proxies:  # once for each origin, since it reads the whole environment
            self._proxies[target.origin] = proxy_for(target)
        exchange = _Exchange(target, deadline, self._proxies[target.origin], False)
        while True:
            token = _EXCHANGE.set(exchange)
            try:
                with _errors_of(exchange):
                    # Without the path, which may hold a secret: the transport takes it from the exchange.
                    request = httpx.Request(method, _url(target.origin), headers=known + fields, content=body)
                    with closing(self._transport.handle_request(request)) as response:
                        return _judge(target, response, cap)
            except _MayHealError as broken:
                pause = next(pauses, None)
                if pause is None:
                    if broken.answer is not None:
                        return broken.answer
                    raise SourceError(f"cannot fetch it: {broken}", where=target.url) from broken
                time.sleep(pause)
                exchange = replace(exchange, fresh=True, received=0, delivered=0)
            finally:
                _EXCHANGE.reset(token)


@contextmanager
def _errors_of(exchange: _Exchange) -> Iterator[None]:
    where = exchange.target.url
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        hint = "the system's certificate authorities decide; SSL_CERT_FILE names others"
        message = f"the server has no valid certificate: {error.verify_message}"
        raise UnsafeTransfer(message, where=where, hint=hint) from error
    except TimeoutError as error:
        raise SourceError(f"cannot fetch it in time: {error}", where=where) from error
    except httpcore.ProxyError as error:
        host = exchange.proxy.host if exchange.proxy else ""
        raise SourceError(f"the proxy {host} answered {str(error)[:3]}", where=where) from error
    except httpx.InvalidURL as error:
        raise SourceError("cannot fetch it: its host has no address", where=where) from error
    except (OSError, UnicodeError, httpcore.ProtocolError) as error:
        # The message of the system, without the error number.
        reason = getattr(error, "strerror", None) or quote(str(error)) or type(error).__name__
        raise _MayHealError(reason) from error


class _MayHealError(Exception):
    """A failure that a retry may resolve; ``answer`` is the server's answer, if there was one."""

    def __init__(self, message: str, answer: Response | None = None) -> None:
        super().__init__(message)
        self.answer = answer


def _judge(target: RequestTarget, response: httpx.Response, cap: int) -> Response | RequestTarget:
    status, headers = response.status_code, dict(response.headers.items())
    if status in _REDIRECTS:
        following = target.follow(headers.get("location", ""))
        if response.request.method == "POST" and (status not in _KEEPS_METHOD or following.origin != target.origin):
            raise UnsafeTransfer(f"expected an answer, found a redirect to {quote(following.url)}", where=target.url)
        _body(response, _ERROR_CAP)
        return following
    if status == 206 or "content-range" in headers:
        raise UnsafeTransfer("expected the whole file, found an unrequested part (206)", where=target.url)
    kind = headers.get("content-type", "")
    if status != 200:
        answer = Response(target.url, _body(response, _ERROR_CAP)[:cap], kind, status, headers)
        if status in _MAY_HEAL and not is_limited(status, headers):
            raise _MayHealError(f"the server answered {status}", answer)
        return answer
    encoding = headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise UnsafeTransfer(f"expected no content encoding, found {quote(encoding)}", where=target.url)
    announced = "" if "transfer-encoding" in headers else headers.get("content-length", "")
    if announced and int(announced) > cap:
        raise WrongBytes(f"expected at most {cap} bytes, the server announced {announced}", where=target.url)
    data = _body(response, cap)
    if len(data) > cap:
        raise WrongBytes(f"expected at most {cap} bytes, found more", where=target.url)
    return Response(target.url, data, kind, status, headers)


def _body(response: httpx.Response, cap: int) -> bytes:
    """Return the body without decoding it; a body longer than ``cap`` is cut at some point after it."""
    body = bytearray()  # a list of parts could take fifty bytes for each byte of the body
    for part in response.iter_raw():
        body += part
        if len(body) > cap:
            break
    return bytes(body)


@dataclass(slots=True)
class _Exchange:
    """One request to one target and its answer, on a new connection if ``fresh``."""

    target: RequestTarget
    deadline: Deadline
    proxy: Proxy | None
    fresh: bool
    received: int = 0
    delivered: int = 0

    def receive(self, count: int) -> None:
        """Count bytes from the connection.

        Raises:
            RemoteProtocolError: too many of them are not body.
        """
        self.received += count
        if self.received > _OVERHEAD_MAX + self.delivered * (1 + _OVERHEAD_PER_BYTE):
            raise httpcore.RemoteProtocolError("the server sends too many bytes around its answer")

    def deliver(self, part: bytes) -> bytes:
        """Report and count bytes of the body, which extend the deadline, and return them."""
        self.deadline.arrived(len(part))
        self.delivered += len(part)
        self.deadline.extend(len(part))
        return part


# A context variable, since httpcore passes only timeouts to a connection, which outlives the request that opened it.
_EXCHANGE: ContextVar[_Exchange] = ContextVar("exchange of this thread")


class _Transport(httpx.BaseTransport):
    """Sends each request of httpx to the judged target, over connections that are kept alive.

    ``Http`` calls it without a ``httpx.Client``, which would look for cookies, redirects and logins in every answer,
    and keep each answer until garbage is collected.
    """

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        self._mutex = threading.Lock()
        self._network = _Network()
        # Connections without a pool of httpcore, which inspects all its connections for every request.
        self._connections: set[httpcore.ConnectionInterface] = set()
        # By origin and ``public_only``: a request for public addresses only must not use a connection that a person's
        # request opened, which may go to a private address.
        self._idle: defaultdict[tuple[str, bool], list[httpcore.ConnectionInterface]] = defaultdict(list)

    @property
    def private(self) -> Set[str]:
        """The origins that were found in a private network, and never on the public internet."""
        return self._network.private - self._network.public

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request of this thread's exchange, and return the answer with an unread body."""
        exchange = _EXCHANGE.get()
        target = exchange.target
        authority = target.origin.partition("://")[2]
        host, port = authority.rpartition(":")[0], target.port if authority == target.authority else None
        url = httpcore.URL(scheme=target.scheme, host=host, port=port, target=target.raw_path)
        inner_request = httpcore.Request(request.method, url, headers=request.headers.raw, content=request.content)
        connection = self._connection(exchange, url.origin)
        with ExitStack() as undo:
            undo.callback(self._drop, connection)
            found = connection.handle_request(inner_request)
            if not exchange.received:
                found.close()  # these bytes followed the previous answer
                raise httpcore.RemoteProtocolError("the server answered before the request")
            undo.pop_all()
        idle = self._idle[target.origin, target.public_only]
        closed = partial(self._drop, connection) if exchange.fresh else partial(idle.append, connection)
        body = _Body(found, exchange, closed)
        return httpx.Response(found.status, headers=found.headers, stream=body, request=request)

    def close(self) -> None:
        """Close every connection."""
        while self._connections:
            self._connections.pop().close()

    def _drop(self, connection: httpcore.ConnectionInterface) -> None:
        self._connections.discard(connection)
        connection.close()

    def _connection(self, exchange: _Exchange, origin: httpcore.Origin) -> httpcore.ConnectionInterface:
        """Return an idle connection to the target, the most recently used one; a new one if there is none."""
        target, proxy = exchange.target, exchange.proxy
        with suppress(IndexError):
            while not exchange.fresh:
                connection = self._idle[target.origin, target.public_only].pop()
                if not (connection.is_closed() or connection.has_expired()):
                    return connection
                self._drop(connection)
        with self._mutex:  # so that only one thread reads the certificate authorities
            if target.scheme == "https" and self._tls is None:
                self._tls = ssl.create_default_context()
        tls = self._tls if target.scheme == "https" else None
        connection = httpcore.HTTPConnection(origin, tls, network_backend=self._network)
        if proxy is not None:
            url = httpcore.URL(scheme="http", host=proxy.host, port=proxy.port)
            headers = [("Proxy-Authorization", proxy.authorization)] if proxy.authorization else []
            proxied = httpcore.HTTPProxy(url, ssl_context=tls, proxy_headers=headers, network_backend=self._network)
            connection = proxied.create_connection(origin)
        self._connections.add(connection)
        return connection


class _Body(httpx.SyncByteStream):
    """The body of an answer, whose bytes are counted; ``close`` calls ``closed``."""

    def __init__(self, response: httpcore.Response, exchange: _Exchange, closed: Callable[[], None]) -> None:
        self._response, self._exchange, self._closed = response, exchange, closed

    def __iter__(self) -> Iterator[bytes]:
        return map(self._exchange.deliver, self._response.iter_stream())

    def close(self) -> None:
        try:
            self._response.close()
        finally:
            self._closed()


class _Network(httpcore.NetworkBackend):
    """A network backend that connects to judged addresses only.

    Attributes:
        public: The origins that were found on the public internet.
        private: The origins that were found in a private network when a person's own URL led there. After another
            request the name may lead elsewhere than to the server of the document (DNS rebinding).
    """

    def __init__(self) -> None:
        self.public: set[str] = set()
        self.private: set[str] = set()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Return a connection to the target of this thread's exchange, or to its proxy.

        A name is looked up once, and only the judged addresses are tried.

        Raises:
            UnsafeTransfer: the target is for public addresses only, and an address is not public.
            OSError: the connection fails.
        """
        exchange = _EXCHANGE.get()
        target, deadline = exchange.target, exchange.deadline
        limits = deadline.left(), deadline.arrived
        addresses = judged(target, *limits, is_proxied=exchange.proxy is not None)
        if exchange.proxy is not None:
            return _Stream(_dial(look_up(host, port, *limits), deadline))
        stream = _Stream(_dial(addresses, deadline))
        # Only without a proxy, behind which the address of the target is unknown.
        if stream.public:
            self.public.add(target.origin)
        elif target.public_only:
            stream.close()
            raise UnsafeTransfer("leads into a private network", where=target.url)
        elif target.is_place:
            self.private.add(target.origin)
        return stream


class _Stream(httpcore.NetworkStream):
    """A connection whose waits are bounded by the deadline of this thread's exchange.

    The timeouts of httpcore are ignored, since each bounds a single wait.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    @property
    def public(self) -> bool:
        """Whether the peer is on the public internet."""
        return is_public(str(self._sock.getpeername()[0]))

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next bytes; empty at the end."""
        exchange = _EXCHANGE.get()
        data = exchange.deadline.wait(lambda seconds: self._waiting(seconds).recv(max_bytes))
        exchange.receive(len(data))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all bytes of ``buffer``."""
        while buffer:
            buffer = buffer[_EXCHANGE.get().deadline.wait(partial(self._send, buffer)) :]

    def _send(self, data: bytes, seconds: float) -> int:
        return self._waiting(seconds).send(data)

    def _waiting(self, seconds: float) -> socket.socket:
        """Return the socket, whose next wait is limited to so many seconds."""
        self._sock.settimeout(seconds)
        return self._sock

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Return the connection with TLS, after verifying the server's certificate."""
        with ExitStack() as undo:
            undo.callback(self.close)
            name = (server_hostname or "").strip("[]")
            sock = ssl_context.wrap_socket(self._sock, server_hostname=name, do_handshake_on_connect=False)
            secure = _Stream(sock)
            undo.callback(secure.close)
            _EXCHANGE.get().deadline.wait(partial(_shake_hands, sock))
            undo.pop_all()
        return secure

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - as httpcore has it
        """Return a property of the connection that httpcore asks for; None if it is unknown."""
        if info == "ssl_object" and isinstance(self._sock, ssl.SSLSocket):
            return self._sock
        if info == "is_readable":  # on an idle connection: it was closed, or has bytes that no request asked for
            return _is_readable(self._sock)
        return None


def _shake_hands(sock: ssl.SSLSocket, seconds: float) -> None:
    sock.settimeout(seconds)
    sock.do_handshake()


def _is_readable(sock: socket.socket) -> bool:
    if isinstance(sock, ssl.SSLSocket) and sock.pending():
        return True
    if not hasattr(select, "poll"):  # Windows, whose select has no limit on the number of a descriptor
        return bool(select.select([sock], [], [], 0)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _dial(addresses: list[tuple[str, int]], deadline: Deadline) -> socket.socket:
    """Return a connection to the first reachable address; the remaining time is divided among the addresses."""
    failed = OSError("the host has no address")
    for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
        try:
            sock = deadline.wait(partial(socket.create_connection, address), 1 / left)
        except OSError as error:
            failed = error
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    raise failed
