import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillhub.errors import FormatError, SkillhubError
from skillhub.formats.digest import Digest
from skillhub.formats.text import RESERVED_ALIASES
from skillhub.project.intent import Intent, ProposedSource, Wanted
from skillhub.project.project import edit, parse_intent
from tests.support.effort import at_most

ROOT = "sha256:" + "a" * 64
WHOLE = f"""\
[sources.acme]                # ours
url = "https://skills.acme.example"
root = "{ROOT}"

[skills]
gh-fix-ci = {{ source = "github", version = "^1.2" }}
pdf = "^2"
deploy = {{ path = "../skills/deploy" }}
any = {{}}

[install]
agents = ["claude-code", "codex"]
link = "copy"
"""


def test_complete_intent_is_parsed():
    assert parse_intent(WHOLE.encode()) == Intent(
        skills={
            "gh-fix-ci": Wanted(source="github", version="^1.2"),
            "pdf": Wanted(version="^2"),
            "deploy": Wanted(path="../skills/deploy"),
            "any": Wanted(),
        },
        sources={"acme": ProposedSource("https://skills.acme.example", Digest(ROOT))},
        agents=("claude-code", "codex"),
        link="copy",
        lists=True,
    )


def test_empty_file_is_an_empty_intent():
    assert parse_intent(b"") == parse_intent(b"# nothing yet\r\n") == Intent()


REFUSED = [
    ("[hooks]\nrun = 'x'", ": hooks", "unknown key"),
    ("[policy]\nsign = 'required'", ": policy.sign", "unknown key"),
    ("skill.a = '1'", ": skill", "unknown key"),
    ("[skills]\nA-b = '1'", ": skills.A-b", "is no name"),
    ("[skills]\n'../x' = '1'", ": skills.../x", "is no name"),
    ("[skills]\n'' = '1'", ": skills.", "is no name"),
    ("[skills]\n'a\\n' = '1'", ": skills.a\\n", "is no name"),
    ("[sources.https]\nurl = 'https://x'", ": sources.https", "is no alias of a source"),
    *(
        (f"[sources.{word}]\nurl = 'https://x'", f": sources.{word}", "is no alias")
        for word in sorted(RESERVED_ALIASES)
    ),
    *(
        (f"[skills]\na = {{ source = '{word}' }}", ": skills.a.source", "no source")
        for word in sorted(RESERVED_ALIASES)
    ),
    ("skills = 1", ": skills", "expected a table"),
    ("[[skills]]\na = '1'", ": skills", "expected a table"),
    ("[skills]\na = { git = 'https://x' }", ": skills.a", "expected a reference"),
    ("[skills]\na = { git = 'https://x/y', path = '../z' }", ": skills.a", "expected a reference"),
    ("[skills]\na = { git = 'https://x/y', rev = '--x' }", ": skills.a", "expected a reference"),
    ("[skills]\na = { git = 'https://x/y#z' }", ": skills.a", "not a path in a repository"),
    ("[skills]\na = { git = 'https://x/y', version = '1' }", ": skills.a", "expected one of source"),
    ("[skills]\na = { from = 'a/b', path = 'c' }", ": skills.a", "expected one of source"),
    ("[skills]\na = { from = './b' }", ": skills.a", "expected a place on the network"),
    ("[skills]\na = { rev = 'v1' }", ": skills.a", "a rev is allowed only with git"),
    ("[skills]\na = { plugin = 'p' }", ": skills.a", "a plugin is allowed only with"),
    ("[skills]\na = { from = 'a/b', plugin = 'P' }", ": skills.a.plugin", "is no plugin"),
    ("[skills]\na = { versoin = '1' }", ": skills.a.versoin", "unknown key"),
    ("[skills]\na.b.c = '1'", ": skills.a.b", "unknown key"),
    ("[skills]\na = 1", ": skills.a", "expected a string or a table"),
    ("[skills]\na = 1.2", ": skills.a", "expected a string or a table"),
    ("[skills]\na = 2026-01-02", ": skills.a", "expected a string or a table"),
    ("[skills]\na = true", ": skills.a", "expected a string or a table"),
    ("[skills]\na = ['1']", ": skills.a", "expected a string or a table"),
    ("[skills]\na = ''", ": skills.a", "expected a text that is not empty"),
    ("[skills]\na = ' '", ": skills.a", "version or a range"),
    ("[skills]\na = '1; rm'", ": skills.a", "version or a range"),
    ("[skills]\na = { version = 1.2 }", ": skills.a.version", "expected text"),
    ("[skills]\na = { version = 2026-01-02T03:04:05Z }", ": skills.a.version", "expected text"),
    ("[skills]\na = { version = 07:32:00 }", ": skills.a.version", "expected text"),
    ("[skills]\na = { version = inf }", ": skills.a.version", "expected text"),
    ("[skills]\na = { source = 'https' }", ": skills.a.source", "no source"),
    ("[skills]\na = { source = '../x' }", ": skills.a.source", "no source"),
    ("[skills]\na = { path = '' }", ": skills.a.path", "expected a text that is not empty"),
    ("[skills]\na = { path = './a', version = '1' }", ": skills.a", "is not allowed with"),
    ('[skills]\na = { path = "./a\\u0000" }', ": skills.a.path", "hidden"),
    ('[skills]\na = { path = "\\u001b[2J" }', ": skills.a.path", "hidden"),
    ("[skills]\na = { path = './a\u202e' }", ": skills.a.path", "hidden"),
    ("[sources.x]\nroot = 'sha256:0'", ": sources.x.url", "missing"),
    ("[sources.x]\nurl = 'https://x'\nroot = 'sha256:0'", ": sources.x.root", "64 lowercase hex"),
    ("[sources.x]\nurl = ['https://x']", ": sources.x.url", "expected text"),
    ("[sources.x]\nurl = 'https://x'\ntoken = 'y'", ": sources.x.token", "unknown key"),
    ("sources.x = 'https://x'", ": sources.x", "expected a table"),
    ("[install]\nagents = 'codex'", ": install.agents", "expected a list"),
    ("[install]\nagents = [1]", ": install.agents[0]", "expected text"),
    ("[install]\nagents = [['codex']]", ": install.agents[0]", "expected text"),
    ("[install]\nlink = 'hard'", ": install.link", '"copy" or "symlink"'),
    ("[install]\nlink = true", ": install.link", '"copy" or "symlink"'),
    ("[install]\nlink = ['copy']", ": install.link", '"copy" or "symlink"'),
    ("[install]\nmode = 'x'", ": install.mode", "unknown key"),
    ("install = []", ": install", "expected a table"),
]


@pytest.mark.parametrize(("text", "where", "message"), REFUSED, ids=[row[0][:40] for row in REFUSED])
def test_invalid_intent_is_refused_with_its_place(text, where, message):
    with pytest.raises(FormatError, match=message) as caught:
        parse_intent(text.encode())
    assert caught.value.where == "skillhub.toml" + where
    assert caught.value.message.isprintable()


def test_the_byte_order_mark_of_an_editor_is_named():
    with pytest.raises(FormatError, match="begins with a byte order mark") as caught:
        parse_intent(b"\xef\xbb\xbf[skills]\n")
    assert (caught.value.where, "without this mark" in caught.value.hint) == ("skillhub.toml:1", True)


@pytest.mark.parametrize(
    "data",
    [
        b"[skills]\na = '1'\na = '2'",
        b"[skills]\na = '1'\n[skills]\nb = '1'",
        b"[skills]\na.version = '1'\na = '2'",
        b"\xef\xbb\xbf[skills]\n",
        "[skills]\n".encode("utf-16"),
        b"# caf\xe9\n",
        b"[skills]\na = '\0'\n",
        b"[skills]\ra = '1'\r",
        b"[skills\n",
        b"x = 2026-13-45\n",
        b"<<<<<<< HEAD\n[skills]\n=======\n",
        b'{"skills": {}}',
        b"x = " + b"9" * 5000,
        b"x = " + b"[" * 5000,
        b"x = " + b"{a=" * 5000,
    ],
    ids=lambda data: repr(data[:24]),
)
def test_invalid_toml_is_refused(data):
    with pytest.raises(FormatError, match="not TOML") as caught:
        parse_intent(data)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 250


@pytest.mark.parametrize("marker", [b"<<<<<<< HEAD\n", b"||||||| b\r\n", b"=======\n", b">>>>>>>"])
def test_merge_conflict_is_reported_with_its_line(marker):
    with pytest.raises(FormatError, match="merge conflict") as caught:
        parse_intent(b"[skills]\n\n" + marker)
    assert caught.value.where == "skillhub.toml:3"
    assert caught.value.hint


@pytest.mark.parametrize("number", [b"0x" + b"f" * 5000, b"0b" + b"1" * 50_000])
def test_attack_a_number_too_long_to_print_is_refused(number):
    """Python limits the length of integers when it prints them, not when it reads hexadecimal ones."""
    with pytest.raises(FormatError, match="expected a string or a table, found"):
        parse_intent(b"[skills]\na = " + number)


@pytest.mark.parametrize("depth", range(150, 340, 10))
def test_attack_deeply_nested_lists_are_refused(depth):
    with pytest.raises(FormatError):
        parse_intent(b"[skills]\na = " + b"[" * depth + b"]" * depth)


@pytest.mark.parametrize(
    "data",
    [
        b"a." * 120_000 + b"a = 1",
        b"[" + b"a." * 120_000 + b"a]",
        b"x = [\n{" + b"a." * 50_000 + b"a = 1}]",
        b"# " + b"." * 101,
    ],
    ids=["key", "table", "inline", "comment"],
)
def test_attack_dotted_key_bomb_is_refused_fast(data):
    with at_most(1), pytest.raises(FormatError, match="at most 100 dots in a line") as caught:
        parse_intent(data)
    assert caught.value.where.startswith("skillhub.toml:")


@given(st.binary(max_size=100) | st.text(max_size=100).map(str.encode))
def test_any_bytes_of_an_intent_are_parsed_or_refused(data):
    with contextlib.suppress(SkillhubError):
        parse_intent(data)


words = st.sampled_from(
    [
        "[skills]",
        "[sources.x]",
        "[install]",
        "\n",
        " = ",
        "a",
        "url",
        "'1'",
        '"^1"',
        "{",
        "}",
        "[",
        "]",
        ".",
        ",",
        "version",
        "path",
        "source",
        "agents",
        "link",
        "1",
        "true",
        "2026-01-02",
        "'copy'",
        "#",
        "'''",
    ]
)


@given(st.lists(words, max_size=15).map("".join))
def test_any_words_of_an_intent_are_parsed_or_refused(text):
    with contextlib.suppress(SkillhubError):
        parse_intent(text.encode())


def test_intent_of_seven_thousand_skills_is_read_and_edited():
    lines = "".join(f'skill-{number:05d} = {{ source = "bench" }}\n' for number in range(7_000))
    text = f"[skills]\n{lines}".encode()
    added = {f"new-{number}": Wanted(source="bench") for number in range(3)}
    assert list(parse_intent(edit(text, added, ["skill-00000"])).skills) == [
        *added,
        *(f"skill-{number:05d}" for number in range(1, 7_000)),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[skills]\n" + b"\n" * 70_000, "expected at most 65536 lines"),
        (b"#\n" * 70_000, "expected at most 65536 lines"),
        (b"#" * (2 << 20) + b"#", "expected at most 2097152 bytes"),
    ],
)
def test_attack_an_oversized_intent_is_refused(text, message):
    with pytest.raises(FormatError, match=message):
        parse_intent(text)


@pytest.mark.parametrize(
    "text",
    [
        b"[skills]\n  a = {}\n",
        b"skills = {a = {}}\n",
        b"[skills.a]\n",
        b"skills.a = {}\n",
        b"[skills]\r\na = {}\r\n",
        b"[skills]\na = {}",
        b'[skills]\n# b = { source = "x" }\n[install]\nagents = ["all"]\n',
    ],
)
def test_new_lines_go_into_the_table_in_any_form(text):
    added = {name: Wanted(source="x") for name in "bcd"}
    edited = edit(text, added, ())
    assert parse_intent(edited).skills == {**parse_intent(text).skills, **added}
