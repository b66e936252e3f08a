"""Compare the scan with other scanners on public sets of hostile and honest skills: `make bench-audit`.

No file of the sets is run or kept: their folders are copied to a temporary place as plain files.
Each set and each scanner is given by an option or a variable; a missing one is skipped with a line:

    --malskills DIR   SKILLHUB_AUDIT_MALSKILLS   a checkout of github.com/ShenaoW/MalSkills
    --packages DIR    SKILLHUB_AUDIT_PACKAGES    `packages` of github.com/protectskills/MaliciousSkillBench
    --real DIR        SKILLHUB_AUDIT_REAL        a folder of checkouts, each named owner+repository, see REAL below
    --cisco PROGRAM   SKILLHUB_AUDIT_CISCO       `skill-scanner` of the package cisco-ai-skill-scanner (PyPI)
    --skillkit PROGRAM  SKILLHUB_AUDIT_SKILLKIT  `skillkit` of the package skillkit (npm)
    --apm PROGRAM     SKILLHUB_AUDIT_APM         `apm` of the package apm-cli (PyPI)
    --write           put the figures between the marks of docs/audit.md
    --only NAME       only this set; may be repeated
    --kept FILE       results of other scanners are written there and read from there the next time

A finding at high or above flags a skill. Other scanners run without a model, a key or network analysis;
of the honest skills they get every fourth.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[2])]

from skillhub.model.finding import at_least  # noqa: E402
from skillhub.scan import scan  # noqa: E402
from tests.bench.corpus import write_corpus  # noqa: E402

PAGE = HERE.parents[2] / "docs/audit.md"
MARKS = ("<!-- figures: written by make bench-audit -->\n", "<!-- end of the figures -->")
REAL = (
    *("anthropics+skills", "openai+skills", "vercel-labs+agent-skills", "obra+superpowers"),
    *("github+awesome-copilot", "NVIDIA+skills"),
)
# Of the honest skills, other scanners get one of so many: a process for each skill takes long.
SAMPLE = 4
LIMITS = (
    ("an honest skill of 30 kB", 1.5),
    ("real skills, the median", 20.0),
    ("real skills, the 95th percentile", 100.0),
)


@dataclass(frozen=True)
class Group:
    """Skills of one kind, each in a folder of its own below ``folder``.

    Attributes:
        hostile: Whether they should be flagged; otherwise each flagged skill is a false alarm.
    """

    name: str
    hostile: bool
    folder: Path

    @property
    def skills(self) -> list[Path]:
        return sorted(self.folder.iterdir())


@dataclass(frozen=True)
class Seen:
    """The verdict of one scanner on one skill, and its duration in milliseconds."""

    name: str
    flagged: bool
    ms: float

    @property
    def is_in_a(self) -> bool:
        """Whether it is in half A, which was read first; `docs/audit.md` says what was read of each set."""
        return int(sha256(self.name.encode()).hexdigest(), 16) % 2 == 0


Scanner = Callable[[Group, Sequence[Path]], list[Seen]]
Results = Mapping[Group, list[Seen]]


# The sets.


def malskills(source: Path, into: Path) -> Iterator[Group]:
    data = source / "data/ground_truth"
    for row in csv.DictReader((data / "ground_truth_final.csv").read_text("utf-8").splitlines()):
        skill = source / row["Ground_truth_path"]
        copy(skill, into / row["Label"] / skill.name)
    yield Group("MalSkills, malicious", True, into / "malicious")
    yield Group("MalSkills, benign", False, into / "benign")


PACKAGED = (
    ("wild malware (MaliciousAgentSkillsBench)", "SRC002_packages"),
    ("malware of one hub (Agent Skill Malware)", "SRC005_artifacts"),
    ("samples of a rule project (Agent Threat Rules)", "SRC011_artifacts"),
    ("attacks in prose alone (SkillSafetyBench)", "SRC013_packages"),
    ("attacks in prose alone (AgentTrap)", "SRC006_packages"),
    ("leaks of secrets (SkillLeakBench)", "SRC004_packages"),
    ("made attacks (SkillFortifyBench)", "SRC012_artifacts"),
)


def packages(source: Path, into: Path) -> Iterator[Group]:
    for title, stem in PACKAGED:
        if not (source / f"{stem}.tar.gz").is_file():
            print(f"skipped: {title}: there is no {stem}.tar.gz in {source}")
            continue
        top = into / stem
        with tarfile.open(source / f"{stem}.tar.gz") as archive:
            for member in archive:
                parts = member.name.split("/")[1:]
                if stem.startswith("SRC002"):  # two folders have one name there
                    parts = ["__".join(parts[:2]), *parts[2:]]
                if stem.startswith("SRC004") and parts[1:2] == ["skill"]:  # there, the skill is a folder further down
                    parts = [parts[0], *parts[2:]]
                file = archive.extractfile(member) if member.isfile() else None
                if file is not None and parts[1:] and parts[-1] != ".DS_Store" and ".." not in parts:
                    path = top.joinpath(*parts)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(file.read())
        yield Group(title, True, top)


def real(source: Path, into: Path) -> Iterator[Group]:
    for name in REAL:
        checkout = source / name
        if not checkout.is_dir():
            print(f"skipped: {name}: it is not in {source}")
        for manifest in sorted(checkout.rglob("SKILL.md")):
            below = manifest.parent.relative_to(checkout).as_posix()
            copy(manifest.parent, into / f"{name}__{below.replace('/', '__')}"[-200:])
    yield Group("real skills of six repositories", False, into)


def copy(source: Path, target: Path) -> None:
    """Copy a folder as plain files, without links."""
    for path in sorted(source.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.name != ".DS_Store":
            to = target / path.relative_to(source)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)


SETS: Mapping[str, Callable[[Path, Path], Iterator[Group]]] = {
    "malskills": malskills,
    "packages": packages,
    "real": real,
}


# The scanners.


def ours(_: Group, skills: Sequence[Path]) -> list[Seen]:
    with multiprocessing.Pool(2) as pool:
        return pool.map(look, skills, chunksize=8)


def look(folder: Path) -> Seen:
    from skillhub.model.tree import File, Tree

    files = sorted(path for path in folder.rglob("*") if path.is_file())
    tree = Tree({path.relative_to(folder).as_posix(): File(path.read_bytes()) for path in files})
    began = time.process_time()
    found = scan(tree)
    took = time.process_time() - began
    return Seen(folder.name, any(at_least(each.severity, "high") for each in found), took * 1000)


def cisco(program: str) -> Scanner:
    """Run one process for a set, since its start takes seconds."""

    def run(group: Group, skills: Sequence[Path]) -> list[Seen]:
        with tempfile.TemporaryDirectory() as work:
            for skill in skills:
                shutil.copytree(skill, Path(work, "in", skill.name))
            report = Path(work, "out.json")
            options = (
                "--recursive",
                "--lenient",
                "--use-behavioral",
                "--format",
                "json",
                "--output-json",
                str(report),
            )
            subprocess.run([program, "scan-all", f"{work}/in", *options], capture_output=True, check=False)
            rows = json.loads(report.read_text("utf-8"))["results"]
            by_skill: dict[str, list[dict]] = {}
            for row in rows:
                by_skill.setdefault(Path(row["skill_path"]).relative_to(f"{work}/in").parts[0], []).append(row)
        return [_of_cisco(skill.name, by_skill.get(skill.name, [])) for skill in skills]

    return run


def _of_cisco(name: str, rows: list[dict]) -> Seen:
    flagged = any(row["max_severity"] in ("HIGH", "CRITICAL") for row in rows)
    return Seen(name, flagged, sum(row["duration_ms"] for row in rows))


def skillkit(program: str) -> Scanner:
    def run(_: Group, skills: Sequence[Path]) -> list[Seen]:
        return [one(skill) for skill in skills]

    def one(skill: Path) -> Seen:
        command = [program, "scan", str(skill), "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said = json.loads(done.stdout[done.stdout.index("{\n") :]) if "{\n" in done.stdout else {}
        stats = said.get("stats", {})
        return Seen(skill.name, stats.get("high", 0) + stats.get("critical", 0) > 0, said.get("duration", 0))

    return run


def apm(program: str) -> Scanner:
    """It searches hidden characters, in one file for each process; here in the instructions."""

    def run(_: Group, skills: Sequence[Path]) -> list[Seen]:
        return [one(skill) for skill in skills]

    def one(skill: Path) -> Seen:
        manifest = next(iter(sorted(skill.rglob("SKILL.md"))), None)
        if manifest is None:
            return Seen(skill.name, False, 0)
        command = [program, "audit", "--file", str(manifest), "--format", "json"]
        before = _children()
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=skill)
        took = _children() - before
        said = json.loads(done.stdout) if done.stdout.startswith("{") else {}
        return Seen(skill.name, said.get("summary", {}).get("critical", 0) > 0, took * 1000)

    return run


OTHERS: Mapping[str, Callable[[str], Scanner]] = {"cisco": cisco, "skillkit": skillkit, "apm": apm}
VERSIONS = {"cisco": "cisco-ai-skill-scanner", "skillkit": "skillkit scan", "apm": "apm audit"}


def _children() -> float:
    used = os.times()
    return used.children_user + used.children_system


def version(name: str, program: str) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    number = re.search(r"\d+\.\d+(?:\.\d+)?", done.stdout + done.stderr)
    return f"{VERSIONS[name]} {number[0]}" if number else VERSIONS[name]


# The figures.


def honest() -> float:
    """Return the milliseconds of processor time for a made skill of 30 kB: the minimum of many warm runs."""
    with tempfile.TemporaryDirectory() as work:
        write_corpus(Path(work), 40)
        skill = min(Path(work).iterdir(), key=lambda path: abs(_size(path) - 30_000))
        return min(look(skill).ms for _ in range(30))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def quantile(seen: Sequence[Seen], share: float) -> float:
    return sorted(each.ms for each in seen)[min(len(seen) - 1, int(len(seen) * share))]


def part(seen: Sequence[Seen]) -> str:
    return f"{sum(each.flagged for each in seen)}/{len(seen)}"


def found_table(results: Results) -> Iterator[str]:
    yield "| set | | all | half A | half B | median | 95th percentile |"
    yield "|---|---|---|---|---|---|---|"
    for group, seen in results.items():
        halves = [[each for each in seen if each.is_in_a is is_in_a] for is_in_a in (True, False)]
        kind = "found" if group.hostile else "false alarms"
        cells = [group.name, kind, part(seen), *map(part, halves)]
        yield f"| {' | '.join(cells)} | {quantile(seen, 0.5):.1f} ms | {quantile(seen, 0.95):.1f} ms |"


def others_table(results: Results, others: Mapping[str, Results]) -> Iterator[str]:
    yield f"| set | | skillhub | {' | '.join(others)} |"
    yield f"|---|---|---|{'---|' * len(others)}"
    for group, seen in results.items():
        asked = [{each.name for each in other.get(group, [])} for other in others.values()]
        same = [each for each in seen if each.name in asked[0]]
        said = [other.get(group, []) for other in others.values()]
        cells = [f"{part(each)}, {quantile(each, 0.5):.0f} ms" if each else "not run" for each in said]
        kind = "found" if group.hostile else "false alarms"
        yield f"| {group.name} | {kind} | {part(same)}, {quantile(same, 0.5):.1f} ms | {' | '.join(cells)} |"


def speed_table(results: Results) -> Iterator[str]:
    yield "| a scan, in time of one processor | takes | is to take at most |"
    yield "|---|---|---|"
    all_real = next((seen for group, seen in results.items() if group.name.startswith("real")), [])
    took = [honest(), *(quantile(all_real, share) for share in (0.5, 0.95) if all_real)]
    for (name, limit), each in zip(LIMITS, took, strict=False):
        yield f"| {name} | {each:.1f} ms | {limit:g} ms |"


def page(results: Results, others: Mapping[str, Results]) -> str:
    parts = ["\n".join(found_table(results)), "\n".join(speed_table(results))]
    if others:
        parts.append("\n".join(others_table(results, others)))
    return "\n\n".join(parts) + "\n"


def written(text: str, figures: str) -> str:
    """Return the page with ``figures`` between its marks."""
    begin, end = (text.index(mark) for mark in MARKS)
    return f"{text[: begin + len(MARKS[0])]}\n{figures}\n{text[end:]}"


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in (*SETS, *OTHERS):
        ask.add_argument(f"--{name}", default=os.environ.get(f"SKILLHUB_AUDIT_{name.upper()}", ""))
    ask.add_argument("--write", action="store_true")
    ask.add_argument("--kept", type=Path)
    ask.add_argument("--only", action="append", default=[], choices=list(SETS))
    asked = ask.parse_args()
    results: dict[Group, list[Seen]] = {}
    with tempfile.TemporaryDirectory(prefix="skillhub-audit-") as work:
        for group in _groups(asked, Path(work)):
            results[group] = ours(group, group.skills)
            print(f"skillhub: {group.name}: {part(results[group])}", flush=True)
        others = _others(asked, list(results))
    figures = page(results, others)
    print(figures)
    if asked.write:
        PAGE.write_text(written(PAGE.read_text("utf-8"), figures), "utf-8")
    return 0


def _others(asked: argparse.Namespace, groups: Sequence[Group]) -> dict[str, dict[Group, list[Seen]]]:
    kept = json.loads(asked.kept.read_text("utf-8")) if asked.kept and asked.kept.exists() else {}
    for name, make in OTHERS.items():
        program = getattr(asked, name)
        if not program or not shutil.which(program):
            print(f"skipped: {VERSIONS[name]}: there is no --{name}, and no SKILLHUB_AUDIT_{name.upper()}")
            continue
        column = kept.setdefault(version(name, program), {})
        for group in groups:
            if group.name not in column:
                seen = make(program)(group, group.skills if group.hostile else group.skills[::SAMPLE])
                column[group.name] = [[each.name, each.flagged, each.ms] for each in seen]
                print(f"{name}: {group.name}: {part(seen)}", flush=True)
                if asked.kept:
                    asked.kept.write_text(json.dumps(kept), "utf-8")
    by_name = {group.name: group for group in groups}
    return {
        name: {by_name[each]: [Seen(*row) for row in rows] for each, rows in column.items() if each in by_name}
        for name, column in kept.items()
    }


def _groups(asked: argparse.Namespace, work: Path) -> Iterator[Group]:
    for name, lay_out in SETS.items():
        source = getattr(asked, name)
        if asked.only and name not in asked.only:
            continue
        if not source or not os.path.isdir(source):
            print(f"skipped: {name}: there is no --{name}, and no SKILLHUB_AUDIT_{name.upper()}")
            continue
        yield from lay_out(Path(source), work / name)


if __name__ == "__main__":
    sys.exit(main())
