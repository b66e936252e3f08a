"""An MCP server that serves skills, in both eras of the protocol, with errors that a test configures."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import quote

import yaml

from tests.support.serving import serving

EXTENSION = "io.modelcontextprotocol/skills"
STATELESS = "2026-07-28"
Result = dict[str, Any]
_INFO = {"name": "simulator", "version": "1"}


@dataclass
class Raw:
    """A raw HTTP answer; ``chunks`` are sent one after the other, with ``pause`` seconds between."""

    data: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    pause: float = 0.0
    is_endless: bool = False


def skill(name: str, body: str = "Do it.", **front: object) -> bytes:
    head = yaml.safe_dump({"name": name, "description": f"What {name} does.", **front}, sort_keys=False)
    return f"---\n{head}---\n{body}\n".encode()


class SkillServer(ThreadingHTTPServer):
    """Serves ``skills``: by the URI of each folder its files by path.

    Attributes:
        alter: Called with method, params and result of each request; what it returns is answered instead.
        seen: Method and headers of each request.
        entries: By the URI of a folder, what stands in the entry instead of what is so.
        refuse: Returns the status with which a method is refused, 0 for none.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.era: Literal["stateless", "handshake"] = "stateless"
        self.streams = False
        self.page = 1000
        self.skills: dict[str, dict[str, bytes]] = {}
        self.entries: dict[str, dict[str, object]] = {}
        self.unlisted: set[str] = set()
        self.extensions: dict[str, object] = {EXTENSION: {"directoryRead": True}}
        self.alter: Callable[[str, dict[str, Any], Result], Result | Raw] = lambda method, params, result: result
        self.refuse: Callable[[str], int] = lambda method: 0
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.sessions: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mcp"

    @property
    def ref(self) -> str:
        return f"mcp+{self.url}"

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.seen]

    def add(self, name: str, folder: str = "", files: Mapping[str, bytes] | None = None, **front: object) -> str:
        """Serve a skill, and return the URI of its folder."""
        uri = folder or f"skill://{name}"
        self.skills[uri] = {"SKILL.md": skill(name, **front), **(files or {})}
        return uri

    def entry(self, folder: str) -> Result:
        files = self.skills[folder]
        front = yaml.safe_load(files["SKILL.md"].decode().split("---\n")[1])
        resources = [
            {
                "uri": f"{folder}/{quote(path)}",
                "digest": f"sha256:{sha256(data).hexdigest()}",
                "size": len(data),
                "mimeType": "text/plain",
            }
            for path, data in files.items()
        ]
        found = {"uri": f"{folder}/SKILL.md", "frontmatter": front, "resources": resources, "_meta": {"x/y": 1}}
        return {**found, **self.entries.get(folder, {})}

    def answer(self, method: str, params: dict[str, Any]) -> Result | None:
        """Return the result; None for a missing resource."""
        cached = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        if method == "server/discover":
            answer = {"supportedVersions": [STATELESS], "capabilities": self.capabilities}
            return {**cached, **answer, "serverInfo": _INFO}
        if method == "skills/list":
            listed = [uri for uri in self.skills if uri not in self.unlisted]
            start = int(params["cursor"]) if params.get("cursor", "").isdecimal() else 0
            more = {"nextCursor": str(start + self.page)} if start + self.page < len(listed) else {}
            return {**cached, "skills": [self.entry(uri) for uri in listed[start : start + self.page]], **more}
        if method == "skills/get":
            folder = str(params["uri"]).removesuffix("/SKILL.md")
            return {**cached, "skill": self.entry(folder)} if folder in self.skills else None
        for folder, files in self.skills.items():
            for path, data in files.items():
                if method == "resources/read" and params["uri"] == f"{folder}/{quote(path)}":
                    return {**cached, "contents": [{"uri": params["uri"], **_content(data)}]}
        return None

    @property
    def capabilities(self) -> Result:
        return {"resources": {}, "extensions": self.extensions}


def _content(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"blob": base64.b64encode(data).decode()}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: the kernel holds a second one back for 40 ms
    server: SkillServer

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self.server.seen.append(("GET", dict(self.headers)))
        self._send(Raw(status=405))

    def do_POST(self) -> None:
        server = self.server
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, params = message["method"], message.get("params", {})
        server.seen.append((method, {key.lower(): value for key, value in self.headers.items()}))
        assert {"application/json", "text/event-stream"} <= set(self.headers["Accept"].split(", "))
        if status := server.refuse(method):
            self._send(Raw(b"no", status, {"Content-Type": "text/plain"}))
        elif refused := self._refused(message, method, params):
            self._send(refused)
        elif "id" not in message:
            self._send(Raw(status=202))
        elif method == "initialize":
            server.sessions.add("s1")
            answer = {"protocolVersion": "2025-11-25", "capabilities": server.capabilities, "serverInfo": _INFO}
            self._reply(message["id"], server.alter(method, params, answer), {"Mcp-Session-Id": "s1"})
        else:
            result = server.answer(method, params)
            if result is None:
                self._fail(message["id"], -32602, f"nothing at {params.get('uri')}\x1b[2J", 200)
            else:
                self._reply(message["id"], server.alter(method, params, result))

    def _refused(self, message: dict[str, Any], method: str, params: dict[str, Any]) -> Raw | None:
        """Check a request against the demands of its era."""
        version = params.get("_meta", {}).get("io.modelcontextprotocol/protocolVersion")
        if self.server.era == "stateless":
            if version is None:
                return Raw(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no such method"}}', 404)
            assert (version, self.headers["Mcp-Protocol-Version"], self.headers["Mcp-Method"]) == (
                STATELESS,
                STATELESS,
                method,
            )
            assert method != "resources/read" or self.headers["Mcp-Name"] == params["uri"]
            return None
        if version is not None:
            return Raw(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}', 400)
        if method == "initialize":
            return None
        if self.headers["Mcp-Session-Id"] not in self.server.sessions:
            return Raw(b"gone", 404, {"Content-Type": "text/plain"})
        assert self.headers["Mcp-Protocol-Version"] == "2025-11-25"
        return None

    def _fail(self, number: object, code: int, message: str, status: int) -> None:
        error = {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
        self._send(Raw(json.dumps(error).encode(), status))

    def _reply(self, number: object, result: Result | Raw, headers: Mapping[str, str] | None = None) -> None:
        if isinstance(result, Raw):
            self._send(result)
            return
        data = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
        if not self.server.streams:
            self._send(Raw(data, headers={"Content-Type": "application/json; charset=utf-8", **(headers or {})}))
            return
        note = b': hello\r\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\r\n\r\n'
        events = note + b"event: message\nid: 7\ndata: " + data + b"\n\n"
        self._send(Raw(events, headers={"Content-Type": "text/event-stream", **(headers or {})}))

    def _send(self, raw: Raw) -> None:
        self.send_response(raw.status)
        for name, value in raw.headers.items():
            self.send_header(name, value)
        if raw.is_endless or raw.pause:
            self.send_header("Connection", "close")
            self.end_headers()
            while True:
                self.wfile.write(raw.data)
                self.wfile.flush()
                time.sleep(raw.pause)
        self.send_header("Content-Length", str(len(raw.data)))
        self.end_headers()
        self.wfile.write(raw.data)


@contextmanager
def skill_server() -> Iterator[SkillServer]:
    """Answer meanwhile."""
    server = SkillServer()
    server.handle_error = lambda request, address: None  # type: ignore[method-assign]  # a client may hang up
    with serving(server):
        yield server
