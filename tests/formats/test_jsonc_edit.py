import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillhub.errors import FormatError
from skillhub.formats import json as jsonc
from skillhub.formats.json import insert, remove, replace

OURS = {"url": "https://x.example/", "args": ["-y", 1]}
PATH = ("servers", "ours")


def data(text):
    node = jsonc.parse(text, "f")
    return node and node.data


# One file in each style: without and with the member.
GOLDEN = {
    "absent": ("", '{\n  "servers": {\n    "ours": {}\n  }\n}\n'),
    "byte order mark only": ("\ufeff", '\ufeff{\n  "servers": {\n    "ours": {}\n  }\n}\n'),
    "comment only": ("// mine", '// mine\n{\n  "servers": {\n    "ours": {}\n  }\n}\n'),
    "empty object": ("{}", '{\n  "servers": {\n    "ours": {}\n  }\n}'),
    "empty container": ('{\n  "servers": {}\n}\n', '{\n  "servers": {\n    "ours": {}\n  }\n}\n'),
    "container with a comment": (
        '{\n  "servers": {\n    // none yet\n  }\n}\n',
        '{\n  "servers": {\n    // none yet\n  \n    "ours": {}\n  }\n}\n',
    ),
    "another server": (
        '{\n  "servers": {\n    "b": {"x": 1}\n  },\n  "z": 1\n}\n',
        '{\n  "servers": {\n    "b": {"x": 1},\n    "ours": {}\n  },\n  "z": 1\n}\n',
    ),
    "comment after the last": (
        '{\n  "servers": {\n    "b": 1 // note\n    // end\n  }\n}\n',
        '{\n  "servers": {\n    "b": 1, // note\n    // end\n    "ours": {}\n  }\n}\n',
    ),
    "trailing comma": (
        '{\n  "servers": {\n    "b": 1, // note\n  },\n}\n',
        '{\n  "servers": {\n    "b": 1, // note\n    "ours": {},\n  },\n}\n',
    ),
    "tabs": ('{\n\t"servers": {}\n}\n', '{\n\t"servers": {\n\t\t"ours": {}\n\t}\n}\n'),
    "CRLF": (
        '{\r\n    "servers": {\r\n        "b": 1\r\n    }\r\n}\r\n',
        '{\r\n    "servers": {\r\n        "b": 1,\r\n        "ours": {}\r\n    }\r\n}\r\n',
    ),
    "minified": ('{"a":1,"servers":{"b":1}}', '{"a":1,"servers":{"b":1,"ours":{}}}'),
    "one line": ('{ "servers": { "b": 1 } }', '{ "servers": { "b": 1, "ours": {} } }'),
    "one line, no container": ('{"a": 1}\n', '{"a": 1, "servers": {"ours": {}}}\n'),
    "odd braces": ('{ "a": 1,\n  "servers": {"b": 1} }', '{ "a": 1,\n  "servers": {"b": 1, "ours": {}} }'),
}


@pytest.mark.parametrize("style", GOLDEN)
def test_insert_writes_in_the_style_of_the_file(style):
    before, after = GOLDEN[style]
    assert insert(before, PATH, {}, "f") == after


@pytest.mark.parametrize("style", [style for style, (before, _) in GOLDEN.items() if '"servers"' in before])
def test_remove_undoes_insert_byte_for_byte(style):
    before, after = GOLDEN[style]
    assert remove(after, PATH, "f") == before


def test_a_value_is_replaced_in_its_place():
    text = '// top\n{"a": {"b": /* x */ [1,\n2], // y\n "c": 1}}'
    assert replace(text, ("a", "b"), "é", "f") == text.replace("[1,\n2]", '"\\u00e9"')
    for path in (("a", "d"), ("d",), ("a", "c", "e")):
        with pytest.raises(FormatError, match="found none"):
            replace(text, path, 1, "f")


def test_null_counts_as_an_object_without_members():
    assert insert('{\n  "servers": null, // none\n}\n', PATH, {}, "f") == (
        '{\n  "servers": {\n    "ours": {}\n  }, // none\n}\n'
    )


def test_a_value_is_spelled_in_the_style_of_the_file():
    after = insert('{\r\n\t"servers": {}\r\n}', PATH, OURS, "f")
    assert after == (
        '{\r\n\t"servers": {\r\n\t\t"ours": {\r\n\t\t\t"url": "https://x.example/",\r\n\t\t\t"args": [\r\n'
        '\t\t\t\t"-y",\r\n\t\t\t\t1\r\n\t\t\t]\r\n\t\t}\r\n\t}\r\n}'
    )
    assert insert('{"servers":{}}', PATH, OURS, "f") == (
        '{"servers":{"ours":{"url":"https://x.example/","args":["-y",1]}}}'
    )


def test_hidden_characters_are_written_as_escapes():
    after = insert("{}", ("a",), "\u202e\u2028é", "f")
    assert after.isascii()
    assert data(after) == {"a": "\u202e\u2028é"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"servers": {"ours": 1, "b": 2}}', '{"servers": {"b": 2}}'),
        ('{"servers": {"a": 1, "ours": 1, "b": 2}}', '{"servers": {"a": 1, "b": 2}}'),
        ('{"servers": {\n  "ours": 1,\n  "b": 2\n}}', '{"servers": {\n  "b": 2\n}}'),
        (
            '{"servers": {\n  // theirs\n  "ours": 1, // mine\n  "b": 2\n}}',
            '{"servers": {\n  // theirs\n   // mine\n  "b": 2\n}}',
        ),
        ('{"servers": {"a": 1, // note\n "ours": 1 } }', '{"servers": {"a": 1 // note\n  } }'),
        ('{"servers": {"a": 1, // note\n "ours": 1, "b": 2 } }', '{"servers": {"a": 1, // note\n  "b": 2 } }'),
        ('{"servers": {\n  "ours": 1 // mine\n}}', '{"servers": {\n   // mine\n}}'),
        ('{"servers": {"ours": 1,}}', '{"servers": {}}'),
        ('{"servers": {/* a */ "ours": 1 /* b */, /* c */}}', '{"servers": {/* a */  /* c */}}'),
    ],
)
def test_a_member_in_any_place_is_removed(before, after):
    assert remove(before, PATH, "f") == after


@pytest.mark.parametrize(
    "text", ['{"servers": []}', '{"servers": "x"}', "[]", "1", '{"servers": {"ours": 1}}', "{", "{}{}"]
)
def test_insert_refuses_a_file_without_a_place_for_the_member(text):
    with pytest.raises(FormatError):
        insert(text, PATH, OURS, "f")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"servers": []}', '{"servers": {}}', '{"ours": 1}', "{"])
def test_remove_refuses_a_missing_member(text):
    with pytest.raises(FormatError):
        remove(text, PATH, "f")


# Documents in every style: any blanks and comments in any place, with and without trailing commas.
BLANKS = st.lists(
    st.sampled_from([" ", "  ", "\t", "\n", "\r\n", "/* , } */", '// "ours": {\n', "//\r\n", "/**/"]), max_size=3
).map("".join)
KEYS = st.sampled_from(["a", "b", "c", "servers", "ours-not", '"\\', "é\u202e", "//", "/*"])
SCALARS = st.sampled_from(["1", "true", "null", '"x, } // y"', "-0.5e-3", '"\\ud83d\\ude00"', "[]", "{}"])


@st.composite
def objects(draw, inner):
    keys = draw(st.lists(KEYS, unique=True, max_size=4))
    parts = [draw(BLANKS)]
    for position, key in enumerate(keys):
        value = draw(inner)
        parts += [json.dumps(key), draw(BLANKS), ":", draw(BLANKS), value, draw(BLANKS)]
        if position < len(keys) - 1 or draw(st.booleans()):
            parts += [",", draw(BLANKS)]
    return "{" + "".join(parts) + "}"


VALUES = st.recursive(SCALARS, objects, max_leaves=8)


@st.composite
def documents(draw):
    inside = draw(objects(VALUES))
    others = draw(objects(VALUES).filter(lambda text: '"servers"' not in text))
    body = others[1:-1]
    stripped = data(others)
    ends_in_comma = bool(stripped) and jsonc.parse(others, "f").members[-1].comma is not None
    comma = "" if not stripped or ends_in_comma else ","
    return (
        draw(BLANKS) + "{" + body + comma + draw(BLANKS) + '"servers":' + inside + draw(BLANKS) + "}" + draw(BLANKS)
    )


def comments(text):
    tokens = re.findall(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', text, re.DOTALL)
    return [token.rstrip() for token in tokens if token[0] == "/"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents(), st.sampled_from([{}, OURS]))
def test_insert_and_remove_leave_every_byte_unchanged(text, value):
    before = data(text)
    after = insert(text, PATH, value, "f")
    assert data(after) == {**before, "servers": {**before["servers"], "ours": value}}
    assert remove(after, PATH, "f") == text


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents(), st.data())
def test_remove_of_any_member_removes_no_other_comment(text, choice):
    before = data(text)
    path = choice.draw(st.sampled_from([("servers",), *(("servers", key) for key in before["servers"])]))
    after = remove(text, path, "f")
    node = jsonc.parse(text, "f")
    for key in path:
        member = node.get(key)
        node = member.node
    assert comments(after) == comments(text[: member.start]) + comments(text[member.end :])
    expected = {**before}
    if len(path) == 1:
        del expected["servers"]
    else:
        expected["servers"] = {key: value for key, value in before["servers"].items() if key != path[1]}
    assert data(after) == expected
