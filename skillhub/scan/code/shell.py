"""Shell as tree-sitter reads it: commands, pipes, variables and files, added to the flow of the skill."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import tree_sitter
import tree_sitter_bash

from skillhub.formats.text import words
from skillhub.scan.code.decoded import unpacked
from skillhub.scan.code.flow import Flow, Node, Place

_WRAPPERS: Final = frozenset(words("sudo env nohup timeout xargs command exec time nice setsid builtin stdbuf doas"))
_SHELLS: Final = frozenset(words("sh bash zsh dash ksh"))
_LANGUAGES: Final = {
    "python": "python",
    "python3": "python",
    "node": "javascript",
    "bun": "javascript",
    "deno": "javascript",
}
# These take a line or a field out of what they read.
_PARTS: Final = frozenset(words("grep egrep cut awk sed jq yq"))
# Names that mean something else in another language.
_OTHERS: Final = frozenset(words("exec command system function mail http iex iwr irm invoke-expression"))
# Programs that print a key, and the kind of it.
_TOKENS: Final = tuple(
    (kind, re.compile(text))
    for kind, text in (
        ("of keychain", r"security (?:find-(?:generic|internet)-password(?!.* -\w*s)|dump-keychain)"),
        ("token gcloud", r"gcloud auth (?:application-default )?print-"),
        ("token github", r"gh auth token"),
        ("token azure", r"az account get-access-token"),
        ("token aws", r"aws (?:configure (?:get|export)|sts get-session-token)"),
    )
)
_FIXED: Final = re.compile(r"(?:^|[;&\s])(\w{1,40})=[\"']?([\w./-]{1,40})[\"']?(?=[\s;&]|$)")
_REMOTE: Final = re.compile(r"(?i)(?:socket|fsockopen).{0,300}(?:exec|popen|system|/bin/)")
_CODES: Final = re.compile(r"\\(?:[0-7]{3}|x[0-9A-Fa-f]{2})")
_WRITERS: Final = frozenset(words("cp mv tar zip gpg openssl tee 7z ditto"))
_PRINTS: Final = frozenset(words("env printenv set export declare typeset"))
# Behind these options stands a key that is used and not sent.
_KEPT: Final = re.compile(r"-[iEJ]|--(?:key|cert|cacert|identity|netrc-file|config|ssh-key)")
_READERS: Final = frozenset(words("curl wget scp sftp rsync nc ncat netcat gpg security plutil sort paste"))
_BODIES = ("heredoc_body", "herestring_redirect")


@cache
def _parser() -> Any:  # noqa: ANN401 - tree-sitter's, as all nodes here
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


# What the parser cannot read takes it time with the square of its length: bytes of that, steps in it, and of a piece.
_UNREAD_MAX: Final = 12_000
_ERRORS_MAX: Final = 24
_PIECE: Final = 3_000
_WHOLE_MAX: Final = 1 << 16


def _trees(data: bytes) -> list[tuple[Any, int]]:
    """Return the tree of a script, or the trees of its pieces if much of it cannot be read; and the lines before."""
    if len(data) <= _PIECE:
        return [(_parser().parse(data), 0)]
    trees, unread = [], 0
    for piece, line in _pieces(data):
        trees.append((_parser().parse(piece), line))
        unread += len(piece) * trees[-1][0].root_node.has_error
    tree = _whole(data) if unread <= _UNREAD_MAX and len(data) <= _WHOLE_MAX else None
    return [*trees, *_by_line(data, trees)] if tree is None else [(tree, 0)]


def _by_line(data: bytes, trees: list[tuple[Any, int]]) -> Iterator[tuple[Any, int]]:
    """Yield each line of the pieces that could not be read: no error reaches from one to the next."""
    lines = data.split(b"\n")
    for tree, first in trees:
        if tree.root_node.has_error:
            for number in range(first, first + tree.root_node.end_point[0] + 1):
                if number < len(lines) and b" " in lines[number].strip():
                    yield _parser().parse(lines[number][:_PIECE]), number


def _whole(data: bytes) -> Any:  # noqa: ANN401 - of tree-sitter
    errors = 0

    def is_enough(_offset: int, has_error: bool) -> bool:
        nonlocal errors
        errors += has_error
        return errors > _ERRORS_MAX

    try:
        return _parser().parse(lambda at, _point: data[at : at + 256], progress_callback=is_enough)
    except ValueError:  # the parser would go on where it stopped
        _parser().reset()
        return None


def _pieces(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield a script in pieces, up to the end of a function or line where one is near, and the lines before each."""
    line = at = 0
    while at < len(data):
        end = min(at + _PIECE, len(data))
        if end < len(data):
            ends = (data.rfind(each, at, end) + len(each) for each in (b"\n}\n", b"\n\n", b"\n"))
            end = next((each for each in ends if each > at + _PIECE // 3), end)
        yield data[at:end], line
        line += data.count(b"\n", at, end)
        at = end


class Script:
    """A script, or a command that another program runs.

    Attributes:
        embedded: Programs of other languages and shells that stand in it: language, text, line.
    """

    def __init__(self, flow: Flow, path: str, line: int, feed: Node = 0) -> None:
        self.embedded: list[tuple[str, str, int]] = []
        self._flow, self._path, self._line, self._feed = flow, path, line, feed
        self._functions: set[str] = set()
        self._fixed: dict[str, str] = {}
        self._at = 0
        # A node of the tree, what its value goes into, what is read from the pipe before it, the function it is in.
        self._stack: list[tuple[Any, Node, Node, str]] = []

    def read(self, text: str) -> bool:
        """Add what it does, and say whether all of it was understood."""
        self._fixed = dict(_FIXED.findall(text))
        trees = _trees(text.encode("utf-8", "replace"))
        for tree, self._at in trees:
            self._walk(tree.root_node)
        self._at = 0
        return not any(tree.root_node.has_error for tree, _ in trees)

    def _walk(self, root: Any) -> None:  # noqa: ANN401 - of tree-sitter
        out: Node = ("file", self._path.rpartition("/")[2].lower())
        self._stack = [(root, out, self._feed, "")]
        while self._stack:
            node, into, feed, function = self._stack.pop()
            handler = getattr(self, f"_on_{node.type}", None)
            if handler:
                handler(node, into, feed, function)
            else:
                self._inner(node, into, feed, function)

    def _inner(self, node: Any, into: Node, feed: Node, function: str) -> None:  # noqa: ANN401 - of tree-sitter
        self._stack.extend((each, into, feed, function) for each in reversed(node.named_children))

    def _place(self, node: Any) -> Place:  # noqa: ANN401
        return self._path, self._line + self._at + int(node.start_point[0]) + 1

    def _name(self, name: str) -> Node:
        return self._path, "$", name

    def _on_comment(self, *_given: object) -> None:
        pass

    def _on_variable_assignment(self, node: Any, _into: Node, feed: Node, function: str) -> None:  # noqa: ANN401
        value = self._flow.new()
        self._flow.join(value, self._name(_text(node.child_by_field_name("name"))))
        if (given := node.child_by_field_name("value")) is not None:
            self._stack.append((given, value, feed, function))

    def _on_variable_name(self, node: Any, into: Node, _feed: Node, function: str) -> None:  # noqa: ANN401
        name = _text(node)
        if function and (name.isdigit() or name in "@*"):
            self._flow.join(("given", self._path, function), into)
        self._flow.join(self._name(name), into)
        self._flow.variable(name, into, self._place(node))

    _on_special_variable_name = _on_variable_name

    def _on_word(self, node: Any, into: Node, _feed: Node, _function: str) -> None:  # noqa: ANN401
        self._flow.text(_text(node).replace("\\", "").lstrip("@"), into, self._place(node))

    def _on_string_content(self, node: Any, into: Node, _feed: Node, _function: str) -> None:  # noqa: ANN401
        self._flow.text(_text(node).lstrip("@"), into, self._place(node))

    def _on_raw_string(self, node: Any, into: Node, _feed: Node, _function: str) -> None:  # noqa: ANN401
        self._flow.text(_text(node)[1:-1].lstrip("@"), into, self._place(node))

    def _on_ansi_c_string(self, node: Any, into: Node, _feed: Node, _function: str) -> None:  # noqa: ANN401
        text = re.sub(r"\\x([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), _text(node)[2:-1])
        self._flow.text(text, into, self._place(node), is_hidden="\\x" in _text(node))

    def _on_concatenation(self, node: Any, into: Node, feed: Node, function: str) -> None:  # noqa: ANN401
        bare = re.sub(r"\$\{?HOME\}?|['\"\\]", "", _text(node))
        self._flow.text(bare.lstrip("@"), into, self._place(node))
        self._inner(node, into, feed, function)

    def _on_string(self, node: Any, into: Node, feed: Node, function: str) -> None:  # noqa: ANN401
        self._on_concatenation(node, into, feed, function)

    def _on_for_statement(self, node: Any, into: Node, feed: Node, function: str) -> None:  # noqa: ANN401
        value = self._flow.new()
        name, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        self._flow.join(value, self._name(_text(name)))
        for each in node.named_children:
            if each not in (name, body):
                self._stack.append((each, value, feed, function))
        if body is not None:
            self._stack.append((body, into, feed, function))

    def _on_function_definition(self, node: Any, _into: Node, feed: Node, _function: str) -> None:  # noqa: ANN401
        name = _text(node.child_by_field_name("name"))
        self._functions.add(name)
        self._stack.append((node.child_by_field_name("body"), ("returned", self._path, name), feed, name))

    def _on_pipeline(self, node: Any, into: Node, feed: Node, function: str) -> None:  # noqa: ANN401
        parts = node.named_children
        for each in parts[:-1]:
            after = self._flow.new()
            self._stack.append((each, after, feed, function))
            feed = after
        self._stack.extend((each, into, feed, function) for each in parts[-1:])

    def _on_redirected_statement(self, node: Any, into: Node, feed: Node, function: str) -> None:  # noqa: ANN401
        inner, fed = self._flow.new(), self._flow.new()
        self._flow.join(inner, into)
        self._flow.join(feed, fed)
        body = node.child_by_field_name("body")
        for each in node.named_children:
            if each.type == "file_redirect":
                self._redirect(each, inner, fed, function)
            elif each.type == "heredoc_redirect":
                self._stack.extend(
                    (part, fed, feed, function) for part in each.named_children if part.type == "heredoc_body"
                )
                following = [part for part in each.named_children if part.type in ("pipeline", "command")]
                self._stack.extend((part, into, inner, function) for part in following)
                self._script(body, [_text(part) for part in each.named_children if part.type == "heredoc_body"], node)
            elif each.type == "herestring_redirect":
                self._stack.append((each, fed, feed, function))
        if body is not None:
            self._stack.append((body, inner, fed, function))

    def _redirect(self, node: Any, inner: Node, fed: Node, function: str) -> None:  # noqa: ANN401
        target = node.child_by_field_name("destination")
        if target is None:
            return
        if node.children and any(each.type.startswith("<") for each in node.children):
            self._flow.reads(fed)
            self._stack.append((target, fed, 0, function))
        else:
            self._flow.join(inner, ("file", _text(target).strip("'\"").rpartition("/")[2].lower()))

    def _on_process_substitution(self, node: Any, into: Node, feed: Node, function: str) -> None:  # noqa: ANN401
        self._inner(node, into, feed, function)

    def _on_command(self, node: Any, into: Node, feed: Node, function: str) -> None:  # noqa: ANN401
        words = [
            each
            for each in node.named_children
            if each.type not in ("variable_assignment", "file_redirect", *_BODIES)
        ]
        at = 0
        while at + 1 < len(words) and (
            _bare(words[at]) in _WRAPPERS or (at and re.match(r"-|\d+[smh]?$", _bare(words[at])))
        ):
            at += 1
        if not words:
            return
        spelled = _bare(words[at])
        name, rest = self._expanded(spelled).rpartition("/")[2].lower(), words[at + 1 :]
        texts = [_bare(each) for each in rest]
        given, returned = self._flow.new(), self._flow.new()
        self._flow.join(returned, into)
        place = self._place(node)
        self._spelled(spelled, name, place)
        is_kept = False
        for each, text in zip(rest, texts, strict=True):
            if not is_kept:
                self._stack.append((each, given, feed, function))
            is_kept = name != "tar" and _KEPT.fullmatch(text) is not None
        for each in node.named_children:
            if each.type in ("variable_assignment", *_BODIES):
                self._stack.append((each, given, feed, function))
            elif each.type == "file_redirect":
                self._redirect(each, returned, given, function)
        if words[at].named_children and words[at].named_children[0].type != "word":
            self._stack.append((words[at], given, feed, function))
        is_program = name in (*_SHELLS, *_LANGUAGES) and any(re.fullmatch(r"-\w*[ce]|--eval", text) for text in texts)
        self._flow.join(feed, returned if is_program else given)  # a program that is given reads it, and is not it
        if name in self._functions:
            self._flow.join(given, ("given", self._path, name))
            self._flow.join(("returned", self._path, name), returned)
            return
        self._files(_bare(words[at]), texts, returned, place)
        self._meaning(name, texts, (given, returned), _text(node), place)
        self._inner_programs(name, texts, rest, feed)
        if name == "read":
            for text in texts:
                self._flow.join(given, self._name(text))

    def _spelled(self, word: str, name: str, place: Place) -> None:
        if word.count("$") > 1 and name in (*_SHELLS, *_LANGUAGES, *_READERS, "eval", "base64"):
            self._flow.found.add(("SH602", place))

    def _expanded(self, word: str) -> str:
        return re.sub(r"\$\{?(\w{1,40})\}?", lambda found: self._fixed.get(found[1], found[0]), word)

    def _meaning(self, name: str, texts: list[str], nodes: tuple[Node, Node], raw: str, place: Place) -> None:
        given, returned = nodes
        flow, line = self._flow, " ".join(texts[:20])
        if name in _READERS or (name == "find" and "-exec" in texts):
            flow.reads(given)
        self._prints(name, texts, returned, place)
        if _decodes(name, texts, raw):
            flow.call("b64decode", given, returned, place)
        elif name in ("eval", "source", ".") or (
            name in (*_SHELLS, *_LANGUAGES) and re.search(r"(?:^| )(?:-\w*[ce]|--eval)\b", line)
        ):
            flow.call("eval" if name == "eval" or name in _SHELLS else "|", given, returned, place)
        elif name in (*_SHELLS, *_LANGUAGES) and (not texts or texts[0] in ("-s", "-", "/dev/stdin")):
            flow.call("eval" if raw.startswith("$") else "|", given, returned, place)
        elif name not in _OTHERS:
            is_part = name in _PARTS and not re.search(r"(?i)key|token|secret|passw|cred", line)
            flow.call(name, given, returned, place, is_part=is_part)
        else:
            flow.join(given, returned)

    def _prints(self, name: str, texts: list[str], returned: Node, place: Place) -> None:
        """Say that a command returns the environment or a key, or is a shell for somebody else."""
        flow, line = self._flow, " ".join(texts[:20])
        if name in _PRINTS and all(text in ("-p", "-x", "-0", "-px") for text in texts):
            flow.variable("", returned, place)
        for kind, printed in _TOKENS:
            if printed.match(f"{name} {line}"):
                flow.mark(kind, returned, place)
        if name in ("perl", "ruby", "php", "lua") and _REMOTE.search(line):
            flow.found.add(("SH402", place))

    def _files(self, program: str, texts: list[str], returned: Node, place: Place) -> None:
        """Say what is in the files that a command writes, and that a hidden one is run."""
        name = program.rpartition("/")[2]
        options = {"curl": ("-o", "--output"), "wget": ("-O", "--output-document")}.get(name, ())
        written = [text for before, text in zip(["", *texts], texts, strict=False) if before in options]
        written += [text for text in texts if name in _WRITERS and not text.startswith("-")]
        for text in written:
            self._flow.join(returned, ("file", text.rstrip("/").rpartition("/")[2].lower()))
        run = program if "/" in program else texts[0] if name in _SHELLS and texts else ""
        if (base := run.rpartition("/")[2].lower()).startswith(".") and len(base) > 1:
            self._flow.sink("run-file", ("file", base), place)

    def _inner_programs(self, name: str, texts: list[str], rest: list[Any], feed: Node) -> None:
        language = "shell" if name in _SHELLS or name == "eval" else _LANGUAGES.get(name, "")
        options = [number for number, text in enumerate(texts[:-1]) if re.fullmatch(r"-\w*[ce]|--eval", text)]
        number = 0 if name == "eval" and texts else options[0] + 1 if options else None
        if language and number is not None:
            text = _unquoted(rest[number])
            self.embedded.append((language, text, self._line + self._at + int(rest[number].start_point[0])))
        if name in ("echo", "printf") and len(texts) == 1:
            found = unpacked(texts[0].strip("'\"").encode("utf-8", "replace"))
            if found:
                self._flow.again(found.decode("latin-1"), self._place(rest[0]))

    def _script(self, body: Any, texts: list[str], node: Any) -> None:  # noqa: ANN401
        name = (
            _bare(body.child_by_field_name("name")).rpartition("/")[2]
            if body is not None and body.type == "command"
            else ""
        )
        language = "shell" if name in _SHELLS else _LANGUAGES.get(name, "")
        if language:
            self.embedded.extend(
                (language, text, self._line + self._at + int(node.start_point[0]) + 1) for text in texts
            )


def _decodes(name: str, texts: list[str], raw: str) -> bool:
    """Say whether a command returns what it is given in another encoding."""
    if name in ("printf", "echo"):
        return len(_CODES.findall(raw)) > 5
    if name in ("gunzip", "zcat", "rev", "uudecode"):
        return True
    option = {"base64": r"-\w*[dD]|--decode", "xxd": r"-\w*r\w*", "openssl": r"-d", "gzip": r"-\w*d\w*"}
    found = option.get({"gbase64": "base64", "base32": "base64", "basenc": "base64"}.get(name, name))
    return found is not None and any(re.fullmatch(found, text) for text in texts)


def _text(node: Any) -> str:  # noqa: ANN401 - of tree-sitter
    return str(node.text.decode("utf-8", "replace")) if node is not None else ""


def _bare(node: Any) -> str:  # noqa: ANN401 - of tree-sitter
    return _text(node).replace("\\", "").strip("'\"") if node is not None else ""


def _unquoted(node: Any) -> str:  # noqa: ANN401 - of tree-sitter
    text = _text(node)
    if text[:1] == '"' == text[-1:]:
        return re.sub(r"\\([\"$`\\])", r"\1", text[1:-1])
    return text[1:-1] if text[:1] == "'" == text[-1:] else text
