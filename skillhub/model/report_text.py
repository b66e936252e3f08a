"""A report as text for others to show: markdown for a summary, and the annotations of GitHub's log.

What was found may be worded by whoever wrote the skill: nothing of it becomes markup, a mention, a link or a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from skillhub.model.finding import Finding, Severity
from skillhub.model.report import Report
from skillhub.model.text import clean

_MARKUP = re.compile(r"([\\`*_\[\]#|~$])")
_COMMANDS: Mapping[Severity, str] = {
    "low": "notice",
    "medium": "warning",
    "high": "error",
    "critical": "error",
}


def markdown(report: Report) -> str:
    """Return the report as GitHub-flavoured markdown: a heading, a sentence, a table."""
    lines = ["## Skills: " + ("ok" if report.ok else "not ok"), "", _plain(report.summary) + "."]
    if report.findings:
        lines += ["", "| severity | rule | skill | where | what | what to do |", "|---|---|---|---|---|---|"]
        lines += [_row(each) for each in report.findings]
    if report.notes:
        lines += ["", *(f"- {_plain(note)}" for note in report.notes)]
    return "\n".join(lines) + "\n"


def workflow_commands(report: Report) -> Iterator[str]:
    """Yield a workflow command for each finding, which GitHub shows beside the file."""
    for each in report.findings:
        place = {"file": each.path, "line": each.line or None, "title": f"skillhub {each.rule}"}
        given = ",".join(f"{key}={_property(str(value))}" for key, value in place.items() if value)
        about = f"{each.skill}: " if each.skill else ""
        yield f"::{_COMMANDS[each.severity]} {given}::{_data(f'{about}{each.message}; {each.hint}')}"


def _row(found: Finding) -> str:
    cells = (found.severity, found.rule, found.skill or "", found.where, found.message, found.hint)
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
