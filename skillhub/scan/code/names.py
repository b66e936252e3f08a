"""Names of a program: the function that a name means, what it does, and the constant value of an expression."""

from __future__ import annotations

import ast
import codecs
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from typing import Final

from skillhub.formats.text import words
from skillhub.scan.code.decoded import Room, undone, unpacked

_DEPTH_MAX = 60
_PATH_DEPTH_MAX = 4
_TEXT_MAX = 1 << 16
_NAME_MAX = 200
_FUNCTION_MAX = 40
# Characters of all texts of a program that are composed, so that a long piece cannot be used many times.
_TOGETHER_MAX = 1 << 20
_PREFIXES = (
    *("globalThis.", "global.", "window.", "self.", "builtins.", "__builtins__.", "node:"),
    *("globals().", "locals().", "sys.modules."),
)
MODULES = ("__import__", "require", "import", "importlib.import_module", "import_module")


# Calls by their last names: which arguments they write, and what they run.
COPIES: Final = frozenset(
    words("copy copy2 copyfile copytree make_archive move copyfilesync cpsync rename renamesync")
)
# The number of the argument that is the path of a file, or the key of the registry, that a function writes.
OWNER: Final = -1  # the object of which it is a method
_WRITTEN: Final = {
    **dict.fromkeys(words("write_text write_bytes symlink_to hardlink_to"), OWNER),
    **dict.fromkeys(
        words("writefile writefilesync appendfile appendfilesync createwritestream writetextfile setvalueex"), 0
    ),
    **dict.fromkeys((*COPIES, "symlink", "symlinksync"), 1),
}
# Modules whose ``open`` takes the path first.
_OPENERS: Final = words("io codecs gzip bz2 lzma aiofiles os tarfile zipfile")
# Functions that run the code, file or address that they get.
_STARTS: Final = {
    **dict.fromkeys(("setTimeout", "setInterval", "setImmediate"), "timer"),
    **dict.fromkeys(
        words(
            "import require importScripts Worker run_path spec_from_file_location SourceFileLoader"
            " SourcelessFileLoader ExtensionFileLoader load_source zipimporter CDLL PyDLL WinDLL LoadLibrary"
        ),
        "import-from",
    ),
    "read_pickle": "load-from",
}
_RUNS_FILE: Final = frozenset(words("run_path spec_from_file_location SourceFileLoader load_source execfile"))
# Loaders of YAML that build any object that the data names.
_UNSAFE_YAML: Final = ("Loader", "CLoader", "UnsafeLoader")
_MAKES_PATH = re.compile(r"(?:^|\.)(?:Path|str|join|joinpath|resolve|expanduser|abspath)$")
_MAKES_TEMPORARY: Final = re.compile(r"(?:^|\.)(?:NamedTemporaryFile|mktemp)$")
_INTERPRETERS: Final = {"sys.executable": ("python", False), "process.execPath": ("node", False)}
_LINKS = (ast.Await, ast.Attribute, ast.Subscript, ast.Call)
# How the numbers of characters are changed by those of a key.
_CHANGES: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.BitXor: operator.xor,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
}


class Names:
    """The meaning of the names in a program.

    Attributes:
        alias: For each name, the dotted name that it stands for.
        unread: The line of a composed text that is too long to be read; 0 without one.
    """

    def __init__(self) -> None:
        self.alias: dict[str, str] = {}
        self.unread = 0
        self._constants: dict[str, tuple[str, bool] | None] = {}
        self._lists: dict[str, Sequence[ast.expr]] = {}
        self._numbers: dict[str, object] = {}
        self._file_names: dict[str, str] = {}
        self._folded: dict[int, tuple[str, bool] | None] = {}
        self._budget = _TOGETHER_MAX
        self._dots: dict[int, str] = {}

    def add_import(self, node: ast.Import | ast.ImportFrom) -> None:
        """Add the names that an import binds."""
        home = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            name = alias.asname or (alias.name if home else alias.name.partition(".")[0])
            self.alias[name] = home + (alias.name if home or alias.asname else name)

    def add_name(self, target: ast.AST, value: ast.AST) -> None:
        """Add the names that an assignment binds."""
        if isinstance(target, ast.Name):
            fixed = self.fold(value)
            is_new = target.id not in self._constants
            self._lists[target.id] = value.elts if is_new and isinstance(value, ast.List | ast.Tuple) else []
            self._numbers[target.id] = value.value if is_new and isinstance(value, ast.Constant) else None
            self._constants[target.id] = None if target.id in self._constants else fixed
            if fixed is None and (file_name := self.file_name(value)):
                self._file_names[target.id] = file_name
            named = self.dotted(value)
            if named and named != target.id and fixed is None:
                self.alias.setdefault(target.id, named)
        elif isinstance(target, ast.Tuple | ast.List):  # `const { exec } = require('child_process')`
            named = self.dotted(value)
            for element in target.elts if named else ():
                name, member = element, element
                if isinstance(element, ast.Starred) and isinstance(element.value, ast.Subscript):
                    name, member = element.value.value, element.value.slice
                if isinstance(name, ast.Name):
                    key = str(member.value) if isinstance(member, ast.Constant) else name.id
                    self.alias.setdefault(name.id, f"{named}.{key}")

    def dotted(self, node: ast.AST | None, depth: int = 0) -> str:
        """Return the dotted name of an expression, or an empty string; each expression is resolved once."""
        chain: list[ast.AST] = []
        while isinstance(node, _LINKS) and id(node) not in self._dots:
            chain.append(node)
            node = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.Name):
            dotted_name = _without_prefix(self.alias.get(node.id, node.id))
        else:
            dotted_name = self._dots.get(id(node), "")
        while chain:
            link = chain.pop()
            dotted_name = self._dots[id(link)] = _without_prefix(self._linked(link, dotted_name, depth + 1))
        return dotted_name

    def all_are_known(self) -> None:
        """Forget the resolved expressions: all names are bound now, and may have changed their meaning."""
        self._dots.clear()

    def _linked(self, node: ast.AST, owner: str, depth: int) -> str:
        if isinstance(node, ast.Attribute | ast.Subscript):
            key = (node.attr, False) if isinstance(node, ast.Attribute) else self.fold(node.slice)
            is_function = isinstance(node.value, ast.Lambda | ast.Attribute | ast.Subscript)
            if key and key[0] == "constructor" and (is_function or owner.endswith("getPrototypeOf()")):
                return "Function"  # JavaScript: the constructor of a function, or of a method, is ``Function``
            if key and key[0] == "__dict__":
                return owner
            return f"{owner}.{key[0]}" if owner and key else ""
        if isinstance(node, ast.Call):
            return self._dotted_call(node, owner, depth) if depth < _DEPTH_MAX else ""
        return owner

    def _dotted_call(self, node: ast.Call, name: str, depth: int) -> str:
        first = self.fold(node.args[0]) if node.args else None
        if name in MODULES and first:
            return first[0].removeprefix("node:")
        if name == "vars" and node.args:
            return self.dotted(node.args[0], depth)
        if name == "getattr" and len(node.args) > 1 and (key := self.fold(node.args[1])):
            owner = self.dotted(node.args[0], depth)
            return key[0] if owner in ("__builtins__", "builtins") else f"{owner}.{key[0]}"
        if name.endswith(("Path.home", "homedir")) or (name.endswith("expanduser") and first == ("~", False)):
            return "~"
        if name.rpartition(".")[2] in ("promisify", "bind", "partial") and node.args:
            return self.dotted(node.args[0], depth)
        return f"{name}()" if name else ""

    def fold(self, node: ast.AST, depth: int = 0) -> tuple[str, bool] | None:
        """Return the constant text of an expression and whether the program composes it, or None."""
        if isinstance(node, ast.Constant):
            return (text_of(node.value), False) if isinstance(node.value, str | bytes) else None
        if isinstance(node, ast.Name):
            return self._constants.get(node.id)
        if depth > _DEPTH_MAX:
            return None
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int() as index)):
                element = self._lists.get(name, ())[index : index + 1]
                return self.fold(element[0], depth + 1) if element else None
        if not isinstance(node, ast.BinOp | ast.Call | ast.JoinedStr | ast.Subscript):
            return None
        if id(node) not in self._folded:
            self._folded[id(node)] = None
            text = self._folded_once(node, depth + 1) if self._budget > 0 else None
            self._budget -= len(text or "")
            if self._budget <= 0 or len(text or "") > _TEXT_MAX:
                self.unread = self.unread or getattr(node, "lineno", 1)
            self._folded[id(node)] = None if text is None or len(text) > _TEXT_MAX else (text, True)
        return self._folded[id(node)]

    def file_name(self, path: ast.AST | None, depth: int = 0) -> str:
        """Return the last part of a path, if it is constant: of `os.path.join(folder, "a.py")`, `folder / "a.py"`."""
        if path is None or depth > _PATH_DEPTH_MAX:
            return ""
        if fixed := self.fold(path):
            return fixed[0].rstrip("/").rpartition("/")[2].lower()
        match path:
            case ast.Name():
                return self._file_names.get(path.id, "")
            case ast.BinOp(op=ast.Div() | ast.Add()):
                return self.file_name(path.right, depth + 1)
            case ast.JoinedStr() if path.values:
                return self.file_name(path.values[-1], depth + 1)
            case ast.Attribute(attr="name", value=ast.Name(id=name)):  # of a temporary file
                return self._file_names.get(name, "")
            case ast.Call() if _MAKES_TEMPORARY.search(self.dotted(path.func)):
                return f"temporary file {path.lineno}:{path.col_offset}"
            case ast.Call() if path.args and _MAKES_PATH.search(self.dotted(path.func)):
                return self.file_name(path.args[-1], depth + 1)
        return ""

    def _folded_once(self, node: ast.AST, depth: int) -> str | None:
        if isinstance(node, ast.BinOp):
            return self._joined(chain(node), depth) if isinstance(node.op, ast.Add) else None
        if isinstance(node, ast.JoinedStr):
            parts = [value.value if isinstance(value, ast.FormattedValue) else value for value in node.values]
            return self._joined(parts, depth)
        if isinstance(node, ast.Subscript):
            step = node.slice.step if isinstance(node.slice, ast.Slice) else None
            text = self.fold(node.value, depth) if step is not None and ast.unparse(step) == "-1" else None
            return text[0][::-1] if text else None
        return self._folded_call(node, depth) if isinstance(node, ast.Call) else None

    def _folded_call(self, node: ast.Call, depth: int) -> str | None:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        name = (node.func.attr if isinstance(node.func, ast.Attribute) else self.dotted(node.func)).rpartition(".")[2]
        folded = name.lower()
        first = node.args[0] if node.args else None
        if folded == "join":
            parts = owner if isinstance(owner, ast.List | ast.Tuple) else first
            between = first if parts is owner and first else owner
            glue = self.fold(between, depth) if between else None
            if isinstance(parts, ast.List | ast.Tuple):
                return self._joined(parts.elts, depth, glue[0] if glue else "")
            made = first if _changed_by(first) else owner
            if changed := _changed_by(made):
                return self._text_of(made, depth) if _makes_characters(changed[1]) else None
            return self._reversed(owner, depth)
        if folded in ("chr", "fromcharcode", "fromcodepoint"):
            return _characters(node.args) or (self._text_of(first, depth) if _changed_by(first) else None)
        is_numbers = isinstance(first, ast.List | ast.Tuple) or _changed_by(first)
        if folded in ("bytes", "bytearray", "from") and is_numbers:
            return self._text_of(first, depth)
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
            text = self.fold(first, depth) if first else None
            self._budget -= len(text[0]) if text else 0
            room = Room()
            plain = unpacked(text[0].encode("utf-8", "replace"), room).decode("latin-1") if text else ""
            if room.is_exceeded:
                self.unread = self.unread or node.lineno
            if plain or not text:
                return plain or None
            is_plain = folded == "decompress" or (folded == "from" and len(node.args) < 2)
            return text[0] if is_plain else undone(text[0].encode("utf-8", "replace")).decode("latin-1") or None
        if folded == "decode" and len(node.args) > 1 and (text := self.fold(node.args[0], depth)):
            codec = self.fold(node.args[1], depth)
            return codecs.decode(text[0], "rot13") if codec and codec[0].startswith("rot") else None
        if folded in ("decode", "tostring", "str", "strip", "trim") and (inner := owner or first):
            text = self.fold(inner, depth)
            return text[0] if text else None
        return None

    def _joined(self, parts: Sequence[ast.AST], depth: int, glue: str = "") -> str | None:
        texts = [self.fold(part, depth) for part in parts]
        return glue.join(text[0] for text in texts if text) if texts and all(texts) else None

    def _text_of(self, node: ast.AST | None, depth: int) -> str | None:
        """Return a constant text: also of a list of numbers, or of one that is made of another by a key."""
        if self._budget <= 0 or depth > _DEPTH_MAX or node is None:
            return None
        if changed := _changed_by(node):
            return self._changed(*changed, depth + 1)
        match node:
            case ast.Call(func=ast.Attribute(value=split, attr="split" | "encode")):
                node = split
        numbers = self._lists.get(node.id) if isinstance(node, ast.Name) else getattr(node, "elts", None)
        text = _characters(numbers) if numbers else (self.fold(node, depth) or ("",))[0]
        self._budget -= len(numbers or text or "")
        return text

    def _changed(self, source: ast.AST, function: ast.AST, depth: int) -> str | None:
        """Return the characters of a source as a function changes each: by a number, or by the letters of a text."""
        keys: list[ast.expr] = []
        if isinstance(source, ast.Call) and self.dotted(source.func) in ("enumerate", "zip") and source.args:
            source, *keys = source.args  # of ``zip``, the second is the key
        chars = self._text_of(source, depth)
        changes = [
            (_CHANGES[type(node.op)], operand)
            for node in islice(ast.walk(function), _FUNCTION_MAX)
            if isinstance(node, ast.BinOp) and type(node.op) in _CHANGES
            for operand in (*keys[:1], node.right, node.left)
        ]
        for change, operand in changes if chars else ():
            if key := self._key(_indexed(operand), depth):
                codes = [change(ord(char), each) for char, each in zip(chars or "", cycle(key), strict=False)]
                return "".join(map(chr, codes)) if all(0 <= code < 0x110000 for code in codes) else None
        return chars

    def _key(self, node: ast.AST, depth: int) -> list[int]:
        """Return the numbers of a key: one that is constant, or those of the characters of a text."""
        name = node.id if isinstance(node, ast.Name) else ""
        number = node.value if isinstance(node, ast.Constant) else self._numbers.get(name)
        return [number] if isinstance(number, int) else [*map(ord, self._text_of(node, depth) or "")]

    def _reversed(self, owner: ast.AST | None, depth: int) -> str | None:
        """Return the value of JavaScript's ``'..'.split('').reverse().join('')``."""
        if not (isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute)):
            return None
        within = owner.func.value
        if owner.func.attr == "reverse" and isinstance(within, ast.Call) and isinstance(within.func, ast.Attribute):
            text = self.fold(within.func.value, depth)
            return text[0][::-1] if text else None
        return None


def chain(node: ast.AST, sign: type[ast.operator] = ast.Add) -> list[ast.AST]:
    """Return the operands of a chain of ``+`` or of another operator, in order."""
    operands, stack = [], [node]
    while stack:
        operand = stack.pop()
        if isinstance(operand, ast.BinOp) and isinstance(operand.op, sign):
            stack += [operand.left, operand.right]
        else:
            operands.append(operand)
    return operands[::-1]


def _changed_by(node: ast.AST | None) -> tuple[ast.AST, ast.AST] | None:
    """Return what a comprehension or ``map`` goes through, and the function of each element."""
    match node:
        case ast.GeneratorExp() | ast.ListComp():
            return node.generators[0].iter, node.elt
        case ast.Call(func=ast.Attribute(value=source, attr="map"), args=[function, *_]):
            return source, function
        case ast.Call(func=ast.Name(id="map"), args=[function, source, *_]):
            return source, function
    return None


def _indexed(node: ast.AST) -> ast.AST:
    """Return the text or list of which an expression takes an element: ``ord(key[i])``, ``key.charCodeAt(i)``."""
    while isinstance(node, ast.Subscript | ast.Call):
        if isinstance(node, ast.Subscript):
            node = node.value
        else:
            node = node.func.value if isinstance(node.func, ast.Attribute) else next(iter(node.args), node.func)
    return node


def _makes_characters(function: ast.AST) -> bool:
    """Return whether the first part of a function names ``chr``, ``String.fromCharCode`` or a similar one."""
    nodes = islice(ast.walk(function), _FUNCTION_MAX)
    return any(str(getattr(node, "attr", getattr(node, "id", ""))).startswith(("fromC", "chr")) for node in nodes)


def _characters(numbers: Sequence[ast.AST]) -> str | None:
    values = [number.value if isinstance(number, ast.Constant) else None for number in numbers]
    if values and all(isinstance(value, int) and 0 <= value < 0x110000 for value in values):
        return "".join(chr(int(str(value))) for value in values)
    return None


def text_of(value: str | bytes) -> str:
    """Return a constant as text; bytes as the characters of the same numbers."""
    return value if isinstance(value, str) else value.decode("latin-1")


def _without_prefix(name: str) -> str:
    if name.startswith(_PREFIXES):
        name = name.partition(":" if name.startswith("node:") else ".")[2]
    return name if len(name) <= _NAME_MAX else ""


def saved_to(last: str, node: ast.Call) -> list[ast.expr]:
    """Return the arguments that name where a call saves its result: files, or buffers in memory."""
    if last not in ("urlretrieve", "save", "screenshot", "shot"):
        return []
    return node.args[1:] if last == "urlretrieve" else [*node.args[:1], *(each.value for each in node.keywords)]


def written_argument(last: str, node: ast.Call, names: Names) -> int | None:
    """Return the number of the argument that is the path of the file that a call writes; None if it writes none."""
    if last in ("open", "ZipFile"):
        is_method = isinstance(node.func, ast.Attribute) and names.dotted(node.func.value) not in _OPENERS
        given = [keyword.value for keyword in node.keywords if keyword.arg == "mode"] or node.args[not is_method :]
        mode = names.fold(given[0]) if given else None
        return (OWNER if is_method else 0) if mode and set("wax+") & set(mode[0]) else None
    return _WRITTEN.get(last.lower())


def command_of(node: ast.Call, names: Names) -> tuple[list[tuple[str, bool] | None], str]:
    """Return the constant words of the command that a call runs, with None for the others, and the command as text.

    The text has ``?`` for each other word; of a text that is composed it has the constant beginning.
    """
    first = node.args[0]
    parts = [*first.elts] if isinstance(first, ast.List | ast.Tuple) else [first]
    if len(node.args) > 1 and isinstance(node.args[1], ast.List):
        parts += node.args[1].elts
    if names.dotted(node.func).startswith(("os.exec", "os.spawn")):  # the list begins with the name again
        parts = parts[1:]
    words = [names.fold(part) or _INTERPRETERS.get(names.dotted(part)) for part in parts]
    begin = first.values[0] if isinstance(first, ast.JoinedStr) and first.values else chain(first)[0]
    known = [words[0] or names.fold(begin), *words[1:]] if words else []
    return words, " ".join(word[0] if word else "?" for word in known)


def opened_to_write(node: ast.Call, names: Names) -> ast.expr | None:
    """Return the path of the file that a call opens to write it; None of any other call."""
    last = node.func.attr if isinstance(node.func, ast.Attribute) else names.dotted(node.func).rpartition(".")[2]
    number = written_argument(last, node, names) if last in ("open", "ZipFile") else None
    if number == OWNER and isinstance(node.func, ast.Attribute):
        return node.func.value
    if last == "NamedTemporaryFile":
        return node
    if number is None and last == "open" and len(node.args) > 1:  # of any other library
        mode = names.fold(node.args[1])
        number = 0 if mode and set("wax") & set(mode[0]) else None
    return None if number is None else next(iter(node.args), None)


def sinks_of(last: str, name: str, node: ast.Call) -> Iterator[str]:
    """Yield the sinks of a call that runs the code, file or address that it gets."""
    if last in _STARTS or _runs_what_it_loads(name, node):
        yield _STARTS.get(last, "load")
    if name in ("sys.path.insert", "sys.path.append"):
        yield "module path"
    if last in _RUNS_FILE:
        yield "program"


def _runs_what_it_loads(name: str, node: ast.Call) -> bool:
    """Return whether a loader that has a safe mode is called without it."""
    if name not in ("torch.load", "numpy.load", "yaml.load"):
        return False
    options = {keyword.arg: ast.unparse(keyword.value).rpartition(".")[2] for keyword in node.keywords}
    if name == "torch.load":
        return options.get("weights_only") != "True"
    if name == "numpy.load":
        return options.get("allow_pickle") == "True"
    loader = options.get("Loader") or (ast.unparse(node.args[1]) if len(node.args) > 1 else "")
    return loader.rpartition(".")[2] in _UNSAFE_YAML
