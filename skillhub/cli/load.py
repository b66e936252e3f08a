"""``load``."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from skillhub.cli.agent import HostName, seen_by
from skillhub.cli.common import Common


def load(
    common: Common,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The skill, if it has its name alone.")
    ] = None,
    path: Annotated[
        str | None, typer.Option("--path", metavar="PATH", help="Its folder; decides before NAME.")
    ] = None,
    arguments: Annotated[
        str, typer.Option("--arguments", metavar="TEXT", help="What is put into its instructions.")
    ] = "",
    session: Annotated[
        str, typer.Option("--session", metavar="ID", help="The session that instructions may name.")
    ] = "",
    host: HostName = "agents",
) -> int:
    """Show what an agent gets of a skill: its instructions in the agent's envelope. Runs nothing.

    A locked skill whose files are not the locked ones is refused.

    Example: skillhub load release-notes --host codex
    """
    from skillhub.errors import UsageError
    from skillhub.runtime.envelope import inject, to_json
    from skillhub.runtime.folder import Agreed
    from skillhub.runtime.loading import Request, Session, pick
    from skillhub.runtime.loading import load as read

    if name is None and path is None:
        raise UsageError("expected the NAME of a skill, or its --path")
    profile, catalog = seen_by(common, host)
    skill = pick(catalog, name, os.path.abspath(os.path.expanduser(path)) if path else None)
    tree = skill.tree
    agreed = Agreed(tree, common.store.listing(tree), common.home.state) if tree else None
    loaded = read(skill, Request(arguments=arguments, session=Session(session), rules=profile.rules), agreed)
    for note in loaded.notes:
        common.terminal.say(note, "dim")
    if common.json:
        common.terminal.json(to_json(loaded, profile))
    else:
        for line in inject(loaded, profile).split("\n"):
            common.terminal.verbatim(line.expandtabs(4))
    return 0


COMMANDS = {"load": load}
