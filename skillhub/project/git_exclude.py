"""Keeping enabled copies out of git, by lines in ``.git/info/exclude``, which clones do not share; tracked files."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from skillhub.disk import files
from skillhub.disk.files import MACHINE, HeldFolder, disk_error, program, search_path
from skillhub.disk.home import is_own
from skillhub.errors import LinkLeavesProject, StateError
from skillhub.formats.text import deferred, quote

# An attacker may deliver a folder with a ``.git`` that points to another repository: such a ``.git`` is ignored.

_MAGIC = deferred(r"[\\*?\[]|^[!#]| $")
_END = "# skillhub: end"
_EXCLUDE_CAP, _NAME_CAP, _CONFIG_CAP = 1 << 24, 4096, 1 << 20  # bytes
_WORK_TREE = re.compile(r"(?i:worktree)\s*=\s*(.*)")
_ESCAPE = re.compile(r'\\(["\\])')
_TRIES = 5


@dataclass(frozen=True, slots=True)
class GitFolder:
    """The git repository around a project.

    Attributes:
        root: The open folder that the path to git's folder must not leave.
        folder: Git's folder, which all work trees share.
        prefix: The path of the project in its work tree, with ``/`` between segments and around them.
        work_tree: Git's name for the work tree; empty for the first.
    """

    root: HeldFolder
    folder: str
    prefix: str
    work_tree: str


def exclude(project: HeldFolder, links: Iterable[str]) -> None:
    """Write this project's block of the exclude file, with exactly these links, relative to the project.

    Outside a git repository it does nothing. Other lines stay, as do the blocks of other projects in the same
    repository, whose work trees share the file.

    Raises:
        LinkLeavesProject: the file is, or lies behind, a link out of git's folder.
        StateError: it cannot be read or written.
    """
    _, git = _repository(project)
    if git is None:
        return
    start = f"# skillhub: enabled skills of {git.prefix}" + (f" in {git.work_tree}" if git.work_tree else "")
    patterns = sorted(f"{git.prefix}{_literal(link)}" for link in links if not os.path.isabs(link))
    path = _exclude_path(git)
    for _ in range(_TRIES):
        before = files.read(path, _EXCLUDE_CAP, root=git.root)
        after = _with_block(before or b"", start, patterns)
        if after == (before or b"") or files.swap(path, before, after, root=git.root):
            return
    raise StateError("another program keeps changing the file", where=path)


def check_exclude(project: HeldFolder) -> None:
    """Refuse an exclude file that ``exclude`` cannot read; commands check that before they write anything.

    Raises:
        LinkLeavesProject, StateError: as ``exclude``.
    """
    if found := exclude_file(project):
        files.read(found[0], _EXCLUDE_CAP, root=found[1])


def exclude_file(project: HeldFolder) -> tuple[str, HeldFolder] | None:
    """Return the exclude file of the repository around a project, and the open folder above it; None outside one.

    Raises:
        LinkLeavesProject: the file is, or lies behind, a link out of git's folder.
    """
    _, git = _repository(project)
    return (_exclude_path(git), git.root) if git is not None else None


def unrelated_git(project: HeldFolder) -> str | None:
    """Return the nearest ``.git`` if it does not belong to this work tree, so that git would add the copies."""
    path, git = _repository(project)
    return path if git is None else None


def _exclude_path(git: GitFolder) -> str:
    # Behind a link, lines with names from the repository could get into a file that a shell runs.
    return files.inside(git.folder, "info/exclude")


def _with_block(data: bytes, start: str, patterns: list[str]) -> bytes:
    """Return the file with its block that begins with ``start`` replaced."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    bare = [line.rstrip("\r") for line in lines]
    if start in bare:
        first = bare.index(start)
        # Of a block without its end only the first line is removed: the others may be the user's.
        last = bare.index(_END, first) if _END in bare[first:] else first
        del lines[first : last + 1]
    text = "\n".join(lines)
    if patterns:
        text += ("" if text.endswith("\n") or not text else "\n") + "\n".join([start, *patterns, _END]) + "\n"
    return text.encode("utf-8", "surrogateescape")


def _literal(path: str) -> str:
    """Return the pattern for exactly this path; ``?`` matches a line break, which no pattern can contain."""
    return re.sub(r"[\r\n]", "?", _MAGIC.sub(r"\\\g<0>", path))


def _repository(project: HeldFolder) -> tuple[str | None, GitFolder | None]:
    """Return the nearest ``.git``, and its repository if git's folder belongs to the user and to this work tree."""
    folder: HeldFolder | None = project
    below: list[str] = []
    with files.disk_errors(project.path or os.sep):
        while folder is not None and folder.path is not None:
            pointer = os.path.join(folder.path, ".git")
            with folder.hold(pointer) as (name, at):
                status = files.status_of(name, at)
            if status is not None:
                git = _git_folder(folder, pointer, status)
                prefix = "".join(f"/{_literal(each)}" for each in reversed(below))
                return pointer, GitFolder(*git[:2], f"{prefix}/", _literal(git[2])) if git is not None else None
            below.append(os.path.basename(os.path.realpath(folder.path)))
            folder = folder.parent()
    return None, None


def _git_folder(tree: HeldFolder, pointer: str, status: os.stat_result) -> tuple[HeldFolder, str, str] | None:
    """Return the open folder above git's folder, git's folder and the work tree; None if it is not this project's."""
    if stat.S_ISREG(status.st_mode):
        # A work tree or a submodule: `.git` is a file that names the folder, whose `commondir` names the shared one.
        text = (files.read(pointer, _NAME_CAP, root=tree) or b"").decode("utf-8", "surrogateescape")
        if not text.startswith("gitdir: "):
            return None
        return _linked_folder(os.path.realpath(os.path.join(os.path.dirname(pointer), text[8:].strip())), pointer)
    if files.is_link(pointer):
        with suppress(LinkLeavesProject):
            return tree, files.inside(os.path.dirname(pointer), ".git"), ""
        return _linked_folder(os.path.realpath(pointer), pointer)
    return (tree, pointer, "") if stat.S_ISDIR(status.st_mode) and is_own(status) else None


def _linked_folder(git: str, pointer: str) -> tuple[HeldFolder, str, str] | None:
    """Return the folder to which ``pointer`` leads, if that names ``pointer``: git writes both paths."""
    try:
        with MACHINE.hold(os.path.join(git, "HEAD")) as (name, at):
            is_ours = is_own(os.stat(os.path.dirname(name) or ".", dir_fd=at))
            has_head = files.status_of(name, at) is not None
        if not (is_ours and has_head and _leads_back(git, pointer)):
            return None
        common = files.read(os.path.join(git, "commondir"), _NAME_CAP, root=MACHINE)
    except OSError:
        return None
    if common is None:
        return MACHINE, git, ""
    # `commondir` could name another repository: git keeps the folder of a work tree inside the shared folder.
    shared = os.path.realpath(os.path.join(git, os.fsdecode(common).strip()))
    if git != os.path.join(shared, "worktrees", os.path.basename(git)):
        return None
    return MACHINE, shared, os.path.basename(git)


def _leads_back(git: str, pointer: str) -> bool:
    """Return whether git's folder names this work tree: in ``gitdir``, or as ``core.worktree`` of a submodule."""
    back = files.read(os.path.join(git, "gitdir"), _NAME_CAP, root=MACHINE)
    named = [os.fsdecode(back).strip()] if back is not None else []
    for name in ("config", "config.worktree") if back is None else ():
        config = files.read(os.path.join(git, name), _CONFIG_CAP, root=MACHINE) or b""
        named += [os.path.join(each, ".git") for each in _work_trees(os.fsdecode(config))]
    with suppress(OSError):
        return bool(named) and os.path.samefile(os.path.join(git, named[-1]), pointer)
    return False


def _work_trees(config: str) -> list[str]:
    """Return each ``core.worktree`` in a configuration of git."""
    section, found = "", []
    for line in map(str.strip, config.split("\n")):
        if line.startswith("["):
            section = line.lower()
        elif section == "[core]" and (match := _WORK_TREE.fullmatch(line)):
            found.append(_ESCAPE.sub(r"\1", match[1].removeprefix('"').removesuffix('"')))
    return found


# Files that git tracks.

# The variables of the user that git needs to run; none of them can make git start another program.
_PASSED = ("PATH", "HOME", "SYSTEMROOT")
# These keep git from fetching a missing object with a program that the repository names, and from reading a path as
# a pattern.
_SET = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_LITERAL_PATHSPECS": "1", "LC_ALL": "C"}


def tracked_files(base: str, paths: Sequence[str]) -> list[str]:
    """Return the absolute paths at or below ``paths`` that git tracks; empty without git or a repository.

    Raises:
        StateError: there is a repository, and git cannot list its tracked files.
    """
    git = program("git", os.environ)
    if not paths or git is None:
        return []
    environ = {name: os.environ[name] for name in _PASSED if name in os.environ} | _SET
    environ["PATH"] = search_path(environ)
    # A repository can configure a program that watches its files; this option keeps git from running it.
    words = [git, "-C", base, "-c", "core.fsmonitor=false", "ls-files", "-z", "--", *paths]
    try:
        process = subprocess.run(words, env=environ, capture_output=True, timeout=20, check=False)
    except OSError as error:  # also if the paths are too many for a command line
        raise disk_error(error, base) from error
    except subprocess.TimeoutExpired as error:
        raise StateError("git took too long to list its tracked files", where=base) from error
    if process.returncode and not process.stderr.startswith(b"fatal: not a git repository"):
        message = (process.stderr.decode("utf-8", "replace").splitlines() or ["nothing"])[-1]
        raise StateError(f"git cannot list its tracked files: {quote(message, 300)}", where=base)
    return [os.path.join(base, os.fsdecode(path)) for path in process.stdout.split(b"\0") if path]
