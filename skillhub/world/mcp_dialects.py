"""Where each agent keeps its MCP servers, and the format of an entry: a table, and a writer for each format.

An entry never holds a secret: it names variables, in the syntax that the agent replaces by their values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from skillhub.model.requirement import McpServer

Entry = dict[str, object]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One agent's way.

    Attributes:
        write: Spells a server; takes the server and ``reference``.
        key: The keys under which the servers stand, by name.
        project: Files below a project: the first one that exists, else the first one.
        user: The same for a user; none if the agent keeps no such file.
        moved: A variable that moves the user's file, and the name that the file has there.
        reference: What stands around the name of a variable; None if nobody has told us.
        remote: Whether we know how a server is spelled that is reached by a URL.
        by_project: Whether the user's file has servers for single projects, too, by their folders.
    """

    write: Callable[[McpServer, tuple[str, str]], Entry]
    key: str
    project: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    moved: tuple[str, str] = ("", "")
    reference: tuple[str, str] | None = None
    remote: bool = True
    by_project: bool = False

    def knows(self, server: McpServer) -> bool:
        """Say whether ``server`` can be spelled; what is not known is not guessed, nor is a value written instead."""
        is_referred = self.reference is not None or not server.variables
        return is_referred and (self.remote or server.url is None)

    def spell(self, server: McpServer) -> Entry:
        """Return the entry for a server that it ``knows``: text, lists and references to variables."""
        return self.write(server, self.reference or ("", ""))


def _named_type(server: McpServer, reference: tuple[str, str]) -> Entry:
    return {"type": server.transport, **_by_shape(server, reference)}


def _by_shape(server: McpServer, reference: tuple[str, str]) -> Entry:
    if server.url is not None:
        return {"url": server.url, **_headers(server, reference)}
    entry: Entry = {"command": server.command[0], "args": list(server.command[1:])}
    return {**entry, **_variables("env", server, reference)}


def _gemini(server: McpServer, reference: tuple[str, str]) -> Entry:
    if server.url is not None:
        return {"httpUrl": server.url, **_headers(server, reference)}
    return _by_shape(server, reference)


def _opencode(server: McpServer, reference: tuple[str, str]) -> Entry:
    if server.url is not None:
        return {"type": "remote", "url": server.url, **_headers(server, reference), "enabled": True}
    entry: Entry = {"type": "local", "command": list(server.command)}
    return {**entry, **_variables("environment", server, reference), "enabled": True}


def _codex(server: McpServer, _: tuple[str, str]) -> Entry:
    # Codex takes the bare names of the variables that it hands on; it expands nothing in `env`.
    if server.url is not None:
        bearer = {"bearer_token_env_var": server.bearer} if server.bearer else {}
        return {"url": server.url, **bearer}
    entry: Entry = {"command": server.command[0], "args": list(server.command[1:])}
    return {**entry, "env_vars": list(server.env)} if server.env else entry


def _variables(key: str, server: McpServer, reference: tuple[str, str]) -> Entry:
    before, after = reference
    return {key: {name: f"{before}{name}{after}" for name in server.env}} if server.env else {}


def _headers(server: McpServer, reference: tuple[str, str]) -> Entry:
    before, after = reference
    if server.bearer is None:
        return {}
    return {"headers": {"Authorization": f"Bearer {before}{server.bearer}{after}"}}


DIALECTS: Mapping[str, Dialect] = {
    "claude-code": Dialect(
        _named_type,
        "mcpServers",
        project=(".mcp.json",),
        user=("~/.claude.json",),
        moved=("CLAUDE_CONFIG_DIR", ".claude.json"),
        reference=("${", "}"),
        by_project=True,
    ),
    "codex": Dialect(
        _codex,
        "mcp_servers",
        project=(".codex/config.toml",),
        user=("~/.codex/config.toml",),
        moved=("CODEX_HOME", "config.toml"),
        reference=("", ""),
    ),
    "cursor": Dialect(
        _by_shape,
        "mcpServers",
        project=(".cursor/mcp.json",),
        user=("~/.cursor/mcp.json",),
        reference=("${env:", "}"),
    ),
    "gemini-cli": Dialect(
        _gemini, "mcpServers", project=(".gemini/settings.json",), user=("~/.gemini/settings.json",)
    ),
    # VS Code; its user file belongs to a profile and has no one place.
    "github-copilot": Dialect(
        _named_type, "servers", project=(".vscode/mcp.json",), reference=("${env:", "}")
    ),
    "kiro-cli": Dialect(
        _by_shape,
        "mcpServers",
        project=(".kiro/settings/mcp.json",),
        user=("~/.kiro/settings/mcp.json",),
        reference=("${", "}"),
    ),
    "opencode": Dialect(
        _opencode,
        "mcp",
        project=("opencode.json", "opencode.jsonc"),
        user=("~/.config/opencode/opencode.jsonc", "~/.config/opencode/opencode.json"),
        reference=("{env:", "}"),
    ),
    # It has servers for the user alone.
    "windsurf": Dialect(_by_shape, "mcpServers", user=("~/.codeium/windsurf/mcp_config.json",), remote=False),
}
