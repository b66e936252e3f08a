import re
import shlex
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.formats.text import NAME_MAX, as_word, clean, is_hidden, is_name, quote, shown

# Default_Ignorable_Code_Point of Unicode without U+FE00 to FE0F, which belong to emoji.
IGNORABLE = {
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFFF0, 0xFFF9),
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),
}
BIDI = {0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
STEERS = {*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0xD800, 0xE000)}
anything = st.text(st.characters(categories=None, exclude_categories=()), max_size=60)


def test_every_ignorable_or_steering_character_is_hidden():
    shown = [f"U+{code:04X}" for code in sorted(IGNORABLE | BIDI | STEERS) if not is_hidden(chr(code))]
    assert shown == []


def test_letters_digits_and_emoji_are_not_hidden():
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if unicodedata.category(char) in ("Lu", "Ll", "Nd", "Sc", "Sm", "Zs") or char in "😀❤️é東":
            assert not is_hidden(char), f"U+{code:04X}"


@given(anything)
def test_cleaned_text_has_no_hidden_characters(text):
    cleaned = clean(text)
    assert not any(map(is_hidden, cleaned))
    assert clean(cleaned) == cleaned
    cleaned.encode("utf-8")


@given(anything | st.binary() | st.lists(anything) | st.dictionaries(anything, st.floats()), st.integers(1, 130))
def test_a_quoted_value_has_no_hidden_characters_and_stays_in_its_quotes(value, limit):
    quoted = quote(value, limit)
    assert not any(map(is_hidden, quoted))
    assert re.fullmatch(r"'(?:[^'\\]|\\(?:['\\]|x[0-9a-f]{2}|u\{[0-9a-f]+\}))*'", quoted)
    assert len(quoted) <= 3 + limit * 10
    quoted.encode("utf-8")


@given(anything, anything)
def test_different_texts_have_different_quotes(one, other):
    assert (quote(one) == quote(other)) == (one == other)


def test_quote_escapes_and_truncates_text():
    assert quote("it's") == r"'it\'s'"
    assert quote("a\x1b[31m\u202e") == r"'a\x1b[31m\u{202e}'"
    assert quote("x" * 121) == "'" + "x" * 120 + "…'"
    assert (quote(None), quote(True), quote({"a": [False]})) == ("'null'", "'true'", """'{"a": [false]}'""")


def test_attack_values_that_have_no_text_are_quoted_by_type():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert quote(deep) == "'<list>'"
    assert quote(10**5000) == "'<int>'"
    while deep:  # unnested by hand: the collector would recurse
        deep = deep[0]


def test_a_line_break_becomes_a_space():
    assert clean("a\nb\tc\u2028d") == "a b c d"
    assert clean("plain") == "plain"


@pytest.mark.parametrize("text", ["a", "0", "gh-fix-ci", "a" * NAME_MAX, "1-2-3"])
def test_valid_names(text):
    assert is_name(text)


@pytest.mark.parametrize(
    "text",
    ["", "-", "a-", "-a", "a--b", "A", "a_b", "a.b", "a b", "a\n", "\na", "..", "a/b", "ä", "ａ", "²", "a" * 65, "а"],
)
def test_invalid_names(text):
    assert not is_name(text)


@given(anything)
def test_a_name_has_only_characters_safe_in_paths_and_shells(text):
    if is_name(text):
        assert set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@pytest.mark.parametrize(
    "word", ["", "a b", "it's", "$(x)", "a;b", "a#b", "#b", "a\nb", "~", "*", "x=1", "[::1]", "a[1]", "a\\", "é"]
)
def test_a_quoted_argument_is_read_back_unchanged(word):
    assert shlex.split(f"x {as_word(word)}") == ["x", word]


def test_a_plain_argument_is_not_quoted():
    for word in ("git+https://host/x@v2#skills/notes", "github:owner/repo/path@main", "./my_skill.zip"):
        assert as_word(word) == word


def test_an_argument_with_a_shell_pattern_is_quoted():
    assert as_word("git+https://[::1]/x") == "'git+https://[::1]/x'"


def test_hidden_characters_in_a_line_are_shown_as_escapes():
    assert shown("a\tb\u200b\U000e0041'\\ é\x1b") == "a b\\u{200b}\\u{e0041}'\\ é\\x1b"
