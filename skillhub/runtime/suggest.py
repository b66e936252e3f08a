"""Suggests what somebody may have meant by a name that no skill has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from skillhub.model.skill import Skill
from skillhub.runtime.words import close, stems

_INITIALS = re.compile(r"[a-z0-9]{2,8}")


@dataclass(frozen=True, slots=True)
class Suggested:
    """Skills whose names are alike, the likeliest first.

    Attributes:
        is_short_form: Whether the one skill was named by its initials (``tdd``), which is as good as its name
            to who typed it.
    """

    skills: tuple[Skill, ...] = ()
    is_short_form: bool = False


class Suggestions:
    """The names to suggest from.

    Args:
        skills: In order of precedence; only those that may be used.
    """

    def __init__(self, skills: Iterable[Skill]) -> None:
        self._skills = list(skills)
        self._names = [skill.full_name.lower() for skill in self._skills]
        # All names in one text, a line each: one search through it takes the time of a few names apart.
        self._lines = "".join(f"\n{name}" for name in self._names) + "\n"

    def beginning(self, name: str) -> tuple[Skill, ...]:
        """Return the skills whose full name begins so."""
        return self._matching(rf"\n{re.escape(name.lower())}(?!\Z)")

    def containing(self, name: str) -> tuple[Skill, ...]:
        """Return the skills whose full name has this part."""
        return self._matching(re.escape(name.lower())) if name else ()

    def like(self, name: str) -> Suggested:
        """Return what is like ``name`` by beginning, part, words, initials or spelling: the first that has any."""
        if found := self.beginning(name) or self.containing(name) or self._sharing(stems(name)):
            return Suggested(found)
        if found := self._short_for(name.lower()):
            return Suggested(found, is_short_form=len(found) == 1)
        return Suggested(self._misspelt(name.lower()))

    def _matching(self, pattern: str) -> tuple[Skill, ...]:
        """Return the skills in whose lines the pattern is found."""
        at = number = 0
        found = []
        for hit in re.finditer(pattern, self._lines):
            number += self._lines.count("\n", at, hit.start() + 1)
            at = hit.start() + 1
            found.append(self._skills[number - 1])
        return _unique(found)

    def _sharing(self, wanted: frozenset[str]) -> tuple[Skill, ...]:
        """Return the skills whose names have all of these words, in whatever order and form."""
        if not wanted:
            return ()
        # A stem is how its words begin, but for its last letter.
        longest = max(wanted, key=len)
        found = self.containing(longest[:-1] if len(longest) > 1 else longest)
        return tuple(skill for skill in found if wanted <= stems(skill.full_name))

    def _short_for(self, initials: str) -> tuple[Skill, ...]:
        if not _INITIALS.fullmatch(initials):
            return ()
        return self._matching(r"[\n:]" + "-".join(rf"{char}[^-:\n]*" for char in initials) + r"(?=\n)")

    def _misspelt(self, name: str) -> tuple[Skill, ...]:
        spellings: dict[str, list[Skill]] = {}
        for full, skill in zip(self._names, self._skills, strict=True):
            spellings.setdefault(full, []).append(skill)
            if ":" in full:
                spellings.setdefault(full.rpartition(":")[2], []).append(skill)
        return _unique(skill for each in close(name, spellings) for skill in spellings[each])


def _unique(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    return tuple({skill.full_name: skill for skill in skills}.values())
