"""Options and arguments for Typer, and those that several commands share.

Modules that are served without Typer import this for type checkers alone; ``common.with_flags`` knows these names.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from skillhub.install.context import McpChoice


def option(spelled: str, about: str, **more: Any) -> Any:  # noqa: ANN401 - as Typer has it
    """Return an option, spelled as it is typed: ``--output -o FILE``."""
    words = spelled.split(" ")
    names = [word for word in words if word.startswith("-")]
    return typer.Option(*names, metavar=" ".join(words[len(names) :]) or None, help=about, **more)


def argument(metavar: str, about: str | None = None) -> Any:  # noqa: ANN401 - as Typer has it
    """Return an argument, with its line of help."""
    return typer.Argument(metavar=metavar, help=about)


Names = Annotated[list[str], argument("NAME...", "Names of installed skills.")]
Host = Annotated[
    str | None, option("--host NAME", "Say so in this agent's own file, of any skill that it finds, locked or not.")
]
Agents = Annotated[list[str] | None, option("--agent NAME", "Enable for this agent too (repeatable, or all).")]
Env = Annotated[
    list[str] | None, option("--env NAME[=VALUE]", "A variable for this command alone; NAME takes the process's.")
]
EnvFile = Annotated[str | None, option("--env-file FILE", "Variables for this command, NAME=VALUE a line.")]
Mcp = Annotated[McpChoice, option("--mcp", "MCP servers that a skill needs: ask, write them, or leave them to you.")]
Link = Annotated[
    Literal["copy", "symlink"] | None,
    option("--link", "Copies in the agents' folders, or links into the store (edits are then shared)."),
]
NoEnable = Annotated[bool, option("--no-enable", "Store and lock; link nothing.")]
TrustSource = Annotated[
    list[str] | None,
    option("--trust-source NAME=sha256:…", "Trust this registry of the project, by its root (repeatable)."),
]
AllowUnsigned = Annotated[bool, option("--allow-unsigned", "Take skills that nobody signed.")]
