from typing import get_args

import pytest

from skillhub.model.question import (
    BEFOREHAND,
    NEEDS,
    NO,
    UNANSWERED,
    YES,
    Answer,
    Flag,
    Kind,
    Question,
    answered_by,
    how_to_answer,
    unanswerable,
)

FLAGS = get_args(Flag)
# By kind the flags that answer it; what has none takes a person, or a line of a policy.
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
    "local-edit": {"--yes"},
}


def test_every_kind_says_what_answers_it():
    assert set(BEFOREHAND) == set(get_args(Kind)) == set(ANSWERED)
    assert set(get_args(Kind)) >= NEEDS


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_flag_answers_the_kinds_that_name_it_and_no_other(kind):
    question = Question(kind, "deploy", "?", subject="TOKEN")
    assert {flag for flag in FLAGS if answered_by(question, {flag})} == ANSWERED[kind]
    assert not answered_by(question, set())
    assert answered_by(question, set(FLAGS)) == bool(ANSWERED[kind])


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_question_says_how_to_answer_it(kind):
    told = how_to_answer(Question(kind, "deploy", "?", subject="TOKEN"))
    assert told
    assert "{" not in told
    assert all(flag in told for flag in ANSWERED[kind])


def test_a_need_never_refuses_the_command_and_all_else_does():
    for kind in get_args(Kind):
        question = Question(kind, "deploy", "?")
        assert unanswerable([(question, YES)]) == ([(question, YES)] if kind == "critical-finding" else [])
        for answer in (NO, UNANSWERED):
            expected = [] if kind in NEEDS else [(question, answer)]
            assert unanswerable([(question, answer)]) == expected


def test_a_secret_answer_is_in_no_repr():
    answer = Answer("yes", "hunter2")
    assert "hunter2" not in repr(answer) + str(answer) + f"{[answer]}"
