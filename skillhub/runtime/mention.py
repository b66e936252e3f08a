"""Names of skills as people type them: mentions in a message, and what a name that no skill has may mean."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from skillhub.model.record import Skill

# Finds the parts of a message that are code or commands, where ``$`` does not begin a mention.

# A line that opens or closes a block of code (CommonMark 4.5), also in a quotation or a list; the text after
# an opening of backticks holds none, or it is code in a line. Every pattern begins with a letter that it can be
# looked for by, which takes a tenth of the time that trying each place does.
_FENCE = re.compile(r"\n[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}(?=[^`\n]*(?:\n|\Z))|~{3,})([^\n]*)")
# A line handed to a shell (`! ls`, `$ ls`; `![` is a picture), a substitution, and what a shell or an interpreter
# is told by `-c`.
_COMMANDS = (
    re.compile(r"\n[ \t]*(?:!(?!\[)|\$ )[^\n]*"),
    re.compile(r"\$\([^)\n]*\)?"),
    re.compile(r"""-\w{0,8}c[ ]+(?:"[^"\n]*"|'[^'\n]*')"""),
)
_TICKS = re.compile(r"`+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")


class Span(NamedTuple):
    """A part of a text, its end not included."""

    start: int
    end: int


def code_spans(text: str) -> list[Span]:
    """Return the parts of ``text`` that are code or commands, in order and apart, in time linear in its length.

    Args:
        text: Markdown, as people and models write it.
    """
    lines = "\n" + text  # so that the first line begins as the others do
    fenced = list(_fenced(lines)) if "```" in text or "~~~" in text else []
    spans = [*fenced, *(_inline(lines, fenced) if "`" in text else ())]
    spans += (Span(*each.span()) for pattern in _COMMANDS for each in pattern.finditer(lines))
    return [Span(max(span.start - 1, 0), span.end - 1) for span in _merged(spans)]


def _fenced(text: str) -> Iterator[Span]:
    """Yield the blocks of code; one that nothing closes goes on to the end (CommonMark 4.5)."""
    start, fence = 0, ""
    for line in _FENCE.finditer(text):
        marks, after = line.groups()
        if not fence:
            start, fence = line.start(), marks
        elif marks.startswith(fence) and not after.strip():
            yield Span(start, line.end())
            fence = ""
    if fence:
        yield Span(start, len(text))


def _inline(text: str, fenced: list[Span]) -> Iterator[Span]:
    """Yield code in a line: from a run of backticks to the next of the same length (CommonMark 6.1)."""
    runs = [run.span() for run in _TICKS.finditer(text)]
    breaks = [gap.start() for gap in _BLANK_LINE.finditer(text)]
    # For each run the next of its length, found from the end, so that no run is looked for twice.
    latest: dict[int, int] = {}
    closing: list[int | None] = [None] * len(runs)
    for at in range(len(runs) - 1, -1, -1):
        length = runs[at][1] - runs[at][0]
        closing[at] = latest.get(length)
        latest[length] = at
    blocks = iter([*fenced, Span(len(text), len(text) + 1)])
    block = next(blocks)
    at = 0
    while at < len(runs):
        start, end = runs[at]
        while block.end <= start:
            block = next(blocks)
        to = closing[at]
        if block.start <= start or to is None or text[start - 1 : start] == "\\":
            at += 1
        elif runs[to][0] < block.start and bisect_right(breaks, end) == bisect_right(breaks, runs[to][0]):
            yield Span(start, runs[to][1])
            at = to + 1
        else:
            at += 1


def _merged(spans: list[Span]) -> list[Span]:
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.start <= found[-1].end:
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


# Finds mentions of skills in a message: ``$name``, ``$ns:name``, ``[$name](path)``, ``/name args``, and
# ``/skill name args``.

# `_` is in no name of the specification, but in those of lenient hosts; a hyphen ends none. ASCII alone, so that
# a mention ends where text without blanks between words goes on.
_NAME = r"[A-Za-z0-9_]+(?:-+[A-Za-z0-9_]+)*"
_FULL_NAME = rf"{_NAME}(?::{_NAME})*"
# Numbers, and variables as shells write them: `$5`, `$10-20`, `$PATH`, `$HOME-dir`.
_NO_NAME = r"(?![0-9-]+(?![A-Za-z0-9_:])|[A-Z_][A-Z0-9_]*(?![A-Za-z0-9_]))"
# Before a mention is no letter, and nothing that makes it part of a path, an address or an assignment.
NOT_WITHIN = r"(?<![A-Za-z0-9_$\\/.=&%@#+~-])"
# A path has no parenthesis, so that no two searches for its end go over the same text.
_MENTION = re.compile(
    rf"\[\${_NO_NAME}(?P<linked>{_FULL_NAME})\][ \t]*\([ \t]*(?P<path>[^()\n]+)\)"
    rf"|{NOT_WITHIN}\${_NO_NAME}(?P<plain>{_FULL_NAME})"
)
# `/skill NAME` as well, but for the words of a host's own `/skill`.
_OWN = r"(?!(?:list|enable|disable|reload|install)(?:\s|\Z))"
_SLASH = re.compile(rf"\s*(?P<text>/(?:skill[ \t]+{_OWN})?(?P<name>{_FULL_NAME}))(?=\s|\Z)")
_SHELL = frozenset({"path", "home", "user", "shell", "pwd", "tmpdir", "temp", "tmp", "lang", "term"})


class Typed(NamedTuple):
    """One mention as it was typed.

    Attributes:
        text: All of it, as in the message.
        name: ``name`` or ``ns:name``.
        start: Where it begins in the text, in characters.
        end: Where it ends, not included.
        path: What a link leads to, else None.
        doubtful: Whether it may as well be a variable or a number (``$my_var``, ``$user``, ``$3d``), so that it
            is a mention only if a skill has exactly that name.
    """

    text: str
    name: str
    start: int
    end: int
    path: str | None = None
    doubtful: bool = False


def mentions(text: str) -> Iterator[Typed]:
    """Yield the mentions in ``text`` as they come, in time linear in its length; any text will do.

    A slash counts at the very beginning alone. Code, commands, numbers and variables (``$5``, ``$PATH``) are
    passed over.
    """
    if slash := _SLASH.match(text):
        yield Typed(slash["text"], slash["name"], *slash.span("text"), None, slash["text"] == "/skill")
    if "$" not in text:
        return
    spans = iter([*code_spans(text), Span(len(text), len(text))])
    span = next(spans)
    for found in _MENTION.finditer(text):
        start, end = found.span()
        while span.end <= start:
            span = next(spans)
        if span.start <= start:
            continue
        linked, path, plain = found.groups()
        if plain:
            yield Typed(found[0], plain, start, end, None, _is_doubtful(plain))
        else:
            yield Typed(found[0], linked, start, end, path.strip())


def _is_doubtful(name: str) -> bool:
    if "-" in name or ":" in name:
        return False
    return "_" in name or name[0].isdigit() or name != name.lower() or name in _SHELL


# Splits and stems words, and measures how far one spelling is from another.

_WORD = re.compile(r"[^\W_]+")
# Longest first; what is left of a word has at least three letters, so that `sing` keeps its end.
_ENDINGS: Final = (
    *(("ational", "ate"), ("ization", "ize"), ("ically", "ic"), ("iness", "y"), ("ments", "ment")),
    *(("ations", "ate"), ("ation", "ate"), ("ingly", ""), ("edly", ""), ("ings", ""), ("ing", "")),
    *(("ies", "y"), ("ied", "y"), ("ers", ""), ("ed", ""), ("er", ""), ("es", "e"), ("ly", ""), ("s", "")),
)
_STEM_MIN = 3


def words(text: str) -> list[str]:
    """Return the words of ``text`` in lower case, as they come; hyphens, colons and underscores part them."""
    return _WORD.findall(text.lower())


@lru_cache(16384)
def stem(word: str) -> str:
    """Return ``word`` (lower case) without its English ending: ``debugging`` and ``debugger`` are ``debug``."""
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_MIN and not word.endswith("ss"):
            word = word.removesuffix(ending) + instead
            break
    if len(word) > _STEM_MIN and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > _STEM_MIN + 1 else word


def stems(text: str) -> frozenset[str]:
    """Return the stems of the words of ``text``."""
    return frozenset(map(stem, words(text)))


def distance(left: str, right: str, limit: int) -> int:
    """Return how many letters were added, dropped, replaced or swapped with a neighbour; ``limit + 1`` for more.

    This is the restricted Damerau-Levenshtein distance, over the diagonal band that ``limit`` allows.
    """
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(right) + 1))
    for at, char in enumerate(left, 1):
        older, before, row = before, row, [at]
        first, last = max(1, at - limit), min(len(right), at + limit)
        row += [limit + 1] * (first - 1)
        for to in range(first, last + 1):
            best = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (char != right[to - 1]))
            if at > 1 and to > 1 and char == right[to - 2] and left[at - 2] == right[to - 1]:
                best = min(best, older[to - 2] + 1)
            row.append(best)
        row += [limit + 1] * (len(right) - last)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def slips(word: str) -> int:
    """Return how many slips a word of this length may hold and still be taken for another."""
    return 0 if len(word) < 3 else 1 if len(word) < 6 else 2


def close(word: str, known: Iterable[str]) -> list[str]:
    """Return those of ``known`` that ``word`` may be a slip for, the closest first, else as they come."""
    limit = slips(word)
    if not limit:
        return []
    letters = set(word)
    # A slip changes which letters there are by two at most, which takes less time to see.
    alike = (
        each
        for each in known
        if abs(len(each) - len(word)) <= limit and len(letters.symmetric_difference(each)) <= 2 * limit
    )
    found = [(distance(word, each, limit), each) for each in alike]
    return [each for far, each in sorted(found, key=lambda pair: pair[0]) if far <= limit]


# Suggests what somebody may have meant by a name that no skill has.

_INITIALS = re.compile(r"[a-z0-9]{2,8}")


@dataclass(frozen=True, slots=True)
class Suggested:
    """Skills whose names are alike, the likeliest first.

    Attributes:
        is_short_form: Whether the one skill was named by its initials (``tdd``), which is as good as its name
            to who typed it.
    """

    skills: tuple[Skill, ...] = ()
    is_short_form: bool = False


class Suggestions:
    """The names to suggest from.

    Args:
        skills: In order of precedence; only those that may be used.
    """

    def __init__(self, skills: Iterable[Skill]) -> None:
        self._skills = list(skills)
        self._names = [skill.full_name.lower() for skill in self._skills]
        # All names in one text, a line each: one search through it takes the time of a few names apart.
        self._lines = "".join(f"\n{name}" for name in self._names) + "\n"

    def beginning(self, name: str) -> tuple[Skill, ...]:
        """Return the skills whose full name begins so."""
        return self._matching(rf"\n{re.escape(name.lower())}(?!\Z)")

    def containing(self, name: str) -> tuple[Skill, ...]:
        """Return the skills whose full name has this part."""
        return self._matching(re.escape(name.lower())) if name else ()

    def like(self, name: str) -> Suggested:
        """Return what is like ``name`` by beginning, part, words, initials or spelling: the first that has any."""
        if found := tuple(each for each in self._skills if each.own_name and each.own_name == name.lower()):
            return Suggested(found)
        if found := self.beginning(name) or self.containing(name) or self._sharing(stems(name)):
            return Suggested(found)
        if found := self._short_for(name.lower()):
            return Suggested(found, is_short_form=len(found) == 1)
        return Suggested(self._misspelt(name.lower()))

    def _matching(self, pattern: str) -> tuple[Skill, ...]:
        """Return the skills in whose lines the pattern is found."""
        at = number = 0
        found = []
        for hit in re.finditer(pattern, self._lines):
            number += self._lines.count("\n", at, hit.start() + 1)
            at = hit.start() + 1
            if number <= len(self._skills):  # what has a line's end itself is found behind the last
                found.append(self._skills[number - 1])
        return _unique(found)

    def _sharing(self, wanted: frozenset[str]) -> tuple[Skill, ...]:
        """Return the skills whose names have all of these words, in whatever order and form."""
        if not wanted:
            return ()
        # A stem is how its words begin, but for its last letter.
        longest = max(wanted, key=len)
        found = self.containing(longest[:-1] if len(longest) > 1 else longest)
        return tuple(skill for skill in found if wanted <= stems(skill.full_name))

    def _short_for(self, initials: str) -> tuple[Skill, ...]:
        if not _INITIALS.fullmatch(initials):
            return ()
        return self._matching(r"[\n:]" + "-".join(rf"{char}[^-:\n]*" for char in initials) + r"(?=\n)")

    def _misspelt(self, name: str) -> tuple[Skill, ...]:
        spellings: dict[str, list[Skill]] = {}
        for full, skill in zip(self._names, self._skills, strict=True):
            spellings.setdefault(full, []).append(skill)
            if ":" in full:
                spellings.setdefault(full.rpartition(":")[2], []).append(skill)
        return _unique(skill for each in close(name, spellings) for skill in spellings[each])


def _unique(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    return tuple({skill.full_name: skill for skill in skills}.values())
