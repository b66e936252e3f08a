"""Debian's ``docker-registry`` on loopback, and a push to it by plain HTTP requests."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin

import pytest

CONFIG = """\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: {folder}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Run the registry and yield its host and port; skip where the program is not installed."""
    if shutil.which("docker-registry") is None:
        pytest.skip("there is no docker-registry")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    config = folder / "config.yml"
    config.write_text(CONFIG.format(folder=folder, port=port))
    quiet = subprocess.DEVNULL
    server = subprocess.Popen(["docker-registry", "serve", str(config)], stdout=quiet, stderr=quiet)
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=300).close()
                break
            except OSError:
                assert server.poll() is None, "docker-registry ended"
                time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def put(host: str, repository: str, tag: str, blobs: Mapping[str, bytes], manifest: bytes) -> None:
    """Push blobs by their digests, then a manifest under a tag or digest."""
    base = f"http://{host}/v2/{repository}/"
    for digest, data in blobs.items():
        start = urllib.request.Request(f"{base}blobs/uploads/", b"", method="POST")
        with urllib.request.urlopen(start) as answer:
            place = urljoin(base, answer.headers["Location"])
        place += f"{'&' if '?' in place else '?'}digest={digest}"
        send(place, data, "application/octet-stream")
    send(f"{base}manifests/{tag}", manifest, json.loads(manifest)["mediaType"])


def send(url: str, data: bytes, media_type: str) -> None:
    request = urllib.request.Request(url, data, {"Content-Type": media_type}, method="PUT")
    urllib.request.urlopen(request).close()
