"""Syntax trees: those of tree-sitter, in time linear in the text, and the children of those of Python.

The parsers take quadratic time for some texts, such as one with many errors, or with many openings of a literal that
never ends. So a text is parsed whole only within a budget of steps and of reads, and if its pieces have few errors;
otherwise its pieces are used. All texts of a skill share an ``Effort``. No limit depends on the machine.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from sys import maxsize
from typing import Any, Final

from skillhub.formats.text import words

PIECE: Final = 3_000
# Honest programs take up to 1.8 reads of a chunk, and 16 calls of the callback for a thousand bytes.
_CHUNK: Final = 256
_READS_MAX: Final = 4
_CALLS_MAX: Final = 32
_FREE: Final = 8  # chunks, and thousands of bytes, that even the shortest text may take
# The pieces of a program in JavaScript, and of a piece that takes too long. Honest programs have up to 21 errors in a
# thousand bytes, most of them in types that the grammar does not know.
_SIZE, _SMALLEST = 1_000, 100
_ERRORS_OF_WHOLE: Final = 24
_ERRORS_OF_WHOLE_MAX: Final = 1_000
# Nodes and errors of all programs of a skill. Honest skills have up to 205,000 nodes and 1,100 errors.
_NODES_MAX: Final = 300_000
_ERRORS_MAX: Final = 20_000


@dataclass
class Effort:
    """The nodes and errors that the trees of a skill may still have; what is left unread is a finding."""

    nodes: int = _NODES_MAX
    errors: int = _ERRORS_MAX

    @property
    def is_spent(self) -> bool:
        """Whether nothing more may be parsed."""
        return self.nodes < 0 or self.errors < 0

    def parse(self, parser: Any, data: bytes) -> Any:  # noqa: ANN401 - of tree-sitter
        """Return the tree of a short text."""
        return self.spend(parser.parse(data))

    def spend(self, tree: Any) -> Any:  # noqa: ANN401 - of tree-sitter
        """Return a tree, and subtract what it has."""
        self.nodes -= tree.root_node.descendant_count
        if tree.root_node.has_error:
            self.errors -= _errors(tree)
        return tree


def _errors(tree: Any) -> int:  # noqa: ANN401 - of tree-sitter
    """Return how many nodes of a tree are errors, or were missing in the text."""
    count, stack = 0, [tree.root_node]
    while stack:
        node = stack.pop()
        count += node.is_error or node.is_missing
        stack += [child for child in node.children if child.has_error]
    return count


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


def trees(parser: Any, data: bytes, effort: Effort) -> list[tuple[Any, int]]:  # noqa: ANN401 - of tree-sitter
    """Return the tree of a text, or the trees of its pieces if it takes too long, each with the lines before it."""
    errors = effort.errors
    of_pieces = [
        (tree, line + above)
        for piece, line in pieces(data, _SIZE)
        for tree, above in _of_piece(parser, piece, effort)
    ]
    errors -= effort.errors
    is_odd = errors > min(_ERRORS_OF_WHOLE * (len(data) // 1000 + _FREE), _ERRORS_OF_WHOLE_MAX)
    tree = None if len(of_pieces) < 2 or is_odd else whole(parser, data)
    return of_pieces if tree is None else [(tree, 0)]


def _of_piece(parser: Any, piece: bytes, effort: Effort) -> Iterator[tuple[Any, int]]:  # noqa: ANN401 - of tree-sitter
    """Yield the tree of a piece; if that takes too long the trees of smaller ones, which are parsed anyway."""
    if effort.is_spent:
        return
    tree = whole(parser, piece)
    if tree is not None:
        yield effort.spend(tree), 0
        return
    for part, line in pieces(piece, _SMALLEST):
        if not effort.is_spent:
            yield effort.parse(parser, part), line


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


# The trees of Python, to which JavaScript is translated.

# The fields of nodes that hold no nodes, or only operators and leaves.
_NO_NODES: Final = frozenset(
    words("id attr arg names asname module level ctx op ops kind type_comment simple conversion is_async rest lineno")
)
# For each kind of node, the fields that can hold nodes; a name and a constant have none.
_FIELDS: Final[dict[type[ast.AST], tuple[str, ...]]] = {
    kind: tuple([name for name in kind._fields if name not in _NO_NODES])
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
_FIELDS.update(dict.fromkeys((ast.Name, ast.Constant, ast.alias), ()))


def children(node: ast.AST) -> list[ast.AST]:
    """Return the children of a node without operators and contexts, which are half of a tree."""
    found: list[ast.AST] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name, None)
        if type(value) is list:
            found += [child for child in value if isinstance(child, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found
