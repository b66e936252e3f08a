"""One member goes into a JSON file, or out of it; every other byte stays as it is.

The text is cut or filled at one place, never parsed and printed again. What ``insert`` put in, ``remove``
takes out to the byte, if the object that holds it was there before. Each edit is read again before it is
returned, so that a mistake here cannot reach a file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from skillhub.errors import FormatError
from skillhub.model.syntax.jsonc import BOM, COMMENT, Member, Node, parse
from skillhub.model.text import end_of_line, quote

_BLANK = " \t\r\n"
_COMMENT = re.compile(COMMENT)


def insert(text: str, path: tuple[str, ...], value: object, where: str) -> str:
    """Return ``text`` with a member at ``path``, the last of its object, in the style of the file.

    Objects on the way that are missing are made, the outermost one included.

    Raises:
        FormatError: ``text`` is malformed, what is on the way is no object, or the member is there already.
    """
    root = parse(text, where)
    if root is None:
        eol = end_of_line(text)
        text += ("" if text.endswith(("\n", "\r")) or text in ("", BOM) else eol) + "{}" + eol
        root = Node(len(text) - len(eol) - 2, len(text) - len(eol), {}, ())
    before = _object(root, "the top", where)
    node, depth = root, 0
    while member := node.get(path[depth]):
        depth += 1
        if depth == len(path):
            raise FormatError(f"expected no {quote('.'.join(path))} yet, found one", where=where)
        node = member.node
        _object(node, quote(".".join(path[:depth])), where)
    made = value
    for key in reversed(path[depth + 1 :]):
        made = {key: made}
    after = _with(text, root, node, path[depth], made)
    return _checked(after, _put(before, path, value), where)


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
    return _checked(_without(text, node, path[-1]), _drop(_object(root, "the top", where), path), where)


@dataclass(frozen=True, slots=True)
class _Style:
    """How a file is written: its line end, one step of indentation, ``", "`` and ``": "`` or tighter."""

    eol: str
    step: str
    spread: bool
    comma: str
    colon: str

    @classmethod
    def of(cls, text: str, root: Node) -> _Style:
        spread = not root.members or _is_spread(text, root)
        step, colon = "  ", ": "
        if root.members:
            first = root.members[0]
            step = (_indent(text, first.start) if spread else "") or step
            colon = ": " if text[first.node.start - 1] in _BLANK else ":"
        return cls(end_of_line(text), step, spread, ", " if colon == ": " else ",", colon)

    def member(self, key: str, value: object, indent: str | None) -> str:
        """Spell a member: over lines below ``indent``, or on one line if that is None."""
        if indent is None:
            return json.dumps({key: value}, separators=(self.comma, self.colon))[1:-1]
        lines = json.dumps({key: value}, indent=self.step).split("\n")[1:-1]
        return self.eol.join(indent + line.removeprefix(self.step) for line in lines)


def _with(text: str, root: Node, node: Node, key: str, value: object) -> str:
    style = _Style.of(text, root)
    close = node.end - 1
    if not node.members:
        if not style.spread and "\n" not in text[node.start : close]:
            return text[:close] + style.member(key, value, None) + text[close:]
        # What stands between the braces stays in front, so that `remove` finds it as it was.
        outer = _indent(text, node.start)
        made = style.eol + style.member(key, value, outer + style.step) + style.eol + outer
        return text[:close] + made + text[close:]
    last = node.members[-1]
    end = len(text[:close].rstrip(_BLANK))
    if _is_spread(text, node):
        made = style.eol + style.member(key, value, _indent(text, last.start))
    else:
        made = style.comma[1:] + style.member(key, value, None)
    if last.comma is None:
        return text[: last.node.end] + "," + text[last.node.end : end] + made + text[end:]
    return text[:end] + made + "," + text[end:]


def _without(text: str, node: Node, key: str) -> str:
    members = node.members or ()
    index = next(i for i, member in enumerate(members) if member.key == key)
    member, previous = members[index], members[index - 1]
    if len(members) == 1:
        return _emptied(text, node, member)
    start = _cut(text, previous.end if index else node.start + 1, member)
    if index == 0 and "\n" not in text[node.start : member.start]:
        following = members[1].start
        blank = not text[member.end : following].strip(_BLANK)
        return text[: member.start] + text[following if blank else member.end :]
    if index == len(members) - 1 and member.comma is None and previous.comma is not None:
        return text[: previous.comma] + text[previous.comma + 1 : start] + text[member.end :]
    return text[:start] + text[member.end :]


def _emptied(text: str, node: Node, member: Member) -> str:
    """Take out the only member; if it has lines to itself, the braces meet as they did before it came."""
    line = text.rfind("\n", node.start, member.start)
    line -= text[line - 1] == "\r"
    blank = not (text[line : member.start] + text[member.end : node.end - 1]).strip(_BLANK)
    if line > node.start and blank and not _in_comment(text, node.start + 1, line):
        return text[:line] + text[node.end - 1 :]
    return text[: member.start] + text[member.end :]


def _cut(text: str, since: int, member: Member) -> int:
    """Return where to cut: before the blanks in front of ``member``, unless comments would run on."""
    start = len(text[: member.start].rstrip(_BLANK))
    rest = text[member.end :].partition("\n")[0].strip(_BLANK)
    runs_on = rest.startswith("/") or (rest and _in_comment(text, since, start))
    return member.start if runs_on else start


def _in_comment(text: str, since: int, at: int) -> bool:
    """Say whether a ``//`` comment goes on at ``at``; ``since`` is where no comment does."""
    comments = list(_COMMENT.finditer(text, since, at))
    return bool(comments) and comments[-1].group().startswith("//") and comments[-1].end() == at


def _is_spread(text: str, node: Node) -> bool:
    """Say whether a line ends between the members, or between them and the braces."""
    at = node.start
    for member in node.members or ():
        if "\n" in text[at : member.start]:
            return True
        at = member.node.end
    return "\n" in text[at : node.end]


def _indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at].removeprefix(BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _object(node: Node, name: str, where: str) -> dict[str, Any]:
    if not isinstance(node.data, dict):
        raise FormatError(f"expected an object at {name}, found {quote(node.data)}", where=where)
    return node.data


def _put(data: dict[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    return {**data, path[0]: value if len(path) == 1 else _put(data.get(path[0], {}), path[1:], value)}


def _drop(data: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    rest = {key: value for key, value in data.items() if key != path[0]}
    return rest if len(path) == 1 else {**rest, path[0]: _drop(data[path[0]], path[1:])}


def _checked(text: str, expected: object, where: str) -> str:
    found = parse(text, where)
    if found is None or found.data != expected:
        raise FormatError("expected a file that can be edited in place", where=where, hint="edit it by hand")
    return text
