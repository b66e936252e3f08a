"""A shell script, parsed by tree-sitter: adds its commands, pipes, variables and files to the flow of the skill."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain
from typing import Any, Final

import tree_sitter
import tree_sitter_bash

from skillhub.formats.text import words
from skillhub.scan.code.decoded import unpacked
from skillhub.scan.code.flow import WORDS, Flow, Node, Place
from skillhub.scan.code.trees import PIECE, Effort, pieces, whole
from skillhub.scan.pattern import ELSEWHERE, GAP_MAX, WRAPPERS, is_installer

# An option of a wrapper, a time or a variable; and an option whose value is the next word: `sudo -u root bash`.
_BEFORE_PROGRAM: Final = re.compile(r"-|\d+[smh]?$|\w+=")
_OF_WRAPPER: Final = re.compile(r"-[ugaI]|--user|--group")
_ANY_SCRIPT: Final = "*"  # in place of a path
_NAMES_OF_PLACE: Final = 2  # words before the program that name a user, a folder or a container
_SHELLS: Final = frozenset(words("sh bash zsh dash ksh"))
_LANGUAGES: Final = {
    "python": "python",
    "python3": "python",
    "node": "javascript",
    "bun": "javascript",
    "deno": "javascript",
    "ruby": "ruby",
    "perl": "perl",
    "php": "php",
    "pwsh": "powershell",
    "powershell": "powershell",
    "powershell.exe": "powershell",
}
# These commands print a line or a field of their input.
_PARTS: Final = frozenset(words("grep egrep cut awk sed jq yq"))
# Names of commands that are also names of functions in another language.
_OTHERS: Final = frozenset(words("exec command system function http iex iwr irm invoke-expression"))
_FIXED: Final = re.compile(
    r"(?:^|[;&\s])(\w{1,40})=(?:\"([^\"`\n]{1,400})\"|'([^'\n]{1,400})'|([\w./-]{1,40}))(?=[\s;&]|$)"
)
# A variable in a word; of so many, the values are put into the word.
_USED: Final = re.compile(r"\$\{?(\w{1,40})\}?")
_USED_MAX: Final = 20
_ALIAS: Final = re.compile(r"\balias\s{1,4}(?:--\s{1,4})?(\w{1,40})=")
# Words that a shell expands to others: `{curl,-s}`, `c$'\x75'rl`, `/bin/c?rl`.
_BRACED: Final = re.compile(r"((?:^|[|;&(`\n])[ \t]{0,20})\{([\w./-]{1,40}),([^{}\s|;&]{0,400})\}")
_ANSI_C: Final = re.compile(r"\$'([^']{0,400})'")
# What a shell drops from a word; and a name that is split by it: `ba""sh`, `s\h`.
_QUOTES: Final = re.compile(r"\$?[\"']|\\")
_SPLIT: Final = re.compile(r"[a-z0-9](?:\$?[\"']|\\){1,40}[a-z0-9][a-z0-9\"'\\]{0,40}$")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|[uU]([0-9A-Fa-f]{4})|([0-7]{1,3}))")
_REMOTE: Final = re.compile(r"(?i)(?:socket|fsockopen).{0,300}(?:exec|popen|system|/bin/)")
_CODES: Final = re.compile(r"\\(?:[0-7]{3}|x[0-9A-Fa-f]{2})")
_ALL_CODES: Final = re.compile(r"(?:1[0-7]{2}|x[2-7][0-9A-Fa-f]){2,}")  # of letters, without the signs before them
_WRITERS: Final = WORDS["writers"]
_PRINTS: Final = frozenset(words("env printenv set export declare typeset"))
# After these options follows a key that the command uses and does not send.
_KEPT: Final = re.compile(r"-[iEJ]|--(?:key|cert|cacert|identity|netrc-file|config|ssh-key)")
_READERS: Final = frozenset(words("curl wget scp sftp rsync nc ncat netcat gpg security plutil sort paste"))
_PROGRAMS: Final = (*sorted(_SHELLS), *_LANGUAGES, *sorted(_READERS), "eval", "base64")
# Commands that send their files, except the last one if it is a path on this machine.
_UPLOADS: Final = re.compile(
    r"rclone (?:copy|sync|move)|(?:aws|mc) (?:s3 )?(?:cp|sync|mv|mirror) |gsutil (?:-m )?(?:cp|rsync|mv) "
    r"|gh gist create |(?:croc|wormhole) send |ipfs add |(?:scp|rsync|lftp|tftp|smbclient|mutt|telnet) "
    r"|openssl s_client |(?:https?|xhs?) (?:\S{1,60} ){0,4}?(?:post|put|POST|PUT) "
)
_CONTAINERS: Final = frozenset(words("docker podman nerdctl kubectl oc lxc incus"))
_COPIERS: Final = frozenset(words("scp rsync rclone aws mc gsutil"))
_LEAVERS: Final = frozenset(words("tar rsync"))  # they leave out what --exclude names
_HERE: Final = re.compile(r"[\"']?(?:[~./]|\$\{?HOME)")
_SECRET_FOLDER: Final = re.compile(r"\.(?:ssh|aws|gnupg|kube|azure|docker|config/gcloud|electrum|solana)(?:/|$)")
# A file descriptor; code that awk passes to a shell, and data that awk gets from the network.
_DESCRIPTOR: Final = re.compile(r"(?:/dev/fd/|/proc/self/fd/)?(\d{1,3})")
# Options with which curl and wget fetch what an address gives, and nothing else.
_PLAIN: Final = re.compile(r"-[fsSLqoO]{0,6}-?|--(?:proto|tlsv1\.[23]|location|fail|silent|show-error|quiet)|=?https")
_AWKS: Final = frozenset(words("awk gawk mawk nawk"))
_PIPES_TO_SHELL: Final = re.compile(
    r"\|\s{0,4}\"(?:/\w{1,8}){0,3}/?(?:ba|da|z|k)?sh\"|\bsystem\s{0,4}\(\s{0,4}(?:\$|\w{1,20}\s{0,4}\))"
)
_PIPES_FROM_FETCH: Final = re.compile(r"\"(?:curl|wget)\s[^\"\n]{1,200}\"\s{0,4}\|&?\s{0,4}getline")
# Commands that install a command to run later, or one that git runs.
_RUNS_LATER: Final = re.compile(
    r"crontab (?:-u \S{1,40} )?(?:-$|[^-\s])|systemctl (?=.*--user\b)(?=.*\benable\b)|schtasks(?:\.exe)? /create\b"
    r"|launchctl (?:load|bootstrap)\b|reg(?:\.exe)? add (?=.*currentversion/run)"
    r"|git config (?:-\S{1,20} )*credential\.helper !"
    r"|git config (?:-\S{1,20} )*core\.(?:fsmonitor (?!true|false)|sshcommand (?!ssh\b)|hookspath [~/$])\S"
)
_BODIES = ("heredoc_body", "herestring_redirect")
_OUTPUTS: Final = frozenset(("command_substitution", "process_substitution", "simple_expansion", "expansion"))
# Options of curl and wget by which the command prints no program: it saves the answer, or asks only for its head.
_PRINTS_NOTHING: Final = re.compile(r"\s(?:-\w{0,6}[oO]|--output)[ =]{0,2}[\w/]|\s(?:-\w{0,6}I|--head)\b")
# Commands that print what they get from the network. The patterns of a line know only curl and wget.
_FETCHES: Final = re.compile(
    r"(?:lynx|e?links|w3m|aria2c|fetch|ftp|get|lwp-request|https?|xhs?|nc|ncat|netcat|ssh|dig|drill|nslookup|host|telnet"
    r"|socat|openssl s_client|(?:aws s3|gsutil|mc) (?:cp|cat)|rclone cat|git archive) "
)
# A picture, or the script itself, in which the text of a program is hidden; and the commands that print a part of it.
_HIDDEN_IN: Final = re.compile(
    r"(?:if=)?\S{0,200}\.(?:png|jpe?g|gif|ico|webp|bmp|pdf|mp3|wav|woff2?)|\$\{?(?:0|BASH_SOURCE\S{0,20})\}?"
)
_PRINT_PARTS: Final = frozenset(words("cat tail head dd strings sed grep awk cut exiftool steghide zsteg"))


@cache
def _parser() -> Any:  # noqa: ANN401 - tree-sitter's, as all nodes here
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


# The parser takes quadratic time for text with syntax errors. Limits: bytes of such text, errors in a whole script,
# and bytes of a script that is parsed as a whole.
_UNREAD_MAX: Final = 12_000
_ERRORS_MAX: Final = 24
_WHOLE_MAX: Final = 1 << 16


def _trees(data: bytes, effort: Effort) -> list[tuple[Any, int]]:
    """Return the tree of a script, or trees of its pieces if much of it has errors, each with the lines before it."""
    trees, unread = [], 0
    for piece, line in pieces(data):
        if effort.is_spent:
            break
        trees.append((effort.parse(_parser(), piece), line))
        unread += len(piece) * trees[-1][0].root_node.has_error
    is_whole = len(trees) > 1 and unread <= _UNREAD_MAX and len(data) <= _WHOLE_MAX
    tree = whole(_parser(), data, _ERRORS_MAX) if is_whole else None
    return [*trees, *_line_trees(data, trees, effort)] if tree is None else [(tree, 0)]


def _line_trees(data: bytes, trees: list[tuple[Any, int]], effort: Effort) -> Iterator[tuple[Any, int]]:
    """Yield the tree of each line in the pieces with errors, so that an error in one line does not affect another."""
    lines = data.split(b"\n")
    roots = [(tree.root_node, first) for tree, first in trees if tree.root_node.has_error]
    numbers = [range(first, first + root.end_point[0] + 1) for root, first in roots]
    for number in dict.fromkeys(chain.from_iterable(numbers)):  # a long line is in many pieces
        if number < len(lines) and b" " in lines[number].strip() and not effort.is_spent:
            yield effort.parse(_parser(), lines[number][:PIECE]), number


class Script:
    """A script, or a command that another program runs.

    Attributes:
        embedded: The programs that the script passes to an interpreter or a shell: language, text, line.
    """

    def __init__(self, flow: Flow, path: str, line: int, effort: Effort) -> None:
        self.embedded: list[tuple[str, str, int]] = []
        self._flow, self._path, self._line, self._effort = flow, path, line, effort
        self._functions: set[str] = set()
        self._sourced: list[str] = []  # ``_ANY_SCRIPT`` once it has sourced one, whose functions it may call
        self._constants: dict[str, str] = {}
        self._aliases: set[str] = set()
        self._folder = ""
        self._above = 0
        # A node of the tree, the node into which its value flows, the node of its input, the function around it.
        self._stack: list[tuple[Any, Node, Node, str]] = []

    def read(self, text: str) -> bool:
        """Add what it does, and say whether all of it was understood."""
        self._constants = {name: "".join(values) for name, *values in _FIXED.findall(text)}
        self._aliases = set(_ALIAS.findall(text))
        text = _BRACED.sub(lambda match: f"{match[1]}$'{match[2]}' {match[3].replace(',', ' ')}", text)
        trees = _trees(text.encode("utf-8", "replace"), self._effort)
        for tree, self._above in trees:
            self._walk(tree.root_node)
        self._above = 0
        return not any(tree.root_node.has_error for tree, _ in trees)

    def _walk(self, root: Any) -> None:  # noqa: ANN401 - of tree-sitter
        out: Node = ("file", self._path.rpartition("/")[2].lower())
        self._stack = [(root, out, 0, "")]
        while self._stack:
            node, into, feed, function = self._stack.pop()
            visit = getattr(self, f"_on_{node.type}", self._visit_children)
            visit(node, into, feed, function)

    def _visit_children(self, node: Any, into: Node, feed: Node, function: str) -> None:  # noqa: ANN401 - of tree-sitter
        self._stack.extend((child, into, feed, function) for child in reversed(node.named_children))

    def _place(self, node: Any) -> Place:  # noqa: ANN401
        return self._path, self._line + self._above + int(node.start_point[0]) + 1

    def _name(self, name: str) -> Node:
        return self._path, "$", name

    def _on_comment(self, *_ignored: object) -> None:
        pass

    def _on_variable_assignment(self, node: Any, _into: Node, feed: Node, function: str) -> None:  # noqa: ANN401
        value = self._flow.new()
        self._flow.join(value, self._name(_text(node.child_by_field_name("name"))))
        if (expression := node.child_by_field_name("value")) is not None:
            self._stack.append((expression, value, feed, function))

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
        text = _unescape(_text(node))
        self._flow.text(text, into, self._place(node), is_hidden=text != _text(node)[2:-1])

    def _on_concatenation(self, node: Any, into: Node, feed: Node, function: str) -> None:  # noqa: ANN401
        bare = re.sub(r"\$\{?HOME\}?|['\"\\]", "", _text(node))
        self._flow.text(bare.lstrip("@"), into, self._place(node))
        self._visit_children(node, into, feed, function)

    _on_string = _on_concatenation

    def _on_for_statement(self, node: Any, into: Node, feed: Node, function: str) -> None:  # noqa: ANN401
        value = self._flow.new()
        name, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        self._flow.join(value, self._name(_text(name)))
        for child in node.named_children:
            if child not in (name, body):
                self._stack.append((child, value, feed, function))
        if body is not None:
            self._stack.append((body, into, feed, function))

    def _on_function_definition(self, node: Any, _into: Node, feed: Node, _function: str) -> None:  # noqa: ANN401
        name = _text(node.child_by_field_name("name"))
        self._functions.add(name)
        self._flow.join(("given", _ANY_SCRIPT, name), ("given", self._path, name))
        self._flow.join(("returned", self._path, name), ("returned", _ANY_SCRIPT, name))
        self._stack.append((node.child_by_field_name("body"), ("returned", self._path, name), feed, name))

    def _on_pipeline(self, node: Any, into: Node, feed: Node, function: str) -> None:  # noqa: ANN401
        parts = node.named_children
        for part in parts[:-1]:
            output = self._flow.new()
            self._stack.append((part, output, feed, function))
            feed = output
        self._stack.extend((part, into, feed, function) for part in parts[-1:])

    def _on_redirected_statement(self, node: Any, into: Node, feed: Node, function: str) -> None:  # noqa: ANN401
        inner, fed = self._flow.new(), self._flow.new()
        self._flow.join(inner, into)
        self._flow.join(feed, fed)
        body = node.child_by_field_name("body")
        for item in node.named_children:
            if item.type == "file_redirect":
                self._redirect(item, inner, fed, function)
            elif item.type == "heredoc_redirect":
                self._stack.extend(
                    (part, fed, feed, function) for part in item.named_children if part.type == "heredoc_body"
                )
                following = [part for part in item.named_children if part.type in ("pipeline", "command")]
                self._stack.extend((part, into, inner, function) for part in following)
                texts = [_text(part) for part in item.named_children if part.type == "heredoc_body"]
                for part in (body, *following):  # the last command of a pipeline runs what `cat` passes on
                    self._script(part.named_children[-1] if part and part.type == "pipeline" else part, texts, node)
            elif item.type == "herestring_redirect":
                self._stack.append((item, fed, feed, function))
        if body is not None:
            self._stack.append((body, inner, fed, function))

    def _redirect(self, node: Any, inner: Node, fed: Node, function: str) -> None:  # noqa: ANN401
        target = node.child_by_field_name("destination")
        if target is None:
            return
        if node.children and any(child.type.startswith("<") for child in node.children):
            self._flow.reads(fed)
            self._flow.unseen(fed)
            if _bare_text(target).startswith(("/dev/tcp/", "/dev/udp/")):
                self._flow.mark("fetched", fed, self._place(node))
            self._stack.append((target, fed, 0, function))
            if number := _text(node.child_by_field_name("descriptor")):
                self._stack.append((target, ("descriptor", self._path, number), 0, function))
            if copied := _DESCRIPTOR.fullmatch(_text(target)):
                self._flow.join(("descriptor", self._path, copied[1]), fed)
        elif target.type == "process_substitution":
            self._stack.append((target, self._flow.new(), inner, function))
        else:
            self._saves(inner, _text(target).strip("'\""))
            self._writes(_bare_text(target), self._place(node))

    def _saves(self, value: Node, path: str) -> None:
        """Add the file at a path, which has the value, and the variable that stands for the path."""
        self._flow.join(value, ("file", path.rstrip("/").rpartition("/")[2].lower()))
        if used := _USED.fullmatch(path):
            self._flow.join(value, self._name(used[1]))

    def _writes(self, path: str, place: Place) -> None:
        """Add that a file is written."""
        target, used = self._flow.new(), _USED.fullmatch(path)
        self._flow.text(self._expand(path), target, place)
        self._flow.join(self._name(used[1]) if used else 0, target)
        self._flow.sink("write", target, place)

    def _on_command(self, node: Any, into: Node, feed: Node, function: str) -> None:  # noqa: ANN401
        words = [
            word
            for word in node.named_children
            if word.type not in ("variable_assignment", "file_redirect", *_BODIES)
        ]
        if not words:
            return
        index = _program_at([_bare_text(word) for word in words])
        operands = words[index + 1 :]
        texts = [_bare_text(operand) for operand in operands]
        arguments, returned = self._flow.new(), self._flow.new()
        self._flow.join(returned, into)
        place = self._place(node)
        name, is_disguised = self._program(_text(words[index]), place)
        run, is_disguised = self._program(texts[0], place) if self._is_fixed(name, texts) else (name, is_disguised)
        if is_disguised or node.end_byte - node.start_byte > GAP_MAX:  # longer than the patterns reach
            self._flow.unseen(returned)
        self._stack.extend((argument, arguments, feed, function) for argument in _used(name, operands, texts))
        for child in node.named_children:
            if child.type in ("variable_assignment", *_BODIES):
                self._stack.append((child, arguments, feed, function))
            elif child.type == "file_redirect":
                self._redirect(child, returned, arguments, function)
        if words[index].named_children and words[index].named_children[0].type != "word":
            program = self._flow.new()
            self._flow.join(program, arguments)
            self._stack.append((words[index], program, feed, function))
            if _is_output(words[index]) and not _PRINTS_NOTHING.search(_text(words[index])):
                self._flow.sink("eval", program, place)
        is_program = name in (*_SHELLS, *_LANGUAGES) and any(re.fullmatch(r"-\w*[ce]|--eval", text) for text in texts)
        self._flow.join(feed, returned if is_program else arguments)  # a program in an option reads the pipe as data
        self._add_function(name, arguments, returned)
        if name in self._functions:
            return
        if name in ("source", "."):
            self._sourced = [_ANY_SCRIPT]
        self._add_files(_bare_text(words[index]), texts, returned, place)
        self._add_call(run, texts, (arguments, returned), f"${run}" if is_disguised else _text(node), place)
        self._add_secret_files(name, texts, arguments, place)
        self._inner_programs(name, texts, operands, feed)
        if name == "read":
            for text in texts:
                self._flow.join(arguments, self._name(text))

    def _add_function(self, name: str, arguments: Node, returned: Node) -> None:
        """Add the call of a function of this script, or of those that it sourced."""
        for home in [self._path] if name in self._functions else self._sourced:
            self._flow.join(arguments, ("given", home, name))
            answer = self._flow.new()
            self._flow.unseen(answer)
            self._flow.join(("returned", home, name), answer, part=home != self._path)
            self._flow.join(answer, returned)

    def _program(self, raw: str, place: Place) -> tuple[str, bool]:
        """Return the name of the program that a word runs, and whether the word differs from that name."""
        plain = _unescape(raw)
        word = _QUOTES.sub("", plain)
        line = self._constants.get(word, word) if word in self._aliases else self._expand(word)
        name = (line.split() or [""])[0].rpartition("/")[2].lower()
        is_odd = plain != raw or word.count("$") > 1 or _SPLIT.search(raw.lower()) is not None
        is_glob = "?" in word or "[" in word or "*" in word.partition("/")[2]
        if is_glob and len(name) < 20 and re.search(r"[a-z]", name):
            guess = next((program for program in _PROGRAMS if fnmatchcase(program, name)), name)
            name, is_odd = guess, is_odd or guess != name
        if is_odd and name in (*_PROGRAMS, "cat", "head", "tail", "less"):
            self._flow.direct_findings.add(("SH602", place))
        return name, is_odd or line != word

    def _is_fixed(self, name: str, texts: list[str]) -> bool:
        return name == "eval" and bool(texts) and self._expand(texts[0]) != texts[0]

    def _expand(self, word: str) -> str:
        return _USED.sub(lambda match: self._constants.get(match[1], match[0]), word, count=_USED_MAX)

    def _add_secret_files(self, name: str, texts: list[str], arguments: Node, place: Place) -> None:
        """Add the files of a secret folder that the script entered, and what ``git push`` publishes."""
        if name in ("cd", "pushd") and texts:
            is_whole = _HERE.match(texts[0]) and not texts[0].startswith(".")
            self._folder = (texts[0] if is_whole else f"{self._folder}/{texts[0]}")[-200:]
        elif _SECRET_FOLDER.search(self._folder) and name not in ("ls", "chmod", "mkdir"):
            for text in texts:
                if "@" in text or (text[:1] not in ("-", "") and name not in _READERS):
                    self._flow.text(f"{self._folder}/{text.rpartition('@')[2]}", arguments, place)
        if name == "git" and "push" in texts:
            self._flow.sink("publish", ("tree", self._path), place)

    def _add_call(self, name: str, texts: list[str], nodes: tuple[Node, Node], raw: str, place: Place) -> None:
        arguments, returned = nodes
        flow, line = self._flow, " ".join(texts)
        is_upload = _UPLOADS.match(f"{name} {line}") is not None
        if name in _READERS or is_upload or (name == "find" and "-exec" in texts):
            flow.reads(arguments)
        if is_upload:
            flow.call("rsync", arguments, returned, place)
        self._add_output(name, texts, returned, place)
        if _FETCHES.match(f"{name} {line} "):
            flow.mark("fetched", returned, place)
            flow.unseen(returned)
        opened = _DESCRIPTOR.fullmatch(texts[0]) if texts and name in (*_SHELLS, *_LANGUAGES, "source", ".") else None
        if opened:
            flow.call("eval", ("descriptor", self._path, opened[1]), returned, place)
        elif name in _AWKS and _PIPES_TO_SHELL.search(line):
            if _PIPES_FROM_FETCH.search(line):
                flow.direct_findings.add(("SH105", place))
            flow.call("eval", arguments, returned, place)
        elif _decodes(name, texts, raw):
            flow.call("b64decode", arguments, returned, place)
        elif name in ("eval", "source", ".", "trap") or (
            name in (*_SHELLS, *_LANGUAGES) and re.search(r"(?:^| )(?:-\w*[ce]|--eval)\b", line)
        ):
            flow.call("|" if name in _LANGUAGES else "eval", arguments, returned, place)
        elif name in (*_SHELLS, *_LANGUAGES) and (
            not texts or texts[0] in ("-s", "-", "/dev/stdin") or texts[0].startswith("<(")
        ):
            flow.call("eval" if raw.startswith("$") else "|", arguments, returned, place)
            flow.sink("input", arguments, place)
        elif name not in _OTHERS and not (name in ("curl", "wget") and _is_installer(texts)):
            is_part = name in _PARTS and not re.search(r"(?i)key|token|secret|passw|cred|--arg\b", line)
            flow.call(name, arguments, returned, place, is_part=is_part)
        else:
            flow.join(arguments, returned)

    def _add_output(self, name: str, texts: list[str], returned: Node, place: Place) -> None:
        """Add the environment or a key that a command prints, or the finding that it is a remote shell."""
        flow, line = self._flow, " ".join(texts)
        if name in _PRINTS and all(text in ("-p", "-x", "-0", "-px") for text in texts):
            flow.variable("", returned, place)
        flow.printed(f"{name} {line}", returned, place)
        if _RUNS_LATER.match(f"{name} {line}".lower().replace("\\", "/")):
            flow.direct_findings.add(("SH406", place))
        if name in _PRINT_PARTS and any(map(_HIDDEN_IN.fullmatch, texts)):
            flow.mark("hidden", returned, place)
        if name in ("perl", "ruby", "php", "lua") and _REMOTE.search(line):
            flow.direct_findings.add(("SH402", place))

    def _add_files(self, program: str, texts: list[str], returned: Node, place: Place) -> None:
        """Add the files that a command writes, and the running of a hidden file."""
        name = program.rpartition("/")[2]
        options = {"curl": ("-o", "--output"), "wget": ("-O", "--output-document")}.get(name, ())
        written = [text for before, text in zip(["", *texts], texts, strict=False) if before in options]
        written += [text for text in texts if name in _WRITERS and not text.startswith("-")]
        for text in written:
            self._saves(returned, text)
        if name == "tee" or (name in ("cp", "mv", "ln", "install") and texts) or (name == "sed" and "-i" in texts):
            for text in texts if name == "tee" else texts[-1:]:
                self._writes(text, place)
        if name in ("cp", "mv", "rsync", "tar") and texts and not re.match(r"[~/$\"']", texts[-1]):
            self._flow.join(returned, ("tree", self._path))
        if name in (*_SHELLS, *_LANGUAGES, "source", "."):
            script = self._flow.new()
            self._flow.text(next((text for text in texts if text[:1] != "-"), ""), script, place)
            self._flow.sink("program", script, place)
        run = program if "/" in program else texts[0] if name in _SHELLS and texts else ""
        if (base := run.rpartition("/")[2].lower()).startswith(".") and len(base) > 1:
            self._flow.sink("run-file", ("file", base), place)

    def _inner_programs(self, name: str, texts: list[str], words: list[Any], feed: Node) -> None:
        run = texts if name in _CONTAINERS else []
        for at in [index for index, text in enumerate(run) if text.rpartition("/")[2] in _SHELLS][:1]:
            name, texts, words = texts[at].rpartition("/")[2], texts[at + 1 :], words[at + 1 :]
        language = "shell" if name in _SHELLS or name == "eval" else _LANGUAGES.get(name, "")
        option = {"php": r"-\w*r", "powershell": r"(?i)-c(?:ommand)?", "shell": r"-\w*c"}.get(
            language, r"-\w*[ce]|--eval"
        )
        options = [number for number, text in enumerate(texts[:-1]) if re.fullmatch(option, text)]
        number = 0 if name == "eval" and texts else options[0] + 1 if options else None
        if language and number is not None:
            text = self._expand(_unquoted(words[number])) if name == "eval" else _unquoted(words[number])
            self.embedded.append((language, text, self._line + self._above + int(words[number].start_point[0])))
        for word in words if name in ("echo", "printf") else ():
            if (script := _unquoted(word)).startswith("#!"):
                self.embedded.append(("shell", script.replace("\\n", "\n"), self._place(word)[1]))
        if name in ("echo", "printf") and len(texts) == 1:
            plain = unpacked(texts[0].strip("'\"").encode("utf-8", "replace"))
            if plain:
                self._flow.search_text(plain.decode("latin-1"), self._place(words[0]))

    def _script(self, body: Any, texts: list[str], node: Any) -> None:  # noqa: ANN401
        commands = map(_bare_text, body.named_children if body is not None and body.type == "command" else ())
        name = next((word for word in commands if word not in WRAPPERS and word[:1] != "-"), "").rpartition("/")[2]
        language = "shell" if name in _SHELLS else _LANGUAGES.get(name, "")
        if language:
            self.embedded.extend(
                (language, text, self._line + self._above + int(node.start_point[0]) + 1) for text in texts
            )


def _program_at(words: list[str]) -> int:
    """Return the position of the program that a command runs, after other commands that run it."""
    names = [word.rpartition("/")[2] for word in words]
    index = 0
    while index + 1 < len(words):
        if names[index] in ELSEWHERE:
            found = _interpreter_at(words, names, index + 1)
            if not found:
                return index
            index = found
        elif names[index] in WRAPPERS or (
            index and (_BEFORE_PROGRAM.match(words[index]) or _OF_WRAPPER.fullmatch(words[index - 1]))
        ):
            index += 1
        else:
            return index
    return index


def _interpreter_at(words: list[str], names: list[str], start: int) -> int:
    """Return the position of an interpreter, or of a wrapper, after options and names of a place; 0 if none."""
    others = 0
    for index in range(start, len(words)):
        if names[index] in _SHELLS or names[index] in _LANGUAGES or names[index] in WRAPPERS:
            return index
        others += not words[index].startswith("-")
        if others > _NAMES_OF_PLACE:
            return 0
    return 0


def _is_installer(texts: list[str]) -> bool:
    """Return whether the arguments of curl or wget name the installers of well-known projects, and nothing else."""
    urls = [text for text in texts if "://" in text]
    is_plain = all(text in urls or _PLAIN.fullmatch(text) for text in texts)
    return bool(urls) and is_plain and all(is_installer(url.lower()) for url in urls)


def _is_output(word: Any) -> bool:  # noqa: ANN401 - of tree-sitter
    """Return whether a word is nothing but the output of a command or the value of a variable."""
    while word.type in ("command_name", "string") and len(word.named_children) == 1:
        word = word.named_children[0]
    return word.type in _OUTPUTS


def _used(name: str, operands: list[Any], texts: list[str]) -> Iterator[Any]:
    """Yield the arguments that a command reads or sends: not the key of a login, nor the local target of a copy."""
    is_kept = False
    for operand, text in zip(operands, texts, strict=True):
        is_target = name in _COPIERS and operand is operands[-1] and _HERE.match(_text(operand))
        is_left_out = name in _LEAVERS and text.startswith("--exclude")
        if not (is_kept or is_target or is_left_out):
            yield operand
        is_kept = (
            (is_left_out and text == "--exclude")
            or (name != "tar" and _KEPT.fullmatch(text) is not None)
            or (name, text) == ("rsync", "-e")
        )


def _decodes(name: str, texts: list[str], raw: str) -> bool:
    """Return whether a command decodes or re-encodes its input."""
    if name in ("printf", "echo"):
        return len(_CODES.findall(raw)) > 5 or any(map(_ALL_CODES.fullmatch, texts))
    if name in ("gunzip", "zcat", "rev", "uudecode"):
        return True
    if name == "gpg" and "--passphrase" not in texts:  # a person types the passphrase of a file of their own
        return False
    if name == "tr" and len(texts) > 1:  # replaces letters by others, or deletes letters
        is_said = texts[0][:1] != "-" or texts[0] == "-d"
        is_class = "\\" in raw or "[:" in raw or texts[0].lower() == texts[1].lower()
        return is_said and not is_class and re.search(r"[A-Za-z]", texts[1]) is not None
    option = {"base64": r"-\w*[dD]|--decode", "xxd": r"-\w*r\w*", "openssl": r"-d", "gzip": r"-\w*d\w*"}
    option |= {"gpg": r"-d|--decrypt", "unzip": r"-\w*p", "7z": r"-so"}
    pattern = option.get({"gbase64": "base64", "base32": "base64", "basenc": "base64"}.get(name, name))
    return pattern is not None and any(re.fullmatch(pattern, text) for text in texts)


def _unescape(text: str) -> str:
    """Return a word with the escapes of `$'..'` resolved."""
    return _ANSI_C.sub(lambda match: _ESCAPE.sub(_escaped_char, match[1]), text) if "$'" in text else text


def _escaped_char(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16) if code else int(match[3], 8))


def _text(node: Any) -> str:  # noqa: ANN401 - of tree-sitter
    return str(node.text.decode("utf-8", "replace")) if node is not None else ""


def _bare_text(node: Any) -> str:  # noqa: ANN401 - of tree-sitter
    return _text(node).replace("\\", "").strip("'\"") if node is not None else ""


def _unquoted(node: Any) -> str:  # noqa: ANN401 - of tree-sitter
    text = _text(node)
    if text[:1] == '"' == text[-1:]:
        return re.sub(r"\\([\"$`\\])", r"\1", text[1:-1])
    return text[1:-1] if text[:1] == "'" == text[-1:] else text
