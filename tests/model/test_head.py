"""The head of a SKILL.md, read strictly or leniently."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError, SkillhubError
from skillhub.model.hosts import Rules
from skillhub.model.manifest import is_specified_name, one_line, read_head

STRICT = Rules(strict=True)
LENIENT = Rules()


def skill(text, rules=LENIENT, folder="demo"):
    return read_head(f"---\n{text}\n---\n# Title\n\nBody.\n".encode(), folder, rules)


def test_three_hyphens_in_a_value_are_kept():
    head = skill("name: demo\ndescription: one --- two\nlicense: |\n  ---\n  more", STRICT)
    assert (head.description, head.body) == ("one --- two", "# Title\n\nBody.\n")


@pytest.mark.parametrize("text", ["Use when: asked", "it's: fine", "ends with:", "a: b: c # d"])
def test_unquoted_colon_is_accepted_by_lenient_rules(text):
    head = skill(f"name: demo\ndescription: {text}")
    assert head.description == text
    assert [issue.code for issue in head.warnings] == ["unquoted-colon"]
    with pytest.raises(FormatError):
        skill(f"name: demo\ndescription: {text}", STRICT)


def test_other_faults_of_yaml_are_refused():
    with pytest.raises(FormatError, match="not valid YAML") as error:
        skill("name: demo\ndescription: Use when: asked\nhooks: [")
    assert error.value.where.startswith("SKILL.md:")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("name: Demo\ndescription: x", 2),
        ("description: x\nname: de--mo", 3),
        ("name: other\ndescription: x", 2),
        (f"name: demo\ndescription: {'x' * 1025}", 3),
        (f"name: demo\ndescription: x\ncompatibility: {'x' * 501}", 4),
    ],
)
def test_breach_of_the_specification_is_refused_or_a_warning(text, line):
    with pytest.raises(FormatError) as error:
        skill(text, STRICT)
    assert error.value.where == f"SKILL.md:{line}"
    assert {issue.where for issue in skill(text).warnings} == {f"SKILL.md:{line}"}


def test_values_of_the_maximum_length_are_accepted():
    skill(f"name: {'d' * 64}\ndescription: {'x' * 1024}\ncompatibility: {'x' * 500}", STRICT, "d" * 64)


def test_names_are_compared_in_their_compatible_form():
    assert skill("name: ﬁx\ndescription: x", STRICT, "fix").name == "fix"


@pytest.mark.parametrize("name", ["a", "pdf-2", "größe", "技能"])
def test_valid_names_of_the_specification(name):
    assert is_specified_name(name)


@pytest.mark.parametrize("name", ["", "A", "a b", "-a", "a-", "a--b", "a_b", "a" * 65, "a\u200bb", "a/b", "."])
def test_invalid_names_of_the_specification(name):
    assert not is_specified_name(name)


def test_missing_name_is_replaced_by_the_rules():
    text = b"---\ndescription: x\n---\n# The Title\n"
    assert read_head(text, "place", Rules(nameless="folder")).name == "place"
    assert read_head(text, "place", Rules(nameless="heading")).name == "The Title"
    with pytest.raises(FormatError, match="expected a name"):
        read_head(text, "place", LENIENT)


def test_missing_description_is_replaced_by_the_rules():
    text = b"---\nname: demo\n---\n\n# Title\n\nFirst\nparagraph.\n\nSecond.\n"
    assert read_head(text, "demo", Rules(undescribed="paragraph")).description == "First paragraph."
    assert read_head(text, "demo", Rules(undescribed="empty")).description == ""
    with pytest.raises(FormatError, match="expected a description"):
        read_head(text, "demo", LENIENT)


def test_skill_without_frontmatter_is_named_by_the_rules():
    rules = Rules(nameless="heading", undescribed="paragraph")
    head = read_head(b"# plain\n\nJust text.\n", "x", rules)
    assert (head.name, head.description) == ("plain", "Just text.")
    with pytest.raises(FormatError, match="expected '---'"):
        read_head(b"# plain\n", "x", LENIENT)


def test_keys_of_other_agents_are_kept():
    head = skill(
        "name: demo\ndescription: x\nnamespace: git\nargument-hint: [a, b]\ncontext: fork\nagent: explore\n"
        "model: fast\nuser-invocable: no\ndisable-model-invocation: true\nallowed-tools: [Bash, Read]\n"
        "hooks:\n  Stop:\n  - hooks:\n    - {type: command, command: echo, once: true}"
    )
    assert (head.namespace, head.argument_hint) == ("git", "[a, b]")
    assert dict(head.fork) == {"context": "fork", "agent": "explore", "model": "fast"}
    assert (head.user_invocable, head.model_invocable) == (False, False)
    assert head.front["allowed-tools"] == ["Bash", "Read"]
    assert head.hooks["Stop"][0]["hooks"][0]["once"] == "true"


def test_hidden_characters_are_removed():
    tagged = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore")
    assert skill(f"name: demo\ndescription: Fine{tagged}\u202e text").description == "Fine text"
    assert one_line("a\n\tb\u200b  c\u2028d") == "a b c d"


@given(st.binary(max_size=300), st.booleans(), st.sampled_from(["refused", "folder", "heading"]))
def test_any_bytes_are_read_or_refused(data, strict, nameless):
    for text in (data, b"---\n" + data + b"\n---\n"):
        try:
            read_head(text, "demo", Rules(strict, nameless, "paragraph"))
        except SkillhubError as error:
            assert error.code == "format"
