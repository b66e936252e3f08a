"""Enabled copies and git: kept out through ``.git/info/exclude``; tracked copies are found."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from skillhub.disk import files
from skillhub.disk.files import MACHINE, HeldFolder, disk_error
from skillhub.errors import LinkLeavesProject, StateError
from skillhub.formats.text import quote

# Keeping enabled copies out of git, through ``.git/info/exclude``, which no clone shares.
# A repository may come with its ``.git``: one that leads to another repository, which it does not belong to, is
# none.

_MAGIC = re.compile(r"[\\*?\[]|^[!#]| $")
_LINE_BREAK = re.compile(r"[\r\n]")

_END = "# skillhub: end"
_CAP = 16 * 1024 * 1024
_NAME_CAP, _CONFIG_CAP = 4096, 1 << 20
_WORK_TREE = re.compile(r"(?i:worktree)\s*=\s*(.*)")
_ESCAPE = re.compile(r'\\(["\\])')
_TRIES = 5


@dataclass(frozen=True, slots=True)
class GitFolder:
    """The git repository around a project.

    Attributes:
        root: What the way to git's folder may not leave.
        folder: Git's folder, which all work trees share.
        prefix: Where the project is in its work tree, ``/`` between segments and around them.
        work_tree: What git calls the work tree; nothing for the first.
    """

    root: HeldFolder
    folder: str
    prefix: str
    work_tree: str


def exclude(project: HeldFolder, links: Iterable[str]) -> None:
    """Make this project's block of the exclude file name exactly these links, relative to it.

    Outside of a git repository nothing happens. Lines of others stay as they are, and so do the blocks of other
    projects in the same repository, whose work trees all share the one file.

    Raises:
        LinkLeavesProject: the file is, or lies behind, a link out of git's folder.
        StateError: it cannot be read or written.
    """
    git = _around(project)
    if git is None:
        return
    start = f"# skillhub: enabled skills of {git.prefix}" + (f" in {git.work_tree}" if git.work_tree else "")
    ours = sorted(f"{git.prefix}{_literal(link)}" for link in links if not os.path.isabs(link))
    path = _file(git)
    for _ in range(_TRIES):
        before = files.read(path, _CAP, root=git.root)
        after = _with_block(before or b"", start, ours)
        if after == (before or b"") or files.swap(path, before, after, root=git.root):
            return
    raise StateError("another program keeps changing the file", where=path)


def check_exclude(project: HeldFolder) -> None:
    """Return if ``exclude`` can read its file, which is to be known before anything else is written.

    Raises:
        LinkLeavesProject, StateError: as ``exclude``.
    """
    if found := exclude_file(project):
        files.read(found[0], _CAP, root=found[1])


def exclude_file(project: HeldFolder) -> tuple[str, HeldFolder] | None:
    """Return the exclude file of the repository around a project, and what it may not leave; None outside of one.

    Raises:
        LinkLeavesProject: it is, or lies behind, a link out of git's folder.
    """
    git = _around(project)
    return (_file(git), git.root) if git is not None else None


def _file(git: GitFolder) -> str:
    # Behind a link, the names of a repository's folders would be lines of a shell's file.
    return files.inside(git.folder, "info/exclude")


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


def _around(project: HeldFolder) -> GitFolder | None:
    """Return the repository around a project, as far as its folder is the user's own, and is of this work tree."""
    folder: HeldFolder | None = project
    below: list[str] = []
    with files.disk_errors(project.path or os.sep):
        while folder is not None and folder.path is not None:
            pointer = os.path.join(folder.path, ".git")
            with folder.hold(pointer) as (name, at):
                status = _status(name, at)
            if status is not None:
                git = _git_folder(folder, pointer, status)
                prefix = "".join(f"/{_literal(each)}" for each in reversed(below))
                return GitFolder(*git[:2], f"{prefix}/", _literal(git[2])) if git is not None else None
            below.append(os.path.basename(os.path.realpath(folder.path)))
            folder = folder.parent()
    return None


def _status(name: str, at: int | None) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _git_folder(tree: HeldFolder, pointer: str, status: os.stat_result) -> tuple[HeldFolder, str, str] | None:
    """Return what the way to git's folder may not leave, it, and which work tree it is; None if it is not ours."""
    if stat.S_ISREG(status.st_mode):
        # A work tree or a submodule: `.git` is a file that names the folder, `commondir` in it the shared one.
        text = (files.read(pointer, _NAME_CAP, root=tree) or b"").decode("utf-8", "surrogateescape")
        if not text.startswith("gitdir: "):
            return None
        return _linked(os.path.realpath(os.path.join(os.path.dirname(pointer), text[8:].strip())), pointer)
    if files.is_link_at(pointer, None):
        with suppress(LinkLeavesProject):
            return tree, files.inside(os.path.dirname(pointer), ".git"), ""
        return _linked(os.path.realpath(pointer), pointer)
    return (tree, pointer, "") if stat.S_ISDIR(status.st_mode) and _is_ours(status) else None


def _linked(git: str, pointer: str) -> tuple[HeldFolder, str, str] | None:
    """Return the folder that ``pointer`` leads to if that names ``pointer``, as git writes it into both."""
    try:
        with MACHINE.hold(os.path.join(git, "HEAD")) as (name, at):
            known = _is_ours(os.stat(os.path.dirname(name) or ".", dir_fd=at)) and _status(name, at)
        if not known or not _leads_back(git, pointer):
            return None
        common = files.read(os.path.join(git, "commondir"), _NAME_CAP, root=MACHINE)
    except OSError:
        return None
    if common is None:
        return MACHINE, git, ""
    # A repository could name another's: git keeps the folder of a work tree in the one that they share.
    shared = os.path.realpath(os.path.join(git, os.fsdecode(common).strip()))
    if git != os.path.join(shared, "worktrees", os.path.basename(git)):
        return None
    return MACHINE, shared, os.path.basename(git)


def _leads_back(git: str, pointer: str) -> bool:
    """Say whether git's folder names this work tree: in ``gitdir``, or as ``core.worktree`` of a submodule."""
    back = files.read(os.path.join(git, "gitdir"), _NAME_CAP, root=MACHINE)
    named = [os.fsdecode(back).strip()] if back is not None else []
    for name in ("config", "config.worktree") if back is None else ():
        config = files.read(os.path.join(git, name), _CONFIG_CAP, root=MACHINE) or b""
        named += [os.path.join(each, ".git") for each in _work_trees(os.fsdecode(config))]
    with suppress(OSError):
        return bool(named) and os.path.samefile(os.path.join(git, named[-1]), pointer)
    return False


def _work_trees(config: str) -> list[str]:
    """Return each ``core.worktree`` of a configuration, as git spells it there."""
    section, found = "", []
    for line in map(str.strip, config.split("\n")):
        if line.startswith("["):
            section = line.lower()
        elif section == "[core]" and (match := _WORK_TREE.fullmatch(line)):
            found.append(_ESCAPE.sub(r"\1", match[1].removeprefix('"').removesuffix('"')))
    return found


def _is_ours(status: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


# Enabled copies that git tracks: they would travel to others without lock, consent or signature.

# Of the user's environment git gets what it needs to run, and no setting that could make it run something.
_PASSED = ("PATH", "HOME", "SYSTEMROOT")
# A repository may lack a tree that its index needs and name a program as the place to fetch it from; and a
# folder's name may look like a pattern.
_SET = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_LITERAL_PATHSPECS": "1", "LC_ALL": "C"}


def copies(base: str, links: Sequence[str]) -> list[str]:
    """Return those of ``links`` (absolute) that git tracks, or a file in them; empty where there is no git.

    Raises:
        StateError: there is a repository, and git cannot say what it tracks.
    """
    # Of anything outside of its folder git says nothing at all.
    asked = [link for link in links if link.startswith(os.path.join(base, ""))]
    if not asked:
        return []
    environ = {name: os.environ[name] for name in _PASSED if name in os.environ} | _SET
    # A relative folder of the path, or an empty one, may be a clone's, and what is in it called `git`.
    folders = filter(os.path.isabs, environ.get("PATH", os.defpath).split(os.pathsep))
    environ["PATH"] = os.pathsep.join(folders) or os.defpath
    # A repository may set a program to watch its files; this asks git not to run one.
    words = ["git", "-C", base, "-c", "core.fsmonitor=false", "ls-files", "-z", "--", *asked]
    try:
        done = subprocess.run(words, env=environ, capture_output=True, timeout=20, check=False)
    except FileNotFoundError:
        return []
    except OSError as error:  # more places than a command line holds, too
        raise disk_error(error, base) from error
    except subprocess.TimeoutExpired as error:
        raise StateError("git does not say what it tracks: it took too long", where=base) from error
    if done.returncode and not done.stderr.startswith(b"fatal: not a git repository"):
        said = (done.stderr.decode("utf-8", "replace").splitlines() or ["nothing"])[-1]
        raise StateError(f"git cannot say what it tracks: {quote(said, 300)}", where=base)
    tracked = [os.path.join(base, os.fsdecode(path)) for path in done.stdout.split(b"\0") if path]
    # A link is tracked itself, and so is the folder of a submodule.
    return [link for link in asked if any(f"{path}{os.sep}".startswith(link + os.sep) for path in tracked)]
