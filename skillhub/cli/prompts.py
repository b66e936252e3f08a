"""The person at the terminal, who answers the questions that no flag answers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from skillhub.cli.terminal import Terminal
from skillhub.formats.text import Quoted, deferred, from_here, grouped, quote
from skillhub.model.question import (
    NEEDS,
    NO,
    UNANSWERED,
    YES,
    Answer,
    Flags,
    Question,
    QuestionKind,
    Way,
    answered_by,
    unanswerable,
)
from skillhub.model.tree import Tree

_T = TypeVar("_T")
_TRIES = 3
# A verified digest, which is shortened: no user compares it by eye, unlike that of a new root or key.
_PROVEN = deferred(r"(?<=[ (]sha256:)([0-9a-f]{12})[0-9a-f]{52}")
_HEAD = ("NAME", "VERSION", "SOURCE", "SIGNED BY", "CAN", "NEEDS")
_YES = dict.fromkeys(("y", "yes"), "yes")
_ALL = dict.fromkeys(("a", "all"), "all")
_NO = dict.fromkeys(("", "n", "no"), "no")
_VIEW = dict.fromkeys(("v", "view"), "view")
_WAYS: Mapping[Way, str] = {"save": "[s]ave as a patch", "merge": "[m]erge", "take": "[t]hrow away"}


def heads(questions: Sequence[Question]) -> dict[str, Question]:
    """Return by skill the question that describes it, to show its facts before the first question about it."""
    installs = (each for each in questions if each.kind == "install")
    return {each.skill: replace(each, message=f"About {' '.join(each.row[:2])}:") for each in installs}


# By skill, the questions about what its new version gains, or about findings in its release. The answer to the
# question whether to take that version, or to publish the release, answers them too.
Gains: TypeAlias = Mapping[str, Sequence[Question]]
_GAINS = " gains the capability "
_Kinds: TypeAlias = tuple[QuestionKind, ...]
_NEW: _Kinds = ("capability", "need")
_JOINED: Mapping[QuestionKind, _Kinds] = {"install": _NEW, "unsigned": _NEW, "publish": ("finding",)}


def gained(question: Question, gains: Gains) -> Sequence[Question]:
    """Return the questions about what a version gains; the answer to ``question`` answers them too."""
    return gains.get(question.skill, ()) if question.kind in _JOINED else ()


def _in_one(news: Sequence[Question]) -> list[Question]:
    """Return the questions about gains with one for all capabilities that the new version has and the old had not."""
    gains = [each for each in news if each.kind == "capability" and f"{_GAINS}{each.subject}," in each.message]
    if not gains[1:]:
        return list(news)
    subjects = ", ".join(each.subject for each in gains)
    message = gains[0].message.replace(_GAINS + gains[0].subject, f" gains the capabilities {subjects}", 1)
    return [replace(gains[0], message=message), *(each for each in news if each not in gains)]


def show(
    question: Question,
    unshown: dict[str, Question],
    terminal: Terminal,
    label: str = "",
    gains: Gains = MappingProxyType({}),
) -> None:
    """Show a question with its facts, after the head of its skill unless that was shown before.

    ``gains`` has the questions that the same answer answers too.
    """
    head = unshown.pop(question.skill, None)
    own = replace(question, message=f"{label}{question.message}")
    news = [replace(each, message=each.message.removesuffix("; agree?")) for each in _in_one(gained(question, gains))]
    news = [each if each.kind == "finding" else replace(each, details=()) for each in news]
    for each in filter(None, (head, *news, replace(own, details=()) if question.kind == "install" else own)):
        if each not in news[1:]:
            terminal.prose("")
        terminal.prose(each.message, tone="bold")
        for where, rows in each.compared:
            terminal.prose(where, 2)
            terminal.table(("", "configured", "the skill asks for"), rows, sys.stderr)
        if each.compared:
            continue
        is_short = each.kind in ("install", "unused") and not terminal.verbose
        for line in terminal.once(each.details):
            if isinstance(line, Quoted):
                terminal.prose(line, 2)
            else:
                terminal.prose(from_here(_PROVEN.sub(r"\1…", line) if is_short else line), 2)


def in_person(questions: Sequence[Question]) -> tuple[list[Question], Mapping[int, Question], Gains]:
    """Return the questions that a person is asked one by one, and what their answers answer too.

    That is, by the id of a question, the one that is asked in its place; and by skill, the questions about gains.
    """
    # A question about a missing signature is asked in the place of the question to install that skill.
    unsigned = {each.skill: each for each in questions if each.kind == "unsigned"}
    instead = {id(one): unsigned[one.skill] for one in questions if one.kind == "install" and one.skill in unsigned}
    moved = set(map(id, instead.values()))
    asked = [instead.get(id(each), each) for each in questions if id(each) not in moved]
    joined = {(each.skill, kind) for each in asked for kind in _JOINED.get(each.kind, ())}
    gains = grouped((each.skill, each) for each in asked if (each.skill, each.kind) in joined)
    return [each for each in asked if (each.skill, each.kind) not in joined], instead, gains


def _key(question: Question, gains: Gains) -> tuple[str, ...]:
    return question.kind, question.alike, *(each.alike for each in gained(question, gains))


def _counted(question: Question, count: int) -> str:
    return f"{count} " + _PROVEN.sub(r"\1…", question.alike)


@dataclass(frozen=True, slots=True)
class Person:
    """The person at the terminal; asked only the questions that the flags do not answer."""

    terminal: Terminal
    flags: Flags

    def answer(self, questions: Sequence[Question]) -> list[Answer]:
        """Show all skills in one table, then each question with its facts.

        A skill is described before the first question about it. Installing it, accepting that it is not signed, and
        accepting what its new version gains are one question, which names each of them. ``a`` answers yes to all
        equal questions with the same gains, after it has shown those that were not shown yet. After a no that refuses
        the whole command, the other questions stay unanswered. If only a policy may agree to one of the questions,
        none is asked.
        """
        if any(question.kind == "critical-finding" for question in questions):
            return self.flags.answer(questions)
        asked = [each for each in questions if not answered_by(each, self.flags.typed)]
        self._summarize([each.row for each in asked if each.row])
        unshown = heads(asked)
        asked, instead, gains = in_person(asked)
        trees = {each.skill: each.tree for each in questions if each.tree is not None}
        shown: set[str] = set()
        answers: dict[int, Answer] = {}
        for number, question in enumerate(asked):
            if id(question) in answers:
                self.terminal.prose("")
                self.terminal.prose(question.message, tone="bold")
                self.terminal.prose("yes, as answered above", 2, "dim")
                continue
            self.terminal.discard_input()
            show(question, unshown, self.terminal, gains=gains)
            shown.add(question.skill)
            rest = asked[number + 1 :] if question.alike else ()
            alike = [each for each in rest if _key(each, gains) == _key(question, gains)]
            answer, is_for_all = self._ask(question, len(alike) + 1, trees.get(question.skill))
            answer = replace(answer, seen=True)
            if is_for_all:
                new = [each for each in alike if each.skill not in shown]
                answer = self._ask_all(question, len(alike) + 1, new, unshown, gains)
                shown |= {each.skill for each in new}
                answers |= {id(one): answer for each in alike for one in (each, *gained(each, gains))}
            answers |= {id(each): answer for each in (question, *gained(question, gains))}
            if answer.said == "no" and unanswerable([(question, answer)]):
                break
        answers |= {one: answers[id(other)] for one, other in instead.items() if id(other) in answers}
        unseen = iter(self.flags.answer(questions))
        return [answers.get(id(each), answer) for each, answer in zip(questions, unseen, strict=True)]

    def _summarize(self, rows: Sequence[tuple[str, ...]]) -> None:
        if len(rows) > 1:
            self.terminal.prose("")
            self.terminal.prose(f"{len(rows)} skills need your approval:", tone="bold")
            self.terminal.table(_HEAD, rows, sys.stderr, spare=("CAN", "NEEDS"))  # which each question has

    def _ask(self, question: Question, alike: int, tree: Tree | None) -> tuple[Answer, bool]:
        """Return the answer, and whether it also answers all equal questions; ``v`` shows the ``tree`` first."""
        if question.kind == "env":
            value = self.terminal.secret(f"  value of {question.subject} (not shown, empty for none):")
            return Answer("yes", value) if value else UNANSWERED, False
        if question.ways:
            return self._ask_way(question.ways), False
        if question.kind in NEEDS:
            refusal = f"if you answer no, the configuration stays unchanged and {question.skill} stays disabled"
            self.terminal.prose(f"{refusal}, unless it is enabled already", 2)
        words = {**_YES, **_ALL, **_NO} if alike > 1 else {**_YES, **_NO}
        of_all = f"[a]ll {_counted(question, alike)}, " if alike > 1 else ""
        if tree is None or question.kind in NEEDS:
            word = self._word(f"[y]es, {of_all}[N]o", words, "no")
            return NO if word == "no" else YES, word == "all"
        while (word := self._word(f"[y]es, {of_all}[v]iew its files, [N]o", {**words, **_VIEW}, "no")) == "view":
            from skillhub.cli.reading import view  # here, since it loads the scan, and few users view files

            view(tree, self.terminal, sys.stderr)
            self.terminal.discard_input()
        return NO if word == "no" else YES, word == "all"

    def _ask_all(
        self, question: Question, count: int, new: Sequence[Question], unshown: dict[str, Question], gains: Gains
    ) -> Answer:
        """Show the ``new`` of ``count`` equal questions, whose skills were not shown yet; if any, ask again."""
        if not new:
            return replace(YES, seen=True)
        self.terminal.discard_input()
        for each in new:
            show(each, unshown, self.terminal, gains=gains)
        self.terminal.prose("")
        self.terminal.prose(f"Yes to all {_counted(question, count)}?", tone="bold")
        return replace(NO if self._word("[y]es, [N]o", {**_YES, **_NO}, "no") == "no" else YES, seen=True)

    def _ask_way(self, ways: Sequence[Way]) -> Answer:
        chosen = {way: Answer("yes", way=way) for way in ways if way != "keep"}
        words = {word: answer for way, answer in chosen.items() for word in (way, way[0])}
        words |= dict.fromkeys(_YES, YES) | dict.fromkeys((*_NO, "k", "keep"), NO)
        last = "[K]eep this skill unchanged" if "keep" in ways else "[N]o"
        return self._word(", ".join([*(_WAYS[way] for way in chosen), last]), words, NO)

    def _word(self, prompt: str, words: Mapping[str, _T], default: _T) -> _T:
        """Return the meaning of the word that the user types; ask again after an unknown word, up to three times."""
        for _ in range(_TRIES):
            line = self.terminal.prompt(f"  {prompt}:")
            word = line.strip()
            if word.lower() in words:
                return words[word.lower()]
            if not line:
                break
            self.terminal.prose(f"expected one of the letters in brackets, found {quote(word)}", 2)
        return default
