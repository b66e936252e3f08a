"""``install``, whoever read the command line."""

from __future__ import annotations

from collections.abc import Sequence

from skillhub.cli.common import Common
from skillhub.cli.render import finish
from skillhub.flows.install import install as flow
from skillhub.flows.wishes import Wishes
from skillhub.model.ref import parse_ref


def install(common: Common, refs: Sequence[str], wishes: Wishes, *, allow_unsigned: bool) -> int:
    """Install what the references mean, and show what became of it."""
    ports = common.ports(allow_unsigned=allow_unsigned, scratch=wishes.dry_run)
    outcome = flow([parse_ref(ref) for ref in refs], wishes, ports)
    return finish(common, outcome, wishes, "install", "installed")
