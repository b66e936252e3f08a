"""Proof that a program stays offline; a skill without this proof has the capability ``network:?``.

The proof covers a small subset of two languages:

- Shell (``sh``, ``bash``): commands on an allowlist, with literal names. No function, no other script, no text that
  is run as code, no expansion that could become an option with an effect.
- Python: an allowlist of members of modules of the standard library, none of which starts a program, loads code or
  reaches a network. No module of the skill or of a package, and no alias of a name.

Programs of both write only to files with literal names and the suffix of data (``out.json``), so that no written file
is run. Everything else is unproved: other languages, other commands, code that would need deeper analysis.
The proof misses a path to another machine that a program composes on Windows, and programs that read the data later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from skillhub.formats.text import deferred, packaged, words
from skillhub.model.tree import File
from skillhub.scan.pattern import PATTERNS, line_patterns
from skillhub.scan.views import Letters

# Words of the network, anywhere in a text: in a program, an instruction or a comment. They are a second check beside
# the readers of programs, and the only check of instructions, which are not programs.

_WORDS = words(PATTERNS["network_words"])  # programs and modules
_PATTERNS = (
    # The longest run of letters in a name is a word of each text with the name.
    *line_patterns(
        {"words": max(re.split("[_-]", word), key=len), "first": rf"{word}(?<![\w.-]{word})(?![\w-])"}
        for word in _WORDS
    ),
    *line_patterns(PATTERNS["network"]),
)
# Words that count only in the place of a command: at the start of a line, after a prompt, a quote or another command.
(_AS_COMMAND,) = line_patterns(PATTERNS["network_as_command"])
_JOINT = deferred(rb"[\\`^]\r?\n")


def names_network(letters: Letters) -> bool:
    """Return whether a text has a word of the network, read with its lines joined, too."""
    plain = Letters(letters.data.translate(None, b"\0")) if b"\0" in letters.data else letters
    has_joint = any(sign in plain.data for sign in (b"\\", b"`", b"^")) and _JOINT.search(plain.data) is not None
    return _has_word(plain) or (has_joint and _has_word(Letters(_JOINT.sub(b"", plain.data))))


def _has_word(letters: Letters) -> bool:
    literals = letters.literals
    is_named = any(each.may_match(literals) and each.first.search(letters.lowered) for each in _PATTERNS)
    lines = b"\n" + letters.data.replace(b"\r", b"\n")
    return is_named or (_AS_COMMAND.may_match(literals) and _AS_COMMAND.first.search(lines) is not None)


# No honest program is longer.
_PROGRAM_MAX = 1 << 18
_FIRST_LINE = deferred(
    r"#![ \t]*/(?:usr/(?:local/)?)?bin/(?:env[ \t]+)?(python(?:3(?:\.[0-9]+)?)?|(?:ba|da)?sh)"
    r"(?:[ \t]+-[eux]{1,3})?[ \t]*"
)
_SHELL_FILES = (".sh", ".bash")
_PYTHON_FILES = (".py", ".pyw")
# Names of files that a program may write: no file with such a name runs, and no tool reads it as its settings.
_DATA = (
    r"(?:/tmp/|\./)?(?:[\w-]+/)*(?!(?:package|composer|deno|turbo|tsconfig|requirements)\.|CMakeLists)"
    r"[\w-]+\.(?:txt|json|jsonl|csv|tsv|log)"
)
# A folder on another machine (UNC, automounts), and the paths that Bash opens as connections.
_REMOTE = deferred(r"(?:^|=)(?://|\\\\|/(?:net|afs|smb)/)|/dev/(?:tcp|udp)")


def is_offline(path: str, file: File, letters: Letters) -> bool:
    """Return whether a file provably reaches no network when it runs.

    Args:
        path: The path of the file.
        file: The file.
        letters: The letters of its bytes without NUL.
    """
    folded, data = path.lower(), file.data.removeprefix(b"\xef\xbb\xbf")
    has_first_line = data.startswith(b"#!")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    if len(data) > _PROGRAM_MAX or names_network(Letters(data, letters)):
        return False
    named = "sh" if folded.endswith(_SHELL_FILES) else "python" if folded.endswith(_PYTHON_FILES) else None
    if has_first_line:
        first_line = _FIRST_LINE.fullmatch(text.partition("\n")[0])
        program = "python" if first_line and first_line[1].startswith("python") else "sh" if first_line else None
    else:
        program = None if file.executable and named == "python" else named
    if program is None or named not in (None, program):
        return False
    if program == "sh":
        return is_offline_shell(text)
    # A file with the name of a listed module would be imported in its place.
    modules = {name.partition(".")[0] for name in path.split("/")}
    return modules.isdisjoint(_MEMBERS) and is_offline_python(text)


class _NotPlainError(Exception):
    """A program uses more than the subset of its language that the proof covers."""


# Shell. In a word, an expansion is one character: ``_ONE`` in double quotes (one word), else ``_MANY`` (any number).

_ONE, _MANY = "\0", "\1"
_NAME = r"(?:[a-z_][a-z0-9_]*|(?:[A-Z]+_)?(?:DIR|FILE|NAME|ROOT|INPUT|OUTPUT)|IFS)"
# With any arguments, these commands start no program and write no content to a file.
_COMMANDS = frozenset(
    words(
        ": true false echo cd pwd basename dirname cat head tail wc cut tr grep egrep fgrep ls date seq sleep mkdir"
        " rmdir rm touch chmod mktemp stat du df diff cmp comm nl od fold rev tac paste join md5sum sha1sum"
        " sha256sum shasum cksum realpath readlink uname whoami which jq"
    )
)
_WORD = rf"[^ {_MANY}]+"
_CONDITION = (
    rf"(?:! )?(?:-[defhnrswxzL] {_WORD}|{_WORD} (?:=|==|!=) {_WORD}|[0-9]+ -(?:eq|ne|lt|le|gt|ge) [0-9]+|{_WORD})"
)
_COPY = rf"(?:-[fnpuv]+ )?(?:(?:{_ONE}/|[\w./])[^ {_MANY}]* )+{_DATA}"
# Commands that are allowed with these arguments only; one blank separates arguments, and no argument contains one.
_ARGUMENTS = {
    "[": rf"{_CONDITION} \]",
    "test": _CONDITION,
    "for": rf"{_NAME}(?: in(?: .*)?)?",
    "read": rf"(?:-r )?{_NAME}(?: {_NAME})*",
    "command": r"-v [\w.-]+",
    "set": r"[-+][eux]+|[-+][eux]*o pipefail",
    **dict.fromkeys(("exit", "shift", "break", "continue"), r"[0-9]*"),
    "printf": rf"(?![-{_ONE}{_MANY}]).+",
    "sort": rf"(?:(?:-?[bcdfghikmnrsuVz0-9.,]+|{_DATA})(?: |$))*",
    "uniq": r"(?:-[cdiu]+)?",
    "tee": rf"(?:-a )?{_DATA}(?: {_DATA})*",
    "cp": _COPY,
    "mv": _COPY,
}
_KEYWORDS = frozenset(words("if then elif else while until do done fi !"))
_ENDS = r"(?=[\s;|&)]|\Z)"
_VALUE = r"\$(?:\w+|[@*]|\{\w+(?::-[\w./-]*)?\}|\{BASH_SOURCE\[0\]\})"
_OUTSIDE = deferred(
    rf"(?P<blank>[ \t]+|(?:[0-9]|&)?>{{1,2}}[ \t]*(?:&[0-9]|/dev/(?:null|stdout|stderr)|{_DATA}){_ENDS}"
    rf"|<[ \t]*(?:/dev/null|(?:[\w-]+/)*[\w-]+(?:\.\w+)?){_ENDS})"
    r"|(?P<end>\n|;|&&|\|\|?)|(?P<alone>\#[^\n]*|\\\n)|'(?P<single>[^']*)'|(?P<quote>\")"
    rf"|(?P<plain>[\w./:=,+%@^~!-]+|\[(?=[ \t])|\]{_ENDS})|(?P<glob>[*?\[\]]+)"
    rf"|(?P<number>\$[\#?])|(?P<value>{_VALUE})|(?P<open>\$\()|(?P<close>\))",
    re.ASCII,
)
_INSIDE = deferred(
    rf"(?P<plain>[^\"$\\]+|\\.)|(?P<quote>\")|(?P<number>\$[\#?])|(?P<value>{_VALUE})|(?P<open>\$\()",
    re.ASCII | re.DOTALL,
)
_NESTED_MAX = 40


@dataclass(slots=True)
class _Level:
    """A script or the content of ``$(…)``: the words of its current command, and whether double quotes are open."""

    words: list[str] = field(default_factory=list)
    word: str | None = None
    is_quoted: bool = False


def is_offline_shell(text: str) -> bool:
    """Return whether a shell script provably reaches no network."""
    # In some encodings a backslash is the second byte of a character.
    if re.search(r"[\r\0\1`]|[^\x00-\x7f]\\", text):
        return False
    try:
        return all(map(_is_harmless, _commands(text)))
    except _NotPlainError:
        return False


def _commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command, without quotes."""
    levels, offset = [_Level()], 0
    while offset < len(text):
        level = levels[-1]
        match = (_INSIDE if level.is_quoted else _OUTSIDE).match(text, offset)
        kind = match.lastgroup if match else None
        if not match or kind is None or (kind == "alone" and level.word is not None):
            raise _NotPlainError
        offset = match.end()
        if kind in ("blank", "end", "close") and level.word is not None:
            level.words.append(level.word)
            level.word = None
        if kind in ("plain", "single"):
            level.word = (level.word or "") + match[kind]
        elif kind == "quote":
            level.word, level.is_quoted = level.word or "", not level.is_quoted
        elif kind in ("number", "value", "glob", "open"):
            sign = "0" if kind == "number" else _ONE if level.is_quoted else _MANY
            level.word = (level.word or "") + sign
        if kind in ("end", "close"):
            yield level.words
            level.words = []
        if kind == "open":
            levels.append(_Level())
        elif kind == "close":
            levels.pop()
        if not 0 < len(levels) < _NESTED_MAX:
            raise _NotPlainError
    if len(levels) > 1 or levels[0].is_quoted:
        raise _NotPlainError
    yield levels[0].words + ([] if levels[0].word is None else [levels[0].word])


def _is_harmless(command: list[str]) -> bool:
    if any(map(_REMOTE.search, command)):
        return False
    index = 0
    while index < len(command) and command[index] in _KEYWORDS:
        index += 1
    while index < len(command) and re.match(rf"{_NAME}=", command[index]):
        index += 1
    if index == len(command) or command[index] in _COMMANDS:
        return True
    arguments = " ".join(re.sub(r"\s", "_", argument) or "_" for argument in command[index + 1 :])
    allowed = _ARGUMENTS.get(command[index])
    return allowed is not None and re.fullmatch(allowed, arguments, re.ASCII) is not None


# Python. It is read by tokens and not by ``ast``, whose language depends on the version of Python.

_SKIPPED = r"(?:\#[^\r\n]*+|[ \t\f]++|\\\r?\n)"
# The rest of a string after its first quotation mark.
_REST, _REST_OF_DOUBLE = (
    rf"(?:{mark}{{2}}(?>(?:[^\\{mark}]++|\\.|{mark}(?!{mark}{mark}))*){mark}{{3}}|(?>(?:[^\\{mark}\r\n]++|\\\r\n|\\.)*){mark})"
    for mark in "'\""
)
_SPELLED = (
    rf"(?:[A-Za-z_][A-Za-z0-9_]*+(?![\"'])|[rRbBuUfFtT]{{0,2}}(?:'{_REST}|\"{_REST_OF_DOUBLE})"
    r"|[A-Za-z_][A-Za-z0-9_]*+|0[xX][0-9A-Fa-f_]++|[0-9][0-9_]*+(?:\.[0-9]++)?"
    r"|\r?\n|\r|[!%&()*+,./:;<=>@\[\]^{|}~-])"
)
_TOKEN = deferred(f"{_SKIPPED}|{_SPELLED}", re.DOTALL)
_NEXT_TOKEN = deferred(rf"{_SKIPPED}*+(?:({_SPELLED}|.++)|\Z)", re.DOTALL)  # none at the end; else the rest is none
_ONE_TOKEN = deferred(_SPELLED, re.DOTALL)
# Comments and strings without fields; from a string without an end or with fields on, the rest of the program.
_NO_CODE = deferred(
    rf"\#[^\r\n]*+|'(?<![fFtT].)(?<![fFtT][A-Za-z].){_REST}|\"(?<![fFtT].)(?<![fFtT][A-Za-z].){_REST_OF_DOUBLE}|\".*+|'.*+",
    re.DOTALL,
)
_SIGNS = b" \t\f\r\n!%&()*+,./:;<=>@[]^{|}~-"
_TO_WORDS = bytes.maketrans(_SIGNS, b" " * len(_SIGNS))
_PLAIN = bytes(code for code in range(128) if chr(code).isalnum()) + b"_" + _SIGNS
_CODING = deferred(
    r"(?:[^\r\n]*[\r\n]{1,2})?[ \t\f]*#[^\r\n]*?coding[:=][ \t]*(?!(?:utf-?8|ascii|latin-1)(?![\w.-]))[\w.-]"
)
# The members of each module that neither reach a network, nor start a program, nor run text, nor write a file.
_MEMBERS = {module: frozenset(words(names)) for module, names in packaged("scan/offline_members.json").items()}
_IMPORT = deferred(
    r"(?<=[\n;:] )(?:from ((?:\w+ \. )*\w+) )?import (?:((?:\w+ [.,] )*\w+)|\( ((?:\n |\w+ |, )*)\)) (?=[\n;])",
    re.ASCII,
)
# Names that run text as code, open a file in a way that is not checked here, or lead from a value to a module.
_NAMES = "import|compile|getattr|setattr|delattr|vars|globals|locals|breakpoint|case|open|os|sys|io|get_type_hints"
_ATTRIBUTES = (
    "system|modules|raw|detach|obj|help|f_back|f_builtins|f_globals|f_locals|write_bytes|symlink_to|hardlink_to"
    "|link_to"
)
_MODULES = (
    "os|sys|io|nt|posix|builtins|codecs|ctypes|importlib|inspect|linecache|multiprocessing|pickle|runpy|shutil|signal"
    "|socket|ssl|subprocess|tempfile|thread|threading|tokenize|types|urllib|warnings|weakref|genericpath|posixpath|ntpath"
)
# As methods of a ``pathlib`` path these write files; as methods of a string or a list they do not.
_OF_PATHS = "replace|rename|copy|copy_into|move|move_into"
_DENIED = deferred(rf"{_NAMES}|exec\w*|eval\w*")
_DENIED_ATTRIBUTES = deferred(
    rf"{_ATTRIBUTES}|\w*popen\w*|\w*spawn\w*|fork\w*|(?:tb|gi|cr|ag)_\w+|_accessor|_flavour|_*(?:{_MODULES})"
)
_DENIED_OF_PATHS = deferred(rf"{_OF_PATHS}|_\w+")
_DUNDERS = frozenset(
    words(
        "__name__ __file__ __doc__ __init__ __post_init__ __new__ __str__ __repr__ __eq__ __ne__ __hash__ __lt__"
        " __le__ __gt__ __ge__ __len__ __iter__ __next__ __contains__ __getitem__ __setitem__ __delitem__ __enter__"
        " __exit__ __call__ __bool__ __int__ __float__ __add__ __sub__ __mul__ __truediv__ __and__ __or__ __all__"
        " __version__ __author__ __slots__ __format__ __radd__ __neg__ __abs__ __missing__"
    )
)
_READING = deferred(r'(?:mode = )?"(?:rb?|rt|)"|(?:encoding|errors|newline) = (?:"[^"]*"|None)|')
_WRITING = deferred(r'(?:mode = )?"[wa]b?t?"')
# Words that are allowed in some places only, or nowhere.
_DENIED_PATTERNS = (denied.pattern for denied in (_DENIED, _DENIED_ATTRIBUTES, _DENIED_OF_PATHS))
_LIMITED = deferred("|".join((r"__.*|open|write_text|type|help", *_DENIED_PATTERNS)))
# Each of these words is one of ``_LIMITED_WORDS``, or matches ``_LIMITED_PARTS``.
_LIMITED_WORDS = frozenset(f"{_NAMES}|{_ATTRIBUTES}|{_MODULES}|{_OF_PATHS}|write_text|type".encode().split(b"|"))
_LIMITED_PARTS = deferred(rb" (?:_|exec|eval|fork|(?:tb|gi|cr|ag)_|[0-9][0-9_]*[A-Za-z])|popen|spawn")
_REMOTE_PATH = deferred(r"/(?:/|(?:net|afs|smb|dev)/)")
_DIGITS, _LINE_ENDS = frozenset("0123456789"), frozenset("\r\n")
_ARGUMENTS_MAX = 200


def is_offline_python(text: str) -> bool:
    """Return whether a Python program provably reaches no network."""
    return not _CODING.match(text) and (_is_plain_throughout(text) or _is_plain_by_place(text))


def _is_plain_by_place(text: str) -> bool:
    modules: dict[str, frozenset[str]] = {}

    def read_import(match: re.Match[str]) -> str:
        module = (match[1] or "").replace(" ", "")
        for name in re.findall(r"[\w.]+", (match[2] or match[3] or "").replace(" . ", ".")):
            qualified = f"{module}.{name}" if module else name
            if (module and name not in _MEMBERS.get(module, ())) or (not module and qualified not in _MEMBERS):
                raise _NotPlainError
            if qualified in _MEMBERS:
                bound = name if module else name.partition(".")[0]
                modules[bound] = _MEMBERS[qualified if module else bound]
        return ""

    try:
        code = _IMPORT.sub(read_import, " ".join(["\n", *_tokens(text.removeprefix("\ufeff")), "\n"]))
    except (_NotPlainError, RecursionError):
        return False
    tokens = re.sub(r" \. (?:\n )+", " . ", code).split(" ")
    # Each word is checked once, and then only the places of words that are not allowed everywhere.
    limited = {word for word in {*tokens} if word in modules or _LIMITED.fullmatch(word)}
    has_paths = "pathlib" in text
    return all(
        _is_plain(tokens, index, modules, has_paths=has_paths) for index, word in enumerate(tokens) if word in limited
    )


def _is_plain_throughout(text: str) -> bool:
    """Return whether every word of a program is allowed everywhere; False also if a closer check is needed."""
    code = _NO_CODE.sub(" ", f"{text}\n0").encode("utf-8", "replace")
    code_words = {*code.translate(_TO_WORDS).split()}
    return (
        code.endswith(b"\n0")
        and not code.translate(None, _PLAIN)
        and _LIMITED_WORDS.isdisjoint(code_words)
        and _LIMITED_PARTS.search(b" ".join((b"", *code_words))) is None
        and _REMOTE_PATH.search(text) is None
        and "\\\\" not in text
    )


def _tokens(text: str) -> Iterator[str]:
    """Return names, operators, and strings as ``"…"``; a string that is not a plain word or path is ``"?"``.

    No token contains a blank, except that the code in the fields of a string follows it, separated by blanks.
    """
    tokens = [*filter(None, _NEXT_TOKEN.findall(text))]
    if tokens and not _ONE_TOKEN.fullmatch(tokens[-1]):
        raise _NotPlainError
    spelled = {token: _normalize(token) for token in {*tokens}}
    return map(spelled.__getitem__, tokens)


def _normalize(token: str) -> str:
    if token[-1:] not in ('"', "'"):
        return "0" if token[:1] in _DIGITS else "\n" if token[:1] in _LINE_ENDS else token
    body = token.lstrip("rRbBuUfFtT")
    if _REMOTE.search(body.strip("\"'")):
        raise _NotPlainError
    plain = re.fullmatch(r"[\"']([\w./-]*)[\"']", token, re.ASCII)
    fields = _fields(body) if set(token[: -len(body)].lower()) & {"f", "t"} else ()
    return " ".join((f'"{plain[1]}"' if plain else '"?"', *fields))


def _fields(body: str) -> Iterator[str]:
    """Yield the tokens of the code in the fields of a string, each field in parentheses."""
    offset = 0
    while offset < len(body):
        if body[offset : offset + 2] in ("{{", "}}"):
            offset += 2
        elif body[offset] == "{":
            tokens, offset = _field(body, offset + 1)
            yield from tokens
        elif body[offset] == "}":
            raise _NotPlainError
        else:
            offset += 1


def _field(body: str, offset: int) -> tuple[list[str], int]:
    """Return the tokens of a field, and the offset of its end."""
    tokens, depth = ["("], 0
    while True:
        match = _TOKEN.match(body, offset)
        if not match or "#" in match[0]:  # a comment may hide a bracket
            raise _NotPlainError
        offset = match.end()
        if depth == 0 and match[0] == "}":
            return [*tokens, ")"], offset
        depth += (match[0] in ("(", "[", "{")) - (match[0] in (")", "]", "}"))
        if match[0][0] not in " \t\f\\":
            tokens.append(_normalize(match[0]))
        # The format of the value.
        while depth == 0 and match[0] == ":" and body[offset : offset + 1] not in ("", "}"):
            if body[offset] in "'\"#":
                raise _NotPlainError
            inner, offset = _field(body, offset + 1) if body[offset] == "{" else ([], offset + 1)
            tokens += inner


def _is_plain(tokens: list[str], index: int, modules: dict[str, frozenset[str]], *, has_paths: bool) -> bool:
    before, word, after = tokens[index - 1], tokens[index], tokens[index + 1 : index + 3]
    is_attribute = before == "."
    if not (word[:1].isalpha() or word[:1] == "_"):
        return True
    if word in modules and not is_attribute:
        return after[:1] == ["."] and after[1] in modules[word]
    if is_attribute and tokens[index - 2] in modules and tokens[index - 3] != ".":
        return True
    match word:
        case "open":
            return not is_attribute and after[:1] == ["("] and _is_known_file(tokens, index)
        case "write_text":
            return (tokens[index - 5 : index - 3], tokens[index - 2]) == (["Path", "("], ")") and _is_data(
                tokens[index - 3]
            )
        case "type":
            return after[:1] == ["="] or (after[:1] == ["("] and tokens[index + 3 : index + 4] == [")"])
        case "help":
            return after[:1] == ["="]
    if word.startswith("__"):
        return word in _DUNDERS
    if is_attribute and (_DENIED_ATTRIBUTES.fullmatch(word) or (has_paths and _DENIED_OF_PATHS.fullmatch(word))):
        return False
    return not _DENIED.fullmatch(word)


def _is_data(token: str) -> bool:
    return re.fullmatch(f'"{_DATA}"', token, re.ASCII) is not None


def _is_known_file(tokens: list[str], index: int) -> bool:
    """Return whether a call of ``open`` visibly reads a file, or writes a data file with a literal name."""
    arguments: list[list[str]] = [[]]
    depth = 0
    for word in tokens[index + 1 : index + _ARGUMENTS_MAX]:
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        if depth == 0:
            break
        if depth == 1 and word == ",":
            arguments.append([])
        elif word != "\n" and (depth > 1 or word != "("):
            arguments[-1].append(word)
    first, *others = arguments
    if depth or not first or {"=", "*"} & set(first):
        return False
    options = [" ".join(argument) for argument in others]
    is_data = len(first) == 1 and _is_data(first[0])
    return all(_READING.fullmatch(argument) or (is_data and _WRITING.fullmatch(argument)) for argument in options)
