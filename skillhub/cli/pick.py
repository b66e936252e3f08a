"""``pick``."""

from __future__ import annotations

from skillhub.cli.common import Common
from skillhub.cli.options import Agents, AllowUnsigned, Env, EnvFile, Link, Mcp, NoEnable, options_of
from skillhub.cli.render import finish
from skillhub.cli.streams import is_interactive
from skillhub.errors import UsageError


def pick(
    common: Common,
    agent: Agents = None,
    env: Env = None,
    env_file: EnvFile = None,
    mcp: Mcp = "ask",
    link: Link = None,
    no_enable: NoEnable = False,
    allow_unsigned: AllowUnsigned = False,
) -> int:
    """Pick among the skills that all sources list, and install what you pick. It takes a terminal.

    Example: skillhub pick
    """
    from skillhub.cli.picker import pick as choose
    from skillhub.flows.install import install
    from skillhub.flows.pick import offers, reference

    if common.json or not is_interactive():
        hint = "skillhub search WORDS finds skills, skillhub install NAME installs them"
        raise UsageError("there is nobody at a terminal to pick", hint=hint)
    options = options_of(common, agent, env, env_file, mcp, link, no_enable)
    ports = common.ports(allow_unsigned=allow_unsigned, scratch=common.dry_run)
    offer = offers(ports)
    for warning in offer.warnings:
        common.terminal.warn(f"warning: {warning}")
    if not offer.releases:
        common.terminal.say("no source lists a skill; skillhub source list shows what you have")
        return 0
    picked = choose(common.terminal, offer.releases)
    if not picked:
        common.terminal.say("nothing was picked", "dim")
        return 0
    outcome = install([reference(each) for each in picked], options, ports)
    return finish(common, outcome, options, "install", "installed")


COMMANDS = {"pick": pick}
