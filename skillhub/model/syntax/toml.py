"""TOML from outside, parsed within bounds, documents of ours and files of other programs; and how it is spelled."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from skillhub.errors import FormatError
from skillhub.model.text import clean, line_of_marker

# Some 3,000 skills. The parser's time grows with the square of a dotted key's depth: 100 kB of `a.a.a…` take
# a minute, so a line may not have more dots than any honest one.
CAP = 256 * 1024
_DOTS_MAX = 100
# The same of others, who may have dots in texts; possessive, so that this takes linear time.
_DEEP_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")
_LEVELS_MAX = 100


def strict_toml(data: bytes, where: str) -> dict[str, Any]:
    """Return the document that these bytes spell.

    Raises:
        FormatError: they are too many, not UTF-8 or not TOML.
    """
    if len(data) > CAP:
        raise FormatError(f"expected at most {CAP} bytes, found {len(data)}", where=where)
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.count(b".") > _DOTS_MAX:
            message = f"expected at most {_DOTS_MAX} dots in a line"
            raise FormatError(message, where=f"{where}:{number}")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        if at := line_of_marker(data):
            hint = "keep the lines that are meant, and take out the markers"
            message = "not TOML: it holds a merge conflict"
            raise FormatError(message, where=f"{where}:{at}", hint=hint) from error
        raise FormatError(f"not TOML: {_fault(error)}", where=where) from error


def others_toml(text: str, where: str) -> dict[str, Any]:
    """Return what a file of another program holds, floats as they are spelled (so that a NaN equals itself).

    Raises:
        FormatError: it is not TOML 1.0, with the line; or has more than 100 levels.
    """
    if _DEEP_KEY.search(text):
        raise FormatError(f"expected at most {_LEVELS_MAX} levels, found a longer key", where=where)
    try:
        found = tomllib.loads(text.removeprefix("\ufeff"), parse_float=str)
    except (RecursionError, ValueError) as error:
        raise FormatError(f"expected TOML: {_fault(error)}", where=where) from error
    _check_levels(found, where)
    return found


def _fault(error: Exception) -> str:
    """Return what the parser found wrong; only of a fault in the syntax are its own words for a reader."""
    if isinstance(error, tomllib.TOMLDecodeError):
        return clean(str(error))[:200]
    if isinstance(error, UnicodeDecodeError):
        return f"found another byte than UTF-8 at {error.start}"
    return "found nesting too deep, or a number too long"


def spell_toml(value: object) -> str:
    """Return a text, or a list of texts, as TOML spells it."""
    # As JSON does, but for the surrogate pairs that escaped non-ASCII would become, and one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _check_levels(data: dict[str, Any], where: str) -> None:
    """Refuse what is nested so deep that to compare it would be more than the stack holds."""
    level: list[Any] = [data]
    for _ in range(_LEVELS_MAX):
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [value for values in inner for value in values if isinstance(value, dict | list)]
        if not level:
            return
    raise FormatError(f"expected at most {_LEVELS_MAX} levels", where=where)
