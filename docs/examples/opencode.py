"""OpenCode: the tool `skill` with the skills in its description, its three permissions, and skills as commands."""

from __future__ import annotations

from collections.abc import Callable, Collection

from skillhub.runtime import Request, Session, Skill, Surroundings, call_tool, catalog_of, load, profile, tools

HOST = profile("opencode")


class OpenCode:
    """One session; ``ask`` asks the person where the configuration says so."""

    def __init__(self, around: Surroundings, ask: Callable[[Skill], bool]) -> None:
        self.catalog = catalog_of(HOST, around)
        self.request = Request(session=Session("opencode-1"), ask=ask)

    def tools(self) -> list[dict[str, object]]:
        """Return the tools for the model's API."""
        return [each.to_json() for each in tools(HOST, self.catalog)]

    def call(self, arguments: str) -> str:
        """Return the output of the tool for what the model gave it, as JSON."""
        return call_tool(HOST, self.catalog, "skill", arguments, self.request).text

    def commands(self, taken: Collection[str]) -> dict[str, str]:
        """Return each skill as a command with its template, unless a command of that name is there."""
        names = {skill.full_name: skill for skill in self.catalog.skills if skill.state == "enabled"}
        asked = Request(ask=lambda _: True)  # the user calls it, by name
        return {name: load(skill, asked).body for name, skill in names.items() if name not in taken}

    def debug_skill(self) -> list[dict[str, object]]:
        """Return what `opencode debug skill` prints."""
        return [
            {"name": each.name, "description": each.description, "location": each.file}
            for each in self.catalog.skills
        ]


# What the model calls; how the output begins, and what is part of it.
RECORDED = [
    ('{"name": "git-release"}', '<skill_content name="git-release">', "Base directory for this skill: file://"),
    ('{"name": "git-release"}', '<skill_content name="git-release">', "<file>"),
    ('{"name": "internal-docs"}', "Not available here: the skill 'internal-docs' is disabled", "rule"),
    ('{"name": "experimental-ui"}', "Not available here: the user refuses", "experimental-ui"),
    ('{"name": "nope"}', 'Skill "nope" not found. Available skills: ', "git-release"),
    ('{"skill": "git-release"}', "The skill tool was called with invalid arguments", "name"),
]
