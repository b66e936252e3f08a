"""Where in the text of a JSON document a fault is: looked for once one is known, so that nobody else pays for it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from skillhub.model.dataclass import dataclass, field
from skillhub.model.text import clean

# A document that is far larger than any honest one is not worth a second of searching.
_CAP = 2 * 1024 * 1024
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_DIGITS = 4300  # of an integer that Python reads
_DEEP, _DEEPEST = 200, 1000  # of brackets: what nobody writes, and what no parser of ours reads


class _Token(NamedTuple):
    start: int
    text: str
    depth: int
    path: str = ""  # of a key or of an element of a list, as a reader's error spells it
    again: bool = False  # whether the object has this key already


@dataclass(slots=True)
class _Open:
    """An object or a list that has not ended yet."""

    path: str
    is_object: bool
    at: str
    keys: set[str] = field(default_factory=set)
    count: int = 0
    is_key: bool = True


def line_of(data: bytes, path: str) -> int | None:
    """Return the line, from 1, of what ``path`` (``skills.deploy.signed_by[0]``) names, or of what would hold it."""
    if len(data) > _CAP:
        return None
    text = data.decode("utf-8", "replace")
    start, length = 0, 0
    for token in _tokens(text):
        is_on_the_way = path == token.path or path.startswith((f"{token.path}.", f"{token.path}["))
        if is_on_the_way and len(token.path) > length:
            start, length = token.start, len(token.path)
    return text.count("\n", 0, start) + 1


def line_of_fault(data: bytes) -> int | None:
    """Return the line, from 1, of what keeps ``strict_json`` from reading the document; if in doubt the first."""
    if len(data) > _CAP:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1
    deepest, start = _DEEP, 0
    for token in _tokens(text):
        if token.again or _is_wrong(token.text):
            start = token.start
            break
        if token.depth > deepest:
            deepest, start = token.depth, token.start
    return text.count("\n", 0, start) + 1


def _tokens(text: str) -> Iterator[_Token]:
    nested: list[_Open] = []
    for found in _TOKEN.finditer(text):
        word, start = found[0], found.start()
        inner = nested[-1] if nested else None
        path, again = "", False
        if word == "," and inner:
            inner.count, inner.is_key = inner.count + 1, True
        elif word == ":" and inner:
            inner.is_key = False
        elif word in "]}":
            del nested[-1:]
        elif inner and inner.is_object and inner.is_key and word[0] == '"':
            key = _said(word)
            again = key in inner.keys
            inner.keys.add(key)
            path = inner.at = f"{inner.path}.{clean(key[:64])}".lstrip(".")
        elif inner and not inner.is_object:
            path = inner.at = f"{inner.path}[{inner.count}]"
        if word in "[{":
            nested.append(_Open(inner.at if inner else "", word == "{", ""))
        yield _Token(start, word, len(nested), path, again)
        if len(nested) > _DEEPEST:
            return


def _said(word: str) -> str:
    try:
        return str(json.loads(word))
    except ValueError:
        return word


def _is_wrong(word: str) -> bool:
    """Say whether a token is a number that is none, or a text that nobody could write."""
    if word[0] == '"':
        return any("\ud800" <= char <= "\udfff" for char in _said(word))
    if word[0] not in "-0123456789NI":
        return False
    try:
        return len(word) > _DIGITS or not math.isfinite(float(word))
    except ValueError:
        return False
