"""The terminal: results to stdout, talk to stderr, no hidden character to either."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from skillhub.cli.streams import is_ci
from skillhub.errors import SkillhubError
from skillhub.formats.text import Quoted, clean, collapsed
from skillhub.model.reference import all_masked, masked

if TYPE_CHECKING:
    from typing import Any, Literal, TextIO, TypeAlias


# Writes everything that is shown: results to stdout, talk to stderr, and no hidden character to either.


Tone: TypeAlias = "Literal['bold', 'dim', 'red', 'green', 'yellow', 'plain']"
_CODES: Mapping[Tone, str] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "plain": ""}
# What GitHub's runner obeys in a log: `::` where a line begins, blanks before it or not, and `##[` anywhere.
_ORDER = re.compile(r"^(\s*:)(?=:)|(##)(?=\[)")
_PROGRESS_AFTER = 1.0
_NARROW = 8
BAR = "| "  # before each row of a skill's own text
_BELOW = 6  # blanks, beside those that a line of talk begins with, before what has no room in its row
_MOVED = 3  # blanks before a single word that has no room there; no line of ours has as many
_LEFT = 4  # blanks before a word that has no room where it belongs
_OURS = frozenset(
    ("url", "urls", "where", "source", "git", "from", "message", "hint", "reason", "details", "warnings", "target")
)
_ROWS = 50  # of a list that are encoded at a time
# An archive that is named by its digest: no row of a screen holds it, and nobody compares it by eye.
_ARCHIVE = re.compile(r"(?<=/)([0-9a-f]{12})[0-9a-f]{52}(?=\.)")
# A command that ends a line is one word, so that it can be copied; after `hint:` it begins a sentence.
_COMMAND = re.compile(r" *skillhub [^'\"]+")
_WORD = re.compile(r" *(?:(?<=: )(?<!hint: )skillhub (?:(?!, |; |  ).)+$|[^ ]+)")


class Terminal:
    """Writes text that may come from outside: every line is cleaned, then coloured, never the other way round."""

    _drawn = False  # whether progress stands in the last row of the screen, which all terminals share

    def __init__(self, *, quiet: bool = False, verbose: bool = False, planning: bool = False) -> None:
        self.quiet = quiet
        self.verbose = verbose
        self._planning = planning
        self._started = time.monotonic()

    def out(self, text: str, tone: Tone = "plain", hang: int | None = None) -> None:
        """Write a line of the answer; what of it a terminal has no room for goes below, ``hang`` blanks in."""
        self._write(sys.stdout, text, tone, hang)

    def did(self, text: str, tone: Tone = "plain") -> None:
        """Write what was done, or found in order; ``--quiet`` silences it unless it is the plan of a dry run."""
        if self.reports:
            self.out(masked(text), tone)

    @property
    def reports(self) -> bool:
        """Whether it tells what was done."""
        return self._planning or not self.quiet

    def verbatim(self, text: str, tone: Tone = "plain") -> None:
        """Write a line of the result that is somebody's text, and is not broken anew."""
        self._put(sys.stdout, _line(text, tone, sys.stdout))

    def say(self, text: str, tone: Tone = "plain") -> None:
        """Write a line of talk; ``--quiet`` silences it."""
        if not self.quiet:
            self._talk(text if isinstance(text, Quoted) else masked(text), tone)

    def warn(self, text: str, tone: Tone = "yellow") -> None:
        """Write beside the result what is missing or wrong, and what to do about it; nothing silences it."""
        self._talk(text if isinstance(text, Quoted) else masked(text), tone)

    def discard_input(self) -> None:
        """Drop what was typed before now: it was no answer to what is to be asked."""
        if sys.stdin.isatty() and sys.platform != "win32":
            import termios

            with suppress(termios.error):
                termios.tcflush(sys.stdin, termios.TCIFLUSH)

    def prompt(self, text: str) -> str:
        """Write a prompt and return the line that is typed behind it; empty where input has ended."""
        self._put(sys.stderr, _prompt(text))
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            self._put(sys.stderr, "\n")  # nobody ended the row
        return line

    def secret(self, text: str) -> str:
        """Write a prompt and return what is typed behind it, which is not shown; who ends the input wants out."""
        from getpass import getpass  # it knows how to leave a terminal as it was

        try:
            return getpass(_prompt(text), sys.stderr)  # nothing of it is there before typing is unseen
        except EOFError as ended:
            raise KeyboardInterrupt from ended

    def workflow_command(self, text: str, stream: TextIO) -> None:
        """Write a line that GitHub's runner is to obey; every other is written so that it does not."""
        self._put(stream, f"{clean(text)}\n")

    def answer(self, command: str, value: Mapping[str, Any]) -> None:
        """Write what a command answers, as the class of its answer has it."""
        from skillhub.answers.table import answer  # here, for who reads lines has no use for it

        self.json(answer(command, value))

    def json(self, value: object) -> None:
        """Write the one JSON value of a command; printable ASCII, so that it holds nothing a terminal would obey.

        It is indented for a person only: with a thousand skills that takes the encoder 80 ms, without it 8.
        """
        whole = [json.dumps(_shown(value), indent=2)] if sys.stdout.isatty() else None
        for piece in whole or _pieces(value):
            sys.stdout.write(_inert(piece))
        sys.stdout.write("\n")

    def prose(self, text: str, indent: int = 0, tone: Tone = "plain") -> None:
        """Write a line to whoever is asked something, or told more of what went wrong; nothing silences it.

        Text of a skill is written under a bar.
        """
        bar = BAR if isinstance(text, Quoted) else ""
        self._talk(f"{' ' * indent}{bar}{text}", tone, bar)

    def error(self, error: SkillhubError) -> None:
        """Tell of an error: what, where, and what to do."""
        self.prose(f"error: {masked(error.message)} [{error.code}]", tone="red")
        reason = getattr(error, "reason", None)
        for label, text in (("reason", reason), ("where", error.where), ("hint", error.hint)):
            if text:
                self.prose(f"{label}: {masked(text)}", 2)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO | None = None) -> None:
        """Write rows in columns that fit the terminal; all but the first, which is typed, are cut if they must.

        On a narrow one the last columns give way, down to two. Off a terminal nothing is cut. A table is a result
        unless another ``stream`` says that it is talk.
        """
        stream = stream or sys.stdout
        cells = [[collapsed(cell) for cell in row] for row in (head, *rows)]
        widths = [max(_width(row[column]) for row in cells) for column in range(len(head))]
        if stream.isatty():
            widths = _narrow(widths, _columns())
        self._rows(cells, widths, stream)

    def facts(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write rows that somebody is to agree by: as a table if it has room, else as lists; never cut."""
        cells = [[collapsed(cell) for cell in row] for row in (head, *rows)]
        widths = [max(_cells(row[column]) for row in cells) for column in range(len(head))]
        if not sys.stderr.isatty() or sum(widths) + 2 * (len(widths) - 1) <= _columns():
            self._rows(cells, widths, sys.stderr)
            return
        for name, *others in cells[1:]:
            self.prose(name, 2, "bold")
            for label, text in zip(cells[0][1:], others, strict=True):
                self.prose(f"{label}: {text}", 4)

    def _rows(self, cells: Sequence[Sequence[str]], widths: Sequence[int], stream: TextIO) -> None:
        for number, row in enumerate(cells):
            padded = [_fit(cell, width) for cell, width in zip(row, widths, strict=False)]
            self._put(stream, _line("  ".join(padded).rstrip(), "plain" if number else "bold", stream))

    @property
    def height(self) -> int:
        """The lines that the screen has."""
        return _size().lines

    def progress(self, doing: str, done: int, of: int) -> None:
        """Draw how far a command is, on a terminal and once it has taken a second."""
        if time.monotonic() - self._started < _PROGRESS_AFTER or not self._draws:
            return
        Terminal._drawn = True
        sys.stderr.write(f"\r\x1b[K{clean(doing)} {done}/{of}")
        sys.stderr.flush()

    @cached_property
    def _draws(self) -> bool:
        return not (self.quiet or is_ci()) and _obeys_escapes(sys.stderr)

    def page(self, lines: Sequence[tuple[str, Tone]]) -> None:
        """Write lines of the result; on a terminal, through the person's pager if they are more than a screen.

        On a terminal a bar stands before text of a skill; elsewhere it may be for a program to read.
        """
        if sys.stdout.isatty():
            lines = [(row, tone) for text, tone in lines for row in _barred(text)]
        if _obeys_escapes(sys.stdout) and len(lines) >= _size().lines:
            from pydoc import pager

            os.environ.setdefault("LESS", "-R")  # or `less` would show the colours as letters
            pager("".join(_line(text, tone, sys.stdout) for text, tone in lines))
            return
        for text, tone in lines:
            self.verbatim(text, tone)

    def _write(self, stream: TextIO, text: str, tone: Tone, hang: int | None = None) -> None:
        # What is to be typed stays whole.
        if stream.isatty() and not self.verbose and len(text) > _columns() and "skillhub " not in text:
            text = _ARCHIVE.sub(r"\1…", text)
        rows = _barred(text) if isinstance(text, Quoted) else _wrapped(clean(text), stream, hang)
        for line in rows:
            self._put(stream, _line(line, tone, stream))

    def _talk(self, text: str, tone: Tone, bar: str = "") -> None:
        if sys.stderr.isatty() and not self.verbose and len(text) > _columns() and "skillhub " not in text:
            text = _ARCHIVE.sub(r"\1…", text)
        for row in _broken(clean(text), bar):
            self._put(sys.stderr, _line(row, tone, sys.stderr))

    def _put(self, stream: TextIO, line: str) -> None:
        if Terminal._drawn:
            Terminal._drawn = False
            sys.stderr.write("\r\x1b[K")
        stream.write(line)


def members(value: object, *names: str) -> dict[str, Any]:
    """Return what JSON tells of a value: these of its attributes, by name."""
    return {name: getattr(value, name) for name in names}


def _line(text: str, tone: Tone, stream: TextIO) -> str:
    line = clean(text)
    if os.environ.get("GITHUB_ACTIONS"):
        line = _ORDER.sub(r"\1\2 ", line)
    code = _CODES[tone] if _wants_colour(stream) else ""
    return f"\x1b[{code}m{line}\x1b[0m\n" if code else f"{line}\n"


def _prompt(text: str) -> str:
    return "\n".join(_broken(clean(text))) + " "


def _barred(text: str) -> list[str]:
    """Return a line of the result as rows of a terminal: of text of a skill every one begins with a bar."""
    if not isinstance(text, Quoted):
        return [text]
    room = max(_columns() - len(BAR), _NARROW) if sys.stdout.isatty() else _cells(text)
    return [BAR + piece for piece in _pieces_of(clean(text), room, room)]


def _broken(text: str, bar: str = "") -> list[str]:
    """Break a line of talk into rows for a terminal; off a terminal it stays one line.

    What has no room goes below, after the bar of the line or else further in than any line of ours begins, and a
    word that has none there is broken: no text from outside makes a row that looks like one of ours.
    """
    columns = _columns() if sys.stderr.isatty() else len(text) + _cells(text)
    indent = len(text) - len(text.lstrip(" "))
    below = f"{' ' * indent}{bar}" if bar else " " * (indent + _BELOW)
    room = max(columns - _cells(below), _NARROW)
    row, rows = text[:indent] + bar, []
    is_begun = False
    for found in _WORD.findall(text[indent + len(bar) :]):
        word = found
        if is_begun and _cells(row) + _cells(word) > columns:
            rows.append(row)
            bare = word.lstrip(" ")
            is_moved = not bar and room < _cells(bare) <= columns - _MOVED
            row, word = (" " * _MOVED, bare) if is_moved else (below, bare)
        is_command = not bar and _COMMAND.fullmatch(word) is not None  # which a person copies
        *whole, last = [word] if is_command else _pieces_of(word, columns - _cells(row), room)
        for piece in whole:
            rows.append(row + piece)
            row = below
        row, is_begun = row + last, True
    return [*rows, row]


def _pieces_of(word: str, first: int, room: int) -> Iterator[str]:
    """Yield a word cut so that the first piece has so many cells at most, and each other as many as there is room."""
    piece, cells, most = "", 0, max(first, 1)
    for char in word:
        width = _cells(char)
        if piece and cells + width > most:
            yield piece
            piece, cells, most = "", 0, room
        piece, cells = piece + char, cells + width
    yield piece


def _cells(text: str) -> int:
    """Return how many cells a terminal may take for a text: more than most do, never fewer."""
    if text.isascii():
        return len(text)
    return sum(map(_cells_of, text))


def _cells_of(char: str) -> int:
    if char.isascii() or (char.isalpha() and unicodedata.east_asian_width(char) not in "WF"):
        return 1
    return 1 if unicodedata.category(char).startswith("M") else 2


def _wrapped(text: str, stream: TextIO, hang: int | None) -> list[str]:
    """Break a line for a terminal between words; what is long moves to the left if it fits there, and is never cut.

    Args:
        text: The line, cleaned.
        stream: Where it is to be written; off a terminal it stays one line.
        hang: The blanks before what goes below; without it, two more than the line begins with.
    """
    if not stream.isatty() or not text:
        return [text]
    room = _columns()
    below = len(text) - len(text.lstrip(" ")) + 2 if hang is None else hang
    line, *words = _WORD.findall(text) or [text]
    lines = []
    for word in words:
        if _width(line) + _width(word) <= room:
            line += word
            continue
        lines.append(line)
        bare = word.lstrip(" ")
        spare = room - _width(bare)
        line = " " * (below if spare < 0 or spare >= below else min(_LEFT, spare)) + bare
    return [*lines, line]


def _inert(text: str) -> str:
    """Return JSON with the rest of what a terminal, or a log of Azure's, would take for a command escaped."""
    text = text.replace("\x7f", "\\u007f")
    return text.replace("##[", "#\\u0023[") if "#" in text else text


def _pieces(value: object) -> Iterator[str]:
    """Yield what ``json.dumps`` gives, the rows of lists by handfuls: whole they are in memory thrice."""
    encode = json.JSONEncoder(check_circular=False).encode  # what was made from values has no circle
    if not isinstance(value, dict) or not value:
        yield encode(_shown(value))
        return
    for number, (key, member) in enumerate(value.items()):
        yield f"{', ' if number else '{'}{encode(key)}: "
        if isinstance(member, list) and member:
            for at in range(0, len(member), _ROWS):
                yield f"{', ' if at else '['}{encode(_shown({key: member[at : at + _ROWS]})[key])[1:-1]}"
            yield "]"
        else:
            yield encode(_shown({key: member})[key])
    yield "}"


def _shown(value: Any) -> Any:  # noqa: ANN401 - a JSON value, and the same
    """Return a JSON value, the texts in which a URL is ours to show masked; the text of a skill is as it is."""
    if isinstance(value, dict):
        return {key: all_masked(each) if key in _OURS else _shown(each) for key, each in value.items()}
    return [*map(_shown, value)] if isinstance(value, list | tuple) else value


def _obeys_escapes(stream: TextIO) -> bool:
    """Say whether the stream is a terminal that obeys escape sequences."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _wants_colour(stream: TextIO) -> bool:
    return _obeys_escapes(stream) and not os.environ.get("NO_COLOR")


def _size() -> os.terminal_size:
    from shutil import get_terminal_size  # here, for off a terminal nothing needs it

    return get_terminal_size((80, 24))


def _columns() -> int:
    return _size().columns


def _narrow(widths: Sequence[int], columns: int) -> list[int]:
    """Return the widths of the columns that there is room for; the widest give way first, the first never does."""
    kept = list(widths)
    while len(kept) > 2 and kept[0] + sum(2 + min(width, _NARROW) for width in kept[1:]) > columns:
        kept.pop()
    room = columns - 2 * (len(kept) - 1)
    while sum(kept) > room:
        widest = max(range(1, len(kept)), key=lambda column: kept[column])
        if kept[widest] <= _NARROW:
            break
        kept[widest] -= 1
    return kept


def _width(text: str) -> int:
    return len(text) if text.isascii() else sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _fit(text: str, width: int) -> str:
    if _width(text) <= width:
        return text + " " * (width - _width(text))
    cut = text
    while _width(cut) > width - 1:
        cut = cut[:-1]
    return f"{cut}…"
