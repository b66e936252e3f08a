import contextlib
import tomllib

import pytest
import tomlkit
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skillhub.errors import FormatError, SkillhubError
from skillhub.formats.toml import insert, others_toml, remove

PATH = ("mcp_servers", "ours")
OURS = {"command": "npx", "args": ["-y", "a b"], "env_vars": ["TOKEN"]}
BLOCK = '[mcp_servers.ours]\ncommand = "npx"\nargs = ["-y", "a b"]\nenv_vars = ["TOKEN"]'

GOLDEN = {
    "absent": ("", BLOCK + "\n"),
    "byte order mark only": ("\ufeff", "\ufeff" + BLOCK + "\n"),
    "one line end": ("\n", "\n\n" + BLOCK + "\n"),
    "settings": ('model = "x" # mine\n', 'model = "x" # mine\n\n' + BLOCK + "\n"),
    "no last line end": ("# none", "# none\n\n" + BLOCK),
    "CRLF": ("a = 1\r\n", ("a = 1\n\n" + BLOCK + "\n").replace("\n", "\r\n")),
    "other servers": (
        "[mcp_servers]\n[mcp_servers.b]\nurl = 'x'\n\n[mcp_servers.b.env]\nX = '1'\n",
        "[mcp_servers]\n[mcp_servers.b]\nurl = 'x'\n\n[mcp_servers.b.env]\nX = '1'\n\n" + BLOCK + "\n",
    ),
    "servers first": (
        "[mcp_servers.b]\nurl = 'x'\n[other]\nx = [\n  1, # ]\n]\n",
        "[mcp_servers.b]\nurl = 'x'\n[other]\nx = [\n  1, # ]\n]\n\n" + BLOCK + "\n",
    ),
    "dotted": ("mcp_servers.b.url = 'x'\n", "mcp_servers.b.url = 'x'\n\n" + BLOCK + "\n"),
}

INLINE = 'ours = {command = "npx", args = ["-y", "a b"], env_vars = ["TOKEN"]}'
GOLDEN |= {
    "inline": ("mcp_servers = {} # own\n[z]\n", f"mcp_servers = {{{INLINE}}} # own\n[z]\n"),
    "inline with another": (
        "\ufeffmcp_servers = { b = {url = 'x'} }\r\n",
        f"\ufeffmcp_servers = {{ b = {{url = 'x'}}, {INLINE}}}\r\n",
    ),
}


@pytest.mark.parametrize("style", GOLDEN)
def test_insert_and_remove_of_a_table_leave_every_byte(style):
    before, after = GOLDEN[style]
    assert insert(before, PATH, OURS, "f") == after
    assert remove(after, PATH, "f") == before


TRAPS = '''
title = "[mcp_servers.ours]"
text = """
[mcp_servers.ours] # "" \\"""
""" # [
raw = \'\'\'
[mcp_servers.ours]
\'\'\'
list = [
  "]", # [mcp_servers.ours]
  '[',
]
"mcp_servers.ours" = {x = "}"}
nan = nan

# above
'''


def test_look_alikes_of_the_table_stay():
    text = TRAPS + BLOCK + "\n\n# below\n[mcp_servers.ours.env]\nX = '1'\n\n[mcp_servers.ours-not]\nurl = 'x'\n"
    assert remove(text, PATH, "f") == TRAPS + "\n[mcp_servers.ours-not]\nurl = 'x'\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BLOCK + "\n# end\n", "# end\n"),
        ("a = 1\n" + BLOCK + "\n\n# note\n[b]\n", "a = 1\n\n# note\n[b]\n"),
        ("a = 1\n\n" + BLOCK + "\n\n# note\n[b]\n", "a = 1\n\n# note\n[b]\n"),
        ("[mcp_servers]\nours = {command = 'x'} # gone\nb = {url = 'y'}\n", "[mcp_servers]\nb = {url = 'y'}\n"),
        ("[mcp_servers]\nours.command = 'x'\nours.args = []\n", "[mcp_servers]\n"),
        ("mcp_servers.ours.url = 'x'\nz = 1\n", "z = 1\n"),
        ("mcp_servers = {ours = {url = 'x'}, b = {}} # own\n", "mcp_servers = { b = {}} # own\n"),
        (' [ mcp_servers . "ours" ] \nurl = "x"\n[b]\n[mcp_servers.ours.env]\nX = "1"', "[b]\n"),
    ],
)
def test_a_table_in_any_form_is_removed(before, after):
    assert remove(before, PATH, "f") == after


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = {ours = {}}\n",
        "mcp_servers = 1\n",
        "[[mcp_servers]]\n",
        "[mcp_servers.ours]\n",
        "[mcp_servers.ours.env]\nX = '1'\n",
        "[mcp_servers]\nours = {}\n",
        "mcp_servers.ours.url = 'x'\n",
        "[a]\n[a]\n",
        "a = \n",
        "a = 1\rb = 2",
        "a = " + "[" * 100_000,
        "a = " + "9" * 10_000,
        "<<<<<<< HEAD\n",
    ],
)
def test_insert_refuses_a_file_without_a_place_for_the_table(text):
    with pytest.raises(FormatError):
        insert(text, PATH, OURS, "f")


@pytest.mark.parametrize(
    "text", ["", "[mcp_servers]\n", "mcp_servers = 1", "mcp_servers = {b = {}}", "[", "[[mcp_servers]]"]
)
def test_remove_refuses_a_table_that_cannot_be_removed_alone(text):
    with pytest.raises(FormatError):
        remove(text, PATH, "f")


def test_an_error_names_its_line():
    with pytest.raises(FormatError, match="line 3"):
        others_toml("a = 1\n\na = 2\n", "f")


def test_written_strings_are_read_back_unchanged():
    table = {"command": 'a"\\\b\x1f é😀', "args": ["\t\n", "'''", '"""', "#", "="]}
    assert tomllib.loads(insert("", ("mcp_servers", "a b.c"), table, "f")) == {"mcp_servers": {"a b.c": table}}


LINES = st.sampled_from(
    [
        "",
        "# [mcp_servers.ours]",
        "  ",
        "[a]",
        "[mcp_servers]",
        "[mcp_servers.b]",
        " [ mcp_servers . 'c' ] # x",
        "[mcp_servers.b.env]",
        "[[list]]",
        "x = 1",
        "y = '''\n[mcp_servers.ours]\n'''",
        'z = """\n"" \\""" [\n"""',
        "w = [\n  [1], # ]\n]",
        "v = {a = 'x', b = [1]}",
        "mcp_servers.d.url = 'x'",
    ]
)


def is_toml(text):
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


@st.composite
def documents(draw):
    text, eol = "", draw(st.sampled_from(["\n", "\r\n"]))
    for line in draw(st.lists(LINES, max_size=8)):
        longer = text + line.replace("\n", eol) + eol
        text = longer if is_toml(longer) else text
    return text if draw(st.booleans()) else text.removesuffix(eol)


@settings(deadline=None)
@given(documents())
@example(" [ mcp_servers . 'c' ] # x\n[[list]]\n[mcp_servers.b]")  # tomlkit prints the list last
def test_insert_and_remove_leave_every_byte(text):
    try:
        after = insert(text, PATH, OURS, "f")
    except FormatError:
        assert not is_toml(text + "\n[mcp_servers.ours]\n")
        return
    assert after.startswith(text)
    if tomlkit.dumps(tomlkit.parse(after.removeprefix("\ufeff"))) != after.removeprefix("\ufeff"):
        assert "[[list]]" in text
        with pytest.raises(FormatError, match="edited in place"):
            remove(after, PATH, "f")
        return
    assert remove(after, PATH, "f") == text


@settings(deadline=None)
@given(documents())
def test_text_of_the_user_below_the_table_stays(text):
    with contextlib.suppress(FormatError):
        after = insert(text, PATH, OURS, "f")
        below = "# mine\n\n  # too\n[zz]\nx = 1 # here\n"
        left = remove(f"{after}\n{below}", PATH, "f")
        assert left.startswith(text) and left.endswith(below)


def test_a_file_that_tomlkit_would_reorder_stays_unchanged():
    text = "[mcp_servers.b]\nurl = 'x'\n[[list]]\na = 1\n[mcp_servers.ours]\ncommand = 'x'\n"
    with pytest.raises(FormatError, match="edited in place"):
        remove(text, PATH, "f")
    assert remove(text.replace("[[list]]", "[[skills.config]]"), PATH, "f").endswith("a = 1\n")


@settings(deadline=None)
@given(st.text(alphabet="[]{}\"'#=.\\ab1 \n\r") | st.text())
def test_any_text_raises_only_our_errors(text):
    for action in (lambda: insert(text, PATH, OURS, "f"), lambda: remove(text, PATH, "f")):
        with contextlib.suppress(SkillhubError):
            action()


def test_characters_that_toml_escapes_are_inserted_and_removed():
    table = {"command": "a\x7fb", "args": ["\x7f", "\U0001f600"]}
    text = insert("", ("mcp_servers", "x"), table, "f")
    assert tomllib.loads(text) == {"mcp_servers": {"x": table}}
    assert remove(text, ("mcp_servers", "x"), "f") == ""


@pytest.mark.parametrize("text", ['[servers.a]\nx = "1"\n[other]\n', 'servers = {a = {x = "1"}}\n[other]\n'])
def test_attack_a_file_of_many_dotted_keys_stays_unchanged(text):
    def edited(count):
        dotted = text + "".join(f"a.b{number} = 1\n" for number in range(count))
        return insert(remove(dotted, ("servers", "a"), "x"), ("servers", "b"), {"y": "1"}, "x")

    assert "b199" in edited(200)
    with pytest.raises(FormatError, match="edited in place"):
        edited(201)
