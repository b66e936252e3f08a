"""A program ``gh`` of its own, which answers from a JSON file as the GitHub CLI answers from GitHub."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

PROGRAM = r"""
import json, os, sys

here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "calls"), "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\n")
with open(os.path.join(here, "world.json")) as source:
    world = json.load(source)
args = sys.argv[1:]


def leave(status, complaint=""):
    sys.stderr.write(complaint)
    sys.exit(status)


def option(name):
    return args[args.index(name) + 1] if name in args else None


def show(things):
    fields = option("--json").split(",")
    print(json.dumps([{field: thing[field] for field in fields} for thing in things]
                     if isinstance(things, list) else {field: things[field] for field in fields}))


def log(name):
    text = world["logs"].get(name, "")
    if isinstance(text, dict):
        sys.stdout.write(text["start"] + (text["line"] + "\n") * text["times"])
        text = text["end"]
    sys.stdout.write(text)


if not world["signed_in"]:
    leave(4, "To get started with GitHub CLI, please run:  gh auth login\n"
             "Alternatively, populate the GH_TOKEN environment variable with a token.\n")
if world["broken"]:
    leave(1, world["broken"])
if args[:2] == ["pr", "view"]:
    if not world["pull"]:
        leave(1, 'no pull requests found for branch "main"\n')
    show(world["pull"])
elif args[:2] == ["pr", "checks"]:
    if world["old"]:
        leave(1, "unknown flag: --json\n\nUsage:  gh pr checks [<number> | <url> | <branch>] [flags]\n")
    if not world["checks"]:
        leave(1, "no checks reported on the 'topic' branch\n")
    show(world["checks"])
elif args[:2] == ["run", "view"]:
    name = option("--job") or args[2]
    if name in world["running"]:
        leave(1, "job %s is still in progress; logs will be available when it is complete\n" % name)
    log(name)
elif args[0] == "api":
    if args[-1] not in world["logs"]:
        leave(1, "gh: Not Found (HTTP 404)\n")
    log(args[-1])
else:
    leave(1, 'unknown command "%s" for "gh"\n' % args[0])
"""

HOME = "https://github.com/octo/tool"


def check(name: str, bucket: str, link: str, workflow: str = "CI", state: str = "") -> dict[str, str]:
    """Return a check as ``gh pr checks --json`` prints it."""
    states = {"pass": "SUCCESS", "fail": "FAILURE", "pending": "IN_PROGRESS", "cancel": "CANCELLED"}
    return {
        "name": name,
        "workflow": workflow,
        "state": state or states[bucket],
        "bucket": bucket,
        "link": link,
        "description": "",
    }


def job(number: int) -> str:
    """Return the link of a job of GitHub Actions."""
    return f"{HOME}/actions/runs/70{number}/job/{number}"


def log_line(text: str, step: str = "Run tests") -> str:
    """Return a line as ``gh run view --log-failed`` prints it."""
    return f"test\t{step}\t2026-03-01T10:00:00.1234567Z {text}\n"


class FakeGh:
    """The program in a folder of its own, and what it knows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        program = folder / "gh"
        (folder / "gh.py").write_text(PROGRAM, encoding="utf-8")
        # Through a shell, for a #! line cannot name an interpreter whose path has a blank in it.
        program.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -IS {shlex.quote(str(folder))}/gh.py "$@"\n',
            encoding="utf-8",
        )
        program.chmod(0o755)
        self.world: dict[str, Any] = {
            "signed_in": True,
            "old": False,
            "broken": "",
            "pull": {
                "number": 12,
                "title": "Parse empty files",
                "url": f"{HOME}/pull/12",
                "headRefName": "topic",
                "headRefOid": "0123456789abcdef0123456789abcdef01234567",
            },
            "checks": [check("lint", "pass", job(1)), check("test", "fail", job(2))],
            "running": [],
            "logs": {"2": log_line("E   IndexError: list index out of range")},
        }

    def environment(self) -> dict[str, str]:
        """Write what the program knows; return an environment in which it is the only program."""
        (self.folder / "world.json").write_text(json.dumps(self.world), encoding="utf-8")
        return {"PATH": str(self.folder), "HOME": str(self.folder), "PYTHONWARNINGS": "error"}

    def calls(self) -> list[list[str]]:
        """Return the arguments of each call so far."""
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def with_python(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment with this Python on ``PATH`` too, as ``#!/usr/bin/env python3`` needs it."""
    return {**environment, "PATH": environment["PATH"] + os.pathsep + os.path.dirname(sys.executable)}
