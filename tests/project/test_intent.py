"""Edits of ``skillhub.toml``: all other lines of the user stay byte for byte."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError, SkillhubError
from skillhub.project.intent import Wanted
from skillhub.project.project import edit, parse_intent

NEW = {"new": Wanted(source="github", version="^1.2")}
LINE = 'new = { source = "github", version = "^1.2" }\n'

WRITTEN = """\
# what the team agreed to

[skills]
# for the red builds
gh-fix-ci = "^1"   # not 2, see #12

# ours
deploy = { path = "./deploy" }

[install]
link = "copy"
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "[skills]\n" + LINE),
        ("# hello\n", "# hello\n\n[skills]\n" + LINE),
        ("[skills]\n", "[skills]\n" + LINE),
        ('[skills]\na = "^1"', '[skills]\na = "^1"\n' + LINE),
        ('[install]\nlink = "copy"', '[install]\nlink = "copy"\n[skills]\n' + LINE),
        (WRITTEN, WRITTEN.replace("\n\n[install]", "\n" + LINE + "\n[install]")),
        ('["skills"]\n"a" = "^1"\n', '["skills"]\n"a" = "^1"\n' + LINE),
        ('[skills.a]\nversion = "^1"\n', "[skills]\n" + LINE + '\n[skills.a]\nversion = "^1"\n'),
        ('skills.a = "^1"\n', 'skills.a = "^1"\nskills.' + LINE),
    ],
)
def test_added_skill_gets_a_line(before, after):
    assert edit(before.encode(), NEW, ()).decode() == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# why\n[skills]\n# b\nb = {}\nz = {}\n", "# why\n[skills]\n# b\nb = {}\nm = {}\nn = {}\nz = {}\n"),
        ("[skills]\nz = {}  # z\n[install]\n", "[skills]\nm = {}\nn = {}\nz = {}  # z\n[install]\n"),
        ("[skills]\nb = {}\n\n# the last\n", "[skills]\nb = {}\nm = {}\nn = {}\n\n# the last\n"),
        ("[skills]\r\nb = {}\r\n  z = {}\r\n", "[skills]\r\nb = {}\r\nm = {}\r\nn = {}\r\n  z = {}\r\n"),
        ("", "[skills]\nm = {}\nn = {}\n"),
        ("[skills]\nz = {}\nb = {}\n", "[skills]\nz = {}\nb = {}\nn = {}\nm = {}\n"),
        ('[skills]\nb = {}\nz = """\n^1"""\n', None),
        ('[skills]\nb = { version = """\n^1""" }\nz = {}\n', None),
        ("[skills]\nb = { version = '''\n^1''' }\nz = {}\n", None),
        ("[skills]\nb = {}\n[skills.z]\n", None),
    ],
)
def test_added_lines_keep_the_order_of_names(before, after):
    added = {"n": Wanted(), "m": Wanted()}
    edited = edit(before.encode(), added, ())
    assert parse_intent(edited).skills == parse_intent(before.encode()).skills | added
    assert after in (edited.decode(), None)


def test_added_line_has_the_line_ends_of_windows():
    data = WRITTEN.replace("\n", "\r\n").encode()
    edited = edit(data, NEW, ())
    assert edited == WRITTEN.replace("\n\n[install]", "\n" + LINE + "\n[install]").replace("\n", "\r\n").encode()


def test_replaced_line_keeps_its_place_and_comment():
    edited = edit(WRITTEN.encode(), {"gh-fix-ci": NEW["new"]}, ())
    line = 'gh-fix-ci = { source = "github", version = "^1.2" }   # not 2, see #12'
    assert edited.decode() == WRITTEN.replace('gh-fix-ci = "^1"   # not 2, see #12', line)


def test_remove_deletes_only_its_line():
    edited = edit(WRITTEN.encode(), {}, ["deploy"])
    assert edited.decode() == WRITTEN.replace('deploy = { path = "./deploy" }\n', "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        WRITTEN,
        WRITTEN.replace("\n", "\r\n"),
        'skills = { new = "^1" }',
        '[skills.new]\nversion="^1"\n[install]\n[skills.b]\npath="x"',
        "[skills]   \n\n\n",
        '[skills]\nnew={version="^1"}# x',
    ],
)
def test_no_change_gives_the_same_bytes(text):
    data = text.encode()
    assert edit(data, {}, ()) == data
    assert edit(data, {}, ["absent"]) == data
    assert edit(data, dict(parse_intent(data).skills), ()) == data


@pytest.mark.parametrize(
    "text",
    [
        'skills = { a = "^1" }\n',
        'skills.a = "^1"\nskills.b.path = "./b"\n',
        '[skills.a]\nversion = "^1"\n[install]\nlink = "copy"\n[skills.b]\npath = "./b"\n',
        '[skills.a]\nversion = "^1"\n\n[skills.b]\npath = "./b"\n',
        '[skills]\n  a = "^1"\n\tb = "^2"\n\n\n',
        "[skills]\na = '''^1'''\n",
    ],
)
@pytest.mark.parametrize(("add", "remove"), [(NEW, ()), ({"a": NEW["new"]}, ()), ({}, ["a"]), (NEW, ["a"])], ids=str)
def test_edit_applies_to_any_spelling_of_the_table(text, add, remove):
    before = parse_intent(text.encode())
    edited = edit(text.encode(), add, remove)
    kept = {name: wanted for name, wanted in before.skills.items() if name not in remove}
    assert parse_intent(edited).skills == {**kept, **add}


@pytest.mark.parametrize("data", [b"[skills", b"skills = 1", b"[hooks]\n", b"\xff", b"a." * 120_000 + b"a=1"])
def test_invalid_intent_is_not_edited(data):
    with pytest.raises(FormatError):
        edit(data, NEW, ())


@pytest.mark.parametrize("path", ["a\nb", "\x1b[2J", "\0"])
def test_attack_a_path_with_control_characters_is_refused(path):
    with pytest.raises(FormatError) as caught:
        edit(b"", {"new": Wanted(path=path)}, ())
    assert caught.value.where.startswith("skillhub.toml")


def test_attack_a_path_cannot_close_its_string():
    path = '"}\n[policy]\nx = "'.replace("\n", " ")
    edited = edit(b"", {"new": Wanted(path=path)}, ())
    assert parse_intent(edited).skills == {"new": Wanted(path=path)}


names = st.sampled_from(["a", "b", "new", "gh-fix-ci", "1"])
values = st.sampled_from(['"^1"', "'1'", '{ source = "github" }', "{}", '{ path = "./x" }', '{version="*"}  # why'])
wanteds = st.sampled_from([Wanted(), Wanted(version="^2"), Wanted(path="é\"\\ 'x"), Wanted(source="x", version="1")])
pieces = (
    st.builds("{} = {}".format, names, values)
    | st.builds("[skills.{}]".format, names)
    | st.builds("skills.{} = {}".format, names, values)
    | st.sampled_from(["[skills]", "[install]", "", "# why", "  ", 'link = "copy"', 'version = "^1"', 'path = "p"'])
    | st.sampled_from(["[sources.x]", 'url = "https://x"'])
)


@given(
    st.lists(pieces, max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.dictionaries(names, wanteds, max_size=2),
    st.lists(names, max_size=2),
)
def test_any_intent_is_edited_without_other_changes(lines, end, add, remove):
    data = end.join(lines).encode()
    with contextlib.suppress(SkillhubError):
        before = parse_intent(data)
        edited = edit(data, add, remove)
        kept = {name: wanted for name, wanted in before.skills.items() if name not in remove}
        after = parse_intent(edited)
        assert after.skills == {**kept, **add}
        assert (after.sources, after.agents, after.link) == (before.sources, before.agents, before.link)
        assert edit(edited, add, ()) == edited


def test_the_comments_below_a_skill_with_a_table_of_its_own_stay():
    text = b'[skills]\na = {}\n[skills.b]\nsource = "acme"\n\n# what we allow\n[policy]\nsigned = "required"\n'
    assert edit(text, {}, ["b"]) == b'[skills]\na = {}\n\n# what we allow\n[policy]\nsigned = "required"\n'
    for add in ({"b": Wanted(source="acme", version="^2")}, {"c": Wanted(source="acme")}):
        assert b"# what we allow\n" in edit(text, add, ["b"] if "c" in add else [])
    assert b"# the end\n" in edit(b'[skills]\n[skills.b]\nsource = "acme"\n# the end', {"b": Wanted()}, [])
