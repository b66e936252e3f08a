"""The files of a skill in memory, and their digests."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from itertools import islice
from typing import Final, Literal, TypeVar

from skillhub.formats.digest import Digest
from skillhub.formats.text import quote

SKILL_MD = "SKILL.md"
# Other declarations of a skill; of two files about the same, the later decides.
DECLARATIONS = ("agents/openai.yaml", "agents/openoxide.yaml", "agents/skillhub.yaml")
SIGNATURE = "skill.oms.sig"
ArchiveKind = Literal["zip", "tar.gz"]

_ZIP_TYPES: Final = frozenset({"application/zip", "application/x-zip", "application/x-zip-compressed"})
_TAR_TYPES: Final = frozenset(
    {"application/gzip", "application/x-gzip", "application/x-tgz", "application/x-gtar"}
    | {"application/x-compressed-tar", "application/x-tar-gz"}
)
_LINE = re.compile(r"[x-] [0-9a-f]{64}  [^\n]+", re.ASCII)


def misnamed(paths: Iterable[str]) -> str:
    """Return the first three paths that only capital or small letters keep from a ``SKILL.md``, for a message."""
    found = sorted(each for each in paths if each.rpartition("/")[2].upper() == SKILL_MD.upper())
    return f"expected {SKILL_MD}, found {', '.join(map(quote, found[:3]))}" if found else ""


@dataclass(frozen=True, slots=True)
class File:
    """One file: its bytes and its owner's execute bit, the only mode bit that is kept."""

    data: bytes
    executable: bool = False


_F = TypeVar("_F")


class _ByPath(Mapping[str, _F]):
    """Files by relative path, ``/`` between segments, sorted by the bytes of the path; no folders, no links."""

    def __init__(self, files: Mapping[str, _F] | Iterable[tuple[str, _F]]) -> None:
        # `gather` lets no lone surrogate in, but a tree in a test may have one.
        by_bytes = sorted(dict(files).items(), key=lambda item: item[0].encode("utf-8", "surrogateescape"))
        self._files = dict(by_bytes)

    def __getitem__(self, path: str) -> _F:
        return self._files[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def items(self) -> ItemsView[str, _F]:
        """Return paths and files; faster than that of ``Mapping``, which calls a method for each path."""
        return self._files.items()

    def values(self) -> ValuesView[_F]:
        """Return the files; faster for the same reason."""
        return self._files.values()


class Tree(_ByPath[File]):
    """The files of a skill.

    A ``Tree`` does not check its paths: ``archive.unpack.gather`` refuses unsafe ones.
    """

    def __repr__(self) -> str:
        return f"Tree({self.digest}, {len(self)} files, {self.size} bytes)"

    @cached_property
    def size(self) -> int:
        """The number of bytes of all files together."""
        return sum(len(file.data) for file in self.values())

    @cached_property
    def listing(self) -> Listing:
        """One line for each file; its SHA-256 is the identity of the skill."""
        return Listing(
            (path, ListedFile(sha256(file.data).hexdigest(), file.executable)) for path, file in self.items()
        )

    @property
    def digest(self) -> Digest:
        """The ``tree`` of lock and index: the SHA-256 of the listing's text."""
        return self.listing.digest

    def without(self, paths: Iterable[str]) -> Tree:
        """Return the tree without these paths."""
        removed = set(paths)
        return Tree((path, file) for path, file in self.items() if path not in removed)


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file in a listing: its SHA-256 in hex and its execute bit."""

    sha256: str
    executable: bool


class Listing(_ByPath[ListedFile]):
    """The digests of a tree's files: stored beside the tree, and compared with the files on disk."""

    @cached_property
    def text(self) -> bytes:
        """``x`` or ``-``, a space, the file's SHA-256, two spaces, the path, a line feed; sorted by path bytes."""
        lines = (
            # A line feed in a file name could forge a line of another tree; no file name can have NUL.
            f"{'x' if file.executable else '-'} {file.sha256}  {path.replace(chr(10), chr(0))}\n"
            for path, file in self._files.items()
        )
        return "".join(lines).encode("utf-8", "surrogateescape")

    @cached_property
    def digest(self) -> Digest:
        """The SHA-256 of ``text``."""
        return Digest.of(self.text)

    @classmethod
    def parse(cls, text: bytes) -> Listing:
        """Return the listing in ``text``; a caller that trusts it has to compare its ``digest`` first.

        Raises:
            ValueError: a line has another form. (The digest is the real check.)
        """
        *rows, remainder = text.decode("utf-8", "surrogateescape").split("\n")
        if remainder or not all(map(_LINE.fullmatch, rows)):
            raise ValueError("not a listing")
        return cls((row[68:], ListedFile(row[2:66], row[0] == "x")) for row in rows)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A tree with safe paths.

    Attributes:
        tree: The files.
        warnings: Warnings about the archive or folder, for a person.
        archive: The digest of the archive's bytes; None for a folder, or where nobody needs it.
        left_out: The paths in the folder that are no part of the skill.
    """

    tree: Tree
    warnings: tuple[str, ...] = ()
    archive: Digest | None = None
    left_out: tuple[str, ...] = ()


def kind_of(filename: str, content_type: str | None = None) -> ArchiveKind | None:
    """Return the kind of archive by the content type, else by the extension; None if it is neither."""
    media = (content_type or "").partition(";")[0].strip().lower()
    if media in _ZIP_TYPES or media.endswith("+zip"):
        return "zip"
    if media in _TAR_TYPES or media.endswith("tar+gzip"):
        return "tar.gz"
    name = filename.lower()
    if name.endswith((".zip", ".skill")):
        return "zip"
    return "tar.gz" if name.endswith((".tar.gz", ".tgz")) else None


_Place = tuple[str | None, int]


def lines_at(places: Iterable[_Place], files: Mapping[str, File]) -> dict[_Place, bytes]:
    """Return the lines at these paths and numbers, from 1, of the files; no other line is kept in memory."""
    wanted = defaultdict[str, set[int]](set)
    for path, number in places:
        if path and number and path in files:
            wanted[path].add(number)
    return {
        (path, number): line.removesuffix(b"\n")
        for path, numbers in wanted.items()
        for number, line in enumerate(islice(BytesIO(files[path].data), max(numbers)), 1)
        if number in numbers
    }
