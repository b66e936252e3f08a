"""The program in a process of its own, without an interpreter's start: a fork of one that has loaded all of it.

That one is small, so a fork of it is a fifth of what a fork of the process of the tests is, which holds them all.
"""

from __future__ import annotations

import atexit
import gc
import marshal
import os
import pkgutil
import select
import shutil
import signal
import socket
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
from skillhub.cli.app import build
from skillhub.cli.table import COMMANDS
from tests.support import forked_client
from tests.support.forked_client import PASSED_ON, as_bytes, begin, read_all, read_number
from tests.support.large_pages import use_large_pages

if sys.platform != "win32":
    import fcntl
    import termios

REPO = Path(__file__).resolve().parents[2]
# What is loaded by others only when it is used.
_LATER = (
    "_strptime",
    "anyio._backends._asyncio",
    "cryptography.hazmat.backends.openssl.backend",
    "encodings.idna",
    "markdown_it",
    "tomlkit",
    "tree_sitter_bash",
    "tree_sitter_javascript",
    "tuf.api.serialization.json",
    "typer._click.decorators",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.h11_impl",
)


@dataclass(frozen=True)
class Program:
    """What a process does.

    Attributes:
        module: Its function ``main`` is called.
        args: With these words.
        folder: Where it works.
        environ: All of its environment; what an interpreter reads when it starts has no effect.
        seconds: When it is ended, if it has not ended.
        is_on_terminal: Its standard input is a terminal, to be the one that controls it.
    """

    module: str
    args: Sequence[str]
    folder: str
    environ: Mapping[str, str]
    seconds: int
    umask: int = 0o22
    is_on_terminal: bool = False


class Process:
    """A process that runs a program, with three streams that are open here."""

    def __init__(self, program: Program, streams: Sequence[int]) -> None:
        umask = os.umask(0)
        os.umask(umask)
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(nursery())
        self.pid = begin(self._connection, {**vars(program), "umask": umask}, [*streams])

    def wait(self) -> int:
        """Return how it ended, as ``subprocess`` does."""
        with self._connection:
            return os.waitstatus_to_exitcode(read_number(self._connection))


def words(module: str, seconds: int) -> list[str]:
    """Return a command line that runs ``main`` of a module on the words that follow, and ends as it ends.

    It hands on the signals that ask a program to end. The program has the environment, the folder and the streams of
    its caller, but not its terminal; the start of an interpreter is left out.
    """
    return [sys.executable, "-I", "-S", forked_client.__file__, nursery(), module, str(seconds)]


_others: list[str] = []


def use(path: str) -> None:
    """Fork from a process that another one has started, so that the workers of a run share one."""
    _others[:] = [path]


def nursery() -> str:
    """Return where the process that all others are forked from listens."""
    return _others[0] if _others else _nursery()


@cache
def _nursery() -> str:
    """Start the process that all others are forked from, which ends with this one; return where it listens."""
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "s")
    ours, theirs = socket.socketpair()
    with theirs, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(100)
        ends = (listener.fileno(), theirs.fileno())
        child = subprocess.Popen(
            [sys.executable, "-m", __name__, folder, *map(str, ends)],
            cwd=REPO,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPO), "LANG": "C.UTF-8"},
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    atexit.register(child.wait)
    atexit.register(ours.close)
    return path


class _Nursery:
    """Forks a process for each order, and sends its number and its status; it kills the process of a lost client."""

    def __init__(self, listener: socket.socket, life: socket.socket) -> None:
        self._listener, self._life = listener, life
        self._ended, self._ending = socket.socketpair()
        self._running: dict[socket.socket, int] = {}

    def serve(self) -> None:
        # A signal to end may reach a fork before the program runs in it: until then signals wait.
        signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        self._ending.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._ending.fileno(), warn_on_full_buffer=False)
        while True:
            ready, _, _ = select.select([self._life, self._ended, self._listener, *self._running], [], [])
            if self._life in ready:
                for child in self._running.values():
                    os.kill(child, signal.SIGKILL)
                return
            if self._ended in ready:
                self._ended.recv(4096)
                self._tell()
            for client in self._running.keys() & {*ready}:
                os.kill(self._running[client], signal.SIGKILL)
                client.close()
                del self._running[client]
            if self._listener in ready:
                self._start(self._listener.accept()[0])

    def _start(self, client: socket.socket) -> None:
        streams: list[int] = []
        with suppress(OSError, EOFError, ValueError):  # a client may be killed before its order is complete
            size, streams, _, _ = socket.recv_fds(client, 4, 3)
            program = Program(**marshal.loads(read_all(client, int.from_bytes(size, "big"))))
            self._fork(client, program, streams)
        for each in streams:
            os.close(each)

    def _fork(self, client: socket.socket, program: Program, streams: Sequence[int]) -> None:
        child = os.fork()
        if not child:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for each in (self._listener, self._life, self._ended, self._ending, client, *self._running):
                each.close()
            _be_program(program, streams)
        self._running[client] = child
        client.sendall(as_bytes(child))

    def _tell(self) -> None:
        """Tell of those that have ended."""
        while True:
            try:
                child, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not child:
                return
            for client in [each for each, number in self._running.items() if number == child]:
                del self._running[client]
                with client, suppress(OSError):
                    client.sendall(as_bytes(status))


def _load() -> None:
    """Load and build all that a program may need, so that each fork has it."""
    ours = [each.name for each in pkgutil.walk_packages(skillhub.__path__, "skillhub.")]
    for name in (*ours, *_LATER):
        if not name.endswith("__main__"):
            with suppress(ImportError):  # it needs an extra
                import_module(name)
    _rebuild(BaseModel)
    for name in ("", *COMMANDS):
        build(name)
    _install_once()
    gc.collect()
    gc.freeze()
    use_large_pages()


def _install_once() -> None:
    """Install a skill: the patterns of the scan are compiled on first use, a quarter of what an install takes."""
    from tests.support.cli import Shell

    with tempfile.TemporaryDirectory() as folder:
        Shell(Path(folder)).run("install", "github:release-notes", "--yes")


def _rebuild(model: type[BaseModel]) -> None:
    """Build the validators of all documents: half of what a command takes where it builds them on first use."""
    for each in model.__subclasses__():
        if each.__module__.startswith("skillhub."):
            each.model_rebuild()
        _rebuild(each)


def _be_program(program: Program, streams: Sequence[int]) -> None:
    status = 1
    try:
        os.umask(program.umask)
        signal.alarm(program.seconds)
        _become(program, streams)
        status = import_module(program.module).main([*program.args])
        gc.collect()  # temporary folders go with what holds them
    except KeyboardInterrupt:  # as an interpreter ends
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
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
    """Give this process the state of a new one."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    if program.is_on_terminal:
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
    try:
        _load()
        _Nursery(*(socket.socket(fileno=int(each)) for each in sys.argv[2:])).serve()
    finally:
        shutil.rmtree(sys.argv[1])  # here: a process of the tests may end without a word
