"""Where in the text of a JSON document a fault is: looked for once one is known, so that nobody else pays for it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from skillhub.errors import FormatError
from skillhub.model.syntax.jsonc import Node, parse
from skillhub.model.text import clean

# A document that is far larger than any honest one is not worth a second of searching.
_CAP = 2 * 1024 * 1024


def line_of(data: bytes, path: str) -> int | None:
    """Return the line, from 1, of what ``path`` (``skills.deploy.signed_by[0]``) names, or of what would hold it."""
    if len(data) > _CAP:
        return None
    text = data.decode("utf-8", "replace")
    try:
        root = parse(text, "")
    except FormatError:
        return 1
    start, length = 0, 0
    for found, at, _ in _places(root):
        is_on_the_way = path == found or path.startswith((f"{found}.", f"{found}["))
        if is_on_the_way and len(found) > length:
            start, length = at, len(found)
    return text.count("\n", 0, start) + 1


def line_of_fault(data: bytes) -> int | None:
    """Return the line, from 1, of what keeps ``strict_json`` from reading the document; if in doubt the first."""
    if len(data) > _CAP:
        return None
    try:
        text = data.decode("utf-8")
        root = parse(text, "")
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1
    except FormatError as error:
        return int((error.where or ":1").removeprefix(":"))
    start = next((at for _, at, value in _places(root) if _is_wrong(value)), 0)
    return text.count("\n", 0, start) + 1


def _places(node: Node | None, path: str = "") -> Iterator[tuple[str, int, object]]:
    """Yield each key and each element of a list, at its path, as a reader's error spells it, and its place."""
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
    """Say whether it is a number that is none, or a text that nobody could write."""
    if isinstance(value, str):
        return any("\ud800" <= char <= "\udfff" for char in value)
    return isinstance(value, float) and not math.isfinite(value)
