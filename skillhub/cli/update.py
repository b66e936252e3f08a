"""``update``."""

from __future__ import annotations

from typing import Annotated

import typer

from skillhub.cli.common import Common
from skillhub.cli.options import Agents, AllowUnsigned, Env, EnvFile, Link, Mcp, NoEnable, wishes_of
from skillhub.cli.render import finish, show_changes

BEHIND = 1


def update(
    common: Common,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...")] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only tell what is behind, and exit 1 if anything is; write nothing."),
    ] = False,
    agent: Agents = None,
    env: Env = None,
    env_file: EnvFile = None,
    mcp: Mcp = "ask",
    link: Link = None,
    no_enable: NoEnable = False,
    allow_unsigned: AllowUnsigned = False,
) -> int:
    """Bring skills to the newest version that skillhub.toml allows: show the plan, ask, then change; all or none.

    What a new version can do or needs, and the old one did not, is asked for by name. A new signer
    is refused. `skillhub diff NAME` shows every line.

    Example: skillhub update --check
    """
    from skillhub.flows.update import behind
    from skillhub.flows.update import update as flow

    if check:
        outcome = behind(names or [], common.ports(scratch=True))
        show_changes(outcome, common.terminal, as_json=common.json)
        return BEHIND if outcome.skills else 0
    wishes = wishes_of(common, agent, env, env_file, mcp, link, no_enable)
    outcome = flow(names or [], wishes, common.ports(allow_unsigned=allow_unsigned, scratch=common.dry_run))
    return finish(common, outcome, wishes, "update", "updated")


COMMANDS = {"update": update}
