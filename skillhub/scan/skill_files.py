"""The files of a skill as detectors read them; each is parsed at most once, when a detector first needs it.

A detector is a function that takes the ``SkillFiles`` of a skill and yields ``Sighting``s. It searches the bytes
first (``has``, in lower case), and only if they match asks for structure: the prose and the blocks of code of a
Markdown file, or the result of a parser of its own (``parsed``, cached for later calls).
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from html import unescape
from importlib.util import find_spec
from typing import Any, Final, Literal, TypeVar
from unicodedata import normalize

from skillhub.formats.text import deferred
from skillhub.model.finding import Sighting
from skillhub.model.tree import SKILL_MD, File, Tree
from skillhub.scan.pattern import Language, is_read, language_of, language_of_file
from skillhub.scan.views import EXECUTABLE_MAGIC, Letters, Literals, decoded, is_text, strings, words_around

# A longer document is read line by line: no third-party parser gets a text on which it could take long.
PARSED_MAX = 1 << 17
# Bytes of text that are read of a skill; of other data, which takes less time, twice as many.
TEXT_MAX: Final = 1 << 23
# Lines to parse in all documents of a skill together. Honest skills have a tenth of that; more would take seconds.
LINES_MAX = 20_000
Kind = Literal["prose", "heading", "code", "html"]
_T = TypeVar("_T")

# Files from which build tools, continuous integration, agents and editors take shell commands.
_RECIPES: Final = deferred(
    r"(?:.*/)?(?:"
    r"(?P<json>(?:package|composer|deno|turbo|\.?mcp|hooks|settings|settings\.local|tasks|devcontainer|plugin|opencode)\.json)"
    r"|(?P<yaml>(?:(?:\.github/(?:workflows|actions)|\.circleci)/.*"
    r"|(?:.*/)?(?:tasks|handlers|playbooks)/.*|site|playbook[\w-]*|action|\.gitlab-ci|taskfile|(?:docker-)?compose|\.pre-commit-config)\.ya?ml|procfile)"
    r"|(?P<dockerfile>(?:dockerfile|containerfile)(?:[.-].*)?|.*[.-](?:dockerfile|containerfile))"
    r"|(?P<makefile>(?:gnu|bsd)?makefile|.*\.mk|\.?justfile)"
    r"|(?P<settings>(?:tox\.ini|setup\.cfg|pyproject\.toml|mise\.toml|\.codex/config\.toml|.*\.service))"
    r"|(?P<crontab>crontab|(?:.*/)?cron\.d/.*)"
    r"|(?P<notebook>.*\.ipynb)"
    r"|(?P<shell>(?:\.husky|\.githooks|\.git/hooks)/[^./]+|\.envrc|\.(?:bash|zsh)rc|\.(?:bash_|z)?profile))"
)
# A frontmatter, of which the part from its hooks on is the group.
HOOKS: Final = deferred(
    r"\ufeff?---[ \t]*\r?\n(?>(?:(?!---|[\"']?hooks[\"']?[ \t]*:).*\n)*)([\"']?hooks\b(?>(?:[^\n]++|\n(?!---))*))"
)
# Emphasis and characters that are not displayed; between two letters they do not separate words.
_UNSEEN: Final = "*\u00ad\u200b\u200c\u200d\u2060\ufeff"
# A Greek or Cyrillic letter beside another character of its word. The engine skips to the letter, since it is first.
_MEETING = deferred(r"[\u0370-\u04ff](?:(?=[^\W\u0370-\u04ff])|(?<=[^\W\u0370-\u04ff].))", re.DOTALL)
_REST_OF_WORD = deferred(r"\w+")
_MIXED_MAX: Final = 40
# A word of Latin letters and of Greek or Cyrillic ones that look the same.
_MIXED = deferred(r"(?<!\w)(?=\w{0,40}[a-z])(?=\w{0,40}[\u0370-\u04ff])\w{2,40}")
_LOOK_ALIKE: Final = str.maketrans("аеорсухіјѕԁһкмтνορ", "aeopcyxijsdhkmtvop")
# For each character that folding changes in some word, the text that replaces it.
_REPLACEMENTS: Final = {
    **{chr(look_alike): chr(latin) for look_alike, latin in _LOOK_ALIKE.items()},
    **{chr(look_alike).upper(): chr(latin) for look_alike, latin in _LOOK_ALIKE.items()},
    **dict.fromkeys(_UNSEEN, ""),
    **{"\u0130": "i ", "\u212a": "k"},
}
_REPLACED: Final = str.maketrans(_REPLACEMENTS)
# The same characters in UTF-8 without those of ASCII (emphasis), each with the rest of its word.
_BY_LEAD: Final = defaultdict[bytes, bytes](bytes)
for _encoded in (char.encode() for char in _REPLACEMENTS if not char.isascii()):
    _BY_LEAD[_encoded[:-1]] += _encoded[-1:]
_REPLACED_BYTES: Final = b"|".join(b"%b[%b]" % row for row in _BY_LEAD.items())
_REPLACED_IN_WORD = deferred(rb"(?:%b)(?>(?:[A-Za-z0-9*]++|%b)*)" % (_REPLACED_BYTES, _REPLACED_BYTES))
# Small capitals, for which Unicode has no decomposition.
_SMALL: Final = str.maketrans(
    "\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d\u0274\u1d0f\u1d18\u0280\ua731\u1d1b\u1d1c\u1d20\u1d21\u028f\u1d22",
    "abcdefghijklmnoprstuvwyz",
)
# Letters of Latin in other shapes: full-width, circled, of mathematics, small. In UTF-8 by their first bytes.
_SHAPED = deferred(
    f"[{''.join(map(chr, _SMALL))}\u2100-\u214f\u24b6-\u24e9\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff]"
)
_SHAPED_LEADS: Final = tuple(map(bytes.fromhex, ["e284", "e293", "e292", "efbc", "efbd", "f09d", "e1b4", "c9", "ca"]))
# Markup of a document that a reader does not see, each with its first character, to which the engine skips.
_TAG = deferred(r"<(?:/?[a-z]|!--)[^<>]{0,300}>")
_TAG_IN_WORD = deferred(rb"<(?<=\w<)(?:/?[A-Za-z]|!--)[^<>]{0,300}>(?=[\w<])|&(?<=\w&)(?:#|shy)|&(?=#\w{1,6};\w)")
_BREAKS: Final = ("<br", "<p", "<li", "<td", "<tr", "<div", "</p", "</li", "</td", "</tr", "</div")
_LINK = deferred(r"\[([^\[\]\n]{1,200})\]\([^()\n]{0,400}\)")
_UNDERLINE = deferred(r"_(?:(?=_)|(?!\w)|(?<![^\W_]_))|~~")
_MARGIN = deferred(r"\n[ \t>]{1,40}")
_BARS: Final = str.maketrans(dict.fromkeys("|\u00a6\u00b7\u2022", " "))  # between the cells of a row, or words
_BLANKS = deferred(r"[ \t]{2,}")
# Blanks and apostrophes of Unicode, and what means the same.
_SAME: Final = {
    **dict.fromkeys(["\u00a0", "\u1680", *map(chr, range(0x2000, 0x200B)), "\u202f", "\u205f", "\u3000"], " "),
    **dict.fromkeys("\u2018\u2019\u02bc\uff07", "'"),
}
_FENCE = deferred(r" {0,3}(`{3,}|~{3,})[ \t]*([^\s`{,]{0,40})")
_HEADING = deferred(r" {0,3}#{1,6}[ \t]")
# The end of a line within a paragraph: the next line begins no item, row, heading, fence or key.
_WRAP = deferred(r"\n(?<=\S\n)(?!```|~~~|\d{1,9}[.)][ \t]|[\w.-]{1,40}+:[ \t\n]|[-*+][ \t]|[\s|#<]|\Z)")
_BEGINS = deferred(r"[ \t]{0,12}(?:#{1,6}[ \t]|[-*+][ \t]|\d{1,9}[.)][ \t])")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a file: a paragraph, a heading, a block of code, or a whole script.

    Attributes:
        language: The language of the code; ``other`` for a block that names no language.
        text: The content without fences and quotation marks.
        line: The number of its first line.
        heading: The heading above it; empty in a script.
    """

    kind: Kind
    language: Language
    text: str
    line: int
    heading: str = ""


class SourceFile:
    """One file of a skill.

    Args:
        path: The path.
        data: The bytes.
        lines_left: How many lines of the skill's documents may still be parsed; the rest is read line by line.

    Attributes:
        path: The path within the skill.
        data: The bytes.
        is_program: Whether the file is a compiled program by its first bytes; its name does not count.
        language: The language, by the suffix or else the first line; a file with neither is a document.
        is_document: Whether people and agents read the file as prose.
        recipe: The kind of a file from which another program takes shell commands; None for any other file.
    """

    def __init__(self, path: str, data: bytes, lines_left: list[int] | None = None) -> None:
        self.path = path
        self.data = data
        self.is_program = data.startswith(EXECUTABLE_MAGIC)
        self.language = language_of_file(path.lower(), data)
        self.is_document = self.language == "markdown"
        match = _RECIPES.fullmatch(path.lower())
        self.recipe = match.lastgroup if match else None
        self._lines_left = lines_left if lines_left is not None else [LINES_MAX]
        self._parsed: dict[Any, Any] = {}

    @cached_property
    def is_text(self) -> bool:
        """Whether the file is UTF-8 without NUL."""
        return is_text(self.data)

    @cached_property
    def is_binary(self) -> bool:
        """Whether the file is neither text nor read or run as text."""
        return not self.is_text and not is_read(self.path, self.data)

    @cached_property
    def letters(self) -> Letters:
        """The letters of the bytes, of a binary file those of its strings."""
        return Letters(strings(self.data) if self.is_binary else self.data)

    @cached_property
    def without_nul(self) -> Letters:
        """The same of the bytes without NUL, as a shell reads them."""
        if b"\0" not in self.data:
            return self.letters
        return Letters(self.letters.data.translate(None, b"\0"), self.letters)

    @cached_property
    def _readable(self) -> bytes:
        """The bytes of ``letters`` without NUL; UTF-16 and UTF-32 (by byte order mark or NUL bytes) as UTF-8."""
        return next(decoded(self.data), self.without_nul.data) if b"\0" in self.data else self.letters.data

    @cached_property
    def letters_read(self) -> Letters:
        """The letters of the readable bytes."""
        plain = self.without_nul
        return plain if plain.data == self._readable else Letters(self._readable)

    def letters_of(self, view: bytes) -> Letters:
        """Return the letters of a view of the bytes; views that detectors also read share one ``Letters``."""
        if view is self.data:
            return self.letters
        known = (self.without_nul, self.letters_read) if b"\0" in self.data else ()
        return next((letters for letters in known if letters.data == view), None) or Letters(view)

    @property
    def lowered(self) -> bytes:
        """The readable bytes, ASCII letters in lower case."""
        return self.letters_read.lowered

    def has(self, literals: Literals) -> bool:
        """Return whether one of the literals occurs in the readable bytes."""
        return literals.is_in(self.letters_read)

    @cached_property
    def text(self) -> str:
        """The readable bytes as text; invalid UTF-8 is replaced, and every line ends with one LF."""
        text = self._readable.decode("utf-8", "replace")
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text

    @cached_property
    def _ends(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self.text)]

    def line(self, offset: int) -> int:
        """Return the line number of an offset in the text."""
        return bisect_left(self._ends, offset) + 1

    @cached_property
    def folded(self) -> str:
        """The text in lower case, without emphasis and invisible characters, look-alikes as Latin letters.

        The lines of a paragraph are joined.
        """
        return _WRAP.sub(" ", _flush(fold(self.text))) if self.is_document else fold(self.text)

    @cached_property
    def literals(self) -> frozenset[bytes]:
        """The ``Letters.literals`` of the bytes, of the folded text and of the displayed one.

        A document is folded only if it has letters of other shapes, and displayed only if it has markup within words.
        """
        literals = self.letters_read.literals
        data = self._readable
        if self.unmarked:
            literals |= Letters(self.unmarked.encode()).literals
        if data.isascii():
            return literals
        if self.is_document and any(lead in data for lead in _SHAPED_LEADS) and _SHAPED.search(self.text):
            literals |= Letters(self.folded.encode()).literals
        replaced = words_around(_REPLACED_IN_WORD, data).decode("utf-8", "replace").translate(_REPLACED)
        return literals | Letters(replaced.encode()).literals if replaced else literals

    @cached_property
    def unmarked(self) -> str:
        """The folded text of a document as a reader sees it, if it has markup within words; else empty."""
        data = self._readable
        may_be = self.is_document and (b"<" in data or b"&" in data) and _TAG_IN_WORD.search(data)
        return displayed(self.folded) if may_be else ""

    @cached_property
    def paragraphs(self) -> tuple[str, ...]:
        """The folded text, split at blank lines."""
        return tuple(self.folded.split("\n\n"))

    @cached_property
    def passages(self) -> tuple[Passage, ...]:
        """The passages of a document; any other file is one passage of code."""
        if not self.is_document:
            return (Passage("code", self.language, self.text, 1),)
        lines = self.text.count("\n") + 1
        is_parsed = (
            lines <= self._lines_left[0] and len(self.text) <= PARSED_MAX and find_spec("markdown_it") is not None
        )
        self._lines_left[0] -= lines if is_parsed else 0
        return tuple(_passages(self.text, is_parsed))

    @cached_property
    def sections(self) -> tuple[Passage, ...]:
        """The passages of a document; any other file is split at blank lines."""
        return self.passages if self.is_document else tuple(_split_at_blank_lines(self.text, self.language))

    @cached_property
    def folded_sections(self) -> tuple[str, ...]:
        """The folded text of each section, the lines of a paragraph joined."""
        return tuple(
            text if section.kind == "code" else _WRAP.sub(" ", text)
            for section, text in zip(self.sections, map(fold_section, self.sections), strict=True)
        )

    @property
    def code(self) -> Iterator[Passage]:
        """The passages of code: the whole script, or the blocks of a document."""
        return (passage for passage in self.passages if passage.kind == "code")

    def parsed(self, parser: Callable[[SourceFile], _T]) -> _T:
        """Return the result of ``parser`` for the file; it is called once and its result is kept."""
        if parser not in self._parsed:
            self._parsed[parser] = parser(self)
        result: _T = self._parsed[parser]
        return result


def programs_in(file: SourceFile) -> tuple[Passage, ...]:
    """Return the programs that another program takes from a file, and an agent from the hooks of a document."""
    text = file.text.replace("\r\n", "\n")
    if file.recipe:
        kind, script, above = file.recipe, text, 0
    elif file.is_document and (hooks := HOOKS.match(text)):
        kind, script, above = "yaml", hooks[1], text.count("\n", 0, hooks.start(1))
    else:
        return ()
    from skillhub.scan.code.recipes import READERS  # noqa: PLC0415 - most skills have no such file

    language: Language = "python" if kind == "notebook" else "shell"
    return tuple(Passage("code", language, commands, above + line) for commands, line in READERS[kind](script))


class SkillFiles:
    """All files of a skill, by path: ``held`` has their bytes, ``files`` the parsed views.

    ``cut`` has the paths of those of which ``files`` has only the first bytes, since the skill is too large to be
    read to its end; ``failures`` has the mistakes of the scan itself, each with the path of the file it was reading.
    """

    def __init__(self, tree: Tree) -> None:
        lines_left = [LINES_MAX]
        # A tree on disk reads a file anew at each access.
        self.held: Mapping[str, File] = dict(tree.items())
        ends = _ends(self.held) if sum(len(file.data) for file in self.held.values()) > TEXT_MAX else {}
        self.files: Mapping[str, SourceFile] = {
            path: SourceFile(path, file.data[: ends.get(path)], lines_left) for path, file in self.held.items()
        }
        self.cut = [path for path, end in ends.items() if end < len(self.held[path].data)]
        self.failures: list[tuple[str, str]] = []

    @contextmanager
    def noting_failure(self, path: str) -> Iterator[None]:
        """Note a mistake of the scan in the block, which ends the block: it hides what follows there, no more."""
        try:
            yield
        except Exception as error:
            if isinstance(error, MemoryError) or "SKILLHUB_TRACEBACK" in os.environ:  # no fault of the skill's bytes
                raise
            shows = "SKILLHUB_TRACEBACK=1 skillhub validate shows where"
            why = f"not read to its end: a bug of the scan ({type(error).__name__}); {shows}"
            self.failures.append((path, why))

    def __iter__(self) -> Iterator[SourceFile]:
        return iter(self.files.values())


def _ends(held: Mapping[str, File]) -> Mapping[str, int]:
    """Return how many bytes are read of each file: small files first, so that no large one hides them."""
    room, ends = 2 * TEXT_MAX, dict[str, int]()
    for path, file in sorted(held.items(), key=lambda item: (item[0] != SKILL_MD, len(item[1].data))):
        share = 2 if is_text(file.data) else 1
        ends[path] = min(len(file.data), room // share)
        room -= share * ends[path]
    return ends


Detector = Callable[[SkillFiles], Iterator[Sighting]]


def fold(text: str) -> str:
    """Return text in lower case, without emphasis and invisible characters, look-alikes as Latin letters."""
    if not text.isascii():
        for char, usual in _SAME.items():  # 30 times as fast as ``translate``
            text = text.replace(char, usual)
        text = _SHAPED.sub(lambda match: normalize("NFKC", match[0]).translate(_SMALL), text)
    text = text.lower()
    for char in _UNSEEN:
        text = text.replace(char, "")
    return text if text.isascii() else _without_look_alikes(text)


def _flush(text: str) -> str:
    """Return a text without indentation and marks of quotations, all blanks single."""
    text = _MARGIN.sub("\n", text)
    if "\t" in text:
        return _BLANKS.sub(" ", text)
    while "  " in text:  # faster than the pattern, which is tried at each blank
        text = text.replace("  ", " ")
    return text


def fold_section(section: Passage) -> str:
    """Return the folded text of a section, of prose without indentation, on the same lines."""
    return fold(section.text) if section.kind == "code" else _flush(fold(section.text))


def displayed(text: str) -> str:
    """Return a folded text of a document as a reader sees it, with the same lines.

    It has no tags, comments, bars between cells, targets of links, underscores of emphasis and marks of quotations;
    references to characters are resolved, and blanks are single.
    """
    if "&" in text:
        text = fold(unescape(text))
    if "<" in text:
        text = _TAG.sub(_blank_tag, text)
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    return _flush(_UNDERLINE.sub("", text.translate(_BARS))).replace(" \n", "\n")


def _blank_tag(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n") or (" " if match[0].startswith(_BREAKS) else "")


def _without_look_alikes(text: str) -> str:
    """Return the text with look-alikes as Latin letters in the words that match ``_MIXED``.

    The pattern is tried only on words that mix scripts.
    """
    parts, copied, end = list[str](), 0, 0
    for meeting in _MEETING.finditer(text):
        start = meeting.start()
        # Some characters of this range are not letters, and separate words.
        tail = _REST_OF_WORD.match(text, start) if start >= end else None
        if tail is None:
            continue
        end = tail.end()
        first = max(start - _MIXED_MAX, 0)
        while start > first and (text[start - 1].isalnum() or text[start - 1] == "_"):
            start -= 1
        if word := _MIXED.match(text, start):
            parts += text[copied:start], word[0].translate(_LOOK_ALIKE)
            copied = word.end()
    return "".join((*parts, text[copied:])) if parts else text


def _split_at_blank_lines(text: str, language: Language) -> Iterator[Passage]:
    line = 1
    for block in text.split("\n\n"):
        if block.strip():
            yield Passage("code", language, block, line)
        line += block.count("\n") + 2


def _passages(text: str, is_parsed: bool) -> Iterator[Passage]:
    """Yield the passages of a document, as markdown-it-py parses it or, unless ``is_parsed``, line by line."""
    end = text.find("\n---", 3) if text.startswith("---\n") else -1
    start = text.find("\n", end + 1) + 1 if end > 0 else 0
    skipped = text.count("\n", 0, start)
    if start:
        yield Passage("prose", "other", text[4 : end + 1], 2)
    body = text[start:]
    heading = ""
    for block in _blocks(body) if is_parsed else _lines(body):
        heading = block.text if block.kind == "heading" else heading
        yield Passage(block.kind, block.language, block.text, block.line + skipped, heading)


def _blocks(body: str) -> Iterator[Passage]:
    """Yield headings, paragraphs, blocks of code and HTML; inline markup is not parsed."""
    kind = "prose"
    for token in _markdown_parser().parse(body):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "inline":
            yield Passage("heading" if kind == "heading_open" else "prose", "other", token.content, line)
        elif token.type == "fence":
            yield Passage("code", language_of((token.info.split() or [""])[0]), token.content, line + 1)
        elif token.type in ("code_block", "html_block"):
            yield Passage("code" if token.type == "code_block" else "html", "other", token.content, line)
        kind = token.type


@cache
def _markdown_parser() -> Any:  # noqa: ANN401 - of a package that may be absent, and takes long to load
    from markdown_it import MarkdownIt  # noqa: PLC0415

    # Link definitions stay text and tables are paragraphs, since only their words count.
    return MarkdownIt("commonmark").disable(["reference", "inline", "text_join"])


def _lines(body: str) -> Iterator[Passage]:
    """Yield the lines between two fences as code, and every other run of lines as a paragraph or a list item."""
    fence, language, first, block = "", language_of(""), 1, list[str]()
    for number, line in enumerate((*body.split("\n"), ""), 1):
        match = _FENCE.match(line.lstrip(" \t>"))
        if fence:
            if not (match and match[1].startswith(fence) and not match[2]):
                block.append(line)
                continue
        elif not match and line.strip() and not _BEGINS.match(line):
            first = number if not block else first
            block.append(line.strip())
            continue
        if block:
            yield Passage("code" if fence else "prose", language, "\n".join(block), first)
        block, language, first = [], language_of(match[2] if match and not fence else ""), number + 1
        fence = match[1] if match and not fence else ""
        if not match and _HEADING.match(line):
            yield Passage("heading", language, line.strip("#\t "), number)
        elif not match and line.strip():
            block, first = [line.strip()], number
    if fence and block:
        yield Passage("code", language, "\n".join(block), first)
