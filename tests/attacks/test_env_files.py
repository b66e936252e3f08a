"""A `.env` that git tracks is neither read nor written, in any folder and any spelling."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.support.cli import run_code

SECRET = "DEMO_TOKEN=hunter2-of-the-file\n"
TOOLS = """dependencies:
  tools:
    - {type: env_var, value: DEMO_TOKEN, description: "see .env"}
    - {type: mcp, value: demo, command: demo-server --env-file .env, env: [DEMO_TOKEN]}
"""
# Records every file opened, moved, linked or removed while these command lines run, in one process.
WATCH = """
import json, os, sys
touched = []
def hook(event, args):
    if event == "open" or event.startswith(("os.re", "os.li", "os.sy", "os.tr", "os.ch", "shutil.")):
        touched.extend(os.fsdecode(each) for each in args if isinstance(each, (str, bytes)))
sys.addaudithook(hook)
from skillhub.cli.main import main
statuses = [main(words) for words in json.loads(sys.argv[1])]
print(json.dumps({"statuses": statuses, "touched": touched}), file=sys.__stdout__)
"""


def git(folder, *words):
    subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b.c", *words], check=True)


def test_attack_a_tracked_env_file_is_neither_read_nor_written(shell):
    names = ["work/.env", "work/.env.local", "work/in/.env", "work/in/.ENV", "work/in/sub/.Env", "work/in/deep/.env"]
    for name in names:
        shell.write(name, SECRET)
    shell.write("work/in/config/real", SECRET)
    os.symlink("config/real", shell.folder / "work/in/.env.link")
    shell.write("work/in/.mcp.json", '{"mcpServers": {"other": {"command": "hub", "envFile": ".env"}}}')
    shell.write("work/in/skillhub.toml", "")
    skill = shell.skill("skills/reader", **{"agents/openai.yaml": TOOLS})
    for folder, added in (("work/in", "."), ("work/in/deep", "."), ("work", ":!in")):
        git(shell.folder / folder, "init", "-q")
        git(shell.folder / folder, "add", "-f", "--", added)
        git(shell.folder / folder, "commit", "-qm", "all")
    before = {name: (shell.folder / name).read_bytes() for name in names}
    install = ["install", str(skill), "--yes", "--allow-unsigned", "--accept", "mcp", "--mcp", "configure"]
    commands = [
        [*install, "--agent", "claude-code", "--env", "DEMO_TOKEN=x"],
        *(["show", "reader"], ["list"], ["doctor"], ["verify"], ["audit"], ["sync", "--yes"], ["env", "list"]),
        *(["mcp", "check", "demo"], ["mcp", "check", "other"], ["disable", "reader"], ["enable", "reader"]),
        ["remove", "reader"],
    ]
    done = run_code(WATCH, json.dumps(commands), cwd=shell.folder / "work/in", environ=shell.environ)
    assert done.status == 0, done.err
    found = json.loads(done.out.splitlines()[-1])
    # `doctor` reports a missing agent, no server is on PATH, and the value was given to one command only.
    assert found["statuses"] == [0, 0, 0, 1, 0, 0, 0, 0, 3, 3, 0, 6, 0], done.err
    named = {os.path.basename(path) for path in found["touched"]}
    assert {".mcp.json", "skillhub.lock"} <= named  # the recorder works
    assert not [name for name in named if name.casefold().startswith(".env")]
    assert not [path for path in found["touched"] if path.endswith("config/real")]
    assert {name: (shell.folder / name).read_bytes() for name in names} == before
    assert "hunter2" not in done.out + done.err
    written = [path.read_text(errors="replace") for path in (shell.folder / "work/in").glob("*") if path.is_file()]
    assert not [text for text in written if "hunter2" in text and text != SECRET]


@pytest.mark.parametrize("name", [".env", ".ENV", ".env.local", "in/.env", "link/.env", "values"])
def test_attack_a_tracked_env_file_is_not_read_when_an_option_names_it(shell, name):
    skill = str(shell.skill("skills/reader", **{"agents/openai.yaml": TOOLS.partition("    - {type: mcp")[0]}))
    real = {"link/.env": "in/.env", "values": ".env"}.get(name, name)
    shell.write(f"project/{real}", SECRET)
    if name != real:
        os.symlink(*(("in", shell.project / "link") if "/" in name else (real, shell.project / name)))
    git(shell.project, "init", "-q")
    install = ("install", skill, "--yes", "--allow-unsigned", "--env-file", name)
    assert shell.run(*install, "--dry-run").status == 0  # nobody tracks it yet
    git(shell.project, "add", "-f", ".")
    done = shell.run(*install)
    assert (done.status, "git does not track" in done.err, "hunter2" in done.err) == (2, True, False), done.err
    assert not (shell.project / "skillhub.lock").exists()
    git(shell.project, "rm", "-q", "--cached", real)
    assert shell.run(*install).status == 0


@pytest.mark.parametrize("where", [".mcp.json", ".continue/mcpServers/skillhub.yaml", ".zed/settings.json"])
def test_attack_a_configuration_linked_to_the_env_file_is_not_written(shell, where):
    shell.write("project/.env", "")
    git(shell.project, "init", "-q")
    path = shell.project / where
    path.parent.mkdir(parents=True, exist_ok=True)
    os.symlink(os.path.relpath(shell.project / ".env", path.parent), path)
    agent = {".m": "claude-code", ".c": "continue", ".z": "zed"}[where[:2]]
    done = shell.run("mcp", "install", "--agent", agent, "--yes")
    assert (done.status, ".env file" in done.err) == (7, True), done.err
    assert (shell.project / ".env").read_text() == ""
    os.rename(shell.project / ".env", shell.project / "values")  # and both links lead to a file of another name
    os.symlink("values", shell.project / ".env")
    path.unlink()
    os.symlink(os.path.relpath(shell.project / "values", path.parent), path)
    assert shell.run("mcp", "install", "--agent", agent, "--yes").status == 7
    assert (shell.project / "values").read_text() == ""
