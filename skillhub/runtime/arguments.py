"""What an invocation puts into the instructions: arguments, the session, the folder, and what agreed commands print.

One pass over the text as it was agreed to: what is put in is never looked at again, so that no argument and no
output of a command can bring in a command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

_PLACE = re.compile(
    r"(?<![\w`)\]!])!`(?P<command>[^`\n]+)`"
    r"|(?<![\\$])\$(?:ARGUMENTS(?:\[(?P<at>[0-9]{1,4})\]|(?!\w))|(?P<nth>[0-9]{1,4})(?!\w|[.,][0-9]))"
    r"|(?<!\\)\$\{(?P<variable>[A-Z_]{1,40})\}"
)


@dataclass(frozen=True, slots=True)
class Given:
    """What there is to put in.

    Attributes:
        arguments: As typed behind the skill's name.
        variables: By name, such as ``SKILL_DIR``; a variable that is not here stays as it is written.
        run: Returns what a command prints, or None where it must not be run; then it stays text.
    """

    arguments: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    run: Callable[[str], str | None] = lambda _: None


def split_words(arguments: str) -> list[str]:
    """Return the words as a POSIX shell splits them; where a quote is left open, at blanks."""
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def put_in(body: str, given: Given) -> str:
    """Return ``body`` with its places filled; arguments that no place takes come at the end.

    ``$ARGUMENTS`` is all of them as typed, ``$ARGUMENTS[N]`` and ``$N`` the word N from 0; a place whose word is
    not there stays as it is written, for it may be a price. A command that holds a place is not run.
    """
    words = split_words(given.arguments)
    is_used = False

    def fill(place: re.Match[str]) -> str:
        nonlocal is_used
        if command := place["command"]:
            printed = None if _PLACE.search(command) else given.run(command)
            return place[0] if printed is None else printed
        if variable := place["variable"]:
            return given.variables.get(variable, place[0])
        number = place["at"] or place["nth"]
        if number is None:
            is_used = True
            return given.arguments
        if int(number) >= len(words):
            return place[0]
        is_used = True
        return words[int(number)]

    text = _PLACE.sub(fill, body)
    if is_used or not given.arguments:
        return text
    return f"{text.rstrip()}\n\nARGUMENTS: {given.arguments}\n"
