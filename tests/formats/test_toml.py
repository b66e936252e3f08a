"""TOML that is none is told of in words of ours, but for a fault of the syntax."""

import pytest

from skillhub.errors import FormatError
from skillhub.formats.toml import others_toml, strict_toml

LONG = b"a = " + b"9" * 5_000
DEEP = b"a = " + b"[" * 5_000
PARSERS = [strict_toml, lambda data, where: others_toml(data.decode("latin-1"), where)]


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (LONG, "found nesting too deep, or a number too long"),
        (DEEP, "found nesting too deep, or a number too long"),
        (b"a = 1\nb = = 2", r"Invalid value \(at line 2, column 5\)"),
    ],
)
def test_what_is_wrong_is_told_in_words_of_ours(parse, data, said):
    with pytest.raises(FormatError, match=f"TOML: {said}$"):
        parse(data, "f")


def test_what_is_not_utf8_is_told_with_its_place():
    with pytest.raises(FormatError, match=r"^not TOML: found another byte than UTF-8 at 5$"):
        strict_toml(b'a = "\xff"', "f")


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
def test_what_a_merge_left_twice_is_named(text, line, key):
    with pytest.raises(FormatError) as caught:
        strict_toml(text.encode(), "skillhub.toml")
    assert caught.value.where == f"skillhub.toml:{line}"
    assert caught.value.message == f"not TOML: '{key}' occurs twice"
