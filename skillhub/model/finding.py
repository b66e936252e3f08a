"""What was seen in a skill: an issue of its form, or a finding of the scan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True, slots=True)
class Issue:
    """Something about the form of a skill that is not as the specification wants it."""

    code: str
    message: str
    where: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule of the scan or of an audit saw, and where.

    Attributes:
        path: Of the scan, relative to the skill; of an audit, to the project if inside of it, else absolute; ``/``
            between segments.
        line: Counts from 1; 0 is the file as a whole.
        skill: Of an audit, the skill that it is about; None where it is about a source.
        accepted: Of an audit, whether ``allow-findings`` in a policy of the machine or the user accepts it.
    """

    rule: str
    severity: Severity
    path: str | None
    line: int
    message: str
    hint: str
    skill: str | None = None
    accepted: bool = False

    @property
    def rank(self) -> str:
        """The severity as a report shows it, and whether a policy accepts the finding."""
        return f"{self.severity} (accepted by a policy)" if self.accepted else self.severity

    @property
    def where(self) -> str:
        """The place as people and editors write it; empty where it has none."""
        return f"{self.path}:{self.line}" if self.path and self.line else self.path or ""

    def __str__(self) -> str:
        about = ", ".join(filter(None, (self.skill, self.where)))
        return ": ".join(filter(None, (self.rank, about, f"{self.message} [{self.rule}]")))


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is looked for, in general. An id is never given to another rule.

    Attributes:
        title: What it means when it is found.
        hint: What to do then.
    """

    id: str
    severity: Severity
    title: str
    hint: str

    def finding(self, path: str | None, line: int, message: str | None = None, skill: str | None = None) -> Finding:
        """Return that it was found, as grave as the rule says; the title is the message if there is no other."""
        return Finding(self.id, self.severity, path, line, message or self.title, self.hint, skill)


def counted(findings: Sequence[Finding]) -> str:
    """Return how many there are of each severity, the worst first: ``1 critical, 2 high``."""
    each = ((level, sum(found.severity == level for found in findings)) for level in SEVERITIES[::-1])
    return ", ".join(f"{count} {level}" for level, count in each if count)


def in_short(findings: Iterable[Finding]) -> list[str]:
    """Return findings below high, which need no approval: a line for each rule, with the first of its places."""
    places: dict[str, list[Finding]] = {}
    for each in findings:
        if not at_least(each.severity, "high"):
            places.setdefault(each.rule, []).append(each)
    more = {rule: f" (and in {len(each) - 1} more)" if each[1:] else "" for rule, each in places.items()}
    return [f"{each[0]}{more[rule]}" for rule, each in places.items()]


def at_least(severity: Severity, threshold: Severity) -> bool:
    """Say whether ``severity`` is ``threshold`` or worse."""
    return SEVERITIES.index(severity) >= SEVERITIES.index(threshold)
