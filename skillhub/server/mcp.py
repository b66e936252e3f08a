"""The MCP server: skills for agents that ask for them, on stdio and as an ASGI application."""

from __future__ import annotations

from functools import partial

import anyio
from mcp.server.lowlevel import Server

from skillhub import __version__
from skillhub.server.stdio import Pipe, frames


def serve_stdio(pipe: Pipe) -> None:
    """Answer on this pipe until its client is gone."""
    anyio.run(partial(_serve, pipe))


async def _serve(pipe: Pipe) -> None:
    server = Server("skillhub", version=__version__)
    async with frames(pipe) as (received, answers):
        await server.run(received, answers, server.create_initialization_options())
