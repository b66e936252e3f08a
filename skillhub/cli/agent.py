"""What an agent has before it, seen from the working folder: its profile, and the catalogue of its skills."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from skillhub.cli.common import Common
    from skillhub.model.profile import Profile
    from skillhub.runtime.catalog import Catalog

HostName = Annotated[
    str, typer.Option("--host", metavar="NAME", help="The agent whose folders, rules and words count.")
]


def seen_by(common: Common, host: str) -> tuple[Profile, Catalog]:
    """Return the profile of an agent, and what it finds here, with what the locks know of it.

    Raises:
        UsageError: there is no such agent.
    """
    from skillhub.flows.listing import managed
    from skillhub.model.profile import profile
    from skillhub.runtime.agent import catalog_of
    from skillhub.runtime.catalog import Catalog
    from skillhub.runtime.roots import Surroundings
    from skillhub.world.project import Project

    row = profile(host)
    project = common.open_project()
    projects = [project]
    if project.scope == "project":
        projects.append(Project.of_user(common.user_home, common.home))
    known = [skill for each in projects for skill in managed(each, common.store, os.environ)]
    around = Surroundings(
        cwd=_folder(common),
        home=common.user_home,
        environ=os.environ,
        state=common.home.state,
        markers=("skillhub.toml", "skillhub.lock"),
    )
    found = catalog_of(row, around, known)
    # What is disabled is in no agent's folder; that has to be said of it, and of whoever has its name instead.
    waiting = [skill for skill in known if skill.state == "disabled"]
    skills = (*found.skills, *waiting)
    whole = Catalog.of(skills, found.problems, row.hides)
    kept = set(map(id, whole.skills))
    ordered = tuple(skill for skill in skills if id(skill) in kept)
    return row, Catalog(ordered, (*found.shadowed, *whole.shadowed), whole.problems)


def _folder(common: Common) -> str:
    if common.user_scope:
        return common.user_home
    return os.path.abspath(common.project) if common.project is not None else os.getcwd()
