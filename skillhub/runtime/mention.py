"""Mentions of skills in a message (``$name``, ``$ns:name``, ``[$name](path)``, ``/name args``), code apart."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

# Finds the parts of a message that are code or commands, where ``$`` does not begin a mention.

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


# Finds mentions of skills in a message: ``$name``, ``$ns:name``, ``[$name](path)``, ``/name args``.

# `_` is in no name of the specification, but in those of lenient hosts; a hyphen ends none. ASCII alone, so that
# a mention ends where text without blanks between words goes on.
_NAME = r"[A-Za-z0-9_]+(?:-+[A-Za-z0-9_]+)*"
_FULL_NAME = rf"{_NAME}(?::{_NAME})*"
# Numbers, and variables as shells write them: `$5`, `$10-20`, `$PATH`, `$HOME-dir`.
_NO_NAME = r"(?![0-9-]+(?![A-Za-z0-9_:])|[A-Z_][A-Z0-9_]*(?![A-Za-z0-9_]))"
# Before a mention is no letter, and nothing that makes it part of a path, an address or an assignment.
NOT_WITHIN = r"(?<![A-Za-z0-9_$\\/.=&%@#+~-])"
# A path has no parenthesis, so that no two searches for its end go over the same text.
_MENTION = re.compile(
    rf"\[\${_NO_NAME}(?P<linked>{_FULL_NAME})\][ \t]*\([ \t]*(?P<path>[^()\n]+)\)"
    rf"|{NOT_WITHIN}\${_NO_NAME}(?P<plain>{_FULL_NAME})"
)
_SLASH = re.compile(rf"\s*(?P<text>/(?P<name>{_FULL_NAME}))(?=\s|\Z)")
_SHELL = frozenset({"path", "home", "user", "shell", "pwd", "tmpdir", "temp", "tmp", "lang", "term"})


class Typed(NamedTuple):
    """One mention as it was typed.

    Attributes:
        text: All of it, as in the message.
        name: ``name`` or ``ns:name``.
        start: Where it begins in the text, in characters.
        end: Where it ends, not included.
        path: What a link leads to, else None.
        doubtful: Whether it may as well be a variable or a number (``$my_var``, ``$user``, ``$3d``), so that it
            is a mention only if a skill has exactly that name.
    """

    text: str
    name: str
    start: int
    end: int
    path: str | None = None
    doubtful: bool = False


def mentions(text: str) -> Iterator[Typed]:
    """Yield the mentions in ``text`` as they come, in time linear in its length; any text will do.

    A slash counts at the very beginning alone. Code, commands, numbers and variables (``$5``, ``$PATH``) are
    passed over.
    """
    if slash := _SLASH.match(text):
        yield Typed(slash["text"], slash["name"], *slash.span("text"))
    if "$" not in text:
        return
    spans = iter([*code_spans(text), Span(len(text), len(text))])
    span = next(spans)
    for found in _MENTION.finditer(text):
        start, end = found.span()
        while span.end <= start:
            span = next(spans)
        if span.start <= start:
            continue
        linked, path, plain = found.groups()
        if plain:
            yield Typed(found[0], plain, start, end, None, _is_doubtful(plain))
        else:
            yield Typed(found[0], linked, start, end, path.strip())


def _is_doubtful(name: str) -> bool:
    if "-" in name or ":" in name:
        return False
    return "_" in name or name[0].isdigit() or name != name.lower() or name in _SHELL
