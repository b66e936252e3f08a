"""Lets a person pick among many skills: on the whole screen, or line by line so that a screen reader can follow."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec

from skillhub.cli.offered import Offered
from skillhub.cli.terminal import Terminal, shortened
from skillhub.model.index import Release
from skillhub.model.lock import Lock
from skillhub.project.intent import Place

_HELP = "numbers or names to choose, words to filter the list, {more}all for the whole list, empty to stop:"
_AROUND = 5  # lines of the screen that are not rows of the list
_LEAST = (40, 12)  # columns and lines of a screen that holds a list and a preview
LIST = "SKILLHUB_PICKER"  # the variable that has it be a list, `list`


def pick(
    terminal: Terminal, releases: Sequence[Release], lock: Lock, base: str, places: Mapping[str, Place] | None = None
) -> tuple[Release, ...]:
    """Let the person at the terminal pick; empty if they stop.

    Args:
        terminal: Where they sit.
        releases: What is offered.
        lock: What is installed, and is marked.
        base: The folder that the lock's own paths begin at.
        places: The sources without a registry, if the source's alias stands where a plugin's name would.
    """
    offered = Offered(releases, lock, base, places)
    # Its library takes a tenth of a second, and may not be there.
    terminal.clear()
    choose = import_module("skillhub.cli.screen").choose if _draws(terminal) else _by_line
    chosen: list[int] = choose(terminal, offered)
    return tuple(offered.releases[number] for number in chosen)


def _draws(terminal: Terminal) -> bool:
    """Say whether the whole screen may be used: it can be drawn on, nobody wants a list, and the extra is there."""
    columns, lines = terminal.size
    is_wanted = not os.environ.get(LIST) and terminal.obeys_escapes and columns >= _LEAST[0] and lines >= _LEAST[1]
    return is_wanted and find_spec("prompt_toolkit") is not None


def _by_line(terminal: Terminal, offered: Offered) -> list[int]:
    """Let them pick from a list with numbers; empty if they stop.

    Numbers stay those of the whole list, however it is narrowed; each search is in the whole list again.
    """
    listed, start = list(range(len(offered.labels))), 0
    while True:
        shown = _show(terminal, offered, listed[start:])
        said = terminal.prompt(f"  {_HELP.format(more='more for the rest, ' if shown < len(listed) else '')}")
        words = said.replace(",", " ").split()
        if not words:
            return []
        if words == ["all"]:
            return listed
        if words == ["more"] and shown < len(listed):
            start = start + shown if start + shown < len(listed) else 0
            continue
        chosen = offered.named(words)
        if chosen:
            return chosen
        found = offered.matching(words)
        if found:
            listed, start = found, 0
        else:
            terminal.prose(f"no skill matches {' '.join(words)[:200]}", 2, "yellow")


def _show(terminal: Terminal, offered: Offered, listed: Sequence[int]) -> int:
    """Show as many as there is room for, and return how many those are."""
    columns, rows = terminal.size
    lines: list[str] = []
    shown = 0
    for before, number in zip((None, *listed), listed, strict=False):
        heading = offered.heading(number, before)
        if shown and len(lines) + bool(heading) + 1 > max(1, rows - _AROUND) - (shown + 1 < len(listed)):
            break
        lines += [*([heading] if heading else []), offered.row(number, columns, f"{number + 1:>3}  ")]
        shown += 1
    for line in lines:
        terminal.prose(shortened(line, columns))
    if shown < len(listed):
        terminal.prose(f"and {len(listed) - shown} more", 2, "dim")
    return shown
