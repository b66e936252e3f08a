"""``install``, whoever read the command line, and the end of every command that installs."""

from __future__ import annotations

from collections.abc import Sequence

from skillhub.cli.common import Common
from skillhub.cli.render import ended, show_outcome
from skillhub.flows.install import install as flow
from skillhub.flows.outcome import Outcome
from skillhub.flows.wishes import Wishes
from skillhub.model.ref import parse_ref


def install(common: Common, refs: Sequence[str], wishes: Wishes, *, allow_unsigned: bool) -> int:
    """Install what the references mean, and show what became of it."""
    ports = common.ports(allow_unsigned=allow_unsigned, scratch=wishes.dry_run)
    outcome = flow([parse_ref(ref) for ref in refs], wishes, ports)
    return finish(common, outcome, wishes, "install", "installed")


def finish(common: Common, outcome: Outcome, wishes: Wishes, verb: str, done: str) -> int:
    """Show what became of the skills, ``done`` or what the ``verb`` would do, and return the exit status."""
    show_outcome(outcome, f"would {verb}" if wishes.dry_run else done, common.terminal, as_json=common.json)
    return ended(outcome, common.terminal, enable=wishes.enable, dry_run=wishes.dry_run)
