"""The application of all routes: reads requests strictly, answers errors in one form, adds nothing that may run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from anyio import to_thread
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from skillhub.answers import VERSION
from skillhub.answers.http_api import FileTaken, openapi
from skillhub.audit.workplace import Workplace
from skillhub.errors import FormatError, NotFound, OutsideSkill, SkillhubError, UsageError
from skillhub.formats.document import faults
from skillhub.formats.json import strict_json
from skillhub.registry.rendering import STYLE
from skillhub.server.content import ServedContent
from skillhub.server.events import ChangeStreams
from skillhub.server.guard import BODY_MAX, AccessRules, Guard, error_response
from skillhub.server.mcp import McpEndpoint
from skillhub.server.page import PAGE_HEADERS, StatusPage
from skillhub.server.routes import EVENTS, FILE, ROUTES, Route

_THREADS: Final = 8
_STATUS: Final = {2: 400, 3: 502, 4: 409, 5: 409, 6: 403, 7: 503}  # by the exit status of a command


def application(workplace: Workplace, access: AccessRules, changes: ChangeStreams) -> Guard:
    """Return the application: every route behind the guard.

    Args:
        workplace: What is served.
        access: Which requests are answered.
        changes: The streams of changes.
    """

    content = ServedContent(workplace.around, everything=True)
    page, mcp = StatusPage(workplace), McpEndpoint(ServedContent(workplace.around))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        # More would wait for each other, and take memory.
        to_thread.current_default_thread_limiter().total_tokens = _THREADS
        async with mcp.running():
            yield

    async def document(request: Request) -> Response:
        return _json(openapi(ROUTES, f"http://{request.headers['host']}", has_token=access.token is not None))

    async def shown(request: Request) -> Response:
        number = request.query_params.get("page", "1")
        number = number[:9] if number.isascii() and number.isdigit() else "1"
        text = await run_in_threadpool(page.text, int(number))
        return Response(text, media_type="text/html", headers=PAGE_HEADERS)

    async def events(request: Request) -> Response:
        after = request.headers.get("last-event-id", "")
        number = int(after) if after.isascii() and after.isdigit() and len(after) < 16 else None
        return await changes.stream(number)

    async def file(request: Request) -> Response:
        taken = FileTaken.model_validate(_parameters(request))
        return _file((await run_in_threadpool(content.read, taken.name, taken.path))[1])

    special = {EVENTS: events, FILE: file}
    routes = [
        StarletteRoute(
            each.path.replace("{path}", "{path:path}"),
            special.get(each.path) or partial(_answer, workplace, each),
            methods=[each.method],
        )
        for each in ROUTES
    ]
    style: Any = Response(STYLE, media_type="text/css")
    own = [("/openapi.json", document), ("/", shown), ("/style.css", style)]
    routes += [StarletteRoute(path, run, methods=["GET"]) for path, run in own]
    routes.append(StarletteRoute("/mcp", mcp))
    handlers: dict[Any, Any] = {
        SkillhubError: partial(_failed, workplace),
        ValidationError: _invalid,
        HTTPException: _no_route,
        Exception: partial(_bug, workplace),
    }
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False
    return Guard(app, access)


async def _answer(workplace: Workplace, route: Route, request: Request) -> Response:
    taken = await _taken(route, request)
    value = await run_in_threadpool(route.answer, workplace, taken)
    return Response(status_code=204) if value is None else _json(value)


async def _taken(route: Route, request: Request) -> Any:  # noqa: ANN401 - a value of `route.takes`
    """Return what a request gives, read strictly.

    Raises:
        UsageError: a name is given twice, or the body is no JSON.
        HTTPException: the body has another type.
        ValidationError: it is not what the route takes.
    """
    given = _parameters(request)
    if route.method == "GET":
        return route.takes.model_validate(given)
    if given:
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
    given = {**dict(pairs), **request.path_params}
    if len(given) != len(pairs) + len(request.path_params):
        raise UsageError("expected each parameter once")
    return given


def _json(value: object, status: int = 200) -> Response:
    # ASCII, so that a path whose bytes are no UTF-8 is no reason to fail.
    return Response(json.dumps(value, separators=(",", ":")), status, media_type="application/json")


def _file(data: bytes) -> Response:
    """Return a file of a skill: as plain text or as bytes to keep, whatever its name says; a browser runs neither."""
    try:
        is_text = b"\0" not in data and data.decode("utf-8") is not None
    except UnicodeDecodeError:
        is_text = False
    if is_text:
        return Response(data, media_type="text/plain")
    return Response(data, media_type="application/octet-stream", headers={"Content-Disposition": "attachment"})


async def _failed(workplace: Workplace, request: Request, error: SkillhubError) -> Response:
    status = 404 if isinstance(error, NotFound | OutsideSkill) else _STATUS.get(error.exit_code, 500)
    return _json({"schema": VERSION, **workplace.error_json(error)}, status)


async def _invalid(request: Request, error: ValidationError) -> Response:
    return error_response(400, faults(error))


async def _no_route(request: Request, error: HTTPException) -> Response:
    message = "there is no such route" if error.status_code == 404 else error.detail
    return error_response(error.status_code, message, "GET /openapi.json lists the routes", error.headers)


async def _bug(workplace: Workplace, request: Request, error: Exception) -> Response:
    # The type alone: a message may hold anything.
    workplace.warn(f"warning: {request.url.path}: unexpected {type(error).__name__}")
    return error_response(500, f"unexpected {type(error).__name__}")
