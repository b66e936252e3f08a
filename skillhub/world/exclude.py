"""Keeping enabled copies out of git, through ``.git/info/exclude``, which is this clone's own."""

from __future__ import annotations

import os
from collections.abc import Iterable

from skillhub.world import files

_START, _END = "# skillhub: enabled skills", "# skillhub: end"
_CAP = 16 * 1024 * 1024


def exclude(base: str, links: Iterable[str]) -> None:
    """Make our block of the exclude file name exactly these links, relative to ``base``.

    Outside of a git repository nothing happens. Lines of others stay as they are.

    Raises:
        StateError: the file cannot be read or written.
    """
    found = _git_folder(base)
    if found is None:
        return
    root, git = found
    prefix = os.path.relpath(base, root).replace(os.sep, "/")
    prefix = "" if prefix == "." else f"{prefix}/"
    path = os.path.join(git, "info", "exclude")
    before = (files.read(path, _CAP) or b"").decode("utf-8", "surrogateescape")
    kept, inside = [], False
    for line in before.splitlines(keepends=True):
        inside = inside or line.rstrip("\r\n") == _START
        if not inside:
            kept.append(line)
        inside = inside and line.rstrip("\r\n") != _END
    text = "".join(kept)
    ours = sorted(f"/{prefix}{link}" for link in links if not os.path.isabs(link))
    if ours:
        text += ("" if text.endswith("\n") or not text else "\n") + "\n".join([_START, *ours, _END]) + "\n"
    if text != before:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        files.write_atomic(path, text.encode("utf-8", "surrogateescape"))


def _git_folder(base: str) -> tuple[str, str] | None:
    """Return the root of the work tree around ``base`` and its common git folder."""
    folder = os.path.abspath(base)
    while True:
        git = os.path.join(folder, ".git")
        if os.path.isdir(git):
            return folder, git
        if os.path.isfile(git):
            return _linked(folder, git)
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def _linked(root: str, pointer: str) -> tuple[str, str] | None:
    # A work tree or a submodule: `.git` is a file that names the folder, `commondir` in it the shared one.
    text = (files.read(pointer, 4096) or b"").decode("utf-8", "replace")
    if not text.startswith("gitdir: "):
        return None
    git = os.path.normpath(os.path.join(root, text[8:].strip()))
    common = files.read(os.path.join(git, "commondir"), 4096)
    if common is not None:
        git = os.path.normpath(os.path.join(git, common.decode("utf-8", "replace").strip()))
    return (root, git) if os.path.isfile(os.path.join(git, "HEAD")) else None
