"""Edits of a person and a new version, merged where the two did not touch the same lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher

from skillhub.model.patch import lines_of, text_of
from skillhub.model.tree import File, Tree


class _Overlap(Exception):
    """Both sides changed the same."""


def merge(base: Mapping[str, File], mine: Mapping[str, File], theirs: Mapping[str, File]) -> Tree | None:
    """Return ``theirs`` with what was changed from ``base`` to ``mine``; None if the two cannot go together.

    A file that both changed is merged line by line; changes that touch, be they only beside each other, are left
    to a person, as git leaves them.
    """
    merged: dict[str, File] = {}
    try:
        for path in {*base, *mine, *theirs}:
            file = _file(path, base.get(path), mine.get(path), theirs.get(path))
            if file is not None:
                merged[path] = file
    except _Overlap:
        return None
    return Tree(merged)


def _file(path: str, base: File | None, mine: File | None, theirs: File | None) -> File | None:
    if mine in (base, theirs):
        return theirs
    if theirs == base:
        return mine
    if base is None or mine is None or theirs is None:
        raise _Overlap  # one took away what the other changed, or both brought a file of that name
    executable = theirs.executable if mine.executable == base.executable else mine.executable
    if mine.data in (base.data, theirs.data):
        return File(theirs.data, executable)
    if base.data == theirs.data:
        return File(mine.data, executable)
    texts = [text for file in (base, mine, theirs) if (text := text_of(path, file)) is not None]
    if len(texts) < 3:
        raise _Overlap
    return File("".join(_lines(*map(lines_of, texts))).encode("utf-8"), executable)


_Change = tuple[int, int, list[str]]  # of lines of the base, from and to, and what is there instead


def _lines(base: list[str], mine: list[str], theirs: list[str]) -> list[str]:
    """Return the base with the changes of both.

    Raises:
        _Overlap: two of them touch and are not the same.
    """
    merged: list[str] = []
    at = 0
    changes = sorted([*_changes(base, mine), *_changes(base, theirs)])
    for number, (start, end, lines) in enumerate(changes):
        if number and changes[number - 1] == (start, end, lines):
            continue  # both did the same
        if number and start <= at:
            raise _Overlap
        merged += base[at:start] + lines
        at = end
    merged += base[at:]
    if any(not line.endswith("\n") for line in merged[:-1]):
        raise _Overlap  # a last line without end, and something behind it
    return merged


def _changes(base: list[str], side: list[str]) -> Iterator[_Change]:
    # Lines that are everywhere match nothing by themselves: 10,000 blank ones would take half a minute.
    for tag, start, end, first, last in SequenceMatcher(None, base, side).get_opcodes():
        if tag != "equal":
            yield start, end, side[first:last]
