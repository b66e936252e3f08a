"""The HTTP API in the process of the tests, and as a program of its own with raw bytes to and from it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess

from skillhub.cli.common import Common
from skillhub.cli.server import workplace_of

PORT = 8580
HOST = f"127.0.0.1:{PORT}"
BASE = f"http://{HOST}"
TOKEN = "a-token-of-more-than-twenty-characters"


def api(machine, monkeypatch, token=None, host="127.0.0.1", ip="127.0.0.1", more=()):
    """Return a client of the API of a machine, in this process; ``more`` are names of the server."""
    from starlette.testclient import TestClient

    from skillhub.server.application import ChangeStreams, application
    from skillhub.server.guard import AccessRules

    for name in {*os.environ} - {*machine.environ}:
        monkeypatch.delenv(name)
    for name, value in machine.environ.items():
        monkeypatch.setenv(name, value)
    workplace = workplace_of(Common(project=str(machine.project)))
    app = application(workplace, AccessRules(host, ip, PORT, more, token), ChangeStreams(workplace, 0.05))
    client = TestClient(app, base_url=BASE, raise_server_exceptions=False)
    client.workplace = workplace  # type: ignore[attr-defined]
    return client


class Served:
    """``skillhub serve`` on a free port."""

    def __init__(self, shell, *args, **environ):
        self.process = subprocess.Popen(
            shell.words("serve", "--port", "0", *args),
            cwd=shell.project,
            env=shell.having(environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.url = self.process.stdout.readline().decode().strip()
        self.port = int(re.search(r":(\d+)\b", self.url)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()
        self.process.stdout.close()
        self.process.stderr.close()

    def stop(self, number=signal.SIGINT):
        """End it; return its status and what it wrote to stderr."""
        os.kill(self.process.pid, number)
        _, err = self.process.communicate(timeout=300)
        return self.process.returncode, err.decode()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=300)

    def raw(self, head, body=b""):
        """Send a request unchanged, and return all bytes until the server hangs up."""
        with self.connect() as wire:
            wire.sendall(head.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body)
            return _all_of(wire)

    def get(self, path, **headers):
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        host = [] if "Host" in headers else [f"Host: 127.0.0.1:{self.port}"]
        return self.raw("\n".join([f"GET {path} HTTP/1.1", *host, "Connection: close", *lines]))


def _all_of(wire):
    parts = []
    while part := wire.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)
