"""Text from outside, made safe to show; names, paths, quoting, commands for a person, UTC times; tables of ours."""

from __future__ import annotations

import gc
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, AnyStr, TypeVar, cast

# Text from outside: the valid names, and safe forms of other text for output.

_PLAIN_WORD = re.compile(r"[\w@%+:,./-][\w@%+=:,./#-]*", re.ASCII)
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_OBJECT_ID = re.compile(r"[0-9a-f]{40}", re.ASCII)
MARKER = rb"(<{7}|\|{7}|={7}|>{7})"  # the marker of a merge conflict of git
NAME_MAX = 64
NAME_RULE = f"a-z, 0-9 and single hyphens, at most {NAME_MAX}"
# Prefixes of other kinds of reference, and words for sources in a lock: none of them can be an alias.
RESERVED_ALIASES = frozenset({"http", "https", "git", "oci", "file", "embedded", "local", "mcp"})
# Cc control, Cf format (bidirectional, zero width, tags), Cs lone surrogates, Co private, Cn unassigned,
# Zl and Zp line separators: none of them may reach a terminal or a path.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Invisible characters in visible categories: fillers, variation selectors.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U00016fe4\U0001d159")

_PATH_MAX = 1 << 15
_FOLDERS_MAX = 400  # `os.makedirs` recurses once for each level
_MARKS = 4  # combining marks on one letter


def is_path(text: str) -> bool:
    """Return whether this can be a path in a file system: without NUL, encodable, and not too long or too deep."""
    if len(text) > _PATH_MAX or text.count("/") > _FOLDERS_MAX or "\0" in text:
        return False
    try:
        return text.isascii() or bool(os.fsencode(text))
    except UnicodeError:
        return False


def is_name(text: str) -> bool:
    """Return whether ``text`` may name a skill or a source: ``[a-z0-9]+(-[a-z0-9]+)*``, at most 64 characters."""
    return len(text) <= NAME_MAX and _NAME.fullmatch(text) is not None


def is_alias(text: str) -> bool:
    """Return whether ``text`` may be the alias of a source: a name that is not reserved."""
    return is_name(text) and text not in RESERVED_ALIASES


def is_object_id(text: str) -> bool:
    """Return whether ``text`` is the full id of a commit, or of another object of git: 40 hex digits."""
    return _OBJECT_ID.fullmatch(text) is not None


def is_segment(segment: str) -> bool:
    """Return whether ``segment`` is one plain name in a path, which leads nowhere else."""
    # `basename` knows the other separators of this system: a backslash or a drive on Windows.
    return segment not in ("", ".", "..") and "\0" not in segment and os.path.basename(segment) == segment


def is_inner_path(text: str) -> bool:
    """Return whether ``text`` is a path inside a folder: relative, no dot segments, ``/`` between segments."""
    return "\\" not in text and {"", ".", ".."}.isdisjoint(text.split("/"))


def is_hidden(char: str) -> bool:
    """Return whether ``char`` is invisible or controls a terminal (control, bidirectional, invisible)."""
    return unicodedata.category(char) in _HIDDEN or char in _BLANK or 0xE0100 <= ord(char) <= 0xE01EF


def is_unseen(char: str) -> bool:
    """Return whether ``char`` is invisible; the selectors of emoji are, a line break or a tab is not."""
    return (char not in "\n\r\t\u2028\u2029" and is_hidden(char)) or "\ufe00" <= char <= "\ufe0f"


def clean(text: str) -> str:
    """Return ``text`` without hidden characters; a line break or tab becomes a space."""
    # `isprintable` excludes the hidden categories; a few printable characters are invisible all the same.
    if text.isprintable() and (text.isascii() or (_BLANK.isdisjoint(text) and max(text) < "\U000e0100")):
        return text
    spaced = (" " if char in "\n\r\t\u2028\u2029" else char for char in text)
    return "".join(char for char in spaced if not is_hidden(char))


class Quoted(str):
    """Text of a skill or a server, in one line; every output shows it with a bar before each row."""

    __slots__ = ()


def collapsed(text: str) -> str:
    """Return a text in one line: one blank between words, no hidden character, no combining mark without a letter.

    An invisible character with a width counts as a blank, so that a run of them cannot move the next word to a new
    row.
    """
    if not (text.isascii() and text.isprintable()):
        text = "".join(_marked(" " if _is_space(char) else char for char in text))
    return " ".join(text.split())


def quoted(text: str, most: int, where: str) -> tuple[str, ...]:
    """Return a text from outside to show with a bar: at most ``most`` characters, then where to read the others."""
    line = collapsed(text)
    hidden = len(line) - most
    note = f"{amount(hidden, 'more character')} of this: {where}"
    return (Quoted(line[:most]), note) if hidden > 0 else (Quoted(line),)


def amount(count: int, thing: str) -> str:
    """Return a number of things, such as ``1 file`` or ``2 files``."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def word(text: str) -> str:
    """Return a text from outside for use inside a sentence: in quotes unless it is one word."""
    line = collapsed(text)
    return line if line == text and line and not set(" ,;'\"") & set(line) else quote(line, len(line))


def _is_space(char: str) -> bool:
    return char.isspace() or char in _BLANK or unicodedata.category(char) in ("Zs", "Zl", "Zp")


def _marked(text: Iterable[str]) -> Iterator[str]:
    """Yield the visible characters, with at most four combining marks on a letter and none on a blank."""
    marks = _MARKS
    for char in text:
        if unicodedata.category(char) in ("Mn", "Me"):
            marks += 1
            if marks > _MARKS:
                continue
        elif is_hidden(char):
            continue
        else:
            marks = _MARKS if char == " " else 0
        yield char


def shown(text: str) -> str:
    """Return a line with an escape in place of each hidden character; a tab becomes a space."""
    return "".join(_escape(char) if is_hidden(char) else char for char in text.replace("\t", " "))


def end_of_line(text: str) -> str:
    """Return the line end of a text, that of its first line."""
    return "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"


def line_of_marker(data: bytes) -> int | None:
    """Return the line, from 1, of the first marker of a merge conflict.

    No line of JSON begins like one, and none of TOML outside a text.
    """
    marker = re.search(rb"(?m)^" + MARKER + rb"(?:[ \r\n]|\Z)", data)
    return data.count(b"\n", 0, marker.start()) + 1 if marker else None


def numbered(matches: Iterable[re.Match[str]], line: int = 1) -> Iterator[tuple[re.Match[str], int]]:
    """Yield each match with the number of its line, if the text begins in ``line``."""
    counted_to = 0
    for match in matches:
        line, counted_to = line + match.string.count("\n", counted_to, match.start()), match.start()
        yield match, line


class _Deferred:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        attribute = self.__dict__[name] = getattr(re.compile(self.pattern, self._flags), name)
        return attribute


def deferred(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression that is compiled at its first use, since most commands use few of them."""
    return cast("re.Pattern[AnyStr]", _Deferred(pattern, flags))


def quote(value: object, limit: int = 120) -> str:
    """Return ``value`` in quotes for an error message: hidden characters as escapes, cut at ``limit``."""
    text = value if isinstance(value, str) else _spell(value)
    cut = text[:limit]
    if not (cut.isascii() and cut.isprintable()) or "'" in cut or "\\" in cut:
        cut = "".join(_escape(char) if is_hidden(char) or char in "'\\" else char for char in cut)
    return f"'{cut}{'…' if len(text) > limit else ''}'"


def as_word(text: str) -> str:
    """Return ``text`` as one word of a command for a person to type or paste, quoted for a POSIX shell."""
    return text if _PLAIN_WORD.fullmatch(text) else "'" + text.replace("'", "'\"'\"'") + "'"


def as_command(*words: str) -> str:
    """Return a command of these words, for a person to type or paste."""
    return " ".join(map(as_word, words))


def as_local(path: str) -> str:
    """Return a path in a form that a command cannot mistake for an option, a name or a reference."""
    return path if path.startswith(("./", "../")) or os.path.isabs(path) else f"./{path}"


def from_here(path: str) -> str:
    """Return an absolute path as a person types it here: relative to the working folder if inside it."""
    with suppress(OSError):  # the working folder may be gone
        return path.removeprefix(os.path.join(os.getcwd(), ""))
    return path


def _spell(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)  # as TOML and JSON spell it
    except (RecursionError, ValueError):
        # Lists nested as deep as a parser allows; an integer too long to be printed.
        return f"<{type(value).__name__}>"


def _escape(char: str) -> str:
    if char in "'\\":
        return "\\" + char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, for tables of words that are written as one text."""
    return tuple(text.split())


def distance(left: str, right: str, limit: int) -> int:
    """Return the distance between two spellings, or ``limit + 1`` if it is larger than ``limit``.

    This is the restricted Damerau-Levenshtein distance: the number of letters that were added, dropped, replaced or
    swapped with a neighbour. It is computed over the diagonal band that ``limit`` allows.
    """
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, char in enumerate(left, 1):
        older, before, row = before, row, [i]
        first, last = max(1, i - limit), min(len(right), i + limit)
        row += [limit + 1] * (first - 1)
        for j in range(first, last + 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (char != right[j - 1]))
            if i > 1 and j > 1 and char == right[j - 2] and left[i - 2] == right[j - 1]:
                best = min(best, older[j - 2] + 1)
            row.append(best)
        row += [limit + 1] * (len(right) - last)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def slips(word: str) -> int:
    """Return the largest distance at which ``word`` still counts as a misspelling of another word."""
    return 0 if len(word) < 3 else 1 if len(word) < 6 else 2


def close(word: str, known: Iterable[str]) -> list[str]:
    """Return the known words that ``word`` may be a misspelling of, closest first; equally close ones in order."""
    limit = slips(word)
    if not limit:
        return []
    letters = set(word)
    # One misspelling changes the set of letters by two at most; this comparison is faster than `distance`.
    alike = (
        candidate
        for candidate in known
        if abs(len(candidate) - len(word)) <= limit and len(letters.symmetric_difference(candidate)) <= 2 * limit
    )
    ranked = [(distance(word, candidate, limit), candidate) for candidate in alike]
    return [candidate for difference, candidate in sorted(ranked, key=lambda pair: pair[0]) if difference <= limit]


def spelled_like(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that ``name`` may be short for or a misspelling of, at most three.

    First come names that begin with it, then names that contain it, then those of a ``close`` spelling.
    """
    names = sorted(set(known))
    longer = [each for each in names if len(name) > 1 and name in each]
    longer.sort(key=lambda each: not each.startswith(name))
    return [*dict.fromkeys((*longer, *close(name, names)))][:3]


def did_you_mean(names: Sequence[str], then: str = "") -> str:
    """Return the question ``did you mean …?`` with these names, unless there are none, and ``then`` after it."""
    return " ".join(filter(None, (f"did you mean {' or '.join(names)}?" if names else "", then)))


def hint_to_name(text: str) -> str:
    """Return the hint about a malformed reference, with the likely one: lower case, ``@`` before a version."""
    found = re.fullmatch(r"(?a)([\w:-]+?)(?:(?:@|==?|(?=[<>~^]))([\w.*^~<>=!,+ -]+))?", text)
    names = found[1].lower().replace("_", "-") if found else ""
    spelled = f"{names}@{found[2]}" if found and found[2] else names
    is_meant = spelled != text and all(map(is_name, names.split(":")))
    if text.endswith(":") and is_name(text[:-1]):
        return f"{as_command('skillhub', 'source', 'show', text[:-1])} lists what it has; put ./ before a path"
    if text.endswith((".zip", ".skill", ".tar.gz", ".tgz")):
        spelled, is_meant = f"./{text}", True
    rule = f"a name is of {NAME_RULE}; put ./ before a path"
    return did_you_mean([as_word(spelled)] if is_meant else [], rule)


# Times in documents: UTC, to the second, such as ``2026-01-02T03:04:05Z``.


def spell_time(time: datetime) -> str:
    """Return the text of a time for documents; the time must have a zone."""
    # `%Y` has fewer than four digits for a year before 1000 on some systems.
    return f"{time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def parse_time(text: str | None) -> datetime | None:
    """Return the time in ``text`` by ISO 8601; None if it is no time.

    A time without a zone is UTC; a day is the time at which it begins.
    """
    try:
        time = datetime.fromisoformat(text or "")
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # in UTC it may lie outside of all years
        return None


@dataclass(slots=True)
class _Typed:
    """The ``--project`` of the running command; the commands in its hints repeat it."""

    project: str | None = None


_TYPED = _Typed()


@contextmanager
def typed_project(folder: str | None) -> Iterator[None]:
    """Make ``typed_flags`` repeat the typed ``--project``, in all threads of the process."""
    before, _TYPED.project = _TYPED.project, folder
    try:
        yield
    finally:
        _TYPED.project = before


def typed_flags(scope: str) -> tuple[str, ...]:
    """Return the flags with which a typed command works on this scope and this project."""
    if scope == "user":
        return ("--global",)
    folder = _TYPED.project
    if folder is None:
        return ()
    return ("--project", as_local(folder) if folder.startswith("-") else folder)


def command(scope: str, *words: str) -> str:
    """Return a skillhub command with the flags of this scope, each word quoted for a shell."""
    return as_command("skillhub", *words, *typed_flags(scope))


def reinstall(scope: str, name: str, words: Iterable[str]) -> str:
    """Return the commands that replace an installed skill by the skill that these words name."""
    return f"{command(scope, 'remove', name)}, then {command(scope, 'install', *words)}"


# The tables of this package, and how rows are gathered into a table.

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def packaged(path: str) -> Any:  # noqa: ANN401 - a JSON value, which we wrote
    """Return the content of a JSON file of this package, such as ``model/rules.json``."""
    with open(os.path.join(_PACKAGE, *path.split("/")), encoding="utf-8") as file:
        return json.load(file)


def grouped(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, tuple[_Value, ...]]:
    """Return the values of each key; keys and values keep their order."""
    groups: dict[_Key, list[_Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in groups.items()}


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pause the garbage collector, which would search growing lists in vain; this makes a search a sixth faster."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()
