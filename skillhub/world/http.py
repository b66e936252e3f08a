"""Fetching over http and https, for servers that nobody vouches for."""

from __future__ import annotations

import http.client
import ssl
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from types import TracebackType
from typing import Self

from skillhub.errors import NotFound, SourceError, UnsafeTransfer, WrongBytes
from skillhub.model.text import quote
from skillhub.world.fetch import Answer
from skillhub.world.hop import Hop
from skillhub.world.wire import Clock, Patience, Wire

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 5
_SMALL = 65536  # What is read of a page that says "not found", so that the connection can be used again.
_ABSENT = frozenset({403, 404, 410})
_MAY_HEAL = frozenset({408, 429, 500, 502, 503, 504})


class Http:
    """A ``Fetcher`` over the network; connections are kept and shared by all threads.

    Args:
        tls: What to trust for https; by default the system's certificate authorities.
        patience: When to give up on a server.
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None, patience: Patience | None = None) -> None:
        if tls is not None:
            self._tls = tls
        self._patience = patience or Patience()
        # Guarded connections are apart: one that a person's request made may lead where others must not go.
        self._idle: defaultdict[tuple[str, bool], deque[Wire]] = defaultdict(deque)
        self._private: set[str] = set()

    def get(self, url: str, *, cap: int, named_by: str | None = None) -> Answer:
        """Return what is at ``url``, as ``Fetcher.get`` promises.

        Raises:
            NotFound, SourceError, WrongBytes, UnsafeTransfer: see there.
        """
        hop = self._first(url, named_by)
        clock = Clock(self._patience)
        for _ in range(1 + _MAX_REDIRECTS):
            found = self._patiently(hop, cap, clock)
            if isinstance(found, Answer):
                return found
            hop = found
        raise UnsafeTransfer(f"expected at most {_MAX_REDIRECTS} redirects, found more", where=url)

    def close(self) -> None:
        """Close every idle connection."""
        for wires in self._idle.values():
            while wires:
                wires.pop().hang_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def _first(self, url: str, named_by: str | None) -> Hop:
        hop = Hop.parse(url)
        if named_by is None:
            return hop
        site = Hop.parse(named_by)
        if hop.origin == site.origin:
            return hop
        inside = site.loopback or site.origin in self._private
        if hop.scheme != "https" and not (inside and hop.loopback):
            raise UnsafeTransfer(f"expected https, found {quote(url)}", where=named_by)
        return Hop.parse(url, guarded=not inside)

    def _patiently(self, hop: Hop, cap: int, clock: Clock) -> Answer | Hop:
        """Ask, and ask again on a new connection while that may help."""
        pauses = iter(self._patience.pauses)
        fresh = False
        while True:
            try:
                return self._once(hop, cap, clock, fresh)
            except _MayHealError as broken:
                pause = next(pauses, None)
                if pause is None:
                    raise SourceError(f"cannot fetch it: {broken}", where=hop.url) from broken
                time.sleep(pause)
                fresh = True

    def _once(self, hop: Hop, cap: int, clock: Clock, fresh: bool) -> Answer | Hop:
        with _as_ours(hop):
            wire = self._wire(hop, clock, fresh)
            try:
                return _judge(hop, wire.ask(hop), cap)
            finally:
                if wire.at_rest:
                    self._idle[hop.origin, hop.guarded].append(wire)
                else:
                    wire.hang_up()

    def _wire(self, hop: Hop, clock: Clock, fresh: bool) -> Wire:
        if not fresh:
            with suppress(IndexError):
                wire = self._idle[hop.origin, hop.guarded].pop()
                wire.clock = clock
                return wire
        return self._connect(hop, clock)

    def _connect(self, hop: Hop, clock: Clock) -> Wire:
        wire = Wire.connect(hop, self._tls if hop.scheme == "https" else None, clock)
        if not wire.public:
            self._private.add(hop.origin)
        return wire


@contextmanager
def _as_ours(hop: Hop) -> Iterator[None]:
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        hint = "the system's certificate authorities decide; SSL_CERT_FILE names others"
        message = f"the server cannot prove who it is: {error.verify_message}"
        raise UnsafeTransfer(message, where=hop.url, hint=hint) from error
    except TimeoutError as error:
        raise SourceError(f"cannot fetch it in time: {error}", where=hop.url) from error
    except (OSError, http.client.HTTPException) as error:
        raise _MayHealError(str(error) or type(error).__name__) from error


class _MayHealError(Exception):
    """The same request may go well next time."""


def _judge(hop: Hop, response: http.client.HTTPResponse, cap: int) -> Answer | Hop:
    status = response.status
    if status in _REDIRECTS:
        return hop.follow(response.getheader("Location") or "")
    if status in _MAY_HEAL:
        raise _MayHealError(f"the server answered {status}")
    if status in _ABSENT:
        response.read(_SMALL)
        raise NotFound(f"there is nothing: the server answered {status}", where=hop.url)
    if status == 206 or response.getheader("Content-Range") is not None:
        raise UnsafeTransfer("expected the whole, found a part that nobody asked for (206)", where=hop.url)
    if status != 200:
        raise SourceError(f"expected 200, the server answered {status}", where=hop.url)
    encoding = response.getheader("Content-Encoding") or "identity"
    if encoding.lower() != "identity":
        raise UnsafeTransfer(
            f"expected the bytes as they are, found them as {quote(encoding)}", where=hop.url
        )
    return Answer(hop.url, _body(hop, response, cap), response.getheader("Content-Type") or "")


def _body(hop: Hop, response: http.client.HTTPResponse, cap: int) -> bytes:
    announced = response.length
    if announced is not None and announced > cap:
        raise WrongBytes(f"expected at most {cap} bytes, the server announced {announced}", where=hop.url)
    parts, missing = [], cap + 1
    while missing and (part := response.read(min(missing, 1 << 20))):
        parts.append(part)
        missing -= len(part)
    if not missing:
        raise WrongBytes(f"expected at most {cap} bytes, found more", where=hop.url)
    data = b"".join(parts)
    if announced is not None and len(data) < announced:
        raise _MayHealError(f"the connection broke after {len(data)} of {announced} bytes")
    return data
