"""What a path inside a skill may be, on any system that the skill may ever be unpacked on."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from skillhub.archive.entry import Limits, unsafe
from skillhub.errors import UnsafeArchive
from skillhub.model.text import is_hidden, quote
from skillhub.model.tree import SKILL_MD

# Device names stay reserved before any extension; superscript digits count (Win32 "Naming Files").
_DEVICE: Final = r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])"
_RESERVED: Final = re.compile(rf"{_DEVICE} *(?:\.|\Z)", re.IGNORECASE)
_PLAIN_SEGMENT: Final = rf"(?!{_DEVICE}(?:[./]|\Z))[a-z0-9_-][a-z0-9_.-]*(?<!\.)"
# Nearly every honest path; it need not meet the slow rules, all of which it obeys.
_PLAIN: Final = re.compile(rf"(?:{_PLAIN_SEGMENT}/)*{_PLAIN_SEGMENT}", re.IGNORECASE | re.ASCII)
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_FORBIDDEN: Final = re.compile(r'[<>"|?*]')
# A variation selector belongs to an emoji (or closes a keycap, as in 1️⃣); after a plain letter it only hides.
_STRAY_SELECTOR: Final = re.compile(r"(?:\A|(?<=[\x00-\x7f]))[\ufe00-\ufe0f](?!\u20e3)")
_SELECTORS: Final = re.compile(r"[\ufe00-\ufe0f]")
_SHORT_GIT: Final = re.compile(r"git~[0-9]+")
# Letters that pass for one of SKILL.md's, after NFKD and case folding; i, l and 1 are one letter to the eye.
_CONFUSABLE: Final = str.maketrans(
    dict.fromkeys("i1|!ıɩɪιіӏⲓᎥᏞꓡꓲʟǀ∣", "l")
    | dict.fromkeys("5ѕꜱƽᏚꓢտ", "s")
    | dict.fromkeys("κкᴋĸⲕқҝᏦꓗ", "k")
    | dict.fromkeys("μмᴍⲙϻᎷꓟ", "m")
    | dict.fromkeys("ԁɗđᎠꓓᴅ", "d")
    | dict.fromkeys("·۰", ".")
)


def check_path(path: str, limits: Limits) -> None:
    """Let a relative path pass that every system keeps inside the skill's folder, under this very name.

    Args:
        path: Segments joined by ``/``, without one at the end; may hold lone surrogates.
        limits: How long and deep it may be.

    Raises:
        UnsafeArchive: a reason of the families paths, names and limits.
    """
    if (
        len(path) <= min(limits.name, limits.path)
        and _PLAIN.fullmatch(path)
        and path.count("/") < limits.depth
    ):
        return
    segments = path.split("/")
    _check_length(path, segments, limits)
    _check_syntax(path)
    for segment in segments:
        _check_segment(segment, path)


def fold(segment: str) -> str:
    """Return what all names share that some file system takes for one (case, Unicode form, final dots)."""
    if segment.isascii():
        return segment.lower().rstrip(". ")
    # Upper case first: NTFS compares so, and dotless i, final sigma and long s only meet there.
    wide = unicodedata.normalize("NFKC", _SELECTORS.sub("", segment))
    return unicodedata.normalize("NFKC", wide.upper().casefold()).rstrip(". ")


def is_lookalike(name: str) -> bool:
    """Say whether a person would take ``name`` for ``SKILL.md``, which it is not."""
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
        message = f"expected a name in UTF-8, found a lone surrogate in {quote(path)}"
        raise unsafe("name-encoding", message, path) from error
    if max(sizes) > limits.name:
        raise unsafe("name-too-long", f"a name has at most {limits.name} bytes, found {max(sizes)}", path)
    if (length := sum(sizes) + len(sizes) - 1) > limits.path:
        raise unsafe("path-too-long", f"a path has at most {limits.path} bytes, found {length}", path)
    if len(sizes) > limits.depth:
        raise unsafe("too-deep", f"a path has at most {limits.depth} segments, found {len(sizes)}", path)


def _check_syntax(path: str) -> None:
    """Refuse what some system reads as something else than a relative path of plain names."""
    if "\0" in path:
        raise _bad("path-nul", "no NUL", path)
    if path.startswith(("/", "\\\\")) or _DRIVE.match(path):
        raise _bad("path-absolute", "a relative path", path)
    if "\\" in path:
        raise _bad("path-backslash", "/ between segments", path)
    if ":" in path:
        raise _bad("path-stream", "no colon (it opens a stream on NTFS)", path)


def _check_segment(segment: str, path: str) -> None:
    wide = unicodedata.normalize("NFKC", segment)
    if not wide or (wide.startswith(".") and not wide.strip(". ")):
        raise _bad("path-traversal", "no empty segment and none of dots alone", path)
    if any(map(is_hidden, segment)) or _STRAY_SELECTOR.search(segment):
        raise _bad("name-hidden", "no control, bidirectional, invisible or unassigned character", path)
    if _is_git(wide):
        raise _bad("name-dot-git", "no name that git keeps for itself", path)
    if segment[-1] in ". " or _FORBIDDEN.search(segment) or _RESERVED.match(segment):
        raise _bad("name-reserved", "a name that Windows can hold", path)


def _is_git(wide: str) -> bool:
    # NTFS drops dots and spaces at the end, and its short name of .git is git~1.
    name = _SELECTORS.sub("", wide).casefold().rstrip(". ")
    return name == ".git" or _SHORT_GIT.fullmatch(name) is not None


def _bad(reason: str, expected: str, path: str) -> UnsafeArchive:
    return unsafe(reason, f"expected {expected} in a path, found {quote(path)}", path)
