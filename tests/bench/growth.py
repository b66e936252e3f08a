"""Commands over projects of 1 to 10,000 skills: their cost, and its growth."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from corpus import write_corpus
from offers import Offers, served
from run import FLOOR, SKILLHUB, CommandFailed, Sample, measure, rest

COUNTS = (1, 10, 100, 1_000, 10_000)
FROM_SITE, FROM_GIT, FROM_FOLDER = "a site", "a git repository", "a local folder"
SOURCES = (FROM_SITE, FROM_GIT, FROM_FOLDER)
FIRST, FLOORED, SCANNED = "install (first)", "(hash every byte once)", "audit (first)"
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "install": ("install",),
    "install --frozen": ("install", "--frozen"),
    "sync": ("sync",),
    "list": ("list",),
    "verify": ("verify",),
    "audit": ("audit", "--fail-on", "critical"),
    "update --check": ("update", "--check"),
    "remove": ("remove", "skill-00000", "--dry-run"),
    "disable": ("disable", "skill-00000", "--dry-run"),
    "show": ("show", "skill-00000"),
    "catalog": ("catalog", "--host", "claude-code"),
    "search": ("search", "skill-00000"),
    "doctor": ("doctor",),
}
# Status 1 of these is a finding, such as a list too long for an agent.
RESTED = frozenset({"install", "install --frozen", "sync", "list"})
CHECKS = frozenset({"verify", "audit", "update --check", "doctor"})


@dataclass(frozen=True)
class Growth:
    """The cost of one command by number of skills, all from one source; the best of its runs."""

    source: str
    command: str
    took: Mapping[int, Sample]

    @property
    def exponent(self) -> float | None:
        """Return the exponent of growth between the last two counts, without the cost of one skill.

        None if that is too little to measure: less than a tenth.
        """
        few, many = [min(self.took), *sorted(self.took)][-2:]
        once = self.took[min(self.took)].cpu
        less, more = self.took[few].cpu - once, self.took[many].cpu - once
        if few == min(self.took) or less <= once / 10:
            return None
        return math.log(more / less) / math.log(many / few)


def grown(top: Path, counts: Sequence[int], rounds: int, until: float) -> list[Growth]:
    """Measure every command at each count, each in a project whose skills come from one source.

    A count whose expected end is after ``until`` is skipped.
    """
    took: dict[tuple[str, str], dict[int, Sample]] = {}
    seconds: dict[str, float] = {}  # by source, for the count before
    for number, count in enumerate(counts):
        # At the largest counts each command runs once, since it is long enough to measure.
        times = rounds if number + 1 < len(counts) or number < 3 else 1
        for source in SOURCES:
            start, folder = time.monotonic(), top / str(count)
            if start + 6 * seconds.get(source, 0.0) > until:
                print(f"growth: no time is left for {count:,} skills of {source}", flush=True)
                continue
            print(f"growth: {count:,} skills of {source}", flush=True)
            try:
                for command, sample in _at(folder, source, count, times):
                    took.setdefault((source, command), {})[count] = sample
                    figures = f"{sample.seconds:9.2f} s {sample.cpu:9.2f} s of CPU {sample.peak:9.1f} MiB"
                    print(f"{command:28} {figures}", flush=True)
            except CommandFailed as error:
                print(f"{FIRST} of {count:,} from {source}: {error}", file=sys.stderr, flush=True)
            finally:
                shutil.rmtree(folder)
            seconds[source] = time.monotonic() - start
    return [Growth(source, command, took[source, command]) for source, command in sorted(took, key=_rank)]


def _rank(measured: tuple[str, str]) -> int:
    return SOURCES.index(measured[0])


def _at(top: Path, source: str, count: int, rounds: int) -> Iterator[tuple[str, Sample]]:
    offers, home, project = Offers(top, count), top / "home", top / "project"
    for each in (home, project):
        each.mkdir(parents=True)
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "SKILLHUB_HOME": str(home / "hub"), "CI": "1"}

    def run(*words: str) -> Sample:
        return measure([*SKILLHUB, *words, "--json"], project, environ, good=(0, 1) if words in checks else (0,))

    checks = [COMMANDS[label] for label in CHECKS]

    with _offered(offers, source, project) as ref:
        yield FIRST, run("install", ref, "--all", "--yes", "--allow-unsigned", "--agent", "claude-code")
        found = len(list(project.glob(".claude/skills/*/SKILL.md")))
        if found != count:
            raise CommandFailed(f"{found} of {count} skills were installed")
        folder = str(project / ".claude" / "skills")
        yield FLOORED, best([measure([*FLOOR, "hash", folder], project, environ) for _ in range(rounds)])
        for label, words in COMMANDS.items():
            try:
                if label == "audit":
                    yield SCANNED, run(*words)  # fills the cache of scan results
                elif label == "install" or rounds > 1:
                    run(*words)  # warm-up: later runs use what this one proves
                if label in RESTED:
                    rest(partial(run, *words))
                yield label, best([run(*words) for _ in range(rounds)])
            except CommandFailed as error:
                print(f"{label} with {count:,}: {error}", file=sys.stderr, flush=True)


@contextmanager
def _offered(offers: Offers, source: str, project: Path) -> Iterator[str]:
    """Write the skills to the source, and yield the argument of ``install`` for it."""
    if source == FROM_SITE:
        offers.write_site()
        with served(offers.top / "site") as url:
            yield url
    elif source == FROM_GIT:
        offers.write_repository()
        yield f"git+file://{offers.top}/repository"
    else:
        write_corpus(project / "skills", offers.count)
        yield "./skills"


def best(samples: list[Sample]) -> Sample:
    """Return the minimum of each figure, but the maximum of memory."""
    least = min(each.seconds for each in samples), min(each.cpu for each in samples)
    return Sample(*least, max(each.peak for each in samples))
