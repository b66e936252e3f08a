"""The distance of two spellings, and the words that a misspelled one may mean."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillhub.formats.text import close, distance, spelled_like


@pytest.mark.parametrize(
    ("left", "right", "far"),
    [("a", "a", 0), ("ab", "ba", 1), ("kitten", "sitting", 3), ("", "abc", 3), ("ca", "abc", 3), ("abcd", "acbd", 1)],
)
def test_distance_counts_edits(left, right, far):
    assert distance(left, right, 5) == far


def slow(left, right):
    """Return the distance by the full table, without a band."""
    table = [[max(at, to) if not (at and to) else 0 for to in range(len(right) + 1)] for at in range(len(left) + 1)]
    for at in range(1, len(left) + 1):
        for to in range(1, len(right) + 1):
            same = left[at - 1] == right[to - 1]
            table[at][to] = min(table[at - 1][to] + 1, table[at][to - 1] + 1, table[at - 1][to - 1] + (not same))
            if at > 1 and to > 1 and left[at - 1] == right[to - 2] and left[at - 2] == right[to - 1]:
                table[at][to] = min(table[at][to], table[at - 2][to - 2] + 1)
    return table[-1][-1]


@settings(deadline=None)
@given(st.text("abc", max_size=9), st.text("abc", max_size=9), st.integers(0, 4))
def test_band_does_not_change_the_distance(left, right, limit):
    assert distance(left, right, limit) == min(slow(left, right), limit + 1)


@settings(deadline=None)
@given(st.text("abc", max_size=9), st.lists(st.text("abc", max_size=9)))
def test_close_finds_all_similar_words(word, known):
    limit = 0 if len(word) < 3 else 1 if len(word) < 6 else 2
    assert sorted(close(word, known)) == sorted(each for each in known if limit and slow(word, each) <= limit)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("claude", ["claude-code"]),
        ("copilot", ["github-copilot"]),
        ("cursr", ["cursor"]),
        ("co", ["codex", "copper", "claude-code"]),
        ("c", []),
        ("windsrufer", []),
    ],
)
def test_a_name_may_be_short_for_another_or_a_misspelling(typed, meant):
    assert spelled_like(typed, ("windsurf", "github-copilot", "copper", "cursor", "codex", "claude-code")) == meant
