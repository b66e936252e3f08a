"""Finds mentions of skills in a message: ``$name``, ``$ns:name``, ``[$name](path)``, ``/name args``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from skillhub.runtime.code_spans import Span, code_spans

# `_` is in no name of the specification, but in those of lenient hosts; a hyphen ends none. ASCII alone, so that
# a mention ends where text without blanks between words goes on.
_NAME = r"[A-Za-z0-9_]+(?:-+[A-Za-z0-9_]+)*"
_FULL_NAME = rf"{_NAME}(?::{_NAME})*"
# Numbers, and variables as shells write them: `$5`, `$10-20`, `$PATH`, `$HOME-dir`.
_NO_NAME = r"(?![0-9-]+(?![A-Za-z0-9_:])|[A-Z_][A-Z0-9_]*(?![A-Za-z0-9_]))"
# Before a mention is no letter, and nothing that makes it part of a path, an address or an assignment.
NOT_WITHIN = r"(?<![A-Za-z0-9_$\\/.=&%@#+~-])"
# A path has no parenthesis, so that no two searches for its end go over the same text.
_MENTION = re.compile(
    rf"\[\${_NO_NAME}(?P<linked>{_FULL_NAME})\][ \t]*\([ \t]*(?P<path>[^()\n]+)\)"
    rf"|{NOT_WITHIN}\${_NO_NAME}(?P<plain>{_FULL_NAME})"
)
_SLASH = re.compile(rf"\s*(?P<text>/(?P<name>{_FULL_NAME}))(?=\s|\Z)")
_SHELL = frozenset({"path", "home", "user", "shell", "pwd", "tmpdir", "temp", "tmp", "lang", "term"})


class Typed(NamedTuple):
    """One mention as it was typed.

    Attributes:
        text: All of it, as in the message.
        name: ``name`` or ``ns:name``.
        start: Where it begins in the text, in characters.
        end: Where it ends, not included.
        path: What a link leads to, else None.
        doubtful: Whether it may as well be a variable or a number (``$my_var``, ``$user``, ``$3d``), so that it
            is a mention only if a skill has exactly that name.
    """

    text: str
    name: str
    start: int
    end: int
    path: str | None = None
    doubtful: bool = False


def mentions(text: str) -> Iterator[Typed]:
    """Yield the mentions in ``text`` as they come, in time linear in its length; any text will do.

    A slash counts at the very beginning alone. Code, commands, numbers and variables (``$5``, ``$PATH``) are
    passed over.
    """
    if slash := _SLASH.match(text):
        yield Typed(slash["text"], slash["name"], *slash.span("text"))
    if "$" not in text:
        return
    spans = iter([*code_spans(text), Span(len(text), len(text))])
    span = next(spans)
    for found in _MENTION.finditer(text):
        start, end = found.span()
        while span.end <= start:
            span = next(spans)
        if span.start <= start:
            continue
        linked, path, plain = found.groups()
        if plain:
            yield Typed(found[0], plain, start, end, None, _is_doubtful(plain))
        else:
            yield Typed(found[0], linked, start, end, path.strip())


def _is_doubtful(name: str) -> bool:
    if "-" in name or ":" in name:
        return False
    return "_" in name or name[0].isdigit() or name != name.lower() or name in _SHELL
