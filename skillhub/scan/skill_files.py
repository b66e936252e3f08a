"""The files of a skill as detectors read them: parsed once, when first asked for, by whichever detector asks.

A detector is a function of the ``SkillFiles`` of a skill that yields ``Sighting``s. It looks at the bytes first
(``has``, in lower case) and asks for structure only if they are worth it: prose, links and blocks of code of a
Markdown file, or what a parser of its own makes of a file or a block (``parsed``, kept for every later call).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any, Final, Literal, TypeVar, get_args

from skillhub.formats.text import deferred
from skillhub.model.tree import File, Tree
from skillhub.scan.files import EXECUTABLE_MAGIC
from skillhub.scan.pattern import ONLY_WORDS, Letters, Literals, Sighting, decoded

# What is longer is read line by line: no parser of others is given a text that could take it long.
PARSED_MAX = 1 << 17
# Of all documents of a skill together; honest ones have a tenth of that, and what is more takes seconds.
LINES_MAX = 20_000
Kind = Literal["prose", "heading", "code", "html"]
Scripting = Literal["python", "shell", "javascript", "ruby", "php", "perl", "powershell"]
SCRIPTING: Final[tuple[str, ...]] = get_args(Scripting)  # what is read as programs
Language = Scripting | Literal["markdown", "batch", "applescript", "data", "other"]
_T = TypeVar("_T")

_SUFFIXES: Mapping[str, Language] = {
    **dict.fromkeys((".md", ".mdx", ".markdown", ".rst", ".txt", ".adoc"), "markdown"),
    **dict.fromkeys((".py", ".pyw"), "python"),
    **dict.fromkeys((".sh", ".bash", ".zsh", ".ksh", ".command", ".tool"), "shell"),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx"), "javascript"),
    **dict.fromkeys((".rb", ".rake", ".gemspec"), "ruby"),
    **dict.fromkeys((".php", ".phtml"), "php"),
    **dict.fromkeys((".pl", ".pm"), "perl"),
    **dict.fromkeys((".ps1", ".psm1"), "powershell"),
    **dict.fromkeys((".bat", ".cmd"), "batch"),
    **dict.fromkeys((".applescript", ".scpt"), "applescript"),
    **dict.fromkeys((".json", ".yaml", ".yml", ".toml", ".csv", ".xml"), "data"),
}
# The word behind the fence of a block of code, or the program of a first line.
_NAMES: Mapping[str, Language] = {
    **dict.fromkeys(("python", "python3", "py", "python2", "uv"), "python"),
    **dict.fromkeys(("sh", "bash", "zsh", "ksh", "dash", "shell", "console", "terminal", "shell-session"), "shell"),
    **dict.fromkeys(
        ("js", "javascript", "node", "ts", "typescript", "jsx", "tsx", "bun", "deno", "mjs"), "javascript"
    ),
    **dict.fromkeys(("ruby", "rb"), "ruby"),
    **dict.fromkeys(("php",), "php"),
    **dict.fromkeys(("perl", "pl"), "perl"),
    **dict.fromkeys(("powershell", "ps1", "pwsh", "ps"), "powershell"),
    **dict.fromkeys(("bat", "batch", "cmd", "dos"), "batch"),
    **dict.fromkeys(("applescript", "osascript"), "applescript"),
    **dict.fromkeys(("json", "yaml", "yml", "toml", "csv", "xml"), "data"),
    **dict.fromkeys(("markdown", "md", "text", "txt", "plain", "plaintext"), "markdown"),
}
# Emphasis, and what is not shown: between two letters neither parts a word.
_UNSEEN: Final = "*\u00ad\u200b\u200c\u200d\u2060\ufeff"
# Where a Greek or Cyrillic letter meets another character of its word; the first letter is what the engine skips to.
_MEETS = re.compile(r"[\u0370-\u04ff](?:(?=[^\W\u0370-\u04ff])|(?<=[^\W\u0370-\u04ff].))", re.DOTALL)
_REST_OF_WORD = re.compile(r"\w+")
_MIXED_MAX: Final = 40
# A word of Latin letters and of Greek or Cyrillic ones that look the same.
_MIXED = re.compile(r"(?<!\w)(?=\w{0,40}[a-z])(?=\w{0,40}[\u0370-\u04ff])\w{2,40}")
_LOOK_ALIKE: Final = str.maketrans("аеорсухіјѕԁһкмтνορ", "aeopcyxijsdhkmtvop")
# What folded text may hold for each character that folding changes, in whatever word it stands.
_LIKENED: Final = {
    **{chr(each): chr(like) for each, like in _LOOK_ALIKE.items()},
    **{chr(each).upper(): chr(like) for each, like in _LOOK_ALIKE.items()},
    **dict.fromkeys(_UNSEEN, ""),
    **{"\u0130": "i ", "\u212a": "k"},
}
_LIKES = re.compile(f"[{''.join(_LIKENED)}]")
# The same in UTF-8, but for emphasis, which is of ASCII; and from one to the end of its word.
_BY_LEAD: Final = defaultdict[bytes, bytes](bytes)
for _encoded in (each.encode() for each in _LIKENED if not each.isascii()):
    _BY_LEAD[_encoded[:-1]] += _encoded[-1:]
_LIKE: Final = b"|".join(b"%b[%b]" % each for each in _BY_LEAD.items())
_LIKES_IN_WORD = re.compile(rb"(?:%b)(?:[A-Za-z0-9*]++|%b)*+" % (_LIKE, _LIKE))
_FIRST_LINE = re.compile(rb"#!\s{0,4}(?:\S{0,80}/)?(?:env\s{1,4}(?:-S\s{1,4})?)?([a-z]{1,12})")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^\s`{,]{0,40})")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]")
_BEGINS = re.compile(r"[ \t]{0,12}(?:#{1,6}[ \t]|[-*+][ \t]|\d{1,9}[.)][ \t])")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a file: a paragraph, a heading, a block of code, or a whole script.

    Attributes:
        language: Of code; of a block without one, ``other``.
        text: What is in it, without fences and quotation marks.
        line: The number of its first line.
        heading: The heading that it stands under; empty in a script.
    """

    kind: Kind
    language: Language
    text: str
    line: int
    heading: str = ""


class SourceFile:
    """One file of a skill.

    Attributes:
        path: Relative to the skill.
        data: The bytes.
        left: How many lines of the skill's documents may still be parsed; the rest is read line by line.
    """

    def __init__(self, path: str, data: bytes, left: list[int] | None = None) -> None:
        self.path = path
        self.data = data
        self._left = left if left is not None else [LINES_MAX]
        self._parsed: dict[Any, Any] = {}

    @cached_property
    def _readable(self) -> bytes:
        """The bytes as UTF-8, if they have the mark of another encoding or look like it; without NUL."""
        return next(decoded(self.data), self.data.translate(None, b"\0")) if b"\0" in self.data else self.data

    @cached_property
    def letters(self) -> Letters:
        """The letters of the bytes as they are."""
        return Letters(self.data)

    @cached_property
    def without_nul(self) -> Letters:
        """The letters of the bytes as a shell reads them, which leaves out NUL."""
        return Letters(self.data.translate(None, b"\0"), self.letters) if b"\0" in self.data else self.letters

    @cached_property
    def letters_read(self) -> Letters:
        """The letters of the readable bytes."""
        plain = self.without_nul
        return plain if plain.data == self._readable else Letters(self._readable)

    def letters_of(self, view: bytes) -> Letters:
        """Return the letters of what is seen in the bytes; what detectors read is looked at once."""
        if view is self.data:
            return self.letters
        known = (self.without_nul, self.letters_read) if b"\0" in self.data else ()
        return next((each for each in known if each.data == view), None) or Letters(view)

    @property
    def lowered(self) -> bytes:
        """The readable bytes with the letters of ASCII in lower case."""
        return self.letters_read.lowered

    def has(self, literals: Literals) -> bool:
        """Say whether one of the literals is somewhere in the bytes."""
        return literals.is_in(self.letters_read)

    @cached_property
    def is_program(self) -> bool:
        """Whether it is a compiled program, whatever its name says."""
        return self.data.startswith(EXECUTABLE_MAGIC)

    @cached_property
    def text(self) -> str:
        """The bytes as text; what is not UTF-8 is replaced. Every line ends with one LF."""
        text = self._readable.decode("utf-8", "replace")
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text

    @cached_property
    def _ends(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self.text)]

    def line(self, offset: int) -> int:
        """Return the number of the line that an offset of the text is on."""
        return bisect_left(self._ends, offset) + 1

    @cached_property
    def folded(self) -> str:
        """The text in lower case, without emphasis and unseen characters."""
        return _folded(self.text)

    @cached_property
    def parts(self) -> frozenset[bytes]:
        """The ``Letters.parts`` of the bytes and of the folded text; it is not folded for that, but likened."""
        found = self.letters_read.parts
        data = self._readable
        if data.isascii():
            return found
        spaced, end, likes = data.translate(ONLY_WORDS), 0, list[bytes]()
        for match in _LIKES_IN_WORD.finditer(data):
            likes.append(data[max(spaced.rfind(b" ", end, match.start()) + 1, end) : match.end()])
            end = match.end()
        likened = _LIKES.sub(lambda match: _LIKENED[match[0]], b"\n".join(likes).decode("utf-8", "replace"))
        return found | Letters(likened.encode()).parts if likes else found

    @cached_property
    def paragraphs(self) -> tuple[str, ...]:
        """What stands between blank lines, likewise."""
        return tuple(self.folded.split("\n\n"))

    @cached_property
    def language(self) -> Language:
        """What it is written in, by its suffix, else by its first line; else it is to be read, as INSTALL is."""
        name = self.path.lower().rpartition("/")[2]
        if found := _SUFFIXES.get(f".{name.rpartition('.')[2]}" if "." in name else ""):
            return found
        if first := _FIRST_LINE.match(self.data):
            return _NAMES.get(first[1].decode(), "other")
        return "other" if "." in name else "markdown"

    @property
    def is_document(self) -> bool:
        """Whether people and agents read it as prose."""
        return self.language == "markdown"

    @cached_property
    def passages(self) -> tuple[Passage, ...]:
        """What it consists of: a document in pieces, everything else as one piece of code."""
        if not self.is_document:
            return (Passage("code", self.language, self.text, 1),)
        lines = self.text.count("\n") + 1
        is_parsed = lines <= self._left[0] and len(self.text) <= PARSED_MAX and find_spec("markdown_it") is not None
        self._left[0] -= lines if is_parsed else 0
        return tuple(_passages(self.text, is_parsed))

    @property
    def code(self) -> Iterator[Passage]:
        """Its pieces of code: the whole script, or the blocks of a document."""
        return (each for each in self.passages if each.kind == "code")

    def parsed(self, parser: Callable[[SourceFile], _T]) -> _T:
        """Return what ``parser`` makes of the file; it is called once, whoever asks."""
        if parser not in self._parsed:
            self._parsed[parser] = parser(self)
        found: _T = self._parsed[parser]
        return found


@dataclass(frozen=True, slots=True)
class Sign:
    """What is looked for in a passage; wherever the pattern matches there is a word of each group."""

    groups: tuple[tuple[str, ...], ...]
    pattern: re.Pattern[str]
    literals: tuple[Literals, ...]

    def is_worth(self, text: str) -> bool:
        """Say whether the pattern may match in text in lower case."""
        for words in self.groups:
            for word in words:  # a loop: as a generator it took longer than the pattern
                if word in text:
                    break
            else:
                return False
        return True

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match in text in lower case."""
        return self.pattern.search(text) if self.is_worth(text) else None

    def within(self, file: SourceFile) -> Sign | None:
        """Return it with those words alone that a file has, passages and all; nothing if it has none of a group."""
        candidates = [literals.worth(file.parts) for literals in self.literals]
        if not all(candidates):
            return None
        groups = [tuple([word for each in group if (word := each.decode()) in file.folded]) for group in candidates]
        return Sign(tuple(groups), self.pattern, self.literals) if all(groups) else None


def sign(words: str, *patterns: str) -> Sign:
    """Return a sign; between words are blanks, with ``_`` for a blank within one and ``~`` for ``_``; between
    groups slashes."""
    groups = tuple(
        tuple(word.replace("_", " ").replace("~", "_") for word in group.split()) for group in words.split(" / ")
    )
    literals = tuple(Literals(*(word.encode() for word in group)) for group in groups)
    return Sign(groups, deferred("|".join(patterns)), literals)


class Signs:
    """In which passages of a file each of some signs is, and which are near each other.

    Args:
        file: It; a script is read in blocks, which blank lines part.
        table: The signs by name; they see text in lower case, without emphasis and unseen characters.
    """

    def __init__(self, file: SourceFile, table: Mapping[str, Sign]) -> None:
        self.path = file.path
        self._table = table
        self._file = file
        self._signs: dict[str, Sign | None] = {}
        self._found: dict[tuple[str, int], bool] = {}

    @cached_property
    def passages(self) -> tuple[Passage, ...]:
        """The passages that the numbers count."""
        if self._file.is_document:
            return self._file.passages
        return tuple(_parted(self._file.text, self._file.language))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The text of each passage as the signs see it."""
        return tuple(_folded(each.text) for each in self.passages)

    def is_worth(self, *names: str) -> bool:
        """Say whether one of the signs is in the file at all, without a look at its structure."""
        signs = [each for name in names if (each := self._sign(name))]
        return any(each.search(text) for text in (self._file.paragraphs if signs else ()) for each in signs)

    def _sign(self, name: str) -> Sign | None:
        if name not in self._signs:
            self._signs[name] = self._table[name].within(self._file)
        return self._signs[name]

    def where(self, name: str) -> list[int]:
        """Return the numbers of the passages that a sign is in."""
        return [number for number in range(len(self.texts)) if self.has(name, number)]

    def has(self, name: str, number: int) -> bool:
        """Say whether a passage has a sign."""
        if (name, number) not in self._found:
            sign = self._sign(name)
            self._found[name, number] = sign is not None and sign.search(self.texts[number]) is not None
        return self._found[name, number]

    def near(self, name: str, number: int, before: int, after: int) -> bool:
        """Say whether a sign is in one of the passages from ``before`` to ``after`` that one."""
        around = range(max(0, number - before), min(len(self.texts), number + after + 1))
        return any(self.has(name, each) for each in around)

    def line(self, name: str, number: int) -> int:
        """Return the line on which a passage has a sign."""
        match = self._table[name].search(self.texts[number])
        return self.passages[number].line + (self.texts[number].count("\n", 0, match.start()) if match else 0)


class SkillFiles:
    """All files of a skill, by path: ``held`` as they are, ``files`` as they are looked at."""

    def __init__(self, tree: Tree) -> None:
        left = [LINES_MAX]
        # A tree may be on disk, where each look at a file reads it again.
        self.held: Mapping[str, File] = dict(tree.items())
        self.files: Mapping[str, SourceFile] = {
            path: SourceFile(path, file.data, left) for path, file in self.held.items()
        }

    def __iter__(self) -> Iterator[SourceFile]:
        return iter(self.files.values())


Detector = Callable[[SkillFiles], Iterator[Sighting]]


def _folded(text: str) -> str:
    """Return text in lower case, without emphasis and unseen characters; letters that only look Latin are."""
    text = text.lower()
    for each in _UNSEEN:
        text = text.replace(each, "")
    return text if text.isascii() else _likened(text)


def _likened(text: str) -> str:
    """Return ``_MIXED.sub`` of the look-alikes; only words in which scripts meet are tried."""
    parts, taken, end = list[str](), 0, 0
    for meeting in _MEETS.finditer(text):
        at = meeting.start()
        # Some of these characters are no letters, and part words.
        rest = _REST_OF_WORD.match(text, at) if at >= end else None
        if rest is None:
            continue
        end = rest.end()
        first = max(at - _MIXED_MAX, 0)
        while at > first and (text[at - 1].isalnum() or text[at - 1] == "_"):
            at -= 1
        if word := _MIXED.match(text, at):
            parts += text[taken:at], word[0].translate(_LOOK_ALIKE)
            taken = word.end()
    return "".join((*parts, text[taken:])) if parts else text


def _parted(text: str, language: Language) -> Iterator[Passage]:
    line = 1
    for block in text.split("\n\n"):
        if block.strip():
            yield Passage("code", language, block, line)
        line += block.count("\n") + 2


def language_of(word: str) -> Language:
    """Return the language that the word behind a fence names."""
    return _NAMES.get(word.lower().strip("{}."), "other")


def _passages(text: str, is_parsed: bool) -> Iterator[Passage]:
    """Yield a document in pieces: as markdown-it-py reads it, or line by line."""
    end = text.find("\n---", 3) if text.startswith("---\n") else -1
    start = text.find("\n", end + 1) + 1 if end > 0 else 0
    skipped = text.count("\n", 0, start)
    if start:
        yield Passage("prose", "other", text[4 : end + 1], 2)
    body = text[start:]
    heading = ""
    for each in _blocks(body) if is_parsed else _lines(body):
        heading = each.text if each.kind == "heading" else heading
        yield Passage(each.kind, each.language, each.text, each.line + skipped, heading)


def _blocks(body: str) -> Iterator[Passage]:
    """Yield headings, paragraphs, blocks of code and HTML; nothing within a line is parsed."""
    kind = "prose"
    for token in _reader().parse(body):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "inline":
            yield Passage("heading" if kind == "heading_open" else "prose", "other", token.content, line)
        elif token.type == "fence":
            yield Passage("code", language_of((token.info.split() or [""])[0]), token.content, line + 1)
        elif token.type in ("code_block", "html_block"):
            yield Passage("code" if token.type == "code_block" else "html", "other", token.content, line)
        kind = token.type


@cache
def _reader() -> Any:  # noqa: ANN401 - of a package that may be absent, and takes long to load
    from markdown_it import MarkdownIt  # noqa: PLC0415

    # Definitions of links stay text, and tables are paragraphs: what they say counts, not how they are shown.
    return MarkdownIt("commonmark").disable(["reference", "inline", "text_join"])


def _lines(body: str) -> Iterator[Passage]:
    """Yield what stands between fences as code, every other run of lines as a paragraph, or as an entry of a list."""
    fence, language, first, block = "", language_of(""), 1, list[str]()
    for number, line in enumerate((*body.split("\n"), ""), 1):
        found = _FENCE.match(line.lstrip(" \t>"))
        if fence:
            if not (found and found[1].startswith(fence) and not found[2]):
                block.append(line)
                continue
        elif not found and line.strip() and not _BEGINS.match(line):
            first = number if not block else first
            block.append(line.strip())
            continue
        if block:
            yield Passage("code" if fence else "prose", language, "\n".join(block), first)
        block, language, first = [], language_of(found[2] if found and not fence else ""), number + 1
        fence = found[1] if found and not fence else ""
        if not found and _HEADING.match(line):
            yield Passage("heading", language, line.strip("#\t "), number)
        elif not found and line.strip():
            block, first = [line.strip()], number
    if fence and block:
        yield Passage("code", language, "\n".join(block), first)
