"""A file with the markers that git leaves where two branches meet: taken apart into its sides, and written."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher

from skillhub.model.text import MARKER

_COMPARED_MAX = 1 << 16  # pairs of lines; comparing more takes long where lines are alike
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
    for is_equal, one, other in _parts(mine, yours):
        if is_equal:
            found += one
        else:
            found += [b"<<<<<<< ours\n", *_ended(one), b"=======\n"]
            found += [*_ended(other), b">>>>>>> theirs\n"]
    return b"".join(found)


def _parts(mine: list[bytes], yours: list[bytes]) -> Iterator[tuple[bool, list[bytes], list[bytes]]]:
    """Yield what both have, and what they have in place of each other, in order.

    Long texts are cut first at the lines that stand in each but once, in the same order (Cohen's patience diff): of a
    lock these are the lines with names and digests. What is left between them is short, as far as it is the same.
    """
    low = start = 0
    for at, there in (*_anchors(mine, yours), (len(mine), len(yours))):
        yield from _short_parts(mine[low:at], yours[start:there])
        if at < len(mine):
            yield True, mine[at : at + 1], yours[there : there + 1]
        low, start = at + 1, there + 1


def _short_parts(mine: list[bytes], yours: list[bytes]) -> Iterator[tuple[bool, list[bytes], list[bytes]]]:
    if len(mine) * len(yours) > _COMPARED_MAX:
        yield False, mine, yours
        return
    for tag, low, high, start, end in SequenceMatcher(None, mine, yours, autojunk=False).get_opcodes():
        yield tag == "equal", mine[low:high], yours[start:end]


def _anchors(mine: list[bytes], yours: list[bytes]) -> list[tuple[int, int]]:
    """Return the places of the lines to cut at, in both; none of texts that are short enough as they are."""
    if len(mine) * len(yours) <= _COMPARED_MAX:
        return []
    often, there_often = Counter(mine), Counter(yours)
    places = {line: at for at, line in enumerate(yours) if there_often[line] == 1}
    shared = [(at, places[line]) for at, line in enumerate(mine) if often[line] == 1 and line in places]
    # The longest run of them that ascends in both.
    tops: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for number, (_, there) in enumerate(shared):
        pile = bisect_left(tops, there)
        before.append(piles[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [there]
        piles[pile : pile + 1] = [number]
    found = []
    number = piles[-1] if piles else -1
    while number >= 0:
        found.append(shared[number])
        number = before[number]
    return found[::-1]


def _ended(lines: list[bytes]) -> list[bytes]:
    return [line if line.endswith(b"\n") else line + b"\n" for line in lines]
