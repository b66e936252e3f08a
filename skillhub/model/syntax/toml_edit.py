"""One table goes into a TOML file, or out of it; every other byte stays as it is.

A new table may always be the last thing of a file, so the text is only lengthened, or cut at the ends of
lines; ``tomllib`` reads it before and after. (tomlkit does not always print line ends, blank lines and tables
that are out of order as they were.)
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from skillhub.errors import FormatError
from skillhub.model.syntax.jsonc import BOM
from skillhub.model.syntax.toml import others_toml, spell_toml
from skillhub.model.text import end_of_line, quote

# Whatever may hold a line end that ends no statement. Sure only of a text that tomllib has read.
_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}\n]',
    re.DOTALL,
)
_DEPTH = {"[": 1, "{": 1, "]": -1, "}": -1}
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def insert(text: str, path: tuple[str, ...], table: Mapping[str, object], where: str) -> str:
    """Return ``text`` with a new last table ``[path]`` of strings and lists of strings.

    Raises:
        FormatError: ``text`` is malformed, has that table, or one around it that is closed (``x = {…}``).
    """
    before = others_toml(text, where)
    eol = end_of_line(text)
    lines = [f"[{'.'.join(map(_key, path))}]", *(f"{_key(key)} = {spell_toml(table[key])}" for key in table)]
    block = eol.join(lines)
    if text in ("", BOM):
        after = text + block + eol
    elif text.endswith("\n"):
        after = text + eol + block + eol
    else:
        after = text + eol + eol + block
    try:
        found = others_toml(after, where)
    except FormatError as error:
        message = f"expected that a table {quote('.'.join(path))} can be added"
        raise FormatError(message, where=where, hint=f"`{path[0]}` has to be tables of their own") from error
    return _checked(after, _rest(before, path) == _rest(found, path) and _at(found, path) == table, where)


def remove(text: str, path: tuple[str, ...], where: str) -> str:
    """Return ``text`` without the table at ``path`` and what is in it, comments between its lines included.

    Raises:
        FormatError: ``text`` is malformed, or there is no such table.
    """
    before = others_toml(text, where)
    if _at(before, path) is None:
        raise FormatError(f"expected {quote('.'.join(path))}, found none", where=where)
    after = text
    for start, end in reversed(_spans(text, path)):
        after = _without(after, start, end)
    found = others_toml(after, where)
    return _checked(after, _rest(before, path) == _rest(found, path) and _at(found, path) is None, where)


def _spans(text: str, path: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return the runs of statements that say something below ``path``."""
    spans: list[tuple[int, int]] = []
    table: tuple[str, ...] = ()
    running = False
    for start, end in _statements(text):
        statement = text[start:end].lstrip()
        if statement.startswith("["):
            subject = table = _path(statement)
        else:
            subject = table + _path(statement) if table == path[: len(table)] else table
        ours = subject[: len(path)] == path
        if ours:
            spans.append((spans.pop()[0] if running else start, end))
        running = ours
    return spans


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """Yield each header and each ``key = value`` with the line end after it."""
    start = len(text) - len(text.removeprefix(BOM))
    depth = 0
    ends = []
    for token in _TOKEN.finditer(text):
        depth += _DEPTH.get(token.group(), 0)
        if token.group() == "\n" and depth == 0:
            ends.append(token.end())
    for end in (*ends, len(text)):
        if text[start:end].strip() and not text[start:end].lstrip().startswith("#"):
            yield start, end
        start = end


def _path(statement: str) -> tuple[str, ...]:
    """Return the keys of one statement, down to its first value."""
    keys = []
    data: Any = tomllib.loads(statement)
    while data and isinstance(data, dict | list):
        if isinstance(data, list):
            data = data[0]
        else:
            key, data = next(iter(data.items()))
            keys.append(key)
    return tuple(keys)


def _without(text: str, start: int, end: int) -> str:
    head, cut, tail = text[:start], text[start:end], text[end:]
    above = _chomped(head)
    if cut.lstrip().startswith("[") and above != head and (above in ("", BOM) or above.endswith("\n")):
        # The blank line that `insert` put in front; a file without a last line end gets back to that.
        head = above if cut.endswith("\n") else _chomped(above)
    return head + tail


def _chomped(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else spell_toml(key)


def _at(data: dict[str, Any], path: tuple[str, ...]) -> object:
    found: object = data
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _rest(data: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return ``data`` without what is at ``path``, nor parents that would then be empty."""
    rest = {key: value for key, value in data.items() if key != path[0]}
    if len(path) == 1:
        return rest
    parent = data.get(path[0])
    if not isinstance(parent, dict):
        return data
    inner = _rest(parent, path[1:])
    return {**rest, path[0]: inner} if inner else rest


def _checked(text: str, sound: bool, where: str) -> str:
    if not sound:
        raise FormatError("expected a file that can be edited in place", where=where, hint="edit it by hand")
    return text
