"""Raw frames to and from ``skillhub mcp``, without a library between."""

from __future__ import annotations

import json
import os
import select
import subprocess
import threading
from collections.abc import Callable, Iterable
from typing import BinaryIO

SECONDS = 300  # in which a server answers, however busy the machine is

VERSION = "2026-07-28"
HELLO = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def request(number, method, modern=True, **params):
    """Return a frame; one of 2026-07-28 names its client."""
    if modern:
        envelope = {
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {**params, "_meta": envelope}
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def encoded(frames: Iterable[object]) -> bytes:
    return b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in frames)


def talk(shell, *frames, args=(), **environ):
    """Send frames, close, and return the answers by id, and all lines; each line must be a frame."""
    done = shell.run("mcp", *args, stdin=encoded(frames), **environ)
    assert done.status == 0, done.err
    lines = [json.loads(line) for line in done.raw.split(b"\n") if line]
    assert done.raw.count(b"\n") == len(lines)
    assert all(line["jsonrpc"] == "2.0" for line in lines), lines
    return {line.get("id"): line for line in lines}, lines


class Wire:
    """A server that stays, in a process of its own."""

    def __init__(self, shell, *args, **environ):
        self._read = b""
        given = shell.having(environ)
        self.process = subprocess.Popen(
            shell.words_within(given, "mcp", *args),
            cwd=shell.project,
            env=given,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._asks, self._answers = self.process.stdin, self.process.stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(300)
        self.process.stdout.close()

    def send(self, *frames):
        self._asks.write(encoded(frames))
        self._asks.flush()

    def receive(self):
        while b"\n" not in self._read:
            assert select.select([self._answers], [], [], SECONDS)[0], "the server does not answer"
            data = os.read(self._answers.fileno(), 1 << 20)
            assert data, "the server is gone"
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return json.loads(line)

    def ask(self, number, method, modern=True, **params):
        """Return the answer to one request, and skip other frames."""
        return self.answer(request(number, method, modern, **params))

    def answer(self, frame):
        """Send a request and return the answer to it, and skip other frames."""
        self.send(frame)
        while (received := self.receive()).get("id") != frame["id"]:
            pass
        return received


class WireWithin(Wire):
    """A server that stays in a thread of the tests; ``serve`` is given the two ends that it reads and writes."""

    def __init__(self, serve: Callable[[tuple[BinaryIO, BinaryIO]], None]) -> None:
        self._read = b""
        received, asks = os.pipe()
        answers, sent = os.pipe()
        self._asks, self._answers = open(asks, "wb"), open(answers, "rb")  # noqa: SIM115
        ends = open(received, "rb"), open(sent, "wb", buffering=0)  # noqa: SIM115
        self._thread = threading.Thread(target=self._run, args=(serve, ends), daemon=True)
        self._thread.start()

    def _run(self, serve: Callable[[tuple[BinaryIO, BinaryIO]], None], ends: tuple[BinaryIO, BinaryIO]) -> None:
        with ends[0], ends[1]:
            serve(ends)

    def __exit__(self, *_):
        self._asks.close()
        self._thread.join(SECONDS)
        self._answers.close()
        assert not self._thread.is_alive()
