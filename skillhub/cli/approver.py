"""Who answers questions: a person at a terminal, ``--yes``, or nobody."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from skillhub.cli.terminal import Terminal
from skillhub.model.dataclass import dataclass, replace
from skillhub.model.question import (
    NEEDS,
    NO,
    UNANSWERED,
    YES,
    Answer,
    Kind,
    Question,
    Way,
    answered_by,
    unanswerable,
)
from skillhub.model.text import quote

_T = TypeVar("_T")
_TRIES = 3
_ALONE: frozenset[Kind] = frozenset({"finding", "mcp-shell"})  # one says nothing of the next
# A digest that is proven, and that nobody compares by eye as they do those of a new root or key.
_PROVEN = re.compile(r"(?<=[ (]sha256:)([0-9a-f]{12})[0-9a-f]{52}")
_HEAD = ("NAME", "VERSION", "SOURCE", "SIGNED BY", "CAN", "NEEDS")
_YES = dict.fromkeys(("y", "yes"), "yes")
_ALL = dict.fromkeys(("a", "all"), "all")
_NO = dict.fromkeys(("", "n", "no"), "no")
_WAYS: Mapping[Way, str] = {
    "save": "[s]ave as a patch",
    "merge": "[m]erge",
    "take": "[t]hrow away",
}


def described(questions: Sequence[Question]) -> Iterator[list[Question]]:
    """Yield what is to be shown of each question: what a skill is comes before the first question about it."""
    about = {each.skill: each for each in questions if each.kind == "install"}
    for question in questions:
        first = about.pop(question.skill, None)
        if first is None and question.kind == "install":
            yield [replace(question, details=())]
        elif first is None or first is question:
            yield [question]
        else:
            yield [replace(first, message=f"{' '.join(first.row[:2])} asks to be let in:"), question]


def show(facts: Sequence[Question], terminal: Terminal, label: str = "") -> None:
    """Show a question with its facts, and what comes before it."""
    for each in facts:
        terminal.prose("")
        terminal.prose(f"{label if each is facts[-1] else ''}{each.message}", tone="bold")
        is_short = each.kind in ("install", "unused") and not terminal.verbose
        for line in each.details:
            terminal.prose(_PROVEN.sub(r"\1…", line) if is_short else line, 2)


@dataclass(frozen=True, slots=True)
class Flags:
    """Answers given beforehand, each by a flag that answers questions of that kind."""

    given: frozenset[str] = frozenset()

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer what the flags answer, and leave the rest unanswered."""
        return [YES if self.agree_to(question) else UNANSWERED for question in questions]

    def agree_to(self, question: Question) -> bool:
        """Say whether the flags are a yes to this question."""
        return answered_by(question, self.given)


@dataclass(frozen=True, slots=True)
class Person:
    """Whoever sits at the terminal; asked only what the flags do not answer."""

    terminal: Terminal
    flags: Flags

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Show all skills in one table, then each question with its facts; ``a`` is a yes to all of that kind.

        A skill is described before the first question about it. A no that refuses the whole command is the last: what
        else was to be asked stays unanswered. Where something is that only a policy may agree to, nothing is asked.
        """
        if any(question.kind == "critical-finding" for question in questions):
            return self.flags.answer(questions)
        asked = [each for each in questions if not self.flags.agree_to(each)]
        self._summarize([each.row for each in asked if each.row])
        to_all: set[str] = set()
        answers: dict[int, Answer] = {}
        for number, (question, facts) in enumerate(zip(asked, described(asked), strict=True)):
            show(facts, self.terminal)
            alike = (later.kind == question.kind not in _ALONE for later in asked[number + 1 :])
            answer = self._ask(question, to_all, is_last=not any(alike))
            answers[id(question)] = replace(answer, seen=True)
            if answer.said == "no" and unanswerable([(question, answer)]):
                break
        unseen = iter(self.flags.answer(questions))
        return [answers.get(id(each), answer) for each, answer in zip(questions, unseen, strict=True)]

    def _summarize(self, rows: Sequence[tuple[str, ...]]) -> None:
        if len(rows) > 1:
            self.terminal.prose("")
            self.terminal.prose(f"{len(rows)} skills ask to be let in:", tone="bold")
            self.terminal.table(_HEAD, rows, sys.stderr)

    def _ask(self, question: Question, to_all: set[str], *, is_last: bool) -> Answer:
        if question.kind in to_all:
            self.terminal.prose("yes, as said before", 2, "dim")
            return YES
        if question.kind == "env":
            value = self.terminal.secret(f"  value of {question.subject} (not shown, empty for none):")
            return Answer("yes", value) if value else UNANSWERED
        if question.ways:
            return self._ask_way(question.ways)
        if question.kind in NEEDS:
            refusal = "a no leaves the configuration as it is; unless it is enabled already,"
            self.terminal.prose(f"{refusal} {question.skill} stays disabled", 2)
        words = {**_YES, **_NO} if is_last else {**_YES, **_ALL, **_NO}
        said = self._word("[y]es, [N]o" if is_last else "[y]es, [a]ll of this kind, [N]o", words, "no")
        if said == "all":
            to_all.add(question.kind)
        return NO if said == "no" else YES

    def _ask_way(self, ways: Sequence[Way]) -> Answer:
        chosen = {way: Answer("yes", way=way) for way in ways if way != "keep"}
        words = {word: answer for way, answer in chosen.items() for word in (way, way[0])}
        words |= dict.fromkeys(_YES, YES) | dict.fromkeys((*_NO, "k", "keep"), NO)
        last = "[K]eep this skill as it is" if "keep" in ways else "[N]o"
        return self._word(", ".join([*(_WAYS[way] for way in chosen), last]), words, NO)

    def _word(self, prompt: str, words: Mapping[str, _T], default: _T) -> _T:
        """Return what the typed word means; what means nothing is asked for again, but not forever."""
        for _ in range(_TRIES):
            line = self.terminal.prompt(f"  {prompt}:")
            said = line.strip()
            if said.lower() in words:
                return words[said.lower()]
            if not line:
                break
            self.terminal.prose(f"expected one of the letters in brackets, found {quote(said)}", 2)
        return default
