from typing import get_args

import pytest

from skillhub.model.question import (
    BEFOREHAND,
    NEEDS,
    NO,
    UNANSWERED,
    YES,
    Answer,
    Question,
    QuestionKind,
    answered_by,
    how_to_answer,
    unanswerable,
)

FLAGS = {flag for ways in BEFOREHAND.values() for flag in ways.flags}
# The flags that answer each kind; a kind without flags needs a user or a policy.
ANSWERED = {
    "install": {"--yes"},
    "unsigned": {"--allow-unsigned"},
    "publisher": set(),
    "finding": {"--accept findings"},
    "critical-finding": set(),
    "capability": {"--yes"},
    "need": {"--yes"},
    "source": set(),
    "place": {"--yes", "--allow-unsigned"},
    "root": set(),
    "env": set(),
    "mcp": {"--yes", "--accept mcp"},
    "mcp-unpinned": {"--accept mcp"},
    "mcp-shell": set(),
    "mcp-conflict": set(),
    "mcp-serve": {"--yes"},
    "mcp-check": set(),
    "unused": {"--yes"},
    "uninstall": {"--yes"},
    "publish": {"--yes"},
    "withdraw": {"--yes"},
    "local-edit": {"--yes"},
}


def test_every_kind_has_an_entry_of_answers():
    assert set(BEFOREHAND) == set(get_args(QuestionKind)) == set(ANSWERED)
    assert set(get_args(QuestionKind)) >= NEEDS


@pytest.mark.parametrize("kind", get_args(QuestionKind))
def test_flag_answers_only_its_kinds(kind):
    question = Question(kind, "deploy", "?", subject="TOKEN")
    assert {flag for flag in FLAGS if answered_by(question, {flag})} == ANSWERED[kind]
    assert not answered_by(question, set())
    assert answered_by(question, set(FLAGS)) == bool(ANSWERED[kind])


@pytest.mark.parametrize("kind", get_args(QuestionKind))
def test_every_question_has_a_hint_with_its_flags(kind):
    hint = how_to_answer(Question(kind, "deploy", "?", subject="TOKEN"))
    assert hint
    assert "{" not in hint
    assert all(flag in hint for flag in ANSWERED[kind])


def test_open_need_does_not_refuse_the_command_but_other_questions_do():
    for kind in get_args(QuestionKind):
        question = Question(kind, "deploy", "?")
        assert unanswerable([(question, YES)]) == ([(question, YES)] if kind == "critical-finding" else [])
        for answer in (NO, UNANSWERED):
            expected = [] if kind in NEEDS else [(question, answer)]
            assert unanswerable([(question, answer)]) == expected


def test_repr_shows_no_secret_answer():
    answer = Answer("yes", "hunter2")
    assert "hunter2" not in repr(answer) + str(answer) + f"{[answer]}"
