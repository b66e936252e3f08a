"""What an archive may hold: paths, kinds and modes of entries, sizes, and inflation that counts bytes."""

from __future__ import annotations

import re
import stat
import unicodedata
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from skillhub.errors import FormatError, UnsafeArchive
from skillhub.formats.text import clean, deferred, is_hidden, quote
from skillhub.model.tree import SKILL_MD, File

# The entries that readers pass to ``gather``, and the limits.


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum size of a skill; a larger one is always refused.

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
        """The most entries: files, folders and litter, since a million empty entries would take a million steps."""
        return 2 * self.files

    @property
    def stream(self) -> int:
        """The most bytes of a tar of such a skill: files, headers, long names and padding."""
        return self.total + 16 * 1024 * self.files


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, or a folder (``file`` is None), from a reader and not yet checked."""

    path: str
    file: File | None


def unsafe(reason: str, message: str, path: str | None = None) -> UnsafeArchive:
    """Return the error that refuses the entry at ``path``, which may be any text."""
    return UnsafeArchive(reason, message, where=None if path is None else clean(path[:1024]))


def decode_name(raw: bytes) -> str:
    """Return the name of an entry.

    Raises:
        UnsafeArchive: ``name-encoding``: it is not UTF-8.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        spelled = quote(raw.decode("utf-8", "backslashreplace"))
        raise unsafe("name-encoding", f"expected a name in UTF-8, found {spelled}") from error


def executable(mode: int, *, folder: bool, path: str) -> bool:
    """Return the owner's execute bit of a Unix mode, after a check of its other bits.

    Args:
        mode: Permission bits and, if the archive has them, the bits of the type; 0 is unknown.
        folder: Whether the archive marks the entry as a folder in its own way.
        path: The path of the entry, for the error.

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


# The paths that a skill may have, so that every system can unpack it.

# Device names stay reserved before any extension; superscript digits count (Win32 "Naming Files").
_DEVICE: Final = r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])"
RESERVED: Final = deferred(rf"{_DEVICE} *(?:\.|\Z)", re.IGNORECASE)
_PLAIN_SEGMENT: Final = rf"(?!{_DEVICE}(?:[./]|\Z))[a-z0-9_-][a-z0-9_.-]*(?<!\.)"
# Nearly every honest path matches this pattern; such a path obeys all the slow rules, which are then not checked.
_PLAIN: Final = deferred(rf"(?:{_PLAIN_SEGMENT}/)*{_PLAIN_SEGMENT}", re.IGNORECASE | re.ASCII)
_DRIVE: Final = deferred(r"[A-Za-z]:")
_FORBIDDEN: Final = deferred(r'[<>"|?*]')
# A variation selector belongs to an emoji (or ends a keycap, as in 1️⃣); after a plain letter it is only invisible.
_STRAY_SELECTOR: Final = deferred(r"(?:\A|(?<=[\x00-\x7f]))[\ufe00-\ufe0f](?!\u20e3)")
_SELECTORS: Final = deferred(r"[\ufe00-\ufe0f]")
_SHORT_GIT: Final = deferred(r"git~[0-9]+")
# NTFS gives each file with a long name a short one, too, under which another file of that name would replace it.
_SHORT: Final = deferred(r"(?=[^.]{3,8}(?:\.|\Z))[^.~]+~[0-9]+(?:\.[^.]{0,3})?")
# Letters that look like one of SKILL.md's, after NFKD and case folding; i, l and 1 look alike.
_CONFUSABLE: Final = str.maketrans(
    dict.fromkeys("i1|!ıɩɪιіӏⲓᎥᏞꓡꓲʟǀ∣", "l")
    | dict.fromkeys("5ѕꜱƽᏚꓢտ", "s")
    | dict.fromkeys("κкᴋĸⲕқҝᏦꓗ", "k")
    | dict.fromkeys("μмᴍⲙϻᎷꓟ", "m")
    | dict.fromkeys("ԁɗđᎠꓓᴅ", "d")
    | dict.fromkeys("·۰", ".")
)


def check_path(path: str, limits: Limits) -> None:
    """Refuse a path unless every system puts it inside the skill's folder, under exactly this name.

    Args:
        path: Segments joined by ``/``, without ``/`` at the end; may contain lone surrogates.
        limits: The maximum length and depth.

    Raises:
        UnsafeArchive: a reason of the families paths, names and limits.
    """
    if len(path) <= min(limits.name, limits.path) and _PLAIN.fullmatch(path) and path.count("/") < limits.depth:
        return
    segments = path.split("/")
    _check_length(path, segments, limits)
    _check_syntax(path)
    for segment in segments:
        _check_segment(segment, path)


def fold(segment: str) -> str:
    """Return the same text for all names that some file system treats as one (case, Unicode form, final dots)."""
    if segment.isascii():
        return segment.lower().rstrip(". ")
    # Upper case first, as NTFS compares: only in upper case are dotless i, final sigma and long s equal to i and s.
    wide = unicodedata.normalize("NFKC", _SELECTORS.sub("", segment))
    return unicodedata.normalize("NFKC", wide.upper().casefold()).rstrip(". ")


def is_lookalike(name: str) -> bool:
    """Return whether ``name`` looks like ``SKILL.md`` and is another name."""
    if name == SKILL_MD or (name.isascii() and len(name) not in (8, 9)):
        return False
    return _skeleton(name) == _SKILL_SKELETON


def _skeleton(name: str) -> str:
    letters = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    bare = "".join(char for char in letters if not unicodedata.combining(char))
    return _SELECTORS.sub("", bare).translate(_CONFUSABLE).replace("rn", "m")


_SKILL_SKELETON: Final = _skeleton(SKILL_MD)


def _check_length(path: str, segments: list[str], limits: Limits) -> None:
    try:
        sizes = [len(segment.encode()) for segment in segments]
    except UnicodeEncodeError as error:
        raise unsafe("name-encoding", f"expected UTF-8, found a lone surrogate in {quote(path)}", path) from error
    if max(sizes) > limits.name:
        raise unsafe("name-too-long", f"a name has at most {limits.name} bytes, found {max(sizes)}", path)
    if (length := sum(sizes) + len(sizes) - 1) > limits.path:
        raise unsafe("path-too-long", f"a path has at most {limits.path} bytes, found {length}", path)
    if len(sizes) > limits.depth:
        raise unsafe("too-deep", f"a path has at most {limits.depth} segments, found {len(sizes)}", path)


def _check_syntax(path: str) -> None:
    """Refuse a path that some system does not read as a relative path of plain names."""
    if "\0" in path:
        raise _unsafe_path("path-nul", "no NUL", path)
    if path.startswith(("/", "\\\\")) or _DRIVE.match(path):
        raise _unsafe_path("path-absolute", "a relative path", path)
    if "\\" in path:
        raise _unsafe_path("path-backslash", "/ between segments", path)
    if ":" in path:
        raise _unsafe_path("path-stream", "no colon (it opens a stream on NTFS)", path)


def _check_segment(segment: str, path: str) -> None:
    wide = unicodedata.normalize("NFKC", segment)
    if not wide or (wide.startswith(".") and not wide.strip(". ")):
        raise _unsafe_path("path-traversal", "no empty segment and none of dots alone", path)
    if any(map(is_hidden, segment)) or _STRAY_SELECTOR.search(segment):
        raise _unsafe_path("name-hidden", "no control, bidirectional, invisible or unassigned character", path)
    if _is_git(wide):
        raise _unsafe_path("name-dot-git", "no name that git keeps for itself", path)
    if _SHORT.fullmatch(segment):
        raise _unsafe_path("name-reserved", "no short name that Windows may give to another file", path)
    if segment[-1] in ". " or _FORBIDDEN.search(segment) or RESERVED.match(segment):
        raise _unsafe_path("name-reserved", "a name that Windows can hold", path)


def _is_git(wide: str) -> bool:
    # NTFS drops dots and spaces at the end of a name, and its short name for .git is git~1.
    name = _SELECTORS.sub("", wide).casefold().rstrip(". ")
    return name == ".git" or _SHORT_GIT.fullmatch(name) is not None


def _unsafe_path(reason: str, expected: str, path: str) -> UnsafeArchive:
    return unsafe(reason, f"expected {expected} in a path, found {quote(path)}", path)


# Inflation that counts its output, so that a decompression bomb stops at the limit.

MAGIC = b"\x1f\x8b"
# The input is fed in steps: zlib copies unconsumed input, which would take quadratic time for a large one.
_STEP_IN = 1 << 16
_STEP_OUT = 1 << 18
# Parallel compressors write members of 64 KiB or more, 1024 for the largest skill; each empty member takes a step.
_MEMBERS = 4096


def inflate(packed: memoryview, size: int, path: str) -> bytes:
    """Return the ``size`` bytes of a raw deflate stream (RFC 1951), which must fill ``packed``.

    Raises:
        UnsafeArchive: ``deflate`` (broken, cut short, or followed by other bytes), ``wrong-size``.
    """
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        # One byte more than expected, since zlib would else stop before the end of the stream.
        data = inflater.decompress(packed, size + 1)
    except zlib.error as error:
        raise unsafe("deflate", f"the deflate stream is broken: {error}", path) from error
    if len(data) > size:
        raise unsafe("wrong-size", f"expected {size} bytes, found more", path)
    if not inflater.eof:
        raise unsafe("deflate", "the deflate stream is cut short", path)
    if inflater.unused_data:
        raise unsafe("deflate", f"{len(inflater.unused_data)} bytes follow the deflate stream", path)
    if len(data) < size:
        raise unsafe("wrong-size", f"expected {size} bytes, found {len(data)}", path)
    return data


class Gunzipped:
    """The unpacked bytes of a gzip file (RFC 1952, all its members), read forward.

    Args:
        data: The whole file.
        limit: The most unpacked bytes.

    Raises:
        FormatError: ``data`` does not begin like gzip.
        UnsafeArchive: from ``read``: ``gzip``, ``too-large``.
    """

    def __init__(self, data: bytes, limit: int) -> None:
        if not data.startswith(MAGIC):
            raise FormatError("expected a gzip file, found something else")
        self._pieces = _gunzip(memoryview(data), limit)
        self._piece = b""
        self._at = 0

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes, fewer only at the end of the file."""
        start, stop = self._at, self._at + size
        if stop <= len(self._piece):
            self._at = stop
            return self._piece[start:stop]
        parts = [self._piece[start:]]
        missing = size - len(parts[0])
        self._piece = b""
        self._at = 0
        for piece in self._pieces:
            if len(piece) >= missing:
                self._piece, self._at = piece, missing
                parts.append(piece[:missing])
                break
            parts.append(piece)
            missing -= len(piece)
        return b"".join(parts)


def _gunzip(data: memoryview, limit: int) -> Iterator[bytes]:
    offset = total = members = 0
    while offset < len(data):
        members += 1
        if data[offset : offset + 2] != MAGIC or members > _MEMBERS:
            raise unsafe("gzip", f"expected at most {_MEMBERS} gzip members and nothing after, found more")
        # zlib itself reads a member's header and checks its CRC and length.
        inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        while not inflater.eof:
            waiting = inflater.unconsumed_tail
            step = waiting or data[offset : offset + _STEP_IN]
            offset += 0 if waiting else len(step)
            try:
                piece = inflater.decompress(step, _STEP_OUT)
            except zlib.error as error:
                raise unsafe("gzip", f"the gzip stream is broken: {error}") from error
            if not (step or piece):
                raise unsafe("gzip", "the gzip stream is cut short")
            total += len(piece)
            if total > limit:
                raise unsafe("too-large", f"more than {limit} bytes unpacked, with headers and padding")
            if piece:
                yield piece
        offset -= len(inflater.unused_data)
