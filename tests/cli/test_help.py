"""Help, usage errors, versions and completion."""

from __future__ import annotations

import re
import subprocess

import pytest

from skillhub import __version__
from skillhub.cli.table import COMMANDS, top_help
from tests.support.cli import SECONDS

GROUPS = {
    "source": ("add", "list", "show", "remove"),
    "publisher": ("list", "trust", "remove"),
    "key": ("new", "list"),
    "bundle": ("export",),
    "profile": ("list", "save", "use", "remove"),
    "cache": ("info", "gc"),
    "self": ("uninstall",),
    "env": ("list", "set", "unset", "exec"),
    "registry": ("init", "add", "check", "serve"),
    "lock": ("import", "export", "fix", "merge"),
}
PLAIN = tuple(name for name in COMMANDS if name not in GROUPS)
LEAVES = [(name,) for name in PLAIN] + [(name, verb) for name, verbs in GROUPS.items() for verb in verbs]


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_command_has_help_with_an_example(shell, words):
    done = shell.run(*words, "--help")
    assert (done.status, done.err) == (0, "")
    assert f"Example: skillhub {' '.join(words)}" in done.out
    for flag in ("--json", "--global", "--project", "--offline", "--quiet", "--verbose"):
        assert flag in done.out
    is_reading = words[-1] in COMMANDS[words[0]].reads.split()
    assert [flag in done.out for flag in ("  -y, --yes", "  --accept KIND", "  --dry-run")] == [not is_reading] * 3


def test_a_command_that_only_reads_takes_the_flags_of_changes_too(shell):
    for words in (["list"], ["resolve", "a text"], ["source", "list"], ["cache", "info"]):
        assert shell.run(*words, "--yes", "--accept", "needs", "--dry-run").status == 0


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_lists_its_commands(shell, group):
    done = shell.run(group, "--help")
    assert done.status == 0
    assert all(verb in done.out for verb in GROUPS[group])
    assert re.search(f"^  Example: skillhub {group} ({'|'.join(GROUPS[group])}) ?", done.out, re.MULTILINE)


@pytest.mark.parametrize("words", [(), ("list",), ("install",), ("source",), ("source", "add"), ("env", "exec")])
def test_the_short_flag_shows_the_help_of_every_command(shell, words):
    done = shell.run(*words, "-h")
    assert (done.status, done.out) == (0, shell.run(*words, "--help").out)


@pytest.mark.parametrize("columns", [40, 60, 80])
@pytest.mark.parametrize("group", [*GROUPS, "mcp"])
def test_no_line_of_a_group_is_truncated(shell, group, columns):
    done = shell.run(group, "--help", COLUMNS=str(columns))
    assert "..." not in done.out.replace("[ARGS]...", "")
    assert max(map(len, done.out.splitlines())) <= columns


@pytest.mark.parametrize("words", [("list",), ("registry", "delegate"), ("search",)])
def test_help_fits_a_narrow_screen(shell, words):
    assert max(map(len, shell.run(*words, "--help", COLUMNS="40").out.splitlines())) <= 40
    assert shell.run(*words, "--help", COLUMNS="1").status == 0


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("help",)])
def test_the_program_lists_every_command(shell, words):
    done = shell.run(*words)
    assert (done.status, done.out) == (0, top_help())
    assert max(map(len, done.out.splitlines())) <= 80
    assert all(f"\n  {name} " in done.out for name in COMMANDS)


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_a_help_word_before_the_command_shows_its_help(shell, word):
    for words in (("install",), ("registry", "add")):
        assert shell.run(word, *words).out == shell.run(*words, "--help").out != top_help()


def test_no_arguments_show_the_help_with_a_usage_error(shell):
    assert (shell.run().status, shell.run().out) == (2, top_help())


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_printed_as_text_and_json(shell, flag):
    assert (shell.run(flag).status, shell.run(flag).out) == (0, f"skillhub {__version__}\n")
    assert shell.run(flag, "--json").json == shell.run("--json", flag).json == {"schema": 1, "version": __version__}
    assert shell.run(flag, "install").status == 2


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (("--json",), ("list",)),
        (("-q", "--json"), ("source", "list")),
        (("--project", "."), ("list", "--json")),
        (("--project=.", "--json"), ("validate", "nowhere")),
        (("--json", "-g"), ("show", "nope")),
        (("-q",), ("env", "exec", "--", "echo", "-q")),
    ],
)
def test_common_flags_before_the_command_work_like_those_after(shell, before, words):
    one, other = shell.run(*before, *words), shell.run(words[0], *before, *words[1:])
    if words[0] in ("source", "env"):
        other = shell.run(*words[:2], *before, *words[2:])
    assert (one.status, one.out, one.err) == (other.status, other.out, other.err)
    assert one.status != 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--json", "--nope", "list"), "no such option: --nope"),
        (("--json", "instal"), "no such command 'instal'"),
        (("-q", "--project"), "--project expects DIR"),
        (("--offline",), "expected a command after skillhub"),
    ],
)
def test_an_error_after_common_flags_is_reported(shell, words, message):
    done = shell.run(*words)
    assert (done.status, done.err.splitlines()[0]) == (2, f"error: {message} [usage]")


USAGE = [
    ("instal",),
    ("--nope",),
    ("list", "--nope"),
    ("list", "extra"),
    ("verify", "--", "--json"),
    ("show",),
    ("validate",),
    ("source",),
    ("source", "nope"),
    ("source", "add", "one"),
    ("install", "--mcp", "perhaps"),
    ("install", "--project"),
    ("registry", "serve", "x", "--port", "many"),
]


@pytest.mark.parametrize("words", USAGE, ids=" ".join)
def test_a_usage_error_has_a_message_and_a_hint_and_json(shell, words):
    done = shell.run(*words)
    if words != ("verify", "--", "--json"):  # after -- it is the name of a skill
        assert done.status == 2
        assert done.out == ""
        assert done.err.startswith("error: ")
        assert re.search("hint: ([a-z ]+: )?skillhub", done.err)
    else:
        assert (done.status, done.out) == (3, "")
    assert "Traceback" not in done.err
    if "--" not in words:
        found = shell.run(*words, "--json")
        if words != ("install", "--project"):  # here --json is the value of --project
            assert (found.status, found.error["code"], found.json["questions"]) == (2, "usage", [])


def test_a_misspelled_command_gives_a_suggestion(shell):
    assert "install" in shell.run("instal").err


def test_an_argument_after_two_dashes_is_no_flag(shell):
    done = shell.run("install", "--", "--all")
    assert (done.status, done.out) == (2, "")
    assert "--all" in done.err


COMPLETIONS = [
    ("skillhub in", "1", "install"),
    ("skillhub source a", "2", "add"),
    ("skillhub install --froz", "2", "--frozen"),
]


@pytest.mark.parametrize(("words", "at", "found"), COMPLETIONS)
def test_bash_completes_commands_and_options(shell, words, at, found):
    done = shell.run(_SKILLHUB_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=at)
    assert (done.status, done.out.split(), done.err) == (0, [found], "")


@pytest.mark.parametrize(("kind", "environ"), [("zsh", {}), ("fish", {"_TYPER_COMPLETE_FISH_ACTION": "get-args"})])
def test_zsh_and_fish_complete_commands(shell, kind, environ):
    done = shell.run(_SKILLHUB_COMPLETE=f"complete_{kind}", _TYPER_COMPLETE_ARGS="skillhub in", **environ)
    assert done.status == 0
    assert "install" in done.out
    assert "publisher" not in done.out


@pytest.mark.parametrize(("kind", "sign"), [("bash", "complete -o"), ("zsh", "#compdef"), ("fish", "--condition")])
def test_the_completion_of_a_named_shell_is_printed(shell, kind, sign):
    done = shell.run("--show-completion", kind)
    assert done.status == 0
    assert sign in done.out
    assert f"complete_{kind}" in done.out


def test_completion_for_an_unknown_shell_is_a_usage_error(shell):
    done = shell.run("--show-completion", "tcsh")
    assert (done.status, done.out) == (2, "")
    assert "bash, zsh, fish" in done.err


def test_bash_completes_with_the_printed_script(shell):
    script = shell.run("--show-completion", "bash").out
    shell.on_path()
    ask = "COMP_WORDS=(skillhub ver); COMP_CWORD=1; _skillhub_completion skillhub; echo ${COMPREPLY[*]}"
    words = ["bash", "-c", script + ask]
    done = subprocess.run(words, env=shell.environ, capture_output=True, text=True, timeout=SECONDS)
    assert (done.stdout.strip(), done.stderr) == ("verify", "")
