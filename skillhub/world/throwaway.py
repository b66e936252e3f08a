"""Temporary folders of one command, and those that killed commands left behind."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from tempfile import TemporaryDirectory, gettempdir

from skillhub.errors import StateError
from skillhub.world.disk_use import Old, use

_NAME = re.compile(r"(?a)skillhub-(\d{1,10})-\w{8}")


def throwaway() -> TemporaryDirectory[str]:
    """Return a new folder among those that the system keeps for a while; its name tells which process made it.

    Raises:
        StateError: the disk refuses, or there is no place for it.
    """
    try:
        return TemporaryDirectory(prefix=f"skillhub-{os.getpid()}-", ignore_cleanup_errors=True)
    except OSError as error:
        hint = "let TMPDIR name a folder that you may write to, with some space"
        raise StateError(f"no temporary folder can be made: {error.strerror}", hint=hint) from error


def abandoned(before: float) -> Iterator[Old]:
    """Yield such folders of this user's, last changed before that time (epoch seconds), whose process is no more.

    Others can make what they like where these are: a link, or what is theirs, is passed over.
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
        is_mine = os.name == "nt" or status.st_uid == os.geteuid()  # there each user has a folder for these
        return is_mine and row.is_dir(follow_symlinks=False) and status.st_mtime < before
    except OSError:
        return False


def _runs(process: int) -> bool:
    """Say whether there is such a process; where asking for it would end it, nobody is asked."""
    if os.name == "nt":
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
