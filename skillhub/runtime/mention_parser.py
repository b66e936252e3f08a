"""Parses mentions of skills in a message, and suggests skills for a name that no skill has."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from skillhub.formats.text import close
from skillhub.model.skill import Skill

# The parts of a message that are code or commands, in which ``$`` begins no mention.

# A line that opens or closes a block of code (CommonMark 4.5), also in a quotation or a list; the text after
# opening backticks holds no backtick, or it is inline code. Every pattern begins with a fixed character, for which
# the search takes a tenth of the time that a match at each position takes.
_FENCE = re.compile(r"\n[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}(?=[^`\n]*(?:\n|\Z))|~{3,})([^\n]*)")
# A line for a shell (`! ls`, `$ ls`; `![` is a picture), a command substitution, and the argument of a shell's or an
# interpreter's `-c`.
_COMMANDS = (
    re.compile(r"\n[ \t]*(?:!(?!\[)|\$ )[^\n]*"),
    re.compile(r"\$\([^)\n]*\)?"),
    re.compile(r"""-\w{0,8}c[ ]+(?:"[^"\n]*"|'[^'\n]*')"""),
)
_TICKS = re.compile(r"`+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")


class Span(NamedTuple):
    """A part of a text, without the character at ``end``."""

    start: int
    end: int


def code_spans(text: str) -> list[Span]:
    """Return the parts of ``text`` that are code or commands, in order, without overlap, in linear time.

    Args:
        text: Markdown, as people and models write it.
    """
    lines = "\n" + text  # so that the first line also begins with a line feed
    fenced = list(_fenced(lines)) if "```" in text or "~~~" in text else []
    spans = [*fenced, *(_inline(lines, fenced) if "`" in text else ())]
    spans += (Span(*match.span()) for pattern in _COMMANDS for match in pattern.finditer(lines))
    return [Span(max(span.start - 1, 0), span.end - 1) for span in _merged(spans)]


def _fenced(text: str) -> Iterator[Span]:
    """Yield the blocks of code; an unclosed block extends to the end (CommonMark 4.5)."""
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
    """Yield inline code: from a run of backticks to the next run of the same length (CommonMark 6.1)."""
    runs = [run.span() for run in _TICKS.finditer(text)]
    breaks = [gap.start() for gap in _BLANK_LINE.finditer(text)]
    # For each run the next run of its length, determined from the end, so that this takes linear time.
    latest: dict[int, int] = {}
    closing: list[int | None] = [None] * len(runs)
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        closing[index] = latest.get(length)
        latest[length] = index
    blocks = iter([*fenced, Span(len(text), len(text) + 1)])
    block = next(blocks)
    index = 0
    while index < len(runs):
        start, end = runs[index]
        while block.end <= start:
            block = next(blocks)
        closer = closing[index]
        if block.start <= start or closer is None or text[start - 1 : start] == "\\":
            index += 1
        elif runs[closer][0] < block.start and bisect_right(breaks, end) == bisect_right(breaks, runs[closer][0]):
            yield Span(start, runs[closer][1])
            index = closer + 1
        else:
            index += 1


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


# Mentions of skills in a message: ``$name``, ``$ns:name``, ``[$name](path)``, ``/name args``, ``/skill name args``.

# The specification permits no `_` in a name, but lenient hosts do; no name ends with a hyphen. Only ASCII, so that a
# mention ends where text of a script without blanks between words continues.
_NAME = r"[A-Za-z0-9_]+(?:-+[A-Za-z0-9_]+)*"
_FULL_NAME = rf"{_NAME}(?::{_NAME})*"
# Numbers, and variables as shells write them: `$5`, `$10-20`, `$PATH`, `$HOME-dir`.
_NO_NAME = r"(?![0-9-]+(?![A-Za-z0-9_:])|[A-Z_][A-Z0-9_]*(?![A-Za-z0-9_]))"
# A mention follows no letter, and no character that makes it part of a path, an address or an assignment.
NOT_WITHIN = r"(?<![A-Za-z0-9_$\\/.=&%@#+~-])"
# A path has no parenthesis, so that no two searches for its end scan the same text, blanks included.
_MENTION = re.compile(
    rf"\[\${_NO_NAME}(?P<linked>{_FULL_NAME})\][ \t]*\((?P<path>[^()\n]+)\)"
    rf"|{NOT_WITHIN}\${_NO_NAME}(?P<plain>{_FULL_NAME})"
)
# `/skill NAME` too, except for the subcommands of a host's own `/skill`.
_OWN = r"(?!(?:list|enable|disable|reload|install)(?:\s|\Z))"
_SLASH = re.compile(rf"\s*(?P<text>/(?:skill[ \t]+{_OWN})?(?P<name>{_FULL_NAME}))(?=\s|\Z)")
_SHELL = frozenset({"path", "home", "user", "shell", "pwd", "tmpdir", "temp", "tmp", "lang", "term"})


class Typed(NamedTuple):
    """One mention as it was typed.

    Attributes:
        text: The whole mention.
        name: ``name`` or ``ns:name``.
        start: Where it begins in the message, in characters.
        end: Where it ends, not included.
        path: The path in a link; None if it is no link.
        doubtful: Whether it may be a variable or a number instead (``$my_var``, ``$user``, ``$3d``), so that it is a
            mention only if a skill has exactly that name.
    """

    text: str
    name: str
    start: int
    end: int
    path: str | None = None
    doubtful: bool = False


def mentions(text: str) -> Iterator[Typed]:
    """Yield the mentions in ``text`` in order, in linear time; any text is valid.

    A slash begins a mention only at the beginning of the text. Code, commands, numbers and variables (``$5``,
    ``$PATH``) are no mentions.
    """
    if slash := _SLASH.match(text):
        yield Typed(slash["text"], slash["name"], *slash.span("text"), None, slash["text"] == "/skill")
    if "$" not in text:
        return
    spans = iter([*code_spans(text), Span(len(text), len(text))])
    span = next(spans)
    for match in _MENTION.finditer(text):
        start, end = match.span()
        while span.end <= start:
            span = next(spans)
        if span.start <= start:
            continue
        linked, path, plain = match.groups()
        if plain:
            yield Typed(match[0], plain, start, end, None, _is_doubtful(plain))
        else:
            yield Typed(match[0], linked, start, end, path.strip())


def _is_doubtful(name: str) -> bool:
    if "-" in name or ":" in name:
        return False
    return "_" in name or name[0].isdigit() or name != name.lower() or name in _SHELL


# Words and their stems.

_WORD = re.compile(r"[^\W_]+")
# Longest first; a stem has at least three letters, so that `sing` keeps its ending.
_ENDINGS: Final = (
    *(("ational", "ate"), ("ization", "ize"), ("ically", "ic"), ("iness", "y"), ("ments", "ment")),
    *(("ations", "ate"), ("ation", "ate"), ("ingly", ""), ("edly", ""), ("ings", ""), ("ing", "")),
    *(("ies", "y"), ("ied", "y"), ("ers", ""), ("ed", ""), ("er", ""), ("es", "e"), ("ly", ""), ("s", "")),
)
_STEM_MIN = 3


def words(text: str) -> list[str]:
    """Return the words of ``text`` in lower case and in order; hyphens, colons and underscores separate words."""
    return _WORD.findall(text.lower())


@lru_cache(16384)
def stem(word: str) -> str:
    """Return ``word`` (lower case) without its English ending: ``debugging`` and ``debugger`` are ``debug``."""
    for ending, replacement in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM_MIN and not word.endswith("ss"):
            word = word.removesuffix(ending) + replacement
            break
    if len(word) > _STEM_MIN and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > _STEM_MIN + 1 else word


def stems(text: str) -> frozenset[str]:
    """Return the stems of the words of ``text``."""
    return frozenset(map(stem, words(text)))


# Suggestions for a name that no skill has.

_INITIALS = re.compile(r"[a-z0-9]{2,8}")


@dataclass(frozen=True, slots=True)
class Suggested:
    """Skills with similar names, likeliest first.

    Attributes:
        skills: The skills.
        is_short_form: Whether the name is the initials of the only skill (``tdd``), and so names it beyond doubt.
    """

    skills: tuple[Skill, ...] = ()
    is_short_form: bool = False


class Suggestions:
    """Finds skills with names similar to a given one.

    Args:
        skills: The skills to suggest, in order of precedence.
    """

    def __init__(self, skills: Iterable[Skill]) -> None:
        self._skills = list(skills)
        self._names = [skill.full_name.lower() for skill in self._skills]

    def beginning(self, name: str) -> tuple[Skill, ...]:
        """Return the skills whose full name begins with ``name``, in any case."""
        start = name.lower()
        return self._named(lambda each: each.startswith(start))

    def containing(self, name: str) -> tuple[Skill, ...]:
        """Return the skills whose full name contains ``name``, in any case."""
        part = name.lower()
        return self._named(lambda each: part in each) if part else ()

    def like(self, name: str) -> Suggested:
        """Return the skills whose name is similar to ``name``, by the first of these comparisons that finds any.

        The comparisons: own name of a skill with an alias, beginning, part, words in any form and order, initials,
        spelling.
        """
        own = tuple(skill for skill in self._skills if skill.own_name and skill.own_name == name.lower())
        if skills := own or self.beginning(name) or self.containing(name) or self._with_stems(stems(name)):
            return Suggested(skills)
        if skills := self._by_initials(name.lower()):
            return Suggested(skills, is_short_form=len(skills) == 1)
        return Suggested(self._misspelt(name.lower()))

    def _named(self, is_similar: Callable[[str], object]) -> tuple[Skill, ...]:
        return _unique(skill for name, skill in zip(self._names, self._skills, strict=True) if is_similar(name))

    def _with_stems(self, name_stems: frozenset[str]) -> tuple[Skill, ...]:
        """Return the skills whose names have all of these words, in any order and form."""
        if not name_stems:
            return ()
        # A word begins with its stem, except for the last letter.
        longest = max(name_stems, key=len)
        candidates = self.containing(longest[:-1] if len(longest) > 1 else longest)
        return tuple(skill for skill in candidates if name_stems <= stems(skill.full_name))

    def _by_initials(self, initials: str) -> tuple[Skill, ...]:
        if not _INITIALS.fullmatch(initials):
            return ()
        return self._named(re.compile("(?:^|:)" + "-".join(f"{char}[^-:]*" for char in initials) + r"\Z").search)

    def _misspelt(self, name: str) -> tuple[Skill, ...]:
        spellings: dict[str, list[Skill]] = {}
        for full_name, skill in zip(self._names, self._skills, strict=True):
            spellings.setdefault(full_name, []).append(skill)
            if ":" in full_name:
                spellings.setdefault(full_name.rpartition(":")[2], []).append(skill)
        return _unique(skill for spelling in close(name, spellings) for skill in spellings[spelling])


def _unique(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    return tuple({skill.full_name: skill for skill in skills}.values())
