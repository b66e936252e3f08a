"""A file with the markers that git leaves where two branches meet: taken apart into its sides, and written."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from skillhub.model.text import MARKER

_MARKER = re.compile(MARKER + rb"(?: [^\n]*)?\r?\n?")
_NEXT = {b"<": b"ours", b"|": b"base", b"=": b"theirs", b">": b""}
# Which marker may follow which; a merge of files that hold markers themselves is nothing that we could read.
_AFTER = {b"": (b"<",), b"ours": (b"|", b"="), b"base": (b"=",), b"theirs": (b">",)}


def sides(data: bytes) -> tuple[bytes, bytes, bytes | None] | None:
    """Return our side, their side and, where git was asked to show it, the base; None if there is no conflict.

    None too if the markers are not whole: then nobody can tell where a side ends.
    """
    parts: dict[bytes, list[bytes]] = {b"ours": [], b"theirs": [], b"base": []}
    part, has_base, count = b"", True, 0
    for line in data.splitlines(keepends=True):
        marker = _MARKER.fullmatch(line)
        if marker is None:
            for name in (part,) if part else parts:
                parts[name].append(line)
            continue
        sign = marker[1][:1]
        if sign not in _AFTER[part]:
            return None
        has_base &= (part, sign) != (b"ours", b"=")
        part, count = _NEXT[sign], count + 1
    if part or not count:
        return None
    ours, theirs, base = (b"".join(parts[name]) for name in (b"ours", b"theirs", b"base"))
    return ours, theirs, base if has_base else None


def conflict(ours: bytes, theirs: bytes) -> bytes:
    """Return one file with both sides in it, marked as git does where they differ."""
    mine, yours = ours.splitlines(keepends=True), theirs.splitlines(keepends=True)
    found: list[bytes] = []
    for tag, low, high, start, end in SequenceMatcher(None, mine, yours, autojunk=False).get_opcodes():
        if tag == "equal":
            found += mine[low:high]
        else:
            found += [b"<<<<<<< ours\n", *_ended(mine[low:high]), b"=======\n"]
            found += [*_ended(yours[start:end]), b">>>>>>> theirs\n"]
    return b"".join(found)


def _ended(lines: list[bytes]) -> list[bytes]:
    return [line if line.endswith(b"\n") else line + b"\n" for line in lines]
