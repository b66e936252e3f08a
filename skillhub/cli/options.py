"""Options that several commands share, for Typer; ``common.command`` knows their names where a module cannot."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of installed skills.")]
Agents = Annotated[
    list[str] | None,
    typer.Option("--agent", metavar="NAME", help="Enable for this agent too (repeatable, or all)."),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        "--env", metavar="NAME[=VALUE]", help="A variable for this command alone; NAME takes the process's."
    ),
]
EnvFile = Annotated[
    str | None,
    typer.Option("--env-file", metavar="FILE", help="Variables for this command, NAME=VALUE a line."),
]
Mcp = Annotated[
    Literal["ask", "configure", "skip"],
    typer.Option("--mcp", help="MCP servers that a skill needs: ask, write them, or leave them to you."),
]
Link = Annotated[
    Literal["copy", "symlink"] | None,
    typer.Option(
        "--link", help="Copies in the agents' folders, or links into the store (edits are then shared)."
    ),
]
NoEnable = Annotated[bool, typer.Option("--no-enable", help="Store and lock; link nothing.")]
AllowUnsigned = Annotated[bool, typer.Option("--allow-unsigned", help="Take skills that nobody signed.")]
