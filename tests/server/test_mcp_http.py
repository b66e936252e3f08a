"""The MCP server over Streamable HTTP, and the SDK's own client in the same process."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import httpx
import pytest

pytest.importorskip("mcp")

from mcp import Client, types
from starlette.applications import Starlette
from starlette.routing import Route

from skillhub.server.content import ServedContent
from skillhub.server.mcp import SkillServer, http_sessions
from tests.server.test_content import edit
from tests.support.locked import agreed
from tests.support.mcp_wire import HELLO, READY, VERSION, request

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
URI = "skill://demo/SKILL.md"


@pytest.fixture
def machine(tmp_path):
    return agreed(tmp_path)


@asynccontextmanager
async def http(machine):
    sessions = http_sessions(ServedContent(machine.around()))
    app = Starlette(routes=[Route("/mcp", sessions)])
    async with sessions.run():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client


async def post(client, frame, **headers):
    asked = {"mcp-protocol-version": VERSION} if "_meta" in str(frame) else {}
    if asked:
        asked |= {"mcp-method": frame["method"], "mcp-name": frame["params"].get("uri", "")}
    body = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
    return await client.post("/mcp", content=body, headers={**HEADERS, **asked, **headers})


def answer(response):
    text = response.text
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    return json.loads(lines[-1] if lines else text)


def test_clients_of_2026_07_28_need_no_session(machine):
    async def run():
        async with http(machine) as client:
            (entry,) = answer(await post(client, request(1, "skills/list")))["result"]["skills"]
            for file in entry["resources"]:
                found = answer(await post(client, request(2, "resources/read", uri=file["uri"])))
                assert len(found["result"]["contents"][0]["text"]) == file["size"]
            edit(machine)
            failed = await post(client, request(3, "resources/read", uri=URI))
            assert answer(failed)["error"]["code"] == -32602
            assert answer(await post(client, request(4, "skills/list")))["result"]["skills"] == []

    asyncio.run(run())


def test_clients_of_the_handshake_era_have_a_session(machine):
    async def run():
        async with http(machine) as client:
            hello = await post(client, HELLO)
            assert answer(hello)["result"]["capabilities"]["resources"]["listChanged"] is True
            session = {"mcp-session-id": hello.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
            assert (await post(client, READY, **session)).status_code == 202
            for number, method in enumerate(("skills/list", "resources/list", "tools/list", "prompts/list")):
                found = await post(client, request(number, method, modern=False), **session)
                assert answer(found)["result"]
            read = await post(client, request(9, "resources/read", modern=False, uri=URI), **session)
            assert answer(read)["result"]["contents"][0]["text"].endswith("Good.\n")
            assert (await client.delete("/mcp", headers=session)).status_code == 200

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "headers", "statuses"),
    [
        (b"nonsense", {}, (400,)),
        (b"\xff\xfe", {}, (400,)),
        (b"[]", {}, (400,)),
        (b"[" * 100_000, {}, (400,)),
        (b"{}", {}, (400,)),
        (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', {}, (400,)),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "\\ud800"}', {}, (400,)),
        (b"{}", {"content-type": "text/plain"}, (400, 415)),
        (b"{}", {"accept": "text/html"}, (400, 406)),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "x": "' + b"x" * (5 << 20) + b'"}', {}, (413,)),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}', {"mcp-session-id": "guessed"}, (404,)),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}', {"mcp-protocol-version": "1999-01-01"}, (400,)),
    ],
)
def test_attack_a_broken_or_huge_request_over_http_does_not_stop_the_server(machine, body, headers, statuses):
    async def run():
        async with http(machine) as client:
            assert (await post(client, body, **headers)).status_code in statuses
            assert answer(await post(client, request(1, "skills/list")))["result"]["skills"]

    asyncio.run(run())


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "skill://a", "uri": "skill://b"}}',
    ],
)
def test_attack_a_key_that_occurs_twice_over_http_is_an_error_of_parsing(machine, body):
    async def run():
        async with http(machine) as client:
            refused = await post(client, body)
            error = answer(refused)
            assert (refused.status_code, error["id"], error["error"]["code"]) == (400, None, -32700)
            assert "occurs twice" in error["error"]["message"]

    asyncio.run(run())


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_client_of_the_sdk_reads_all_kinds_in_the_same_process(machine, mode):
    async def run():
        server = SkillServer(ServedContent(machine.around())).sdk
        async with Client(server, mode=mode) as client:
            assert client.server_capabilities.resources.list_changed
            assert len(client.instructions) < 1000
            assert [each.uri for each in (await client.list_resources()).resources] == [URI]
            assert (await client.read_resource(URI)).contents[0].text.endswith("Good.\n")
            assert len((await client.list_tools()).tools) == 3
            found = await client.call_tool("read_skill_file", {"name": "demo", "path": "references/style.md"})
            assert found.structured_content["content"] == "Short.\n"
            assert "Good." in (await client.get_prompt("demo")).messages[0].content.text
            ref = types.PromptReference(type="ref/prompt", name="demo")
            assert (await client.complete(ref, {"name": "arguments", "value": ""})).completion.values == []

    asyncio.run(run())


def test_fifty_parallel_clients_get_equal_answers(machine):
    async def one(client):
        listed = answer(await post(client, request(1, "skills/list")))["result"]["skills"]
        read = answer(await post(client, request(2, "resources/read", uri=URI)))["result"]["contents"]
        return len(listed), read[0]["text"]

    async def run():
        async with http(machine) as client:
            found = await asyncio.gather(*(one(client) for _ in range(50)))
            assert len(set(found)) == 1

    asyncio.run(run())
