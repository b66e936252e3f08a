"""The patterns of rules, searched in linear time in every view of a file (``skillhub/scan/views.py``).

And the kinds of the addresses that such patterns find, and of files.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from sys import maxsize
from typing import Final, Literal, get_args

from skillhub.formats.text import deferred, packaged, words
from skillhub.scan.views import EXECUTABLE_MAGIC, LazyPattern, Letters, Literals, register

# The search for patterns takes time linear in the size of the file.
# A pattern is searched in the bytes of a file in lower case, with the line ends blanked that a shell would join, and
# only if the file has the words of the pattern. A pattern has only small bounded repeats. "A, and later on the same
# line B" is two patterns, never one: a single pattern would search the whole gap again from every start.

# Commands that run the command after their options; and those that run it for another user, in another folder or in a
# container, whose names stand before it.
WRAPPERS: Final = words(
    "sudo doas pkexec run0 env exec command builtin nohup time timeout nice ionice setsid stdbuf unbuffer busybox"
    " xargs"
)
ELSEWHERE: Final = words("su runuser chroot nsenter unshare flatpak-spawn machinectl systemd-run toolbox distrobox")
MAILBOX: Final = r"(?<![\w.+-])[\w.+-]{1,64}+@[\w-]{1,63}\.[\w.-]{2,100}+"  # the address of a mailbox

GAP_MAX = 1500
_FIRST_MAX: Final = 512  # longer than the first of two patterns matches
_BEFORE_MAX = 200


@dataclass(frozen=True, slots=True)
class MatchContext:
    """The text around a match, in lower case; ``first`` and ``then`` are the matches of the two patterns.

    Attributes:
        before: The text of the same line before ``first``, at most 200 bytes.
        between: The text between the two matches.
        after: The text after the match, at most 1,500 bytes; it may span several lines.
    """

    before: bytes
    first: bytes
    between: bytes
    then: bytes
    after: bytes


Judge = Callable[[MatchContext], str | None]
THE_RULE: Final = ""  # a judge's answer: the rule of the pattern


@dataclass(frozen=True, slots=True)
class LinePattern:
    """A pattern to search for: each ``first`` that ``then`` follows on the same line, within 1,500 bytes.

    Attributes:
        words: Groups of words in lower case; a file is searched only if it has a word of each group.
        judge: Returns the id of the rule that a match falls under, by the text around it, or None.
    """

    words: tuple[frozenset[bytes], ...]
    first: LazyPattern[bytes]
    then: LazyPattern[bytes] | None
    judge: Judge | None = None

    def may_match(self, words: Set[bytes]) -> bool:
        """Return whether the patterns may match in a file with these words (their ``Letters.literals``)."""
        for group in self.words:  # noqa: SIM110 - as a generator it took a third of the whole scan
            if group.isdisjoint(words):
                return False
        return True

    def matches(self, lowered: bytes, start: int = 0, stop: int = maxsize) -> Iterator[tuple[int, str | None]]:
        """Yield the offset of each match, in order, with the id of the rule that the judge returns, if there is one.

        Args:
            lowered: The text, in lower case.
            start: The offset at which the search begins.
            stop: The offset at which it ends, at the end of a line.
        """
        for offset, begin, middle, end in self._spans(lowered, start, stop):
            if self.judge is None:
                yield offset, None
            elif (rule := self.judge(_context(lowered, begin, middle, end))) is not None:
                yield offset, rule or None

    def _spans(self, lowered: bytes, start: int, stop: int) -> Iterator[tuple[int, int, tuple[int, int], int]]:
        """Yield for each match its offset, its start, the start and end of the text between, and its end.

        The offset of a pair is the end of ``first``; without ``then`` it is the start of ``first``.
        """
        if self.then is None:
            for match in self.first.finditer(lowered, start, stop):
                yield match.start(), match.start(), (match.end(), match.end()), match.end()
            return
        if self.then.search(lowered, start, stop) is None or not (one := self.first.search(lowered, start, stop)):
            return
        firsts, ends, searched = list[tuple[int, int]](), list[int](), one.start()
        for match in self.then.finditer(lowered, one.end(), stop):
            at = match.start()
            if at >= searched:  # ``first`` is searched only in the lines with ``then``, from where a match may begin
                line = lowered.rfind(b"\n", searched, at)
                begin, searched = max(line - _FIRST_MAX, at - GAP_MAX - _FIRST_MAX, searched), lowered.find(b"\n", at)
                searched = min(searched + 1, stop) if searched >= 0 else stop
                firsts += [each.span() for each in self.first.finditer(lowered, begin, searched)]
                ends += [end for _, end in firsts[len(ends) :]]
            before = bisect_right(ends, at) - 1
            if before >= 0 and at - ends[before] <= GAP_MAX and b"\n" not in lowered[ends[before] : at]:
                yield ends[before], firsts[before][0], (ends[before], at), match.end()


def _context(lowered: bytes, begin: int, middle: tuple[int, int], end: int) -> MatchContext:
    before = lowered[max(0, begin - _BEFORE_MAX) : begin].rpartition(b"\n")[2]
    start, stop = middle
    return MatchContext(
        before, lowered[begin:start], lowered[start:stop], lowered[stop:end], lowered[end : end + GAP_MAX]
    )


# The tables ``patterns.json`` and ``phrases.json``. In a text of theirs, a name in capitals stands for a part.

_NAME_OF_PART: Final = re.compile(r"[A-Z]{2,}(?:_[A-Z]+)*")
_Parts = Mapping[str, Sequence[str]]


def parts_of(table: Mapping[str, str | list[str]]) -> _Parts:
    """Return the parts of a table; a part may name those before it, and some that programs use, too."""
    parts = {"WRAPPERS": ["|".join(WRAPPERS)], "ELSEWHERE": ["|".join(ELSEWHERE)], "MAILBOX": [MAILBOX]}
    for name, part in table.items():
        parts[name] = [each for text in ([part] if isinstance(part, str) else part) for each in expanded(text, parts)]
    return parts


def expanded(text: str, parts: _Parts) -> list[str]:
    """Return a text with the parts that it names: of several alternatives, any one.

    If it begins with the name, it becomes a text for each alternative: the search skips to the first letters of a
    regular expression, if all its matches begin with the same ones.
    """
    name = _NAME_OF_PART.match(text)
    begins, rest = (parts[name[0]], text[name.end() :]) if name else ([""], text)
    rest = _NAME_OF_PART.sub(lambda each: "|".join(parts[each[0]]), rest)
    return [begin + rest for begin in begins]


# A class of characters, a condition on what stands before, any escape; and a single blank: a shell takes several.
_CLASS: Final = r"\[(?:\\.|[^\]\\])*\]"
_PIECE: Final = re.compile(rf"{_CLASS}|\(\?<[=!](?:{_CLASS}|\\.|[^()\\])*\)|((?:\\s| )(?![{{?*+]))|\\.")


def _with_any_blanks(pattern: str) -> bytes:
    return _PIECE.sub(lambda piece: r"\s[ \t]{0,8}" if piece[1] else piece[0], pattern).encode()


PATTERNS: Final = packaged("scan/patterns.json")
PARTS: Final = parts_of(PATTERNS["parts"])


def line_patterns(
    rows: Iterable[Mapping[str, str]], judges: Mapping[str, Judge] | None = None
) -> Iterator[LinePattern]:
    """Yield the patterns of some rows of ``patterns.json``, and register their words.

    Blanks separate words, slashes separate groups of them: a text in which the patterns match must contain a word of
    each group. A word is a run of letters and digits in lower case: ``word`` is a whole one, ``word*`` the beginning
    of one, ``*word*`` a part of one.
    """
    for row in rows:
        (words,) = expanded(row["words"], PARTS)
        groups = tuple(frozenset(group.encode().split()) for group in words.replace("|", " ").split("/"))
        register(frozenset[bytes]().union(*groups))
        judge = judges[row["judge"]] if judges and "judge" in row else None
        for first, then in product(expanded(row["first"], PARTS), expanded(row.get("then", ""), PARTS)):
            yield LinePattern(
                groups,
                LazyPattern(_with_any_blanks(first)),
                LazyPattern(_with_any_blanks(then)) if then else None,
                judge,
            )


# Acts: the patterns that count only where a command begins.
_BEGINS: Final = deferred(
    rb"(?:^|[;&|({])\s{0,4}(?:(?:" + "|".join(WRAPPERS).encode() + rb")\s{1,4}(?:-\w+\s{1,4})*)*(?:(?:/\w+)*/)?$"
)
_COMMAND_MAX: Final = 2_000


def _begins(context: MatchContext) -> str | None:
    return THE_RULE if _BEGINS.search(context.before) else None


_ACTS: Final = tuple(
    (rule, pattern)
    for rule, rows in PATTERNS["rules"].items()
    for pattern in line_patterns(
        [row for row in rows if row.get("judge") in ("is_run", "is_deleted")],
        {"is_run": _begins, "is_deleted": _begins},
    )
)


@lru_cache(1 << 12)
def act_of(text: str) -> str | None:
    """Return the rule that a text falls under if a program runs it as a command; elsewhere it is only a text."""
    lowered = text.strip()[:_COMMAND_MAX].lower().encode("utf-8", "replace")
    known = Letters(lowered).literals
    acts = (rule for rule, pattern in _ACTS if pattern.may_match(known) and any(pattern.matches(lowered)))
    return next(acts, None)


# Signs, the phrases of ``phrases.json``.


@dataclass(frozen=True, slots=True)
class Sign:
    """Patterns to search for in a passage. A text in which one matches must contain a word of each group."""

    groups: tuple[tuple[str, ...], ...]
    patterns: tuple[LazyPattern[str], ...]
    literals: tuple[Literals, ...]

    def may_match(self, text: str) -> bool:
        """Return whether the pattern may match in a text in lower case."""
        for group in self.groups:
            for word in group:  # a loop, since a generator takes longer than the pattern
                if word in text:
                    break
            else:
                return False
        return True

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match in a text in lower case."""
        if not self.may_match(text):
            return None
        matches = [match for pattern in self.patterns if (match := pattern.search(text))]
        return min(matches, key=re.Match.start, default=None)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the matches of each pattern in a text in lower case."""
        for pattern in self.patterns if self.may_match(text) else ():
            yield from pattern.finditer(text)

    def within(self, file_literals: Set[bytes], folded: str, unmarked: str) -> Sign | None:
        """Return this sign with only the words of a file, by its texts; None if it has no word of some group."""
        groups = list[tuple[str, ...]]()
        for literals in self.literals:
            # A word of ASCII without signs is a literal of its own, so the text has it.
            words = [
                word
                for word in map(bytes.decode, literals.candidates(file_literals))
                if (word.isascii() and word.isalnum()) or word in folded or word in unmarked
            ]
            if not words:
                return None
            groups.append(tuple(words))
        groups.sort(key=len)  # most passages lack the words of a short one
        return Sign(tuple(groups), self.patterns, self.literals)


def _signs(name: str) -> Iterator[tuple[str, Sign]]:
    """Yield the signs of a table of ``phrases.json`` by name.

    Blanks separate words, slashes with blanks around them separate groups; within a word ``_`` stands for a blank,
    ``~`` for ``_``. Each pattern is searched by itself: the engine skips to the letters that can begin its match.
    """
    for key, row in PHRASE_ROWS[name].items():
        (words,) = expanded(row["words"], _PARTS)
        groups = tuple(
            tuple(word.replace("_", " ").replace("~", "_") for word in group)
            for group in sorted(map(str.split, words.split(" / ")), key=len)  # a file lacks a short one first
        )
        patterns = (LazyPattern(each) for text in row["patterns"] for each in expanded(text, _PARTS))
        literals = tuple(Literals(*(word.encode() for word in group)) for group in groups)
        yield key, Sign(groups, tuple(patterns), literals)


PHRASE_ROWS: Final = packaged("scan/phrases.json")
_PARTS: Final = parts_of(PHRASE_ROWS.pop("parts"))
PHRASES: Final[Mapping[str, Mapping[str, Sign]]] = {name: dict(_signs(name)) for name in PHRASE_ROWS}


# The kinds of addresses by who can publish there, and the installers of well-known projects: ``addresses.json``.

# "paste": a page that anybody can write; "drop": a file that anybody can upload; "tenant": a site on a subdomain that
# a host gives to anybody; "short": a shortened URL; "odd": a cheap top-level domain, a bare IP address, or punycode.
AddressKind = Literal["paste", "drop", "tenant", "short", "odd", "program", "other"]

ANYBODYS: Final = frozenset[AddressKind]({"paste", "drop", "tenant", "short", "odd"})
_TABLE: Final[dict[str, list[str]]] = packaged("scan/addresses.json")
# Anybody can store a text or file there, and anybody with the link can fetch it.
PUBLIC_HOSTS: Final = (*_TABLE["paste"], *_TABLE["drop"])
_ODD_ENDINGS: Final = frozenset(_TABLE["odd_endings"])
_HOSTS_OF: Final[tuple[AddressKind, ...]] = ("paste", "drop", "tenant", "short")
_KINDS: Final[dict[str, AddressKind]] = {host: kind for kind in _HOSTS_OF for host in _TABLE[kind]}
# A sentence that says what attackers do, or what their victims are told; a warning word alone says neither.
OTHERS_ACT: Final = r"\b(?:attackers?|attacks|victims?)\b[^.\n]{0,80}\b(?:can|may|tell|told|asks?|asked|tricked)\b"
URL: Final = deferred(r"https?://(?:[^\s/@\"'<>`\\?#]{0,64}@)?([^\s/\"'<>`\\?#)\]|]{1,253})([^\s\"'<>`)\]|]{0,400})")
# The user's own machine or network; a package registry there belongs to the user. Nothing may follow the address that
# makes it the first labels of another host, or the user before an `@`.
OWN_NETWORK: Final = deferred(
    r"(?:localhost|(?:127|10)(?:\.\d{1,3}){3}|192\.168(?:\.\d{1,3}){2}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2}"
    r"|\[?::1\]?)\.?(?:[^\w.@-][^@]*)?$"
)
_NUMBER = deferred(r"(?:\d{1,3}\.){3}\d{1,3}|0x[0-9a-f]{6,}|\d{8,}|\[[0-9a-f:.]+\]")
_PROGRAM_SUFFIXES: Final = tuple(_TABLE["program_suffixes"])
# Hosts of documentation, which nobody can have or which a person has to replace: not `example.x.invalid`.
PLACEHOLDER: Final = r"[<>{}$*]|(?:^|\.)example(?:\.(?:com|org|net|edu))?$|(?:^|\.)your|^[^.]+$"
_INDEXES: Final = deferred(rf"(?:^|\.)(?:{'|'.join(_TABLE['indexes'])})$|{PLACEHOLDER}")
# Hosts of repositories at which well-known projects are; the page of a project tells to clone and build it.
FORGES: Final = deferred(rf"(?:^|\.)(?:{'|'.join(_TABLE['forges'])})$")
# The exact addresses of installers of well-known projects; only the project can publish there.
_INSTALLERS: Final = deferred("|".join(_TABLE["installers"]))


def kind_of(host: str, path: str) -> AddressKind:
    """Return the kind of an address, by its host and path in lower case."""
    labels = host.partition(":")[0].strip(".").split(".")
    for first in range(len(labels) - 1):
        if kind := _KINDS.get(".".join(labels[first:])):
            return kind
    if _NUMBER.match(host) or labels[-1] in _ODD_ENDINGS or any(label.startswith("xn--") for label in labels):
        return "odd"
    if path.partition("?")[0].endswith(_PROGRAM_SUFFIXES) or "/releases/download/" in path:
        return "program"
    return "other"


def is_anybodys(address: re.Match[str]) -> bool:
    """Return whether anybody can publish at an address, a match of ``URL``, that is not of the user's own network."""
    return not OWN_NETWORK.match(address[1]) and kind_of(address[1], address[2]) in ANYBODYS


def is_index(host: str) -> bool:
    """Return whether a host is a well-known index of packages, a mirror of one, the user's own, or a placeholder."""
    return _INDEXES.search(host.partition(":")[0]) is not None or OWN_NETWORK.match(host) is not None


def is_installer(url: str) -> bool:
    """Return whether an address in lower case is the installer of a well-known project, over https."""
    return url.startswith("https://") and _INSTALLERS.fullmatch(url.removeprefix("https://")) is not None


# The types of files, by name and first bytes.

FILE_NAMES: Final = {name: words(" ".join(lines)) for name, lines in packaged("scan/file_names.json").items()}
# Suffixes of programs, and of files that a build tool, a desktop or the system runs by their names; and of files that
# run code when a program opens, loads, unpickles or compiles them.
RUN_BY_NAME: Final = frozenset((*FILE_NAMES["run_by_name"], *FILE_NAMES["run_when_opened"]))
WHOLE_NAMES: Final = frozenset(FILE_NAMES["whole_names"])
Interpreted = Literal[
    "python", "shell", "javascript", "ruby", "php", "perl", "powershell", "lua", "applescript", "batch"
]
Compiled = Literal["go", "rust", "swift", "java"]
SCRIPTING: Final[tuple[str, ...]] = (*get_args(Interpreted), *get_args(Compiled))  # they are read as programs
Language = Interpreted | Compiled | Literal["markdown", "data", "other"]
# By the suffix of a file; and by the word after the fence of a block of code, or by the program in a first line.
_LANGUAGES: Final[Mapping[Language, Mapping[str, str]]] = packaged("scan/languages.json")
_SUFFIXES, _NAMES = (
    {word: language for language, row in _LANGUAGES.items() for word in row[kind].split()}
    for kind in ("suffixes", "names")
)
_FIRST_LINE = deferred(rb"#!\s{0,4}(?:\S{0,80}/)?(?:env\s{1,4}(?:-S\s{1,4})?)?([a-z]{1,12})")
# The first bytes of pictures, fonts, archives, sound and video, which no agent reads as text.
_MEDIA = (
    *(b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"%PDF-"),
    *(b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"ID3"),
    *(b"\0\1\0\0", b"OTTO", b"wOFF", b"wOF2", b"ttcf", b"true", b"OggS", b"SQLite", b"\0\0\1\0", b"\x28\xb5\x2f\xfd"),
)
COMPILED: Final = frozenset(words(".class .jar .node"))
_BYTECODE = frozenset(words(".pyc .pyo"))
_PROGRAMS = COMPILED | _BYTECODE | {*words(".exe .com .dll .so .dylib .wasm")}
READ_AS_TEXT: Final = frozenset(words(".md .mdx .markdown .rst .txt .json .yaml .yml .toml"))
_CONTROLS = bytes((*range(9), 11, 12, *range(14, 32), 127))
_ODD_SHARE = 0.3


def suffix_of(path: str) -> str:
    """Return the suffix of a path in lower case with its dot, ``.py``; without a dot, the path."""
    _, dot, suffix = path.lower().rpartition(".")
    return dot + suffix


def is_read(path: str, data: bytes) -> bool:
    """Return whether a file that is not UTF-8 may be read or run as text, by its name or by most of its bytes."""
    suffix = suffix_of(path)
    if suffix in RUN_BY_NAME or suffix in READ_AS_TEXT or data.startswith(b"#!"):
        return suffix not in _PROGRAMS
    if data.startswith((*EXECUTABLE_MAGIC, *_MEDIA)):
        return False
    # Most binary data has too many odd bytes in its first part already; up to three of them may be a cut character.
    odd_max = len(data) * _ODD_SHARE
    return _odd(data[: len(data) * 2 // 3]) - 3 < odd_max and _odd(data) < odd_max


def _odd(data: bytes) -> int:
    """Return the number of bytes that are not UTF-8 or are control characters."""
    return len(data) - len(data.decode("utf-8", "ignore").encode().translate(None, _CONTROLS))


def language_of_file(path: str, data: bytes) -> Language:
    """Return the language of a file by its path in lower case or its first line."""
    name = path.rpartition("/")[2]
    if language := _SUFFIXES.get(f".{name.rpartition('.')[2]}" if "." in name else ""):
        return language
    return first_language(data) or ("other" if "." in name else "markdown")  # such as INSTALL


def first_language(data: bytes) -> Language | None:
    """Return the language that the first line of a file names (``#!``); None without such a line."""
    first = _FIRST_LINE.match(data)
    return language_of(first[1].decode()) if first else None


def language_of(word: str) -> Language:
    """Return the language that the word after a fence names."""
    return _NAMES.get(word.lower().strip("{}."), "other")
