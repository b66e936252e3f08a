"""Rules and findings of an audit, where each is shown, and the report as text, markdown and SARIF 2.1.0."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from skillhub.disk import files
from skillhub.disk.home import LOCK
from skillhub.formats.digest import Digest
from skillhub.formats.text import clean
from skillhub.model.finding import SEVERITIES, Finding, Rule, Severity, at_least, counted, rules
from skillhub.model.lock import CAP, Lock
from skillhub.model.record import Record
from skillhub.project import copies
from skillhub.project.project import Project
from skillhub.project.store import Store

Location = tuple[str | None, int]  # a path and a line, as of a ``Finding``


# Every rule that an audit knows; where another command reports the same, its code is the rule's id.
RULES: Mapping[str, Rule] = rules()


def note(rule: str, message: str, skill: str | None, place: Location) -> Finding:
    """Return a finding by a rule of the table, as grave as that says."""
    return RULES[rule].finding(*place, message, skill)


def seen(found: Finding, skill: str, folder: str) -> Finding:
    """Return what the scan saw in the skill that is shown as lying at ``folder``."""
    return replace(found, skill=skill, path=f"{folder}/{found.path}")


# The report of an audit: findings about skills and sources, each by a rule of the table.

# Said with every report, whatever it found.
UNSEEN = "Rules mostly miss attacks in prose alone: read it, or ask a model with --format prompt"
_KEYS = ("rule", "severity", "skill", "path", "line", "message", "hint", "accepted", "accepted_by")  # of a finding


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, the worst first.

    Attributes:
        threshold: What is as bad as that, or worse, fails.
        skills: How many skills were looked at.
        notes: What a reader should know of how it was made, such as when a source was last asked.
        known: Of an audit that is to write a baseline what that has.
    """

    findings: tuple[Finding, ...]
    threshold: Severity
    skills: int
    notes: tuple[str, ...] = ()
    known: tuple[Any, ...] = ()

    @property
    def failing(self) -> tuple[Finding, ...]:
        """The findings at the threshold or over it that nothing accepts."""
        return tuple(each for each in self.findings if at_least(each.severity, self.threshold) and not each.accepted)

    @property
    def ok(self) -> bool:
        """Whether nothing fails."""
        return not self.failing

    @property
    def summary(self) -> str:
        """One sentence."""
        looked = f"{self.skills} {'skill' if self.skills == 1 else 'skills'} checked"
        if not self.findings:
            return f"{looked}, nothing found"
        by = Counter(each.accepted_by.split(" until ")[0] for each in self.findings if each.accepted)
        beside = "".join(f", {count} accepted by {what}" for what, count in sorted(by.items()))
        return f"{looked}: {counted(self.findings)}; {len(self.failing)} at {self.threshold} or over{beside}"

    def below(self, folder: str) -> Report:
        """Return the report for readers whose paths begin above the project, which lies at ``folder`` there."""
        if not folder:
            return self
        moved = (
            replace(each, path=f"{folder}/{each.path}") if each.path and not is_absolute(each.path) else each
            for each in self.findings
        )
        return replace(self, findings=tuple(moved))

    def to_json(self) -> dict[str, Any]:
        """Return ``audit`` of the contract."""
        return {
            "ok": self.ok,
            "findings": [{key: getattr(each, key) for key in _KEYS} for each in self.findings],
            "notes": list(self.notes),
        }


def is_absolute(path: str) -> bool:
    """Say whether the path of a finding is one outside of the project; a drive counts on every system."""
    return path.startswith("/") or path[1:2] == ":"


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings in the order of a report, none of them twice."""
    return tuple(sorted(dict.fromkeys(findings), key=_order))


def _order(found: Finding) -> tuple[int, str, str, int, str, str]:
    worst = -SEVERITIES.index(found.severity)
    return worst, found.skill or "", found.path or "", found.line, found.rule, found.message


# A report as SARIF 2.1.0 (OASIS), which code scanning and editors read.

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS: Mapping[Severity, str] = {"low": "note", "medium": "warning", "high": "error", "critical": "error"}
# What GitHub's code scanning sorts by; its own words begin at 4.0, 7.0 and 9.0.
_SCORES: Mapping[Severity, str] = {"low": "2.0", "medium": "5.0", "high": "8.0", "critical": "9.5"}
_LOCK = "skillhub.lock"


def sarif(report: Report, rules: Mapping[str, Rule], version: str) -> dict[str, Any]:
    """Return the log, a JSON value.

    Args:
        report: What was found.
        rules: Every rule there is, by id.
        version: Of this program.
    """
    used = sorted({each.rule for each in report.findings})
    driver = {
        "name": "skillhub",
        "version": version,
        "informationUri": "https://github.com/skillhub/skillhub",
        "rules": [_rule(rules[each]) for each in used],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(each, used.index(each.rule)) for each in report.findings],
    }
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


def _result(found: Finding, index: int) -> dict[str, Any]:
    about = f"{found.skill}: " if found.skill else ""
    # Readers show nothing that has no place; what is about a source is then about the lock.
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(found.path or _LOCK)}}
    if found.line:
        place["region"] = {"startLine": found.line}
    return {
        "ruleId": found.rule,
        "ruleIndex": index,
        "level": _LEVELS[found.severity],
        "message": {"text": clean(f"{about}{found.message}; {found.hint}")},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"skillhub/v1": _fingerprint(found)},
        "properties": {"skill": found.skill, "severity": found.severity},
        **({"suppressions": [_suppression(found)]} if found.accepted else {}),
    }


def _suppression(found: Finding) -> dict[str, str]:
    return {"kind": "external", "status": "accepted", "justification": clean(f"accepted by {found.accepted_by}")}


def _uri(path: str) -> str:
    """Return a relative path as a relative reference, an absolute one as a ``file`` URI (RFC 8089)."""
    text = quote(path.encode("utf-8", "surrogateescape"), safe="/")
    return f"file:///{text.removeprefix('/')}" if is_absolute(path) else text


def _fingerprint(found: Finding) -> str:
    """Return what is the same for the same finding when lines move."""
    facts = (found.rule, found.skill or "", found.path or "", found.message)
    return sha256("\0".join(facts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


# A report as text for others to show: markdown for a summary, and the annotations of GitHub's log.
# What was found may be worded by whoever wrote the skill: nothing of it becomes markup, a mention, a link or a
# command.

_MARKUP = re.compile(r"([\\`*_\[\]#|~$])")
_COMMANDS: Mapping[Severity, str] = {"low": "notice", "medium": "warning", "high": "error", "critical": "error"}


def markdown(report: Report) -> str:
    """Return the report as GitHub-flavoured markdown: a heading, a sentence, a table."""
    lines = ["## Skills: " + ("ok" if report.ok else "not ok"), "", _plain(report.summary) + "."]
    if report.findings:
        lines += ["", "| severity | rule | skill | where | what | what to do |", "|---|---|---|---|---|---|"]
        lines += [_row(each) for each in report.findings]
    lines += ["", _plain(UNSEEN)]
    if report.notes:
        lines += ["", *(f"- {_plain(note)}" for note in report.notes)]
    return "\n".join(lines) + "\n"


def workflow_commands(report: Report) -> Iterator[str]:
    """Yield a workflow command for each finding, which GitHub shows beside the file."""
    for each in report.findings:
        place = {"file": each.path, "line": each.line or None, "title": f"skillhub {each.rule}"}
        given = ",".join(f"{key}={_property(str(value))}" for key, value in place.items() if value)
        about = f"{each.skill}: " if each.skill else ""
        command = "warning" if each.accepted else _COMMANDS[each.severity]
        yield f"::{command} {given}::{_data(f'{about}{each.message}; {each.hint}')}"


def _row(found: Finding) -> str:
    cells = (found.rank, found.rule, found.skill or "", found.where, found.message, found.hint)
    return f"| {' | '.join(map(_plain, cells))} |"


def _plain(text: str) -> str:
    """Return text that markdown shows as it is."""
    safe = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
    # A bare address would become a link.
    safe = safe.replace("://", ":&#47;&#47;").replace("www.", "www&#46;")
    return _MARKUP.sub(r"\\\1", safe).replace("&\\#", "&#")


def _data(text: str) -> str:
    # A line feed would begin another command.
    return clean(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# Where a finding is shown: a line of the lock, or a file by its path in the project.

# As `Lock.dump` writes them; of a lock that is laid out otherwise no line is named.
_SECTION = re.compile(r'  "(skills|sources)": \{')
_BLOCK = re.compile(r'    "([a-z0-9-]+)": \{')


class Locations:
    """The places of one project.

    Args:
        project: It.
        lock: Its lock, parsed.
    """

    def __init__(self, project: Project, lock: Lock) -> None:
        self._project = project
        self._sources = lock.sources
        # As it is on the disk: whoever reads the report opens that.
        data = files.read(os.path.realpath(project.lock_path), CAP) or b""
        self._lines = _lines(data.decode("utf-8", "replace"))
        self._lock = self.shown(project.lock_path) if project.scope == "project" else LOCK

    def skill(self, name: str) -> Location:
        """Return where the lock has a skill."""
        return self._lock, self._lines.get(("skills", name), 0)

    def source(self, alias: str) -> Location:
        """Return where the lock has a source; nowhere, if it does not."""
        return (self._lock, self._lines.get(("sources", alias), 0)) if alias in self._sources else (None, 0)

    def shown(self, path: str) -> str:
        """Return a path as a report has it: relative to the project if inside of it."""
        base = self._project.base
        for top in (base, os.path.realpath(base)):
            with suppress(ValueError):  # two drives of Windows have no path between them
                relative = os.path.relpath(path, top)
                if relative.split(os.sep)[0] != "..":
                    return relative.replace(os.sep, "/")
        return path

    def folder(self, tree: Digest, record: Record | None, store: Store) -> str:
        """Return where a person finds the files of a locked skill: where it is enabled, else in the store."""
        if record is not None and record.enabled and record.tree == tree and record.links:
            return self.shown(copies.place(self._project, record.links[0]))
        return self.shown(store.path(tree))


def _lines(text: str) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := _SECTION.match(line):
            section = match[1]
        elif match := _BLOCK.match(line):
            found[section, match[1]] = number
    return found
