"""Who may ask: the Host, the Origin and the token of a request, and how much of it there may be.

A page of another site can have a browser send requests here, also under a name of its own that leads to 127.0.0.1
(DNS rebinding). It can forge neither ``Host`` nor ``Origin``, and has no token.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from ipaddress import ip_address
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skillhub.answers import VERSION
from skillhub.disk import files
from skillhub.errors import NotFound, UsageError

TARGET_MAX: Final = 8 << 10
HEADERS_MAX: Final = 32 << 10
BODY_MAX: Final = 1 << 20
BODY_SECONDS: Final = 10.0
_TOKEN_MIN, _TOKEN_MAX = 20, 512
HOW_TO_MAKE_ONE: Final = "umask 077; openssl rand -hex 32 > token; skillhub serve --token-file token"
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
NOTHING_LOADS: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# No answer is a document that may run, load or frame anything; the page alone loads its own style.
HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"{NOTHING_LOADS}; sandbox",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def read_token(path: str) -> str:
    """Return the token that a file holds: one line of 20 to 512 visible ASCII characters, for its owner alone.

    Raises:
        NotFound: there is no such file.
        UsageError: it holds something else, or others can read it.
    """
    real = os.path.realpath(os.path.expanduser(path))
    data = files.read(real, _TOKEN_MAX + 2)
    if data is None:
        raise NotFound("there is no such file", where=path, hint=HOW_TO_MAKE_ONE)
    if os.name == "posix" and stat.S_IMODE(os.stat(real).st_mode) & 0o077:
        raise UsageError("other users can read the token", where=path, hint=f"chmod 600 {path}")
    token = data.decode("ascii", "replace").removesuffix("\n").removesuffix("\r")
    if not (_TOKEN_MIN <= len(token) <= _TOKEN_MAX and all("!" <= char <= "~" for char in token)):
        message = f"expected one line of {_TOKEN_MIN} to {_TOKEN_MAX} visible ASCII characters"
        raise UsageError(message, where=path, hint=HOW_TO_MAKE_ONE)
    return token


def is_loopback(address: str) -> bool:
    """Say whether only this machine reaches an address."""
    return ip_address(address.partition("%")[0]).is_loopback


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Which requests are answered.

    Attributes:
        hosts: What ``Host`` may be, in lower case, each with its port where that is not 80.
        port: The port; with ``any_address``, every address with it may be the ``Host``: a name that leads here by
            rebinding is none.
        any_address: Whether the server listens on every address of this machine.
        token: What every request must carry, if there is one.
    """

    hosts: frozenset[str]
    port: int
    any_address: bool = False
    token: str | None = None

    @classmethod
    def of(cls, host: str, ip: str, port: int, more: Iterable[str] = (), token: str | None = None) -> AccessRules:
        """Return what is answered by a server that listens on ``ip``, typed as ``host``, and has ``more`` names."""
        names = [*_LOCAL, host.lower(), f"[{ip}]" if ":" in ip else ip]
        hosts = {f"{name}:{port}" for name in names} | {name for name in names if port == 80}
        hosts |= {name for each in more for name in (each.lower(), f"{each.lower()}:{port}")}
        return cls(frozenset(hosts), port, ip_address(ip).is_unspecified, token)

    def refusal(self, scope: Scope) -> tuple[int, str, str, str] | None:
        """Return the status, the code, the message and the hint of a request that is not answered; None of others."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > TARGET_MAX:
            return 414, "usage", f"expected a target of at most {TARGET_MAX} bytes", ""
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADERS_MAX:
            return 431, "usage", f"expected at most {HEADERS_MAX} bytes of headers", ""
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or not self._is_host(hosts[0]):
            return 421, "refused", "expected the Host of this server", "use the URL that skillhub serve printed"
        origins = headers.get(b"origin", [])
        own = [scheme + b"://" + hosts[0].lower() for scheme in (b"http", b"https")]
        if len(origins) > 1 or any(each.lower() not in own for each in origins):
            return 403, "refused", "expected no Origin, or that of this server", ""
        site = headers.get(b"sec-fetch-site", [b"none"])
        is_visit = scope["method"] == "GET" and headers.get(b"sec-fetch-mode") == [b"navigate"]
        if site not in ([b"none"], [b"same-origin"]) and not is_visit:
            return 403, "refused", "another site has sent this request", ""
        if self.token is not None and not self._is_admitted(headers.get(b"authorization", []), scope["path"]):
            return 401, "refused", "expected the token", "Authorization: Bearer TOKEN"
        return None

    def _is_host(self, given: bytes) -> bool:
        host = given.decode("latin-1").lower()
        if host in self.hosts:
            return True
        name, _, port = host.rpartition(":")
        if not self.any_address or port != str(self.port):
            return False
        try:
            return bool(ip_address(name[1:-1] if name[:1] == "[" and name[-1:] == "]" else name))
        except ValueError:
            return False

    def _is_admitted(self, given: list[bytes], path: str) -> bool:
        """Say whether a request carries the token: as a bearer's, or for the page as a browser's password."""
        if self.token is None or len(given) != 1:
            return False
        scheme, _, sent = given[0].partition(b" ")
        if scheme.lower() == b"basic" and path in PAGE_PATHS:
            try:
                sent = b64decode(sent, validate=True).partition(b":")[2]
            except (Base64Error, ValueError):
                return False
        elif scheme.lower() != b"bearer":
            return False
        # Digests, so that neither the time nor the length says anything of the token.
        return compare_digest(sha256(sent.strip()).digest(), sha256(self.token.encode()).digest())


PAGE_PATHS: Final = frozenset({"/", "/style.css"})


class Guard:
    """Lets through what may be answered, each request with its whole body; adds the headers to every answer."""

    def __init__(self, app: ASGIApp, access: AccessRules) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = {name.lower() for name, _ in message.get("headers", ())}
                more = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {
                    **message,
                    "headers": [*message.get("headers", ()), *(m for m in more if m[0] not in sent)],
                }
            await send(message)

        refused = self._access.refusal(scope)
        body: bytes | None = b""
        if refused is None:
            try:
                body = await asyncio.wait_for(_body(scope, receive), BODY_SECONDS)
            except TimeoutError:
                refused = 408, "usage", f"expected the whole body within {BODY_SECONDS:g} seconds", ""
            except _TooLargeError:
                refused = 413, "usage", f"expected a body of at most {BODY_MAX} bytes", ""
        if refused is not None:
            await _refuse(scope, with_headers, refused)
        elif body is not None:
            await self._app(scope, _replayed(body, receive), with_headers)


class _TooLargeError(Exception):
    pass


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """Return the body; None if the client went away."""
    for name, value in scope["headers"]:
        if name == b"content-length" and not (value.isdigit() and int(value[:9]) <= BODY_MAX and len(value) < 9):
            raise _TooLargeError
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > BODY_MAX:
            raise _TooLargeError
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return whole.pop() if whole else await receive()

    return again


async def _refuse(scope: Scope, send: Send, refused: tuple[int, str, str, str]) -> None:
    status, code, message, hint = refused
    body = error_body(code, message, hint=hint or None)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        scheme = "Basic" if scope["path"] in PAGE_PATHS else "Bearer"
        headers.append((b"www-authenticate", f'{scheme} realm="skillhub"'.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def error_body(code: str, message: str, where: str | None = None, hint: str | None = None) -> bytes:
    """Return an error as the API answers it."""
    error: dict[str, Any] = {"code": code, "message": message, "where": where, "hint": hint}
    return json.dumps({"schema": VERSION, "error": error, "questions": []}).encode()
