"""MCP servers in the configuration of agents: where each file is, and how an entry is written and removed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal

from skillhub.disk import files
from skillhub.errors import FormatError, StateError, UsageError
from skillhub.formats import json as jsonc
from skillhub.formats import toml
from skillhub.formats.text import quote
from skillhub.model.hosts import absolute, expand, host
from skillhub.model.needs import McpServer
from skillhub.model.record import Scope
from skillhub.project.project import Project

# Where each agent keeps its MCP servers, and the format of an entry: a table, and a writer for each format.
# An entry never holds a secret: it names variables, in the syntax that the agent replaces by their values.

Entry = dict[str, object]


@dataclass(frozen=True, slots=True)
class McpDialect:
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
        """Return whether ``server`` can be spelled; an unknown spelling is not guessed, and no value is written."""
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


DIALECTS: Mapping[str, McpDialect] = {
    "claude-code": McpDialect(
        _named_type,
        "mcpServers",
        project=(".mcp.json",),
        user=("~/.claude.json",),
        moved=("CLAUDE_CONFIG_DIR", ".claude.json"),
        reference=("${", "}"),
        by_project=True,
    ),
    "codex": McpDialect(
        _codex,
        "mcp_servers",
        project=(".codex/config.toml",),
        user=("~/.codex/config.toml",),
        moved=("CODEX_HOME", "config.toml"),
        reference=("", ""),
    ),
    "cursor": McpDialect(
        _by_shape,
        "mcpServers",
        project=(".cursor/mcp.json",),
        user=("~/.cursor/mcp.json",),
        reference=("${env:", "}"),
    ),
    "gemini-cli": McpDialect(
        _gemini, "mcpServers", project=(".gemini/settings.json",), user=("~/.gemini/settings.json",)
    ),
    # VS Code; its user file belongs to a profile and has no one place.
    "github-copilot": McpDialect(_named_type, "servers", project=(".vscode/mcp.json",), reference=("${env:", "}")),
    "kiro-cli": McpDialect(
        _by_shape,
        "mcpServers",
        project=(".kiro/settings/mcp.json",),
        user=("~/.kiro/settings/mcp.json",),
        reference=("${", "}"),
    ),
    "opencode": McpDialect(
        _opencode,
        "mcp",
        project=("opencode.json", "opencode.jsonc"),
        user=("~/.config/opencode/opencode.jsonc", "~/.config/opencode/opencode.json"),
        reference=("{env:", "}"),
    ),
    # It has servers for the user alone.
    "windsurf": McpDialect(_by_shape, "mcpServers", user=("~/.codeium/windsurf/mcp_config.json",), remote=False),
}


# MCP servers in the config files of agents: look, add, take back what we added.
# Those files belong to a person and to the agent. One entry is added or taken away and the rest stays to the
# byte; an entry of the same name that is not ours is left alone, and so is a file that cannot be understood.

State = Literal["absent", "equal", "different"]
# ~/.claude.json holds the history of every project too, and grows to some megabytes; what a repository
# brings has no such reason to keep a person waiting.
_LIMITS: Mapping[Scope, int] = {"project": 1 << 20, "user": 32 << 20}
_TRIES = 5
# What Claude Code and Codex take as a name; `__proto__` is a name that JavaScript gives a meaning.
_NAME = re.compile(r"(?!__proto__$)[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The file of one agent in one scope; ``path`` is absolute, free of links, and may not exist yet."""

    agent: str
    scope: Scope
    path: str


def agents_with_file(scope: Scope) -> tuple[str, ...]:
    """Return the agents that keep MCP servers in a file of this scope."""
    return tuple(name for name, each in DIALECTS.items() if (each.project if scope == "project" else each.user))


def entry(agent: str, server: McpServer) -> Entry:
    """Return how this agent's config file spells ``server``; it holds names of variables, never a value.

    Raises:
        UsageError: there is no such agent, it keeps no MCP servers in a file that we know, or it spells such a server
            in a way that we do not.
    """
    name = host(agent).id
    if name not in DIALECTS:
        raise UsageError(
            f"{name} has no configuration file for MCP servers that skillhub supports",
            hint=f"agents with such a file: {', '.join(DIALECTS)}",
        )
    if not DIALECTS[name].knows(server):
        raise UsageError(
            f"skillhub cannot write such a server for {name}", hint=f"write it into the file of {name} yourself"
        )
    return DIALECTS[name].spell(server)


def is_spelled(agent: str, server: McpServer) -> bool:
    """Return whether ``entry`` knows how this agent, which has a file, spells ``server``."""
    return DIALECTS[host(agent).id].knows(server)


def config_file(agent: str, scope: Scope, project: str, home: str, environ: Mapping[str, str]) -> ConfigFile | None:
    """Return the file that this agent reads MCP servers from; None if it has none in this scope.

    In a project no link may lead out of it; in the home a person may keep such files elsewhere, so there the
    target of a link is what is meant.

    Raises:
        UsageError: there is no such agent.
        LinkLeavesProject: the project's file is, or lies behind, a link to somewhere else.
        StateError: a folder on the way cannot be looked at.
    """
    paths = _paths(agent, scope, project, home, environ)
    if not paths:
        return None
    return ConfigFile(host(agent).id, scope, next(filter(os.path.exists, paths), paths[0]))


def configured(
    name: str, scope: Scope, project: str, home: str, environ: Mapping[str, str]
) -> Iterator[tuple[ConfigFile, object]]:
    """Yield what each agent has under a name, in the files of the project and of the user, or of the user alone.

    Raises:
        FormatError, StateError: as for ``servers``.
    """
    scopes: tuple[Scope, ...] = ("project", "user") if scope == "project" else ("user",)
    for each in scopes:
        for agent in agents_with_file(each):
            file = config_file(agent, each, project, home, environ)
            there = servers(file) if file is not None else {}
            if file is not None and name in there:
                yield file, there[name]


def elsewhere(
    file: ConfigFile, name: str, project: str, home: str, environ: Mapping[str, str]
) -> Iterator[tuple[str, object]]:
    """Yield where else this agent has a server of this name, and the entry: its other files, scopes and projects.

    A name that differs in the case of letters, or in `-` and `_`, counts: people, and rules for tools, mistake it.

    Raises:
        FormatError: such a file is malformed.
        StateError: such a file cannot be read, or leads out of the project.
    """
    scopes: tuple[Scope, ...] = ("project", "user") if file.scope == "project" else ("user",)
    files_ = [
        ConfigFile(file.agent, scope, path)
        for scope in scopes
        for path in _paths(file.agent, scope, project, home, environ)
    ]
    for each in dict.fromkeys((file, *files_)):
        text = _text(files.read(each.path, _LIMITS[each.scope]), each)
        tables = [(each.path, _servers(text, each))]
        if each.scope == "user" and DIALECTS[each.agent].by_project:
            tables += _of_projects(text, each, project if file.scope == "project" else None)
        for where, there in tables:
            for called, found in there.items():
                is_asked_for = called == name and where == file.path
                if _folded(called) == _folded(name) and not is_asked_for:
                    yield (where if called == name else f"{where}, as {called}"), found


def _of_projects(text: str, file: ConfigFile, project: str | None) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the servers that a user's file has for single projects: for this one, or for all."""
    root = jsonc.parse(text, file.path)
    projects = root.data.get("projects") if root and isinstance(root.data, dict) else None
    for path, settings in projects.items() if isinstance(projects, dict) else ():
        found = settings.get(DIALECTS[file.agent].key) if isinstance(settings, dict) else None
        if isinstance(found, dict) and (project is None or _is_near(path, project)):
            yield f"{file.path}, for {path}", found


def _is_near(path: str, project: str) -> bool:
    """Return whether a folder is the project, above it or in it, whichever way it is spelled."""
    one, two = os.path.realpath(path), os.path.realpath(project)
    return one == two or two in map(str, PurePath(one).parents) or one in map(str, PurePath(two).parents)


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")


def _paths(agent: str, scope: Scope, project: str, home: str, environ: Mapping[str, str]) -> list[str]:
    dialect = DIALECTS.get(host(agent).id)
    if dialect is None:
        return []
    if scope == "project":
        return [files.inside(project, relative) for relative in dialect.project]
    variable, moved_name = dialect.moved
    moved = absolute(environ.get(variable, ""), home)
    paths = [os.path.join(moved, moved_name)] if moved else [expand(p, home, environ) for p in dialect.user]
    return [os.path.realpath(path) for path in paths]


def servers(file: ConfigFile) -> Mapping[str, object]:
    """Return every server that stands in ``file``, by name, as the file spells it.

    Raises:
        FormatError: the file is malformed, or what should hold the servers is no object.
        StateError: the file cannot be read.
    """
    return _servers(_text(files.read(file.path, _LIMITS[file.scope]), file), file)


def state(file: ConfigFile, name: str, server: McpServer) -> State:
    """Return whether ``file`` has the server ``name``, and whether it is this one. Raises as ``servers``.

    Where it is spelled in a way that we do not know, it is this one if it is given variables of these names and all
    else is as we spell it without them.
    """
    there = servers(file)
    if name not in there:
        return "absent"
    return "equal" if is_same(file.agent, there[name], server) else "different"


def is_same(agent: str, found: object, server: McpServer) -> bool:
    """Return whether an entry of this agent is this server, as ``state`` does."""
    if is_spelled(agent, server):
        return is_equal(found, entry(agent, server))
    bare = replace(server, env=(), bearer=None)
    if not isinstance(found, dict) or not is_spelled(agent, bare):
        return False
    given = {key: {*found[key]} for key in ("env", "headers") if isinstance(found.get(key), dict)}
    wanted = {"env": {*server.env}} if server.env else {"headers": {"Authorization"}}
    rest = {key: value for key, value in found.items() if key not in given}
    return given == wanted and is_equal(rest, entry(agent, bare))


def is_equal(one: object, two: object) -> bool:
    """Return whether two entries are the same value of JSON."""
    # As text, since to Python 1 equals True; `str` is for the dates of TOML.
    one, two = (json.dumps(each, sort_keys=True, default=str) for each in (one, two))
    return one == two


def write(file: ConfigFile, name: str, server: McpServer, project: Project) -> Entry:
    """Add ``server`` to ``file`` under ``name``, and return what is there now, for ``remove``.

    Args:
        file: Where to; made if it is absent (a user's file for that user alone).
        name: What the agent calls the server.
        server: The server; if it is there already, nothing is written.
        project: What the file is of.

    Raises:
        FormatError: the file is malformed or ``name`` is no name of a server; the file is as it was.
        StateError: another server has this name, or the disk refuses; the file is as it was.
    """
    if not _NAME.fullmatch(name):
        raise FormatError(f"expected a name of letters, digits, - and _, found {quote(name)}", where=file.path)
    ours = entry(file.agent, server)

    def added(text: str) -> str | None:
        there = _servers(text, file)
        if name not in there:
            insert = toml.insert if file.path.endswith(".toml") else jsonc.insert
            return insert(text, (DIALECTS[file.agent].key, name), ours, file.path)
        if not is_equal(there[name], ours):
            message = f"expected no other MCP server called {name}, found one"
            hint = "rename or remove it, or keep it with --mcp skip"
            raise StateError(message, where=file.path, hint=hint)
        return None

    _edit(file, added, project)
    return ours


def remove(file: ConfigFile, name: str, written: Mapping[str, object], project: Project) -> bool:
    """Take the server ``name`` out of ``file`` if it still is what ``write`` returned; return whether it was.

    Raises:
        FormatError: the file is malformed, or cannot be edited in place; the file is as it was.
        StateError: the disk refuses; the file is as it was.
    """

    def removed(text: str) -> str | None:
        there = _servers(text, file)
        if name not in there or not is_equal(there[name], written):
            return None
        remove = toml.remove if file.path.endswith(".toml") else jsonc.remove
        return remove(text, (DIALECTS[file.agent].key, name), file.path)

    return _edit(file, removed, project)


def _edit(file: ConfigFile, change: Callable[[str], str | None], project: Project) -> bool:
    """Write what ``change`` makes of the text, unless that is None; return whether anything was written."""
    root = project.root_of(file.path)
    with files.lock(project.config_lock):
        for _ in range(_TRIES):
            before = files.read(file.path, _LIMITS[file.scope], root=root)
            after = change(_text(before, file))
            if after is None:
                return False
            # Nobody else may read a new file of the user: the agent will put tokens of its own into it.
            mode = 0o600 if before is None and file.scope == "user" else None
            if files.swap(file.path, before, after.encode(), mode=mode, root=root):
                return True
    raise StateError("another program keeps changing the file", where=file.path, hint="close the agent")


def _text(data: bytes | None, file: ConfigFile) -> str:
    try:
        return (data or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise FormatError("expected UTF-8", where=f"{file.path}:{line}") from error


def _servers(text: str, file: ConfigFile) -> Mapping[str, object]:
    if file.path.endswith(".toml"):
        data: object = toml.others_toml(text, file.path)
    else:
        root = jsonc.parse(text, file.path)
        data = root.data if root else {}
    key = DIALECTS[file.agent].key
    found = data.get(key, {}) if isinstance(data, dict) else None
    if not isinstance(found, dict):
        raise FormatError(f"expected an object with the servers in {quote(key)}", where=file.path)
    return found
