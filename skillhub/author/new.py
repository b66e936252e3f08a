"""A new skill: the folder that an author begins with, such as ``validate`` accepts; what is not filled in yet."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from skillhub.disk import files
from skillhub.disk.folders import remove_tree, write_tree
from skillhub.errors import UsageError
from skillhub.formats.text import NAME_MAX, is_name, quote
from skillhub.model.finding import Issue
from skillhub.model.tree import SKILL_MD, File, Tree

VERSION = "0.1.0"

# What an author is to replace with words of their own.
_DESCRIPTION = (
    "What this skill does, and when an agent should use it. Write both, for an agent sees no more at first."
)
_BODY = """\
Say here what to do, step by step, as to a colleague who is new to it. An agent reads this when it uses the skill.

1. What to look at first.
2. What to do then, and how to tell that it is done.

What is long goes into files beside this one, such as references/, and is named here, so that it is read only when
it is needed. Programs that an agent is to run go into scripts/.
"""
_PROMPTS = frozenset([f"description: {_DESCRIPTION}", *filter(None, _BODY.splitlines())])

_SKILL = f"""\
---
name: {{name}}
description: {_DESCRIPTION}
metadata:
  version: "{{version}}"
---

# {{title}}

{_BODY}"""

_NEEDS = """\
# How the skill is shown, and what it needs; skillhub asks for it before an agent gets the skill.
interface:
  display_name: {title}

# Whether an agent may use the skill without being told to.
policy:
  allow_implicit_invocation: true

# What the skill needs: take away the "# " in front of it. Values never stand here.
#
# dependencies:
#   tools:
#     - type: env_var
#       value: EXAMPLE_TOKEN
#       description: What the variable is for
#     - type: program
#       value: jq
#       description: What the program is for
#     - type: mcp
#       value: example
#       description: What the server is for
#       transport: streamable_http
#       url: https://mcp.example.com/
#       bearer_token_env_var: EXAMPLE_TOKEN
#     - type: skill
#       value: another-skill
"""


@dataclass(frozen=True, slots=True)
class Begun:
    """A new skill.

    Attributes:
        path: Its folder.
        files: What is in it, ``/`` between segments.
    """

    name: str
    path: str
    files: tuple[str, ...]


def begin(name: str, parent: str, *, dry_run: bool = False) -> Begun:
    """Make the folder ``name`` below ``parent``, with a skill in it to be filled in; never over another.

    Raises:
        UsageError: the name is none, or is taken there.
        StateError: the disk refuses; nothing is left behind.
    """
    if not is_name(name):
        hint = f"lowercase letters, digits and single hyphens, at most {NAME_MAX}"
        raise UsageError(f"{quote(name)} cannot name a skill", hint=hint)
    path = os.path.join(parent, name)
    if os.path.lexists(path):
        raise UsageError(f"{name} exists already", where=path, hint="choose another name")
    tree = content(name)
    if not dry_run:
        _write(path, tree)
    return Begun(name, path, tuple(sorted(tree)))


def content(name: str) -> Tree:
    """Return what a new skill of this name holds."""
    title = name.replace("-", " ").capitalize()
    texts = {SKILL_MD: _SKILL, "agents/skillhub.yaml": _NEEDS}
    spelled = {file: text.format(name=name, title=title, version=VERSION).encode() for file, text in texts.items()}
    return Tree({file: File(data, executable=False) for file, data in spelled.items()})


def unfilled(tree: Tree) -> tuple[Issue, ...]:
    """Return where ``SKILL.md`` says what ``begin`` wrote there: a warning ``unfilled`` for each stretch of lines."""
    file = tree.get(SKILL_MD)
    lines = file.data.decode("utf-8", "replace").split("\n") if file else []
    found, is_within = [], False
    for number, line in enumerate(map(str.strip, lines), 1):
        if line in _PROMPTS and not is_within:
            message = "expected a description of your own, found the template of skillhub new"
            found.append(Issue("unfilled", message, f"{SKILL_MD}:{number}"))
        is_within = line in _PROMPTS or (is_within and not line)
    return tuple(found)


def _write(path: str, tree: Tree) -> None:
    staged = f"{path}.{os.urandom(4).hex()}.tmp"
    try:
        write_tree(staged, tree.items(), read_only=False)
        os.rename(staged, path)
    except OSError as error:
        with suppress(OSError):
            remove_tree(staged)
        raise files.disk_error(error, path) from error
