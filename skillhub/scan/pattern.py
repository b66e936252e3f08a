"""Rules that are patterns, found in linear time, over every view of a file that an encoding could hide."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from sys import maxsize
from typing import Final

from skillhub.model.finding import Rule, rules

# How rules that are patterns are found: in time linear in the size of the file.
# Patterns see the bytes of a file in lower case, with line ends that a shell would join blanked out, and only
# if their words are there. A pattern holds only small bounded repeats; "this, and later on that line that" is
# two patterns and never one, for a single one would look through the whole gap from every start.

GAP_MAX = 1500
_BEFORE_MAX = 200


# Letters in lower case, digits, what stands for emphasis, and NUL; a blank for everything else.
ONLY_WORDS: Final = bytes(
    ord(chr(n).lower()) if n < 128 and (chr(n).isalnum() or chr(n) in "*\0") else 32 for n in range(256)
)
_PART = re.compile(rb"[a-z0-9]{2,}")
# Stands for all that is beyond ASCII.
_BEYOND: Final = b"\x80"
# What is looked for: whole words, beginnings of words, parts of words, and those of the parts that looks name.
_WHOLE: Final[set[bytes]] = set()
_BEGINS: Final[set[bytes]] = set()
_PARTS: Final[set[bytes]] = set()
_INNER: Final[set[bytes]] = set()
# What each word that was looked at has of that; most have nothing.
_Told = tuple[frozenset[bytes], frozenset[bytes]]
_TOLD: Final[dict[bytes, _Told]] = {}
_DULL: Final[set[bytes]] = set()
_KNOWN_MAX: Final = 1 << 15
# Words that are longer, and those of a text that has more that are new, are of data: they do not come again.
_WORD_MAX, _NEW_MAX, _SHORT = 40, 1 << 14, 5


class Letters:
    """Bytes in lower case, and what their words have of all that is looked for: a text is split into words once.

    What a word has is kept, so that hundreds of literals are looked for in the few words that no text before had. Of
    a rule, nobody needs to know that: ``look`` and ``Literals`` announce what they look for.

    Args:
        data: The bytes.
        around: Those of a text that these are a part of, from one word to another, or the same text with NUL in it;
            its words stand for theirs.
    """

    def __init__(self, data: bytes, around: Letters | None = None) -> None:
        self.data = data
        self._around = around

    @cached_property
    def lowered(self) -> bytes:
        """The bytes, letters of ASCII in lower case."""
        return self.data.lower()

    @cached_property
    def _tokens(self) -> tuple[set[bytes], list[bytes]]:
        """The words, with NUL in them or without it, and those that are one without the ``*`` in it."""
        text = b" %b " % self.data.translate(ONLY_WORDS)
        if b"\0" in self.data:
            without = b" ".join(_with(b"\0", text, is_each=True)).translate(None, b"\0")
            text = b"%b%b " % (text.replace(b"\0", b" "), without)
        whole = [word.replace(b"*", b"") for word in _with(b"*", text, is_each=True)]
        return set(text.replace(b"*", b" ").split()), whole

    @property
    def words(self) -> Set[bytes]:
        """The runs of letters and digits of ASCII, in lower case."""
        return self._tokens[0] if self._around is None else self._around.words

    @cached_property
    def _told(self) -> _Told:
        if self._around is not None:
            return self._around._told
        words, whole = self._tokens
        left = words.union(whole) - _DULL if whole else words - _DULL
        known = {word: found for word in left if (found := _TOLD.get(word))}  # once: other threads add to it
        told = [*known.values()]
        if len(known) < len(left):
            told.append(_told(left.difference(known)))
        always = (b"",) if self.data.isascii() else (b"", _BEYOND)
        return frozenset().union(*[looked for looked, _ in told]), frozenset(always).union(
            *[parts for _, parts in told]
        )

    @property
    def looked(self) -> frozenset[bytes]:
        """The words of looks that are there, as ``look`` writes them."""
        return self._told[0]

    @property
    def parts(self) -> frozenset[bytes]:
        """The parts of literals that are somewhere in a word, also if ``*`` is left out of it."""
        return self._told[1]


def _told(words: Set[bytes]) -> _Told:
    """Return what is in words of all that is looked for, and keep what is in each.

    Every part of a short word is looked up; longer ones are searched as one text.
    """
    is_kept = sum(map(len, words)) + len(words) <= _NEW_MAX
    looked = defaultdict[bytes, list[bytes]](list, {word: [word] for word in _WHOLE & words})
    parts = defaultdict[bytes, list[bytes]](list)
    for word, part, is_begin in chain(_in_short(words), _in_long(words, is_kept)):
        if is_begin:
            looked[word].append(part + b"*")
        else:
            parts[word].append(part)
            if part in _INNER:
                looked[word].append(b"*%b*" % part)
    if is_kept:
        if len(_TOLD) + len(_DULL) >= _KNOWN_MAX:
            _forget()
        for word in [each for each in words if len(each) <= _WORD_MAX]:
            if word in looked or word in parts:
                _TOLD[word] = frozenset(looked.get(word, ())), frozenset(parts.get(word, ()))
            else:
                _DULL.add(word)
    return frozenset().union(*looked.values()), frozenset().union(*parts.values())


def _in_short(words: Set[bytes]) -> Iterator[tuple[bytes, bytes, bool]]:
    """Yield of each short word the parts that are looked for, and whether as its beginning."""
    for word in words:
        length = len(word)
        if length <= _SHORT:
            yield from [(word, begin, True) for end in range(1, length + 1) if (begin := word[:end]) in _BEGINS]
            every = [word[at:end] for at in range(length - 1) for end in range(at + 2, length + 1)]
            yield from [(word, part, False) for part in every if part in _PARTS]


def _in_long(words: Set[bytes], is_each: bool) -> Iterator[tuple[bytes, bytes, bool]]:
    """Yield the same of the longer words: of each of them, or of one for each part."""
    if long := [word for word in words if len(word) > _SHORT]:
        text = b" %b " % b" ".join(long)
        for begin in [each for each in _BEGINS if b" " + each in text]:
            yield from [(word, begin, True) for word in _with(b" " + begin, text, is_each)]
        for part in [each for each in _PARTS if each in text]:
            yield from [(word, part, False) for word in _with(part, text, is_each)]


def _with(literal: bytes, text: bytes, is_each: bool) -> Iterator[bytes]:
    """Yield the words, which blanks part, that a literal is in: each of them, or the first."""
    at = text.find(literal)
    while at >= 0:
        end = text.find(b" ", at + 1)
        yield text[text.rfind(b" ", 0, at + 1) + 1 : end]
        at = text.find(literal, end) if is_each else -1


def _forget() -> None:
    _TOLD.clear()
    _DULL.clear()


class Literals:
    """Some literals in lower case, one of which is looked for.

    Args:
        all: They; ``^`` stands in one where a blank was left out between two words.
    """

    def __init__(self, *all: bytes) -> None:
        self.all = tuple(each.replace(b"^", b"") for each in all)
        self._by_part = defaultdict[bytes, list[bytes]](list)
        for each, literal in zip(all, self.all, strict=True):
            self._by_part[longest_part(each)].append(literal)
        self._parts = frozenset(self._by_part)
        _PARTS.update(self._parts - {b"", _BEYOND})
        _forget()

    def worth(self, parts: Set[bytes]) -> list[bytes]:
        """Return those that a text with these ``Letters.parts`` may have."""
        return [literal for part in self._parts & parts for literal in self._by_part[part]]

    def is_in(self, letters: Letters) -> bool:
        """Say whether one of them is in the bytes."""
        return any([each in letters.lowered for each in self.worth(letters.parts)])


def longest_part(literal: bytes) -> bytes:
    """Return the part of a literal that must stand within a word of each text that it is in; it may be empty."""
    return max(_PART.findall(literal), key=len, default=b"") if literal.isascii() else _BEYOND


class Shape:
    """A pattern, which matches no empty text; where it begins with ``\\b``, all of it stands behind that.

    The engine would try ``\\b`` at every byte. Without it, it skips to the letters that may begin a match, and
    whether one is the first of a word is seen afterwards.
    """

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._begins_word = source.startswith(rb"\b")

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        # Few skills have the words that make a pattern be looked for; to compile them all takes 40 ms.
        return re.compile(self.source.removeprefix(rb"\b"), re.MULTILINE)

    def search(self, data: bytes, at: int = 0, end: int = maxsize) -> re.Match[bytes] | None:
        """Return the first match from ``at`` on; what is at ``end`` is the end of a line."""
        found = self._pattern.search(data, at, end)
        while found and self._begins_word and _is_word(data[found.start() - 1 : found.start()]):
            found = self._pattern.search(data, found.start() + 1, end)
        return found

    def finditer(self, data: bytes, at: int = 0, end: int = maxsize) -> Iterator[re.Match[bytes]]:
        """Yield every match from ``at`` on, none in another."""
        while found := self.search(data, at, end):
            yield found
            at = found.end()


def _is_word(before: bytes) -> bool:
    return before.isalnum() or before == b"_"


@dataclass(frozen=True, slots=True)
class Around:
    """The text around a place, in lower case: ``first`` and ``then`` are what the patterns matched.

    Attributes:
        before: Of the same line, 200 bytes at most.
        after: The text that follows, 1,500 bytes at most; it may hold more lines.
    """

    before: bytes
    first: bytes
    between: bytes
    then: bytes
    after: bytes


Judge = Callable[[Around], str | None]


@dataclass(frozen=True, slots=True)
class SearchSpot:
    """Where to look: at every ``first`` that is followed, on its line and within 1,500 bytes, by ``then``.

    Attributes:
        words: Groups of words in lower case; a file is searched if it has one of each group.
        judge: Says by the text around it which rule, by its id, a place falls under; None if under none.
    """

    words: tuple[frozenset[bytes], ...]
    first: Shape
    then: Shape | None
    judge: Judge | None = None

    def is_worth(self, words: Set[bytes]) -> bool:
        """Say whether a file with these words, or ``Letters.looked``, is to be searched."""
        for group in self.words:  # noqa: SIM110 - as a generator it took a third of the whole scan
            if group.isdisjoint(words):
                return False
        return True

    def places(self, lowered: bytes, start: int = 0, stop: int = maxsize) -> Iterator[tuple[int, str | None]]:
        """Yield the offset of each place, in order, and the rule that its judge names, if it has one.

        Args:
            lowered: The text, in lower case.
            start: Where the part that is searched begins.
            stop: Where it ends, as a line does.
        """
        for offset, begin, middle, end in self._spans(lowered, start, stop):
            if self.judge is None:
                yield offset, None
            elif rule := self.judge(_around(lowered, begin, middle, end)):
                yield offset, rule

    def _spans(self, lowered: bytes, at: int, stop: int) -> Iterator[tuple[int, int, tuple[int, int], int]]:
        """Yield of each place its offset, its begin, the begin and end of what stands between, and its end."""
        if self.then is None:
            for match in self.first.finditer(lowered, at, stop):
                yield match.start(), match.start(), (match.end(), match.end()), match.end()
            return
        if self.first.search(lowered, at, stop) is None or self.then.search(lowered, at, stop) is None:
            return
        firsts = [match.span() for match in self.first.finditer(lowered, at, stop)]
        ends = [end for _, end in firsts]
        for match in self.then.finditer(lowered, ends[0], stop) if ends else ():
            begin, start = firsts[bisect_right(ends, match.start()) - 1]
            if match.start() - start <= GAP_MAX and b"\n" not in lowered[start : match.start()]:
                yield start, begin, (start, match.start()), match.end()


def _around(lowered: bytes, begin: int, middle: tuple[int, int], end: int) -> Around:
    before = lowered[max(0, begin - _BEFORE_MAX) : begin].rpartition(b"\n")[2]
    start, stop = middle
    return Around(before, lowered[begin:start], lowered[start:stop], lowered[stop:end], lowered[end : end + GAP_MAX])


def pattern(id_: str, looks: tuple[SearchSpot, ...]) -> tuple[Rule, tuple[SearchSpot, ...]]:
    """Return a rule, and where it is looked for."""
    return rules()[id_], looks


def look(words: str, first: bytes, then: bytes | None = None, judge: Judge | None = None) -> SearchSpot:
    """Return where to look; between words are blanks, between groups of them slashes.

    Wherever the patterns match there must be one word of each group: a run of letters and digits in lower case, with
    ``*`` behind it the beginning of one, and between two a part of one.
    """
    groups = tuple(frozenset(group.encode().split()) for group in words.split("/"))
    for each in frozenset[bytes]().union(*groups):
        if each.startswith(b"*"):
            _INNER.add(each[1:-1])
            _PARTS.add(each[1:-1])
        elif each.endswith(b"*"):
            _BEGINS.add(each[:-1])
        else:
            _WHOLE.add(each)
    _forget()
    return SearchSpot(groups, Shape(first), None if then is None else Shape(then), judge)


# How the bytes of a file are looked at, so that neither an encoding nor a boundary hides anything.
# A shell leaves out NUL and runs the rest; an editor shows UTF-16 as the text that it is. A long file is looked
# at in windows that overlap by more than any rule spans.

WINDOW: Final = 1 << 20
# A match is kept by the window that its place is in: it may begin this much before, and end this much behind.
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
# Of what a wrong guess gives less is ASCII.
_ASCII_SHARE: Final = 0.3
_PRINTABLE = bytes((9, 10, 13, *range(32, 127)))
# What puts the end of a line far from its beginning, and means nothing to whoever runs it.
# What stands before is looked at once the first byte fits: the engine skips to that, and not to "before".
_PADDING = re.compile(rb"[ \t\x0b\x0c](?<=\S.)[ \t\x0b\x0c]{4,}(?=\S)", re.DOTALL)
_LONG_WORD = re.compile(rb"([^\s|;&<>()`'\"$\\]{64})[^\s|;&<>()`'\"$\\]{136,}")
_SOFT_HYPHEN = "\u00ad".encode()
# In the middle of a word a shell leaves these out; and what is a blank to it.
_QUOTED = re.compile(
    rb"(?:''(?<=[a-z/]'')|\"\"(?<=[a-z/]\"\")|\\(?<=[a-z/]\\)|\$[@*](?<=[a-z/]\$.))(?=[a-z/])", re.DOTALL
)
_ESCAPED = re.compile(rb"\\(?<=[a-z/]\\)(?=[a-z/])")  # what there is of that in most bytes that are no text
_FIELD = re.compile(rb"\$(?:\{IFS\}|IFS\b)")
# YAML's ways to write a character that is not shown where it is written.
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([LPN]))")
_NAMED = {"L": 0x2028, "P": 0x2029, "N": 0x85}
_JOINTS: Final = (
    ((".ps1", ".psm1"), (b"\\", b"`"), re.compile(rb"[\\`]\r?\n")),
    ((".bat", ".cmd"), (b"\\", b"^"), re.compile(rb"[\\^]\r?\n")),
    (("",), (b"\\",), re.compile(rb"\\\r?\n")),
)
# Without one of these, and of those above, each pattern finds nothing: bytes are looked for much faster than a
# pattern, and a single one faster still.
_IN_QUOTED: Final = (b"''", b'""', b"\\", b"$@", b"$*")
# More than any word that a pattern has.
_NEAR: Final = 40
# More than any place and what is between its two patterns.
REACH: Final = 1 << 12
_TO_BLANK: Final = bytes.maketrans(b"\t\x0b\x0c", b"   ")
_PADDED: Final = b" " * 5
_NO_WORD: Final = bytes(32 if chr(each) in "|;&<>()`'\"$\\\t\n\r\x0b\x0c" else each for each in range(256))
_LONG: Final = 200


@dataclass(frozen=True, slots=True)
class Window:
    """Some of a file: what is found from ``keep`` to ``until`` is its own, offsets of the file."""

    data: bytes
    start: int
    keep: int
    until: int


def views(data: bytes, text: bool) -> Iterator[bytes]:
    """Yield the bytes, and what else programs or people see in them if they are no UTF-8 ``text``."""
    yield data
    squeezed = _squeezed(data)
    if len(squeezed) != len(data):
        yield squeezed
    if text:
        return
    if b"\0" in data:
        yield data.translate(None, b"\0")
    yield from decoded(data)


def _squeezed(data: bytes) -> bytes:
    if b"$" in data and b"IFS" in data:
        data = _FIELD.sub(b" ", data)
    is_plain = b"\t" not in data and b"\x0b" not in data and b"\x0c" not in data
    if _PADDED in (data if is_plain else data.translate(_TO_BLANK)):
        data = _PADDING.sub(b" ", data)
    if has_run(data, _LONG) and has_run(data.translate(_NO_WORD), _LONG):
        data = _LONG_WORD.sub(rb"\1", data)
    return data if data.isascii() else data.replace(_SOFT_HYPHEN, b"")


def has_run(data: bytes, length: int, end: bytes = b" ") -> bool:
    """Say whether there are so many bytes without an ``end``; it looks from one to the last that is near it."""
    at = 0
    while at + length <= len(data):
        found = data.rfind(end, at, at + length)
        if found < 0:
            return True
        at = found + 1
    return False


def unescaped(data: bytes, whole: bool) -> bytes:
    """Return YAML, or the frontmatter that the data begin with unless they are ``whole``, as a parser reads it."""
    end = len(data) if whole else data.find(b"\n---", 3)
    text = data[: max(end, 0)].decode("utf-8", "replace")
    return _ESCAPE.sub(_unescaped, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _unescaped(match: re.Match[str]) -> str:
    code = _NAMED[match[4]] if match[4] else int(match[1] or match[2] or match[3], 16)
    return chr(code) if code <= 0x10FFFF and code not in (9, 10, 13) else " "


def decoded(data: bytes) -> Iterator[bytes]:
    """Yield as UTF-8 what is in UTF-16 or UTF-32, by its mark or by its NUL bytes; nothing of other bytes."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            yield _utf8(data[len(mark) :], encoding)
            return
    nul = data.count(0)
    if nul < len(data) * _NUL_SHARE:
        return
    unit = 4 if nul > len(data) * 0.6 else 2
    for end in ("le", "be"):
        found = _utf8(data, f"utf-{unit * 8}-{end}")
        if len(found.translate(None, _PRINTABLE)) < len(found) * (1 - _ASCII_SHARE):
            yield found


def _utf8(data: bytes, encoding: str) -> bytes:
    return data.decode(encoding, "replace").encode("utf-8", "replace")


def windows(data: bytes) -> Iterator[Window]:
    """Yield the file in pieces that overlap; a file of ordinary size is one."""
    for keep in range(0, max(len(data), 1), WINDOW):
        start, until = max(0, keep - _BEFORE), keep + WINDOW
        last = until >= len(data)
        piece = data if last and not start else data[start : until + _AFTER]
        yield Window(piece, start, keep, len(data) + 1 if last else until)


@dataclass(frozen=True, slots=True)
class Joined:
    """A text with the lines joined that a shell joins.

    Attributes:
        offset_of: Gives the offset in the text that lines are joined of.
        joints: Where nothing is left of what stood between: only around them the text is new. None if all of it is.
    """

    text: bytes
    offset_of: Callable[[int], int]
    joints: list[int] | None = None

    @property
    def new(self) -> bytes:
        """What has all words that are new."""
        if self.joints is None or len(self.joints) * _NEAR > len(self.text):
            return self.text
        return b"\n".join([self.text[max(0, at - _NEAR) : at + _NEAR] for at in self.joints])

    def parts(self) -> Iterator[tuple[int, int]]:
        """Yield the begin and end of what has all places that are new; it ends where a line does."""
        end = -1
        for at in [0] if self.joints is None else self.joints:
            if at > end - REACH and end < len(self.text):
                start = max(at - REACH, end, 0)
                end = self.text.find(b"\n", at + REACH) if self.joints is not None else -1
                end = len(self.text) if end < 0 else end
                yield start, end


def joined(lowered: bytes, path: str) -> Iterator[Joined]:
    """Yield the text with the lines joined that a shell joins.

    A joint is a blank, as a reader takes it; and it is nothing, as a shell takes it, where a word goes on behind it.
    """
    begins, joint = next((begins, each) for ends, begins, each in _JOINTS if path.lower().endswith(ends))
    # A carriage return alone ended a line once, and does for Python today.
    is_joined = any(each in lowered for each in begins) and joint.search(lowered) is not None
    blanked = joint.sub(lambda match: b" " * len(match[0]), lowered) if is_joined else lowered
    blanked = blanked.replace(b"\r", b"\n")
    yield Joined(blanked, int)
    quoted = [each for each in _IN_QUOTED if each[:1] in blanked and each in blanked]
    in_quoted = _ESCAPED if quoted == [b"\\"] else _QUOTED
    for pattern, text, is_worth in ((joint, lowered, is_joined), (in_quoted, blanked, bool(quoted))):
        gone = [match.span() for match in pattern.finditer(text)] if is_worth else []
        if gone:
            taken = [0]
            for start, end in gone:
                taken.append(taken[-1] + end - start)
            starts = [start - before for (start, _), before in zip(gone, taken, strict=False)]
            ends = (0, *[end for _, end in gone])
            left = b"".join([text[end:start] for end, (start, _) in zip(ends, (*gone, (len(text), 0)), strict=True)])
            yield Joined(left.replace(b"\r", b"\n"), partial(_before, starts, taken), starts)


def _before(starts: list[int], taken: list[int], offset: int) -> int:
    return offset + taken[bisect_right(starts, offset)]


@dataclass(frozen=True, slots=True)
class Sighting:
    """A rule, by its id, and where it was seen; line 0 is the file as a whole.

    Attributes:
        message: What was seen, where that says more than the title of the rule.
    """

    rule: str
    path: str
    line: int
    message: str = ""
