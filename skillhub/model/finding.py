"""What was seen in a skill: an issue of its form, a finding of the scan; what it can do, in words."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, get_args

from skillhub.formats.text import deferred, word

Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
Confidence = Literal["low", "medium", "high"]
# OWASP Agentic Skills Top 10, 2026.
CATEGORIES: Mapping[str, str] = {
    "AST01": "malicious skills",
    "AST02": "supply chain compromise",
    "AST03": "over-privileged skills",
    "AST04": "insecure metadata",
    "AST05": "untrusted external instructions",
    "AST06": "weak isolation",
    "AST07": "update drift",
    "AST08": "poor scanning",
    "AST09": "no governance",
    "AST10": "cross-platform reuse",
}
# RFC 2606, RFC 6761.
_KEPT_FOR_DOCUMENTATION = deferred(r"(?:.*\.)?(?:example|test|invalid|example\.(?:com|org|net))")
_INSTRUCTS = "give instructions, which an agent follows with your rights"
# Something runs, or is told to an agent, and is not shown to stay offline.
NETWORK_UNKNOWN: Final = "network:?"


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
        accepted_by: Of an audit, what accepts it: ``allow-findings`` in a policy of the machine or the user, a
            suppression of the project, or a baseline; empty if nothing does.
    """

    rule: str
    severity: Severity
    path: str | None
    line: int
    message: str
    hint: str
    skill: str | None = None
    accepted_by: str = ""

    @property
    def accepted(self) -> bool:
        """Whether something accepts it, so that no audit fails for it."""
        return bool(self.accepted_by)

    @property
    def rank(self) -> str:
        """The severity as a report shows it, and what accepts the finding."""
        return f"{self.severity} (accepted by {self.accepted_by})" if self.accepted else self.severity

    @property
    def where(self) -> str:
        """The place as people and editors write it; empty where it has none."""
        return f"{self.path}:{self.line}" if self.path and self.line else self.path or ""

    def __str__(self) -> str:
        about = ", ".join(filter(None, (self.skill, self.where)))
        return ": ".join(filter(None, (self.rank, about, f"{self.message} [{self.rule}]")))


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table of rules, ``rules.json``. An id is never given to another rule.

    Attributes:
        id: ``SH`` and digits for the content of a skill; words for everything else that an audit checks.
        confidence: How sure it is that a finding is what the title says.
        category: The class of the OWASP Agentic Skills Top 10, one of ``CATEGORIES``.
        title: What it means when it is found.
        why: What harm it can do.
        hint: What to do then.
    """

    id: str
    severity: Severity
    confidence: Confidence
    category: str
    title: str
    why: str
    hint: str

    @property
    def is_content(self) -> bool:
        """Whether it is about the content of a skill, which the scan reads."""
        return self.id.startswith("SH")

    def finding(self, path: str | None, line: int, message: str | None = None, skill: str | None = None) -> Finding:
        """Return that it was found, as grave as the rule says; the title is the message if there is no other."""
        return Finding(self.id, self.severity, path, line, message or self.title, self.hint, skill)


@cache
def rules() -> Mapping[str, Rule]:
    """Return the table: every rule there is, by id."""
    with open(os.path.join(os.path.dirname(__file__), "rules.json"), encoding="utf-8") as file:
        return {row["id"]: Rule(**row) for row in json.load(file)}


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


def undeclared_variables(found: Iterable[str], declared: Iterable[str]) -> tuple[str, ...]:
    """Return the variables among capabilities that a skill reads and does not name among its needs, ``*`` for any."""
    names = {each.removeprefix("env:") for each in found if each.startswith("env:")}
    return tuple(sorted(names - {*declared}))


def in_words(found: Iterable[str]) -> str:
    """Return for a person what a skill can do; that no network was seen is no proof that there is none."""
    names = [*found]
    seen = [] if any(each.startswith("network:") for each in names) else ["network: none seen"]
    return "; ".join([_INSTRUCTS, *([", ".join(map(capability_text, names))] if names else []), *seen])


def capability_text(capability: str) -> str:
    """Return a capability for a person."""
    return f"{word(capability)} (unknown hosts)" if capability == NETWORK_UNKNOWN else word(capability)


def is_kept_for_documentation(host: str) -> bool:
    """Say whether ``host`` is a name that is promised to nobody: ``example.com``, ``.test`` and their like."""
    return _KEPT_FOR_DOCUMENTATION.fullmatch(host) is not None
