import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillhub.errors import FormatError, SkillhubError
from skillhub.formats import json as jsonc
from skillhub.formats.json import insert, remove

PATH = ("servers", "ours")


def data(text):
    node = jsonc.parse(text, "f")
    return node and node.data


def test_comments_and_trailing_commas_are_accepted():
    text = (
        '\ufeff// top\n{ /* {"a": 0} */ "a": [1, -2.5e3, true, null,], // "b": 1\n "b": {"c": "//x\\u0041",}, }\r\n'
    )
    assert data(text) == {"a": [1, -2500.0, True, None], "b": {"c": "//xA"}}


@pytest.mark.parametrize("text", ["", "\ufeff", " \n", "// only\n", "/* only */", "//"])
def test_blanks_and_comments_alone_give_none(text):
    assert jsonc.parse(text, "f") is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", 1),
        ('{\n"a": 1\n"b": 2}', 3),
        ('{\n"a": 1,\n"a": 2}', 3),
        ('{"x": {\r\n"a": 1, "\\u0061": 2}}', 2),
        ("{'a': 1}", 1),
        ('{"servers": {\n"__proto__": {}}}', 2),
        ("{a: 1}", 1),
        ('{"a": 1,,}', 1),
        ("{,}", 1),
        ("[,]", 1),
        ('{"a" 1}', 1),
        ('{"a": }', 1),
        ('{"a": 01}', 1),
        ('{"a": NaN}', 1),
        ('{"a": .5}', 1),
        ('{"a": "\n"}', 1),
        ('{"a": "\\x"}', 1),
        ('{"a": "', 1),
        ("{} {}", 1),
        ("{}\n/* open", 2),
        ("{} # no", 1),
        ("\n\n<<<<<<< HEAD\n{}", 3),
        ("tru", 1),
        ('{"a": 1]', 1),
        ("[1}", 1),
        (" \ufeff{}", 1),
        ("\x00", 1),
        ("[" * 100_000, 1),
        ('{"a":' * 100_000, 1),
    ],
)
def test_malformed_text_is_refused_with_its_line(text, line):
    with pytest.raises(FormatError) as caught:
        jsonc.parse(text, "f")
    assert caught.value.where == f"f:{line}"


@pytest.mark.parametrize("end", ["\r", "\u2028", "\u2029"])
def test_attack_a_comment_that_ends_elsewhere_for_some_agents_hides_no_server(end):
    server, hidden = '"tracker": {"command": "known"}', '"tracker": {"command": "evil"}'
    with pytest.raises(FormatError):
        jsonc.parse(f'{{"servers": {{ //{end} {server} /*\n {hidden} //*/\n }}}}', "f")


def test_a_string_or_comment_of_a_megabyte_is_read_in_linear_time():
    long = "\\\\" * 500_000
    assert data(f'{{"a": "{long}"}} /*{"*" * 500_000}*/') == {"a": "\\" * 500_000}
    with pytest.raises(FormatError):
        jsonc.parse('"' + long, "f")
    assert data("1" * 5000) == float("inf")


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.text(),
        st.lists,
    )
)
def test_strict_json_is_read_like_by_the_json_module(value):
    text = json.dumps(value)
    assert repr(data(text)) == repr(json.loads(text))


@settings(deadline=None)
@given(st.text(alphabet='{}[],:"\\/*1aé \n\r\t\ufeff') | st.text())
def test_any_text_raises_only_our_errors(text):
    for action in (
        lambda: jsonc.parse(text, "f"),
        lambda: insert(text, PATH, {}, "f"),
        lambda: remove(text, PATH, "f"),
    ):
        with contextlib.suppress(SkillhubError):
            action()
