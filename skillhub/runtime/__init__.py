"""Skills for agents: find, list, mention, search, load and inject them.

The library uses no network and no cryptography, and runs no program. Each name is imported at its first use, so that
a host loads only the modules that it needs.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers know this name; the import of `typing` would double the time of this import

# The module that defines each public name.
_HOMES = {
    name: f"skillhub.{module}"
    for module, names in {
        "model.hosts": "AgentFolder Bounds Budget HostStateFile Profile Rules Scope SkillScope profile profiles",
        "model.needs": "McpServer",
        "model.question": "HeldStatus HoldReason",
        "model.skill": "Need Permission PermissionRule Reach Skill State permitted",
        "runtime.agent": "answers catalog_of changes context_inspect remember skills_list",
        "runtime.catalog": "Catalog Problem Root Session Shadowed",
        "runtime.discover": "Surroundings",
        "runtime.envelope": "Display display inject",
        "runtime.folder": "Agreed Fork Hook Loaded bring_system_skills",
        "runtime.loading": "Commands Request load pick preload",
        "runtime.needs": "PermissionProfile TurnNeeds open_needs permission_profile supply values",
        "runtime.overview": "Section section",
        "runtime.skill_urls": "Pulled pull urls_of",
        "runtime.ranking": "Hit Hits SearchIndex rows_of search",
        "runtime.mention_resolver": (
            "Caller Completion Mention MentionRules Outcome Resolved Selected complete mentioned"
        ),
        "runtime.state": "set_reach",
        "runtime.toolset": "SkillTool ToolResult call_tool tools",
        "runtime.walk": "Cache",
    }.items()
    for name in names.split()
}
__all__ = [
    "AgentFolder",
    "Agreed",
    "Bounds",
    "Budget",
    "Cache",
    "Caller",
    "Catalog",
    "Commands",
    "Completion",
    "Display",
    "Fork",
    "HeldStatus",
    "Hit",
    "Hits",
    "HoldReason",
    "Hook",
    "HostStateFile",
    "Loaded",
    "McpServer",
    "Mention",
    "MentionRules",
    "Need",
    "Outcome",
    "Permission",
    "PermissionProfile",
    "PermissionRule",
    "Problem",
    "Profile",
    "Pulled",
    "Reach",
    "Request",
    "Resolved",
    "Root",
    "Rules",
    "Scope",
    "SearchIndex",
    "Section",
    "Selected",
    "Session",
    "Shadowed",
    "Skill",
    "SkillScope",
    "SkillTool",
    "State",
    "Surroundings",
    "ToolResult",
    "TurnNeeds",
    "answers",
    "bring_system_skills",
    "call_tool",
    "catalog_of",
    "changes",
    "complete",
    "context_inspect",
    "display",
    "inject",
    "load",
    "mentioned",
    "open_needs",
    "permission_profile",
    "permitted",
    "pick",
    "preload",
    "profile",
    "profiles",
    "pull",
    "remember",
    "rows_of",
    "search",
    "section",
    "set_reach",
    "skills_list",
    "supply",
    "tools",
    "urls_of",
    "values",
]

if TYPE_CHECKING:
    from skillhub.model.hosts import (
        AgentFolder,
        Bounds,
        Budget,
        HostStateFile,
        Profile,
        Rules,
        Scope,
        SkillScope,
        profile,
        profiles,
    )
    from skillhub.model.needs import McpServer
    from skillhub.model.question import HeldStatus, HoldReason
    from skillhub.model.skill import Need, Permission, PermissionRule, Reach, Skill, State, permitted
    from skillhub.runtime.agent import answers, catalog_of, changes, context_inspect, remember, skills_list
    from skillhub.runtime.catalog import Catalog, Problem, Root, Session, Shadowed
    from skillhub.runtime.discover import Surroundings
    from skillhub.runtime.envelope import Display, display, inject
    from skillhub.runtime.folder import Agreed, Fork, Hook, Loaded, bring_system_skills
    from skillhub.runtime.loading import Commands, Request, load, pick, preload
    from skillhub.runtime.mention_resolver import (
        Caller,
        Completion,
        Mention,
        MentionRules,
        Outcome,
        Resolved,
        Selected,
        complete,
        mentioned,
    )
    from skillhub.runtime.needs import PermissionProfile, TurnNeeds, open_needs, permission_profile, supply, values
    from skillhub.runtime.overview import Section, section
    from skillhub.runtime.ranking import Hit, Hits, SearchIndex, rows_of, search
    from skillhub.runtime.skill_urls import Pulled, pull, urls_of
    from skillhub.runtime.state import set_reach
    from skillhub.runtime.toolset import SkillTool, ToolResult, call_tool, tools
    from skillhub.runtime.walk import Cache


def __getattr__(name: str) -> object:
    # PEP 562: the import of YAML alone takes as long as the start of the interpreter.
    if name not in _HOMES:
        raise AttributeError(f"module 'skillhub.runtime' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    # So that `help(skillhub.runtime)` shows the names that are not imported yet.
    return sorted({*globals(), *__all__})
