"""The YAML of foreign documents, with the parser in C and the one in Python."""

import contextlib
from functools import partial

import pytest
import yaml as pyyaml
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError, SkillhubError
from skillhub.formats import yaml
from tests.support.effort import at_most

LOADERS = [pyyaml.SafeLoader, *([pyyaml.CSafeLoader] if pyyaml.__with_libyaml__ else [])]


READERS = [partial(yaml.parse, parser=loader) for loader in LOADERS]


@pytest.fixture(params=READERS, ids=[loader.__name__ for loader in LOADERS])
def parse(request):
    return request.param


def refused(parse, text, offset=0):
    with pytest.raises(FormatError) as caught:
        parse(text, "SKILL.md", offset)
    return caught.value


def test_scalars_stay_the_written_text(parse):
    text = "a: no\nb: 1.10\nc: ~\nd:\ne: 0o17\nf: 2026-11-20\ng: 'x: y'\nh: |\n  one\n  two\n"
    assert parse(text, "f") == {
        "a": "no",
        "b": "1.10",
        "c": "~",
        "d": "",
        "e": "0o17",
        "f": "2026-11-20",
        "g": "x: y",
        "h": "one\ntwo\n",
    }


def test_lists_and_mappings_nest_in_either_style(parse):
    assert parse("a: [x, {b: c}]\nd:\n  - e\n  - f: g\n", "f") == {"a": ["x", {"b": "c"}], "d": ["e", {"f": "g"}]}


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n"])
def test_an_empty_document_is_empty_text(parse, text):
    assert parse(text, "f") == ""


def test_a_document_marker_at_the_start_is_accepted(parse):
    assert parse("%YAML 1.1\n---\na: b\n...\n", "f") == {"a": "b"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &x 1", "no anchor"),
        ("&x a: 1", "no anchor"),
        ("a: &x [1]", "no anchor"),
        ("a: *x", "no alias"),
        ("*x : 1", "keys that are text"),
        ("a: !!python/object/apply:os.system ['true']", "no tag"),
        ("a: !!str 1", "no tag"),
        ("a: ! 1", "no tag"),
        ("!!map {a: 1}", "no tag"),
        ("%TAG ! tag:example.com,2026:\n---\na: 1", "no %TAG directive"),
        ("<<: {a: 1}", "no merge key"),
        ("a: {<<: {b: 1}}", "no merge key"),
        ("a: 1\nb: 2\na: 3", "one value for each key, found 'a' twice"),
        ("a: 1\n'a': 2", "one value for each key, found 'a' twice"),
        ("? [a]\n: b", "keys that are text"),
        ("a: 1\n---\nb: 2", "one document"),
        ("a: 1\n...\n--- {}\n", "one document"),
    ],
)
def test_ambiguous_yaml_is_refused(parse, text, expected):
    assert refused(parse, text).message == f"expected {expected}"


def test_a_quoted_merge_key_is_a_plain_key(parse):
    assert parse("'<<': x", "f") == {"<<": "x"}


def test_an_error_names_the_line_of_the_file(parse):
    assert refused(parse, "a: 1\nb: &x 2", offset=1).where == "SKILL.md:3"
    assert refused(parse, "a: 1\n\tb: 2", offset=1).where == "SKILL.md:3"
    assert refused(parse, "a: 1\na: 2", offset=1).where == "SKILL.md:3"


def test_an_unquoted_value_with_a_colon_gives_a_hint_to_quote(parse):
    assert "quotes" in refused(parse, "description: Use when: always").hint


def test_eight_levels_are_accepted_and_nine_are_refused(parse):
    assert parse("[" * 8 + "]" * 8, "f")
    assert refused(parse, "[" * 9 + "]" * 9).message == "expected at most 8 levels"
    assert refused(parse, "\n".join(" " * n + f"k{n}:" for n in range(8)) + " {a: b}").message


def test_the_size_limit_counts_bytes(parse):
    assert parse("a: " + "x" * (64 * 1024 - 3), "f")
    assert "65536 bytes" in refused(parse, "a: " + "x" * (64 * 1024 - 2)).message
    assert "65536 bytes" in refused(parse, "a: " + "é" * 40_000).message


def test_anchors_are_refused(parse):
    lines = ["a0: &a0 [lol, lol]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 64)]
    assert refused(parse, "\n".join(lines)).message == "expected no anchor"


@pytest.mark.parametrize("unit", ["[", "{", "- ", "? ", "a: ", "[a,", '"', "&a ", "-", ":", "%", "|\n "])
def test_very_long_repetitions_end_quickly(parse, unit):
    for size in (1_000_000, 64_000):
        with at_most(5), contextlib.suppress(FormatError):
            parse((unit * size)[:size], "f")


@pytest.mark.parametrize("text", ["a: \0", "a: \x1b[2J", "a: \udc80", "\ta: 1", 'a: "b', "a: 'b", "a: [b", "@", "`"])
def test_broken_text_is_a_format_error(parse, text):
    refused(parse, text)


@given(st.text(alphabet=st.sampled_from("ab:-?[]{},&*!|>'\"%@`#\n \t<~.\r\x85\ufeff\u2028é\ud800\0"), max_size=60))
def test_any_text_gives_a_node_or_a_format_error(text):
    try:
        node = yaml.parse(text, "f")
    except SkillhubError as error:
        assert error.exit_code == 4
    else:
        assert only_text(node)


@given(
    st.recursive(
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc<", max_size=3), inner, max_size=3),
        max_leaves=8,
    )
)
def test_dumped_yaml_is_read_back_unchanged(node):
    text = pyyaml.dump(node, Dumper=_NoAlias, default_style='"', allow_unicode=False)
    if depth(node) <= 8:
        assert yaml.parse(text.replace('!!str "', '"'), "f") == node


class _NoAlias(pyyaml.SafeDumper):
    def ignore_aliases(self, data):
        return True


def depth(node):
    if isinstance(node, str):
        return 0
    return 1 + max(map(depth, node.values() if isinstance(node, dict) else node), default=0)


def only_text(node):
    if isinstance(node, dict):
        return all(isinstance(key, str) and only_text(value) for key, value in node.items())
    return all(map(only_text, node)) if isinstance(node, list) else isinstance(node, str)


PIECES = st.sampled_from(
    [
        *"ab#-&*!|>\"'{}[],%@`?\t\r=~",
        "name: ",
        'k: "v w"\n',
        "k: v\n",
        "m:\n  k: v\n",
        "\n",
        "  ",
        ": ",
        " #",
        "no",
        "1.10",
        "---",
        "<<",
        "é",
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_plain_lines_are_read_as_the_parser_reads_them(text):
    plain = yaml._parse_plain(text)
    if plain is not None:
        assert list(plain.items()) == list(yaml._Reader(yaml.fastest()(text).get_event, "f", 0).document().items())


@pytest.mark.parametrize(
    "text", ["a: b\n", "name: x-1\nmetadata:\n  version: 1.0\n  author: A b\nlicense: MIT", "a:\nb: c: d"[:-3]]
)
def test_plain_lines_need_no_parser(text):
    assert yaml._parse_plain(text) == yaml._Reader(yaml.fastest()(text).get_event, "f", 0).document()


TYPED = {
    "1.0": 1.0,
    "1": 1,
    "-7": -7,
    "+12": 12,
    "017": 17,
    "0o17": 15,
    "0xfF": 255,
    ".5": 0.5,
    "1.": 1.0,
    "12e03": 12000.0,
    "-2E-2": -0.02,
    "true": True,
    "FALSE": False,
    "null": None,
    "~": None,
    "": None,
    ".inf": None,
    "-.INF": None,
    ".NaN": None,
    "1e999": None,
    "9" * 400: None,
    **{
        text: text
        for text in (
            "yes",
            "no",
            "on",
            "off",
            "y",
            "tRue",
            "nUll",
            "0b11",
            "1_000",
            "-0x1",
            "0O7",
            "1:30",
            "2026-11-22",
        )
    },
    **{text: text for text in ("1.2.3", "1e", "e3", "+", ".", "١", "１")},
}


@pytest.mark.parametrize(("text", "value"), TYPED.items())
def test_the_core_schema_of_yaml_1_2_types_plain_scalars(text, value):
    found = yaml.typed(f"a: {text}\nb: '{text}'\nc: [{text or '~'}]\n", "f")
    assert found == {"a": value, "b": text, "c": [value]}
    assert type(found["a"]) is type(value)


def test_keys_and_blocks_are_always_text():
    assert yaml.typed("1: a\ntrue: b\nc: |\n  1\nd: >-\n  true\ne: 1\n  2\n", "f") == {
        "1": "a",
        "true": "b",
        "c": "1\n",
        "d": "true",
        "e": "1 2",
    }
    assert yaml.typed("# nothing\n", "f") is None


@pytest.mark.parametrize(
    "text",
    ["a: &b 1", "a: !!int '1'", "<<: {a: 1}", "a: 1\na: 2", "a: b: c", "a: 1\u2028b: 2", "a: 1\x85", "a: \ud800"],
)
def test_typed_yaml_has_the_same_refusals(text):
    with pytest.raises(FormatError):
        yaml.typed(text, "f")


@pytest.mark.parametrize("text", ["extensions:\n...\n", "extensions:\n...\n# end\n", "extensions:\n\n...\n\n"])
def test_attack_a_file_that_would_be_invalid_without_the_entry_is_not_edited(text):
    added = yaml.insert(text, ("extensions", "ours"), {"cmd": "x"}, "f.yaml")
    with pytest.raises(FormatError, match="edited in place"):
        yaml.remove(added, ("extensions", "ours"), "f.yaml")


def test_a_comment_beside_the_parent_key_stays_after_removal():
    text = "extensions:   # of the team\n\nb: 1\n"
    added = yaml.insert(text, ("extensions", "ours"), {"cmd": "x"}, "f.yaml")
    assert yaml.remove(added, ("extensions", "ours"), "f.yaml") == text
