"""``install``, whoever read the command line."""

from __future__ import annotations

from collections.abc import Sequence

from skillhub.cli.common import Common
from skillhub.cli.render import finish
from skillhub.flows.install import install as flow
from skillhub.flows.options import Options
from skillhub.model.ref import parse_ref


def install(common: Common, refs: Sequence[str], options: Options, *, allow_unsigned: bool) -> int:
    """Install what the references mean, and show what became of it."""
    ports = common.ports(allow_unsigned=allow_unsigned, scratch=options.dry_run)
    outcome = flow([parse_ref(ref) for ref in refs], options, ports)
    return finish(common, outcome, options, "install", "installed")
