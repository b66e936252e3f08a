"""A web server that knows nothing of git and hands out a repository's files: git's dumb protocol."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.serving import serving


class Server(ThreadingHTTPServer):
    """Wants ``password`` as Authorization, if it is set; ``seen`` is what was sent as that."""

    daemon_threads = True

    def __init__(self, folder: Path, password: str | None, slowly: bool) -> None:
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
        self.password = password
        self.slowly = slowly
        self.seen: set[str | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that hang up: some tests do."""


@contextmanager
def served(folder: Path, password: str | None = None, *, slowly: bool = False) -> Iterator[Server]:
    """Serve a repository of loose objects, or a folder of some; ``slowly``: a megabyte in a second."""
    for repository in (folder, *folder.iterdir()):
        if (repository / "HEAD").is_file():
            _list(repository)
    server = Server(folder, password, slowly)
    with serving(server):
        yield server


def _list(repository: Path) -> None:
    refs = sorted(path for path in (repository / "refs").rglob("*") if path.is_file())
    rows = [f"{path.read_text().strip()}\t{path.relative_to(repository).as_posix()}\n" for path in refs]
    for name, text in (("info/refs", "".join(rows)), ("objects/info/packs", "\n")):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text(text)


class _Handler(SimpleHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        sent = self.headers.get("Authorization")
        self.server.seen.add(sent)
        if self.server.password not in (None, sent):
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="r"')
            self.end_headers()
        else:
            super().do_GET()

    def copyfile(self, source, outputfile) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            while part := source.read(100_000 if self.server.slowly else 1 << 20):
                outputfile.write(part)
                if self.server.slowly:
                    time.sleep(0.1)

    def log_message(self, *_: object) -> None:
        """Nothing."""
