"""Fetching over http and https, from servers that are not trusted."""

from __future__ import annotations

import http.client
import ssl
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Self

from skillhub.errors import SourceError, UnsafeTransfer, WrongBytes
from skillhub.model.text import quote
from skillhub.model.url import errors_masked
from skillhub.world.fetch import Answer, Web, is_limited
from skillhub.world.hop import Hop, judge
from skillhub.world.named_by import PERSON, NamedBy
from skillhub.world.wire import Clock, Patience, Wire

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 5
_SMALL = 65536  # What is read of a page that says "not found", so that the connection can be used again.
_MAY_HEAL = frozenset({408, 429, 500, 502, 503, 504})


Credentials = Callable[[Hop], str | None]  # the value of ``Authorization`` that a person has for an origin


@dataclass(frozen=True, slots=True)
class _Request:
    """What is the same for each hop; ``first`` is the origin of the URL."""

    cap: int
    clock: Clock
    first: str
    headers: Mapping[str, str]

    def fields(self, hop: Hop, credentials: Credentials | None) -> str:
        """Return the fields to send to ``hop``; who asks is told to nobody but the origin that it is meant for."""
        sent = {"Accept": "*/*"} | {name.title(): value for name, value in self.headers.items()}
        if hop.origin != self.first:
            sent.pop("Authorization", None)
        elif credentials and hop.told and "Authorization" not in sent:
            known = credentials(hop)
            if known is not None:
                sent["Authorization"] = known
        return "".join(f"{name}: {value}\r\n" for name, value in sent.items() if _is_field(value))


def _is_field(value: str) -> bool:
    # A line break would begin another field, or another request; what is empty is there to say that nothing is sent.
    return value != "" and value.isascii() and value.isprintable()


class Http(Web):
    """A ``Web`` over the network; connections are kept and shared by all threads.

    Args:
        tls: What to trust for https; by default the system's certificate authorities.
        patience: When to give up on a server.
        credentials: Asked for each origin that may be told who asks, and for no other.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        patience: Patience | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        if tls is not None:
            self._tls = tls
        self._patience = patience or Patience()
        self._credentials = credentials
        # Guarded connections are apart: one that a person's request made may lead where others must not go.
        self._idle: defaultdict[tuple[str, bool], deque[Wire]] = defaultdict(deque)
        self._private: set[str] = set()

    @errors_masked()
    def ask(
        self, url: str, *, cap: int, named_by: NamedBy = PERSON, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Return what the server answers, as ``Web.ask`` promises.

        Raises:
            SourceError, WrongBytes, UnsafeTransfer: see there.
        """
        hop = judge(url, named_by, self._private)
        request = _Request(cap, Clock(self._patience), hop.origin, headers or {})
        for _ in range(1 + _MAX_REDIRECTS):
            found = self._patiently(hop, request)
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

    def _patiently(self, hop: Hop, request: _Request) -> Answer | Hop:
        """Ask, and ask again on a new connection while that may help."""
        pauses = iter(self._patience.pauses)
        fresh = False
        while True:
            try:
                return self._once(hop, request, fresh)
            except _MayHealError as broken:
                pause = next(pauses, None)
                if pause is None:
                    if broken.answer is not None:
                        return broken.answer
                    raise SourceError(f"cannot fetch it: {broken}", where=hop.url) from broken
                time.sleep(pause)
                fresh = True

    def _once(self, hop: Hop, request: _Request, fresh: bool) -> Answer | Hop:
        with _as_ours(hop):
            wire = self._wire(hop, request.clock, fresh)
            try:
                return _judge(hop, wire.ask(hop, request.fields(hop, self._credentials)), request.cap)
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
        # What the system says of it, without its number.
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise _MayHealError(said) from error


class _MayHealError(Exception):
    """The same request may go well next time; ``answer`` is what the server said, if it said anything."""

    def __init__(self, message: str, answer: Answer | None = None) -> None:
        super().__init__(message)
        self.answer = answer


def _judge(hop: Hop, response: http.client.HTTPResponse, cap: int) -> Answer | Hop:
    status = response.status
    if status in _REDIRECTS:
        return hop.follow(response.getheader("Location") or "")
    if status == 206 or response.getheader("Content-Range") is not None:
        raise UnsafeTransfer("expected the whole, found a part that nobody asked for (206)", where=hop.url)
    headers = {name.lower(): value for name, value in response.getheaders()}
    kind = headers.get("content-type", "")
    if status != 200:
        answer = Answer(hop.url, response.read(min(cap, _SMALL)), kind, status, headers)
        if status in _MAY_HEAL and not is_limited(status, headers):
            raise _MayHealError(f"the server answered {status}", answer)
        return answer
    encoding = headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise UnsafeTransfer(
            f"expected the bytes as they are, found them as {quote(encoding)}", where=hop.url
        )
    return Answer(hop.url, _body(hop, response, cap), kind, status, headers)


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
