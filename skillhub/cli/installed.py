"""Commands on what is installed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import typer

from skillhub.cli import shown
from skillhub.cli.common import Common, Run
from skillhub.cli.options import Agents, Env, EnvFile, Link, Mcp, options_of
from skillhub.cli.render import ended, show_outcome

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of installed skills.")]


def list_(common: Common) -> int:
    """List installed skills, and those that lie in agents' folders without a lock.

    Example: skillhub list --json
    """
    return shown.list_skills(common)


def verify(
    common: Common, names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...")] = None
) -> int:
    """Check store, links, lock and signatures against each other, every byte, without a network.

    Exits 1 if something is not as locked.

    Example: skillhub verify gh-fix-ci
    """
    return shown.verify_skills(common, names or [])


def sync(common: Common) -> int:
    """Finish what was cut off and put back what is not as locked. Enables nothing new.

    Edits made by hand are asked about; --yes saves them as a patch in skillhub-edits/ first.

    Example: skillhub sync
    """
    return _would(common, "sync") if common.dry_run else shown.sync_skills(common)


def enable(
    common: Common,
    names: Names,
    agent: Agents = None,
    env: Env = None,
    env_file: EnvFile = None,
    mcp: Mcp = "ask",
    link: Link = None,
) -> int:
    """Check the needs of skills again and link those that nothing holds back.

    Example: skillhub enable gh-fix-ci --mcp configure
    """
    from skillhub.flows.enable import enable as flow

    if common.dry_run:
        return _would(common, "check", names)
    outcome = flow(names, options_of(common, agent, env, env_file, mcp, link), common.ports())
    show_outcome(outcome, "enabled", common.terminal, as_json=common.json)
    return ended(outcome, common.terminal)


def disable(common: Common, names: Names) -> int:
    """Take skills out of the agents' folders, and nothing else; they stay out until enabled.

    Example: skillhub disable gh-fix-ci
    """
    from skillhub.flows.enable import disable as flow

    outcome = flow(names, common.ports(), dry_run=common.dry_run)
    done = "would disable" if common.dry_run else "disabled"
    show_outcome(outcome, done, common.terminal, as_json=common.json)
    return 0


def remove(common: Common, names: Names) -> int:
    """Remove skills from agents, lock and intent, and MCP entries that are still as skillhub wrote them.

    Example: skillhub remove gh-fix-ci
    """
    from skillhub.flows.enable import remove as flow

    outcome = flow(names, common.ports(), dry_run=common.dry_run)
    done = "would remove" if common.dry_run else "removed"
    show_outcome(outcome, done, common.terminal, as_json=common.json)
    return 0


def _would(common: Common, do: str, names: Sequence[str] = ()) -> int:
    """Show the locked skills that a command would be about, as they are; none named means all."""
    from skillhub.flows.listing import managed, refuse_unknown
    from skillhub.flows.outcome import Outcome

    skills = {skill.name: skill for skill in managed(common.open_project(), common.store, os.environ)}
    refuse_unknown(names, skills)
    chosen = tuple(skills[name] for name in dict.fromkeys(names or skills))
    show_outcome(Outcome(chosen, changed=False), f"would {do}", common.terminal, as_json=common.json)
    return 0


COMMANDS: dict[str, Run] = {
    "list": list_,
    "verify": verify,
    "sync": sync,
    "enable": enable,
    "disable": disable,
    "remove": remove,
}
