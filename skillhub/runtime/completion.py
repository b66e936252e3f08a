"""Completes a mention that is being typed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from skillhub.model.record import Skill
from skillhub.runtime.catalog import Catalog
from skillhub.runtime.mention import NOT_WITHIN, code_spans
from skillhub.runtime.resolve import may_invoke
from skillhub.runtime.suggest import Suggestions

_SHOWN = 20
# What may stand between a `$` and the cursor, longer than any full name; and the rest of the name behind it.
_BEFORE = re.compile(NOT_WITHIN + r"\$[A-Za-z0-9_:-]{0,200}\Z")
_SLASH = re.compile(r"\s*/[A-Za-z0-9_:-]{0,200}\Z")
_AFTER = re.compile(r"[A-Za-z0-9_:-]*")


@dataclass(frozen=True, slots=True)
class Completion:
    """What to put in place of ``text[start:end]``, the likeliest first.

    Attributes:
        names: Each with the sign that it was begun with, such as ``$github:gh-fix-ci``.
        skills: The skill of each name.
    """

    start: int
    end: int
    names: tuple[str, ...]
    skills: tuple[Skill, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the completion for a host's menu."""
        items = [
            {"name": name, "description": skill.description, "argument_hint": skill.argument_hint}
            for name, skill in zip(self.names, self.skills, strict=True)
        ]
        return {"start": self.start, "end": self.end, "items": items}


def complete(text: str, cursor: int, catalog: Catalog) -> Completion | None:
    """Return what the mention under the cursor may become; None if there is none, as in code.

    Args:
        text: The message so far.
        cursor: How many characters stand before the cursor.
        catalog: The skills there are; those that the user may not invoke are not offered.
    """
    before = text[max(0, cursor - 201) : cursor]
    found = _BEFORE.search(before) or (_SLASH.match(before) if cursor < 200 else None)
    if found is None:
        return None
    typed = found.group().lstrip()
    start = cursor - len(typed)
    if typed[0] == "$" and any(span.start <= start < span.end for span in code_spans(text)):
        return None
    after = _AFTER.match(text, cursor)
    known = Suggestions(skill for skill in catalog.skills if may_invoke(skill, "user"))
    part = typed[1:]
    skills = {skill.full_name: skill for skill in (*known.beginning(part), *known.containing(part))}
    shown = tuple(skills.values())[:_SHOWN]
    names = tuple(typed[0] + skill.full_name for skill in shown)
    return Completion(start, after.end() if after else cursor, names, shown)
