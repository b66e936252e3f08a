"""The picker on the whole screen: arrow keys, words that filter, groups, a preview; drawn by prompt_toolkit.

It draws fragments of cleaned text, in which the library interprets no markup.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import Output, create_output

from skillhub.cli.picker import Offered
from skillhub.cli.terminal import BAR, Terminal, rows_of, shortened
from skillhub.formats.text import collapsed, word

_AROUND = 4  # lines: how many there are, the filter, the line above the preview, the keys
_KEYS = ("type to filter; arrows move, tab marks, ctrl-a all, enter takes", "tab marks, enter takes")
_NOTHING = "no skill matches; esc clears the filter"
_FILTER = "filter: "
_FILTER_MAX = 100
_PAGE = 10
Lines = list[tuple[str, str]]


def choose(terminal: Terminal, offered: Offered) -> list[int]:
    """Let the person at the terminal choose; return an empty list if they stop."""
    terminal.discard_input()
    try:
        return Screen(offered).run(create_input(), create_output(stdout=sys.stderr))
    except EOFError:  # the terminal is gone
        return []


class Screen:
    """The state of the screen, and the functions of the keys."""

    def __init__(self, offered: Offered) -> None:
        self.offered = offered
        self.filter = ""
        self.listed = list(range(len(offered.labels)))
        self.at = 0
        self.marked: set[int] = set()

    def run(self, keyboard: Input, output: Output) -> list[int]:
        """Draw the screen and handle keys until the user takes the marked skills, or stops."""
        control = FormattedTextControl(
            lambda: [(style, f"{text}\n") for style, text in self.draw(*reversed(output.get_size()))],
            focusable=True,
            get_cursor_position=lambda: Point(len(_FILTER) + len(self.filter), 1),
        )
        app: Application[list[int]] = Application(
            Layout(Window(control)), key_bindings=self._keys(), full_screen=True, input=keyboard, output=output
        )
        app.ttimeoutlen = 0.1  # seconds in which Esc may be the beginning of another key
        taken: list[int] = app.run(handle_sigint=False)
        return taken

    def draw(self, columns: int, lines: int) -> Lines:
        """Return the fragments that fill a screen of this size."""
        preview = max(3, (lines - _AROUND) // 3) if lines >= _AROUND + 4 else -1  # neither it nor the line above
        stops = "esc clears the filter" if self.filter else "esc stops"
        texts = [f"{each}, {stops}" for each in _KEYS]
        keys = next((text for text in texts if len(text) < columns), stops)
        counts = f"{len(self.offered.labels)} skills, {len(self.listed)} listed, {len(self.marked)} marked"
        drawn = [
            ("bold", counts),
            ("", f"{_FILTER}{self.filter}"),
            *self._list(columns, max(1, lines - _AROUND - preview)),
            *([("", "-" * (columns - 1)), *self._preview(columns, preview)] if preview > 0 else []),
            ("bold", keys),
        ]
        return [(style, shortened(text, columns - 1)) for style, text in drawn]

    def _list(self, columns: int, room: int) -> Lines:
        """Return the page of the list with the cursor, padded to ``room`` lines."""
        lines: list[str | int] = []
        cursor = 0
        for before, number in zip((None, *self.listed), self.listed, strict=False):
            heading = self.offered.heading(number, before)
            if heading:
                lines.append(heading)
            if number == self.current:
                cursor = len(lines)
            lines.append(number)
        page = [self._line(each, columns) for each in lines[cursor // room * room :][:room] or [_NOTHING]]
        return [*page, *[("", "")] * (room - len(page))]

    def _line(self, shown: str | int, columns: int) -> tuple[str, str]:
        if isinstance(shown, str):
            return "bold", shown
        start = f"{'>' if shown == self.current else ' '} [{'x' if shown in self.marked else ' '}] "
        return "reverse" if shown == self.current else "", self.offered.row(shown, columns - 1, start)

    def _preview(self, columns: int, room: int) -> Lines:
        """Return the facts of the skill at the cursor, padded to ``room`` lines."""
        if self.current is None:
            return [("", "")] * room
        release = self.offered.releases[self.current]
        facts = [self.offered.labels[self.current], word(release.version or ""), self.offered.marks[self.current]]
        if release.path:
            facts.append(f"folder {word(release.path)}")
        description = rows_of(BAR, self.offered.descriptions[self.current], BAR, columns - 1, None)
        description = description if len(description) < room else [*description[: room - 2], f"{BAR}…"]
        head = ("bold", ", ".join(each for each in facts if each.strip("'")))
        return [head, *(("", each) for each in description), *[("", "")] * (room - 1 - len(description))]

    @property
    def current(self) -> int | None:
        """The number of the skill at the cursor; None if the list is empty."""
        return self.listed[self.at] if self.listed else None

    def move(self, by: int) -> None:
        """Move the cursor within the list."""
        self.at = max(0, min(self.at + by, len(self.listed) - 1))

    def narrow(self, text: str) -> None:
        """List the skills that match all words of a filter; the cursor stays at its skill if that is still listed."""
        current = self.current
        self.filter = collapsed(f"{text}.")[:-1][:_FILTER_MAX]  # a blank at its end stays
        self.listed = self.offered.matching(self.filter.split())
        self.at = self.listed.index(current) if current in self.listed else 0

    def mark(self, numbers: Sequence[int]) -> None:
        """Mark these skills; if all of them are marked, unmark them."""
        self.marked = self.marked - {*numbers} if self.marked.issuperset(numbers) else self.marked | {*numbers}

    def _keys(self) -> KeyBindings:
        def tab(_: KeyPressEvent) -> None:
            self.mark(self.listed[self.at : self.at + 1])
            self.move(1)

        def take(event: KeyPressEvent) -> None:
            if taken := sorted(self.marked) or self.listed[self.at : self.at + 1]:
                event.app.exit(result=taken)

        def back(event: KeyPressEvent) -> None:
            if self.filter:
                self.narrow("")
            else:
                event.app.exit(result=[])

        def typed(event: KeyPressEvent) -> None:
            if len(event.data) == 1:  # longer data is a key without a function here
                self.narrow(self.filter + event.data)

        moves = {"up": -1, "down": 1, "pageup": -_PAGE, "pagedown": _PAGE, "home": -(10**9), "end": 10**9}
        acts: dict[Keys | str, Callable[[KeyPressEvent], None]] = {
            **{key: lambda _, by=by: self.move(by) for key, by in moves.items()},  # type: ignore[misc]
            "tab": tab,
            "enter": take,
            "escape": back,
            "c-a": lambda _: self.mark(self.listed),
            "c-d": lambda event: event.app.exit(result=[]),
            "c-c": lambda event: event.app.exit(exception=KeyboardInterrupt),
            "c-u": lambda _: self.narrow(""),
            "backspace": lambda _: self.narrow(self.filter[:-1]),
            Keys.BracketedPaste: lambda event: self.narrow(self.filter + event.data),
            Keys.Any: typed,
        }
        keys = KeyBindings()
        for key, act in acts.items():
            keys.add(key)(act)
        return keys
