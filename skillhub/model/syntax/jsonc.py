"""JSON with comments and trailing commas, read with positions, so that it can be edited in place.

Agents keep their settings in files that people write by hand. Two things are forgiven beyond RFC 8259, as the
agents forgive them: comments, and one comma after the last member. A key that is there twice is not: it would
mean one thing to us and another to the agent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from json import loads
from typing import NoReturn

from skillhub.errors import FormatError
from skillhub.model.text import quote

BOM = "\ufeff"
_DEPTH_MAX = 100
# No group is possessive: before Python 3.11.5 such a one may match what it does not (gh-106052). Each of its ways has
# a first character of its own, so that nothing is tried twice.
COMMENT = r"//[^\r\n]*+|/\*[^*]*+\*++(?:[^*/][^*]*+\*++)*/"
_TRIVIA = re.compile(rf"(?:[ \t\r\n]++|{COMMENT})*")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_WORD = re.compile(r"true|false|null")


@dataclass(frozen=True, slots=True)
class Node:
    """A value that stands at ``text[start:end]``; ``members`` are those of an object, ``items`` those of an array."""

    start: int
    end: int
    data: object
    members: tuple[Member, ...] | None = None
    items: tuple[Node, ...] | None = None

    def get(self, key: str) -> Member | None:
        """Return the member with this key, if this is an object that has it."""
        return next((member for member in self.members or () if member.key == key), None)


@dataclass(frozen=True, slots=True)
class Member:
    """One ``"key": value``; ``start`` is where the key begins, ``comma`` where its comma stands, if any."""

    key: str
    start: int
    node: Node
    comma: int | None

    @property
    def end(self) -> int:
        """Where the member, with its comma, ends."""
        return self.node.end if self.comma is None else self.comma + 1


def parse(text: str, where: str) -> Node | None:
    """Return the value that ``text`` holds; None if it holds nothing but blanks and comments.

    Raises:
        FormatError: it is not such JSON, a key is there twice, or it is nested over 100 deep; with the line.
    """
    return _Parser(text, where).document()


class _Parser:
    """Recursive descent; each method takes the position of its first character."""

    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where

    def document(self) -> Node | None:
        start = self._skip(1 if self._text.startswith(BOM) else 0)
        if start == len(self._text):
            return None
        node = self._value(start, 0)
        if (rest := self._skip(node.end)) != len(self._text):
            self._fail("the end of the file", rest)
        return node

    def _value(self, at: int, depth: int) -> Node:
        if depth > _DEPTH_MAX:
            self._fail(f"at most {_DEPTH_MAX} levels", at)
        first = self._text[at : at + 1]
        if first == "{":
            return self._object(at, depth)
        if first == "[":
            return self._array(at, depth)
        if first == '"':
            return self._string(at)
        if match := _WORD.match(self._text, at) or _NUMBER.match(self._text, at):
            return Node(at, match.end(), _scalar(match.group()))
        self._fail("a value", at)

    def _object(self, start: int, depth: int) -> Node:
        members: dict[str, Member] = {}
        at = self._skip(start + 1)
        while self._text[at : at + 1] != "}":
            if self._text[at : at + 1] != '"':
                self._fail("a key in double quotes, or }", at)
            name = self._string(at)
            key = str(name.data)
            if key in members:
                self._fail(f"the key {quote(key)} once", at)
            colon = self._skip(name.end)
            if self._text[colon : colon + 1] != ":":
                self._fail("a colon", colon)
            node = self._value(self._skip(colon + 1), depth + 1)
            comma, next_at = self._comma(node.end, "}")
            members[key] = Member(key, at, node, comma)
            at = next_at
        data = {key: member.node.data for key, member in members.items()}
        return Node(start, at + 1, data, tuple(members.values()))

    def _array(self, start: int, depth: int) -> Node:
        items: list[Node] = []
        at = self._skip(start + 1)
        while self._text[at : at + 1] != "]":
            items.append(self._value(at, depth + 1))
            _, at = self._comma(items[-1].end, "]")
        return Node(start, at + 1, [item.data for item in items], items=tuple(items))

    def _comma(self, at: int, close: str) -> tuple[int | None, int]:
        """Return where the comma stands, if there is one, and where what comes then begins."""
        at = self._skip(at)
        if self._text[at : at + 1] == ",":
            return at, self._skip(at + 1)
        if self._text[at : at + 1] != close:
            self._fail(f"a comma or {close}", at)
        return None, at

    def _string(self, at: int) -> Node:
        match = _STRING.match(self._text, at)
        if match is None:
            self._fail("a string without raw control characters, closed by a quote", at)
        raw = match.group()
        return Node(at, match.end(), loads(raw) if "\\" in raw else raw[1:-1])

    def _skip(self, at: int) -> int:
        match = _TRIVIA.match(self._text, at)
        return match.end() if match else at

    def _fail(self, expected: str, at: int) -> NoReturn:
        line = self._text.count("\n", 0, at) + 1
        found = quote(self._text[at : at + 20]) if at < len(self._text) else "the end of the file"
        raise FormatError(f"expected {expected}, found {found}", where=f"{self._where}:{line}")


def _scalar(token: str) -> object:
    # Python refuses to convert very long integers; as floats they still compare.
    return float(token) if token[-1].isdigit() and len(token) > 300 else loads(token)
