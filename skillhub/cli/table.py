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
    """

    module: str
    help: str
    section: str
    verbs: str = ""
    verbless: bool = False


with open(os.path.join(os.path.dirname(__file__), "commands.json"), encoding="utf-8") as _file:
    COMMANDS = {name: Command(**row) for name, row in json.load(_file).items()}


def top_help(columns: int | None = None) -> str:
    """Return the output of ``skillhub --help``; Typer's own help takes six times as long.

    Args:
        columns: The width of the terminal; without one, each line stays whole.
    """
    lines = [
        "Usage: skillhub [OPTIONS] COMMAND [ARGS]...",
        "",
        "  The secure registry and installer for agent skills.",
        "",
        "  Example: skillhub install github:code-review",
    ]
    section = None
    for name, command in COMMANDS.items():
        if command.section != section:
            section = command.section
            lines += ["", f"{section}:"]
        lines.append(f"  {name:<11}{command.help}")
    lines += [
        "",
        "Options:",
        "  --version, -V         Show the version and exit.",
        "  --install-completion  Install completion for the current shell.",
        "  --man                 Print the manual page, for: skillhub --man | man -l -",
        "  --show-completion     Show completion for this shell, or the one you name.",
        "  --help, -h            Show this message and exit.",
        "",
        "skillhub COMMAND --help shows more; docs: https://github.com/skillhub/skillhub",
    ]
    return "\n".join(part for line in lines for part in _wrapped(line, columns)) + "\n"


def _wrapped(line: str, columns: int | None) -> list[str]:
    """Break a line between words if it is too long; the next rows are indented to its second column."""
    if columns is None or len(line) <= columns:
        return [line]
    from textwrap import wrap

    second = max(2, line.rfind("  ") + 2)
    return wrap(line, columns, subsequent_indent=" " * second, break_long_words=False, break_on_hyphens=False)
