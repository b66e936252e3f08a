from typing import get_args

from skillhub.model.question import (
    NEEDS,
    NO,
    NOT_BY_YES,
    UNANSWERED,
    YES,
    Answer,
    Kind,
    Question,
    unanswerable,
)


def test_the_kinds_that_are_singled_out_are_kinds():
    assert set(get_args(Kind)) >= NOT_BY_YES | NEEDS


def test_yes_leaves_unanswered_what_the_contract_says():
    assert {"root", "publisher", "unsigned", "critical-finding", "mcp-shell"} <= NOT_BY_YES
    assert not {"install", "finding", "local-edit", "mcp"} & NOT_BY_YES


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
