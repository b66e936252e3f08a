"""TOML from outside, parsed within bounds."""

from __future__ import annotations

import tomllib
from typing import Any

from skillhub.errors import FormatError
from skillhub.model.text import clean

# Some 3,000 skills. The parser's time grows with the square of a dotted key's depth: 100 kB of `a.a.a…` take
# a minute, so a line may not have more dots than any honest one.
CAP = 256 * 1024
_DOTS_MAX = 100


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
        # Not UTF-8, not TOML, an integer longer than Python converts, or lists too deep.
        raise FormatError(f"not TOML: {clean(str(error))[:200]}", where=where) from error
