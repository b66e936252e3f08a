"""The split of ``SKILL.md`` into frontmatter and body."""

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


def test_frontmatter_is_between_two_lines_of_dashes():
    assert split(b"---\nname: a\n---\n\n# Title\n", "f") == ("name: a\n", "\n# Title\n")


@pytest.mark.parametrize(
    "value",
    [
        b"description: a --- b",
        b"description: ---b",
        b"description: |\n  a\n  ---\n  b",
        b"description: '\n  ---\n  b'",
        b"# ---",
        b" ---",
    ],
)
def test_dashes_inside_of_a_value_do_not_end_the_frontmatter(value):
    yaml, body = split(b"---\nname: a\n" + value + b"\n---\nbody", "f")
    assert yaml == "name: a\n" + value.decode() + "\n"
    assert body == "body"


@pytest.mark.parametrize("line", [b"---x: 1", b"----", b"--- a: b", b"---\r---", b"---#", b'd: "a\n---b"'])
def test_attack_a_line_that_ends_the_frontmatter_for_some_agents_only_is_refused(line):
    hidden = b"\ndisable-model-invocation: true\n---\nbody"
    assert refused(b"---\nname: a\n" + line + hidden).where == f"SKILL.md:{3 + line.count(10)}"


def test_later_line_of_dashes_belongs_to_the_body():
    assert split(b"---\na: b\n---\none\n---\ntwo\n", "f").body == "one\n---\ntwo\n"


def test_byte_order_mark_crlf_and_trailing_blanks_are_accepted():
    parts = split(b"\xef\xbb\xbf--- \r\nname: a\r\n---\t\r\nbody\r\n", "f")
    assert parts == ("name: a\r\n", "body\r\n")


@pytest.mark.parametrize(("data", "body"), [(b"---\n---", ""), (b"---\n---\n", ""), (b"---\n---\nx", "x")])
def test_frontmatter_may_be_empty_and_the_body_too(data, body):
    assert split(data, "f") == ("", body)


@pytest.mark.parametrize(
    "data",
    [b"", b"# Title\n", b"\n---\na: b\n---\n", b" ---\na: b\n---\n", b"----\na: b\n----\n", b"---", b"--- #\n---\n"],
)
def test_missing_opening_line_is_refused(data):
    assert refused(data).where == "SKILL.md:1"


@pytest.mark.parametrize("data", [b"---\na: b\n", b"---\na: b\n ---\n", b"---\na: b\n...\n", b"---\ra: b\r---\r"])
def test_missing_closing_line_is_refused(data):
    refused(data)


def test_bytes_that_are_not_text_are_refused():
    assert "offset 4" in refused(b"---\n\xff\n---\n").message
    assert "NUL" in refused(b"---\na: b\n---\n\0").message


def test_message_shows_no_control_characters():
    assert "\x1b" not in refused(b"\x1b[2Jhello\n").message


@pytest.mark.parametrize("unit", [b"-", b"--- ", b"---\t", b"-\n", b"---\n", b"\r", b"---\r", b"--- \r", b"\n"])
def test_a_megabyte_of_dashes_takes_linear_time(unit):
    for head in (b"", b"---\n"):
        with at_most(1), contextlib.suppress(FormatError):
            split(head + unit * (1_000_000 // len(unit)), "f")


@given(st.binary() | st.text("-\n\r\t a:\ufeff").map(str.encode))
def test_any_bytes_of_frontmatter_are_split_or_refused(data):
    try:
        parts = split(data, "f")
    except SkillhubError as error:
        assert error.exit_code == 4
    else:
        assert data.decode().endswith(parts.body)


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
def test_glance_reads_as_much_frontmatter_as_possible(text, expected):
    assert glance(text) == expected


def test_description_is_shown_without_control_characters():
    assert glance(b'---\nname: a\ndescription: "x\\e[2J\\u202Ey"\n---\n').description == "x[2Jy"
