"""Measure skillhub against other installers on the same work, in turns: `python tests/bench/peers.py --npm DIR`.

Each is taken if it is named: ``skills`` and ``openskills`` as
`npm install --prefix DIR skills openskills` makes them,
``apm`` of the package apm-cli, and uv, which installs no skills and shows what a look at nothing to do may cost.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from offers import Offers, served  # noqa: E402
from run import PYTHON, SKILLHUB, Sample, measure  # noqa: E402

SITE, GIT, IDLE, LIST = "from one site", "from one git repository", "with nothing to do", "list"
LIMITS = {SITE: 0.6, GIT: 0.6, IDLE: None, LIST: 1.5}
_HOSTED = "https://gitlab.com/acme/skills.git"  # apm takes no file:// URL; git is told where that is
_QUIET = {"CI": "1", "NO_COLOR": "1", "DO_NOT_TRACK": "1", "DISABLE_TELEMETRY": "1", "GIT_TERMINAL_PROMPT": "0"}


@dataclass(frozen=True)
class Tool:
    """A program; ``works`` are its command lines by what they do, ``before`` is run first where it has nothing to do.

    Attributes:
        files: What a project of its own holds before anything, by name.
    """

    works: Mapping[str, list[str]]
    before: list[list[str]]
    files: Mapping[str, str] = field(default_factory=dict)


def skillhub(offers: Offers, url: str) -> Tool:
    def install(ref: str) -> list[str]:
        return [*SKILLHUB, "install", ref, "--all", "--yes", "--allow-unsigned", "--agent", "claude-code"]

    works = {
        SITE: install(url),
        GIT: install(f"git+file://{offers.top}/repository"),
        IDLE: [*SKILLHUB, "install"],
        LIST: [*SKILLHUB, "list"],
    }
    return Tool(works, [works[SITE]])


def npm_skills(offers: Offers, url: str, program: list[str]) -> Tool:
    def add(source: str) -> list[str]:
        return [*program, "add", source, "-y", "-a", "claude-code", "--skill", "*"]

    works = {
        SITE: add(url),
        GIT: add(f"file://{offers.top}/repository"),
        IDLE: [*program, "experimental_install"],
        LIST: [*program, "list"],
    }
    return Tool(works, [works[SITE]])


def openskills(offers: Offers, url: str, program: list[str]) -> Tool:
    install = [*program, "install", _HOSTED, "-y"]
    return Tool({GIT: install, IDLE: install, LIST: [*program, "list"]}, [install])


def apm(program: str) -> Tool:
    return Tool({IDLE: [program, "install", "--frozen"]}, [[program, "install", _HOSTED, "--target", "claude"]])


def uv(offers: Offers, program: str) -> Tool:
    needs = json.dumps(offers.names)
    project = f'[project]\nname = "bench"\nversion = "1.0"\nrequires-python = ">=3.11"\ndependencies = {needs}\n'
    found = f'[tool.uv]\npackage = false\nno-index = true\nfind-links = ["{offers.top}/wheels"]\n'
    sync = [program, "sync", "--offline", "-q", "--python", PYTHON]
    return Tool({IDLE: [*sync, "--frozen"]}, [sync], {"pyproject.toml": project + found})


class Desk:
    """Where everybody works, each in folders of their own."""

    def __init__(self, offers: Offers) -> None:
        self.offers = offers
        self._runs = 0

    def runner(self, tool: Tool, work: str) -> Callable[[], Sample]:
        """Return what does the work once: in an empty project, or always in the one where all is done."""
        if work not in (IDLE, LIST):
            return lambda: self._cold(tool, tool.works[work])
        project = self._project(tool)
        for command in tool.before:
            self._measure(command, project)
        return lambda: self._measure(tool.works[work], project)

    def _cold(self, tool: Tool, command: list[str]) -> Sample:
        project = self._project(tool)
        sample = self._measure(command, project)
        found = len(list(project.glob(".claude/skills/*/SKILL.md")))
        if found != self.offers.count:
            raise SystemExit(f"{command[:3]} installed {found} of {self.offers.count}")
        return sample

    def _project(self, tool: Tool) -> Path:
        self._runs += 1
        project = self.offers.top / f"run-{self._runs}" / "project"
        (project / ".claude").mkdir(parents=True)
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
        return measure(command, project, environ | _QUIET)


@dataclass(frozen=True)
class Line:
    """What came of two who took turns; the ratio is the median over the rounds."""

    work: str
    other: str
    ours: list[Sample]
    theirs: list[Sample]
    limit: float | None

    @property
    def ratio(self) -> float:
        return statistics.median(one.seconds / two.seconds for one, two in zip(self.ours, self.theirs, strict=True))

    @property
    def cpu(self) -> float:
        return statistics.median(one.cpu / two.cpu for one, two in zip(self.ours, self.theirs, strict=True))

    @property
    def is_good(self) -> bool:
        return self.limit is None or (self.ratio <= self.limit and _peak(self.ours) <= _peak(self.theirs))

    def __str__(self) -> str:
        limit = "" if self.limit is None else f"{self.limit:.2f}"
        times = f"{_middle(self.ours):9.0f} {_middle(self.theirs):9.0f} {self.ratio:7.2f} {self.cpu:7.2f} {limit:>7}"
        peaks = f"{_peak(self.ours):7.0f} {_peak(self.theirs):7.0f}"
        return f"{self.work:26} {self.other:8} {times} {peaks}  {'ok' if self.is_good else 'OVER'}"


def _middle(samples: list[Sample]) -> float:
    return statistics.median(each.seconds for each in samples) * 1000


def _peak(samples: list[Sample]) -> float:
    return max(each.peak for each in samples)


def compare(desk: Desk, ours: Tool, others: Mapping[str, Tool], rounds: int) -> Iterator[Line]:
    """Yield a line for each work and each of the others that does it; all of them take turns."""
    for work, limit in LIMITS.items():
        who = {name: tool for name, tool in {"": ours, **others}.items() if work in tool.works}
        if len(who) == 1:
            continue
        runners = {name: desk.runner(tool, work) for name, tool in who.items()}
        samples: dict[str, list[Sample]] = {name: [] for name in runners}
        for number in range(rounds + 1):
            for name, run in runners.items():
                sample = run()
                if number:  # the first one warms up
                    samples[name].append(sample)
        for name in list(runners)[1:]:
            yield Line(work, name, samples[""], samples[name], limit)


def printed(top: Path, count: int, others: Mapping[str, str | None], rounds: int = 2) -> Iterator[str]:
    """Print and yield a table of skillhub and of the installers that are named, if any is."""
    if not any(others.values()):
        return
    offers = Offers(top, count)
    offers.write()
    heads = " ".join(
        f"{each:>{width}}"
        for each, width in zip(
            ("skillhub", "other ms", "ratio", "of CPU", "limit", "MiB", "other"), (9, 9, 7, 7, 7, 7, 7), strict=True
        )
    )
    lines = [f"{f'{count} skills':35} {heads}"]
    print(lines[0], flush=True)
    yield lines[0]
    with served(offers.top / "site") as url:
        for line in compare(Desk(offers), skillhub(offers, url), _tools(offers, url, others), rounds):
            print(line, flush=True)
            yield str(line)


def _tools(offers: Offers, url: str, named: Mapping[str, str | None]) -> dict[str, Tool]:
    tools, node = {}, named.get("node") or "node"
    for name, script in (("skills", "skills/bin/cli.mjs"), ("openskills", "openskills/dist/cli.js")):
        if named.get("npm") and (path := Path(str(named["npm"])) / "node_modules" / script).exists():
            tools[name] = {"skills": npm_skills, "openskills": openskills}[name](offers, url, [node, str(path)])
    if program := named.get("apm"):
        tools["apm"] = apm(program)
    if program := named.get("uv"):
        tools["uv"] = uv(offers, program)
    return tools


def main() -> int:
    """Print a line for each; return 1 if one is over its limit."""
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
        lines = [*printed(Path(top), given.n, vars(given), given.rounds)]
    return 1 if any(line.endswith("OVER") for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
