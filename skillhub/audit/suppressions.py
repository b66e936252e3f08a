"""Findings that a project accepts: suppressions in `skillhub.toml` and a baseline, each bound to one tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from skillhub.audit.report import RULES, Location, finding_of
from skillhub.formats.digest import Digest
from skillhub.formats.document import Document, Items, Sha256, part, version_of
from skillhub.formats.text import quote
from skillhub.model.finding import SEVERITIES, Finding
from skillhub.model.lock import Lock
from skillhub.project.intent import Suppression

# The rules that a project may accept beside those of the scan. A finding that a skill was recalled or changed, or
# comes from a wrong place, can never be accepted.
_QUIET = frozenset({"capability-unsaid", "form", "malformed", "unmanaged", "unsigned", "yanked"})


def may_be_accepted(rule: str) -> bool:
    """Return whether a project may accept the findings of a rule."""
    return rule in _QUIET or (rule in RULES and RULES[rule].is_content)


@part
@dataclass(frozen=True, slots=True, order=True)
class KnownFinding:
    """One finding of a baseline; ``path`` is relative to the skill; ``message`` distinguishes two of one rule."""

    skill: str
    rule: str
    path: str
    message: str
    tree: Sha256


class BaselineFile(Document):
    """The findings at the time when the baseline was written."""

    CAP = 32 << 20

    findings: Items[KnownFinding]
    version: Annotated[int, version_of("version", 1)]


class Acceptance:
    """The suppressions and the baseline of one audit, and the findings that each of them accepts.

    Attributes:
        written: The findings that the baseline accepts, which are those of a new baseline.

    Args:
        suppressions: The suppressions in ``skillhub.toml``.
        baseline: The known findings, if there is a baseline.
        makes_baseline: Whether every finding that may be accepted becomes part of a new baseline.
        now: The time by which suppressions end.
    """

    def __init__(
        self, suppressions: Sequence[Suppression], baseline: BaselineFile | None, makes_baseline: bool, now: datetime
    ) -> None:
        self._suppressions, self._makes_baseline, self._now = suppressions, makes_baseline, now
        self._known = frozenset(baseline.findings if baseline else ())
        self._skills: set[str] = set()
        self._suppressed: defaultdict[Suppression, list[Finding]] = defaultdict(list)
        self.written: set[KnownFinding] = set()
        self._in_force: dict[tuple[str, str, Digest, str | None], Suppression] = {}
        for each in suppressions:
            if not each.is_over(now):
                self._in_force.setdefault((each.skill, each.rule, each.tree, each.path), each)

    def judged(self, findings: Iterable[Finding], skill: str, tree: Digest, folder: str) -> Iterator[Finding]:
        """Yield the findings about a skill, marked if the project accepts them.

        Args:
            findings: All findings about the skill.
            skill: The name of the skill.
            tree: The digest of the tree that was checked.
            folder: The folder of the skill in the paths of the findings.
        """
        self._skills.add(skill)
        for finding in findings:
            path = (finding.path or "").removeprefix(f"{folder}/")
            is_final = finding.accepted_by or not may_be_accepted(finding.rule)
            yield finding if is_final else self._mark_accepted(finding, skill, tree, path)

    def _mark_accepted(self, finding: Finding, skill: str, tree: Digest, path: str) -> Finding:
        known = KnownFinding(skill, finding.rule, path, finding.message, tree)
        for place in (path, None):
            if entry := self._in_force.get((skill, finding.rule, tree, place)):
                self._suppressed[entry].append(finding)
                return replace(finding, accepted_by=f"skillhub.toml until {entry.expires}: {entry.reason}")
        if known in self._known or self._makes_baseline:
            self.written.add(known)
            return replace(finding, accepted_by="the baseline")
        return finding

    def left(self, before: Lock | None, place: Location, every: Collection[str] | None) -> Iterator[Finding]:
        """Yield findings about suppressions that have expired, match nothing, or come with a change of the lock.

        Args:
            before: The lock before the change.
            place: The location of the suppressions.
            every: The locked skills, if all of them were checked; else None.
        """
        for entry in self._suppressions:
            about = f"{entry.rule} in {entry.skill}" + (f", {quote(entry.path)}" if entry.path else "")
            if entry.is_over(self._now):
                message = f"the suppression of {about} ended on {entry.expires}"
                yield finding_of("suppression-expired", message, None, place)
            elif entry in self._suppressed:
                old = before.skills.get(entry.skill) if before is not None else None
                if before is not None and (old is None or old.tree != entry.tree):
                    message = f"this change brings {entry.skill} and accepts {about}: {entry.reason}"
                    added = finding_of("suppression-added", message, None, place)
                    # As severe as the findings that it accepts, so that the change still fails the audit.
                    worst = max((added, *self._suppressed[entry]), key=lambda found: SEVERITIES.index(found.severity))
                    yield replace(added, severity=worst.severity)
            elif entry.skill in self._skills or (every is not None and entry.skill not in every):
                why = "there is no such finding in that tree"
                why = why if may_be_accepted(entry.rule) else "a project cannot accept this rule"
                message = f"the suppression of {about} matches nothing: {why}"
                yield finding_of("suppression-unused", message, None, place)

    @property
    def gone(self) -> int:
        """The number of baseline findings, about skills that were checked, that no longer occur."""
        return sum(known.skill in self._skills and known not in self.written for known in self._known)
