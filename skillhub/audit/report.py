"""The report of an audit: its findings, their locations, and its forms (markdown, SARIF, brief)."""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import resources
from typing import Any
from urllib.parse import quote as percent_encode

from skillhub import __version__
from skillhub.disk import files
from skillhub.disk.home import LOCK
from skillhub.formats.digest import Digest
from skillhub.formats.text import amount, as_word, clean, grouped, shown
from skillhub.model.finding import SEVERITIES, Finding, Rule, Severity, at_least, counted, rules
from skillhub.model.lock import CAP, Lock
from skillhub.model.provenance import Record
from skillhub.model.tree import SKILL_MD, File, Tree
from skillhub.project import copies
from skillhub.project.project import Project
from skillhub.project.store import Store

Location = tuple[str | None, int]  # path and line, as in a ``Finding``


# Every rule of an audit. Another command that reports the same problem uses the id of the rule as its code.
RULES: Mapping[str, Rule] = rules()


def finding_of(rule: str, message: str, skill: str | None, place: Location) -> Finding:
    """Return a finding of a rule, with the severity in the table; the hint names the skill."""
    finding = RULES[rule].finding(*place, message, skill)
    return finding if skill is None else replace(finding, hint=finding.hint.replace("NAME", as_word(skill)))


def located(finding: Finding, skill: str, folder: str) -> Finding:
    """Return a finding of the scan with the skill's name, and with the skill's folder in its path."""
    return replace(finding, skill=skill, path=f"{folder}/{finding.path}")


# The report of an audit: findings about skills and sources, each of a rule in the table.

# Part of every report; the command that prints the brief follows. The figures are those of docs/audit.md.
UNSEEN = (
    "Rules find few attacks in plain prose (1 of 154 and 9 of 86 in two public sets): read the skills, "
    "or give a model the output of: "
)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, the most severe first.

    Attributes:
        threshold: The severity from which on a finding fails the audit.
        skills: The number of skills that were checked.
        notes: Remarks on the audit itself, such as when a source was last asked.
        known: The findings of the new baseline, if the audit writes one.
    """

    findings: tuple[Finding, ...]
    threshold: Severity
    skills: int
    notes: tuple[str, ...] = ()
    known: tuple[Any, ...] = ()

    @property
    def failing(self) -> tuple[Finding, ...]:
        """The findings at the threshold or over it that are not accepted."""
        return tuple(each for each in self.findings if at_least(each.severity, self.threshold) and not each.accepted)

    @property
    def ok(self) -> bool:
        """Whether no finding fails the audit."""
        return not self.failing

    @property
    def summary(self) -> str:
        """A summary in one sentence."""
        checked = f"{amount(self.skills, 'skill')} checked"
        if not (self.findings or self.skills):
            return f"{checked}: there is no skill here"
        if not self.findings:
            return f"{checked}, nothing found"
        counts = Counter(finding.accepted_by.split(" until ")[0] for finding in self.findings if finding.accepted)
        acceptances = "".join(f", {count} accepted by {acceptor}" for acceptor, count in sorted(counts.items()))
        return f"{checked}: {counted(self.findings)}; {len(self.failing)} at {self.threshold} or over{acceptances}"

    def below(self, folder: str) -> Report:
        """Return the report with ``folder``, the project's folder in a repository, before each relative path."""
        if not folder:
            return self
        moved = (
            replace(each, path=f"{folder}/{each.path}") if each.path and not is_absolute(each.path) else each
            for each in self.findings
        )
        return replace(self, findings=tuple(moved))


def is_absolute(path: str) -> bool:
    """Return whether the path of a finding is absolute, thus outside of the project; also with a drive of Windows."""
    return path.startswith("/") or path[1:2] == ":"


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings in the order of a report, without duplicates."""
    return tuple(sorted(dict.fromkeys(findings), key=_sort_key))


def _sort_key(finding: Finding) -> tuple[int, str, str, int, str, str]:
    worst = -SEVERITIES.index(finding.severity)
    return worst, finding.skill or "", finding.path or "", finding.line, finding.rule, finding.message


# A report as SARIF 2.1.0 (OASIS), a format that code scanning and editors read.

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS: Mapping[Severity, str] = {"low": "note", "medium": "warning", "high": "error", "critical": "error"}
# GitHub's code scanning sorts by this score; its levels begin at 4.0, 7.0 and 9.0.
_SCORES: Mapping[Severity, str] = {"low": "2.0", "medium": "5.0", "high": "8.0", "critical": "9.5"}
# The place of a tree in the store, which differs between machines.
_IN_STORE = re.compile(r"^.*[/\\]store[/\\][0-9a-f]{2}[/\\][0-9a-f]{64}[/\\]")


def sarif(report: Report) -> dict[str, Any]:
    """Return the SARIF log as a JSON value."""
    used = sorted({finding.rule for finding in report.findings})
    driver = {
        "name": "skillhub",
        "version": __version__,
        "informationUri": "https://github.com/skillhub/skillhub",
        "rules": [_rule(RULES[rule]) for rule in used],
    }
    results = [_result(finding, used.index(finding.rule)) for finding in report.findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.hint},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {
            "tags": ["security", rule.category],
            "precision": rule.confidence,
            "security-severity": _SCORES[rule.severity],
        },
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    about = f"{finding.skill}: " if finding.skill else ""
    # Readers of SARIF show no finding without a location; a finding about a source gets the lock as its location.
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.path or LOCK)}}
    if finding.line:
        place["region"] = {"startLine": finding.line}
    why = _without_links(f"accepted by {finding.accepted_by}")
    accepted = {"kind": "external", "status": "accepted", "justification": why}
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": _without_links(f"{about}{finding.message}; {finding.hint}")},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"skillhub/v1": _fingerprint(finding)},
        "properties": {"skill": finding.skill, "severity": finding.severity},
        **({"suppressions": [accepted]} if finding.accepted else {}),
    }


def _without_links(text: str) -> str:
    """Return text without the syntax of links, which SARIF allows in messages (3.11.6) and a name may contain."""
    return clean(text).replace("](", "] (")


def _uri(path: str) -> str:
    """Return a relative path as a relative reference, an absolute one as a ``file`` URI (RFC 8089)."""
    text = percent_encode(path.encode("utf-8", "surrogateescape"), safe="/")
    return f"file:///{text.removeprefix('/')}" if is_absolute(path) else text


def _fingerprint(finding: Finding) -> str:
    """Return a fingerprint of a finding that stays the same when lines move, and wherever the store is."""
    facts = (finding.rule, finding.skill or "", _IN_STORE.sub("", finding.path or ""), finding.message)
    return sha256("\0".join(facts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


# A report as text that other programs show: markdown for a summary, and the annotations of GitHub's log.
# The author of a skill can choose words in a finding: they must not become markup, a mention, a link or a command.

_MARKUP = re.compile(r"([\\`*_\[\]#|~$])")
_COMMANDS: Mapping[Severity, str] = {"low": "notice", "medium": "warning", "high": "error", "critical": "error"}


def markdown(report: Report) -> str:
    """Return the report as GitHub-flavoured markdown: a heading, a sentence, a table."""
    lines = ["## Skills: " + ("ok" if report.ok else "not ok"), "", _plain(report.summary) + "."]
    if report.findings:
        lines += ["", "| severity | rule | skill | where | what | what to do |", "|---|---|---|---|---|---|"]
        for each in report.findings:
            cells = (each.rank, each.rule, each.skill or "", each.where, each.message, each.hint)
            lines.append(f"| {' | '.join(map(_plain, cells))} |")
    lines += ["", _plain(f"{UNSEEN}skillhub audit --format prompt")]
    if report.notes:
        lines += ["", *(f"- {_plain(note)}" for note in report.notes)]
    return "\n".join(lines) + "\n"


def workflow_commands(report: Report) -> Iterator[str]:
    """Yield a workflow command for each finding; GitHub shows it beside the file."""
    for finding in report.findings:
        place = {"file": finding.path, "line": finding.line or None, "title": f"skillhub {finding.rule}"}
        properties = ",".join(f"{key}={_property(str(value))}" for key, value in place.items() if value)
        about = f"{finding.skill}: " if finding.skill else ""
        command = "warning" if finding.accepted else _COMMANDS[finding.severity]
        yield f"::{command} {properties}::{_data(f'{about}{finding.message}; {finding.hint}')}"


def _plain(text: str) -> str:
    """Return text escaped for markdown."""
    safe = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
    # Otherwise a bare address would become a link.
    safe = safe.replace("://", ":&#47;&#47;").replace("www.", "www&#46;")
    return _MARKUP.sub(r"\\\1", safe).replace("&\\#", "&#")


def _data(text: str) -> str:
    # Otherwise a line feed would begin another command.
    return clean(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# The location of a finding: a line of the lock, or a file by its path in the project.

# The layout that `Lock.dump` writes; in a lock with another layout, findings have no line.
_SECTION = re.compile(r'  "(skills|sources)": \{')
_BLOCK = re.compile(r'    "([a-z0-9-]+)": \{')


class Locations:
    """The locations in one project.

    Args:
        project: The project.
        lock: Its parsed lock.
    """

    def __init__(self, project: Project, lock: Lock) -> None:
        self._project = project
        self._sources = lock.sources
        # The lines are those of the file on the disk, which a reader of the report opens.
        data = files.read(os.path.realpath(project.lock_path), CAP) or b""
        self._lines = _lines(data.decode("utf-8", "replace"))
        self._lock = self.shown(project.lock_path) if project.scope == "project" else LOCK

    def skill(self, name: str) -> Location:
        """Return the location of a skill in the lock."""
        return self._lock, self._lines.get(("skills", name), 0)

    def source(self, alias: str) -> Location:
        """Return the location of a source in the lock; no location if the lock does not have the source."""
        return (self._lock, self._lines.get(("sources", alias), 0)) if alias in self._sources else (None, 0)

    def shown(self, path: str) -> str:
        """Return a path for a report: relative to the project if it is inside of the project."""
        base = self._project.base
        for top in (base, os.path.realpath(base)):
            with suppress(ValueError):  # no relative path leads from one drive of Windows to another
                relative = os.path.relpath(path, top)
                if relative.split(os.sep)[0] != "..":
                    return relative.replace(os.sep, "/")
        return path

    def folder(self, tree: Digest, record: Record | None, store: Store) -> str:
        """Return the folder with the files of a locked skill: an enabled copy, else the folder in the store."""
        if record is not None and record.enabled and record.tree == tree and record.links:
            return self.shown(copies.path_of(self._project, record.links[0]))
        return self.shown(store.path(tree))


def _lines(text: str) -> dict[tuple[str, str], int]:
    numbers: dict[tuple[str, str], int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := _SECTION.match(line):
            section = match[1]
        elif match := _BLOCK.match(line):
            numbers[section, match[1]] = number
    return numbers


# A brief about skills for a model that the user chooses; the content of the skills is data within a fence.

TOTAL_MAX, FILE_MAX, LINE_MAX = 120_000, 24_000, 1_000  # characters
_FILES_MAX, _FINDINGS_MAX = 100, 100
_AROUND = 3  # lines around a finding that are shown even if the file is cut


def brief(skills: Iterable[tuple[str, Tree]], findings: Sequence[Finding]) -> str:
    """Return the brief; the same skills and findings give the same text.

    Args:
        skills: The name and the content of each skill.
        findings: The findings of the audit.
    """
    parts: list[str] = []
    budget = TOTAL_MAX
    by_skill = grouped((finding.skill, finding) for finding in findings)
    unread = {name: None for name in by_skill if name is not None}
    for name, tree in skills:
        unread.pop(name, None)
        rows = [f"# skill {_quoted(name)}: left out, since this brief is full"]
        if budget > 0:
            rows = [*_skill(name, tree, by_skill.get(name, ()), budget)]
        parts.append("\n".join(rows))
        budget -= len(parts[-1])
    for name in unread:
        rows = [f"# skill {_quoted(name)}: it could not be read, so its verdict must not be harmless"]
        parts.append("\n".join((*rows, *_findings(by_skill[name]))))
    data = "\n\n".join(parts)
    fence = f"[{sha256(data.encode()).hexdigest()[:32]}]"
    task = resources.files(__package__).joinpath("brief.txt").read_text("utf-8").format(fence=fence)
    return f"{task}\n{fence}\n{data}\n{fence}\n"


def _skill(name: str, tree: Tree, findings: Sequence[Finding], budget: int) -> Iterator[str]:
    yield f"# skill {_quoted(name)}, tree {tree.digest}, {len(tree)} files, {tree.size} bytes"
    yield from _findings(findings)
    lines: defaultdict[str, set[int]] = defaultdict(set)
    for finding in findings:
        path = finding.path or ""
        while path := path.partition("/")[2]:  # the folder of the skill comes first
            lines[path].add(finding.line)
    order = sorted(tree, key=lambda path: (path != SKILL_MD, not lines[path], path))
    for path in order[:_FILES_MAX]:
        rows = [*_file(path, tree[path], lines[path], min(budget, FILE_MAX))]
        budget -= sum(map(len, rows))
        yield from rows
    if omitted := len(order[_FILES_MAX:]):
        yield f"## {omitted} more files: left out"


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    yield "## what the rules found" if findings else "## the rules found nothing"
    for finding in findings[:_FINDINGS_MAX]:
        yield f"- {finding.severity} {finding.rule} {_quoted(finding.where)}: {_quoted(finding.message)}"
    if omitted := len(findings[_FINDINGS_MAX:]):
        yield f"- and {omitted} more"


def _file(path: str, file: File, finding_lines: set[int], budget: int) -> Iterator[str]:
    """Yield the numbered lines of a file; of a file that is too long the first lines, and those around findings."""
    about = f"## file {_quoted(path)}, {len(file.data)} bytes{', executable' if file.executable else ''}"
    try:
        last = max(FILE_MAX, *finding_lines, 0) + _AROUND  # each shown line takes from the budget
        lines = file.data.decode("utf-8").split("\n", last)
    except UnicodeDecodeError:
        yield f"{about}: not text, left out (SHA-256 {sha256(file.data).hexdigest()})"
        return
    yield about
    near = {number for line in finding_lines for number in range(line - _AROUND, line + _AROUND + 1)}
    omitted = lines.pop().count("\n") + 1 if len(lines) > last else 0
    for number, line in enumerate(lines, 1):
        if budget <= 0 and (number not in near or budget < -FILE_MAX):
            omitted += 1
            continue
        text = shown(line[:LINE_MAX])
        cut = f" [{len(line) - LINE_MAX} more characters left out]" if len(line) > LINE_MAX else ""
        row = f"{number}| {text[: 2 * LINE_MAX]}{cut}"
        budget -= len(row)
        yield row
    if omitted:
        yield f"## {omitted} lines of {_quoted(path)}: left out"


def _quoted(text: str) -> str:
    return json.dumps(shown(text)[:LINE_MAX], ensure_ascii=False)
