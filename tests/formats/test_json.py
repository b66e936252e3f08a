import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError
from skillhub.formats.json import strict_json


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"a": 1, "a": 2}',
        b'{"a": 1, "\\u0061": 2}',
        b"[NaN]",
        b"[-Infinity]",
        b"1e999",
        b"\xef\xbb\xbf{}",
        b"\xff",
        b'"\xed\xa0\x80"',
        b'"\\ud800"',
        b"[" * 100_000,
        b"1" * 5_000,
        b"{} {}",
        b"<!doctype html><html>Sign in</html>",
    ],
)
def test_invalid_json_is_refused_with_its_place(data):
    with pytest.raises(FormatError) as caught:
        strict_json(data, "index.json", 1_000_000)
    assert caught.value.where.startswith("index.json")
    assert "expected" in caught.value.message
    assert not [each for each in ("codec", "sys.", "recursion") if each in caught.value.message]


def test_the_message_about_a_cut_off_text_is_whole():
    with pytest.raises(FormatError, match=r"^expected JSON: Unterminated string$"):
        strict_json(b'{"a": "b', "index.json", 100)


def test_the_byte_order_mark_of_an_editor_is_named():
    with pytest.raises(FormatError, match="expected JSON: it begins with a byte order mark"):
        strict_json(b"\xef\xbb\xbf{}", "index.json", 100)


def test_the_size_limit_is_checked_before_parsing():
    assert strict_json(b"[1, 2]", "x", 6) == [1, 2]
    with pytest.raises(FormatError, match="at most 5 bytes"):
        strict_json(b"[1, 2]", "x", 5)


def test_an_escaped_surrogate_pair_is_one_character():
    assert strict_json(b'"\\ud83d\\ude00"', "x", 99) == "😀"


@given(st.binary(max_size=200))
def test_any_bytes_raise_only_our_error(data):
    with contextlib.suppress(FormatError):
        strict_json(data, "x", 100)
