"""Findings that a project accepts: suppressions in ``skillhub.toml`` and a baseline, each held to one tree.

They quiet an audit and nothing else: an install asks as ever. Nothing inside a skill is read for this.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated

from skillhub.audit.report import Location, note
from skillhub.formats.digest import Digest
from skillhub.formats.document import Document, Items, Sha256, part, version_of
from skillhub.formats.text import quote
from skillhub.model.finding import SEVERITIES, Finding, rules
from skillhub.model.lock import Lock
from skillhub.project.intent import Suppression

# Beside what the scan finds: form, and what a person knows of a skill. Nothing that says that a skill was recalled,
# changed, or comes from another place than it should.
_QUIET = frozenset({"capability-unsaid", "form", "malformed", "unmanaged", "unsigned", "yanked"})


def may_be_accepted(rule: str) -> bool:
    """Say whether a project may accept what this rule finds."""
    return rule in _QUIET or (rule in rules() and rules()[rule].is_content)


@part
@dataclass(frozen=True, slots=True, order=True)
class KnownFinding:
    """One finding of a baseline; ``path`` is relative to the skill, ``message`` tells two of one rule apart."""

    skill: str
    rule: str
    path: str
    message: str
    tree: Sha256


class BaselineFile(Document):
    """The findings that there were when the baseline was written."""

    CAP = 32 << 20

    findings: Items[KnownFinding]
    version: Annotated[int, version_of("version", 1)]


@dataclass(slots=True)
class Acceptance:
    """What is accepted in one audit, and what of that was found.

    Attributes:
        baseline: What was known before; None for none.
        records: Whether what may be accepted is to become the baseline.
        written: What becomes the baseline then.
    """

    suppressions: Sequence[Suppression]
    baseline: BaselineFile | None
    records: bool
    now: datetime
    written: set[KnownFinding] = field(default_factory=set)
    _met: set[object] = field(default_factory=set)
    _quieted: dict[Suppression, list[Finding]] = field(default_factory=dict)
    _skills: set[str] = field(default_factory=set)
    _known: frozenset[KnownFinding] = frozenset()
    _by_skill: defaultdict[tuple[str, str], list[Suppression]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self._known = frozenset(self.baseline.findings if self.baseline else ())
        for each in self.suppressions:
            self._by_skill[each.skill, each.rule].append(each)

    def judged(self, findings: Iterable[Finding], skill: str, tree: Digest, folder: str) -> Iterator[Finding]:
        """Yield what was found in a skill, marked where the project accepts it.

        Args:
            findings: All about the skill.
            skill: Its name.
            tree: What was looked at.
            folder: Where findings show its files.
        """
        self._skills.add(skill)
        for found in findings:
            yield (
                found
                if found.accepted_by or not may_be_accepted(found.rule)
                else self._judged(found, skill, tree, (found.path or "").removeprefix(f"{folder}/"))
            )

    def _judged(self, found: Finding, skill: str, tree: Digest, path: str) -> Finding:
        known = KnownFinding(skill, found.rule, path, found.message, tree)
        for each in self._by_skill.get((skill, found.rule), ()):
            if (each.tree, each.path or path) == (tree, path) and not each.is_over(self.now):
                self._met.add(each)
                self._quieted.setdefault(each, []).append(found)
                return replace(found, accepted_by=f"skillhub.toml until {each.expires}: {each.reason}")
        if known in self._known or self.records:
            self.written.add(known)
            self._met.add(known)
            return replace(found, accepted_by="the baseline")
        return found

    def left(self, before: Lock | None, place: Location, every: Collection[str] | None) -> Iterator[Finding]:
        """Yield suppressions that are over, that match nothing, or that a change of the lock brings along.

        Args:
            before: The lock before the change.
            place: Where the suppressions stand.
            every: The locked skills, if all were looked at; None if only some were.
        """
        for each in self.suppressions:
            about = f"{each.rule} in {each.skill}" + (f", {quote(each.path)}" if each.path else "")
            if each.is_over(self.now):
                yield note("suppression-expired", f"the suppression of {about} ended on {each.expires}", None, place)
            elif each in self._met:
                old = before.skills.get(each.skill) if before is not None else None
                if before is not None and (old is None or old.tree != each.tree):
                    message = f"this change brings {each.skill} and accepts {about}: {each.reason}"
                    added = note("suppression-added", message, None, place)
                    # As grave as what it accepts: a change does not pass by what it brings along.
                    worst = max((added, *self._quieted[each]), key=lambda found: SEVERITIES.index(found.severity))
                    yield replace(added, severity=worst.severity)
            elif each.skill in self._skills or (every is not None and each.skill not in every):
                why = "there is no such finding in that tree"
                why = why if may_be_accepted(each.rule) else "a project cannot accept this rule"
                yield note("suppression-unused", f"the suppression of {about} matches nothing: {why}", None, place)

    @property
    def gone(self) -> int:
        """How many findings of the baseline, about skills that were looked at, are no longer there."""
        return sum(each.skill in self._skills and each not in self._met for each in self._known)
