"""YAML from outside: text, lists and mappings only; no constructing loader."""

from __future__ import annotations

import re
from collections.abc import Callable
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
    try:
        return _Reader(parser(text).get_event, where, line_offset).document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        place = where if mark is None else f"{where}:{mark.line + 1 + line_offset}"
        hint = "put a value that holds ': ' or ' #' in quotes" if "mapping values" in problem else None
        raise FormatError(f"not valid YAML: {problem}", where=place, hint=hint) from error
    except UnicodeEncodeError as error:
        raise FormatError("expected text, found half of a surrogate pair", where=where) from error


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
            key = str(self._node(event, depth))
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
