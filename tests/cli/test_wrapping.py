"""A terminal gets line breaks between words only; other outputs get unbroken lines."""

from __future__ import annotations

import os
import re
import sys

import pytest

from skillhub.cli.terminal import _COMMAND, _COPIED, _HINT, rows_of
from tests.support.cli import COLOURS

COLUMNS = 60


def lines(done):
    # Erased text is dropped: a command that takes a second draws its progress.
    text = re.sub(r".*\r\x1b\[K", "", done.out.replace("\r\n", "\n"))
    for code in COLOURS:
        text = text.replace(code, "")
    return text.split("\n")


def too_wide(done, columns=COLUMNS):
    """Return the lines that a terminal breaks although they have a blank to break at, less commands to copy.

    Several blanks lead to a column.
    """
    wide = [line for line in lines(done) if len(line) > columns and re.search(r"\S \S", line)]
    return [line for line in wide if not line.lstrip().startswith("skillhub ")]


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "show github:gh-fix-ci",
        "search review",
        "doctor",
        "audit",
        "verify nope",
        "source show github",
        "install nope:nope",
        "install https://127.0.0.1:1/a-path",
        "install --dry-run github:gh-fix-ci",
        "update --check",
    ],
)
def test_lines_break_between_words(installed, words):
    done = installed.at_terminal(*words.split(), columns=COLUMNS)
    assert too_wide(done) == []


@pytest.fixture
def with_gh(shell):
    """A machine with the program that gh-fix-ci needs; without it, its variable is not asked for."""
    program = shell.write("programs/gh", "#!/bin/sh\n")
    program.chmod(0o755)
    shell.environ["PATH"] = f"{program.parent}{os.pathsep}{shell.environ['PATH']}"
    return shell


def test_questions_break_between_words(with_gh):
    say = [("[N]o: ", "y\n"), ("(not shown, empty for none): ", "\n")]
    done = with_gh.at_terminal("install", "github:gh-fix-ci", say=say, columns=COLUMNS)
    assert done.status == 6
    assert too_wide(done) == []


def test_a_secret_prompt_fits_a_narrow_screen(with_gh):
    say = [("[N]o: ", "y\n"), ("for none): ", "\n")]
    done = with_gh.at_terminal("install", "github:gh-fix-ci", say=say, columns=40)
    assert done.status == 6
    assert too_wide(done, 40) == []


@pytest.mark.parametrize("columns", [40, 60, 80, 100])
def test_values_without_room_in_their_column_stay_in_it(installed, columns):
    shown = lines(installed.at_terminal("show", "release-notes", columns=columns))
    start, end = (next(i for i, row in enumerate(shown) if row.startswith(label)) for label in ("  source", "  - "))
    rows = [(row[:16].rstrip(), row[16:]) for row in shown[start:end]]
    assert all(value and not value.startswith(" ") for _, value in rows)
    assert [value for label, value in rows if label == "  tree"] == [
        installed.run("show", "release-notes", "--json").json["tree"]
    ]


def test_the_name_of_an_archive_is_shortened_on_a_narrow_screen_only(shell):
    words, no = ("install", "github:release-notes"), [("[N]o: ", "n\n")]
    whole = shell.run("show", words[1], "--json").json["url"]
    assert max(map(len, lines(shell.at_terminal(*words, say=no)))) <= 80
    for done in (
        shell.at_terminal(*words, "--verbose", say=no),
        shell.at_terminal(*words, say=no, columns=200),
        shell.run("show", words[1], "--verbose"),
    ):
        assert whole in "".join(map(str.strip, lines(done)))


def test_the_picker_breaks_between_words(shell):
    done = shell.at_terminal("pick", say=[("empty to stop: ", "\n")], columns=COLUMNS, TERM="dumb")
    assert too_wide(done) == []


def test_the_choices_for_edits_fit_a_line(shell):
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    (shell.project / ".agents/skills/release-notes/SKILL.md").write_text("mine")
    done = shell.at_terminal("sync", say=[("[K]eep this skill unchanged: ", "k\n")])
    assert any("[s]ave" in line and "[K]eep" in line for line in lines(done))
    assert too_wide(done, 80) == []


def test_a_digest_stays_unbroken_and_no_text_is_lost(installed):
    plain = installed.run("show", "release-notes").out
    done = installed.at_terminal("show", "release-notes", columns=COLUMNS)
    digest = re.search(r"sha256:[0-9a-f]{64}", plain)[0]
    assert any(digest in line for line in lines(done))
    words = [[each for each in text.split() if each != "|"] for text in (plain, " ".join(lines(done)))]
    assert "".join(words[0]) == "".join(words[1])


DIGEST = f"sha256:{'0123456789abcdef' * 4}"


@pytest.mark.parametrize("kind", ["key", "certificate", "sigstore"])
@pytest.mark.parametrize("columns", [40, 60, 80, 100])
def test_the_fingerprint_of_a_signer_in_a_question_stays_whole(kind, columns):
    text = f"not signed -> signed by {kind}:{DIGEST}:root of acme ({DIGEST})"
    rows = rows_of("  ", text, " " * 8, columns, _COPIED)
    assert "".join(map(str.strip, rows)).replace(" ", "") == text.replace(" ", "")
    assert [DIGEST in row for row in rows].count(True) == 2
    assert [row for row in rows if len(row) > columns and row.strip("(): ") != DIGEST] == []


@pytest.mark.parametrize(
    "word", [f"{'x' * 30}:{DIGEST}", f"{DIGEST}:{'y' * 90}", f"{DIGEST}x", f"({DIGEST}){'z' * 30}"]
)
def test_attack_a_word_with_a_digest_in_it_is_cut_like_any_other(word):
    rows = rows_of("  ", f"its author says {word}", " " * 8, COLUMNS, _COPIED)
    assert [row for row in rows if len(row) > COLUMNS and row.strip() != DIGEST] == []


def test_the_text_of_load_is_not_wrapped(installed):
    plain = installed.run("load", "release-notes").out
    done = installed.at_terminal("load", "release-notes", columns=COLUMNS)
    assert max(map(len, plain.splitlines())) > COLUMNS
    assert "\n".join(plain.splitlines()) in "\n".join(lines(done))


def test_a_command_to_copy_stays_unbroken(shell):
    shell.skill("project/mine")
    shell.write("home/.gitconfig", "[user]\n\tname = me\n")
    assert shell.run("key", "new").status == 0
    assert shell.run("sign", "./mine").status == 0
    command = f"skillhub publisher trust me --key {shell.hub}/state/keys/default.pub.pem"
    done = shell.at_terminal("install", "./mine", say=[("[N]o: ", "n\n")], columns=len(command) + 4)
    assert command in [line.strip() for line in lines(done)]
    done = shell.at_terminal("install", "./mine", "--yes", columns=len(command) + 4)
    assert command in [line.strip() for line in lines(done)]


def test_a_command_in_a_hint_stays_unbroken_before_what_it_does(shell):
    assert shell.run("registry", "init", shell.folder / "mine").status == 0
    for words, command, after in (
        (("registry", "init", shell.folder / "mine"), f"skillhub registry check {shell.folder}/mine", "checks it"),
        (("show", "release-notez-of-the-week"), "skillhub search release-notez-of-the-week", "finds similar names"),
    ):
        assert shell.run(*words, "--json").error["hint"].endswith(f"{command} {after}")
        shown = [line.strip() for line in lines(shell.at_terminal(*words, columns=40))]
        assert shown[shown.index(command) + 1] == after


def test_the_commands_that_show_and_change_a_pin_stay_unbroken(shell):
    assert shell.run("install", "github:systematic-debugging@1.0.0", "--yes").status == 0
    shown = [line.strip() for line in lines(shell.at_terminal("audit", columns=60))]
    assert "skillhub install github:systematic-debugging@1.1.0" in shown
    shown = [line.strip() for line in lines(shell.at_terminal("update", "systematic-debugging", columns=60))]
    assert "skillhub install 'github:systematic-debugging@>=1.0.0'" in shown


def test_the_command_that_applies_saved_edits_stays_unbroken(shell):
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    (shell.project / ".agents/skills/release-notes/SKILL.md").write_text("mine")
    shown = [line.strip() for line in lines(shell.at_terminal("sync", "--yes", columns=60))]
    apply = "patch -p1 -d .agents/skills/release-notes < skillhub-edits/release-notes-1.patch"
    assert shown[shown.index(apply) + 1] == "then: skillhub patch release-notes"


def test_a_hint_that_begins_with_the_program_is_wrapped_like_any_other():
    text = "hint: skillhub writes nothing into .env files: remove the link that leads there, skillhub.toml stays"
    rows = rows_of("  ", text, " " * 8, 40, _COMMAND, _HINT)
    assert max(map(len, rows)) <= 40
    assert " ".join(map(str.strip, rows)) == text


def test_a_path_to_copy_stays_unbroken(installed):
    shown = lines(installed.at_terminal("cache", "info", columns=40))
    places = installed.run("cache", "info", "--json").json["places"]
    assert places and all(f"  {place['path']}" in shown for place in places)


@pytest.mark.parametrize("words", ["source list"])
@pytest.mark.parametrize("columns", [40, 52, 80, 100, 140, 200])
def test_a_table_fits_the_screen_and_loses_no_text(installed, words, columns):
    shown = lines(installed.at_terminal(*words.split(), columns=columns))
    assert max(len(row) for row in shown if not re.search("[0-9a-f]{64}", row)) <= columns
    text = "".join("".join(shown).split())
    assert [
        word for word in installed.run(*words.split()).out.split() if word not in text and not word.isupper()
    ] == []


@pytest.mark.parametrize("columns", [30, 50, 80, 200])
@pytest.mark.parametrize("words", ["search review", "search fix", "search --limit 3 the"])
def test_search_results_fit_a_screen_with_names_and_sources(installed, words, columns):
    shown = [line for line in lines(installed.at_terminal(*words.split(), columns=columns)) if line]
    assert len(shown) < 24
    assert max(len(row) for row in shown if "skillhub show" not in row) <= columns
    text = " ".join(shown)
    hits = installed.run(*words.split(), "--json").json["hits"]
    assert hits and [hit for hit in hits if hit["name"] not in text or hit.get("source", "project") not in text] == []


def test_a_row_of_the_list_has_one_or_two_lines(shell):
    for name in ("one", "two"):
        shell.skill(f"project/.agents/skills/{name}", description="x")
    description = "Reads each file of the folder and says which of them nobody has looked at since the last release."
    path = shell.project / ".agents/skills/one/SKILL.md"
    path.write_text(path.read_text().replace("Does what one does.", description))
    rows = [line for line in lines(shell.at_terminal("list", columns=100)) if line]
    assert [row.split()[0] for row in rows] == ["NAME", "one", "two"]
    first = rows[1][rows[0].index("DESCRIPTION") :]
    assert first.endswith("…") and description.startswith(first[:-1])
    rows = [line for line in lines(shell.at_terminal("list", columns=60)) if line]
    assert rows[0].split() == ["NAME", "VERSION", "SOURCE", "STATE", "SIGNED", "BY"]
    assert [rows[number].index("unsigned") for number in (1, 3)] == [rows[0].index("SIGNED BY")] * 2
    assert len(rows) == 5 and rows[2].startswith("  Reads each") and rows[2].endswith("…")
    rows = [line for line in lines(shell.at_terminal("list", columns=40)) if line]
    assert rows[0] == "NAME  VERSION  SOURCE  STATE  SIGNED BY"
    assert rows[1].startswith("one  -  (unmanaged)  enabled")


def test_attack_a_description_forges_no_row_of_a_table(shell):
    description = "x " * 60 + "other  1.0.0  github  enabled  acme: skillhub install evil " + "y" * 300
    shell.skill("project/.agents/skills/one")
    path = shell.project / ".agents/skills/one/SKILL.md"
    path.write_text(path.read_text().replace("Does what one does.", f'"{description}"'))
    for columns in (40, 80, 120):
        rows = [line for line in lines(shell.at_terminal("list", columns=columns)) if line]
        assert max(map(len, rows)) <= columns
        assert [line for line in rows if not line.startswith((" ", "NAME", "one"))] == []


def test_a_table_does_not_cut_names(shell):
    name = "a-name-that-is-longer-than-others-have"
    shell.skill(f"project/.agents/skills/{name}")
    assert name in " ".join(lines(shell.at_terminal("list", columns=COLUMNS))).split()


def test_the_end_of_input_ends_the_line_of_the_prompt(shell):
    done = shell.at_terminal("install", "github:release-notes", say=[("[N]o: ", "\x04")])
    assert done.status == 6
    assert "[N]o: \r\n" in done.out
    done = shell.at_terminal("pick", say=[("empty to stop: ", "\x04")], TERM="dumb")
    assert "empty to stop: \r\n" in done.out


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_a_file_of_a_skill_is_broken_between_words(shell):
    shell.skill("src/long", **{"notes.txt": "  abcdefgh" * 20 + "\n" + "x" * 100 + "\n"})
    done = shell.at_terminal("show", "../src/long", "--file", "notes.txt", columns=COLUMNS, PAGER="cat")
    rows = [each.removeprefix("| ") for each in lines(done) if each.startswith("| ")]
    assert max(map(len, rows)) <= COLUMNS - 2
    assert " ".join(rows[:-3]).split() == ["1", *["abcdefgh"] * 20]
    assert "".join(rows[-2:]) == "x" * 100
