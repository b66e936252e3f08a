"""The commands of ``commands.json``: module, section and line of help; all that ``skillhub --help`` needs."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One row of ``commands.json``: a command, or a group of commands with its verbs.

    The function in ``module`` has the name of the command and its verb: ``install``, ``source_add``; ``list_`` for
    ``list``.

    Attributes:
        verbless: Whether the name of a group without a verb is a command too.
        elsewhere: The names of the command in other installers, for the hint after a slip; ``ci=--frozen`` also has
            what follows the command here.
        reads: The command, or those of its verbs, that only read and ask nothing; their help has no flag for that.
    """

    module: str
    help: str
    section: str
    verbs: str = ""
    verbless: bool = False
    elsewhere: str = ""
    reads: str = ""


_HERE = os.path.dirname(__file__)
with open(os.path.join(_HERE, "commands.json"), encoding="utf-8") as _file:
    COMMANDS = {name: Command(**row) for name, row in json.load(_file).items()}


def top_help(columns: int | None = None) -> str:
    """Return the output of ``skillhub --help``; Typer's own help takes six times as long.

    Args:
        columns: The width of the terminal; without one, each line stays whole.
    """
    rows, section = [], None
    for name, command in COMMANDS.items():
        if command.section != section:
            section = command.section
            rows += ["", f"{section}:"]
        rows.append(f"  {name:<11}{command.help}")
    with open(os.path.join(_HERE, "help.txt"), encoding="utf-8") as file:
        lines = file.read().format(commands="\n".join(rows)).splitlines()
    return "\n".join(part for line in lines for part in _wrapped(line, columns)) + "\n"


def _wrapped(line: str, columns: int | None) -> list[str]:
    """Break a line between words if it is too long; the next rows are indented to its second column."""
    if columns is None or len(line) <= columns:
        return [line]
    from textwrap import wrap

    second = max(2, line.rfind("  ") + 2)
    return wrap(line, columns, subsequent_indent=" " * second, break_long_words=False, break_on_hyphens=False)
