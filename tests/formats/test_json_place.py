"""The line of a fault in JSON: that of its key or value, found in any bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError
from skillhub.formats.json import line_of, line_of_fault, strict_json
from tests.support.effort import at_most

DOCUMENT = {"a": {"b": [1, {"c": '"]}{,:\\'}], "d": {}}, "e": [[], ["x", "y"]], "f\n": {"a": 1}}
TEXT = json.dumps(DOCUMENT, indent=2).encode()


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a", '"a": {'),
        ("a.b", '"b": ['),
        ("a.b[0]", "1,"),
        ("a.b[1].c", '"c": '),
        ("a.b[1].gone", "{"),
        ("a.d.gone.too", '"d": {}'),
        ("e[1][1]", '"y"'),
        ("f .a", '"a": 1'),
        ("ab", "{"),
    ],
)
def test_a_path_gives_its_line_or_that_of_its_nearest_parent(path, line):
    assert TEXT.decode().splitlines()[line_of(TEXT, path) - 1].strip().startswith(line)


FAULTS = {
    b'{\n"a": 1,\n"b": {"a": 2},\n"a": 3}': 4,
    b'{\n"a": [{"b": 1,\n"\\u0062": 2}]}': 3,
    b'{"a":\n[1,\nNaN]}': 3,
    b"[\n-Infinity]": 2,
    b"[\n\n1e999]": 3,
    b"[\n" + b"1" * 5000 + b"]": 2,
    b'["NaN",\n"\\ud800"]': 2,
    b'{"a": "\n\xff"}': 2,
    b"[\n" * 3000: 102,  # nested deeper than the search goes
    b"": 1,
}


@pytest.mark.parametrize("data", FAULTS)
def test_a_syntax_error_has_its_line(data):
    with pytest.raises(FormatError):
        strict_json(data, "it", 1 << 20)
    assert line_of_fault(data) == FAULTS[data]


@given(st.binary(max_size=80) | st.text('{}[],:"\\a1\n', max_size=60).map(str.encode), st.text(max_size=6))
def test_any_bytes_give_a_line_of_the_text(data, path):
    for line in (line_of_fault(data), line_of(data, path)):
        assert line is not None
        assert 1 <= line <= data.count(b"\n") + 1


def test_attack_slow_searches_are_skipped():
    with at_most(10):
        assert line_of_fault(b"[1," * (1 << 20)) is None
        assert line_of(b"[1," * (1 << 20), "a") is None
        line_of_fault(b'"\\' * (1 << 19))
        line_of(b"[" * (1 << 20), "a")
