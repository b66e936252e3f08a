"""The list of skills for a model, in its host's dialect and within its host's budget."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from skillhub.formats.json import members
from skillhub.formats.text import clean, deferred, grouped, is_unseen, packaged
from skillhub.model.hosts import Budget, Profile
from skillhub.model.hosts import profile as profile_of
from skillhub.model.skill import Problem, Skill
from skillhub.runtime.catalog import Catalog, Shadowed

# The tags of all hosts, so that no host mistakes the text of another host's envelope for its own. A lenient reader,
# or a model, skips blanks and slashes between `<` and the name, and hidden characters (each a `_VEIL` here) in both.
_TAGS: Final = (
    *("skill", "skill_content", "skill_context", "skill-invocation", "skill_files", "skill_resources"),
    *("skills", "skills_context", "skills_usage", "skills_catalog", "available_skills", "system-reminder"),
)
_VEIL: Final = "\u200b"
_NAMES: Final = "|".join(f"{_VEIL}*+".join(map(re.escape, tag)) for tag in _TAGS)
# Pegasus begins a skill with `[Skill: NAME]`.
_HEADING: Final = rf"[\s{_VEIL}]*+".join(("", *"skill:"))
_TAG: Final = deferred(rf"<(?=[\s/\\{_VEIL}]*+(?:{_NAMES})(?![\w-]))|\[(?={_HEADING})", re.IGNORECASE)
_ESCAPES: Final = {"<": "&lt;", "[": "&#91;"}

# The dialects of ``dialects.json``: how each host writes the list of skills. Text from skills is escaped inside tags;
# elsewhere it has no tag of an envelope.


class ListedSkill(NamedTuple):
    """One entry of the list.

    Attributes:
        name: The full name of the skill.
        description: One line; may be empty.
        path: The path of its ``SKILL.md``.
        scope: The scope of the skill.
        files: The number of files in ``scripts``, ``references`` and ``assets``; zeros if the dialect omits them.
    """

    name: str
    description: str
    path: str
    scope: str
    files: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a host writes the list.

    Attributes:
        text: The lines. ``{skills}`` stands for all skills, ``{omission}`` for the line about those that did not fit.
        skill: The lines of one skill.
        omission: The line about omitted skills.
        escaping: ``xml`` and ``html`` escape each value, as the host does; ``tags`` escapes the tags of envelopes.
        uri: Whether the path of a skill is written as a URI.
    """

    text: Sequence[str]
    skill: Sequence[str]
    omission: str = "{}."
    escaping: Literal["xml", "html", "tags"] = "xml"
    uri: bool = False

    @cached_property
    def entry(self) -> str:
        """The lines of one skill as one text."""
        return "\n".join(self.skill)

    @cached_property
    def counts_files(self) -> bool:
        """Whether the entry of a skill has the number of its files."""
        return "{files}" in self.entry

    def spell(self, entries: Sequence[ListedSkill], omitted: int) -> str:
        """Return the list of these skills, and the number of omitted ones."""
        lines: list[str] = []
        for line in self.text:
            if line == "{skills}":
                lines += map(self.spell_entry, entries)
            elif line != "{omission}":
                lines.append(line.format(truncated="true" if omitted else "false"))
            elif omitted:
                omission = f"{omitted} more {'skill is' if omitted == 1 else 'skills are'} not listed here"
                lines.append(self.omission.format(omission))
        return "\n".join(lines)

    def spell_entry(self, entry: ListedSkill) -> str:
        """Return the lines of one skill."""
        name, description = entry.name, entry.description
        path = Path(os.path.abspath(entry.path)).as_uri() if self.uri else clean(entry.path)
        if self.escaping == "html":
            name, description, path = escape(name), escape(description), path.replace("<", "&lt;")
        elif self.escaping == "xml":
            name, description, path = (escape(text, quote=False) for text in (name, description, path))
        text = self.entry.format(
            name=name,
            description=description,
            words=description and f" {description}",
            about=description and f": {description}",
            path=path,
            scope="repo" if entry.scope == "project" else entry.scope,
            files=counted(entry.files) if self.counts_files else "",
        )
        return safe(text) if self.escaping == "tags" else text


def counted(files: tuple[int, int, int]) -> str:
    """Return the number of scripts, references and assets in the form of GenCode; empty if there are none."""
    counted = zip(files, ("script", "ref", "asset"), strict=True)
    words = [f"{number} {word}{'s' if number > 1 else ''}" for number, word in counted if number]
    return f" [{', '.join(words)}]" if words else ""


def safe(text: str) -> str:
    """Return ``text`` with each tag of an envelope escaped, also tags that hidden characters disguise."""
    if "<" not in text and "[" not in text:
        return text
    hidden = {ord(char): _VEIL for char in set(text) if is_unseen(char)}
    starts = {match.start() for match in _TAG.finditer(text.translate(hidden))}
    chars = (_ESCAPES[char] if position in starts else char for position, char in enumerate(text)) if starts else text
    return "".join(chars)


DIALECTS: Final = {name: Dialect(**row) for name, row in packaged("runtime/dialects.json").items()}


# The list of skills within the budget, which is for the whole text.
# Over the budget, descriptions are shortened to the same length, at the end of a word and down to a useful length;
# then whole skills are omitted, those of the lowest precedence first. A warning names what does not fit.

Unit = Literal["tokens", "characters", "bytes"]
# The ratio that hosts assume, since tokenizers differ between models.
_BYTES_PER_TOKEN: Final = 4
_NAMED: Final = 20  # names of omitted skills in a warning
_FILES: Final = ("scripts", "references", "assets")


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest permitted size of a text; ``most`` is None for any size."""

    most: int | None
    unit: Unit

    @classmethod
    def of(cls, budget: Budget, window: int | None) -> Limit:
        """Return the limit of a budget for a model with a context of ``window`` tokens; None if that is unknown."""
        if budget.percent is not None and window is not None:
            return cls(int(window * budget.percent / 100), "tokens")
        return cls(budget.size, "bytes") if budget.size is not None else cls(budget.chars, "characters")

    def cost(self, text: str) -> int:
        """Return the size of a text in the unit of the limit."""
        if self.unit == "characters":
            return len(text)
        size = len(text.encode("utf-8", "replace"))
        return size if self.unit == "bytes" else -(-size // _BYTES_PER_TOKEN)

    def holds(self, text: str) -> bool:
        """Return whether a text is within the limit."""
        return self.most is None or self.cost(text) <= self.most


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The list of skills for a model, and facts about it for the user.

    Attributes:
        host: The id of the host.
        text: The text for the model; empty if there is no skill that the model may call.
        skills: The full names of the listed skills, in order.
        omitted: The full names of the skills that did not fit.
        cut: The full names of the listed skills whose description is shortened.
        used: The size of the text, in ``unit``.
        budget: The largest permitted size, in ``unit``; None for any size.
        unit: The unit of the sizes.
        shadowed: The skills that another skill of the same name hides.
        problems: The problems of the catalogue.
        catalog: The whole catalogue, with the skills that the model is not shown.
        costs: The size of the entry of each skill that the model may call, by the path of its ``SKILL.md``, rounded
            up; for an omitted skill the size of its full entry.
    """

    host: str
    text: str
    skills: tuple[str, ...]
    omitted: tuple[str, ...]
    cut: tuple[str, ...]
    used: int
    budget: int | None
    unit: Unit
    shadowed: tuple[Shadowed, ...]
    problems: tuple[Problem, ...]
    catalog: Catalog = field(default_factory=Catalog)
    costs: Mapping[str, int] = field(default_factory=dict)

    @property
    def shortened(self) -> int:
        """The number of listed skills whose description is shortened."""
        return len(self.cut)

    @property
    def repeated(self) -> Mapping[str, Sequence[str]]:
        """The folders of each name that is listed more than once."""
        listed = set(self.skills)
        skills = (skill for skill in self.catalog.skills if skill.reach == "active" and skill.full_name in listed)
        places = grouped((skill.full_name, skill.path or "") for skill in skills)
        return {name: [*paths] for name, paths in places.items() if len(paths) > 1}

    @property
    def bill(self) -> list[tuple[str, int, bool]]:
        """The name, the cost, and whether it is listed, of each skill that the model may call; largest cost first."""
        listed = set(self.skills)
        skills = (skill for skill in self.catalog.skills if skill.file in self.costs)
        rows = [(skill.full_name, self.costs[skill.file], skill.full_name in listed) for skill in skills]
        return sorted(rows, key=lambda row: (-row[1], row[0]))

    @property
    def held(self) -> tuple[Skill, ...]:
        """The skills that are held back, each with its reason in ``Skill.held``."""
        return tuple(skill for skill in self.catalog.skills if skill.held is not None)

    @property
    def truncated(self) -> bool:
        """Whether a skill is omitted or its description shortened."""
        return bool(self.omitted or self.shortened)

    @property
    def warning(self) -> str | None:
        """A warning for the user, which names omitted or shortened skills; None if every entry is complete."""
        if not self.truncated:
            return None
        total = len(self.skills) + len(self.omitted)
        size = "what its host allows" if self.budget is None else f"{self.budget} {self.unit}"
        hint = "disable those that are not needed"
        meant = self.omitted or self.cut
        more = len(meant) - _NAMED
        names = ", ".join([*map(clean, meant[:_NAMED]), *([f"and {more} more"] if more > 0 else [])])
        if self.omitted:
            return f"{len(meant)} of {total} skills are hidden from the model, to stay within {size}: {names}; {hint}"
        return f"the descriptions of {len(meant)} of {total} skills are shortened to {size}: {names}; {hint}"

    def to_json(self) -> dict[str, Any]:
        """Return the answer of ``skillhub catalog --json``."""
        listed = set(self.skills)
        return {
            **members(self, "host", "text"),
            "skills": [self._row(skill, listed) for skill in self.catalog.skills],
            "omitted": list(self.omitted),
            "shadowed": [each.to_json() for each in self.shadowed],
            "problems": [each.to_json() for each in self.problems],
            **members(self, "truncated", "used", "budget", "unit", "shortened", "warning"),
            "repeated": [{"name": name, "paths": paths} for name, paths in self.repeated.items()],
            "roots": self.catalog.root_rows(),
        }

    def _row(self, skill: Skill, listed: Collection[str]) -> dict[str, Any]:
        is_listed = skill.reach == "active" and skill.full_name in listed
        return {**self.catalog.row(skill), "listed": is_listed, "cost": self.costs.get(skill.file)}


def section(catalog: Catalog, profile: Profile | str, window: int | None = None) -> Section:
    """Return the list of skills for the model of a host.

    Args:
        catalog: The skills of the host; those that the model may not call are not listed.
        profile: The host, or its id.
        window: The size of the model's context in tokens; None if it is unknown.

    Raises:
        UsageError: there is no host of that name.
    """
    profile = profile_of(profile)
    dialect = DIALECTS[profile.dialect]
    active = [skill for skill in catalog.skills if skill.reach == "active"]
    entries = [_entry(skill, dialect.counts_files) for skill in active]
    limit = Limit.of(profile.budget, window) if catalog.room is None else Limit(catalog.room, "characters")

    def spell(listed: Sequence[ListedSkill]) -> str:
        return dialect.spell(listed, len(entries) - len(listed)) if listed else ""

    fitted = _fitted(entries, profile.budget, limit, spell)
    text = spell(fitted)
    cut = [fit.name for fit, full in zip(fitted, entries, strict=False) if fit.description != full.description]
    frame = dialect.spell((), 0)
    cost = limit.cost(frame)
    priced = (*fitted, *entries[len(fitted) :])
    costs = {entry.path: limit.cost(f"{frame}\n{dialect.spell_entry(entry)}") - cost for entry in priced}
    return Section(
        host=profile.id,
        text=text,
        skills=tuple(entry.name for entry in fitted),
        omitted=tuple(entry.name for entry in entries[len(fitted) :]),
        cut=tuple(cut),
        used=limit.cost(text),
        budget=limit.most,
        unit=limit.unit,
        shadowed=catalog.shadowed,
        problems=catalog.problems,
        catalog=catalog,
        costs=costs,
    )


def _fitted(
    entries: Sequence[ListedSkill], budget: Budget, limit: Limit, spell: Callable[[Sequence[ListedSkill]], str]
) -> list[ListedSkill]:
    """Return the entries that fit, with as much of their descriptions as fits."""
    listed = list(entries[: budget.entries])
    longest = max((len(entry.description) for entry in listed), default=0)
    if budget.description is not None:
        longest = min(longest, budget.description)
    least = longest if budget.least is None else min(longest, budget.least)

    def fits(number: int, length: int) -> bool:
        return limit.holds(spell([_shortened(entry, length) for entry in listed[:number]]))

    # The bisection finds the first number that does not fit: the key is false for all before it.
    if not fits(len(listed), least):
        listed = listed[: bisect_right(range(1, len(listed)), False, key=lambda number: not fits(number, least))]
    lengths = range(least + 1, longest + 1)
    length = least + bisect_right(lengths, False, key=lambda length: not fits(len(listed), length))
    return [_shortened(entry, length) for entry in listed]


def _shortened(entry: ListedSkill, length: int) -> ListedSkill:
    """Return the entry with at most ``length`` characters of its description, up to the end of a word."""
    text = entry.description
    if len(text) <= length:
        return entry
    cut = text[: length - 1]
    word = cut if text[length - 1] == " " else cut.rpartition(" ")[0]
    # Not every script has blanks between words, and some words are long: then cut within a word.
    return entry._replace(description=f"{(word if len(word) * 2 >= length else cut).rstrip()}…" if length else "")


def _entry(skill: Skill, counts_files: bool) -> ListedSkill:
    folder = skill.path or ""
    scripts, references, assets = (_count_files(os.path.join(folder, name)) if counts_files else 0 for name in _FILES)
    description = "" if skill.name_only else skill.description
    return ListedSkill(skill.full_name, description, skill.file, skill.scope, (scripts, references, assets))


def _count_files(folder: str) -> int:
    try:
        with os.scandir(folder) as entries:
            return sum(entry.is_file(follow_symlinks=False) for entry in entries)
    except OSError:
        return 0
