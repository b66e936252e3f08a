"""A skill on this machine: a folder or an archive file, read into memory with the same checks as an archive."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from skillhub import errors
from skillhub.archive.limits import Entry, Limits
from skillhub.archive.unpack import gather, unpack
from skillhub.disk import files
from skillhub.disk.folders import FileBits, walk
from skillhub.disk.home import EDITS, INTENT, LOCK, has_lock_or_intent
from skillhub.errors import FormatError, NotFound, SecurityError, UnsafeArchive
from skillhub.formats.digest import Digest
from skillhub.formats.text import as_command, as_word, command, did_you_mean, quote, spelled_like
from skillhub.model.hosts import hosts
from skillhub.model.tree import SIGNATURE, SKILL_MD, Unpacked, kind_of, misnamed
from skillhub.project.project import Project

_OF_CONTENT: tuple[type[errors.SkillhubError], ...] = (FormatError, SecurityError)
# An archive of an honest skill, compressed or padded, is not larger than the limit on its unpacked files.
_ARCHIVE_CAP = Limits().total + (1 << 20)
_EDITED = frozenset({"changed-file", "extra-file", "missing-file"})
EXPECTED = "expected a skill: a folder, .zip, .skill or .tar.gz"


def read_local(
    path: str,
    *,
    wrapper: bool = True,
    project: Project | None = None,
    like: FileBits | None = None,
    leave_out: Collection[str] = (),
) -> Unpacked:
    """Return the skill at ``path``; ``wrapper`` is as for ``unpack``.

    Args:
        path: The folder or archive.
        wrapper: As for ``unpack``.
        project: The project that ``path`` lies in, for a copy; no folder between the two may be a link.
        like: The files whose execute bits count where the folder's file system keeps none.
        leave_out: Files and folders of a folder that are no part of the skill, as ``files_of_project`` returns them.

    Raises:
        NotFound: nothing is at ``path``, or a folder without ``SKILL.md``.
        UsageError: the name of the file is not that of an archive.
        UnsafeArchive: the skill holds what no skill may hold, such as a link.
        FormatError: the file is not the archive that its name says.
        StateError: the folder or file cannot be read.
    """
    full = os.path.expanduser(path)
    if os.path.isdir(full):
        return _read_folder(full, path, project, like, leave_out)
    kind = kind_of(os.path.basename(full))
    if kind is None and os.path.exists(full):
        is_skill = os.path.basename(full) == SKILL_MD
        hint = f"name the folder of the skill: {os.path.dirname(path) or '.'}" if is_skill else EXPECTED
        raise errors.UsageError(f"{quote(path)} is not a supported archive", hint=hint)
    data = files.read(os.path.realpath(full), _ARCHIVE_CAP) if kind else None
    if kind is None or data is None:
        near: list[str] = []
        with suppress(OSError):
            near = spelled_like(os.path.basename(full), os.listdir(os.path.dirname(full) or "."))
        hint = did_you_mean([as_word(os.path.join(os.path.dirname(path), name)) for name in near], EXPECTED)
        raise NotFound("there is no such file or folder", where=os.path.abspath(full), hint=hint)
    return replace(unpack(data, kind, wrapper=wrapper), archive=Digest.of(data))


def files_of_project(path: str) -> tuple[str, ...]:
    """Return the files and folders of a skill's folder that belong to the project which the folder is, too.

    These are its lock, its intent, its saved edits and the agents' folders of skills. They are no part of the skill
    that its author installs, packs, signs or publishes.
    """
    full = os.path.expanduser(path)
    if not has_lock_or_intent(full):
        return ()
    folders = {host.project_dir or "" for host in hosts().values()}
    # A skill can have a folder such as `skills` of its own, but a hidden one is an agent's.
    return (LOCK, INTENT, EDITS, *sorted(folder for folder in folders if folder.startswith(".")))


def hint_to_sign_again(path: str, reason: str | None) -> str | None:
    """Return the hint for an author who edited the folder at ``path`` after signing it; None for other reasons."""
    if reason not in _EDITED or not os.path.isdir(os.path.expanduser(path)):
        return None
    return f"if the skill is yours, delete {SIGNATURE}, or: {as_command('skillhub', 'sign', path)}"


@contextmanager
def named(path: str, kinds: tuple[type[errors.SkillhubError], ...] = _OF_CONTENT) -> Iterator[None]:
    """Add ``path`` to errors of these kinds that are raised within, which concern the content of that skill."""
    try:
        yield
    except kinds as error:
        if isinstance(error, errors.BadSignature):
            error.hint = error.hint or hint_to_sign_again(path, error.reason)
        elif isinstance(error, FormatError):
            error.hint = error.hint or f"{as_command('skillhub', 'validate', path)} lists all of its errors"
        if not error.where:
            error.where = path
        elif not os.path.isabs(error.where) and not error.where.startswith(path):
            error.where = f"{path}: {error.where}"
        raise


def _read_folder(
    full: str, path: str, project: Project | None, like: FileBits | None, leave_out: Collection[str]
) -> Unpacked:
    if not os.path.lexists(os.path.join(full, SKILL_MD)):
        hint = "a skill is a folder with a SKILL.md; name that folder"
        if project is not None:
            hint = f"{command(project.scope, 'sync')} restores the copy"
        with files.disk_errors(full):
            near = misnamed(os.listdir(full))
        raise NotFound(f"{quote(path)} has no SKILL.md{near and f': {near}'}", where=os.path.abspath(full), hint=hint)
    left_out = tuple(each for each in leave_out if os.path.lexists(os.path.join(full, each)))
    with files.disk_errors(full):
        if project is None:
            found = gather(_entries(full, like, left_out), wrapper=False)
        else:
            with project.hold(full) as (name, at):
                found = gather(_entries(name, like, left_out, at), wrapper=False)
    note = f"left out, since they belong to the project in this folder: {', '.join(left_out)}"
    return replace(found, warnings=(*found.warnings, note), left_out=left_out) if left_out else found


def _entries(folder: str, like: FileBits | None, left_out: Collection[str], at: int | None = None) -> Iterator[Entry]:
    for path, file in walk(folder, largest=Limits().total, skip=".git", dir_fd=at, like=like):
        if any(f"{path}/".startswith(f"{each}/") for each in left_out):
            continue
        if file is None:
            raise UnsafeArchive("link", "expected files and folders, found a link or a device", where=path)
        yield Entry(path, file)
