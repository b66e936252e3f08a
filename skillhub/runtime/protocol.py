"""Answers ``skills.list`` and ``context.inspect`` of a host's own protocol."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from skillhub.errors import UsageError
from skillhub.formats.text import quote
from skillhub.model.hosts import Profile
from skillhub.model.record import Skill
from skillhub.model.tree import SKILL_MD
from skillhub.runtime.agent import catalog_of
from skillhub.runtime.catalog import Catalog
from skillhub.runtime.discover import Surroundings
from skillhub.runtime.loading import Session
from skillhub.runtime.walk import Cache


def skills_list(
    profile: Profile,
    folders: Iterable[Surroundings],
    cache: Cache | None = None,
    reload: bool = False,
    ignore_locks: bool = False,
) -> dict[str, Any]:
    """Return the answer to ``skills.list``: for each folder its skills and what could not be read.

    Args:
        profile: The host.
        folders: Each with the roots that this host adds to it (``extra``), which are absolute.
        cache: Where looks into folders are kept.
        reload: Read everything again, whatever the cache has.
        ignore_locks: As for ``catalog_of``.

    Raises:
        UsageError: an added root is not absolute; what it means would depend on who asks.
    """
    found = []
    for each in folders:
        for root in each.extra:
            if not os.path.isabs(root):
                raise UsageError(f"expected an added root to be absolute, found {quote(root)}")
        catalog = catalog_of(profile, each, cache=cache, reload=reload, ignore_locks=ignore_locks)
        errors = [problem.to_json() for problem in catalog.problems]
        found.append({"cwd": each.cwd, "skills": [record(skill) for skill in catalog.skills], "errors": errors})
    return {"data": found}


def context_inspect(
    catalog: Catalog, session: Session | None = None, include_skills: bool = True
) -> Mapping[str, Any]:
    """Return what ``context.inspect`` says of skills: which there are, and which this session has loaded."""
    if not include_skills:
        return {}
    loaded = session.versions if session else {}
    return {
        "skills": {
            "catalog": [record(skill) for skill in catalog.skills],
            "shadowed": [shadowed.to_json() for shadowed in catalog.shadowed],
            "errors": [problem.to_json() for problem in catalog.problems],
            "loaded": [{"path": path, "version": version} for path, version in sorted(loaded.items())],
        }
    }


def record(skill: Skill) -> dict[str, Any]:
    """Return one skill as protocols have it, with ``why`` if it is held back; ``id`` stays as long as the folder."""
    folder = skill.path or ""
    path = os.path.join(folder, SKILL_MD)
    return {
        "id": sha256(os.fsencode(path)).hexdigest()[:16],
        "name": skill.full_name,
        "description": skill.description,
        "path": None if skill.is_elsewhere else path,
        "dir": None if skill.is_elsewhere else folder,
        "scope": skill.scope,
        "enabled": skill.state == "enabled",
        "reach": skill.reach,
        "argument_hint": skill.argument_hint,
        "mtime_ms": _changed(path),
        **skill.why,
    }


def _changed(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns // 1_000_000
    except OSError:
        return None
