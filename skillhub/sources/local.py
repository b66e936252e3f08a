"""Skills on this machine: a folder, an archive, or a folder that holds several; no link in one is followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property

from skillhub import errors
from skillhub.archive import Entry, Limits, Unpacked, gather, kind_of, unpack
from skillhub.disk import files
from skillhub.disk.folders import walk
from skillhub.errors import FormatError, NotFound, SecurityError, UnsafeArchive
from skillhub.formats.digest import Digest
from skillhub.formats.text import as_command, quote
from skillhub.model.tree import SKILL_MD
from skillhub.project.project import Project
from skillhub.sources.layout import Snapshot, SnapshotNode
from skillhub.sources.repository import Repository

_NODES_MAX = 200_000
# A repository's own, and what is installed into a project: neither is where somebody keeps skills.
_SKIPPED = frozenset({".git", "node_modules"})
_FILE_CAP = Limits().total


class FolderSnapshot:
    """The files of a folder as they are now, ``.git`` and ``node_modules`` apart.

    Args:
        path: The folder; it may itself be reached through a link.
    """

    rev = None
    date = None

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)

    @cached_property
    def nodes(self) -> Mapping[str, SnapshotNode]:
        """Every path below the folder that is no folder.

        Raises:
            FormatError: there are more than anybody keeps skills among.
            StateError: a folder cannot be read.
        """
        found: dict[str, SnapshotNode] = {}
        waiting = [""]
        while waiting:
            prefix = waiting.pop()
            folder = os.path.join(self._path, prefix)
            with files.disk_errors(folder), os.scandir(folder) as rows:
                for row in rows:
                    if row.name in _SKIPPED:
                        continue
                    if row.is_dir(follow_symlinks=False):
                        waiting.append(f"{prefix}{row.name}/")
                    else:
                        status = row.stat(follow_symlinks=False)
                        file = SnapshotNode("file", bool(status.st_mode & 0o100), status.st_size)
                        found[prefix + row.name] = file if stat.S_ISREG(status.st_mode) else SnapshotNode("link")
            if len(found) > _NODES_MAX:
                raise FormatError(
                    f"expected at most {_NODES_MAX} files, found more",
                    where=self._path,
                    hint="name the folder in it that holds the skills",
                )
        return found

    def read(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of these files.

        Raises:
            NotFound: one is gone by now.
            StateError: one cannot be read.
        """
        for path in paths:
            full = os.path.join(self._path, *path.split("/"))
            data = files.read(full, _FILE_CAP)
            if data is None:
                raise NotFound("the file is gone", where=full)
            yield data


def open_folder(path: str) -> Repository:
    """Return the place that a local folder is: its skills, their paths relative to it."""
    return Repository(FolderSnapshot(path), url=path, elsewhere=_nowhere)


def _nowhere(url: str, rev: str | None) -> Snapshot:
    raise NotFound(f"it is in another repository, {quote(url)}; install from there")


# Skills on this machine: a folder or an archive file, read into memory with the checks that archives pass.

_OF_CONTENT: tuple[type[errors.SkillhubError], ...] = (FormatError, SecurityError)
# Compressed or padded, an archive of an honest skill is not larger than what it may unpack to.
_ARCHIVE_CAP = Limits().total + (1 << 20)
_EDITED = frozenset({"changed-file", "extra-file", "missing-file"})
_EXPECTED = "expected a skill: a folder, .zip, .skill or .tar.gz"


def read_local(path: str, *, wrapper: bool = True, project: Project | None = None) -> tuple[Unpacked, Digest | None]:
    """Return the skill at ``path`` and, for an archive, the digest of its bytes; ``wrapper`` is as for ``unpack``.

    Of a copy in a ``project`` no folder on the way may be a link by now.

    Raises:
        NotFound: nothing is there, or a folder without ``SKILL.md``.
        UsageError: a file that is no archive by its name.
        UnsafeArchive: it holds what no skill may hold, links among it.
        FormatError: not the archive that its name says.
        StateError: it cannot be read.
    """
    full = os.path.expanduser(path)
    if os.path.isdir(full):
        return _read_folder(full, path, project), None
    kind = kind_of(os.path.basename(full))
    if kind is None and os.path.exists(full):
        raise errors.UsageError(f"{quote(path)} is not a supported archive", hint=_EXPECTED)
    data = files.read(os.path.realpath(full), _ARCHIVE_CAP) if kind else None
    if kind is None or data is None:
        raise NotFound("there is no such file or folder", where=os.path.abspath(full), hint=_EXPECTED)
    return unpack(data, kind, wrapper=wrapper), Digest.of(data)


def sign_anew(path: str, reason: str | None) -> str | None:
    """Return the hint for an author who edited the folder at ``path`` after it was signed; None of anything else."""
    if reason not in _EDITED or not os.path.isdir(os.path.expanduser(path)):
        return None
    return f"if the skill is yours: {as_command('skillhub', 'sign', path)}"


@contextmanager
def named(path: str, kinds: tuple[type[errors.SkillhubError], ...] = _OF_CONTENT) -> Iterator[None]:
    """Let errors of these kinds, which are about what is in the skill at ``path``, say so."""
    try:
        yield
    except kinds as error:
        if isinstance(error, errors.BadSignature):
            error.hint = error.hint or sign_anew(path, error.reason)
        if not error.where:
            error.where = path
        elif not os.path.isabs(error.where) and not error.where.startswith(path):
            error.where = f"{path}: {error.where}"
        raise


def _read_folder(full: str, path: str, project: Project | None) -> Unpacked:
    if not os.path.lexists(os.path.join(full, SKILL_MD)):
        hint = "a skill is a folder with a SKILL.md; name that folder"
        raise NotFound(f"{quote(path)} has no SKILL.md", where=os.path.abspath(full), hint=hint)
    with files.disk_errors(full):
        if project is None:
            return gather(_entries(full, None), wrapper=False)
        with project.hold(full) as (name, at):
            return gather(_entries(name, at), wrapper=False)


def _entries(folder: str, at: int | None) -> Iterator[Entry]:
    for found in walk(folder, largest=Limits().total, skip=".git", dir_fd=at):
        if found.file is None:
            raise UnsafeArchive("link", "expected files and folders, found a link or a device", where=found.path)
        yield Entry(found.path, found.file)
