"""Measure the HTTP client over TLS and 20 ms of latency, with HTTP/1.1 and with HTTP/2.

    python tests/bench/transfer.py [-n 1,100,1000] [--rounds 5] [--rtt 0.02]

It needs `h2`, which skillhub does not (docs/adr/0025-httpx.md). The server is a separate process. Each direction has
half of the latency, a connection has all of it, as a TCP handshake does, and bandwidth has no limit.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from link import certificates, line  # noqa: E402

SIZE = 12_000  # size of an archive of a small skill
BODY = bytes(range(256)) * (SIZE // 256)
MANY = {"h1, 16 threads": (False, 16), "h2, 16 threads": (True, 16), "h2, 100 threads": (True, 100)}


class Server(asyncio.Protocol):
    """Answers every request with the same body, in either version of HTTP."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.held = b""
        self.h2: Any = None
        self.unsent: dict[int, bytes] = {}
        if transport.get_extra_info("ssl_object").selected_alpn_protocol() == "h2":
            from h2.config import H2Configuration
            from h2.connection import H2Connection

            self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
            self.h2.initiate_connection()
            transport.write(self.h2.data_to_send())

    def data_received(self, data: bytes) -> None:
        if self.h2 is None:
            self.held += data
            while b"\r\n\r\n" in self.held:
                self.held = self.held.partition(b"\r\n\r\n")[2]
                self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
            return
        from h2.events import RequestReceived

        for event in self.h2.receive_data(data):
            if isinstance(event, RequestReceived):
                self.h2.send_headers(event.stream_id, [(":status", "200"), ("content-length", str(len(BODY)))])
                self.unsent[event.stream_id] = BODY
        self.send()

    def send(self) -> None:
        for stream, left in list(self.unsent.items()):
            while left and (size := min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)):
                self.h2.send_data(stream, left[:size], end_stream=len(left) <= size)
                left = left[size:]
            self.unsent[stream] = left
            if not left:
                del self.unsent[stream]
        self.transport.write(self.h2.data_to_send())


async def serve(pem: str, rtt: float) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    context.set_alpn_protocols(["h2", "http/1.1"])
    loop = asyncio.get_running_loop()
    behind = await loop.create_server(Server, "127.0.0.1", 0, ssl=context)
    front = await line(behind.sockets[0].getsockname()[1], rtt, None)
    print(front.sockets[0].getsockname()[1], flush=True)
    await front.serve_forever()


def fetch(url: str, pem: str, count: int, threads: int) -> tuple[float, float]:
    """Return seconds and those of processor time that ``count`` artifacts take, on new connections."""
    from skillhub.net.client import Http

    context = ssl.create_default_context(cafile=pem)
    with Http(tls=context) as http, ThreadPoolExecutor(threads) as pool:
        began, worked = time.perf_counter(), time.process_time()
        found = list(pool.map(lambda n: http.get(f"{url}/{n}", cap=1 << 20).data, range(count)))
        took = time.perf_counter() - began, time.process_time() - worked
    if set(found) != {BODY}:
        raise SystemExit("something else came")
    return took


def use_http2() -> None:
    """Have the client speak HTTP/2, which it does not: one thread reads what others asked for, so none is counted."""
    import httpcore

    from skillhub.net import client

    class Uncounted(client._Exchange):
        def receive(self, count: int) -> None:
            pass

    client._Exchange = partial(Uncounted, received=1)  # type: ignore[assignment,misc]
    httpcore.ConnectionPool = partial(httpcore.ConnectionPool, http2=True)  # type: ignore[assignment,misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", default="1,100,1000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rtt", type=float, default=0.02)
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    match given.part:
        case ["serve", pem]:
            asyncio.run(serve(pem, given.rtt))
        case ["fetch", url, pem, count, threads, is_h2]:
            if is_h2 == "True":
                use_http2()
            print(*fetch(url, pem, int(count), int(threads)))
        case _:
            race([int(each) for each in given.n.split(",")], given.rounds, given.rtt)


def race(counts: list[int], rounds: int, rtt: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        authority, pem = certificates(Path(folder))
        program = [sys.executable, str(Path(__file__).resolve()), "--rtt", str(rtt), "--part"]
        with subprocess.Popen([*program, "serve", str(pem)], stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                url = f"https://127.0.0.1:{int(server.stdout.readline())}"
                for count in counts:
                    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in MANY}
                    for _ in range(rounds):
                        for name, (is_h2, threads) in MANY.items():
                            words = [*program, "fetch", url, str(authority), str(count), str(threads), str(is_h2)]
                            done = subprocess.run(words, capture_output=True, text=True, check=True)
                            taken[name].append(tuple(map(float, done.stdout.split())))  # type: ignore[arg-type]
                    for name, rows in taken.items():
                        seconds, worked = (statistics.median(each) * 1000 for each in zip(*rows, strict=True))
                        print(f"{count:5} {name:16} {seconds:7.0f} ms {worked:7.0f} ms of CPU", flush=True)
            finally:
                server.terminate()


def tell(count: int, name: str, rows: list[tuple[float, float]], rounds: int) -> None:
    seconds, worked = [statistics.median(each) * 1000 for each in zip(*rows, strict=True)] if rows else (0, 0)
    failed = f", {rounds - len(rows)} of {rounds} failed" if len(rows) < rounds else ""
    print(f"{count:5} {name:16} {seconds:7.0f} ms {worked:7.0f} ms of CPU{failed}", flush=True)


if __name__ == "__main__":
    main()
