"""Closed, full or narrow streams and interrupts: skillhub reports them and leaves no partial change."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from skillhub.cli.terminal import Terminal
from tests.support.cli import SECONDS
from tests.support.gitrepos import SKILL, Repo


def bash(shell, line, **environ):
    """Run a line of bash in which ``S`` is skillhub and ``N`` is skillhub in a new interpreter."""
    programs = "".join(
        f'{name}() {{ {shlex.join(words)} "$@"; }}; '
        for name, words in (("S", shell.words()), ("N", shell.words_anew()))
    )
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {programs}{line}"],
        cwd=shell.project,
        env=shell.having(environ),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )


# An answer without work, a command that may be idle, an error in JSON, one of the words, and a command with checks.
LINES = ["--version", "list", "show nope --json", "verify --nope", "doctor"]


@pytest.mark.parametrize("words", LINES)
def test_a_new_interpreter_gives_the_same_output_and_status(installed, words):
    assert installed.run_anew(*words.split()) == installed.run(*words.split())


@pytest.mark.parametrize(
    "words", ["S list", "N list --json", "N --help", "S install --help", "S doctor", "S show release-notes"]
)
def test_a_full_disk_under_the_output_is_reported(installed, words):
    done = bash(installed, f"{words} >/dev/full")
    assert done.returncode == 7
    says = "error: cannot write the output: No space left on device [state]\n  hint: make room"
    assert says in done.stderr and not done.stderr.startswith("\n")
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_a_result_and_its_messages_go_into_one_pipe_in_their_order(shell):
    assert shell.run("install", "github:release-notes", "--yes").status == 0
    for _ in range(3):  # the last output is remembered, if the disk's clock has moved on
        assert bash(shell, "sleep 1.1; N sync 2>&1").stdout.endswith("release-notes\nalready up to date\n")


def test_a_full_disk_under_long_output_is_reported(shell):
    for number in range(60):
        shell.skill(f"project/.agents/skills/skill-{number}")
    done = bash(shell, "S list --json >/dev/full")
    assert done.returncode == 7
    assert "cannot write the output" in done.stderr


@pytest.mark.parametrize("words", ["S doctor", "N show nope"])
def test_unwritable_errors_give_exit_status_7(installed, words):
    assert bash(installed, f"{words} 2>/dev/full").returncode == 7


@pytest.mark.parametrize("words", ["update --check", "update --dry-run", "audit", "diff deploy"])
def test_commands_leave_no_temporary_files(shell, tmp_path, words):
    repo = Repo(tmp_path / "repository")
    repo.commit({"SKILL.md": SKILL})
    assert shell.run("install", f"git+{repo.url}", "--yes", "--allow-unsigned").status == 0
    done = bash(shell, f"S {words}")
    assert done.returncode == 0, done.stderr
    assert os.listdir(shell.environ["TMPDIR"]) == []


@pytest.mark.parametrize("words", ["list --json", "--help"])
def test_a_reader_that_stops_early_is_no_error(installed, words):
    done = bash(installed, f"N {words} | head -1")
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


# Short output is written at the end of the command, long output while Typer runs the command.
@pytest.mark.parametrize("words", ["show release-notes --json", "show ./long --json"])
def test_a_closed_pipe_ends_the_command_with_sigpipe(installed, words):
    installed.skill("project/long", **{f"{name}.md": "a\n" for name in range(200)})
    done = bash(installed, f"exec 3> >(:); wait $!; N {words} >&3")
    assert (done.returncode, done.stderr) == (141, "")


CLOSED = [
    ("show github:gh-fix-ci", "<&-", 0),
    ("list", ">&-", 0),
    ("--help", ">&-", 0),
    ("show nope", "2>&-", 3),
    ("install ./x --json", "<&- >&- 2>&-", 3),
]


@pytest.mark.parametrize(("words", "closed", "status"), CLOSED)
def test_closed_streams_give_a_status_without_traceback(installed, words, closed, status):
    done = bash(installed, f"N {words} {closed}")
    assert done.returncode == status
    assert "Traceback" not in done.stderr + done.stdout


def test_no_file_takes_the_descriptor_of_a_closed_stream(shell):
    done = bash(shell, "N install github:release-notes --yes <&- >&- 2>&-")
    assert done.returncode == 0
    assert shell.run("verify").status == 0


@pytest.mark.parametrize("environ", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0"}])
def test_an_ascii_locale_is_no_error(shell, environ):
    """One new interpreter runs all lines, since streams get their encoding at its start."""
    shell.skill("project/.agents/skills/umlaut", head='license: "Größe 日本 😀"\n')
    text = "---\nname: umlaut\ndescription: Größe 日本 😀.\n---\n"
    shell.write("project/.agents/skills/umlaut/SKILL.md", text)
    lines = [["list", "--json"], ["list"], ["source", "add", "--help"], ["verify"], ["show", "Gr\u00f6\u00dfe"]]
    code = f"from skillhub.cli.main import main; print(ascii([main(each) for each in {lines!a}]))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=shell.project,
        env=shell.having({"LANG": None, **environ}),
        capture_output=True,
        timeout=SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert done.stdout.splitlines()[-1] == b"[0, 0, 0, 0, 2]", done.stderr
    answer, _ = json.JSONDecoder().raw_decode(done.stdout.decode())
    assert answer["skills"][0]["description"] == "Größe 日本 😀."


def test_a_very_narrow_terminal_gives_no_traceback(installed):
    for words in (("list",), ("doctor",), ("show", "release-notes"), ("install", "./nope")):
        done = installed.at_terminal(*words, columns=20)
        assert "Traceback" not in done.out
        assert done.status in (0, 1, 3)


def test_a_table_fits_the_terminal(installed):
    done = installed.at_terminal("list", columns=80, NO_COLOR="1")
    assert all(len(line) <= 80 for line in done.out.splitlines())
    assert "gh-fix-ci" in done.out


COLOURLESS = [{"NO_COLOR": "1"}, {"TERM": "dumb"}]


@pytest.mark.parametrize("environ", COLOURLESS, ids=str)
def test_no_colours_with_settings_against_them(installed, environ):
    assert "\x1b[" in installed.at_terminal("doctor").out
    assert "\x1b" not in installed.at_terminal("doctor", **environ).out


def test_no_colours_are_printed_off_a_terminal(installed):
    done = installed.run("doctor", TERM="xterm")
    assert "\x1b" not in done.out + done.err


def test_no_question_is_asked_in_ci_even_on_a_terminal(shell):
    before = shell.files()
    done = shell.at_terminal("install", "github:release-notes", CI="true")
    assert done.status == 6
    assert "the question was not answered" in done.out
    assert shell.files() == before


def test_quiet_suppresses_messages_and_not_the_result(installed, shell):
    assert shell.run("list", "--quiet").err == ""
    assert installed.run("list", "--quiet").out == installed.run("list").out
    assert "not-found" in shell.run("show", "nope", "--quiet").err


BROKEN = "import os\n\n\ndef broken():\n    raise RuntimeError('sesame\\x1b[31m')\n\n\nos.getcwd = broken\n"


def test_an_internal_error_names_the_issue_tracker(shell):
    shell.write("bug/sitecustomize.py", BROKEN)
    path = f"{shell.folder}/bug{os.pathsep}{shell.environ['PYTHONPATH']}"
    done = shell.run("list", "--json", PYTHONPATH=path)
    assert done.status == 70
    assert "https://github.com/skillhub/skillhub/issues" in done.error["message"]
    assert "issues" in done.err
    assert "Traceback" not in done.err
    traced = shell.run("list", PYTHONPATH=path, SKILLHUB_TRACEBACK="1")
    assert (traced.status, traced.out) == (70, "")
    assert "in broken" in traced.err
    # The message of an exception may contain a secret or control characters.
    assert "\x1b" not in traced.err
    assert "RuntimeError: sesame" not in traced.err


def test_ctrl_c_at_a_question_changes_nothing(shell):
    before = shell.files()
    done = shell.at_terminal("install", "github:release-notes", say=[("[N]o: ", "\x03")])
    assert done.status == 130
    assert "Traceback" not in done.out
    assert shell.files() == before


@pytest.mark.parametrize(
    ("words", "prompt", "typed"),
    [
        (["pick"], "to stop: ", "\x03"),
        (["key", "new"], "for none): ", "\x03"),
        (["key", "new"], "for none): ", "\x04"),
        (["install", "github:gh-fix-ci"], "[N]o: ", "\x03"),
    ],
)
def test_ctrl_c_at_a_prompt_prints_one_line(shell, words, prompt, typed):
    before = shell.files()
    done = shell.at_terminal(*words, say=[(prompt, typed)], TERM="dumb")
    assert done.status == 130
    assert done.out.partition(prompt)[2].replace("^C", "").split("\r\n") == ["", "skillhub: stopped", ""]
    assert shell.files() == before


def test_an_interrupted_install_is_completed_by_sync(shell):
    for wait in (0.02, 0.05, 0.1):
        process = shell.start("install", "github:release-notes", "--yes")
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
        # On a busy machine Python itself was interrupted, before it ran code of skillhub.
        assert process.returncode in (0, 130, -signal.SIGINT) or b"skillhub" not in err
        if process.returncode == 130:
            assert b"Traceback" not in err
        assert shell.run("sync").status == 0
        assert shell.run("verify").status == 0


def test_ctrl_c_stops_a_server(offered):
    process, url = offered.serve(offered.folder / "registry")
    with urllib.request.urlopen(f"{url}/metadata/1.root.json", timeout=SECONDS) as answer:
        assert answer.status == 200
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert b"Traceback" not in err


def test_a_umask_of_zero_makes_no_file_writable_by_others(shell):
    before = os.umask(0)
    try:
        for words in (("install", "github:code-review", "--yes"), ("list",)):
            assert shell.run(*words, stdin=b"").status == 0  # as a fork: it changes its umask
    finally:
        os.umask(before)
    assert not (shell.project / "skillhub.lock").stat().st_mode & 0o022


def test_attack_a_value_that_is_no_json_prints_no_partial_document(capsys):
    with pytest.raises(TypeError):
        Terminal().json({"skills": [{"name": "one"}], "more": [{"name": object()}]})
    assert capsys.readouterr().out == ""
