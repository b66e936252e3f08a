"""How each agent reads skills and shows them to its model, as data: a row of ``profiles.json``, never a subclass."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

from skillhub.errors import UsageError
from skillhub.model.head import Rules
from skillhub.model.skill import SkillScope
from skillhub.model.text import quote

At = Literal["root", "cwd", "inner", "outer"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent looks: a folder by its pattern.

    Attributes:
        scope: Whose skills are there. ``plugin`` and ``extra`` without a path are those that the agent names.
        path: With ``/``: below the project, below the home (``~/``), or absolute. A segment ``*`` stands for
            every folder there, whose name is the namespace of its skills.
        at: Of a path below the project: at its root, in the working folder, or in each folder from one to
            the other, the inner or the outer first.
        env: A variable that, if it is set, stands for the first segment below the home.
    """

    scope: SkillScope
    path: str = ""
    at: At = "root"
    env: str | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a look into one root goes: levels of folders, number of folders, and into skills themselves or not."""

    depth: int = 6
    folders: int = 2000
    nested: bool = True


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of a model's context the catalogue may take.

    Attributes:
        percent: Of the context window in tokens, if that is known.
        chars: Characters, if the window is not known.
        size: Bytes.
        entries: Skills.
        description: Characters of one description.
    """

    percent: float | None = None
    chars: int | None = None
    size: int | None = None
    entries: int | None = None
    description: int | None = None


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file of the agent's that says which skills are switched off; ``path`` and ``env`` as of a ``Place``."""

    form: Literal["gen", "codex", "opencode"]
    path: str
    env: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One agent.

    Attributes:
        places: Where it looks; of two skills of one name the one in the earlier place is meant.
        hides: Whether that one hides the other, as opposed to both being ambiguous.
        listing: In which order of scopes it lists; what comes last is left out first.
        markers: What a project's root holds.
        root_env: A variable that names the project's root.
        dialect: How the catalogue is spelled.
        envelope: What is put around the instructions of a skill.
        many: Whether one message may call several skills.
        states: Its own files of what is switched off, those that decide first.
    """

    id: str
    name: str
    places: tuple[Place, ...]
    hides: bool = True
    rules: Rules = field(default_factory=Rules)
    bounds: Bounds = field(default_factory=Bounds)
    budget: Budget = field(default_factory=Budget)
    listing: tuple[SkillScope, ...] = ("project", "extra", "user", "plugin", "system", "admin")
    markers: tuple[str, ...] = (".git", ".jj")
    root_env: str | None = None
    dialect: str = "agents"
    envelope: str = "skill_content"
    many: bool = False
    states: tuple[StateFile, ...] = ()


@cache
def profiles() -> Mapping[str, Profile]:
    """Return every profile by its id; read from the package once."""
    with open(os.path.join(os.path.dirname(__file__), "profiles.json"), encoding="utf-8") as file:
        rows = json.load(file)["profiles"]
    return MappingProxyType({row["id"]: _profile(row) for row in rows})


def profile(name: str) -> Profile:
    """Return the profile with this id.

    Raises:
        UsageError: there is none; the hint says which there are.
    """
    known = profiles()
    if name in known:
        return known[name]
    raise UsageError(f"there is no host {quote(name)}", hint=f"there are {', '.join(known)}")


def _profile(row: dict[str, Any]) -> Profile:
    parts = {"rules": Rules, "bounds": Bounds, "budget": Budget}
    lists = {"places": Place, "states": StateFile}
    given: dict[str, Any] = {}
    for key, value in row.items():
        if key in parts:
            given[key] = parts[key](**value)
        elif key in lists:
            given[key] = tuple(lists[key](**each) for each in value)
        else:
            given[key] = tuple(value) if isinstance(value, list) else value
    return Profile(**given)
