"""The program in a process of its own, without an interpreter's start: a fork of one that has loaded all of it.

That one is small, so a fork of it is a fifth of what a fork of the process of the tests is, which holds them all.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pkgutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from pydantic import BaseModel

import skillhub

if sys.platform != "win32":
    import fcntl
    import termios

REPO = Path(__file__).resolve().parents[2]
_NUMBER = struct.Struct("i")
# What is loaded by others only when it is used.
_LATER = (
    "_strptime",
    "cryptography.hazmat.backends.openssl.backend",
    "encodings.idna",
    "markdown_it",
    "tomlkit",
    "tree_sitter_bash",
    "tree_sitter_javascript",
    "tuf.api.serialization.json",
    "typer._click.decorators",
)


@dataclass(frozen=True)
class Program:
    """What a process does.

    Attributes:
        module: Its function ``main`` is called.
        args: With these words.
        folder: Where it works.
        environ: All of its environment; what an interpreter reads when it starts has no effect.
    """

    module: str
    args: Sequence[str]
    folder: str
    environ: Mapping[str, str]


def start(program: Program, streams: Sequence[int], seconds: int) -> int:
    """Start a process and return its number; wait for it before the next is started.

    Args:
        program: What it does.
        streams: Its standard input, output and error; a terminal is made the one that controls it.
        seconds: When it is ended, if it has not ended.
    """
    umask = os.umask(0)
    os.umask(umask)
    with tempfile.TemporaryFile() as order:
        order.write(json.dumps([vars(program), umask, seconds]).encode())
        order.flush()
        socket.send_fds(_nursery(), [b"."], [order.fileno(), *streams])
    return _number(_nursery())


def wait() -> int:
    """Return how the process ended that was started last, as ``subprocess`` does."""
    return os.waitstatus_to_exitcode(_number(_nursery()))


@cache
def _nursery() -> socket.socket:
    """Start the process that all others are forked from; it ends when nobody holds the other end any more."""
    ours, theirs = socket.socketpair()
    with theirs:
        child = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            cwd=REPO,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPO), "LANG": "C.UTF-8"},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    atexit.register(child.wait)
    atexit.register(ours.close)
    return ours


def _number(connection: socket.socket) -> int:
    return _NUMBER.unpack(connection.recv(_NUMBER.size, socket.MSG_WAITALL))[0]


def _serve(connection: socket.socket) -> None:
    """Fork a process for each order, and say its number and how it ended."""
    ours = [each.name for each in pkgutil.walk_packages(skillhub.__path__, "skillhub.")]
    for name in (*ours, *_LATER):
        if not name.endswith("__main__"):
            with suppress(ImportError):  # it needs an extra
                import_module(name)
    _rebuild(BaseModel)
    gc.collect()
    gc.freeze()
    while files := socket.recv_fds(connection, 1, 4)[1]:
        child = os.fork()
        if not child:
            connection.close()
            _be_program(*files)
        for each in files:
            os.close(each)
        connection.sendall(_NUMBER.pack(child))
        connection.sendall(_NUMBER.pack(os.waitpid(child, 0)[1]))


def _rebuild(model: type[BaseModel]) -> None:
    """Build the validators of all documents: half of what a command takes where it builds them on first use."""
    for each in model.__subclasses__():
        if each.__module__.startswith("skillhub."):
            each.model_rebuild()
        _rebuild(each)


def _be_program(order: int, *streams: int) -> None:
    status = 1
    try:
        with open(order, "rb") as file:
            file.seek(0)
            program, umask, seconds = json.load(file)
        os.umask(umask)
        signal.alarm(seconds)
        _become(Program(**program), streams)
        status = import_module(program["module"]).main(program["args"])
        gc.collect()  # temporary folders go with what holds them
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else stop.code is not None
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _become(program: Program, streams: Sequence[int]) -> None:
    """Make of this process what a new one would be."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.isatty(streams[0]):
        os.setsid()
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        file = open(number, "r" if number == 0 else "w", encoding="utf-8", errors="replace")  # noqa: SIM115
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)
    sys.stderr.reconfigure(line_buffering=True)
    os.environ.clear()
    os.environ.update(program.environ)
    os.chdir(program.folder)
    tempfile.tempdir = None


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as end:
        _serve(end)
