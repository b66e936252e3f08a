"""Python that does not parse as a whole: each statement that parses alone, and the commands of a notebook.

Such a text is of another version of Python, has the marks of a template, or is a part of a longer text. A block that
does not parse is read again as its first line and the blocks in it; a line of Python 2, or of a later Python than
this one, is rewritten. What is left over is returned as text.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Set
from typing import Final

from skillhub.formats.text import numbered
from skillhub.scan.code.trees import Effort

# Lines that belong to the block above them, although they are not indented; the last ones do nothing alone.
_GOES_ON: Final = re.compile(r"(?:[)\]}]|(?:else|elif|except|finally)\b)")
_DOES_NOTHING: Final = re.compile(r"(?:try|else|finally|except\b[^:]*):")
# A string of several lines, or anything in which its marks mean nothing.
_STRING: Final = re.compile(
    r"#[^\n]*|('{3}|\"{3})(?:[^\\]|\\.)*?\1|'(?>(?:[^'\\\n]++|\\.)*)'|\"(?>(?:[^\"\\\n]++|\\.)*)\"", re.DOTALL
)
_HEADER: Final = re.compile(r"(?:async\s+)?(?:if|elif|for|while|with|def|class)\b")
# A command of a notebook, its result as a value, and a cell for a shell.
_COMMAND: Final = re.compile(r"[ \t]*(?:[\w, \t]{1,80}=[ \t]*)?(?:!{1,2}|%(?:sx|system)[ \t])[ \t]*(.+)")
_CELL: Final = re.compile(r"\s*%%(?:bash|sh|script[^\n]{0,40}sh|sx|system|!)[^\n]*\n")
# Statements of Python 2; strings and lists of types of a later Python.
_OLD: Final = re.compile(r"(print|exec|raise)\b[ \t]*(?:>>)?[ \t]*(?![(=.])(.+)", re.DOTALL)
_OF_TEMPLATE: Final = re.compile(r"\b[tT][rR]?(?=[\"'])|\b[rR][tT](?=[\"'])")
_OF_TYPES: Final = re.compile(r"((?:async\s+)?(?:def|class)\s+\w+)\[[^\]\n]{0,300}\]")
# The start of a string with fields, the text between two fields, and its end.
_NESTED: Final = tuple(
    (
        quote,
        re.compile(rf"\b[rR]?[fF]{quote}([^{{}}{quote}]*+)\{{"),
        re.compile(rf"\}}([^{{}}{quote}]*+)\{{"),
        re.compile(rf"\}}([^{{}}{quote}]*+){quote}"),
    )
    for quote in ("'", '"')
)
# Characters that are parsed again, for each character of a text.
_AGAIN: Final = 20


class Pieces:
    """The statements of a text.

    Attributes:
        tree: The statements that could be parsed.
        commands: The shell commands, each with its line.
    """

    def __init__(self, text: str, effort: Effort) -> None:
        self.commands: list[tuple[str, int]] = []
        self._effort = effort
        self._left = _AGAIN * len(text)
        self._rest: list[tuple[str, int]] = []
        if cell := _CELL.match(text):
            self.commands.append((text[cell.end() :], 1 + text.count("\n", 0, cell.end())))
            text = ""
        self.tree = ast.Module(self._statements(text.split("\n"), 1, _within_strings(text)), [])

    @property
    def rest(self) -> str:
        """The lines that could not be parsed, each as the line that it is in the text."""
        lines, last = list[str](), 1
        for line, number in self._rest:
            lines += "\n" * (number - last), line
            last = number
        return "".join(lines)

    def _statements(self, lines: list[str], first: int, within: Set[int] = frozenset()) -> list[ast.stmt]:
        """Return the statements in some lines; ``within`` are the numbers of those that begin within a string."""
        statements: list[ast.stmt] = []
        for block, number in _blocks(lines, first, within):
            if self._effort.is_spent:
                break
            if (parsed := self._parse("\n".join(block), number)) is not None:
                statements += parsed
            elif len(block) == 1 or self._left < 0:
                for offset, line in enumerate(block):
                    statements += self._line(line.strip(), number + offset)
            else:
                header = self._line(block[0].strip(), number)
                inner = self._statements(block[1:], number + 1)
                if header and isinstance(body := getattr(header[0], "body", None), list):
                    body[:] = inner or body
                    statements += header
                else:
                    statements += [*header, *inner]
        return statements

    def _line(self, line: str, number: int) -> list[ast.stmt]:
        if command := _COMMAND.fullmatch(line):
            self.commands.append((command[1], number))
            return []
        for spelled in _spellings(line):
            if (parsed := self._parse(spelled, number)) is not None:
                return parsed
        if line and not _DOES_NOTHING.fullmatch(line):
            self._rest.append((line, number))
        return []

    def _parse(self, text: str, number: int) -> list[ast.stmt] | None:
        self._left -= len(text)
        try:
            tree = ast.parse(textwrap.dedent(text))
        except (SyntaxError, ValueError):
            self._effort.errors -= 1
            return None
        except (RecursionError, MemoryError):
            self._effort.errors = -1
            return None
        return ast.increment_lineno(tree, number - 1).body


def _within_strings(text: str) -> frozenset[int]:
    """Return the numbers of the lines that begin within a string."""
    strings = numbered(match for match in _STRING.finditer(text) if match[1])
    return frozenset(each for match, line in strings for each in range(line + 1, line + 1 + match[0].count("\n")))


def _blocks(lines: list[str], first: int, within: Set[int]) -> Iterator[tuple[list[str], int]]:
    """Yield each line with the lines that belong to it, as they are indented further, and its number."""
    block, start, margin = list[str](), first, 0
    for number, line in enumerate(lines, first):
        text = line.lstrip()
        indent = len(line) - len(text)
        goes_on = indent == margin and (_GOES_ON.match(text) or (block[-1:] and block[-1].lstrip().startswith("@")))
        if text and number not in within and indent <= margin and not goes_on and block:
            yield block, start
            block = []
        if not block and text:
            start, margin = number, indent
        if block or text:
            block.append(line)
    if block:
        yield block, start


def _spellings(line: str) -> Iterator[str]:
    """Yield a line, and how this Python spells it."""
    line = _OF_TYPES.sub(r"\1", _OF_TEMPLATE.sub("f", line))
    yield line
    if line.endswith(":") and _HEADER.match(line):
        yield f"{line.removeprefix('el')} pass"
    if old := _OLD.match(line):
        argument = re.sub(r"\s+in\s+", ", ", old[2]) if old[1] == "exec" else old[2]
        yield f"{old[1] if old[1] != 'raise' else 'print'}({argument.rstrip(';')})"
    for quote, starts, between, ends in _NESTED:
        if f"f{quote}" in line.lower():  # within another one since Python 3.12
            yield ends.sub(
                rf")+{quote}\1{quote}",
                between.sub(rf")+{quote}\1{quote}+(", starts.sub(rf"{quote}\1{quote}+(", line)),
            )
    if line.endswith((",", "\\", "(", "[", "{")) or line.startswith((")", "]", "}")):
        yield line.strip(",\\([{)]} ")
