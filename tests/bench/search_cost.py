"""Measure mentions and search against simple implementations: `python tests/bench/search_cost.py`.

The baselines run in the same process on the same data, in turns with ours:

- mentions: one pass of a regular expression that finds every ``$word``, with no regard to code.
- search: a loop over all rows that keeps each row with the words.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from skillhub.model.skill import Skill  # noqa: E402
from skillhub.runtime.catalog import Catalog  # noqa: E402
from skillhub.runtime.mention_resolver import complete, mentioned  # noqa: E402
from skillhub.runtime.ranking import SearchIndex, Stored, search  # noqa: E402

_PLAIN = re.compile(r"\$[\w:-]+")
_COMMON = (
    *("review", "release", "debug", "test", "code", "deploy", "github", "notes"),
    *("python", "build", "fix", "data", "report", "agent", "api", "docs"),
)
_QUERIES = ("review", "review code", "w100", "github release notes", "fix-data", "write docs for the api")


@dataclass(frozen=True)
class Race:
    """One line of the result.

    Attributes:
        limit: Milliseconds that ours may take at most.
        ratio: The median over the rounds of our time by the baseline's.
    """

    name: str
    ours: float
    ratio: float
    limit: float

    def __str__(self) -> str:
        over = "  OVER" if self.ours > self.limit else ""
        return f"{self.name:<44}{self.ours:>9.2f} ms  x {self.ratio:<9.4f} limit {self.limit:g} ms{over}"


def race(name: str, ours: Callable[[], object], plain: Callable[[], object], limit: float, rounds: int) -> Race:
    """Run both in turns."""
    times = [(_seconds(ours), _seconds(plain)) for _ in range(rounds)]
    middle = statistics.median(each for each, _ in times)
    return Race(name, middle * 1000, statistics.median(one / other for one, other in times), limit)


def _seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()  # processor time, since others may share the machine
    work()
    return time.process_time() - begun


def rows(count: int, with_body: bool) -> list[Stored]:
    """Return skills whose words are as frequent as in texts (Zipf), the same for the same count."""
    chance = random.Random(count)
    known = [*_COMMON, *(f"w{each:x}" for each in range(40_000))]
    cumulated = list(itertools.accumulate(1 / (each + 3) for each in range(len(known))))
    found = []
    for number in range(count):
        words = chance.choices(known, cum_weights=cumulated, k=chance.randint(8, 24))
        body = " ".join(chance.choices(known, cum_weights=cumulated, k=200)) if with_body else ""
        name = f"{'-'.join(words[:2])}-{number:x}"
        found.append(Stored(name=name, description=" ".join(words[2:]), body=body, path=f"/s/{number}", scope="user"))
    return found


def text(size: int) -> str:
    """Return prose of this many characters with prices, variables, code and, now and then, a mention."""
    line = "It costs $5 to build with $PATH set; run `make $target` and see whether $skill-7 says more.\n"
    return (line * (size // len(line) + 1))[:size]


def mention_races(rounds: int, count: int) -> list[Race]:
    """100 kB of text and one line, with a catalogue of ``count`` skills that exists or is made each time."""
    given = [
        Skill(name=f"skill-{each}", path=f"/s/{each}", scope="user", state="enabled", managed=False)
        for each in range(count)
    ]
    prose, line = text(100_000), "$skill-7 and $skil-8 since v1.2"
    catalog = Catalog.of(given)
    mentioned(line, catalog)
    return [
        race(f"mentioned, {count:,} skills: {what}", ours, lambda data=data: _PLAIN.findall(data), limit, rounds)
        for what, data, ours, limit in (
            ("100 kB", prose, lambda: mentioned(prose, catalog), 30),
            ("a line", line, lambda: mentioned(line, catalog), 50),
            ("a line, catalogue made anew", line, lambda: mentioned(line, Catalog.of(given)), 400),
            ("completed", line, lambda: complete("use $skill-99", 13, catalog), 10),
        )
    ]


def search_races(count: int, limit: float, rounds: int, with_body: bool) -> list[Race]:
    """Run each query on a ready index; the baseline has its rows in memory, in lower case."""
    stored = rows(count, with_body)
    plain = [f"{row.name} {row.description} {row.body}".lower() for row in stored]

    def baseline(query: str) -> list[str]:
        parts = query.split()
        return [row for row in plain if all(part in row for part in parts)]

    with SearchIndex.build(stored) as index:
        return [
            race(
                f"search {count:,} rows: {query}",
                lambda query=query: search(query, [index]),
                lambda query=query: baseline(query),
                limit,
                rounds,
            )
            for query in _QUERIES
        ]


def main() -> int:
    """Print a line for each race; return 1 if one is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the listing")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    found = [*mention_races(given.rounds, 300), *mention_races(given.rounds, 10_000)]
    found += search_races(10_000, 10, given.rounds, with_body=True)
    found += search_races(given.rows, 50, given.rounds, with_body=False)
    print("\n".join(map(str, found)))
    return int(any(each.ours > each.limit for each in found))


if __name__ == "__main__":
    sys.exit(main())
