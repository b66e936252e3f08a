"""JSON from outside, read strictly; JSON with comments and trailing commas, edited in place."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from json import loads
from typing import Any, NoReturn

from skillhub.errors import FormatError
from skillhub.formats.text import clean, deferred, end_of_line, quote

VALUES_MAX = 1_000_000


def members(value: object, *names: str) -> dict[str, Any]:
    """Return the attributes of a value with these names, as members of a JSON object."""
    return {name: getattr(value, name) for name in names}


# JSON from outside: at most ``cap`` bytes of strict UTF-8, no duplicate key, no NaN; errors have line and column.


def strict_json(data: bytes, where: str, cap: int) -> object:
    """Return the value in ``data`` (RFC 8259), as ``json.loads`` returns it.

    Args:
        data: The document; a byte order mark is not JSON.
        where: The file or URL, for the error.
        cap: The most bytes that the document may have.

    Raises:
        FormatError: ``data`` is not one JSON value within the cap, an object has a key twice, a number is not finite
            (``NaN``, ``Infinity``) or too long, or the nesting is too deep for the parser.
    """
    if len(data) > cap:
        raise FormatError(f"expected at most {cap} bytes of JSON, found {len(data)}", where=where)
    try:
        value: object = _DECODER.decode(data.decode("utf-8"))
        # Half of a surrogate pair would be accepted here and raise an error in a later write to a file or a terminal.
        # Most documents have no backslash, and the search for one byte is fast.
        if b"\\" in data and (b"\\ud" in data or b"\\uD" in data):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except UnicodeDecodeError as error:
        raise FormatError(f"expected UTF-8, found another byte at {error.start}", where=where) from error
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}:{error.colno}"
        what = error.msg.removesuffix(" starting at")
        if data.startswith(BOM.encode()):
            what = "it begins with a byte order mark"
        raise FormatError(f"expected JSON: {what}", where=place) from error
    except RecursionError as error:
        raise FormatError("expected JSON, found nesting too deep", where=where) from error
    except UnicodeEncodeError as error:
        raise FormatError("expected strict JSON, found half of a surrogate pair", where=where) from error
    except ValueError as error:
        raise FormatError("expected strict JSON, found an integer too long to be one", where=where) from error
    except FormatError as error:
        error.where = where
        raise


def refuse_many(data: bytes, where: str) -> None:
    """Refuse a large document from outside whose values, often of two bytes, would take hundreds of bytes each.

    Raises:
        FormatError: it may have more than ``VALUES_MAX`` values; commas in its texts count, too.
    """
    if sum(map(data.count, (b"{", b"[", b","))) > VALUES_MAX:
        raise FormatError(f"expected at most {VALUES_MAX} values of JSON, found more", where=where)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise FormatError(f"expected strict JSON: the key {quote(twice)} occurs twice")
    return members


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise FormatError(f"expected strict JSON: {text[:20]} is not a JSON number")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_number, parse_float=_number)


# The line of a fault in a JSON document: searched only after an error, so that valid documents cost nothing.

# bytes; in a larger document, larger than any honest one, the search would take too long.
_SEARCHED_MAX = 2 * 1024 * 1024


def line_of(data: bytes, path: str) -> int | None:
    """Return the line, from 1, of the value at ``path`` (``skills.deploy.signed_by[0]``) or its nearest parent."""
    if len(data) > _SEARCHED_MAX:
        return None
    text = data.decode("utf-8", "replace")
    try:
        root = parse(text, "")
    except FormatError:
        return 1
    start, length = 0, 0
    for place, offset, _ in _places(root):
        is_on_the_way = path == place or path.startswith((f"{place}.", f"{place}["))
        if is_on_the_way and len(place) > length:
            start, length = offset, len(place)
    return text.count("\n", 0, start) + 1


def line_of_fault(data: bytes) -> int | None:
    """Return the line, from 1, of the fault for which ``strict_json`` refuses the document; if unknown, the first."""
    if len(data) > _SEARCHED_MAX:
        return None
    try:
        text = data.decode("utf-8")
        root = parse(text, "")
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1
    except FormatError as error:
        return int((error.where or ":1").removeprefix(":"))
    start = next((offset for _, offset, value in _places(root) if _is_wrong(value)), 0)
    return text.count("\n", 0, start) + 1


def _places(node: JsonNode | None, path: str = "") -> Iterator[tuple[str, int, object]]:
    """Yield path, position and value of each key, member and element; the paths are those in a document's errors."""
    for member in (node and node.members) or ():
        inner = f"{path}.{clean(member.key[:64])}".lstrip(".")
        yield inner, member.start, member.key
        yield inner, member.start, member.node.data
        yield from _places(member.node, inner)
    for number, item in enumerate((node and node.items) or ()):
        inner = f"{path}[{number}]"
        yield inner, item.start, item.data
        yield from _places(item, inner)


def _is_wrong(value: object) -> bool:
    """Return whether the value is a number that is not finite, or a text with half of a surrogate pair."""
    if isinstance(value, str):
        return any("\ud800" <= char <= "\udfff" for char in value)
    return isinstance(value, float) and not math.isfinite(value)


# JSON with comments and trailing commas, read with positions, so that it can be edited in place.
# Agents have their settings in files that people write by hand. Two things are accepted beyond RFC 8259, since agents
# accept them: comments, and one comma after the last member. A duplicate key is refused: skillhub and the agent could
# take different values.

BOM = "\ufeff"
_DEPTH_MAX = 100
# No group is possessive: before Python 3.11.5 a possessive group may match wrongly (gh-106052). Each alternative has
# another first character, so that the pattern never backtracks. Readers differ in whether a lone carriage return or a
# line separator of Unicode ends a comment, so such a comment is none.
COMMENT = r"//[^\r\n\u2028\u2029]*+(?=\r?\n|\Z)|/\*[^*]*+\*++(?:[^*/][^*]*+\*++)*/"
_TRIVIA = deferred(rf"(?:[ \t\r\n]++|{COMMENT})*")
_STRING = deferred(r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*"')
_NUMBER = deferred(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_WORD = deferred(r"true|false|null")


@dataclass(frozen=True, slots=True)
class JsonNode:
    """The value at ``text[start:end]``; an object has ``members``, an array has ``items``."""

    start: int
    end: int
    data: object
    members: tuple[Member, ...] | None = None
    items: tuple[JsonNode, ...] | None = None

    def get(self, key: str) -> Member | None:
        """Return the member with this key; None if there is none, or this is no object."""
        return next((member for member in self.members or () if member.key == key), None)


@dataclass(frozen=True, slots=True)
class Member:
    """One ``"key": value``; ``start`` is the position of the key, ``comma`` that of the comma after it, or None."""

    key: str
    start: int
    node: JsonNode
    comma: int | None

    @property
    def end(self) -> int:
        """The position after the member and its comma."""
        return self.node.end if self.comma is None else self.comma + 1


def parse(text: str, where: str) -> JsonNode | None:
    """Return the value in ``text``; None if it has only blanks and comments.

    Raises:
        FormatError: ``text`` is not such JSON, a key occurs twice, or it has over 100 levels; with the line.
    """
    return _Parser(text, where).document()


class _Parser:
    """Recursive descent; each method takes the position of its first character."""

    def __init__(self, text: str, where: str) -> None:
        self._text, self._where = text, where

    def document(self) -> JsonNode | None:
        start = self._skip(1 if self._text.startswith(BOM) else 0)
        if start == len(self._text):
            return None
        node = self._value(start, 0)
        if (end := self._skip(node.end)) != len(self._text):
            self._fail("the end of the file", end)
        return node

    def _value(self, offset: int, depth: int) -> JsonNode:
        if depth > _DEPTH_MAX:
            self._fail(f"at most {_DEPTH_MAX} levels", offset)
        first = self._text[offset : offset + 1]
        if first == "{":
            return self._object(offset, depth)
        if first == "[":
            return self._array(offset, depth)
        if first == '"':
            return self._string(offset)
        if match := _WORD.match(self._text, offset) or _NUMBER.match(self._text, offset):
            token = match.group()
            # Python refuses to convert very long integers; as floats they still compare.
            is_long = token[-1].isdigit() and len(token) > 300
            return JsonNode(offset, match.end(), float(token) if is_long else loads(token))
        self._fail("a value", offset)

    def _object(self, start: int, depth: int) -> JsonNode:
        members: dict[str, Member] = {}
        offset = self._skip(start + 1)
        while self._text[offset : offset + 1] != "}":
            if self._text[offset : offset + 1] != '"':
                self._fail("a key in double quotes, or }", offset)
            name = self._string(offset)
            key = str(name.data)
            if key in members:
                self._fail(f"the key {quote(key)} once", offset)
            if key == "__proto__":  # some agents would find its members in the object around it
                self._fail("a key that has no meaning in JavaScript", offset)
            colon = self._skip(name.end)
            if self._text[colon : colon + 1] != ":":
                self._fail("a colon", colon)
            node = self._value(self._skip(colon + 1), depth + 1)
            comma, following = self._comma(node.end, "}")
            members[key] = Member(key, offset, node, comma)
            offset = following
        data = {key: member.node.data for key, member in members.items()}
        return JsonNode(start, offset + 1, data, tuple(members.values()))

    def _array(self, start: int, depth: int) -> JsonNode:
        items: list[JsonNode] = []
        offset = self._skip(start + 1)
        while self._text[offset : offset + 1] != "]":
            items.append(self._value(offset, depth + 1))
            _, offset = self._comma(items[-1].end, "]")
        return JsonNode(start, offset + 1, [item.data for item in items], items=tuple(items))

    def _comma(self, offset: int, close: str) -> tuple[int | None, int]:
        """Return the position of the comma, or None, and that of the next token."""
        offset = self._skip(offset)
        if self._text[offset : offset + 1] == ",":
            return offset, self._skip(offset + 1)
        if self._text[offset : offset + 1] != close:
            self._fail(f"a comma or {close}", offset)
        return None, offset

    def _string(self, offset: int) -> JsonNode:
        match = _STRING.match(self._text, offset)
        if match is None:
            self._fail("a string without raw control characters, closed by a quote", offset)
        raw = match.group()
        return JsonNode(offset, match.end(), loads(raw) if "\\" in raw else raw[1:-1])

    def _skip(self, offset: int) -> int:
        match = _TRIVIA.match(self._text, offset)
        return match.end() if match else offset

    def _fail(self, expected: str, offset: int) -> NoReturn:
        line = self._text.count("\n", 0, offset) + 1
        actual = quote(self._text[offset : offset + 20]) if offset < len(self._text) else "the end of the file"
        raise FormatError(f"expected {expected}, found {actual}", where=f"{self._where}:{line}")


# One member of a JSON file is added or removed; every other byte stays.
# The text changes at one place; it is never printed again from parsed values. ``remove`` after ``insert`` restores
# every byte, if the object around the member existed before. Each edited text is parsed before it is returned, so
# that an error in this code cannot reach a file.

_BLANK = " \t\r\n"
_COMMENT = deferred(COMMENT)


def insert(text: str, path: tuple[str, ...], value: object, where: str) -> str:
    """Return ``text`` with a new member at ``path``, the last of its object, in the style of the file.

    Missing objects on the path are added, as is a missing top-level object; null there counts as missing.

    Raises:
        FormatError: ``text`` is malformed, a value on the path is no object, or the member exists.
    """
    root = parse(text, where)
    if root is None:
        eol = end_of_line(text)
        text += ("" if text.endswith(("\n", "\r")) or text in ("", BOM) else eol) + "{}" + eol
        root = JsonNode(len(text) - len(eol) - 2, len(text) - len(eol), {}, ())
    before = _object(root, "the top", where)
    node, depth = root, 0
    while member := node.get(path[depth]):
        depth += 1
        if depth == len(path):
            raise FormatError(f"expected no {quote('.'.join(path))} yet, found one", where=where)
        node = member.node
        if node.data is None:
            return insert(f"{text[: node.start]}{{}}{text[node.end :]}", path, value, where)
        _object(node, quote(".".join(path[:depth])), where)
    nested = value
    for key in reversed(path[depth + 1 :]):
        nested = {key: nested}
    after = _with_member(text, root, node, path[depth], nested)
    return _checked(after, _set(before, path, value), where)


def remove(text: str, path: tuple[str, ...], where: str) -> str:
    """Return ``text`` without the member at ``path``; the comments around it stay.

    Raises:
        FormatError: ``text`` is malformed, or there is no such member.
    """
    root = parse(text, where)
    node = root
    for key in path[:-1]:
        member = node.get(key) if node else None
        node = member.node if member else None
    if root is None or node is None or not node.get(path[-1]):
        raise FormatError(f"expected {quote('.'.join(path))}, found none", where=where)
    return _checked(_without_member(text, node, path[-1]), _delete(_object(root, "the top", where), path), where)


def replace(text: str, path: tuple[str, ...], value: object, where: str) -> str:
    """Return ``text`` with ``value`` in place of the value at ``path``.

    Raises:
        FormatError: ``text`` is malformed, or there is no such member.
    """
    root = node = parse(text, where)
    for key in path:
        member = node.get(key) if node else None
        node = member.node if member else None
    if root is None or node is None:
        raise FormatError(f"expected {quote('.'.join(path))}, found none", where=where)
    after = text[: node.start] + json.dumps(value) + text[node.end :]
    return _checked(after, _set(_object(root, "the top", where), path, value), where)


@dataclass(frozen=True, slots=True)
class _Style:
    """The style of a file: line end, indentation, members on lines of their own or not, comma and colon."""

    eol: str
    step: str
    spread: bool
    comma: str
    colon: str

    @classmethod
    def of(cls, text: str, root: JsonNode) -> _Style:
        spread = not root.members or _is_spread(text, root)
        step, colon = "  ", ": "
        if root.members:
            first = root.members[0]
            step = (_indent(text, first.start) if spread else "") or step
            colon = ": " if text[first.node.start - 1] in _BLANK else ":"
        return cls(end_of_line(text), step, spread, ", " if colon == ": " else ",", colon)

    def member(self, key: str, value: object, indent: str | None) -> str:
        """Return the text of a member: on lines with ``indent``, or on one line if that is None."""
        if indent is None:
            return json.dumps({key: value}, separators=(self.comma, self.colon))[1:-1]
        lines = json.dumps({key: value}, indent=self.step).split("\n")[1:-1]
        return self.eol.join(indent + line.removeprefix(self.step) for line in lines)


def _with_member(text: str, root: JsonNode, node: JsonNode, key: str, value: object) -> str:
    style = _Style.of(text, root)
    close = node.end - 1
    if not node.members:
        if not style.spread and "\n" not in text[node.start : close]:
            return text[:close] + style.member(key, value, None) + text[close:]
        # The text between the braces stays before the member, so that `remove` restores it.
        outer = _indent(text, node.start)
        member_text = style.eol + style.member(key, value, outer + style.step) + style.eol + outer
        return text[:close] + member_text + text[close:]
    last = node.members[-1]
    end = len(text[:close].rstrip(_BLANK))
    if _is_spread(text, node):
        member_text = style.eol + style.member(key, value, _indent(text, last.start))
    else:
        member_text = style.comma[1:] + style.member(key, value, None)
    if last.comma is None:
        return text[: last.node.end] + "," + text[last.node.end : end] + member_text + text[end:]
    return text[:end] + member_text + "," + text[end:]


def _without_member(text: str, node: JsonNode, key: str) -> str:
    members = node.members or ()
    index = next(i for i, member in enumerate(members) if member.key == key)
    member, previous = members[index], members[index - 1]
    if len(members) == 1:
        return _emptied_object(text, node, member)
    start = _cut_start(text, previous.end if index else node.start + 1, member)
    if index == 0 and "\n" not in text[node.start : member.start]:
        following = members[1].start
        blank = not text[member.end : following].strip(_BLANK)
        return text[: member.start] + text[following if blank else member.end :]
    if index == len(members) - 1 and member.comma is None and previous.comma is not None:
        return text[: previous.comma] + text[previous.comma + 1 : start] + text[member.end :]
    return text[:start] + text[member.end :]


def _emptied_object(text: str, node: JsonNode, member: Member) -> str:
    """Return the text without the only member of an object; if it has its own lines, without those lines."""
    line = text.rfind("\n", node.start, member.start)
    line -= text[line - 1] == "\r"
    blank = not (text[line : member.start] + text[member.end : node.end - 1]).strip(_BLANK)
    if line > node.start and blank and not _in_comment(text, node.start + 1, line):
        return text[:line] + text[node.end - 1 :]
    return text[: member.start] + text[member.end :]


def _cut_start(text: str, since: int, member: Member) -> int:
    """Return where to cut: before the blanks before ``member``, or at it if a comment would swallow more text."""
    start = len(text[: member.start].rstrip(_BLANK))
    following = text[member.end :].partition("\n")[0].strip(_BLANK)
    runs_on = following.startswith("/") or (following and _in_comment(text, since, start))
    return member.start if runs_on else start


def _in_comment(text: str, since: int, offset: int) -> bool:
    """Return whether position ``offset`` is in a ``//`` comment; ``since`` is a position outside comments."""
    comments = list(_COMMENT.finditer(text, since, offset))
    return bool(comments) and comments[-1].group().startswith("//") and comments[-1].end() == offset


def _is_spread(text: str, node: JsonNode) -> bool:
    """Return whether there is a line end between the members, or between them and the braces."""
    offset = node.start
    for member in node.members or ():
        if "\n" in text[offset : member.start]:
            return True
        offset = member.node.end
    return "\n" in text[offset : node.end]


def _indent(text: str, offset: int) -> str:
    line = text[text.rfind("\n", 0, offset) + 1 : offset].removeprefix(BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _object(node: JsonNode, name: str, where: str) -> dict[str, Any]:
    if not isinstance(node.data, dict):
        raise FormatError(f"expected an object at {name}, found {quote(node.data)}", where=where)
    return node.data


def _set(data: dict[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    return {**data, path[0]: value if len(path) == 1 else _set(data.get(path[0], {}), path[1:], value)}


def _delete(data: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    others = {key: value for key, value in data.items() if key != path[0]}
    return others if len(path) == 1 else {**others, path[0]: _delete(data[path[0]], path[1:])}


def _checked(text: str, expected: object, where: str) -> str:
    root = parse(text, where)
    if root is None or root.data != expected:
        raise FormatError("expected a file that can be edited in place", where=where, hint="edit it by hand")
    return text
