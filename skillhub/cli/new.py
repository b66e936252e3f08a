"""``new``."""

from __future__ import annotations

from typing import Annotated

import typer

from skillhub.cli.common import Common, working_folder


def new(
    common: Common,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the skill, and its folder, is called.")],
) -> int:
    """Begin a skill: a folder NAME here, which validate accepts and you fill in.

    Example: skillhub new my-skill
    """
    from skillhub.flows.new import begin

    begun = begin(name, working_folder(), dry_run=common.dry_run)
    if common.json:
        common.terminal.json({"name": begun.name, "path": begun.path, "files": list(begun.files)})
        return 0
    common.terminal.did(f"{'would make' if common.dry_run else 'made'} {begun.path}", "green")
    for file in begun.files:
        common.terminal.did(f"  {file}")
    common.terminal.say(
        f"fill it in, then: skillhub validate ./{name}, and to try it: skillhub install ./{name}"
    )
    return 0


COMMANDS = {"new": new}
