"""The terminal: results go to stdout, messages and questions to stderr, and no hidden character to either."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import unicodedata
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock, current_thread, main_thread
from typing import Any, Literal, TextIO, TypeAlias

from skillhub.errors import SkillhubError
from skillhub.formats.text import Quoted, clean, collapsed, deferred
from skillhub.model.finding import is_about_parsers
from skillhub.model.reference import all_masked, masked

Tone: TypeAlias = Literal["bold", "dim", "red", "green", "yellow", "plain"]
_CODES: Mapping[Tone, str] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "plain": ""}
# Commands that runners execute from a log: GitHub's `::` at the beginning of a line, after blanks too, and `##[`;
# `##vso[` of Azure Pipelines and `##teamcity[`, anywhere. Each of these runners sets one of the variables.
_ORDER, _GITHUB_ORDER = deferred(r"##(?=\w*\[)"), deferred(r"^(\s*:)(?=:)")
_RUNNERS = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
_PROGRESS_AFTER, _DRAWN_EVERY, _RATED_OVER = 1.0, 0.1, 3.0  # seconds
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_NARROW = 8
_READABLE = 24  # the least cells of a last column that wraps
_WIDEST = 256  # cells to which a column grows: each row is padded to it, and a lock may have a longer version
BAR = "| "  # before each row of a skill's own text
_BELOW = 6  # blanks that a wrapped row has more than its line
_LESS = "-R -Psspace turns the page, q leaves?e (end)."  # with -R `less` shows colours, no escape sequences
_LEFT = "…"
_MOVED = 3  # blanks before a single word that is too long after `_BELOW` blanks; no line of skillhub begins with 3
_PLAIN = (str, int, type(None))  # the types of nearly all values of an answer
_OURS = frozenset(
    ("url", "urls", "where", "source", "git", "from", "message", "hint", "reason", "details", "warnings", "target")
)
# The digest in the name of an archive, which is shortened: it fits in no row, and no user compares it by eye.
_ARCHIVE = deferred(r"(?<=/)([0-9a-f]{12})[0-9a-f]{52}(?=\.)")
# A command at the end of a line counts as one word, so that it can be copied; after `hint:` it begins a sentence.
_COMMAND = deferred(r" *skillhub [^'\"]+")
_DIGEST = "sha256:[0-9a-f]{64}"
_COPIED = deferred(rf" *(?:(?:skillhub|patch -p1) [^'\"]+|\(?{_DIGEST}[),.;]*)")
_RESULT = deferred(r".*", re.DOTALL)
_OTHER_BLANK = deferred(r"[^\S ]")  # such as the no-break space: a name of many words would be one, and stay whole
_NO_COMMAND = deferred(r" *[^ ]+")  # the words of a text from outside, such as a path
_AT_END = r"(?<=: )(?<!hint: )(?:skillhub|patch -p1) (?:(?!, |; |  ).)+$"
# A signer, `<kind>:<digest>:<identity>`, breaks around its digest, so that a person can compare it.
_WORD = deferred(rf" *(?:{_AT_END}|[a-z]+:(?={_DIGEST}:)|{_DIGEST}(?=:)|[^ ]+)")
# In a hint, a command may also begin the text or a clause, and end before what it does or before the next clause.
_DOES = """
adds asks checks compares creates fetches finds installs keeps lists makes names prints removes resolves restores runs
saves shows takes writes
"""
_END = rf"(?:, |; |  | (?:{'|'.join(_DOES.split())})\b)"
_HINT = deferred(rf" *(?:(?:^|(?<=[:;,] ))skillhub(?= )(?:(?!{_END})[^'\"])+(?={_END}|$)|{_AT_END}|[^ ]+)")


class Terminal:
    """Writes text that may be untrusted: each line is first cleaned, then coloured."""

    _clock = staticmethod(time.monotonic)
    _drawn = False  # whether the last row of the screen shows progress; one value for all instances
    written: list[tuple[str, str]] | None = None  # each text with its stream, where a command is to be repeated

    def __init__(self, *, quiet: bool = False, verbose: bool = False, planning: bool = False) -> None:
        self.quiet, self.verbose, self._planning = quiet, verbose, planning
        self._started = self._clock()
        self._doing = ("fetching", "")
        self._turn = Lock()
        self._arrived = 0
        self._told = False  # that skillhub lacks a parser
        self._marks = deque([(0.0, 0)])  # the times at which progress was drawn, and the bytes that had arrived

    def out(self, text: str, tone: Tone = "plain", hang: int | None = None) -> None:
        """Write a line of the result; on a terminal it wraps, and the next rows are indented by ``hang`` blanks."""
        self._write(sys.stdout, text, tone, hang=hang)

    def did(self, text: str, tone: Tone = "plain") -> None:
        """Write what was done, or a check that passed; ``--quiet`` silences it, except in a dry run."""
        if self.reports:
            self.out(masked(text), tone)

    def hint(self, text: str) -> None:
        """Write a line of the result that says what to do; each command in it stays in one row, for copying."""
        self._write(sys.stdout, text, "plain", words=_HINT)

    @property
    def reports(self) -> bool:
        """Whether ``did`` writes."""
        return self._planning or not self.quiet

    def verbatim(self, text: str) -> None:
        """Write a line of the result without wrapping it, such as a path with blanks."""
        self._put(sys.stdout, _line(text, "plain", sys.stdout))

    def lines(self, text: str) -> None:
        """Write a text of many lines without wrapping them, such as a file of a skill; only ``\\n`` ends a line."""
        if text:
            for line in text.removesuffix("\n").split("\n"):
                self.verbatim(line.expandtabs(4))

    def say(self, text: str, tone: Tone = "plain") -> None:
        """Write a message to stderr; ``--quiet`` silences it."""
        if not self.quiet:
            self._write(sys.stderr, masked(text), tone)

    def warn(self, text: str, tone: Tone = "yellow") -> None:
        """Write a warning to stderr: what is missing or wrong, and what to do; ``--quiet`` does not silence it."""
        self._write(sys.stderr, masked(text), tone)

    def warn_each(self, lines: Iterable[str]) -> None:
        """Write each line as a warning of its own."""
        for line in lines:
            self.warn(f"warning: {line}")

    def warn_of(self, path: str, text: str) -> None:
        """Write a warning about a file to stderr; what looks like a command in it is wrapped like any other text."""
        self._write(sys.stderr, masked(f"{path}: {text}"), "yellow", words=_NO_COMMAND)

    def once(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines; of those about a missing parser only the command's first, with what to do."""
        for line in lines:
            if not is_about_parsers(line):
                yield line
            elif not self._told:
                self._told = True
                yield line
                yield how_to_parse()

    def discard_input(self) -> None:
        """Drop the input that was typed before a question was shown."""
        if sys.stdin.isatty() and sys.platform != "win32":
            import termios

            with suppress(termios.error):
                termios.tcflush(sys.stdin, termios.TCIFLUSH)

    def prompt(self, text: str) -> str:
        """Write a prompt and return the line that the user types; empty if the input has ended."""
        self._put(sys.stderr, _prompt(text))
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            self._put(sys.stderr, "\n")  # the user typed no line break
        return line

    def secret(self, text: str) -> str:
        """Write a prompt and return the hidden line that the user types; the end of input counts as Ctrl-C."""
        self.clear()
        try:
            from getpass import getpass

            return getpass(_prompt(text), sys.stderr)  # it switches echo off before it writes the prompt
        except EOFError as ended:
            raise KeyboardInterrupt from ended

    def workflow_command(self, text: str, stream: TextIO) -> None:
        """Write a workflow command for GitHub's runner; all other methods write lines that it does not execute."""
        self._put(stream, f"{clean(text)}\n")

    def answer(self, command: str, value: Mapping[str, Any]) -> None:
        """Write the JSON answer of a command, validated by the class of its answer."""
        from skillhub.answers.skills import answer  # here, since only --json needs it

        self.json(answer(command, value))

    def json(self, value: object) -> None:
        """Write the JSON value of a command, in printable ASCII: a terminal finds no escape sequence in it.

        It is indented on a terminal only: with a thousand skills the encoder takes 80 ms with indentation, 8 without.
        """
        # The whole value is encoded before the first byte is written: an error leaves no half document.
        pieces = [json.dumps(_shown(value), indent=2)] if sys.stdout.isatty() else [*_json_pieces(value)]
        self.clear()
        for text in pieces:
            self._put(sys.stdout, _ORDER.sub(r"#\\u0023", text.replace("\x7f", "\\u007f")))
        self._put(sys.stdout, "\n")

    def prose(self, text: str, indent: int = 0, tone: Tone = "plain") -> None:
        """Write a line of a question or an error to stderr; ``--quiet`` does not silence it.

        Rows of a skill's own text begin with a bar.
        """
        self._write(sys.stderr, text, tone, indent)

    def error(self, error: SkillhubError) -> None:
        """Write an error: message, reason, place and hint."""
        self.prose(f"error: {masked(error.message)} [{error.code}]", tone="red")
        reason = getattr(error, "reason", None)
        for label, text in (("reason", reason), ("where", error.where), ("hint", error.hint)):
            if text:
                words = {"where": _NO_COMMAND, "hint": _HINT}.get(label, _WORD)
                self._write(sys.stderr, f"{label}: {masked(text)}", "plain", 2, words=words)

    def table(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        stream: TextIO | None = None,
        *,
        is_short: bool = False,
        spare: Collection[str] = (),
    ) -> None:
        """Write a table whose last column wraps within the terminal; on a narrow terminal each row becomes a list.

        If the table ``is_short``, a terminal shows each row in one line, or in two if it is narrow, and cuts a long
        last cell. Otherwise all text is shown; a narrow terminal leaves out the columns ``spare`` alone. A table goes
        to stdout unless ``stream`` is given.
        """
        stream = stream or sys.stdout
        cells = [[collapsed(cell) for cell in row] for row in (head, *rows)]
        *widths, last = (min(_WIDEST, max(map(cells_of, column))) for column in zip(*cells, strict=True))
        below = " " * (sum(widths) + 2 * len(widths))
        columns = _columns() if stream.isatty() else None
        drawn: list[tuple[str, str, Tone]] = []
        if columns and columns < len(below) + min(last, _READABLE):
            if spare:
                kept = [at for at, name in enumerate(head) if name not in spare]
                kept_head, *kept_rows = [[row[at] for at in kept] for row in cells]
                self.table(kept_head, kept_rows, stream, is_short=is_short)
                return
            is_aligned = columns >= len(below) - 2
            below = " " * (2 + _BELOW)
            if is_short:
                for number, (*above, text) in enumerate(cells):
                    drawn.append(("", "".join(_padded(above, widths)) if is_aligned else "  ".join(above), "bold"))
                    if text and number:  # the heading of the last column has no line
                        drawn.append(("  ", shortened(text, columns - 2), "plain"))
            else:
                for name, *others in cells[1:]:
                    drawn.append(("", name, "bold"))
                    facts = zip(head[1:], others, strict=True)
                    drawn += [("  ", f"{label}: {text}", "plain") for label, text in facts if text]
        else:
            for *others, text in cells:
                shown = shortened(text, columns - len(below)) if is_short and columns else text
                drawn.append(("".join(_padded(others, widths)), shown, "plain" if drawn else "bold"))
        for start, text, tone in drawn:
            for row in rows_of(start, text, below, columns, None):
                self._put(stream, _line(row.rstrip(), tone, stream))

    def progress(self, doing: str, done: int, of: int) -> None:
        """Draw the progress of a command, on a terminal and after one second."""
        if doing != self._doing[0]:
            self._arrived, self._marks = 0, deque([(0.0, 0)])
        self._doing = doing, f" {done}/{of}"
        self._draw()

    def arrived(self, count: int) -> None:
        """Count bytes that arrived, on any thread, and draw progress; only the main thread writes to the screen."""
        with self._turn:
            self._arrived += max(count, 0)
        if current_thread() is main_thread():
            self._draw()

    def clear(self) -> None:
        """Erase the progress, if it is on the screen."""
        if Terminal._drawn:
            Terminal._drawn = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _draw(self) -> None:
        now = self._clock()
        if now < max(self._started + _PROGRESS_AFTER, self._marks[-1][0] + _DRAWN_EVERY):
            return
        if self.quiet or is_ci() or not obeys_escapes(sys.stderr):
            return
        self._marks.append((now, self._arrived))
        while now - self._marks[0][0] > _RATED_OVER:
            self._marks.popleft()
        since, before = self._marks[0]
        rate = f", {size_of(int((self._arrived - before) / (now - since)))}/s" if now > since else ""
        doing, count = self._doing
        text = clean(doing + count)
        if self._arrived:
            text += f"{',' if count else ''} {size_of(self._arrived)}{rate}"
        Terminal._drawn = True
        sys.stderr.write(f"\r\x1b[K{shortened(text, _columns() - 1)}")
        sys.stderr.flush()

    def page(self, lines: Sequence[tuple[str, Tone]], stream: TextIO | None = None) -> None:
        """Write lines of the result; on a terminal, through the user's pager if they do not fit on the screen.

        On a terminal the lines wrap, and rows of a skill's own text begin with a bar; elsewhere a program may read
        them. The lines go to stdout unless ``stream`` is given.
        """
        stream = stream or sys.stdout
        if stream.isatty():
            lines = [(row, tone) for text, tone in lines for row in _page_rows(text)]
        if obeys_escapes(stream) and sys.stdout.isatty() and len(lines) >= screen_size().lines:
            from pydoc import pager

            os.environ.setdefault("LESS", _LESS)
            os.environ["NODEFAULTCURRENTDIRECTORYINEXEPATH"] = "1"  # no pager of the working folder on Windows
            self.clear()
            pager("".join(_line(text, tone, stream) for text, tone in lines))
            return
        for text, tone in lines:
            self._put(stream, _line(text, tone, stream))

    def _write(
        self,
        stream: TextIO,
        text: str,
        tone: Tone,
        indent: int = 0,
        hang: int | None = None,
        words: re.Pattern[str] = _WORD,
    ) -> None:
        bar = BAR if isinstance(text, Quoted) else ""
        columns = _columns() if stream.isatty() else None
        # A command to type stays whole.
        if columns and not self.verbose and len(text) > columns and "skillhub " not in text:
            text = _ARCHIVE.sub(r"\1…", text)
        text = " " * indent + (_OTHER_BLANK.sub(" ", clean(text)) if columns else clean(text))
        start, text, below = _indented(text)
        start += bar
        if bar:
            below = start
        elif hang is not None:
            below = " " * hang
        # Words of a result, and commands and digests in messages, stay whole for copying.
        is_copied = not bar and words is not _NO_COMMAND
        whole = _RESULT if stream is sys.stdout else _COPIED
        for row in rows_of(start, text, below, columns, whole if is_copied else None, words):
            self._put(stream, _line(row, tone, stream))

    def _put(self, stream: TextIO, line: str) -> None:
        self.clear()
        if stream is sys.stderr:  # into one pipe or file the lines go in their order
            with suppress(OSError):  # the last flush reports it
                sys.stdout.flush()
        stream.write(line)
        if Terminal.written is not None:
            Terminal.written.append(("stdout" if stream is sys.stdout else "stderr", line))


def how_to_parse() -> str:
    """Return what a user does about programs for which skillhub lacks a parser."""
    from skillhub.disk.installer import extra_command

    return f"to install the parsers: {extra_command('audit')}"


def _line(text: str, tone: Tone, stream: TextIO) -> str:
    line = clean(text)
    if any(map(os.environ.get, _RUNNERS)):
        line = _ORDER.sub("## ", _GITHUB_ORDER.sub(r"\1 ", line))
    code = _CODES[tone] if obeys_escapes(stream) and not os.environ.get("NO_COLOR") else ""
    return f"\x1b[{code}m{line}\x1b[0m\n" if code else f"{line}\n"


def _padded(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """Yield the cells of a row, each with blanks up to the next column."""
    return (f"{cell}{' ' * (width - cells_of(cell))}  " for cell, width in zip(cells, widths, strict=True))


def _prompt(text: str) -> str:
    rows = rows_of(*_indented(clean(text)), _columns() if sys.stderr.isatty() else None, _COMMAND)
    return "\n".join(rows) + " "


def _indented(text: str) -> tuple[str, str, str]:
    """Return the blanks before a line, its text, and the blanks before its next rows."""
    bare = text.lstrip(" ")
    start = " " * (len(text) - len(bare))
    return start, bare, start + " " * _BELOW


def _page_rows(text: str) -> list[str]:
    """Return a line of a page as rows of a terminal; each row of a skill's own text begins with a bar."""
    if isinstance(text, Quoted):
        return rows_of(BAR, clean(text), BAR, _columns(), None)
    return rows_of(*_indented(_OTHER_BLANK.sub(" ", clean(text))), _columns(), None)


def rows_of(
    start: str,
    text: str,
    below: str,
    columns: int | None,
    whole: re.Pattern[str] | None,
    words: re.Pattern[str] = _WORD,
) -> list[str]:
    """Break a line into rows for a terminal; without ``columns``, off a terminal, it stays one line.

    The first row begins with ``start``, the others with ``below``, which is indented further than any line of
    skillhub. A word that is too long there moves to the left if it fits then, except from a column; else it is cut,
    unless ``whole`` matches it. So no untrusted text makes a row that looks like one of skillhub's.
    """
    if columns is None:
        return [start + text]
    room = max(columns - cells_of(below), _NARROW)
    is_column = len(below) > len(start) + _BELOW
    row, rows = start, []
    for number, found in enumerate(words.findall(text)):
        word = found.lstrip(" ")
        is_first = is_column and len(row) + len(found) - len(word) == len(below)  # of its column, beside the label
        if not number or is_first or cells_of(row) + cells_of(found) <= columns:
            word = found
        else:
            rows.append(row)
            is_moved = not (below.strip() or is_column) and room < cells_of(word) <= columns - _MOVED
            row = " " * _MOVED if is_moved else below
        stays = whole is not None and whole.fullmatch(word)
        *pieces, last = [word] if stays else _cut(word, columns - cells_of(row), room)
        for piece in pieces:
            rows.append(row + piece)
            row = below
        row += last
    return [*rows, row]


def _cut(word: str, first: int, room: int) -> Iterator[str]:
    """Yield the pieces of a word: the first of at most ``first`` cells, the others of at most ``room`` cells."""
    piece, cells, most = "", 0, max(first, 1)
    for char in word:
        width = cells_of(char)
        if piece and cells + width > most:
            yield piece
            piece, cells, most = "", 0, room
        piece, cells = piece + char, cells + width
    yield piece


def cells_of(text: str) -> int:
    """Return an upper bound of the cells that a terminal takes for a text."""
    return len(text) if text.isascii() else sum(map(_cells_of_char, text))


def _cells_of_char(char: str) -> int:
    if char.isascii() or (char.isalpha() and unicodedata.east_asian_width(char) not in "WF"):
        return 1
    return 1 if unicodedata.category(char).startswith("M") else 2


def _shown(value: Any) -> Any:  # noqa: ANN401 - a JSON value, and the same
    """Return a JSON value with secrets in URLs masked in the members of ``_OURS``; text of skills is unchanged."""
    if isinstance(value, dict):
        return {
            key: all_masked(each) if key in _OURS else each if isinstance(each, _PLAIN) else _shown(each)
            for key, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [each if isinstance(each, _PLAIN) else _shown(each) for each in value]
    return value


def _json_pieces(value: object) -> Iterator[str]:
    """Yield the text of a JSON value, list element by list element: 10,000 skills at once take 60 MiB."""
    if not (isinstance(value, dict) and value):
        yield json.dumps(_shown(value))
        return
    before = "{"
    for key, each in value.items():
        if isinstance(each, list | tuple) and each and key not in _OURS:
            yield f"{before}{json.dumps(key)}: "
            yield from (f"{', ' if at else '['}{json.dumps(_shown(inner))}" for at, inner in enumerate(each))
            yield "]"
        else:
            yield before + json.dumps(_shown({key: each}))[1:-1]
        before = ", "
    yield "}"


def obeys_escapes(stream: TextIO) -> bool:
    """Return whether the stream is a terminal that obeys escape sequences."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def screen_size() -> os.terminal_size:
    """Return the columns and lines of the screen."""
    from shutil import get_terminal_size  # here, since only a terminal needs it

    return get_terminal_size((80, 24))


def _columns() -> int:
    return screen_size().columns


def size_of(size: int) -> str:
    """Return a number of bytes as text with a unit."""
    number, unit = float(size), 0
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.1f} {_UNITS[unit]}" if unit else f"{size} B"


def shortened(text: str, cells: int) -> str:
    """Return a text, cut to at most ``cells`` cells."""
    if cells_of(text) <= cells:
        return text
    room = cells - cells_of(_LEFT)
    return next(_cut(text, room, room)) + _LEFT if room > 0 else ""


def is_interactive() -> bool:
    """Return whether a person can be asked: stdin and stderr are terminals, and this is no CI."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not is_ci()


def is_ci() -> bool:
    """Return whether a CI runs this, so that no person is at its terminal."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false", "no")
