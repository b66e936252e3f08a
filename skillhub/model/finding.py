"""Issues with the form of a skill, findings of the scan and the audit, and the words for capabilities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, get_args

from skillhub.formats.text import deferred, grouped, packaged, word

Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
Confidence = Literal["low", "medium", "high"]
# OWASP Agentic Skills Top 10, 2026.
CATEGORIES: Mapping[str, str] = packaged("model/categories.json")
# The end of the message about a program for which this installation of skillhub has no parser, and a line with it.
NO_PARSER: Final = "the parsers, skillhub's extra named audit, are not installed"
_NO_PARSER_LINE = deferred(rf"(?:the scan found |\S+: )?low: .*{NO_PARSER} \[SH609\](?: \(and in \d+ more\))?")
# RFC 2606, RFC 6761.
_KEPT_FOR_DOCUMENTATION = deferred(r"(?:.*\.)?(?:example|test|invalid|example\.(?:com|org|net))")
_INSTRUCTS = "give instructions, which an agent follows with your rights"
# The capability of code or instructions that are not proved to stay offline.
NETWORK_UNKNOWN: Final = "network:?"
# The capabilities of a skill with a declaration that cannot be read: another reader may read any name in it.
DECLARATIONS_UNKNOWN: Final = ("env:?", "mcp:?", "permissions:?")


@dataclass(frozen=True, slots=True)
class Issue:
    """A breach of the specification in the form of a skill."""

    code: str
    message: str
    where: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One match of a rule of the scan or of an audit, and its place.

    Attributes:
        path: In a scan, relative to the skill; in an audit, relative to the project if inside it, else absolute; with
            ``/`` between segments.
        line: Counts from 1; 0 is the whole file.
        skill: In an audit, the skill of the finding; None for a finding about a source.
        accepted_by: In an audit, the thing that accepts the finding: ``allow-findings`` in a policy of the machine or
            the user, a suppression of the project, or a baseline; empty if the finding is not accepted.
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
        """Whether the finding is accepted, so that no audit fails for it."""
        return bool(self.accepted_by)

    @property
    def is_about_parsers(self) -> bool:
        """Whether the finding says that this installation of skillhub lacks a parser."""
        return self.rule == "SH609" and self.message.endswith(NO_PARSER)

    @property
    def rank(self) -> str:
        """The severity as a report shows it, and ``accepted_by``."""
        return f"{self.severity} (accepted by {self.accepted_by})" if self.accepted else self.severity

    @property
    def where(self) -> str:
        """The place as ``path:line``, which editors understand; empty without a path."""
        return f"{self.path}:{self.line}" if self.path and self.line else self.path or ""

    def __str__(self) -> str:
        about = ", ".join(filter(None, (self.skill, self.where)))
        return ": ".join(filter(None, (self.rank, about, f"{self.message} [{self.rule}]")))


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table of rules, ``rules.json``. An id is never reused for another rule.

    Attributes:
        id: ``SH`` and digits for a rule about the content of a skill; words for the other checks of an audit.
        confidence: How likely it is that a finding is what the title says.
        category: The class of the OWASP Agentic Skills Top 10, one of ``CATEGORIES``.
        title: The meaning of a finding.
        why: The harm that it can do.
        hint: The advice to the user.
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
        """Whether the rule is about the content of a skill, which the scan reads."""
        return self.id.startswith("SH")

    def finding(self, path: str | None, line: int, message: str | None = None, skill: str | None = None) -> Finding:
        """Return a finding of this rule with the rule's severity; the title is the default message."""
        return Finding(self.id, self.severity, path, line, message or self.title, self.hint, skill)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A place at which a detector found a rule (its id); line 0 stands for the file as a whole.

    Attributes:
        message: A description, if it says more than the title of the rule.
    """

    rule: str
    path: str
    line: int
    message: str = ""


@cache
def rules() -> Mapping[str, Rule]:
    """Return every rule by its id."""
    return {row["id"]: Rule(**row) for row in packaged("model/rules.json")}


def counted(findings: Sequence[Finding]) -> str:
    """Return the number of findings of each severity, worst first: ``1 critical, 2 high``."""
    counts = ((level, sum(finding.severity == level for finding in findings)) for level in SEVERITIES[::-1])
    return ", ".join(f"{count} {level}" for level, count in counts if count)


def in_short(findings: Iterable[Finding]) -> list[str]:
    """Return the findings below high, which need no approval: a line for each rule, with its first place."""
    minor = (each for each in findings if not at_least(each.severity, "high"))
    groups = grouped(((each.rule, each.is_about_parsers), each) for each in minor).values()
    return [f"{group[0]}{f' (and in {len(group) - 1} more)' if group[1:] else ''}" for group in groups]


def is_about_parsers(line: str) -> bool:
    """Return whether a line of a report says that this installation of skillhub lacks a parser."""
    return _NO_PARSER_LINE.fullmatch(line) is not None


def at_least(severity: Severity, threshold: Severity) -> bool:
    """Return whether ``severity`` is ``threshold`` or worse."""
    return SEVERITIES.index(severity) >= SEVERITIES.index(threshold)


def undeclared_variables(capabilities: Iterable[str], declared: Iterable[str]) -> tuple[str, ...]:
    """Return the variables that a skill reads by its capabilities and does not declare as needs; ``*`` is any."""
    names = {capability.removeprefix("env:") for capability in capabilities if capability.startswith("env:")}
    return tuple(sorted(names - {"?", *declared}))


def in_words(capabilities: Iterable[str]) -> str:
    """Return the capabilities of a skill for a person; without a host it says ``none seen``, which is no proof."""
    names = [*capabilities]
    no_network = [] if any(capability.startswith("network:") for capability in names) else ["network: none seen"]
    return "; ".join([_INSTRUCTS, *([", ".join(map(capability_text, names))] if names else []), *no_network])


def capability_text(capability: str) -> str:
    """Return a capability for a person."""
    unknown = " (unknown hosts)" if capability == NETWORK_UNKNOWN else " (cannot be read)"
    return f"{word(capability)}{unknown if capability in (NETWORK_UNKNOWN, *DECLARATIONS_UNKNOWN) else ''}"


def is_kept_for_documentation(host: str) -> bool:
    """Return whether ``host`` is reserved for documentation and tests: ``example.com``, ``.test`` and others."""
    return _KEPT_FOR_DOCUMENTATION.fullmatch(host) is not None
