"""Reads the programs of a skill into one flow, and the programs embedded in these."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

from skillhub.model.finding import NO_PARSER, Sighting
from skillhub.scan.code.flow import Flow
from skillhub.scan.code.programs import Program
from skillhub.scan.code.statements import LANGUAGES, Statements
from skillhub.scan.skill_files import PARSED_MAX, SCRIPTING

PARSERS: Final = {"shell": "tree_sitter_bash", "javascript": "tree_sitter_javascript"}
# Bytes of all programs of a skill; programs embedded in one; and the depth to which they are nested.
_BYTES_MAX = 1 << 21
_EMBEDDED_MAX = 200
_DEPTH = 3


class Reader:
    """Reads the programs of a skill into one flow, one after another."""

    def __init__(self, flow: Flow, programs: dict[str, str]) -> None:
        self.flow = flow
        self._programs = programs
        self._bytes_left = _BYTES_MAX
        self._unread: dict[tuple[str, str], int] = {}

    def read(self, language: str, text: str, path: str, line: int) -> None:
        """Read a program, and the programs embedded in it."""
        queue = [(language, text, line, _DEPTH)]
        for _ in range(_EMBEDDED_MAX):
            if not queue:
                return
            language, text, line, depth = queue.pop()
            if language not in SCRIPTING:
                continue
            embedded = self._read(language, text, path, line)
            if depth > 1:
                queue += [(*program, depth - 1) for program in embedded]

    def unread(self) -> Iterator[Sighting]:
        """Yield the files with a program that was not read."""
        for (path, why), line in self._unread.items():
            yield Sighting("SH609", path, line, why)

    def _read(self, language: str, text: str, path: str, line: int) -> list[tuple[str, str, int]]:
        self._bytes_left -= len(text)
        needed = PARSERS.get(language)
        if needed and find_spec(needed) is None:
            limitation = (
                f"the scan searched its text for patterns, but did not follow what its {language} code does with data"
            )
            why = f"{limitation}: {NO_PARSER}"
            self._unread.setdefault((path, why), 0)
            return []
        if len(text) > PARSED_MAX or self._bytes_left < 0:
            self._unread.setdefault((path, "too long to be read as a program: it was searched by patterns only"), 0)
            return []
        if language in LANGUAGES:
            statements = Statements(self.flow, path, line, language)
            statements.read(text)
            return statements.embedded
        if language == "shell":
            from skillhub.scan.code.shell import Script  # noqa: PLC0415 - needs the extra

            script = Script(self.flow, path, line)
            script.read(text)
            return script.embedded
        program = Program(self.flow, path, line, self._programs)
        try:
            if language == "javascript":
                from skillhub.scan.code.javascript import javascript  # noqa: PLC0415 - needs the extra

                tree, _ = javascript(text)
            else:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    tree = ast.parse(text)
            program.read(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._unread.setdefault(
                (path, f"it cannot be read as {language}: it was searched by patterns only"), line + 1
            )
        return [("shell", command, line + number - 1) for command, number in program.embedded]
