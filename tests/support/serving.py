"""A server in a thread of its own, while a test needs it."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

_T = TypeVar("_T", bound=socketserver.BaseServer)


@contextmanager
def serving(server: _T) -> Iterator[_T]:
    """Let the server answer meanwhile."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
