"""``update``: brings skills to the newest version that is allowed, and shows the plan first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from skillhub.cli.common import Common
from skillhub.cli.given import options_of, trusted_sources
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
from skillhub.cli.render import finish, show_changes, show_plan, show_sources
from skillhub.errors import UsageError
from skillhub.flows.ports import unplanned

if TYPE_CHECKING:
    from skillhub.model.changes import Changes
    from skillhub.model.source_changes import SourceChange

BEHIND = 1
_MOST = 24  # lines of the plan for one skill, where nobody is there to scroll back


def update(
    common: Common,
    names: Annotated[list[str] | None, argument("[NAME]...", "Installed skills; else all of them.")] = None,
    check: Annotated[
        bool, option("--check", "Only tell what is behind, and exit 1 if anything is; write nothing.")
    ] = False,
    skill: Annotated[
        list[str] | None, option("--skill NAME", "Of the locked skills, this one too (repeatable).")
    ] = None,
    every: Annotated[
        bool, option("--all", "All that are locked, as without a name; goes with none.")
    ] = False,
    frozen: Annotated[
        bool, option("--frozen", "Fail rather than change the lock, if anything is newer.")
    ] = False,
    agent: Agents = None,
    env: Env = None,
    env_file: EnvFile = None,
    mcp: Mcp = "ask",
    link: Link = None,
    no_enable: NoEnable = False,
    allow_unsigned: AllowUnsigned = False,
    trust_source: TrustSource = None,
) -> int:
    """Bring skills to the newest version that skillhub.toml allows: show the plan, ask, then change; all or none.

    What a new version can do or needs, and the old one did not, is asked for by name. A new signer
    is refused. Without NAME, a skill is left as it is, and told (exit status 6), if its source has
    it no longer, or if the newer version is malformed, critical in the scan, or forbidden.
    `skillhub diff NAME` shows every line.

    Example: skillhub update --check
    """
    from skillhub.flows.update import behind
    from skillhub.flows.update import update as flow

    chosen = [*(names or []), *(skill or [])]
    if every and chosen:
        raise UsageError(
            "--all is every skill that is locked; it goes with no name", hint="leave one of the two out"
        )
    if check:
        outcome = behind(chosen, common.ports(scratch=True))
        show_changes(common, outcome)
        return BEHIND if outcome.skills or outcome.left or outcome.due else 0
    options = options_of(common, agent, env, env_file, mcp, link, no_enable)
    options = replace(options, frozen=frozen, trusted=trusted_sources(trust_source))
    ports = common.ports(allow_unsigned=allow_unsigned)
    outcome = flow(chosen, options, replace(ports, plan=_planning(common)))
    return finish(common, outcome, options, "update", "updated")


def _planning(common: Common) -> Callable[[Mapping[str, Changes], Sequence[SourceChange]], None]:
    """Return what shows the plan to who is not asked; in the questions it stands anyway."""
    if common.json:
        return unplanned
    terminal, is_asked = common.terminal, common.asks and not (common.yes or common.dry_run)
    write = terminal.out if common.dry_run else terminal.say

    def show(plan: Mapping[str, Changes], sources: Sequence[SourceChange]) -> None:
        show_sources(sources, write)
        if not is_asked:
            show_plan(common, plan, write, _MOST)

    return show


COMMANDS = {"update": update}
