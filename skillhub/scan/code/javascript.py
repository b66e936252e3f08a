"""JavaScript and TypeScript, parsed by tree-sitter and translated to an equivalent syntax tree of Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

import tree_sitter
import tree_sitter_javascript

from skillhub.scan.code.trees import Effort, trees

# A node of tree-sitter, whose types are missing if the extra is not installed.
Tree = Any

# A node within so many others is read when the nodes around it have been, since each takes a few calls of Python.
_DEPTH_MAX = 150
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\}|(\r?\n)|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "v": "\v"}
_LOAD, _STORE = ast.Load(), ast.Store()
# The type of a variable in TypeScript, which the parser would take for its name.
_TYPED = re.compile(r"\b((?:const|let|var)\s{1,4}[\w$]{1,80})!?\s{0,4}:\s{0,4}[^=;\n()]{1,200}?(?=\s{0,4}=[^=>])")
_OPERATORS = {"+": ast.Add, "^": ast.BitXor, "-": ast.Sub}  # any other is a multiplication
_COMPARED = frozenset(["==", "===", "!=", "!==", "<", ">", "<=", ">=", "in", "instanceof"])


@dataclass(eq=False)
class _Depth:
    """How many nodes are around a node, and what of its program is still to be read.

    Attributes:
        deferred: The nodes that are too deep, each with its reader, and the list into which the result goes.
    """

    around: int
    deferred: list[tuple[Callable[[Tree, _Depth], Any], Tree, list[Any]]]

    @cached_property
    def within(self) -> _Depth:
        """The depth of the nodes in this one."""
        return _Depth(self.around + 1, self.deferred)

    def defer(self, reader: Callable[[Tree, _Depth], Any], node: Tree, context: ast.expr_context) -> ast.AST:
        """Return what stands for a node until it is read: a tuple of it alone."""
        parts: list[Any] = []
        self.deferred.append((reader, node, parts))
        return ast.Tuple(parts, context, **_line(node))


def javascript(text: str, effort: Effort) -> ast.AST:
    """Return the program; the functions of one on which the parser takes too long may be cut."""
    text = _TYPED.sub(r"\1", text)
    blocks: list[Any] = [
        ast.increment_lineno(_program(tree.root_node), line)
        for tree, line in trees(_parser(), text.encode("utf-8", "replace"), effort)
    ]
    return _together(blocks, {"lineno": 1})


def _program(root: Tree) -> ast.AST:
    top = _Depth(0, [])
    program = _block(root, top)
    for reader, node, parts in top.deferred:  # which may defer more
        parts.append(reader(node, top))
    return program


@cache
def _parser() -> Any:  # noqa: ANN401 - tree-sitter's, as all nodes here
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_javascript.language()))


def _line(node: Tree) -> dict[str, Any]:
    return {"lineno": node.start_point[0] + 1}


def _text(node: Tree | None) -> str:
    return node.text.decode("utf-8", "replace") if node is not None else ""


def _read(node: Tree | None, depth: _Depth) -> Any:  # noqa: ANN401 - of any class that the place allows
    if node is None:
        return ast.Constant(None, lineno=1)
    if depth.around > _DEPTH_MAX:
        return depth.defer(_read, node, _LOAD)
    return _READERS.get(node.type, _block)(node, depth.within)


def _read_all(nodes: list[Tree], depth: _Depth) -> list[Any]:
    return [_read(child, depth) for child in nodes if child.type != "comment"]


def _together(parts: list[Any], line: dict[str, Any]) -> ast.AST:
    """Return statements or expressions in order, for a place that takes one.

    Python has no block by itself. A ``try`` without handlers is the statement whose body runs once, unconditionally,
    and in the scope around it, so that it says of the parts only that they are here.
    """
    return ast.Try(body=parts, handlers=[], orelse=[], finalbody=[], **line)


def _block(node: Tree, depth: _Depth) -> ast.AST:
    return _together(_read_all(node.named_children, depth), _line(node))


def _name(node: Tree, _depth: object = None) -> ast.AST:
    return ast.Name(_text(node), _LOAD, **_line(node))


def _string(node: Tree, _depth: object = None) -> ast.AST:
    raw = _text(node)[1:-1]
    constant = ast.Constant(_ESCAPE.sub(_unescaped, raw), **_line(node))
    if "\\x" in raw or "\\u00" in raw:  # counts as composed, since no character needs such an escape
        return ast.JoinedStr([constant, ast.Constant("", **_line(node))], **_line(node))
    return constant


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code:
        return chr(int(code, 16)) if int(code, 16) < 0x110000 else "?"
    return "" if match[4] else _CONTROLS.get(match[5], match[5])


def _template(node: Tree, depth: _Depth) -> ast.AST:
    parts: list[ast.expr] = [
        ast.FormattedValue(_read(child.named_children[0], depth), -1, **_line(child))
        if child.type == "template_substitution" and child.named_children
        else ast.Constant(_ESCAPE.sub(_unescaped, _text(child)), **_line(child))
        for child in node.named_children
    ]
    return parts[0] if len(parts) == 1 and isinstance(parts[0], ast.Constant) else ast.JoinedStr(parts, **_line(node))


def _number(node: Tree, _depth: object = None) -> ast.AST:
    written = _text(node).replace("_", "").lower()
    is_whole = re.fullmatch(r"0x[0-9a-f]{1,6}|\d{1,7}", written) and not re.match(r"0\d", written)
    return ast.Constant(int(written, 0) if is_whole else None, **_line(node))


def _binary(node: Tree, depth: _Depth) -> Any:  # noqa: ANN401 - of the class of its leftmost
    spine = []  # a loop, since a long sum is a deep tree on its left
    while node.type == "binary_expression":
        spine.append(node)
        node = node.child_by_field_name("left")
    result = _read(node, depth)
    for operation in reversed(spine):
        sign = _text(operation.child_by_field_name("operator"))
        right = _read(operation.child_by_field_name("right"), depth)
        if sign in _COMPARED:
            result = ast.Compare(result, [ast.Eq()], [right], **_line(operation))
        elif sign in ("||", "&&", "??"):
            result = ast.BoolOp(ast.Or(), [result, right], **_line(operation))
        else:
            result = ast.BinOp(result, _OPERATORS.get(sign, ast.Mult)(), right, **_line(operation))
    return result


def _member(node: Tree, depth: _Depth) -> Any:  # noqa: ANN401 - of the class of its owner
    spine = []  # a loop, since a long chain of calls is a deep tree, too
    while node is not None and node.type in ("member_expression", "subscript_expression", "call_expression"):
        spine.append(node)
        node = node.child_by_field_name("function" if node.type == "call_expression" else "object")
    result = _read(node, depth)
    for link in reversed(spine):
        if link.type == "call_expression":
            result = _call(result, link, depth)
        elif link.type == "member_expression":
            result = ast.Attribute(result, _text(link.child_by_field_name("property")), _LOAD, **_line(link))
        else:
            result = ast.Subscript(result, _read(link.child_by_field_name("index"), depth), _LOAD, **_line(link))
    return result


def _call(function: ast.expr, node: Tree, depth: _Depth) -> ast.AST:
    child = node.child_by_field_name("arguments")
    nodes = [] if child is None else [child] if child.type == "template_string" else child.named_children
    arguments = _read_all(nodes, depth)
    while isinstance(function, ast.List) and function.elts:  # `(0, eval)(a)` calls the last one
        function = function.elts[-1]
    name = function.id if isinstance(function, ast.Name) else ""
    if name == "$" and nodes and nodes[0] is child:  # a command of bun, zx or execa
        function = ast.Attribute(ast.Name("child_process", _LOAD), "exec", _LOAD, **_line(node))
    if name in ("require", "import") and arguments and isinstance(arguments[0], ast.Constant):
        arguments[0] = ast.Constant(_module(str(arguments[0].value)), **_line(node))
    return ast.Call(function, arguments, [], **_line(node))


def _new(node: Tree, depth: _Depth) -> ast.AST:
    return _call(_read(node.child_by_field_name("constructor"), depth), node, depth)


def _module(name: str) -> str:
    return name.rpartition("/")[2].partition(".")[0] if name.startswith(".") else name.removeprefix("node:")


def _function(node: Tree, depth: _Depth, name: str = "") -> ast.AST:
    child = node.child_by_field_name("parameters") or node.child_by_field_name("parameter")
    nodes = [] if child is None else [child] if child.type == "identifier" else child.named_children
    names, unpacking = [], []
    for number, parameter in enumerate(nodes):
        target = _target(parameter, depth)
        plain = target.id if isinstance(target, ast.Name) else f"#{number}"
        names.append(ast.arg(plain))
        if not isinstance(target, ast.Name):
            unpacking.append(ast.Assign([target], ast.Name(plain, _LOAD, **_line(parameter)), **_line(parameter)))
    arguments = ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[])
    body = _read(node.child_by_field_name("body"), depth)
    name = name or _text(node.child_by_field_name("name"))
    if name:
        statements = [body] if isinstance(body, ast.stmt) else [ast.Return(body, **_line(node))]
        return ast.FunctionDef(name, arguments, [*unpacking, *statements], [], **_line(node))
    if unpacking:
        statements = [*unpacking, body if isinstance(body, ast.stmt) else ast.Return(body, **_line(node))]
        body = _together(statements, _line(node))
    return ast.Lambda(arguments, body, **_line(node))


def _target(node: Tree | None, depth: _Depth) -> Any:  # noqa: ANN401 - a name, or names
    if node is None:
        return ast.Name("_", _STORE, lineno=1)
    if depth.around > _DEPTH_MAX:
        return depth.defer(_target, node, _STORE)
    kind = node.type
    if kind in ("assignment_pattern", "object_assignment_pattern"):
        return _target(node.child_by_field_name("left"), depth.within)
    if kind == "rest_pattern":
        return _target(node.named_children[0] if node.named_children else None, depth.within)
    if kind == "pair_pattern":
        key = ast.Constant(_text(node.child_by_field_name("key")).strip("'\""), **_line(node))
        value = _target(node.child_by_field_name("value"), depth.within)
        return ast.Starred(ast.Subscript(value, key, _STORE, **_line(node)), _STORE, **_line(node))
    if kind in ("object_pattern", "array_pattern"):
        names = [_target(child, depth.within) for child in node.named_children if child.type != "comment"]
        return (ast.List if kind == "object_pattern" else ast.Tuple)(names, _STORE, **_line(node))
    if kind in ("member_expression", "subscript_expression"):
        return _member(node, depth)
    name = node.child_by_field_name("pattern") if kind.endswith("_parameter") else node
    return ast.Name(_text(name), _STORE, **_line(node))


def _assignment(node: Tree, depth: _Depth) -> ast.AST:
    left, right = (
        node.child_by_field_name("name") or node.child_by_field_name("left") or node.child_by_field_name("property"),
        node.child_by_field_name("value") or node.child_by_field_name("right"),
    )
    if right is None:
        return ast.Constant(None, **_line(node))
    if right.type in ("arrow_function", "function_expression") and left is not None and left.type == "identifier":
        return _function(right, depth, _text(left))
    target = _target(left, depth)
    if node.type != "variable_declarator" and isinstance(target, ast.Name):
        target.ctx = _LOAD  # it is bound elsewhere
    if node.type == "augmented_assignment_expression":
        return ast.AugAssign(target, ast.Add(), _read(right, depth), **_line(node))
    if node.type == "field_definition":
        target = ast.Attribute(ast.Name("this", _LOAD, **_line(node)), _text(left), _STORE, **_line(node))
    return ast.Assign([target], _read(right, depth), **_line(node))


def _object(node: Tree, depth: _Depth) -> ast.AST:
    values = [child.child_by_field_name("value") if child.type == "pair" else child for child in node.named_children]
    return ast.Tuple(_read_all([value for value in values if value is not None], depth), _LOAD, **_line(node))


def _import(node: Tree, depth: _Depth) -> ast.AST:
    source = node.child_by_field_name("source")
    if source is None:
        return _block(node, depth)
    module, names = _module(_text(source)[1:-1]), list[ast.stmt]()
    for specifier in _import_names(node):
        if specifier.type == "import_specifier":
            name, alias = _text(specifier.child_by_field_name("name")), _text(specifier.child_by_field_name("alias"))
            names.append(ast.ImportFrom(module, [ast.alias(name, alias or None)], 0, **_line(specifier)))
        elif specifier.type == "identifier":
            names.append(ast.Import([ast.alias(module, _text(specifier))], **_line(specifier)))
    return _together(names, _line(node))


def _import_names(node: Tree) -> Iterator[Tree]:
    queue = [child for child in node.named_children if child.type == "import_clause"]
    while queue:
        child = queue.pop()
        if child.type in ("import_clause", "namespace_import", "named_imports"):
            queue += child.named_children
        else:
            yield child


def _loop(node: Tree, depth: _Depth) -> ast.AST:
    target, source = _target(node.child_by_field_name("left"), depth), _read(node.child_by_field_name("right"), depth)
    return ast.For(target, source, [_read(node.child_by_field_name("body"), depth)], [], **_line(node))


def _conditional(node: Tree, depth: _Depth) -> ast.AST:
    parts = [_read(node.child_by_field_name(field), depth) for field in ("condition", "consequence", "alternative")]
    return ast.IfExp(*parts, **_line(node))


def _first_child(node: Tree, depth: _Depth) -> Any:  # noqa: ANN401 - of the class of what is within
    return _read(node.named_children[0], depth) if node.named_children else ast.Constant(None, **_line(node))


def _of_one(kind: Callable[..., ast.AST]) -> Callable[[Tree, _Depth], ast.AST]:
    """Return a reader of nodes that become a node of this class around one other node."""
    return lambda node, depth: kind(_first_child(node, depth), **_line(node))


def _list(node: Tree, depth: _Depth) -> ast.AST:
    return ast.List(_read_all(node.named_children, depth), _LOAD, **_line(node))


_READERS: Final[dict[str, Callable[[Tree, _Depth], ast.AST]]] = {
    **dict.fromkeys(("identifier", "this", "import", "shorthand_property_identifier", "undefined"), _name),
    "string": _string,
    "template_string": _template,
    "number": _number,
    "binary_expression": _binary,
    **dict.fromkeys(("member_expression", "subscript_expression", "call_expression"), _member),
    "new_expression": _new,
    **dict.fromkeys(
        ("arrow_function", "function_expression", "function_declaration", "method_definition"), _function
    ),
    **dict.fromkeys(("generator_function", "generator_function_declaration"), _function),
    **dict.fromkeys(("variable_declarator", "assignment_expression", "field_definition"), _assignment),
    "augmented_assignment_expression": _assignment,
    "object": _object,
    **dict.fromkeys(("array", "sequence_expression"), _list),
    "import_statement": _import,
    "for_in_statement": _loop,
    "ternary_expression": _conditional,
    **dict.fromkeys(("parenthesized_expression", "spread_element", "unary_expression"), _first_child),
    "return_statement": _of_one(ast.Return),
    "await_expression": _of_one(ast.Await),
    "yield_expression": _of_one(ast.Yield),
    "expression_statement": _of_one(ast.Expr),
}
