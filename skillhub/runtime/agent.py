"""Finds the skills of one agent: the roots of its profile, what its settings switch off, and what is locked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from skillhub.model.dataclass import replace
from skillhub.model.profile import Profile
from skillhub.model.skill import Skill
from skillhub.runtime.cache import Cache
from skillhub.runtime.catalog import Catalog
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
    skills = _recognized(found.skills, known)
    if said:
        skills = settled(skills, said)
    waiting = (skill for skill in known if skill.state == "disabled")
    catalog = Catalog.of((*skills, *waiting), (*problems, *found.problems), profile.hides, known)
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


def _recognized(skills: Iterable[Skill], known: Iterable[Skill]) -> Iterator[Skill]:
    """Yield the skills; what is where a locked one was linked, under its name, is the locked one."""
    linked = {link: skill for skill in known for link in skill.links}
    for skill in skills:
        locked = next((linked[link] for link in skill.links if link in linked), None)
        if locked is None or locked.name != skill.name:
            yield skill
            continue
        yield replace(
            locked,
            path=skill.path,
            stored=locked.path,
            scope=skill.scope,
            root=skill.root,
            namespace=skill.namespace,
            description=skill.description,
            invocation="user" if "user" in (skill.invocation, locked.invocation) else "model",
            user_invocable=skill.user_invocable,
            argument_hint=skill.argument_hint,
        )
