"""Many skills are scanned beside this process, by others that do nothing else; a few are not worth their start."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict
from queue import SimpleQueue
from typing import IO, Any, Final, TypeAlias

from skillhub.archive import Unpacked
from skillhub.errors import SkillhubError
from skillhub.model.finding import Finding
from skillhub.model.manifest import Manifest
from skillhub.model.tree import File, Tree
from skillhub.scan import capabilities_and_findings

_Seen: TypeAlias = tuple[tuple[str, ...], tuple[Finding, ...]]
_PROCESSES: Final = min(os.cpu_count() or 1, 4)
_WORTH_STARTING: Final = 60  # skills, whose scan takes about as long as a process that loads all that it needs
# The modules of a process are those of this one, wherever they are; `-I` keeps the working folder out.
_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop());"
    "from skillhub.install.scan_processes import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)


class ScansAhead:
    """Processes that scan skills before that is needed.

    What they cannot do is left to whoever asks: nothing here fails because one of them does.

    Args:
        processes: How many; a single one would only take turns with this one.
        count: How many skills will come.
    """

    def __init__(self, processes: int = _PROCESSES, count: int = _WORTH_STARTING) -> None:
        self._processes: list[_Started | _Forked] = []
        self._idle: SimpleQueue[_Started | _Forked] = SimpleQueue()
        can_fork = _can_fork()
        # A program that holds Python would start as itself.
        is_python = os.path.basename(sys.executable or "").startswith("python") and not hasattr(sys, "frozen")
        is_worth_it = can_fork or (is_python and count >= _WORTH_STARTING)
        self._pool = ThreadPoolExecutor(processes)
        with ExitStack() as undo:
            undo.callback(self.close)
            with suppress(OSError), _signals_held() if can_fork else nullcontext():
                for _ in range(processes if is_worth_it and processes > 1 else 0):
                    self._processes.append(_Forked() if can_fork else _Started())
                    self._idle.put(self._processes[-1])
            undo.pop_all()

    def begin(self, fetched: object) -> Callable[[Tree], _Seen | None]:
        """Begin to scan what was unpacked; return what tells of that very tree what was seen in it."""
        if not self._processes or not isinstance(fetched, Unpacked):
            return lambda _: None
        whole = fetched.tree
        scan_of_it = self._pool.submit(self._ask, whole)

        def seen(tree: Tree) -> _Seen | None:
            found = None if scan_of_it.cancel() else scan_of_it.result()
            return found if tree.digest == whole.digest else None

        return seen

    def close(self) -> None:
        """Stop the processes; what was begun is lost."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for each in self._processes:
            each.kill()
        self._pool.shutdown()
        for each in self._processes:
            each.wait()
            for pipe in (each.stdin, each.stdout):
                with suppress(OSError):  # what was not sent is lost
                    pipe.close()

    def _ask(self, files: Tree) -> _Seen | None:
        process = self._idle.get()
        try:
            rows = [[path, file.executable, len(file.data)] for path, file in files.items()]
            parts = (json.dumps(rows).encode("ascii"), b"\n", *(file.data for file in files.values()))
            process.stdin.write(b"".join(parts))
            process.stdin.flush()
            can, found = json.loads(process.stdout.readline())
            return tuple(can), tuple(Finding(**each) for each in found)
        except TypeError:  # it is no skill
            return None
        except (OSError, ValueError):
            process.stdout.close()  # what it says next would count for another skill than it is of
            return None
        finally:
            self._idle.put(process)


class _Started(subprocess.Popen[bytes]):
    """A process that begins with nothing."""

    stdin: IO[bytes]
    stdout: IO[bytes]

    def __init__(self) -> None:
        paths = json.dumps([each for each in sys.path if os.path.isabs(each)])
        super().__init__(
            [sys.executable, "-I", "-c", _PROGRAM, paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the one that a person talks to
        )


def _can_fork() -> bool:
    """Return whether a copy of this process can go on: it has one thread, so nobody else holds a lock.

    The kernel counts, since a thread that Python has joined can still be in its last lines, and hold a lock there.
    """
    return os.path.isdir("/proc/self/task") and len(os.listdir("/proc/self/task")) == 1


@contextmanager
def _signals_held() -> Iterator[None]:
    """Let what a signal does wait: in a copy of this process it would end what this process has begun."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Forked:
    """A process that begins as a copy of this one: what it needs is loaded, which is all that takes time.

    It is begun while signals are held.
    """

    def __init__(self) -> None:
        ends: list[int] = []
        self.returncode: int | None = None
        try:
            ends += os.pipe()
            ends += os.pipe()
            self._pid = os.fork()
        except OSError:
            for end in ends:
                os.close(end)
            raise
        asked, asks, told, tells = ends
        if not self._pid:
            try:
                os.setsid()
                for each in [each for each in signal.valid_signals() if callable(signal.getsignal(each))]:
                    signal.signal(each, signal.SIG_DFL)  # what an application does then is not for its copy
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                for handle in {*map(int, os.listdir("/proc/self/fd"))} - {asked, tells}:
                    with suppress(OSError):  # locks, connections and terminal are not its own
                        os.close(handle)
                gc.freeze()
                serve(open(asked, "rb"), open(tells, "wb"))  # noqa: SIM115 - `_exit` closes them
            finally:
                os._exit(0)  # nothing of this process is done twice
        os.close(asked)
        os.close(tells)
        self.stdin, self.stdout = open(asks, "wb"), open(told, "rb")  # noqa: SIM115 - `ScansAhead.close` does

    def kill(self) -> None:
        """End it, unless it has ended and somebody waited for it: then its number may be another's."""
        with suppress(ChildProcessError, ProcessLookupError):  # who ignores its children's end has them go meanwhile
            if self.returncode is None and not os.waitpid(self._pid, os.WNOHANG)[0]:
                os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> None:
        """Return once it has ended; somebody else may be told how, if the application waits for all its children."""
        with suppress(ChildProcessError):
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    """Answer what each skill that comes can do and holds, until no more comes; ``null`` for one that is none."""
    while line := questions.readline():
        files = {path: File(questions.read(size), executable) for path, executable, size in json.loads(line)}
        answer: list[Any] | None = None
        with suppress(SkillhubError):  # told by whoever reads its manifest
            tree = Tree(files)
            can, found = capabilities_and_findings(tree, Manifest.read(tree))
            answer = [can, [asdict(each) for each in found]]
        answers.write(json.dumps(answer).encode("ascii") + b"\n")
        answers.flush()
