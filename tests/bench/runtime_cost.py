"""Measure discovery and start-up of the library for agents: `python tests/bench/runtime_cost.py`.

The baselines, in turns with ours in one run on the same data:

- cold (without our cache): PyYAML's safe loader alone on each frontmatter in memory. Ours finds the files, reads and
  checks them, and makes the skills.
- warm: cold. Once for a running agent, once for a new process that has only the cache's file; the baseline of the
  latter is a first run with a cache, which reads all files and writes the cache.
- start: bare Python.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import yaml  # noqa: E402
from corpus import write_heads  # noqa: E402

from skillhub.model.hosts import Bounds, profile  # noqa: E402
from skillhub.model.manifest import split  # noqa: E402
from skillhub.runtime.catalog import Catalog  # noqa: E402
from skillhub.runtime.discover import Discovered, Root, Search, discover  # noqa: E402
from skillhub.runtime.overview import section  # noqa: E402
from skillhub.runtime.walk import Cache  # noqa: E402

IMPORT = "import skillhub.runtime"


@dataclass(frozen=True)
class Race:
    """Milliseconds of ours, and the median over the rounds of ours by the baseline's, which may be ``limit``."""

    name: str
    ours: float
    ratio: float
    limit: float | None

    def __str__(self) -> str:
        over = "  OVER" if self.limit is not None and self.ratio > self.limit else ""
        limit = "" if self.limit is None else f"limit {self.limit:g}"
        return f"{self.name:<44}{self.ours:>9.1f} ms  x {self.ratio:<8.3f}{limit}{over}"


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    start = clock()
    work()
    return clock() - start


def race(
    name: str, ours: Callable[[], object], floor: Callable[[], object], limit: float | None, rounds: int
) -> Race:
    # Processor time, since others may share the machine; a started process is measured by the wall clock.
    clock = time.perf_counter if name.startswith("import ") else time.process_time
    pairs = [(seconds(ours, clock), seconds(floor, clock)) for _ in range(rounds)]
    return Race(
        name,
        statistics.median(one for one, _ in pairs) * 1000,
        statistics.median(one / other for one, other in pairs),
        limit,
    )


class Desk:
    """Skills in a folder, and a cache of them."""

    def __init__(self, folder: Path, count: int) -> None:
        self.count = count
        self.skills, self.folder = folder / "skills", str(folder / "cache")
        write_heads(self.skills, count)
        time.sleep(0.1)  # the cache ignores younger files
        self.cache = Cache(self.folder)
        self.search = {"bounds": Bounds(folders=10 * count + 10)}
        self.heads = [
            split((self.skills / each.name / "SKILL.md").read_bytes(), "").yaml for each in self.skills.iterdir()
        ]

    def cold(self) -> Discovered:
        return discover([Root(str(self.skills), "user")], Search(**self.search))

    def first(self) -> Discovered:
        return discover(
            [Root(str(self.skills), "user")], Search(**self.search, cache=Cache(self.folder), reload=True)
        )

    def warm(self) -> Discovered:
        return discover([Root(str(self.skills), "user")], Search(**self.search, cache=self.cache))

    def begun(self) -> Discovered:
        return discover([Root(str(self.skills), "user")], Search(**self.search, cache=Cache(self.folder)))

    def parsed(self) -> list[object]:
        return [yaml.safe_load(head) for head in self.heads]


def races(folder: Path, count: int, rounds: int) -> list[Race]:
    desk = Desk(folder, count)
    expected = desk.cold()
    assert desk.warm() == desk.begun() == expected
    assert len(expected.skills) == len(desk.parsed()) == count
    found = Catalog.of(expected.skills)
    return [
        race(f"{count} skills, cold, by safe_load", desk.cold, desk.parsed, 0.2, rounds),
        race("warm, in one process, by cold", desk.warm, desk.cold, 0.25, rounds),
        race("warm, from the cache's file, by cold", desk.begun, desk.cold, 0.25, rounds),
        race("the same, by the first look", desk.begun, desk.first, None, rounds),
        race("catalogue of Codex, by cold", lambda: section(found, profile("codex")), desk.cold, None, rounds),
    ]


def start(rounds: int) -> Race:
    def run(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    return race(f"{IMPORT}, by bare Python", run(IMPORT), run("pass"), 3.0, rounds)


def main() -> int:
    """Print the races; return 1 if one is over its limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir) as folder:
        lines = [*races(Path(folder), given.n, given.rounds), start(5 * given.rounds)]
    print(*lines, sep="\n")
    return 1 if any(line.limit is not None and line.ratio > line.limit for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
