"""A program in Python, or in JavaScript translated to Python: adds its values, names and calls to the flow.

The reader is a loop over a stack. Only constant texts and dotted names are resolved recursively, to a small depth.
Each node is visited a bounded number of times.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from skillhub.formats.text import words
from skillhub.scan.code.flow import WORDS, Flow, Node, Place
from skillhub.scan.code.names import (
    COPIES,
    MODULES,
    OWNER,
    Names,
    chain,
    command_of,
    opened_to_write,
    saved_to,
    sinks_of,
    text_of,
    written_argument,
)
from skillhub.scan.code.trees import children

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_NO_VALUES: Final = (ast.Compare, ast.Assert, ast.stmt)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_BINDING: Final = frozenset[type[ast.AST]](
    (
        *_FUNCTIONS,
        ast.ClassDef,
        ast.Name,
        ast.Global,
        ast.Nonlocal,
        ast.Assign,
        ast.AnnAssign,
        ast.For,
        ast.withitem,
        ast.Import,
        ast.ImportFrom,
    )
)
# Members of a value that stand for the whole value, not for a part of it.
_WHOLE = WORDS["whole"]
_MUTATORS = WORDS["mutators"]
_LINES: Final = (
    *words("os.system os.popen subprocess.getoutput asyncio.create_subprocess_shell child_process.exec"),
    "child_process.execSync",
)
# A file with such a name may be meant by an import, or not.
_LIBRARIES: Final = WORDS["libraries"]
_RUNNERS: Final = ("os.system", "os.popen", "os.exec", "os.spawn", "subprocess.", "child_process.", "pty.")
_REMOVERS: Final = ("rmtree", "rmsync", "rm", "rmdirsync")
_COMMANDS: Final = re.compile(
    r"subprocess\.|os\.(?:exec|spawn|posix_spawn)|child_process\.|asyncio\.create_sub|execa|Deno\.|Bun\."
)
_SENDERS: Final = re.compile(r"(?:^|/)(?:curl|wget|scp|sftp|rsync|rclone|nc|ncat|netcat|gsutil|lftp|tftp|croc)$")
_INTERPRETERS: Final = re.compile(r"(?:^|/)(?:python|pypy|node|ruby|perl|php|deno|bun|(?:ba|z|da|k)?sh)[\d.]{0,5}$")
# What code of a constant text needs in order to run programs.
_REACHES_PROGRAMS: Final = re.compile(r"\b(?:process|require|child_process|mainModule)\b")
_LOGIN_OPTION: Final = re.compile(r"-[ieEJ]|--(?:key|cert|cacert|identity|netrc-file|config|ssh-key|rsh)")
_LOADERS: Final = frozenset(("getattr", *(module.rpartition(".")[2] for module in MODULES)))
_DANGEROUS: Final = re.compile(
    r"(?:.*\.)?(?:eval|exec|execsync|spawn|spawnsync|system|popen|function|child_process|subprocess|fetch|socket"
    r"|marshal|pickle|ctypes|urlopen|__import__|readfilesync|check_output|base64|b64decode|os|requests|constructor|https?|net|fs|require|compile)"
)

# Functions within each other; deeper ones share the names of the last, so that the search for a name takes few steps.
_SCOPES_MAX: Final = 100


@dataclass(eq=False, slots=True)
class _Scope:
    """The names that a function binds.

    Attributes:
        name: The key of its names in the flow.
        function: The name of the function; empty without one.
    """

    name: str
    function: str = ""
    outer: _Scope | None = None
    around: int = 0
    bound: set[str] = field(default_factory=set)
    free: set[str] = field(default_factory=set)

    def within(self, name: str, function: str) -> _Scope:
        """Return the scope of a function in this one."""
        if self.around == _SCOPES_MAX:
            return _Scope(self.name, function, self.outer, self.around, self.bound, self.free)
        return _Scope(name, function, self, self.around + 1)


class Program:
    """One program, with the meaning of its names and its constant texts.

    Args:
        flow: The flow to which its values are added.
        path: The path of its file.
        line: The number of lines of the file before the program.
        programs: The paths of the skill's files by the names under which they can be imported.
    """

    def __init__(self, flow: Flow, path: str, line: int, programs: dict[str, str]) -> None:
        self.embedded: list[tuple[str, int]] = []
        self._flow, self._path, self._line, self._programs = flow, path, line, programs
        self._scopes: dict[int, _Scope] = {}
        self._functions: set[str] = set()
        self._own = {"self", "this", "cls"}  # and the classes of the program
        self._names = Names()
        self._stack: list[tuple[ast.AST, Node, _Scope]] = []

    def read(self, tree: ast.AST) -> None:
        """Add the program to the flow."""
        top = _Scope("")
        self._bind(tree, top)
        self._names.all_are_known()
        self._stack = [(tree, 0, top)]
        while self._stack:
            node, into, scope = self._stack.pop()
            handler = _HANDLERS.get(type(node), Program._visit_children)
            handler(self, node, into, scope)
        if self._names.unread:
            self._flow.direct_findings.add(("SH616", (self._path, self._line + self._names.unread)))

    # Scopes: where each name is bound.

    def _bind(self, tree: ast.AST, top: _Scope) -> None:
        stack = [(tree, top)]
        while stack:
            node, scope = stack.pop()
            if type(node) in _BINDING:
                scope = self._bind_one(node, scope)
            stack += [(child, scope) for child in reversed(children(node))]

    def _bind_one(self, node: ast.AST, scope: _Scope) -> _Scope:
        """Record the names that a node binds, and return the scope of its children."""
        match node:
            case ast.Name():
                if not isinstance(node.ctx, ast.Load):
                    scope.bound.add(node.id)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                name = "" if isinstance(node, ast.Lambda) else node.name
                inner = self._scopes[id(node)] = scope.within(str(len(self._scopes)), name)
                inner.bound.update([argument.arg for argument in _arguments(node)])
                if name:
                    self._functions.add(name)
                    scope.bound.add(name)
                return inner
            case ast.ClassDef():
                self._own.add(node.name)
            case ast.Global() | ast.Nonlocal():
                scope.free.update(node.names)
            case ast.Assign() | ast.AnnAssign() if node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    self._names.add_name(target, node.value)
            case ast.withitem(optional_vars=ast.Name() as target):
                self._names.add_name(target, node.context_expr)
            case ast.For() if self._names.dotted(node.iter).startswith("~"):  # what is in the home folder
                self._names.add_name(node.target, node.iter)
            case ast.Import() | ast.ImportFrom():
                self._names.add_import(node)
        return scope

    # Flow: a handler for each kind of node.

    def _place(self, node: ast.AST) -> Place:
        return self._path, self._line + getattr(node, "lineno", 1)

    def _node(self, name: str, scope: _Scope) -> Node:
        current: _Scope | None = scope
        while current is not None and (name not in current.bound or name in current.free):
            current = current.outer
        return self._path, current.name if current else "", name

    def _push(self, node: ast.AST | None, into: Node, scope: _Scope) -> None:
        if node is not None:
            self._stack.append((node, into, scope))

    def _visit_children(self, node: ast.AST, into: Node, scope: _Scope) -> None:
        into = 0 if isinstance(node, _NO_VALUES) else into
        self._stack += [(child, into, scope) for child in children(node)]

    def _conditional(self, node: ast.IfExp, into: Node, scope: _Scope) -> None:
        self._push(node.test, 0, scope)
        self._push(node.body, into, scope)
        self._push(node.orelse, into, scope)

    def _constant(self, node: ast.Constant, into: Node, _scope: _Scope) -> None:
        if isinstance(node.value, str | bytes):
            self._flow.text(text_of(node.value), into, self._place(node))

    def _listed(self, node: ast.List | ast.Tuple, into: Node, scope: _Scope) -> None:
        texts = [each.value for each in node.elts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if len(texts) == len(node.elts) > 1:
            self._flow.words(texts, into, self._place(node))
        self._visit_children(node, into, scope)

    def _sum(self, node: ast.BinOp | ast.JoinedStr, into: Node, scope: _Scope) -> None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            self._add_path(chain(node, ast.Div), into, node)
        if fixed := self._names.fold(node):
            self._flow.text(fixed[0], into, self._place(node), is_hidden=True)
        parts = chain(node) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else children(node)
        whole = self._flow.new()
        self._flow.join(whole, into)
        self._flow.composes(whole)
        for part in parts:
            self._push(part, whole if into else 0, scope)

    def _loaded(self, node: ast.Name, into: Node, scope: _Scope) -> None:
        self._flow.join(self._node(node.id, scope), into)
        named = self._names.alias.get(node.id, "")
        if named in ("os.environ", "process.env"):
            self._flow.variable("", into, self._place(node))
        elif named.startswith(("os.environ.", "process.env.")):
            self._flow.variable(named.rpartition(".")[2], into, self._place(node))
        elif (home := self._programs.get(named.partition(".")[0])) is not None:
            self._flow.join((home, "", named.rpartition(".")[2]), into)

    def _member(self, node: ast.Attribute | ast.Subscript, into: Node, scope: _Scope) -> None:
        named = self._names.dotted(node)
        if named in ("os.environ", "process.env"):
            self._flow.variable("", into, self._place(node))
            return
        if named.startswith(("os.environ.", "process.env.")):
            self._flow.variable(named.rpartition(".")[2], into, self._place(node))
            return
        if fixed := self._names.fold(node):
            self._flow.text(fixed[0], into, self._place(node), is_hidden=True)
        if isinstance(node, ast.Attribute):
            is_part = node.attr.lower() not in _WHOLE
            if node.attr == "name" and (file_name := self._names.file_name(node)):
                self._flow.join(("file", file_name), into)
            if isinstance(node.value, ast.Name) and node.value.id in self._own:
                self._flow.join((self._path, ".", node.attr), into)
            if isinstance(node.value, ast.Name) and (
                home := self._programs.get(self._names.alias.get(node.value.id, ""))
            ):
                self._flow.join((home, "", node.attr), into)
        else:
            is_part = isinstance(node.slice, ast.Constant)
            self._push(node.slice, into, scope)
            self._check_composed_name(node.slice, node)
        inner = self._flow.new()
        self._flow.join(inner, into, part=is_part)
        self._push(node.value, inner, scope)

    def _add_path(self, parts: Sequence[ast.AST], into: Node, node: ast.AST) -> None:
        """Add a path that is joined from parts, constant or not, as a text of a node."""
        fixed = [self._names.fold(part) for part in parts]
        if any(fixed[1:]):
            self._flow.text("/".join(text[0] if text else "~" for text in fixed), into, self._place(node))

    def _check_composed_name(self, key: ast.AST, node: ast.AST) -> None:
        fixed = self._names.fold(key)
        if fixed and fixed[1] and _DANGEROUS.fullmatch(fixed[0].lower()):
            self._flow.direct_findings.add(("SH602", self._place(node)))

    def _check_call(self, name: str, last: str, node: ast.Call) -> None:
        """Add the finding that a call removes the home folder, or makes a function of a text that runs programs."""
        removed = self._names.dotted(node.args[0]) if last.lower() in _REMOVERS and node.args else ""
        if removed in ("~", "~.iterdir()", "~.glob()"):
            self._flow.direct_findings.add(("SH405", self._place(node)))
        text = self._names.fold(node.args[-1]) if name == "Function" and node.args else None
        if text and _REACHES_PROGRAMS.search(text[0]):
            self._flow.direct_findings.add(("SH602", self._place(node)))

    def _call(self, node: ast.Call, into: Node, scope: _Scope) -> None:
        flow, place = self._flow, self._place(node)
        name = self._names.dotted(node.func)
        last = (name or getattr(node.func, "attr", "")).rpartition(".")[2]
        if fixed := self._names.fold(node):
            flow.text(fixed[0], into, place, is_hidden=True)
            flow.mark("decoded", into, place)
        elif last in ("join", "joinpath", "resolve", "Path") and len(node.args) > 1:
            self._add_path(node.args, into, node)
        self._check_call(name, last, node)
        if last in _LOADERS and node.args:
            self._check_composed_name(node.args[min(1, len(node.args) - 1)], node)
        if name in ("os.getenv", "os.environ.get", "os.environ.pop") and node.args:
            key = self._names.fold(node.args[0])
            flow.variable(key[0] if key else "?", into, place)
            return
        arguments, returned = flow.new(), flow.new()
        flow.join(returned, into)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        home = self._defining_file(name, last)
        self._arguments(node, arguments, returned, (home, last), scope)
        if owner is not None:
            self._method(owner, node, last, arguments, scope)
        elif not isinstance(node.func, ast.Name):
            self._push(node.func, arguments, scope)
        for argument in saved_to(last, node):
            self._to_file(argument, returned, scope)
        for sink in sinks_of(last, name, node):
            flow.sink(sink, arguments, place)
        if home:
            flow.join((home, "returned", last), returned)
        if not home or name.partition(".")[0] in _LIBRARIES:
            flow.call(name or f"?.{last}", arguments, returned, place)
            self._run(name.lower(), node, arguments, scope)
        if last in ("print", "log", "stdout.write", "write") and (last != "log" or name == "console.log"):
            flow.prints(arguments, self._path)

    def _defining_file(self, name: str, last: str) -> str:
        """Return the path of the file that defines the called function, or an empty string."""
        root = name.partition(".")[0]
        if root in self._programs and name != root:
            return self._programs[root]
        is_own = name == last or root.removesuffix("()") in self._own or ("." in name and root in self._functions)
        return self._path if last in self._functions and is_own else ""

    def _arguments(
        self, node: ast.Call, arguments: Node, returned: Node, called: tuple[str, str], scope: _Scope
    ) -> None:
        home, last = called
        is_line = any(keyword.arg == "shell" and ast.unparse(keyword.value) == "True" for keyword in node.keywords)
        for number, expression in enumerate([*node.args, *(keyword.value for keyword in node.keywords)]):
            key = str(number) if number < len(node.args) else node.keywords[number - len(node.args)].arg or "*"
            value = self._flow.new()
            if number == written_argument(last, node, self._names):
                self._flow.sink("write", value, self._place(node))
            if number == 0 and (is_line or self._names.dotted(node.func) in _LINES):
                self._flow.sink("line", value, self._place(node))
            elif number == 0 and _COMMANDS.match(self._names.dotted(node.func)):
                self._flow.sink("words", value, self._place(node))
            self._flow.join(value, (home, "given", last, key) if home else arguments)
            if home:
                self._flow.join(value, arguments)
            if (
                number < 2
                and isinstance(expression, ast.List | ast.Tuple)
                and _COMMANDS.match(self._names.dotted(node.func))
            ):
                self._words(node, expression, value, scope)
                continue
            self._push(expression, value, scope)
            callback = getattr(expression, "id", getattr(expression, "attr", ""))
            if callback in self._functions:
                self._flow.join(returned, (self._path, "given", callback, "0"))
            if isinstance(expression, ast.Lambda):  # the function may call it with its arguments or its result
                inner = self._scopes[id(expression)]
                for argument in _arguments(expression):
                    self._flow.join(returned, (self._path, inner.name, argument.arg))
                    self._flow.join(arguments, (self._path, inner.name, argument.arg))

    def _words(self, call: ast.Call, words: ast.List | ast.Tuple, value: Node, scope: _Scope) -> None:
        """Add the words of a command, and which of them it sends: files, but not the key of a login."""
        program = self._names.fold(call.args[0] if words is not call.args[0] else next(iter(words.elts), call))
        sent, is_kept, runs_text = self._flow.new(), False, False
        if {"pip", "install"} <= {text[0] for text in map(self._names.fold, words.elts) if text}:
            self._flow.sink("package", value, self._place(call))
        if program and _SENDERS.search(program[0]):
            self._flow.reads(sent)
            self._flow.sink("send", sent, self._place(call))
        for element in words.elts:
            word, fixed = self._flow.new(), self._names.fold(element)
            self._flow.join(word, value)
            self._flow.join(0 if is_kept else word, sent)
            self._push(element, word, scope)
            if runs_text:
                self._flow.sink("eval", word, self._place(call))
            runs_text = (
                fixed is not None
                and fixed[0] in ("-c", "-e", "--eval")
                and (program is None or _INTERPRETERS.search(program[0]) is not None)
            )
            is_kept = fixed is not None and _LOGIN_OPTION.fullmatch(fixed[0]) is not None

    def _method(self, owner: ast.AST, node: ast.Call, last: str, arguments: Node, scope: _Scope) -> None:
        """Add the flow between a method's arguments and its object, and into the file that it writes."""
        inner = self._flow.new()
        self._flow.join(inner, arguments, part=last.lower() not in _WHOLE and last.lower() not in _MUTATORS)
        self._push(owner, inner, scope)
        if written_argument(last, node, self._names) == OWNER:
            self._flow.sink("write", inner, self._place(node))
        if last in ("format", "join"):
            self._flow.composes(arguments)
        if last in ("write_text", "write_bytes") and isinstance(owner, ast.Call) and owner.args:
            self._to_file(owner.args[0], arguments, scope)
        if last.lower() in _MUTATORS:
            owner = _owner(owner)
            if isinstance(owner, ast.Attribute):
                self._flow.join(arguments, (self._path, ".", owner.attr))
            elif isinstance(owner, ast.Name):
                self._flow.join(arguments, self._node(owner.id, scope))
            elif isinstance(owner, ast.Call) and owner.args:
                self._to_file(owner.args[0], arguments, scope)

    def _to_file(self, path: ast.AST, value: Node, scope: _Scope) -> None:
        """Add the file at a path, which has the value, and the variable that stands for the path."""
        if name := self._names.file_name(path):
            self._flow.writes(value, name)
        if isinstance(path, ast.Name):
            self._flow.join(value, self._node(path.id, scope))

    def _run(self, name: str, node: ast.Call, arguments: Node, scope: _Scope) -> None:
        """Add the files that a call writes, and the command that it runs, if the command is constant."""
        first = node.args[0] if node.args else None
        if (
            first is not None
            and name.rpartition(".")[2] in ("writefilesync", "writefile", "appendfilesync")
            and len(node.args) > 1
        ):
            value = self._flow.new()
            self._push(node.args[1], value, scope)
            self._to_file(first, value, scope)
        if (
            name.rpartition(".")[2] == "pipe"
            and isinstance(first, ast.Call)
            and first.args
            and self._names.dotted(first.func).endswith("createWriteStream")
        ):
            self._to_file(first.args[0], arguments, scope)
        if name.rpartition(".")[2] in COPIES:
            for argument in node.args:
                self._to_file(argument, arguments, scope)
        if first is None or not name.startswith(_RUNNERS):
            return
        words, command = command_of(node, self._names)
        program = words[0][0].split()[:2] if words and words[0] else []
        number = program[:1] in (["sh"], ["bash"], ["python"], ["python3"])
        if len(words) > number and not words[number] and isinstance(first, ast.List | ast.Tuple):
            self._flow.sink("start", ("written", self._names.file_name(first.elts[number])), self._place(node))
        elif program:
            started = [*program, *(word[0] for word in words[1:2] if word)]
            path = started[min(number, len(started) - 1)]
            self._flow.sink("start", ("written", path.rpartition("/")[2].lower()), self._place(node))
        self._flow.output(command, arguments, self._place(node))
        if words and all(words):
            self.embedded.append(
                (
                    " ".join(word[0] if i == 0 else _quoted(word[0]) for i, word in enumerate(words) if word),
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
        path = opened_to_write(source, self._names) if isinstance(source, ast.Call) else None
        if path is not None and isinstance(target, ast.Name):
            written = self._flow.new()
            self._flow.join(self._node(target.id, scope), written)
            self._to_file(path, written, scope)
        queue = [(target, value)]  # a loop, since patterns of JavaScript can be nested deeply
        while queue:
            target, value = queue.pop()
            if isinstance(target, ast.Name):
                self._flow.join(value, self._node(target.id, scope))
            elif isinstance(target, ast.Tuple | ast.List):
                is_part = isinstance(target, ast.List)  # `{ a, b } = value`
                for element in target.elts:
                    inner = self._flow.new()
                    self._flow.join(value, inner, part=is_part)
                    name = element.value if isinstance(element, ast.Starred) else element
                    queue.append((name.value if isinstance(name, ast.Subscript) else name, inner))
            elif isinstance(target, ast.Starred):
                queue.append((target.value, value))
            elif isinstance(target, ast.Attribute | ast.Subscript):
                if isinstance(target, ast.Subscript):
                    self._push(target.slice, value, scope)
                owner = _owner(target)
                if isinstance(owner, ast.Attribute):
                    self._flow.join(value, (self._path, ".", owner.attr))
                else:
                    queue.append((owner, value))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.comprehension, _into: Node, scope: _Scope) -> None:
        value = self._flow.new()
        self._push(node.iter, value, scope)
        self._store(node.target, value, scope)
        for child in [*node.body, *node.orelse] if not isinstance(node, ast.comprehension) else node.ifs:
            self._push(child, 0, scope)

    def _with(self, node: ast.withitem, _into: Node, scope: _Scope) -> None:
        value = self._flow.new()
        self._push(node.context_expr, value, scope)
        if node.optional_vars is not None:
            self._store(node.optional_vars, value, scope, node.context_expr)

    def _return(self, node: ast.Return | ast.Yield | ast.YieldFrom, _into: Node, scope: _Scope) -> None:
        name = scope.function
        self._push(
            node.value, (self._path, "returned", name) if name else (self._path, scope.name, "returned"), scope
        )

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, _into: Node, scope: _Scope) -> None:
        inner = self._scopes[id(node)]
        parameters = [*node.args.posonlyargs, *node.args.args]
        if parameters and parameters[0].arg in ("self", "cls"):
            parameters = parameters[1:]
        for number, argument in enumerate(parameters):
            self._flow.join((self._path, "given", node.name, str(number)), (self._path, inner.name, argument.arg))
        for argument in _arguments(node):
            for key in (argument.arg, "*"):
                self._flow.join((self._path, "given", node.name, key), (self._path, inner.name, argument.arg))
        for default in (*node.args.defaults, *(default for default in node.args.kw_defaults if default)):
            self._push(default, self._flow.new(), scope)
        value: ast.expr = ast.Name(node.name, ast.Load(), lineno=node.lineno)
        for decorator in reversed(node.decorator_list):  # a decorator is called with the result of the one below it
            if isinstance(decorator, ast.Lambda):
                value = decorator.body
            else:
                value = ast.Call(decorator, [value], [], lineno=decorator.lineno)
        for statement in (*([value] if node.decorator_list else ()), *node.body):
            self._push(statement, 0, inner)

    def _class(self, node: ast.ClassDef, _into: Node, scope: _Scope) -> None:
        for statement in node.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                for name in [target.id for target in targets if isinstance(target, ast.Name)]:
                    self._flow.join(self._node(name, scope), (self._path, ".", name))
        self._visit_children(node, 0, scope)

    def _import(self, node: ast.Import | ast.ImportFrom, _into: Node, _scope: _Scope) -> None:
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        for name in names:
            self._flow.sink("import", ("written", f"{name.rpartition('.')[2].lower()}.py"), self._place(node))

    def _lambda(self, node: ast.Lambda, into: Node, scope: _Scope) -> None:
        inner = self._scopes[id(node)]
        self._flow.join((self._path, inner.name, "returned"), into)
        self._push(node.body, into, inner)


_HANDLERS: Final[dict[type[ast.AST], Callable[..., None]]] = {
    ast.IfExp: Program._conditional,
    ast.Constant: Program._constant,
    **dict.fromkeys((ast.List, ast.Tuple), Program._listed),
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
    ast.ClassDef: Program._class,
    **dict.fromkeys((ast.Import, ast.ImportFrom), Program._import),
}


def _owner(node: ast.AST) -> ast.AST:
    """Return the variable to which a member belongs, or the result of its method, or the member of ``self``."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Attribute):
                return node
            node = node.func
        is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "this")
        if isinstance(node, ast.Attribute) and is_own:
            return node
        node = node.value
    return node


def _arguments(node: _Function) -> Iterator[ast.arg]:
    parameters = node.args
    yield from (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)
    yield from (argument for argument in (parameters.vararg, parameters.kwarg) if argument)


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w./:=@~-]+", word) else "'" + word.replace("'", "'\\''") + "'"
