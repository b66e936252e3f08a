"""Completion: the words offered at Tab, their cost, and the escape of names from outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from hashlib import sha256

import pytest

from skillhub.cli.complete import answer
from tests.support.bare import run_bare
from tests.support.cli import REPO

HOSTILE = (
    "$(touch RAN)", "`touch RAN`", "; touch RAN", "a b", "*", "\x1b[2J", "\u202ex", "--yes", "-g", "a\nb", "'x", '"x',
    "x)) ; touch RAN ((", "x:y", "../x", "~", "", "pdf\u0430", "{a,b}", "!!", "x\\", "A", "a" * 65, "$HOME", "&",
)  # fmt: skip


def lock(shell, *names):
    shell.write("project/skillhub.lock", json.dumps({"version": 1, "skills": {each: {} for each in names}}))
    return shell


@pytest.fixture
def tab(shell, monkeypatch):
    """Return a function that lists the completions after these words, the last of which is incomplete."""
    monkeypatch.chdir(shell.project)

    def offered(*words, shell_name="bash"):
        line = " ".join(["skillhub", *words])
        given = {"COMP_WORDS": "\n".join(["skillhub", *words]), "COMP_CWORD": str(len(words))}
        environ = {**shell.environ, **given, "_TYPER_COMPLETE_ARGS": line}
        text, _ = answer({**environ, "_SKILLHUB_COMPLETE": f"complete_{shell_name}"})
        return text.split("\n") if text else []

    return offered


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (["rem"], ["remove"]),
        (["show", ""], ["notes", "pdf"]),
        (["update", "p"], ["pdf"]),
        (["--json", "disable", "n"], ["notes"]),
        (["audit", "pdf", "n"], ["notes"]),
        (["source", "re"], ["refresh", "remove"]),
        (["source", "show", ""], ["github", "team"]),
        (["install", "--source"], []),
        (["install", "--agent", "claude-c"], ["claude-code"]),
        (["install", "--agent", "=", "claude-c"], ["claude-code"]),
        (["catalog", "--host", "claude"], ["claude-code"]),
        (["install", "--mcp", ""], ["ask", "configure", "skip"]),
        (["install", "--allow"], ["--allow-unsigned"]),
        (["list", "--dry"], ["--dry-run"]),
        (["--vers"], ["--version"]),
        (["nothing", ""], []),
        (["install", ""], []),
        (["profile", "use", ""], ["review"]),
        (["show", "-g", ""], []),
        (["show", "--project", "/", ""], []),
    ],
)
def test_completion_offers_commands_options_and_names(shell, tab, words, some):
    document = {"skills": {"pdf": {}, "notes": {}}, "sources": {"team": {}}}
    shell.write("project/skillhub.lock", json.dumps(document))
    rows = [{"name": name, "project": str(at)} for name, at in (("review", shell.project), ("other", shell.home))]
    shell.write("hub/state/profiles.json", json.dumps({"profiles": [*rows, {**rows[0], "name": "$(x)"}]}))
    assert sorted(tab(*words)) == some


def test_the_skills_that_a_source_was_seen_to_offer_are_offered_behind_its_alias(shell, tab):
    assert tab("install", "github", ":", "rel") == ["release-notes"]  # bash splits at the colon
    assert "release-notes" in tab("show", "github", ":")
    sources = {
        "acme": {"url": "https://acme.invalid", "root": f"sha256:{'1' * 64}"},
        "docs": {"url": "https://d.invalid"},
    }
    shell.write("hub/state/sources.json", json.dumps({"sources": sources}))
    rows = json.dumps({"skills": [{"name": name} for name in ("pdf", *HOSTILE)]})
    for path in (f"tuf/{'1' * 64}/targets/index.json", f"listings/{sha256(b'https://d.invalid').hexdigest()}.json"):
        shell.write(f"hub/state/{path}", rows)
    for alias in sources:
        assert tab("use", alias, ":") == ["pdf"]
        assert tab("install", f"{alias}:p", shell_name="zsh") == [f"_arguments '*: :((\"{alias}\\\\:pdf\"))'"]
        assert tab("install", f"{alias}:p", shell_name="fish") == [f"{alias}:pdf\t "]
    for words in (("other", ":"), ("https", ":", "//d"), (":",), ("..", ":", "x")):
        assert tab("install", *words) == []


def test_profiles_are_offered_in_the_order_of_their_file(shell, tab):
    names = ["review", "write", "audit", "release", "triage", "deploy", "meet", "learn"]
    rows = [{"name": name, "project": str(shell.project)} for name in names]
    shell.write("hub/state/profiles.json", json.dumps({"profiles": rows}))
    assert tab("profile", "use", "") == names


def test_completion_works_in_a_subfolder_and_for_the_user(shell, tab, monkeypatch):
    lock(shell, "pdf")
    shell.write("hub/state/skillhub.lock", json.dumps({"skills": {"mine": {}}}))
    (shell.project / "a/b").mkdir(parents=True)
    monkeypatch.chdir(shell.project / "a/b")
    assert (tab("show", ""), tab("show", "-g", "")) == (["pdf"], ["mine"])


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b"\xff", b'{"skills": []}', b'{"skills": 1}', b"[" * 100_000, None]
)
def test_attack_a_damaged_lock_completes_nothing(shell, tab, data, capfd):
    path = shell.project / "skillhub.lock"
    os.mkfifo(path) if data is None else path.write_bytes(data)
    assert tab("show", "") == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish", "powershell"])
def test_attack_a_hostile_name_in_a_lock_is_not_offered(shell, tab, shell_name):
    lock(shell, *HOSTILE, "pdf")
    shell.write("hub/state/sources.json", json.dumps({"sources": {each: {} for each in HOSTILE}}))
    expected = {"bash": "pdf", "zsh": "_arguments '*: :((\"pdf\"))'", "fish": "pdf\t ", "powershell": "pdf::: "}
    assert tab("show", "", shell_name=shell_name) == [expected[shell_name]]
    assert tab("source", "show", "", shell_name=shell_name) == (["_files"] if shell_name == "zsh" else [])


def test_completion_loads_no_library(shell):
    lock(shell, "pdf")
    code = (
        "import sys; from skillhub.cli.main import main; status = main([]);"
        "print('\\nmodules:', *sorted(name for name in sys.modules if '.' not in name)); sys.exit(status)"
    )
    asked = {"_SKILLHUB_COMPLETE": "complete_bash", "COMP_WORDS": "skillhub\nshow\n", "COMP_CWORD": "2"}
    out = run_bare(code, environ={**shell.environ, **asked}, cwd=shell.project)
    found, _, loaded = out.partition("modules:")
    assert found.split() == ["pdf"]
    assert not {"pydantic", "typer", "httpx", "yaml", "tomlkit", "cryptography", "tuf", "asyncio"} & set(
        loaded.split()
    )


SCRIPTS = {
    "bash": 'eval "$(skillhub --show-completion bash)"; COMP_WORDS=(skillhub show ""); COMP_CWORD=2; '
    '_skillhub_completion skillhub; printf "%s\\n" "${COMPREPLY[@]}"',
    "zsh": "compdef() {}; _arguments() { print -r -- $1 }; "
    'eval "$(skillhub --show-completion zsh)"; words=(skillhub show ""); CURRENT=3; _skillhub_completion',
    "fish": 'skillhub --show-completion fish | source; complete -C "skillhub show "',
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_attack_a_completed_name_runs_nothing_in_a_real_shell(shell, name):
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not here")
    lock(shell, *HOSTILE, "pdf")
    shell.on_path()
    environ = {**shell.environ, "TERM": "dumb"}
    flags = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"]}[name]
    done = subprocess.run(
        [program, *flags, "-c", SCRIPTS[name]],
        cwd=shell.project,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == (["*:", ':(("pdf"))'] if name == "zsh" else ["pdf"]), done.stderr
    assert not (shell.project / "RAN").exists()


def test_the_manual_page_names_every_command_and_is_printed(shell):
    printed = shell.run("--man").out
    assert printed == (REPO / "skillhub/cli/skillhub.1").read_text("utf-8")
    from skillhub.cli.table import COMMANDS

    assert [each for each in COMMANDS if f'.SS "skillhub {each.replace("-", chr(92) + "-")}' not in printed] == []
    if shutil.which("groff"):
        drawn = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8"], input=printed, capture_output=True, text=True, check=True
        )
        assert drawn.stderr == ""


def test_a_completion_that_cannot_be_written_is_an_error_of_the_disk(shell):
    (shell.home / ".bash_completions").write_text("")  # a file in the place of the folder
    # Typer would take the shell that started the tests.
    done = shell.run("--install-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert (done.status, done.err.splitlines()[0]) == (7, "error: the disk refuses: File exists [state]")
