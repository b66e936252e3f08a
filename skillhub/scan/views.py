"""The words of a text, and the texts in which patterns are searched: raw, decoded, with its lines joined."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import compress, count
from sys import maxsize
from typing import AnyStr, Final, Generic

from skillhub.formats.text import deferred

# ELF, Windows, Mach-O, WebAssembly, Java. The name does not matter: to copy such a file or set its mode is enough.
EXECUTABLE_MAGIC = (
    *(b"\x7fELF", b"MZ", b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe"),
    *(b"\xca\xfe\xba\xbe", b"\0asm"),
)
# Keeps letters in lower case, digits, ``*`` (the sign of emphasis) and NUL; everything else becomes a blank.
ONLY_WORDS: Final = bytes(
    ord(chr(n).lower()) if n < 128 and (chr(n).isalnum() or chr(n) in "*\0") else 32 for n in range(256)
)
_PART = deferred(rb"[a-z0-9]{2,}")
_COMMON: Final = frozenset(
    b"file from import list name open path request run script server shell an as at be by do go he if in is it me my"
    b" no of on or so to up us we".split()
)
_IN_WORD: Final = b"abcdefghijklmnopqrstuvwxyz0123456789 "
_ASCII: Final = bytes(range(128))
# The registered characters beyond ASCII in lower and in upper case, each with the one in lower case in UTF-8.
_BEYOND: Final[dict[str, bytes]] = {}
_ANY_CHARACTER: Final = frozenset((b"\x80",))
# The registered literals by their first three letters, as numbers. In each row: the letters with the blanks that must
# surround them, and the literal in the notation of ``skillhub.scan.pattern.pattern``.
_BY_START: Final = defaultdict[tuple[int, ...], set[tuple[bytes, bytes]]](set)
# The literals of each known word; and the words that have none.
_KNOWN: Final[dict[bytes, frozenset[bytes]]] = {}
_WITHOUT_LITERALS: Final[set[bytes]] = set()
_KNOWN_MAX: Final = 1 << 15
_WORD_MAX: Final = 40  # longer words come from data and do not occur again


class Letters:
    """Bytes in lower case, with their words and the literals in these words; a text is split into words once.

    The literals of a word are remembered, so that hundreds of literals are searched only in the few words that no
    earlier text had. ``pattern`` and ``Literals`` register the literals to search for.

    Args:
        data: The bytes.
        around: The letters of a longer text that contains these bytes as whole words, or of the same text with NUL in
            it. Its words are used instead of words of its own.
        joined: Words of these bytes that ``around`` has in parts.
    """

    def __init__(self, data: bytes, around: Letters | None = None, joined: bytes = b"") -> None:
        self.data = data
        self._around = around
        self._joined = joined

    @cached_property
    def lowered(self) -> bytes:
        """The bytes, letters of ASCII in lower case."""
        return self.data.lower()

    @cached_property
    def _tokens(self) -> tuple[set[bytes], list[bytes]]:
        """The words, NUL taken as a blank and left out, and the words that result when ``*`` is left out."""
        text = b" %b " % self.data.translate(ONLY_WORDS)
        if b"\0" in self.data:
            without = b" ".join(_words_with(b"\0", text)).translate(None, b"\0")
            text = b"%b%b " % (text.replace(b"\0", b" "), without)
        return set(text.replace(b"*", b" ").split()), [word.replace(b"*", b"") for word in _words_with(b"*", text)]

    @property
    def words(self) -> Set[bytes]:
        """The runs of letters and digits of ASCII, in lower case."""
        if self._around is None:
            return self._tokens[0]
        return self._around.words | Letters(self._joined).words if self._joined else self._around.words

    @cached_property
    def literals(self) -> frozenset[bytes]:
        """The registered literals that occur in a word of the text, with its ``*`` or without."""
        if self._around is not None:
            return self._around.literals | (Letters(self._joined).literals if self._joined else frozenset())
        words, starred = self._tokens
        candidates = words - _WITHOUT_LITERALS
        if starred:
            candidates |= {*starred} - _WITHOUT_LITERALS
        # One ``get`` each, since other threads add to the table and empty it.
        known = [*map(_KNOWN.get, candidates)]
        found = [*filter(None, known)]
        found.append(_literals_in([word for word, literals in zip(candidates, known, strict=True) if not literals]))
        if not self.data.isascii():
            found.append(_characters_beyond(self.data))
        return frozenset((b"",)).union(*found)


def _literals_in(words: list[bytes]) -> frozenset[bytes]:
    """Return the literals in some words, and remember those of each."""
    text = b" %b  " % b"  ".join(words)
    is_start = map(_BY_START.__contains__, zip(text, text[1:], text[2:], strict=False))
    literals = defaultdict[bytes, set[bytes]](set)
    end, in_word = 0, set[bytes]()
    for offset in compress(count(), is_start):
        for letters, literal in _BY_START[text[offset], text[offset + 1], text[offset + 2]]:
            if text.startswith(letters, offset):
                if offset >= end:  # a word may be as long as the text, and is copied once
                    start, end = text.rfind(b" ", 0, offset + 1) + 1, text.find(b" ", offset + 1)
                    in_word = literals[text[start:end]]
                in_word.add(literal)
    _KNOWN.update({word: frozenset(found) for word, found in literals.items() if len(word) <= _WORD_MAX})
    _WITHOUT_LITERALS.update([word for word in words if len(word) <= _WORD_MAX and word not in literals])
    if len(_KNOWN) + len(_WITHOUT_LITERALS) > _KNOWN_MAX:
        _clear_known_words()
    return frozenset[bytes]().union(*literals.values())


def _characters_beyond(data: bytes) -> frozenset[bytes]:
    """Return the registered characters beyond ASCII in a text, or that there may be any if it is not UTF-8."""
    if not is_text(data):
        return _ANY_CHARACTER
    characters = {*data.translate(None, _ASCII).decode()}
    return frozenset([_BEYOND[character] for character in characters & _BEYOND.keys()])


def _clear_known_words() -> None:
    _KNOWN.clear()
    _WITHOUT_LITERALS.clear()


def register(literals: Set[bytes]) -> None:
    """Add literals to the table, each in the notation of ``pattern``."""
    for literal in literals:
        if not literal.isascii():
            _BEYOND.update(dict.fromkeys((literal.decode(), literal.decode().upper()), literal))
            continue
        letters = literal.strip(b"*")
        text = letters if literal[:1] == b"*" else b" " + letters if literal[-1:] == b"*" else b" %b " % letters
        starts = [text[:3]] if len(text) > 2 else [text + bytes((last,)) for last in _IN_WORD]
        for start in starts:
            _BY_START[tuple(start)].add((text, literal))
    _clear_known_words()


def _words_with(sign: bytes, text: bytes) -> Iterator[bytes]:
    """Yield each word of a text that contains a sign. Blanks separate words."""
    offset = text.find(sign)
    while offset >= 0:
        end = text.find(b" ", offset)
        yield text[text.rfind(b" ", 0, offset) + 1 : end]
        offset = text.find(sign, end)


def words_around(sign: re.Pattern[bytes], data: bytes) -> bytes:
    """Return the words of a text that have a sign; a match of it reaches to the end of its word."""
    spaced, end, words = data.translate(ONLY_WORDS), 0, list[bytes]()
    for match in sign.finditer(data):
        words.append(data[max(spaced.rfind(b" ", end, match.start()) + 1, end) : match.end()])
        end = match.end()
    return b"\n".join(words)


class Literals:
    """A group of literals in lower case; a text matches if it contains one of them.

    Args:
        all: The literals. ``^`` in a literal marks a blank between two words that was left out.

    Attributes:
        parts: The longest part of each literal, as in ``pattern``. A text with a literal has one of them.
    """

    def __init__(self, *all: bytes) -> None:
        self.all = tuple(marked.replace(b"^", b"") for marked in all)
        self._by_part = defaultdict[bytes, list[bytes]](list)
        for marked, literal in zip(all, self.all, strict=True):
            for part in (_longest_part(marked), *(() if marked.isascii() else _ANY_CHARACTER)):
                self._by_part[part].append(literal)
        self.parts = frozenset(self._by_part)
        register(self.parts - _ANY_CHARACTER - {b""})

    def candidates(self, text_literals: Set[bytes]) -> list[bytes]:
        """Return the literals that may occur in a text with these ``Letters.literals``."""
        return [literal for part in self.parts & text_literals for literal in self._by_part[part]]

    def is_in(self, letters: Letters) -> bool:
        """Return whether one of the literals occurs in the bytes."""
        return any([literal in letters.lowered for literal in self.candidates(letters.literals)])


def _longest_part(literal: bytes) -> bytes:
    """Return the longest part of a literal that lies within one word wherever it occurs, as in ``pattern``.

    A part that is itself a common word is the last choice. Of a literal beyond ASCII the part is the first such
    character; it is empty if the literal has no part.
    """
    if not literal.isascii():
        return next(char for char in literal.decode() if not char.isascii()).encode()
    part = max(_PART.findall(literal), key=lambda part: (part not in _COMMON, len(part)), default=b"")
    return b"*%b*" % part if part else b""


class LazyPattern(Generic[AnyStr]):
    """A pattern that matches no empty text. A ``\\b`` at its start applies to all its alternatives.

    The regex engine would try ``\\b`` at every byte. Without ``\\b`` it skips to the letters that can begin a match;
    ``search`` then checks that the match begins a word.
    """

    def __init__(self, source: AnyStr) -> None:
        self.source: AnyStr = source
        self._begins_word = source[:2] in (rb"\b", r"\b")

    @cached_property
    def _pattern(self) -> re.Pattern[AnyStr]:
        # Compiled at first use: to compile all patterns takes 40 ms, and few skills have the words of most of them.
        return re.compile(self.source[2 if self._begins_word else 0 :], re.MULTILINE)

    def search(self, data: AnyStr, start: int = 0, end: int = maxsize) -> re.Match[AnyStr] | None:
        """Return the first match from ``start`` on; ``end`` must be the end of a line."""
        match = self._pattern.search(data, start, end)
        while match and self._begins_word and _is_word(data[match.start() - 1 : match.start()]):
            match = self._pattern.search(data, match.start() + 1, end)
        return match

    def finditer(self, data: AnyStr, start: int = 0, end: int = maxsize) -> Iterator[re.Match[AnyStr]]:
        """Yield every match from ``start`` on; matches do not overlap."""
        while match := self.search(data, start, end):
            yield match
            start = match.end()


def _is_word(before: bytes | str) -> bool:
    return before.isalnum() or before in (b"_", "_")


# Views and windows of a file, so that neither an encoding nor a boundary hides a match.
# A shell drops NUL and runs the rest; an editor shows UTF-16 as text. A long file is searched in windows that overlap
# by more than the longest match.

WINDOW: Final = 1 << 20
# A window reports the matches whose offset lies in it; a match may begin and end this many bytes outside of it.
_BEFORE: Final = 1 << 10
_AFTER: Final = 1 << 12
_BOMS: Final = (
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
# Text in Latin letters without a mark has NUL as every second byte, or as three of four.
_NUL_SHARE: Final = 0.2
# A wrongly guessed encoding yields a smaller share of ASCII.
_ASCII_SHARE: Final = 0.3
_PRINTABLE = bytes((9, 10, 13, *range(32, 127)))
# A table for ``bytes.translate``: the engine finds a run of one letter ten times as fast as one of a class of bytes.
_READABLE: Final = bytes(97 if each in b"\0%b" % _PRINTABLE else 0 for each in range(256))
_STRING = deferred(rb"aaaa+")
# Padding that moves the end of a line far from its start, and has no effect when the line runs.
# The lookbehind follows the first byte: the regex engine skips to a byte, but tries a lookbehind at every offset.
_PADDING = deferred(rb"[ \t\x0b\x0c](?<=\S.)[ \t\x0b\x0c]{4,}(?=\S)", re.DOTALL)
_SOFT_HYPHEN = "\u00ad".encode()
_HYPHEN_IN_WORD = deferred(rb"%b(?>(?:[A-Za-z0-9*\0]++|%b)*)" % (_SOFT_HYPHEN, _SOFT_HYPHEN))
# What a shell drops within a word, each with its first byte, to which the engine skips: `c'u'rl`, `cu""rl`, `cu$@rl`,
# `cu$''rl`, `c${x}url`; PowerShell and cmd drop a backtick or a caret. Both quotes of a part are groups. A string of
# Python with a prefix (`b'..'`) is no such word.
_QUOTED_PART = (
    r"({0})(?:(?:(?<=[a-z0-9_/]{0})(?:(?<![^\w'\"][bfru]{0})(?<![^\w'\"][bfr][bfr]{0})|(?=[\w./~$-]{{0,40}}{0}\w))"
    r"|(?<=['\"]{0})(?:(?<=[a-z0-9_/]['\"]{0})(?=[\w./~$-]{{1,40}}{0}\w)|(?<=[a-z0-9_/](?:''|\"\"){0})))"
    r"[\w./~$-]{{0,40}}({0})|[\w./~$-]{{1,40}}({0})(?=[a-z0-9_/]))"
)
_DROPPED: Final = tuple(
    (first, re.compile(pattern, re.DOTALL))
    for first, pattern in (
        *((quote, _QUOTED_PART.format(quote.decode()).encode()) for quote in (b"'", b'"')),
        (b"\\", rb"\\(?<=[a-z/]\\)(?=[a-z/])"),
        (b"$", rb"\$(?<=[a-z/]\$)(?:[@*0-9]|''|\"\"|\(\)|\{[\w@*#%:+=-]{1,24}\})(?=[a-z/])"),
        (b"`", rb"`(?:`(?<=[a-z/]``)|(?<=[a-z]`))(?=[a-z/])"),
        (b"^", rb"\^(?<=[a-z]\^)(?=[a-z])"),
    )
)
_FIELD = deferred(rb"\$(?:\{IFS\}|IFS\b)")  # a shell reads it as a blank
# The escapes of YAML.
_ESCAPE = deferred(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([LPN]))")
_NAMED_ESCAPES = {"L": 0x2028, "P": 0x2029, "N": 0x85}
_JOINTS: Final = (
    ((".ps1", ".psm1"), (b"\\", b"`"), re.compile(rb"[\\`]\r?\n")),
    ((".bat", ".cmd"), (b"\\", b"^"), re.compile(rb"[\\^]\r?\n")),
    (("",), (b"\\",), re.compile(rb"\\\r?\n")),
)
# The end of a line in a string of a program, in JSON or YAML: its letter would begin the next word.
_WRITTEN_END = deferred(rb"\\[nrt]")
# Longer than the longest word of a pattern.
_WORD_REACH: Final = 40
# Longer than the longest match, the text between its two patterns included.
REACH: Final = 1 << 12
_TO_BLANK: Final = bytes.maketrans(b"\t\x0b\x0c", b"   ")
_PADDED: Final = b" " * 5
_NO_WORD: Final = bytes(32 if chr(each) in "|;&<>()`'\"$\\\t\n\r\x0b\x0c" else each for each in range(256))
_LONG: Final = 200
_LEFT_OF_WORD: Final = 64  # of a long word, so many bytes are searched


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a file, from offset ``start`` on; it reports the matches from ``keep`` to ``until``, also offsets."""

    data: bytes
    start: int
    keep: int
    until: int


def squeezed(letters: Letters) -> Letters:
    """Return a text without padding, soft hyphens and the ends of long words; the same letters if it has none."""
    data = letters.data
    blanked = _FIELD.sub(b" ", data) if b"$" in data and b"IFS" in data else data
    is_plain = b"\t" not in blanked and b"\x0b" not in blanked and b"\x0c" not in blanked
    is_padded = _PADDED in (blanked if is_plain else blanked.translate(_TO_BLANK))
    text, new_words = _PADDING.sub(b" ", blanked) if is_padded else blanked, b""
    if any(runs(text, _LONG)):
        words = [*runs(text.translate(_NO_WORD), _LONG)]
        cuts = (*[start + _LEFT_OF_WORD for start, _ in words], len(text))
        new_words = b"".join([text[start : start + _LEFT_OF_WORD] + b"\n" for start, _ in words])
        text = b"".join([text[end:cut] for end, cut in zip((0, *[end for _, end in words]), cuts, strict=True)])
    plain = text if text.isascii() else text.replace(_SOFT_HYPHEN, b"")
    if len(plain) == len(data):
        return letters
    if len(plain) < len(text):
        new_words += words_around(_HYPHEN_IN_WORD, text).replace(_SOFT_HYPHEN, b"")
    return Letters(plain, letters, new_words)


def runs(data: bytes, length: int, end: bytes = b" ") -> Iterator[tuple[int, int]]:
    """Yield the start and end of each run of ``length`` bytes or more without ``end``.

    The search skips to the last ``end`` within reach.
    """
    start = 0
    while start + length <= len(data):
        boundary = data.rfind(end, start, start + length)
        if boundary < 0:
            boundary = data.find(end, start + length)
            boundary = len(data) if boundary < 0 else boundary
            yield start, boundary
        start = boundary + 1


# The blanks of Unicode in UTF-8, such as the no-break space; no line end, so that lines keep their numbers.
_UNICODE_BLANK = deferred(rb"\xc2\xa0|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80")


def unescaped(data: bytes, whole: bool) -> bytes:
    """Return YAML or JSON with its escapes resolved, as a parser reads it.

    Args:
        data: The bytes.
        whole: Whether all of them are YAML or JSON; otherwise only the frontmatter is returned.
    """
    end = len(data) if whole else data.find(b"\n---", 3)
    text = data[: max(end, 0)].decode("utf-8", "replace")
    return _ESCAPE.sub(_unescaped, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _unescaped(match: re.Match[str]) -> str:
    code = _NAMED_ESCAPES[match[4]] if match[4] else int(match[1] or match[2] or match[3], 16)
    return chr(code) if code <= 0x10FFFF and code not in (9, 10, 13) else " "


def spaced(data: bytes) -> Iterator[bytes]:
    """Yield the text with each blank of Unicode as an ASCII blank, as a reader sees it; nothing if it has none."""
    if not data.isascii() and _UNICODE_BLANK.search(data):
        yield _UNICODE_BLANK.sub(b" ", data)


def decoded(data: bytes) -> Iterator[bytes]:
    """Yield UTF-16 or UTF-32, recognized by the byte order mark or the NUL bytes, as UTF-8; else yield nothing."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            yield _utf8(data[len(mark) :], encoding)
            return
    nul = data.count(0)
    if nul < len(data) * _NUL_SHARE:
        return
    unit = 4 if nul > len(data) * 0.6 else 2
    for end in ("le", "be"):
        text = _utf8(data, f"utf-{unit * 8}-{end}")
        if len(text.translate(None, _PRINTABLE)) < len(text) * (1 - _ASCII_SHARE):
            yield text


def _utf8(data: bytes, encoding: str) -> bytes:
    return data.decode(encoding, "replace").encode("utf-8", "replace")


def windows(data: bytes) -> Iterator[Window]:
    """Yield the file in windows that overlap; a file of up to 1 MiB is one window."""
    for keep in range(0, max(len(data), 1), WINDOW):
        start, until = max(0, keep - _BEFORE), keep + WINDOW
        last = until >= len(data)
        piece = data if last and not start else data[start : until + _AFTER]
        yield Window(piece, start, keep, len(data) + 1 if last else until)


@dataclass(frozen=True, slots=True)
class Joined:
    """A text after its lines were joined as a shell joins them.

    Attributes:
        offset_of: Returns the offset in the original text for an offset in this one.
        joints: The offsets at which bytes were removed; the text differs from the original only around them. None if
            the whole text is to be searched.
    """

    text: bytes
    offset_of: Callable[[int], int]
    joints: list[int] | None = None

    @property
    def new_words(self) -> bytes:
        """A text with all words that the original does not have."""
        if self.joints is None or len(self.joints) * _WORD_REACH > len(self.text):
            return self.text
        return b"\n".join([self.text[max(0, joint - _WORD_REACH) : joint + _WORD_REACH] for joint in self.joints])

    def changed_spans(self) -> Iterator[tuple[int, int]]:
        """Yield the start and end of the parts in which a match may be new; each part ends at the end of a line."""
        start, end = 0, -1
        for joint in [0] if self.joints is None else self.joints:
            if joint > end - REACH and end < len(self.text):
                if joint - REACH > end >= 0:  # what lies between two parts is not searched
                    yield start, end
                start = start if joint - REACH <= end else joint - REACH
                end = self.text.find(b"\n", joint + REACH) if self.joints is not None else -1
                end = len(self.text) if end < 0 else end
        if end >= 0:
            yield start, end


def joined(lowered: bytes, path: str) -> Iterator[Joined]:
    """Yield the text with its lines joined as a shell joins them.

    The first text has blanks for each joint (a line end that a shell drops), as a reader sees it. The second one has
    nothing there, as a shell reads it. The third one lacks what a shell drops within words, such as quotes. The last
    one has only the lines that begin in a string.
    """
    lead_bytes, joint = next(
        (lead_bytes, regex) for suffixes, lead_bytes, regex in _JOINTS if path.lower().endswith(suffixes)
    )
    # Python and old systems end a line with a carriage return alone.
    is_joined = any(byte in lowered for byte in lead_bytes) and joint.search(lowered) is not None
    blanked = joint.sub(lambda match: b" " * len(match[0]), lowered) if is_joined else lowered
    blanked = blanked.replace(b"\r", b"\n")
    yield Joined(blanked, int)
    if is_joined:
        yield from _without([match.span() for match in joint.finditer(lowered)], lowered)
    matches = [match for first, regex in _DROPPED if first in blanked for match in regex.finditer(blanked)]
    yield from _without(sorted({span for match in matches for span in _dropped(match)}), blanked)
    if b"\\" in blanked:
        yield from _lines_in_strings(blanked)


def _lines_in_strings(text: bytes) -> Iterator[Joined]:
    """Yield the lines that begin in a string, if there are any, and no other text."""
    starts = [match.start() + 1 for match in _WRITTEN_END.finditer(text)]
    if starts:
        lines = _WRITTEN_END.sub(b" \n", text)
        ends = [lines.find(b"\n", start + 1) for start in starts]
        others = zip((0, *ends), (*starts, len(text)), strict=True)
        yield from _without([(end, start) for end, start in others if 0 <= end < start], lines)


def _dropped(match: re.Match[bytes]) -> list[tuple[int, int]]:
    """Return the spans of both quotes, or the whole span."""
    return [span for span in match.regs[1:] if span[0] >= 0] or [match.span()]


def _without(removed: list[tuple[int, int]], text: bytes) -> Iterator[Joined]:
    """Yield the text without the removed parts, if there are any; these do not overlap."""
    if not removed:
        return
    lengths = [0]
    for start, end in removed:
        lengths.append(lengths[-1] + end - start)
    starts = [start - before for (start, _), before in zip(removed, lengths, strict=False)]
    ends = (0, *[end for _, end in removed])
    shortened = b"".join([text[end:start] for end, (start, _) in zip(ends, (*removed, (len(text), 0)), strict=True)])
    yield Joined(shortened.replace(b"\r", b"\n"), partial(_original_offset, starts, lengths), starts)


def _original_offset(starts: list[int], lengths: list[int], offset: int) -> int:
    return offset + lengths[bisect_right(starts, offset)]


def strings(data: bytes) -> bytes:
    """Return the strings of binary data: each four or more bytes in a row that are readable or NUL.

    Lines keep their numbers.
    """
    parts, end = list[bytes](), 0
    for match in _STRING.finditer(data.translate(_READABLE)):
        start = match.start()
        parts.append(b"\n" * data.count(b"\n", end, start) or b"\xff")
        end = match.end()
        parts.append(data[start:end])
    return b"".join(parts)


def is_text(data: bytes) -> bool:
    """Return whether ``data`` is UTF-8 without a NUL."""
    if b"\0" in data:
        return False
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


# Texts, data and pictures, which are no programs by their names.
IS_DATA: Final = LazyPattern(
    r"\.(?:txt|md|rst|json|ya?ml|csv|dat|bin|log|xml|html?|css|tmp|bak|svg|png|jpe?g|gif|ico|webp|bmp|pdf|woff2?|ttf|mp3|wav)\Z"
)
