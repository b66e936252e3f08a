"""TUF's attacks on the transfer, over real sockets and with the program's own fetcher."""

from __future__ import annotations

from itertools import product

import pytest

from skillhub.errors import SourceError, UnsafeTransfer, WrongBytes
from skillhub.net.client import Http, Patience
from tests.attacks.scene import Scene, installs_other
from tests.support.web import Web, answer, endless, hang_up, redirect

CHUNK = b"x" * 65536
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\n"
ANNOUNCED = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
IMPATIENT = Patience(grace=0.4, rate=1e6, total=2.0, pauses=(0.0,))


class Wired(Scene):
    """A scene whose registry is served on loopback."""

    def __init__(self, folder, hub, web, fetcher):
        self.web = web
        for path, data in hub.files.items():
            self.at(path, answer(data))
        super().__init__(folder, hub, fetcher, web.url("/hub"))

    def at(self, path, act):
        self.web.at(f"/hub/{path}", act)


@pytest.fixture
def scene(pair, tmp_path):
    with Web() as web, Http() as fetcher:
        yield Wired(tmp_path, pair.copy(tmp_path), web, fetcher)


def archive(scene):
    return next(path for path in scene.hub.files if path.startswith("archives/other/"))


ATTACKS = {
    "endless": (endless(ENDLESS, CHUNK), WrongBytes),
    "endless, in chunks": (endless(CHUNKED, b"10000\r\n" + CHUNK + b"\r\n"), WrongBytes),
    "announced to be endless": (endless(ANNOUNCED, CHUNK), WrongBytes),
    "endless head": (endless(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"), SourceError),
    "slow": (endless(ENDLESS, b"x", 0.05), SourceError),
    "slow head": (endless(b"HTTP/1.1 200 OK\r\n", b"X", 0.05), SourceError),
    "silent": (endless(b"", b"", 5.0), SourceError),
    "broken off": (hang_up(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nabc"), SourceError),
    "a part": (answer(b"{}", "Content-Range: bytes 0-1/9", status="206 Partial Content"), UnsafeTransfer),
    "packed": (answer(b"{}", "Content-Encoding: gzip"), UnsafeTransfer),
    "to a file": (redirect("file:///etc/hostname"), UnsafeTransfer),
    "to a private network": (redirect("https://10.0.0.1/x"), UnsafeTransfer),
    "to a cloud's own service": (redirect("http://169.254.169.254/latest/meta-data"), UnsafeTransfer),
}


# Each attack on one document, and on the others one for each error: all are fetched by one client.
TRANSFERS = [
    *((attack, "metadata/timestamp.json") for attack in ATTACKS),
    *product(("endless", "slow", "packed"), ("metadata/2.root.json", "archive")),
]


@pytest.mark.parametrize(("attack", "path"), TRANSFERS)
def test_an_unsafe_endless_or_slow_transfer_is_refused(scene, attack, path):
    act, error = ATTACKS[attack]
    scene.at(archive(scene) if path == "archive" else path, act)
    with Http(patience=IMPATIENT if error is SourceError else None) as scene.machine.road:
        scene.refuses(error, installs_other(scene))


def test_a_loop_of_redirects_is_refused(scene):
    scene.at("metadata/timestamp.json", redirect("timestamp.json"))
    scene.refuses(UnsafeTransfer, installs_other(scene))
