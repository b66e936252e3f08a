"""Claude Code: who may invoke what, arguments, commands in a body, a context of its own, hooks that run once."""

from __future__ import annotations

from collections.abc import Callable

from skillhub.runtime import (
    Commands,
    Loaded,
    Request,
    Session,
    Surroundings,
    call_tool,
    catalog_of,
    complete,
    inject,
    load,
    mentioned,
    preload,
    profile,
    section,
)

HOST = profile("claude-code")


class ClaudeCode:
    """One session; ``run`` runs a command of a skill that the person agreed to, in the skill's folder."""

    def __init__(self, around: Surroundings, run: Callable[[str, str], str]) -> None:
        self.catalog = catalog_of(HOST, around)
        leave = Commands(run, agreed=lambda version, command: True)
        self.request = Request(session=Session("claude-1"), commands=leave)
        self.hooks: dict[str, list[str]] = {}

    def system_prompt(self) -> str:
        """Return the descriptions that stand in every request; nothing of what the user alone may invoke."""
        return section(self.catalog, HOST).text

    def menu(self) -> list[str]:
        """Return what the menu offers behind a slash; nothing of what the model alone may invoke."""
        found = complete("/", 1, self.catalog)
        return list(found.names) if found else []

    def user(self, text: str) -> str:
        """Return what the model gets of a line that the user typed: a skill for `/name`, else the line."""
        found = mentioned(text, self.catalog)
        if not found.skills:
            return text
        asked = Request(arguments=found.task, session=self.request.session, commands=self.request.commands)
        return self.started(load(found.skills[0], asked))

    def model(self, skill: str, args: str = "") -> str:
        """Return the result of the tool `Skill`."""
        result = call_tool(HOST, self.catalog, "Skill", {"skill": skill, "args": args}, self.request)
        return self.started(result.loaded) if result.loaded else result.text

    def started(self, loaded: Loaded) -> str:
        """Return the text of a skill, or that a sub-agent works on it; keep its hooks while it is in use."""
        for hook in loaded.hooks:
            self.hooks.setdefault(hook.event, []).append(hook.command)
        return f"forked: {loaded.fork.agent or 'general-purpose'}" if loaded.fork else inject(loaded, HOST)

    def sub_agent(self, file: bytes) -> list[str]:
        """Return what a sub-agent's context begins with: the skills that it names, in full."""
        return [inject(each, HOST) for each in preload(file, self.catalog)]


# Who calls, with what; what is part of the text that comes back.
RECORDED = [
    ("user", ("/deploy production now",), "Deploy production (all: production now) at main."),
    ("model", ("deploy",), "the user only"),
    ("user", ("/background",), "/background"),
    ("model", ("background",), "Conventions of this project."),
    ("user", ("/research tokens",), "forked: Explore"),
    ("model", ("tools:lint", "src"), "ARGUMENTS: src"),
    ("model", ("missing",), "Unknown skill: missing"),
]
