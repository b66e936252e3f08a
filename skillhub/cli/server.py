"""``mcp``: skills for agents, served."""

from __future__ import annotations

from skillhub.cli.common import Common, optional

_MISSING = "to serve skills needs"


def mcp(common: Common) -> int:
    """Serve the skills of this project, and of the user, to an agent over MCP on stdin and stdout.

    Example: skillhub mcp
    """
    pipe = optional("skillhub.server.stdio", "server", _MISSING).Pipe.take()
    optional("skillhub.server.mcp", "server", _MISSING).serve_stdio(pipe)
    return 0
