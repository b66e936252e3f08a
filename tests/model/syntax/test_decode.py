"""Readers of parsed JSON: strict, and every error names the place, however deep."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError
from skillhub.model.digest import Digest
from skillhub.model.syntax.decode import (
    array,
    integer,
    located,
    mapping,
    nullable,
    one_of,
    record,
    text,
    text_that,
)

lower = text_that(str.islower, "lower case")
read = record(
    {"name": lower},
    {
        "note": nullable(text),
        "rows": array(record({"tree": Digest.parse})),
        "owners": mapping(lower, array(text)),
    },
)
TREE = Digest.of(b"")


def test_what_is_read():
    whole = {"name": "a", "note": None, "rows": [{"tree": TREE, "more": 1}], "owners": {"b": ["c"]}, "x": 1}
    assert read(whole) == {"name": "a", "note": None, "rows": ({"tree": TREE},), "owners": {"b": ("c",)}}
    assert read({"name": "a"}) == {"name": "a"}


@pytest.mark.parametrize(
    ("value", "where", "message"),
    [
        ([], None, "expected an object, found '[]'"),
        ({}, ".name", "the key 'name' is missing"),
        ({"name": None}, ".name", "expected lower case, found 'None'"),
        ({"name": "A"}, ".name", "expected lower case, found 'A'"),
        ({"name": "a", "note": 1}, ".note", "expected a text, found '1'"),
        ({"name": "a", "rows": {}}, ".rows", "expected a list, found '{}'"),
        ({"name": "a", "rows": None}, ".rows", "expected a list, found 'None'"),
        ({"name": "a", "rows": [{"tree": TREE}, {}]}, ".rows[1].tree", "the key 'tree' is missing"),
        ({"name": "a", "owners": 1}, ".owners", "expected an object, found '1'"),
        ({"name": "a", "owners": {"B\x1b": []}}, ".owners.B", r"expected lower case, found 'B\x1b'"),
        ({"name": "a", "owners": {"b": ["c", 1]}}, ".owners.b[1]", "expected a text, found '1'"),
    ],
)
def test_what_is_refused_and_where(value, where, message):
    with pytest.raises(FormatError) as caught:
        read(value)
    assert (caught.value.where, caught.value.message) == (where, message)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["name", "note", "rows", "owners", "tree", "b"]), inner)
        ),
        max_leaves=9,
    )
)
def test_any_value_at_all(value):
    with contextlib.suppress(FormatError):
        read(value)


@pytest.mark.parametrize("value", [-1, 4, True, 1.0, "1", None])
def test_a_number_is_whole_and_within_its_bounds(value):
    assert [integer("0 to 3", 3)(each) for each in (0, 3)] == [0, 3]
    with pytest.raises(FormatError, match="expected 0 to 3"):
        integer("0 to 3", 3)(value)


def test_one_of_these_words_alone():
    assert one_of("a", "b")("b") == "b"
    for value in ("c", "", 1, ["a"]):
        with pytest.raises(FormatError, match="expected a or b"):
            one_of("a", "b")(value)


@pytest.mark.parametrize(("inner", "where"), [(None, "file"), ("file", "file"), (".a[1]", "file: a[1]")])
def test_a_fault_is_told_with_the_document_that_it_is_in(inner, where):
    with pytest.raises(FormatError) as caught, located("file"):
        raise FormatError("no", where=inner)
    assert caught.value.where == where
