"""``install``."""

from __future__ import annotations

from typing import Annotated

import typer

from skillhub.cli import installing
from skillhub.cli.common import Common
from skillhub.cli.options import Agents, AllowUnsigned, Env, EnvFile, Link, Mcp, NoEnable, options_of
from skillhub.model.dataclass import replace


def install(
    common: Common,
    refs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[REF]...", help="source:name, name@^1.2, owner/repo, https://host, ./folder, ./skill.zip"
        ),
    ] = None,
    skill: Annotated[
        list[str] | None,
        typer.Option(
            "--skill", metavar="NAME", help="Of a place with several skills, this one (repeatable)."
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Of a place with several skills, all of them.")
    ] = False,
    excepted: Annotated[
        list[str] | None,
        typer.Option("--except", metavar="NAME", help="Of --all, not this one (repeatable)."),
    ] = None,
    agent: Agents = None,
    env: Env = None,
    env_file: EnvFile = None,
    mcp: Mcp = "ask",
    link: Link = None,
    frozen: Annotated[bool, typer.Option("--frozen", help="The lock as it stands, or fail.")] = False,
    no_enable: NoEnable = False,
    allow_unsigned: AllowUnsigned = False,
) -> int:
    """Find skills, verify and scan them, ask, then store, lock and enable them; all or none.

    Without REF, install what skillhub.lock and skillhub.toml say. A skill whose needs are missing
    is stored and locked but stays disabled: exit status 6. A place that holds several skills
    wants --skill or --all; what is malformed or critical is left out of --all, and told.

    Example: skillhub install github:gh-fix-ci
    """
    options = replace(
        options_of(common, agent, env, env_file, mcp, link, no_enable),
        frozen=frozen,
        skills=tuple(skill or ()),
        every=every,
        excepted=tuple(excepted or ()),
    )
    return installing.install(common, refs or [], options, allow_unsigned=allow_unsigned)


COMMANDS = {"install": install}
