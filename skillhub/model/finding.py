"""What was seen in a skill: an issue of its form, or a finding of the scan."""

from __future__ import annotations

from typing import Literal, get_args

from skillhub.model.dataclass import dataclass

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
    """What a rule of the scan saw, and where; ``line`` counts from 1, and is 0 for a file as a whole."""

    rule: str
    severity: Severity
    path: str
    line: int
    message: str
    hint: str


def at_least(severity: Severity, threshold: Severity) -> bool:
    """Say whether ``severity`` is ``threshold`` or worse."""
    return SEVERITIES.index(severity) >= SEVERITIES.index(threshold)
