"""Syntax trees of tree-sitter, whose parsers take quadratic time for some texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

PIECE: Final = 3_000


def whole(parser: Any, data: bytes, errors_max: int) -> Any:  # noqa: ANN401 - of tree-sitter
    """Return the tree of a text; None if it has more errors than ``errors_max``."""
    errors = 0

    def is_enough(_offset: int, has_error: bool) -> bool:
        nonlocal errors
        errors += has_error
        return errors > errors_max

    try:
        return parser.parse(lambda offset, _point: data[offset : offset + 256], progress_callback=is_enough)
    except ValueError:  # without a reset the parser would continue where it stopped
        parser.reset()
        return None


def pieces(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the pieces of a program, each with the number of lines before it.

    A piece ends at the end of a function, a paragraph or a line, if there is one in its last two thirds.
    """
    line = start = 0
    while start < len(data):
        end = min(start + PIECE, len(data))
        if end < len(data):
            ends = (data.rfind(mark, start, end) + len(mark) for mark in (b"\n}\n", b"\n\n", b"\n"))
            end = next((position for position in ends if position > start + PIECE // 3), end)
        yield data[start:end], line
        line += data.count(b"\n", start, end)
        start = end
