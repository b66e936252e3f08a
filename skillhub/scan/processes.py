"""Processes that scan the skills of a large install in parallel; a few skills are not worth their start."""

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

from skillhub.errors import SkillhubError
from skillhub.model.finding import Finding
from skillhub.model.manifest import Manifest
from skillhub.model.tree import File, Tree, Unpacked
from skillhub.scan import capabilities_and_findings

_ScanResult: TypeAlias = tuple[tuple[str, ...], tuple[Finding, ...]]
_PROCESSES: Final = min(os.cpu_count() or 1, 4)
_WORTH_STARTING: Final = 60  # skills, whose scan takes about as long as the imports of a started process
# A started process has the module path of this one; `-I` excludes the working folder.
_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop());"
    "from skillhub.scan.processes import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)


class ScansAhead:
    """Processes that scan skills before their results are needed.

    The caller scans what no process has scanned; a process that fails never fails the install.

    Args:
        processes: The number of processes; with a single one, this process would only wait.
        count: The number of skills to scan.
    """

    def __init__(self, processes: int = _PROCESSES, count: int = _WORTH_STARTING) -> None:
        self._processes: list[_Started | _Forked] = []
        self._idle: SimpleQueue[_Started | _Forked] = SimpleQueue()
        can_fork = _can_fork()
        # `sys.executable` of a program that embeds Python would start that program.
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

    def begin(self, fetched: object) -> Callable[[Tree], _ScanResult | None]:
        """Begin to scan an unpacked tree; return a function that returns the result for exactly this tree."""
        if not self._processes or not isinstance(fetched, Unpacked):
            return lambda _: None
        unpacked_tree = fetched.tree
        scan = self._pool.submit(self._ask, unpacked_tree)

        def result_of(tree: Tree) -> _ScanResult | None:
            result = None if scan.cancel() else scan.result()
            return result if tree.digest == unpacked_tree.digest else None

        return result_of

    def close(self) -> None:
        """Stop the processes; unfinished scans are lost."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for each in self._processes:
            each.kill()
        self._pool.shutdown()
        for each in self._processes:
            each.wait()
            for pipe in (each.stdin, each.stdout):
                with suppress(OSError):  # unsent bytes are lost
                    pipe.close()

    def _ask(self, files: Tree) -> _ScanResult | None:
        process = self._idle.get()
        try:
            rows = [[path, file.executable, len(file.data)] for path, file in files.items()]
            parts = (json.dumps(rows).encode("ascii"), b"\n", *(file.data for file in files.values()))
            process.stdin.write(b"".join(parts))
            process.stdin.flush()
            capabilities, findings = json.loads(process.stdout.readline())
            return tuple(capabilities), tuple(Finding(**each) for each in findings)
        except TypeError:  # the answer is `null`: the tree is no skill
            return None
        except (OSError, ValueError):
            process.stdout.close()  # its next answer would be attributed to the wrong skill
            return None
        finally:
            self._idle.put(process)


class _Started(subprocess.Popen[bytes]):
    """A new Python process, which imports the scan first."""

    stdin: IO[bytes]
    stdout: IO[bytes]

    def __init__(self) -> None:
        paths = json.dumps([each for each in sys.path if os.path.isabs(each)])
        super().__init__(
            [sys.executable, "-I", "-c", _PROGRAM, paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches only the process that the user started
        )


def _can_fork() -> bool:
    """Return whether a fork of this process can run: this process has one thread, so no other thread holds a lock.

    The kernel counts the threads, since a thread that Python has joined may still be ending, and hold a lock.
    """
    return os.path.isdir("/proc/self/task") and len(os.listdir("/proc/self/task")) == 1


@contextmanager
def _signals_held() -> Iterator[None]:
    """Block all signals in the block: a handler that ran in a fork would undo the work of this process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Forked:
    """A fork of this process, with the scan's modules loaded, whose import takes most of the time of a start.

    The caller blocks signals meanwhile.
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
        child_in, to_child, from_child, child_out = ends
        if not self._pid:
            try:
                os.setsid()
                for each in [each for each in signal.valid_signals() if callable(signal.getsignal(each))]:
                    signal.signal(each, signal.SIG_DFL)  # an application's handler must not run in its fork
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                for handle in {*map(int, os.listdir("/proc/self/fd"))} - {child_in, child_out}:
                    with suppress(OSError):  # locks, connections and terminal belong to this process alone
                        os.close(handle)
                gc.freeze()
                serve(open(child_in, "rb"), open(child_out, "wb"))  # noqa: SIM115 - `_exit` closes them
            finally:
                os._exit(0)  # run no exit handler and flush no buffer of the parent twice
        os.close(child_in)
        os.close(child_out)
        self.stdin, self.stdout = open(to_child, "wb"), open(from_child, "rb")  # noqa: SIM115 - `ScansAhead.close` does

    def kill(self) -> None:
        """Kill the process, unless it ended and was waited for: another process may have its number then."""
        with suppress(ChildProcessError, ProcessLookupError):  # with SIGCHLD ignored, it may vanish at any time
            if self.returncode is None and not os.waitpid(self._pid, os.WNOHANG)[0]:
                os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> None:
        """Wait for the end of the process; an application that waits for all its children may get its status."""
        with suppress(ChildProcessError):
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    """Answer each tree with its capabilities and findings, or ``null`` if it is no skill, until the input ends."""
    while line := questions.readline():
        files = {path: File(questions.read(size), executable) for path, executable, size in json.loads(line)}
        answer: list[Any] | None = None
        with suppress(SkillhubError):  # the parent raises it again as it reads the manifest
            tree = Tree(files)
            capabilities, findings = capabilities_and_findings(tree, Manifest.read(tree))
            answer = [capabilities, [asdict(each) for each in findings]]
        answers.write(json.dumps(answer).encode("ascii") + b"\n")
        answers.flush()
