"""The HTTP server: the listening process, the application with all routes, the status page, the stream of changes.

Requests are read strictly, errors have one form, and no answer contains a script.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock
from time import monotonic
from typing import Any, Final

import uvicorn
from anyio import to_thread
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from skillhub import __version__
from skillhub.answers import VERSION, error_json
from skillhub.answers.http_api import FileParameters, openapi
from skillhub.errors import FormatError, NotFound, OutsideSkill, SkillhubError, StateError, UsageError
from skillhub.formats.document import faults
from skillhub.formats.json import strict_json
from skillhub.formats.text import quote
from skillhub.model.finding import DECLARATIONS_UNKNOWN, in_words
from skillhub.model.hosts import profile, profiles
from skillhub.model.skill import Skill
from skillhub.net.target import is_loopback
from skillhub.registry.rendering import STYLE, environment
from skillhub.runtime.agent import changes
from skillhub.runtime.catalog import Catalog
from skillhub.runtime.overview import section
from skillhub.scan.views import is_text
from skillhub.server.content import ServedContent
from skillhub.server.guard import BODY_MAX, HEADERS_MAX, TARGET_MAX, AccessRules, Guard, error_response
from skillhub.server.headers import NOTHING_LOADS
from skillhub.server.mcp import http_sessions
from skillhub.server.routes import EVENTS, FILE, ROUTES, Route, Workplace

# The stream of changes: every listening client gets an event when the skills that agents find change.

STREAMS_MAX: Final = 64
_KEPT: Final = 100
_HEARTBEAT: Final = 15.0


class ChangeStreams:
    """The event streams of all clients.

    Skills are watched while a stream is open; the last hundred events are kept for clients that reconnect.

    Args:
        workplace: The project or user scope.
        interval: The seconds between two polls, where the system cannot report changes of files.
    """

    def __init__(self, workplace: Workplace, interval: float = 2.0) -> None:
        self._workplace, self._interval = workplace, interval
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)
        self._streams = 0
        self._new_event = asyncio.Event()
        self._stop = Event()
        self._watch_task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._is_closed = False

    def close(self) -> None:
        """End every stream."""
        self._is_closed = True
        self._stop.set()
        self._new_event.set()

    async def stream(self, after: int | None) -> Response:
        """Return a stream of the kept events after number ``after``, and of all later ones; None skips kept events.

        A slow client misses events that are no longer kept.

        Raises:
            StateError: too many streams are open, or the server ends.
        """
        if self._streams >= STREAMS_MAX or self._is_closed:
            raise StateError(f"expected at most {STREAMS_MAX} open streams", hint="close one, or ask again later")
        self._streams += 1
        with ExitStack() as undo:
            undo.callback(self._close_stream)
            await self._ensure_watching()
            undo.pop_all()
        last = self._last_number if after is None else after
        # A number beyond the last event is from an earlier server, so the client gets all kept events.
        return _Stream(self._events(last if last <= self._last_number else 0), self._close_stream)

    async def _events(self, last: int) -> AsyncIterator[bytes]:
        yield f"retry: 2000\nid: {last}\n\n".encode()
        while not self._is_closed:
            new_event = self._new_event
            for number, text in [each for each in self._kept if each[0] > last]:
                last = number
                yield text
            try:
                await asyncio.wait_for(new_event.wait(), _HEARTBEAT)
            except TimeoutError:
                yield b": no change\n\n"
                await self._ensure_watching()

    def _close_stream(self) -> None:
        self._streams -= 1
        if self._streams == 0:
            self._stop.set()

    async def _ensure_watching(self) -> None:
        """Start watching for changes, unless a watch is running."""
        async with self._starting:
            if self._watch_task is None or self._watch_task.done() or self._stop.is_set():
                _, catalog = await asyncio.to_thread(self._workplace.catalog_for, "agents")
                self._stop = Event()
                watch = asyncio.to_thread(self._watch, catalog, asyncio.get_running_loop(), self._stop)
                self._watch_task = asyncio.create_task(watch)

    @property
    def _last_number(self) -> int:
        return self._kept[-1][0] if self._kept else 0

    def _watch(self, catalog: Catalog, loop: asyncio.AbstractEventLoop, stop: Event) -> None:
        for new_catalog in changes(profile("agents"), self._workplace.around, catalog, stop, self._interval):
            if not stop.is_set():
                loop.call_soon_threadsafe(self._publish, _difference(catalog, new_catalog))
            catalog = new_catalog

    def _publish(self, change: dict[str, Any]) -> None:
        number = self._last_number + 1
        text = json.dumps({"schema": VERSION, **change})
        self._kept.append((number, f"event: change\nid: {number}\ndata: {text}\n\n".encode()))
        new_event, self._new_event = self._new_event, asyncio.Event()
        new_event.set()


class _Stream(StreamingResponse):
    """A response that calls ``leave`` at its end, even after an error."""

    def __init__(self, events: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._close_stream = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close_stream()


def _difference(before: Catalog, after: Catalog) -> dict[str, list[str]]:
    old, new = ({skill.path or skill.name: skill for skill in catalog.skills} for catalog in (before, after))
    return {
        "added": sorted(new.keys() - old.keys()),
        "removed": sorted(old.keys() - new.keys()),
        "changed": sorted(path for path in new.keys() & old.keys() if new[path] != old[path]),
    }


# The page of the installed skills; every text of a skill is escaped, and the page has no script.

PER_PAGE: Final = 50
_FINDINGS: Final = 20
_NAMES: Final = 40
_FRESH: Final = 1.0
_TEMPLATES: Final = environment("skillhub.server")
PAGE_HEADERS: Final = {"Content-Security-Policy": f"{NOTHING_LOADS}; style-src 'self'"}


class StatusPage:
    """The status page; the slowest part, the skills that each agent sees, is read at most once a second."""

    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace
        self._lock = Lock()
        self._agents: list[tuple[dict[str, Any], Catalog]] = []
        self._read_at = -_FRESH

    def text(self, number: int) -> str:
        """Return page ``number`` of the skills, from 1; a number past the end gives the last page."""
        workplace = self._workplace
        every = workplace.skills()
        last_page = max(1, -(-len(every) // PER_PAGE))
        number = min(max(1, number), last_page)
        with self._lock:
            if monotonic() - self._read_at >= _FRESH:
                self._agents, self._read_at = [*_agents(workplace)], monotonic()
            agents = self._agents
        reasons = {skill.path: skill.why for _, catalog in agents for skill in catalog.skills if skill.held}
        return _TEMPLATES.get_template("page.html").render(
            version=__version__,
            folder=workplace.around.cwd,
            total=len(every),
            number=number,
            last=last_page,
            skills=[_row(workplace, skill, reasons) for skill in every[(number - 1) * PER_PAGE : number * PER_PAGE]],
            agents=[row for row, _ in agents],
            most=_NAMES,
        )


def _row(workplace: Workplace, skill: Skill, reasons: Mapping[str | None, Mapping[str, str]]) -> dict[str, Any]:
    contents = workplace.contents(skill)
    links = (skill.path, *skill.links)
    return {
        "skill": skill,
        "why": next((reasons[link] for link in links if link in reasons), None),
        "signers": [f"{each.named(skill.vouched_by)} ({each.kind} {each.fingerprint})" for each in skill.signed_by],
        "can": "unknown" if contents.capabilities is None else in_words(contents.capabilities),
        "unread": contents.capabilities is None or not {*DECLARATIONS_UNKNOWN}.isdisjoint(contents.capabilities),
        "open": [need for need in skill.requires if need.open],
        "fault": contents.fault,
        "findings": contents.findings[:_FINDINGS],
        "more": max(0, len(contents.findings) - _FINDINGS),
    }


def _agents(workplace: Workplace) -> Iterator[tuple[dict[str, Any], Catalog]]:
    for host in profiles():
        row, catalog = workplace.catalog_for(host)
        listing = section(catalog, row)
        share = min(100, round(100 * listing.used / listing.budget)) if listing.budget else None
        yield {"name": row.name, "seen": listing, "share": share, "skills": catalog.skills}, catalog


_THREADS: Final = 8
_STATUS: Final = {2: 400, 3: 502, 4: 409, 5: 409, 6: 403, 7: 503}  # by the exit status of a command


def application(workplace: Workplace, access: AccessRules, changes: ChangeStreams) -> Guard:
    """Return the application: every route behind the guard.

    Args:
        workplace: The project or user scope.
        access: The rules for requests.
        changes: The streams of changes.
    """

    content = ServedContent(workplace.around, everything=True)
    page, mcp = StatusPage(workplace), http_sessions(ServedContent(workplace.around))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # More threads would only wait for each other, and take memory.
        to_thread.current_default_thread_limiter().total_tokens = _THREADS
        async with mcp.run():
            yield

    async def document(request: Request) -> Response:
        return _json(openapi((*ROUTES,), f"http://{request.headers['host']}", has_token=access.token is not None))

    async def status_page(request: Request) -> Response:
        number = request.query_params.get("page", "1")
        number = number[:9] if number.isascii() and number.isdigit() else "1"
        text = await run_in_threadpool(page.text, int(number))
        return Response(text, media_type="text/html", headers=PAGE_HEADERS)

    async def events(request: Request) -> Response:
        after = request.headers.get("last-event-id", "")
        number = int(after) if after.isascii() and after.isdigit() and len(after) < 16 else None
        return await changes.stream(number)

    async def file(request: Request) -> Response:
        params = FileParameters.model_validate(_parameters(request))
        return _file((await run_in_threadpool(content.read, params.name, params.path))[1])

    own: dict[str, Any] = {EVENTS: events, FILE: file, "/openapi.json": document, "/": status_page}
    own["/style.css"] = Response(STYLE, media_type="text/css")
    answers = [(each.path, partial(_answer, workplace, each), each.method) for each in ROUTES if each.path not in own]
    routes = [
        StarletteRoute(path.replace("{path}", "{path:path}"), run, methods=[method])
        for path, run, method in (*answers, *((path, run, "GET") for path, run in own.items()))
    ]
    routes.append(StarletteRoute("/mcp", mcp))
    handlers: dict[Any, Any] = {
        SkillhubError: _failed,
        ValidationError: _invalid,
        HTTPException: _no_route,
        Exception: partial(_bug, workplace),
    }
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False
    return Guard(app, access)


async def _answer(workplace: Workplace, route: Route, request: Request) -> Response:
    value = await run_in_threadpool(route.answer, workplace, await _read_params(route, request))
    return Response(status_code=204) if value is None else _json(value)


async def _read_params(route: Route, request: Request) -> Any:  # noqa: ANN401 - a value of `route.takes`
    """Return the input of a request, read strictly.

    Raises:
        UsageError: a parameter occurs twice, a POST has parameters in its URL, or the body is not JSON.
        HTTPException: the body has another media type.
        ValidationError: the input does not fit ``route.takes``.
    """
    parameters = _parameters(request)
    if route.method == "GET":
        return route.takes.model_validate(parameters)
    if parameters:
        raise UsageError("expected no parameters in the URL")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "expected Content-Type: application/json")
    body = await request.body()
    if route.takes is Any:
        return body
    try:
        value = strict_json(body, "the body", BODY_MAX)
    except FormatError as error:
        raise UsageError(error.message, where=error.where) from error
    return route.takes.model_validate(value, strict=True)


def _parameters(request: Request) -> dict[str, str]:
    pairs = request.query_params.multi_items()
    parameters = {**dict(pairs), **request.path_params}
    if len(parameters) != len(pairs) + len(request.path_params):
        raise UsageError("expected each parameter once")
    return parameters


def _json(value: object, status: int = 200) -> Response:
    # ASCII, so that a path with bytes that are not UTF-8 does not raise.
    return Response(json.dumps(value, separators=(",", ":")), status, media_type="application/json")


def _file(data: bytes) -> Response:
    """Return a file of a skill as plain text or as a download, whatever its name, so that no browser runs it."""
    if is_text(data):
        return Response(data, media_type="text/plain")
    return Response(data, media_type="application/octet-stream", headers={"Content-Disposition": "attachment"})


async def _failed(request: Request, error: SkillhubError) -> Response:
    status = 404 if isinstance(error, NotFound | OutsideSkill) else _STATUS.get(error.exit_code, 500)
    return _json({"schema": VERSION, **error_json(error)}, status)


async def _invalid(request: Request, error: ValidationError) -> Response:
    return error_response(400, faults(error))


async def _no_route(request: Request, error: HTTPException) -> Response:
    message = "there is no such route" if error.status_code == 404 else error.detail
    return error_response(error.status_code, message, "GET /openapi.json lists the routes", error.headers)


async def _bug(workplace: Workplace, request: Request, error: Exception) -> Response:
    # Only the type, since the message may contain untrusted text.
    workplace.warn(f"warning: {request.url.path}: unexpected {type(error).__name__}")
    return error_response(500, f"unexpected {type(error).__name__}")


# The listening process: uvicorn with HTTP/1.1 and limits for slow clients. Its end does not wait for streams.

STALLED: Final = 30.0  # seconds for the head of a request, and for a client that takes no bytes of an answer
_CONNECTIONS: Final = 512
_GRACE: Final = 3


@dataclass(frozen=True, slots=True)
class Address:
    """The address to listen on.

    Attributes:
        host: The host that the user typed.
        ip: The IP address of the host.
        port: The port; 0 for any free one.
    """

    host: str
    ip: str
    port: int

    @classmethod
    def of(cls, host: str, port: int) -> Address:
        """Return the address of a host.

        Raises:
            UsageError: the host has no address, or the port is out of range.
        """
        if not 0 <= port <= 65535:
            raise UsageError(f"expected a port from 0 to 65535, found {port}")
        bare = host.removeprefix("[").removesuffix("]")
        try:
            addresses = socket.getaddrinfo(bare, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except (OSError, UnicodeError) as error:
            raise UsageError(f"expected an address of this machine, found {quote(host)}") from error
        # Of several addresses, take one that other machines can reach, so that ``is_local`` is never wrongly true.
        loopback_last = sorted((str(address[4][0]) for address in addresses), key=is_loopback)
        return cls(bare, loopback_last[0].partition("%")[0], port)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the address."""
        return is_loopback(self.ip)

    def url(self, port: int) -> str:
        """Return the URL for a browser on this machine."""
        ip = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.ip, self.ip)  # noqa: S104 - compared, not listened on
        return f"http://[{ip}]:{port}" if ":" in ip else f"http://{ip}:{port}"

    def listen(self) -> socket.socket:
        """Return a listening socket; connections wait until the server runs.

        Raises:
            StateError: the address is in use, or does not belong to this machine.
        """
        family = socket.AF_INET6 if ":" in self.ip else socket.AF_INET
        try:
            return socket.create_server((self.ip, self.port), family=family, backlog=256)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            hint = "--port 0 takes a free port, --host an address of this machine"
            raise StateError(f"cannot listen: {why}", where=f"{self.host}:{self.port}", hint=hint) from error


def server_of(workplace: Workplace, access: AccessRules) -> uvicorn.Server:
    """Return a server that is not running yet."""
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
    """Announce the server, and answer until Ctrl-C or SIGTERM; then end streams, and give requests three seconds."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        announce()
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # uvicorn raises it again at its end
    finally:
        signal.signal(signal.SIGTERM, before)
        listener.close()


class _Protocol(H11Protocol):
    """HTTP/1.1 of uvicorn, with time limits for the head of a request, and for a client that takes no bytes."""

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
    """A uvicorn server that ends the streams of changes before it waits for open requests."""

    changes: ChangeStreams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then the server."""
        self.changes.close()
        await super().shutdown(sockets)
