"""Document classes: ours are strict, foreign ones lenient, and every error names its place."""

import contextlib
import dataclasses
import json
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from skillhub.errors import FormatError
from skillhub.formats.digest import Digest
from skillhub.formats.document import (
    Document,
    ForeignDocument,
    Items,
    Members,
    Read,
    Visible,
    integer,
    name_that,
    part,
    text_that,
    version_of,
)
from tests.support.effort import at_most

Lower = Annotated[str, Read(text_that(str.islower, "lower case"))]
Sha256 = Annotated[Digest, Read(Digest.parse)]
TREE = Digest.of(b"")


@part
@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    tree: Sha256
    size: int = 0
    tags: Items[str] = ()
    ratio: float | None = None


class Page(Document):
    NAMES_LINE = True
    UNKNOWN = "known: name"

    name: Lower
    kind: Literal["a", "b"] = "a"
    on: bool = False
    rows: Items[Row] = ()
    owners: Members[Lower, Items[Visible]] = Field(default_factory=dict)
    origin: str | None = Field(None, alias="from")


def test_a_document_is_parsed_into_its_classes():
    row = {"tree": TREE, "size": 1, "tags": ["x"], "ratio": 0.5}
    found = Page.parse({"name": "a", "rows": [row], "owners": {"b": ["c"]}, "from": "d"}, "file")
    assert found.rows == (Row(TREE, 1, ("x",), 0.5),)
    assert type(found.rows[0].tree) is Digest
    assert (found.owners, found.origin) == ({"b": ("c",)}, "d")
    assert dataclasses.replace(found.rows[0], size=2).size == 2


@pytest.mark.parametrize(
    ("value", "where", "message"),
    [
        ([], "file", "expected an object, found '[]'"),
        (None, "file", "expected an object, found 'null'"),
        ({}, "file: name", "the key 'name' is missing"),
        ({"name": None}, "file: name", "expected lower case, found 'null'"),
        ({"name": "A"}, "file: name", "expected lower case, found 'A'"),
        ({"name": "a", "kind": "c"}, "file: kind", "expected a or b, found 'c'"),
        ({"name": "a", "on": 1}, "file: on", "expected true or false, found '1'"),
        ({"name": "a", "on": "true"}, "file: on", "expected true or false, found 'true'"),
        ({"name": "a", "from": 1}, "file: from", "expected a text, found '1'"),
        ({"name": "a", "origin": "x"}, "file: origin", "unknown key 'origin'"),
        ({"name": "a", "x\x1b": 1}, "file: x", r"unknown key 'x\x1b'"),
        ({"name": "a", "rows": {}}, "file: rows", "expected a list, found '{}'"),
        ({"name": "a", "rows": None}, "file: rows", "expected a list, found 'null'"),
        ({"name": "a", "rows": "ab"}, "file: rows", "expected a list, found 'ab'"),
        ({"name": "a", "rows": [1]}, "file: rows[0]", "expected an object, found '1'"),
        ({"name": "a", "rows": [{"tree": TREE}, {}]}, "file: rows[1].tree", "the key 'tree' is missing"),
        ({"name": "a", "rows": [{"tree": TREE, "x": 1}]}, "file: rows[0].x", "unknown key 'x'"),
        (
            {"name": "a", "rows": [{"tree": TREE, "size": True}]},
            "file: rows[0].size",
            "expected a whole number, found 'true'",
        ),
        (
            {"name": "a", "rows": [{"tree": TREE, "size": "1"}]},
            "file: rows[0].size",
            "expected a whole number, found '1'",
        ),
        (
            {"name": "a", "rows": [{"tree": TREE, "size": 1.0}]},
            "file: rows[0].size",
            "expected a whole number, found '1.0'",
        ),
        ({"name": "a", "owners": 1}, "file: owners", "expected an object, found '1'"),
        ({"name": "a", "owners": {"B\x1b": []}}, "file: owners.B", r"expected lower case, found 'B\x1b'"),
        ({"name": "a", "owners": {"b": ["c", 1]}}, "file: owners.b[1]", "expected text without hidden"),
        ({"name": "a", "owners": {"b": ["c", ""]}}, "file: owners.b[1]", "expected a text that is not empty"),
    ],
)
def test_an_invalid_document_is_refused_with_its_place(value, where, message):
    with pytest.raises(FormatError) as caught:
        Page.parse(value, "file")
    assert caught.value.where == where
    assert caught.value.message.startswith(message)


def test_an_error_names_the_line_and_an_unknown_key_the_known_ones():
    with pytest.raises(FormatError) as caught:
        Page.parse(b'{\n  "name": "a",\n  "more": 1\n}\n', "file")
    assert (caught.value.where, caught.value.hint) == ("file:3: more", "known: name")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xef\xbb\xbf{}",
        b'{"name": "a", "name": "a"}',
        b'{"name": "a", "rows": [{"tree": 1, "tree": 1}]}',
        b'{"name": "a", "rows": NaN}',
        b'{"name": "\\ud800"}',
        b'{"name": "\xff"}',
        b'{"name": ' + b"[" * 100_000,
        b" " * (Page.CAP + 1),
    ],
)
def test_attack_bytes_that_are_no_strict_json_are_refused(data):
    for kind in (Page, Package):
        with pytest.raises(FormatError):
            kind.parse(data, "file")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["name", "on", "rows", "owners", "tree", "size", "tags"]), inner)
        ),
        max_leaves=9,
    )
)
def test_any_value_raises_only_our_error(value):
    for kind in (Page, Package):
        with contextlib.suppress(FormatError):
            kind.parse(value, "file")


@pytest.mark.parametrize(
    "more",
    [
        lambda keys: keys,
        lambda keys: {"rows": [{"tree": TREE, **keys}]},
        lambda keys: {"rows": [*keys.values()]},
        lambda keys: {"owners": keys},
    ],
    ids=["keys", "keys of a part", "items", "members"],
)
def test_attack_very_many_faults_are_one_error(more):
    value = {"name": "a", **more({f"k{number}": 1 for number in range(100_000)})}
    with at_most(3), pytest.raises(FormatError):
        Page.parse(value, "file")


def test_the_same_content_is_the_same_bytes():
    one = Page.parse(b'{"owners": {"b": [], "a": ["\xc3\xa9"]}, "name": "a"}', "file")
    other = Page.parse(b'{"name": "a", "owners": {"a": ["\xc3\xa9"], "b": []}, "rows": []}', "file")
    assert one.dump() == other.dump()
    assert json.loads(one.dump()) == {
        "name": "a",
        "kind": "a",
        "on": False,
        "rows": [],
        "owners": {"a": ["é"], "b": []},
    }
    assert one.dump().startswith(b'{\n  "kind": "a",\n') and one.dump().endswith(b"}\n")


@pytest.mark.parametrize("value", [-1, 4, True, 1.0, "1", None])
def test_a_number_is_whole_and_within_its_bounds(value):
    class Count(Document):
        count: Annotated[int, integer("0 to 3", 3)]

    assert [Count.parse({"count": each}, "").count for each in (0, 3)] == [0, 3]
    with pytest.raises(FormatError, match="expected 0 to 3"):
        Count.parse({"count": value}, "")


@pytest.mark.parametrize(("value", "hint"), [(2, "upgrade"), (0, None), ("1", None), (True, None), (1.0, None)])
def test_an_unknown_version_is_refused(value, hint):
    class Versioned(Document):
        version: Annotated[int, version_of("format", 1)]

    assert Versioned.parse({"version": 1}, "").version == 1
    with pytest.raises(FormatError, match="expected format 1, found") as caught:
        Versioned.parse({"version": value}, "")
    assert (hint or "") in (caught.value.hint or "")


def test_name_that_refuses_an_invalid_name():
    class Named(Document):
        name: Annotated[str, Read(name_that(str.islower, "alias"))]

    assert Named.parse({"name": "a"}, "").name == "a"
    with pytest.raises(FormatError, match="'A' is no alias"):
        Named.parse({"name": "A"}, "")


def test_the_json_schema_is_derived_from_the_class():
    schema = Page.model_json_schema()
    assert schema["required"] == ["name"]
    assert schema["properties"]["rows"]["items"] == {"$ref": "#/$defs/Row"}
    assert schema["additionalProperties"] is False
    assert "from" in schema["properties"]


class Plugin(ForeignDocument):
    name: str
    count: int | None = None
    strict: bool = True


class Package(ForeignDocument):
    plugins: tuple[Plugin, ...] = ()
    groups: dict[str, Plugin] = Field(default_factory=dict)
    note: str | None = None
    license: str = ""


def test_a_foreign_document_converts_texts_and_keeps_unknown_keys():
    row = {"name": 1.5, "count": "7", "strict": "no", "more": {"kept": 1}}
    found = Package.parse({"plugins": [row], "else": 1}, "file")
    (plugin,) = found.plugins
    assert (plugin.name, plugin.count, plugin.strict) == ("1.5", 7, False)
    assert (plugin.model_extra, found.model_extra) == ({"more": {"kept": 1}}, {"else": 1})
    assert found.warnings() == ()


def test_an_invalid_optional_key_is_dropped_with_a_warning():
    document = {
        "plugins": [{"name": "a", "strict": "maybe"}, {"name": "b"}],
        "groups": {"x": {"name": "c", "count": []}},
        "note": [],
        "license": "MIT",
    }
    found = Package.parse(document, "file")
    assert (found.plugins[0].strict, found.groups["x"].count, found.note) == (True, None, None)
    assert (found.plugins[1].name, found.license) == ("b", "MIT")
    assert sorted(found.warnings()) == [
        "groups.x.count: expected a whole number, found '[]'; ignored",
        "note: expected a text, found '[]'; ignored",
        "plugins[0].strict: expected true or false, found 'maybe'; ignored",
    ]


def test_attack_an_invalid_key_that_binds_is_never_dropped():
    class Pin(ForeignDocument):
        LENIENT = ("note",)

        sha: Lower = ""
        note: Lower | None = None

    assert Pin.parse({"note": "A"}, "file").note is None
    for invalid in ("A", None, "", [], 1):
        with pytest.raises(FormatError) as caught:
            Pin.parse({"sha": invalid, "note": "A"}, "file")
        assert caught.value.where == "file: sha"


def test_an_empty_value_of_a_foreign_document_is_absent():
    found = Package.parse({"plugins": [{"name": "a", "count": "~", "strict": ""}], "license": None}, "file")
    assert (found.plugins[0].count, found.plugins[0].strict, found.license) == (None, True, "")
    assert found.warnings() == ()


def test_an_invalid_required_key_is_refused():
    with pytest.raises(FormatError) as caught:
        Plugin.parse({"name": [], "count": "x"}, "file")
    assert caught.value.where == "file: name"


def test_attack_the_number_of_warnings_is_limited():
    found = Package.parse({"plugins": [{"name": "a", "strict": "maybe"}] * 10_000}, "file")
    assert len(found.warnings()) == 21
    assert found.warnings()[-1] == "9980 more are ignored"
