"""Results of scans: from processes that scan the skills of a large install in parallel; and cached.

A few skills are not worth the start of a process. A cached result is used only if this machine wrote it for the same
tree and the same rules: it has a MAC with a key in ``<state>``. An install of many skills writes results, and never
uses one.
"""

from __future__ import annotations

import gc
import hmac
import json
import os
import platform
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict
from functools import cache, cached_property
from hashlib import blake2b, sha256
from importlib.metadata import PackageNotFoundError, version
from queue import SimpleQueue
from typing import IO, Any, Final, TypeAlias

import skillhub
from skillhub.disk import files
from skillhub.disk.home import Home
from skillhub.errors import FormatError, SkillhubError, StateError
from skillhub.formats.digest import Digest
from skillhub.model.finding import Finding
from skillhub.model.tree import File, Tree, Unpacked
from skillhub.scan import MANY, ScannedSkill

# Processes.

_Keep: TypeAlias = Callable[[Digest, ScannedSkill], bool]
_PROCESSES: Final = min(os.cpu_count() or 1, 4)
_START_MIN: Final = 60  # skills, whose scan takes about as long as the imports of a started process
# A started process has the module path of this one; `-I` excludes the working folder.
_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop());"
    "from skillhub.scan.results import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)


class ScansAhead:
    """Processes that scan skills before their results are needed.

    The function for a result scans what no process has scanned; a process that fails never fails the install.

    Args:
        processes: The number of processes; with a single one, this process would only wait.
        count: The number of skills to scan.
        keep: Keeps the result of a tree and returns True; if it is called in a fork of this process and returns False
            there, it is called again here once the caller uses the result.
    """

    def __init__(self, processes: int = _PROCESSES, count: int = _START_MIN, keep: _Keep = lambda *_: True) -> None:
        self._keep = keep
        self._processes: list[_Started | _Forked] = []
        self._idle: SimpleQueue[_Started | _Forked] = SimpleQueue()
        can_fork = _can_fork()
        # `sys.executable` of a program that embeds Python would start that program.
        is_python = os.path.basename(sys.executable or "").startswith("python") and not hasattr(sys, "frozen")
        pays_off = can_fork or (is_python and count >= _START_MIN)
        self._pool = ThreadPoolExecutor(processes)
        with ExitStack() as undo:
            undo.callback(self.close)
            with suppress(OSError), _signals_blocked() if can_fork else nullcontext():
                for _ in range(processes if pays_off and processes > 1 else 0):
                    self._processes.append(_Forked(keep) if can_fork else _Started())
                    self._idle.put(self._processes[-1])
            undo.pop_all()

    def begin(self, fetched: object) -> Callable[[Tree], ScannedSkill]:
        """Begin to scan an unpacked tree; return a function that returns the result for a tree.

        If no process has begun with exactly this tree, or none can answer, the function scans it itself.
        """
        submitted: tuple[Tree, Future[tuple[ScannedSkill, bool] | None]] | None = None
        if self._processes and isinstance(fetched, Unpacked):
            submitted = fetched.tree, self._pool.submit(self._ask, fetched.tree)

        def result_of(tree: Tree) -> ScannedSkill:
            answer = None
            if submitted is not None and not submitted[1].cancel() and submitted[0].digest == tree.digest:
                answer = submitted[1].result()
            result, is_kept = answer or (ScannedSkill.read(tree), False)
            if not is_kept:
                self._keep(tree.digest, result)
            return result

        return result_of

    def close(self) -> None:
        """Stop the processes; unfinished scans are lost."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.kill()
        self._pool.shutdown()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # unsent bytes are lost
                    pipe.close()

    def _ask(self, files: Tree) -> tuple[ScannedSkill, bool] | None:
        """Return the result of a process, and whether it is kept; None if the process failed, or for no skill."""
        process = self._idle.get()
        try:
            headers = [[path, file.executable, len(file.data)] for path, file in files.items()]
            line = json.dumps([files.digest, headers]).encode("ascii")
            parts = (line, b"\n", *(file.data for file in files.values()))
            process.stdin.write(b"".join(parts))
            process.stdin.flush()
            capabilities, rows, breaches, is_kept = json.loads(process.stdout.readline())
            findings = tuple(Finding(**row) for row in rows)
            return ScannedSkill(findings, tuple(capabilities), breaches=tuple(breaches)), is_kept
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
        paths = json.dumps([path for path in sys.path if os.path.isabs(path)])
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
def _signals_blocked() -> Iterator[None]:
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

    def __init__(self, keep: _Keep) -> None:
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
                for number in [number for number in signal.valid_signals() if callable(signal.getsignal(number))]:
                    signal.signal(number, signal.SIG_DFL)  # an application's handler must not run in its fork
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                for handle in {*map(int, os.listdir("/proc/self/fd"))} - {child_in, child_out}:
                    with suppress(OSError):  # locks, connections and terminal belong to this process alone
                        os.close(handle)
                gc.freeze()
                serve(open(child_in, "rb"), open(child_out, "wb"), keep)  # noqa: SIM115 - `_exit` closes them
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


def serve(questions: IO[bytes], answers: IO[bytes], keep: _Keep = lambda *_: False) -> None:
    """Answer each tree, which follows its digest, to the end of input, or ``null`` if it is no skill.

    An answer has the parts of the ``ScannedSkill``, and whether the result is kept.
    """
    while line := questions.readline():
        digest, headers = json.loads(line)
        answer: list[Any] | None = None
        result = ScannedSkill.read(
            Tree((path, File(questions.read(size), executable)) for path, executable, size in headers)
        )
        if result.capabilities is not None:  # otherwise the parent finds the fault again as it reads the manifest
            findings = [asdict(finding) for finding in result.findings]
            answer = [result.capabilities, findings, result.breaches, keep(Digest(digest), result)]
        answers.write(json.dumps(answer).encode("ascii") + b"\n")
        answers.flush()


# The cache.

PART = "scan"  # the folder within the cache
_CAP = 8 << 20
_KEY_BYTES = 32
_PENDING_MAX, _BYTES_MAX = 16, 1 << 26  # trees that wait for other processes: their number, their bytes together
_FIELDS = ("rule", "severity", "path", "line", "message", "hint")  # the fields that the scan sets in a finding
_PARSERS = ("PyYAML", "markdown-it-py", "tree-sitter", "tree-sitter-bash", "tree-sitter-javascript")
_Report: TypeAlias = Callable[[str, int, int], None]  # the current step, the number of skills done, of all
# The rooms whose code determines the results: rules, detectors, and the parser of manifests.
_ROOMS = ("scan", os.path.join("scan", "code"), "model", "formats")


class ScanCache:
    """The results of scans in ``<cache>/scan``, one file for each.

    Args:
        home: The folders of the cache and of the key.
        remember: Whether new results are written.
    """

    def __init__(self, home: Home, *, remember: bool = True) -> None:
        self._remember = remember
        self._folder = os.path.join(home.cache, PART)
        self._key_path = os.path.join(home.state, "scan-cache.key")
        self._unwritten: dict[Digest, ScannedSkill] = {}  # results that could not be written

    def read(self, tree: Tree) -> ScannedSkill:
        """Return the result for a tree whose digest was just computed: the cached one, or that of a new scan."""
        if (result := self._unwritten.get(tree.digest)) is not None:
            return result
        path = self._path(tree.digest)
        with suppress(StateError, FormatError, ValueError, TypeError, KeyError):
            data = files.read(path, _CAP)
            if data is not None:
                return self._parse(data, os.path.basename(path))
        self._keep(tree.digest, result := ScannedSkill.read(tree))
        return result

    def ahead(self, count: int) -> ScansAhead:
        """Return processes for so many skills, whose results are written."""
        _ = self.rules, self._key  # the processes share them
        return ScansAhead(count=count, keep=self._keep)

    def fill(self, trees: Iterable[Digest], read: Callable[[Digest], Tree | None], report: _Report) -> None:
        """Scan the trees without a cached result in other processes, if they are many, and write the results.

        A tree that cannot be read is skipped; ``read`` handles it later.

        Args:
            trees: The digests of the trees.
            read: Reads a tree.
            report: Receives the progress.
        """
        new = [digest for digest in dict.fromkeys(trees) if self._remember and not os.path.exists(self._path(digest))]
        if len(new) < MANY:
            return
        ahead, pending = self.ahead(len(new)), deque[tuple[Tree, Callable[[Tree], ScannedSkill]]]()
        try:
            for number, digest in enumerate(new):
                report("scanning skills", number, len(new))
                with suppress(SkillhubError):
                    if (tree := read(digest)) is not None:
                        pending.append((tree, ahead.begin(Unpacked(tree))))
                waiting = sum(queued.size for queued, _ in pending)
                while pending and (number == len(new) - 1 or len(pending) > _PENDING_MAX or waiting > _BYTES_MAX):
                    tree, result_of = pending.popleft()
                    waiting -= tree.size
                    result_of(tree)
        finally:
            ahead.close()

    def _path(self, tree: Digest) -> str:
        name = sha256(f"{tree}\n{self.rules}".encode()).hexdigest()
        return os.path.join(self._folder, name[:2], name)

    def _keep(self, tree: Digest, result: ScannedSkill) -> bool:
        """Write the result, unless this cache writes none; return whether nothing failed."""
        if not self._remember:
            return True
        path = self._path(tree)
        rows = [{key: getattr(finding, key) for key in _FIELDS} for finding in result.findings]
        facts = {key: getattr(result, key) for key in ("capabilities", "fault", "breaches")} | {"findings": rows}
        body = json.dumps({"rules": self.rules, "tree": tree, **facts}).encode()
        try:
            files.write_atomic(path, self._mac(os.path.basename(path), body) + b"\n" + body, mode=0o600, sync=False)
        except StateError:
            self._unwritten[tree] = result
            return False
        return True

    def _parse(self, data: bytes, name: str) -> ScannedSkill:
        mac, _, body = data.partition(b"\n")
        if not hmac.compare_digest(mac, self._mac(name, body)):
            raise ValueError("not written here")
        document = json.loads(body)
        names = document["capabilities"]
        findings = tuple(Finding(**row) for row in document["findings"])
        capabilities = None if names is None else tuple(names)
        return ScannedSkill(findings, capabilities, document["fault"], tuple(document["breaches"]))

    def _mac(self, name: str, body: bytes) -> bytes:
        return blake2b(name.encode() + body, key=self._key, digest_size=32).hexdigest().encode()

    @cached_property
    def _key(self) -> bytes:
        """The key of this machine, created if missing; if it cannot be written, it is valid for this command only."""
        with suppress(FormatError, StateError):
            key = files.read(self._key_path, _KEY_BYTES)
            if key is not None and len(key) == _KEY_BYTES:
                return key
        key = os.urandom(_KEY_BYTES)
        if self._remember:
            with suppress(StateError):
                files.write_atomic(self._key_path, key, mode=0o600)
        return key

    @cached_property
    def rules(self) -> str:
        """The names and versions of everything that determines the results."""
        parsers = ", ".join(f"{name} {_version(name)}" for name in _PARSERS)
        return f"skillhub {skillhub.__version__} {_code()}, Python {platform.python_version()}, {parsers}"


@cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


@cache
def _code() -> str:
    """Return a digest of the code that scans: a working copy still has the version of the release before it."""
    top = os.path.dirname(os.path.abspath(skillhub.__file__))
    return sha256(b"".join(_sources(top))).hexdigest()


def _sources(top: str) -> Iterator[bytes]:
    for room in _ROOMS:
        folder = os.path.join(top, room)
        for name in sorted(os.listdir(folder)):
            if name.endswith((".py", ".json")):
                data = files.read(os.path.join(folder, name), _CAP) or b""
                yield sha256(data).digest()
