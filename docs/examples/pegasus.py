"""Pegasus: `/name` of the user or `use_skill` of the model; a fork becomes a task of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skillhub.errors import SkillhubError
from skillhub.runtime import Request, Surroundings, call_tool, catalog_of, inject, load, pick, profile, section, tools

HOST = profile("pegasus")


class MainAgent:
    """The agent that talks with the user; `submit` starts a task and returns its id."""

    def __init__(self, around: Surroundings, submit: Callable[[str], str], window: int | None = None) -> None:
        self.catalog = catalog_of(HOST, around)
        self.submit, self.window = submit, window
        self.messages: list[str] = []

    def system_prompt(self) -> str:
        """Return the part of the system prompt that lists the skills."""
        return section(self.catalog, HOST, self.window).text

    def tools(self) -> list[dict[str, Any]]:
        """Return what is added to the tools of the model."""
        return [tool.to_json() for tool in tools(HOST, self.catalog)]

    def menu(self) -> list[str]:
        """Return what `/` offers."""
        return [f"/{skill.full_name}" for skill in self.catalog.skills if skill.user_invocable]

    def send(self, text: str) -> str:
        """Take a message of the user: `/name args` loads a skill, whatever is no skill is an ordinary message."""
        name, _, args = text.removeprefix("/").partition(" ")
        if text.startswith("/") and self.catalog.named(name):
            try:
                loaded = load(pick(self.catalog, name), Request(arguments=args))
            except SkillhubError as error:
                return error.message
            if loaded.fork:
                return f"spawned {self.submit(loaded.fork.task)}"
            text = inject(loaded, HOST)
        self.messages.append(text)
        return text

    def use_skill(self, params: dict[str, Any]) -> dict[str, Any]:
        """Do what the model calls."""
        result = call_tool(HOST, self.catalog, "use_skill", params)
        if result.is_error:
            return {"success": False, "error": result.text}
        if result.fork:
            return {"success": True, "result": {"taskId": self.submit(result.fork.task), "status": "spawned"}}
        return {"success": True, "result": result.text}


# Who speaks, what is said, what comes back.
REVIEW = "Review code changes for PR #42:\n\n1. Get the diff"
SPAWNED = {"success": True, "result": {"taskId": REVIEW, "status": "spawned"}}
CONVENTIONS = {"success": True, "result": "# Project Conventions\n\n- Runtime: Bun (not Node)"}
RECORDED = [
    ("use_skill", {"skill": "code-review", "args": "PR #42"}, SPAWNED),
    ("send", "/code-review PR #42", f"spawned {REVIEW}"),
    ("send", "/commit", "[Skill: commit]\n\nCreate a git commit following conventional commits:"),
    ("use_skill", {"skill": "project-conventions"}, CONVENTIONS),
    ("use_skill", {"skill": "nope"}, {"success": False, "error": 'Skill "nope" not found'}),
    ("send", "/nope at all", "/nope at all"),
    ("send", "hello", "hello"),
]
