"""A program in one of ``LANGUAGES``, such as Ruby or Go: adds the texts, names and calls of statements to the flow.

The reader knows no grammar. A statement is one value: its texts and names flow into the results of its calls, and
these into the variables that it assigns. A file is one scope. So the flow may be overestimated, never underestimated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from skillhub.scan.code.flow import Flow, Node, patterns
from skillhub.scan.pattern import is_installer

LANGUAGES: Final = ("ruby", "php", "perl", "powershell", "lua", "go", "rust", "swift", "java", "applescript")
_COMPILED: Final = ("go", "rust", "swift", "java")
_SHELL: Final = re.compile(r"(?:/\w{1,20}){0,4}/?(?:(?:ba|z|da|k)?sh|cmd(?:\.exe)?|powershell(?:\.exe)?|pwsh)")
# The option of a shell before a command; and the same at the start of its only argument, with a quotation mark.
_OF_SHELL: Final = frozenset(("-c", "-lc", "/c", "/C", "-Command"))
_ONE_ARGUMENT: Final = re.compile(r"(?:-\w?c|/[cC]|-Command)\s(?:\\?\")?")
_POWERSHELL: Final = re.compile(r"(?i)(?:powershell|pwsh)(?:\.exe)?")
_COMMENTS: Final = {
    **dict.fromkeys(_COMPILED, r"/\*(?>(?:[^*]++|\*(?!/))*)(?:\*/)?|//[^\n]*"),
    "lua": r"--\[\[(?>(?:[^\]]++|\](?!\]))*)(?:\]\])?|--[^\n]*",
    "applescript": r"\(\*(?>(?:[^*]++|\*(?!\)))*)(?:\*\))?|--[^\n]*",
    "ruby": r"^=begin\b(?>(?:[^\n]++|\n(?!=end\b))*)(?:\n=end)?",
    "perl": r"^=[a-z](?>(?:[^\n]++|\n(?!=cut\b))*)(?:\n=cut)?",
    "php": r"/\*(?>(?:[^*]++|\*(?!/))*)(?:\*/)?|//[^\n]*",
    "powershell": r"<#(?>(?:[^#]++|#(?!>))*)(?:#>)?",
}
# A string ends on its line, so that a quotation mark in prose or in a pattern does not swallow the rest.
_TEXTS: Final = r"'(?>(?:[^'\\\n]++|\\[^\n])*)'|\"(?>(?:[^\"\\\n]++|\\[^\n])*)\""
_DOUBLE: Final = (
    r"\"(?>(?:[^\"\\\n]++|\\[^\n])*)\"|`[^`]*+`"  # a single quotation mark begins a character, or a lifetime
)
_TEXTS_OF_POWERSHELL: Final = r"'[^'\n]*+'|\"(?>(?:[^\"`\n]++|`[^\n])*)\""
_TEXTS_OF: Final = {"powershell": _TEXTS_OF_POWERSHELL, "java": _TEXTS}  # and of Groovy and Dart
_REST: Final = (
    r"|(?P<address>\bhttps?://[^\s'\"`|;)]++)|(?P<environment>\$\{?env:\w*+|\b[Ee]nv:(?![:\w])|[$%]ENV\b|\$_ENV\b|\bENV\b(?!\.fetch)|\bgetenv\b|\bENV\.fetch\b|\bos\.Environ\(\)"
    r"|\b(?:[Ss]ystem|[Ss]ys)\.get_?env\(\)|\b(?:std::)?env::vars\(\)|\bEnvironment\.GetEnvironmentVariables\(\)"
    r"|\bProcessInfo\.processInfo\.environment\b(?!\[)|\bPlatform\.environment\b(?!\[)|\bsys\.env\b(?![(\[]))"
    r"|(?P<name>(?:(?:[$@%]|::|->|\.)\s?)?[A-Za-z_]\w*+(?>(?:-[A-Za-z]\w*+)*)(?>(?:(?:\]?::|->|&?\.)\w++)*)[?!]?)"
    r"|(?P<handle><\$\w++>|<[A-Z]{1,9}>)|(?P<end>[;\n]|<\?(?:php\b|=)?|\?>)|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<set>(?:<<|[.+])?=(?![=~>])|<<|<-)"
)
_TOKENS: Final = {
    language: re.compile(
        rf"(?P<comment>{comment}|\\['\"`]|(?<![^\s;{{}}()])#[^\n]*)"
        + (
            rf"|(?P<text>{_TEXTS_OF.get(language, _DOUBLE)})"
            if language in ("powershell", "applescript", *_COMPILED)
            else rf"|(?P<text>{_TEXTS})|(?P<command>`[^`\n]*+`)"
        )
        + _REST,
        re.MULTILINE,
    )
    for language, comment in _COMMENTS.items()
}
_INNER: Final = re.compile(r"#\{([^{}\n]*)\}|\$\(([^()\n]*)\)|([$@]\{?\w++)")
# Calls that are spelled as one in another language, or as none.
_KEY: Final = re.compile(r"\{(\w{1,80})\}")
_RESPELLED: Final = {
    "applescript": re.compile(r"\bdo shell script\b"),
    "lua": re.compile(r"\bload\b(?=\s?\()"),
    "perl": re.compile(r"\bdo\s{0,3}\{\s{0,9}local\s?\(?\$/\)?[^;\n}]{0,20};"),  # a block that reads a whole file
}
_CALL_OF: Final = {"applescript": "os.execute ", "lua": "loadstring", "perl": "("}
# After these a brace opens a value, not a block; before these a line continues.
_BEFORE_VALUE: Final = re.compile(r"(?:[=(,:?@>]|\breturn|\|[ \t]*(?:%|(?i:foreach|foreach-object)))[ \t]*\Z")
_GOES_ON: Final = re.compile(r"&?\.\w|->|\|")
_BLANKS: Final = re.compile(r"[ \t\r\n]*+")
_DEFINED: Final = re.compile(r"\b(?:def|sub|function)[ \t]+(?:self\.)?([\w-]{1,80})", re.IGNORECASE)
# Calls by their dotted names in lower case: functions that the flow knows by another name, and what others do.
_CALLS: Final = patterns("statement_calls")
_ACTS: Final = dict(patterns("statement_acts"))
_OPENS: Final = re.compile(r"(?:.*\.)?f?open")
_MODE: Final = re.compile(r"[wa]b?\+?|[xc]\+?|r\+|>>?.*")
_RECORDS: Final = re.compile(r"(?:.*\.)?copyfromscreen")  # into the picture that stands before it
_HIDDEN: Final = re.compile(r"system|exec|shell_exec|passthru|eval|iex|invoke-expression|assert|create_function")
_ADDRESS: Final = "://"


class _Token(NamedTuple):
    kind: str
    text: str
    follows: str


class Statements:
    """One program in a language of ``LANGUAGES``.

    Attributes:
        embedded: The commands that the program runs, each with its language and line.
    """

    def __init__(self, flow: Flow, path: str, line: int, language: str) -> None:
        self.embedded: list[tuple[str, str, int]] = []
        self._flow, self._path, self._line = flow, path, line
        self._tokens = _TOKENS[language]
        self._language = language
        self._ends_with_line = language in ("ruby", "powershell", "lua", "go", "swift", "applescript")
        # Go gives almost each result an error of the same name, which is no data.
        self._nothing = {"err", "error", "ok", "nil", "_"} if language == "go" else set[str]()
        self._functions: set[str] = set()
        self._function = ""
        self._constants: dict[str, str] = {}
        self._open: dict[str, list[str]] = {}  # by a variable, the files that were opened to be written

    def read(self, text: str) -> None:
        """Add the program to the flow."""
        if self._language in _RESPELLED:
            text = _RESPELLED[self._language].sub(_CALL_OF[self._language], text)
        self._functions = {match[1].lower() for match in _DEFINED.finditer(text)}
        for tokens, line in self._statements(text):
            self._statement(tokens, line)

    def _statements(self, text: str) -> Iterator[tuple[list[_Token], int]]:
        tokens: list[_Token] = []
        depth, line, first_line = 0, self._line + 1, self._line + 1
        blanks_end, goes_on = -1, False
        for match in self._tokens.finditer(text):
            kind, piece = match.lastgroup or "", match[0]
            if kind == "open":
                is_value = (
                    piece != "{" or depth > 0 or _BEFORE_VALUE.search(text, max(0, match.start() - 20), match.start())
                )
                depth += is_value is not None
                kind = kind if is_value else "end"
            elif kind == "close":
                kind = kind if depth > 0 else "end"
                depth -= depth > 0
            elif piece == "\n":
                if match.end() > blanks_end and (blanks := _BLANKS.match(text, match.end())):
                    blanks_end = blanks.end()
                    goes_on = _GOES_ON.match(text, blanks_end) is not None
                continues = depth > 0 or not self._ends_with_line or goes_on
                kind = "blank" if continues else kind
            if kind == "end" and tokens:
                yield tokens, first_line
                tokens, depth = [], 0
            elif kind not in ("comment", "blank", "end"):
                first_line = first_line if tokens else line
                tokens.append(_Token(kind, piece, text[match.end() : match.end() + 1]))
                tokens += self._interpolated(kind, piece)
            line += piece.count("\n")
        if tokens:
            yield tokens, first_line

    def _interpolated(self, kind: str, string: str) -> Iterator[_Token]:
        """Yield the names of the variables that a string interpolates."""
        if kind == "command" or (kind == "text" and string[0] == '"'):
            for inner in _INNER.finditer(string):
                key = _KEY.match(string, inner.end())
                for match in self._tokens.finditer((inner[1] or inner[2] or inner[3] or "").replace("{", "")):
                    if match.lastgroup in ("name", "environment"):
                        named = f":{key[1]}" if key and match.lastgroup == "environment" else ""
                        yield _Token(match.lastgroup, match[0] + named, "")

    def _statement(self, tokens: list[_Token], line: int) -> None:
        flow, place, value = self._flow, (self._path, line), self._flow.new()
        names = [token for token in tokens if token.kind in ("name", "handle")]
        dotted = [_dotted(token.text) for token in names]
        is_variable = dotted[:1] == ["def"] and self._language == "java"  # of Groovy
        if dotted[1:] and dotted[0] in ("def", "sub", "function") and not is_variable:
            self._function = dotted[1].rpartition(".")[2]
            for name in (*dotted[2:], "_", "args"):
                flow.join(("given", self._path, self._function), self._variable(name))
            return
        texts = [token.text.strip("'\"`") for token in tokens if token.kind in ("text", "command", "address")]
        for text in texts:
            flow.text(text, value, place)
        self._environment(tokens, value, line)
        for token, name in zip(names, dotted, strict=True):
            flow.join(0 if name in self._nothing else self._variable(name), value, part=token.follows in ("[", "{"))
        if [token.kind for token in tokens] == ["name", "set", *("text" for _ in texts)]:
            self._constants[dotted[0]] = "".join(texts)
        if self._language == "powershell" and "profile" in dotted:  # a variable: the path of what each shell reads
            flow.mark("later", value, place)
        constants = [self._constants[name] for name in dict.fromkeys(dotted) if name in self._constants]
        known = [*texts, *constants]
        runs = [[*each] for kind, each in groupby(tokens, lambda token: token.kind) if kind == "text"]
        side_by_side = [[token.text.strip("'\"`") for token in run] for run in runs]
        if any(len(parts) > 1 and _HIDDEN.fullmatch("".join(parts).lower()) for parts in (texts, *side_by_side)):
            flow.direct_findings.add(("SH602", place))
        called = [name for token, name in zip(names, dotted, strict=True) if _is_called(token, name)]
        called += [constant.lower() for constant in constants]
        called += ["write" for token in tokens if token.text == "<<"]  # into a file, or into a connection
        # Each once: a statement can repeat a name as often as it has room.
        output = self._calls(tokens, [*dict.fromkeys(called)], [*dict.fromkeys(known)], value, line)
        for result in (value, output):
            flow.join(result, ("returned", self._path, self._function) if self._function else 0)
            for target in _targets(tokens):
                flow.join(result, self._variable(target))

    def _calls(self, tokens: list[_Token], dotted: list[str], texts: list[str], value: Node, line: int) -> Node:
        """Add the calls of a statement, and return the node of what its commands print."""
        flow, place, output = self._flow, (self._path, line), 0
        addresses = [text.lower() for text in texts if _ADDRESS in text]
        # A well-known installer is no download.
        is_installer_only = bool(addresses) and all(map(is_installer, addresses))
        for name in dotted:
            for kind in _kinds(name, has_address=bool(addresses)):
                # Compiled languages have few functions that run a text or the bytes of a program.
                is_kept = kind != "eval" or self._language not in _COMPILED or _ACTS["loads code"].fullmatch(name)
                if is_kept and not (is_installer_only and kind.startswith("requests.")):
                    self._call(kind, value, line)
            last = name.rpartition(".")[2]
            if last in self._functions:
                flow.join(value, ("given", self._path, last))
                flow.join(("returned", self._path, last), value)
            if _ACTS["say"].fullmatch(name):
                flow.sink("say", value, place)
        if any(map(_ACTS["start"].fullmatch, dotted)):
            self._start(texts, line)
        self._write(tokens, dotted, texts, (value, line))
        if any(token.kind == "handle" for token in tokens):
            self._call("open", value, line)
        is_command = any(map(_ACTS["command"].fullmatch, dotted)) or not _OF_SHELL.isdisjoint(texts)
        if is_command or any(token.kind == "command" for token in tokens):
            self._call("os.system", value, line)
            flow.sink("whole line", 0 if texts else value, place)
            if (
                self._language not in _COMPILED
                or any(map(_SHELL.fullmatch, texts))
                or not _OF_SHELL.isdisjoint(texts)
            ):
                flow.sink("line", value, place)
            self._start(texts, line)
            commands = [_ONE_ARGUMENT.sub("", text).replace('\\"', '"') for text in texts]
            language = "powershell" if any(map(_POWERSHELL.fullmatch, texts)) else "shell"
            self.embedded += [(language, text, line - 1) for text in commands]
            output = flow.new()
            for text in commands:
                flow.output(text, output, place, ("answered",))  # a statement also gets what it assigns
            if any("eval" in _kinds(name, has_address=False) for name in dotted):
                flow.sink("eval", output, place)
        return output

    def _write(self, tokens: list[_Token], dotted: list[str], texts: list[str], at: tuple[Node, int]) -> None:
        """Add the files that a statement writes, and the tasks that it installs to run later."""
        value, line = at
        flow, place = self._flow, (self._path, line)
        if "register-scheduledtask" in dotted:
            flow.direct_findings.add(("SH406", place))
        writes = [name for name in dotted if _ACTS["write"].fullmatch(name)]
        if writes and (not all(map(_OPENS.fullmatch, writes)) or any(map(_MODE.fullmatch, texts))):
            flow.sink("write", value, place)
        paths = [text for text in texts if writes and _ADDRESS not in text and 0 < len(text) < 200]
        named = tokens if self._open else []
        names = [_dotted(token.text).partition(".")[0] for token in named if token.kind == "name"]
        for text in (*paths, *(path for name in dict.fromkeys(names) for path in self._open.get(name, ()))):
            flow.writes(value, text)
        self._open.update(dict.fromkeys(_targets(tokens) if paths else (), paths))

    def _call(self, kind: str, value: Node, line: int) -> None:
        returned = self._flow.new()
        self._flow.call(kind, value, returned, (self._path, line))
        self._flow.join(returned, value)

    def _start(self, texts: list[str], line: int) -> None:
        """Add the running of the files whose names stand at the start of texts."""
        for text in texts:
            started = text.split()[:2]
            is_shell = len(started) > 1 and started[0].rpartition("/")[2] in ("sh", "bash", "python", "python3")
            name = (started or [""])[is_shell].rpartition("/")[2].lower()
            self._flow.sink("start", ("written", name), (self._path, line))

    def _environment(self, tokens: list[_Token], value: Node, line: int) -> None:
        for number, token in enumerate(tokens):
            if token.kind == "environment":
                key = token.text.partition(":")[2] if "::" not in token.text else ""
                after = [token for token in tokens[number + 1 : number + 3] if token.kind in ("text", "name")]
                if not key and token.follows in ("[", "{", "(") and after:
                    key = after[0].text.strip("'\"$")
                self._flow.variable(key, value, (self._path, line))

    def _variable(self, name: str) -> Node:
        return self._path, "", name.partition(".")[0]


def _dotted(name: str) -> str:
    """Return a name in lower case, without sigils, with dots between its parts."""
    return re.sub(r"\]?::|->|&?\.", ".", name.lower()).strip("$@%. ?!<>")


def _kinds(name: str, *, has_address: bool) -> list[str]:
    """Return the kinds of a call, by its name; some names read a file, or fetch if the statement has an address."""
    kinds = [kind for kind, pattern in _CALLS if pattern.fullmatch(name)]
    if _ACTS["file or address"].fullmatch(name):
        kinds += ["requests.get", "open"] if has_address else ["open"]
    return kinds


def _is_called(token: _Token, name: str) -> bool:
    """Return whether a name may be a call, and not a variable or the name of an argument."""
    return (token.follows != ":" or name.startswith("contentsof")) and ("." in name or token.text[0] not in "$@%")


def _targets(tokens: list[_Token]) -> Iterator[str]:
    """Yield the names of the variables that a statement changes."""
    names = [_dotted(token.text) for token in tokens if token.kind == "name"]
    for before, name in pairwise(names):
        if before in ("my", "our", "local", "as", "foreach", "for", "do", "set") or (
            before == "destinationpath" and name != "env"
        ):
            yield name
    if any(map(_RECORDS.fullmatch, names)):
        yield from names
    index = next((number for number, token in enumerate(tokens) if token.kind == "set"), 0)
    if index:
        yield from (_dotted(token.text) for token in tokens[:index] if token.kind == "name")
    elif any(map(_ACTS["fill"].fullmatch, names)):
        yield from [_dotted(token.text) for token in tokens if token.kind == "name" and token.text[0] in "$@"][
            :1
        ] or names[names[:1] == ["open"] :][:1]
