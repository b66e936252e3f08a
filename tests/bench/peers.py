"""Measure skillhub against other installers on the same work, in turns: `python tests/bench/peers.py --npm DIR`.

Each is taken if it is named: ``skills`` and ``openskills`` as
`npm install --prefix DIR skills openskills` makes them,
``apm`` of the package apm-cli, and uv, which installs the same files as wheels of a folder.
What one of them cannot do is a cell that says ``fails``; the rest is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from offers import Offers, served  # noqa: E402
from run import PYTHON, SKILLHUB, CommandFailed, Sample, measure, rest  # noqa: E402

SITE, GIT, AGAIN, FROZEN = "install from a site", "install from git", "install again", "install --frozen"
CHECK, LIST, REMOVE = "update --check", "list", "remove one"
WORKS = (SITE, GIT, AGAIN, FROZEN, CHECK, LIST, REMOVE)
_RESTED = (AGAIN, FROZEN, LIST)
_FILLED = (AGAIN, FROZEN, CHECK, LIST, REMOVE)
Limits: TypeAlias = Mapping[tuple[str, str], Mapping[int, float]]
LIMITS: Limits = {
    (SITE, "skills"): {100: 0.6, 1000: 0.3},
    (GIT, "skills"): {100: 0.6, 1000: 0.6},
    (GIT, "openskills"): {1000: 1.5},
    (LIST, "skills"): {1: 1.5, 100: 1.5, 1000: 1.5},
    (LIST, "openskills"): {1000: 0.9},
}
_HOSTED = "https://gitlab.com/acme/skills.git"  # apm takes no file:// URL; git maps this URL to the repository
_QUIET = {"CI": "1", "NO_COLOR": "1", "DO_NOT_TRACK": "1", "DISABLE_TELEMETRY": "1", "GIT_TERMINAL_PROMPT": "0"}
_NAME = "{name}"  # in the command line of ``REMOVE``: another skill each time
_COPIES = ".claude/skills/*/SKILL.md"


@dataclass(frozen=True)
class Tool:
    """A program; ``works`` are its command lines by purpose, ``before`` installs the skills for the later ones.

    Attributes:
        files: The initial files of its project, by name.
        installs: The files that an install writes for each skill.
    """

    works: Mapping[str, list[str]]
    before: list[list[str]]
    files: Mapping[str, str] = field(default_factory=dict)
    installs: str = _COPIES


def skillhub(offers: Offers, url: str, program: list[str] = SKILLHUB) -> Tool:
    def install(ref: str) -> list[str]:
        return [*program, "install", ref, "--all", "--yes", "--allow-unsigned", "--agent", "claude-code"]

    works = {
        SITE: install(url),
        GIT: install(f"git+file://{offers.top}/repository"),
        AGAIN: [*program, "install"],
        FROZEN: [*program, "install", "--frozen"],
        CHECK: [*program, "update", "--check"],
        LIST: [*program, "list"],
        REMOVE: [*program, "remove", _NAME, "--yes"],
    }
    return Tool(works, [works[SITE]])


def npm_skills(offers: Offers, url: str, program: list[str]) -> Tool:
    def add(source: str) -> list[str]:
        return [*program, "add", source, "-y", "-a", "claude-code", "--skill", "*"]

    works = {
        SITE: add(url),
        GIT: add(f"file://{offers.top}/repository"),
        AGAIN: add(url),
        FROZEN: [*program, "experimental_install"],
        CHECK: [*program, "check", "-y"],
        LIST: [*program, "list"],
        REMOVE: [*program, "remove", _NAME, "-y"],
    }
    return Tool(works, [works[SITE]])


def openskills(offers: Offers, url: str, program: list[str]) -> Tool:
    install = [*program, "install", _HOSTED, "-y"]
    works = {GIT: install, AGAIN: install, LIST: [*program, "list"], REMOVE: [*program, "remove", _NAME]}
    return Tool(works, [install])


def apm(program: str) -> Tool:
    return Tool({FROZEN: [program, "install", "--frozen"]}, [[program, "install", _HOSTED, "--target", "claude"]])


def uv(offers: Offers, program: str) -> Tool:
    needs = json.dumps(offers.names)
    project = f'[project]\nname = "bench"\nversion = "1.0"\nrequires-python = ">=3.11"\ndependencies = {needs}\n'
    found = f'[tool.uv]\npackage = false\nno-index = true\nfind-links = ["{offers.top}/wheels"]\n'
    sync = [program, "sync", "--offline", "-q", "--python", PYTHON]
    works = {SITE: sync, AGAIN: sync, FROZEN: [*sync, "--frozen"], LIST: [program, "pip", "list", "-q"]}
    return Tool(works, [sync], {"pyproject.toml": project + found}, ".venv/lib/python*/site-packages/*/SKILL.md")


class Desk:
    """The working folder of all tools, each with separate folders."""

    def __init__(self, offers: Offers, environ: Mapping[str, str] | None = None, home: Path | None = None) -> None:
        self.offers = offers
        self._environ = dict(environ or {})
        self._home = home  # the initial content of each run's home
        self._runs = 0
        self._ready: dict[str, Path] = {}

    def run(self, name: str, tool: Tool, work: str, number: int) -> Sample:
        """Do the work for the so manieth time: in an empty project, or in the one where all is installed."""
        command = [self.offers.names[-1 - number % self.offers.count] if w == _NAME else w for w in tool.works[work]]
        if work not in _FILLED:
            return self._cold(tool, command)
        if work == REMOVE and number >= self.offers.count:
            self._ready.pop(name, None)  # nothing is left to remove
        return self._measure(command, self._filled(name, tool))

    def _filled(self, name: str, tool: Tool) -> Path:
        if name not in self._ready:
            project = self._project(tool)
            for command in tool.before:
                self._measure(command, project)
            self._ready[name] = project
        return self._ready[name]

    def _cold(self, tool: Tool, command: list[str]) -> Sample:
        project = self._project(tool)
        sample = self._measure(command, project)
        found = len(list(project.glob(tool.installs)))
        shutil.rmtree(project.parent)
        if found != self.offers.count:
            raise CommandFailed(f"{command[:3]} installed {found} of {self.offers.count}")
        return sample

    def _project(self, tool: Tool) -> Path:
        self._runs += 1
        project = self.offers.top / f"run-{self._runs}" / "project"
        (project / ".claude").mkdir(parents=True)
        if self._home is not None:
            shutil.copytree(self._home, project.parent / "home")
        for name, text in tool.files.items():
            (project / name).write_text(text)
        return project

    def _measure(self, command: list[str], project: Path) -> Sample:
        home = project.parent / "home"
        home.mkdir(exist_ok=True)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(home),
            "SKILLHUB_HOME": str(home / "hub"),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.file://{self.offers.top}/repository.insteadOf",
            "GIT_CONFIG_VALUE_0": _HOSTED,
        }
        return measure(command, project, environ | _QUIET | self._environ)


@dataclass(frozen=True)
class Row:
    """The cost of a work with ``count`` skills by program, measured in turns; None for a failed program.

    skillhub's name is the first. A ratio is the median over the rounds; ``limits`` are its maxima.
    """

    work: str
    count: int
    took: Mapping[str, list[Sample] | None]
    limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def others(self) -> list[str]:
        return list(self.took)[1:]

    def ratio(self, other: str, of: str = "seconds") -> float | None:
        ours, theirs = self.took[OURS], self.took[other]
        if ours is None or theirs is None:
            return None
        return statistics.median(getattr(one, of) / getattr(two, of) for one, two in zip(ours, theirs, strict=True))

    def is_good(self, other: str) -> bool:
        """Return whether the limit holds; for the npm client, an install must not take more memory either."""
        ours, theirs, limit = self.took[OURS], self.took[other], self.limits.get(other)
        if ours is None:
            return False
        if theirs is None or limit is None:
            return True
        ratio = self.ratio(other)
        is_lean = other != "skills" or self.work not in (SITE, GIT) or _peak(ours) <= _peak(theirs)
        return ratio is not None and ratio <= limit and is_lean

    def __str__(self) -> str:
        lines = []
        for other in self.others or [""]:
            samples = [self.took[OURS], self.took[other] if other else None]
            cells = [f"{milliseconds(each):>9}" for each in samples]
            for of in ("seconds", "cpu"):
                ratio = self.ratio(other, of) if other else None
                cells.append(f"{'' if ratio is None else f'{ratio:.2f}':>7}")
            limit = self.limits.get(other)
            cells.append(f"{'' if limit is None else f'{limit:.2f}':>7}")
            cells += [f"{'' if each is None else f'{_peak(each):.0f}':>7}" for each in samples]
            verdict = "ok" if not other or self.is_good(other) else "OVER"
            lines.append(f"{self.work:20} {self.count:6,} {other:10} {' '.join(cells)}  {verdict}")
        return "\n".join(lines)


OURS = "skillhub"


def heads() -> str:
    """Return the head of the printed rows."""
    names, widths = ("skillhub", "other ms", "ratio", "of CPU", "limit", "MiB", "other"), (9, 9, 7, 7, 7, 7, 7)
    return f"{'':38} {' '.join(f'{each:>{width}}' for each, width in zip(names, widths, strict=True))}"


def milliseconds(samples: list[Sample] | None) -> str:
    return "fails" if samples is None else f"{statistics.median(each.seconds for each in samples) * 1000:,.0f}"


def _peak(samples: list[Sample]) -> float:
    return max(each.peak for each in samples)


def compare(desk: Desk, tools: Mapping[str, Tool], rounds: int, limits: Limits = LIMITS) -> Iterator[Row]:
    """Yield what each work took with each of the tools that offers it; skillhub comes first, and all take turns.

    One that fails is not asked for that work again.
    """
    for work in tools[OURS].works:
        able = {name: tool for name, tool in tools.items() if work in tool.works}
        took: dict[str, list[Sample] | None] = {name: [] for name in able}
        if work in _RESTED and rounds:
            with suppress(CommandFailed):  # it fails again below
                rest(partial(desk.run, OURS, tools[OURS], work, 0))
        for number in range(rounds + 1):
            for name, tool in able.items():
                samples = took[name]
                if samples is None:
                    continue
                try:
                    sample = desk.run(name, tool, work, number)
                except CommandFailed as error:
                    print(f"{name}: {work}: {' '.join(str(error).split())[:300]}", file=sys.stderr, flush=True)
                    took[name] = None
                    continue
                if number or not rounds:  # the first run warms up
                    samples.append(sample)
        most = {name: limits.get((work, name), {}).get(desk.offers.count) for name in able}
        yield Row(work, desk.offers.count, took, {name: each for name, each in most.items() if each is not None})


def raced(top: Path, count: int, others: Mapping[str, str | None], rounds: int = 2) -> Iterator[Row]:
    """Print and yield what skillhub and the installers that are named took, if any is."""
    if not any(others.values()):
        return
    offers = Offers(top, count)
    offers.write()
    print(heads(), flush=True)
    with served(offers.top / "site") as url:
        for row in compare(Desk(offers), {OURS: skillhub(offers, url), **_tools(offers, url, others)}, rounds):
            print(row, flush=True)
            yield row
    shutil.rmtree(top)


def npm_program(folder: str, name: str, node: str = "node") -> list[str] | None:
    """Return how to start one of the clients that npm installed into a folder, if it is there."""
    path = (
        Path(folder) / "node_modules" / {"skills": "skills/bin/cli.mjs", "openskills": "openskills/dist/cli.js"}[name]
    )
    return [node, str(path)] if path.exists() else None


def _tools(offers: Offers, url: str, named: Mapping[str, str | None]) -> dict[str, Tool]:
    tools, node = {}, named.get("node") or "node"
    for name, tool in (("skills", npm_skills), ("openskills", openskills)):
        if (npm := named.get("npm")) and (program := npm_program(npm, name, node)):
            tools[name] = tool(offers, url, program)
    if program := named.get("apm"):
        tools["apm"] = apm(program)
    if program := named.get("uv"):
        tools["uv"] = uv(offers, program)
    return tools


def main() -> int:
    """Print a line for each; return 1 if one is over its limit or skillhub fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", help="where to work; a file system in memory tells more than a busy disk")
    parser.add_argument("--npm", help="the folder with node_modules: skills, openskills")
    parser.add_argument("--node", default="node")
    parser.add_argument("--apm")
    parser.add_argument("--uv")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="skillhub-peers-", dir=given.dir) as top:
        rows = [*raced(Path(top) / "all", given.n, vars(given), given.rounds)]
    return 0 if all(row.is_good(other) for row in rows for other in row.others) else 1


if __name__ == "__main__":
    sys.exit(main())
