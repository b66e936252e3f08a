"""A person picks among many skills, by number, name or word; on a real terminal."""

from __future__ import annotations

import json

import pytest

from tests.support.cli import Shell, hidden_in

PROMPT = "empty to stop: "
MANY = [
    ("pdf", None, "Reads and writes PDF files."),
    ("access", "discord", "Who may post."),
    ("access", "telegram", "Who may write."),
    ("notes", "office", "Meeting notes, as PDF too."),
]


class Picker(Shell):
    """Runs the picker alone."""

    entry = "tests.support.picking"


@pytest.fixture
def picker(tmp_path):
    return Picker(tmp_path)


def picked(picker, *lines, rows=MANY, **more):
    done = picker.at_terminal(*map(json.dumps, rows), say=[(PROMPT, f"{line}\n") for line in lines], **more)
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
        ("PDF notes", [0, 3]),
        ("telegram:access", [2]),
        ("all", [0, 1, 2, 3]),
        ("", []),
        ("  ", []),
    ],
)
def test_numbers_names_and_all(picker, line, expected):
    assert picked(picker, line)[0] == expected


def test_words_narrow_the_list_and_numbers_stay(picker):
    found, done = picked(picker, "who may", "3")
    assert found == [2]
    assert done.out.count("Reads and writes") == 1
    assert picked(picker, "files pdf", "all")[0] == [0]
    assert picked(picker, "post", "write", "all")[0] == [0, 2]


@pytest.mark.parametrize("line", ["0", "5", "2-9", "3-2", "99999999999", "access", "nothing-of-the-kind"])
def test_what_means_nothing_or_several_picks_nothing(picker, line):
    found, done = picked(picker, line, "")
    assert found == []
    assert done.out.count(PROMPT) == 2


def test_a_keyboard_that_ends_picks_nothing(picker):
    done = picker.at_terminal(*map(json.dumps, MANY), say=[(PROMPT, "\x04")])
    assert done.out.rstrip().endswith("picked []")


def test_the_list_fits_the_screen(picker):
    rows = [(f"skill-{number}", None, "Does a great deal of " * 20) for number in range(100)]
    _, done = picked(picker, "", rows=rows, columns=60)
    lines = done.out.replace("\r", "").split("\n")
    shown = [line for line in lines if "skill-" in line]
    assert len(shown) < 24
    assert all(len(line) <= 60 for line in shown)
    assert f"and {100 - len(shown)} more" in done.out


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


def test_attack_a_description_that_steers_the_terminal(picker):
    rows = [("a", None, "x\x1b[2J\x1b]0;t\x07\u202ey"), ("b", "p\x1b[2J", "z")]
    _, done = picked(picker, "\x1b[31mzz", "", rows=rows)
    shown = done.raw.replace(b"^[[31mzz", b"")
    assert hidden_in(shown, on_terminal=True) == []
