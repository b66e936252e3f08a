"""``catalog``."""

from __future__ import annotations

from typing import Annotated

import typer

from skillhub.cli.agent import HostName, seen_by
from skillhub.cli.common import Common

Window = Annotated[
    int | None,
    typer.Option("--window", metavar="TOKENS", min=1, help="How many tokens the model's context has."),
]


def catalog(common: Common, host: HostName = "agents", window: Window = None) -> int:
    """Show what an agent's model sees of the skills first: the list, in its words and within its budget.

    Example: skillhub catalog --host codex
    """
    from skillhub.runtime.overview import section

    profile, found = seen_by(common, host)
    seen = section(found, profile, window)
    if common.json:
        common.terminal.json(seen.to_json())
        return 0
    for line in seen.text.splitlines():
        common.terminal.verbatim(line)
    if not seen.text:
        common.terminal.say(f"{profile.name} finds no skill here that its model may call")
    if seen.warning:
        common.terminal.say(f"warning: {seen.warning}", "yellow")
    for name in seen.omitted:
        common.terminal.say(f"  left out: {name}", "yellow")
    for each in seen.shadowed:
        common.terminal.say(f"{each.skill.path} is hidden by {each.by.path}", "dim")
    for problem in seen.problems:
        line = f":{problem.line}" if problem.line else ""
        common.terminal.say(f"{problem.path}{line}: {problem.message}", "yellow")
    return 0


COMMANDS = {"catalog": catalog}
