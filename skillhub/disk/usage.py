"""Sizes of skillhub's folders, and old files and folders that can be removed. No link is followed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from tempfile import gettempdir
from typing import NamedTuple

from skillhub.disk import files
from skillhub.disk.folders import remove_tree
from skillhub.errors import StateError
from skillhub.formats.digest import is_hex

# The size of skillhub's folders, and leftovers and old files in them.

# Names of the temporary files and folders of `Store`, `write_atomic` and `GitCache`.
_LEFTOVER = re.compile(
    r"(?a)[0-9a-f]{64}\.[0-9a-f]{8}\.tmp(?:\.listing)?|\.skillhub-[0-9a-f]{16}\.tmp|[0-9a-f]{32}\.[0-9a-f]{8}\.gone"
)
_REPOSITORY = re.compile(r"[0-9a-f]{32}", re.ASCII)
# The folders into which git writes when it fetches.
_FRESH = ("", "objects", os.path.join("objects", "pack"), os.path.join("refs", "commits"))


class Use(NamedTuple):
    """The number of files in a folder, and the sum of their bytes."""

    files: int
    size: int


class Old(NamedTuple):
    """A file or folder that can be removed."""

    path: str
    size: int


def use(path: str) -> Use:
    """Return the number and the bytes of the files below ``path``, or of the file ``path`` itself."""
    found = [size for _, size, _ in _files(path)]
    return Use(len(found), sum(found))


def leftovers(folder: str, before: float) -> Iterator[Old]:
    """Yield incomplete files and folders of killed processes below ``folder``, last changed before that time (epoch).

    Stored trees are skipped: their files may have any name.
    """
    waiting = [folder]
    while waiting:
        for row in _rows(waiting.pop()):
            if _LEFTOVER.fullmatch(row.name):
                if _changed(row) < before:
                    yield Old(row.path, use(row.path).size)
            elif row.is_dir(follow_symlinks=False) and not is_hex(row.name):
                waiting.append(row.path)


def old_files(folder: str, before: float) -> Iterator[Old]:
    """Yield the files below ``folder`` that were last changed before that time, except lock files."""
    for path, size, changed in _files(folder):
        if changed < before and not path.endswith(".lock"):
            yield Old(path, size)


def old_repositories(cache: str, before: float) -> Iterator[Old]:
    """Yield the cached repositories into which nothing was fetched since that time."""
    for row in _rows(os.path.join(cache, "git")):
        if not _REPOSITORY.fullmatch(row.name) or not row.is_dir(follow_symlinks=False):
            continue
        if max(_stamp(os.path.join(row.path, name)) for name in _FRESH) < before:
            yield Old(row.path, use(row.path).size)


def remove(path: str) -> bool:
    """Remove a file or a folder; return whether it was removed."""
    try:
        remove_tree(path)
    except OSError:
        return False
    return True


def remove_repository(path: str) -> bool:
    """Remove a cached repository unless a process uses it; return whether it was removed."""
    gone = f"{path}.{os.urandom(4).hex()}.gone"
    try:
        with files.lock(f"{path}.lock", timeout=0):
            os.rename(path, gone)
    except (StateError, OSError):
        return False
    return remove(gone)


def _files(path: str) -> Iterator[tuple[str, int, float]]:
    """Yield each file below ``path``, or ``path`` itself, with its size and time of change."""
    with suppress(OSError):
        status = os.lstat(path)
        if not os.path.isdir(path) or os.path.islink(path):
            yield path, status.st_size, status.st_mtime
            return
    waiting = [path]
    while waiting:
        for row in _rows(waiting.pop()):
            if row.is_dir(follow_symlinks=False):
                waiting.append(row.path)
                continue
            with suppress(OSError):
                status = row.stat(follow_symlinks=False)
                yield row.path, status.st_size, status.st_mtime


def _rows(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as rows:
            return sorted(rows, key=lambda row: row.name)
    except OSError:
        return []  # removed meanwhile, or not readable


def _changed(row: os.DirEntry[str]) -> float:
    try:
        return row.stat(follow_symlinks=False).st_mtime
    except OSError:
        return float("inf")


def _stamp(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


# Temporary folders of killed commands.

_NAME = re.compile(r"(?a)skillhub-(\d{1,10})-\w{8}")


def abandoned(before: float) -> Iterator[Old]:
    """Yield temporary folders of this user, last changed before that time (epoch), whose process has ended.

    Other users can write into the system's temporary folder: links and entries of other users are skipped.
    """
    try:
        with os.scandir(gettempdir()) as rows:
            found = [row for row in rows if _NAME.fullmatch(row.name)]
    except OSError:
        return
    for row in found:
        if _is_ours(row, before) and not _runs(int(row.name.split("-")[1])):
            yield Old(row.path, use(row.path).size)


def _is_ours(row: os.DirEntry[str], before: float) -> bool:
    try:
        status = row.stat(follow_symlinks=False)
        is_mine = os.name == "nt" or status.st_uid == os.geteuid()  # on Windows each user has a temporary folder
        return is_mine and row.is_dir(follow_symlinks=False) and status.st_mtime < before
    except OSError:
        return False


def _runs(process: int) -> bool:
    """Return whether the process exists; on Windows, where the check would end it, return False."""
    if os.name == "nt":
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
