"""A report as SARIF 2.1.0 (OASIS), which code scanning and editors read."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from skillhub.model.finding import Finding, Rule, Severity
from skillhub.model.report import Report, is_absolute
from skillhub.model.text import clean

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
        "help": {"text": rule.hint},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": ["security"], "security-severity": _SCORES[rule.severity]},
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
    }


def _uri(path: str) -> str:
    """Return a relative path as a relative reference, an absolute one as a ``file`` URI (RFC 8089)."""
    text = quote(path.encode("utf-8", "surrogateescape"), safe="/")
    return f"file:///{text.removeprefix('/')}" if is_absolute(path) else text


def _fingerprint(found: Finding) -> str:
    """Return what is the same for the same finding when lines move."""
    facts = (found.rule, found.skill or "", found.path or "", found.message)
    return sha256("\0".join(facts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
