"""YAML from outside: text, lists and mappings only; no constructing loader."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from typing import Any, TypeAlias

import yaml
from yaml.events import (
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from skillhub.errors import FormatError
from skillhub.formats.text import quote

# YAML as documents from outside may use it: text, lists and mappings, nothing that surprises a reader.
# Every scalar stays the text that was written: ``no`` is not false and ``1.10`` is not 1.1; whoever wants a
# number or a truth value asks for one. The parser gives events and no constructing loader is at work: so no tag can
# make an object, and no alias can make a small file large.

Node: TypeAlias = "str | list[Node] | dict[str, Node]"

MAX_BYTES = 64 * 1024
MAX_DEPTH = 8
# libyaml's parser where PyYAML was built with it, thirty times as fast; both give the same events.
FASTEST: Any = getattr(getattr(yaml, "cyaml", None), "CParser", yaml.SafeLoader)
_PLAIN_LINE = re.compile(
    r"(  )?([A-Za-z][\w-]{0,63}):"
    r"(?: (?:([A-Za-z0-9](?!.*(?:: | #))(?:[ -~]*[!-9;-~])?)|\"([ !#-\[\]-~]+)\"))?",
    re.ASCII,
)
# What the core schema of YAML 1.2 makes of plain scalars (10.3.2); any other is text.
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGERS = ((re.compile(r"[-+]?[0-9]+"), 10), (re.compile(r"0o[0-7]+"), 8), (re.compile(r"0x[0-9a-fA-F]+"), 16))
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_DIGITS_MAX = 308  # of an integer; a double holds no more
_BREAKS_OF_1_1 = re.compile("[\x85\u2028\u2029]")
_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def parse(
    text: str,
    where: str,
    line_offset: int = 0,
    cap: int = MAX_BYTES,
    parser: Any = FASTEST,  # noqa: ANN401
) -> Node:
    """Return the one document in ``text``; an empty one is ``""``.

    Args:
        text: YAML, at most ``cap`` bytes of it.
        where: The file, named in errors as ``where:line``.
        line_offset: Lines of the file above ``text``.
        cap: Bytes; 64 kB unless the format is known to be larger.
        parser: Any class of PyYAML that gives events.

    Raises:
        FormatError: it is not YAML, or holds an anchor, alias, tag, merge key, duplicate key, key that is
            no scalar, second document, more than 8 levels or more than ``cap`` bytes.
    """
    if len(text) > cap or len(text.encode("utf-8", "surrogatepass")) > cap:
        raise FormatError(f"expected at most {cap} bytes of YAML", where=where)
    plain = _plain(text)
    if plain is not None:
        return plain
    return _document(_Reader, text, where, line_offset, parser)  # type: ignore[no-any-return]


def typed(text: str, where: str, line_offset: int = 0) -> Any:  # noqa: ANN401 - a JSON value
    """Return the one document in ``text`` as the core schema of YAML 1.2 types it, as a JSON value.

    What JSON has no number for, infinity and what is no number, is null, as in JavaScript.

    Args:
        text: YAML, at most 64 kB.
        where: The file, named in errors as ``where:line``.
        line_offset: Lines of the file above ``text``.

    Raises:
        FormatError: as for ``parse``; or a line ends in a character that ends none in YAML 1.2.
    """
    if _BREAKS_OF_1_1.search(text):
        raise FormatError("expected no line break that YAML 1.2 does not know", where=where)
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise FormatError(f"expected at most {MAX_BYTES} bytes of YAML", where=where)
    found = _document(_TypedReader, text, where, line_offset)
    return None if found == "" else found


def _document(
    kind: type[_Reader],
    text: str,
    where: str,
    line_offset: int,
    parser: Any = FASTEST,  # noqa: ANN401
) -> Any:  # noqa: ANN401 - what this reader makes of it
    try:
        return kind(parser(text).get_event, where, line_offset).document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        place = where if mark is None else f"{where}:{mark.line + 1 + line_offset}"
        hint = "put a value that holds ': ' or ' #' in quotes" if "mapping values" in problem else None
        raise FormatError(f"not valid YAML: {problem}", where=place, hint=hint) from error
    except UnicodeEncodeError as error:
        raise FormatError("expected text, found half of a surrogate pair", where=where) from error


def _resolved(text: str) -> Any:  # noqa: ANN401 - null, a boolean, a number or text
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
    """Return the truth value that ``node`` spells, ``default`` where it says nothing.

    Raises:
        FormatError: it is neither ``true`` nor ``false``, nor YAML 1.1's yes, no, on, off.
    """
    word = node.lower() if isinstance(node, str) else None
    if word in ("", "~", "null"):
        return default
    if word not in _TRUTH:
        raise FormatError(f"expected true or false, found {quote(node)}")
    return _TRUTH[word]


def _plain(text: str) -> dict[str, Node] | None:
    """Return what the parser would return for lines ``key: words``, at most one level deep; None for any other text.

    Most frontmatters are so plain, and a host reads those of all skills at start: this takes a fifth of the time.
    """
    found: dict[str, Node] = {}
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
            found[last] = inner
        else:
            return None
        target = inner if indent else found
        if target is None or key in target:
            return None
        target[key] = value or ""
    return found


class _Reader:
    """One pass over the events of one document."""

    def __init__(self, get_event: Callable[[], Event], where: str, line_offset: int) -> None:
        self._next = get_event
        self._where = where
        self._line_offset = line_offset

    def document(self) -> Node:
        self._next()  # the start of the stream
        start = self._next()
        if isinstance(start, StreamEndEvent):
            return ""
        if isinstance(start, DocumentStartEvent) and start.tags:
            raise self._refuse(start, "no %TAG directive")
        root = self._node(self._next(), 1)
        self._next()  # the end of the document
        after = self._next()
        if not isinstance(after, StreamEndEvent):
            raise self._refuse(after, "one document")
        return root

    def _node(self, event: Event, depth: int) -> Node:
        if type(event) is ScalarEvent and event.anchor is None and event.tag is None:
            return event.value  # nearly all are; the frontmatters of all skills are read at each start of a host
        if not isinstance(event, (ScalarEvent, SequenceStartEvent, MappingStartEvent)):
            raise self._refuse(event, "no alias")
        if event.anchor is not None:
            raise self._refuse(event, "no anchor")
        if event.tag is not None:
            raise self._refuse(event, "no tag")
        if isinstance(event, ScalarEvent):
            return str(event.value)
        if depth > MAX_DEPTH:
            raise self._refuse(event, f"at most {MAX_DEPTH} levels")
        return self._list(depth) if isinstance(event, SequenceStartEvent) else self._mapping(depth)

    def _list(self, depth: int) -> list[Node]:
        items: list[Node] = []
        while not isinstance(event := self._next(), SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, Node]:
        items: dict[str, Node] = {}
        while type(event := self._next()) is not MappingEndEvent:
            if not isinstance(event, ScalarEvent):
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
        return _resolved(str(node)) if isinstance(event, ScalarEvent) and event.implicit[0] else node
