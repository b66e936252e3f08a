"""What a reader hands to the gate, and how much of it the gate lets through."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import Final, Literal

from skillhub.errors import UnsafeArchive
from skillhub.model.text import clean
from skillhub.model.tree import File

Kind = Literal["zip", "tar.gz"]

_ZIP_TYPES: Final = frozenset({"application/zip", "application/x-zip", "application/x-zip-compressed"})
_TAR_TYPES: Final = frozenset(
    {"application/gzip", "application/x-gzip", "application/x-tgz", "application/x-gtar"}
    | {"application/x-compressed-tar", "application/x-tar-gz"}
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a skill may be; what is larger is refused, there is no second path.

    Args:
        total: Bytes of all files together.
        files: Number of files.
        name: Bytes of one segment of a path, in UTF-8.
        path: Bytes of a path.
        depth: Segments of a path.
    """

    total: int = 64 << 20
    files: int = 2000
    name: int = 255
    path: int = 1024
    depth: int = 32

    @property
    def entries(self) -> int:
        """Files, folders and litter together: a million empty entries must not cost a million steps."""
        return 2 * self.files

    @property
    def stream(self) -> int:
        """Bytes that a tar of such a skill can need: headers, long names and padding besides the files."""
        return self.total + 16 * 1024 * self.files


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, or a folder (``file`` is None), as a reader found it and nobody judged it yet."""

    path: str
    file: File | None


def kind_of(filename: str, content_type: str | None = None) -> Kind | None:
    """Return the kind that the content type says, else the one that the extension says, else None."""
    media = (content_type or "").partition(";")[0].strip().lower()
    if media in _ZIP_TYPES or media.endswith("+zip"):
        return "zip"
    if media in _TAR_TYPES or media.endswith("tar+gzip"):
        return "tar.gz"
    name = filename.lower()
    if name.endswith((".zip", ".skill")):
        return "zip"
    return "tar.gz" if name.endswith((".tar.gz", ".tgz")) else None


def unsafe(reason: str, message: str, path: str | None = None) -> UnsafeArchive:
    """Return the refusal of the entry at ``path``, which may be any text."""
    return UnsafeArchive(reason, message, where=None if path is None else clean(path[:1024]))


def executable(mode: int, *, folder: bool, path: str) -> bool:
    """Return the owner's execute bit of a Unix mode, once nothing else in the mode matters.

    Args:
        mode: Permission bits and, where the archive keeps them, the bits of the type; 0 says nothing.
        folder: What the archive's own way of marking a folder says.
        path: Where the entry is, for the error.

    Raises:
        UnsafeArchive: ``link``, ``special-file``, ``kind-mismatch``, ``mode-bits``.
    """
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFLNK:
        raise unsafe("link", "a skill holds no links, found a symbolic one", path)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise unsafe("special-file", f"expected a file or folder, found type {kind:#o}", path)
    if kind and folder != (kind == stat.S_IFDIR):
        raise unsafe("kind-mismatch", "name and type disagree on whether this is a folder", path)
    if stat.S_IMODE(mode) & 0o7000 or mode >> 16:
        raise unsafe("mode-bits", f"set-id and sticky bits are refused, found mode {mode:#o}", path)
    return not folder and bool(mode & stat.S_IXUSR)
