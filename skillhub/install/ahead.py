"""Many skills are scanned beside this process, by others that do nothing else; a few are not worth their start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from queue import SimpleQueue
from typing import IO, Any, Final, TypeAlias

from skillhub.archive import Unpacked, unpack
from skillhub.errors import SkillhubError
from skillhub.model.finding import Finding
from skillhub.model.manifest import Manifest
from skillhub.model.tree import File, Tree
from skillhub.scan import capabilities_and_findings

_Seen: TypeAlias = tuple[tuple[str, ...], tuple[Finding, ...]]
_PROCESSES: Final = min(os.cpu_count() or 1, 4)
# The modules of a process are those of this one, wherever they are; `-I` keeps the working folder out.
_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop());"
    "from skillhub.install.ahead import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
)


class ScansAhead:
    """Processes that scan skills before that is needed.

    What they cannot do is left to whoever asks: nothing here fails because one of them does.

    Args:
        processes: How many; a single one would only take turns with this one.
    """

    def __init__(self, processes: int = _PROCESSES) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        paths = json.dumps([each for each in sys.path if os.path.isabs(each)])
        is_python = os.path.basename(sys.executable or "").startswith("python") and not hasattr(sys, "frozen")
        with suppress(OSError):
            # A program that holds Python would start as itself.
            for _ in range(processes if processes > 1 and is_python else 0):
                process = subprocess.Popen(
                    [sys.executable, "-I", "-c", _PROGRAM, paths],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for the one that a person talks to
                )
                self._processes.append(process)
                self._idle.put(process)
        self._pool = ThreadPoolExecutor(max(1, len(self._processes)))

    def begin(self, fetched: object) -> Callable[[Tree], _Seen | None]:
        """Begin to scan the skill in a zip, or a tree; return what tells of that very tree what was seen in it."""
        if not self._processes or not isinstance(fetched, bytes | Unpacked):
            return lambda _: None
        scan_of_it = self._pool.submit(self._ask, fetched)

        def seen(tree: Tree) -> _Seen | None:
            found = None if scan_of_it.cancel() else scan_of_it.result()
            return found[1] if found is not None and found[0] == str(tree.digest) else None

        return seen

    def close(self) -> None:
        """Stop the processes; what was begun is lost."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for each in self._processes:
            each.kill()
        self._pool.shutdown()
        for each in self._processes:
            each.communicate()

    def _ask(self, fetched: bytes | Unpacked) -> tuple[str, _Seen] | None:
        process = self._idle.get()
        try:
            assert process.stdin and process.stdout  # noqa: S101 - both are pipes
            files = {"": File(fetched)} if isinstance(fetched, bytes) else fetched.tree
            rows = [[path, file.executable, len(file.data)] for path, file in files.items()]
            parts = (json.dumps(rows).encode("ascii"), b"\n", *(file.data for file in files.values()))
            process.stdin.write(b"".join(parts))
            process.stdin.flush()
            tree, can, found = json.loads(process.stdout.readline())
            return tree, (tuple(can), tuple(Finding(**each) for each in found))
        except (OSError, ValueError, TypeError):
            return None
        finally:
            self._idle.put(process)


def serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    """Answer what each skill that comes is, can do and holds, until no more comes; ``null`` for one that is none."""
    while line := questions.readline():
        files = {path: File(questions.read(size), executable) for path, executable, size in json.loads(line)}
        answer: list[Any] | None = None
        with suppress(SkillhubError):  # told by whoever unpacks it, or reads its manifest
            tree = unpack(files[""].data, "zip", wrapper=False).tree if "" in files else Tree(files)
            can, found = capabilities_and_findings(tree, Manifest.read(tree))
            answer = [str(tree.digest), can, [asdict(each) for each in found]]
        answers.write(json.dumps(answer).encode("ascii") + b"\n")
        answers.flush()
