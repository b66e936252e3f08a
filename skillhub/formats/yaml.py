"""YAML from outside: text, lists and mappings only; no constructing loader.

Functions import PyYAML when they need it: plain frontmatter does not need it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

from skillhub.errors import FormatError
from skillhub.formats.json import BOM
from skillhub.formats.text import deferred, end_of_line, quote

if TYPE_CHECKING:
    from yaml.events import Event

# The part of YAML that documents from outside may use: text, lists and mappings.
# Every scalar stays text: ``no`` is not false and ``1.10`` is not 1.1; a caller that needs a truth value calls
# ``truth``. The parser gives events and there is no constructing loader: no tag can create an object, and no alias
# can make a small file large.

Node: TypeAlias = "str | list[Node] | dict[str, Node]"

MAX_BYTES = 64 * 1024
MAX_DEPTH = 8
_PLAIN_LINE = deferred(
    r"(?a)(  )?([A-Za-z][\w-]{0,63}):"
    r"(?: (?:([A-Za-z0-9](?!.*(?:: | #))(?:[ -~]*[!-9;-~])?)|\"([ !#-\[\]-~]+)\"))?"
)
# The plain scalars that the core schema of YAML 1.2 converts (10.3.2); any other is text.
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGERS = ((deferred(r"[-+]?[0-9]+"), 10), (deferred(r"0o[0-7]+"), 8), (deferred(r"0x[0-9a-fA-F]+"), 16))
_FLOAT = deferred(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_NUMBER = deferred(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_DIGITS_MAX = 308  # digits of an integer; a double has no more
_BREAKS_OF_1_1 = deferred("[\x85\u2028\u2029]")
_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@cache
def fastest() -> type:
    """Return libyaml's parser if PyYAML has it, else PyYAML's own, 30 times slower; both give the same events."""
    import yaml

    return getattr(getattr(yaml, "cyaml", None), "CParser", yaml.SafeLoader)


def parse(text: str, where: str, line_offset: int = 0, cap: int = MAX_BYTES, parser: type | None = None) -> Node:
    """Return the one document in ``text``; an empty one is ``""``.

    Args:
        text: YAML, at most ``cap`` bytes.
        where: The file, named in errors as ``where:line``.
        line_offset: Lines of the file above ``text``.
        cap: The most bytes; 64 kB unless the format is known to be larger.
        parser: A class of PyYAML that gives events; None is the ``fastest``.

    Raises:
        FormatError: ``text`` is not YAML, or has an anchor, alias, tag, merge key, duplicate key, key that is
            no scalar, second document, more than 8 levels or more than ``cap`` bytes.
    """
    if len(text) > cap or len(text.encode("utf-8", "surrogatepass")) > cap:
        raise FormatError(f"expected at most {cap} bytes of YAML", where=where)
    plain = _parse_plain(text)
    if plain is not None:
        return plain
    return _document(_Reader, text, where, line_offset, parser)  # type: ignore[no-any-return]


def typed(text: str, where: str, line_offset: int = 0, cap: int = MAX_BYTES) -> Any:  # noqa: ANN401 - a JSON value
    """Return the one document in ``text`` as a JSON value, with the types of YAML 1.2's core schema.

    Infinity and NaN, for which JSON has no number, are null, as in JavaScript.

    Args:
        text: YAML, at most ``cap`` bytes.
        where: The file, named in errors as ``where:line``.
        line_offset: Lines of the file above ``text``.
        cap: The most bytes.

    Raises:
        FormatError: as for ``parse``; or ``text`` has a line break of YAML 1.1 that YAML 1.2 does not have.
    """
    if _BREAKS_OF_1_1.search(text):
        raise FormatError("expected no line break that YAML 1.2 does not know", where=where)
    if len(text.encode("utf-8", "surrogatepass")) > cap:
        raise FormatError(f"expected at most {cap} bytes of YAML", where=where)
    value = _document(_TypedReader, text, where, line_offset)
    return None if value == "" else value


def _document(kind: type[_Reader], text: str, where: str, line_offset: int, parser: type | None = None) -> Any:  # noqa: ANN401 - what this reader makes of it
    import yaml

    try:
        return kind((parser or fastest())(text).get_event, where, line_offset).document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        place = where if mark is None else f"{where}:{mark.line + 1 + line_offset}"
        hint = "put a value that holds ': ' or ' #' in quotes" if "mapping values" in problem else None
        raise FormatError(f"not valid YAML: {problem}", where=place, hint=hint) from error
    except UnicodeEncodeError as error:
        raise FormatError("expected text, found half of a surrogate pair", where=where) from error


def _resolve(text: str) -> Any:  # noqa: ANN401 - null, a boolean, a number or text
    if text in _NULL or text in _BOOLEAN:
        return _BOOLEAN.get(text)
    for pattern, base in _INTEGERS:
        if pattern.fullmatch(text):
            return int(text, base) if len(text) < _DIGITS_MAX else None
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if isfinite(number) else None
    return None if _NO_NUMBER.fullmatch(text) else text


def truth(node: Node, default: bool) -> bool:
    """Return the truth value in ``node``; ``default`` if it is empty or null.

    Raises:
        FormatError: it is neither ``true`` nor ``false``, nor YAML 1.1's yes, no, on, off.
    """
    word = node.lower() if isinstance(node, str) else None
    if word in ("", "~", "null"):
        return default
    if word not in _TRUTH:
        raise FormatError(f"expected true or false, found {quote(node)}")
    return _TRUTH[word]


def _parse_plain(text: str) -> dict[str, Node] | None:
    """Return the parsed mapping of lines ``key: words``, with at most one inner level; None for any other text.

    Most frontmatter is so plain, and a host reads that of all skills at its start: this takes a fifth of the time.
    """
    mapping: dict[str, Node] = {}
    inner: dict[str, Node] | None = None
    last = ""
    for line in text.removesuffix("\n").split("\n"):
        match = _PLAIN_LINE.fullmatch(line)
        if match is None:
            return None
        indent, key, plain, quoted = match.groups()
        value = plain or quoted
        if not indent:
            last, inner = key, None if value else {}
        elif inner is not None and value:
            mapping[last] = inner
        else:
            return None
        target = inner if indent else mapping
        if target is None or key in target:
            return None
        target[key] = value or ""
    return mapping


class _Reader:
    """One pass over the events of one document."""

    def __init__(self, get_event: Callable[[], Event], where: str, line_offset: int) -> None:
        from yaml import events

        self._of = events
        self._next = get_event
        self._where, self._line_offset = where, line_offset

    def document(self) -> Node:
        self._next()  # the start of the stream
        start = self._next()
        if isinstance(start, self._of.StreamEndEvent):
            return ""
        if isinstance(start, self._of.DocumentStartEvent) and start.tags:
            raise self._refuse(start, "no %TAG directive")
        root = self._node(self._next(), 1)
        self._next()  # the end of the document
        after = self._next()
        if not isinstance(after, self._of.StreamEndEvent):
            raise self._refuse(after, "one document")
        return root

    def _node(self, event: Event, depth: int) -> Node:
        if isinstance(event, self._of.ScalarEvent) and event.anchor is None and event.tag is None:
            return event.value  # the fast path: nearly all events are such scalars
        if not isinstance(event, (self._of.ScalarEvent, self._of.SequenceStartEvent, self._of.MappingStartEvent)):
            raise self._refuse(event, "no alias")
        if event.anchor is not None:
            raise self._refuse(event, "no anchor")
        if event.tag is not None:
            raise self._refuse(event, "no tag")
        if depth > MAX_DEPTH:
            raise self._refuse(event, f"at most {MAX_DEPTH} levels")
        return self._list(depth) if isinstance(event, self._of.SequenceStartEvent) else self._mapping(depth)

    def _list(self, depth: int) -> list[Node]:
        items: list[Node] = []
        while not isinstance(event := self._next(), self._of.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, Node]:
        items: dict[str, Node] = {}
        while type(event := self._next()) is not self._of.MappingEndEvent:
            if not isinstance(event, self._of.ScalarEvent):
                raise self._refuse(event, "keys that are text")
            key = str(_Reader._node(self, event, depth))
            if key == "<<" and not event.style:
                raise self._refuse(event, "no merge key")
            if key in items:
                raise self._refuse(event, f"one value for each key, found {quote(key)} twice")
            items[key] = self._node(self._next(), depth + 1)
        return items

    def _refuse(self, event: Event, expected: str) -> FormatError:
        mark = event.start_mark
        place = self._where if mark is None else f"{self._where}:{mark.line + 1 + self._line_offset}"
        return FormatError(f"expected {expected}", where=place)


class _TypedReader(_Reader):
    def _node(self, event: Event, depth: int) -> Any:  # noqa: ANN401 - a JSON value
        node = super()._node(event, depth)
        return _resolve(str(node)) if isinstance(event, self._of.ScalarEvent) and event.implicit[0] else node


# One entry of another program's YAML file is added or removed; every other byte stays. The entries are below a key at
# the top level: a mapping by name, or a list of entries with a ``name``. Values are written as JSON, which YAML reads
# with the same meaning. The text is parsed before and after: an edit with any other change is refused.

OTHERS_MAX = 256 * 1024
_LINE = deferred(r"[^\n]*\n|[^\n]+")
_LONE_RETURN = deferred(r"\r(?!\n)")


def others_yaml(text: str, where: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return the content of a file of another program; None if it is empty.

    Raises:
        FormatError: as for ``typed`` with a ``cap`` of 256 kB; or a line ends in a carriage return alone.
    """
    if _LONE_RETURN.search(text):
        raise FormatError("expected lines that end in a line feed", where=where)
    return typed(text.removeprefix(BOM), where, cap=OTHERS_MAX)


def insert(text: str, path: tuple[str, str], entry: Mapping[str, object], where: str, *, listed: bool = False) -> str:
    """Return ``text`` with ``entry``, named ``path[1]``, after the last entry below the key ``path[0]``.

    Raises:
        FormatError: ``text`` is malformed, or cannot be edited in place.
    """
    before, body = others_yaml(text, where), text.removeprefix(BOM)
    key, name = path
    pair, lines = _pair_of(body, key), _LINE.findall(body)
    if pair is not None and getattr(pair[1], "flow_style", False):
        end = _index(lines, pair[1].end_mark) - 1
        entry_text = _json({"name": name, **entry}) if listed else f"{_json(name)}: {_json(entry)}"
        after = body[:end] + (", " if pair[1].value else "") + entry_text + body[end:]
    else:
        first = f"- name: {_json(name)}" if listed else f"{name if _is_plain(name) else _json(name)}:"
        block = [first, *(f"  {field}: {_json(value)}" for field, value in entry.items())]
        if pair is None:
            index, indent, block = len(lines), "", [f"{key}:", *(f"  {line}" for line in block)]
        elif pair[1].value:
            index, indent = _lines_to(pair[1]), " " * pair[1].start_mark.column
        else:
            index, indent = pair[0].end_mark.line + 1, "  "
        after = _insert_lines(lines, index, [indent + line for line in block], end_of_line(text))
    entries = [*_entries(before, key), (name, {"name": name, **entry} if listed else entry)]
    return text[: len(text) - len(body)] + _checked(after, before, key, entries, where)


def remove(text: str, path: tuple[str, str], where: str) -> str:
    """Return ``text`` without the entry ``path[1]`` below ``path[0]``, and without that key if it is then empty.

    Raises:
        FormatError: ``text`` is malformed, there is no such entry, or it cannot be removed in place.
    """
    before, body = others_yaml(text, where), text.removeprefix(BOM)
    key, name = path
    pair, lines, entries = _pair_of(body, key), _LINE.findall(body), _entries(before, key)
    index = next((number for number, (entry_name, _) in enumerate(entries) if entry_name == name), None)
    if pair is None or index is None:
        raise FormatError(f"expected {quote(f'{key}.{name}')}, found none", where=where)
    nodes = [node if isinstance(node, tuple) else (node, node) for node in pair[1].value]
    start, end = nodes[index][0].start_mark, nodes[index][1].end_mark
    if pair[1].flow_style:
        start = nodes[index - 1][1].end_mark if index else start
        end = nodes[1][0].start_mark if len(nodes) > 1 and not index else end
        after = body[: _index(lines, start)] + body[_index(lines, end) :]
    else:
        is_bare = len(nodes) == 1 and "#" not in lines[pair[0].start_mark.line]
        removed = {*range(start.line, _lines_to(nodes[index][1])), *([pair[0].start_mark.line] if is_bare else [])}
        after = "".join(line for number, line in enumerate(lines) if number not in removed)
        if len(lines) - 1 in removed and not body.endswith("\n"):
            after = after.removesuffix("\n").removesuffix("\r")
    return text[: len(text) - len(body)] + _checked(after, before, key, entries[:index] + entries[index + 1 :], where)


def _pair_of(text: str, key: str) -> tuple[Any, Any] | None:
    """Return the nodes of a top-level key and its value; ``text`` was parsed before: it has no anchor and no tag."""
    import yaml

    root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    pairs = root.value if isinstance(root, yaml.MappingNode) else ()
    return next((pair for pair in pairs if pair[0].value == key), None)


def _index(lines: list[str], mark: Any) -> int:  # noqa: ANN401 - PyYAML's
    return sum(map(len, lines[: mark.line])) + int(mark.column)


def _lines_to(node: Any) -> int:  # noqa: ANN401 - PyYAML's
    """Return the number of lines up to the end of a node; a block ends with its last value."""
    import yaml

    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        node = node.value[-1][1] if isinstance(node.value[-1], tuple) else node.value[-1]
    ends_below = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">") and node.end_mark.column == 0
    return int(node.end_mark.line) + (not ends_below)


def _insert_lines(lines: list[str], index: int, block: list[str], eol: str) -> str:
    """Return the text with ``block`` after the first ``index`` lines; a missing last line end stays missing."""
    above = "".join(lines[:index])
    text = eol.join(block)
    if above and not above.endswith("\n"):
        return above + eol + text
    return above + text + eol + "".join(lines[index:])


def _entries(data: Any, key: str) -> list[tuple[str, object]]:  # noqa: ANN401 - a JSON value
    """Return the entries below a key with their names; none if its value is neither a mapping nor a list."""
    entries = data.get(key) if isinstance(data, dict) else None
    if isinstance(entries, list):
        return [(str(entry.get("name", "")) if isinstance(entry, dict) else "", entry) for entry in entries]
    return [*entries.items()] if isinstance(entries, dict) else []


def _checked(text: str, before: Any, key: str, entries: list[tuple[str, object]], where: str) -> str:  # noqa: ANN401
    edited: Any = False  # stays False if the edited text is no YAML, which is refused
    with suppress(FormatError):
        edited = others_yaml(text, where) or {}
    others = [{name: value for name, value in data.items() if name != key} for data in (before or {}, edited or {})]
    if edited is False or others[0] != others[1] or _entries(edited, key) != entries:
        raise FormatError("expected a file that can be edited in place", where=where, hint="edit it by hand")
    return text


def _is_plain(name: str) -> bool:
    is_word = re.fullmatch("[A-Za-z][A-Za-z0-9_-]*", name) is not None
    return is_word and name.lower() not in (*_TRUTH, "null", "y", "n")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
