"""Frames of the protocol on stdin and stdout: one JSON value a line; nothing else reads or writes there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO

import anyio
from anyio import to_thread
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

FRAME_MAX = 4 * 1024 * 1024  # bytes of a request, as the SDK has it over HTTP
_PARSE_ERROR, _INVALID_REQUEST, _INTERNAL_ERROR = -32700, -32600, -32603
_LAST_ANSWERS = 30.0  # seconds that requests may take once no further ones come


@dataclass(slots=True)
class Pipe:
    """The two ends of the connection.

    Attributes:
        open_requests: The ids of the requests that are not answered yet; of a stream of notifications, none.
    """

    source: BinaryIO
    target: BinaryIO
    open_requests: set[str | int] = field(default_factory=set)
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def send(self, frame: str) -> None:
        """Write one frame, whole.

        Raises:
            OSError: the client is gone.
        """
        async with self.lock:
            await to_thread.run_sync(self._write, frame.encode("utf-8", "backslashreplace") + b"\n")

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self.target.write(rest) :]

    async def receive(self) -> bytes | None:
        """Return the next line, at most ``FRAME_MAX`` bytes of it and one; None at the end."""
        read = partial(self.source.readline, FRAME_MAX + 1)
        line = await to_thread.run_sync(read, abandon_on_cancel=True)
        if len(line) > FRAME_MAX:
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = await to_thread.run_sync(read, abandon_on_cancel=True)
        return line or None

    async def refuse(self, code: int, message: str, to: object = None) -> None:
        """Answer what is no request, or too large."""
        number = to if isinstance(to, (str, int)) and not isinstance(to, bool) else None
        error = {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
        await self.send(json.dumps(error))


@asynccontextmanager
async def frames(pipe: Pipe) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of messages that the SDK serves; what is no message is answered here and goes no further."""
    to_server, received = anyio.create_memory_object_stream[Any](0)
    answers, from_server = anyio.create_memory_object_stream[Any](0)

    async def read() -> None:
        async with to_server:
            while (line := await pipe.receive()) is not None:
                message = await _message(line, pipe)
                if message is None:
                    continue
                if isinstance(message, JSONRPCRequest) and message.method != "subscriptions/listen":
                    pipe.open_requests.add(message.id)
                await to_server.send(SessionMessage(message))
            with anyio.move_on_after(_LAST_ANSWERS):
                while pipe.open_requests:  # a script may close its end once it has asked
                    await anyio.sleep(0.01)

    async def write() -> None:
        async with from_server:
            async for each in from_server:
                try:
                    await pipe.send(each.message.model_dump_json(by_alias=True, exclude_unset=True))
                except ValueError:
                    await pipe.refuse(_INTERNAL_ERROR, "the answer is no text", getattr(each.message, "id", None))
                if not hasattr(each.message, "method"):
                    pipe.open_requests.discard(each.message.id)

    async def until_gone(work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except OSError:  # the client is gone: nobody is there to be told anything
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(until_gone, read)
        tasks.start_soon(until_gone, write)
        yield received, answers
        tasks.cancel_scope.cancel()


async def _message(line: bytes, pipe: Pipe) -> Any:  # noqa: ANN401 - a union of the SDK
    if len(line) > FRAME_MAX:
        await pipe.refuse(_INVALID_REQUEST, f"expected at most {FRAME_MAX} bytes in a message")
        return None
    if not line.strip():
        return None
    try:
        found = from_json(line, allow_inf_nan=False)  # which refuses half of a surrogate pair, too
    except ValueError:
        await pipe.refuse(_PARSE_ERROR, "expected a JSON value in one line")
        return None
    asked = found.get("id") if isinstance(found, dict) else None
    try:
        # To the SDK, a request whose id is of no type that an id has is a notification.
        if asked is None or type(asked) in (str, int):
            return jsonrpc_message_adapter.validate_python(found, by_name=False)
    except ValidationError:
        pass
    await pipe.refuse(_INVALID_REQUEST, "expected one JSON-RPC 2.0 message", asked)
    return None
