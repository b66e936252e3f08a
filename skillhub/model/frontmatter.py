"""``SKILL.md`` in two: the YAML between two lines of ``---``, and the Markdown below."""

from __future__ import annotations

import re
from typing import NamedTuple

from skillhub.errors import FormatError
from skillhub.model.text import quote

# Whole lines in column 0: a `---` inside a value, or indented in a block of text, is no end. Each pattern
# is tried once per line and never looks back, so that any input takes linear time.
_OPEN = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSE = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)


class Parts(NamedTuple):
    """The two halves of the file, and the line (from 1) at which the lower half begins."""

    yaml: str
    body: str
    body_line: int


def split(data: bytes, where: str) -> Parts:
    """Cut ``data`` at its frontmatter; the YAML always begins at line 2 of the file.

    A byte order mark and CRLF line ends are tolerated; the text of both halves is left as it is.

    Raises:
        FormatError: it is not UTF-8 text, or a delimiter is missing.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"expected UTF-8 text, found byte {error.start} to be none", where=where) from error
    if "\0" in text:
        raise FormatError("expected text, found a NUL byte", where=where)
    opening = _OPEN.match(text)
    if opening is None:
        found = quote(text.split("\n", 1)[0][:60])
        raise FormatError(f"expected '---' as the first line, found {found}", where=f"{where}:1")
    closing = _CLOSE.search(text, opening.end())
    if closing is None:
        raise FormatError("expected a line '---' that ends the frontmatter, found none", where=where)
    body = text[closing.end() :].removeprefix("\n")
    return Parts(text[opening.end() : closing.start()], body, text.count("\n", 0, closing.end()) + 2)
