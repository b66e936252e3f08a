"""What a command did, and the asking that comes before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skillhub.errors import Refused
from skillhub.flows.ports import Ports
from skillhub.model.changes import Changes
from skillhub.model.question import YES, Answer, Asked, Question, how_to_answer, unanswerable
from skillhub.model.skill import Skill
from skillhub.model.source_changes import SourceChange


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did.

    Attributes:
        skills: The skills it was about, as they are now.
        changed: Whether anything on disk is other than before.
        asked: Every question with its answer.
        warnings: What a person should know and nothing refuses.
        changes: What differs from the version before, of skills that had one.
        left: What it left out or alone.
        as_before: Those of the skills of which nothing had to be done.
        due: Whether something is to be done, or left to a person to do, that none of the skills shows.
        given: Skill and need (``env:NAME``) that this command met; the value of a variable it forgets.
        disabled: Those of the skills that their user disabled, whatever they need.
        ways: By skill and need (``mcp:NAME``) what to do about it, where ``how_to_meet`` does not know.
        sources: What becomes of the sources of the lock.
        written: By skill what was written into which configuration of an agent, a line for each file.
    """

    skills: tuple[Skill, ...]
    changed: bool
    asked: tuple[Asked, ...] = ()
    warnings: tuple[str, ...] = ()
    given: frozenset[tuple[str, str]] = frozenset()
    left: tuple[LeftOut, ...] = ()
    changes: Mapping[str, Changes] = field(default_factory=dict)
    as_before: frozenset[str] = frozenset()
    due: bool = False
    disabled: frozenset[str] = frozenset()
    ways: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    written: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sources: tuple[SourceChange, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A skill that a command leaves out or alone, and why."""

    name: str
    code: str
    message: str


def ask(questions: Sequence[Question], ports: Ports, dry_run: bool = False) -> list[Asked]:
    """Ask all of them at once, but what a policy agrees to; in a dry run, which asks no person, nothing is refused.

    Raises:
        Refused: one that is not about a need was not answered with yes.
    """
    agreed = [ports.policies.agrees(each.kind) for each in questions]
    open_ = [each for each, is_agreed in zip(questions, agreed, strict=True) if not is_agreed]
    answered = iter([*zip(open_, ports.approver.answer(open_) if open_ else (), strict=True)])
    found = zip(questions, agreed, strict=True)
    return _held([(each, YES) if is_agreed else next(answered) for each, is_agreed in found], dry_run)


def ask_person(question: Question, ports: Ports) -> None:
    """Ask whom to trust for good: what policies agree to are skills.

    Raises:
        Refused: it was not answered with yes.
    """
    _held(list(zip([question], ports.approver.answer([question]), strict=True)))


def _held(asked: list[Asked], dry_run: bool = False) -> list[Asked]:
    refused = [] if dry_run else unanswerable(asked)
    if refused:
        question, answer = refused[0]
        said, hint = _refusal(question, answer, refused)
        coming = {each.skill for each, _ in asked if each.kind == "install"}
        if answer.said == "no" and coming - {question.skill}:
            hint = f"{hint}; to have the others, name them without {question.skill}"
        raise Refused(f"{said}: {question.message}", where=question.skill, hint=hint, asked=tuple(asked))
    return asked


def _refusal(question: Question, answer: Answer, asked: Sequence[Asked]) -> tuple[str, str]:
    """Return what became of a question, and what would answer all that are open."""
    if question.kind == "critical-finding":
        return "no answer agrees to it", how_to_answer(question)
    if answer.said == "no":
        return "the answer was no", "nothing was changed"
    if question.kind in ("publisher", "root") and question.subject:
        return "nobody was there to answer", f"to trust it: {question.subject}"
    ways = dict.fromkeys(how_to_answer(each) for each, said in asked if said.said == "unanswered")
    return "nobody was there to answer", f"answer at a terminal, or beforehand: {'; '.join(ways)}"
