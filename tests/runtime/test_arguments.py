"""Placeholders in instructions: arguments, variables and commands."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillhub.errors import FormatError
from skillhub.runtime.loading import PlaceholderValues, fill_placeholders, split_words
from tests.support.effort import at_most


@pytest.mark.parametrize(
    ("body", "arguments", "text"),
    [
        ("Fix $ARGUMENTS now", "issue 7", "Fix issue 7 now"),
        ("Fix $ARGUMENTS now", "", "Fix  now"),
        ("$ARGUMENTS[1] and $0", "a 'b c'", "b c and a"),
        ("$1$0", "a b", "ba"),
        ("($1,$0)", "a b", "(b,a)"),
        ("It costs $5.", "a b", "It costs $5.\n\nARGUMENTS: a b\n"),
        ("From $1.50 on", "a b", "From $1.50 on\n\nARGUMENTS: a b\n"),
        ("$ARGUMENTSX \\$0 $$0", "a", "$ARGUMENTSX \\$0 $$0\n\nARGUMENTS: a\n"),
        ("No place", "a b", "No place\n\nARGUMENTS: a b\n"),
        ("No place", "", "No place"),
        ("$ARGUMENTS", "$0 $ARGUMENTS", "$0 $ARGUMENTS"),
        ("$0", "it's", "it's"),
        ("$ARGUMENTS keeps '$0'", "'a b'", "'a b' keeps 'a b'"),
    ],
)
def test_placeholders_are_filled(body, arguments, text):
    assert fill_placeholders(body, PlaceholderValues(arguments)) == text


def test_words_are_split_like_a_shell():
    assert split_words("a 'b c' \"d e\" f\\ g #h") == ["a", "b c", "d e", "f g", "#h"]
    assert split_words("it's open") == ["it's", "open"]


@settings(deadline=None)
@given(st.text("ab '\"\\\t\n#$\u00e9"))
def test_words_equal_those_of_shlex(text):
    try:
        expected = shlex.split(text)
    except ValueError:
        expected = text.split()
    assert split_words(text) == expected


def test_a_megabyte_is_split_fast_and_at_blanks():
    with at_most(2):
        assert split_words("'" + "a" * 1_000_000 + "' 'b c'")[1:] == ["'b", "c'"]
        assert len(split_words("'" + "a " * 500_000)) == 500_000


def test_known_variables_are_filled_and_unknown_ones_stay():
    given = PlaceholderValues(variables={"SKILL_DIR": "/s"})
    assert fill_placeholders("${SKILL_DIR}/x ${HOME} \\${SKILL_DIR}", given) == "/s/x ${HOME} \\${SKILL_DIR}"


def test_command_stays_text_unless_allowed():
    body = "State: !`git status` and\n!`rm -rf x`"
    assert fill_placeholders(body, PlaceholderValues()) == body
    ran = []

    def run(command):
        ran.append(command)
        return "clean" if command == "git status" else None

    assert fill_placeholders(body, PlaceholderValues(run=run)) == "State: clean and\n!`rm -rf x`"
    assert ran == ["git status", "rm -rf x"]


def refuse(command):
    raise AssertionError(f"ran {command}")


def test_argument_adds_no_command_and_no_placeholder():
    text = fill_placeholders(
        "Do $ARGUMENTS with $0", PlaceholderValues("!`rm` $1 ${SKILL_DIR}", {"SKILL_DIR": "/s"}, refuse)
    )
    assert text == "Do !`rm` $1 ${SKILL_DIR} with !`rm`"


def test_output_of_a_command_is_not_expanded():
    assert (
        fill_placeholders("!`a`", PlaceholderValues("x", run=lambda _: "$ARGUMENTS !`b`"))
        == "$ARGUMENTS !`b`\n\nARGUMENTS: x\n"
    )


def test_command_with_an_argument_placeholder_does_not_run():
    body = "!`gh pr view $ARGUMENTS` !`gh $0` !`ls ${SKILL_DIR}`"
    assert fill_placeholders(body, PlaceholderValues("1; rm x", run=refuse)).startswith(body)


@settings(deadline=None)
@given(st.text("$ARGUMENTS[]012!`{}\\ \n'\""), st.text("$ARGUMENTS[]012!`{}\\ \n'\""))
def test_any_body_and_arguments_are_accepted(body, arguments):
    text = fill_placeholders(body, PlaceholderValues(arguments, run=lambda _: None))
    if not arguments:
        assert len(text) <= len(body)


def test_attack_expansion_beyond_the_limit_is_refused():
    body = "$ARGUMENTS " * 50_000
    with pytest.raises(FormatError, match="at most 1048576 characters"):
        fill_placeholders(body, PlaceholderValues("x" * 100_000))
    assert fill_placeholders("$0 " * 50_000, PlaceholderValues("x")) == "x " * 50_000
    printed = fill_placeholders("!`all` $0", PlaceholderValues("x", run=lambda _: "y" * (2 << 20)))
    assert len(printed) == (2 << 20) + 2
