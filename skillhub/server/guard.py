"""The guard of the HTTP server: the Host, the Origin, the token and the size of each request.

A page of another site can make a browser send requests to this server, also under a name of its own that resolves to
127.0.0.1 (DNS rebinding). The page can forge neither ``Host`` nor ``Origin``, and has no token.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skillhub.answers import VERSION
from skillhub.server.headers import HEADERS

TARGET_MAX: Final = 8 << 10
HEADERS_MAX: Final = 32 << 10
BODY_MAX: Final = 1 << 20
BODY_SECONDS: Final = 10.0
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


class AccessRules:
    """The rules for requests to a server.

    Args:
        host: The address to listen on, as it was typed.
        ip: The same as an IP address. If the server listens on every address of this machine, any IP address with
            ``port`` is an accepted ``Host``, since DNS rebinding needs a name.
        port: The port of the server.
        more: Further names of the server.
        token: The token that every request must have; None if there is none.
    """

    def __init__(self, host: str, ip: str, port: int, more: Iterable[str] = (), token: str | None = None) -> None:
        names = [*_LOCAL, host.lower(), f"[{ip}]" if ":" in ip else ip]
        # The accepted values of `Host`, each with its port unless that is 80.
        self._hosts = {f"{name}:{port}" for name in names} | {name for name in names if port == 80}
        self._hosts |= {name for extra in more for name in (extra.lower(), f"{extra.lower()}:{port}")}
        self._port, self._any_address = port, ip_address(ip).is_unspecified
        self.token = token

    def refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        """Return status, message and hint of the refusal of a request; None if the request is accepted."""
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > TARGET_MAX:
            return 414, f"expected a target of at most {TARGET_MAX} bytes", ""
        if sum(len(name) + len(value) for name, value in headers.raw) > HEADERS_MAX:
            return 431, f"expected at most {HEADERS_MAX} bytes of headers", ""
        if len(hosts) != 1 or not self._is_host(hosts[0].lower()):
            return 421, "expected the Host of this server", "use the URL that skillhub serve printed"
        own_origins = [f"{scheme}://{hosts[0].lower()}" for scheme in ("http", "https")]
        if len(origins) > 1 or any(origin.lower() not in own_origins for origin in origins):
            return 403, "expected no Origin, or that of this server", ""
        # A person who follows a link; a frame of another site also navigates.
        way = [headers.getlist(f"sec-fetch-{name}") for name in ("mode", "dest")]
        is_visit = scope["method"] == "GET" and way == [["navigate"], ["document"]]
        if headers.getlist("sec-fetch-site") not in ([], ["none"], ["same-origin"]) and not is_visit:
            return 403, "another site has sent this request", ""
        if self.token is not None and not self._is_admitted(headers.getlist("authorization"), scope["path"]):
            return 401, "expected the token", "Authorization: Bearer TOKEN"
        return None

    def _is_host(self, host: str) -> bool:
        name, _, port = host.rpartition(":")
        if host in self._hosts or not self._any_address or port != str(self._port):
            return host in self._hosts
        try:
            return bool(ip_address(name[1:-1] if name[:1] == "[" and name[-1:] == "]" else name))
        except ValueError:
            return False

    def _is_admitted(self, authorization: list[str], path: str) -> bool:
        """Return whether a request has the token: as a bearer token, or for the page as a password (Basic)."""
        scheme, _, text = authorization[0].partition(" ") if len(authorization) == 1 else ("", "", "")
        token = text.strip().encode("latin-1")
        if scheme.lower() == "basic" and path in PAGE_PATHS:
            try:
                token = b64decode(token, validate=True).partition(b":")[2]
            except ValueError:
                return False
        elif scheme.lower() != "bearer":
            return False
        # Digests, so that neither the time nor the length reveals anything about the token.
        return compare_digest(sha256(token).digest(), sha256((self.token or "").encode()).digest())


PAGE_PATHS: Final = frozenset({"/", "/style.css"})


class Guard:
    """An ASGI application that passes accepted requests on with their whole body, and adds headers to each answer."""

    def __init__(self, app: ASGIApp, access: AccessRules) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused, body = self._access.refusal(scope), b""
        try:
            body = b"" if refused else await asyncio.wait_for(_body(Request(scope, receive)), BODY_SECONDS)
        except TimeoutError:
            refused = 408, f"expected the whole body within {BODY_SECONDS:g} seconds", ""
        except HTTPException as error:
            refused = error.status_code, error.detail, ""
        except ClientDisconnect:
            return
        if refused is None:
            await self._app(scope, replayed(body, receive), with_headers)
            return
        scheme = "Basic" if scope["path"] in PAGE_PATHS else "Bearer"
        extra_headers = {"WWW-Authenticate": f'{scheme} realm="skillhub"'} if refused[0] == 401 else {}
        await error_response(*refused, extra_headers)(scope, receive, with_headers)


async def _body(request: Request) -> bytes:
    """Return the body; raise HTTPException if it, or its declared length, is too large."""
    declared = request.headers.get("content-length", "0")
    body = bytearray(0 if declared.isdigit() and len(declared) < 9 and int(declared) <= BODY_MAX else BODY_MAX + 1)
    parts = request.stream()
    while len(body) <= BODY_MAX and (part := await anext(parts, None)) is not None:
        body += part
    if len(body) > BODY_MAX:
        raise HTTPException(413, f"expected a body of at most {BODY_MAX} bytes")
    return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that gives a body that was read, and then what ``receive`` gives."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again


def error_response(status: int, message: str, hint: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """Return an error in the form of the API."""
    code = {404: "not-found", 500: "error", 401: "refused", 403: "refused", 421: "refused"}.get(status, "usage")
    error = {"code": code, "message": message, "where": None, "hint": hint or None}
    body = json.dumps({"schema": VERSION, "error": error, "questions": []})
    return Response(body, status, headers, media_type="application/json")
