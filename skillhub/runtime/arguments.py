"""Fills the places in instructions: arguments, the session, the folder, and what agreed commands print.

One pass over the text as it was agreed to: what is put in is never looked at again, so that no argument and no
output of a command can bring in a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

_PLACE = re.compile(
    r"(?<![\w`)\]!])!`(?P<command>[^`\n]+)`"
    r"|(?<![\\$])\$(?:ARGUMENTS(?:\[(?P<at>[0-9]{1,4})\]|(?!\w))|(?P<nth>[0-9]{1,4})(?!\w|[.,][0-9]))"
    r"|(?<!\\)\$\{(?P<variable>[A-Z_]{1,40})\}"
)

# What a word is made of (POSIX, Shell Command Language 2.2): in quotes of either kind, escaped, or as it is.
_PIECE = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>[^"\\]*(?:\\.[^"\\]*)*)"|\\(?P<escaped>.)"""
    r"""|(?P<plain>[^ \t\r\n'"\\]+)|(?P<blank>[ \t\r\n]+)""",
    re.DOTALL,
)
_ESCAPED = re.compile(r"""\\(["\\])""")


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
    """Return the words as a POSIX shell splits them; where a quote is left open, at blanks.

    The standard library's ``shlex`` takes time that is quadratic in the length of a word.
    """
    found: list[list[str]] = []
    end, is_apart = 0, True
    for piece in _PIECE.finditer(arguments):
        if piece.start() != end:
            break
        end = piece.end()
        single, double, escaped, plain = piece.group("single", "double", "escaped", "plain")
        if piece["blank"]:
            is_apart = True
            continue
        if is_apart:
            found.append([])
            is_apart = False
        if double is not None:
            found[-1].append(_ESCAPED.sub(r"\1", double))
        else:
            found[-1].append(next(each for each in (single, escaped, plain) if each is not None))
    return ["".join(word) for word in found] if end == len(arguments) else arguments.split()


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
