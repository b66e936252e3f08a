"""The documentation is correct: links resolve, commands exist, examples run as shown."""

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest
import typer
import yaml

from skillhub.answers.table import ANSWERS
from skillhub.cli.app import build
from tests.support import forked
from tests.support.cli import SECONDS, Shell, run_code

REPO = Path(__file__).resolve().parents[1]
PAGES = sorted([*REPO.glob("*.md"), *REPO.glob("docs/**/*.md")])
TEXTS = {str(page.relative_to(REPO)): page.read_text(encoding="utf-8") for page in PAGES}
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"\[`([\w./-]+): (\w+)`\]\(([^)]+)\)")
COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COMMAND = re.compile(r"^(?:\$ |    )?(skillhub .*)$", re.MULTILINE)
MY_SKILL = """\
---
name: my-skill
description: Says hello in the language of the reader. Use it when somebody asks for a greeting.
metadata:
  version: 1.0.0
---

Greet the reader in their language.
"""


def fenced(page, *languages):
    """Return the text of the fenced blocks in these languages."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", TEXTS[page], re.MULTILINE | re.DOTALL)
    return "\n".join(text for language, text in blocks if language in languages)


def anchors(text):
    """Return the anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_to_files_and_headings(page):
    for target in LINK.findall(TEXTS[page]):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        found = (REPO / page).parent / unquote(path) if path else REPO / page
        assert found.exists(), f"{page} links to {target}"
        if anchor:
            assert anchor in anchors(found.read_text(encoding="utf-8")), f"{page} links to {target}"


def test_every_page_has_one_place_in_the_site():
    site = yaml.safe_load((REPO / "docs/site/mkdocs.yml").read_text(encoding="utf-8"))

    def placed(rows):
        for row in rows:
            for target in row.values() if isinstance(row, dict) else [row]:
                yield from placed(target) if isinstance(target, list) else [target]

    assert [next(iter(row)) for row in site["nav"][1:]] == ["Tutorial", "How-to", "Reference", "Explanation"]
    named = list(placed(site["nav"]))
    pages = {path.removeprefix("docs/") for path in TEXTS if path.startswith("docs/") and "/adr/" not in path}
    outside = {"index.md", "changelog.md", "contributing.md", "security.md"}  # these are at the top of the repository
    assert sorted(named) == sorted({*pages, *outside, "adr/*.md"}), "name it in docs/site/mkdocs.yml"


@pytest.mark.parametrize("page", TEXTS)
def test_files_named_on_a_page_exist(page):
    for path in re.findall(r"`((?:skillhub|docs|tests|fixtures)/[\w./-]*\w\.\w+)`", TEXTS[page]):
        assert (REPO / path).is_file(), f"{page} names {path}"


@cache
def defined_in(path):
    """Return the names of all functions and classes of a file."""
    text = (REPO / path).read_text(encoding="utf-8")
    # All of their syntax trees take a second.
    return {*re.findall(r"^ *(?:async )?(?:def|class) (\w+)", text, re.MULTILINE)}


def test_threats_name_existing_code_and_tests():
    rows = NAMED.findall(TEXTS["docs/threats.md"])
    assert len(rows) > 80
    for path, name, target in rows:
        assert target == f"../{path}"
        assert name in defined_in(path), f"{path}: {name}"


def test_every_threat_is_answered_and_tested():
    for line in TEXTS["docs/threats.md"].splitlines():
        if line.startswith("| ") and "AST" not in line and not line.startswith(("| attack", "| |")):
            _, _, code, test, _ = line.split(" | ") if line.count(" | ") > 3 else ["", *line.split(" | "), ""]
            assert re.search(r"\(\.\./(skillhub/|action\.yml|\.pre-commit-hooks\.yaml|README\.md)", code), line
            named = re.findall(r"\[`(\S+): (\w+)`\]", test)
            assert named, line
            assert all(path.startswith("tests/") and name.startswith("test_") for path, name in named), line


@cache
def program():
    """Return the top command."""
    return build()


def is_alone(words):
    """Return whether a group is a command without a verb."""
    return not words or words[0].startswith("-")


def parsed(words):
    """Parse a command line as the program does, and run nothing."""
    command = program()
    context = typer.Context(command, info_name="skillhub")
    while hasattr(command, "commands") and not (command.invoke_without_command and is_alone(words)):
        word = words.pop(0)
        assert word in command.commands, f"no command {word}"
        command = command.commands[word]
        context = typer.Context(command, info_name=word, parent=context)
    command.make_parser(context).parse_args(list(words))
    command.make_context(command.name, list(words), parent=context)


@pytest.mark.parametrize("page", TEXTS)
def test_every_command_shown_parses(page):
    if page == "docs/cli.md":
        lines = re.findall(r"^For example:\n\n    skillhub (.*)$", TEXTS[page], re.MULTILINE)
        assert len(lines) > 20
    else:
        lines = [line.removeprefix("skillhub ") for line in COMMAND.findall(fenced(page, "sh"))]
    for line in lines:
        words = shlex.split(line, comments=True)
        if words == ["--version"]:
            continue
        try:
            parsed(words)
        except typer.Exit:
            pytest.fail(f"{page}: skillhub {line}")


def test_every_command_has_a_versioned_json_answer_or_is_named_without_one():
    assert [name for name, kind in ANSWERS.items() if "schema" not in kind.model_json_schema()["required"]] == []

    def leaves(path, command):
        if not hasattr(command, "commands") or command.invoke_without_command:
            yield path
        for name, each in getattr(command, "commands", {}).items():
            yield from leaves(f"{path} {name}".strip(), each)

    head = TEXTS["docs/json.md"].partition("\n## ")[0]
    commands = [path for name, each in program().commands.items() for path in leaves(name, each)]
    assert len(commands) > 60
    assert [path for path in commands if path not in ANSWERS and f"`{path}`" not in head] == []


@pytest.mark.parametrize("page", TEXTS)
def test_every_command_named_exists(page):
    for line in re.findall(r"`skillhub ([a-z][^`\n]*)`", TEXTS[page]):
        command = program()
        for word in itertools.takewhile(lambda word: not word.startswith("-"), line.split()):
            if hasattr(command, "commands"):
                assert word in command.commands, f"{page}: skillhub {line}"
                command = command.commands[word]


@pytest.mark.parametrize("page", TEXTS)
def test_no_page_installs_into_the_environment_that_make_deletes(page):
    assert re.search(r"^VENV +:= (.*)$", (REPO / "Makefile").read_text(), re.MULTILINE)[1] == ".venv"
    assert not re.findall(r"^.*(?<![\w/~])\.venv(?:/bin)?\b.*$", fenced(page, "sh"), re.MULTILINE)


class Machine(Shell):
    """A user's machine for the commands of a page."""

    def follow(self, line):
        done = self.run(*shlex.split(line)[1:])
        assert done.status == 0, f"{line}: {done.status}\n{done.out}{done.err}"


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    machine.write("project/my-skill/SKILL.md", MY_SKILL)
    return machine


def test_the_tour_of_the_readme_runs(machine):
    tour = TEXTS["README.md"].partition("## A tour")[2].partition("## Where things are")[0]
    lines = COMMAND.findall(tour)
    assert len(lines) > 15
    shutil.rmtree(machine.project / "my-skill")  # the tour makes one
    for line in lines:
        machine.follow(line)


def test_the_tutorial_runs_and_prints_its_output(machine):
    """Each command runs, each prompt shown is answered, and all of the output is shown, but what ``…`` stands for."""
    blocks = re.findall(r"^```(sh|text)\n(.*?)^```$", TEXTS["docs/tutorial.md"], re.MULTILINE | re.DOTALL)
    assert len(blocks) > 15
    for at, (language, text) in enumerate(blocks):
        if language == "text":
            continue
        shown = blocks[at + 1][1].splitlines() if blocks[at + 1 : at + 2] and blocks[at + 1][0] == "text" else []
        prompts = [(found[1], f"{found[2]}\n") for line in shown if (found := re.match(r" *(\[.*: )(\w)$", line))]
        seen = ""
        for line in text.splitlines():
            if not line.startswith("skillhub "):
                typed(machine, line)
                continue
            words = shlex.split(line, comments=True)[1:]
            asks = prompts if words[0] in ("install", "sync", "update") else ()
            done = machine.at_terminal(*words, say=asks, PAGER="cat") if shown else machine.run(*words)
            seen += COLOUR.sub("", done.out + done.err).replace("\r\n", "\n")
            expected = re.search(r"# exit status (\d)", line)
            assert done.status == int(expected[1] if expected else 0), f"{line}: {seen}"
        pattern = "\n".join(".*" if line == "…" else re.escape(line) for line in shown or "…")
        assert re.fullmatch(pattern, seen.strip("\n"), re.DOTALL), seen


def typed(machine, line):
    """Run a line of a shell; files that a page sets up go below the machine's project."""
    if line.startswith("cd "):
        machine.project = machine.project / line.removeprefix("cd ")
        return
    subprocess.run(["sh", "-ec", line], cwd=machine.project, check=True)


def publishing(machine, part):
    """Follow the commands of a part of the page for publishers."""
    alone, _, team = fenced("docs/publishing.md", "sh").partition("skillhub publisher trust maria")
    for line in COMMAND.findall(alone if part == "alone" else f"skillhub publisher trust maria{team}"):
        if "me.pub.pem" in line:
            public_half(machine, "me.pub.pem")
        machine.follow(line + " --yes" if line.startswith("skillhub install") else line)


def public_half(machine, path):
    """Put the public key of the machine into its project."""
    (machine.project / path).parent.mkdir(exist_ok=True)
    shutil.copy(machine.hub / "state" / "keys" / "default.pub.pem", machine.project / path)


def test_the_page_for_publishers_runs(machine):
    publishing(machine, "alone")


def test_a_team_exchanges_its_keys_as_described(machine, tmp_path):
    publishing(machine, "alone")
    public_half(machine, "keys/maria.pub.pem")
    colleague = Machine(tmp_path / "colleague")
    for path in ("keys", "my-skill", "skillhub.lock", "skillhub.toml"):
        copy = shutil.copytree if (machine.project / path).is_dir() else shutil.copy
        copy(machine.project / path, colleague.project / path)
    assert colleague.run("install", "--yes", "--json").error["code"] == "signer-changed"
    publishing(colleague, "team")
    fingerprint = machine.run("key", "show", "--json").json["fingerprint"]
    assert fingerprint in colleague.run("publisher", "list").out
    policy = fenced("docs/publishing.md", "toml").replace(f"sha256:{'4' * 64}", fingerprint)
    with open(colleague.project / "skillhub.toml", "a") as file:
        file.write(f"\n{policy}")
    other = colleague.run("install", "github:code-review", "--yes", "--json")
    assert other.error["code"] == "policy"
    assert colleague.run("install", "--frozen", "--yes").status == 0
    assert colleague.run("publisher", "remove", "maria").status == 0
    assert colleague.run("verify").status == 0


def test_the_page_for_operators_runs(machine, tmp_path):
    lines = COMMAND.findall(fenced("docs/registry.md", "sh"))
    made = [line for line in lines if " registry " in line and " serve " not in line]
    for line in made[:3]:
        machine.follow(line)
    for path in re.findall(r"^\| `registry/([\w./-]+)`", TEXTS["docs/registry.md"], re.MULTILINE):
        assert (machine.project / "registry" / path).exists(), path
    serve = next(line for line in lines if " serve " in line).replace("8000", "0")
    with machine.start(*shlex.split(serve)[1:], "--json") as server:
        try:
            url = json.loads(server.stdout.readline())["url"]
            root = (machine.project / "registry" / "site" / "metadata" / "1.root.json").resolve()
            add, install = (line for line in lines if " registry " not in line)
            machine.follow(
                add.replace("http://127.0.0.1:8000", url).replace("--fingerprint sha256:…", f"--root '{root}'")
            )
            machine.follow(f"{install} --yes")
        finally:
            server.terminate()
    assert (machine.project / ".agents" / "skills" / "my-skill" / "SKILL.md").is_file()


def test_generated_pages_are_up_to_date():
    done = run_code("import runpy; runpy.run_path('docs/build.py', run_name='__main__')", "--check", cwd=REPO)
    assert done.status == 0, f"run: make docs\n{done.err}"


@pytest.mark.skipif(find_spec("keyring") is not None, reason="with the extra keyring a need has one more hint")
def test_the_recorded_demo_is_up_to_date(tmp_path):
    done = subprocess.run(
        [sys.executable, str(REPO / "docs" / "demo.py"), "--record", str(tmp_path)],
        # A long path would be broken into two lines, and not be shown as the short one that it is in the project.
        env={
            **os.environ,
            "SKILLHUB_DEMO_PROGRAM": shlex.join(forked.words("skillhub.cli.main", SECONDS)),
            "TMPDIR": "/tmp",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("demo.txt", "demo.svg"):
        kept = (REPO / "docs" / name).read_text(encoding="utf-8")
        assert (tmp_path / name).read_text(encoding="utf-8") == kept, "run: make docs"
    assert max(map(len, (tmp_path / "demo.txt").read_text(encoding="utf-8").split("\n"))) <= 80
    assert str(tmp_path.anchor + "tmp") not in kept
