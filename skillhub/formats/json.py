"""JSON from outside: a size limit, strict UTF-8, no duplicate key, no NaN; faults with line and column."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator

from skillhub.errors import FormatError
from skillhub.formats.jsonc import Node, parse
from skillhub.formats.text import clean, quote

# JSON as it comes from outside: a size cap first, then strict UTF-8, no duplicate key, no NaN.


def strict_json(data: bytes, where: str, cap: int) -> object:
    """Return the value that ``data`` spells (RFC 8259), as ``json.loads`` would build it.

    Args:
        data: The document; a byte order mark is not JSON.
        where: The file or URL, for the error.
        cap: The bytes that the document may have at most.

    Raises:
        FormatError: anything else than one JSON value within the cap, an object that has a key twice, a
            number that is none (``NaN``, ``Infinity``), or nesting deeper than the parser goes.
    """
    if len(data) > cap:
        raise FormatError(f"expected at most {cap} bytes of JSON, found {len(data)}", where=where)
    try:
        value: object = _DECODER.decode(data.decode("utf-8"))
        # Half of a surrogate pair would decode, and crash whoever writes it to a file or a terminal.
        # Most documents have no backslash, and one byte is found fast.
        if b"\\" in data and (b"\\ud" in data or b"\\uD" in data):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        return value
    except UnicodeDecodeError as error:
        raise FormatError(f"expected UTF-8, found another byte at {error.start}", where=where) from error
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}:{error.colno}"
        raise FormatError(f"expected JSON: {error.msg}", where=place) from error
    except RecursionError as error:
        raise FormatError("expected JSON, found nesting too deep", where=where) from error
    except UnicodeEncodeError as error:
        raise FormatError("expected strict JSON, found half of a surrogate pair", where=where) from error
    except ValueError as error:
        raise FormatError("expected strict JSON, found an integer too long to be one", where=where) from error
    except FormatError as error:
        error.where = where
        raise


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise FormatError(f"expected strict JSON: the key {quote(twice)} is there twice")
    return found


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise FormatError(f"expected strict JSON: {text[:20]} is no JSON number")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_number, parse_float=_number)


# Where in the text of a JSON document a fault is: looked for once one is known, so that nobody else pays for
# it.

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
