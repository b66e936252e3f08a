"""``install`` and ``pick``. Plain installs run without Typer, so nothing here imports it."""

from __future__ import annotations

from dataclasses import replace

from skillhub.cli.common import Common, Run, options_of, trusted_sources
from skillhub.cli.render import finish
from skillhub.errors import UsageError
from skillhub.install.install import install as flow
from skillhub.model.reference import parse_ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Annotated

    from skillhub.cli.options import (
        Agents,
        AllowUnsigned,
        Env,
        EnvFile,
        Link,
        Mcp,
        NoEnable,
        TrustSource,
        argument,
        option,
    )


def install(
    common: Common,
    refs: Annotated[
        list[str] | None,
        argument("[REF]...", "source:name, name@^1.2, owner/repo, https://host, ./folder, ./skill.zip"),
    ] = None,
    skill: Annotated[
        list[str] | None, option("--skill NAME", "Of a place with several skills, this one (repeatable).")
    ] = None,
    every: Annotated[bool, option("--all", "Of a place with several skills, all of them.")] = False,
    excepted: Annotated[list[str] | None, option("--except NAME", "Of --all, not this one (repeatable).")] = None,
    agent: Agents = None,
    env: Env = None,
    env_file: EnvFile = None,
    mcp: Mcp = "ask",
    link: Link = None,
    frozen: Annotated[bool, option("--frozen", "The lock as it stands, or fail.")] = False,
    no_enable: NoEnable = False,
    allow_unsigned: AllowUnsigned = False,
    trust_source: TrustSource = None,
) -> int:
    """Find skills, verify and scan them, ask, then store, lock and enable them; all or none.

    Without REF, install what skillhub.lock and skillhub.toml say, and remove what skillhub.toml has
    no need of any more. A skill whose needs are missing is stored and locked but stays disabled:
    exit status 6. A place that holds several skills wants --skill or --all; what is malformed or
    critical is left out of --all, and told.

    Example: skillhub install github:gh-fix-ci
    """
    options = replace(
        options_of(common, agent, env, env_file, mcp, link, no_enable),
        frozen=frozen,
        skills=tuple(skill or ()),
        every=every,
        excepted=tuple(excepted or ()),
        trusted=trusted_sources(trust_source),
    )
    ports = common.ports(allow_unsigned=allow_unsigned)
    outcome = flow([parse_ref(ref) for ref in refs or []], options, ports)
    return finish(common, outcome, options, "install", "installed")


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
    from skillhub.cli.prompts import pick as choose
    from skillhub.install.sources import listings, reference

    if not common.asks:
        hint = "skillhub search WORDS finds skills, skillhub install NAME installs them"
        raise UsageError("there is nobody at a terminal to pick", hint=hint)
    options = options_of(common, agent, env, env_file, mcp, link, no_enable)
    ports = common.ports(allow_unsigned=allow_unsigned)
    listed = listings(ports)
    for warning in listed.warnings:
        common.terminal.warn(f"warning: {warning}")
    releases = listed.releases()
    if not releases:
        common.terminal.say("no source lists a skill; skillhub source list shows what you have")
        return 0
    picked = choose(common.terminal, releases)
    if not picked:
        common.terminal.say("nothing was picked", "dim")
        return 0
    outcome = flow([reference(each) for each in picked], options, ports)
    return finish(common, outcome, options, "install", "installed")


COMMANDS: dict[str, Run] = {"install": install, "pick": pick}
