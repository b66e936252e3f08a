"""``resolve``."""

from __future__ import annotations

from typing import Annotated

import typer

from skillhub.cli.agent import HostName, seen_by
from skillhub.cli.common import Common


def resolve(
    common: Common,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What a user would say to an agent.")],
    host: HostName = "agents",
) -> int:
    """Show which skills a message means, and what it asks for besides. Loads nothing, chooses nothing in doubt.

    Example: skillhub resolve '$release-notes since v1.2'
    """
    from skillhub.runtime.resolve import Rules, mentioned

    profile, catalog = seen_by(common, host)
    found = mentioned(text, catalog, rules=Rules(leads=len(catalog.skills) if profile.many else 1))
    if common.json:
        common.terminal.json(found.to_json())
        return 0
    for each in found.mentions:
        common.terminal.out(
            f"{each.text}: {each.message}", "green" if each.outcome == "activated" else "yellow"
        )
    if not found.mentions:
        common.terminal.say("no skill is mentioned")
    common.terminal.out(f"task: {found.task}")
    return 0


COMMANDS = {"resolve": resolve}
