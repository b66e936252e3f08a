"""The MCP server, on stdio and over HTTP: skills as resources, prompts and tools."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, BinaryIO, Final

import anyio
import mcp_types as types
from anyio import to_thread
from mcp import MCPError
from mcp.server import subscriptions
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from skillhub import __version__
from skillhub.errors import FormatError, NotFound, SkillhubError, StateError
from skillhub.formats.json import strict_json
from skillhub.formats.text import packaged, quote
from skillhub.model.tree import SKILL_MD
from skillhub.runtime.envelope import inject, told_to_model
from skillhub.runtime.mention_resolver import may_invoke
from skillhub.server.content import (
    DIRECTORY,
    SCHEME,
    ServedContent,
    ServedFile,
    ServedSkill,
    located,
    meta,
    mime_type_of,
    run_tool,
    tool_list,
    uri_of,
    why_not,
)
from skillhub.server.guard import replayed

# Frames of the protocol on stdin and stdout: one JSON value in each line; only this code reads and writes there.

FRAME_MAX = 4 * 1024 * 1024  # bytes of a request, the limit of the SDK over HTTP
_LAST_ANSWERS = 30.0  # seconds for open requests after the end of the input


@dataclass(slots=True)
class Pipe:
    """The two ends of the connection.

    Attributes:
        open_requests: The ids of unanswered requests, without requests for a stream of notifications.
    """

    source: BinaryIO
    target: BinaryIO
    open_requests: set[str | int] = field(default_factory=set)
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def send(self, frame: str) -> None:
        """Write one whole frame.

        Raises:
            OSError: the client closed the connection.
        """
        async with self.lock:
            await to_thread.run_sync(self._write, frame.encode("utf-8", "backslashreplace") + b"\n")

    def _write(self, data: bytes) -> None:
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[self.target.write(remaining) :]

    async def receive(self) -> bytes | None:
        """Return the next line, cut after ``FRAME_MAX`` + 1 bytes; None at the end of the input."""
        read = partial(self.source.readline, FRAME_MAX + 1)
        line = await to_thread.run_sync(read, abandon_on_cancel=True)
        if len(line) > FRAME_MAX:
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = await to_thread.run_sync(read, abandon_on_cancel=True)
        return line or None

    def expect(self, message: Any) -> None:  # noqa: ANN401 - a union of the SDK
        """Remember an open request; forget one that the client cancels, since it gets no answer."""
        if isinstance(message, JSONRPCRequest) and message.method != "subscriptions/listen":
            self.open_requests.add(message.id)
        elif getattr(message, "method", None) == "notifications/cancelled":
            cancelled = (message.params or {}).get("requestId")
            self.open_requests -= {each for each in self.open_requests if each == cancelled}

    async def refuse(self, code: int, message: str, to: object = None) -> None:
        """Answer an invalid or too large message with an error; ``to`` is its id, if it has one."""
        number = to if isinstance(to, (str, int)) and not isinstance(to, bool) else None
        await self.send(_error(code, message, number))


def _error(code: int, message: str, to: str | int | None = None) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": to, "error": {"code": code, "message": message}})


@asynccontextmanager
async def frames(pipe: Pipe) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of messages for the SDK; an invalid message is answered here, and not passed on."""
    to_server, received = anyio.create_memory_object_stream[Any](0)
    answers, from_server = anyio.create_memory_object_stream[Any](0)

    async def read() -> None:
        async with to_server:
            while (line := await pipe.receive()) is not None:
                message = await _message(line, pipe)
                if message is None:
                    continue
                pipe.expect(message)
                await to_server.send(SessionMessage(message))
            with anyio.move_on_after(_LAST_ANSWERS):
                while pipe.open_requests:  # a script may close its end right after its last request
                    await anyio.sleep(0.01)

    async def write() -> None:
        async with from_server:
            async for outgoing in from_server:
                try:
                    await pipe.send(outgoing.message.model_dump_json(by_alias=True, exclude_unset=True))
                except ValueError:
                    number = getattr(outgoing.message, "id", None)
                    await pipe.refuse(types.INTERNAL_ERROR, "the answer is no text", number)
                if not hasattr(outgoing.message, "method"):
                    pipe.open_requests.discard(outgoing.message.id)

    async def until_gone(work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except OSError:  # the client closed the connection
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(until_gone, read)
        tasks.start_soon(until_gone, write)
        yield received, answers
        tasks.cancel_scope.cancel()


async def _message(line: bytes, pipe: Pipe) -> Any:  # noqa: ANN401 - a union of the SDK
    if len(line) > FRAME_MAX:
        await pipe.refuse(types.INVALID_REQUEST, f"expected at most {FRAME_MAX} bytes in a message")
        return None
    if not line.strip():
        return None
    try:
        value = strict_json(line, "the message", FRAME_MAX)
    except FormatError as error:
        await pipe.refuse(types.PARSE_ERROR, f"{error.message}; a message is one JSON value in one line")
        return None
    request_id = value.get("id") if isinstance(value, dict) else None
    try:
        # The SDK would take a request with an id of another type, or with null, for a notification.
        is_request = isinstance(value, dict) and "id" in value and "method" in value
        if type(request_id) in (str, int) or (request_id is None and not is_request):
            return jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        pass
    await pipe.refuse(types.INVALID_REQUEST, "expected one JSON-RPC 2.0 message", request_id)
    return None


EXTENSION: Final = "io.modelcontextprotocol/skills"
_PAGE_ROWS, _PAGE_BYTES = 1000, 1024 * 1024
_TTL_MS: Final = 2000  # the same as the interval of notifications
_INTERVAL: Final = 2.0
_AT_ONCE: Final = 4  # requests that read the disk
_COMPLETED_MAX: Final = 100
_SESSIONS_MAX: Final = 1000
_TEMPLATE: Final = "skill://{+path}"
_CACHED: Final[tuple[CacheableMethod, ...]] = (
    *("tools/list", "prompts/list", "resources/list", "resources/read", "resources/templates/list"),
)
INSTRUCTIONS: Final[Mapping[str, str]] = packaged("server/instructions.json")


class FolderParams(types.PaginatedRequestParams):
    """The parameters of ``resources/directory/read``."""

    uri: str


class _Server(Server[Any]):
    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        *args: dict[str, dict[str, Any]] | None,
        **more: dict[str, dict[str, Any]] | None,
    ) -> InitializationOptions:
        """Return the options with list changes and the extension, also for clients that use the older handshake."""
        notifications = notification_options or NotificationOptions(prompts_changed=True, resources_changed=True)
        more = more if args else {"experimental_capabilities": {EXTENSION: {"directoryRead": True}}, **more}
        return super().create_initialization_options(notifications, *args, **more)


class SkillServer:
    """The MCP server of all clients.

    Args:
        content: The skills to serve.
        with_tools: Offer tools for clients without support of resources.
    """

    def __init__(self, content: ServedContent, with_tools: bool = True) -> None:
        self._content = content
        self._sessions: set[Any] = set()
        self._listed: tuple[ServedSkill, ...] | None = None
        self._bus = subscriptions.InMemorySubscriptionBus()
        self._listen = subscriptions.ListenHandler(self._bus)
        self._limiter = anyio.CapacityLimiter(_AT_ONCE)
        self.sdk = self._registered(with_tools)

    def _registered(self, with_tools: bool) -> Server[Any]:
        tools = INSTRUCTIONS["tools"] if with_tools else ""
        server = _Server(
            "skillhub",
            version=__version__,
            title=self._content.title,
            instructions=self._content.instructions or INSTRUCTIONS["installed"].format(tools=tools),
            lifespan=self._watching,
            cache_hints=dict.fromkeys(_CACHED, CacheHint(_TTL_MS, "private")),
        )
        server.middleware.clear()  # it would send traces to a collector
        server.extensions[EXTENSION] = {"directoryRead": True}
        methods: dict[str, tuple[type[types.RequestParams], Callable[[Any], dict[str, Any]]]] = {
            "skills/list": (types.PaginatedRequestParams, self._list),
            "skills/get": (types.ReadResourceRequestParams, self._get),
            "resources/directory/read": (FolderParams, self._folder),
            "resources/list": (types.PaginatedRequestParams, self._resources),
            "resources/read": (types.ReadResourceRequestParams, self._read),
            "resources/templates/list": (types.PaginatedRequestParams, self._templates),
            "prompts/list": (types.PaginatedRequestParams, self._prompts),
            "prompts/get": (types.GetPromptRequestParams, self._prompt),
            "completion/complete": (types.CompleteRequestParams, self._completions),
        }
        if with_tools:
            methods["tools/list"] = types.PaginatedRequestParams, lambda _: {"tools": tool_list()}
            methods["tools/call"] = types.CallToolRequestParams, self._call
        for method, (takes, answer) in methods.items():
            server.add_request_handler(method, takes, self._answering(answer))
        server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, self._listen)
        server.add_notification_handler("notifications/initialized", types.NotificationParams, self._remember)
        return server

    def _answering(self, answer: Callable[[Any], dict[str, Any]]) -> Callable[[Any, Any], Any]:
        """Return a handler that runs ``answer`` in a thread, since it reads the disk, and converts its errors."""

        async def handle(_: object, params: Any) -> dict[str, Any]:  # noqa: ANN401 - of the method
            try:
                result = await to_thread.run_sync(answer, params, limiter=self._limiter)
                return {"resultType": "complete", **result}
            except SkillhubError as error:
                code = types.INTERNAL_ERROR if isinstance(error, StateError) else types.INVALID_PARAMS
                message = told_to_model(error)  # a client may show it to its model
                uri = getattr(params, "uri", None)
                raise MCPError(code, message, {"uri": uri} if uri is not None else None) from error

        return handle

    # The extension.

    def _list(self, params: types.PaginatedRequestParams) -> dict[str, Any]:
        rows = ((served.name, partial(_entry, served)) for served in self._offered())
        return _with_cache_hint(_page("skills", rows, params.cursor))

    def _get(self, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        served, path = self._located(params.uri)
        if path != SKILL_MD:
            raise NotFound(f"no skill is served at {quote(params.uri)}")
        return _with_cache_hint({"skill": _entry(served)})

    def _folder(self, params: FolderParams) -> dict[str, Any]:
        served, path = self._located(params.uri)
        prefix = f"{path}/" if path else ""
        rows = ((name, partial(_resource, served, prefix + name, file)) for name, file in served.children(path))
        return _page("resources", rows, params.cursor)

    def _offered(self) -> list[ServedSkill]:
        return [served for served in self._skills() if why_not(served) is None]

    def _skills(self) -> tuple[ServedSkill, ...]:
        skills = self._content.skills()
        if self._listed is None or not self._is_watched:
            self._listed = skills
        return skills

    def _located(self, uri: str) -> tuple[ServedSkill, str]:
        """Return the present state of the skill of a URI, and the path in it."""
        name, path = located(uri)
        return _checked_resource(self._content.get(name), path, uri), path

    # Resources.

    def _resources(self, params: types.PaginatedRequestParams) -> dict[str, Any]:
        files = ((served, file) for served in self._offered() for file in served.files if file.path == SKILL_MD)
        rows = ((served.name, partial(_resource, served, SKILL_MD, file)) for served, file in files)
        return _page("resources", rows, params.cursor)

    def _templates(self, params: types.PaginatedRequestParams) -> dict[str, Any]:
        about = "The instructions of a skill, NAME/SKILL.md, or another of its files, NAME/PATH."
        row = {"uriTemplate": _TEMPLATE, "name": "skill-file", "title": "File of a skill", "description": about}
        return _page("resourceTemplates", [("", lambda: row)], params.cursor)

    def _read(self, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        name, path = located(params.uri)
        served, data = self._content.read(name, path)
        _checked_resource(served, path, params.uri)
        content: dict[str, Any] = {"uri": params.uri, "_meta": meta(served)}
        try:
            content |= {"text": data.decode("utf-8"), "mimeType": mime_type_of(path, is_text=True)}
        except UnicodeDecodeError:
            content |= {"blob": b64encode(data).decode("ascii"), "mimeType": mime_type_of(path, is_text=False)}
        return {"contents": [content]}

    # Tools and prompts.

    def _call(self, params: types.CallToolRequestParams) -> dict[str, Any]:
        return run_tool(params.name, params.arguments or {}, self._content)

    def _prompts(self, params: types.PaginatedRequestParams) -> dict[str, Any]:
        rows = ((each.name, partial(_prompt_row, each)) for each in self._skills() if may_invoke(each.skill, "user"))
        return _page("prompts", rows, params.cursor)

    def _prompt(self, params: types.GetPromptRequestParams) -> dict[str, Any]:
        served, loaded = self._content.load(params.name, "user", (params.arguments or {}).get("arguments", ""))
        message = {"role": "user", "content": {"type": "text", "text": inject(loaded)}}
        return {"description": served.skill.description, "messages": [message], "_meta": meta(served)}

    def _completions(self, params: types.CompleteRequestParams) -> dict[str, Any]:
        typed, served = params.argument.value, self._content.skills()
        if isinstance(params.ref, types.PromptReference):
            hints = [entry.skill.argument_hint for entry in served if entry.name == params.ref.name]
            if not hints:
                raise NotFound(f"there is no prompt {quote(params.ref.name)}")
            offered = _words_of(hints[0]) if params.argument.name == "arguments" else []
        elif params.ref.uri == _TEMPLATE:
            files = ((entry, file.path) for entry in served if why_not(entry) is None for file in entry.files)
            offered = [uri_of(entry, path).removeprefix(SCHEME) for entry, path in files]
        else:
            raise NotFound(f"there is no resource template {quote(params.ref.uri)}")
        values = sorted({value for value in offered if value.startswith(typed)})
        is_cut = len(values) > _COMPLETED_MAX
        return {"completion": {"values": values[:_COMPLETED_MAX], "total": len(values), "hasMore": is_cut}}

    # Changes.

    async def _remember(self, context: Any, _: object) -> None:  # noqa: ANN401 - of the SDK
        """Keep the session of a client that uses the older handshake, for notifications.

        Clients of protocol version 2026-07-28 subscribe instead.
        """
        session = context.session
        if not self._is_watched:
            self._listed = None  # an earlier client saw it
        if len(self._sessions) < _SESSIONS_MAX:
            self._sessions.add(session)
            session._connection.exit_stack.callback(self._sessions.discard, session)

    @property
    def _is_watched(self) -> bool:
        return bool(self._sessions or self._listen._streams)

    @asynccontextmanager
    async def _watching(self, _: object) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch)
            yield
            self._listen.close()
            tasks.cancel_scope.cancel()

    async def _watch(self) -> None:
        """Notify clients of changes of the listed skills, while a client listens."""
        interval = _INTERVAL
        while True:
            await anyio.sleep(interval)
            if self._listed is None or not self._is_watched:
                continue
            start, before = monotonic(), self._listed
            self._listed = await to_thread.run_sync(self._content.skills, abandon_on_cancel=True)
            # Reading very many skills takes long, and must not keep a processor busy.
            interval = max(_INTERVAL, 20 * (monotonic() - start))
            if self._listed != before:
                await self._notify(before, self._listed)

    async def _notify(self, before: Iterable[ServedSkill], now: Iterable[ServedSkill]) -> None:
        old, new = ({each.name: each for each in some} for some in (before, now))
        for session in tuple(self._sessions):
            await session.send_resource_list_changed()
            await session.send_prompt_list_changed()
        await self._bus.publish(subscriptions.ResourcesListChanged())
        await self._bus.publish(subscriptions.PromptsListChanged())
        for name in old.keys() & new.keys():
            old_digests, new_digests = ({file.path: file.digest for file in each[name].files} for each in (old, new))
            for path in old_digests.keys() | new_digests.keys():
                if old_digests.get(path) != new_digests.get(path):
                    await self._bus.publish(subscriptions.ResourceUpdated(uri_of(new[name], path)))


class Sessions(StreamableHTTPSessionManager):
    """The sessions over Streamable HTTP, an ASGI application that answers while its ``run`` is entered.

    The server that mounts it checks ``Host``, ``Origin`` and the token, and bounds the body.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; the SDK gets strict JSON only, since of two equal keys it would take the last."""
        body = await Request(scope, receive).body()
        try:
            if 0 < len(body) <= FRAME_MAX:
                strict_json(body, "the body", FRAME_MAX)
        except FormatError as error:
            refusal = Response(_error(types.PARSE_ERROR, error.message), 400, media_type="application/json")
            await refusal(scope, receive, send)
        else:
            await self.handle_request(scope, replayed(body, receive), send)


def http_sessions(content: ServedContent, with_tools: bool = True, is_stateless: bool = False) -> Sessions:
    """Return the sessions of a server of the content."""
    sdk = SkillServer(content, with_tools).sdk
    return Sessions(sdk, stateless=is_stateless, json_response=is_stateless, max_sessions=_SESSIONS_MAX)


def serve_stdio(content: ServedContent, ends: tuple[BinaryIO, BinaryIO], with_tools: bool = True) -> None:
    """Read requests from the first end and answer on the second until the client closes the connection."""

    async def serve() -> None:
        sdk = SkillServer(content, with_tools).sdk
        async with frames(Pipe(*ends)) as (received, answers):
            await sdk.run(received, answers, sdk.create_initialization_options())

    anyio.run(serve)


def _checked_resource(served: ServedSkill, path: str, uri: str) -> ServedSkill:
    """Return the skill if it is a resource, and ``uri`` is the URI of ``path`` in it.

    Raises:
        NotFound: the skill is not a resource, or the path has another URI.
    """
    if (why := why_not(served)) is not None:
        raise NotFound(f"{quote(served.name)} is not served as a resource: {why}")
    if uri_of(served, path) != uri:
        raise NotFound(f"no skill is served at {quote(uri)}")
    return served


def _entry(served: ServedSkill) -> dict[str, Any]:
    files = [{"uri": uri_of(served, file.path), "digest": file.digest, "size": file.size} for file in served.files]
    return {"uri": uri_of(served), "frontmatter": served.front, "resources": files, "_meta": meta(served)}


def _resource(served: ServedSkill, path: str, file: ServedFile | None) -> dict[str, Any]:
    """Return the entry of a file, or of a folder, in a list of resources."""
    name = path.rpartition("/")[2].encode("utf-8", "replace").decode()
    row: dict[str, Any] = {"uri": uri_of(served, path), "name": name}
    if file is None:
        return {**row, "mimeType": DIRECTORY}
    row |= {"mimeType": mime_type_of(path), "size": file.size}
    if path != SKILL_MD:
        return row
    row["name"] = (served.front or {})["name"]
    return {**row, "description": served.skill.description, "_meta": meta(served)}


def _prompt_row(served: ServedSkill) -> dict[str, Any]:
    skill = served.skill
    hint = {"description": skill.argument_hint} if skill.argument_hint else {}
    arguments = [{"name": "arguments", "required": False, **hint}]
    row = {"name": served.name, "title": skill.interface.get("display_name") or served.name, "arguments": arguments}
    return {**row, "description": skill.description, "_meta": meta(served)}


def _words_of(hint: str) -> list[str]:
    """Return the alternatives in the hint of an argument: for ``[add|remove] [name]``, add and remove."""
    choices = (choice for choice in re.split(r"[^\w.|-]+", hint) if "|" in choice)
    return [word for choice in choices for word in choice.split("|") if word]


def _with_cache_hint(result: dict[str, Any]) -> dict[str, Any]:
    return {**result, "ttlMs": _TTL_MS, "cacheScope": "private"}


def _page(key: str, rows: Iterable[tuple[str, Callable[[], dict[str, Any]]]], cursor: str | None) -> dict[str, Any]:
    """Return one page of the rows after the cursor, which encodes the last key of the page before.

    Raises:
        NotFound: the cursor is malformed.
    """
    page: list[dict[str, Any]] = []
    try:
        last_key = (
            None if cursor is None else b64decode(cursor, b"-_", validate=True).decode("utf-8", "surrogateescape")
        )
    except ValueError as error:
        raise NotFound("expected a cursor that this server gave") from error
    room = _PAGE_BYTES
    for name, make in sorted((row for row in rows if last_key is None or row[0] > last_key), key=lambda row: row[0]):
        row = make()
        room -= len(json.dumps(row))
        if page and (room < 0 or len(page) >= _PAGE_ROWS):
            token = urlsafe_b64encode(str(last_key).encode("utf-8", "surrogateescape")).decode("ascii")
            return {key: page, "nextCursor": token}
        page.append(row)
        last_key = name
    return {key: page}
