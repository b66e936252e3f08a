"""A new skill: the folder that an author begins with, such as ``validate`` accepts; what is not filled in yet."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from skillhub.disk import files
from skillhub.disk.folders import remove_tree, write_tree
from skillhub.errors import UsageError
from skillhub.formats.text import NAME_MAX, is_name, quote
from skillhub.model.finding import Issue
from skillhub.model.tree import SKILL_MD, File, Tree

VERSION = "0.1.0"

_TEMPLATES = os.path.join(os.path.dirname(__file__), "templates")
_FILES = {SKILL_MD: "SKILL.md", "agents/skillhub.yaml": "skillhub.yaml"}


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
    texts = {file: _template(each).format(name=name, title=title, version=VERSION) for file, each in _FILES.items()}
    return Tree({file: File(text.encode(), executable=False) for file, text in texts.items()})


@cache
def _template(name: str) -> str:
    with open(os.path.join(_TEMPLATES, name), encoding="utf-8") as file:
        return file.read()


@cache
def _prompts() -> frozenset[str]:
    """Return the lines that an author is to replace with words of their own: the description, and the body."""
    head, _, body = _template(_FILES[SKILL_MD]).partition("# {title}\n")
    lines = (line for line in head.splitlines() if line.startswith("description:"))
    return frozenset([*lines, *filter(None, body.splitlines())])


def unfilled(tree: Tree) -> tuple[Issue, ...]:
    """Return where ``SKILL.md`` says what ``begin`` wrote there: a warning ``unfilled`` for each stretch of lines."""
    file = tree.get(SKILL_MD)
    lines = file.data.decode("utf-8", "replace").split("\n") if file else []
    found, is_within = [], False
    for number, line in enumerate(map(str.strip, lines), 1):
        if line in _prompts() and not is_within:
            message = "expected a description of your own, found the template of skillhub new"
            found.append(Issue("unfilled", message, f"{SKILL_MD}:{number}"))
        is_within = line in _prompts() or (is_within and not line)
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
