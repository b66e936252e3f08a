"""Codelia: a catalogue at the start, `skill_search` and `skill_load` on demand, each skill allowed by its name."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from skillhub.runtime import (
    PermissionRule,
    Request,
    Session,
    Skill,
    Surroundings,
    call_tool,
    catalog_of,
    context_inspect,
    permitted,
    profile,
    section,
    skills_list,
    tools,
)

HOST = profile("codelia")


class Codelia:
    """One session; `confirm` asks the user, and what they allow is remembered by the skill's name."""

    def __init__(
        self, around: Surroundings, rules: Sequence[PermissionRule], confirm: Callable[[Skill], bool]
    ) -> None:
        self.around, self.rules, self.confirm = around, rules, confirm
        self.session = Session("codelia-1")
        self.catalog = catalog_of(HOST, around)
        self.remembered: dict[str, bool] = {}

    def system_prompt(self) -> str:
        """Return what stands behind the base prompt and AGENTS.md."""
        return section(self.catalog, HOST).text

    def tools(self) -> list[dict[str, Any]]:
        """Return the two tools."""
        return [tool.to_json() for tool in tools(HOST, self.catalog)]

    def call(self, name: str, params: dict[str, Any]) -> str:
        """Do what the model calls: deny goes before allow, and whatever no rule is about is confirmed."""
        by_path = self.catalog.at(params.get("path") or "")
        for skill in [by_path] if by_path else self.catalog.named(params.get("name") or ""):
            said = permitted(skill, self.rules, self.remembered, otherwise="ask")
            if said == "ask":
                said = "allow" if self.confirm(skill) else "deny"
                self.remembered[skill.full_name] = said == "allow"
            if said == "deny":
                return f"permission denied: skill_load {skill.full_name}"
        return call_tool(HOST, self.catalog, name, params, Request(session=self.session)).text

    def rpc(self, method: str, params: dict[str, Any]) -> Any:  # noqa: ANN401 - as the protocol has it
        """Answer `skills.list` and `context.inspect`."""
        if method == "skills.list":
            answer = skills_list(HOST, [self.around], reload=params.get("force_reload", False))["data"][0]
            return {"skills": answer["skills"], "errors": answer["errors"]}
        return json.loads(json.dumps(context_inspect(self.catalog, self.session, params["include_skills"])))


# The tool, what it is given, and a part of what comes back: the conditions of acceptance 3 to 6.
RECORDED = [
    ("skill_search", {"query": "release"}, '"name": "release-notes"'),
    ("skill_load", {"name": "twin"}, "2 skills have the name"),
    ("skill_load", {"name": "repo-review"}, "Base directory: file://{skills}/repo-review/"),
    ("skill_load", {"name": "repo-review"}, "already"),
    (
        "skill_load",
        {"path": "{skills}/a/twin/SKILL.md"},
        '<skill_context name="twin" path="{skills}/a/twin/SKILL.md">',
    ),
    ("skill_load", {"name": "forbidden"}, "permission denied: skill_load forbidden"),
    ("skill_load", {"path": "{skills}/forbidden"}, "permission denied: skill_load forbidden"),
]
