"""Finding skills in folders: what is there, read as leniently as people write; what is broken hides nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from skillhub.errors import SkillhubError
from skillhub.model.manifest import Manifest
from skillhub.model.skill import Need, Scope, Skill
from skillhub.model.tree import SKILL_MD, File, Tree
from skillhub.runtime.catalog import Problem

# All that says what a skill is; the rest of its files is read when it is loaded.
_HEAD = (SKILL_MD, "agents/openai.yaml", "agents/skillhub.yaml")
_CAP = 1 << 20


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that holds skills' folders, and whose scope they have."""

    path: str
    scope: Scope


@dataclass(frozen=True, slots=True)
class Discovered:
    """What the roots hold, in the order of the roots, by folder name within one."""

    skills: tuple[Skill, ...]
    problems: tuple[Problem, ...]


def discover(roots: Iterable[Root]) -> Discovered:
    """Return every skill in the roots; a broken one is a problem, an absent root is empty."""
    skills: list[Skill] = []
    problems: list[Problem] = []
    seen: set[str] = set()
    for root in roots:
        for folder in _folders(root.path):
            place = os.path.realpath(folder)
            if place in seen:
                continue
            seen.add(place)
            try:
                skills.append(_read(folder, root.scope))
            except (SkillhubError, OSError) as error:
                problems.append(_problem(folder, error))
    return Discovered(tuple(skills), tuple(problems))


def found_skill(folder: str, scope: Scope) -> Skill:
    """Return the skill in ``folder``, which no lock knows; one that cannot be read is shown by its folder's name."""
    try:
        return _read(folder, scope)
    except (SkillhubError, OSError) as error:
        message = f"cannot be read: {_problem(folder, error).message}"
        return Skill(
            name=os.path.basename(folder),
            path=folder,
            scope=scope,
            state="enabled",
            managed=False,
            description=message,
        )


def _folders(root: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return
    for name in names:
        folder = os.path.join(root, name)
        if os.path.isfile(os.path.join(folder, SKILL_MD)):
            yield folder


def _read(folder: str, scope: Scope) -> Skill:
    manifest = Manifest.read(Tree(_head(folder)))
    needs = (Need(r.kind, r.name, r.description, r.required, satisfied=False) for r in manifest.requires)
    return Skill(
        name=manifest.name,
        path=folder,
        scope=scope,
        state="enabled",
        version=manifest.version,
        links=(folder,),
        invocation="model" if manifest.model_invocable else "user",
        managed=False,
        requires=tuple(needs),
        description=manifest.description,
    )


def _head(folder: str) -> Iterator[tuple[str, File]]:
    for path in _HEAD:
        full = os.path.join(folder, *path.split("/"))
        if os.path.isfile(full):
            with open(full, "rb") as file:
                yield path, File(file.read(_CAP))


def _problem(folder: str, error: SkillhubError | OSError) -> Problem:
    if isinstance(error, OSError):
        return Problem(folder, error.strerror or type(error).__name__)
    line = (error.where or "").rpartition(":")[2]
    return Problem(os.path.join(folder, SKILL_MD), error.message, int(line) if line.isdigit() else None)
