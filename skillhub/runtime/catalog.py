"""Which of several skills of one name an agent means, and which are hidden by it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from skillhub.model.skill import Skill
from skillhub.runtime.discover import Problem


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A skill that is there and is not meant, because ``by`` has its name and comes first."""

    skill: Skill
    by: Skill


@dataclass(frozen=True, slots=True)
class Catalog:
    """Skills by name, first come first served; the hidden ones are kept and named."""

    skills: tuple[Skill, ...]
    shadowed: tuple[Shadowed, ...]
    problems: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, skills: Iterable[Skill], problems: Iterable[Problem] = ()) -> Catalog:
        """Return the catalogue of ``skills``, given in order of precedence.

        A skill that nobody locked and that has the name of a locked one is a problem as well: whoever
        put it there may want to be taken for it.
        """
        first: dict[str, Skill] = {}
        shadowed: list[Shadowed] = []
        found = list(problems)
        for skill in sorted(skills, key=lambda each: not each.managed):
            winner = first.setdefault(skill.name, skill)
            if winner is skill:
                continue
            shadowed.append(Shadowed(skill, winner))
            if winner.managed and not skill.managed:
                message = f"it has the name of {winner.name}, which the lock has from {winner.source}"
                found.append(Problem(skill.path or "", message))
        return cls(tuple(first.values()), tuple(shadowed), tuple(found))
