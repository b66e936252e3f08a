"""The picker: by number, name or word on a plain terminal, by keys on the full screen."""

from __future__ import annotations

import json

import pytest

from skillhub.cli.picker import Offered
from skillhub.model.index import Release
from skillhub.model.lock import Lock
from tests.support.cli import Shell, hidden_in

PROMPT = "empty to stop: "
MANY = [
    ("pdf", "acrobat", "Reads and writes PDF files."),
    ("access", "discord", "Who may post."),
    ("notes", "office", "Meeting notes, as PDF too."),
    ("access", "telegram", "Who may write."),
]


class Picker(Shell):
    """Run the picker alone."""

    entry = "tests.support.picking"


@pytest.fixture
def picker(tmp_path):
    return Picker(tmp_path)


def picked(picker, *lines, rows=MANY, **more):
    say = [(PROMPT, f"{line}\n") for line in lines]
    done = picker.at_terminal(*map(json.dumps, rows), say=say, **{"TERM": "dumb", **more})
    assert done.status == 0, done.out
    return json.loads(done.out.rpartition("picked ")[2]), done


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("2", [1]),
        ("3 1", [2, 0]),
        ("1-3,4", [0, 1, 2, 3]),
        ("1 1", [0]),
        ("pdf", [0]),
        ("PDF notes", [0, 2]),
        ("telegram:access", [3]),
        ("all", [0, 1, 2, 3]),
        ("", []),
        ("  ", []),
    ],
)
def test_the_list_takes_numbers_names_and_all(picker, line, expected):
    assert picked(picker, line)[0] == expected


def test_words_filter_the_list_and_numbers_stay(picker):
    found, done = picked(picker, "who may", "4")
    assert found == [3]
    assert done.out.count("Reads and writes") == 1
    assert picked(picker, "files pdf", "all")[0] == [0]
    assert picked(picker, "post", "write", "all")[0] == [0, 3]


@pytest.mark.parametrize("line", ["0", "5", "2-9", "3-2", "99999999999", "access", "nothing-of-the-kind"])
def test_an_invalid_or_ambiguous_line_picks_nothing(picker, line):
    found, done = picked(picker, line, "")
    assert found == []
    assert done.out.count(PROMPT) == 2


def test_end_of_input_picks_nothing(picker):
    done = picker.at_terminal(*map(json.dumps, MANY), say=[(PROMPT, "\x04")], TERM="dumb")
    assert done.out.rstrip().endswith("picked []")


def test_the_list_fits_the_screen(picker):
    rows = [(f"skill-{number}", None, "Does a great deal of " * 20) for number in range(100)]
    _, done = picked(picker, "", rows=rows, columns=60)
    lines = done.out.replace("\r", "").split("\n")
    shown = [line for line in lines if "skill-" in line]
    assert len(shown) < 24
    assert all(len(line) <= 60 for line in shown)
    assert f"and {100 - len(shown)} more" in done.out
    found, done = picked(picker, "more", "more", f"{len(shown) + 1}", rows=rows, columns=60)
    assert found == [len(shown)]
    assert done.out.count("  1  skill-0 ") == 1
    assert f" {len(shown) + 1}  skill-{len(shown)} " in done.out
    assert "and 0 more" not in done.out
    assert picked(picker, *["more"] * 9, "all", rows=rows, columns=60)[0] == list(range(100))


def test_each_group_has_a_heading(picker):
    _, done = picked(picker, "")
    shown = [line.rstrip() for line in done.out.splitlines()]
    assert [each for each in shown if each.endswith(":")][:4] == ["acrobat:", "discord:", "office:", "telegram:"]


@pytest.mark.parametrize("environ", [{"SKILLHUB_PICKER": "list"}, {"WITHOUT_EXTRA": "1"}])
def test_a_numbered_list_replaces_the_screen_for_screen_readers(picker, environ):
    assert picked(picker, "2", TERM="xterm", **environ)[0] == [1]


@pytest.mark.parametrize("columns", [80, 100, 140])
@pytest.mark.parametrize("text", ["Does a great deal of ", "Überträgt Größen ", "読み書き", "🎉 "])
def test_every_skill_has_one_row_of_the_list(picker, columns, text):
    rows = [(f"skill-{number}", None, text * 30) for number in range(9)]
    rows.append(("a-name-as-long-as-names-may-be-and-longer-than-a-row-of-this-list", None, text * 30))
    _, done = picked(picker, "", rows=rows, columns=columns)
    listed = done.out.replace("\r", "").partition("numbers or")[0].rstrip().split("\n")
    assert len(listed) == len(rows)
    assert [line.split()[0] for line in listed] == [str(number + 1) for number in range(len(rows))]
    assert all(len(line) <= columns for line in listed)


def test_attack_a_description_does_not_steer_the_terminal(picker):
    rows = [("a", None, "x\x1b[2J\x1b]0;t\x07\u202ey"), ("b", "p\x1b[2J", "z")]
    _, done = picked(picker, "\x1b[31mzz", "", rows=rows)
    shown = done.raw.replace(b"^[[31mzz", b"")
    assert hidden_in(shown, on_terminal=True) == []


# The full screen.


def offered(rows=MANY):
    releases = [Release(name=n, plugin=p, path=f"x/{p}/{n}", description=d, url="u") for n, p, d in rows]
    return Offered(releases, Lock(), "")


@pytest.fixture
def screen():
    pytest.importorskip("prompt_toolkit")
    from skillhub.cli.screen import Screen

    return Screen(offered())


def keyed(screen, keys):
    """Return the rows picked with these keys."""
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    with create_pipe_input() as keyboard:
        keyboard.send_text(keys)
        return screen.run(keyboard, DummyOutput())


UP, DOWN, HOME, END, PAGE = "\x1b[A", "\x1b[B", "\x1b[H", "\x1b[F", "\x1b[6~"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("\r", [0]),
        (f"{DOWN}{DOWN}\r", [2]),
        (f"{DOWN}{UP}{UP}\r", [0]),
        (f"{END}\r", [3]),
        (f"{PAGE}{HOME}\r", [0]),
        ("\t\t\r", [0, 1]),
        (f"{END}\t{HOME}\t\r", [0, 3]),
        ("\t\x1b[A\t\r", [1]),
        ("\x01\r", [0, 1, 2, 3]),
        ("\x01\x01\x04", []),
        ("who may\r", [1]),
        (f"who may{DOWN}\r", [3]),
        ("pdf\x01\r", [0, 2]),
        ("pdf\x7f\x7f\x7fwrite\x01\r", [0, 3]),
        ("telegram\t\x15\t\r", [3]),
        ("nothing of the kind\r\x15\r", [0]),
        ("\x1b[200~who\nmay\x1b[201~\r", [1]),
        ("\x1bOP\x1b[C\x1b[D\x00\r", [0]),
        ("\x04", []),
    ],
)
def test_keys_select_skills_on_the_screen(screen, keys, expected):
    assert keyed(screen, keys) == expected


def test_ctrl_c_stops_the_command(screen):
    with pytest.raises(KeyboardInterrupt):
        keyed(screen, "\x03")


@pytest.mark.parametrize(("columns", "lines"), [(30, 4), (50, 7), (40, 8), (40, 12), (50, 24), (80, 24), (200, 60)])
@pytest.mark.parametrize("text", ["", "x", "Does a great deal of " * 50, "読み書き" * 100, "🎉 " * 300, "x" * 2000])
def test_the_screen_is_filled_and_no_line_is_too_long(screen, columns, lines, text):
    screen.offered = offered([(f"skill-{number}", f"p{number % 3}", text) for number in range(100)])
    screen.narrow("")
    for keys in (0, 1, 50, 10**9):
        screen.move(keys)
        drawn = [line for _, line in screen.draw(columns, lines)]
        assert len(drawn) == lines
        assert all(len(line) < columns for line in drawn)
        assert sum(line.startswith("> [") for line in drawn) == 1
        assert drawn[-1]
    screen.narrow("nothing of the kind")
    assert [line for _, line in screen.draw(columns, lines)][2].startswith("no skill matches"[: columns - 2])


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_the_bar_names_the_present_effect_of_esc(screen, columns):
    screen.narrow("")
    assert screen.draw(columns, 24)[-1][1].endswith(", esc stops")
    screen.narrow("a")
    assert screen.draw(columns, 24)[-1][1].endswith(", esc clears the filter")
    assert screen.draw(40, 24)[-1][1] == "esc clears the filter"


def test_the_columns_stay_aligned_if_a_name_has_no_room(screen):
    rows = [("a" * 60, None, "One."), ("b", None, "Two."), ("c" * 26, None, "Three.")]
    screen.offered = offered(rows)
    screen.narrow("")
    drawn = [line for _, line in screen.draw(50, 24)]
    assert len({line.index("| ") for line in drawn if line.startswith(("> [", "  ["))}) == 1
    assert any(f"{'c' * 20}" in line for line in drawn)


HOSTILE = [
    "x\n> [x] pdf  installed | Reads and writes PDF files.",
    "\r\x1b[2J\x1b[1;1H1 skill",
    "\x1b]0;title\x07\x1b]52;c;aGk=\x07",
    "\u202egnirts\u2066\u200b\u2028",
    " installed | pdf",
    "a" + "\u0301" * 400,
    "<b>bold</b><style fg='red'>x</style>",
    "[SetCursorPosition]",
    "\U000e0041\ufe0f\u3164" * 80,
    " " * 200 + "[x] pdf",
    "\x9b31m\x90q\x9c",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_attack_text_of_a_skill_draws_no_marks_of_the_picker(screen, text):
    """No hidden character, one row for each skill; text of the skill stands after the bar or in quotes."""
    screen.offered = offered([("a", text, text), ("b", f"p{text}", "b"), ("a", f"q{text}", text)])
    screen.narrow("")
    drawn = [line for _, line in screen.draw(80, 24)]
    assert hidden_in("\n".join(drawn).encode("utf-8", "surrogateescape")) == []
    rows = [line for line in drawn if line.startswith(("> [", "  ["))]
    assert len(rows) == 3
    assert all(line[3] == " " for line in rows)
    assert not any("[x]" in line.partition("| ")[0] for line in rows if "'" not in line)
    assert not any(line.partition("| ")[0].rstrip().endswith("installed") for line in rows if "'" not in line)
    assert len(drawn) == 24
