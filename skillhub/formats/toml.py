"""TOML from outside, parsed within bounds; one table is added or removed without touching another byte."""

from __future__ import annotations

import json
import re
import tomllib
from bisect import bisect
from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from skillhub.errors import FormatError
from skillhub.formats.json import BOM
from skillhub.formats.text import clean, deferred, end_of_line, line_of_marker, quote

# TOML from outside, parsed within bounds: documents of skillhub and files of other programs; and TOML texts.

# The parser's time grows with the square of a dotted key's depth: 100 kB of `a.a.a…` take a minute. So a line may not
# have more dots than any honest one.
CAP = 256 * 1024
# For `skillhub.toml`: some 20,000 skills. Parsing hostile text takes a second for each MiB.
LINES_CAP = 2 << 20
_DOTS_MAX = 100
# tomlkit's time grows with the square of the number of lines, empty ones among them: 1 MiB of these takes 12 s.
_LINES_MAX = 65_536
# The same limit for files of other programs, which may have dots in texts; possessive, for linear time.
_DEEP_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")
_LEVELS_MAX = 100
_AT_LINE = deferred(r"\(at line (\d+), column \d+\)$")
_TWICE = deferred(r"^Cannot (?:overwrite|declare|mutate).*\(at (?:line (\d+)|end)")


def strict_toml(data: bytes, where: str, cap: int = CAP) -> dict[str, Any]:
    """Return the document in these bytes.

    Raises:
        FormatError: they are more than ``cap``, have too many lines or dots, or are not UTF-8 or not TOML.
    """
    if len(data) > cap:
        raise FormatError(f"expected at most {cap} bytes, found {len(data)}", where=where)
    if (count := data.count(b"\n")) > _LINES_MAX:
        raise FormatError(f"expected at most {_LINES_MAX} lines, found {count}", where=where)
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.count(b".") > _DOTS_MAX:
            raise FormatError(f"expected at most {_DOTS_MAX} dots in a line", where=f"{where}:{number}")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        if data.startswith(BOM.encode()):
            hint = "save the file as UTF-8 without this mark, which some editors on Windows write"
            raise FormatError("not TOML: it begins with a byte order mark", where=f"{where}:1", hint=hint) from error
        if position := line_of_marker(data):
            hint = "keep the right lines, and remove the markers"
            message = "not TOML: it holds a merge conflict"
            raise FormatError(message, where=f"{where}:{position}", hint=hint) from error
        if twice := _TWICE.search(str(error)):
            lines = data.decode("utf-8").split("\n")
            position = int(twice[1] or len(lines))
            key = lines[position - 1].partition("=")[0].strip(' \t\r[]"')
            message, hint = f"not TOML: {quote(key)} occurs twice", "keep the right one of the two"
            raise FormatError(message, where=f"{where}:{position}", hint=hint) from error
        place = f"{where}:{at[1]}" if (at := _AT_LINE.search(str(error))) else where
        raise FormatError(f"not TOML: {_fault(error)}", where=place) from error


def others_toml(text: str, where: str) -> dict[str, Any]:
    """Return the content of a file of another program, with floats as texts (so that a NaN equals itself).

    Raises:
        FormatError: the file is not TOML 1.0, with the line; or it has more than 100 levels.
    """
    if _DEEP_KEY.search(text):
        raise FormatError(f"expected at most {_LEVELS_MAX} levels, found a longer key", where=where)
    try:
        data = tomllib.loads(text.removeprefix("\ufeff"), parse_float=str)
    except (RecursionError, ValueError) as error:
        raise FormatError(f"expected TOML: {_fault(error)}", where=where) from error
    _check_levels(data, where)
    return data


def _fault(error: Exception) -> str:
    """Return the words for the parser's error; those of the parser itself for an error of syntax."""
    if isinstance(error, tomllib.TOMLDecodeError):
        return clean(str(error))[:200]
    if isinstance(error, UnicodeDecodeError):
        line = error.object.count(b"\n", 0, error.start) + 1
        return f"found a byte that is not UTF-8 in line {line}"
    return "found nesting too deep, or a number too long"


def spell_toml(value: object) -> str:
    """Return a text, or a list of texts, as TOML."""
    # As in JSON, but without escapes of non-ASCII, which would be surrogate pairs, and with one more escape.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _check_levels(data: dict[str, Any], where: str) -> None:
    """Refuse data that is nested so deep that a comparison would exhaust the stack."""
    level: list[Any] = [data]
    for _ in range(_LEVELS_MAX):
        inner = [value.values() if isinstance(value, dict) else value for value in level]
        level = [value for values in inner for value in values if isinstance(value, dict | list)]
        if not level:
            return
    raise FormatError(f"expected at most {_LEVELS_MAX} levels", where=where)


# One table of a TOML file is added or removed; every other byte stays.
# A new table can always come last, so the text is only extended. To remove one, tomlkit finds its lines; comments
# below it, which tomlkit counts as part of the table, stay. A file that tomlkit does not print unchanged is refused
# (0.15.2 has this defect if an array of tables is between two parts of one table). ``tomllib`` reads the text before
# and after.

# Marks that no TOML can contain, on a line: something was cut out here, and it was a table with a header.
_CUT, _TABLE = "\0", "\1\n"
_HEADER = deferred(r"^[ \t]*\[", re.MULTILINE)
_BARE = deferred(r"[A-Za-z0-9_-]+")
# tomlkit's time grows with the square of the number of dotted keys in one table: 2,000 take 8 s.
_DOTTED = deferred(r"^[^\n=#.]*\.[^\n=#]*=", re.MULTILINE)
_DOTTED_MAX = 200


def insert(text: str, path: tuple[str, ...], table: Mapping[str, object], where: str) -> str:
    """Return ``text`` with a new last table ``[path]`` of strings and lists of strings.

    If the table around it is inline (``x = {…}``), the new one is inline too.

    Raises:
        FormatError: ``text`` is malformed, has that table, or cannot be edited in place.
    """
    before = others_toml(text, where)
    lines = [f"[{'.'.join(map(_key, path))}]", *(f"{_key(key)} = {spell_toml(table[key])}" for key in table)]
    after = with_table(text, lines)
    try:
        edited = others_toml(after, where)
    except FormatError:
        after = _with_inline_table(text, path, table, where)
        edited = others_toml(after, where)
    return _checked(after, _without(before, path) == _without(edited, path) and _value(edited, path) == table, where)


def _with_inline_table(text: str, path: tuple[str, ...], table: Mapping[str, object], where: str) -> str:
    """Return ``text`` with a new table in the inline table around it; a header cannot add one there."""
    import tomlkit  # noqa: PLC0415
    from tomlkit.items import InlineTable  # noqa: PLC0415

    body = text.removeprefix(BOM)
    _check_dotted(body, where)
    document = tomlkit.parse(body)
    outer = document.get(path[0])
    if len(path) != 2 or not isinstance(outer, InlineTable) or path[1] in outer or tomlkit.dumps(document) != body:
        message = f"expected that a table {quote('.'.join(path))} can be added"
        raise FormatError(message, where=where, hint=f"write `{path[0]}` as tables with headers")
    outer[path[1]] = tomlkit.inline_table()
    outer[path[1]].update(table)
    return text[: len(text) - len(body)] + tomlkit.dumps(document)


def remove(text: str, path: tuple[str, ...], where: str) -> str:
    """Return ``text`` without the table at ``path``, its content, and the comments between its lines.

    Raises:
        FormatError: ``text`` is malformed, there is no such table, or tomlkit does not print ``text`` unchanged.
    """
    import tomlkit  # noqa: PLC0415
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    before = others_toml(text, where)
    if _value(before, path) is None:
        raise FormatError(f"expected {quote('.'.join(path))}, found none", where=where)
    body = text.removeprefix(BOM)
    _check_dotted(body, where)
    try:
        document = tomlkit.parse(body)
        is_same = tomlkit.dumps(document) == body
        _mark_removed(document.body, path)
        parts = tomlkit.dumps(document).split(_CUT)
    except (TOMLKitError, LookupError, RecursionError) as error:
        raise FormatError("expected a file that can be edited in place", where=where) from error
    _checked(text, is_same, where)  # if tomlkit prints another text, the result might not even be TOML
    after = text[: len(text) - len(body)] + parts[0]
    for part in parts[1:]:
        above = _without_line_end(after)
        if part.startswith(_TABLE) and above != after and (above in ("", BOM) or above.endswith("\n")):
            # Remove the blank line that `insert` added before the table, and the line end that it added to a file
            # without a last one.
            after = above if body.endswith("\n") or part != parts[-1] else _without_line_end(above)
        after += part.partition("\n")[2]
    edited = others_toml(after, where)
    return _checked(after, _without(before, path) == _without(edited, path) and _value(edited, path) is None, where)


def _check_dotted(text: str, where: str) -> None:
    _checked(text, len(_DOTTED.findall(text)) <= _DOTTED_MAX, where)


def with_table(text: str, lines: Iterable[str]) -> str:
    """Return ``text`` with the lines of a new last table, after a blank line; a missing last line end stays so."""
    eol = end_of_line(text)
    block = eol.join(lines)
    if text in ("", BOM):
        return text + block + eol
    return text + eol + block + eol if text.endswith("\n") else text + eol + eol + block


def without_tables(text: str, name: str, removed: Sequence[bool], where: str) -> str:
    """Return ``text`` without those tables ``[[name]]`` that ``removed`` is true for, in the order of the file.

    The caller parses the result again.

    Raises:
        FormatError: there are more or fewer tables with such a header.
    """
    dotted = r"[ \t]*\.[ \t]*".join(map(re.escape, name.split(".")))
    heads = list(re.finditer(rf"(?m)^[ \t]*\[\[[ \t]*{dotted}[ \t]*\]\][^\n]*\n?", text))
    if len(heads) != len(removed):
        raise FormatError(f"expected each skill in a [[{name}]] of its own", where=where)
    for head, is_removed in reversed(list(zip(heads, removed, strict=True))):
        if is_removed:
            following = _HEADER.search(text, head.end())
            block = text[head.end() : following.start() if following else None].splitlines(keepends=True)
            while block and block[-1].lstrip()[:1] in ("", "#"):
                block.pop()  # comments and blank lines at its end belong to the next table
            text = _without_table(text, head.start(), head.end() + sum(map(len, block)))
    return text


def _without_table(text: str, start: int, end: int) -> str:
    """Return ``text`` without the table at ``text[start:end]`` and what ``with_table`` put above it."""
    above, below = text[:start], text[end:]
    shorter = _without_line_end(above)
    is_apart = not below or below.startswith(("\n", "\r\n"))
    if is_apart and (shorter in ("", BOM) or shorter.endswith("\n")):
        above = shorter if text.endswith("\n") or below else _without_line_end(shorter)
    return above + below


def set_line(table: MutableMapping[str, Any], key: str, value: str | None) -> None:
    """Set a key of a table of tomlkit to this value in TOML; for None, remove it.

    A table with a header becomes a line. The comments below it, which tomlkit counts as part of it, stay.
    """
    import tomlkit  # noqa: PLC0415
    from tomlkit.items import Table  # noqa: PLC0415

    body = table.value.body if isinstance(table, Table) else []
    tables = [at for at, (each, item) in enumerate(body) if each and each.key == key and isinstance(item, Table)]
    below = _text_below(body[tables[0]][1]) if tables else ""
    if value is None or below:
        del table[key]
    if below:
        body[tables[0]] = (None, tomlkit.ws(below.removesuffix("\n") + "\n"))  # the file may end without a line end
    if value is not None:
        table[key] = tomlkit.value(value)


def lines_in_order(text: str, table: str, names: Collection[str], new: Mapping[str, str]) -> str | None:
    """Return ``text`` with new lines in a table in the order of their keys, so that git merges two additions.

    Args:
        text: TOML; the caller parses the result again.
        table: The name of the table.
        names: The keys that the table has.
        new: The new lines, each with its line end, by key.

    Returns:
        None if the lines of the table are in another order or form.
    """
    # The header of the table and the whole lines up to the next one.
    section = re.search(rf"(?m)^\[{table}\][^\n]*\n(?>(?:[^\[\n][^\n]*\n|\n)*)", text)
    lines = section[0].splitlines(keepends=True) if section else []
    places = {line.partition("=")[0].strip(): place for place, line in enumerate(lines, 1)}
    ordered = sorted(names)
    has_long_text = '"""' in text or "'''" in text  # in which a line may look like one of the table
    if section is None or has_long_text or [name for name in places if name in names] != ordered:
        return None
    for name in sorted(new, reverse=True):
        above = bisect(ordered, name)
        lines.insert(places[ordered[above - 1]] if above else 1, new[name])
    return text[: section.start()] + "".join(lines) + text[section.end() :]


def _mark_removed(body: list[tuple[Any, Any]], path: tuple[str, ...]) -> None:
    """Replace the value at ``path`` by a mark; blank lines and comments below it stay."""
    from tomlkit import ws  # noqa: PLC0415
    from tomlkit.items import InlineTable, Table  # noqa: PLC0415

    for index, (key, item) in enumerate(body):
        if key is None or key.key != path[0]:
            continue
        if len(path) == 1:
            is_table = isinstance(item, Table) and not key.is_dotted()
            body[index] = (None, ws(_CUT + (_TABLE if is_table else "\n") + _text_below(item)))
        elif isinstance(item, Table):
            _mark_removed(item.value.body, path[1:])
        elif isinstance(item, InlineTable) and len(path) == 2:
            item.remove(path[1])


def _text_below(item: object) -> str:
    """Return the blank lines and comments below the last statement of a table."""
    from tomlkit.items import Table  # noqa: PLC0415

    below = ""
    while isinstance(item, Table):
        inner, item = item.value.body, None
        for key, last in reversed(inner):
            if key is not None:
                item = last
                break
            below = last.as_string() + below
    return below


def _without_line_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else spell_toml(key)


def _value(data: dict[str, Any], path: tuple[str, ...]) -> object:
    value: object = data
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _without(data: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return ``data`` without the value at ``path`` and without parents that become empty."""
    others = {key: value for key, value in data.items() if key != path[0]}
    if len(path) == 1:
        return others
    parent = data.get(path[0])
    if not isinstance(parent, dict):
        return data
    inner = _without(parent, path[1:])
    return {**others, path[0]: inner} if inner else others


def _checked(text: str, sound: bool, where: str) -> str:
    if not sound:
        raise FormatError("expected a file that can be edited in place", where=where, hint="edit it by hand")
    return text
