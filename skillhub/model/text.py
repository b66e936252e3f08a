"""Text from outside: what may be a name, and how the rest is shown without doing harm."""

from __future__ import annotations

import os
import re
import unicodedata

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
_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U00016fe4\U0001d159"
)


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


def clean(text: str) -> str:
    """Return ``text`` without any character that is hidden; a line break or tab becomes a space."""
    # What is printable to Python is of no hidden category; a few that are it draw nothing all the same.
    if text.isprintable() and (text.isascii() or (_BLANK.isdisjoint(text) and max(text) < "\U000e0100")):
        return text
    spaced = (" " if char in "\n\r\t\u2028\u2029" else char for char in text)
    return "".join(char for char in spaced if not is_hidden(char))


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
