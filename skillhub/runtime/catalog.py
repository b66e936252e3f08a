"""The skills that an agent sees: which of several of one name is meant, and which are shadowed by it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple
from unicodedata import normalize

from skillhub.formats.text import as_command, is_unseen
from skillhub.model.hosts import SkillScope
from skillhub.model.manifest import one_line
from skillhub.model.record import Skill
from skillhub.model.tree import SKILL_MD


def folded(text: str) -> str:
    """Return a path or name as file systems compare it that tell neither case nor composed letters apart."""
    return text.lower() if text.isascii() else normalize("NFC", normalize("NFC", text).casefold())


# Letters and marks that pass for those of a locked name, after NFKC and case folding (Unicode TR 39).
_ALIKE: Final = str.maketrans(
    "аеорсухѕіјԁһԛԝѵьңκο᧐αινρυγτσсօոսհցаᴀᴄᴇᴋᴍᴏᴛᴜᴠᴡᴢıɑɡɩ‐‒–—−꞉∶",
    "aeopcyxsijdhqwvbhkooaivpuytocouuhgaacekmotuvwziagi-----::",
)


def alike(name: str) -> str:
    """Return what all names share that a person takes for one: case, blanks, hidden characters, letters alike."""
    if name.isascii():
        return "".join(name.lower().split())
    seen = (char for char in normalize("NFKC", normalize("NFKC", name).casefold()) if not is_unseen(char))
    return "".join("".join(seen).split()).translate(_ALIKE)


class LockedNames:
    """The names of locked skills, which nobody else may have, however they are spelled."""

    def __init__(self, skills: Iterable[Skill]) -> None:
        names: dict[str, Skill] = {}
        for skill in skills:
            names[f"{skill.source}:{skill.name}"] = names[skill.full_name] = skill
        self.spelled = frozenset(names)
        self._names = {alike(name): skill for name, skill in names.items()}

    def of(self, skill: Skill) -> Skill | None:
        """Return the locked skill whose name another has."""
        return self._names.get(alike(skill.full_name)) if self._names else None


class NamedCommand(NamedTuple):
    """What a plugin says of a command that it names itself; what is empty the command's file says."""

    name: str
    description: str = ""
    argument_hint: str = ""

    @classmethod
    def of(cls, name: str, said: object) -> NamedCommand | None:
        """Return what a member of ``commands`` in a ``plugin.json`` says; None if no file is to hold the command."""
        if not name or "/" in name or name != one_line(name) or not isinstance(said, dict) or "content" in said:
            return None
        texts = (said.get(key) for key in ("description", "argumentHint"))
        return cls(name, *(one_line(text) if isinstance(text, str) else "" for text in texts))


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that holds skills' folders, or of commands one file.

    Attributes:
        scope: Whose they are.
        namespace: What goes before their names if they do not say.
        label: The scope as the host spells it; empty where it does as we do.
        is_commands: Whether it holds commands, each a file ``NAME.md``, as opposed to folders.
        is_skill: Whether it is the folder of one skill itself.
        command: What is said elsewhere of the one command that it is.
        problem: Why what is there cannot be looked into; then nothing is.
    """

    path: str
    scope: SkillScope
    namespace: str | None = None
    label: str = ""
    is_commands: bool = False
    problem: str = ""
    is_skill: bool = False
    command: NamedCommand | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """A skill that cannot be read (``error``), or something about one that should be mended (``warning``).

    Attributes:
        path: The file or folder.
        message: What was expected and what was found.
        line: The line in that file, from 1.
        level: Whether something is missing for it.
        is_cut: Whether the folder holds more than is looked at.
    """

    path: str
    message: str
    line: int | None = None
    level: Literal["error", "warning"] = "error"
    is_cut: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the problem as the contract has it."""
        return {"path": self.path, "line": self.line, "message": self.message, "level": self.level}


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A skill that is there and is not meant, because ``by`` has its name and comes first."""

    skill: Skill
    by: Skill

    def to_json(self) -> dict[str, Any]:
        """Return the shadowed skill as the contract has it."""
        return {"name": self.skill.full_name, "path": self.skill.path, "by": self.by.path}


@dataclass(frozen=True)
class Catalog:
    """Skills in order of precedence; the hidden ones are kept and named.

    Attributes:
        skills: What is meant by a name, disabled ones among them. Of hosts that hide nothing, several may
            have one name.
        shadowed: What is hidden.
        problems: What could not be read.
        taken: Names that belong to locked skills, wherever these are.
        host: The agent's id, if it is that of one agent.
        roots: The folders that were looked into, those that come first before those that they may hide.
        room: How many characters the user gives to the list of skills, in the host's variable; None if not said.
    """

    skills: tuple[Skill, ...] = ()
    shadowed: tuple[Shadowed, ...] = ()
    problems: tuple[Problem, ...] = ()
    taken: frozenset[str] = frozenset()
    host: str = ""
    roots: tuple[Root, ...] = ()
    room: int | None = None

    @classmethod
    def of(
        cls,
        skills: Iterable[Skill],
        problems: Iterable[Problem] = (),
        hides: bool = True,
        locked: Iterable[Skill] = (),
    ) -> Catalog:
        """Return the catalogue of ``skills``, given in order of precedence.

        A skill that nobody locked and that has the name of a locked one, or its ``source:name``, is a
        problem as well: whoever put it there may want to be taken for it.

        Args:
            skills: The skills, those that come first before those that they may hide; they stay in this order.
            problems: What is known to be wrong already.
            hides: Whether the first of a name hides the others, as opposed to all being ambiguous.
            locked: What is locked, whether it is among ``skills`` or lies elsewhere; nobody else may have its name.
        """
        given = list(skills)
        first: dict[str, Skill] = {}
        for skill in sorted(given, key=lambda each: not each.managed):
            first.setdefault(skill.full_name, skill)
        taken = LockedNames(skill for skill in (*locked, *reversed(given)) if skill.managed)
        kept: list[Skill] = []
        shadowed: list[Shadowed] = []
        found = list(problems)
        for skill in given:
            imitated = None if skill.managed else taken.of(skill)
            winner = imitated or first[skill.full_name]
            if winner is skill or not (hides or imitated):
                kept.append(skill)
                continue
            shadowed.append(Shadowed(skill, winner))
            if imitated:
                message = f"it has the name of {imitated.name}, which the lock has from {imitated.source}"
                found.append(Problem(skill.path or "", message))
        return cls(tuple(kept), tuple(shadowed), tuple(found), taken.spelled)

    @property
    def unchecked(self) -> tuple[Problem, ...]:
        """The folders that hold more than is looked at."""
        return tuple(each for each in self.problems if each.is_cut)

    @cached_property
    def _by_name(self) -> Mapping[str, Sequence[Skill]]:
        names: dict[str, list[Skill]] = {}
        taken = set(map(alike, self.taken))
        for skill in self.skills:
            for name in {skill.name, skill.full_name}:
                # A namespace, which a skill may give itself, makes no short form of a locked name.
                if skill.managed or name == skill.full_name or alike(name) not in taken:
                    names.setdefault(name, []).append(skill)
        return names

    @cached_property
    def _by_path(self) -> Mapping[str, Skill]:
        return {
            os.path.normpath(place): skill for skill in self.skills for place in (skill.path, *skill.links) if place
        }

    @property
    def command(self) -> str:
        """What a user types to see these skills."""
        host = ("--host", self.host) if self.host not in ("", "agents") else ()
        return as_command("skillhub", "catalog", *host)

    def named(self, name: str) -> tuple[Skill, ...]:
        """Return every skill that is called ``name`` or, in full, ``namespace:name``."""
        return tuple(self._by_name.get(name, ()))

    def at(self, path: str) -> Skill | None:
        """Return the skill in this folder, or with this ``SKILL.md``; None if there is none."""
        place = os.path.normpath(path)
        folder = os.path.dirname(place) if os.path.basename(place) == SKILL_MD else place
        return self._by_path.get(folder)

    def row(self, skill: Skill) -> dict[str, Any]:
        """Return one skill as protocols have it, with ``why`` if it is held back."""
        return {
            "name": skill.full_name,
            "description": skill.description,
            "path": None if skill.is_elsewhere else skill.path,
            "scope": self._labels.get(skill.root) or skill.scope,
            "root": skill.root or None,
            "source": skill.source,
            "trust": skill.trust,
            "needs": [need.to_json() for need in skill.requires],
            "enabled": skill.state == "enabled",
            **skill.why,
        }

    def root_rows(self) -> list[dict[str, Any]]:
        """Return each folder that was looked into, in order of precedence, with what was found there."""
        found: dict[str, list[str]] = {root.path: [] for root in self.roots}
        hidden: dict[str, list[str]] = {root.path: [] for root in self.roots}
        for skill in self.skills:
            found.get(skill.root, []).append(skill.full_name)
        for each in self.shadowed:
            hidden.get(each.skill.root, []).append(each.skill.full_name)
        return [
            {
                "path": root.path,
                "scope": root.label or root.scope,
                "found": sorted(found[root.path]),
                "shadowed": sorted(hidden[root.path]),
            }
            for root in self.roots
        ]

    @cached_property
    def _labels(self) -> Mapping[str, str]:
        return {root.path: root.label for root in self.roots}
