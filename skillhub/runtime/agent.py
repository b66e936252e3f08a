"""Finds the skills of one agent: the roots of its profile, what its settings switch off, and what is locked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache

from skillhub.model.dataclass import replace
from skillhub.model.profile import Profile
from skillhub.model.skill import Skill
from skillhub.model.text import quote
from skillhub.runtime.cache import Cache
from skillhub.runtime.catalog import Catalog, Problem
from skillhub.runtime.discover import Search, discover
from skillhub.runtime.roots import Surroundings, roots
from skillhub.runtime.state import layers, settled


def catalog_of(
    profile: Profile,
    around: Surroundings,
    known: Iterable[Skill] = (),
    cache: Cache | None = None,
    reload: bool = False,
) -> Catalog:
    """Return the skills that an agent has before it, sorted by scope, name and path.

    Args:
        profile: The agent.
        around: Where it runs.
        known: The locked skills; what is linked for one of them is that skill, and nothing else has its name. Those
            that are disabled are in the catalogue, for they are in no folder.
        cache: Where looks into folders are kept.
        reload: Read everything, whatever the cache has.
    """
    said, problems = layers(profile, around)
    extra = tuple(path for layer in said for path in layer.extra)
    wider = replace(around, extra=(*around.extra, *extra)) if extra else around
    search = Search(rules=profile.rules, bounds=profile.bounds, cache=cache, reload=reload)
    found = discover(roots(profile, wider), search)
    known = tuple(known)
    skills, odd = _recognized(found.skills, known)
    if said:
        skills = list(settled(skills, said))
    waiting = (skill for skill in known if skill.state == "disabled")
    catalog = Catalog.of((*skills, *waiting), (*problems, *found.problems, *odd), profile.hides, known)
    rank = {scope: number for number, scope in enumerate(profile.listing)}
    ordered = sorted(
        catalog.skills,
        # What waits is in no folder, and has no root.
        key=lambda skill: (
            not skill.root,
            rank.get(skill.scope, len(rank)),
            skill.full_name,
            skill.path or "",
        ),
    )
    return replace(catalog, skills=tuple(ordered), host=profile.id)


def _recognized(skills: Iterable[Skill], known: Iterable[Skill]) -> tuple[list[Skill], list[Problem]]:
    """Return the skills, and what is wrong with them: what is where a locked one was linked is the locked one.

    It goes by the name and the description that were agreed to, whatever its ``SKILL.md`` says by now. What lies in
    it is a part of it, and no skill of its own.
    """
    real = cache(os.path.realpath)  # of a folder, once for all that are linked there
    linked = {
        place: skill
        for skill in known
        for link in skill.links
        # As what is found is told, through links on the way to it.
        for place in (link, os.path.join(real(os.path.dirname(link)), os.path.basename(link)))
    }
    if not linked:
        return list(skills), []
    kept: list[Skill] = []
    problems: list[Problem] = []
    for skill in skills:
        path = skill.path or ""
        above = next((place for place in _above(skill) if place in linked), None)
        locked = linked[above] if above else None
        if locked is None:
            kept.append(skill)
        elif above not in (path, *skill.links):
            problems.append(
                Problem(path, f"it lies in the folder of {locked.name}, which is locked as a whole")
            )
        else:
            if skill.name != locked.name:
                message = f"expected the locked {locked.name}, found {quote(skill.name)}"
                problems.append(Problem(path, message))
            kept.append(_as_locked(skill, locked))
    return kept, problems


def _above(skill: Skill) -> Iterator[str]:
    """Yield where a skill was met and where it is, then the folders above these as far as its root."""
    places = [*skill.links, skill.path or ""]
    for _ in range(max(1, places[0].count(os.sep) - skill.root.count(os.sep))):
        yield from places
        places = [*map(os.path.dirname, places)]


def _as_locked(skill: Skill, locked: Skill) -> Skill:
    return replace(
        locked,
        path=skill.path,
        stored=locked.path,
        scope=skill.scope,
        root=skill.root,
        namespace=skill.namespace,
        invocation="user" if "user" in (skill.invocation, locked.invocation) else "model",
        user_invocable=skill.user_invocable,
        argument_hint=skill.argument_hint,
    )
