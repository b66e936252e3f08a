"""Text from outside made safe to show; names, quoting, and UTC times as documents spell them."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import AnyStr, cast

# Text from outside: what may be a name, and how the rest is shown without doing harm.

_PLAIN_WORD = re.compile(r"[\w@%+:,./-][\w@%+=:,./#-]*", re.ASCII)
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_OBJECT_ID = re.compile(r"[0-9a-f]{40}", re.ASCII)
MARKER = rb"(<{7}|\|{7}|={7}|>{7})"  # begins what git leaves where two branches meet
NAME_MAX = 64
# Words that begin other kinds of reference, or that a lock has for a place, and so can never be a source's alias.
RESERVED_ALIASES = frozenset({"http", "https", "git", "oci", "file", "embedded", "local", "mcp"})
# Cc control, Cf format (bidirectional, zero width, tags), Cs lone surrogates, Co private, Cn unassigned,
# Zl and Zp line separators: none of them may reach a terminal or a path.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Characters of visible categories that nonetheless draw nothing: fillers, variation selectors.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U00016fe4\U0001d159")

_PATH_MAX = 1 << 15
_FOLDERS_MAX = 400  # what makes folders does so level by level
_MARKS = 4  # that one letter may carry


def is_path(text: str) -> bool:
    """Say whether a file system may have this path: no NUL, nothing without an encoding, no longer than any takes."""
    if len(text) > _PATH_MAX or text.count("/") > _FOLDERS_MAX or "\0" in text:
        return False
    try:
        return text.isascii() or bool(os.fsencode(text))
    except UnicodeError:
        return False


def is_name(text: str) -> bool:
    """Say whether ``text`` may name a skill or a source: ``[a-z0-9]+(-[a-z0-9]+)*``, at most 64."""
    return len(text) <= NAME_MAX and _NAME.fullmatch(text) is not None


def is_alias(text: str) -> bool:
    """Say whether ``text`` may name a source."""
    return is_name(text) and text not in RESERVED_ALIASES


def is_object_id(text: str) -> bool:
    """Say whether ``text`` is the whole id of a commit, or of any other object of git: 40 hex digits."""
    return _OBJECT_ID.fullmatch(text) is not None


def is_segment(segment: str) -> bool:
    """Say whether a path may have ``segment`` as one of its names, and lead nowhere else by it."""
    # `basename` knows what else separates on this system: a backslash or a drive on Windows.
    return segment not in ("", ".", "..") and "\0" not in segment and os.path.basename(segment) == segment


def is_inner_path(text: str) -> bool:
    """Say whether ``text`` is a path inside a folder: relative, no dot segments, ``/`` between segments."""
    return "\\" not in text and {"", ".", ".."}.isdisjoint(text.split("/"))


def is_hidden(char: str) -> bool:
    """Say whether ``char`` draws nothing or steers a terminal (control, bidirectional, invisible)."""
    return unicodedata.category(char) in _HIDDEN or char in _BLANK or 0xE0100 <= ord(char) <= 0xE01EF


_SLIP_MAX = 64  # characters of a name that are compared; no name that is known has more
_LIKE = 0.6  # as ``difflib`` has it
_ALIKE_MAX = 4  # characters at the beginning that count


def is_unseen(char: str) -> bool:
    """Say whether ``char`` draws nothing, the selectors that emoji need among them; a line break is seen."""
    return (char not in "\n\r\t\u2028\u2029" and is_hidden(char)) or "\ufe00" <= char <= "\ufe0f"


def clean(text: str) -> str:
    """Return ``text`` without any character that is hidden; a line break or tab becomes a space."""
    # What is printable to Python is of no hidden category; a few that are it draw nothing all the same.
    if text.isprintable() and (text.isascii() or (_BLANK.isdisjoint(text) and max(text) < "\U000e0100")):
        return text
    spaced = (" " if char in "\n\r\t\u2028\u2029" else char for char in text)
    return "".join(char for char in spaced if not is_hidden(char))


class Quoted(str):
    """Text of a skill or a server, in one line; wherever it is shown a bar stands before each row of it."""

    __slots__ = ()


def collapsed(text: str) -> str:
    """Return a text in one line: words one blank apart, nothing hidden, no mark without a letter to stand on.

    What draws nothing but takes a place counts as a blank: no run of it pushes what follows into a row of its own.
    """
    if not (text.isascii() and text.isprintable()):
        text = "".join(_marked(" " if _is_space(each) else each for each in text))
    return " ".join(text.split())


def quoted(text: str, most: int, where: str) -> tuple[str, ...]:
    """Return a text from outside to be shown under a bar, at most so much of it, and where to read the rest."""
    line = collapsed(text)
    left = len(line) - most
    rest = f"{left} more {'character' if left == 1 else 'characters'} of this: {where}"
    return (Quoted(line[:most]), rest) if left > 0 else (Quoted(line),)


def word(text: str) -> str:
    """Return a text from outside as it stands among our own words: in quotes unless it is one word."""
    line = collapsed(text)
    return line if line == text and line and not set(" ,;'\"") & set(line) else quote(line, len(line))


def _is_space(char: str) -> bool:
    return char.isspace() or char in _BLANK or unicodedata.category(char) in ("Zs", "Zl", "Zp")


def _marked(text: Iterable[str]) -> Iterator[str]:
    """Yield the visible characters, with at most a few combining marks on a letter and none on a blank."""
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
    """Return a line with an escape in the place of each hidden character; a tab is a space."""
    return "".join(_escape(char) if is_hidden(char) else char for char in text.replace("\t", " "))


def end_of_line(text: str) -> str:
    """Return how the lines of a text end, as its first one does."""
    return "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"


def line_of_marker(data: bytes) -> int | None:
    """Return the line, from 1, of the first such marker; no line of JSON begins so, nor of TOML outside of a text."""
    marker = re.search(rb"(?m)^" + MARKER + rb"(?:[ \r\n]|\Z)", data)
    return data.count(b"\n", 0, marker.start()) + 1 if marker else None


class _Deferred:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self.__dict__[name] = getattr(re.compile(self.pattern, self._flags), name)
        return found


def deferred(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression that is compiled when it is first used, for most commands use few of them."""
    return cast("re.Pattern[AnyStr]", _Deferred(pattern, flags))


def quote(value: object, limit: int = 120) -> str:
    """Return ``value`` in quotes for an error message: hidden characters as escapes, cut at ``limit``."""
    text = value if isinstance(value, str) else _spell(value)
    shown = text[:limit]
    if not (shown.isascii() and shown.isprintable()) or "'" in shown or "\\" in shown:
        shown = "".join(_escape(char) if is_hidden(char) or char in "'\\" else char for char in shown)
    return f"'{shown}{'…' if len(text) > limit else ''}'"


def as_word(text: str) -> str:
    """Return ``text`` as one word of a command that a person may type or paste, whatever their shell makes of it."""
    return text if _PLAIN_WORD.fullmatch(text) else "'" + text.replace("'", "'\"'\"'") + "'"


def as_command(*words: str) -> str:
    """Return a command of these words, for a person to type or paste."""
    return " ".join(map(as_word, words))


def as_local(path: str) -> str:
    """Return a path as a command takes it for one, and for no option, name or reference."""
    return path if path.startswith(("./", "../")) or os.path.isabs(path) else f"./{path}"


def _spell(value: object) -> str:
    try:
        return repr(value)
    except (RecursionError, ValueError):
        # Lists nested as deep as a parser goes; an integer too long to be written out.
        return f"<{type(value).__name__}>"


def _escape(char: str) -> str:
    if char in "'\\":
        return "\\" + char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


def words(text: str) -> tuple[str, ...]:
    """Return the words of a table that is written as one text."""
    return tuple(text.split())


def spelled_like(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that ``name`` is most like, three at most.

    One that begins with it comes first, then one that holds it or that it begins with, then what is spelled much like
    it, as a whole or up to its first hyphen; that both begin alike counts.
    """
    from difflib import SequenceMatcher  # noqa: PLC0415 - for a slip alone

    matcher: SequenceMatcher[str] = SequenceMatcher(b=name[:_SLIP_MAX])

    def likeness(each: str) -> float:
        if len(name) > 1 and each.startswith(name):
            return 3
        if len(name) > 2 and (name in each or (len(each) > 2 and name.startswith(f"{each}-"))):
            return 2
        found = 0.0
        for part in {each, each.partition("-")[0]}:
            matcher.set_seq1(part)
            if min(matcher.real_quick_ratio(), matcher.quick_ratio()) >= _LIKE:
                ratio = matcher.ratio()
                alike = next(count for count in range(_ALIKE_MAX, -1, -1) if part[:count] == name[:count])
                found = max(found, ratio + alike / 10 if ratio >= _LIKE else 0)
        return found

    rated = sorted((-likeness(each), each) for each in set(known))
    return [each for like, each in rated if -like >= _LIKE][:3]


def did_you_mean(names: Sequence[str]) -> str:
    """Return the question whether one of these was meant; nothing if there is none."""
    return f"did you mean {' or '.join(names)}?" if names else ""


# Times as documents have them: UTC, to the second, such as ``2026-01-02T03:04:05Z``.


def spell(time: datetime) -> str:
    """Return a time, which has a zone, as documents have it."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def parse(text: str | None) -> datetime | None:
    """Return the time that ISO 8601 means by ``text``, None if it is no time.

    One without a zone is UTC; a day is its beginning.
    """
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@dataclass(slots=True)
class _Typed:
    """The ``--project`` of the command that runs; what it tells a person to type is about the same project."""

    project: str | None = None


_TYPED = _Typed()


@contextmanager
def typed_project(folder: str | None) -> Iterator[None]:
    """Have ``typed_flags`` repeat a ``--project`` that was typed; in threads as well, so for the whole process."""
    before, _TYPED.project = _TYPED.project, folder
    try:
        yield
    finally:
        _TYPED.project = before


def typed_flags(scope: str) -> tuple[str, ...]:
    """Return what a command takes, as it is typed, to be about this scope and this project."""
    if scope == "user":
        return ("--global",)
    folder = _TYPED.project
    if folder is None:
        return ()
    return ("--project", as_local(folder) if folder.startswith("-") else folder)


def command(scope: str, *words: str) -> str:
    """Return a skillhub command for this scope, each word quoted for a shell."""
    return as_command("skillhub", *words, *typed_flags(scope))
