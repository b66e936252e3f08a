"""Words and their stems."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillhub.runtime.mention_parser import stem, words


@pytest.mark.parametrize(
    "alike",
    [
        ("debug", "debugging", "debugger", "debugs", "debugged"),
        ("release", "releases", "released", "releasing"),
        ("dependency", "dependencies"),
        ("review", "reviews", "reviewing", "reviewer"),
        ("systematic", "systematically"),
        ("test", "tests", "testing", "tested"),
    ],
)
def test_forms_of_a_word_have_one_stem(alike):
    assert len({stem(word) for word in alike}) == 1


@pytest.mark.parametrize(("left", "right"), [("class", "clas"), ("sing", "s"), ("note", "not"), ("issue", "iss")])
def test_different_words_have_different_stems(left, right):
    assert stem(left) != stem(right)


def test_words_are_split_at_other_characters():
    assert words("GH-fix_ci: Größe 2x") == ["gh", "fix", "ci", "größe", "2x"]


@settings(deadline=None)
@given(st.text())
def test_any_word_has_a_stem(word):
    assert len(stem(word)) <= len(word) + 2
