"""Syntax trees of tree-sitter, in time linear in the text.

The parsers take quadratic time for some texts, such as one with many errors, or with many openings of a literal that
never ends. So a text is parsed whole only within a budget of steps and of reads, and otherwise in pieces. The budget
does not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from sys import maxsize
from typing import Any, Final

PIECE: Final = 3_000
# Honest programs take up to 1.8 reads of a chunk, and 16 calls of the callback for a thousand bytes.
_CHUNK: Final = 256
_READS_MAX: Final = 4
_CALLS_MAX: Final = 32
_SIZES: Final = (1_000, 100)  # of the pieces of a text that takes too long
_FREE: Final = 8  # chunks, and thousands of bytes, that even the shortest text may take


def whole(parser: Any, data: bytes, errors_max: int = maxsize) -> Any:  # noqa: ANN401 - of tree-sitter
    """Return the tree of a text; None if it takes too long, or has more errors than ``errors_max``."""
    reads = _READS_MAX * (len(data) // _CHUNK + _FREE)
    calls = _CALLS_MAX * (len(data) // 1000 + _FREE)
    errors = 0

    def read(offset: int, _point: object) -> bytes:
        nonlocal reads
        reads -= 1
        return data[offset : offset + _CHUNK] if reads >= 0 else b""

    def is_enough(_offset: int, has_error: bool) -> bool:
        nonlocal calls, errors
        calls -= 1
        errors += has_error
        return errors > errors_max or calls < 0 or reads < 0

    try:
        tree = parser.parse(read, progress_callback=is_enough)
    except ValueError:  # without a reset the parser would continue where it stopped
        parser.reset()
        return None
    is_read = reads >= 0
    reads = maxsize  # the texts of nodes are read from now on
    return tree if is_read else None


def trees(
    parser: Any,  # noqa: ANN401 - of tree-sitter
    data: bytes,
    line: int = 0,
    sizes: Sequence[int] = _SIZES,
) -> Iterator[tuple[Any, int]]:
    """Yield the tree of a text, or the trees of its pieces if it takes too long, each with the lines before it.

    A piece that takes too long is cut into smaller ones, of the next of the sizes; the smallest are parsed anyway.
    """
    tree = whole(parser, data) if sizes else parser.parse(data)
    if tree is not None:
        yield tree, line
        return
    for piece, above in pieces(data, sizes[0]):
        yield from trees(parser, piece, line + above, sizes[1:])


def pieces(data: bytes, size: int = PIECE) -> Iterator[tuple[bytes, int]]:
    """Yield the pieces of a program, of ``size`` bytes or less, each with the number of lines before it.

    A piece ends at the end of a function, a paragraph or a line, if there is one in its last two thirds.
    """
    line = start = 0
    while start < len(data):
        end = min(start + size, len(data))
        if end < len(data):
            ends = (data.rfind(mark, start, end) + len(mark) for mark in (b"\n}\n", b"\n\n", b"\n"))
            end = next((position for position in ends if position > start + size // 3), end)
        yield data[start:end], line
        line += data.count(b"\n", start, end)
        start = end
