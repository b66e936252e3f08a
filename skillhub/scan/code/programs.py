"""Python, and what JavaScript is as Python: values, names, calls of one program, added to the flow of the skill.

The reader is a loop over a stack; only for fixed texts and dotted names does it call itself, to a small depth. Each
node is looked at a bounded number of times.
"""

from __future__ import annotations

import ast
import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from skillhub.formats.text import words
from skillhub.scan.code.decoded import unpacked
from skillhub.scan.code.flow import Flow, Node, Place

_DEPTH_MAX = 60
_TEXT_MAX = 1 << 16
_NAME_MAX = 200
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# What of a value is the value itself, and no part of it.
_WHOLE = frozenset(
    words(
        "text content body data stdout read buffer value values items entries copy keys encode decode "
        "strip join format stringify tostring dumps dump b64encode urlsafe_b64encode recv fileno makefile "
        "pipe stdin map filter foreach then json append push concat update write extend"
    )
)
_GIVES = frozenset(
    words("write append add update extend push set put insert writestr send end writelines assign setdefault read")
)
_COPIES = frozenset(words("copy copy2 copyfile copytree make_archive move copyfilesync cpsync rename renamesync"))
_DANGEROUS: Final = re.compile(
    r"(?:.*\.)?(?:eval|exec|execsync|spawn|spawnsync|system|popen|function|child_process|subprocess|fetch|socket"
    r"|marshal|pickle|ctypes|urlopen|__import__|readfilesync|check_output|base64|b64decode|os|requests|constructor|https?|net|fs|require|compile)"
)
_MODULES = ("__import__", "require", "import", "importlib.import_module", "import_module")


@dataclass(eq=False, slots=True)
class _Scope:
    name: str
    outer: _Scope | None = None
    bound: set[str] = field(default_factory=set)


class Program:
    """One program: where its names lead, and what is fixed in it.

    Args:
        flow: Where its values are added.
        path: Its file.
        line: The line of the file that it begins before.
        programs: By what it may be imported as, the files of the skill.
    """

    def __init__(self, flow: Flow, path: str, line: int, programs: dict[str, str]) -> None:
        self.embedded: list[tuple[str, int]] = []
        self._flow, self._path, self._line, self._programs = flow, path, line, programs
        self._scopes: dict[int, _Scope] = {}
        self._functions: set[str] = set()
        self._alias: dict[str, str] = {}
        self._fixed: dict[str, tuple[str, bool] | None] = {}
        self._folded: dict[int, tuple[str, bool] | None] = {}
        self._stack: list[tuple[ast.AST, Node, _Scope]] = []

    def read(self, tree: ast.AST) -> None:
        """Add what the program does."""
        top = _Scope("")
        self._bind(tree, top)
        self._stack = [(tree, 0, top)]
        while self._stack:
            node, into, scope = self._stack.pop()
            handler = _HANDLERS.get(type(node), Program._inner)
            handler(self, node, into, scope)

    # What is bound where.

    def _bind(self, tree: ast.AST, top: _Scope) -> None:
        left = [(tree, top)]
        while left:
            node, scope = left.pop()
            inner = scope
            if isinstance(node, _FUNCTIONS):
                name = "" if isinstance(node, ast.Lambda) else node.name
                inner = self._scopes[id(node)] = _Scope(f"{scope.name}/{name}{len(self._scopes)}", scope)
                inner.bound.update(each.arg for each in _arguments(node))
                if name:
                    self._functions.add(name)
                    scope.bound.add(name)
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                scope.bound.add(node.id)
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    self._name(target, node.value)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
            left.extend((each, inner) for each in reversed([*ast.iter_child_nodes(node)]))

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        home = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
        for each in node.names:
            name = each.asname or (each.name if home else each.name.partition(".")[0])
            self._alias[name] = home + (each.name if home or each.asname else name)

    def _name(self, target: ast.AST, value: ast.AST) -> None:
        if isinstance(target, ast.Name):
            fixed = self._fold(value)
            self._fixed[target.id] = None if target.id in self._fixed else fixed
            named = self._dotted(value)
            if named and named != target.id and fixed is None:
                self._alias.setdefault(target.id, named)
        elif isinstance(target, ast.Tuple | ast.List):  # `const { exec } = require('child_process')`
            named = self._dotted(value)
            for each in target.elts if named else ():
                name, member = each, each
                if isinstance(each, ast.Starred) and isinstance(each.value, ast.Subscript):
                    name, member = each.value.value, each.value.slice
                if isinstance(name, ast.Name):
                    key = str(member.value) if isinstance(member, ast.Constant) else name.id
                    self._alias.setdefault(name.id, f"{named}.{key}")

    def _dotted(self, node: ast.AST | None, depth: int = 0) -> str:
        """Return the dotted name that an expression is, or nothing."""
        found = ""
        if node is None or depth > _DEPTH_MAX:
            return ""
        if isinstance(node, ast.Name):
            found = self._alias.get(node.id, node.id)
        elif isinstance(node, ast.Await):
            found = self._dotted(node.value, depth + 1)
        elif isinstance(node, ast.Attribute):
            owner = self._dotted(node.value, depth + 1)
            found = f"{owner}.{node.attr}" if owner else ""
        elif isinstance(node, ast.Subscript):
            key, owner = self._fold(node.slice), self._dotted(node.value, depth + 1)
            found = f"{owner}.{key[0]}" if owner and key else ""
        elif isinstance(node, ast.Call):
            found = self._dotted_call(node, depth + 1)
        for prefix in ("globalThis.", "global.", "window.", "self.", "builtins.", "__builtins__.", "node:"):
            found = found.removeprefix(prefix)
        return found if len(found) <= _NAME_MAX else ""

    def _dotted_call(self, node: ast.Call, depth: int) -> str:
        name = self._dotted(node.func, depth)
        first = self._fold(node.args[0]) if node.args else None
        if name in _MODULES and first:
            return first[0].removeprefix("node:")
        if name == "getattr" and len(node.args) > 1 and (key := self._fold(node.args[1])):
            owner = self._dotted(node.args[0], depth)
            return key[0] if owner in ("__builtins__", "builtins") else f"{owner}.{key[0]}"
        if name.rpartition(".")[2] in ("promisify", "bind", "partial") and node.args:
            return self._dotted(node.args[0], depth)
        return f"{name}()" if name else ""

    # Fixed texts.

    def _fold(self, node: ast.AST, depth: int = 0) -> tuple[str, bool] | None:
        """Return the text that an expression is whatever happens, and whether it is put together; else None."""
        if isinstance(node, ast.Constant):
            return (_text(node.value), False) if isinstance(node.value, str | bytes) else None
        if isinstance(node, ast.Name):
            return self._fixed.get(node.id)
        if depth > _DEPTH_MAX or not isinstance(node, ast.BinOp | ast.Call | ast.JoinedStr | ast.Subscript):
            return None
        if id(node) not in self._folded:
            self._folded[id(node)] = None
            text = self._folded_once(node, depth + 1)
            self._folded[id(node)] = None if text is None or len(text) > _TEXT_MAX else (text, True)
        return self._folded[id(node)]

    def _folded_once(self, node: ast.AST, depth: int) -> str | None:
        if isinstance(node, ast.BinOp):
            return self._joined(_chain(node), depth) if isinstance(node.op, ast.Add) else None
        if isinstance(node, ast.JoinedStr):
            parts = [each.value if isinstance(each, ast.FormattedValue) else each for each in node.values]
            return self._joined(parts, depth)
        if isinstance(node, ast.Subscript):
            step = node.slice.step if isinstance(node.slice, ast.Slice) else None
            text = self._fold(node.value, depth) if step is not None and ast.unparse(step) == "-1" else None
            return text[0][::-1] if text else None
        return self._folded_call(node, depth) if isinstance(node, ast.Call) else None

    def _folded_call(self, node: ast.Call, depth: int) -> str | None:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        name = (node.func.attr if isinstance(node.func, ast.Attribute) else self._dotted(node.func)).rpartition(".")[
            2
        ]
        folded = name.lower()
        first = node.args[0] if node.args else None
        if folded == "join":
            parts = owner if isinstance(owner, ast.List | ast.Tuple) else first
            between = first if parts is owner and first else owner
            glue = self._fold(between, depth) if between else None
            if isinstance(parts, ast.List | ast.Tuple):
                return self._joined(parts.elts, depth, glue[0] if glue else "")
            return self._codes(first, depth) or self._reversed(owner, depth)
        if folded in ("chr", "fromcharcode", "fromcodepoint"):
            return _characters(node.args)
        if folded in ("bytes", "bytearray", "from") and isinstance(first, ast.List | ast.Tuple):
            return _characters(first.elts)
        if folded in (
            "b64decode",
            "atob",
            "unhexlify",
            "fromhex",
            "urlsafe_b64decode",
            "b32decode",
            "from",
            "decompress",
        ):
            text = self._fold(first, depth) if first else None
            found = unpacked(text[0].encode("utf-8", "replace")).decode("latin-1") if text else ""
            return found or (text[0] if text and folded == "decompress" else None)
        if folded == "decode" and len(node.args) > 1 and (text := self._fold(node.args[0], depth)):
            return codecs.decode(text[0], "rot13") if ast.unparse(node.args[1])[1:4] == "rot" else None
        if folded in ("decode", "tostring", "str", "strip", "trim") and (inner := owner or first):
            text = self._fold(inner, depth)
            return text[0] if text else None
        return None

    def _joined(self, parts: Sequence[ast.AST], depth: int, glue: str = "") -> str | None:
        texts = [self._fold(each, depth) for each in parts]
        return glue.join(text[0] for text in texts if text) if texts and all(texts) else None

    def _codes(self, node: ast.AST | None, depth: int) -> str | None:
        """Return what a comprehension makes of fixed numbers: characters, each with one number XORed in or not."""
        if not isinstance(node, ast.GeneratorExp | ast.ListComp):
            return None
        source = node.generators[0].iter
        text = None if isinstance(source, ast.List | ast.Tuple) else self._fold(source, depth)
        given = _characters(source.elts) if isinstance(source, ast.List | ast.Tuple) else text[0] if text else None
        written = ast.unparse(node.elt)[:99]
        key = re.search(r"\^ ?(\d{1,3})|(\d{1,3}) ?\^", written)
        if given is None or "chr" not in written.lower():
            return None
        return "".join(chr(ord(each) ^ int(key[1] or key[2])) for each in given) if key else given

    def _reversed(self, owner: ast.AST | None, depth: int) -> str | None:
        """Return what JavaScript makes of ``'..'.split('').reverse().join('')`` and of ``[..].map(..).join('')``."""
        if not (isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute)):
            return None
        within = owner.func.value
        if owner.func.attr == "map" and isinstance(within, ast.List):
            return _characters(within.elts) if "fromC" in ast.unparse(owner.args[0])[:300] else None
        if owner.func.attr == "reverse" and isinstance(within, ast.Call) and isinstance(within.func, ast.Attribute):
            text = self._fold(within.func.value, depth)
            return text[0][::-1] if text else None
        return None

    # What goes where.

    def _place(self, node: ast.AST) -> Place:
        return self._path, self._line + getattr(node, "lineno", 1)

    def _node(self, name: str, scope: _Scope) -> Node:
        at: _Scope | None = scope
        while at is not None and name not in at.bound:
            at = at.outer
        return self._path, at.name if at else "", name

    def _push(self, node: ast.AST | None, into: Node, scope: _Scope) -> None:
        if node is not None:
            self._stack.append((node, into, scope))

    def _inner(self, node: ast.AST, into: Node, scope: _Scope) -> None:
        into = 0 if isinstance(node, ast.Compare | ast.Assert | ast.stmt) else into
        for each in ast.iter_child_nodes(node):
            self._push(each, into, scope)

    def _conditional(self, node: ast.IfExp, into: Node, scope: _Scope) -> None:
        self._push(node.test, 0, scope)
        self._push(node.body, into, scope)
        self._push(node.orelse, into, scope)

    def _constant(self, node: ast.Constant, into: Node, _scope: _Scope) -> None:
        if isinstance(node.value, str | bytes):
            self._flow.text(_text(node.value), into, self._place(node))

    def _sum(self, node: ast.BinOp | ast.JoinedStr, into: Node, scope: _Scope) -> None:
        if fixed := self._fold(node):
            self._flow.text(fixed[0], into, self._place(node), is_hidden=True)
        parts = (
            _chain(node)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
            else ast.iter_child_nodes(node)
        )
        for each in parts:
            self._push(each, into, scope)

    def _loaded(self, node: ast.Name, into: Node, scope: _Scope) -> None:
        self._flow.join(self._node(node.id, scope), into)
        named = self._alias.get(node.id, "")
        if named in ("os.environ", "process.env"):
            self._flow.variable("", into, self._place(node))
        elif named.startswith(("os.environ.", "process.env.")):
            self._flow.variable(named.rpartition(".")[2], into, self._place(node))
        elif (home := self._programs.get(named.partition(".")[0])) is not None:
            self._flow.join((home, "", named.rpartition(".")[2]), into)

    def _member(self, node: ast.Attribute | ast.Subscript, into: Node, scope: _Scope) -> None:
        named = self._dotted(node)
        if named in ("os.environ", "process.env"):
            self._flow.variable("", into, self._place(node))
            return
        if named.startswith(("os.environ.", "process.env.")):
            self._flow.variable(named.rpartition(".")[2], into, self._place(node))
            return
        if fixed := self._fold(node):
            self._flow.text(fixed[0], into, self._place(node), is_hidden=True)
        if isinstance(node, ast.Attribute):
            is_part = node.attr.lower() not in _WHOLE
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "this", "cls"):
                self._flow.join((self._path, ".", node.attr), into)
            if isinstance(node.value, ast.Name) and (home := self._programs.get(self._alias.get(node.value.id, ""))):
                self._flow.join((home, "", node.attr), into)
        else:
            is_part = isinstance(node.slice, ast.Constant)
            self._push(node.slice, into, scope)
            self._assembled(node.slice, node)
        inner = self._flow.new()
        self._flow.join(inner, into, part=is_part)
        self._push(node.value, inner, scope)

    def _assembled(self, key: ast.AST, node: ast.AST) -> None:
        fixed = self._fold(key)
        if fixed and fixed[1] and _DANGEROUS.fullmatch(fixed[0].lower()):
            self._flow.found.add(("SH602", self._place(node)))

    def _call(self, node: ast.Call, into: Node, scope: _Scope) -> None:
        flow, place = self._flow, self._place(node)
        name = self._dotted(node.func)
        last = (name or getattr(node.func, "attr", "")).rpartition(".")[2]
        if fixed := self._fold(node):
            flow.text(fixed[0], into, place, is_hidden=True)
        if last in ("getattr", *(each.rpartition(".")[2] for each in _MODULES)) and node.args:
            self._assembled(node.args[min(1, len(node.args) - 1)], node)
        if name in ("os.getenv", "os.environ.get", "os.environ.pop") and node.args:
            key = self._fold(node.args[0])
            flow.variable(key[0] if key else "?", into, place)
            return
        given, returned = flow.new(), flow.new()
        flow.join(returned, into)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        home = self._home(name, last)
        self._arguments(node, given, returned, (home, last), scope)
        if owner is not None:
            inner = flow.new()
            flow.join(inner, given, part=last.lower() not in _WHOLE and last.lower() not in _GIVES)
            self._push(owner, inner, scope)
            self._given_to(owner, last, given, scope)
        elif not isinstance(node.func, ast.Name):
            self._push(node.func, given, scope)
        if home:
            flow.join((home, "returned", last), returned)
        else:
            flow.call(name or f"?.{last}", given, returned, place)
            self._run(name.lower(), node, given, scope)
        if last in ("print", "log", "stdout.write", "write") and (last != "log" or name == "console.log"):
            flow.join(given, ("file", self._path.rpartition("/")[2].lower()))

    def _home(self, name: str, last: str) -> str:
        """Return the file of the skill whose function is called, or nothing."""
        root = name.partition(".")[0]
        if root in self._programs and name != root:
            return self._programs[root]
        is_own = name == last or root in ("self", "this", "cls") or ("." in name and root in self._functions)
        return self._path if last in self._functions and is_own else ""

    def _arguments(self, node: ast.Call, given: Node, returned: Node, called: tuple[str, str], scope: _Scope) -> None:
        home, last = called
        for number, each in enumerate([*node.args, *(each.value for each in node.keywords)]):
            key = str(number) if number < len(node.args) else node.keywords[number - len(node.args)].arg or "*"
            value = self._flow.new()
            self._flow.join(value, (home, "given", last, key) if home else given)
            if home:
                self._flow.join(value, given)
            self._push(each, value, scope)
            if isinstance(each, ast.Lambda):  # called with what the function has
                inner = self._scopes[id(each)]
                for argument in _arguments(each):
                    self._flow.join(returned, (self._path, inner.name, argument.arg))
                    self._flow.join(given, (self._path, inner.name, argument.arg))

    def _given_to(self, owner: ast.AST, last: str, given: Node, scope: _Scope) -> None:
        """Say that what a method is given is in its object afterwards, and in the file that it writes."""
        if last in ("write_text", "write_bytes") and isinstance(owner, ast.Call) and owner.args:
            self._to_file(owner.args[0], given)
        if last.lower() in _GIVES:
            while isinstance(owner, ast.Attribute | ast.Subscript) and not (
                isinstance(owner, ast.Attribute)
                and isinstance(owner.value, ast.Name)
                and owner.value.id in ("self", "this")
            ):
                owner = owner.value
            if isinstance(owner, ast.Attribute):
                self._flow.join(given, (self._path, ".", owner.attr))
            elif isinstance(owner, ast.Name):
                self._flow.join(given, self._node(owner.id, scope))
            elif isinstance(owner, ast.Call) and owner.args:
                self._to_file(owner.args[0], given)

    def _to_file(self, path: ast.AST, given: Node) -> None:
        if fixed := self._fold(path):
            self._flow.join(given, ("file", fixed[0].rpartition("/")[2].lower()))

    def _run(self, name: str, node: ast.Call, given: Node, scope: _Scope) -> None:
        """Read the command that is run, and the program that is evaluated, if it is fixed."""
        first = node.args[0] if node.args else None
        if (
            first is not None
            and name.rpartition(".")[2] in ("writefilesync", "writefile", "appendfilesync")
            and len(node.args) > 1
        ):
            value = self._flow.new()
            self._push(node.args[1], value, scope)
            self._to_file(first, value)
        if name.rpartition(".")[2] in _COPIES:
            for each in node.args:
                self._to_file(each, given)
        if first is None or not name.startswith(("os.system", "os.popen", "subprocess.", "child_process.", "pty.")):
            return
        words = (
            [self._fold(each) for each in first.elts]
            if isinstance(first, ast.List | ast.Tuple)
            else [self._fold(first)]
        )
        if len(node.args) > 1 and isinstance(node.args[1], ast.List):
            words += [self._fold(each) for each in node.args[1].elts]
        if words and all(words):
            self.embedded.append(
                (
                    " ".join(each[0] if i == 0 else _quoted(each[0]) for i, each in enumerate(words) if each),
                    node.lineno,
                )
            )

    def _assign(
        self, node: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr, into: Node, scope: _Scope
    ) -> None:
        value = self._flow.new()
        self._push(node.value, value, scope)
        if isinstance(node, ast.NamedExpr):
            self._flow.join(value, into)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            self._store(target, value, scope, node.value)

    def _store(self, target: ast.AST, value: Node, scope: _Scope, source: ast.AST | None = None) -> None:
        if isinstance(target, ast.Name):
            self._flow.join(value, self._node(target.id, scope))
            if isinstance(source, ast.Call) and len(source.args) > 1 and self._dotted(source.func).endswith("open"):
                mode = self._fold(source.args[1])
                if mode and set(mode[0]) & set("wax"):
                    written = self._flow.new()
                    self._flow.join(self._node(target.id, scope), written)
                    self._to_file(source.args[0], written)
        elif isinstance(target, ast.Tuple | ast.List):
            is_part = isinstance(target, ast.List)  # `{ a, b } = value`
            for each in target.elts:
                inner = self._flow.new()
                self._flow.join(value, inner, part=is_part)
                name = each.value if isinstance(each, ast.Starred) else each
                self._store(name.value if isinstance(name, ast.Subscript) else name, inner, scope)
        elif isinstance(target, ast.Starred):
            self._store(target.value, value, scope)
        elif (
            isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and target.value.id in ("self", "this")
        ):
            self._flow.join(value, (self._path, ".", target.attr))
        elif isinstance(target, ast.Attribute | ast.Subscript):
            if isinstance(target, ast.Subscript):
                self._push(target.slice, value, scope)
            while isinstance(target, ast.Attribute | ast.Subscript):
                target = target.value
            self._store(target, value, scope)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.comprehension, _into: Node, scope: _Scope) -> None:
        value = self._flow.new()
        self._push(node.iter, value, scope)
        self._store(node.target, value, scope)
        for each in [*node.body, *node.orelse] if not isinstance(node, ast.comprehension) else node.ifs:
            self._push(each, 0, scope)

    def _with(self, node: ast.withitem, _into: Node, scope: _Scope) -> None:
        value = self._flow.new()
        self._push(node.context_expr, value, scope)
        if node.optional_vars is not None:
            self._store(node.optional_vars, value, scope, node.context_expr)

    def _return(self, node: ast.Return | ast.Yield | ast.YieldFrom, _into: Node, scope: _Scope) -> None:
        name = re.sub(r"\d+$", "", scope.name.rpartition("/")[2])
        self._push(
            node.value, (self._path, "returned", name) if name else (self._path, scope.name, "returned"), scope
        )

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, _into: Node, scope: _Scope) -> None:
        inner = self._scopes[id(node)]
        given = [*node.args.posonlyargs, *node.args.args]
        if given and given[0].arg in ("self", "cls"):
            given = given[1:]
        for number, argument in enumerate(given):
            self._flow.join((self._path, "given", node.name, str(number)), (self._path, inner.name, argument.arg))
        for argument in _arguments(node):
            for key in (argument.arg, "*"):
                self._flow.join((self._path, "given", node.name, key), (self._path, inner.name, argument.arg))
        for default in (*node.args.defaults, *(each for each in node.args.kw_defaults if each)):
            self._push(default, self._flow.new(), scope)
        for each in (*node.decorator_list, *node.body):
            self._push(each, 0, inner)

    def _lambda(self, node: ast.Lambda, into: Node, scope: _Scope) -> None:
        inner = self._scopes[id(node)]
        self._flow.join((self._path, inner.name, "returned"), into)
        self._push(node.body, into, inner)

    def _nothing(self, _node: ast.AST, _into: Node, _scope: _Scope) -> None:
        pass


_HANDLERS: Final[dict[type[ast.AST], Callable[..., None]]] = {
    ast.IfExp: Program._conditional,
    ast.Constant: Program._constant,
    ast.BinOp: Program._sum,
    ast.JoinedStr: Program._sum,
    ast.Name: Program._loaded,
    ast.Attribute: Program._member,
    ast.Subscript: Program._member,
    ast.Call: Program._call,
    **dict.fromkeys((ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr), Program._assign),
    **dict.fromkeys((ast.For, ast.AsyncFor, ast.comprehension), Program._loop),
    ast.withitem: Program._with,
    **dict.fromkeys((ast.Return, ast.Yield, ast.YieldFrom), Program._return),
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), Program._function),
    ast.Lambda: Program._lambda,
    **dict.fromkeys((ast.Import, ast.ImportFrom), Program._nothing),
}


def _arguments(node: _Function) -> Iterator[ast.arg]:
    given = node.args
    yield from (*given.posonlyargs, *given.args, *given.kwonlyargs)
    yield from (each for each in (given.vararg, given.kwarg) if each)


def _chain(node: ast.AST) -> list[ast.AST]:
    """Return what a chain of ``+`` adds, in order."""
    found, left = [], [node]
    while left:
        each = left.pop()
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add):
            left += [each.left, each.right]
        else:
            found.append(each)
    return found[::-1]


def _characters(numbers: Sequence[ast.AST]) -> str | None:
    values = [each.value if isinstance(each, ast.Constant) else None for each in numbers]
    if values and all(isinstance(each, int) and 0 <= each < 0x110000 for each in values):
        return "".join(chr(int(str(each))) for each in values)
    return None


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w./:=@~-]+", word) else "'" + word.replace("'", "'\\''") + "'"
