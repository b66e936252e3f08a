"""Measure the MCP server: `python tests/bench/mcp_cost.py`.

- start: until the first answer, by importing the SDK alone. Wall clock, taking turns.
- the first list of 1,000 skills, all pages: every file is hashed or seen to be unchanged, and described; by hashing
  all of it. A list again: by the look of a host into the same folders.
- the peak of memory after all of it, which may be 200 MiB.

It wants the extra ``server``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from corpus import write_corpus  # noqa: E402
from mcp_types import PaginatedRequestParams  # noqa: E402
from runtime_cost import Race, race  # noqa: E402

from skillhub.model.hosts import profile  # noqa: E402
from skillhub.runtime.agent import catalog_of  # noqa: E402
from skillhub.runtime.discover import Surroundings  # noqa: E402
from skillhub.runtime.walk import Cache  # noqa: E402
from skillhub.server.content import ServedContent  # noqa: E402
from skillhub.server.mcp import SkillServer  # noqa: E402

MIB_MAX = 200
PROGRAM = "from skillhub.cli.main import main; sys.exit(main())"
SKILLHUB = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = [{str(HERE.parents[1])!r}]\n{PROGRAM}"]
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Served:
    """A project of installed skills."""

    def __init__(self, folder: Path, count: int) -> None:
        self.count = count
        self.project, home, hub = folder / "project", folder / "home", folder / "hub"
        write_corpus(folder / "src", count)
        for each in (self.project, home):
            each.mkdir()
        self.environ = {**os.environ, "HOME": str(home), "SKILLHUB_HOME": str(hub)}
        words = ["install", str(folder / "src"), "--all", "--yes", "--allow-unsigned", "--accept", "findings", "-q"]
        done = subprocess.run(
            [*SKILLHUB, *words], cwd=self.project, env=self.environ, capture_output=True, check=False
        )
        assert done.returncode in (0, 6), done.stderr
        self.around = Surroundings(
            cwd=str(self.project), home=str(home), environ={"SKILLHUB_HOME": str(hub)}, markers=("skillhub.lock",)
        )
        self.cache = Cache()

    def listed(self, server: SkillServer) -> int:
        found, cursor = 0, None
        while True:
            page = json.loads(json.dumps(server._list(PaginatedRequestParams(cursor=cursor))))
            found, cursor = found + len(page["skills"]), page.get("nextCursor")
            if cursor is None:
                return found

    def first(self) -> None:
        assert self.listed(SkillServer(ServedContent(self.around))) > 0

    def hashed(self) -> None:
        for path in (self.project / ".agents/skills").rglob("*"):
            if path.is_file():
                sha256(path.read_bytes()).hexdigest()

    def looked(self) -> None:
        catalog_of(profile("agents"), self.around, cache=self.cache)

    def answered(self, *frames: dict[str, object]) -> None:
        data = b"".join(json.dumps(each).encode() + b"\n" for each in frames)
        done = subprocess.run(
            [*SKILLHUB, "mcp"], input=data, cwd=self.project, env=self.environ, capture_output=True, check=True
        )
        assert done.stdout.count(b"\n") == len(frames), done.stderr


def frame(method: str) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": method, "method": method, "params": {"_meta": META}}


def races(folder: Path, count: int, rounds: int) -> list[Race]:
    desk = Served(folder, count)
    server = SkillServer(ServedContent(desk.around))
    desk.first()
    assert desk.listed(server) <= count
    again: Callable[[], object] = lambda: desk.listed(server)  # noqa: E731
    sdk = [sys.executable, "-I", "-c", "import mcp.server.lowlevel"]
    return [
        race(
            "import and first answer, by the SDK's import",
            lambda: desk.answered(frame("server/discover")),
            lambda: subprocess.run(sdk, check=True),
            2.5,
            rounds,
        ),
        race(f"first list of {count}, by hashing", desk.first, desk.hashed, 6.0, rounds),
        race("list again, by a look", again, desk.looked, 4.0, rounds),
    ]


def main() -> int:
    """Print the races and the peak of memory; return 1 if one is over its limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir) as folder:
        lines = races(Path(folder), given.n, given.rounds)
    print(*lines, sep="\n")
    import resource

    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(f"memory of a server with {given.n} skills: at most {peak} MiB of {MIB_MAX}")
    over = any(line.limit is not None and line.ratio > line.limit for line in lines)
    return 1 if over or peak > MIB_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
