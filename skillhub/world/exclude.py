"""Keeping enabled copies out of git, through ``.git/info/exclude``, which no clone shares."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from skillhub.errors import StateError
from skillhub.world import files

_MAGIC = re.compile(r"[\\*?\[]|^[!#]| $")
_LINE_BREAK = re.compile(r"[\r\n]")

_END = "# skillhub: end"
_CAP = 16 * 1024 * 1024
_TRIES = 5


def exclude(base: str, links: Iterable[str]) -> None:
    """Make this project's block of the exclude file name exactly these links, relative to ``base``.

    Outside of a git repository nothing happens. Lines of others stay as they are, and so do the blocks of other
    projects in the same repository, whose work trees all share the one file.

    Raises:
        LinkLeavesProject: the file is, or lies behind, a link out of git's folder.
        StateError: it cannot be read or written.
    """
    found = _git_folder(base)
    if found is None:
        return
    root, git, work_tree = found
    prefix = os.path.relpath(base, root).replace(os.sep, "/")
    prefix = "/" if prefix == "." else f"/{_literal(prefix)}/"
    start = f"# skillhub: enabled skills of {prefix}" + (f" in {_literal(work_tree)}" if work_tree else "")
    ours = sorted(f"{prefix}{_literal(link)}" for link in links if not os.path.isabs(link))
    path = _file(git)
    for _ in range(_TRIES):
        before = files.read(path, _CAP)
        after = _with_block(before or b"", start, ours)
        if after == (before or b"") or files.swap(path, before, after):
            return
    raise StateError("another program keeps changing the file", where=path)


def check_exclude(base: str) -> None:
    """Return if ``exclude`` can read its file, which is to be known before anything else is written.

    Raises:
        LinkLeavesProject, StateError: as ``exclude``.
    """
    if path := exclude_file(base):
        files.read(path, _CAP)


def exclude_file(base: str) -> str | None:
    """Return the exclude file of the repository around ``base``; None outside of one.

    Raises:
        LinkLeavesProject: it is, or lies behind, a link out of git's folder.
    """
    found = _git_folder(base)
    return _file(found[1]) if found is not None else None


def _file(git: str) -> str:
    # A repository may come with its `.git`: behind a link, its folders' names would be lines of a shell's file.
    return files.inside(git, "info/exclude")


def _with_block(data: bytes, start: str, ours: list[str]) -> bytes:
    """Return the file with the block that ``start`` begins in place of the one that is there."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    bare = [line.rstrip("\r") for line in lines]
    if start in bare:
        first = bare.index(start)
        # Without its end, a block is only its first line: what follows may be somebody's own.
        last = bare.index(_END, first) if _END in bare[first:] else first
        del lines[first : last + 1]
    text = "\n".join(lines)
    if ours:
        text += ("" if text.endswith("\n") or not text else "\n") + "\n".join([start, *ours, _END]) + "\n"
    return text.encode("utf-8", "surrogateescape")


def _literal(path: str) -> str:
    """Return the pattern that means just this path; a line break, which no pattern can hold, as any character."""
    return _LINE_BREAK.sub("?", _MAGIC.sub(r"\\\g<0>", path))


def _git_folder(base: str) -> tuple[str, str, str] | None:
    """Return the root of the work tree around ``base``, its common git folder, and which work tree it is."""
    folder = os.path.abspath(base)
    while True:
        git = os.path.join(folder, ".git")
        if os.path.isdir(git):
            return folder, git, ""
        if os.path.isfile(git):
            return _linked(folder, git)
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def _linked(root: str, pointer: str) -> tuple[str, str, str] | None:
    # A work tree or a submodule: `.git` is a file that names the folder, `commondir` in it the shared one.
    text = (files.read(pointer, 4096) or b"").decode("utf-8", "replace")
    if not text.startswith("gitdir: "):
        return None
    git = os.path.normpath(os.path.join(root, text[8:].strip()))
    work_tree = ""
    common = files.read(os.path.join(git, "commondir"), 4096)
    if common is not None:
        work_tree = os.path.basename(git)
        git = os.path.normpath(os.path.join(git, common.decode("utf-8", "replace").strip()))
    return (root, git, work_tree) if os.path.isfile(os.path.join(git, "HEAD")) else None
