"""Skills for agents: find, list, mention, search, load and inject them. No network, no cryptography, nothing run.

What is named here is loaded when it is first used, so that an agent pays for what it needs.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it; `typing` itself would double what the import takes

_HOMES = {
    "Agreed": "skillhub.runtime.folder",
    "Cache": "skillhub.runtime.cache",
    "Catalog": "skillhub.runtime.catalog",
    "Commands": "skillhub.runtime.loading",
    "Completion": "skillhub.runtime.completion",
    "Hit": "skillhub.runtime.ranking",
    "Loaded": "skillhub.runtime.loading",
    "Mention": "skillhub.runtime.resolve",
    "Problem": "skillhub.runtime.catalog",
    "Profile": "skillhub.model.profile",
    "Request": "skillhub.runtime.loading",
    "Resolved": "skillhub.runtime.resolve",
    "SearchIndex": "skillhub.runtime.search_index",
    "Section": "skillhub.runtime.overview",
    "Selected": "skillhub.runtime.resolve",
    "Session": "skillhub.runtime.loading",
    "Skill": "skillhub.model.skill",
    "Surroundings": "skillhub.runtime.roots",
    "answers": "skillhub.runtime.state",
    "catalog_of": "skillhub.runtime.agent",
    "complete": "skillhub.runtime.completion",
    "context_inspect": "skillhub.runtime.protocol",
    "inject": "skillhub.runtime.envelope",
    "load": "skillhub.runtime.loading",
    "mentioned": "skillhub.runtime.resolve",
    "permitted": "skillhub.runtime.permission",
    "pick": "skillhub.runtime.loading",
    "profile": "skillhub.model.profile",
    "profiles": "skillhub.model.profile",
    "remember": "skillhub.runtime.state",
    "rows_of": "skillhub.runtime.ranking",
    "search": "skillhub.runtime.ranking",
    "section": "skillhub.runtime.overview",
    "set_reach": "skillhub.runtime.state",
    "skills_list": "skillhub.runtime.protocol",
}
__all__ = [
    "Agreed",
    "Cache",
    "Catalog",
    "Commands",
    "Completion",
    "Hit",
    "Loaded",
    "Mention",
    "Problem",
    "Profile",
    "Request",
    "Resolved",
    "SearchIndex",
    "Section",
    "Selected",
    "Session",
    "Skill",
    "Surroundings",
    "answers",
    "catalog_of",
    "complete",
    "context_inspect",
    "inject",
    "load",
    "mentioned",
    "permitted",
    "pick",
    "profile",
    "profiles",
    "remember",
    "rows_of",
    "search",
    "section",
    "set_reach",
    "skills_list",
]

if TYPE_CHECKING:
    from skillhub.model.profile import Profile, profile, profiles
    from skillhub.model.skill import Skill
    from skillhub.runtime.agent import catalog_of
    from skillhub.runtime.cache import Cache
    from skillhub.runtime.catalog import Catalog, Problem
    from skillhub.runtime.completion import Completion, complete
    from skillhub.runtime.envelope import inject
    from skillhub.runtime.folder import Agreed
    from skillhub.runtime.loading import Commands, Loaded, Request, Session, load, pick
    from skillhub.runtime.overview import Section, section
    from skillhub.runtime.permission import permitted
    from skillhub.runtime.protocol import context_inspect, skills_list
    from skillhub.runtime.ranking import Hit, rows_of, search
    from skillhub.runtime.resolve import Mention, Resolved, Selected, mentioned
    from skillhub.runtime.roots import Surroundings
    from skillhub.runtime.search_index import SearchIndex
    from skillhub.runtime.state import answers, remember, set_reach


def __getattr__(name: str) -> object:
    # PEP 562: YAML alone takes as long to load as the interpreter takes to start.
    if name not in _HOMES:
        raise AttributeError(f"module 'skillhub.runtime' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
