"""Errors in TOML are reported in our words, except for syntax errors."""

import pytest

from skillhub.errors import FormatError
from skillhub.formats.toml import others_toml, strict_toml

LONG = b"a = " + b"9" * 5_000
DEEP = b"a = " + b"[" * 5_000
PARSERS = [strict_toml, lambda data, where: others_toml(data.decode("latin-1"), where)]


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (LONG, "found nesting too deep, or a number too long"),
        (DEEP, "found nesting too deep, or a number too long"),
        (b"a = 1\nb = = 2", r"Invalid value \(at line 2, column 5\)"),
    ],
)
def test_an_error_in_toml_has_a_readable_message(parse, data, words):
    with pytest.raises(FormatError, match=f"TOML: {words}$"):
        parse(data, "f")


def test_bytes_outside_of_utf8_are_reported_with_their_place():
    with pytest.raises(FormatError, match=r"^not TOML: found a byte that is not UTF-8 in line 1$"):
        strict_toml(b'a = "\xff"', "f")


def test_a_text_without_quotation_marks_is_reported_with_its_line():
    with pytest.raises(FormatError) as caught:
        strict_toml(b"x = 1\nsigned = required\n", "policy.toml")
    assert caught.value.where == "policy.toml:2"


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("[skills]\npdf = { version = '1' }\npdf = { version = '2' }\n", 3, "pdf"),
        ("[skills]\npdf = '1'\nx = '2'\npdf='1'\n", 4, "pdf"),
        ("[skills.pdf]\nversion = '1'\n[skills.pdf]\nversion = '2'\n", 3, "skills.pdf"),
        ('[skills]\n"pdf" = 1\npdf = 2', 3, "pdf"),
        ("[skills]\r\npdf.version = '1'\r\npdf.version = '2'\r\n", 3, "pdf.version"),
    ],
)
def test_a_key_that_occurs_twice_is_named_with_its_line(text, line, key):
    with pytest.raises(FormatError) as caught:
        strict_toml(text.encode(), "skillhub.toml")
    assert caught.value.where == f"skillhub.toml:{line}"
    assert caught.value.message == f"not TOML: '{key}' occurs twice"
