"""Who answers questions: a person at a terminal, ``--yes``, or nobody."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from skillhub.cli.terminal import Terminal
from skillhub.model.question import NEEDS, NO, NOT_BY_YES, UNANSWERED, YES, Answer, Question
from skillhub.model.text import clean


@dataclass(frozen=True, slots=True)
class Flags:
    """Answers given beforehand: by ``--yes`` to what it may answer, by ``--allow-unsigned`` to that one kind."""

    yes: bool = False
    allow_unsigned: bool = False

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer what the flags answer, and leave the rest unanswered."""
        return [YES if self.agree_to(question) else UNANSWERED for question in questions]

    def agree_to(self, question: Question) -> bool:
        """Say whether the flags are a yes to this question."""
        if question.kind == "unsigned":
            return self.allow_unsigned
        return self.yes and question.kind not in NOT_BY_YES


@dataclass(frozen=True, slots=True)
class Person:
    """Whoever sits at the terminal; asked only what the flags do not answer."""

    terminal: Terminal
    flags: Flags

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Show every question with its facts, and ask one by one; ``a`` is a yes to all of that kind.

        A no that refuses the whole command is the last: what else was to be asked stays unanswered.
        """
        to_all: set[str] = set()
        answers: list[Answer] = []
        for question in questions:
            if self.flags.agree_to(question):
                answers.append(YES)
                continue
            self._show(question)
            if question.kind in to_all:
                self.terminal.prose("yes, as said before", sys.stderr, 2, "dim")
                answers.append(YES)
                continue
            answers.append(self._ask(question, to_all))
            if answers[-1] == NO and question.kind not in NEEDS:
                break
        return answers + [UNANSWERED] * (len(questions) - len(answers))

    def _show(self, question: Question) -> None:
        self.terminal.prose("", sys.stderr)
        self.terminal.prose(question.message, sys.stderr, tone="bold")
        for line in question.details:
            self.terminal.prose(line, sys.stderr, 2)

    def _ask(self, question: Question, to_all: set[str]) -> Answer:
        if question.kind == "env":
            prompt = f"  value of {clean(question.subject)} (not shown, empty for none): "
            value = getpass.getpass(prompt, sys.stderr)
            return Answer("yes", value) if value else UNANSWERED
        sys.stderr.write("  [y]es, [a]ll of this kind, [N]o: ")
        sys.stderr.flush()
        said = sys.stdin.readline().strip().lower()
        if said in ("a", "all"):
            to_all.add(question.kind)
        return YES if said in ("y", "yes", "a", "all") else NO
