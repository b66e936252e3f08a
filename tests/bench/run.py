"""Measure skillhub against a floor in the same run: `make bench`, or `python tests/bench/run.py --short`.

With ``--write`` the figures go into `docs/performance.md`, also if one is over its limit; the status is then 1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from corpus import name_of, write_corpus  # noqa: E402

PYTHON = sys.executable
FLOOR = [PYTHON, str(HERE / "floor.py")]
SKILLHUB = [PYTHON, "-P", "-m", "skillhub"]
_LONGEST = 900.0
# Seconds of rest before a command with nothing to do is measured. Files count as unchanged once they are two seconds
# old, and a command is answered from memory once it ran with such files.
REST = 2.1
SCAN = (
    "import sys, time; from skillhub.sources.local import read_local; from skillhub.scan import scan;"
    "trees = [read_local(path).tree for path in sys.argv[1:]];"
    "start = time.process_time(); [scan(tree) for tree in trees]; print(time.process_time() - start)"
)


@dataclass(frozen=True)
class Sample:
    """One process from start to exit: seconds, seconds of processor time, peak memory in MiB."""

    seconds: float
    cpu: float
    peak: float


@dataclass(frozen=True)
class Race:
    """skillhub and a floor with the same work; ``limit`` is the allowed multiple of the floor, None without a limit.

    ``apart`` are seconds of skillhub that the limit does not count, and ``more`` additional allowed seconds. With
    ``is_rested``, skillhub does nothing for ``REST`` seconds after its first runs, which are not counted.
    """

    label: str
    ours: Callable[[], Sample]
    floor: Callable[[], Sample]
    limit: float | None
    apart: float = 0.0
    more: float = 0.0
    peak_max: float | None = None
    is_rested: bool = False


class Place:
    """One corpus of ``count`` skills, offered by a registry on loopback, and a user who trusts the registry."""

    def __init__(self, top: Path, count: int) -> None:
        self.top, self.count = top / str(count), count
        self.names = [f"bench:{name_of(number)}" for number in range(count)]
        self._runs = 0
        write_corpus(self.top / "skills", count)
        self.registry = self.top / "registry"
        self._run("registry", "init", str(self.registry), "--publisher", "bench")
        self._run("registry", "add", str(self.registry), *map(str, sorted((self.top / "skills").iterdir())))
        self.key = str(self.registry / "keys" / "publishers" / "bench.pem")

    def settle(self, url: str) -> None:
        """Trust the registry, and install everything once, with either program."""
        self.url = url
        root = ["--root", str(self.registry / "site" / "metadata" / "1.root.json")]
        self._run("source", "add", "bench", url, *root, "--yes")
        shutil.copytree(self.top / "home", self.top / "fresh")
        self.filled, self.floored, self.single = (self.top / each for each in ("filled", "floored", "single"))
        for each in (self.filled, self.floored, self.single):
            each.mkdir()
        self.warm([*SKILLHUB, *self.install])
        self._measure([*SKILLHUB, "install", self.names[0], *self.install[-4:]], self.single, self.top / "home")
        self.warm([*FLOOR, "install", url, self.key])
        rest(lambda: self.warm([*SKILLHUB, "sync"]))

    @property
    def install(self) -> list[str]:
        return ["install", *self.names, "--yes", "--agent", "claude-code", "--json"]

    def cold(self, command: Sequence[str]) -> Sample:
        """Run in an empty project, with an empty store."""
        self._runs += 1
        project = self.top / f"cold-{self._runs}"
        project.mkdir()
        home = Path(shutil.copytree(self.top / "fresh", self.top / f"home-{self._runs}"))
        sample = self._measure(command, project, home)
        if len(list(project.glob(".claude/skills/*/SKILL.md"))) != self.count:
            raise SystemExit(f"{command[:5]} did not install {self.count} skills")
        return sample

    def with_one(self, *words: str) -> Sample:
        """Run in a project with one installed skill."""
        return self._measure([*SKILLHUB, *words], self.single, self.top / "home")

    def warm(self, command: Sequence[str]) -> Sample:
        """Run in a project with everything installed."""
        is_floor = command[: len(FLOOR)] == FLOOR
        return self._measure(command, self.floored if is_floor else self.filled, self.top / "home")

    @property
    def copies(self) -> list[str]:
        """Every folder with bytes that skillhub verifies."""
        store = self.top / "home" / "hub" / "data" / "store"
        links = [self.filled / agent / "skills" for agent in (".agents", ".claude")]
        return [str(folder) for folder in (store, *links)]

    def _run(self, *words: str) -> None:
        self._measure([*SKILLHUB, *words], self.top, self.top / "home")

    def _measure(self, command: Sequence[str], cwd: Path, home: Path) -> Sample:
        environ = {"PATH": os.environ["PATH"], "HOME": str(home), "SKILLHUB_HOME": str(home / "hub"), "CI": "1"}
        home.mkdir(exist_ok=True)
        return measure(command, cwd, environ)


def rest(run: Callable[[], object]) -> None:
    """Run a command three times, each time when the project has been at rest."""
    for _ in range(3):
        time.sleep(REST)
        run()


class CommandFailed(SystemExit):
    """A command failed; it ends the run unless the caller reports it as a result."""


def measure(command: Sequence[str], cwd: Path, environ: dict[str, str], good: Sequence[int] = (0,)) -> Sample:
    """Run a command to its end, whose status must be ``good``, and return its cost.

    Raises:
        CommandFailed: another status, or longer than ``_LONGEST`` seconds.
    """
    with tempfile.TemporaryFile() as out:
        start = time.monotonic()
        process = subprocess.Popen(
            command, cwd=cwd, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
        timer = threading.Timer(_LONGEST, process.kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        timer.cancel()
        if process.returncode not in good:
            out.seek(0)
            output = out.read().decode("utf-8", "replace")[-2000:]
            raise CommandFailed(f"{list(command[:5])} failed with {process.returncode}:\n{output}")
    cpu = usage.ru_utime + usage.ru_stime
    return Sample(seconds, cpu, usage.ru_maxrss / (1024 if sys.platform == "linux" else 1024 * 1024))


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve a site with the server of the package, in a separate process."""
    command = [*SKILLHUB, "registry", "serve", str(site), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            line = server.stdout.readline()
            yield json.loads(line)["url"]
        finally:
            server.terminate()


def start_up(place: Place) -> list[Race]:
    """Return the races that measure the imports, for both ways to call the program."""

    def bare() -> Sample:
        return place.warm([PYTHON, "-c", "pass"])

    def run(*words: str) -> Callable[[], Sample]:
        return lambda: place.warm(words)

    script = str(Path(PYTHON).with_name("skillhub"))
    races = []
    for label, base in (("python -P -m", SKILLHUB), ("script", [script])):
        if base[0] == PYTHON or os.path.exists(base[0]):
            races += [
                Race(f"--version ({label})", run(*base, "--version"), bare, 2.0),
                Race(f"--help ({label})", run(*base, "--help"), bare, 6.0),
            ]
            if place.count == 1:  # compared with other installers
                races.append(Race(f"list 1 ({label})", run(*base, "list", "--json"), bare, None, is_rested=True))
    return races


def installs(place: Place) -> list[Race]:
    """Return the races of a first install; the scan is measured separately, since no floor scans.

    One floor writes what skillhub writes, store and two agents' folders, the other a single copy (ADR 16).
    """
    folders = map(str, sorted((place.top / "skills").iterdir()))
    scan = float(subprocess.check_output([PYTHON, "-c", SCAN, *folders], text=True))

    def race(label: str, limit: float | None, *copies: str) -> Race:
        return Race(
            f"install {place.count}{label}",
            lambda: place.cold([*SKILLHUB, *place.install]),
            lambda: place.cold([*FLOOR, "install", place.url, place.key, *copies]),
            limit,
            apart=scan,
            peak_max=120.0,
        )

    limit = 5.0 if place.count == 1 else 2.5
    return [race("", limit, ".agents/skills", ".claude/skills"), race(" to one copy", None)]


def checks(place: Place) -> list[Race]:
    """Return the races over everything installed."""

    def floor(*words: str) -> Callable[[], Sample]:
        return lambda: place.warm([*FLOOR, *words])

    def ours(*words: str) -> Callable[[], Sample]:
        return lambda: place.warm([*SKILLHUB, *words])

    def than_one(limit: float, *words: str) -> Race:
        """Hold a command against the same with one skill."""
        return Race(f"{' '.join(words[:2])} {count} to 1", ours(*words), lambda: place.with_one(*words), limit)

    hashing = floor("verify", place.key, *place.copies)
    once = floor("hash", place.copies[-1])
    count = place.count
    return [
        Race(f"list {count}", ours("list", "--json"), floor("list"), 2.5, is_rested=True),
        Race(f"verify {count}", lambda: place.warm([*SKILLHUB, "verify", "--json"]), hashing, 2.0),
        Race(f"sync {count}", ours("sync", "--json"), once, 3.5, is_rested=True),
        Race(f"sync --verify {count}", ours("sync", "--verify", "--json"), hashing, 2.5),
        Race(f"audit again {count}", lambda: place.warm([*SKILLHUB, "audit", "--json"]), hashing, 3.0),
        Race(f"install again {count}", ours("install", "--json"), once, 3.5, is_rested=True),
        Race(f"install --frozen {count}", ours("install", "--frozen", "--json"), once, 3.5, is_rested=True),
        Race(f"install --verify {count}", ours("install", "--verify", "--json"), hashing, 4.0),
        than_one(2.0, "update", "--check", "--json"),
        than_one(2.0, "remove", "skill-00000", "--dry-run", "--json"),
    ]


def show(race: Race, rounds: int) -> list[str]:
    """Run both in turn, print the medians, and return them, at the end whether the race is within its limit."""
    race.ours(), race.floor()
    if race.is_rested:
        rest(race.ours)
    pairs = [(race.ours(), race.floor()) for _ in range(rounds)]
    ours = statistics.median(one.seconds for one, _ in pairs)
    floor = statistics.median(other.seconds for _, other in pairs)
    ratio = statistics.median((one.seconds - race.apart) / other.seconds for one, other in pairs)
    cpu = statistics.median((one.cpu - race.apart) / other.cpu for one, other in pairs)
    peak = max(one.peak for one, _ in pairs)
    limit = math.inf if race.limit is None else race.limit + race.more / floor
    good = ratio <= limit and (race.peak_max is None or peak <= race.peak_max)
    apart = f"  scan {race.apart * 1000:.0f} ms apart" if race.apart else ""
    figures = [f"{ours * 1000:.1f}", f"{floor * 1000:.1f}", f"{ratio:.2f}", f"{cpu:.2f}"]
    figures += ["" if race.limit is None else f"{limit:.2f}", f"{peak:.1f}", "ok" if good else "OVER"]
    print(f"{race.label:28} {' '.join(f'{each:>9}' for each in figures)}{apart}", flush=True)
    return [race.label, *figures]


def races(top: Path, counts: Sequence[int], rounds: int) -> Iterator[list[str]]:
    """Yield the result of each race."""
    print(f"{'':28} {'skillhub':>9} {'floor ms':>9} {'ratio':>9} {'of CPU':>9} {'limit':>9} {'MiB':>9}", flush=True)
    for count in counts:
        place = Place(top, count)
        with served(place.registry) as url:
            place.settle(url)
            found = start_up(place) if count == min(counts) else []
            for race in [*found, *installs(place), *(checks(place) if count > 1 else ())]:
                try:
                    yield show(race, 3 * rounds if race in found else rounds)
                except CommandFailed as error:
                    print(f"{race.label}: {error}", file=sys.stderr, flush=True)
                    yield [race.label, "fails", "", "", "", "", "", "OVER"]
        shutil.rmtree(place.top)


def main() -> int:
    import link
    from growth import COUNTS, grown
    from peers import raced

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", default="1,100,1000", help="how many skills, with commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", help="where to work; a file system in memory tells more than a busy disk")
    parser.add_argument("--short", action="store_true", help="1 and 100 skills, in a minute")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md, and measure the growth too")
    parser.add_argument("--minutes", type=float, default=20.0, help="begin nothing that is not done by then")
    parser.add_argument("--npm", help="the folder with node_modules: the installers skills and openskills")
    parser.add_argument("--uv", help="the program uv")
    options = parser.parse_args()
    begun = time.monotonic()
    counts = [1, 100] if options.short else [int(part) for part in options.n.split(",")]
    rounds = 2 if options.short else options.rounds
    with tempfile.TemporaryDirectory(prefix="skillhub-bench-", dir=options.dir) as name:
        top = Path(name)
        rows = [*races(top / "floor", counts, rounds)]
        others = {"npm": options.npm, "uv": options.uv}
        peers, links = [], []
        for count in counts:
            few = rounds if count < 1_000 else 1
            peers += raced(top / "peers" / str(count), count, others, few)
            links += link.raced(top / "link" / str(count), count, options.npm, few)
        if options.write:
            from report import write

            most = 100 if options.short else max(COUNTS)
            until = begun + 60 * options.minutes
            growth = grown(top / "growth", [each for each in COUNTS if each <= most], rounds, until)
            write(rows, growth, peers, links)
    is_good = all(row[-1] == "ok" for row in rows) and all(
        row.is_good(name) for row in peers + links for name in row.others
    )
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
