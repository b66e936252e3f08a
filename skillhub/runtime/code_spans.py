"""Finds the parts of a message that are code or commands, where ``$`` does not begin a mention."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

# A line that opens or closes a block of code (CommonMark 4.5), also in a quotation or a list; the text after
# an opening of backticks holds none, or it is code in a line. Every pattern begins with a letter that it can be
# looked for by, which takes a tenth of the time that trying each place does.
_FENCE = re.compile(r"\n[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}(?=[^`\n]*(?:\n|\Z))|~{3,})([^\n]*)")
# A line handed to a shell (`! ls`, `$ ls`; `![` is a picture), a substitution, and what a shell or an interpreter
# is told by `-c`.
_COMMANDS = (
    re.compile(r"\n[ \t]*(?:!(?!\[)|\$ )[^\n]*"),
    re.compile(r"\$\([^)\n]*\)?"),
    re.compile(r"""-\w{0,8}c[ ]+(?:"[^"\n]*"|'[^'\n]*')"""),
)
_TICKS = re.compile(r"`+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")


class Span(NamedTuple):
    """A part of a text, its end not included."""

    start: int
    end: int


def code_spans(text: str) -> list[Span]:
    """Return the parts of ``text`` that are code or commands, in order and apart, in time linear in its length.

    Args:
        text: Markdown, as people and models write it.
    """
    lines = "\n" + text  # so that the first line begins as the others do
    fenced = list(_fenced(lines)) if "```" in text or "~~~" in text else []
    spans = [*fenced, *(_inline(lines, fenced) if "`" in text else ())]
    spans += (Span(*each.span()) for pattern in _COMMANDS for each in pattern.finditer(lines))
    return [Span(max(span.start - 1, 0), span.end - 1) for span in _merged(spans)]


def _fenced(text: str) -> Iterator[Span]:
    """Yield the blocks of code; one that nothing closes goes on to the end (CommonMark 4.5)."""
    start, fence = 0, ""
    for line in _FENCE.finditer(text):
        marks, after = line.groups()
        if not fence:
            start, fence = line.start(), marks
        elif marks.startswith(fence) and not after.strip():
            yield Span(start, line.end())
            fence = ""
    if fence:
        yield Span(start, len(text))


def _inline(text: str, fenced: list[Span]) -> Iterator[Span]:
    """Yield code in a line: from a run of backticks to the next of the same length (CommonMark 6.1)."""
    runs = [run.span() for run in _TICKS.finditer(text)]
    breaks = [gap.start() for gap in _BLANK_LINE.finditer(text)]
    # For each run the next of its length, found from the end, so that no run is looked for twice.
    latest: dict[int, int] = {}
    closing: list[int | None] = [None] * len(runs)
    for at in range(len(runs) - 1, -1, -1):
        length = runs[at][1] - runs[at][0]
        closing[at] = latest.get(length)
        latest[length] = at
    blocks = iter([*fenced, Span(len(text), len(text) + 1)])
    block = next(blocks)
    at = 0
    while at < len(runs):
        start, end = runs[at]
        while block.end <= start:
            block = next(blocks)
        to = closing[at]
        if block.start <= start or to is None or text[start - 1 : start] == "\\":
            at += 1
        elif runs[to][0] < block.start and bisect_right(breaks, end) == bisect_right(breaks, runs[to][0]):
            yield Span(start, runs[to][1])
            at = to + 1
        else:
            at += 1


def _merged(spans: list[Span]) -> list[Span]:
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.start <= found[-1].end:
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found
