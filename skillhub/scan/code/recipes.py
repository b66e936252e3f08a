"""Files of build tools, continuous integration, agents and editors, as the programs of their commands."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from skillhub.formats.text import numbered

# A string of JSON; one without an end reaches to the end of its line.
_STRING: Final = re.compile(r'"(?>(?:[^"\\\n]++|\\.?)*)(?:"|$)', re.MULTILINE)
# Strings of a file that are read one by one; the others are read as one script.
_STRINGS_MAX: Final = 1000
# The marks of a list and the key before a value of YAML; the sign of a text in the next lines; a value in quotes.
_KEY: Final = re.compile(r"([ \t]*)((?:-[ \t]+)*)([\w./-]{1,60}:(?:[ \t]+|$))?")
_BLOCK: Final = re.compile(r"[|>][-+\d]{0,2}[ \t]*")
_QUOTED: Final = re.compile(r"(?:\"(?>(?:[^\"\\\n]++|\\.)*)\"|'(?>(?:[^'\n]++|'')*)')[ \t]*")
_EXPRESSION: Final = re.compile(r"\$\{\{[^{}\n]{0,300}\}\}")
_INSTRUCTION: Final = re.compile(
    r"^[ \t]*(?:ONBUILD[ \t]+)?(?:RUN|CMD|ENTRYPOINT|ENV|ARG|HEALTHCHECK[^\n]{0,80}?CMD)[ \t]+(?:--\S+[ \t]+){0,5}",
    re.MULTILINE | re.IGNORECASE,
)
_ADDED: Final = re.compile(
    r"^[ \t]*ADD[ \t]+(?:--\S+[ \t]+){0,5}(https?://\S+)[ \t]+(\S+)", re.MULTILINE | re.IGNORECASE
)
_WORDS: Final = re.compile(r"^\[.*\][ \t]*$", re.MULTILINE)
_LISTED: Final = re.compile(r"\"(?>(?:[^\"\\\n]++|\\.)*)\"|'(?>(?:[^'\n]++|'')*)'|[^\[\],\"'\n]++")
_ASSIGNED: Final = re.compile(r"^[\w.-]{1,60}[ \t]*=[ \t]*(?=\S)[-@:+!]{0,3}", re.MULTILINE)
_TIMES: Final = re.compile(
    r"^[ \t]*(?:@\w{1,20}|(?:[\d*/,?LW#a-zA-Z-]{1,40}[ \t]+){4}[\d*/,?LW#a-zA-Z-]{1,40})[ \t]+", re.MULTILINE
)
_RECIPE: Final = re.compile(r"^\t[@+-]*", re.MULTILINE)


def _json(text: str) -> Iterator[tuple[str, int]]:
    strings = (match for match in _STRING.finditer(text) if " " in match[0])
    line = 1
    for match, line in numbered(islice(strings, _STRINGS_MAX)):
        yield _unquoted(match), line
    yield "\n".join(map(_unquoted, strings)), line


def _notebook(text: str) -> Iterator[tuple[str, int]]:
    """Yield the cells of code; each is found again at its first line, which is a string of its own in most files."""
    notebook: Any = None
    with suppress(ValueError, RecursionError):
        notebook = json.loads(text)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    offset, line = 0, 1
    for cell in cells if isinstance(cells, list) else ():
        source = cell.get("source") if isinstance(cell, dict) and cell.get("cell_type") != "markdown" else None
        lines = [each for each in source if isinstance(each, str)] if isinstance(source, list) else [source]
        code = "".join(each for each in lines if isinstance(each, str))
        if code.strip():
            start = text.find(json.dumps(lines[0])[:-1], offset) if offset >= 0 else -1
            line += text.count("\n", offset, start) if start >= 0 else 0
            offset = start  # negative if it is spelled in another way: no later cell is looked for
            yield code, line


def _yaml(text: str) -> Iterator[tuple[str, int]]:
    script: list[str] = []
    block = margin = -1  # the columns of the key of a text in several lines, and of its first line
    for line in _EXPRESSION.sub("x", text).split("\n"):
        column = len(line) - len(line.lstrip())
        if block >= 0 and (not line.strip() or column > block):
            margin = column if margin < 0 and line.strip() else margin
            script.append(line[min(column, margin) :] if margin > 0 else "")
            continue
        match = _KEY.match(line)
        value = line[match.end() :] if match else line
        is_block = _BLOCK.fullmatch(value) is not None
        block, margin = (match.start(3) if match and match[3] else column) if is_block else -1, -1
        value = _QUOTED.sub(_unquoted, value) if _QUOTED.fullmatch(value) else value
        script.append("" if is_block else _WORDS.sub(_command_of_words, value))
    yield "\n".join(script), 1


def _dockerfile(text: str) -> Iterator[tuple[str, int]]:
    yield _WORDS.sub(_command_of_words, _INSTRUCTION.sub("", _ADDED.sub(r"curl -o \2 \1", text))), 1


def _makefile(text: str) -> Iterator[tuple[str, int]]:
    yield _RECIPE.sub("", text).replace("$$", "$").replace("$(shell ", "$("), 1


def _settings(text: str) -> Iterator[tuple[str, int]]:
    lines = (_ASSIGNED.sub("", line) for line in text.split("\n"))
    values = (_QUOTED.sub(_unquoted, line) if _QUOTED.fullmatch(line) else line for line in lines)
    yield _WORDS.sub(_command_of_words, "\n".join(values)), 1


def _crontab(text: str) -> Iterator[tuple[str, int]]:
    yield _TIMES.sub("", text), 1


def _shell(text: str) -> Iterator[tuple[str, int]]:
    yield text, 1


def _unquoted(match: re.Match[str]) -> str:
    with suppress(ValueError):
        value = json.loads(match[0], strict=False)
        return value if isinstance(value, str) else match[0]
    return match[0].strip()[1:-1].replace("''", "'")


def _command_of_words(match: re.Match[str]) -> str:
    """Return a command that is spelled as a list of words; that of a shell is the word after ``-c``."""
    value: Any = None
    with suppress(ValueError, RecursionError):
        value = json.loads(match[0])
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        words = (word.strip() for word in _LISTED.findall(match[0]))  # YAML, which needs no quotes
        value = [word if word[:1] not in "\"'" else word[1:-1] for word in words if word]
    return value[value.index("-c") + 1] if "-c" in value[:-1] else shlex.join(value)


READERS: Final[Mapping[str, Callable[[str], Iterator[tuple[str, int]]]]] = {
    "json": _json,
    "notebook": _notebook,
    "yaml": _yaml,
    "dockerfile": _dockerfile,
    "makefile": _makefile,
    "settings": _settings,
    "crontab": _crontab,
    "shell": _shell,
}
