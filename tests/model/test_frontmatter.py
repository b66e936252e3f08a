"""Where ``SKILL.md`` is cut."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError, SkillhubError
from skillhub.model.manifest import Glance, glance, split
from tests.support.effort import at_most


def refused(data):
    with pytest.raises(FormatError) as caught:
        split(data, "SKILL.md")
    return caught.value


def test_it_is_cut_at_two_whole_lines_of_dashes():
    assert split(b"---\nname: a\n---\n\n# Title\n", "f") == ("name: a\n", "\n# Title\n", 4)


@pytest.mark.parametrize(
    "value",
    [
        b"description: a --- b",
        b"description: ---b",
        b"description: |\n  a\n  ---\n  b",
        b"description: '\n  ---\n  b'",
        b"# ---",
        b"----",
        b"--- a: b",
        b" ---",
    ],
)
def test_dashes_inside_a_value_cut_nothing(value):
    yaml, body, _ = split(b"---\nname: a\n" + value + b"\n---\nbody", "f")
    assert yaml == "name: a\n" + value.decode() + "\n"
    assert body == "body"


def test_a_later_rule_of_dashes_belongs_to_the_body():
    assert split(b"---\na: b\n---\none\n---\ntwo\n", "f").body == "one\n---\ntwo\n"


def test_a_byte_order_mark_carriage_returns_and_trailing_blanks_are_tolerated():
    parts = split(b"\xef\xbb\xbf--- \r\nname: a\r\n---\t\r\nbody\r\n", "f")
    assert parts == ("name: a\r\n", "body\r\n", 4)


@pytest.mark.parametrize(("data", "body"), [(b"---\n---", ""), (b"---\n---\n", ""), (b"---\n---\nx", "x")])
def test_frontmatter_may_be_empty_and_the_body_too(data, body):
    assert split(data, "f") == ("", body, 3)


@pytest.mark.parametrize(
    "data",
    [b"", b"# Title\n", b"\n---\na: b\n---\n", b" ---\na: b\n---\n", b"----\na: b\n----\n", b"---", b"--- #\n---\n"],
)
def test_no_opening_line(data):
    assert refused(data).where == "SKILL.md:1"


@pytest.mark.parametrize("data", [b"---\na: b\n", b"---\na: b\n ---\n", b"---\na: b\n...\n", b"---\ra: b\r---\r"])
def test_no_closing_line(data):
    refused(data)


def test_what_is_not_text():
    assert "byte 4" in refused(b"---\n\xff\n---\n").message
    assert "NUL" in refused(b"---\na: b\n---\n\0").message


def test_a_message_shows_no_control_characters():
    assert "\x1b" not in refused(b"\x1b[2Jhello\n").message


@pytest.mark.parametrize("unit", [b"-", b"--- ", b"---\t", b"-\n", b"---\n", b"\r", b"---\r", b"--- \r", b"\n"])
def test_a_megabyte_of_dashes_takes_linear_time(unit):
    for head in (b"", b"---\n"):
        with at_most(1), contextlib.suppress(FormatError):
            split(head + unit * (1_000_000 // len(unit)), "f")


@given(st.binary() | st.text("-\n\r\t a:\ufeff").map(str.encode))
def test_any_bytes_at_all(data):
    try:
        parts = split(data, "f")
    except SkillhubError as error:
        assert error.exit_code == 4
    else:
        assert data.decode().endswith(parts.body)
        assert parts.body_line == data.decode().count("\n", 0, len(data.decode()) - len(parts.body)) + (
            1 if parts.body or data.endswith(b"\n") else 2
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"---\nname: a\ndescription: It\n  helps.\n---\n", Glance("a", "It helps.")),
        (b"---\nname: Not A Name\ndescription: x\n---\n", Glance(None, "x")),
        (b"---\nname: [a]\ndescription: {b: c}\n---\n", Glance()),
        (b"---\nname: a\nmetadata:\n  internal: true\n---\n", Glance("a", "", True)),
        (b"---\nname: a\nmetadata:\n  internal: True\n---\n", Glance("a", "", True)),
        (b"---\nname: a\nmetadata:\n  internal: [true]\n---\n", Glance("a")),
        (b"---\nname: a\nmetadata: internal\n---\n", Glance("a")),
        (b"---\n- a\n---\n", Glance()),
        (b"---\nname: &x a\n---\n", Glance()),
        (b"no head", Glance()),
        (b"\xff", Glance()),
    ],
)
def test_frontmatter_is_read_as_far_as_it_can_be(text, expected):
    assert glance(text) == expected


def test_a_description_is_shown_without_what_would_steer_a_terminal():
    assert glance(b'---\nname: a\ndescription: "x\\e[2J\\u202Ey"\n---\n').description == "x[2Jy"
