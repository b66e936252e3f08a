"""``patch``: keeps edits of a skill as a patch that the project agrees to."""

from __future__ import annotations

from typing import Annotated

from skillhub.cli.common import Common
from skillhub.cli.options import argument, option
from skillhub.cli.render import finish


def patch(
    common: Common,
    names: Annotated[list[str], argument("NAME...", "Names of installed skills.")],
    drop: Annotated[
        bool, option("--drop", "Give up the patch: the skill is as its source has it again.")
    ] = False,
) -> int:
    """Keep what was edited in a skill's copy as a patch that the project agrees to.

    The patch is written to skillhub-edits/ and named in skillhub.lock; commit both. From then on install and
    sync give everybody the patched skill, verify takes it as it is, and update carries the patch over to the
    new version where the two do not touch the same lines.

    Example: skillhub patch gh-fix-ci
    """
    from skillhub.flows import patch as flow
    from skillhub.flows.options import Options

    act, verb, done = (flow.drop, "unpatch", "unpatched") if drop else (flow.patch, "patch", "patched")
    options = Options(dry_run=common.dry_run)
    outcome = act(names, options, common.ports())
    status = finish(common, outcome, options, verb, done)
    if not common.json and not common.dry_run:
        for skill in outcome.skills:
            if skill.patch:
                common.terminal.say(f"{skill.patch} belongs to skillhub.lock: commit both")
    return status


COMMANDS = {"patch": patch}
