"""Reads what a skill requests of the host that loads it: a context of its own, and hooks. Nothing is granted here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skillhub.model.syntax.yaml import Node


@dataclass(frozen=True, slots=True)
class Fork:
    """What a skill asks for that wants a context of its own; who loads it decides whether it gets one.

    Attributes:
        agent: The kind of agent; empty for the host's usual one.
        model: The model; empty for the one at work.
        task: The instructions with their arguments, for that agent alone.
    """

    agent: str
    model: str
    task: str

    def to_json(self) -> dict[str, str | None]:
        """Return the request as the contract has it."""
        return {"agent": self.agent or None, "model": self.model or None, "task": self.task}


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook that a skill wants to have while it is in use; nothing here runs it.

    Attributes:
        event: When: ``Stop``, ``PreToolUse`` and so on.
        matcher: For which tools; empty for all.
        kind: ``command``, or as the skill has it.
        command: What is to run.
        once: Whether it is gone after it ran once in a session.
        lifetime: Always ``skill``: it goes when the skill does.
    """

    event: str
    matcher: str
    kind: str
    command: str
    once: bool
    lifetime: str = "skill"

    def to_json(self) -> dict[str, Any]:
        """Return the hook as the contract has it."""
        shown = {"event": self.event, "matcher": self.matcher, "type": self.kind, "command": self.command}
        return {**shown, "once": self.once, "lifetime": self.lifetime}


def hooks_of(hooks: Node) -> tuple[Hook, ...]:
    """Return the hooks of a frontmatter; what has another shape than Claude Code's is left out."""
    found = []
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for group in groups if isinstance(groups, list) else [groups]:
            if not isinstance(group, dict):
                continue
            inner = group.get("hooks", [group])
            for hook in inner if isinstance(inner, list) else [inner]:
                if isinstance(hook, dict) and isinstance(command := hook.get("command"), str):
                    kind, once = hook.get("type", "command"), hook.get("once", group.get("once"))
                    matcher = group.get("matcher", "")
                    found.append(Hook(event, str(matcher), str(kind), command, str(once).lower() == "true"))
    return tuple(found)
