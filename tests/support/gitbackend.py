"""A web server that runs git's ``http-backend`` for a folder of repositories, with configurable redirects."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.serving import serving


class Backend(ThreadingHTTPServer):
    """``moved`` maps the first folder of a path to its new place; ``asked`` has every requested path."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), partial(_Handler, folder))
        self.moved: dict[str, str] = {}
        self.password: str | None = None
        self.asked: list[str] = []
        self.authorizations: set[str | None] = set()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no fault of the server."""


@contextmanager
def backend(folder: Path) -> Iterator[Backend]:
    server = Backend(folder)
    with serving(server):
        yield server


class _Handler(BaseHTTPRequestHandler):
    server: Backend

    def __init__(self, folder: Path, *args: object) -> None:
        self._folder = folder
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        sent = self.headers.get("Authorization")
        self.server.authorizations.add(sent)
        first, slash, rest = self.path.removeprefix("/").partition("/")
        if self.server.password not in (None, sent):
            self._say(401, **{"WWW-Authenticate": 'Basic realm="r"'})
        elif first in self.server.moved:
            self._say(301, Location=self.server.moved[first] + slash + rest)
        else:
            self._run()

    do_POST = do_GET  # noqa: N815 - the name that the library calls

    def _say(self, status: int, **fields: str) -> None:
        self.send_response(status)
        for name, value in {**fields, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    def _run(self) -> None:
        path, _, query = self.path.partition("?")
        environ = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self._folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": self.headers.get("Content-Length", "0"),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        sent = self.rfile.read(int(environ["CONTENT_LENGTH"]))
        done = subprocess.run(["git", "http-backend"], input=sent, env=environ, capture_output=True, check=True)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.decode().split(": ", 1) for line in head.split(b"\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in {**fields, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""
