"""The server of the official SDK as a second implementation, read in both eras of the protocol."""

import base64
import contextlib
import socket
import threading
from hashlib import sha256

import pytest

from skillhub.model.reference import Mcp
from skillhub.net.client import Http
from skillhub.sources import mcp
from skillhub.sources.mcp import EXTENSION, McpPlace
from tests.support.skill_server import skill

uvicorn = pytest.importorskip("uvicorn")
types = pytest.importorskip("mcp_types")
Server = pytest.importorskip("mcp.server.lowlevel").Server
FILES = {"SKILL.md": skill("pdf", metadata={"version": 1.0}), "scripts/a b.sh": b"#!/bin/sh\n", "x.bin": b"\xff\x00"}
FOLDER = "skill://acme/pdf"
WHOLE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class Named(types.RequestParams):
    uri: str


def entry():
    front = {"name": "pdf", "description": "What pdf does.", "metadata": {"version": 1.0}}
    rows = [
        {"uri": uri(path), "digest": f"sha256:{sha256(data).hexdigest()}", "size": len(data)}
        for path, data in FILES.items()
    ]
    return {"uri": uri("SKILL.md"), "frontmatter": front, "resources": rows}


def uri(path):
    return f"{FOLDER}/{path.replace(' ', '%20')}"


async def listed(context, params):
    return {**WHOLE, "skills": [entry()]}


async def skill_of_request(context, params):
    return {**WHOLE, "skill": entry()}


async def read(context, params):
    (data,) = [data for path, data in FILES.items() if uri(path) == str(params.uri)]
    blob = base64.b64encode(data).decode()
    return types.ReadResourceResult(contents=[types.BlobResourceContents(uri=params.uri, blob=blob)])


class Second(Server):
    """A server that announces the extension in its handshake, for which the SDK has no other place."""

    def create_initialization_options(self, *args, **given):
        return super().create_initialization_options(experimental_capabilities={EXTENSION: {}})


@contextlib.contextmanager
def serving(*, in_json):
    """Serve with the SDK on a port of this machine; give the URL."""
    server = Second("second", version="1", on_read_resource=read)
    server.extensions = {EXTENSION: {}}
    server.add_request_handler("skills/list", types.PaginatedRequestParams, listed)
    server.add_request_handler("skills/get", Named, skill_of_request)
    app = server.streamable_http_app(json_response=in_json)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()  # clients that connect before the server runs wait
        running = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=running.run, args=([sock],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}/mcp"
        finally:
            running.should_exit = True
            thread.join()


@pytest.mark.parametrize("in_json", [True, False], ids=["json", "events"])
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_skill_of_the_sdk_server_is_read(monkeypatch, era, in_json):
    if era == "handshake":  # as a client that knows only the handshake
        monkeypatch.setattr(mcp, "_STATELESS", "1999-01-01")
    with serving(in_json=in_json) as url, Http() as http:
        place = McpPlace(Mcp(url), http)
        (release,) = place.index().releases("pdf")
        found = place.unpacked(release)
        assert {path: file.data for path, file in found.tree.items()} == FILES
        assert release.tree == found.tree.digest
        (release,) = McpPlace(Mcp(url, FOLDER), http).index().releases("pdf")
        assert release.path == FOLDER
