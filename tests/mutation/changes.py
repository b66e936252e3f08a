"""Every change of the text of a module that mutation testing tries, at one place each."""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import NamedTuple

_SWAPS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Lt: ("<=", ">"), ast.LtE: ("<", ">"), ast.Gt: (">=", "<"), ast.GtE: (">", "<"),
    ast.Eq: ("!=",), ast.NotEq: ("==",), ast.In: ("not in",), ast.NotIn: ("in",),
    ast.Is: ("is not",), ast.IsNot: ("is",),
    ast.Add: ("-",), ast.Sub: ("+",), ast.Mult: ("//",), ast.FloorDiv: ("*",), ast.Mod: ("*",),
    ast.LShift: (">>",), ast.RShift: ("<<",), ast.BitAnd: ("|",), ast.BitOr: ("&",), ast.BitXor: ("|",),
}  # fmt: skip


class Change(NamedTuple):
    """The replacement of the text from ``start`` to ``stop`` by ``text``."""

    start: int
    stop: int
    text: str

    def made(self, source: str) -> str:
        """Return the source with this change."""
        return source[: self.start] + self.text + source[self.stop :]

    def shown(self, source: str) -> str:
        """Return the number of its line, and the line before and after."""
        first = source.rfind("\n", 0, self.start) + 1
        last = len(source) if (end := source.find("\n", self.stop)) < 0 else end
        after = source[first : self.start] + self.text + source[self.stop : last]
        before, after = (" ".join(text.split()) for text in (source[first:last], after))
        return f"{source.count(chr(10), 0, first) + 1}: {before}  ==>  {after}"


def changes(source: str) -> list[Change]:
    """Return every change of this source; messages, annotations and decorators stay."""
    found = _Changes(source)
    found.visit(ast.parse(source))
    return found.found


class _Changes(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        self.found: list[Change] = []
        self._source = source
        self._bytes = source.encode()
        self._lines = [0]
        for line in self._bytes.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def _offset(self, line: int, column: int) -> int:
        return len(self._bytes[: self._lines[line - 1] + column].decode())

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._offset(node.lineno, node.col_offset)
        return start, self._offset(node.end_lineno, node.end_col_offset)

    def _text(self, node: ast.expr) -> str:
        start, stop = self._span(node)
        return f"({self._source[start:stop]})"

    def _replace(self, node: ast.expr | ast.stmt, *texts: str) -> None:
        self.found += [Change(*self._span(node), text) for text in texts]

    def generic_visit(self, node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list"):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        self.visit(child)

    def _condition(self, test: ast.expr) -> None:
        self._replace(test, f"not {self._text(test)}", "True", "False")

    def visit_If(self, node: ast.If | ast.While | ast.IfExp) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    visit_While = visit_IfExp = visit_If  # noqa: N815

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._condition(test)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word = " and " if isinstance(node.op, ast.And) else " or "
        for gone in node.values:
            self._replace(node, f"({word.join(self._text(one) for one in node.values if one is not gone)})")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for (left, right), op in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
            start, stop = self._span(left)[1], self._span(right)[0]
            old = self._source[start:stop]
            opens, closes = ")" * old.count(")"), "(" * old.count("(")
            self.found += [Change(start, stop, f"{opens} {swap} {closes}") for swap in _SWAPS[type(op)]]
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        for swap in _SWAPS.get(type(node.op), ()):
            self._replace(node, f"({self._text(node.left)} {swap} {self._text(node.right)})")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        for swap in _SWAPS.get(type(node.op), ()):
            target, value = self._text(node.target)[1:-1], self._text(node.value)
            self._replace(node, f"{target} {swap}= {value}", f"{target} = {value}")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self._replace(node, self._text(node.operand))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        match node.value:
            case bool(value):
                self._replace(node, str(not value))
            case int(value):
                self._replace(node, str(value + 1), f"({value - 1})")
            case str(value) if " " not in value:
                self._replace(node, repr(value + "~"))
            case bytes(value):
                self._replace(node, repr(value + b"~"))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave it alone: it is a message."""

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not (isinstance(node.value, ast.Name) and node.value.id == "Literal"):
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self._replace(node, "yield" if isinstance(node.value, ast.Yield) else "pass")
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._replace(node, "pass")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._replace(node, "pass")
        elif not isinstance(node.value, ast.Constant) or node.value.value is not None:
            self._replace(node.value, "None")
            if isinstance(node.value, ast.Compare | ast.BoolOp | ast.UnaryOp):
                self._replace(node.value, "True", "False")
            self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._replace(node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace(node, "break")
