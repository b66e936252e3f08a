"""What an audit came to: findings about skills and sources, each by a rule that has an id of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from skillhub.model.finding import SEVERITIES, Finding, Severity, at_least, counted

_KEYS = (
    "rule",
    "severity",
    "skill",
    "path",
    "line",
    "message",
    "hint",
)  # of a finding, as the contract has them


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, the worst first.

    Attributes:
        threshold: What is as bad as that, or worse, fails.
        skills: How many skills were looked at.
        notes: What a reader should know of how it was made, such as when a source was last asked.
    """

    findings: tuple[Finding, ...]
    threshold: Severity
    skills: int
    notes: tuple[str, ...] = ()

    @property
    def failing(self) -> tuple[Finding, ...]:
        """The findings at the threshold or over it."""
        return tuple(each for each in self.findings if at_least(each.severity, self.threshold))

    @property
    def ok(self) -> bool:
        """Whether nothing fails."""
        return not self.failing

    @property
    def summary(self) -> str:
        """One sentence."""
        looked = f"{self.skills} {'skill' if self.skills == 1 else 'skills'} looked at"
        if not self.findings:
            return f"{looked}, nothing found"
        return f"{looked}: {counted(self.findings)}; {len(self.failing)} at {self.threshold} or over"

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
