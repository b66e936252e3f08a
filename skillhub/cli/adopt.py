"""``adopt``: brings skills that lie in agents' folders under the lock."""

from __future__ import annotations

from typing import Annotated

from skillhub.cli.common import Common
from skillhub.cli.given import options_of
from skillhub.cli.options import Agents, AllowUnsigned, Env, EnvFile, Link, Mcp, argument, option
from skillhub.cli.render import finish


def adopt(
    common: Common,
    names: Annotated[
        list[str] | None, argument("[NAME]...", "Skills in agents' folders; else all of them.")
    ] = None,
    into: Annotated[
        str, option("--into FOLDER", "Where the project keeps those that no origin has.")
    ] = "skills",
    agent: Agents = None,
    env: Env = None,
    env_file: EnvFile = None,
    mcp: Mcp = "ask",
    link: Link = None,
    allow_unsigned: AllowUnsigned = False,
) -> int:
    """Bring skills that lie in agents' folders under the lock: compare with their origin, scan, ask, lock.

    The locks of other installers, and what gh skill wrote into a skill, say where it came from. What is there to the
    last byte is locked from there; the rest is copied to FOLDER, to be committed, and locked from there.

    Example: skillhub adopt
    """
    from skillhub.flows.adopt import adopt as flow

    options = options_of(common, agent, env, env_file, mcp, link)
    outcome = flow(
        names or [],
        into.removeprefix("./").rstrip("/") or into,
        options,
        common.ports(allow_unsigned=allow_unsigned),
    )
    return finish(common, outcome, options, "adopt", "adopted")


COMMANDS = {"adopt": adopt}
