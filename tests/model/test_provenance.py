import contextlib
import copy
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError, SkillhubError
from skillhub.formats.digest import NO_FILES, Digest
from skillhub.model.lock import DeclaredNeed
from skillhub.model.provenance import Consent, Facts, Provenance, Record, Records

TREE = Digest.of(b"tree")
NEED = DeclaredNeed("env", "TOKEN", "Läßt ein\nzweites", True)
FULL = Records(
    {
        "deploy": Record(tree=TREE, enabled=False, disabled_by="user"),
        "gh-fix-ci": Record(
            tree=TREE,
            enabled=True,
            links=(".agents/skills/gh-fix-ci", ".claude/skills/gh-fix-ci"),
            link="symlink",
            satisfied=("env:TOKEN",),
            waived=("mcp:github",),
            mcp={"github": {"claude-code": {"type": "http", "headers": {"A": "${B}"}, "args": ["x", 1, None]}}},
            facts=Facts("What it does", False, (NEED,), ("scripts",)),
            provenance=Provenance("github:o/r@v1", "https://github.com/o/r", "skills/x", ("key:sha256:1",)),
        ),
    },
    ("claude-code", "codex"),
    created_paths=(".claude", ".claude/skills"),
    left={"old": Record(tree=NO_FILES, enabled=False, former=(Consent(tree=TREE),))},
)
DOCUMENT = json.loads(FULL.dump("/srv/project"))


def test_records_are_read_back():
    assert Records.parse(FULL.dump("/srv/project"), "x") == FULL
    assert Records.parse(Records().dump(""), "x") == Records()
    assert DOCUMENT["project"] == "/srv/project"


def test_project_path_that_is_not_utf_8_is_written():
    data = FULL.dump("/srv/caf\udce9")
    assert Records.parse(data, "x") == FULL
    assert json.loads(data)["project"] == "/srv/caf?"


def places(value, at=()):
    yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*at, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from places(inner, (*at, number))


def put(at, value):
    if not at:
        return value
    document = copy.deepcopy(DOCUMENT)
    block = document
    for key in at[:-1]:
        block = block[key]
    block[at[-1]] = value
    return document


def read_all(records):
    """Read every field of the records."""
    for name, record in records.skills.items():
        assert isinstance(name + record.disabled_by + record.link + record.facts.description, str)
        assert type(record.enabled) is type(record.facts.model_invocable) is bool
        assert all(isinstance(text, str) for text in (*record.links, *record.satisfied, *record.waived))
        for need in record.facts.needs:
            assert isinstance(need.spell() + need.description, str)
            assert type(need.required) is bool
        for entries in record.mcp.values():
            assert all(isinstance(entry, dict) for entry in entries.values())
    assert all(isinstance(agent, str) for agent in records.agents)


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(list(places(DOCUMENT))), values)
def test_any_value_in_records_is_valid_or_refused(at, value):
    with contextlib.suppress(SkillhubError):
        read_all(Records.parse(json.dumps(put(at, value)).encode(), "state.json"))


@pytest.mark.parametrize("at", [at for at in places(DOCUMENT) if at and isinstance(at[-1], str)], ids=str)
def test_any_missing_key_is_valid_or_refused(at):
    document = copy.deepcopy(DOCUMENT)
    block = document
    for key in at[:-1]:
        block = block[key]
    del block[at[-1]]
    with contextlib.suppress(SkillhubError):
        read_all(Records.parse(json.dumps(document).encode(), "state.json"))


@given(st.binary(max_size=80))
def test_any_bytes_of_records_are_parsed_or_refused(data):
    with contextlib.suppress(SkillhubError):
        Records.parse(data, "state.json")


SKILL = ("skills", "gh-fix-ci")


@pytest.mark.parametrize(
    ("at", "value", "where"),
    [
        ((), [], ""),
        (("version",), True, ": version"),
        (("version",), 1.0, ": version"),
        (("version",), 2, ": version"),
        (("agents",), "codex", ": agents"),
        (("agents",), [1], ": agents"),
        (("skills",), [], ": skills"),
        (("skills", "../x"), {}, ": skills"),
        (SKILL, None, ": skills"),
        ((*SKILL, "tree"), "sha256:0", ": skills.gh-fix-ci"),
        ((*SKILL, "enabled"), "no", ": skills.gh-fix-ci"),
        ((*SKILL, "enabled"), 1, ": skills.gh-fix-ci"),
        ((*SKILL, "held"), "x", ": skills.gh-fix-ci"),
        ((*SKILL, "held"), [], ": skills.gh-fix-ci"),
        ((*SKILL, "link"), "hard", ": skills.gh-fix-ci"),
        ((*SKILL, "links"), "ab", ": skills.gh-fix-ci"),
        ((*SKILL, "links"), [["a"]], ": skills.gh-fix-ci"),
        ((*SKILL, "met"), {"env:X": 1}, ": skills.gh-fix-ci"),
        ((*SKILL, "mcp"), {"github": []}, ": skills.gh-fix-ci"),
        ((*SKILL, "mcp"), {"github": {"codex": "x"}}, ": skills.gh-fix-ci"),
        ((*SKILL, "facts"), [], ": skills.gh-fix-ci"),
        ((*SKILL, "facts"), "abc", ": skills.gh-fix-ci"),
        ((*SKILL, "facts"), ["", 1, [], []], ": skills.gh-fix-ci"),
        ((*SKILL, "facts"), ["", True, [{"kind": "env"}], []], ": skills.gh-fix-ci"),
        ((*SKILL, "facts"), ["", True, ["kind"], []], ": skills.gh-fix-ci"),
    ],
)
def test_invalid_records_are_refused_with_place_and_hint(at, value, where):
    with pytest.raises(FormatError) as caught:
        Records.parse(json.dumps(put(at, value)).encode(), "state.json")
    assert re.match(re.escape("state.json" + where) + r"(?![a-z])", caught.value.where)
    newer = at == ("version",) and type(value) is int
    assert ("upgrade skillhub" if newer else "move the file away") in caught.value.hint
