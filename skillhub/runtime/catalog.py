"""The catalogue of an agent's skills: which skill a name means, which it shadows, and which a conversation has."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, Final
from unicodedata import normalize

from skillhub.errors import SkillhubError
from skillhub.formats.text import as_command, is_unseen, quote, typed_flags
from skillhub.model.hosts import SkillScope, is_profile
from skillhub.model.manifest import NamedCommand
from skillhub.model.question import HoldReason
from skillhub.model.skill import Problem, Skill
from skillhub.model.tree import DECLARATIONS, SKILL_MD

# The files that describe a skill; the others are read when it is loaded.
HEAD = (SKILL_MD, *DECLARATIONS)


def folded(text: str) -> str:
    """Return the form in which a file system compares names if it ignores case and Unicode composition."""
    return text.lower() if text.isascii() else normalize("NFC", normalize("NFC", text).casefold())


# Letters and marks that look like ASCII ones after NFKC and case folding (Unicode TR 39), and their replacements.
_ALIKE: Final = str.maketrans(
    "аеорсухѕіјԁһԛԝѵьңκο᧐αινρυγτσсօոսհցаᴀᴄᴇᴋᴍᴏᴛᴜᴠᴡᴢıɑɡɩ‐‒–—−꞉∶",
    "aeopcyxsijdhqwvbhkooaivpuytocouuhgaacekmotuvwziagi-----::",
)


def alike(name: str) -> str:
    """Return the same text for all names that a person takes for one.

    Case, blanks and hidden characters are removed; a letter that looks like another becomes that one.
    """
    if name.isascii():
        return "".join(name.lower().split())
    visible = (char for char in normalize("NFKC", normalize("NFKC", name).casefold()) if not is_unseen(char))
    return "".join("".join(visible).split()).translate(_ALIKE)


class LockedNames:
    """The names of locked skills, in every similar spelling; no other skill may have them."""

    def __init__(self, skills: Iterable[Skill]) -> None:
        names: dict[str, Skill] = {}
        for skill in skills:
            names[f"{skill.source}:{skill.name}"] = names[skill.full_name] = skill
        self.spelled = frozenset(names)
        self._names = {alike(name): skill for name, skill in names.items()}

    def of(self, skill: Skill) -> Skill | None:
        """Return the locked skill whose name, or one spelled alike, ``skill`` has; None if there is none."""
        return self._names.get(alike(skill.full_name)) if self._names else None


def is_beside(path: str, locked: Skill) -> bool:
    """Return whether a folder lies beside that of a locked skill, with the same name in other capitals."""
    folder, name = os.path.split(path)
    names = {os.path.basename(link) for link in locked.links}
    if name in names:
        return False
    for link_name in names:
        with suppress(OSError):
            if not os.path.samefile(path, os.path.join(folder, link_name)):
                return True
    return False


# The reasons to hold back a skill, and the skill held back.

STORED = HoldReason("not-agreed", "is in the store of skillhub, but not enabled", "skillhub install")


def imitation_reason(locked: Skill) -> HoldReason:
    """Return the reason to hold back a skill that has the name of a locked one and is another."""
    reason = f"has the name of {locked.name}, which the lock has from {locked.source}, but is another skill"
    return HoldReason("not-agreed", reason, as_command("skillhub", "install", *typed_flags(locked.scope)))


def inside_reason(locked: Skill) -> HoldReason:
    """Return the reason to hold back a skill in the folder of a locked one."""
    reason = f"is inside the folder of {locked.name}, which is locked as a whole"
    return HoldReason("drifted", reason, as_command("skillhub", "sync", *typed_flags(locked.scope)))


def holding(skill: Skill, held: HoldReason) -> Skill:
    """Return the skill, held back for this reason."""
    return replace(skill, state="disabled", held=held)


def unreadable_lock_reason(error: SkillhubError) -> HoldReason:
    """Return the reason to hold back a skill while a lock or a record cannot be read."""
    reason = f"is held back, because {quote(error.where or 'the lock')} cannot be read: {error.message}"
    return HoldReason("not-agreed", reason, "skillhub doctor")


@dataclass(frozen=True, slots=True)
class Root:
    """A folder in which skills, or commands, are looked for; or the file of one command.

    Attributes:
        scope: The scope of its skills.
        namespace: The namespace of its skills that name none.
        label: The host's name of the scope; empty where it is skillhub's.
        is_commands: Whether it holds commands, each a file ``NAME.md``, instead of folders of skills.
        is_skill: Whether it is the folder of one skill itself.
        command: If it is the file of one command, what the plugin says of that command.
        problem: Why it cannot be read; if set, it is not.
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
class Shadowed:
    """A skill that no name means, because ``by`` has the same name and takes precedence."""

    skill: Skill
    by: Skill

    def to_json(self) -> dict[str, Any]:
        """Return the shadowed skill as a row of ``shadowed`` in ``--json``, with the folders as agents name them."""
        path, by = (next(iter(each.links), each.path) for each in (self.skill, self.by))
        return {"name": self.skill.full_name, "path": path, "by": by}


@dataclass(frozen=True)
class Catalog:
    """The skills of an agent, in order of precedence, and the skills that they shadow.

    Attributes:
        skills: The skills that names mean, disabled ones included. If the host hides none, several may have one name.
        shadowed: The skills that another skill of the same name hides.
        problems: The skills and folders that cannot be read, and faults of others.
        taken: The names of locked skills, in whatever folders these are.
        host: The agent's id; empty if the catalogue is not that of one agent.
        roots: The folders that were searched, in order of precedence.
        room: The size of the list of skills, in characters, that the user sets in the host's variable; None if unset.
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
        """Return the catalogue of ``skills``.

        An unlocked skill with the name of a locked one, or with its ``source:name``, is shadowed and reported as a
        problem, since it may imitate the locked skill.

        Args:
            skills: The skills in order of precedence, which the catalogue keeps.
            problems: The problems that are known already.
            hides: Whether the first skill of a name hides the others; if not, the name is ambiguous.
            locked: The locked skills, among ``skills`` or elsewhere; no other skill may have their names.
        """
        ordered = list(skills)
        winners: dict[str, Skill] = {}
        for skill in sorted(ordered, key=lambda skill: not skill.managed):
            winners.setdefault(skill.full_name, skill)
        taken = LockedNames(skill for skill in (*locked, *reversed(ordered)) if skill.managed)
        visible: list[Skill] = []
        shadowed: list[Shadowed] = []
        all_problems = list(problems)
        for skill in ordered:
            imitated = None if skill.managed else taken.of(skill)
            winner = imitated or winners[skill.full_name]
            if winner is skill or not (hides or imitated):
                visible.append(skill)
                continue
            shadowed.append(Shadowed(skill, winner))
            if imitated:
                message = f"it has the name of {imitated.name}, which the lock has from {imitated.source}"
                all_problems.append(Problem(skill.path or "", message))
        return cls(tuple(visible), tuple(shadowed), tuple(all_problems), taken.spelled)

    @property
    def unchecked(self) -> tuple[Problem, ...]:
        """The problems of folders that were not searched to the end."""
        return tuple(problem for problem in self.problems if problem.is_cut)

    @cached_property
    def _by_name(self) -> Mapping[str, Sequence[Skill]]:
        names: dict[str, list[Skill]] = {}
        taken = set(map(alike, self.taken))
        for skill in self.skills:
            for name in {skill.name, skill.full_name}:
                # A skill chooses its own namespace; without it, its name must not become that of a locked skill.
                if skill.managed or name == skill.full_name or alike(name) not in taken:
                    names.setdefault(name, []).append(skill)
        return names

    @cached_property
    def _by_path(self) -> Mapping[str, Skill]:
        return {os.path.normpath(place): each for each in self.skills for place in (each.path, *each.links) if place}

    @property
    def stamp(self) -> str:
        """A digest that changes with the skills and their instructions, and with that the search index of them."""
        rows = [(skill.full_name, skill.path, skill.tree, skill.stamp) for skill in self.skills if skill.held is None]
        return sha256(repr(rows).encode()).hexdigest()

    @property
    def command(self) -> str:
        """The command that lists these skills; empty for an agent that skillhub does not know."""
        if self.host in ("", "agents"):
            return as_command("skillhub", "catalog")
        return as_command("skillhub", "catalog", "--host", self.host) if is_profile(self.host) else ""

    @property
    def hint(self) -> str | None:
        """The hint of an error that names no skill of this catalogue."""
        return f"{self.command} lists the skills" if self.command else None

    def problem_of(self, name: str) -> Problem | None:
        """Return why the skill in a folder of this name is missing; None if no problem is the cause."""
        return self._problem_by_name.get(name)

    @cached_property
    def _problem_by_name(self) -> Mapping[str, Problem]:
        found: dict[str, Problem] = {}
        for problem in self.problems:
            folder, file = os.path.split(problem.path)
            for name in (os.path.basename(folder), file, file.removesuffix(".md")):
                if problem.level == "error":
                    found.setdefault(name, problem)
        return found

    def named(self, name: str) -> tuple[Skill, ...]:
        """Return every skill whose name, or full name ``namespace:name``, is ``name``."""
        return tuple(self._by_name.get(name, ()))

    def at(self, path: str) -> Skill | None:
        """Return the skill in the folder ``path``, or whose ``SKILL.md`` is ``path``; None if there is none."""
        place = os.path.normpath(path)
        folder = os.path.dirname(place) if os.path.basename(place) == SKILL_MD else place
        return self._by_path.get(folder)

    def row(self, skill: Skill) -> dict[str, Any]:
        """Return one skill as a row of the catalogue in ``--json``, with ``why`` if it is held back."""
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
        """Return a row for each searched folder, in order of precedence, with the names of the skills in it."""
        visible: dict[str, list[str]] = {root.path: [] for root in self.roots}
        hidden: dict[str, list[str]] = {root.path: [] for root in self.roots}
        for skill in self.skills:
            visible.get(skill.root, []).append(skill.full_name)
        for shadowed in self.shadowed:
            hidden.get(shadowed.skill.root, []).append(shadowed.skill.full_name)
        return [
            {
                "path": root.path,
                "scope": root.label or root.scope,
                "found": sorted(visible[root.path]),
                "shadowed": sorted(hidden[root.path]),
            }
            for root in self.roots
        ]

    @cached_property
    def _labels(self) -> Mapping[str, str]:
        return {root.path: root.label for root in self.roots}


# What a conversation has of the catalogue already.


class Session:
    """A conversation, with the skills loaded into it and the answers given in it.

    Call ``forget`` when the context of the conversation was compacted.

    Args:
        name: The id of the conversation, which skills may use as ``${CLAUDE_SESSION_ID}``.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._versions: dict[str, str] = {}
        # The questions asked, by folder, need and server, each with the value of a variable for that skill alone.
        self.asked: dict[tuple[str, str, str], str | None] = {}
        self.declined: set[tuple[str, str, str]] = set()
        self._texts: set[tuple[str, str]] = set()

    def has(self, path: str, version: str, text: str = "") -> bool:
        """Return whether the conversation has this text of this version already, and add it."""
        key = path, sha256(f"{version}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()
        is_there = key in self._texts
        self._texts.add(key)
        self._versions[path] = version
        return is_there

    def forget(self) -> None:
        """Forget the loaded texts, so that each skill is loaded in full again."""
        self._versions.clear()
        self._texts.clear()

    @property
    def versions(self) -> dict[str, str]:
        """The version of each loaded skill, by path."""
        return dict(self._versions)
