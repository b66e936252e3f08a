"""Makes the list of skills that a model sees first, in its host's dialect and within its host's budget.

Over the budget, descriptions are shortened, each to the same length, and then, without any, the last entries are
left out. The budget is for all of the text; what did not fit is told.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from skillhub.model.profile import Budget, Profile
from skillhub.model.skill import Skill
from skillhub.model.tree import SKILL_MD
from skillhub.runtime.catalog import Catalog, Problem, Shadowed
from skillhub.runtime.dialects import DIALECTS, Entry

Unit = Literal["tokens", "characters", "bytes"]
# What hosts reckon with, as no tokenizer is the same for all models.
_BYTES_PER_TOKEN: Final = 4
_FILES: Final = ("scripts", "references", "assets")


@dataclass(frozen=True, slots=True)
class Limit:
    """How much text there may be; ``most`` is None for any."""

    most: int | None
    unit: Unit

    @classmethod
    def of(cls, budget: Budget, window: int | None) -> Limit:
        """Return the limit of a budget, for a model whose context has ``window`` tokens, if that is known."""
        if budget.percent is not None and window is not None:
            return cls(int(window * budget.percent / 100), "tokens")
        return cls(budget.size, "bytes") if budget.size is not None else cls(budget.chars, "characters")

    def cost(self, text: str) -> int:
        """Return how much of the limit a text takes."""
        if self.unit == "characters":
            return len(text)
        size = len(text.encode("utf-8", "surrogateescape"))
        return size if self.unit == "bytes" else -(-size // _BYTES_PER_TOKEN)

    def holds(self, text: str) -> bool:
        """Say whether a text keeps within the limit."""
        return self.most is None or self.cost(text) <= self.most


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The text, and what a human should know of it.

    Attributes:
        text: Nothing at all if there is no skill that the model may call.
        skills: Full names of those in it, in its order.
        omitted: Those that did not fit.
        shortened: How many of those in it have less than their description.
        used: What the text takes of the budget, in its unit.
        budget: None for any amount.
        catalog: All skills that there are, those among them that the model is not shown.
    """

    host: str
    text: str
    skills: tuple[str, ...]
    omitted: tuple[str, ...]
    shortened: int
    used: int
    budget: int | None
    unit: Unit
    shadowed: tuple[Shadowed, ...]
    problems: tuple[Problem, ...]
    catalog: tuple[Skill, ...] = ()

    @property
    def held(self) -> tuple[Skill, ...]:
        """Those that are held back, each with why."""
        return tuple(skill for skill in self.catalog if skill.held is not None)

    @property
    def truncated(self) -> bool:
        """Whether anything is not shown in full."""
        return bool(self.omitted or self.shortened)

    @property
    def warning(self) -> str | None:
        """What to tell the user where something is not shown in full."""
        if not self.truncated:
            return None
        total = len(self.skills) + len(self.omitted)
        size = "what its host allows" if self.budget is None else f"{self.budget} {self.unit}"
        hint = "disable those that are not needed"
        if self.omitted:
            return f"the model is not shown {len(self.omitted)} of {total} skills, to keep to {size}; {hint}"
        return f"the descriptions of {self.shortened} of {total} skills are shortened to {size}; {hint}"

    def to_json(self) -> dict[str, Any]:
        """Return what ``skillhub catalog --json`` prints."""
        return {
            "host": self.host,
            "text": self.text,
            "skills": [self._row(skill) for skill in self.catalog],
            "omitted": list(self.omitted),
            "shadowed": [each.to_json() for each in self.shadowed],
            "problems": [each.to_json() for each in self.problems],
            "truncated": self.truncated,
            "used": self.used,
            "budget": self.budget,
            "unit": self.unit,
            "shortened": self.shortened,
            "warning": self.warning,
        }

    def _row(self, skill: Skill) -> dict[str, Any]:
        return {
            "name": skill.full_name,
            "description": skill.description,
            "path": None if skill.is_elsewhere else skill.path,
            "scope": skill.scope,
            "source": skill.source,
            "enabled": skill.state == "enabled",
            "listed": skill.reach == "active" and skill.full_name in self.skills,
            **skill.why,
        }


def section(catalog: Catalog, profile: Profile, window: int | None = None) -> Section:
    """Return what the model of a host is shown of a catalogue.

    Args:
        catalog: What there is; what the model may not call by itself is not shown to it.
        profile: The host.
        window: How many tokens the model's context has, if that is known.
    """
    dialect = DIALECTS[profile.dialect]
    active = [skill for skill in catalog.skills if skill.reach == "active"]
    entries = [_entry(skill, dialect.counts_files) for skill in active]
    limit = Limit.of(profile.budget, window)

    def spell(some: Sequence[Entry]) -> str:
        return "\n".join(dialect.spell(some, len(entries) - len(some))) if some else ""

    shown = _fitted(entries, profile.budget, limit, spell)
    text = spell(shown)
    shortened = sum(
        one.description != other.description for one, other in zip(shown, entries[: len(shown)], strict=True)
    )
    return Section(
        host=profile.id,
        text=text,
        skills=tuple(entry.name for entry in shown),
        omitted=tuple(entry.name for entry in entries[len(shown) :]),
        shortened=shortened,
        used=limit.cost(text),
        budget=limit.most,
        unit=limit.unit,
        shadowed=catalog.shadowed,
        problems=catalog.problems,
        catalog=catalog.skills,
    )


def _fitted(
    entries: Sequence[Entry], budget: Budget, limit: Limit, spell: Callable[[Sequence[Entry]], str]
) -> list[Entry]:
    """Return the entries that fit, with as much of their descriptions as does."""
    kept = list(entries[: budget.entries])
    longest = max((len(entry.description) for entry in kept), default=0)
    if budget.description is not None:
        longest = min(longest, budget.description)

    def fits(number: int, length: int) -> bool:
        return limit.holds(spell([_shortened(entry, length) for entry in kept[:number]]))

    # The most that fits is just before the first that does not; the key is false up to there.
    if not kept or fits(len(kept), longest):
        length = longest
    else:
        length = bisect_right(range(longest), False, key=lambda length: not fits(len(kept), length)) - 1
    if length < 0:
        length = 0
        kept = kept[: bisect_right(range(1, len(kept)), False, key=lambda number: not fits(number, 0))]
    return [_shortened(entry, length) for entry in kept]


def _shortened(entry: Entry, length: int) -> Entry:
    if len(entry.description) <= length:
        return entry
    return entry._replace(description=f"{entry.description[: length - 1].rstrip()}…" if length else "")


def _entry(skill: Skill, counts_files: bool) -> Entry:
    folder = skill.path or ""
    scripts, references, assets = (
        _count(os.path.join(folder, name)) if counts_files else 0 for name in _FILES
    )
    path = os.path.join(folder, SKILL_MD)
    return Entry(skill.full_name, skill.description, path, skill.scope, (scripts, references, assets))


def _count(folder: str) -> int:
    try:
        with os.scandir(folder) as entries:
            return sum(entry.is_file(follow_symlinks=False) for entry in entries)
    except OSError:
        return 0
