"""GenCode: active skills in a system reminder, `/name` or the `Skill` tool, three states, `⚡` lines."""

from typing import Any

from skillhub.errors import SkillhubError
from skillhub.runtime import (
    Reach,
    Request,
    Surroundings,
    call_tool,
    catalog_of,
    display,
    inject,
    load,
    pick,
    profile,
    section,
    set_reach,
    tools,
)

HOST = profile("gencode")
NEXT: dict[Reach, Reach] = {"disabled": "enabled", "enabled": "active", "active": "disabled"}


class GenCode:
    """One session; the reminder is put before the first message, and again after a compaction."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.catalog = catalog_of(HOST, around)
        self.shown: list[str] = []
        self.is_reminded = False

    def compacted(self) -> None:
        """Have the next message carry the reminder again."""
        self.is_reminded = False

    def message(self, text: str) -> str:
        """Return what goes to the model for a message of the user."""
        name, _, args = text.removeprefix("/").partition(" ")
        if text.startswith("/") and self.catalog.named(name):
            try:
                text = inject(load(pick(self.catalog, name), Request(arguments=args)), HOST)
            except SkillhubError as error:
                return error.message
        reminder = "" if self.is_reminded else section(self.catalog, HOST).text
        self.is_reminded = True
        return f"{reminder}\n\n{text}".strip()

    def tools(self) -> list[dict[str, Any]]:
        """Return the tool as GenCode's schema has it."""
        return [tool.to_json() for tool in tools(HOST, self.catalog)]

    def call(self, **params: str) -> str:
        """Do what the model calls, and show it as GenCode does."""
        result = call_tool(HOST, self.catalog, "Skill", params)
        self.shown += display(result.loaded, params["skill"], result.text if result.is_error else "").lines
        return result.text

    def cycle(self, name: str) -> str:
        """Switch a skill to its next state, in the project's `.gen/skills.json`."""
        skill = pick(self.catalog, name)
        set_reach(skill, NEXT[skill.reach], "project", HOST, self.around)
        self.catalog = catalog_of(HOST, self.around)
        return pick(self.catalog, name).reach


# What the model calls, and a part of what it gets.
RECORDED = [
    (
        {"skill": "commit", "args": "-m 'Fix bug'"},
        "<skill-invocation name=\"git:commit\">\nUser arguments: -m 'Fix bug'",
    ),
    ({"skill": "git:commit"}, "Available scripts (use Bash to execute):\n  - {commit}/scripts/commit.sh"),
    ({"skill": "git:commit"}, "Reference files (use Read when needed):\n  - {commit}/references/CONVENTIONS.md"),
    ({"skill": "my-skill"}, "Do something."),
    ({"skill": "unknown-skill"}, "Skill not found: unknown-skill"),
]
