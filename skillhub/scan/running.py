"""Which files of a skill run, and by which programs."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from typing import Final

from skillhub.formats.text import deferred, words
from skillhub.model.tree import SKILL_MD, File
from skillhub.scan.pattern import RUN_BY_NAME, WHOLE_NAMES, suffix_of
from skillhub.scan.views import EXECUTABLE_MAGIC, Letters

SCRIPTS: Final = "scripts/"
# The folder ``scripts`` also contains data that scripts read.
_DATA_FILES = (*words(".md .txt .json .yaml .yml .toml .xml .xsd .csv .tsv .css .svg .png .jpg .ttf"),)
_DOCKERFILE = deferred(r"(?:dockerfile|containerfile)[.-].*|.*[.-](?:dockerfile|containerfile)")
_RUNS_THERE = deferred(r"(?:^|/)(?:\.husky|\.githooks|\.git/hooks|\.github/(?:workflows|actions)|\.circleci)/")
_PAGES = (".html", ".htm", ".xhtml", ".svg")
# A browser decodes and cleans the address of a link before it looks for `javascript:`.
_PAGE_RUNS = deferred(
    rb"<(?:\w+:)?script|<(?:i?frame|object|embed|applet|portal)\b|<meta\b[^<>]{0,200}\brefresh\b|\bsrcdoc\b"
    rb"|[\s/\"']on\w{3,30}\s*=|javascript:|=[\s\"']*(?:&(?:#|tab|newline)|j[a-z]{0,9}[&\t\r\n])",
    re.IGNORECASE,
)
# With these keys alone, npm runs and downloads nothing.
_INERT_KEYS = frozenset(
    words(
        "name version private type description license author contributors keywords homepage repository bugs funding"
    )
)

# Amp starts the MCP servers in the first of these files of a skill, OpenHands those in the second. Claude Code takes
# a folder among its skills for a plugin if it has the next file, and starts these parts by itself; the file may name
# others by these keys.
_SERVERS = ("mcp.json", ".mcp.json")
_PLUGIN = ".claude-plugin/plugin.json"
_PARTS = deferred(
    r"hooks/hooks\.json|\.lsp\.json|settings\.json|(?:monitors|bin)/.+|(?:agents|commands)/.+\.md", re.DOTALL
)
_PART_KEYS = frozenset(words("hooks mcpServers lspServers monitors experimental channels agents commands settings"))

# A command in the instructions can run any file of the skill: `bash references/setup.txt`.
PROGRAMS = (
    r"(?:[bz]a|z|da|k|fi|c|tc|a|rba|ya|mk|xon|elvi)?sh|python[0-9.]*|pypy3?|ipython3?|node|bun|deno|ruby|perl|php"
    r"|Rscript|pwsh|powershell|lua[0-9.]*|luajit|julia|osascript|[cw]script|tsx|ts-node|tclsh|expect|groovy|java|crontab"
    r"|busybox|racket|guile|sbcl|clojure|elixir|escript|ocaml|crystal|swift|scala|jshell|octave|gnuplot|coffee|dart"
    r"|run(?:ghc|haskell)|kotlinc|nu|bats|ansible-playbook|k6|mshta|regsvr32|rundll32"
)
# The interpreter of a file comes before it, after its own options, of which each may have a value.
_OPTIONS = r"(?:(?:run|-jar|--|[-+][\w.=-]*(?:[ \t]+(?!\S*[./])[\w=,:+-]+)?)[ \t]+){0,9}"
_PATH = r"(?:<[ \t]*)?(?:[\"'](?:[^\"'`|;&<>\n]*/)?|(?:\\ |[^\s\"'`|;&<>()])*/)?\Z"
_BEFORE = (
    rf"(?<![\w/.-])(?:{PROGRAMS}|source|\.|uv|go[ \t]+run|exec|xargs|nohup|nice|chmod|rustc|gcc|g\+\+|clang"
    r"|(?:make|just|g?awk|mawk|sed|R|psql|at|docker[ \t]+build)[ \t]+(?:-\S+[ \t]+){0,4}-(?:f|-file|-justfile)[ \t=]?"
    r"|(?:vim?|nvim|emacs|gdb|sbcl|node)[ \t]+(?:-S|-l|-x|-r|--load|--script|--require))[ \t]+"
    rf"{_OPTIONS}{_PATH}"
    # Its text becomes the code: `eval "$(cat notes.txt)"`, `bash -c "$(< notes.txt)"`, `source <(cat notes.txt)`.
    r"|(?<![\w/.-])(?:eval|exec|iex|invoke-expression)\b[^\n;]{0,99}\("
    rf"|(?<![\w/.-])(?:{PROGRAMS}|source|\.)[ \t]+(?:-\S+[ \t]+){{0,5}}(?:<<<[ \t]*)?[\"']?[<$]\("
    rf"|(?<![\w/.-])(?:BASH_ENV|ENV|LD_PRELOAD|PYTHONSTARTUP)={_PATH}"
)
_UNDER = r"(?:(?:sudo|xargs|env)[ \t]{1,9}(?:-\S{1,20}[ \t]{1,9}){0,5}){0,3}"
_AFTER = rf"(?![\w/-]|\.\w)(?:[\"']?[ \t]{{0,9}}\|[ \t]{{0,9}}{_UNDER}({PROGRAMS})\b)?"
# A copy of it has the name of a program, or a later command runs the copy.
_COPIES = deferred(r"(?<![\w/.-])(?:cp|mv|ln|install|cat|tee|copy|ditto)[ \t][^\n;|&`]{0,99}\Z")
_COPY = deferred(
    r"[\"']?[ \t]++(?:>{1,2}[ \t]*+)?[\"']?(?:[^\s;|&<>]*/)?"
    r"(?:[^\s;|&<>/]*\.(?:\w{0,3}sh|py|[cm]?[jt]s|rb|pl|php|lua|ps1|bat|cmd)\b"
    r"|([^\s;|&<>/\"']+)[\"']?(?:\s*+[;&]|[ \t\r]*+\n)\s*+(?s:.{0,199}?)"
    rf"(?<![\w/.-])(?:{PROGRAMS}|source|chmod|\./)[^;|&\n]{{0,99}}\1)"
)
# A program that runs any file: `for each in notes/*; do sh "$each"`, `sh notes/*.txt`, `find notes | xargs sh`.
_OF_DOCUMENTS = r"(?:\.(?:\w*[*?]\w*|txt|md|json|ya?ml|html?|csv|xml))?(?![\w.*?/-])"
_ANY_FILE = rf"(?:[\w.${{}}-]*/[\w.-]*[*?][\w*?-]*|\*){_OF_DOCUMENTS}"
_VARIABLE = r"\"?\$(?:\w+|\{\w+\})(?![\w/.{-])"
_RUNS_ANY = deferred(
    rf"(?<![\w/.-])(?:(?:{PROGRAMS}|source|(?:(?<=[;&|(`] )|(?<=do ))\.)[ \t]+(?:{_VARIABLE}"
    rf"|(?:-\S{{1,20}}[ \t]+){{0,5}}(?:{_VARIABLE}\"?[ \t]*(?:$|[;&|`)])|{_ANY_FILE}))"
    rf"|(?:xargs|-exec)[ \t]+(?:-\S{{1,20}}[ \t]+){{0,5}}(?:{PROGRAMS})(?=[ \t]*(?:$|[;&|`{{]))|run-parts[ \t])"
    rf"|/[\w-]*\*{_OF_DOCUMENTS}[ \t]*\|[ \t]*{_UNDER}(?:{PROGRAMS})\b(?![ \t]+-[mc])"
)
# A sign of it in each line with such a program, whose search is much faster.
_ANY_SIGN = deferred(
    r"\$(?<=[ \t\"]\$)(?!\*)|\*(?<=[ \t\"]\*)(?!\*)|/[\w.-]*[*?]|xargs[ \t]|-exec[ \t]|run-parts[ \t]"
)
_ANY_LETTERS = ("$", "*", "?", "xargs", "-exec", "run-parts")  # of which each match has one
_JOINED = deferred(r"\\\r?\n")
_WORD = deferred(r"\w+")
# No honest text is longer, or names a file more often.
_TEXT_MAX = 1 << 18
_TIMES_MAX = 100
_WORK_MAX = 1 << 28


def running(tree: Mapping[str, File], body: Letters, letters: Callable[[str], Letters]) -> list[str]:
    """Return the paths of the files that run, in the order of the tree; data of the folder ``scripts`` is none.

    Args:
        tree: The skill.
        body: The instructions.
        letters: Returns the letters of a file without NUL, by its path.
    """
    run = {path for path, file in tree.items() if _runs(path, file)}
    documents = _Documents(tree.keys() - run - {SKILL_MD})
    named = documents.run_by([body])
    waiting = sorted(run | named | {path for path in tree if path.startswith(SCRIPTS)})
    while waiting and documents.left:
        more = documents.run_by(letters(path) for path in waiting if len(tree[path].data) <= _TEXT_MAX)
        named |= more
        waiting = sorted(more)
    return [path for path in tree if path in run or path in named]


def _runs(path: str, file: File) -> bool:
    """Return whether a file runs, by its execute bit, its folder, its first bytes or its name."""
    folded = path.lower()
    name = folded.rpartition("/")[2]
    return (
        (path.startswith(SCRIPTS) and not folded.endswith(_DATA_FILES) and file.data.strip() != b"")
        or file.executable
        or file.data.startswith((b"#!", b"\xef\xbb\xbf#!"))
        or suffix_of(folded) in RUN_BY_NAME
        or name in WHOLE_NAMES
        or (file.data.startswith(EXECUTABLE_MAGIC) and b"\0" in file.data)
        or (folded.endswith(_PAGES) and _PAGE_RUNS.search(file.data.replace(b"\0", b"")) is not None)
        or (name == "package.json" and not _is_inert_package(file.data))
        or _DOCKERFILE.fullmatch(name) is not None
        or _RUNS_THERE.search(folded) is not None
    )


def _is_inert_package(data: bytes) -> bool:
    with suppress(ValueError, RecursionError):
        package = json.loads(data)
        return isinstance(package, dict) and package.keys() <= _INERT_KEYS
    return False


class _Documents:
    """The files that do not run by themselves, by the last word of their names.

    Only the name of a file counts: the folder of a command is unknown (`cd "$(…)/references" && bash setup.txt`).
    """

    def __init__(self, paths: Set[str]) -> None:
        self.left = set(paths)
        self._work = _WORK_MAX
        self._by_name: defaultdict[str, list[str]] = defaultdict(list)
        self._by_word: defaultdict[str, dict[str, Set[bytes]]] = defaultdict(dict)
        for path in paths:
            name = path.rpartition("/")[2]
            self._by_name[name].append(path)
            # A text with the name has its ASCII words, but the first one may be the end of a longer word there.
            self._by_word[_last_word(name)][name] = {*_words(name)[1:]}
        self._parts = {word: max(_words(word), key=len, default=b"") for word in self._by_word}

    def run_by(self, texts: Iterable[Letters]) -> set[str]:
        """Return the remaining paths that a command in a text runs; all of them if the text is too long to search."""
        paths: set[str] = set()
        for letters in texts:
            if not self.left:
                break
            text = letters.data.decode("utf-8", "replace")
            hits = [word for word, part in self._parts.items() if not part or part in letters.words]
            self._work -= sum(len(self._by_word[word]) for word in hits) * len(text)
            names = {name for word in hits for name, needed in self._by_word[word].items() if needed <= letters.words}
            joined = _JOINED.sub(" ", text)
            if len(text) > _TEXT_MAX or self._work < 0 or _runs_any(joined):
                new = self.left
            else:
                run = [name for name in names if _is_run(name, joined)]
                text_words = {"", *_WORD.findall(joined)} if run else set()
                new = {path for name in run if _last_word(name) in text_words for path in self._by_name[name]}
                new &= self.left
            paths |= new
            self.left = self.left - new
        return paths


def _last_word(name: str) -> str:
    return str((_WORD.findall(name) or [""])[-1])


def _words(name: str) -> list[bytes]:
    return re.findall(rb"[a-z0-9]+", name.encode("utf-8", "replace").lower())


def _runs_any(text: str) -> bool:
    """Return whether a command in a text runs files that it names by a variable, a pattern or a folder."""
    end = 0 if any(literal in text for literal in _ANY_LETTERS) else len(text)
    while sign := _ANY_SIGN.search(text, end):
        start, end = text.rfind("\n", 0, sign.start()) + 1, text.find("\n", sign.end())
        end = end if end >= 0 else len(text)
        if _RUNS_ANY.search(text, start, end):
            return True
    return False


def _is_run(name: str, body: str) -> bool:
    """Return whether a command in a text runs a file of this name; True if the text names it more than 100 times."""
    offset = -1
    for _ in range(_TIMES_MAX):
        offset = body.find(name, offset + 1)
        if offset < 0:
            return False
        after = re.compile(_AFTER).match(body, offset + len(name))
        start = max(offset - 200, 0)
        line = body[body.rfind("\n", start, offset) + 1 or start : offset]
        if after and (after[1] or re.search(_BEFORE, line)):
            return True
        if after and _COPIES.search(line) and _COPY.match(body, offset + len(name)):
            return True
    return True


# A command up to the name of the file that it runs, and a program that reads a pipe.
_STARTS = deferred(PROGRAMS + r"|source|\.|uv")
_SUBSTITUTION = deferred(r"\$\([^()\n]{0,200}\)")
_BETWEEN_COMMANDS: Final = "|;&(`{"
_VERSION = deferred(r"(?<=[a-z])[\d.]+$|\.exe$")
_PIPED = deferred(r"[^\n`;]{0,300}?\|&?[ \t]*(?:(?:sudo|env|exec|command)[ \t]+)*([\w./-]{1,60})")
_COMMAND_MAX: Final = 4000
_NAME = deferred(rb"[^\s\"'`|;&<>()/\\]+")
# More names in a text are looked up by its words; a name that stands there more often counts as run by each program.
_NAMES_MAX: Final = 200
_PLACES_MAX: Final = 1000
_EACH: Final = frozenset(("python", "sh", "node"))


def starters(paths: Iterable[str], texts: Iterable[Letters]) -> Mapping[str, Set[str]]:
    """Return the programs by which commands in the texts run the files of some paths, by their names."""
    paths_of: defaultdict[bytes, list[str]] = defaultdict(list)
    by_word: defaultdict[bytes, set[bytes]] = defaultdict(set)
    for path in paths:
        name = path.rpartition("/")[2].lower().encode("utf-8", "replace")
        paths_of[name].append(path)
        by_word[max(_words(path.rpartition("/")[2]), key=len, default=b"")].add(name)
    found: defaultdict[bytes, set[str]] = defaultdict(set)
    for text in texts:
        names = {name for word in by_word.keys() & (text.words | {b""}) for name in by_word[word]}
        for name in names.intersection(_NAME.findall(text.lowered)) if len(names) > _NAMES_MAX else names:
            found[name] |= _starters(text.lowered, name)
    return {path: programs for name, programs in found.items() if programs for path in paths_of[name]}


def _starters(text: bytes, name: bytes) -> Set[str]:
    programs, offset, places = set[str](), text.find(name), 0
    while offset >= 0:
        places += 1
        if places > _PLACES_MAX:
            return _EACH
        start = max(offset - _COMMAND_MAX, 0)
        start = max(text.rfind(b"\n", start, offset) + 1, start)
        before = text[start:offset].decode("utf-8", "replace")
        before = _SUBSTITUTION.sub("$", before) if "$(" in before else before
        command = before[max(map(before.rfind, _BETWEEN_COMMANDS)) + 1 :]
        options = command.split() if command[-1:].isspace() else command.split()[:-1]
        # Options stand between the program and the file, each with its value or not.
        while options and not _STARTS.fullmatch(_program(options[-1])):
            word = options.pop()
            is_option = word in ("<", "run") or "-" in (word[:1], *(before[:1] for before in options[-1:]))
            options = options if is_option else []
        programs.update(_program(word) for word in options[-1:])
        end = offset + len(name)
        piped = _PIPED.match(text[end : end + _COMMAND_MAX].decode("utf-8", "replace"))
        if piped and _STARTS.fullmatch(_program(piped[1])):
            programs.add(_program(piped[1]))
        offset = text.find(name, end)
    return programs


def _program(word: str) -> str:
    name = word.strip("\"'").rpartition("/")[2]
    return _VERSION.sub("", name) or name


def started_parts(tree: Mapping[str, File]) -> tuple[str, ...]:
    """Return the files of a skill from which an agent starts hooks, servers and other agents by itself."""
    paths = {path.lower(): path for path in tree}  # on a disk without upper and lower case any spelling counts
    servers = tuple(paths[each] for each in _SERVERS if each in paths)
    if _PLUGIN not in paths:
        return servers
    try:
        keys = {*json.loads(tree[paths[_PLUGIN]].data)}
    except (ValueError, TypeError, RecursionError):
        keys = {*_PART_KEYS}  # skillhub cannot know what it names
    named = () if keys.isdisjoint(_PART_KEYS) else (paths[_PLUGIN],)
    return (*servers, *named, *(path for lower, path in paths.items() if _PARTS.fullmatch(lower)))
